"""Measurements: their units, variances and quantiles."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import PMWError
from pmw.model.estimate import Estimate, noise_variance
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    combined,
    half_width,
    target_of,
)
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.state import Total
from queries import UNITS, Domain, IntegerAttribute, LinearQuery, ScopeError
from queries.products import CellSets
from tests.residuals import JOINT, PAIRS, SHORT, TRIPLES, VALUES, Several, Side, gaussian

DISTRIBUTIONS: list[NoiseDistribution] = [
    DiscreteLaplace(Fraction(30 * UNITS)),
    DiscreteGaussian(Fraction(30 * UNITS)),
]


def test_units_become_records() -> None:
    measurement = MarginalMeasurement(("a",), np.array([UNITS, -UNITS // 2]), DISTRIBUTIONS[1])
    assert measurement.values.tolist() == [1.0, -0.5]
    query = LinearQuery.everything(Domain((IntegerAttribute("a", 0, 1),)))
    assert QueryMeasurement(query, 3 * UNITS, DISTRIBUTIONS[1]).value == 3.0


def test_numbers_fit_their_scope_and_are_read_only() -> None:
    tree, noise, nodes = HierarchicalHistogram(30, 1, 4, 2), DISTRIBUTIONS[0], np.zeros(40, dtype=np.int64)
    with pytest.raises(ScopeError, match="expected 2 axes"):
        MarginalMeasurement(("a", "b"), np.array([1, 2]), noise)
    with pytest.raises(ScopeError, match="expected 40 nodes"):
        HierarchicalMeasurement(("a",), tree, nodes[:31], noise)
    with pytest.raises(ScopeError, match="over one attribute"):
        HierarchicalMeasurement(("a", "b"), tree, nodes, noise)
    for one in (
        MarginalMeasurement(("a",), nodes, noise),
        HierarchicalMeasurement(("a",), tree, nodes, noise),
    ):
        with pytest.raises(ValueError, match="read-only"):
            one.units[0] = 2


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_the_variances_of_a_tree_are_those_of_its_values(noise: NoiseDistribution) -> None:
    tree, weights = HierarchicalHistogram(30, 1, 4, 2), np.arange(31) % 3 / 2
    # Values are linear in the numbers of the nodes, whose noises are independent: one record in each in turn.
    records = [
        HierarchicalMeasurement(("a",), tree, units, noise) for units in UNITS * np.eye(tree.nodes, dtype=int)
    ]
    values = np.array([measurement.values for measurement in records])
    variance = noise_variance(noise)
    assert variance * (values**2).sum(axis=0) == pytest.approx(records[0].cell_variances)
    assert variance * ((values @ weights) ** 2).sum() == pytest.approx(
        records[0].estimate.weighted_variance(weights)
    )


def test_a_marginals_target_shares_what_its_cells_lack_evenly() -> None:
    measurement = MarginalMeasurement(("a",), np.array([UNITS, 3 * UNITS]), DISTRIBUTIONS[1])
    target = target_of(measurement, 10.0)
    assert target.scope == ("a",)
    assert target.values.tolist() == [4.0, 6.0]
    assert target.variance.tolist() == [900.0, 900.0]
    assert measurement.estimate.weighted_variance(np.array([1.0, 0.5])) == pytest.approx(900 * 1.25)


def test_a_trees_target_is_not_negative_and_has_the_total() -> None:
    tree = HierarchicalHistogram(30, 0, 4, 2)
    units = DISTRIBUTIONS[1].sample_array(BitSource.from_integer(6), tree.nodes)
    target = target_of(HierarchicalMeasurement(("a",), tree, units, DISTRIBUTIONS[1]), 100.0)
    assert target.values.min() >= 0
    assert target.values.sum() == pytest.approx(100.0)
    assert target.variance.max() < 900


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


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(3001)])
def test_the_discrete_gaussian_is_at_most_one_beyond_the_continuous_one(sigma: Fraction) -> None:
    # Pr[X >= m] <= Pr[Z >= m - 1] for every whole m >= 1
    values = np.unique(np.ceil(np.linspace(1, 6 * float(sigma) + 2, 200)).astype(np.int64))
    tails = [math.erfc((value - 1) / (math.sqrt(2) * float(sigma))) / 2 for value in values.tolist()]
    assert np.all(DiscreteGaussian(sigma).survival(values) <= np.array(tails) * (1 + 1e-9))


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(PMWError, match="strictly between 0 and 1"):
        half_width(DISTRIBUTIONS[0], confidence)


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
def test_counts_are_linear_in_what_is_measured(name: str) -> None:
    joint = JOINT[name]
    shapes = [one.shape for one in joint.numbers(np.zeros([side.cells for side in joint.sides], dtype=int))]
    generator = np.random.default_rng(5)
    first, second = ([generator.integers(-(2**40), 2**40, shape) for shape in shapes] for _ in range(2))
    both = joint.counts([one + other for one, other in zip(first, second, strict=True)]).values
    assert both == pytest.approx(joint.counts(first).values + joint.counts(second).values, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize("name", JOINT)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_variance_of_a_sum_is_that_of_all_noises_that_are_in_it(name: str, seed: int) -> None:
    found = counts(name)
    weights = np.random.default_rng(seed).normal(0.3, 1, JOINT[name].shape)
    expected = float(weights.ravel() @ covariance(name) @ weights.ravel())
    assert found.weighted_variance(weights) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", JOINT)
def test_the_variances_of_all_boxes_are_those_of_their_cells_summed(name: str) -> None:
    joint, found = JOINT[name], counts(name)
    runs = [list(itertools.combinations_with_replacement(range(size), 2)) for size in joint.shape]
    boxes = list(itertools.product(*runs))
    first = np.array([[low for low, _ in box] for box in boxes])
    last = np.array([[high for _, high in box] for box in boxes])
    expected = []
    for box in boxes:
        weights = np.zeros(joint.shape)
        weights[tuple(slice(low, high + 1) for low, high in box)] = 1
        expected.append(float(weights.ravel() @ covariance(name) @ weights.ravel()))
    sides = [CellSets(*side) for side in zip(first.T, last.T, strict=True)]
    variances = found.product_squares(sides) * noise_variance(found.noise)
    assert variances == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", JOINT)
def test_cells_have_the_variances_of_their_noises(name: str) -> None:
    found, diagonal = counts(name), covariance(name).diagonal().reshape(JOINT[name].shape)
    assert found.cell_variances == pytest.approx(diagonal, rel=1e-9)


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


def test_measurements_by_other_rows_or_of_cells_are_not_taken_together() -> None:
    first, second = measured("short"), replace(measured("public number"), scope=("a", "b"))
    assert first.units.shape != second.units.shape
    assert len(combined([first, second])) == 2


@pytest.mark.parametrize("name", TRIPLES)
def test_counts_of_three_attributes_stand_on_those_of_two(name: str) -> None:
    # What three say of two of them is what these were measured to be: no noise of three is in it.
    joint = TRIPLES[name]
    plain = joint.numbers(tables(joint)[-1])
    strayed = [one.copy() for one in plain]
    generator = np.random.default_rng(6)
    for number in range(len(joint.noises)):
        strayed[-1 - number] += generator.integers(-(2**26), 2**26, plain[-1].shape)
    found, moved = joint.counts(plain), joint.counts(strayed)
    assert np.abs(found.values - moved.values).max() > 1
    for axis in range(3):
        assert found.values.sum(axis=axis) == pytest.approx(moved.values.sum(axis=axis), abs=1e-6)


def test_a_residual_without_its_foundation_says_no_counts() -> None:
    alone = replace(measured("short"), foundation=None)
    with pytest.raises(ScopeError, match="has no place in a state yet"):
        _ = alone.values


def test_numbers_of_other_cells_are_refused() -> None:
    one = measured("short")
    with pytest.raises(ScopeError, match="expected the numbers of"):
        replace(one, units=one.units.T)


def test_a_model_is_fitted_to_the_counts_through_the_rows() -> None:
    one = measured("bins")
    target = target_of(one, 1000.0)
    assert target.values == pytest.approx(one.values)
    assert target.information is not None
    for axis, seen in zip(one.strategy.axes, target.information, strict=True):
        assert seen.tolist() == axis.gram.tolist()
    deviation = float(one.drawn.sigma) / one.strategy.factor  # of rows without their factor
    assert target.variance == pytest.approx(np.full(one.units.shape, deviation**2))
