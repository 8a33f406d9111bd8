"""The applications: clipping bounds and averages, large counts, and the functions of a chapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pytest
from applications import near_abuah
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
from pmw.privacy.noise import DiscreteLaplace, uniform_below
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import AboveThreshold, NoiseKind, Sides, Sparse, ThresholdTest

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


@pytest.mark.parametrize("bounds", [range(1, 150), LONG, [2**power for power in range(30)]])
def test_a_list_of_any_length_gives_a_bound_that_cuts_next_to_nothing(bounds: list[int]) -> None:
    values = np.arange(50_000, dtype=np.int64) % 91
    algorithm = AboveThreshold.textbook(epsilon=1)
    bits = BitSource.from_integer(1)
    for _ in range(10):
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
        *((bounds, 1) for bounds in ([], [0, 1], [3, 2], [2, 2], [1.5], [[1, 2]])),
        ([1, 2], 0),
        ([1, 2**60], 1),
    ],
)
def test_what_makes_no_list_and_no_price_is_refused_before_anything_is_drawn(
    bounds: list[int], epsilon: float
) -> None:
    bits, values = BitSource.from_integer(7), np.arange(10, dtype=np.int64)
    for search in (auto_avg, naive_clipping_bound):
        with pytest.raises(BudgetError, match="expected"):
            search(values, bounds, epsilon=epsilon, bits=bits)
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


# --- large counts: ranges, each with its place, and cohorts up to the c-th large one ------------------------

pairs = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=20)
AGES = np.arange(9_000, dtype=np.int64) % 90  # 100 of each age
RANGES = [(0, 9), (5, 5), (20, 59), (70, 60), (30, 79), (0, 89)]  # 1,000; 100; 4,000; 0; 5,000; 9,000


@given(st.lists(st.integers(-20, 20), max_size=30), pairs)
def test_counts_include_both_ends(values: list[int], ranges: list[tuple[int, int]]) -> None:
    found = range_counts(np.array(values, dtype=np.int64), ranges).tolist()
    assert found == [sum(low <= value <= high for value in values) for low, high in ranges]


def test_the_large_ranges_of_a_table_are_answered_up_to_the_limit_and_say_which_they_are() -> None:
    def asked(ages: NDArray[np.int64], limit: int, epsilon: float = 1) -> tuple[RangeAnswer, ...]:
        tests, bits = Sparse.textbook(epsilon=1, update_limit=limit), BitSource.from_integer(limit)
        return range_query_svt(ages, RANGES, tests, threshold=2_500, epsilon=epsilon, bits=bits)

    answers = asked(AGES, 3)
    assert [(one.place, one.low, one.high) for one in answers] == [(2, 20, 59), (4, 30, 79), (5, 0, 89)]
    assert [one.scale for one in answers] == [3, 3, 3]
    assert [one.count for one in answers] == pytest.approx([4_000, 5_000, 9_000], abs=60)
    assert [one.place for one in asked(AGES, 2)] == [2, 4]
    assert asked(AGES[:0], 2) == ()
    with pytest.raises(BudgetError, match="expected"):
        asked(AGES, 2, epsilon=0)


def test_counts_that_were_found_share_the_whole_price() -> None:
    ranges, scale = RANGES[2:5], 2
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


def test_every_cohort_has_noise_of_its_own_and_a_price_with_sense() -> None:
    noise = DiscreteLaplace(Fraction(200)).sample_array(BitSource.from_integer(5), 200)
    found = laplace_cohorts(np.full(200, 9), epsilon=1, threshold=9, bits=BitSource.from_integer(5))
    assert found.tolist() == (noise >= 0).tolist()
    few = np.array([0, 10**6, 0, 10**6, 10**6, 0])  # after the c-th large one there is no answer
    tests, bits = Sparse.textbook(epsilon=1, update_limit=2), BitSource.from_integer(3)
    answers = sparse_cohorts(few, tests, threshold=10**5, bits=bits)
    assert answers.tolist() == [False, True, False, True]
    with pytest.raises(BudgetError, match="epsilon"):
        laplace_cohorts(few, epsilon=0, threshold=1, bits=bits)
    with pytest.raises(BudgetError, match="integer"):
        laplace_cohorts(np.zeros(2), epsilon=1, threshold=1, bits=bits)  # type: ignore[arg-type]


# --- the chapter's functions: its programs run beside ours on the same draws, and its printed cases on Adult

Table: TypeAlias = Mapping[str, NDArray[np.int64]]
COUNTS = (2, 5, 3, 9, 1, 8, 4, 0)
QUERIES: Sequence[Callable[[int], int]] = [lambda more, count=count: count + more for count in COUNTS]  # type: ignore[misc]
SEEDS = range(80)


def ages(*values: int) -> Table:
    return {"Age": np.array(values, dtype=np.int64)}


def chapter_sparse(
    counts: Sequence[int], c: int, limit: int, epsilon: Fraction, bits: BitSource
) -> list[int]:
    """The chapter's program, word for word but for its noise: each run of AboveThreshold pays epsilon/c."""
    found: list[int] = []
    threshold, test = DiscreteLaplace(2 * c / epsilon), DiscreteLaplace(4 * c / epsilon)
    place = 0
    while place < len(counts) and len(found) < c:
        noisy = limit + threshold.sample(bits)
        while place < len(counts):
            place += 1
            if counts[place - 1] + test.sample_array(bits, 1)[0] >= noisy:
                found.append(place - 1)
                break
    return found


