"""Times of day: their cells, how texts write them, and what questions on them count by DuckDB's TIME."""

from __future__ import annotations

import pickle
from datetime import date, datetime, time

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
    DomainError,
    LinearQuery,
    QueryError,
    SchemaError,
    TimeAttribute,
    decode_records,
    encode_records,
    format_schema,
    parse_question,
    parse_schema,
    parse_sql,
    parse_where,
    prefixes,
)
from queries.dates import CLOCK_WIDTHS, DAY, clock_text, clock_time, read_clock
from queries.schema import parse_stored, stored_schema
from queries.values import Reading, values_of
from tests.queries.meaning import full_weights

FIRST, LAST = time(6), time(21, 59, 59)
WIDTHS = st.sampled_from(list(CLOCK_WIDTHS))
SECONDS = st.integers(0, DAY - 1)
ENDS = st.tuples(SECONDS, SECONDS).map(lambda ends: (clock_time(min(ends)), clock_time(max(ends))))


def starts(width: str = "30 minutes", **options: bool) -> TimeAttribute:
    return TimeAttribute("start", FIRST, LAST, width, **options)


def second_of(moment: time) -> int:
    return moment.hour * 3600 + moment.minute * 60 + moment.second


def texts_of(second: int) -> list[str]:
    """Return the ways in which texts write a second of the day."""
    moment = clock_time(second)
    half = moment.strftime("%I:%M:%S %p")
    found = [moment.isoformat(), f" {moment.isoformat()}.999999\t", half, half.replace(" ", "").lower()]
    return [*found, clock_text(second), half.removeprefix("0"), f"{moment:%H:%M:%S}.5"]


@given(ends=ENDS, width=WIDTHS, second=SECONDS)
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


def test_labels_name_the_first_and_the_last_minute() -> None:
    assert [starts().label(code) for code in (0, 1, 31)] == ["06:00..06:29", "06:30..06:59", "21:30..21:59"]
    assert starts("hour").label(0) == "06:00..06:59"
    assert starts("minute").label(0) == "06:00"
    cut = TimeAttribute("x", time(6, 10, 30), time(6, 31, 15), "30 minutes")
    assert [cut.label(code) for code in range(cut.size)] == ["06:10:30..06:29:59", "06:30..06:31:15"]
    assert starts().span_label(0, 4) == "06:00 to 07:59"
    assert (starts().size, TimeAttribute("x", time(), time(23, 59, 59)).size) == (32, 24)


@pytest.mark.parametrize(
    "text",
    [
        "24:00", "24:00:00", "23:60", "23:59:60", "13:00 pm", "0:30 am", "8", "0830", "8:5", "08:30+02:00",
        "2023-03-31 08:30", "08:30 p", "٠٨:٣٠", "8:30:15.", "-1:00", "0 days 08:30:00", "08:30" + " " * 99,
    ],
)  # fmt: skip
def test_what_no_clock_shows_is_undeclared(text: str) -> None:
    for attribute in (starts(), starts(missing=True), starts(other=True)):
        values = values_of(attribute)
        assert values.encode(text) == (-1 if attribute.other_code is None else attribute.other_code)
        assert values.reading(text) is Reading.NO_DATE


def test_midnight_and_noon_are_told_apart_by_their_half() -> None:
    read = {
        "12:00 am": "00:00",
        "12:59 AM": "00:59",
        "12:00 pm": "12:00",
        "1:00pm": "13:00",
        "11:59 PM": "23:59",
    }
    assert {text: clock_text(read_clock(text) or 0) for text in read} == read


def test_empty_values_and_those_outside_fall_as_for_other_kinds() -> None:
    values = values_of(starts(missing=True, other=True))
    assert [values.encode(one) for one in ("", None, pd.NaT, "05:59", "22:00", 830, 8.5, True)] == [
        32, 32, 32, 0, 31, 33, 33, 33
    ]  # fmt: skip
    assert [values.reading(one) for one in ("05:59", "22:00", "06:00", "21:59:59.9")] == [
        Reading.LOW, Reading.HIGH, Reading.DECLARED, Reading.DECLARED
    ]  # fmt: skip


