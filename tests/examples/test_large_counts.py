"""Large counts: ranges, each with its place, and cohorts up to the c-th large one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from applications.large_counts import (
    RangeAnswer,
    laplace_cohorts,
    range_counts,
    range_query_svt,
    sparse_cohorts,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.planning.theorems import laplace_accuracy, sparse_accuracy
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import Sparse

pairs = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=20)
AGES = np.arange(9_000, dtype=np.int64) % 90  # 100 of each age
RANGES = [(0, 9), (5, 5), (20, 59), (70, 60), (30, 79), (0, 89)]  # 1,000; 100; 4,000; 0; 5,000; 9,000


@given(st.lists(st.integers(-20, 20), max_size=30), pairs)
def test_counts_include_both_ends(values: list[int], ranges: list[tuple[int, int]]) -> None:
    found = range_counts(np.array(values, dtype=np.int64), ranges).tolist()
    assert found == [sum(low <= value <= high for value in values) for low, high in ranges]


def test_the_large_ranges_of_a_table_are_answered_up_to_the_limit_and_say_which_they_are() -> None:
    def asked(ages: NDArray[np.int64], limit: int) -> tuple[RangeAnswer, ...]:
        tests, bits = Sparse.textbook(epsilon=1, update_limit=limit), BitSource.from_integer(limit)
        return range_query_svt(ages, RANGES, tests, threshold=2_500, epsilon=1, bits=bits)

    answers = asked(AGES, 3)
    assert [(one.place, one.low, one.high) for one in answers] == [(2, 20, 59), (4, 30, 79), (5, 0, 89)]
    assert [one.scale for one in answers] == [3, 3, 3]
    assert [one.count for one in answers] == pytest.approx([4_000, 5_000, 9_000], abs=60)
    assert [one.place for one in asked(AGES, 2)] == [2, 4]
    assert asked(AGES[:0], 2) == ()


@pytest.mark.parametrize(("ranges", "scale"), [(RANGES[2:3], 1), (RANGES[2:5], 2)])
def test_counts_that_were_found_share_the_whole_price(ranges: list[tuple[int, int]], scale: int) -> None:
    tests, truth = Sparse.textbook(epsilon=1, update_limit=10), range_counts(AGES, ranges)
    noise = DiscreteLaplace(Fraction(scale))
    for seed in range(20):
        bits, again = BitSource.from_integer(seed), BitSource.from_integer(seed)
        answers = range_query_svt(AGES, ranges, tests, threshold=2_000, epsilon=1, bits=bits)
        tests.run(truth, np.full(len(truth), 2_000), again)
        assert len(answers) == scale
        for answer in answers:  # each has a draw of its own, after all tests
            assert answer.count == truth[answer.place] + noise.sample(again)
        assert bits.take(8) == again.take(8)


@pytest.mark.parametrize(("ranges", "epsilon"), [(RANGES, 0), ([1, 2], 1), ([(1.5, 2)], 1), ([(1, 2, 3)], 1)])
def test_ranges_and_prices_without_sense_are_refused(ranges: list[tuple[int, int]], epsilon: int) -> None:
    tests = Sparse.textbook(epsilon=1, update_limit=2)
    bits = BitSource.from_integer(5)
    with pytest.raises(BudgetError, match="expected"):
        range_query_svt(AGES, ranges, tests, threshold=1, epsilon=epsilon, bits=bits)
    assert bits.bits(64) == BitSource.from_integer(5).bits(64)


COUNT, LIMIT, BETA, THRESHOLD = 600, 3, 0.1, 20_000


def sizes_at(gap: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return sizes so far below T, but for three so far above it, the last among them."""
    sizes = np.full(COUNT, THRESHOLD - int(gap) - 1, dtype=np.int64)
    sizes[[10, 270, COUNT - 1]] = THRESHOLD + int(gap) + 1
    return sizes


def wrong(
    sizes: np.ndarray[tuple[int], np.dtype[np.int64]], answers: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> bool:
    return len(answers) < len(sizes) or bool((answers != (sizes >= THRESHOLD)).any())


@pytest.mark.statistical
def test_each_way_keeps_to_its_bound_and_noise_on_every_count_to_no_smaller_one() -> None:
    alpha = sparse_accuracy(COUNT, LIMIT, epsilon=1, beta=BETA)
    assert alpha * 20 < laplace_accuracy(COUNT, epsilon=1, beta=BETA)
    sizes, tests, runs = sizes_at(alpha), Sparse.textbook(epsilon=1, update_limit=LIMIT), 100
    bits = BitSource.from_integer(1)
    ours = sum(
        wrong(sizes, sparse_cohorts(sizes, tests, threshold=THRESHOLD, bits=bits)) for _ in range(runs)
    )
    theirs = sum(
        wrong(sizes, laplace_cohorts(sizes, epsilon=1, threshold=THRESHOLD, bits=bits)) for _ in range(runs)
    )
    bound = runs * BETA + 4 * np.sqrt(runs * BETA * (1 - BETA))
    assert ours <= bound
    assert theirs == runs
    far = sizes_at(laplace_accuracy(COUNT, epsilon=1, beta=BETA))  # the bound of noise on every count
    own = (laplace_cohorts(far, epsilon=1, threshold=THRESHOLD, bits=bits) for _ in range(runs))
    assert sum(wrong(far, found) for found in own) <= bound


def test_every_cohort_has_noise_of_its_own() -> None:
    sizes = np.full(200, THRESHOLD)
    found = laplace_cohorts(sizes, epsilon=1, threshold=THRESHOLD, bits=BitSource.from_integer(5))
    noise = DiscreteLaplace(Fraction(200)).sample_array(BitSource.from_integer(5), 200)
    assert found.tolist() == (noise >= 0).tolist()
    few = np.array([0, 10**6, 0, 10**6, 10**6, 0])  # after the c-th large one there is no answer
    tests = Sparse.textbook(epsilon=1, update_limit=2)
    answers = sparse_cohorts(few, tests, threshold=10**5, bits=BitSource.from_integer(3))
    assert answers.tolist() == [False, True, False, True]


def test_prices_and_sizes_without_sense_are_refused() -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        laplace_cohorts(np.array([1]), epsilon=0, threshold=1, bits=BitSource.from_integer(4))
    with pytest.raises(BudgetError, match="integer"):
        laplace_cohorts(np.zeros(2), epsilon=1, threshold=1, bits=BitSource.from_integer(4))  # type: ignore[arg-type]
