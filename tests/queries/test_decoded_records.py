"""Decoded records: a table drawn for given cells falls into these cells again."""

from __future__ import annotations

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
    Domain,
    IntegerAttribute,
    NumericAttribute,
    decode_records,
    encode_records,
)
from queries.records import decode_batches


def _decoded(attribute: Attribute, codes: NDArray[np.uint8], seed: int = 0) -> pd.DataFrame:
    return decode_records(CodedRecords(Domain((attribute,)), (codes,)), np.random.default_rng(seed))


def _codes(attribute: Attribute, frame: pd.DataFrame) -> list[int]:
    return [int(code) for code in encode_records(frame, Domain((attribute,))).columns[0]]


@given(data=st.data(), seed=st.integers(0, 2**32))
def test_decoded_records_encode_to_the_same_cells(
    data: st.DataObject, small_domains: st.SearchStrategy[Domain], seed: int
) -> None:
    domain = data.draw(small_domains)
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
    assert _codes(attribute, frame) == codes.tolist()


@pytest.mark.parametrize("values", [(1, 2), (1, "1.0"), (2**53 + 1, 2**53), (True, False), (True, 0)])
def test_declared_values_come_back_as_they_were_declared(values: tuple[int | str, ...]) -> None:
    attribute = CategoricalAttribute("a", values, missing=True)
    codes = np.array([0, 2], dtype=np.uint8)
    frame = _decoded(attribute, codes)
    assert str(frame["a"].iloc[0]) == str(values[0])
    assert _codes(attribute, frame) == [0, 2]


def test_whole_numbers_of_a_wide_cell_are_drawn_from_all_of_it() -> None:
    attribute = IntegerAttribute("a", 0, 24, 10)
    codes = np.repeat(np.array([0, 1, 2], dtype=np.uint8), 300)
    frame = _decoded(attribute, codes)
    assert [set(frame["a"][codes == cell]) for cell in range(3)] == [
        set(range(10)),
        set(range(10, 20)),
        set(range(20, 25)),
    ]
    assert frame["a"].dtype == np.int64


def test_the_same_generator_decodes_the_same_table(people: Domain) -> None:
    records = CodedRecords(people, tuple(np.zeros(50, dtype=np.uint8) for _ in people))
    frames = [decode_records(records, np.random.default_rng(7)) for _ in range(2)]
    pd.testing.assert_frame_equal(frames[0], frames[1])


EVERY_KIND = (
    IntegerAttribute("single", 0, 9),
    IntegerAttribute("wide", 0, 1000, 100, missing=True),
    IntegerAttribute("atoms", -5, 5000, 500, missing=True, other=True),
    NumericAttribute("real", (0, 1, 2.5), missing=True),
    NumericAttribute("large", (0, 1e6, 2e9), other=True),
    CategoricalAttribute("truth", (True, False)),
    CategoricalAttribute("mixed", (1, "x"), missing=True),
    IntegerAttribute("last", 0, 99, 7),
)


@pytest.mark.parametrize("size", [1, 7, 100, 101, 1000])
def test_batches_hold_the_rows_of_the_whole_table(size: int) -> None:
    draw = np.random.default_rng(3)
    codes = tuple(draw.integers(0, one.size, 101).astype(np.uint8) for one in EVERY_KIND)
    records = CodedRecords(Domain(EVERY_KIND), codes)
    whole = decode_records(records, np.random.default_rng(7))
    batches = list(decode_batches(records, np.random.default_rng(7), size))
    assert [len(batch) for batch in batches] == [size] * (101 // size) + ([101 % size] if 101 % size else [])
    assert pd.concat(batches).astype(str).to_numpy().tolist() == whole.astype(str).to_numpy().tolist()


def test_batches_of_no_rows_are_one_table_without_rows() -> None:
    records = CodedRecords(Domain(EVERY_KIND), tuple(np.zeros(0, dtype=np.uint8) for _ in EVERY_KIND))
    (batch,) = decode_batches(records, np.random.default_rng(7), 10)
    assert list(batch.columns) == [one.name for one in EVERY_KIND]
    assert len(batch) == 0


@pytest.mark.parametrize(
    ("attribute", "texts"),
    [
        (IntegerAttribute("a", 8, 9, missing=True, other=True), ["8", "9", "None", "(other)"]),
        (CategoricalAttribute("a", ("x", 3, True), other=True), ["x", "3", "True", "(other)"]),
        (CategoricalAttribute("a", ("x", "y"), missing=True), ["x", "y", ""]),
    ],
)
def test_special_cells_come_back_as_an_empty_value_and_a_word(attribute: Attribute, texts: list[str]) -> None:
    column = _decoded(attribute, np.arange(attribute.size, dtype=np.uint8))["a"]
    empty = column.isna().tolist()
    assert [index for index, flag in enumerate(empty) if flag] == (
        [] if attribute.missing_code is None else [attribute.missing_code]
    )
    shown = [str(value) for value, flag in zip(column, empty, strict=True) if not flag]
    assert shown == [text for text, flag in zip(texts, empty, strict=True) if not flag]


def test_values_beyond_64_bits_come_back() -> None:
    column = _decoded(
        CategoricalAttribute("a", (3, 2**63), missing=True), np.array([0, 1, 2], dtype=np.uint8)
    )
    assert column["a"].tolist() == [3, 2**63, None]


def test_drawn_numbers_are_rounded_to_a_thousandth_of_their_cell() -> None:
    attribute = NumericAttribute("a", (0, 10, 20))
    drawn = _decoded(attribute, np.repeat(np.array([0, 1], dtype=np.uint8), 200))["a"]
    assert all(len(repr(float(value)).split(".")[1]) <= 2 for value in drawn)
    assert len(set(drawn)) > 300


def test_rounding_never_leaves_the_cell() -> None:
    attribute = NumericAttribute("a", (0, 0.00049, 1))
    drawn = _decoded(attribute, np.full(20_000, 1, dtype=np.uint8))
    assert float(drawn["a"].min()) >= 0.00049
    assert set(_codes(attribute, drawn)) == {1}