# --- declaring ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((time(22), time(6), "hour"), "does not go over midnight, got min=22:00:00, max=06:00:00; declare"),
        (("06:00", time(6), "hour"), "min must be a time of day from 00:00:00 to 23:59:59 without a zone"),
        ((time(6), datetime(2023, 1, 1), "hour"), "max must be a time of day"),
        ((time(6), time(7, 0, 0, 5), "hour"), "max must be a time of day"),
        (
            (time(6), time(7), "7 minutes"),
            "width must be one of minute, 5 minutes, .*; did you mean '.*minutes'",
        ),
        ((time(6), time(7), "day"), "width must be one of minute"),
        ((time(6), time(7), 30), "width must be one of minute"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_in_one_line(given: tuple[object, ...], told: str) -> None:
    with pytest.raises(DomainError, match=f"^attribute 'x': .*{told}") as caught:
        TimeAttribute("x", *given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@given(ends=ENDS, width=WIDTHS, missing=st.booleans(), other=st.booleans())
def test_a_schema_gives_the_attribute_back(
    ends: tuple[time, time], width: str, missing: bool, other: bool
) -> None:
    domain = Domain((TimeAttribute("x", *ends, width, missing=missing, other=other),))
    assert parse_schema(format_schema(domain)) == parse_stored(stored_schema(domain)) == domain
    assert pickle.loads(pickle.dumps(domain)) == domain  # noqa: S301 - its own


def declared(low: str, high: str, more: str = "") -> Domain:
    return parse_schema(f'[[attributes]]\nname = "start"\nkind = "time"\nmin = {low}\nmax = {high}\n{more}')


def test_a_schema_has_times_as_toml_or_as_texts_and_the_last_minute_is_whole() -> None:
    expected = Domain((starts(),))
    for low, high in (
        ("06:00:00", "21:59:59"), ('"06:00"', '"21:59"'), ('"6:00 am"', '"9:59 PM"'), ("06:00:00", '"21:59"')
    ):  # fmt: skip
        assert declared(low, high, 'width = "30 minutes"') == expected
    assert declared('"00:00"', '"23:59"')["start"].size == 24


@pytest.mark.parametrize(
    ("low", "high", "more", "told"),
    [
        ('"06:00"', '"24:00"', "", "max must be a time of day .*, got '24:00'"),
        ('"22:00"', '"06:00"', "", "does not go over midnight, got min=22:00:00, max=06:00:59"),
        ("6", '"22:00"', "", "min must be a time of day .*, got 6"),
        ("2023-03-31", '"22:00"', "", "min must be a time of day"),
        (
            '"06:00"',
            '"21:59"',
            'zone = "UTC"',
            "kind 'time' knows the keys .* 'zone' is for kind = 'datetime'",
        ),
        ('"06:00"', '"21:59"', 'width = "week"', "width must be one of minute"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_in_one_line(low: str, high: str, more: str, told: str) -> None:
    with pytest.raises(SchemaError, match=told) as caught:
        declared(low, high, more)
    assert "\n" not in str(caught.value)


# --- drawing ------------------------------------------------------------------------------------------------


@given(ends=ENDS, width=WIDTHS, seed=st.integers(0, 99), missing=st.booleans(), other=st.booleans())
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


# --- questions ----------------------------------------------------------------------------------------------

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


def judged(text: str, attribute: TimeAttribute) -> list[tuple[object, ...]]:
    """Return what DuckDB answers over the records, of which those outside count as the ends."""
    frame = pd.DataFrame({"s": [one.isoformat() for one in RECORDS]})
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        ends = f"TIME '{attribute.minimum}', s::TIME), TIME '{attribute.maximum}'"
        connection.execute(f"CREATE TABLE t AS SELECT least(greatest({ends}) AS start FROM frame")
        return connection.execute(text.replace("'8:00 pm'", "'20:00'")).fetchall()


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain["start"].width)
@pytest.mark.parametrize("test", TESTS)
def test_a_condition_counts_the_records_that_duckdb_counts(domain: Domain, test: str) -> None:
    attribute = domain["start"]
    assert isinstance(attribute, TimeAttribute)
    query = parse_where(test, domain)
    cells = np.bincount([values_of(attribute).encode(one) for one in RECORDS], minlength=attribute.size)
    readings = query.readings or (query, query)
    least, most = (float(cells @ full_weights(one)) / 2**20 for one in readings)
    for_duckdb = test.replace("'9:00 pm'", "'21:00'").replace("'7:20'", "'07:20'")
    ((true,),) = judged(f"SELECT COUNT(*) FROM t WHERE {for_duckdb}", attribute)
    assert isinstance(true, int)
    assert least <= true <= most
    assert query.aligned == (least == most)


@given(width=WIDTHS, data=st.data())
def test_a_comparison_at_the_end_of_a_cell_is_aligned(width: str, data: st.DataObject) -> None:
    attribute = starts(width)
    edge = data.draw(st.sampled_from(attribute.boundaries[1:-1]))
    at, before = attribute.literal(edge), attribute.literal(edge - 1)
    texts = (f"start < {at}", f"start <= {before}", f"NOT start >= TIME {at}")
    queries = [parse_where(text, Domain((attribute,))) for text in texts]
    assert all(query.aligned for query in queries)
    assert len({query.key() for query in queries}) == 1


@pytest.mark.parametrize("domain", DOMAINS[:3], ids=lambda domain: domain["start"].width)
def test_groups_of_hours_are_those_of_duckdb(domain: Domain) -> None:
    attribute = domain["start"]
    assert isinstance(attribute, TimeAttribute)
    cells = np.bincount([values_of(attribute).encode(one) for one in RECORDS], minlength=attribute.size)
    for key in ("HOUR(start)", "EXTRACT(HOUR FROM start)"):
        text = f"SELECT {key} AS h, COUNT(*) AS n FROM t GROUP BY h ORDER BY h"
        asked = parse_sql(text, domain).questions()
        found = {group.labels: float(cells @ full_weights(query)) / 2**20 for _, group, query in asked}
        true = {(hour,): float(count) for hour, count in judged(text, attribute)}  # type: ignore[arg-type]  # a count
        assert found == true


def test_groups_of_times_are_cells_and_hold_every_second_once() -> None:
    domain = Domain((starts(missing=True, other=True),), name="t")
    for key, count, first in (("start", 34, "06:00..06:29"), ("HOUR(start)", 18, 6)):
        groups = parse_sql(f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k", domain)
        labels = [group.labels for group in groups.groups()]
        assert (len(labels), labels[0], labels[-2:]) == (count, (first,), [(None,), ("(other)",)])
        weights = sum(query.weights() for _, _, query in groups.questions())
        np.testing.assert_array_equal(weights, np.full(domain.size, 2**20))


def test_questions_of_other_forms_are_the_same_ones() -> None:
    domain = Domain((starts(missing=True),))
    for text, form in (
        ("start BETWEEN '08:30' AND '11:59:59'", {"start": {"between": ["8:30 am", "11:59:59"]}}),
        ("start < TIME '08:30'", {"start": {"lt": "08:30"}}),
        ("start IS NULL", {"start": {"is_missing": True}}),
        ("NOT start >= '08:30'", "start < '8:30'"),
    ):
        query = parse_question({"where": form}, domain).query
        assert isinstance(query, LinearQuery)
        assert query.key() == parse_where(text, domain).key()
    ranges = list(prefixes(domain, "start"))
    assert len(ranges) == starts().size
    assert parse_where("start < '08:30'", domain).key() in {one.key() for one in ranges}


BESIDE = Domain(
    (
        starts(),
        DatetimeAttribute("seen", datetime(2023, 1, 1), datetime(2023, 1, 31)),
        DateAttribute("day", date(2023, 1, 1), date(2023, 1, 31)),
    ),
    name="t",
)


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("start = '24:00'", "holds times of day, written as '06:00'; got '24:00'"),
        ("start > TIME '25:00'", "holds times of day, written as '06:00'; got '25:00'"),
        ("start > 8", "holds times of day, written as '06:00'; got 8"),
        ("start > '2023-01-01 08:00'", "holds times of day, written as '06:00'"),
        ("start > DATE '2023-01-01'", "holds times of day, written as '06:00'"),
        ("start < '06:00'", "an empty range: attribute 'start' goes from '06:00' to '21:59:59'"),
        ("start = '05:00'", "holds values from '06:00' to '21:59:59'"),
        ("day > TIME '08:00'", "holds dates, written as"),
        ("seen > '08:00'", "holds times, written as"),
        ("start > DATE '08:30'", "expected DATE '2023-03-31' or TIME '08:30'"),
        ("day > TIME '2023-01-01'", "expected DATE '2023-03-31' or TIME '08:30'"),
        ("start = seen", "expected two values of one kind, got dates of seen and times of day of start"),
        ("day < start", "expected two values of one kind, got times of day of start and dates of day"),
        (
            "CASE WHEN start < '08:00' THEN start END < TIMESTAMP '2023-01-05'",
            "expected two values of one kind",
        ),
        ("CASE WHEN start < '08:00' THEN day END > '07:00'", "expected two values of one kind"),
        ("COALESCE(start, '08:00') < 3", "expected two values of one kind"),
        ("CASE WHEN start > '07:00' THEN start END > 3", "a time of day is a text such as '08:30'"),
        *(
            (f"{part} > 3", "holds times of day, whose one part is HOUR")
            for part in ("YEAR(start)", "DAY(start)", "DATE_TRUNC('hour', start)", "start::date")
        ),
        ("start + INTERVAL 1 HOUR > '08:00'", "holds times of day, whose one part is HOUR"),
        ("HOUR(start + INTERVAL 1 HOUR) > 8", "holds times of day, whose one part is HOUR"),
        ("MINUTE(start) = 30", "MINUTE of a time is not supported; ask for HOUR, or compare with a time"),
        ("start + 1 > 3", "'start' holds times of day; HOUR(start) is a number"),
        ("seen::time > '08:00'", "needs numbers, 'seen' holds dates"),
        ("TIME '08:00' + INTERVAL 1 HOUR < start", "expected a date such as"),
        ("CAST(start AS VARCHAR) = '06:00'", "a text of a date is not supported"),
    ],
)
def test_what_times_of_day_have_no_meaning_for_is_refused_in_one_line(test: str, told: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_where(test, BESIDE)
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_a_part_that_cells_do_not_decide_names_the_width_that_does() -> None:
    with pytest.raises(QueryError, match=r"HOUR.* cuts cells: .* of 12 hours each; .*width = 'hour'"):
        parse_where("HOUR(x) = 7", Domain((TimeAttribute("x", time(), time(11, 59, 59), "12 hours"),)))
