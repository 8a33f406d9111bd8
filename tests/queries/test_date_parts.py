"""Parts of dates in SQL: every spelling means what DuckDB means, wherever a condition or a key stands."""

from __future__ import annotations

from collections.abc import Callable
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
    Statement,
    parse_sql,
    parse_where,
)
from queries.date_parts import DatePart, Step, format_texts, period_start
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


# One attribute of days: every spelling, and what DuckDB writes for it.
SPELLINGS = {text: text for text in (
    "YEAR(d)", "QUARTER(d)", "DAY(d)", "DAYOFWEEK(d)", "WEEKDAY(d)", "EXTRACT(dow FROM d)", "ISODOW(d)",
    "DAYOFYEAR(d)", "WEEK(d)", "WEEKOFYEAR(d)", "YEARWEEK(d)", "DAYNAME(d)", "MONTHNAME(d)",
    "MONTH(d - INTERVAL '2 weeks')", "MONTH(DATE_TRUNC('quarter', d))", "strftime(d, '%Y-%m')",
    "strftime(d, '%G-W%V')", "strftime(d, '%a %-d %b, 100%%')", "strftime(d, '%j/%-j/%u/%w/%-m')",
    "EXTRACT(year FROM d)", "date_part('quarter', d)", "EXTRACT(MONTH FROM d)", "DATE_PART('months', d)",
    "DAYOFMONTH(d)", "date_part('isodow', d)", "EXTRACT(doy FROM d)", "EXTRACT(isoyear FROM d)",
    "DATE_TRUNC('year', d)", "DATE_TRUNC('quarter', d)", "date_trunc('MONTH', d)", "DATE_TRUNC('week', d)",
    "DATE_TRUNC('day', d)", "CAST(d AS DATE)", "d::date", "DATE(d)", "d + INTERVAL 40 DAY",
    "DATE_TRUNC('week', d + INTERVAL 1 DAY) - INTERVAL 1 DAY",
    "DATE_TRUNC('month', d) + INTERVAL 1 MONTH - INTERVAL 1 DAY", "strftime('%d.%m.%y', d)",
)}  # fmt: skip
SPELLINGS |= {
    "strftime(d, '%F')": "strftime(d, '%Y-%m-%d')",
    "TO_CHAR(d, 'YYYY-MM')": "strftime(d, '%Y-%m')",
    "TO_CHAR(d, 'FMDay, DD Mon YY')": "strftime(d, '%A, %d %b %y')",
    "TO_CHAR(d, 'YYYY\"-Q\"Q')": "year(d) || '-Q' || quarter(d)",
    "TO_CHAR(d, 'IYYY-IW-ID')": "strftime(d, '%G-%V-%u')",
    "DATE_FORMAT(d, '%M %e, %Y')": "strftime(d, '%B %-d, %Y')",
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_part_groups_each_day_by_the_value_that_duckdb_gives_it(text: str) -> None:
    found = grouped(text, days())
    each = "(SELECT unnest(generate_series(?, ?, INTERVAL 1 DAY))::DATE AS d)"
    rows = duckdb.execute(f"SELECT ({SPELLINGS[text]})::VARCHAR FROM {each}", [FIRST, LAST]).fetchall()
    assert [str(found[place]) for place in range(len(DAYS))] == [
        told.removesuffix(" 00:00:00") for (told,) in rows
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("HOUR(d)", lambda time: time.hour),
        ("EXTRACT(hour FROM d)", lambda time: time.hour),
        ("strftime(d, '%H:00')", lambda time: time.strftime("%H:00")),
        ("strftime(d, '%m %-H')", lambda time: time.strftime("%m %-H")),
        ("DATE_TRUNC('hour', d)", lambda time: str(time)[:16].removesuffix(" 00:00")),
        ("d::date", lambda time: str(time.date())),
        ("HOUR(d::date)", lambda _: 0),
        ("DAYOFWEEK(d + INTERVAL 5 HOUR)", lambda time: (time + timedelta(hours=5)).isoweekday() % 7),
        ("DATE(d - INTERVAL '3 hours')", lambda time: str((time - timedelta(hours=3)).date())),
        ("d::date + INTERVAL '90 minutes'", lambda time: f"{time.date()} 01:30"),
    ],
)
def test_a_part_groups_each_hour_by_the_value_that_python_gives_it(
    text: str, told: Callable[[datetime], Any]
) -> None:
    found = grouped(text, hours())
    assert [found[place] for place in range(len(HOURS))] == [told(hour) for hour in HOURS]


