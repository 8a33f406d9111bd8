"""Dates and times: their cells, what questions on them count, and how texts write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    DateAttribute,
    DatetimeAttribute,
    Domain,
    TimeAttribute,
    decode_records,
    encode_records,
    format_schema,
    parse_schema,
    parse_where,
)
from queries.dates import CLOCK_WIDTHS, DAY, clock_text, clock_time, read_clock
from queries.values import Reading, values_of
from tests.queries.meaning import full_weights

FIRST, LAST = date(2022, 2, 10), date(2024, 3, 4)
WIDTHS = ["day", "week", "month", "quarter", "year"]
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


@given(width=st.sampled_from(WIDTHS), data=st.data())
def test_a_comparison_at_the_end_of_a_cell_is_aligned(width: str, data: st.DataObject) -> None:
    for attribute, step in ((days(width), 1), (times(width), 1), (times("hour"), 1)):
        edge = data.draw(st.sampled_from(attribute.boundaries[1:-1]))
        at, before = attribute.literal(edge), attribute.literal(edge - step)
        domain = Domain((attribute,))
        below = [parse_where(where, domain) for where in (f"d < {at}", f"d <= {before}", f"NOT d >= {at}")]
        assert all(query.aligned for query in below)
        assert len({query.key() for query in below}) == 1


# --- texts -----------------------------------------------------------------------------------------------


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
    codes = np.repeat(np.arange(attribute.size), 3000 // attribute.size)
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


# --- declarations ----------------------------------------------------------------------------------------


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


# --- times of day -------------------------------------------------------------------------------------------


OPENS, CLOSES = time(6), time(21, 59, 59)
CLOCKS = st.sampled_from(list(CLOCK_WIDTHS))
SECONDS = st.integers(0, DAY - 1)
ENDS = st.tuples(SECONDS, SECONDS).map(lambda ends: (clock_time(min(ends)), clock_time(max(ends))))


def starts(width: str = "30 minutes", **options: bool) -> TimeAttribute:
    return TimeAttribute("start", OPENS, CLOSES, width, **options)


def second_of(moment: time) -> int:
    return moment.hour * 3600 + moment.minute * 60 + moment.second


def texts_of(second: int) -> list[str]:
    """Return the ways in which texts write a second of the day."""
    moment = clock_time(second)
    half = moment.strftime("%I:%M:%S %p")
    found = [moment.isoformat(), f" {moment.isoformat()}.999999\t", half, half.replace(" ", "").lower()]
    return [*found, clock_text(second), half.removeprefix("0"), f"{moment:%H:%M:%S}.5"]


@given(ends=ENDS, width=CLOCKS, second=SECONDS)
def test_every_text_of_a_time_falls_into_the_cell_whose_label_names_it(
    ends: tuple[time, time], width: str, second: int
) -> None:
    attribute = TimeAttribute("x", *ends, width)
    (code,) = {values_of(attribute).encode(text) for text in (*texts_of(second), clock_time(second))}
    inside = min(max(second, second_of(ends[0])), second_of(ends[1]))
    low, high = attribute.boundaries[code : code + 2]
    assert low <= inside < high
    assert inside // CLOCK_WIDTHS[width] == low // CLOCK_WIDTHS[width] == (high - 1) // CLOCK_WIDTHS[width]
    first, _, last = attribute.label(code).partition("..")
    assert read_clock(first) == low
    end = read_clock(last or first)
    assert end is not None
    assert end in (high - 60, high - 1)  # the last minute, or the last second where it is no whole minute


@pytest.mark.parametrize(
    "text",
    [
        "24:00", "24:00:00", "23:60", "23:59:60", "13:00 pm", "0:30 am", "8", "0830", "8:5", "08:30+02:00",
        "2023-03-31 08:30", "08:30 p", "٠٨:٣٠", "8:30:15.", "-1:00", "0 days 08:30:00", "08:30" + " " * 99,
    ],
)  # fmt: skip
def test_what_no_clock_shows_is_undeclared(text: str) -> None:
    for attribute in (starts(missing=True), starts(other=True)):
        values = values_of(attribute)
        assert values.encode(text) == (-1 if attribute.other_code is None else attribute.other_code)
        assert values.reading(text) is Reading.NO_DATE


def test_empty_values_and_those_outside_fall_as_for_other_kinds() -> None:
    values = values_of(starts(missing=True, other=True))
    assert [values.encode(one) for one in ("", None, pd.NaT, "05:59", "22:00", 830, 8.5, True)] == [
        32, 32, 32, 0, 31, 33, 33, 33
    ]  # fmt: skip
    assert [values.reading(one) for one in ("05:59", "22:00", "06:00", "21:59:59.9")] == [
        Reading.LOW, Reading.HIGH, Reading.DECLARED, Reading.DECLARED
    ]  # fmt: skip


# --- declaring ---------------------------------------------------------------------------------------------


def declared(low: str, high: str, more: str = "") -> Domain:
    return parse_schema(f'[[attributes]]\nname = "start"\nkind = "time"\nmin = {low}\nmax = {high}\n{more}')


def test_a_schema_has_times_as_toml_or_as_texts_and_the_last_minute_is_whole() -> None:
    expected = Domain((starts(),))
    for low, high in (
        ("06:00:00", "21:59:59"), ('"06:00"', '"21:59"'), ('"6:00 am"', '"9:59 PM"'), ("06:00:00", '"21:59"')
    ):  # fmt: skip
        assert declared(low, high, 'width = "30 minutes"') == expected
    assert declared('"00:00"', '"23:59"')["start"].size == 24


# --- drawing -----------------------------------------------------------------------------------------------


@given(ends=ENDS, width=CLOCKS, seed=st.integers(0, 99), missing=st.booleans(), other=st.booleans())
def test_drawn_values_lie_in_their_cells_again(
    ends: tuple[time, time], width: str, seed: int, missing: bool, other: bool
) -> None:
    domain = Domain((TimeAttribute("x", *ends, width, missing=missing, other=other),))
    size = domain["x"].size
    texts = pd.DataFrame({"x": [clock_text(second_of(ends[0])), None, "(other)"][: 1 + missing + other]})
    coded = encode_records(pd.concat([texts] * 5), domain)
    frame = decode_records(coded, np.random.default_rng(seed))
    assert encode_records(frame, domain).columns[0].tolist() == coded.columns[0].tolist()
    every = np.arange(domain["x"].base_size)
    drawn = values_of(domain["x"]).draw(every, np.random.default_rng(seed))
    assert [values_of(domain["x"]).encode(one) for one in drawn] == every.tolist()
    assert {type(one) for one in drawn} == {time}
    assert size == len(every) + missing + other


# --- questions ---------------------------------------------------------------------------------------------

RECORDS = [clock_time(second) for second in (0, *range(5 * 3600, 23 * 3600, 97), DAY - 1)]
DOMAINS = [Domain((starts(width),), name="t") for width in ("minute", "20 minutes", "hour", "3 hours")]
TESTS = [
    *(f"start {sign} '08:30'" for sign in ("=", "<>", "<", "<=", ">", ">=")),
    *(f"start {sign} TIME '12:00:00'" for sign in ("=", "<>", "<", "<=", ">", ">=")),
    "start BETWEEN '08:30' AND TIME '16:59:59'", "start NOT BETWEEN '08:00' AND '9:00 pm'",
    "start IN ('06:00', '08:30', '09:00:15')", "start >= CAST('07:00' AS TIME) AND start < '7:20'::TIME",
    "HOUR(start) = 8", "EXTRACT(hour FROM start) BETWEEN 7 AND 9", "date_part('hour', start) IN (6, 21)",
    "NOT HOUR(start) >= 12", "HOUR(start) % 2 = 0", "start < '07:30' OR start >= '21:00'",
    "CASE WHEN start < TIME '12:00' THEN start END >= TIME '09:00'", "start = start", "TIME '10:00' < start",
    "COALESCE(start, TIME '06:00') < TIME '06:30'", "start BETWEEN '21:00' AND '07:00'",
]  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain["start"].width)
def test_a_condition_counts_the_records_that_duckdb_counts(domain: Domain) -> None:
    own = values_of(domain["start"])
    cells = np.bincount([own.encode(one) for one in RECORDS], minlength=domain["start"].size)
    # Those outside count as the ends.
    frame = pd.DataFrame({"s": [min(max(one, OPENS), CLOSES).isoformat() for one in RECORDS]})
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS SELECT s::TIME AS start FROM frame")
        for test in TESTS:
            query = parse_where(test, domain)
            readings = query.readings or (query, query)
            least, most = (float(cells @ full_weights(one)) / 2**20 for one in readings)
            for_duckdb = test.replace("'9:00 pm'", "'21:00'").replace("'7:20'", "'07:20'")
            ((true,),) = connection.execute(f"SELECT COUNT(*) FROM t WHERE {for_duckdb}").fetchall()
            assert least <= true <= most, test
            assert query.aligned == (least == most), test


BESIDE = Domain(
    (
        starts(),
        DatetimeAttribute("seen", datetime(2023, 1, 1), datetime(2023, 1, 31)),
        DateAttribute("day", date(2023, 1, 1), date(2023, 1, 31)),
    ),
    name="t",
)
