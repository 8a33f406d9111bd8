"""Releases that no test decides: that they are made, and at which price, is a function of public state.

What is requested, and error quantiles, are recorded, drawn and settled alike: one batch, one outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from pmw.loop.measuring import Tables
from pmw.loop.tiers import Proposal
from pmw.loop.untested import (
    FirstAnswer,
    Requested,
    apply,
    draw_opening,
    draw_quantiles,
    ranked_errors,
    released_total,
)
from pmw.model.measurement import MarginalMeasurement
from pmw.planning.error_quantiles import AnsweredQuestions, QuantileRequest, is_due, plan_quantiles
from pmw.planning.parts import newest_due, plan_part
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import CellNumbers, Event, LedgerEntry, Parts, PersonNumbers
from pmw.public.contract import Contract
from pmw.public.foundations import due_scopes, strategy_of
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan
from pmw.public.state import PublicState
from pmw.session.journal import Batch, Part, Recorded, Tie, opening_outcome
from pmw.session.loading import load_scopes, read_question
from pmw.session.store.rows import PARTS, QUANTILES, Outcome
from pmw.session.store.store import SessionStore
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.data import CountSource
    from pmw.loop.finishing import Payer
    from pmw.privacy.noise import NoiseDistribution
    from pmw.session.accounts import Bookings

# Draws what was counted, and returns the public state with the filter after its charges.
Drawing: TypeAlias = Callable[[BitSource, PrivacyFilter], PublicState]
Found: TypeAlias = Sequence[tuple[tuple[str, ...], "NoiseDistribution"]]  # scopes, each with its noise
_Tables: TypeAlias = tuple["CountSource", "CountSource | None"]  # over the declared cells, and over bins


@dataclass(frozen=True, slots=True)
class MeasuredRelease:
    """What no test decides: measured on request, because it is spare, as a part of opening or of the reserve.

    Args:
        batch: what is measured; of a part of the reserve, several marginals, each of which is charged.
        event: in the words of the ledger, where that is not the batch's own.
    """

    batch: Requested | Part
    event: Event | None = None

    @classmethod
    def of(cls, batch: Requested | Part, state: PublicState) -> MeasuredRelease:
        """Return the release of a batch in a state, which tells whether it is a part of opening."""
        if isinstance(batch, tuple):
            return cls(batch, Event.PART)
        opens = isinstance(batch.what, CellNumbers) and batch.what.scope in due_scopes(state)
        return cls(batch, Event.OPENING if opens else None)

    @property
    def kind(self) -> str:
        """The kind of the batch."""
        return PARTS if isinstance(self.batch, tuple) else self.batch.what.kind

    @property
    def _each(self) -> Part:
        return self.batch if isinstance(self.batch, tuple) else (self.batch,)

    def entries(self, options: Options) -> tuple[LedgerEntry, ...]:
        """Return what it charges."""
        entries = (one.entry(options) for one in self._each)
        return tuple(replace(one, event=self.event or one.event) for one in entries)

    def counted(self, state: PublicState, tables: _Tables) -> Drawing:
        """Return what draws it; all that can fail for want of the table fails here.

        Args:
            tables: the table over the declared cells, and over bins of them where there are any.
        """
        over = Tables(*tables, lambda scope: state.grid(scope) is state.domain)
        counts = [one.counted(over) for one in self._each]

        def drawn(bits: BitSource, ledger: PrivacyFilter) -> PublicState:
            after = state
            for place, (one, own) in enumerate(zip(self._each, counts, strict=True)):
                measured = one.measured(own, bits)
                if self.event is Event.PART and isinstance(measured, MarginalMeasurement):
                    measured = replace(measured, part=len(counts) - place)
                after = apply(after, measured, ledger)
            return after

        return drawn


@dataclass(frozen=True, slots=True)
class QuantileRelease:
    """Error quantiles that are due together, and what reads the answers that they are about."""

    batch: tuple[QuantileRequest, ...]
    answers: Callable[[int], FirstAnswer]
    kind: str = QUANTILES

    def entries(self, options: Options) -> tuple[LedgerEntry, ...]:
        """Return what they charge."""
        return tuple(one.entry(options) for one in self.batch)

    def counted(self, state: PublicState, tables: _Tables) -> Drawing:
        """Return what draws them, as a marginal's does; of all that is counted it holds one number each."""
        errors = ranked_errors(self.batch, self.answers, tables[0])

        def drawn(bits: BitSource, ledger: PrivacyFilter) -> PublicState:
            after = state
            for one in draw_quantiles(self.batch, errors, bits):
                after = apply(after, one, ledger)
            return after

        return drawn