# --- conditions -------------------------------------------------------------------------------------------


def answers(query: LinearQuery, domain: Domain) -> tuple[float, float, float]:
    """Return the least, the estimated and the greatest answer on a table with one record on each day."""
    encode = values_of(domain["d"]).encode
    cells = np.bincount([encode(day) for day in DAYS], minlength=domain["d"].size)
    least, most = query.readings or (query, query)
    found = [float(cells @ full_weights(one)) / 2**20 for one in (least, query, most)]
    return found[0], found[1], found[2]


CONDITIONS: dict[str, Callable[[date], bool]] = {
    "DATE_TRUNC('month', d) = DATE '2020-03-01'": lambda day: (day.year, day.month) == (2020, 3),
    "DATE '2020-03-15' < DATE_TRUNC('month', d)": lambda day: day.replace(day=1) > date(2020, 3, 15),
    "DATE_TRUNC('week', d) <> '2019-12-23'": lambda day: day > date(2019, 12, 29),
    "DATE_TRUNC('quarter', d) IN ('2020-01-01', TIMESTAMP '2020-07-01 00:00:00')": lambda day: (
        day.year == 2020 and day.month in (1, 2, 3, 7, 8, 9)
    ),
    "DATE_TRUNC('year', d) BETWEEN '2019-06-01' AND DATE '2020-01-01'": lambda day: day.year == 2020,
    "EXTRACT(dow FROM d) IN (0, 6)": lambda day: day.isoweekday() > 5,
    "NOT ISODOW(d) >= 6": lambda day: day.isoweekday() < 6,
    "WEEK(d) = 1": lambda day: day.isocalendar().week == 1,
    "EXTRACT(doy FROM d) < 32": lambda day: day.timetuple().tm_yday < 32,
    "DAYNAME(d) = 'Sunday'": lambda day: day.isoweekday() == 7,
    "strftime(d, '%Y-%m') >= '2020-11'": lambda day: day >= date(2020, 11, 1),
    "TO_CHAR(d, 'Q') <> '1'": lambda day: day.month > 3,
    "d::timestamp >= CAST('2020-02-29' AS TIMESTAMP)": lambda day: day >= date(2020, 2, 29),
    "DATE('2020-02-29') >= CAST(d AS DATETIME)": lambda day: day <= date(2020, 2, 29),
    "d::date = DATE '2020-02-29'": lambda day: day == date(2020, 2, 29),
    "CAST(d AS DATE) > DATE '2020-02-28' + 1": lambda day: day > date(2020, 2, 29),
    "d >= DATE '2020-01-31' + INTERVAL 1 MONTH": lambda day: day >= date(2020, 2, 29),
    "d < DATE '2020-03-31' - INTERVAL '1 month 2 days'": lambda day: day < date(2020, 2, 27),
    "d + INTERVAL 1 DAY > DATE '2020-02-29'": lambda day: day > date(2020, 2, 28),
    "DATE '2020-02-29' = d - INTERVAL 2 WEEKS": lambda day: day == date(2020, 3, 14),
    "DATE_ADD(d, INTERVAL '3' DAY) IN ('2020-01-01', '2020-03-01')": lambda day: (
        day in (date(2019, 12, 29), date(2020, 2, 27))
    ),
    "d BETWEEN DATE '2020-03-01' AND DATE '2020-03-01' + INTERVAL 1 MONTH - INTERVAL 1 DAY": lambda day: (
        (day.year, day.month) == (2020, 3)
    ),
    "MONTH(d) = MONTH(DATE '2020-03-31' - INTERVAL 1 MONTH)": lambda day: day.month == 2,
    "DATE_TRUNC('month', d) + INTERVAL 1 MONTH <= DATE_TRUNC('year', DATE '2020-05-05')": lambda day: (
        day.year == 2019
    ),
}


