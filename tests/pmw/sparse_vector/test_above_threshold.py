"""AboveThreshold: first positive, then halt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import AboveThreshold, NoiseKind, Outcome, Sides, Sparse, ThresholdTest


def test_the_textbook_scales() -> None:
    # Dwork and Roth (2014), Algorithm 1: Lap(2/epsilon) and Lap(4/epsilon).
    algorithm = AboveThreshold.textbook(epsilon="0.1")
    assert algorithm.test.threshold_scale == 20
    assert algorithm.test.query_scale == 40
    assert algorithm.epsilon == Fraction(1, 10)
    assert (algorithm.test.noise, algorithm.test.sides) == (NoiseKind.LAPLACE, Sides.ONE_SIDED)


def test_scales_grow_with_the_sensitivity_and_the_price_does_not() -> None:
    assert AboveThreshold.textbook(epsilon=1, sensitivity=7).test.threshold_scale == 14
    assert AboveThreshold.textbook(epsilon=1, sensitivity=7).epsilon == 1


def test_it_finds_the_first_large_value_and_halts() -> None:
    algorithm = AboveThreshold.textbook(epsilon=1)
    bits = BitSource.from_integer(4)
    state = algorithm.open(bits)
    values = np.array([0, 0, 10_000, 10_000])
    after, outcomes = algorithm.scan(state, values, np.full(4, 1000), bits)
    assert outcomes.tolist() == [0, 0, 1]
    assert after is None
    with pytest.raises(BudgetError, match="it halted at its positive"):
        algorithm.step(after, 0, 1000, bits)


def test_one_value_at_a_time_is_the_same_algorithm() -> None:
    algorithm = AboveThreshold.textbook(epsilon=1)
    bits = BitSource.from_integer(4)
    state = algorithm.open(bits)
    for expected, value in ((Outcome.BELOW, 0), (Outcome.BELOW, -50), (Outcome.ABOVE, 10_000)):
        kept, outcome = algorithm.step(state, value, 1000, bits)
        assert outcome is expected
        state = kept or state


def test_a_run_of_negatives_keeps_its_threshold() -> None:
    algorithm = AboveThreshold.textbook(epsilon=1)
    bits = BitSource.from_integer(4)
    state = algorithm.open(bits)
    after, outcomes = algorithm.scan(state, np.zeros(100, dtype=int), np.full(100, 10_000), bits)
    assert after is state
    assert not outcomes.any()


def test_find_returns_the_place_or_the_fail_signal() -> None:
    algorithm = AboveThreshold.textbook(epsilon=1)
    limits = np.full(4, 1000)
    found = algorithm.find(np.array([0, 0, 10_000, 10_000]), limits, BitSource.from_integer(4))
    assert found == 2
    assert algorithm.find(np.zeros(4, dtype=int), limits, BitSource.from_integer(4)) is None
    assert algorithm.find(np.zeros(0, dtype=int), limits[:0], BitSource.from_integer(4)) is None


def test_find_may_answer_a_failure_by_a_random_place() -> None:
    algorithm = AboveThreshold.textbook(epsilon=1)
    values, limits, bits = np.zeros(4, dtype=int), np.full(4, 1000), BitSource.from_integer(4)
    places = [algorithm.find(values, limits, bits, random_index=True) for _ in range(200)]
    assert {places.count(place) > 25 for place in range(4)} == {True}
    assert set(places) == {0, 1, 2, 3}
    with pytest.raises(BudgetError, match="at least one value for a random index"):
        algorithm.find(values[:0], limits[:0], bits, random_index=True)


def test_find_refuses_values_that_are_not_integers() -> None:
    with pytest.raises(BudgetError, match="expected integer values"):
        AboveThreshold.textbook(epsilon=1).find(
            np.array([0.5]),
            np.array([1]),
            BitSource.from_integer(4),
        )


@pytest.mark.parametrize("wrong", [Fraction(10, 13), Fraction(1), Fraction(13, 10)])
@pytest.mark.parametrize("which", ["threshold", "query"])
def test_the_price_is_attained_and_a_scale_30_percent_off_is_not_it(
    which: str, wrong: Fraction, attained: Callable[[Sparse], float]
) -> None:
    test = AboveThreshold.textbook(epsilon=1).test
    assert isinstance(test, ThresholdTest)
    if which == "threshold":
        test = replace(test, threshold_scale=wrong * test.threshold_scale)
    else:
        test = replace(test, query_scale=wrong * test.query_scale)
    found = attained(Sparse(test, 1, redraw=False))
    assert (0.95 <= found <= 1 + 1e-9) == (wrong == 1)


@pytest.mark.parametrize("epsilon", [0, -1])
def test_an_impossible_epsilon_is_refused(epsilon: int) -> None:
    with pytest.raises(BudgetError, match="expected epsilon > 0"):
        AboveThreshold.textbook(epsilon=epsilon)


@pytest.mark.statistical
def test_the_accuracy_theorem_holds_in_simulation() -> None:
    # Dwork and Roth (2014), Theorem 3.24: alpha = 8 (ln k + ln(2/beta))/epsilon.
    count, beta = 200, 0.2
    alpha = int(np.ceil(8 * (np.log(count) + np.log(2 / beta))))
    algorithm = AboveThreshold.textbook(epsilon=1)
    bits = BitSource.from_integer(10)
    values = np.append(np.full(count - 1, -alpha), alpha)
    right = 0
    for _ in range(400):
        _, outcomes = algorithm.scan(algorithm.open(bits), values, np.zeros(count, dtype=int), bits)
        right += len(outcomes) == count and bool(outcomes[-1])
    assert right / 400 >= 1 - beta