Release: TypeAlias = MeasuredRelease | QuantileRelease


def opened(contract: Contract, plan: OpeningPlan, source: CountSource, bits: BitSource) -> Outcome:
    """Return the outcome of an opening: what it measures, charges and plans.

    Args:
        plan: the noise of the opening measurements.
        bits: source of the noise.
    """
    draws = draw_opening(plan, source, bits)
    total = released_total(plan, draws).value
    from pmw.planning.opening import plan_opened  # once in a session's life

    planned = plan_opened(contract, plan, total, apart=source.counts_persons)
    persons = () if planned.persons is None else (Requested(PersonNumbers((), 1), planned.persons),)
    drawn = [one.measured(one.counted(Tables(source)), bits) for one in persons]
    return opening_outcome(planned.entries, plan, draws, planned.test, drawn)


def recorded(release: Release, options: Options, booked: Parts, tie: Tie | None = None) -> Recorded:
    """Return a release as it is recorded: all that it charges is reserved for it.

    Args:
        booked: whom its charges are booked to.
    """
    reserved = reduce(add, (entry.charge for entry in release.entries(options)))
    return Recorded(release.batch, reserved, booked, tie=tie)


def release_of(store: SessionStore, state: PublicState, batch: Batch) -> Release | None:
    """Return the release of a batch that was recorded in a state, or None where it is one of tests."""
    if isinstance(batch, Proposal):
        return None
    quantiles = (
        tuple(one for one in batch if isinstance(one, QuantileRequest)) if isinstance(batch, tuple) else ()
    )
    if quantiles:
        return QuantileRelease(quantiles, _first_answers(store, state.domain))
    return MeasuredRelease.of(batch, state)  # type: ignore[arg-type]


def due_marginal(
    store: SessionStore, state: PublicState, payers: Mapping[str, Payer | None]
) -> tuple[MeasuredRelease, Parts] | None:
    """Return which marginal is measured next because tests do not need its price, and who pays, or None."""
    from pmw.loop.finishing import plan_spare  # where half of what is left was spent, or more

    spare = plan_spare(state, lambda: load_scopes(store, state.domain), store.answers.settled_version, payers)
    if spare is None:
        return None
    marginal = Requested(CellNumbers(spare.scope, strategy_of(state, spare.scope)), spare.noise)
    return MeasuredRelease.of(marginal, state), spare.booked


def part_of(found: Found, state: PublicState) -> MeasuredRelease:
    """Return the release of a part of the reserve: marginals under noises, in this order."""
    part = tuple(Requested(CellNumbers(scope, strategy_of(state, scope)), noise) for scope, noise in found)
    return MeasuredRelease.of(part, state)


def due_part(
    store: SessionStore, state: PublicState, bookings: Bookings, looked_at: set[tuple[str, int]]
) -> tuple[MeasuredRelease, Parts] | None:
    """Return a part of the reserve that is due, and who pays it, or None.

    Args:
        bookings: what was charged, by analyst.
        looked_at: of which analysts and numbers of questions it was found whether a part is due; added to.
    """
    if state.closed:
        return None
    counts, left = store.answers.settled_counts(), bookings.left_for_parts(state)
    for name in sorted(counts.keys() & left.keys()):
        due = newest_due(counts[name])
        if not due or (name, due) in looked_at:
            continue
        if not bookings.had_part(name, state, store.answers.settled_version(due, name)):
            planned = plan_part(state, load_scopes(store, state.domain)[name], left[name] / 2)
            if planned:  # looked at again if the table cannot be read
                return part_of(planned, state), ((name, Fraction(1)),)
        looked_at.add((name, due))
    return None


def due_quantiles(store: SessionStore, state: PublicState) -> QuantileRelease | None:
    """Return the error quantiles that are due after the settled questions, or None: once for each number."""
    last = state.quantiles[-1].asked if state.quantiles else 0
    if not is_due(state.settled) or store.answers.settled_count(last) == state.settled:
        return None
    asked = {kind: AnsweredQuestions(*found) for kind, found in store.answers.first_answers().items()}
    requests = plan_quantiles(state, asked)
    return QuantileRelease(requests, _first_answers(store, state.domain)) if requests else None


def _first_answers(store: SessionStore, domain: Domain) -> Callable[[int], FirstAnswer]:
    def read(place: int) -> FirstAnswer:
        row = store.answers.answer(place)
        return FirstAnswer(read_question(row.query, domain), round(row.count * UNITS))

    return read
