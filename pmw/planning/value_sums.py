"""Sums of values, planned: what opening measures of them, and what is kept for those that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from pmw.errors import BudgetError, NoiseError
from pmw.model import SummedValues, opening_sums
from pmw.planning.calibration import noise_of_price
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.public.charges import SumNumbers
from pmw.public.options import Opening, Options
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from queries.domain import Domain

SHARE = Fraction(1, 250)  # of the budget, for where the values of one attribute lie in their cells
_MOST = Fraction(2, 100)  # of all attributes together
# Kept, where opening measures all pairs or the whole table, for sums that are asked for later.
KEPT_FOR_SUMS = Fraction(15, 100)
_Sums: TypeAlias = tuple[tuple[SummedValues, NoiseDistribution], ...]


def planned(domain: Domain, options: Options) -> Sequence[SummedValues]:
    """Return the sums that a session measures at opening.

    Where intervals hold for all questions at once, within an accuracy contract, or where single questions are
    tested, plans are for counts alone.
    """
    sums = options.measures_apart and options.opening is not Opening.NONE
    return opening_sums(domain) if sums else ()


def share_of_sums(domain: Domain, options: Options) -> Fraction:
    """Return what is kept of the budget for sums, those of opening and those that are asked for later."""
    sums = len(planned(domain, options))
    return min(SHARE * sums, _MOST) + KEPT_FOR_SUMS if sums else Fraction(0)


def planned_sums(domain: Domain, budget_filter: PrivacyFilter, options: Options) -> _Sums:
    """Return the sums of values that opening measures, and their noise: one number a cell of each attribute.

    Raises:
        BudgetError: the budget is too small for them.
    """
    sums = planned(domain, options)
    if not sums:
        return ()
    price = floor_price(min(SHARE, _MOST / len(sums)) * budget_filter.cap)
    try:
        return tuple((one, sum_noise(one, budget_filter, price, options)) for one in sums)
    except NoiseError:
        raise too_small() from None


def sum_noise(
    summed: SummedValues, ledger: PrivacyFilter, price: Fraction, options: Options
) -> NoiseDistribution:
    """Return the narrowest noise of sums that costs at most a price.

    Raises:
        NoiseError: the price is not positive.
    """
    return noise_of_price(ledger.composition, price, SumNumbers(summed).sensitivity(options))


def kept_for_sums(state: PublicState) -> Fraction:
    """Return what is still kept for sums that will be asked for, in the filter's own measure."""
    plan, opened = marginal_tier(state.plan), len(planned(state.domain, state.contract.options))
    if plan is None or plan.order == 1 or not opened:
        return Fraction(0)
    ledger, options = state.ledger, state.contract.options
    later = state.sums[opened:]
    charges = (SumNumbers(one.summed).charge(one.noise, options) for one in later)
    spent = sum(map(ledger.price, charges), Fraction(0))
    return max(ledger.cap * KEPT_FOR_SUMS - spent, Fraction(0))


def too_small() -> BudgetError:
    """Return the error of a budget that measures nothing."""
    return BudgetError("the budget is too small to measure anything; choose a larger epsilon")
