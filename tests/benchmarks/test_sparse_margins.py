from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.sparse_margins import Scales, Stream, best_split, log_success, margin


def kept(distribution: str, share: float, per_test: float) -> Scales:
    return Scales(distribution, 1 / share, distribution, per_test / (1 - share))


def test_without_threshold_noise_success_is_a_product() -> None:
    scales = Scales("none", 0.0, "laplace", 2.0)
    each_below, each_above = 1 - math.exp(-(10 + 1) / 2) / 2, 1 - math.exp((1 - 10) / 2) / 2
    found = log_success(scales, Stream(100, 5), 10.0, 1.0)
    assert found == pytest.approx(95 * math.log(each_below) + 5 * math.log(each_above))


def test_exponential_noise_on_both_sides_has_a_closed_form_for_one_value_below() -> None:
    # Pr[nu < 3 + rho] = 1 - E[e^-(3 + rho)/b] = 1 - e^(-3/b) b/(b + b1), at b = 2, b1 = 1.
    scales = Scales("exponential", 1.0, "exponential", 2.0)
    assert log_success(scales, Stream(1, 0), 3.0, 0.0) == pytest.approx(
        math.log(1 - math.exp(-1.5) * 2 / 3), rel=1e-9
    )


def test_redrawn_rounds_multiply() -> None:
    once = Scales("laplace", 3.0, "laplace", 6.0)
    again = Scales("laplace", 3.0, "laplace", 6.0, redrawn=True)
    one, ten = log_success(once, Stream(100, 1), 40.0, 2.0), log_success(again, Stream(1000, 10), 40.0, 2.0)
    assert ten == pytest.approx(10 * one)


@pytest.mark.parametrize("distribution", ["laplace", "exponential"])
def test_success_agrees_with_draws(distribution: str) -> None:
    scales, stream = Scales(distribution, 5.0, distribution, 8.0), Stream(40, 4)
    alpha, shift = 30.0, 3.0
    generator = np.random.default_rng(1)
    draw = generator.laplace if distribution == "laplace" else generator.exponential
    rho, nu = draw(size=(20_000, 1)) * 5, draw(size=(20_000, 40)) * 8
    values = np.where(np.arange(40) < 4, alpha, -alpha)
    right = ((values + nu >= shift + rho) == (values > 0)).all(axis=1)
    expected = math.exp(log_success(scales, stream, alpha, shift))
    assert 0.2 < expected < 0.95
    assert right.mean() == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 20_000))


def test_the_margin_is_where_the_best_shift_just_succeeds() -> None:
    scales, stream = kept("exponential", 0.2, 20.0), Stream(10_000, 20)
    found = margin(scales, stream)
    best = {
        alpha: max(log_success(scales, stream, alpha, shift) for shift in np.linspace(-300, 300, 1201))
        for alpha in (0.999 * found, 1.001 * found)
    }
    low, high = best.values()
    assert low < math.log(0.95) < high


def test_margins_scale_with_the_noise_and_grow_with_the_stream() -> None:
    one = margin(kept("laplace", 0.25, 10.0), Stream(1000, 5))
    twice = margin(Scales("laplace", 8.0, "laplace", 80 / 3), Stream(1000, 5))
    assert twice == pytest.approx(2 * one, rel=1e-3)
    assert margin(kept("laplace", 0.25, 10.0), Stream(10_000, 5)) > 1.1 * one


def test_the_best_split_beats_its_neighbours() -> None:
    stream = Stream(10_000, 10)
    found, scales = best_split(lambda share: kept("exponential", share, 10.0), stream)
    share = 1 / scales.threshold_scale
    for other in (0.7 * share, 1.4 * share):
        assert margin(kept("exponential", other, 10.0), stream) > found
