"""Counts from residuals: they are the true ones but for noise, and have the variances of all of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import Covariance, Estimate, ResidualMeasurement, combined, noise_variance, target_of
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.state import Total
from queries import ScopeError
from queries.products import CellSets
from tests.residuals import JOINT, PAIRS, SHORT, TRIPLES, VALUES, Several, Side, gaussian

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
def test_sums_along_one_attribute_and_everybody_have_the_variance_of_their_noises(name: str) -> None:
    joint, found = JOINT[name], counts(name)
    everybody = np.ones(joint.shape)
    assert found.weighted_variance(everybody) == pytest.approx(joint.total_noise**2, abs=1e-9)
    for axis in range(len(joint.shape)):
        for place in range(joint.shape[axis]):
            weights = np.zeros(joint.shape)
            weights[(slice(None),) * axis + (place,)] = 1
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


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_runs_of_cells_have_the_variance_of_their_sum(cells: int, seed: int) -> None:
    roots = np.random.default_rng(seed).normal(size=(cells, cells))
    given_ = roots @ roots.T
    found = Covariance(given_).runs
    for first in range(cells):
        for last in range(first, cells):
            expected = given_[first : last + 1, first : last + 1].sum()
            assert found[first, last] == pytest.approx(expected, abs=1e-9 * np.trace(given_))


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
