"""AboveThreshold: first positive, then halt."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.randomness import BitSource
from pmw.sparse_vector import AboveThreshold, NoiseKind, Outcome, Sides


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
