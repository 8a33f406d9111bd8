"""Heads: where numbers of persons are measured, and persons by group on request, with their price."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pmw.errors import SessionError
from pmw.planning.calibration import noise_of_share
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.charges import heads_charge, heads_sensitivity
from pmw.public.half_widths import Confidences
from pmw.public.options import Options
from pmw.public.quotes import affordable_price
from pmw.public.state import PublicState
from queries.cells import cell_count
from queries.domain import Domain
from queries.errors import QueryError
from queries.factors import UNITS
from queries.frozen import dataclass

MOST_CELLS = 2**16  # that are measured together: each is a draw


def counts_heads(domain: Domain, options: Options) -> bool:
    """Tell whether a session measures numbers of persons: where several records of each are kept.

    Where one is, the number of records is that of persons. Plans whose intervals hold for all questions at
    once, or within an accuracy contract, or where single questions are tested, are for records alone.
    """
    several = domain.person is not None and options.records_per_person > 1
    return several and options.tests_marginals and not options.simultaneous and options.bar_limit is None


@dataclass(frozen=True, slots=True)
class HeadsQuote:
    """Numbers of persons on request, and their price.

    Args:
        scope: attribute names in declared order; none for one number of all persons.
        noise: on each number.
        cells: how many are measured.
        share: the price as a part of the cap, in [0, 1] where it is affordable.
        half_width: how far each may be off at the session's confidence, in persons.
        affordable: the price is left under the cap, besides what open rounds have reserved.
    """

    scope: tuple[str, ...]
    noise: NoiseDistribution
    cells: int
    share: float
    half_width: float
    affordable: bool

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "heads": True,
            "scope": list(self.scope),
            "cells": self.cells,
            "share": self.share,
            "half_width": self.half_width,
            "affordable": self.affordable,
        }


def quote_heads(state: PublicState, scope: tuple[str, ...], *, share: Fraction | None = None) -> HeadsQuote:
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
    _require_heads(state, scope)
    moved = heads_sensitivity(state.domain.scope_size(scope), state.contract.options)
    noise = noise_of_share(state.ledger, share, moved * UNITS, Fraction(moved * UNITS**2))
    return quote_heads_noise(state, scope, noise)


def quote_heads_noise(state: PublicState, scope: tuple[str, ...], noise: NoiseDistribution) -> HeadsQuote:
    """Return the price of numbers of persons under some noise."""
    cells = state.domain.scope_size(scope)
    price = state.ledger.price(heads_charge(noise, cells, state.contract.options))
    width = sum_half_width(noise, 1.0, Confidences.in_state(state, 2).alone)
    affordable = price <= affordable_price(state)
    return HeadsQuote(scope, noise, cells, float(price / state.ledger.cap), width, affordable)


def _require_heads(state: PublicState, scope: tuple[str, ...]) -> None:
    domain, options = state.domain, state.contract.options
    if state.closed:
        raise SessionError("the session is closed: nothing is measured any more")
    if domain.person is None:
        raise QueryError(
            "the schema declares no persons, so they are not counted; give it a [person] section",
            code="unsupported",
        )
    if options.records_per_person == 1:
        raise QueryError(
            "one record of each person is kept, so numbers of records are numbers of persons; ask for these, "
            "or measure them without --heads",
            code="unsupported",
        )
    if not counts_heads(domain, options):
        raise SessionError(
            "the session measures no numbers of persons: its bars hold for all questions at once, keep an "
            "accuracy, or rest on tests of single questions"
        )
    cells = domain.scope_size(scope)
    if cells > MOST_CELLS:
        raise QueryError(
            f"persons by {', '.join(scope)} need {cell_count(cells)} cells, at most {MOST_CELLS:,} fit; "
            "group by fewer attributes",
            code="too_large",
        )
