"""Tiers: one sparse vector of a session each, what it tests and measures, and the batches of its tests."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pmw.loop.fit import correct
from pmw.privacy.budget import Charge, Composition
from pmw.privacy.random_bits import BitSource
from pmw.public.answers import Answers
from pmw.public.charges import LedgerEntry, positive_entry, price_of_positives, reservation, threshold_entry
from pmw.public.free_answers import FreeAnswers
from pmw.public.plans import TierPlan
from pmw.public.state import LaterMeasurement, PublicState, paid_for
from pmw.sparse_vector import NoisyThreshold, SparseState
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    from pmw.data import CountSource

Released: TypeAlias = int | NDArray[np.int64]
FirstAnswers: TypeAlias = Callable[[int], Answers]  # to so many questions at most


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One question to be tested, with the public numbers it is tested against.

    Args:
        query: what is asked.
        model_units: the model's answer, rounded to units of 2^-20 records.
        threshold: T, in units.
    """

    query: LinearQuery
    model_units: int
    threshold: int


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRequest:
    """One marginal to be tested, with the public numbers it is tested against.

    Args:
        scope: attribute names in declared order.
        model_units: the model's marginal, rounded: int64, one axis per attribute, units of 2^-20 records.
        threshold: T, in units.
        measured: the scope that a positive measures; it contains ``scope``. Whether the cells of either are
            declared ones or bins, the plan says.
    """

    scope: tuple[str, ...]
    model_units: NDArray[np.int64]
    threshold: int
    measured: tuple[str, ...]


