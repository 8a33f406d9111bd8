"""Persons, planned: their number at opening, and by group on request, with their price."""

from __future__ import annotations

from fractions import Fraction

from pmw.errors import NoiseError
from pmw.planning.calibration import noise_of_price, noise_of_share
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.charges import PersonNumbers
from pmw.public.half_widths import Confidences
from pmw.public.options import Opening, Options
from pmw.public.plans import marginal_tier
from pmw.public.quotes import Quote, quote_of, require_apart
from pmw.public.state import PublicState
from queries.domain import Domain
from queries.errors import QueryError

SHARE = Fraction(2, 1000)  # of the budget, for the number of persons at opening
# Kept, where opening measures all pairs or the whole table, for persons by group that are asked for later.
KEPT_FOR_PERSONS = Fraction(4, 100)


def counts_persons(domain: Domain, options: Options) -> bool:
    """Tell whether a session measures numbers of persons: where several records of each are kept.

    Where one is, the number of records is that of persons.
    """
    return domain.person is not None and options.records_per_person > 1 and options.measures_apart


def share_of_persons(domain: Domain, options: Options) -> Fraction:
    """Return what is kept of the budget for persons, at opening and by groups that are asked for later."""
    return SHARE + KEPT_FOR_PERSONS if opens_persons(domain, options) else Fraction(0)


def kept_for_persons(state: PublicState) -> Fraction:
    """Return what is still kept for persons that will be asked for, in the filter's own measure."""
    plan, options = marginal_tier(state.plan), state.contract.options
    if plan is None or plan.order == 1 or not opens_persons(state.domain, options):
        return Fraction(0)
    later = [one for one in state.persons if one.scope]
    charges = (PersonNumbers(one.scope, one.units.size).charge(one.noise, options) for one in later)
    spent = sum(map(state.ledger.price, charges), Fraction(0))
    return max(state.ledger.cap * KEPT_FOR_PERSONS - spent, Fraction(0))


def opens_persons(domain: Domain, options: Options) -> bool:
    """Tell whether opening measures the number of persons, where that tells more than the records do."""
    return options.opening is not Opening.NONE and counts_persons(domain, options)


def opening_persons(
    domain: Domain, budget_filter: PrivacyFilter, options: Options, total: float
) -> NoiseDistribution | None:
    """Return the noise of the number of persons at opening; None where it would tell nothing.

    There are at most as many persons as records, n, and at least n/K. The number is measured where its noise,
    at the session's confidence, is narrower than that. So it depends on public numbers alone.

    Args:
        domain: the declared attributes, and persons.
        budget_filter: with nothing spent.
        options: the custodian's choices.
        total: the number of records, as released or as stated.
    """
    if not opens_persons(domain, options):
        return None
    moved, price = PersonNumbers((), 1).sensitivity(options), floor_price(SHARE * budget_filter.cap)
    try:
        noise = noise_of_price(budget_filter.composition, price, moved)
    except NoiseError:
        return None
    width = sum_half_width(noise, 1.0, options.confidence)
    return noise if width < total * (1 - 1 / options.records_per_person) / 2 else None


def quote_persons(state: PublicState, scope: tuple[str, ...], *, share: Fraction | None = None) -> Quote:
    """Return the price of numbers of persons by the cells of a scope.

    Args:
        state: the public state.
        scope: attribute names in declared order.
        share: the part of the budget that is paid; None for the usual one.

    Raises:
        BudgetError: the share is no part of the budget, or too small.
        QueryError: persons are not counted apart from records, or there are too many cells.
        SessionError: the session measures nothing on request.
    """
    _require_persons(state, scope)
    what = PersonNumbers(scope, state.domain.scope_size(scope))
    noise = noise_of_share(state.ledger, share, what.sensitivity(state.contract.options))
    width = sum_half_width(noise, 1.0, Confidences.in_state(state, 2).alone)
    return quote_of(state, what, what.cells, noise, width)


def _require_persons(state: PublicState, scope: tuple[str, ...]) -> None:
    if state.domain.person is None:
        raise QueryError(
            "the schema declares no persons, so they are not counted; give it a [person] section",
            code="unsupported",
        )
    if state.contract.options.records_per_person == 1:
        raise QueryError(
            "one record of each person is kept, so numbers of records are numbers of persons; ask for these, "
            "or measure them without --heads",
            code="unsupported",
        )
    require_apart(state, PersonNumbers, f"persons by {', '.join(scope)}", state.domain.scope_size(scope))
