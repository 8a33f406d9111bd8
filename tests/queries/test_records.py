"""Records and codes: each value has one cell, in whatever column and beside whatever records it stands."""

from __future__ import annotations

import datetime as dt
import enum
import math
import sys
import warnings
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    DateAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    RecordsError,
    decode_records,
    encode_records,
    format_schema,
    parse_schema,
    parse_workload,
)
from queries.plain_values import UNREADABLE, plain_value, shown_text, type_name
from queries.records import decode_batches, encode_columns, encode_places, frame_columns
from queries.values import DROPPED, Reading, values_of
from tests.queries.meaning import DOMAINS
from tests.queries.test_segments import NUMBERS

Column: TypeAlias = "pd.Series[Any]"

ATTRIBUTES: list[Attribute] = [
    IntegerAttribute("a", -3, 12, 4), IntegerAttribute("a", 0, 1),
    NumericAttribute("a", (-1.5, 0, 0.1, 2.5, 7)), CategoricalAttribute("a", (1, 2, 3, -4, 0)),
    CategoricalAttribute("a", ("1", "x", "1.0", "01", "nan", "inf", " ")),
    CategoricalAttribute("a", (True, False)), CategoricalAttribute("a", ("x", True, 1, "ß", 100)),
]  # fmt: skip
FLAGGED = st.builds(
    lambda attribute, missing, other: replace(attribute, missing=missing, other=other),
    st.sampled_from(ATTRIBUTES),
    st.booleans(),
    st.booleans(),
)

WHOLE = st.integers(-6, 15) | st.sampled_from([100, 2**62, -(2**62)])
REAL = st.sampled_from([-0.0, 0.0, 1.0, 2.0, 100.0, 0.1, 2.5, 7.0, -1.5, 1e300, -1e300, math.inf, -math.inf])
REALS = REAL | st.floats(-10, 10) | st.integers(-6, 15).map(float)
WORDS = st.sampled_from(
    [
        *("1", "1.0", "01", "+1", "1e0", "1e2", "1E2", ".5", "5.", "-4", "0x1", "1_0", "1,0", "\u0661"),
        *("x", "X", "ß", "ss", "True", "true", "TRUE", "False", "nan", "NaN", "inf", "-inf", "None", "NA"),
        *("", " ", " 1", "1 ", "\t2", " x", "\x00", "1\n", "1e999", "9" * 500, "0." + "1" * 500),
    ]
)
TEXTS = WORDS | st.text(max_size=4)
EMPTY = st.sampled_from([None, math.nan, pd.NaT, np.datetime64("NaT", "ns")])
ODD = st.sampled_from(
    [b"1", (1,), frozenset(), object, 1 + 2j, Decimal("2.5"), datetime(2020, 1, 1, tzinfo=UTC)]
)
ANYTHING = st.one_of(
    WHOLE,
    REALS,
    TEXTS,
    EMPTY,
    ODD,
    st.booleans(),
    st.integers(-6, 15).map(np.int8),
    st.integers(0, 15).map(np.float32),
    st.booleans().map(np.bool_),
    st.just([1]),
)


GRIDS = [
    IntegerAttribute("a", -3, 12, 4, resolution=1),
    IntegerAttribute("a", -3, 12, resolution=4, missing=True, other=True),
    NumericAttribute("a", (-1.5, 0, 0.1, 2.5, 7), resolution=0.1, other=True),
    NumericAttribute("a", (0, 1, 1e300), atoms=(0,), resolution=1e296, missing=True),
    NumericAttribute("a", (-3, 3, 9), atoms=(3, 9), integer=True, resolution=2),
    NumericAttribute("a", (0, 0.7), resolution=0.7),
]


def _columns(values: st.SearchStrategy[Any], dtype: str) -> st.SearchStrategy[Column]:
    return st.lists(values, max_size=12).map(lambda column: pd.Series(column, dtype=dtype))


