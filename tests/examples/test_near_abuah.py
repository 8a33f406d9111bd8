"""The chapter's functions: its programs run beside ours on the same draws, and its printed cases on Adult."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pytest
from applications import near_abuah
from applications.clipping import auto_avg
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.noise import DiscreteLaplace, uniform_below
from pmw.privacy.random_bits import BitSource

Table: TypeAlias = Mapping[str, NDArray[np.int64]]
Query: TypeAlias = Callable[[Table], int]
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


@pytest.mark.parametrize(("c", "epsilon"), [(1, Fraction(1)), (3, Fraction(2)), (3, Fraction(1, 3))])
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


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 4)])
def test_the_naive_way_has_noise_of_scale_one_over_epsilon_and_no_threshold_noise(epsilon: Fraction) -> None:
    noise = DiscreteLaplace(1 / epsilon)
    for seed in SEEDS:
        bits = BitSource.from_integer(seed)
        passed = (place for place, count in enumerate(COUNTS) if count + noise.sample_array(bits, 1)[0] >= 11)
        found = near_abuah.naive_above_threshold(QUERIES, 0, 11, epsilon, bits=BitSource.from_integer(seed))
        assert found == next(passed, None)


@pytest.mark.parametrize(("sensitivity", "scale"), [(1, 2), (30, 60)])
def test_the_laplace_mechanism_has_scale_sensitivity_over_epsilon(sensitivity: int, scale: int) -> None:
    for seed in SEEDS:
        noise = DiscreteLaplace(Fraction(scale)).sample(BitSource.from_integer(seed))
        bits = BitSource.from_integer(seed)
        assert near_abuah.laplace_mech(100, sensitivity, 0.5, bits=bits) == 100 + noise


def test_a_bound_is_selected_from_noisy_sums_that_share_epsilon() -> None:
    true = dict(
        zip(range(1, 1_000, 10), [40_000 * place for place in range(8)] + [280_000] * 92, strict=True)
    )
    for seed in SEEDS:
        bits, best = BitSource.from_integer(seed), 0
        for b, value in true.items():
            noisy = value + DiscreteLaplace(Fraction(100 * b)).sample(bits)
            if noisy - best <= 10:
                break
            best = noisy
        found = near_abuah.naive_select_b(
            lambda table, bound: table[bound], true, 1, bits=BitSource.from_integer(seed)
        )
        assert found == b


@given(st.lists(st.integers(0, 120), max_size=30), st.integers(1, 150))
def test_age_sums_and_their_differences(values: list[int], b: int) -> None:
    table = ages(*values)
    assert near_abuah.age_sum_query(table, b) == sum(min(value, b) for value in values)
    more = near_abuah.create_query(b)(ages(*values, 70)) - near_abuah.create_query(b)(table)
    assert more == (-1 if b < 70 else 0)


@given(st.lists(st.integers(0, 120), max_size=30), st.integers(0, 90), st.integers(0, 90))
def test_an_age_range_excludes_both_ends(values: list[int], lower: int, upper: int) -> None:
    found = near_abuah.age_range_query(ages(*values), lower, upper)
    assert found == sum(lower < value < upper for value in values)


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


@pytest.mark.parametrize(
    "ask",
    [
        lambda: near_abuah.laplace_mech(0.5, 1, 1),  # type: ignore[arg-type]
        lambda: near_abuah.above_threshold([lambda table: 0.5], 0, 1, 1),  # type: ignore[list-item, return-value]
        lambda: near_abuah.naive_select_b(lambda table, b: 0.5, 0, 1),  # type: ignore[arg-type, return-value]
        lambda: near_abuah.age_sum_query({"Age": [0.5]}, 30),
        lambda: near_abuah.auto_avg([0.5], 1),
    ],
)
def test_numbers_with_a_fraction_are_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(BudgetError, match="integer"):
        ask()


@pytest.fixture
def adult(data_dir: Path) -> pd.DataFrame:
    """The chapter's table: the first 32,561 people of Adult, by the chapter's names of columns."""
    path = data_dir / "adult-raw.csv.gz"
    if not path.exists():
        pytest.skip("needs adult-raw.csv.gz in the data folder")
    table = pd.read_csv(path, nrows=32_561)
    return table.rename(columns={"age": "Age", "capital-gain": "Capital Gain"})


def test_the_chapters_printed_cases_on_adult(adult: pd.DataFrame) -> None:
    assert near_abuah.age_sum_query(adult, 30) == 913_809
    bits = BitSource.from_integer(1)
    bounds = [near_abuah.naive_select_b(near_abuah.age_sum_query, adult, 1, bits=bits) for _ in range(20)]
    assert set(bounds) <= set(range(1, 1_000, 10))
    assert 71 <= np.median(bounds) <= 91  # 81 is printed, in both languages
    averages = [near_abuah.auto_avg(adult["Age"], 1, bits=bits) for _ in range(20)]
    assert abs(np.median(averages) - 38.58) < 0.1
    gains = [near_abuah.auto_avg(adult["Capital Gain"], 1, bits=bits) for _ in range(20)]
    assert abs(np.median(gains) - 1_074.7) < 40


def test_the_chapters_ranges_on_adult(adult: pd.DataFrame) -> None:
    bits = BitSource.from_integer(2)
    queries: list[Query] = [near_abuah.create_age_range_query(bits=bits) for _ in range(10)]
    true = [query(adult) for query in queries]  # type: ignore[arg-type]
    found = near_abuah.range_query_svt(queries, adult, 5, 10_000, 1, bits=bits)  # type: ignore[arg-type]
    large = [count for count in true if count >= 10_000][:5]
    assert 0 < len(found) <= 5
    assert len(found) == len(large)
    assert all(abs(count - near) < 150 for count, near in zip(found, large, strict=True))
