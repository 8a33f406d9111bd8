"""Atoms: numbers that have a cell of their own, and attributes of whole numbers between edges."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    CodedRecords,
    Domain,
    NumericAttribute,
    SchemaError,
    decode_records,
    encode_records,
    format_schema,
    parse_schema,
    parse_where,
    parse_workload,
)
from queries.values import Reading, values_of

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


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("edges = [0, 5]\natoms = [6]", "atoms must lie between the edges 0 and 5, got 6"),
        ("edges = [0, 5]\natoms = [1, 1.0]", "atoms must differ, got 1 more than once"),
        ("edges = [0, 5]\natoms = [0, -0.0]", "atoms must differ, got 0 more than once"),
        ("edges = [0, 5]\natoms = 0", "atoms must be a list, got 0"),
        ("edges = [0, 5]\natoms = [nan]", "atoms must be finite numbers, got nan"),
        ("edges = [0, 5]\natoms = ['0']", "atoms must be finite numbers, got '0'"),
        (
            "edges = [0, 5]\natoms = [0.5]\ninteger = true",
            "atoms must be whole where integer = true, got 0.5",
        ),
        ("edges = [0, 0.5]\ninteger = true", "edges must be whole where integer = true, got 0.5"),
        ("edges = [0, 5]\ninteger = 1", "integer must be true or false, got 1"),
        ("edges = [0, 1, 5]\natoms = [0]\ninteger = true", "the cell from 0 to 0 holds atoms alone"),
    ],
)
def test_atoms_that_cannot_be_declared_are_refused(lines: str, message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_schema(f"[[attributes]]\nname = 'x'\nkind = 'numeric'\n{lines}")
    assert message in str(refused.value)
