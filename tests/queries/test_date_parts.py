"""Parts of dates in SQL: every spelling means what DuckDB means, wherever a condition or a key stands."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pytest

from queries import (
    DateAttribute,
    DatetimeAttribute,
    Domain,
    LinearQuery,
    QueryError,
    parse_sql,
    parse_where,
)
from queries.date_parts import Step
from queries.dates import DAY
from queries.expressions import Linear
from queries.locked_engine import evaluated
from queries.values import values_of
from tests.queries.meaning import full_weights, refusal

FIRST, LAST = date(2019, 12, 26), date(2021, 1, 12)  # a leap year, and weeks of three years
DAYS = [FIRST + timedelta(number) for number in range((LAST - FIRST).days + 1)]
HOURS = [datetime(2020, 12, 30) + timedelta(hours=number) for number in range(72)]
WIDTHS = ("day", "week", "month", "quarter", "year")


def days(width: str = "day", **options: Any) -> Domain:
    return Domain((DateAttribute("d", FIRST, LAST, width, **options),), name="t")


def hours(width: str = "hour") -> Domain:
    return Domain((DatetimeAttribute("d", HOURS[0], HOURS[-1], width),), name="t")


def grouped(text: str, domain: Domain) -> dict[int, Any]:
    """Return the value of each cell when a statement groups by an expression."""
    statement = parse_sql(f"SELECT {text} AS k, COUNT(*) FROM t GROUP BY k", domain)
    found: dict[int, Any] = {}
    for _, group, query in statement.questions():
        (value,) = group.labels
        for cell in np.flatnonzero(full_weights(query)).tolist():
            assert cell not in found
            found[cell] = value
    return found


# Of an attribute of days: spellings of one part, and what DuckDB has for it.
SPELLINGS: dict[str, str] = {
    "YEAR(d) | EXTRACT(year FROM d)": "year(d)", "QUARTER(d) | date_part('quarter', d)": "quarter(d)",
    "EXTRACT(MONTH FROM d) | DATE_PART('months', d)": "month(d)", "DAY(d) | DAYOFMONTH(d)": "day(d)",
    "DAYOFWEEK(d) | WEEKDAY(d) | EXTRACT(dow FROM d)": "weekday(d)",
    "ISODOW(d) | date_part('isodow', d)": "isodow(d)", "DAYOFYEAR(d) | EXTRACT(doy FROM d)": "dayofyear(d)",
    "WEEK(d) | WEEKOFYEAR(d)": "week(d)", "EXTRACT(isoyear FROM d)": "isoyear(d)",
    "YEARWEEK(d)": "yearweek(d)", "DAYNAME(d)": "dayname(d)", "MONTHNAME(d)": "monthname(d)",
    "DATE_TRUNC('year', d)": "date_trunc('year', d)::date",
    "DATE_TRUNC('quarter', d)": "date_trunc('quarter', d)::date",
    "date_trunc('MONTH', d)": "date_trunc('month', d)::date",
    "DATE_TRUNC('week', d)": "date_trunc('week', d)::date",
    "DATE_TRUNC('day', d) | CAST(d AS DATE) | d::date | DATE(d)": "d",
    "d + INTERVAL 40 DAY": "(d + INTERVAL 40 DAY)::date",
    "MONTH(d - INTERVAL '2 weeks')": "month(d - INTERVAL 14 DAY)",
    "DATE_TRUNC('week', d + INTERVAL 1 DAY) - INTERVAL 1 DAY":
        "(date_trunc('week', d + INTERVAL 1 DAY) - INTERVAL 1 DAY)::date",
    "DATE_TRUNC('month', d) + INTERVAL 1 MONTH - INTERVAL 1 DAY": "last_day(d)",
    "MONTH(DATE_TRUNC('quarter', d))": "month(date_trunc('quarter', d))",
    "strftime('%d.%m.%y', d)": "strftime(d, '%d.%m.%y')", "strftime(d, '%F')": "strftime(d, '%Y-%m-%d')",
    "TO_CHAR(d, 'YYYY-MM')": "strftime(d, '%Y-%m')",
    "TO_CHAR(d, 'FMDay, DD Mon')": "strftime(d, '%A, %d %b')", "TO_CHAR(d, 'YY')": "strftime(d, '%y')",
    "TO_CHAR(d, 'YYYY\"-Q\"Q')": "year(d) || '-Q' || quarter(d)",
    "TO_CHAR(d, 'IYYY-IW-ID')": "strftime(d, '%G-%V-%u')",
    "DATE_FORMAT(d, '%M %e, %Y')": "strftime(d, '%B %-d, %Y')",
} | {
    text: text for text in (
        "strftime(d, '%Y-%m')", "strftime(d, '%G-W%V')", "strftime(d, '%a %-d %b, 100%%')",
        "strftime(d, '%j/%-j/%u/%w/%-m')", "strftime(d, '''||x; %Y''--')",
    )
}  # fmt: skip


@pytest.mark.parametrize("texts", SPELLINGS)
def test_a_part_groups_each_day_by_the_value_that_duckdb_gives_it(texts: str) -> None:
    rows = duckdb.execute(
        f"SELECT ({SPELLINGS[texts]})::VARCHAR FROM (SELECT unnest(?)::DATE AS d)", [DAYS]
    ).fetchall()
    for text in texts.split(" | "):
        found = grouped(text, days())
        assert [str(found[place]) for place in range(len(DAYS))] == [row for (row,) in rows]


# --- conditions -------------------------------------------------------------------------------------------


def answers(query: LinearQuery, domain: Domain) -> tuple[float, float, float]:
    """Return the least, the estimated and the greatest answer on a table with one record on each day."""
    encode = values_of(domain["d"]).encode
    cells = np.bincount([encode(day) for day in DAYS], minlength=domain["d"].size)
    least, most = query.readings or (query, query)
    found = [float(cells @ full_weights(one)) / 2**20 for one in (least, query, most)]
    return found[0], found[1], found[2]


# What DuckDB has no word for is asked of it behind ``=>``.
CONDITIONS = [
    "YEAR(d) = 2020", "2020 <= YEAR(d)", "MONTH(d) IN (1, 12)", "NOT MONTH(d) BETWEEN 2 AND 11",
    "QUARTER(d) <> 2 AND YEAR(d) < 2021", "DAY(d) = 29 AND MONTH(d) = 2",
    "DATE_TRUNC('month', d) = DATE '2020-03-01'", "DATE '2020-03-15' < DATE_TRUNC('month', d)",
    "DATE_TRUNC('week', d) <> '2019-12-23'",
    "DATE_TRUNC('quarter', d) IN ('2020-01-01', TIMESTAMP '2020-07-01 00:00:00')",
    "DATE_TRUNC('year', d) BETWEEN '2019-06-01' AND DATE '2020-01-01'", "EXTRACT(dow FROM d) IN (0, 6)",
    "NOT ISODOW(d) >= 6", "WEEK(d) = 1", "EXTRACT(doy FROM d) < 32", "DAYNAME(d) = 'Sunday'",
    "strftime(d, '%Y-%m') >= '2020-11'", "TO_CHAR(d, 'Q') <> '1' => QUARTER(d) <> 1",
    "d::timestamp >= CAST('2020-02-29' AS TIMESTAMP)", "DATE('2020-02-29') >= CAST(d AS DATETIME)",
    "d >= TO_DATE('2020-02-29', 'YYYY-MM-DD') => d >= DATE '2020-02-29'",
    "d >= TO_DATE('2020/02/29', 'yyyy/mm/dd') => d >= DATE '2020-02-29'",
    "d < TO_TIMESTAMP('29.02.2020 00:00:00.000000', 'DD.MM.YYYY HH24:MI:SS.US') => d < DATE '2020-02-29'",
    "TO_DATE('2020-02', 'YYYY-MM') + INTERVAL 1 MONTH <= d => d >= DATE '2020-03-01'",
    "d::date = DATE '2020-02-29'", "CAST(d AS DATE) > DATE '2020-02-28' + 1",
    "d >= DATE '2020-01-31' + INTERVAL 1 MONTH", "d < DATE '2020-03-31' - INTERVAL '1 month 2 days'",
    "d + INTERVAL 1 DAY > DATE '2020-02-29'", "DATE '2020-02-29' = d - INTERVAL 2 WEEKS",
    "DATE_ADD(d, INTERVAL '3' DAY) IN ('2020-01-01', '2020-03-01')",
    "d BETWEEN DATE '2020-03-01' AND DATE '2020-03-01' + INTERVAL 1 MONTH - INTERVAL 1 DAY",
    "MONTH(d) = MONTH(DATE '2020-03-31' - INTERVAL 1 MONTH)",
    "DATE_TRUNC('month', d) + INTERVAL 1 MONTH <= DATE_TRUNC('year', DATE '2020-05-05')",
    "d + INTERVAL 1 MONTH > DATE '2020-02-28'", "d + INTERVAL 1 MONTH = DATE '2020-02-29'",
    "DAY(d + INTERVAL 1 MONTH) < 3", "DATE_TRUNC('week', d + INTERVAL 1 MONTH) <= '2020-02-24'",
]  # fmt: skip


# By days, and in turn by one of the wider periods; ``-m slow`` has all conditions by all.
CHOSEN = [("day", one) for one in CONDITIONS] + list(
    zip(itertools.cycle(WIDTHS[1:]), CONDITIONS, strict=False)
)
OTHERS = [pair for pair in itertools.product(WIDTHS, CONDITIONS) if pair not in CHOSEN]


@pytest.mark.parametrize(
    ("width", "condition"), [*CHOSEN, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS)]
)
def test_a_condition_holds_on_the_days_that_duckdb_tells(width: str, condition: str) -> None:
    text, _, reference = condition.partition(" => ")
    rows = duckdb.execute(f"SELECT {reference or text} FROM (SELECT unnest(?)::DATE AS d)", [DAYS]).fetchall()
    domain, expected = days(width), sum(bool(holds) for (holds,) in rows)
    held: dict[int, set[bool]] = {}
    for day, (holds,) in zip(DAYS, rows, strict=True):
        held.setdefault(values_of(domain["d"]).encode(day), set()).add(bool(holds))
    statement = f"SELECT COUNT(*) FROM t WHERE {text}"
    if all(len(one) == 2 for one in held.values()):  # every cell is cut: an answer would say nothing
        assert "declare 'd' with width = 'day'" in refusal(parse_where, text, domain).message
        assert refusal(parse_sql, statement, domain).code == "unaligned"
        return
    for query in (parse_where(text, domain), parse_sql(statement, domain).where):
        least, between, most = answers(query, domain)
        assert least <= expected <= most
        assert between == pytest.approx(expected, abs=0.01)
        assert width != "day" or least == most == expected


@pytest.mark.parametrize("width", ["hour", "day", "week", "month"])
@pytest.mark.parametrize(
    "text",
    [
        "DATE_TRUNC('hour', d) >= TIMESTAMP '2020-12-31 05:00:00'",
        "d + INTERVAL 90 MINUTE > TIMESTAMP '2020-12-31 05:00:00'",
        "d - INTERVAL 90 MINUTE <= TIMESTAMP '2020-12-31 22:30:00' AND d > '2020-12-30 12:00'",
        "HOUR(d - INTERVAL 3 HOUR) < 12 OR d < '2020-12-31'", "DAYOFWEEK(d + INTERVAL 5 HOUR) IN (4, 5)",
        "COALESCE(HOUR(d) > 12, FALSE)", "CASE WHEN HOUR(d) > 12 THEN DAY(d) ELSE 30 END = 31",
        "strftime(d, '%d %H') > '31 10'", "MONTH(d) * HOUR(d) > 100", "d::date = DATE '2020-12-31'",
        "DATE_TRUNC('day', d) + INTERVAL 1 MONTH > DATE '2021-01-30'", "HOUR(d) % 5 = 2",
        "(HOUR(d) > 12) IS NOT TRUE", "NULLIF(HOUR(d), 12) IS NULL", "HOUR(d) IS NOT DISTINCT FROM DAY(d)",
    ],
)  # fmt: skip
def test_a_condition_on_times_holds_wherever_it_is_said_to_and_nowhere_else(text: str, width: str) -> None:
    domain = hours(width)
    try:
        query = parse_where(text, domain)
    except QueryError as error:
        assert error.code == "unaligned"  # noqa: PT017
        return
    least, most = (full_weights(one) > 0 for one in query.readings or (query, query))
    times = [hour + timedelta(minutes=more) for hour in HOURS[:-1] for more in (0, 29, 30, 59)]
    found = duckdb.execute(
        f"SELECT coalesce({text}, false) FROM (SELECT unnest(?)::TIMESTAMP AS d)", [times]
    ).fetchall()
    cells = [values_of(domain["d"]).encode(one) for one in times]
    for cell, (true,) in zip(cells, found, strict=True):
        assert bool(least[cell]) <= true <= bool(most[cell])


def test_empty_and_undeclared_dates_have_no_part() -> None:
    domain = days(missing=True, other=True)
    every = "DAYNAME(d) <> 'x'", "DATE_TRUNC('month', d) >= '2000-01-01'", "d + INTERVAL 1 DAY > '2000-01-01'"
    for text in every:
        query = parse_where(text, domain)
        assert query.aligned
        assert full_weights(query).tolist() == [2**20] * len(DAYS) + [0, 0]
    missing = full_weights(parse_where("MONTH(d) IS NULL", domain))
    assert missing.tolist() == full_weights(parse_where("d IS NULL", domain)).tolist()
    found = grouped("strftime(d, '%Y')", domain)
    assert (found[len(DAYS)], found[len(DAYS) + 1]) == (None, "(other)")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_summand_has_the_least_and_the_greatest_part_of_its_cell(width: str) -> None:
    domain = days(width)
    (form,) = parse_sql("SELECT SUM(DAY(d)) FROM t", domain).leaves
    assert isinstance(form, Linear)
    held: dict[int, list[int]] = {}
    for day in DAYS:
        held.setdefault(values_of(domain["d"]).encode(day), []).append(day.day)
    assert form.low.tolist() == [min(held[cell]) for cell in range(domain["d"].size)]
    assert form.high.tolist() == [max(held[cell]) for cell in range(domain["d"].size)]


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "text", "declared"),
    [
        ("week", "MONTH(d)", "day"), ("month", "DATE_TRUNC('week', d)", "day"),
        ("year", "QUARTER(d)", "quarter"),
        ("quarter", "strftime(d, '%Y-%m')", "month"), ("year", "MONTHNAME(d)", "month"),
        ("month", "DATE_TRUNC('month', d + INTERVAL 1 DAY)", "day"), ("week", "DAYOFWEEK(d)", "day"),
        ("month", "CAST(d AS DATE)", "day"), ("week", "strftime(d, '%m %V')", "day"),
        ("week", "MONTH(d) / 3", "day"), ("week", "CASE WHEN MONTH(d) = 3 THEN 'in' ELSE 'out' END", "day"),
    ],
)  # fmt: skip
def test_a_key_that_cuts_cells_names_the_width_that_does_not(width: str, text: str, declared: str) -> None:
    statement = f"SELECT {text} AS k, COUNT(*) FROM t GROUP BY 1"
    error = refusal(parse_sql, statement, days(width))
    assert error.code == "unaligned"
    assert f"declare 'd' with width = '{declared}'" in error.message
    assert error.position == statement.index("d", statement.index("("))
    assert grouped(text, days(declared))  # with which it is answered
    assert parse_sql("SELECT d, COUNT(*) FROM t GROUP BY d", days(width)).size


def test_no_width_decides_what_is_shorter_than_an_hour() -> None:
    refused = refusal(parse_sql, "SELECT d + INTERVAL 1 DAY, COUNT(*) FROM t GROUP BY 1", hours("day"))
    assert "declare" not in refused.message
    assert "GROUP BY d, which counts each day" in refused.message
    told = refusal(parse_sql, "SELECT HOUR(d), COUNT(*) FROM t GROUP BY 1", hours("day"))
    assert "declare 'd' with width = 'hour'" in told.message


# --- the calendar -----------------------------------------------------------------------------------------


def second_of(step: Step, day: date) -> float:
    (found,) = evaluated(f"SELECT {step.sql(f'{day.toordinal() * DAY}e0')}", {}, {})
    return float(found[0])


def test_steps_end_with_the_calendar() -> None:
    for step in (Step(months=1), Step(seconds=DAY), Step(months=10**9), Step(seconds=10**15)):
        assert second_of(step, date.max) >= (date.max.toordinal() + 1) * DAY
    for step in (Step(months=-1), Step(seconds=-DAY), Step(months=-(10**9)), Step(seconds=-(10**15))):
        assert second_of(step, date.min) < DAY
    assert second_of(Step("year"), date.max) == date(9999, 1, 1).toordinal() * DAY
    ends = Domain((DateAttribute("d", date(9999, 12, 1), date.max),), name="t")
    beyond = "SELECT DATE_TRUNC('month', d) + INTERVAL 1 MONTH, COUNT(*) FROM t GROUP BY 1"
    assert "leaves the calendar" in refusal(parse_sql, beyond, ends).message
