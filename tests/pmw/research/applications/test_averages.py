"""Averages by auto_avg: thirds of epsilon, any scale, exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.applications import AutoAverage, auto_avg, clipping_bound
from pmw.sparse_vector import AboveThreshold

LONG = range(1, 150_000, 5)


@pytest.mark.parametrize("scale", [1, 1000])
def test_one_call_serves_columns_of_different_scales(scale: int) -> None:
    values = (np.arange(50_000, dtype=np.int64) % 91) * scale  # mean 45 scale
    found = auto_avg(values, LONG, epsilon=1, bits=BitSource.from_integer(scale))
    assert found.average == pytest.approx(45 * scale, rel=0.02)
    assert 80 * scale <= found.bound <= 100 * scale + 1000
    assert abs(found.noisy_count - 50_000) < 60  # scale 3


def test_sum_and_count_carry_noise_of_thrice_the_scale_drawn_after_the_search() -> None:
    values, search = np.full(1000, 10, dtype=np.int64), AboveThreshold.textbook(epsilon=Fraction(1, 3))
    for seed in range(20):
        bits, again = BitSource.from_integer(seed), BitSource.from_integer(seed)
        found = auto_avg(values, [100], epsilon=1, bits=bits)  # one bound, taken whether it passes or not
        clipping_bound(values, [100], search, bits=again)
        assert found.noisy_sum == 10_000 + DiscreteLaplace(Fraction(300)).sample(again)
        assert found.noisy_count == 1000 + DiscreteLaplace(Fraction(3)).sample(again)
        assert bits.take(8) == again.take(8)


def test_where_no_bound_passes_the_last_is_taken() -> None:
    values = np.full(100_000, 1000, dtype=np.int64)
    found = auto_avg(values, [1, 2, 4], epsilon=3, bits=BitSource.from_integer(3))
    assert found.bound == 4
    assert found.average == pytest.approx(4, rel=0.01)


def test_a_count_without_sense_divides_nothing_by_zero() -> None:
    assert AutoAverage(5, 12, -3).average == 12
    assert isinstance(
        auto_avg(np.zeros(0, dtype=np.int64), [5], epsilon=1, bits=BitSource.from_integer(4)).average, float
    )


@pytest.mark.parametrize(
    ("bounds", "epsilon"), [([1, 2], 0), ([1, 2**60], 1), ([2, 1], 1), ([1], float("nan"))]
)
def test_what_cannot_be_paid_is_refused_before_anything_is_drawn(bounds: list[int], epsilon: float) -> None:
    bits = BitSource.from_integer(5)
    with pytest.raises(BudgetError, match="expected"):
        auto_avg(np.arange(10, dtype=np.int64), bounds, epsilon=epsilon, bits=bits)
    assert bits.bits(64) == BitSource.from_integer(5).bits(64)
