"""Marginals: projecting, expanding and restricting counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import CategoricalAttribute, Domain, Histogram, Marginal, ScopeError
from tests.queries.meaning import histograms


@pytest.fixture
def table(people: Domain) -> Marginal:
    return Marginal(people, ("sex", "income"), np.arange(9).reshape(3, 3))


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


@given(data=st.data(), histogram=histograms())
def test_expanding_then_projecting_multiplies_by_the_cells_added(
    data: st.DataObject, histogram: Histogram
) -> None:
    marginal = histogram.project(_part(data, histogram.scope))
    wider = histogram.domain.scope([*{*marginal.scope, *_part(data, histogram.scope)}])
    added = histogram.domain.scope_size(wider) // histogram.domain.scope_size(marginal.scope)
    back = marginal.expand(wider).project(marginal.scope)
    np.testing.assert_array_equal(back.counts, marginal.counts * added)


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


def test_counts_are_a_read_only_copy(people: Domain) -> None:
    given_counts: NDArray[Any] = np.array([-1, 2, 3], dtype=np.int8)  # of any integer type
    marginal = Marginal(people, ("sex",), given_counts)
    given_counts[0] = 99
    assert (marginal.counts.tolist(), marginal.total) == ([-1, 2, 3], 4)
    assert marginal.counts.dtype == np.int64
    for counts in (marginal.counts, marginal.expand(("sex", "income")).counts):
        with pytest.raises(ValueError, match="read-only"):
            counts[0] = 5


def test_a_histogram_is_the_marginal_of_the_full_scope() -> None:
    domain = Domain((CategoricalAttribute("a", (0, 1)), CategoricalAttribute("b", (0, 1))))
    histogram = Histogram(domain, np.array([[1, 2], [3, 4]]))
    assert isinstance(histogram, Marginal)
    assert (histogram.scope, histogram.total) == (("a", "b"), 10)
    assert histogram.project(["b", "a"]).scope == ("a", "b")
    with pytest.raises(ScopeError, match=r"expected counts of shape \(2, 2\)"):
        Histogram(domain, np.array([1, 2]))


@pytest.mark.parametrize(
    ("scope", "counts", "message"),
    [
        (("income", "sex"), np.zeros((3, 3), dtype=int), "expected a scope in declared order"),
        (("sex", "sex"), np.zeros((3, 3), dtype=int), "expected each attribute once"),
        (("sexx",), np.zeros(3, dtype=int), "did you mean 'sex'"),
        (("sex",), np.zeros(2, dtype=int), r"expected counts of shape \(3,\) over \['sex'\], got \(2,\)"),
        (("sex",), np.zeros((3, 1), dtype=int), r"got \(3, 1\)"),
        (("sex",), np.zeros(3), "expected integer counts, got dtype=float64"),
        (("sex",), np.zeros(3, dtype=bool), "expected integer counts, got dtype=bool"),
        (("sex",), np.full(3, 2**63, dtype=np.uint64), "counts"),
        ((), np.zeros(1, dtype=int), r"expected counts of shape \(\)"),
    ],
)
def test_counts_that_do_not_fit_the_scope_are_refused(
    people: Domain, scope: tuple[str, ...], counts: NDArray[np.int64], message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        Marginal(people, scope, counts)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda table: table.project(["age"]),
            r"expected attributes among \['sex', 'income'\], got \['age'\]",
        ),
        (lambda table: table.project(["sex", "sex"]), "expected each attribute once"),
        (lambda table: table.expand(["sex", "age"]), "expected a scope that contains"),
        (lambda table: table.restrict({"age": 0}), r"expected attributes among \['sex', 'income'\]"),
        (lambda table: table.restrict({"sex": 3}), r"attribute 'sex' has cells 0\.\.2, got 3"),
        (lambda table: table.restrict({"sex": -1}), r"attribute 'sex' has cells 0\.\.2, got -1"),
    ],
)
def test_a_step_outside_the_scope_is_refused(
    table: Marginal, wrong: Callable[[Marginal], Marginal], message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        wrong(table)
