"""The noise of a table measured whole: the correction by the number of records, and the bars that follow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.model.estimate import Estimate, noise_variance
from pmw.model.measurement import MarginalMeasurement, ResidualMeasurement
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.evidence import moved_cells
from pmw.public.half_widths import SumNoise, TableNoise, WeightStats, negative_margin
from pmw.public.state import Total
from queries import UNITS
from queries.cell_sets import CellSets
from tests.draws import require_scale
from tests.residuals import JOINT, SHORT, Several, Side, ordered_rows
from tests.worlds import JOINED, marginal_plan

LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(5 * UNITS)), DiscreteGaussian(Fraction(5 * UNITS))


def deviation(noise: DiscreteLaplace | DiscreteGaussian, cells: int, ratio: float) -> float:
    """Return that of the number of records, which takes in the sum of the cells."""
    variance = noise_variance(noise)
    if ratio == 0:
        return 0.0
    return math.sqrt(1 / (1 / (ratio * variance) + 1 / (cells * variance)))


@pytest.mark.parametrize("ratio", [0.0, 1.0, 9.0, 400.0])
def test_the_ratio_is_found_in_the_deviation_of_the_number_of_records(ratio: float) -> None:
    found = TableNoise.of(GAUSSIAN, 12, deviation(GAUSSIAN, 12, ratio), 0.95)
    assert found.ratio == pytest.approx(ratio, rel=1e-6, abs=1e-9)


def test_gaussian_bars_are_those_of_the_least_variance_by_hand() -> None:
    # 6 of 12 cells, r = 4: k = 6/16, 6 (10/16)^2 + 6 (6/16)^2 + 4 (6/16)^2 = 3.75 = 6 - 36/16.
    found = TableNoise(GAUSSIAN, 12, 4.0, 0.95).half_width(WeightStats.of_cells(6))
    assert found == pytest.approx(sum_half_width(GAUSSIAN, 3.75, 0.95), rel=1e-12)
    # Everybody: 12 - 144/16 = 3, which is less than 4 and less than 12.
    assert TableNoise(GAUSSIAN, 12, 4.0, 0.95).half_width(WeightStats.of_cells(12)) == pytest.approx(
        sum_half_width(GAUSSIAN, 3.0, 0.95), rel=1e-12
    )
    # A public number of records: nothing is left of everybody.
    assert TableNoise(GAUSSIAN, 12, 0.0, 0.95).half_width(WeightStats.of_cells(12)) == 0.0
    assert TableNoise(GAUSSIAN, 12, 0.0, 0.95).half_width(WeightStats.of_cells(6)) == pytest.approx(
        sum_half_width(GAUSSIAN, 3.0, 0.95)
    )


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("cells", [4, 12, 1500])
def test_no_bar_is_wider_than_the_widest(
    noise: DiscreteLaplace | DiscreteGaussian, ratio: float, cells: int
) -> None:
    found = TableNoise(noise, cells, ratio, 0.999)
    widest = found.widest()
    whole = [found.half_width(WeightStats.of_cells(weight)) for weight in range(1, cells + 1)]
    assert max(whole) <= widest * (1 + 1e-12)
    assert widest <= 1.1 * max(whole)
    generator = np.random.default_rng(3)
    for _ in range(200):
        weights = generator.random(cells) ** generator.integers(0, 4)
        width = found.half_width(WeightStats.of(weights))
        assert width <= widest * (1 + 1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "factor"), [(LAPLACE, 3), (GAUSSIAN, 3)])
def test_corrected_cells_stray_as_far_as_stated(
    noise: DiscreteLaplace | DiscreteGaussian, factor: int
) -> None:
    kind = type(noise)
    wide = kind(Fraction(5 * factor * UNITS))
    bits, cells, runs = BitSource(repeatable_seed(5, 0)), 12, 2500
    counts = np.arange(cells, dtype=np.int64) * 50
    variance = noise_variance(noise)
    table = TableNoise(noise, cells, float(factor**2), 0.9)
    chosen = {1: [0], 6: [0, 2, 3, 7, 8, 11], 11: list(range(11))}
    errors = {size: np.zeros(runs) for size in chosen}
    totals = wide.sample_array(bits, runs) / UNITS
    draws = noise.sample_array(bits, runs * cells).reshape(runs, cells)
    for run in range(runs):
        units = (counts * UNITS + draws[run]).reshape(3, 4)
        measured = MarginalMeasurement(("a", "b"), units, noise).estimate
        own, wider = cells * variance, factor**2 * variance
        total = counts.sum() + totals[run]
        estimate = (total * own + units.sum() / UNITS * wider) / (own + wider)
        moved = moved_cells(measured, Total(1.0, float(estimate), 0.0)).values.ravel()
        for size, places in chosen.items():
            errors[size][run] = moved[places].sum() - counts[places].sum()
    for size, found in errors.items():
        expected = variance * (size - size**2 / (cells + factor**2))
        assert found.mean() == pytest.approx(0, abs=4 * math.sqrt(expected / runs))
        assert found.var() == pytest.approx(expected, rel=0.15)
        missed = np.mean(np.abs(found) > table.half_width(WeightStats.of_cells(size)))
        assert missed <= 0.1 + 3 * math.sqrt(0.09 / runs)
        assert np.mean(np.abs(found) > 0.7 * table.half_width(WeightStats.of_cells(size))) > 0.12


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0, 8.0, 100.0])
def test_bars_of_any_weights_are_those_of_the_noise_that_is_left(
    noise: DiscreteLaplace | DiscreteGaussian, ratio: float
) -> None:
    generator = np.random.default_rng(6)
    for _ in range(100):
        weights = generator.normal(generator.normal(0, 2), 1, 12)
        known = max(ratio, 1.0) if ratio else 0.0  # a quieter number of records is taken for a cell
        shift = weights.sum() / (12 + ratio)
        left = np.append(weights - shift, math.sqrt(known) * shift)  # in scales of a cell's noise
        width = TableNoise(noise, 12, ratio, 0.95).half_width(WeightStats.of(weights))
        # No weight is beyond what the width allows for, and it is hardly wider than it has to be.
        exact = sum_half_width(noise, float(np.sum(left**2)), 0.95, peak=float(np.max(left**2)))
        assert exact * (1 - 1e-9) <= width <= sum_half_width(noise, float(np.sum(left**2)), 0.95) * (1 + 1e-9)
        assert noise is LAPLACE or width == pytest.approx(exact)


@pytest.mark.parametrize("redraw", [False, True])
def test_rounds_that_draw_their_own_threshold_noise_share_what_may_fail(redraw: bool) -> None:
    state = JOINED.state(seed=1, update_limit=4)
    plan = marginal_plan(state)
    tier = replace(plan, sparse=replace(plan.sparse, redraw=redraw))
    # A question meets high noise more often than a single draw is high: each round has its part, or the one.
    test, part = tier.sparse.test, 0.05 / 4 if redraw else 0.05
    assert negative_margin(tier, 0.95) == pytest.approx(test.negative_margin(1 - part), rel=1e-12)
    assert test.negative_margin(1 - 0.05 / 4) > 1.2 * test.negative_margin(0.95)


# --- bars of counts from residuals --------------------------------------------------------------------------

NAMES = ["short", "public number", "tree and bins", "twice", "three short", "three, tree and bins"]
RUNS = 500


def drawn(numbers: list[NDArray[np.int64]], deviations: list[float]) -> list[list[NDArray[np.int64]]]:
    """Return numbers with the noise of each run, each on its own grid."""
    found = []
    for place, (own, deviation) in enumerate(zip(numbers, deviations, strict=True)):
        noise = np.zeros((RUNS, *own.shape), dtype=np.int64)
        if deviation > 0:
            bits = BitSource(repeatable_seed(7, place))
            noise += DiscreteGaussian(Fraction(deviation)).sample_array(bits, noise.size).reshape(noise.shape)
        found.append(own + noise)
    return [list(run) for run in zip(*found, strict=True)]


def table_of(joint: Several) -> NDArray[np.int64]:
    return np.random.default_rng(2).integers(0, 300, [side.cells for side in joint.sides])


@cache
def runs_of(name: str) -> tuple[Estimate, NDArray[np.float64]]:
    """Return the counts of one run, and the errors of all: float64, shape (runs, *cells)."""
    joint = JOINT[name]
    table = table_of(joint)
    numbers, deviations, truth = joint.numbers(table), joint.deviations(), joint.truth(table)
    counts = [joint.counts(run) for run in drawn(numbers, deviations)]
    return counts[0], np.array([one.values - truth for one in counts])


def require_coverage(errors: NDArray[np.float64], widths: dict[float, float]) -> None:
    """Require that errors lie within widths by confidence as often as is said, and of what size they are."""
    for confidence, width in widths.items():
        held, spread = float(np.mean(np.abs(errors) <= width)), math.sqrt(confidence * (1 - confidence))
        assert held >= confidence - 4 * spread / math.sqrt(len(errors))
        assert held <= confidence + 4 * spread / math.sqrt(len(errors))
        require_scale(errors, width / NormalDist().inv_cdf((1 + confidence) / 2), "norm")


def boxes_of(shape: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """Return some boxes: two cells, and ranges along one attribute, or along all."""
    last = [size - 1 for size in shape]

    def mixed(*ways: Callable[[int], tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple(way(one) for way, one in zip(itertools.cycle(ways), last, strict=False))

    return [
        mixed(lambda _: (0, 0)),
        mixed(lambda end: (end, end)),
        mixed(lambda end: (0, end), lambda end: (end, end)),
        mixed(lambda _: (0, 0), lambda end: (0, end)),
        mixed(lambda end: (0, end - 1)),
        mixed(lambda end: (1, end)),
    ]


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_cells_ranges_and_other_sums_are_within_their_bars_as_often_as_stated(name: str) -> None:
    counts, errors = runs_of(name)
    for box in boxes_of(JOINT[name].shape):
        sides = tuple(slice(low, high + 1) for low, high in box)
        runs = [CellSets(np.array([low]), np.array([high])) for low, high in box]
        widths = {
            confidence: SumNoise(counts, confidence).product_half_widths(runs).item()
            for confidence in (0.5, 0.95)
        }
        require_coverage(errors[(slice(None), *sides)].sum(axis=tuple(range(1, errors.ndim))), widths)
    generator = np.random.default_rng(11)
    for _ in range(4):
        weights = generator.normal(generator.normal(0, 2), 1, JOINT[name].shape)
        widths = {one: SumNoise(counts, one).half_width(weights) for one in (0.5, 0.95)}
        require_coverage((errors * weights).sum(axis=tuple(range(1, errors.ndim))), widths)


def test_everybody_is_as_far_off_as_the_number_of_records() -> None:
    counts, _ = runs_of("twice")
    width = SumNoise(counts.over(()), 0.95).half_width(np.ones(()))
    assert width == pytest.approx(9 * NormalDist().inv_cdf(0.975), rel=1e-3)
    public, _ = runs_of("public number")
    assert SumNoise(public.over(()), 0.95).half_width(np.ones(())) == pytest.approx(0, abs=1e-6)
    # Of noises on several grids the least is taken for all, with as much greater weights: the same variance.
    counts, _ = runs_of("tree and bins")
    weights = np.ones(counts.shape)
    weights[0] = 0.0
    wanted = math.sqrt(counts.weighted_variance(weights)) * NormalDist().inv_cdf(0.975)
    assert wanted <= SumNoise(counts, 0.95).half_width(weights) <= 1.001 * wanted


# --- one attribute, for all questions about it at once -----------------------------------------------------


LONG = Side(6, ordered_rows(6), 6.0, ordered_rows(6))


@cache
def alone(side: Side) -> tuple[ResidualMeasurement, NDArray[np.float64]]:
    """Return one attribute measured alone, and its errors in all runs: float64, shape (runs, cells)."""
    table = np.arange(side.cells) * 50 + 20
    numbers, deviations = (
        [np.array([table.sum() * UNITS]), side.numbers(table)],
        [9.0 * UNITS, side.deviation()],
    )
    errors, found = [], None
    for everybody, own in drawn(numbers, deviations):
        found = side.measured(own, Total(1.0, float(everybody[0]) / UNITS, 9.0))
        errors.append(found.values - table)
    assert isinstance(found, ResidualMeasurement)
    return found, np.array(errors)


@pytest.mark.statistical
@pytest.mark.parametrize("side", [SHORT, LONG])
def test_one_attributes_runs_are_within_their_bars_as_often_as_stated(side: Side) -> None:
    measured, errors = alone(side)
    for low, high in [(0, 0), (1, side.cells - 1), (0, side.cells - 2)]:
        run = [CellSets(np.array([low]), np.array([high]))]
        widths = {
            one: SumNoise(measured.estimate, one).product_half_widths(run).item() for one in (0.5, 0.95)
        }
        require_coverage(errors[:, low : high + 1].sum(axis=1), widths)
