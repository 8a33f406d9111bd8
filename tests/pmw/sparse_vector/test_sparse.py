"""Sparse: up to c positives, and what each way of running it costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy import NOTHING, Composition, pure_charge
from pmw.randomness import BitSource
from pmw.sparse_vector import NoiseKind, NoisyThreshold, Outcome, Sides, Sparse, SparseState, ThresholdTest


def sparse(*, redraw: bool, limit: int = 3) -> Sparse:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(10), Fraction(20))
    return Sparse(test, limit, redraw)


def test_the_textbook_scales() -> None:
    # Dwork and Roth (2014), Algorithm 2: sigma = 2c/epsilon, or sqrt(32 c ln(1/delta))/epsilon.
    pure = Sparse.textbook(epsilon=1, update_limit=10)
    assert pure.test.threshold_scale == 20
    assert pure.test.query_scale == 40
    assert pure.total_epsilon == 1
    approximate = Sparse.textbook(epsilon=1, delta="1e-9", update_limit=10)
    exact = math.sqrt(32 * 10 * math.log(1e9))
    assert exact <= float(approximate.test.threshold_scale) < exact + 2e-6


def test_a_redrawn_round_is_charged_whole_when_it_opens() -> None:
    price = Fraction(1, 10) + Fraction(1, 20)
    for composition in Composition:
        assert sparse(redraw=True).charges(composition) == (pure_charge(price), NOTHING)


def test_a_kept_threshold_is_one_event_under_zcdp() -> None:
    whole = Fraction(1, 10) + 3 * Fraction(1, 20)
    assert sparse(redraw=False).charges(Composition.ZCDP) == (pure_charge(whole), NOTHING)
    # Separate squares would undercharge it.
    assert pure_charge(whole).rho > pure_charge(Fraction(1, 10)).rho + 3 * pure_charge(Fraction(1, 20)).rho


def test_a_kept_threshold_pays_as_it_goes_when_epsilons_add() -> None:
    opening, positive = sparse(redraw=False).charges(Composition.PURE)
    assert (opening.epsilon, positive.epsilon) == (Fraction(1, 10), Fraction(1, 20))
    assert sparse(redraw=False).total_epsilon == Fraction(1, 10) + 3 * Fraction(1, 20)


@pytest.mark.parametrize("redraw", [False, True])
def test_it_answers_exactly_c_positives(redraw: bool) -> None:
    algorithm = sparse(redraw=redraw)
    bits = BitSource.from_integer(9)
    state = algorithm.open(bits)
    outcomes = []
    for _ in range(3):
        state, outcome = algorithm.step(state, 10_000, 100, bits)
        outcomes.append(outcome)
    assert outcomes == [Outcome.ABOVE] * 3
    with pytest.raises(BudgetError, match="it halted after 3 positives"):
        algorithm.step(state, 10_000, 100, bits)


def test_the_threshold_is_redrawn_after_a_positive_and_only_then() -> None:
    algorithm = sparse(redraw=True)
    bits = BitSource.from_integer(9)
    state = algorithm.open(bits)
    quiet, _ = algorithm.step(state, -100, 1000, bits)
    assert quiet == state
    loud, _ = algorithm.step(state, 10_000, 100, bits)
    assert loud == SparseState(None, 1)
    following, _ = algorithm.step(loud, -100, 1000, bits)
    assert following.noisy is not None
    assert following.noisy != state.noisy


def test_the_threshold_is_kept_where_it_is_not_redrawn() -> None:
    algorithm = sparse(redraw=False)
    bits = BitSource.from_integer(9)
    state = algorithm.open(bits)
    after, _ = algorithm.step(state, 10_000, 100, bits)
    assert after == SparseState(state.noisy, 1)


def test_a_scan_stops_at_a_positive_so_that_the_caller_may_react() -> None:
    algorithm = sparse(redraw=False)
    bits = BitSource.from_integer(9)
    values = np.array([-100, 10_000, 10_000])
    state, outcomes = algorithm.scan(algorithm.open(bits), values, np.full(3, 1000), bits)
    assert outcomes.tolist() == [0, 1]
    assert state.positives == 1


def test_a_state_shows_its_positives_alone() -> None:
    assert repr(SparseState(NoisyThreshold(42), 2)) == "SparseState(positives=2, noise secret)"


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        sparse(redraw=True, limit=0)


@pytest.mark.statistical
def test_the_accuracy_theorem_holds_in_simulation() -> None:
    # Dwork and Roth (2014), Theorem 3.26: alpha = 8 c (ln k + ln(2c/beta))/epsilon.
    count, limit, beta = 100, 3, 0.2
    alpha = math.ceil(8 * limit * (math.log(count) + math.log(2 * limit / beta)))
    algorithm = Sparse.textbook(epsilon=1, update_limit=limit)
    bits = BitSource.from_integer(10)
    values = np.full(count, -alpha)
    values[[20, 60, 99]] = alpha
    right = 0
    for _ in range(200):
        state, start = algorithm.open(bits), 0
        found: list[int] = []
        while start < count and state.positives < limit:
            rest = values[start:]
            state, outcomes = algorithm.scan(state, rest, np.zeros(len(rest), dtype=int), bits)
            start += len(outcomes)
            if outcomes[-1]:
                found.append(start - 1)
        right += found == [20, 60, 99]
    assert right / 200 >= 1 - beta


def test_a_kept_threshold_that_is_lost_is_never_drawn_a_second_time() -> None:
    values, bits = np.array([-100]), BitSource.from_integer(9)
    with pytest.raises(BudgetError, match="drawn once, but it is lost"):
        sparse(redraw=False).scan(SparseState(None, 1), values, values, bits)
    sparse(redraw=False).scan(SparseState(None, 0), values, values, bits)
    sparse(redraw=True).scan(SparseState(None, 1), values, values, bits)
