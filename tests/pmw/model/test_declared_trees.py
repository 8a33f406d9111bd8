"""Trees whose nodes are declared: the levels of codes, measured beside the codes themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import HierarchicalHistogram, choose_coarsening, leaf_variances, query_variance
from pmw.model.hierarchical_histogram import least_squares, non_negative_least_squares
from queries import CategoricalAttribute, Domain
from queries.errors import ScopeError

TREE = HierarchicalHistogram(5, 1, 2, 3, ((0, 0, 1, 1, 0), (0, 0, 2, 2, 1)))  # the cells of a node lie apart


def incidence(tree: HierarchicalHistogram) -> NDArray[np.float64]:
    """Return which cells each node holds: float64, shape (nodes, size)."""
    rows = [tree.node_counts(np.eye(tree.size, dtype=np.int64)[cell]) for cell in range(tree.size)]
    return np.array(rows, dtype=np.float64).T


@st.composite
def trees(draw: st.DrawFn) -> HierarchicalHistogram:
    cells = draw(st.integers(4, 9))
    fine = [0, 1, 2] + [draw(st.integers(0, 2)) for _ in range(cells - 3)]
    coarse = [0 if node < 2 else 1 for node in fine]
    levels = (tuple(coarse), tuple(fine)) if draw(st.booleans()) else (tuple(fine),)
    return HierarchicalHistogram(cells, draw(st.integers(0, 2)), 2, len(levels) + 1, levels)


def test_nodes_are_level_by_level_and_the_special_cells_hang_beside_them() -> None:
    assert TREE.sizes == (3, 4, 6)
    assert TREE.node_counts(np.array([1, 2, 3, 4, 5, 9])).tolist() == [8, 7, 9, 3, 5, 7, 9, 1, 2, 3, 4, 5, 9]
    assert TREE.parents(1).tolist() == [0, 0, 1, 2]
    assert TREE.parents(2).tolist() == [0, 0, 2, 2, 1, 3]


@given(trees(), st.data())
def test_a_record_is_in_one_node_of_each_level(tree: HierarchicalHistogram, data: st.DataObject) -> None:
    counts = np.array([data.draw(st.integers(0, 3)) for _ in range(tree.size)])
    before = tree.node_counts(counts)
    for cell, other in itertools.product(range(tree.size), repeat=2):
        added = counts.copy()
        added[cell] += 1
        change = tree.node_counts(added) - before
        levels = [change[start - size : start] for start, size in zip(
            itertools.accumulate(tree.sizes), tree.sizes, strict=True
        )]  # fmt: skip
        assert all(sorted(level)[-1] == 1 == np.abs(level).sum() for level in levels)
        replaced = added.copy()
        replaced[other] -= 1
        assert np.abs(tree.node_counts(replaced) - before).sum() <= 2 * tree.height


@given(trees(), st.integers(0, 99))
def test_least_squares_is_exact(tree: HierarchicalHistogram, seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=tree.nodes)
    matrix = incidence(tree)
    expected = np.linalg.lstsq(matrix, numbers, rcond=None)[0]
    np.testing.assert_allclose(least_squares(tree, numbers), expected, atol=1e-9)
    spread = np.linalg.inv(matrix.T @ matrix)
    np.testing.assert_allclose(leaf_variances(tree), np.diag(spread), atol=1e-9)
    weights = np.random.default_rng(seed).integers(0, 2, tree.size).astype(np.float64)
    assert query_variance(tree, weights) == pytest.approx(weights @ spread @ weights)
    positive = non_negative_least_squares(tree, numbers, 3.0)
    gradient = matrix.T @ (matrix @ positive - numbers)
    assert positive.min() >= 0
    assert positive.sum() == pytest.approx(3.0)
    assert np.all(gradient > gradient[positive > 1e-9].max() - 1e-7)


@pytest.mark.parametrize(
    "hierarchy",
    [((0, 0, 0, 0),), ((0, 2, 0, 2),), ((0, 1, 1),), ((0, 1, 0, 1), (0, 0, 1, 2)), ((0, 0, 1, 1),) * 3],
)  # fmt: skip
def test_nodes_that_cannot_be_are_refused(hierarchy: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ScopeError):
        HierarchicalHistogram(4, 0, 2, 3 if len(hierarchy) > 1 else 2, hierarchy)


def test_rare_values_are_pooled_inside_the_nodes_of_their_level() -> None:
    values = tuple(f"{number:02}" for number in range(40))  # four nodes of ten values
    attribute = CategoricalAttribute("c", values, levels=(1,), missing=True)  # type: ignore[arg-type]  # a length
    counts = np.full(41, 10.0)
    counts[3], counts[30:40] = 100.0, 1.0
    chosen = choose_coarsening(Domain((attribute,)), {"c": counts}, {"c": 20.0})
    bins = chosen.bins[0]
    assert bins is not None
    expected = [0, 0, 0, 1, *[0] * 6, *[2] * 10, *[3] * 10, *[4] * 10, 5]
    assert bins.tolist() == expected  # the last node's values are rare even together, and alone are left
