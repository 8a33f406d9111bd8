"""Algorithms 1, 2 and 7 of Lyu, Su and Li: their scales and their claims; the audit enumerates them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import algorithm_1, algorithm_2, algorithm_7, numeric_algorithm_7
from pmw.sparse_vector import Comparison, NoiseKind, Ratio, Sparse, Split
from tests.distributions import attained


def test_the_printed_scales() -> None:
    one = algorithm_1(epsilon=1, update_limit=10)
    assert (one.test.threshold_scale, one.test.query_scale, one.redraw) == (Fraction(2), Fraction(40), False)
    two = algorithm_2(epsilon=1, update_limit=10)
    assert (two.test.threshold_scale, two.test.query_scale, two.redraw) == (Fraction(20), Fraction(40), True)
    seven = algorithm_7(Comparison(sensitivity=3), Split(Fraction(1, 4), Fraction(3, 4)), 10)
    assert (seven.test.threshold_scale, seven.test.query_scale, seven.redraw) == (
        Fraction(12),
        Fraction(80),
        False,
    )
    halved = algorithm_7(Comparison(sensitivity=3, monotone=True), Split(Fraction(1, 4), Fraction(3, 4)), 10)
    assert (halved.test.threshold_scale, halved.test.query_scale) == (Fraction(12), Fraction(40))


def test_values_are_released_at_c_times_sensitivity_over_epsilon_3() -> None:
    split = Split.of(Ratio.OPTIMAL, epsilon=1, update_limit=10, values=Fraction(1, 4))
    numeric = numeric_algorithm_7(Comparison(sensitivity=3), split, 10)
    assert numeric.value_noise == DiscreteLaplace(Fraction(120))
    assert numeric.epsilon == pytest.approx(1, abs=1e-11)
    assert numeric.epsilon <= 1


@pytest.mark.parametrize("monotone", [False, True])
def test_the_shares_are_the_price(monotone: bool) -> None:
    comparison = Comparison(NoiseKind.EXPONENTIAL, monotone=monotone)
    sparse = algorithm_7(comparison, Split.of(comparison.best_ratio, epsilon=2, update_limit=3), 3)
    assert sparse.epsilon <= 2
    assert float(sparse.epsilon) == pytest.approx(2, abs=1e-9)


def test_one_threshold_noise_without_c_redrawn_is_caught() -> None:
    # Algorithm 1 redrawn without scaling its threshold noise by c pays for the threshold c times.
    unscaled = Sparse(algorithm_1(epsilon=1, update_limit=4).test, 4, redraw=True)
    assert attained(unscaled) > 2


def test_thresholds_may_differ_from_query_to_query() -> None:
    # Only value - threshold counts, so a stream with thresholds of its own is one of those that are audited.
    sparse = algorithm_7(Comparison(NoiseKind.EXPONENTIAL), Split(Fraction(1), Fraction(1)), 2)
    values, thresholds = np.array([0, 500, 1000, 0]), np.array([100, 100, 2000, -900])
    found = sparse.run(values, thresholds, BitSource.from_integer(5))
    same = sparse.run(values - thresholds, np.zeros(4, dtype=int), BitSource.from_integer(5))
    assert found.tolist() == same.tolist() == [0, 1, 0, 1]


def test_values_need_a_share_and_tests_alone_none() -> None:
    with pytest.raises(BudgetError, match="expected epsilon3 = 0"):
        algorithm_7(Comparison(), Split(Fraction(1), Fraction(1), Fraction(1)), 2)
    with pytest.raises(BudgetError, match="expected epsilon3 > 0"):
        numeric_algorithm_7(Comparison(), Split(Fraction(1), Fraction(1)), 2)


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    for algorithm in (algorithm_1, algorithm_2):
        with pytest.raises(BudgetError, match="update limit of at least 1"):
            algorithm(epsilon=1, update_limit=limit)


@pytest.mark.parametrize("epsilon", [0, -1, "nan"])
def test_an_impossible_epsilon_is_refused(epsilon: int | str) -> None:
    for algorithm in (algorithm_1, algorithm_2):
        with pytest.raises(BudgetError, match="expected"):
            algorithm(epsilon=epsilon, update_limit=3)
