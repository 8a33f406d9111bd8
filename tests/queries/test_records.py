"""Records and codes: each value has one cell, in whatever column and beside whatever records it stands."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeAlias

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
    parse_where,
    parse_workload,
)
from queries.records import decode_batches, encode_columns, encode_places, frame_columns, time_texts
from queries.values import Reading, values_of
from tests.queries.meaning import DOMAINS

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


def test_texts_have_the_places_of_their_numbers() -> None:
    price = NumericAttribute("a", (0, 1, 3), resolution=0.1)
    texts = ["0.3", " 2.95 ", "1e0", "-7", "1e999", "nan", "inf", "", "x", "9" * 5000, "0x1", "+3", "1,5"]
    (places,) = encode_places(frame_columns(pd.DataFrame({"a": texts}), "a"), Domain((price,)))
    (grid,) = Domain((price,)).grids
    other, empty = grid.other_code, grid.missing_code
    assert places.tolist() == [2, 29, 10, 0, other, other, other, empty, other, other, other, 30, other]


@given(st.lists(st.tuples(WHOLE | st.none(), TEXTS | st.none(), REALS), max_size=12), st.booleans())
def test_a_record_is_dropped_or_kept_whole(rows: list[tuple[Any, ...]], missing: bool) -> None:
    domain = Domain(
        (
            IntegerAttribute("n", 0, 5, missing=missing),
            CategoricalAttribute("c", ("x", 1), other=True),
            NumericAttribute("r", (0, 1, 2)),
        )
    )
    frame = pd.DataFrame(rows, columns=["n", "c", "r"], dtype=object)
    expected = [
        codes
        for row in rows
        if min(codes := [values_of(a).encode(value) for a, value in zip(domain, row, strict=True)]) >= 0
    ]
    records = encode_records(frame, domain)
    found = [[int(column[row]) for column in records.columns] for row in range(len(records))]
    assert found == expected


@given(st.lists(WHOLE | st.none()) | st.lists(REALS) | st.lists(TEXTS | st.none()), FLAGGED)
def test_a_table_written_as_text_gives_the_same_cells(values: list[Any], attribute: Attribute) -> None:
    in_memory = pd.Series(values, dtype=object)
    written = pd.Series(["" if value is None else str(value) for value in values], dtype="string")
    assert _codes(attribute, in_memory) == _codes(attribute, written)


def test_the_cells_of_columns_tell_which_records_are_dropped() -> None:
    domain = Domain((IntegerAttribute("n", 0, 5), CategoricalAttribute("c", ("x",), missing=True)))
    frame = pd.DataFrame({"n": [1.0, 2.5, 9.0], "c": ["x", None, "y"]})
    assert [column.tolist() for column in encode_columns(frame_columns(frame, domain.names), domain)] == [
        [1, -1, 5],
        [0, 1, -1],
    ]
    assert len(encode_records(frame, domain)) == 1


@pytest.mark.parametrize("declared", [("TRUE", "FALSE"), ("True", "False"), ("true", "false"), (True, False)])
@pytest.mark.parametrize("written", ["True", "true", "TRUE"])
def test_a_boolean_and_its_text_have_one_cell(declared: tuple[str | bool, str | bool], written: str) -> None:
    attribute = CategoricalAttribute("a", declared)
    assert values_of(attribute).encode(True) == values_of(attribute).encode(written) == 0


def test_a_declared_boolean_is_found_before_a_text_that_reads_like_it() -> None:
    attribute = CategoricalAttribute("a", ("TRUE", True))
    values = values_of(attribute)
    assert values.encode(True) == values.encode("true") == values.encode("True") == 1
    assert values.encode("TRUE") == 0


# Values of two attributes by the cell that was worked by hand; test_plain_values.py has other types.
BY_HAND: dict[str, dict[int, list[object]]] = {
    "age": {
        13: [30, 30.0, "30", " +30.0\t", "3e1"], 0: [17, -5], 73: [1000, 10**30], 74: ["", None, math.nan],
        -1: ["30.5", 30.5, "thirty", "30 years", "9" * 401],
    },
    "income": {  # a number on an edge belongs to the cell above
        0: [-1, 0, 9_999.99],
        1: [10_000, "1e4"],
        2: [49_999, 50_000, 1e300],
        -1: ["x"],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_values_have_the_cells_worked_by_hand(people: Domain, name: str) -> None:
    for cell, values in BY_HAND[name].items():
        assert [values_of(people[name]).encode(one) for one in values] == [cell] * len(values), cell


def test_a_category_is_matched_by_its_text_or_its_number() -> None:
    number = values_of(CategoricalAttribute("a", (3, "x"), other=True))
    text = values_of(CategoricalAttribute("a", ("3", "x"), other=True))
    for value in ("3", 3, 3.0):
        assert (number.encode(value), text.encode(value)) == (0, 0)
    for value in ("3.0", " 3", "03"):
        assert (number.encode(value), text.encode(value)) == (0, 2)
    for value, cell in (("x", 1), ("X", 2), (" x", 2), (True, 2)):
        assert (number.encode(value), text.encode(value)) == (cell, cell)


EQUAL_BUT_UNLIKE: list[tuple[object, object]] = [
    (Decimal("1.0"), Decimal("1.00")), ((1,), (True,)),
    (datetime(2020, 1, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))),
    (True, 1), (1, 1.0), (np.int64(1), np.float64(1)), (0.0, -0.0),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), EQUAL_BUT_UNLIKE)
def test_values_that_are_equal_but_written_otherwise_are_kept_apart(first: object, second: object) -> None:
    texts = {str(first): None, str(second): None}
    attribute = CategoricalAttribute("a", tuple(texts), other=True)
    alone = [*_codes(attribute, _objects(first)), *_codes(attribute, _objects(second))]
    assert _codes(attribute, _objects(first, second)) == alone
    assert _codes(attribute, _objects(second, first)) == alone[::-1]


def _objects(*values: object) -> Column:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return pd.Series(array)


def test_other_columns_and_the_order_of_columns_do_not_matter() -> None:
    domain = Domain((IntegerAttribute("n", 0, 9), CategoricalAttribute("c", ("x", "y"))))
    frame = pd.DataFrame({"junk": [object(), 3, None], "c": ["x", "y", "x"], "n": [1, 2, 3]})
    records = encode_records(frame, domain)
    assert [column.tolist() for column in records.columns] == [[1, 2, 3], [0, 1, 0]]
    assert len(records) == 3


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)],
)
def test_codes_are_held_in_as_few_bytes_as_fit(size: int, dtype: type[np.generic]) -> None:
    domain = Domain((IntegerAttribute("n", 0, size - 1),))
    records = encode_records(pd.DataFrame({"n": [0, size - 1]}), domain)
    assert records.columns[0].dtype == dtype
    assert records.columns[0].tolist() == [0, size - 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["age"], r"^expected one column 'n' in the table, got no such column among 1$"),
        (["m", "N"], r"got no such column among 2$"),
        (["n", "n"], r"^expected one column 'n' in the table, got it twice$"),
        ([], r"got no such column among 0$"),
        ([0, 1], r"got no such column among 2$"),
        (["secret", ("n",)], r"got no such column among 2$"),  # a header that is a person's record
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


# --- an empty value elsewhere -------------------------------------------------------------------------------

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


# --- decoded records ----------------------------------------------------------------------------------------


def _decoded(attribute: Attribute, codes: NDArray[np.uint8], seed: int = 0) -> pd.DataFrame:
    return decode_records(CodedRecords(Domain((attribute,)), (codes,)), np.random.default_rng(seed))


def _encoded(attribute: Attribute, frame: pd.DataFrame) -> list[int]:
    return [int(code) for code in encode_records(frame, Domain((attribute,))).columns[0]]


@given(data=st.data(), domain=DOMAINS, seed=st.integers(0, 2**32))
def test_decoded_records_encode_to_the_same_cells(data: st.DataObject, domain: Domain, seed: int) -> None:
    length = data.draw(st.integers(0, 20))
    columns = [
        np.array(data.draw(st.lists(st.integers(0, a.size - 1), min_size=length, max_size=length)), np.uint8)
        for a in domain
    ]
    frame = decode_records(CodedRecords(domain, tuple(columns)), np.random.default_rng(seed))
    assert list(frame.columns) == list(domain.names)
    again = encode_records(frame, domain)
    for before, after in zip(columns, again.columns, strict=True):
        np.testing.assert_array_equal(before, after)


EDGES = st.lists(
    st.floats(-1e300, 1e300) | st.floats(-1, 1) | st.integers(-100, 100).map(float),
    min_size=2,
    max_size=6,
    unique=True,
)


@given(EDGES, st.booleans(), st.booleans(), st.integers(0, 2**32))
def test_a_drawn_number_lies_in_its_cell(edges: list[float], missing: bool, other: bool, seed: int) -> None:
    attribute = NumericAttribute("a", tuple(sorted(edges)), missing=missing, other=other)
    codes = np.repeat(np.arange(attribute.size), 5).astype(np.uint8)
    frame = _decoded(attribute, codes, seed)
    assert _encoded(attribute, frame) == codes.tolist()


@pytest.mark.parametrize(
    "values", [(1, 2), (1, "1.0"), (2**53 + 1, 2**53), (3, 2**63), (True, False), (True, 0)]
)
def test_declared_values_come_back_as_they_were_declared(values: tuple[int | str, ...]) -> None:
    attribute = CategoricalAttribute("a", values, missing=True)
    frame = _decoded(attribute, np.arange(3, dtype=np.uint8))
    assert list(map(str, frame["a"].iloc[:2])) == list(map(str, values))
    assert _encoded(attribute, frame) == [0, 1, 2]


def test_whole_numbers_of_a_wide_cell_are_drawn_from_all_of_it() -> None:
    codes = np.repeat(np.array([0, 1, 2], dtype=np.uint8), 300)
    drawn = _decoded(IntegerAttribute("a", 0, 24, 10), codes)["a"]
    assert [set(drawn[codes == cell]) for cell in range(3)] == [
        set(range(start, min(start + 10, 25))) for start in (0, 10, 20)
    ]
    assert drawn.dtype == np.int64


EVERY_KIND = (
    IntegerAttribute("single", 0, 9), IntegerAttribute("wide", 0, 1000, 100, missing=True),
    IntegerAttribute("atoms", -5, 5000, 500, missing=True, other=True),
    NumericAttribute("real", (0, 1, 2.5), missing=True),
    NumericAttribute("large", (0, 1e6, 2e9), other=True), CategoricalAttribute("truth", (True, False)),
    CategoricalAttribute("mixed", (1, "x"), missing=True), IntegerAttribute("last", 0, 99, 7),
)  # fmt: skip


@pytest.mark.parametrize(("rows", "size"), [(0, 10), (101, 1), (101, 7), (101, 100), (101, 101), (101, 1000)])
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


@pytest.mark.parametrize(
    ("attribute", "texts"),
    [
        (IntegerAttribute("a", 8, 9, missing=True, other=True), ["8", "9", None, "(other)"]),
        (CategoricalAttribute("a", ("x", 3, True), other=True), ["x", "3", "True", "(other)"]),
        (CategoricalAttribute("a", ("x", "y"), missing=True), ["x", "y", None]),
        (CategoricalAttribute("a", (1, 2), missing=True, other=True), ["1", "2", None, "(other)"]),
    ],
)
def test_special_cells_come_back_as_an_empty_value_and_a_word(
    attribute: Attribute, texts: list[str | None]
) -> None:
    column = _decoded(attribute, np.arange(attribute.size, dtype=np.uint8))["a"]
    empty = zip(column, column.isna(), strict=True)
    assert [None if flag else str(value) for value, flag in empty] == texts


def test_drawn_numbers_are_rounded_to_a_thousandth_of_their_cell_and_stay_in_it() -> None:
    codes = np.repeat(np.array([0, 1], dtype=np.uint8), 200)
    drawn = _decoded(NumericAttribute("a", (0, 10, 20)), codes)["a"]
    assert all(len(repr(float(value)).split(".")[1]) <= 2 for value in drawn)
    assert len(set(drawn)) > 300
    narrow = NumericAttribute("a", (0, 0.1000001, 0.2))
    assert set(_encoded(narrow, _decoded(narrow, np.full(20_000, 1, dtype=np.uint8)))) == {1}


# --- numbers with a cell of their own -----------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("where", "cells"),
    [
        ("gain = 0", [3]), ("gain > 0", [0, 1, 2, 4]), ("gain >= 1", [0, 1, 2, 4]),
        ("gain <> 0", [0, 1, 2, 4]),
        ("gain < 5000", [0, 3]), ("gain <= 4999", [0, 3]), ("gain BETWEEN 1 AND 4999", [0]),
        ("gain >= 10000", [2, 4]), ("gain < 99999", [0, 1, 2, 3]), ("gain IN (0, 99999)", [3, 4]),
        ("gain = '(other)'", [5]), ("rate = 0.5", [2]), ("rate > 0.5", [1]), ("rate >= 0.5", [1, 2]),
        ("rate < 0.5", [0]), ("rate <= 0.5", [0, 2]), ("NOT rate = 0.5", [0, 1]), ("rate IS NULL", [3]),
    ],
)  # fmt: skip
def test_a_comparison_at_an_atom_is_aligned(where: str, cells: list[int]) -> None:
    query = parse_where(where, DOMAIN)
    assert query.aligned
    assert np.flatnonzero(query.weights()).tolist() == cells


def test_shares_are_of_the_values_that_have_no_cell_of_their_own() -> None:
    domain = Domain((NumericAttribute("x", (0, 4), atoms=(0, 2), integer=True),))  # 1, 3 and 4 are left
    assert (parse_where("x < 3", domain).weights() * 3 / 2**20).round(3).tolist() == [1, 3, 3]


def test_prefixes_and_ranges_hold_the_atoms_between_their_ends() -> None:
    prefixes = [np.flatnonzero(query.weights()).tolist() for query in parse_workload("prefixes:gain", DOMAIN)]
    assert prefixes == [[0, 3], [0, 1, 3], [0, 1, 2, 3, 4]]
    ranges = [np.flatnonzero(query.weights()).tolist() for query in parse_workload("ranges:gain", DOMAIN)]
    assert ranges[3:5] == [[1], [1, 2, 4]]


@given(
    edges=st.sets(st.integers(-20, 20), min_size=2, max_size=5),
    atoms=st.sets(st.integers(-20, 20), max_size=6),
    integer=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_drawn_values_lie_in_their_cells_and_are_atoms_only_there(
    edges: set[int], atoms: set[int], integer: bool, seed: int
) -> None:
    inside = tuple(atom for atom in atoms if min(edges) <= atom <= max(edges))
    full = integer and any(
        all(number in inside for number in range(low, high + (high == max(edges))))
        for low, high in zip(sorted(edges), sorted(edges)[1:], strict=False)
    )
    chosen = () if full else inside
    attribute = NumericAttribute("x", tuple(sorted(edges)), atoms=chosen, integer=integer, missing=True)
    domain = Domain((attribute,))
    assert parse_schema(format_schema(domain)) == domain
    codes = np.arange(200, dtype=np.uint8) % attribute.size
    frame = decode_records(CodedRecords(domain, (codes,)), np.random.default_rng(seed))
    assert encode_records(frame, domain).columns[0].tolist() == codes.tolist()
    assert str(frame["x"].dtype) == ("Int64" if integer else "float64")


def test_every_whole_number_of_a_cell_is_drawn_about_as_often() -> None:
    attribute = NumericAttribute("x", (0, 6), atoms=(0, 3), integer=True)
    codes = np.zeros(10_000, dtype=np.uint8)
    frame = decode_records(CodedRecords(Domain((attribute,)), (codes,)), np.random.default_rng(1))
    found = frame["x"].value_counts()
    assert sorted(found.index) == [1, 2, 4, 5, 6]
    assert found.min() > 1850


def test_columns_of_every_type_have_the_cells_of_their_values() -> None:
    numbers = [0, -4, 3, 99_999, 2**40, 5000]
    expected = [values_of(GAIN).encode(number) for number in numbers]
    for kind in ("int64", "float64", "Int64", "object", "str"):
        frame = pd.DataFrame({"gain": pd.Series(numbers).astype(kind), "rate": 0.1})
        assert encode_records(frame, DOMAIN).columns[0].tolist() == expected


@pytest.mark.parametrize("unit", ["D", "s"])
def test_no_days_and_empty_ones_have_no_texts(unit: str) -> None:
    assert list(time_texts(pd.Series([], dtype="M8[s]"), unit)) == []
    assert time_texts(pd.Series([None, None], dtype="M8[s]"), unit).isna().all()