COLUMNS: dict[str, st.SearchStrategy[Column]] = {
    "int64": _columns(WHOLE, "int64"),
    "int8": _columns(st.integers(-6, 15), "int8"),
    "uint64": _columns(st.integers(0, 15) | st.just(2**64 - 1), "uint64"),
    "float64": _columns(REALS | st.just(math.nan), "float64"),
    "float32": _columns(st.integers(-6, 15) | st.just(math.nan), "float32"),
    "bool": _columns(st.booleans(), "bool"),
    "object": _columns(ANYTHING, "object"),
    "texts": _columns(TEXTS | st.none(), "object"),
    "whole numbers": _columns(WHOLE | st.none(), "object"),
    "string": _columns(TEXTS | st.none(), "string"),
    "boolean": _columns(st.booleans() | st.none(), "boolean"),
    "Int64": _columns(WHOLE | st.none(), "Int64"),
    "Float64": _columns(REALS | st.none(), "Float64"),
    "datetime64[ns]": _columns(st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)), "datetime64[ns]"),
    "category of texts": _columns(TEXTS | st.none(), "object").map(lambda column: column.astype("category")),
    "category of numbers": _columns(WHOLE, "int64").map(lambda column: column.astype("category")),
    "category of booleans": _columns(st.booleans(), "bool").map(lambda column: column.astype("category")),
}


def _codes(attribute: Attribute, column: Column) -> list[int]:
    records = encode_records(pd.DataFrame({attribute.name: column}), Domain((attribute,)))
    return [int(code) for code in records.columns[0]]


def _one_by_one(attribute: Attribute, column: Column) -> list[int]:
    values = [None if value is pd.NA else value for value in column]
    return [code for value in values if (code := values_of(attribute).encode(value)) >= 0]


@given(data=st.data(), attribute=FLAGGED)
@pytest.mark.parametrize("dtype", COLUMNS)
def test_a_column_is_encoded_value_by_value_whatever_stands_beside(
    dtype: str, data: st.DataObject, attribute: Attribute
) -> None:
    column = data.draw(COLUMNS[dtype])
    codes = _codes(attribute, column)
    assert codes == _one_by_one(attribute, column)
    assert codes == [code for row in range(len(column)) for code in _codes(attribute, column.iloc[[row]])]