Request: TypeAlias = QueryRequest | MarginalRequest


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a batch of questions will do. A function of public state and the questions.

    Args:
        queries: the questions, in order.
        tier: the place of the tier that tests its requests.
        requests: what is tested, in order; none where nothing is.
        needs: for each question, how many of the requests must be negative before it can be answered.
        positives: positives of the tier before the batch.
        opens_round: the first test draws new threshold noise.
        reserved: the most that the batch can charge.
    """

    queries: tuple[LinearQuery, ...]
    tier: int
    requests: tuple[Request, ...]
    needs: tuple[int, ...]
    positives: int
    opens_round: bool
    reserved: Charge | None

    @classmethod
    def untested(cls, queries: Sequence[LinearQuery]) -> Proposal:
        """Return the batch that tests nothing for its questions."""
        return cls(tuple(queries), 0, (), (0,) * len(queries), 0, opens_round=False, reserved=None)


@dataclass(frozen=True, slots=True, eq=False)
class BatchDraws:
    """What the tests of a batch released.

    Args:
        outcomes: one per request up to and including the first positive, values of ``Outcome``.
        released: the noisy answer or marginal of that positive, in units; None where all were negative.
    """

    outcomes: tuple[int, ...]
    released: Released | None

    @property
    def negatives(self) -> int:
        """How many tests were negative; they come first."""
        return len(self.outcomes) - (self.released is not None)


# --- tiers ------------------------------------------------------------------------------------------------

Want = TypeVar("Want")  # what a question asks to be tested
Asked = TypeVar("Asked", bound=Request)  # the same with the public numbers that it is tested against


class _Same:
    """An object that is known again by itself, not by what it holds."""

    __slots__ = ("known",)

    def __init__(self, known: Any) -> None:
        self.known = known

    def __hash__(self) -> int:
        return id(self.known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.known is other.known


@functools.lru_cache(maxsize=32)
def _reservation(plan: _Same, options: _Same, composition: Composition, round_open: bool) -> Charge:
    """Return the most that a batch can charge; every question asks for it, and it seldom changes."""
    return reservation(plan.known, options.known, composition, round_open=round_open)


@dataclass(frozen=True, slots=True)
class Tier(ABC, Generic[Want, Asked]):
    """One sparse vector of a session, with what it tests and measures.

    Args:
        place: of the tier in the session's plan.
        plan: its tests, and the noise of what a positive measures.
    """

    place: int
    plan: TierPlan

    # --- propose --------------------------------------------------------------------------------------------

    def may_test(self, state: PublicState) -> bool:
        """Tell whether anything may be tested: while a positive can be had and be paid."""
        if state.closed or state.positives(self.place) >= self.plan.update_limit:
            return False
        return state.ledger.allows(self.reserved(state))

    def most_charged(
        self, state: PublicState, queries: Sequence[LinearQuery]
    ) -> tuple[Fraction, list[LinearQuery]]:
        """Return the most that this tier can charge for some questions, and those that a later one may test.

        Every positive is priced, and so is the threshold noise of the rounds that it takes.
        """
        if not self.may_test(state):
            return Fraction(0), list(queries)
        room = self.plan.update_limit - state.positives(self.place)
        wanted = self.most_positives(state, queries)
        positives = min(wanted, room)
        if not positives:
            return Fraction(0), list(queries)
        options, ledger = state.contract.options, state.ledger
        is_open = state.rounds[self.place]
        most = price_of_positives(self.plan, positives, options, ledger, round_open=is_open)
        certain = wanted <= room and most <= ledger.remaining  # no test is left out
        return most, [query for query in queries if not (certain and self.settles(state, query))]

    @abstractmethod
    def most_positives(self, state: PublicState, queries: Sequence[LinearQuery]) -> int:
        """Return how many positives some questions can come to at most, whatever the tests find."""

    def settles(self, state: PublicState, query: LinearQuery) -> bool:
        """Tell whether no later tier tests a question, where this one makes every test that it asks for."""
        return False

    def reserved(self, state: PublicState) -> Charge:
        """Return the most that a batch can charge."""
        is_open, composition = state.rounds[self.place], state.ledger.composition
        return _reservation(_Same(self.plan), _Same(state.contract.options), composition, is_open)

    @abstractmethod
    def wanted(self, state: PublicState, queries: Sequence[LinearQuery]) -> Iterable[Sequence[Want]]:
        """Yield what each question asks this tier to test; nothing where nothing may be tested."""

    @abstractmethod
    def requests(self, state: PublicState, wanted: Sequence[Sequence[Want]]) -> tuple[list[Asked], list[int]]:
        """Return what is tested, and for each question how many of the tests must be negative before it."""

    def propose(
        self, state: PublicState, queries: Sequence[LinearQuery], wanted: Sequence[Sequence[Want]]
    ) -> Proposal:
        """Return a batch of this tier.

        Args:
            state: the public state.
            queries: the questions, in order.
            wanted: what each asks to be tested; at least one asks for something.
        """
        requests, needs = self.requests(state, wanted)
        return Proposal(
            tuple(queries),
            self.place,
            tuple(requests),
            tuple(needs),
            positives=state.positives(self.place),
            opens_round=not state.rounds[self.place],
            reserved=self.reserved(state),
        )

    # --- draw -----------------------------------------------------------------------------------------------

    @abstractmethod
    def draw(
        self,
        requests: Sequence[Asked],
        before: SparseState,
        source: CountSource,
        bits: BitSource,
        coarse: CountSource | None = None,
    ) -> tuple[BatchDraws, NoisyThreshold | None]:
        """Return the outcomes of tests, up to and including the first positive, and the noise kept.

        Args:
            requests: what is tested, in order.
            before: the sparse vector.
            source: the table, over the declared cells.
            bits: source of the noise.
            coarse: the same table over bins; None where nothing is binned.

        Privacy: one step of the sparse vector, and one measurement with fresh noise at a positive; costs what
            ``charges`` says.
        """

    def kept(self, after: SparseState) -> NoisyThreshold | None:
        """Return the threshold noise that outlives a batch: a round that closes takes its own with it."""
        return after.noisy if after.positives < self.plan.update_limit else None

    # --- settle ---------------------------------------------------------------------------------------------

    def charges(self, state: PublicState, proposal: Proposal, draws: BatchDraws) -> tuple[LedgerEntry, ...]:
        """Return what a batch charges."""
        entries, composition = [], state.ledger.composition
        if proposal.opens_round:
            entries.append(threshold_entry(self.plan, self.place, composition))
        if draws.released is not None:
            request = cast("Asked", proposal.requests[draws.negatives])
            _, label = paid_for(self.measurement(request, draws.released))
            entries.append(positive_entry(self.plan, state.contract.options, composition, label))
        return tuple(entries)

    @abstractmethod
    def settle(
        self, state: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers
    ) -> tuple[PublicState, FirstAnswers]:
        """Return the state after a batch, and what gives the first of the answers that its tests decided.

        Args:
            state: the state that the batch was proposed in, with its charges.
            proposal: the batch.
            draws: what its tests released.
            free: keeps what bounds questions from one batch to the next.
        """

    def after(self, state: PublicState, proposal: Proposal, draws: BatchDraws) -> PublicState:
        """Return the state after a batch: its round, what its tests found, and the model corrected."""
        requests = cast("Sequence[Asked]", proposal.requests)
        state = self.certified(state, requests[: draws.negatives])
        is_open = self._stays_open(proposal, draws)
        rounds = (*state.rounds[: self.place], is_open, *state.rounds[self.place + 1 :])
        if rounds != state.rounds:  # the very same state is known again
            state = replace(state, rounds=rounds)
        if draws.released is not None:
            state = correct(state, self.measurement(requests[draws.negatives], draws.released))
        return state

    def certified(self, state: PublicState, requests: Sequence[Asked]) -> PublicState:
        """Return the state with what negative tests say of later questions."""
        return state

    @abstractmethod
    def measurement(self, request: Asked, released: Released) -> LaterMeasurement:
        """Return the measurement that a positive released."""

    def _stays_open(self, proposal: Proposal, draws: BatchDraws) -> bool:
        """Tell whether the sparse vector holds threshold noise after a batch: not after its last positive."""
        if draws.released is None:
            return True
        return not self.plan.sparse.redraw and proposal.positives + 1 < self.plan.update_limit
