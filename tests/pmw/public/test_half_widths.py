"""The noise of a table measured whole: the correction by the number of records, and the bars that follow."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pmw.model.estimate import noise_variance
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.evidence import moved_cells
from pmw.public.half_widths import TableNoise, WeightStats, negative_margin
from pmw.public.state import Total
from queries import UNITS, CategoricalAttribute, Domain
from tests.worlds import JOINED, marginal_plan

LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(5 * UNITS)), DiscreteGaussian(Fraction(5 * UNITS))
DOMAIN = Domain((CategoricalAttribute("a", (1, 2, 3)), CategoricalAttribute("b", (1, 2, 3, 4))))


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


def test_a_quieter_number_of_records_than_a_cell_is_taken_for_as_noisy_as_one() -> None:
    quiet, like = TableNoise(LAPLACE, 12, 0.1, 0.95), TableNoise(LAPLACE, 12, 1.0, 0.95)
    assert quiet.half_width(WeightStats.of_cells(6)) >= 0.98 * like.half_width(WeightStats.of_cells(6))


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