@pytest.mark.parametrize(("c", "epsilon"), [(3, Fraction(2)), (3, Fraction(1, 3))])
def test_sparse_finds_what_the_chapters_program_finds_on_the_same_draws(c: int, epsilon: Fraction) -> None:
    for seed in SEEDS:
        found = near_abuah.sparse(QUERIES, 1, c, 9, epsilon, bits=BitSource.from_integer(seed))
        counts = [count + 1 for count in COUNTS]
        assert found == chapter_sparse(counts, c, 9, epsilon, BitSource.from_integer(seed))


def test_above_threshold_is_sparse_for_one_and_says_nothing_or_a_random_place_where_none_passes() -> None:
    for seed in SEEDS:
        bits = BitSource.from_integer(seed)
        found = chapter_sparse(COUNTS, 1, 14, Fraction(1), bits)
        place = found[0] if found else uniform_below(len(COUNTS), bits)
        signal = near_abuah.above_threshold_fail_signal(QUERIES, 0, 14, 1, bits=BitSource.from_integer(seed))
        assert signal == (found[0] if found else None)
        assert near_abuah.above_threshold(QUERIES, 0, 14, 1, bits=BitSource.from_integer(seed)) == place


def test_a_random_place_among_none_is_refused() -> None:
    with pytest.raises(BudgetError, match="at least one query"):
        near_abuah.above_threshold([], 0, 1, 1)
    assert near_abuah.above_threshold_fail_signal([], 0, 1, 1) is None
    assert near_abuah.naive_above_threshold([], 0, 1, 1) is None


def test_the_naive_way_has_noise_of_scale_one_over_epsilon_and_no_threshold_noise() -> None:
    epsilon, noise = Fraction(1, 4), DiscreteLaplace(Fraction(4))
    for seed in SEEDS:
        bits = BitSource.from_integer(seed)
        passed = (place for place, count in enumerate(COUNTS) if count + noise.sample_array(bits, 1)[0] >= 11)
        found = near_abuah.naive_above_threshold(QUERIES, 0, 11, epsilon, bits=BitSource.from_integer(seed))
        assert found == next(passed, None)


def test_the_laplace_mechanism_has_scale_sensitivity_over_epsilon() -> None:
    for seed in SEEDS:
        noise = DiscreteLaplace(Fraction(60)).sample(BitSource.from_integer(seed))
        assert near_abuah.laplace_mech(100, 30, 0.5, bits=BitSource.from_integer(seed)) == 100 + noise