def _place(value: object, attribute: NumericAttribute | IntegerAttribute) -> int | None:
    """Return the place of a number by the rule, None where a value is none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return None
    if not math.isfinite(value) or (attribute.is_whole and value != int(value)):
        return None
    low, high = float(attribute.ends[0]), float(attribute.last)
    return math.floor((min(max(float(value), low), high) - low) / float(attribute.resolution or 0))


@given(data=st.data(), attribute=st.sampled_from(GRIDS))
@pytest.mark.parametrize("dtype", COLUMNS)
def test_a_value_that_is_summed_has_the_place_that_the_rule_gives_it(
    dtype: str, data: st.DataObject, attribute: NumericAttribute | IntegerAttribute
) -> None:
    column = data.draw(COLUMNS[dtype])
    domain = Domain((attribute,))
    (grid,), (places,) = domain.grids, encode_places(frame_columns(pd.DataFrame({"a": column}), "a"), domain)
    one_by_one = [values_of(grid).encode(None if value is pd.NA else value) for value in column]
    assert places.tolist() == one_by_one
    for value, place in zip(column, one_by_one, strict=True):
        expected = _place(value, attribute)
        if expected is not None:
            assert place == expected
            assert 0 <= place < grid.base_size
        elif isinstance(value, bool | np.bool_ | float | np.floating) or value is None:
            empty = value is None or value != value  # noqa: PLR0124 - NaN
            assert place == (grid.missing_code if empty else grid.other_code)


@given(st.lists(st.tuples(WHOLE | st.none(), TEXTS | st.none(), REALS), max_size=12), st.booleans())
def test_a_record_is_dropped_or_kept_whole(rows: list[tuple[Any, ...]], missing: bool) -> None:
    texts, real = CategoricalAttribute("c", ("x", 1), other=True), NumericAttribute("r", (0, 1, 2))
    domain = Domain((IntegerAttribute("n", 0, 5, missing=missing), texts, real))
    frame = pd.DataFrame(rows, columns=list(domain.names), dtype=object)
    each = [[values_of(a).encode(value) for a, value in zip(domain, row, strict=True)] for row in rows]
    records = encode_records(frame, domain)
    found = [[int(column[row]) for column in records.columns] for row in range(len(records))]
    assert found == [codes for codes in each if min(codes) >= 0]


@given(st.lists(WHOLE | st.none()) | st.lists(REALS) | st.lists(TEXTS | st.none()), FLAGGED)
def test_a_table_written_as_text_gives_the_same_cells(values: list[Any], attribute: Attribute) -> None:
    in_memory = pd.Series(values, dtype=object)
    written = pd.Series(["" if value is None else str(value) for value in values], dtype="string")
    assert _codes(attribute, in_memory) == _codes(attribute, written)


def test_a_category_is_matched_by_its_text_or_its_number() -> None:
    number = values_of(CategoricalAttribute("a", (3, "x"), other=True))
    text = values_of(CategoricalAttribute("a", ("3", "x"), other=True))
    for value in ("3", 3, 3.0):
        assert (number.encode(value), text.encode(value)) == (0, 0)
    for value in ("3.0", " 3", "03"):
        assert (number.encode(value), text.encode(value)) == (0, 2)
    for value, cell in (("x", 1), ("X", 2), (" x", 2), (True, 2)):
        assert (number.encode(value), text.encode(value)) == (cell, cell)
    truth = values_of(CategoricalAttribute("a", ("TRUE", True)))  # a declared text goes first
    assert [truth.encode(value) for value in (True, "true", "True", "TRUE")] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["m", "N"], r"^expected one column 'n' in the table, got no such column among 2$"),
        (["n", "n"], r"^expected one column 'n' in the table, got it twice$"),
        ([], r"got no such column among 0$"),
        (["secret", 0, ("n",)], r"got no such column among 3$"),  # a header that is a person's record
    ],
)
def test_a_table_without_the_declared_column_is_refused(columns: list[Any], message: str) -> None:
    frame = pd.DataFrame([["secret"] * len(columns)] * 2)
    frame.columns = pd.Index(columns, dtype=object, tupleize_cols=False)
    with pytest.raises(RecordsError, match=message) as caught:
        encode_records(frame, Domain((IntegerAttribute("n", 0, 9),)))
    assert "secret" not in str(caught.value)


def test_records_are_never_shown_and_fit_their_domain() -> None:
    domain = Domain((CategoricalAttribute("c", ("x", "y")), IntegerAttribute("m", 0, 9)), name="people")
    records = encode_records(pd.DataFrame({"c": ["y"] * 3, "m": [7] * 3}), domain)
    assert repr(records) == str(records) == "CodedRecords('people', records not shown)"
    for lengths in ((), (2,), (2, 3), (2, 2, 2)):
        with pytest.raises(RecordsError, match="expected 2 columns of one length"):
            CodedRecords(domain, tuple(np.zeros(length, dtype=np.uint8) for length in lengths))


# --- an empty value elsewhere ------------------------------------------------------------------------------

CODES = Domain(
    (
        CategoricalAttribute("code", ("1", "2", "30"), missing=True, other=True),
        DateAttribute("day", date(2024, 1, 1), date(2024, 12, 31), format="%Y%m%d", missing=True, other=True),
    )
)


@pytest.mark.parametrize("kind", [None, "Int64", "object", "category", "Sparse"])
def test_an_empty_value_changes_no_other_record(kind: str | None) -> None:
    """A column of whole numbers becomes one of floats where one value is empty; a category is read as one."""

    def encoded(values: list[int | None]) -> list[list[int]]:
        column = pd.Series(values, dtype=None if kind == "Sparse" else kind)
        if kind == "category":
            column = pd.Series(pd.Categorical(values, categories=[1, 2, 30, 20240131]))
        if kind == "Sparse":
            column = column.astype(pd.SparseDtype(column.dtype))
        columns = frame_columns(pd.DataFrame({"code": column, "day": column}), CODES.names)
        return [codes.tolist() for codes in encode_columns(columns, CODES)]

    numbers: list[int | None] = [1, 2, 30, 1, 20240131]
    whole = encoded(numbers)
    assert [codes[:-1] for codes in encoded([*numbers, None])] == whole
    assert whole[0] == [0, 1, 2, 0, 4]
    assert whole[1][-1] == 30


# --- decoded records ---------------------------------------------------------------------------------------


def _decoded(attribute: Attribute, codes: NDArray[np.uint8]) -> pd.DataFrame:
    return decode_records(CodedRecords(Domain((attribute,)), (codes,)), np.random.default_rng(0))


@given(data=st.data(), domain=DOMAINS | NUMBERS.map(lambda one: Domain((one,))), seed=st.integers(0, 2**32))
def test_decoded_records_encode_to_the_same_cells(data: st.DataObject, domain: Domain, seed: int) -> None:
    length = data.draw(st.integers(0, 20))
    columns = [
        np.array(data.draw(st.lists(st.integers(0, a.size - 1), min_size=length, max_size=length)), np.uint8)
        for a in domain
    ]
    frame = decode_records(CodedRecords(domain, tuple(columns)), np.random.default_rng(seed))
    assert list(frame.columns) == list(domain.names)
    for one in domain:
        if isinstance(one, NumericAttribute):
            assert str(frame[one.name].dtype) == ("Int64" if one.integer else "float64") or one.other
    assert parse_schema(format_schema(domain)) == domain
    again = encode_records(frame, domain)
    for before, after in zip(columns, again.columns, strict=True):
        np.testing.assert_array_equal(before, after)


EVERY_KIND = (
    IntegerAttribute("single", 0, 9), IntegerAttribute("wide", 0, 1000, 100, missing=True),
    IntegerAttribute("atoms", -5, 5000, 500, missing=True, other=True),
    NumericAttribute("real", (0, 1, 2.5), missing=True),
    NumericAttribute("large", (0, 1e6, 2e9), other=True), CategoricalAttribute("truth", (True, False)),
    CategoricalAttribute("mixed", (1, "x"), missing=True), IntegerAttribute("last", 0, 99, 7),
)  # fmt: skip


@pytest.mark.parametrize(("rows", "size"), [(0, 10), (23, 1), (101, 7), (101, 100), (101, 101), (101, 1000)])
def test_batches_hold_the_rows_of_the_whole_table(rows: int, size: int) -> None:
    draw = np.random.default_rng(3)
    codes = tuple(draw.integers(0, one.size, rows).astype(np.uint8) for one in EVERY_KIND)
    records = CodedRecords(Domain(EVERY_KIND), codes)
    whole = decode_records(records, np.random.default_rng(7))
    batches = list(decode_batches(records, np.random.default_rng(7), size))
    ends = [*range(0, max(rows, 1), size), rows]  # of no rows, one table without
    assert [len(batch) for batch in batches] == np.diff(ends).tolist()
    assert list(whole.columns) == [one.name for one in EVERY_KIND]
    assert pd.concat(batches).astype(str).to_numpy().tolist() == whole.astype(str).to_numpy().tolist()


def test_drawn_numbers_are_rounded_to_a_thousandth_of_their_cell_and_stay_in_it() -> None:
    codes = np.repeat(np.array([0, 1], dtype=np.uint8), 200)
    drawn = _decoded(NumericAttribute("a", (0, 10, 20)), codes)["a"]
    assert all(len(repr(float(value)).split(".")[1]) <= 2 for value in drawn)
    assert len(set(drawn)) > 300
    narrow = NumericAttribute("a", (0, 0.1000001, 0.2))
    assert set(_codes(narrow, _decoded(narrow, np.full(20_000, 1, dtype=np.uint8))["a"])) == {1}


# --- numbers with a cell of their own ----------------------------------------------------------------------


GAIN = NumericAttribute("gain", (0, 5000, 10_000, 99_999), atoms=(99_999, 0), integer=True, other=True)
RATE = NumericAttribute("rate", (0, 0.5, 1), atoms=(0.5,), missing=True)
DOMAIN = Domain((GAIN, RATE))


def test_an_atom_has_a_cell_behind_the_others() -> None:
    assert list(GAIN.atoms) == [0, 99_999]
    labels = [GAIN.label(code) for code in range(GAIN.size)]
    assert labels == ["1..4999", "5000..9999", "10000..99998", "0", "99999", "(other)"]
    assert [values_of(GAIN).encode(value) for value in (0, "0.0", -7, 1, 4999, 99_999, 1e9, 0.5, "x")] == [
        3, 3, 3, 0, 0, 4, 4, 5, 5,
    ]  # fmt: skip
    assert [values_of(RATE).encode(value) for value in (0, 0.5, "5e-1", 0.50001, 2, "")] == [0, 2, 2, 1, 1, 3]
    assert values_of(GAIN).reading(0.5) is Reading.FRACTION


def test_prefixes_and_ranges_hold_the_atoms_between_their_ends() -> None:
    prefixes = [np.flatnonzero(query.weights()).tolist() for query in parse_workload("prefixes:gain", DOMAIN)]
    assert prefixes == [[0, 3], [0, 1, 3], [0, 1, 2, 3, 4]]
    ranges = [np.flatnonzero(query.weights()).tolist() for query in parse_workload("ranges:gain", DOMAIN)]
    assert ranges[3:5] == [[1], [1, 2, 4]]


def test_every_whole_number_of_a_cell_is_drawn_about_as_often() -> None:
    attribute = NumericAttribute("x", (0, 6), atoms=(0, 3), integer=True)
    found = _decoded(attribute, np.zeros(10_000, dtype=np.uint8))["x"].value_counts()
    assert sorted(found.index) == [1, 2, 4, 5, 6]
    assert found.min() > 1850


# --- values of every type -----------------------------------------------------------------------------------


def failing(*_: object, **__: object) -> Any:
    raise RuntimeError("a record's own code was run")


class FailingType(type):
    """A class of classes that fails wherever it is asked."""

    __repr__ = __eq__ = __hash__ = __getattribute__ = failing


def hostile(*bases: type) -> type:
    """Return a class whose every method fails."""
    names = (
        "repr str eq ne hash lt gt le ge bool len iter index int float add radd contains format getattribute"
    )
    return type("Hostile", bases, {f"__{name}__": failing for name in names.split()})


class Failing(metaclass=FailingType):
    """An object whose class fails, and who says that it is a number."""

    __class__ = property(lambda _: int)
    __eq__ = __hash__ = __str__ = __getattribute__ = failing


def junk(*_: object) -> Any:
    return np.array([1, 2])


class Junk:
    """An object whose methods return what they must not, and who says that it is a number."""

    __class__ = float  # type: ignore[assignment]
    __str__ = __repr__ = __int__ = __float__ = __eq__ = __hash__ = __bool__ = __len__ = junk


class Whole(enum.IntEnum):
    """Whole numbers with names."""

    THREE = 3


class Word(enum.StrEnum):
    """Texts with names."""

    X = "x"


class Colour(enum.Enum):
    """Names alone."""

    X = "x"


class Zone(dt.tzinfo):
    """A zone that fails."""

    utcoffset = dst = tzname = failing


def numpy_one(value: object, kind: str) -> Any:
    return np.array([value]).astype(kind)[0]


def bits(value: int, kind: str) -> Any:
    width = int(kind[1]) if kind[0] == "f" else 8
    with warnings.catch_warnings(action="ignore"):  # durations without a unit are to vanish from numpy
        return np.array([value], dtype=f"u{width}").view(kind)[0]


UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
BOUNDS = (2**63 - 1, 1 - 2**63, 10**16)
MISSING: list[object] = [
    None, "", math.nan, pd.NaT, pd.NA, Decimal("NaN"), bits(2**63, "M8"), bits(2**63, "m8"),
    np.float16("nan"), np.float32("nan"), np.longdouble("nan"), hostile(str)(""), hostile(float)("nan"),
    bits(0x7C01, "f2"), bits(0x7F800001, "f4"), bits((0x7FF << 52) + 1, "f8"),
    *(bits(2**63, f"m8[{unit}]") for unit in UNITS), *(bits(2**63, f"M8[{unit}]") for unit in UNITS),
]  # fmt: skip
# Values that stand for 3, and for the text x.
THREE: list[object] = [
    3, 3.0, "3", " 3", "03", "3e0", Whole.THREE, Decimal(3), Decimal("3.00"), Fraction(3), np.str_("3"),
    hostile(int)(3), hostile(float)(3), hostile(str)("3"),
    *(numpy_one(3, kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g")),
]  # fmt: skip
X: list[object] = ["x", Word.X, np.str_("x"), hostile(str)("x")]
OTHERS: list[object] = [
    math.inf, -math.inf, np.float16("inf"), np.longdouble("inf"), np.longdouble("1e4000"), "1e999",
    True, False, np.True_, np.False_, 10**5000, -(10**5000), hostile(int)(10**5000), "9" * 5000,
    Decimal("1e999999"), Decimal("-Infinity"), Decimal("sNaN"), Decimal("7" * 5000), Fraction(1, 3),
    Fraction(10**4300, 7), Fraction(7, 10**4300), Fraction(10**5000), 1j, complex("nan"), np.complex64(3),
    np.clongdouble(3), b"3", b"\xff", bytearray(b"3"), memoryview(b"3"), np.bytes_(b"3"), np.void(b"3"),
    (3,), [3], {3}, frozenset({3}), {3: 3}, [[3], {"a": [3]}], range(3), np.array(3), np.array([3, 4]),
    pd.Series([3]), pd.DataFrame({"a": [3]}), pd.Index([3]), slice(3), ..., NotImplemented, int, failing, sys,
    Colour.X, Path("x"), object(), Failing(), Failing, Junk(), hostile(object)(), hostile(list)(),
    hostile(Decimal)(3),
    hostile(dt.datetime)(2020, 1, 1), hostile(dict)(), Exception("x"),
    dt.date(2020, 1, 1), dt.date.max, dt.datetime.min, dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=ZoneInfo("America/New_York")), dt.datetime(2020, 1, 1, tzinfo=Zone()),
    dt.time(1, 2), dt.time(1, 2, tzinfo=Zone()), dt.timedelta.max, UUID(int=3),
    pd.Timestamp("2020-01-01"), pd.Timestamp.max, pd.Timestamp("2020-01-01", tz="Europe/Berlin"),
    pd.Timestamp(numpy_one(10**16, "M8[s]")), pd.Timedelta.min, pd.Interval(0, 3), pd.offsets.Day(3),
    pd.Period("2020-01", freq="M"), pd.Period(ordinal=2**62, freq="D"), pd.Interval(0.0, math.inf),
    bits(5, "m8"), *(bits(abs(bound), f"m8[{unit}]") for unit in UNITS for bound in BOUNDS),
    *(bits(abs(bound), f"M8[{unit}]") for unit in UNITS for bound in BOUNDS),
    "0x10", "1_000", "\u0663", "3\x00", "\x00", "\ud800", "\udcff3", "3\n", "NaN", "None", "nan", "inf",
]  # fmt: skip
KINDS: list[Attribute] = [
    IntegerAttribute("a", 0, 5),
    NumericAttribute("a", (0, 1, 2, 3, 4, 5)),
    CategoricalAttribute("a", ("w", "v", "u", 3, "x")),
]


@pytest.fixture(params=KINDS, ids=lambda kind: type(kind).__name__)
def attribute(request: pytest.FixtureRequest) -> Any:
    """Return an attribute of each kind, with a cell for every value."""
    return replace(request.param, missing=True, other=True)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_each_value_of_each_type_has_a_cell_or_drops_its_record(
    attribute: Attribute, missing: bool, other: bool
) -> None:
    attribute = replace(attribute, missing=missing, other=other)
    own = values_of(attribute)
    empty = -1 if attribute.missing_code is None else attribute.missing_code
    outside = -1 if attribute.other_code is None else attribute.other_code
    categorical = isinstance(attribute, CategoricalAttribute)
    # Numbers beyond the ends; times that are written as years.
    clipped = {outside} if categorical else {0, attribute.base_size - 1, outside}
    expected = [(MISSING, {empty}), (THREE, {3}), (X, {4 if categorical else outside}), (OTHERS, clipped)]
    for values, cells in expected:
        for place, value in enumerate(values):
            assert own.encode(value) in cells, place
    for value in OTHERS:
        own.reading(value)
        assert plain_value(value) is UNREADABLE or type(plain_value(value)) in (str, int, float, bool)


def test_a_message_names_the_type_of_a_value_and_shows_nothing_else() -> None:
    things: list[object] = [3, None, dt.datetime(2020, 1, 1), np.zeros(1)]
    names = ["int", "NoneType", "datetime.datetime", "numpy.ndarray"]
    assert [type_name(thing) for thing in things] == names
    assert type_name(Failing()).endswith(".Failing")
    assert type_name(type("Odd", (), {"__module__": 3})()) == "Odd"
    assert shown_text(hostile(int)(7)) == f"a {__name__}.Hostile"
    assert shown_text(hostile(str)("x" * 10**6)).startswith("'xxx")
    assert len(shown_text("x" * 10**6)) < 100


EXTREME: dict[str, pd.Series[Any]] = {
    "signalling doubles": pd.Series(np.array([(0x7FF << 52) + 1, 0], dtype="u8").view("f8")),
    "signalling floats": pd.Series(np.array([0x7F800001, 0], dtype="u4").view("f4")),
    "signalling halves": pd.Series(np.array([0x7C01, 0], dtype="u2").view("f2")),
    "halves": pd.Series(np.array([np.inf, 3], dtype="f2")),
    "long doubles": pd.Series(np.array([np.longdouble("1e4000"), np.longdouble("nan"), 3], dtype="g")),
    "complex": pd.Series([3 + 0j, complex("nan")]),
    "unsigned": pd.Series(np.array([2**64 - 1, 3], dtype="u8")),
    **{
        f"{kind}[{unit}]": pd.Series(np.array([*BOUNDS, -(2**63), 0]).astype(f"{kind}[{unit}]"))
        for kind in ("M8", "m8")
        for unit in ("s", "ms", "us", "ns")
    },
    "zoned": pd.Series(np.array([*BOUNDS, 0]).astype("M8[s]")).dt.tz_localize("UTC"),
    "zoned at the end of all times": pd.Series(
        np.array([2**63 - 1, 1 - 2**63, 0], dtype="M8[ns]"), dtype="datetime64[ns, UTC]"
    ).dt.tz_convert("Europe/Berlin"),
    "periods": pd.Series([pd.Period(ordinal=bound, freq="D") for bound in BOUNDS]),
    "intervals": pd.Series(pd.cut([1, 2, 3], [0, 1, 5])),
    "sparse": pd.Series(pd.arrays.SparseArray([3.0, np.nan])),
    "hostile texts": pd.Series([hostile(str)("3"), "x", None], dtype="string"),
}


@pytest.mark.parametrize("name", EXTREME)
def test_a_column_of_extreme_values_is_read_value_by_value(name: str, attribute: Attribute) -> None:
    column = EXTREME[name]

    def codes(some: pd.Series[Any]) -> list[int]:
        (found,) = encode_columns(frame_columns(pd.DataFrame({"a": some}), "a"), Domain((attribute,)))
        return [int(code) for code in found]

    one_by_one = [code for row in range(len(column)) for code in codes(column.iloc[[row]])]
    assert codes(column) == one_by_one
    assert min(one_by_one) >= 0


# --- readings ----------------------------------------------------------------------------------------------


AGE = IntegerAttribute("age", 10, 19)
INCOME = NumericAttribute("income", (0, 10, 20.5))
SEX = CategoricalAttribute("sex", ("f", 3, True))


READINGS: list[tuple[Attribute, Reading, list[object]]] = [
    (AGE, Reading.EMPTY, [None, math.nan]), (AGE, Reading.DECLARED, ["12", 12.0, "10", "19"]),
    (AGE, Reading.LOW, ["9"]), (AGE, Reading.HIGH, [20, "1e9"]),
    (AGE, Reading.FRACTION, ["12.5", Decimal("99.5")]),
    (AGE, Reading.NO_NUMBER, ["twelve", math.inf, True, date(2020, 1, 2)]),
    (INCOME, Reading.EMPTY, ["", pd.NA]), (INCOME, Reading.DECLARED, ["20.5"]),
    (INCOME, Reading.LOW, [-1e-9]), (INCOME, Reading.HIGH, [np.float32(21)]),
    (INCOME, Reading.NO_NUMBER, ["1,000"]), (SEX, Reading.EMPTY, [pd.NaT]),
    (SEX, Reading.DECLARED, ["f", "3.0", "TRUE"]), (SEX, Reading.UNDECLARED, ["F", 4]),
]  # fmt: skip


def test_what_a_value_is() -> None:
    for attribute, reading, values in READINGS:
        assert [values_of(attribute).reading(value) for value in values] == [reading] * len(values)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.text(max_size=5),
    st.text("0123456789+-.eE \t", max_size=6),
    st.sampled_from(["f", "3", "03", "true", "True", "10", "19", "20.5", "nan", "inf"]),
)


@given(VALUES, st.sampled_from([AGE, INCOME, SEX]), st.booleans(), st.booleans())
def test_a_reading_agrees_with_the_cell(
    value: object, attribute: Attribute, missing: bool, other: bool
) -> None:
    declared: Attribute = replace(attribute, missing=missing, other=other)
    code = values_of(declared).encode(value)
    reading = values_of(declared).reading(value)
    if reading is Reading.EMPTY:
        assert code == (declared.missing_code if missing else DROPPED)
    elif reading in (Reading.FRACTION, Reading.NO_NUMBER, Reading.UNDECLARED):
        assert code == (declared.other_code if other else DROPPED)
    else:
        assert 0 <= code < declared.base_size
    if reading is Reading.LOW:
        assert code == 0
    if reading is Reading.HIGH:
        assert code == declared.base_size - 1
