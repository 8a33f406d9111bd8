"""Composition of rounds: published figures, exactness, and the safe direction of every rounding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import dp_accounting
import pytest
from dp_accounting import pld
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, floor_price, pure_charge, root_down, zcdp_rho
from pmw.sparse_vector import (
    CompositionTheorem,
    NumericSparse,
    Sparse,
    composed_delta,
    composed_epsilon,
    round_epsilon,
)
from pmw.sparse_vector.composition import require_printed, rho_epsilon

BUDGET = Budget.of(1, "1e-9")
TINY = Fraction(1, 10**9)
THEOREMS = list(CompositionTheorem)


@pytest.mark.parametrize(
    ("rounds", "theorem", "price"),
    [
        (10, CompositionTheorem.BASIC, 0.1),
        (50, CompositionTheorem.DWORK_ROTH, 0.01098),
        (50, CompositionTheorem.ADVANCED, 0.02146),
        (50, CompositionTheorem.ZCDP, 0.02447),
        (50, CompositionTheorem.EXACT, 0.02710),
        (200, CompositionTheorem.DWORK_ROTH, 0.00549),
        (200, CompositionTheorem.ADVANCED, 0.01073),
        (200, CompositionTheorem.ZCDP, 0.01224),
        (200, CompositionTheorem.EXACT, 0.01302),
    ],
)
def test_the_price_of_a_round_at_epsilon_1_and_delta_1e_9(
    rounds: int, theorem: CompositionTheorem, price: float
) -> None:
    assert float(round_epsilon(BUDGET, rounds, theorem)) == pytest.approx(price, abs=5.1e-6)


@pytest.mark.parametrize("rounds", [50, 200])
def test_another_accountant_finds_the_same_exact_composition(rounds: int) -> None:
    price = float(round_epsilon(BUDGET, rounds, CompositionTheorem.EXACT))
    one = pld.privacy_loss_distribution.from_privacy_parameters(
        dp_accounting.pld.common.DifferentialPrivacyParameters(price), value_discretization_interval=price / 8
    )
    assert one.self_compose(rounds).get_epsilon_for_delta(1e-9) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("rounds", [1, 10, 50, 1000])
def test_the_largest_price_of_any_theorem_is_taken(rounds: int) -> None:
    prices = [round_epsilon(BUDGET, rounds, theorem) for theorem in THEOREMS]
    assert round_epsilon(BUDGET, rounds) == max(prices)
    totals = [composed_epsilon(Fraction(1, 50), rounds, BUDGET.delta, theorem) for theorem in THEOREMS]
    assert composed_epsilon(Fraction(1, 50), rounds, BUDGET.delta) == min(totals)


def test_without_delta_epsilons_add() -> None:
    assert round_epsilon(Budget.of(1), 8) == Fraction(1, 8)
    assert composed_epsilon(Fraction(1, 8), 8, Fraction(0)) == 1
    for theorem in THEOREMS[1:]:
        with pytest.raises(BudgetError, match="expected delta > 0 for composition by the"):
            round_epsilon(Budget.of(1), 8, theorem)
        with pytest.raises(BudgetError, match="expected delta > 0 for composition by the"):
            composed_epsilon(Fraction(1, 8), 8, Fraction(0), theorem)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 4)])
def test_delta_is_the_hockey_stick_divergence_of_randomised_responses(epsilon: Fraction) -> None:
    rounds, price = 4, Fraction(2, 5)
    right = 1 / (1 + math.exp(-float(price)))
    direct = 0.0
    for answers in itertools.product((True, False), repeat=rounds):
        here = math.prod(right if answer else 1 - right for answer in answers)
        there = math.prod(1 - right if answer else right for answer in answers)
        direct += max(0.0, here - math.exp(float(epsilon)) * there)
    assert float(composed_delta(price, rounds, epsilon)) == pytest.approx(direct, rel=1e-12)


@given(
    st.integers(1, 60),
    st.fractions(Fraction(1, 20), Fraction(6), max_denominator=1000),
    st.integers(1, 30),
    st.sampled_from(THEOREMS),
)
def test_prices_are_rounded_down_and_totals_up(
    rounds: int, epsilon: Fraction, digits: int, theorem: CompositionTheorem
) -> None:
    budget = Budget(epsilon, Fraction(1, 10**digits))
    try:
        price = round_epsilon(budget, rounds, theorem)
    except BudgetError:
        assert theorem is CompositionTheorem.DWORK_ROTH  # outside the range of the corollary
        return
    # Exact composition is the judge of all: what the price costs in truth fits the budget.
    assert composed_delta(price, rounds, budget.epsilon) <= budget.delta
    total = composed_epsilon(price, rounds, budget.delta, theorem)
    assert composed_delta(price, rounds, total) <= budget.delta
    assert float(total) == pytest.approx(float(epsilon), rel=1e-6)
    exact = composed_epsilon(price, rounds, budget.delta, CompositionTheorem.EXACT)
    assert exact <= total * (1 + TINY)


@pytest.mark.parametrize("rounds", [2, 50, 400])
def test_an_exact_price_is_the_largest_but_for_a_billionth(rounds: int) -> None:
    price = round_epsilon(BUDGET, rounds, CompositionTheorem.EXACT)
    assert composed_delta(price * (1 + TINY), rounds, BUDGET.epsilon) > BUDGET.delta
    total = composed_epsilon(price, rounds, BUDGET.delta, CompositionTheorem.EXACT)
    assert composed_delta(price, rounds, total * (1 - TINY)) > BUDGET.delta


@pytest.mark.parametrize("rounds", [1, 7, 50, 999])
def test_what_rounds_are_charged_in_rho_fits_the_budget(rounds: int) -> None:
    price = round_epsilon(BUDGET, rounds, CompositionTheorem.ZCDP)
    assert rounds * pure_charge(price).rho <= zcdp_rho(BUDGET)
    assert rounds * pure_charge(price * (1 + TINY)).rho > zcdp_rho(BUDGET)


def test_rho_is_converted_upward() -> None:
    rho = zcdp_rho(BUDGET)
    found = rho_epsilon(rho, BUDGET.delta)
    assert zcdp_rho(Budget(found, BUDGET.delta)) >= rho
    assert float(found) == pytest.approx(1, abs=1e-9)
    assert floor_price(rho) == rho
    assert floor_price(rho + Fraction(1, 2**70)) == rho
    assert root_down(Fraction(2)) ** 2 < 2 < (root_down(Fraction(2)) + Fraction(1, 2**60)) ** 2


NO_ROUND, OUTSIDE = "expected at least 1 round", "outside Dwork and Roth's corollary"
RANGE, ONE = "expected a positive price and 0 <= delta < 1", Fraction(1)
DWORK_ROTH = CompositionTheorem.DWORK_ROTH


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        *((partial(round_epsilon, BUDGET, rounds), NO_ROUND) for rounds in (0, -1)),
        *((partial(composed_epsilon, ONE, rounds, TINY), NO_ROUND) for rounds in (0, -1)),
        *((partial(composed_delta, ONE, rounds, ONE), NO_ROUND) for rounds in (0, -1)),
        (partial(composed_epsilon, Fraction(0), 3, TINY), RANGE),
        *((partial(composed_epsilon, ONE, 3, delta), RANGE) for delta in (ONE, -TINY)),
        (partial(round_epsilon, Budget.of(200, "1e-9"), 3, DWORK_ROTH), OUTSIDE),
        (partial(composed_epsilon, Fraction(5), 40, TINY, DWORK_ROTH), OUTSIDE),
    ],
)
def test_what_has_no_composition_is_refused(refused: Callable[[], object], told: str) -> None:
    with pytest.raises(BudgetError, match=told):
        refused()


@pytest.mark.parametrize(("algorithm", "delta"), [(Sparse, "0.9"), (NumericSparse, "1e-6")])
@pytest.mark.parametrize("limit", [1, 112, 1000])
@pytest.mark.parametrize("epsilon", ["7", "130", "1000"])
def test_printed_scales_are_given_exactly_where_they_hold(
    algorithm: type[Sparse | NumericSparse], delta: str, limit: int, epsilon: str
) -> None:
    budget = Budget.of(epsilon, delta)
    log = -math.log(budget.delta / 2 if algorithm is NumericSparse else budget.delta)
    price = Fraction(float(budget.epsilon) / math.sqrt(8 * limit * log))
    reached = composed_epsilon(price, limit, budget.delta)
    if reached <= budget.epsilon:
        made = algorithm.textbook(epsilon=epsilon, delta=delta, update_limit=limit)
        one = made.round_epsilon if isinstance(made, Sparse) else made.epsilon / limit
        assert composed_epsilon(one, limit, budget.delta) <= budget.epsilon
    else:
        with pytest.raises(BudgetError, match="the printed scales do not keep") as refused:
            algorithm.textbook(epsilon=epsilon, delta=delta, update_limit=limit)
        assert f"compose to {float(reached):.6g}." in str(refused.value)


def test_a_refusal_of_printed_scales_says_where_their_theorem_stops() -> None:
    with pytest.raises(BudgetError) as refused:
        Sparse.textbook(epsilon=200, delta="1e-6", update_limit=1000)
    assert str(refused.value) == (
        "the printed scales do not keep epsilon=200, delta=1e-06 with 1,000 positives. Their theorem "
        "simplifies advanced composition for a small epsilon (Dwork and Roth 2014, Corollary 3.21), and with "
        "this delta and limit it stops at epsilon = 126.9; here its rounds compose to 259.801. Choose a "
        "smaller epsilon, fewer positives, or the scales of composed"
    )
    Sparse.textbook(epsilon="126.9", delta="1e-6", update_limit=1000)
    with pytest.raises(BudgetError, match=r"stops at epsilon = 126\.9;"):
        Sparse.textbook(epsilon=127, delta="1e-6", update_limit=1000)
    with pytest.raises(BudgetError, match=r"stops at epsilon = 136\.0;"):
        NumericSparse.textbook(epsilon=200, delta="1e-6", update_limit=1000)
    # Of very many rounds it holds as far as zCDP proves it.
    require_printed(Budget.of(110, "1e-6"), 10**15)
    with pytest.raises(BudgetError, match=r"stops at epsilon = 110\.5\. Choose"):
        require_printed(Budget.of(111, "1e-6"), 10**15)
    require_printed(Budget.of(1000, 0), 10**15)
    require_printed(Budget.of(1000, "1e-6"), 110)