def cuts_every_cell(holds: Callable[[date], bool], domain: Domain) -> bool:
    """Tell whether a condition holds on some days of each cell, and not on others."""
    found: dict[int, set[bool]] = {}
    for day in DAYS:
        found.setdefault(values_of(domain["d"]).encode(day), set()).add(holds(day))
    return all(len(one) == 2 for one in found.values())


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("HOUR(d) = 8", "hour"), ("HOUR(d) <> 8", "hour"), ("NOT HOUR(d) BETWEEN 8 AND 9", "hour"),
        ("EXTRACT(hour FROM d) >= 8 AND d < '2020-01-05'", "hour"), ("strftime(d, '%H') = '08'", "hour"),
        ("CASE WHEN HOUR(d) = 8 THEN 1 ELSE 0 END = 1", "hour"),
    ],
)  # fmt: skip
def test_a_part_that_no_cell_decides_is_refused_with_the_width_that_does(text: str, width: str) -> None:
    first, last = datetime(2020, 1, 1), datetime(2020, 1, 31, 23)
    domain = Domain((DatetimeAttribute("d", first, last, "day"),), name="t")
    error = refusal(parse_where, text, domain)
    assert error.code == "unaligned"
    assert f"cells: those of 'd' are of one day each; declare 'd' with width = '{width}'" in error.message
    for decided in ("HOUR(d) >= 0", "DAY(d) = 8", "d >= '2020-01-08 08:00'"):
        parse_where(decided, domain)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_holds_on_the_days_that_python_tells(text: str, width: str) -> None:
    domain, expected = days(width), sum(map(CONDITIONS[text], DAYS))
    statement = f"SELECT COUNT(*) FROM t WHERE {text}"
    if cuts_every_cell(CONDITIONS[text], domain):  # an answer would say nothing
        assert "declare 'd' with width = 'day'" in refusal(parse_where, text, domain).message
        assert refusal(parse_sql, statement, domain).code == "unaligned"
        return
    for query in (parse_where(text, domain), parse_sql(statement, domain).where):
        least, between, most = answers(query, domain)
        assert least <= expected <= most
        assert between == pytest.approx(expected, abs=0.01)
        assert width != "day" or least == most == expected


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_means_the_same_wherever_it_stands(text: str) -> None:
    domain = days()
    where = full_weights(parse_where(text, domain)) > 0
    found = grouped(f"CASE WHEN {text} THEN 1 ELSE 0 END", domain)
    assert [found[cell] for cell in range(len(DAYS))] == where.tolist()
    negated = full_weights(parse_where(f"NOT ({text})", domain)) > 0
    assert negated.tolist() == (~where).tolist()


def test_spellings_of_one_part_are_one_key() -> None:
    statement = parse_sql(
        "SELECT EXTRACT(month FROM t.d) AS m, strftime(D, '%m') AS s, COUNT(*) FROM t "
        "GROUP BY MONTH(d), TO_CHAR(d, 'MM') ORDER BY date_part('month', d) DESC",
        days(),
    )
    assert [column.title for column in statement.columns if column.is_key] == ["m", "s"]
    assert len(statement.groupings) == 2
    titles = parse_sql("SELECT DATE_TRUNC('month', d), DAYNAME(d), COUNT(*) FROM t GROUP BY 1, 2", days())
    assert [column.title for column in titles.columns] == ["month", "dayname", "count"]


