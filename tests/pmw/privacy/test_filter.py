"""The privacy filter."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError, BudgetExhaustedError
from pmw.privacy.budget import NOTHING, Budget, Charge, Composition, gaussian_charge, pure_charge, zcdp_rho
from pmw.privacy.filter import PrivacyFilter, open_filter

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


def test_a_filter_of_rhos_adds_those_of_pure_and_of_gaussian_events_exactly() -> None:
    ledger = open_filter(Budget.of(1, 1e-9), Composition.ZCDP)
    pure, gaussian = pure_charge(Fraction(1, 100)), gaussian_charge(Fraction(1), Fraction(50))
    assert ledger.charge(pure).charge(gaussian).spent == pure.rho + gaussian.rho


def test_gaussian_noise_is_no_pure_event() -> None:
    ledger = open_filter(Budget.of(1), Composition.PURE)
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
