"""Sums of values, planned: what opening measures of them, and what is kept for those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from pmw.errors import BudgetError, NoiseError
from pmw.model import SummedValues, summed_attributes
from pmw.planning.calibration import calibrated_noise
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.public.charges import sum_charge, sum_sensitivity
from pmw.public.options import Opening, Options
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from queries.domain import Domain

SHARE = Fraction(1, 250)  # of the budget, for where the values of one attribute lie in their cells
_MOST = Fraction(2, 100)  # of all attributes together
# Kept, where opening measures all pairs or the whole table, for sums that are asked for later.
KEPT_FOR_SUMS = Fraction(15, 100)
_Sums: TypeAlias = tuple[tuple[SummedValues, NoiseDistribution], ...]


def summed_names(domain: Domain, options: Options) -> Sequence[str]:
    """Return the attributes whose values are summed in a session.

    Where intervals hold for all questions at once, within an accuracy contract, or where single questions are
    tested, plans are for counts alone.
    """
    sums = options.tests_marginals and options.opening is not Opening.NONE
    sums = sums and not options.simultaneous and options.bar_limit is None
    return summed_attributes(domain) if sums else ()


def share_of_sums(domain: Domain, options: Options) -> Fraction:
    """Return what is kept of the budget for sums, those of opening and those that are asked for later."""
    names = summed_names(domain, options)
    return min(SHARE * len(names), _MOST) + KEPT_FOR_SUMS if names else Fraction(0)


def planned_sums(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> _Sums:
    """Return the sums of values that opening measures, and their noise: one number a cell of each attribute.

    Raises:
        BudgetError: the budget is too small for them.
    """
    names = summed_names(domain, options)
    if not names:
        return ()
    price = floor_price(min(SHARE, _MOST / len(names)) * budget_filter.cap)
    try:
        noise = sum_noise(budget_filter, price, options)
    except NoiseError:
        raise too_small() from None
    return tuple((SummedValues(name, (name,), by_cells=True), noise) for name in names)


def sum_noise(ledger: PrivacyFilter, price: Fraction, options: Options) -> NoiseDistribution:
    """Return the narrowest noise of sums that costs at most a price.

    Raises:
        NoiseError: the price is not positive.
    """
    return calibrated_noise(ledger.composition, price, sum_sensitivity(options), options, one=True)


def kept_for_sums(state: PublicState) -> Fraction:
    """Return what is still kept for sums that will be asked for, in the filter's own measure."""
    plan, opened = marginal_tier(state.plan), len([one for one in state.sums if one.summed.by_cells])
    if plan is None or not plan.opens_pairs or not opened:
        return Fraction(0)
    ledger, options = state.ledger, state.contract.options
    later = state.sums[opened:]
    spent = sum((ledger.price(sum_charge(one.noise, options)) for one in later), Fraction(0))
    return max(ledger.cap * KEPT_FOR_SUMS - spent, Fraction(0))


def too_small() -> BudgetError:
    """Return the error of a budget that measures nothing."""
    return BudgetError("the budget is too small to measure anything; choose a larger epsilon")
