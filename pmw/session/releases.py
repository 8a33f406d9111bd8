"""Releases that no test decides: that they are made, and at which price, is a function of public state.

What is requested, and error quantiles, are recorded, drawn and settled alike: one batch, one outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
from pmw.public.answers import Answers
from pmw.public.charges import CellNumbers, Event, LedgerEntry, Parts, PersonNumbers
from pmw.public.contract import Contract
from pmw.public.foundations import due_scopes, strategy_of
from pmw.public.free_answers import FreeAnswers
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan
from pmw.public.state import PublicState
from pmw.session.journal import Batch, Part, opening_outcome
from pmw.session.loading import load_scopes, read_question
from pmw.session.store.rows import PARTS, QUANTILES, Outcome
from pmw.session.store.store import SessionStore
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.data import CountSource
    from pmw.loop.finishing import Payer
    from pmw.loop.purchases import MarginalOffer, Offer
    from pmw.privacy.noise import NoiseDistribution
    from pmw.session.accounts import Account, Bookings
    from queries.linear import LinearQuery
    from queries.questions import Questions
    from queries.statements import Statement

_MOST_AHEAD = 2**13  # questions whose bars are found before it is seen whether one is paid for
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


# --- numbers for what has wide bars -------------------------------------------------------------------------


class Offers:
    """Finds which questions of an analyst get numbers, and which values get sums, and at which price.

    All of it follows from public numbers and the ledger; the engine draws what is found here.

    Args:
        bookings: what was charged, by analyst.
        free: the answers of the present model.
    """

    def __init__(self, bookings: Bookings, free: FreeAnswers) -> None:
        self._bookings = bookings
        self._free = free
        self._marginals: dict[tuple[str, ...], MarginalOffer | None] = {}  # in place of numbers, by scope
        self._found_at: tuple[object, ...] = ()  # what these follow from
        self._last_offer: Offer | None = None
        self._offer_follows: tuple[object, ...] = ()  # what that follows from
        self._values: tuple[PublicState, Statement, Fraction, tuple[Requested, ...]] | None = None  # the last
        self.ahead = 1  # questions whose bars are found before it is seen whether one is paid for

    def _offer(self, state: PublicState, account: Account) -> Offer | None:
        """Return what a number costs that is drawn for an analyst's question; None where none can be had."""
        if not (state.contract.options.reserved and account.draws_counts):
            return None
        asker = (account.name, account.share, account.part, account.at_most, account.own_ceiling)
        follows = (state.ledger.spent, len(state.measured), len(state.quantiles), state.closed, *asker)
        if self._offer_follows == follows:  # each question asks for it
            return self._last_offer
        from pmw.loop.purchases import offered
        from pmw.public.quotes import affordable_price

        left = affordable_price(self._bookings.limited(state, account))
        most = left if account.at_most is not None else account.ceiling(state.ledger) * state.ledger.cap
        bought = self._bookings.bought(account.name, state.ledger)
        offer = offered(state, left, bought, float(account.part), min(most, left))
        self._last_offer, self._offer_follows = offer, follows
        return offer

    def are_unclear(self, state: PublicState, questions: Questions, account: Account) -> NDArray[np.bool_]:
        """Tell which questions a number would be drawn for, each by itself: bool, shape (n,)."""
        offer = self._offer(state, account)
        if offer is None or not len(questions):
            return np.zeros(len(questions), dtype=np.bool_)
        from pmw.loop.purchases import are_unclear

        return are_unclear(
            state, questions, self._free.of(state).answers(questions).interval, offer.half_width
        )

    def together(self, state: PublicState, questions: Questions, account: Account) -> Requested | None:
        """Return the numbers that are drawn for a statement's questions; None where no bar is wide."""
        offer = self._offer(state, account)
        if offer is None or not len(questions):
            return None
        from pmw.loop.purchases import drawn_together

        if len({one.scope for one in questions.kinds()[1]}) == 1:
            beside = sum((price_of(state, one) for one in self.values(state, account)), Fraction(0))
            queries = list(questions)
            marginal = self._marginal(state, queries, offer, account, beside)
            if marginal is not None:
                return marginal
        return drawn_together(state, questions, self._free.of(state).answers(questions).interval, offer)

    def _marginal(
        self,
        state: PublicState,
        queries: Sequence[LinearQuery],
        offer: Offer,
        account: Account,
        beside: Fraction = Fraction(0),
    ) -> Requested | None:
        """Return the marginal that is measured in place of numbers about one scope, or None."""
        found = self._offered_marginal(state, queries[0].scope, offer)
        if found is None or price_of(state, found.requested) > self._most(state, account) - beside:
            return None
        return found.requested if found.serves(state, queries) else None

    def _most(self, state: PublicState, account: Account) -> Fraction:
        from pmw.public.quotes import affordable_price

        most = account.ceiling(state.ledger) * state.ledger.cap
        return min(affordable_price(self._bookings.limited(state, account)), most)

    def _offered_marginal(
        self, state: PublicState, scope: tuple[str, ...], offer: Offer
    ) -> MarginalOffer | None:
        from pmw.loop.purchases import offered_marginal

        found_at = (offer.price, len(state.marginals), state.closed)
        if self._found_at != found_at:
            self._marginals, self._found_at = {}, found_at
        if scope not in self._marginals:
            self._marginals[scope] = offered_marginal(state, scope, offer.price)
        return self._marginals[scope]

    def _have_marginals(
        self, state: PublicState, questions: Questions, offer: Offer, account: Account
    ) -> NDArray[np.bool_]:
        kinds, examples = questions.kinds()
        may = [self._offered_marginal(state, one.scope, offer) is not None for one in examples]
        found = np.array(may, dtype=np.bool_)[kinds]
        for place in np.flatnonzero(found).tolist():
            found[place] = self._marginal(state, [questions.query(place)], offer, account) is not None
        return found

    def values(self, state: PublicState, account: Account) -> Sequence[Requested]:
        """Return the sums that are drawn for a statement's means and sums; none where no bar is wide.

        They cost together what a number does.
        """
        statement = account.statement
        sums = statement is not None and statement.summed
        offer = self._offer(state, account.paying(None)) if sums else None  # whether or not it shows counts
        if offer is None or statement is None:
            return ()
        from pmw.planning.mean_quotes import unclear_values

        known = self._values
        if known is None or known[0] is not state or known[1:3] != (statement, offer.price):
            found = tuple(Requested(*one) for one in unclear_values(state, statement, offer.price))
            self._values = known = (state, statement, offer.price, found)
        return known[3]

    def price(self, state: PublicState, asked: Questions, account: Account) -> Fraction:
        """Return what is drawn for questions may cost, in the filter's own measure.

        That is one price for the numbers of a statement and one for its values, or that of one question.
        """
        if account.is_whole:
            rows = self.together(state, asked, account)
            drawn = [*self.values(state, account), *([] if rows is None else [rows])]
            return sum((price_of(state, one) for one in drawn), Fraction(0))
        offer = self._offer(state, account)
        if offer is None:
            return Fraction(0)
        from pmw.loop.purchases import MARGINAL

        if self._have_marginals(state, asked, offer, account).any():
            return MARGINAL * offer.price
        return offer.price if self.are_unclear(state, asked, account).any() else Fraction(0)

    def first(
        self, state: PublicState, questions: Questions, answers: Answers, account: Account
    ) -> tuple[int, Requested | None]:
        """Return how many of the first answers stand, or what is drawn for the first question."""
        offer = self._offer(state, account)
        if offer is None:
            self.ahead = min(2 * self.ahead, _MOST_AHEAD)
            return len(answers), None
        from pmw.loop.purchases import are_unclear, numbers_at

        unclear = are_unclear(state, questions, answers.interval, offer.half_width)
        unclear |= self._have_marginals(state, questions, offer, account)
        first = int(unclear.argmax()) if unclear.any() else len(answers)
        self.ahead = 1 if unclear.any() else min(2 * self.ahead, _MOST_AHEAD)
        if first:
            return first, None
        queries = [questions.query(0)]
        marginal = self._marginal(state, queries, offer, account)
        return first, marginal or numbers_at(state, queries, offer.price)


def price_of(state: PublicState, drawn: Requested) -> Fraction:
    """Return what is charged for what is drawn, in the filter's own measure."""
    return state.ledger.price(drawn.entry(state.contract.options).charge)
