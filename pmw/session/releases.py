"""Releases that no test decides: that they are made, and at which price, is a function of public state.

Marginals on request and error quantiles are recorded, drawn and settled alike: one batch, one outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pmw.data import CountSource
from pmw.loop import (
    FirstAnswer,
    Payer,
    RequestedMarginal,
    counted_requested,
    draw_opening,
    draw_quantiles,
    draw_requested,
    plan_spare,
    ranked_errors,
    released_total,
    settle_quantiles,
    settle_requested,
)
from pmw.planning.error_quantiles import AnsweredQuestions, QuantileRequest, is_due, plan_quantiles
from pmw.planning.opened import plan_opened
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import LedgerEntry, Parts
from pmw.public.contract import Contract, Options
from pmw.public.plans import OpeningPlan
from pmw.public.state import PublicState
from pmw.session import proposals
from pmw.session.journal import opening_outcome
from pmw.session.loading import load_scopes, read_question
from pmw.session.measurement_rows import read_kind
from pmw.session.store import QUANTILES, REQUESTED, IntentRow, Outcome, SessionStore
from queries.domain import Domain
from queries.linear import UNITS

__all__ = [
    "Drawing",
    "due_marginal",
    "due_quantiles",
    "MarginalRelease",
    "opened",
    "QuantileRelease",
    "read_release",
    "Release",
    "StoredAnswers",
]

# Draws what was counted, and returns the public state with the filter after its charges.
Drawing: TypeAlias = Callable[[BitSource, PrivacyFilter], PublicState]
_Tables: TypeAlias = tuple[CountSource, CountSource | None]  # over the declared cells, and over bins


@dataclass(frozen=True, slots=True)
class MarginalRelease:
    """A marginal on request."""

    requested: RequestedMarginal
    kind: str = REQUESTED

    def text(self, options: Options) -> str:
        """Return the text that it is recorded by, with the charge that is reserved for it."""
        return proposals.recorded_request(self.requested, options)

    def entries(self, options: Options) -> tuple[LedgerEntry, ...]:
        """Return what it charges."""
        return (self.requested.entry(options),)

    def counted(self, state: PublicState, tables: _Tables) -> Drawing:
        """Return what draws it; all that can fail for want of the table fails here.

        Args:
            state: the state that it is recorded in.
            tables: the table over the declared cells, and over bins of them where there are any.

        Raises:
            DataError: the table cannot be counted.
        """
        counts = counted_requested(self.requested, state, *tables)

        def drawn(bits: BitSource, ledger: PrivacyFilter) -> PublicState:
            return settle_requested(state, draw_requested(self.requested, counts, bits), ledger)

        return drawn


@dataclass(frozen=True, slots=True)
class QuantileRelease:
    """Error quantiles that are due together, and what reads the answers that they are about."""

    requests: Sequence[QuantileRequest]
    answers: Callable[[int], FirstAnswer]
    kind: str = QUANTILES

    def text(self, options: Options) -> str:
        """Return the text that they are recorded by, with the charge that is reserved for them."""
        return proposals.recorded_quantiles(self.requests, options)

    def entries(self, options: Options) -> tuple[LedgerEntry, ...]:
        """Return what they charge."""
        return tuple(one.entry(options) for one in self.requests)

    def counted(self, state: PublicState, tables: _Tables) -> Drawing:
        """Return what draws them, as a marginal's does; of all that is counted it holds one number each."""
        errors = ranked_errors(self.requests, self.answers, tables[0])

        def drawn(bits: BitSource, ledger: PrivacyFilter) -> PublicState:
            released = draw_quantiles(self.requests, errors, bits)
            return settle_quantiles(state, released, ledger)

        return drawn


Release: TypeAlias = MarginalRelease | QuantileRelease


def opened(contract: Contract, plan: OpeningPlan, source: CountSource, bits: BitSource) -> Outcome:
    """Return the outcome of an opening: what it measures, charges and plans.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        source: the table, over the declared cells.
        bits: source of the noise.
    """
    draws = draw_opening(plan, source, bits)
    planned = plan_opened(contract, plan, released_total(plan, draws).value)
    return opening_outcome(planned.entries, plan, draws, planned.test)


def read_release(store: SessionStore, domain: Domain, intent: IntentRow) -> Release | None:
    """Return the release that was recorded, or None where tests were.

    Raises:
        SessionCorruptError: it cannot be read.
    """
    if intent.kind == REQUESTED:
        return MarginalRelease(proposals.read_requested(domain, intent.proposal))
    if intent.kind == QUANTILES:
        return QuantileRelease(proposals.read_quantiles(intent.proposal), _first_answers(store, domain))
    return None


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """What a session file knows of the questions that were answered (``pmw.loop.finishing.Answered``)."""

    store: SessionStore
    domain: Domain

    def scopes(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        """Return of each analyst how many settled questions each scope has."""
        return load_scopes(self.store, self.domain)

    def version(self, place: int) -> int:
        """Return the version of the model that settled a question, by its place among all, from 1."""
        return self.store.settled_version(place)


def due_marginal(
    store: SessionStore, state: PublicState, payers: Mapping[str, Payer | None]
) -> tuple[MarginalRelease, Parts] | None:
    """Return which marginal is measured next because tests do not need its price, and who pays, or None."""
    spare = plan_spare(state, StoredAnswers(store, state.domain), payers)
    return spare and (MarginalRelease(RequestedMarginal(spare.scope, spare.noise)), spare.booked)


def due_quantiles(store: SessionStore, state: PublicState) -> QuantileRelease | None:
    """Return the error quantiles that are due after the settled questions, or None: once for each number."""
    last = state.quantiles[-1].asked if state.quantiles else 0
    if not is_due(state.settled) or store.settled_count(last) == state.settled:
        return None
    asked = {read_kind(kind): AnsweredQuestions(*found) for kind, found in store.first_answers().items()}
    requests = plan_quantiles(state, asked)
    return QuantileRelease(requests, _first_answers(store, state.domain)) if requests else None


def _first_answers(store: SessionStore, domain: Domain) -> Callable[[int], FirstAnswer]:
    """Return what reads a stored answer by its number."""

    def read(place: int) -> FirstAnswer:
        row = store.answer_at(place)
        return FirstAnswer(read_question(row.query, domain), round(row.count * UNITS))

    return read
