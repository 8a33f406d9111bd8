"""Measurements: their variances and quantiles, however they are asked for, and trees."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import nnls

from pmw.model.bins import choose_coarsening
from pmw.model.estimate import Estimate, noise_variance
from pmw.model.hierarchical_histogram import (
    MOST_COVARIANCES,
    HierarchicalHistogram,
    leaf_variances,
    least_squares,
    non_negative_least_squares,
    query_variance,
    range_variances,
)
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    ResidualMeasurement,
    combined,
    half_width,
    target_of,
)
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.public.half_widths import AxisNoise, SumNoise
from pmw.public.state import Total
from queries import UNITS, CategoricalAttribute, Domain, ScopeError
from queries.cell_sets import CellSets
from tests.residuals import JOINT, PAIRS, SHORT, VALUES, Several, Side, gaussian

DISTRIBUTIONS: list[NoiseDistribution] = [
    DiscreteLaplace(Fraction(30 * UNITS)),
    DiscreteGaussian(Fraction(30 * UNITS)),
]


def test_a_marginals_target_shares_what_its_cells_lack_evenly() -> None:
    measurement = MarginalMeasurement(("a",), np.array([UNITS, 3 * UNITS]), DISTRIBUTIONS[1])
    target = target_of(measurement, 10.0)
    assert target.scope == ("a",)
    assert target.values.tolist() == [4.0, 6.0]
    assert target.variance.tolist() == [900.0, 900.0]
    assert measurement.estimate.weighted_variance(np.array([1.0, 0.5])) == pytest.approx(900 * 1.25)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(3001)])
@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
def test_the_variance_is_that_of_the_table_for_wide_noise_and_never_less(
    make: type[DiscreteLaplace | DiscreteGaussian], scale: Fraction
) -> None:
    values = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    exact = float(np.sum(values.astype(float) ** 2 * make(scale).pmf(values))) / UNITS**2
    assert exact <= noise_variance(make(scale)) * (1 + 1e-9)
    assert scale < 3 or noise_variance(make(scale)) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.95, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(3001)])
def test_noise_is_beyond_the_half_width_with_no_more_than_may_fail(
    scale: Fraction, confidence: float
) -> None:
    for noise in (DiscreteLaplace(scale), DiscreteGaussian(scale)):
        beyond = math.floor(half_width(noise, confidence) * UNITS) + 1
        fails = 2 * float(noise.survival(np.array([beyond]))[0])
        assert fails <= (1 - confidence) * (1 + 1e-6)
        assert scale < 3000 or fails > (1 - confidence) * 0.99  # nor is it wider


# --- counts from residuals: the true ones but for noise, with all of its variances --------------------------

UNIT = 2**30  # by which each number is moved in turn, on its own grid


def tables(joint: Several) -> list[NDArray[np.int64]]:
    """Return tables of which all others are sums: 40 records in one cell, and one of random cells."""
    shape = [side.cells for side in joint.sides]
    cells = math.prod(shape)
    alone = [40 * row.reshape(shape) for row in np.eye(cells, dtype=np.int64)]
    return [*alone, np.random.default_rng(2).integers(0, 300, shape)]


@cache
def covariance(name: str) -> NDArray[np.float64]:
    """Return that of the values, moving each number by itself: float64, shape (cells, cells)."""
    joint = JOINT[name]
    nothing = joint.numbers(np.zeros([side.cells for side in joint.sides], dtype=np.int64))
    found = np.zeros((math.prod(joint.shape),) * 2)
    for place, (numbers, deviation) in enumerate(zip(nothing, joint.deviations(), strict=True)):
        for number in range(numbers.size):
            moved = [one.copy() for one in nothing]
            moved[place].flat[number] = UNIT
            step = joint.counts(moved).values.ravel() * (deviation / UNIT)
            found += np.outer(step, step)
    return found


@cache
def counts(name: str) -> Estimate:
    joint = JOINT[name]
    return joint.counts(joint.numbers(tables(joint)[-1]))


def measured(name: str) -> ResidualMeasurement:
    joint = JOINT[name]
    return joint.measured(joint.numbers(tables(joint)[-1]))[0]


@pytest.mark.parametrize("name", JOINT)
def test_without_noise_counts_are_the_true_ones(name: str) -> None:
    # They are linear in what is measured, so noise whose mean is zero leaves them unbiased.
    joint = JOINT[name]
    for table in tables(joint):
        found = joint.counts(joint.numbers(table))
        assert found.values == pytest.approx(joint.truth(table).astype(float), abs=1e-7)
        centred = found.blocks[0].values
        for axis in range(centred.ndim):
            assert np.abs(centred.sum(axis=axis)).max() < 1e-7


@pytest.mark.parametrize("name", JOINT)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_variance_of_a_sum_is_that_of_all_noises_that_are_in_it(name: str, seed: int) -> None:
    found = counts(name)
    weights = np.random.default_rng(seed).normal(0.3, 1, JOINT[name].shape)
    expected = float(weights.ravel() @ covariance(name) @ weights.ravel())
    assert found.weighted_variance(weights) == pytest.approx(expected, rel=1e-9)


# --- one attribute -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [SHORT, VALUES])
def test_one_attribute_has_the_number_of_records_in_equal_parts(side: Side) -> None:
    table, total = np.arange(side.cells) + 5, Total(1.0, 4.0, 9.0)
    measured = side.measured(side.numbers(table), replace(total, estimate=float(table.sum())))
    assert isinstance(measured, ResidualMeasurement)
    assert measured.values == pytest.approx(table.astype(float), abs=1e-7)
    moved = side.measured(side.numbers(table), replace(total, estimate=float(table.sum() + side.cells)))
    assert moved.values == pytest.approx(table + 1.0, abs=1e-7)
    rows = measured.strategy
    deviation = float(rows.noise(gaussian(side.noise)).sigma) / rows.factor
    (axis,) = rows.axes
    expected = deviation**2 * axis.covariance + 81 / side.cells**2
    assert measured.cell_variances == pytest.approx(expected.diagonal())
    assert measured.estimate.weighted_variance(np.ones(side.cells)) == pytest.approx(81)
    weights = np.arange(side.cells, dtype=np.float64) ** 2 - 0.7
    assert measured.estimate.weighted_variance(weights) == pytest.approx(weights @ expected @ weights)


# --- several measurements ----------------------------------------------------------------------------------


def test_two_measurements_of_a_pair_are_weighted_by_the_inverse_of_their_variances() -> None:
    pair = PAIRS["twice"]
    numbers = pair.numbers(tables(pair)[-1])
    strayed = np.random.default_rng(3).integers(-(2**24), 2**24, pair.shape)
    numbers[-1] = numbers[-1] + strayed
    found = pair.counts(numbers)
    *_, near, far = (deviation**2 for deviation in pair.deviations())
    assert found.blocks[0].variance == pytest.approx(1 / (1 / near + 1 / far) / pair.strategy.factor**2)
    plain = pair.counts(pair.numbers(tables(pair)[-1]))
    moved = pair.strategy.estimate(strayed) * near / (near + far)
    assert found.values - plain.values == pytest.approx(moved, abs=1e-6)


def test_the_finest_noise_is_the_least_of_all_that_counts_take_in() -> None:
    for name, pair in JOINT.items():
        wanted = [deviation for deviation in pair.deviations() if deviation > 0]
        noise = counts(name).noise
        assert isinstance(noise, DiscreteGaussian)
        assert noise.sigma == math.floor(min(wanted)), name


def test_a_model_is_fitted_to_the_counts_through_the_rows() -> None:
    one = measured("bins")
    target = target_of(one, 1000.0)
    assert target.values == pytest.approx(one.values)
    assert target.information is not None
    for axis, seen in zip(one.strategy.axes, target.information, strict=True):
        assert seen.tolist() == axis.gram.tolist()
    deviation = float(one.drawn.sigma) / one.strategy.factor  # of rows without their factor
    assert target.variance == pytest.approx(np.full(one.units.shape, deviation**2))


# --- every way to ask for a variance --------------------------------------------------------------------


LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(5 * UNITS)), DiscreteGaussian(Fraction(5 * UNITS))
SCATTERED = HierarchicalHistogram(600, 1, 2, 2, (tuple(cell % 3 for cell in range(600)),))
TREES = [
    HierarchicalHistogram(9, 1, 3, 2),
    HierarchicalHistogram(MOST_COVARIANCES + 50, 1, 5, 3),
    HierarchicalHistogram(5, 1, 2, 3, ((0, 0, 1, 1, 0), (0, 0, 2, 2, 1))),  # the cells of a node lie apart
    SCATTERED,
]


def of_cells(shape: tuple[int, ...], noise: NoiseDistribution) -> MarginalMeasurement:
    names = tuple("abc"[: len(shape)])
    return MarginalMeasurement(names, np.arange(np.prod(shape)).reshape(shape) * UNITS, noise)


def tree_of(tree: HierarchicalHistogram, noise: NoiseDistribution) -> HierarchicalMeasurement:
    return HierarchicalMeasurement(("a",), tree, np.arange(tree.nodes) * UNITS, noise)


@cache
def estimates() -> dict[str, Estimate]:
    """Return estimates of every kind that is measured."""
    (twice,) = combined([of_cells((3, 4), GAUSSIAN), of_cells((3, 4), DiscreteGaussian(Fraction(7 * UNITS)))])
    found = {"cells": of_cells((3, 4), LAPLACE).estimate, "twice": twice}
    for number, tree in enumerate(TREES):
        found[f"tree {number}"] = tree_of(tree, LAPLACE).estimate
    for name, joint in JOINT.items():
        found[name] = joint.counts(
            joint.numbers(np.zeros([side.cells for side in joint.sides], dtype=np.int64))
        )
    return found


def test_measurements_by_other_rows_or_of_other_cells_are_not_taken_together() -> None:
    first = measured("short")
    other = replace(first, strategy=replace(first.rows, replaced=not first.rows.replaced))
    for pair in ([first, other], [of_cells((3, 4), GAUSSIAN), of_cells((6, 4), GAUSSIAN)]):
        assert len(combined(pair)) == 2


def test_a_residual_of_other_cells_or_without_its_foundation_says_no_counts() -> None:
    one = measured("short")
    with pytest.raises(ScopeError, match="expected the numbers of"):
        replace(one, units=one.units.T)
    with pytest.raises(ScopeError, match="has no place in a state yet"):
        _ = replace(one, foundation=None).values


KINDS = ["cells", "twice", *(f"tree {number}" for number in range(len(TREES))), *JOINT]


def sets_of(masks: NDArray[np.bool_]) -> CellSets:
    """Return the cells that are chosen in each row: bool, shape (n, cells)."""
    runs = [np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0)).reshape(-1, 2) for mask in masks]
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    first, stop = np.concatenate(runs).T
    return CellSets(first, stop - 1, starts)


def variances(estimate: Estimate, sides: list[CellSets]) -> NDArray[np.float64]:
    return estimate.product_squares(sides) * noise_variance(estimate.noise)


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
def test_sums_products_and_cells_have_one_variance(name: str, seed: int) -> None:
    one, generator = estimates()[name], np.random.default_rng(seed)
    masks = [generator.random((3, size)) < 0.5 for size in one.shape]
    for mask in masks:
        mask[:, 0] = True  # no set is empty
    wanted = []
    for rows in zip(*masks, strict=True):
        weights = np.ones(())
        for row in rows:
            weights = np.multiply.outer(weights, row * 1.0)
        wanted.append(one.weighted_variance(weights))
    assert variances(one, [sets_of(mask) for mask in masks]) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    place = [int(generator.integers(0, size)) for size in one.shape]
    alone = [CellSets(np.array([cell]), np.array([cell])) for cell in place]
    assert variances(one, alone).item() == pytest.approx(float(one.cell_variances[tuple(place)]), rel=1e-9)


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_summed_out_is_what_sums_take_whole(name: str, seed: int) -> None:
    one, generator = estimates()[name], np.random.default_rng(seed)
    kept = tuple(axis for axis in range(len(one.shape)) if generator.random() < 0.5 or len(one.shape) == 1)
    told = one.over(tuple(one.scope[axis] for axis in kept))
    others = tuple(axis for axis in range(len(one.shape)) if axis not in kept)
    assert told.shape == tuple(one.shape[axis] for axis in kept)
    np.testing.assert_allclose(told.values, one.values.sum(axis=others), rtol=1e-9, atol=1e-6)
    weights = generator.normal(0.4, 1, told.shape)
    whole = np.broadcast_to(np.expand_dims(weights, others), one.shape)
    assert told.weighted_variance(weights) == pytest.approx(one.weighted_variance(whole), rel=1e-9, abs=1e-9)


def test_runs_of_a_long_tree_whose_nodes_are_declared_are_bounded_by_their_cells() -> None:
    measured = tree_of(SCATTERED, GAUSSIAN).estimate
    first, last = np.array([0, 10, 600]), np.array([600, 399, 600])
    widths = AxisNoise(measured, 0.9).product_half_widths([CellSets(first, last)])
    for width, one, other in zip(widths, first, last, strict=True):
        inside = np.arange(SCATTERED.size)
        mask = ((one <= inside) & (inside <= other)) * 1.0
        assert query_variance(SCATTERED, mask) <= other + 1 - one
        assert width >= SumNoise(measured, 0.9).half_width(mask)


# --- trees: exact least squares in two passes, with and without signs -----------------------------------


@st.composite
def even_trees(draw: st.DrawFn, sizes: tuple[int, int] = (1, 60), widest: int = 9) -> HierarchicalHistogram:
    cells, branching = draw(st.integers(*sizes)), draw(st.integers(2, widest))
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


ANY_TREES = even_trees() | declared_trees()


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
    assert TREES[2].sizes == (3, 4, 6)
    declared = TREES[2].node_counts(np.array([1, 2, 3, 4, 5, 9]))
    assert declared.tolist() == [8, 7, 9, 3, 5, 7, 9, 1, 2, 3, 4, 5, 9]
    assert [TREES[2].parents(level).tolist() for level in (1, 2)] == [[0, 0, 1, 2], [0, 0, 2, 2, 1, 3]]


@given(tree=ANY_TREES, cell=st.integers(0, 61))
def test_a_record_is_in_one_node_of_each_level(tree: HierarchicalHistogram, cell: int) -> None:
    record = np.zeros(tree.size, dtype=np.int64)
    record[cell % tree.size] = 1
    nodes = tree.node_counts(record)
    assert nodes.sum() == (nodes**2).sum() == tree.height
    assert all(level.sum() == 1 for level in tree.levels(nodes.astype(np.float64)))


@given(tree=ANY_TREES, seed=st.integers(0, 10**6))
def test_two_passes_give_the_least_squares_cells(tree: HierarchicalHistogram, seed: int) -> None:
    nodes, matrix = noisy(tree, seed), incidence(tree)
    expected = np.linalg.lstsq(matrix, nodes, rcond=None)[0]
    np.testing.assert_allclose(least_squares(tree, nodes), expected, atol=1e-8)


@given(tree=ANY_TREES, seed=st.integers(0, 10**6))
def test_variances_are_those_of_the_normal_equations(tree: HierarchicalHistogram, seed: int) -> None:
    matrix = incidence(tree)
    covariance = np.linalg.inv(matrix.T @ matrix)
    np.testing.assert_allclose(leaf_variances(tree), np.diag(covariance), atol=1e-9)
    weights = np.random.default_rng(seed).random(tree.size)
    assert query_variance(tree, weights) == pytest.approx(weights @ covariance @ weights)


@given(tree=ANY_TREES, seed=st.integers(0, 10**6))
def test_non_negative_cells_are_the_nearest_ones(tree: HierarchicalHistogram, seed: int) -> None:
    nodes, matrix = noisy(tree, seed), incidence(tree)
    expected = nnls(matrix, nodes)[0]
    np.testing.assert_allclose(non_negative_least_squares(tree, nodes), expected, atol=1e-6)


@given(tree=ANY_TREES, seed=st.integers(0, 10**6), total=st.floats(1, 5000))
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


@given(even_trees((MOST_COVARIANCES + 1, 1200), 30), st.data())
def test_ranges_of_a_long_tree_vary_as_their_least_squares_do(
    tree: HierarchicalHistogram, data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.tuples(*[st.integers(0, tree.size - 1)] * 2), min_size=1, max_size=8))
    first, last = np.sort(np.array(ends, dtype=np.int64), axis=1).T
    cells = np.arange(tree.size)
    expected = [
        query_variance(tree, ((one <= cells) & (cells <= other)) * 1.0)
        for one, other in zip(first, last, strict=True)
    ]
    assert range_variances(tree, first, last) == pytest.approx(expected, rel=1e-10)
