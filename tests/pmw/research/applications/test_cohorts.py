"""Cohort sizes: by Sparse up to the c-th large one, and by noise on every count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.planning.theorems import laplace_accuracy, sparse_accuracy
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.applications import laplace_cohorts, sparse_cohorts
from pmw.sparse_vector import Sparse

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
def test_sparse_keeps_to_its_bound_where_noise_on_every_count_cannot() -> None:
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
    assert ours <= runs * BETA + 4 * np.sqrt(runs * BETA * (1 - BETA))
    assert theirs == runs


@pytest.mark.statistical
def test_noise_on_every_count_keeps_to_its_own_bound() -> None:
    sizes, runs = sizes_at(laplace_accuracy(COUNT, epsilon=1, beta=BETA)), 100
    bits = BitSource.from_integer(2)
    failures = sum(
        wrong(sizes, laplace_cohorts(sizes, epsilon=1, threshold=THRESHOLD, bits=bits)) for _ in range(runs)
    )
    assert failures <= runs * BETA + 4 * np.sqrt(runs * BETA * (1 - BETA))


def test_every_cohort_has_noise_of_its_own() -> None:
    sizes = np.full(200, THRESHOLD)
    found = laplace_cohorts(sizes, epsilon=1, threshold=THRESHOLD, bits=BitSource.from_integer(5))
    noise = DiscreteLaplace(Fraction(200)).sample_array(BitSource.from_integer(5), 200)
    assert found.tolist() == (noise >= 0).tolist()


def test_cohorts_beyond_the_last_large_one_have_no_answer() -> None:
    sizes = np.array([0, 10**6, 0, 10**6, 10**6, 0])
    answers = sparse_cohorts(
        sizes, Sparse.textbook(epsilon=1, update_limit=2), threshold=10**5, bits=BitSource.from_integer(3)
    )
    assert answers.tolist() == [False, True, False, True]


def test_prices_and_sizes_without_sense_are_refused() -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        laplace_cohorts(np.array([1]), epsilon=0, threshold=1, bits=BitSource.from_integer(4))
    with pytest.raises(BudgetError, match="integer"):
        laplace_cohorts(np.zeros(2), epsilon=1, threshold=1, bits=BitSource.from_integer(4))  # type: ignore[arg-type]
