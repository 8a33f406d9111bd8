"""Ranges worth answering: the large ones, each with its place, at shares of one price."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.privacy.random_bits import BitSource
from pmw.research.applications import range_counts, range_query_svt
from pmw.sparse_vector import Sparse

pairs = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=20)
AGES = np.arange(90_000, dtype=np.int64) % 90  # 1,000 of each age
RANGES = [(0, 9), (5, 5), (20, 59), (70, 60), (30, 79), (0, 89)]  # 10,000; 1,000; 40,000; 0; 50,000; 90,000


@given(st.lists(st.integers(-20, 20), max_size=30), pairs)
def test_counts_include_both_ends(values: list[int], ranges: list[tuple[int, int]]) -> None:
    found = range_counts(np.array(values, dtype=np.int64), ranges).tolist()
    assert found == [sum(low <= value <= high for value in values) for low, high in ranges]


def test_the_large_ranges_are_answered_and_say_which_they_are() -> None:
    tests = Sparse.textbook(epsilon=1, update_limit=3)
    answers = range_query_svt(
        AGES, RANGES, tests, threshold=25_000, epsilon=1, bits=BitSource.from_integer(1)
    )
    assert [(answer.place, answer.low, answer.high) for answer in answers] == [
        (2, 20, 59),
        (4, 30, 79),
        (5, 0, 89),
    ]
    for answer, true in zip(answers, (40_000, 50_000, 90_000), strict=True):
        assert abs(answer.count - true) < 60
        assert answer.scale == 3


def test_no_more_than_the_limit_are_answered() -> None:
    tests = Sparse.textbook(epsilon=1, update_limit=2)
    answers = range_query_svt(
        AGES, RANGES, tests, threshold=25_000, epsilon=1, bits=BitSource.from_integer(2)
    )
    assert [answer.place for answer in answers] == [2, 4]


def test_the_table_that_is_given_is_the_one_that_is_asked() -> None:
    tests = Sparse.textbook(epsilon=1, update_limit=2)
    empty = np.zeros(0, dtype=np.int64)
    found = range_query_svt(empty, RANGES, tests, threshold=25_000, epsilon=1, bits=BitSource.from_integer(3))
    assert found == ()


@pytest.mark.statistical
@pytest.mark.parametrize(("ranges", "scale"), [(RANGES[2:3], 1), (RANGES[2:5], 2)])
def test_counts_that_were_found_share_the_whole_price(ranges: list[tuple[int, int]], scale: int) -> None:
    tests = Sparse.textbook(epsilon=1, update_limit=10)
    bits = BitSource.from_integer(4)
    truth, errors = range_counts(AGES, ranges), []
    for _ in range(1200):
        answers = range_query_svt(AGES, ranges, tests, threshold=20_000, epsilon=1, bits=bits)
        assert len(answers) == scale
        errors.append([answer.count - truth[answer.place] for answer in answers])
    expected = 1 / np.sinh(1 / scale)  # E|X| of the discrete distribution
    for each in np.abs(errors).T:
        assert 0.88 * expected < np.mean(each) < 1.12 * expected
    among = np.corrcoef(errors, rowvar=False) - np.eye(scale)
    assert np.abs(among).max() < 0.12  # counts do not share a draw


@pytest.mark.parametrize(("ranges", "epsilon"), [(RANGES, 0), ([1, 2], 1), ([(1.5, 2)], 1), ([(1, 2, 3)], 1)])
def test_ranges_and_prices_without_sense_are_refused(ranges: list[tuple[int, int]], epsilon: int) -> None:
    tests = Sparse.textbook(epsilon=1, update_limit=2)
    bits = BitSource.from_integer(5)
    with pytest.raises(BudgetError, match="expected"):
        range_query_svt(AGES, ranges, tests, threshold=1, epsilon=epsilon, bits=bits)
    assert bits.bits(64) == BitSource.from_integer(5).bits(64)
