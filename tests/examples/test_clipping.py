"""Clipping bounds and averages: exact queries of sensitivity 1, one price for any list, thirds of epsilon."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from applications.clipping import (
    AutoAverage,
    auto_avg,
    clipped_sum,
    clipping_bound,
    clipping_queries,
    firm_threshold,
    naive_clipping_bound,
    sum_noise,
)
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import AboveThreshold, NoiseKind, Sides, ThresholdTest

columns = st.lists(st.integers(-(2**62), 2**62), max_size=30)
bound_lists = st.lists(st.integers(1, 2**62), min_size=1, max_size=20, unique=True).map(sorted)
LONG = range(1, 150_000, 5)


def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@given(columns, st.integers(0, 2**62))
def test_a_clipped_sum_is_exact_beyond_64_bits(values: list[int], bound: int) -> None:
    assert clipped_sum(column(values), bound) == sum(min(max(value, 0), bound) for value in values)


@given(columns, bound_lists)
def test_a_query_is_the_difference_of_two_clipped_sums(values: list[int], bounds: list[int]) -> None:
    found = clipping_queries(column(values), bounds).tolist()
    data = column(values)
    assert found == [clipped_sum(data, bound) - clipped_sum(data, bound + 1) for bound in bounds]


@given(columns, st.integers(-(2**62), 2**62), bound_lists)
def test_one_record_more_lowers_each_query_by_at_most_one(
    values: list[int], more: int, bounds: list[int]
) -> None:
    moved = clipping_queries(column([*values, more]), bounds) - clipping_queries(column(values), bounds)
    assert set(moved.tolist()) <= {0, -1}  # all the same way: monotone


@pytest.mark.parametrize("bounds", [range(1, 150, 5), range(1, 150), LONG, [2**power for power in range(30)]])
def test_a_list_of_any_length_gives_a_bound_that_cuts_next_to_nothing(bounds: list[int]) -> None:
    values = np.arange(50_000, dtype=np.int64) % 91
    algorithm = AboveThreshold.textbook(epsilon=1)
    bits = BitSource.from_integer(1)
    for _ in range(20):
        found = clipping_bound(values, bounds, algorithm, bits=bits)
        assert found is not None
        assert (values > found).sum() <= 600  # 549 values equal 90; the noise has scale 4
        assert found >= 80
    assert algorithm.epsilon == 1


def test_a_search_goes_on_from_block_to_block_with_whatever_noise_and_tells_where_none_passes() -> None:
    algorithm, values = AboveThreshold.textbook(epsilon=1), np.full(10_000, 9_001, dtype=np.int64)
    # 9,000 bounds that cannot pass, then one that must: found behind the second block of 4,096.
    found = clipping_bound(values, range(1, 9_002), algorithm, threshold=-500, bits=BitSource.from_integer(2))
    assert found == 9_001
    sharp, low = AboveThreshold.textbook(epsilon=10), np.full(1000, 100, dtype=np.int64)
    assert clipping_bound(low, [5, 99], sharp, bits=BitSource.from_integer(3)) is None
    # Exponential noise at the monotone price: 1/2 + 1/2.
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(2), Fraction(2))
    assert AboveThreshold(test).epsilon == 1
    ages, bits = np.arange(50_000, dtype=np.int64) % 91, BitSource.from_integer(4)
    assert clipping_bound(ages, LONG, AboveThreshold(test), threshold=-20, bits=bits) in (86, 91, 96)


@pytest.mark.statistical
def test_a_firm_threshold_stops_at_the_first_bound_that_cuts_nothing() -> None:
    values = np.full(10_000, 100, dtype=np.int64)
    doubling = [2**power for power in range(40)]
    algorithm = AboveThreshold.textbook(epsilon=Fraction(1, 3))
    firm = firm_threshold(algorithm, confidence=0.95)
    assert firm == -54  # (6 + 12) ln 20 = 53.9
    with pytest.raises(BudgetError, match="confidence"):
        firm_threshold(algorithm, confidence=1)
    bits = BitSource.from_integer(5)

    def overshoots(threshold: int) -> int:
        found = [
            clipping_bound(values, doubling, algorithm, threshold=threshold, bits=bits) for _ in range(400)
        ]
        return sum(bound != 128 for bound in found)

    assert overshoots(firm) <= 20 + 4 * np.sqrt(400 * 0.05 * 0.95)
    assert overshoots(0) > 100


@pytest.mark.parametrize(
    ("bounds", "epsilon"),
    [
        *[(bounds, 1) for bounds in ([], [0, 1], [3, 2], [2, 2], [1.5], [[1, 2]])],
        *[([1, 2], 0), ([1, 2**60], 1), ([1], float("nan"))],
    ],
)
def test_what_makes_no_list_and_no_price_is_refused_before_anything_is_drawn(
    bounds: list[int], epsilon: float
) -> None:
    bits, values = BitSource.from_integer(7), np.arange(10, dtype=np.int64)
    with pytest.raises(BudgetError, match="expected"):
        auto_avg(values, bounds, epsilon=epsilon, bits=bits)
    with pytest.raises(BudgetError, match="expected"):
        naive_clipping_bound(values, bounds, epsilon=epsilon, bits=bits)
    if bounds != [1, 2**60]:  # a bound alone takes no noise of its scale
        with pytest.raises(BudgetError, match="expected"):
            clipping_bound(values, bounds, AboveThreshold.textbook(epsilon=epsilon), bits=bits)
    assert bits.bits(64) == BitSource.from_integer(7).bits(64)


def test_noise_of_a_sum_is_never_too_narrow() -> None:
    assert sum_noise(7, Fraction(1, 3)).scale == 21
    assert 0 <= sum_noise(7, Fraction(3)).scale - Fraction(7, 3) < Fraction(1, 1024)
    for sensitivity, epsilon in ((1, Fraction(0)), (2**41, Fraction(1))):
        with pytest.raises(BudgetError, match="expected"):
            sum_noise(sensitivity, epsilon)


def test_sum_and_count_carry_noise_of_thrice_the_scale_drawn_after_the_search() -> None:
    values, search = np.full(1000, 10, dtype=np.int64), AboveThreshold.textbook(epsilon=Fraction(1, 3))
    for seed in range(20):
        bits, again = BitSource.from_integer(seed), BitSource.from_integer(seed)
        found = auto_avg(values, [100], epsilon=1, bits=bits)  # one bound, taken whether it passes or not
        clipping_bound(values, [100], search, bits=again)
        assert found.noisy_sum == 10_000 + DiscreteLaplace(Fraction(300)).sample(again)
        assert found.noisy_count == 1000 + DiscreteLaplace(Fraction(3)).sample(again)
        assert bits.take(8) == again.take(8)


def test_where_no_bound_passes_the_last_is_taken_and_nothing_is_divided_by_a_count_without_sense() -> None:
    bits = BitSource.from_integer(3)
    found = auto_avg(np.full(100_000, 1000, dtype=np.int64), [1, 2, 4], epsilon=3, bits=bits)
    assert found.bound == 4
    assert found.average == pytest.approx(4, rel=0.01)
    assert AutoAverage(5, 12, -3).average == 12
    assert isinstance(auto_avg(np.zeros(0, dtype=np.int64), [5], epsilon=1, bits=bits).average, float)
