"""Range trees: exact least squares in two passes, with and without signs, and their variances."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import nnls

from pmw.model.bins import choose_coarsening
from pmw.model.hierarchical_histogram import (
    MOST_COVARIANCES,
    HierarchicalHistogram,
    leaf_variances,
    least_squares,
    mean_range_variance,
    non_negative_least_squares,
    query_variance,
    range_variances,
)
from queries import CategoricalAttribute, Domain
from queries.errors import ScopeError

TREE = HierarchicalHistogram(5, 1, 2, 3, ((0, 0, 1, 1, 0), (0, 0, 2, 2, 1)))  # the cells of a node lie apart


@st.composite
def even_trees(draw: st.DrawFn) -> HierarchicalHistogram:
    cells, branching = draw(st.integers(1, 60)), draw(st.integers(2, 9))
    tallest = 1
    while branching**tallest < cells:
        tallest += 1
    return HierarchicalHistogram(cells, draw(st.integers(0, 2)), branching, draw(st.integers(1, tallest)))


@st.composite
def declared_trees(draw: st.DrawFn) -> HierarchicalHistogram:
    cells = draw(st.integers(4, 9))
    fine = [0, 1, 2] + [draw(st.integers(0, 2)) for _ in range(cells - 3)]
    coarse = [0 if node < 2 else 1 for node in fine]
    levels = (tuple(coarse), tuple(fine)) if draw(st.booleans()) else (tuple(fine),)
    return HierarchicalHistogram(cells, draw(st.integers(0, 2)), 2, len(levels) + 1, levels)


TREES = even_trees() | declared_trees()


@st.composite
def long_trees(draw: st.DrawFn) -> HierarchicalHistogram:
    cells, branching = draw(st.integers(MOST_COVARIANCES + 1, 1200)), draw(st.integers(2, 30))
    tallest = 1
    while branching**tallest < cells:
        tallest += 1
    return HierarchicalHistogram(cells, draw(st.integers(0, 2)), branching, draw(st.integers(1, tallest)))


def incidence(tree: HierarchicalHistogram) -> NDArray[np.float64]:
    """Which cells are in which node: float64, shape (nodes, cells)."""
    return np.array([tree.node_counts(row) for row in np.eye(tree.size, dtype=np.int64)]).T.astype(np.float64)


def noisy(tree: HierarchicalHistogram, seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 40, tree.size) * generator.integers(0, 2, tree.size)
    return tree.node_counts(counts) + generator.normal(0, 10, tree.nodes)


def test_nodes_are_sums_level_by_level_and_special_cells_are_at_every_level() -> None:
    tree = HierarchicalHistogram(cells=7, special=1, branching=2, height=3)
    assert (tree.widths, tree.sizes) == ((4, 2, 1), (3, 5, 8))
    nodes = tree.node_counts(np.array([1, 2, 3, 4, 5, 6, 7, 100]))
    assert [level.tolist() for level in tree.levels(nodes.astype(np.float64))] == [
        [10, 18, 100], [3, 7, 11, 7, 100], [1, 2, 3, 4, 5, 6, 7, 100]
    ]  # fmt: skip
    assert TREE.sizes == (3, 4, 6)
    assert TREE.node_counts(np.array([1, 2, 3, 4, 5, 9])).tolist() == [8, 7, 9, 3, 5, 7, 9, 1, 2, 3, 4, 5, 9]
    assert [TREE.parents(level).tolist() for level in (1, 2)] == [[0, 0, 1, 2], [0, 0, 2, 2, 1, 3]]


@given(tree=TREES, cell=st.integers(0, 61))
def test_a_record_is_in_one_node_of_each_level(tree: HierarchicalHistogram, cell: int) -> None:
    record = np.zeros(tree.size, dtype=np.int64)
    record[cell % tree.size] = 1
    nodes = tree.node_counts(record)
    assert nodes.sum() == (nodes**2).sum() == tree.height
    assert all(level.sum() == 1 for level in tree.levels(nodes.astype(np.float64)))


@given(tree=TREES, seed=st.integers(0, 10**6))
def test_two_passes_give_the_least_squares_cells(tree: HierarchicalHistogram, seed: int) -> None:
    nodes, matrix = noisy(tree, seed), incidence(tree)
    expected = np.linalg.lstsq(matrix, nodes, rcond=None)[0]
    np.testing.assert_allclose(least_squares(tree, nodes), expected, atol=1e-8)


@given(tree=TREES, seed=st.integers(0, 10**6))
def test_variances_are_those_of_the_normal_equations(tree: HierarchicalHistogram, seed: int) -> None:
    matrix = incidence(tree)
    covariance = np.linalg.inv(matrix.T @ matrix)
    np.testing.assert_allclose(leaf_variances(tree), np.diag(covariance), atol=1e-9)
    weights = np.random.default_rng(seed).random(tree.size)
    assert query_variance(tree, weights) == pytest.approx(weights @ covariance @ weights)


@given(tree=TREES, seed=st.integers(0, 10**6))
def test_non_negative_cells_are_the_nearest_ones(tree: HierarchicalHistogram, seed: int) -> None:
    nodes, matrix = noisy(tree, seed), incidence(tree)
    expected = nnls(matrix, nodes)[0]
    np.testing.assert_allclose(non_negative_least_squares(tree, nodes), expected, atol=1e-6)


@given(tree=TREES, seed=st.integers(0, 10**6), total=st.floats(1, 5000))
def test_a_known_sum_is_kept_and_nothing_is_nearer(
    tree: HierarchicalHistogram, seed: int, total: float
) -> None:
    nodes, matrix = noisy(tree, seed), incidence(tree)
    found = non_negative_least_squares(tree, nodes, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    # The gradient is the same wherever a cell is positive, and nowhere smaller.
    gradient = matrix.T @ (matrix @ found - nodes)
    inside = found > 1e-7 * total
    assert np.ptp(gradient[inside]) < 1e-5 * max(1.0, np.abs(nodes).max(), total)
    assert gradient.min() > gradient[inside].mean() - 1e-5 * max(1.0, np.abs(nodes).max(), total)


def test_a_tree_of_ten_thousand_cells_is_solved() -> None:
    tree = HierarchicalHistogram(10_000, 0, 4, 6)
    nodes = np.random.default_rng(1).normal(0, 30, tree.nodes)
    found = non_negative_least_squares(tree, nodes, 50_000.0)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(50_000.0)


def test_a_marginal_is_a_tree_of_one_level_and_ranges_of_a_higher_one_are_quieter() -> None:
    tree = HierarchicalHistogram(10, 1, 4, 1)
    nodes = np.arange(11.0) - 3
    assert least_squares(tree, nodes).tolist() == nodes.tolist()
    assert non_negative_least_squares(tree, nodes).tolist() == np.maximum(nodes, 0).tolist()
    assert leaf_variances(tree).tolist() == [1.0] * 11
    assert mean_range_variance(tree) == pytest.approx(1.0)
    # Three levels cost three times the variance of a node.
    assert 3 * mean_range_variance(HierarchicalHistogram(100, 0, 4, 3)) < 0.35


Levels: TypeAlias = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("cells", "branching", "height", "hierarchy"),
    [
        *[(0, 2, 1, ()), (5, 1, 1, ()), (5, 2, 0, ()), (16, 4, 3, ())],
        *[(4, 2, 2, (nodes,)) for nodes in [(0, 0, 0, 0), (0, 2, 0, 2), (0, 1, 1)]],
        (4, 2, 3, ((0, 1, 0, 1), (0, 0, 1, 2))),
        (4, 2, 3, ((0, 0, 1, 1),) * 3),
    ],
)
def test_trees_that_are_none_are_refused(cells: int, branching: int, height: int, hierarchy: Levels) -> None:
    with pytest.raises(ScopeError, match="expected"):
        HierarchicalHistogram(cells, 0, branching, height, hierarchy)


@pytest.mark.parametrize(
    "tree",
    [
        HierarchicalHistogram(100, 0, 4, 3),
        HierarchicalHistogram(85, 1, 4, 3),
        HierarchicalHistogram(70, 2, 8, 2),
    ],
)
def test_least_squares_gives_no_node_a_weight_beyond_that_of_the_cells(tree: HierarchicalHistogram) -> None:
    # The error bars of Laplace sums count on it: weights of a query in [0, 1] stay within [-1, 1].
    cells = np.stack([least_squares(tree, node) for node in np.eye(tree.nodes)], axis=1)
    assert np.maximum(cells, 0).sum(axis=0).max() <= 1
    assert np.maximum(-cells, 0).sum(axis=0).max() <= 1


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


@given(long_trees(), st.data())
def test_ranges_of_a_long_tree_vary_as_their_least_squares_do(
    tree: HierarchicalHistogram, data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.tuples(*[st.integers(0, tree.size - 1)] * 2), min_size=1, max_size=8))
    first, last = np.array(ends, dtype=np.int64).min(axis=1), np.array(ends, dtype=np.int64).max(axis=1)
    cells = np.arange(tree.size)
    expected = [
        query_variance(tree, ((one <= cells) & (cells <= other)) * 1.0)
        for one, other in zip(first, last, strict=True)
    ]
    assert range_variances(tree, first, last) == pytest.approx(expected, rel=1e-10)
