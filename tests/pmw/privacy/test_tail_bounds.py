"""Noise bounds hold as often as they say, and are hardly wider than what does."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from pmw.errors import PMWError
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.privacy.tail_bounds import (
    _first_below,
    certificate_half_width,
    l1_mean,
    least_reach,
    simultaneous_half_width,
    split_confidence,
    sum_half_width,
)
from queries.factors import UNITS

SCALE = 2**24  # units: 16 records
LAPLACE, GAUSSIAN = DiscreteLaplace(Fraction(SCALE)), DiscreteGaussian(Fraction(SCALE))
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(400)
CONFIDENCES = (0.5, 0.9, 0.907, 0.95, 0.999, 1 - 1e-6)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(400)])
@pytest.mark.parametrize("chance", [Fraction(1, 3), Fraction(1, 100), Fraction(1, 10**9)])
def test_the_least_reach_is_the_least_that_noise_seldom_reaches(scale: Fraction, chance: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    reach = least_reach(noise, chance)
    passes, before = noise.survival(np.array([reach, reach - 1]))
    assert passes <= chance
    assert before > chance
    assert least_reach(noise, Fraction(3, 4)) == 1
    with pytest.raises(PMWError, match="above 0"):
        least_reach(noise, Fraction(0))


@given(st.floats(1e-12, 0.9), st.floats(0.01, 30), st.sampled_from([0.5, 1, 2, 7]), st.integers(0, 4))
def test_where_a_tail_falls_below_is_found_as_halving_finds_it(
    beta: float, rate: float, power: float, steps: int
) -> None:
    def tail(t: float) -> float:
        """Fall, in steps or not, to 0 or not."""
        fallen = math.exp(-((rate * t) ** power))
        return fallen if not steps else math.ceil(fallen * 10**steps) / 10**steps

    seen = list[float]()
    found = _first_below(lambda t: seen.append(t) or tail(t), beta)  # type: ignore[func-returns-value]
    low, high = 0.0, 1.0
    while tail(high) > beta:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if tail(middle) <= beta else (middle, high)
    assert found == high
    assert steps or len(seen) < 45


def laplace_tail(t: float, cells: int) -> float:
    """Return Pr[|sum of Laplace noise of scale 1 over cells| > t], for its variance is gamma distributed."""
    low, high = 0.0, 1 + 12 / math.sqrt(cells) + 100 / cells
    places = (low + high) / 2 + (high - low) / 2 * NODES
    density = stats.gamma.pdf(places, cells, scale=1 / cells) * NODE_WEIGHTS * (high - low) / 2
    return float(np.sum(2 * stats.norm.sf(t / np.sqrt(2 * cells * places)) * density))


def positive_tail(t: float, cells: int) -> float:
    """Return Pr[sum of positive parts of Laplace noise of scale 1 > t]: how many are positive, then gamma."""
    positive = np.arange(1, cells + 1)
    return float(np.sum(stats.binom.pmf(positive, cells, 0.5) * special.gammaincc(positive, t)))


def quantile(tail: Callable[[float], float], beta: float) -> float:
    low, high = 0.0, 1.0
    while tail(high) > beta:
        high *= 2
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > beta else (low, middle)
    return high


# --- the mean of |noise| ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(64), Fraction(65)])
@pytest.mark.parametrize("distribution", [DiscreteLaplace, DiscreteGaussian])
def test_the_mean_of_absolute_noise_is_that_of_the_table(
    distribution: type[DiscreteLaplace | DiscreteGaussian], scale: Fraction
) -> None:
    support = np.arange(-4000, 4001)
    noise = distribution(scale)
    assert l1_mean(noise) * UNITS == pytest.approx(np.sum(np.abs(support) * noise.pmf(support)), rel=1e-9)


# --- one sum of noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("cells", [1, 2, 3, 64, 1000])
def test_equal_weights_under_laplace_noise_stay_within_their_width(cells: int, confidence: float) -> None:
    beta = 1 - confidence
    exact = quantile(lambda t: laplace_tail(t, cells), beta)
    known = sum_half_width(LAPLACE, cells, confidence, peak=1) * UNITS / SCALE
    unknown = sum_half_width(LAPLACE, cells, confidence) * UNITS / SCALE
    assert exact <= known * (1 + 1e-9)
    assert known <= unknown * (1 + 1e-3)
    assert laplace_tail(known, cells) <= beta
    if confidence >= 0.95:  # below, a Laplace cell is narrower than normal, and the bound is for any weights
        between = cells & (cells - 1)  # from one power of 2 to the next, the smaller is taken
        assert known <= exact * (1.14 if between else 1.02)


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_unequal_weights_under_laplace_noise_stay_within_their_width(confidence: float) -> None:
    # Two cells at scales a > b: Pr[|sum| > t] = (a^2 e^(-t/a) - b^2 e^(-t/b)) / (a^2 - b^2).
    width = sum_half_width(LAPLACE, 1.0, confidence) * UNITS / SCALE
    for share in np.linspace(0.501, 0.999, 99):
        a, b = math.sqrt(share), math.sqrt(1 - share)
        tail = (a**2 * math.exp(-width / a) - b**2 * math.exp(-width / b)) / (a**2 - b**2)
        assert tail <= 1 - confidence


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_gaussian_sums_have_normal_quantiles(confidence: float) -> None:
    normal = 16 * NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(5)
    assert normal < sum_half_width(GAUSSIAN, 5.0, confidence) < normal * (1 + 1e-5)
    assert sum_half_width(GAUSSIAN, 5.0, confidence, peak=1) == sum_half_width(GAUSSIAN, 5.0, confidence)


@pytest.mark.parametrize("sigma", [Fraction(1, 4), Fraction(1), Fraction(7), Fraction(8), Fraction(40)])
@pytest.mark.parametrize("distribution", [DiscreteLaplace, DiscreteGaussian])
def test_narrow_noise_stays_within_its_width_on_the_grid(
    distribution: type[DiscreteLaplace | DiscreteGaussian], sigma: Fraction
) -> None:
    # Exactly, by convolution: weights 1, 1 and 1/2, on a grid of half units.
    noise = distribution(sigma)
    reach = math.ceil(45 * sigma) + 2
    support = np.arange(-reach, reach + 1)
    one = np.zeros(4 * reach + 1)
    one[::2] = noise.pmf(support)
    half = noise.pmf(support)
    total = np.convolve(np.convolve(one, one), half)
    places = (np.arange(len(total)) - len(total) // 2) / 2
    for confidence in CONFIDENCES:
        width = sum_half_width(noise, 2.25, confidence, peak=1) * UNITS
        assert total[np.abs(places) > width].sum() <= 1 - confidence


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_sums_of_exact_draws_stay_within_their_width(noise: DiscreteLaplace | DiscreteGaussian) -> None:
    generator = np.random.default_rng(5)
    weights = generator.random(12)
    draws = noise.sample_array(BitSource.from_integer(6), 12 * 20_000).reshape(-1, 12) @ weights / UNITS
    squares, peak = float(np.sum(weights**2)), float(np.max(weights**2))
    for confidence in (0.8, 0.95, 0.99):
        width = sum_half_width(noise, squares, confidence, peak=peak)
        deviation = 4 * math.sqrt(confidence * (1 - confidence) / len(draws))
        assert np.mean(np.abs(draws) <= width) >= confidence - deviation
        assert np.mean(np.abs(draws) <= width / 1.3) < confidence - deviation  # a scale 30 % off shows
        assert np.mean(np.abs(draws) <= width * 1.3) > confidence + deviation


# --- all weights at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, 2, 64, 65, 2048, 2049])  # from 2,049 on by Chernoff's bound alone
@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-8])
def test_laplace_noise_stays_within_its_simultaneous_width(cells: int, confidence: float) -> None:
    exact = quantile(lambda t: positive_tail(t, cells), (1 - confidence) / 2)
    width = simultaneous_half_width(LAPLACE, cells, confidence) * UNITS / SCALE
    assert exact <= width <= exact * (1.04 if cells > 2048 else 1.005)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999, 1 - 1e-8])
def test_one_or_two_cells_of_gaussian_noise_are_bounded_closely(confidence: float) -> None:
    beta = 1 - confidence
    one = simultaneous_half_width(GAUSSIAN, 1, confidence) / 16
    assert stats.norm.isf(beta / 2) <= one <= stats.norm.isf(beta / 2) * 1.003 + 1e-4
    two = simultaneous_half_width(GAUSSIAN, 2, confidence) / 16
    # One positive: its tail. Both: that of their sum, given the quadrant.
    grid = (np.arange(200_000) + 0.5) * 1e-4
    both = np.sum(stats.norm.pdf(grid) * stats.norm.sf(np.maximum(two - grid, 0))) * 1e-4
    assert stats.norm.sf(two) + both <= beta / 2 * (1 + 1e-6)
    smaller = two / 1.004
    both = np.sum(stats.norm.pdf(grid) * stats.norm.sf(np.maximum(smaller - grid, 0))) * 1e-4
    assert stats.norm.sf(smaller) + both > beta / 2


@pytest.mark.statistical
@pytest.mark.parametrize("cells", [1, 48, 4000])
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_every_query_stays_within_the_simultaneous_width(
    noise: DiscreteLaplace | DiscreteGaussian, cells: int
) -> None:
    # The query that does worst takes the cells of one sign, having seen the noise.
    runs = max(100, min(20_000, 200_000 // cells))
    draws = noise.sample_array(BitSource.from_integer(cells), runs * cells).reshape(runs, cells) / UNITS
    worst = np.maximum(np.maximum(draws, 0).sum(axis=1), np.maximum(-draws, 0).sum(axis=1))
    width = simultaneous_half_width(noise, cells, 0.95)
    deviation = 4 * math.sqrt(0.95 * 0.05 / runs)
    assert np.mean(worst <= width) >= 0.95 - deviation
    assert width <= np.quantile(worst, 0.95) * 1.06


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(3), Fraction(12)])
def test_narrow_noise_stays_within_its_simultaneous_width(sigma: Fraction) -> None:
    noise = DiscreteGaussian(sigma)
    support = np.arange(0, math.ceil(45 * sigma))
    distribution = noise.pmf(support)
    distribution[0] = (
        noise.survival(np.array([0]))[0] - distribution[1:].sum() + noise.survival(np.array([1]))[0]
    )
    total = np.convolve(np.convolve(distribution, distribution), distribution)
    assert simultaneous_half_width(noise, 0, 0.95) == sum_half_width(noise, 0, 0.95) == 0
    for confidence in (0.5, 0.95, 0.999):
        width = simultaneous_half_width(noise, 3, confidence) * UNITS
        assert total[np.arange(len(total)) > width].sum() <= (1 - confidence) / 2


# --- certificates -----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(0, 9), st.floats(0, 1)), min_size=1, max_size=6),
    st.floats(0, 5),
)
def test_a_certificate_bounds_every_query_that_is_constant_on_its_cells(
    cells: list[tuple[int, float, float]], slack: float
) -> None:
    counts = np.array([count for count, _, _ in cells]) * UNITS
    model = np.array([cell for _, cell, _ in cells])
    weights = np.array([weight for _, _, weight in cells])
    statistic = np.abs(counts - np.rint(model * UNITS)).sum() / UNITS + slack
    total_error = abs(counts.sum() / UNITS - model.sum())
    error = abs(float(weights @ (counts / UNITS - model)))
    ends = (float(weights.min()), float(weights.max()))
    narrow = certificate_half_width(statistic, total_error, len(cells), weights=ends)
    wide = certificate_half_width(statistic, total_error, len(cells))
    assert error <= narrow + 1e-9
    assert narrow <= wide + len(cells) / UNITS


def test_the_bound_of_a_certificate_is_attained() -> None:
    # Two records too few in one cell, five too many in the other: S = 7, |delta| = 3, and the query of the
    # second cell is off by (7 + 3)/2.
    width = certificate_half_width(7, 3, 2)
    assert width == pytest.approx(5, abs=4 / UNITS)
    assert width > 5
    assert certificate_half_width(7, 3, 2, weights=(1, 1)) == pytest.approx(3, abs=4 / UNITS)


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5])
def test_a_confidence_that_is_no_probability_is_refused(confidence: float) -> None:
    calls: tuple[Callable[[], float], ...] = (
        lambda: sum_half_width(LAPLACE, 1, confidence),
        lambda: simultaneous_half_width(GAUSSIAN, 1, confidence),
        lambda: split_confidence(confidence, 2),
    )
    for call in calls:
        with pytest.raises(PMWError, match="strictly between 0 and 1"):
            call()
