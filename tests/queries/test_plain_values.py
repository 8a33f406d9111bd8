"""Plain values: each value of each type lands in a cell or drops its record, and none fails or warns."""

from __future__ import annotations

import datetime
import datetime as dt
import enum
import math
import sys
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.plain_values import UNREADABLE, plain_value, type_name
from queries.records import encode_columns, frame_columns
from queries.values import DROPPED, Reading, values_of


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


def test_a_column_of_all_types_is_read_value_by_value(attribute: Attribute) -> None:
    values = [*MISSING, *THREE, *X, *OTHERS, *OTHERS, *X, *THREE, *MISSING]
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    (codes,) = encode_columns(frame_columns(pd.DataFrame({"a": column}), "a"), Domain((attribute,)))
    assert codes.tolist() == [values_of(attribute).encode(value) for value in values]


COLUMNS: dict[str, pd.Series[Any]] = {
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


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_extreme_values_is_read_value_by_value(name: str, attribute: Attribute) -> None:
    column = COLUMNS[name]

    def codes(some: pd.Series[Any]) -> list[int]:
        (found,) = encode_columns(frame_columns(pd.DataFrame({"a": some}), "a"), Domain((attribute,)))
        return [int(code) for code in found]

    one_by_one = [code for row in range(len(column)) for code in codes(column.iloc[[row]])]
    assert codes(column) == one_by_one
    assert min(one_by_one) >= 0


def test_the_name_of_a_type_is_full_and_shows_nothing_else() -> None:
    things: list[object] = [3, None, [], dt.datetime(2020, 1, 1)]
    assert [type_name(thing) for thing in things] == [
        "int", "NoneType", "list", "datetime.datetime",
    ]  # fmt: skip
    assert type_name(np.zeros(1)) == "numpy.ndarray"
    assert type_name(Failing()).endswith(".Failing")
    assert type_name(type("Odd", (), {"__module__": 3})()) == "Odd"


# --- readings -----------------------------------------------------------------------------------------------


AGE = IntegerAttribute("age", 10, 19)
INCOME = NumericAttribute("income", (0, 10, 20.5))
SEX = CategoricalAttribute("sex", ("f", 3, True))


@pytest.mark.parametrize(
    ("attribute", "reading", "values"),
    [
        (AGE, Reading.EMPTY, [None, math.nan]), (AGE, Reading.DECLARED, ["12", 12.0, "10", "19"]),
        (AGE, Reading.LOW, ["9"]), (AGE, Reading.HIGH, [20, "1e9"]),
        (AGE, Reading.FRACTION, ["12.5", Decimal("99.5")]),
        (AGE, Reading.NO_NUMBER, ["twelve", math.inf, True, datetime.date(2020, 1, 2)]),
        (INCOME, Reading.EMPTY, ["", pd.NA]), (INCOME, Reading.DECLARED, ["20.5"]),
        (INCOME, Reading.LOW, [-1e-9]), (INCOME, Reading.HIGH, [np.float32(21)]),
        (INCOME, Reading.NO_NUMBER, ["1,000"]), (SEX, Reading.EMPTY, [pd.NaT]),
        (SEX, Reading.DECLARED, ["f", "3.0", "TRUE"]), (SEX, Reading.UNDECLARED, ["F", 4]),
    ],
)  # fmt: skip
def test_what_a_value_is(attribute: Attribute, reading: Reading, values: list[object]) -> None:
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
