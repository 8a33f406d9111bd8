"""Dates and times: their cells, what questions on them count, and how texts write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    DateAttribute,
    DatetimeAttribute,
    Domain,
    DomainError,
    LinearQuery,
    QueryError,
    decode_records,
    encode_records,
    format_schema,
    parse_schema,
    parse_sql,
    parse_where,
)
from queries.values import Reading, values_of
from tests.queries.meaning import full_weights

FIRST, LAST = date(2022, 2, 10), date(2024, 3, 4)
WIDTHS = ["day", "week", "month", "quarter", "year"]
DAYS = st.dates(FIRST, LAST)
TIMES = st.datetimes(datetime(2022, 2, 10), datetime(2024, 3, 4))


def days(width: str = "day", **options: Any) -> DateAttribute:
    return DateAttribute("d", FIRST, LAST, width, **options)


def times(width: str = "day", **options: Any) -> DatetimeAttribute:
    last = datetime(2024, 3, 4, 23, 59, 59)
    return DatetimeAttribute("d", datetime(2022, 2, 10), last, width, **options)


def period(day: date, width: str) -> object:
    """Return what tells the periods of days apart."""
    if width == "week":
        return day.isocalendar()[:2]
    key = {"year": (), "quarter": ((day.month - 1) // 3,), "month": (day.month,), "day": (day.month, day.day)}
    return (day.year, *key[width])


@given(width=st.sampled_from(["hour", *WIDTHS]), one=TIMES, other=TIMES)
def test_two_days_or_times_share_a_cell_where_they_share_a_period(
    width: str, one: datetime, other: datetime
) -> None:
    attributes: list[DateAttribute | DatetimeAttribute] = [times(width)]
    hours = (one.hour, other.hour) if width == "hour" else (0, 0)
    if width != "hour":
        attributes.append(days(width))
    period_width = "day" if width == "hour" else width
    for attribute in attributes:
        encode = values_of(attribute).encode
        same = (period(one, period_width), hours[0]) == (period(other, period_width), hours[1])
        assert (encode(one) == encode(str(other)) == encode(other.isoformat())) == same


@given(day=st.dates(), width=st.sampled_from(WIDTHS))
def test_days_outside_are_clipped_to_the_ends(day: date, width: str) -> None:
    attribute = days(width)
    code = values_of(attribute).encode(str(day))
    assert code == values_of(attribute).encode(min(max(day, FIRST), LAST))
    low, high = attribute.boundaries[code : code + 2]
    assert low <= min(max(day, FIRST), LAST).toordinal() < high


OPERATORS = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
RECORDS = [FIRST + timedelta(number) for number in range((LAST - FIRST).days + 1)]  # one on each day


def answers(query: LinearQuery, attribute: DateAttribute) -> list[float]:
    """Return the least, the estimated and the greatest answer on a table with one record on each day."""
    cells = np.bincount([values_of(attribute).encode(day) for day in RECORDS], minlength=attribute.size)
    least, most = query.readings or (query, query)
    return [float(cells @ full_weights(one)) / 2**20 for one in (least, query, most)]


@given(width=st.sampled_from(WIDTHS), day=DAYS, operator=st.sampled_from(list(OPERATORS)))
def test_a_comparison_counts_the_days_where_it_holds(width: str, day: date, operator: str) -> None:
    attribute = days(width)
    expected = sum(getattr(one, OPERATORS[operator])(day) for one in RECORDS)
    if not expected:
        with pytest.raises(QueryError, match="an empty range"):
            parse_where(f"d {operator} '{day}'", Domain((attribute,)))
        return
    query = parse_where(f"d {operator} '{day}'", Domain((attribute,)))
    least, between, most = answers(query, attribute)
    assert least <= expected <= most
    assert between == pytest.approx(expected, abs=0.01)
    assert query.aligned == (least == most)


@given(width=st.sampled_from(WIDTHS), data=st.data())
def test_a_comparison_at_the_end_of_a_cell_is_aligned(width: str, data: st.DataObject) -> None:
    for attribute, step in ((days(width), 1), (times(width), 1), (times("hour"), 1)):
        edge = data.draw(st.sampled_from(attribute.boundaries[1:-1]))
        at, before = attribute.literal(edge), attribute.literal(edge - step)
        domain = Domain((attribute,))
        below = [parse_where(where, domain) for where in (f"d < {at}", f"d <= {before}", f"NOT d >= {at}")]
        assert all(query.aligned for query in below)
        assert len({query.key() for query in below}) == 1


def test_groups_are_periods_and_hold_every_day_once() -> None:
    domain = Domain((times("hour", missing=True, other=True),), name="t")
    for text, count, first in (
        ("YEAR(d)", 5, 2022), ("MONTH(d)", 14, 1), ("HOUR(d)", 26, 0), ("DAY(d)", 33, 1),
        ("DATE_TRUNC('month', d)", 28, "2022-02-01"), ("DATE_TRUNC('quarter', d)", 11, "2022-01-01"),
        ("DATE_TRUNC('week', d)", 111, "2022-02-07"), ("DATE_TRUNC('year', d)", 5, "2022-01-01"),
        ("DATE_TRUNC('hour', d)", 24 * 754 + 2, None),
    ):  # fmt: skip
        sql = f"SELECT {text} AS p, COUNT(*) FROM t GROUP BY p"
        if first is None:
            with pytest.raises(QueryError, match="at most 10,000 groups, got 18,096"):
                parse_sql(sql, domain)
            continue
        groups = parse_sql(sql, domain)
        assert groups.size == count
        labels = tuple(group.labels for group in groups.groups())
        assert (labels[0], labels[-2:]) == ((first,), ((None,), ("(other)",)))
        weights = sum(query.weights() for _, _, query in groups.questions())
        np.testing.assert_array_equal(weights, np.full(domain.size, 2**20))


def test_two_parts_of_one_date_make_groups() -> None:
    groups = parse_sql(
        "SELECT YEAR(d) y, MONTH(d) m, COUNT(*) FROM t GROUP BY y, m", Domain((days("month"),), name="t")
    )
    asked = {group.labels: query for _, group, query in groups.questions()}
    assert asked[2023, 5].describe() == "d 2023-05"
    assert (2024, 5) not in asked  # no day of the declared ones
    assert (groups.size, len(asked)) == (36, 26)


def test_empty_dates_are_neither_before_nor_after() -> None:
    domain = Domain((days(missing=True, other=True),))
    for where in ("d >= '2022-02-10'", "YEAR(d) > 2000"):
        assert parse_where(where, domain).weights().tolist()[-3:] == [2**20, 0, 0]
    assert parse_where("d IS NULL", domain).weights().tolist()[-2:] == [2**20, 0]


# --- texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "2023-02-29", "2023-2-01", "20230201", "01.02.2023", "2023-13-01", "0000-01-01", "10000-01-01",
        20230201, "2023-02-01 24:00", "2023-02-01 12:60", "2023-02-01 12", "2023-02-01T12:00:00+24:00",
        "x", True, 1.5,
        "2023-02-01 (BC)", "infinity", "\u0662023-02-01", "2023-02-01" + " " * 100, b"2023-02-01",
    ],
)  # fmt: skip
def test_what_is_no_date_is_undeclared(value: object) -> None:
    for attribute in (days(missing=True, other=True), times(missing=True, other=True)):
        assert values_of(attribute).encode(value) == attribute.other_code
        assert values_of(attribute).reading(value) is Reading.NO_DATE
        assert values_of(attribute).encode("") == attribute.missing_code
    assert values_of(days()).encode(value) == -1


@pytest.mark.parametrize("value", ["2024-02-29", " 2024-02-29\t", "2024-02-29 23:59:59.999",
                                   date(2024, 2, 29), datetime(2024, 2, 29, 5), pd.Timestamp("2024-02-29"),
                                   np.datetime64("2024-02-29T05", "ns"), "2024-02-29T10:00"])  # fmt: skip
def test_one_day_is_written_in_many_ways(value: object) -> None:
    for attribute in (days(), times()):
        assert attribute.label(values_of(attribute).encode(value)) == "2024-02-29"
    assert values_of(days()).reading(value) is Reading.DECLARED


def test_a_time_with_a_zone_is_put_on_the_declared_clock_and_its_date_is_that_of_utc() -> None:
    berlin = times("hour", zone="Europe/Berlin", other=True)
    for text, hour in {
        "2023-03-26T00:59:59Z": "2023-03-26 01:00",  # the hour after it is left out
        "2023-03-26T01:00:00+00:00": "2023-03-26 03:00",
        "2023-03-26 02:30": "2023-03-26 02:00",  # no clock showed it; taken as it is written
        "2023-10-29T00:30:00Z": "2023-10-29 02:00",  # shown twice
        "2023-10-29T01:30:00Z": "2023-10-29 02:00",
        "2023-10-29T02:00:00Z": "2023-10-29 03:00",
    }.items():
        assert berlin.label(values_of(berlin).encode(text)) == hour, text
    for text, day in {
        "2023-03-26T00:59:59Z": "2023-03-26",
        "2023-03-26T00:30:00+01:00": "2023-03-25",
        "2023-03-25 23:30:00-05:00": "2023-03-26",
    }.items():
        assert days().label(values_of(days()).encode(text)) == day, text
    assert values_of(times()).encode("0001-01-01T00:00:00+10:00") == 0
    assert values_of(times()).encode("9999-12-31T23:59:59-10:00") == times().size - 1


@pytest.mark.parametrize(
    ("zone", "first", "gap"),
    [
        ("Europe/Berlin", "2023-03-26", ("02:00", "03:00")),
        ("America/New_York", "2023-03-12", ("02:00", "03:00")),
        ("Australia/Lord_Howe", "2023-10-01", ("02:00", "02:30")),
        ("Pacific/Apia", "2011-12-30", ("00:00", "24:00")),  # a whole day
    ],
)
@pytest.mark.parametrize("width", ["hour", "day", "month"])
def test_no_time_is_drawn_that_the_clock_leaves_out(
    zone: str, first: str, gap: tuple[str, str], width: str
) -> None:
    day = datetime.fromisoformat(first)
    attribute = DatetimeAttribute("t", day - timedelta(1), day + timedelta(1, 86399), width, zone)
    start, stop = (day + timedelta(hours=int(one[:2]), minutes=int(one[3:])) for one in gap)
    codes = np.repeat(np.arange(attribute.size), 6000 // attribute.size)
    drawn = values_of(attribute).draw(codes, np.random.default_rng(1)).tolist()
    assert not [one for one in drawn if start <= one < stop]
    clock = ZoneInfo(zone)
    for one in drawn:  # what UTC makes of it is shown as it is
        assert one.replace(tzinfo=clock).astimezone(UTC).astimezone(clock).replace(tzinfo=None) == one
    cells = [values_of(attribute).encode(one) for one in drawn]
    moved = sum(cell != code for cell, code in zip(cells, codes.tolist(), strict=True))
    whole = {"hour": gap != ("02:00", "02:30"), "day": zone == "Pacific/Apia", "month": False}
    assert (moved > 0) == whole[width]  # where a cell is left out as a whole


def test_another_format_is_read_beside_isos() -> None:
    written = days(format="%d.%m.%Y")
    assert values_of(written).encode("29.2.2024") == values_of(written).encode("2024-02-29") >= 0
    assert values_of(written).encode("30.02.2024") == -1
    compact = days(format="%Y%m%d")
    assert values_of(compact).encode(20240229) == values_of(compact).encode("20240229")
    assert values_of(compact).encode("20240229") == values_of(days()).encode(LAST) - 4
    named = times(format="%d-%b-%Y %H:%M")
    assert values_of(named).encode("29-FEB-2024 10:00") == values_of(named).encode("2024-02-29")


# --- declarations -----------------------------------------------------------------------------------------


@given(
    width=st.sampled_from(WIDTHS), missing=st.booleans(), other=st.booleans(),
    format=st.sampled_from([None, "%d/%m/%Y", "%b %d, %Y"]), data=st.data(),
)  # fmt: skip
def test_records_and_declarations_come_back(
    width: str, missing: bool, other: bool, format: str | None, data: st.DataObject
) -> None:
    options: dict[str, Any] = {"missing": missing, "other": other, "format": format}
    domain = Domain((days(width, **options), DatetimeAttribute(
        "t", datetime(2022, 1, 1, 3), datetime(2022, 3, 1, 4, 5, 6), "hour", "America/New_York", **options
    )))  # fmt: skip
    assert parse_schema(format_schema(domain)) == domain
    codes = [data.draw(st.integers(0, attribute.size - 1)) for attribute in domain]
    records = encode_records(pd.DataFrame({"d": ["2023-01-01"] * 3, "t": ["2022-02-02"] * 3}), domain)
    columns = tuple(
        np.full(3, code, column.dtype) for code, column in zip(codes, records.columns, strict=True)
    )
    frame = decode_records(type(records)(domain, columns), np.random.default_rng(1))
    if not other:
        assert [str(kind) for kind in frame.dtypes] == ["datetime64[s]"] * 2
    again = encode_records(frame, domain)
    assert [column.tolist() for column in again.columns] == [[code] * 3 for code in codes]


def test_a_time_with_a_zone_is_no_end() -> None:
    with pytest.raises(DomainError, match="min must be a time"):
        DatetimeAttribute("d", datetime(2023, 1, 1).astimezone(), datetime(2023, 2, 1))


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("date", "2023-01-01", "2023-12-31"),
        ("datetime", "2023-01-01", "2023-12-31"),  # the last second of that day
        ("datetime", "2023-01-01T08:00:00", "2023-12-31 17:30:00"),
        ("datetime", "2023-01-01T08:00:00+02:00", "2023-12-31T17:30:00Z"),
    ],
)
def test_a_date_or_a_time_may_stand_in_quotes(kind: str, low: str, high: str) -> None:
    def declared(quote: str) -> Domain:
        ends = f"min = {quote}{low}{quote}\nmax = {quote}{high}{quote}\n"
        return parse_schema(f"[[attributes]]\nname = 'd'\nkind = '{kind}'\n{ends}")

    assert declared('"') == declared("")


def test_a_date_as_the_last_time_is_its_last_second_and_a_zone_is_put_on_the_clock() -> None:
    domain = parse_schema(
        "[[attributes]]\nname = 'd'\nkind = 'datetime'\nmin = 2023-01-01T00:00:00Z\nmax = 2023-01-02\n"
        "zone = 'Europe/Berlin'\nwidth = 'hour'"
    )
    attribute = domain["d"]
    assert isinstance(attribute, DatetimeAttribute)
    assert (attribute.minimum.hour, attribute.size) == (1, 47)
