"""Means and variances by numbers that have one noise: ends hold where the noise stays within its width."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.value_sums import JointSums
from queries.factors import UNITS

LOW, HIGH, MIDDLE, SCALE = -20.0, 80.0, 30.0, 50.0
NOISES: list[DiscreteGaussian | DiscreteLaplace] = [
    DiscreteGaussian(Fraction(30 * UNITS)),
    DiscreteLaplace(Fraction(12 * UNITS)),
]
HARD = (LOW, HIGH)


def told(values: np.ndarray, noise: DiscreteGaussian | DiscreteLaplace, *, cells: int = 1) -> JointSums:
    """Return what is measured of whole values without noise."""
    away = values - MIDDLE
    sums = float(away.sum()), float(len(values)), float((away**2).sum())
    return JointSums(*sums, MIDDLE, 0.0, noise, cells, SCALE, 2.0)


def drawn(one: JointSums, errors: tuple[float, float, float]) -> JointSums:
    """Return the same with errors in parts of what single noises stray."""
    width = one._width_of_one(0.95)
    return replace(
        one,
        value=one.value + errors[0] * width * one.scale,
        count=one.count + errors[1] * width * one.one,
        squares=(one.squares or 0.0) + errors[2] * width * one.scale**2,
    )


def strays(one: JointSums, errors: tuple[float, float, float], weights: tuple[float, float, float]) -> bool:
    width, stand_for = one._width_of_one(0.95), (one.scale, one.one, one.scale**2)
    moved = sum(w * e * width * s for w, e, s in zip(weights, errors, stand_for, strict=True))
    return abs(moved) > one.half_width(weights, 0.95) * (1 - 1e-9)


ERRORS = st.tuples(*[st.floats(-1.2, 1.2)] * 3)
VALUES = st.tuples(st.integers(1, 4000), st.floats(LOW, HIGH), st.floats(0, 40), st.integers(0, 2**32 - 1))


def values_of(drawn_from: tuple[int, float, float, int]) -> np.ndarray:
    records, centre, spread, seed = drawn_from
    draw = np.random.default_rng(seed).normal(centre, spread, records)
    return np.rint(np.clip(draw, LOW, HIGH))


@given(VALUES, ERRORS, st.sampled_from(NOISES), st.integers(1, 9), st.sampled_from([1.0, -2.0, 0.5]))
def test_ends_of_means_and_sums_hold_unless_their_one_noise_strays(
    given_values: tuple[int, float, float, int],
    errors: tuple[float, float, float],
    noise: DiscreteGaussian | DiscreteLaplace,
    cells: int,
    factor: float,
) -> None:
    values = values_of(given_values)
    exact = told(values, noise, cells=cells)
    one, line = drawn(exact, errors), (factor, 3.0)
    weighed = factor * values + 3.0
    hard = tuple(sorted(factor * end + 3.0 for end in HARD))
    mean = float(weighed.mean())
    if not strays(exact, errors, (factor, factor * MIDDLE + 3 - mean, 0.0)):
        low, high = one.mean_ends(line, (hard[0], hard[1]), 0.95)
        assert low - 1e-6 <= mean <= high + 1e-6
    if not strays(exact, errors, (factor, factor * MIDDLE + 3, 0.0)):
        low, high = one.sum_ends(line, 0.95)[1]
        assert low - 1e-6 <= weighed.sum() <= high + 1e-6
    if not strays(exact, errors, (0.0, 1.0, 0.0)):
        assert not one.is_sure(len(values) + 1, 0.95)


@settings(max_examples=150)
@given(VALUES, ERRORS, st.sampled_from(NOISES))
def test_ends_of_variances_hold_unless_one_of_two_noises_strays(
    given_values: tuple[int, float, float, int],
    errors: tuple[float, float, float],
    noise: DiscreteGaussian | DiscreteLaplace,
) -> None:
    values = values_of(given_values)
    exact = told(values, noise)
    one, mean = drawn(exact, errors), float(values.mean())
    step = (HIGH - LOW) / 4096
    point = LOW + step * round((mean - LOW) / step)
    away = point - MIDDLE
    about = float(((values - point) ** 2).mean())
    if strays(exact, errors, (1.0, MIDDLE - mean, 0.0)):
        return
    if strays(exact, errors, (-2 * away, away**2 - about, 1.0)):
        return
    low, high = one.variance_ends(HARD, 0.95)
    assert low - 1e-6 <= values.var() <= high + 1e-6


def test_a_variance_is_looked_at_about_every_mean_that_there_may_be() -> None:
    """Values that are all alike have none, though it is large about the middle of what the mean may be."""
    exact, away, errors = told(np.full(391, -19.0), NOISES[0]), -19 - MIDDLE, (0.96, 0.33, 0.28)
    assert not strays(exact, errors, (1.0, -away, 0.0))
    assert not strays(exact, errors, (-2 * away, away**2, 1.0))
    one = drawn(exact, errors)
    middle = sum(one.mean_ends((1.0, 0.0), HARD, 0.95)) / 2
    assert one._square_ends(np.array([middle]), (HIGH - LOW) ** 2, 0.95)[0] > 20
    assert one.variance_ends(HARD, 0.95)[0] == 0


def test_ends_are_as_far_as_the_noise_of_one_number() -> None:
    values = np.full(10_000, 12.0)
    one = told(values, NOISES[0])
    low, high = one.mean_ends((1.0, 0.0), HARD, 0.95)
    sigma = 30 * math.hypot(SCALE, (MIDDLE - 12) * 2)
    assert (high - low) / 2 == pytest.approx(1.96 * sigma / 10_000, rel=0.01)
    assert one.mean((1.0, 0.0), one.count) == pytest.approx(12)
    assert one.variance(one.count) == pytest.approx(0, abs=1e-6)


EXACT = DiscreteGaussian(Fraction(1))  # as good as none


@pytest.mark.parametrize("factor", [1.0, -2.0])
@pytest.mark.parametrize("beside", [-0.5, 0.5])
def test_a_mean_is_known_but_for_where_values_lie_beside_the_middles_of_their_places(
    factor: float, beside: float
) -> None:
    """All values lie at the same end of their places, which nothing that was measured tells."""
    middles = np.arange(10_000) % 40
    one = replace(told(middles.astype(float), EXACT), reach=0.5)
    weighed = factor * (middles + beside) + 3.0
    hard = tuple(sorted(factor * end + 3.0 for end in HARD))
    low, high = one.mean_ends((factor, 3.0), (hard[0], hard[1]), 0.95)
    assert low - 1e-6 <= weighed.mean() <= high + 1e-6
    assert high - low == pytest.approx(abs(factor), abs=1e-3)
    low, high = one.sum_ends((factor, 3.0), 0.95)[1]
    assert low - 1e-3 <= weighed.sum() <= high + 1e-3
    assert (high - low) / len(weighed) == pytest.approx(abs(factor), abs=1e-3)


def test_a_variance_is_not_above_what_it_is_about_the_nearest_point_of_the_grid() -> None:
    """The mean lies half a step from the points on either side, and nothing else is unknown."""
    records, step = 8192, (HIGH - LOW) / 4096
    mean = LOW + step * (1024 + 0.5)
    values = np.full(records, math.floor(mean))
    values[: round(records * (mean - math.floor(mean)))] += 1
    assert values.mean() == pytest.approx(mean, abs=1e-12)
    low, high = told(values.astype(float), EXACT).variance_ends(HARD, 0.95)
    assert low - 1e-6 <= values.var() <= high + 1e-6
    assert low == pytest.approx(values.var(), abs=step**2 / 10)


def test_of_nobody_any_mean_may_be() -> None:
    one = told(np.array([30.0]), NOISES[0])
    assert one.mean_ends((1.0, 0.0), HARD, 0.95) == HARD
    assert one.variance_ends(HARD, 0.95) == (0.0, 2500.0)
    assert not one.is_sure(1, 0.95)


@pytest.mark.parametrize("noise", NOISES, ids=["gaussian", "laplace"])
def test_drawn_ends_miss_as_seldom_as_they_say(noise: DiscreteGaussian | DiscreteLaplace) -> None:
    draw = np.random.default_rng(7)
    values = np.rint(np.clip(draw.normal(5, 12, 3000), LOW, HIGH))
    exact, missed = told(values, noise), np.zeros(2)
    for _ in range(400):
        if isinstance(noise, DiscreteGaussian):
            errors = draw.normal(0, float(noise.sigma) / UNITS, 3)
        else:
            errors = draw.laplace(0, float(noise.scale) / UNITS, 3)
        one = replace(
            exact,
            value=exact.value + errors[0] * exact.scale,
            count=exact.count + errors[1] * exact.one,
            squares=(exact.squares or 0.0) + errors[2] * exact.scale**2,
        )
        low, high = one.mean_ends((1.0, 0.0), HARD, 0.95)
        least, most = one.variance_ends(HARD, 0.95)
        missed += not low <= values.mean() <= high, not least <= values.var() <= most
    assert 2 <= missed[0] <= 34  # of 400: 20 expected at most
    assert missed[1] <= 34
