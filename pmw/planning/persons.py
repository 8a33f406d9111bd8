"""Persons, planned: their number at opening, and by group on request, with their price."""

from __future__ import annotations

from fractions import Fraction

from pmw.planning.calibration import noise_of_share
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.charges import PersonNumbers
from pmw.public.half_widths import Confidences
from pmw.public.options import Options
from pmw.public.quotes import Quote, quote_of, require_apart
from pmw.public.state import PublicState
from queries.domain import Domain
from queries.errors import QueryError


def counts_persons(domain: Domain, options: Options) -> bool:
    """Tell whether a session measures numbers of persons: where several records of each are kept.

    Where one is, the number of records is that of persons.
    """
    return domain.person is not None and options.records_per_person > 1 and options.measures_apart


def quote_persons(state: PublicState, scope: tuple[str, ...], *, share: Fraction | None = None) -> Quote:
    """Return the price of numbers of persons by the cells of a scope."""
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
