"""Attributes and domains: their cells, labels and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    Histogram,
    IntegerAttribute,
    Marginal,
    NumericAttribute,
    ScopeError,
)
from queries.cells import cell_count
from tests.queries.meaning import histograms


@pytest.mark.parametrize(
    ("attribute", "labels"),
    [
        (IntegerAttribute("a", 8, 9, missing=True, other=True), ["8", "9", "(missing)", "(other)"]),
        (IntegerAttribute("a", 0, 6, 3), ["0..2", "3..5", "6"]),
        (IntegerAttribute("a", -4, 0, 3), ["-4..-2", "-1..0"]),
        (NumericAttribute("a", (0, 0.5, 10000), other=True), ["[0, 0.5)", "[0.5, 10000]", "(other)"]),
        (CategoricalAttribute("a", ("x", 3, True, False)), ["x", "3", "true", "false"]),
    ],
)
def test_labels_name_the_cells(attribute: Attribute, labels: list[str]) -> None:
    assert [attribute.label(code) for code in range(attribute.size)] == labels


def test_true_and_one_are_different_declarations() -> None:
    numbers, booleans = CategoricalAttribute("a", (1, 0)), CategoricalAttribute("a", (True, False))
    assert numbers != booleans
    assert Domain((numbers,)) != Domain((booleans,))


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (1, "1"), (10_950, "10,950"), (10**9, "1,000,000,000"), (10**9 + 1, "1 × 10⁹"),
        (9_960_000_000, "1 × 10¹⁰"), (119_999_999_999, "1.2 × 10¹¹"),
        (199_939_280_516_496 * 10**33, "2 × 10⁴⁷"), (10**400, "1 × 10⁴⁰⁰"),
    ],
)  # fmt: skip
def test_a_number_of_cells_is_written_so_that_it_can_be_read(cells: int, text: str) -> None:
    assert cell_count(cells) == text


# --- usual steps of numbers ---------------------------------------------------------------------------------


FLOATS = st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15).map(float) | st.floats(-1e-5, 1e-5)
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ((0, 1), 0.001), ((17, 90), 0.05), ((0, 500), 0.5), ((0, 999), 0.5), ((0, 1000), 1),
        ((0, 24_500), 20), ((0, 0.03), 2e-5), ((0, 1e7), 10_000), ((-50_000, 1_000_000), 1000),
        ((-1e308, 7e307), 1e305), ((0, 5e-324), None),
    ],
)  # fmt: skip
def test_numbers_have_about_a_thousand_round_steps_between_their_ends(
    ends: tuple[float, float], wanted: float | None
) -> None:
    assert NumericAttribute("a", ends).usual_resolution == wanted


@given(st.lists(FLOATS, min_size=2, max_size=5, unique=True).map(sorted))
def test_the_usual_step_of_numbers_is_round_follows_from_the_ends_and_is_never_refused(
    edges: list[float],
) -> None:
    step = NumericAttribute("a", tuple(edges)).usual_resolution
    assert step == NumericAttribute("a", (edges[0], edges[-1]), atoms=(edges[0],)).usual_resolution
    width = Fraction(edges[-1]) - Fraction(edges[0])
    assert (step is None) <= (width < 1e-318)
    if step is not None:
        NumericAttribute("a", tuple(edges), resolution=step)
        if width > 1e-300:
            assert f"{step:e}"[:4] in ("1.00", "2.00", "5.00")
            assert 999 < width / Fraction(step) < 2501


@given(WHOLE, WHOLE)
def test_the_usual_step_of_whole_numbers_is_whole_and_never_refused(one: int, other: int) -> None:
    low, high = sorted((one, other))
    width = max(1, (high - low) // 50)
    step = IntegerAttribute("a", low, high, width).usual_resolution
    assert (step is None) == (low == high)
    if step is not None:
        assert IntegerAttribute("a", low, high, width, resolution=step).grid() is not None
        assert str(int(step)).rstrip("0") in ("1", "2", "5")
        assert step == int(step) >= 1
        assert step == 1 or 1000 <= Fraction(high - low, int(step)) <= 2500


# --- marginals ----------------------------------------------------------------------------------------------


def _part(data: st.DataObject, names: tuple[str, ...]) -> list[str]:
    return data.draw(st.lists(st.sampled_from(names), unique=True) if names else st.just([]))


@given(data=st.data(), histogram=histograms())
def test_a_projected_count_sums_the_cells_above_it(data: st.DataObject, histogram: Histogram) -> None:
    domain, wide = histogram.domain, histogram.project(_part(data, histogram.scope))
    kept = wide.project(_part(data, wide.scope))
    assert kept.total == histogram.total
    axes = [domain.index(name) for name in kept.scope]
    expected: dict[tuple[int, ...], int] = dict.fromkeys(np.ndindex(kept.counts.shape), 0)
    for cell in itertools.product(*(range(size) for size in domain.shape)):
        expected[tuple(cell[axis] for axis in axes)] += int(histogram.counts[cell])
    assert {cell: int(kept.counts[cell]) for cell in expected} == expected


def test_counts_are_a_read_only_copy(people: Domain) -> None:
    counts = np.array([-1, 2, 3], dtype=np.int64)
    marginal = Marginal(people, ("sex",), counts)
    counts[0] = 99
    assert (marginal.counts.tolist(), marginal.total) == ([-1, 2, 3], 4)
    with pytest.raises(ValueError, match="read-only"):
        marginal.counts[0] = 5


@given(data=st.data(), histogram=histograms())
def test_restricting_takes_a_slice(data: st.DataObject, histogram: Histogram) -> None:
    domain = histogram.domain
    names = domain.scope(_part(data, domain.names))
    cells = {name: data.draw(st.integers(0, domain[name].size - 1)) for name in names}
    restricted = histogram.restrict(cells)
    expected: NDArray[np.int64] = histogram.counts
    for name in reversed(names):
        expected = np.take(expected, cells[name], axis=domain.index(name))
    assert restricted.scope == tuple(name for name in domain.names if name not in cells)
    np.testing.assert_array_equal(restricted.counts, expected)


_Refused: TypeAlias = tuple[Callable[[Marginal], object], str]
WRONG: list[_Refused] = [
    (lambda one: Marginal(one.domain, ("income", "sex"), one.counts), "expected a scope in declared order"),
    (lambda one: Marginal(one.domain, ("sex", "sex"), one.counts), "expected each attribute once"),
    (lambda one: Marginal(one.domain, ("sexx",), one.counts[0]), "did you mean 'sex'"),
    (lambda one: Marginal(one.domain, ("sex",), one.counts), r"of shape \(3,\) over \['sex'\], got \(3, 3\)"),
    (lambda one: Marginal(one.domain, ("sex",), one.counts[0] / 2), "integer counts, got dtype=float64"),
    (lambda one: Marginal(one.domain, ("sex",), np.zeros(3, dtype=bool)), "integer counts, got dtype=bool"),
    (lambda one: Marginal(one.domain, ("sex",), np.full(3, 2**63, dtype=np.uint64)), "counts"),
    (lambda one: Histogram(one.domain, np.array([1, 2])), r"expected counts of shape \(75, 3"),
    (lambda one: one.project(["age"]), r"expected attributes among \['sex', 'income'\], got \['age'\]"),
    (lambda one: one.project(["sex", "sex"]), "expected each attribute once"),
    (lambda one: one.expand(["sex", "age"]), "expected a scope that contains"),
    (lambda one: one.restrict({"age": 0}), r"expected attributes among \['sex', 'income'\]"),
    (lambda one: one.restrict({"sex": 3}), r"attribute 'sex' has cells 0\.\.2, got 3"),
    (lambda one: one.restrict({"sex": -1}), r"attribute 'sex' has cells 0\.\.2, got -1"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_counts_and_steps_that_do_not_fit_the_scope_are_refused(
    people: Domain, wrong: Callable[[Marginal], object], message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        wrong(Marginal(people, ("sex", "income"), np.arange(9).reshape(3, 3)))