def test_a_truncated_day_is_the_key_that_a_statement_casts() -> None:
    statement = parse_sql(
        "SELECT DATE_TRUNC('month', d)::date AS m, COUNT(*) FROM t GROUP BY DATE_TRUNC('month', d) "
        "HAVING m >= DATE '2020-03-01'",
        days(),
    )
    assert [group.labels for group in statement.groups()][:2] == [("2019-12-01",), ("2020-01-01",)]
    (grouping,) = parse_sql("SELECT DAYNAME(d), COUNT(*) FROM t GROUP BY 1", days()).groupings
    assert not grouping.in_order  # Thursday comes first, and is sorted as a text
    assert [value for value, _ in grouping.groups][:3] == ["Thursday", "Friday", "Saturday"]


def test_empty_and_undeclared_dates_have_no_part() -> None:
    domain = days(missing=True, other=True)
    for text in (
        "DAYNAME(d) <> 'x'",
        "DATE_TRUNC('month', d) >= '2000-01-01'",
        "d + INTERVAL 1 DAY > '2000-01-01'",
    ):
        query = parse_where(text, domain)
        assert query.aligned
        assert full_weights(query).tolist() == [2**20] * len(DAYS) + [0, 0]
    missing = full_weights(parse_where("MONTH(d) IS NULL", domain))
    assert missing.tolist() == full_weights(parse_where("d IS NULL", domain)).tolist()
    found = grouped("strftime(d, '%Y')", domain)
    assert (found[len(DAYS)], found[len(DAYS) + 1]) == (None, "(other)")


def test_parts_stand_inside_of_aggregates_and_arithmetic() -> None:
    assert grouped("MONTH(d) / 6", days()) == {cell: day.month // 6 for cell, day in enumerate(DAYS)}
    statement = parse_sql(
        "SELECT AVG(ISODOW(d)), SUM(CASE WHEN MONTHNAME(d) = 'May' THEN 1 ELSE 0 END) FROM t", days()
    )
    assert isinstance(statement, Statement)
    assert len(statement.leaves) >= 2


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


def test_a_word_of_a_constant_is_no_name() -> None:
    domain = Domain((DateAttribute("date", FIRST, LAST),), name="t")
    for text in (
        "date > DATE '2020-02-30'",
        "date + INTERVAL 1 MONTH > DATE '2020-02-01'",
        "date = UPPER(DATE '2020-02-01')",
    ):
        assert "is a word of SQL" not in refusal(parse_where, text, domain).message
    assert parse_where("date::date >= DATE '2020-02-29'", domain).aligned


# --- the calendar -----------------------------------------------------------------------------------------


def test_months_are_added_as_duckdb_adds_them() -> None:
    for start in (date(2020, 1, 31), date(2019, 11, 30), date(2020, 2, 29)):
        for months in range(-30, 31):
            ((expected,),) = duckdb.execute("SELECT (? + to_months(?))::DATE", [start, months]).fetchall()
            found = Step(months=months).apply(start.toordinal() * 86_400)
            assert date.fromordinal(found // 86_400) == expected


def test_steps_end_with_the_calendar() -> None:
    last = date(9999, 12, 31).toordinal() * 86_400
    for step in (Step(months=1), Step(seconds=86_400), Step(months=-12 * 10**6), Step(seconds=-(10**12))):
        with pytest.raises(ValueError, match=r"year|second"):
            step.apply(last)
    assert (
        Step("year", months=0).apply(last)
        == period_start(last, "year")
        == date(9999, 1, 1).toordinal() * 86_400
    )
    ends = Domain((DateAttribute("d", date(9999, 12, 1), date.max),), name="t")
    assert (
        "leaves the calendar"
        in refusal(
            parse_sql, "SELECT DATE_TRUNC('month', d) + INTERVAL 1 MONTH, COUNT(*) FROM t GROUP BY 1", ends
        ).message
    )


def test_a_text_is_the_same_in_the_period_of_its_finest_directive() -> None:
    for format, period in {"%Y": "year", "%Y-%m": "month", "%q": "quarter", "%V": "week", "%m %V": "day",
                           "%d": "day", "%Y %H": "hour", "none": "year", "%G": "week"}.items():  # fmt: skip
        assert DatePart("text", format).period == period
    with pytest.raises(ValueError, match="%S"):
        format_texts("%Y %S")
