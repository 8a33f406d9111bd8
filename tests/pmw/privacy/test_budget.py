"""Budgets and filters: what events cost in each composition, and what a cap lets through."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

import dp_accounting
import mpmath
import pytest
from dp_accounting import pld, rdp
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError, BudgetExhaustedError
from pmw.privacy.budget import (
    NOTHING,
    Budget,
    Charge,
    Composition,
    as_fraction,
    bounded_range_charge,
    gaussian_charge,
    pure_charge,
    zcdp_epsilon,
    zcdp_rho,
)
from pmw.privacy.filter import PrivacyFilter, open_filter


def exact_rho(epsilon: float, delta: float) -> mpmath.mpf:
    """Return the largest rho by 50-digit optimisation over alpha."""
    with mpmath.workdps(50):
        log_delta = mpmath.log(mpmath.mpf(delta))

        def rho(excess: mpmath.mpf) -> mpmath.mpf:
            alpha = 1 + excess
            bracket = log_delta + mpmath.log(excess) - alpha * mpmath.log(excess / alpha)
            return (mpmath.mpf(epsilon) + bracket / excess) / alpha

        low, high = mpmath.mpf(10) ** -4, mpmath.mpf(10) ** 8
        for _ in range(400):  # ternary search in log scale: the bound has a single maximum
            one, two = low ** (mpmath.mpf(2) / 3) * high ** (mpmath.mpf(1) / 3), mpmath.mpf(0)
            two = low ** (mpmath.mpf(1) / 3) * high ** (mpmath.mpf(2) / 3)
            low, high = (one, high) if rho(one) < rho(two) else (low, two)
        return rho(low)


def test_the_reference_budget_gives_the_published_rho() -> None:
    assert float(zcdp_rho(Budget.of(1, "1e-9"))) == pytest.approx(0.014973, abs=5e-7)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-9), (3, 1e-5), (10, 1e-3), (0.01, 1e-9)])
def test_rho_is_the_largest_one_rounded_down(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(Budget.of(epsilon, delta))
    exact = exact_rho(epsilon, delta)
    assert mpmath.mpf(rho.numerator) / rho.denominator <= exact
    assert float(rho) >= float(exact) * (1 - 1e-9) - 2**-59


def test_dp_accounting_agrees_on_the_conversion() -> None:
    epsilon, delta = 1, 1e-9
    rho = float(zcdp_rho(Budget.of(epsilon, delta)))
    orders = [1 + excess / 50 for excess in range(1, 2000)] + list(range(41, 4000))
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    theirs = accountant.get_epsilon(delta)
    assert theirs == pytest.approx(epsilon, rel=2e-3)
    assert zcdp_epsilon(rho, delta) <= theirs * (1 + 1e-9)


def test_the_exact_cost_of_redrawn_rounds_and_values_stays_below_the_cap() -> None:
    # 40 rounds of pure epsilon0 and 40 Gaussian values that exhaust rho, composed exactly.
    rho = zcdp_rho(Budget.of(1, 1e-9))
    epsilon0 = math.sqrt(2 * float(rho) * 0.85 / 40)
    sigma = math.sqrt(40 / (2 * float(rho) * 0.15))

    def exact(factor: float) -> float:
        rounds = pld.privacy_loss_distribution.from_privacy_parameters(
            dp_accounting.pld.common.DifferentialPrivacyParameters(epsilon0 / factor),
            value_discretization_interval=1e-3,
        ).self_compose(40)
        values = pld.privacy_loss_distribution.from_gaussian_mechanism(
            sigma * factor, value_discretization_interval=1e-3
        ).self_compose(40)
        return float(rounds.compose(values).get_epsilon_for_delta(1e-9))

    assert exact(1.0) <= 1.0 < exact(1 / 1.3)


def test_numbers_are_read_as_they_are_written() -> None:
    assert as_fraction(0.3, "x") == Fraction(3, 10)
    assert Budget.of(0.1).epsilon == Fraction(1, 10)
    assert Budget.of("0.1", 1e-9).delta == Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (0, 0, "expected epsilon > 0, got epsilon=0"),
        (-1, 0, "expected epsilon > 0, got epsilon=-1"),
        (1, 1, "expected 0 <= delta < 1, got delta=1"),
        (1, -0.1, "expected 0 <= delta < 1, got delta=-0.1"),
        ("nan", 0, "expected a finite number for epsilon, got 'nan'"),
        (math.inf, 0, "expected a finite number for epsilon, got inf"),
        ("one", 0, "expected a finite number for epsilon, got 'one'"),
        (True, 0, "expected a number for epsilon, got True"),
        (1001, 0, "expected epsilon of at most 1000, got epsilon=1001"),
        ("1e400", 0, "expected epsilon of at most 1000, got epsilon=a number beyond 1e308"),
        ("-1e400", 0, "expected epsilon > 0, got epsilon=a number below -1e308"),
        (1, "1e400", "expected 0 <= delta < 1, got delta=a number beyond 1e308"),
    ],
)
def test_an_impossible_budget_is_refused(epsilon: float | str, delta: float | str, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Budget.of(epsilon, delta)
    with pytest.raises(BudgetError, match="expected delta > 0 for zCDP"):
        zcdp_rho(Budget.of(1))


@given(st.fractions(min_value="1/1000", max_value=10))
def test_a_pure_event_is_half_its_square_in_rho_rounded_up_and_an_eighth_if_of_bounded_range(
    epsilon: Fraction,
) -> None:
    for charge, exact in (
        (pure_charge(epsilon), epsilon**2 / 2),
        (bounded_range_charge(epsilon), epsilon**2 / 8),
    ):
        assert charge.epsilon == epsilon
        assert exact <= charge.rho < exact + Fraction(1, 2**60)


@given(st.integers(1, 10**6), st.integers(1, 10**12))
def test_gaussian_noise_costs_what_the_theorem_says_rounded_up(sensitivity: int, sigma: int) -> None:
    charge = gaussian_charge(Fraction(sensitivity**2), Fraction(sigma))
    exact = Fraction(sensitivity**2, 2 * sigma**2)
    assert charge.epsilon is None
    assert exact <= charge.rho < exact + Fraction(1, 2**60)


def test_charges_add_and_stay_pure_only_among_pure_ones() -> None:
    pure, gaussian = pure_charge(Fraction(1, 3)), gaussian_charge(Fraction(1), Fraction(5))
    assert (pure + pure).epsilon == Fraction(2, 3)
    assert (pure + gaussian) == Charge(None, pure.rho + gaussian.rho)


# --- filter ---------------------------------------------------------------------------------------------


EPSILONS = st.fractions(min_value=Fraction(1, 10**6), max_value=60)
SIGMAS = st.integers(10**4, 10**7).map(Fraction)


def test_the_cap_of_a_filter_is_what_its_budget_holds() -> None:
    budget = Budget.of(2, 1e-9)  # a budget with delta may hold itself to the pure rule
    for composition, cap in ((Composition.PURE, 2), (Composition.ZCDP, zcdp_rho(budget))):
        assert open_filter(budget, composition).cap == cap


def test_a_pure_filter_adds_epsilons_exactly() -> None:
    ledger = open_filter(Budget.of(1), Composition.PURE)
    for _ in range(10):
        ledger = ledger.charge(pure_charge(Fraction(1, 10)))
    assert ledger.spent == ledger.cap == 1
    assert ledger.share == 1.0
    with pytest.raises(BudgetExhaustedError, match="expected a charge of at most 0"):
        ledger.charge(pure_charge(Fraction(1, 10**30)))
    with pytest.raises(BudgetError, match="expected a pure event"):
        ledger.allows(gaussian_charge(Fraction(1), Fraction(5)))


@pytest.mark.parametrize("composition", list(Composition))
@given(st.data())
def test_no_sequence_of_charges_exceeds_the_cap(composition: Composition, data: st.DataObject) -> None:
    events = EPSILONS.map(pure_charge)
    if composition is not Composition.PURE:
        events |= SIGMAS.map(lambda sigma: gaussian_charge(Fraction(2**20), sigma))
    ledger, granted = PrivacyFilter(composition, Fraction(1, 10)), NOTHING
    charges = data.draw(st.lists(events, max_size=30))
    for charge in charges:
        if ledger.allows(charge):
            ledger, granted = ledger.charge(charge), granted + charge
        else:
            assert ledger.price(granted + charge) > ledger.cap
            with pytest.raises(BudgetExhaustedError):
                ledger.charge(charge)
    assert ledger.spent == ledger.price(granted) <= ledger.cap
    assert ledger.remaining == ledger.cap - ledger.spent
    assert ledger.price(reduce(Charge.__add__, charges, NOTHING)) == sum(map(ledger.price, charges))


def test_a_filter_that_starts_overdrawn_is_refused() -> None:
    with pytest.raises(BudgetError, match="expected 0 <= spent <= cap"):
        PrivacyFilter(Composition.PURE, Fraction(1), Fraction(2))