def test_a_bound_is_selected_from_noisy_sums_that_share_epsilon() -> None:
    bounds = range(1, 1_000, 10)
    true = {b: 40_000 * min(place, 7) for place, b in enumerate(bounds)}
    for seed in SEEDS:
        bits, best = BitSource.from_integer(seed), 0
        for b, value in true.items():
            noisy = value + DiscreteLaplace(Fraction(100 * b)).sample(bits)
            if noisy - best <= 10:
                break
            best = noisy
        again = BitSource.from_integer(seed)
        assert near_abuah.naive_select_b(lambda table, bound: table[bound], true, 1, bits=again) == b


@given(st.lists(st.integers(0, 120), max_size=30), st.integers(1, 150))
def test_age_sums_their_differences_and_ranges(values: list[int], b: int) -> None:
    table = ages(*values)
    assert near_abuah.age_sum_query(table, b) == sum(min(value, b) for value in values)
    more = near_abuah.create_query(b)(ages(*values, 70)) - near_abuah.create_query(b)(table)
    assert more == (-1 if b < 70 else 0)
    found = near_abuah.age_range_query(table, b // 2, b)  # without both ends
    assert found == sum(b // 2 < value < b for value in values)


def test_counts_of_ranges_have_noise_of_their_own_at_half_of_epsilon() -> None:
    for seed in SEEDS:
        bits = BitSource.from_integer(seed)
        places = chapter_sparse(COUNTS, 3, 6, Fraction(1, 2), bits)
        noise = DiscreteLaplace(Fraction(6))
        expected = [COUNTS[place] + noise.sample(bits) for place in places]
        found = near_abuah.range_query_svt(QUERIES, 0, 3, 6, 1, bits=BitSource.from_integer(seed))
        assert found == expected


def test_the_average_is_that_of_the_applications() -> None:
    column = np.arange(5_000, dtype=np.int64) % 91
    expected = auto_avg(column, range(1, 150_000, 5), epsilon=1, bits=BitSource.from_integer(3)).average
    found = near_abuah.auto_avg(pd.Series(column), 1, bits=BitSource.from_integer(3))
    assert found == expected
    assert abs(found - column.mean()) < 1


def test_numbers_with_a_fraction_are_refused() -> None:
    refused: Sequence[Callable[[], object]] = (
        lambda: near_abuah.laplace_mech(0.5, 1, 1),  # type: ignore[arg-type]
        lambda: near_abuah.above_threshold([lambda table: 0.5], 0, 1, 1),  # type: ignore[list-item, return-value]
        lambda: near_abuah.naive_select_b(lambda table, b: 0.5, 0, 1),  # type: ignore[arg-type, return-value]
        lambda: near_abuah.age_sum_query({"Age": [0.5]}, 30),
        lambda: near_abuah.auto_avg([0.5], 1),
    )
    for ask in refused:
        with pytest.raises(BudgetError, match="integer"):
            ask()


def test_the_chapters_printed_cases_on_adult(data_dir: Path) -> None:
    """The first 32,561 people, by the chapter's names of columns."""
    path = data_dir / "adult-raw.csv.gz"
    if not path.exists():
        pytest.skip("needs adult-raw.csv.gz in the data folder")
    table = pd.read_csv(path, nrows=32_561)
    adult = table.rename(columns={"age": "Age", "capital-gain": "Capital Gain"})
    assert near_abuah.age_sum_query(adult, 30) == 913_809
    bits = BitSource.from_integer(1)
    bounds = [near_abuah.naive_select_b(near_abuah.age_sum_query, adult, 1, bits=bits) for _ in range(20)]
    assert set(bounds) <= set(range(1, 1_000, 10))
    assert 71 <= np.median(bounds) <= 91  # 81 is printed, in both languages
    averages = [near_abuah.auto_avg(adult["Age"], 1, bits=bits) for _ in range(20)]
    assert abs(np.median(averages) - 38.58) < 0.1
