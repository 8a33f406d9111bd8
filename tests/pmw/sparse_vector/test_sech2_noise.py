"""Noise under the sech^2 test: draws against the table, and the identity that the sampler uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.errors import NoiseError
from pmw.privacy.noise import SechSquared, bernoulli_exp_array
from pmw.privacy.random_bits import BitSource

SCALES = [Fraction(1, 2), Fraction(7, 3), Fraction(41, 2)]


def p_value(draws: NDArray[np.int64], distribution: SechSquared) -> float:
    """Return the chi-square p-value of draws against a distribution, in cells that expect at least 8."""
    edges = np.unique(np.quantile(draws, np.linspace(0, 1, 40)).astype(np.int64))[1:]
    edges = edges[np.concatenate([[True], np.diff(edges) > 0])]
    above = distribution.survival(edges)
    expected = np.concatenate([[1 - above[0]], above[:-1] - above[1:], [above[-1]]]) * len(draws)
    found = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    kept = expected >= 8
    sizes = [np.append(part[kept], part[~kept].sum()) for part in (found, expected)]
    return float(stats.chisquare(sizes[0][sizes[1] > 0], sizes[1][sizes[1] > 0]).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", SCALES)
def test_draws_follow_the_table(scale: Fraction) -> None:
    distribution, bits = SechSquared(scale), BitSource.from_integer(21)
    many = distribution.sample_array(bits, 20_000)
    assert p_value(many, distribution) > 1e-3
    single = np.array([distribution.sample(bits) for _ in range(3000)])
    assert p_value(single, distribution) > 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_that_is_off_by_30_percent_is_rejected(scale: Fraction, factor: Fraction) -> None:
    draws = SechSquared(scale * factor).sample_array(BitSource.from_integer(22), 20_000)
    assert p_value(draws, SechSquared(scale)) < 1e-9


@pytest.mark.statistical
def test_scales_of_the_size_that_sessions_use() -> None:
    distribution = SechSquared(Fraction(75 * 2**20 + 1, 1))
    assert p_value(distribution.sample_array(BitSource.from_integer(23), 8000), distribution) > 1e-3


@pytest.mark.statistical
def test_no_draw_says_anything_of_another(
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    distribution, bits = SechSquared(Fraction(75 * 2**20 + 1)), BitSource.from_integer(26)
    require_independent(np.stack([distribution.sample_array(bits, 16) for _ in range(60)]))
    require_independent(np.array([distribution.sample(bits) for _ in range(240)]).reshape(-1, 4))


@pytest.mark.parametrize("scale", SCALES)
def test_the_table_is_the_squared_hyperbolic_secant(scale: Fraction) -> None:
    distribution, values = SechSquared(scale), np.arange(-5, 400)
    wanted = [1.0 if y <= 0 else 1 / math.cosh(min(y / (2 * float(scale)), 300)) ** 2 for y in values]
    assert distribution.survival(values) == pytest.approx(wanted, rel=1e-12)
    assert distribution.pmf(values)[:-1] == pytest.approx(-np.diff(distribution.survival(values)), abs=1e-14)
    assert distribution.pmf(values).sum() + distribution.survival(np.array([400]))[0] == pytest.approx(1.0)


def test_the_smaller_steps_are_geometric_noise_kept_by_two_coins() -> None:
    scale, y = 7 / 3, np.arange(60)
    decay, after = np.exp(-y / scale), np.exp(-(y + 1) / scale)
    steps = np.tanh((y + 1) / (2 * scale)) - np.tanh(y / (2 * scale))
    kept = 1 / (1 + decay) / (1 + after)
    assert steps == pytest.approx(2 * (1 - math.exp(-1 / scale)) * decay * kept, rel=1e-9, abs=1e-15)


@pytest.mark.statistical
def test_coins_of_any_exponent_are_exact() -> None:
    for numerator in (0, 3, 7, 16):
        heads = bernoulli_exp_array(np.full(6000, numerator), 7, BitSource.from_integer(24)).sum()
        if numerator == 0:
            assert heads == 6000
        else:
            assert stats.binomtest(int(heads), 6000, math.exp(-numerator / 7)).pvalue > 1e-3


def test_the_same_bytes_give_the_same_noise_and_no_draws_are_none() -> None:
    distribution = SechSquared(Fraction(5))
    first, second = (distribution.sample_array(BitSource.from_integer(25), 50) for _ in range(2))
    assert first.tolist() == second.tolist()
    assert distribution.sample_array(BitSource.from_integer(25), 0).tolist() == []
    assert first.min() >= 0


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-2), Fraction(1, 2**51)])
def test_a_scale_that_cannot_be_is_refused(scale: Fraction) -> None:
    with pytest.raises(NoiseError):
        SechSquared(scale)
