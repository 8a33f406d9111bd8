"""What rounds may cost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.privacy.budget import RHO_GRID, Charge, Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.research.offline.options import OfflineOptions, first_schedule

CAP = Fraction(149731, 10**7)


def spend(budget_filter: PrivacyFilter, price: Fraction) -> PrivacyFilter:
    return budget_filter.charge(Charge(price, price))


@given(st.integers(1, 200), st.fractions(min_value="1/100", max_value="99/100"))
def test_a_fixed_number_of_rounds_shares_the_budget_and_leaves_nothing(rounds: int, share: Fraction) -> None:
    budget_filter = PrivacyFilter(Composition.ZCDP, CAP)
    schedule = first_schedule(budget_filter, 7, OfflineOptions(rounds=rounds, selection_share=share))
    for number in range(rounds):
        assert schedule.is_last(budget_filter) == (number == rounds - 1)
        prices = schedule.prices(budget_filter)
        budget_filter = spend(budget_filter, prices.selection + prices.measurement)
        schedule = schedule.after(paid=True)
    assert 0 <= budget_filter.remaining < Fraction(1, RHO_GRID)


@given(st.lists(st.booleans(), min_size=60, max_size=60))
def test_growing_prices_never_exceed_the_budget_and_use_it_up(paid: list[bool]) -> None:
    budget_filter = PrivacyFilter(Composition.PURE, Fraction(1))
    schedule = first_schedule(budget_filter, 5, OfflineOptions())
    for moved in paid:
        last = schedule.is_last(budget_filter)
        prices = schedule.prices(budget_filter)
        budget_filter = spend(budget_filter, prices.selection + prices.measurement)
        if last:
            break
        grown = schedule.after(paid=moved)
        assert grown.price == (schedule.price if moved else 2 * schedule.price)
        schedule = grown
    assert 0 <= budget_filter.remaining < Fraction(1, RHO_GRID)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1), Fraction(-1, 2), 0.1])
def test_a_share_that_cannot_be_is_refused(share: Fraction) -> None:
    with pytest.raises(BudgetError, match="expected a selection_share"):
        OfflineOptions(selection_share=share)


@pytest.mark.parametrize("refits", [-1, True, 10**4 + 1])
def test_a_number_of_refits_that_cannot_be_is_refused(refits: int) -> None:
    with pytest.raises(BudgetError, match="expected final_refits"):
        OfflineOptions(final_refits=refits)


@pytest.mark.parametrize("rounds", [0, -1, True, 10**6 + 1])
def test_a_number_of_rounds_that_cannot_be_is_refused(rounds: int) -> None:
    with pytest.raises(BudgetError, match="expected rounds"):
        OfflineOptions(rounds=rounds)
