"""Estimates: every way to ask for the variance of a sum gives that of the noise that was drawn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model.estimate import Estimate, noise_variance
from pmw.model.hierarchical_histogram import MOST_COVARIANCES, HierarchicalHistogram, query_variance
from pmw.model.measurement import HierarchicalMeasurement, MarginalMeasurement, combined
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.public.half_widths import AxisNoise, SumNoise
from queries import UNITS
from queries.products import CellSets
from tests.residuals import JOINT

LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(5 * UNITS)), DiscreteGaussian(Fraction(5 * UNITS))
SCATTERED = HierarchicalHistogram(600, 1, 2, 2, (tuple(cell % 3 for cell in range(600)),))
TREES = [
    HierarchicalHistogram(9, 1, 3, 2),
    HierarchicalHistogram(MOST_COVARIANCES + 50, 1, 5, 3),
    HierarchicalHistogram(5, 1, 2, 3, ((0, 0, 1, 1, 0), (0, 0, 2, 2, 1))),
    SCATTERED,
]


def cells(shape: tuple[int, ...], noise: NoiseDistribution) -> MarginalMeasurement:
    names = tuple("abc"[: len(shape)])
    return MarginalMeasurement(names, np.arange(np.prod(shape)).reshape(shape) * UNITS, noise)


def tree_of(tree: HierarchicalHistogram, noise: NoiseDistribution) -> HierarchicalMeasurement:
    return HierarchicalMeasurement(("a",), tree, np.arange(tree.nodes) * UNITS, noise)


def estimates() -> dict[str, Estimate]:
    """Return estimates of every kind that is measured."""
    (twice,) = combined([cells((3, 4), GAUSSIAN), cells((3, 4), DiscreteGaussian(Fraction(7 * UNITS)))])
    found = {"cells": cells((3, 4), LAPLACE).estimate, "twice": twice}
    for number, tree in enumerate(TREES):
        found[f"tree {number}"] = tree_of(tree, LAPLACE).estimate
    for name, joint in JOINT.items():
        found[name] = joint.counts(
            joint.numbers(np.zeros([side.cells for side in joint.sides], dtype=np.int64))
        )
    return found


ESTIMATES = estimates()


def sets_of(masks: NDArray[np.bool_]) -> CellSets:
    """Return the cells that are chosen in each row: bool, shape (n, cells)."""
    runs = [np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0)).reshape(-1, 2) for mask in masks]
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    first, stop = np.concatenate(runs).T
    return CellSets(first, stop - 1, starts)


def variances(estimate: Estimate, sides: list[CellSets]) -> NDArray[np.float64]:
    return estimate.product_squares(sides) * noise_variance(estimate.noise)


@pytest.mark.parametrize("name", ESTIMATES)
@given(seed=st.integers(0, 2**32 - 1))
def test_sums_products_and_cells_have_one_variance(name: str, seed: int) -> None:
    one, generator = ESTIMATES[name], np.random.default_rng(seed)
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


@pytest.mark.parametrize("name", ESTIMATES)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_summed_out_is_what_sums_take_whole(name: str, seed: int) -> None:
    one, generator = ESTIMATES[name], np.random.default_rng(seed)
    kept = tuple(axis for axis in range(len(one.shape)) if generator.random() < 0.5 or len(one.shape) == 1)
    told = one.over(tuple(one.scope[axis] for axis in kept))
    others = tuple(axis for axis in range(len(one.shape)) if axis not in kept)
    assert told.shape == tuple(one.shape[axis] for axis in kept)
    np.testing.assert_allclose(told.values, one.values.sum(axis=others), rtol=1e-9, atol=1e-6)
    weights = generator.normal(0.4, 1, told.shape)
    whole = np.broadcast_to(np.expand_dims(weights, others), one.shape)
    assert told.weighted_variance(weights) == pytest.approx(one.weighted_variance(whole), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("tree", TREES)
def test_a_question_has_one_bar_however_it_is_asked(
    tree: HierarchicalHistogram, noise: NoiseDistribution
) -> None:
    bars = SumNoise(tree_of(tree, noise).estimate, 0.95)
    masks = np.random.default_rng(1).random((5, tree.size)) < 0.6
    found = bars.product_half_widths([sets_of(masks)])
    assert found == pytest.approx([bars.half_width(mask * 1.0) for mask in masks], rel=1e-9)


def test_runs_of_a_long_tree_whose_nodes_are_declared_are_bounded_by_their_cells() -> None:
    measured = tree_of(SCATTERED, GAUSSIAN).estimate
    first, last = np.array([0, 10, 600]), np.array([600, 399, 600])
    widths = AxisNoise(measured, 0.9).product_half_widths([CellSets(first, last)])
    for width, one, other in zip(widths, first, last, strict=True):
        inside = np.arange(SCATTERED.size)
        mask = ((one <= inside) & (inside <= other)) * 1.0
        assert query_variance(SCATTERED, mask) <= other + 1 - one
        assert width >= SumNoise(measured, 0.9).half_width(mask)
