"""Tiers: one sparse vector of a session each, what it tests and measures, and the batches of its tests.

The tier of marginals tests whole marginals, and measures those where the model is wrong. The statistic of a
marginal is its L1 distance from the model's, sum over cells |count(D) - round(count(A))|, an integer on the
2^-20 grid. One person moves it by at most ``l1_sensitivity``, however many cells it has, and either way: a
positive is charged at the general rate. The proof of that is in ``docs/algorithm.md``, what a negative
promises in ``docs/intervals.md``. The tier of questions tests one question at a time.

Source: Hardt and Rothblum (2010); Dwork and Roth (2014), Section 4.2 (online private multiplicative weights
by NumericSparse), with c positives, not c + 1.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pmw.loop.fit import correct, model_holds
from pmw.loop.measuring import Tables, draw_numbers
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement
from pmw.privacy.budget import Charge, Composition
from pmw.privacy.random_bits import BitSource
from pmw.public.answers import Answers, concatenated, placed
from pmw.public.charges import LedgerEntry, positive_entry, price_of_positives, reservation, threshold_entry
from pmw.public.evidence import NOT_HELD, holding_of, is_held, own_numbers
from pmw.public.free_answers import FreeAnswers, ModelAnswers
from pmw.public.local_models import local_models
from pmw.public.plans import MarginalTestPlan, QueryTestPlan, TierPlan
from pmw.public.state import Certificate, LaterMeasurement, PublicState, coarse_model, paid_for
from pmw.sparse_vector import NoisyThreshold, SparseState
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.questions import QuestionList

if TYPE_CHECKING:
    from pmw.data import CountSource

Released: TypeAlias = int | NDArray[np.int64]
FirstAnswers: TypeAlias = Callable[[int], Answers]  # to so many questions at most


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One question to be tested, with the public numbers it is tested against.

    Args:
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
    """One sparse vector of a session, with what it tests and measures."""

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
        """Return a batch of this tier."""
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
        """Return the state after a batch, and what gives the first of the answers that its tests decided."""

    def after(self, state: PublicState, proposal: Proposal, draws: BatchDraws) -> PublicState:
        """Return the state after a batch: its round, what its tests found, and the model corrected."""
        requests = cast("Sequence[Asked]", proposal.requests)
        state = self.certified(state, requests[: draws.negatives])
        # It holds threshold noise after a batch, but not after its last positive.
        goes_on = not self.plan.sparse.redraw and proposal.positives + 1 < self.plan.update_limit
        is_open = draws.released is None or goes_on
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


_PAIRS = 6  # of attributes, which every question may ask to be tested
_LOWER = 0.75  # of a threshold: so far it must have come down for another test of the same model


def marginal_units(state: PublicState, scope: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the model's marginal on the cells that are tested, rounded: int64, units of 2^-20 records."""
    model = state.model if state.grid(scope) is state.domain else coarse_model(state)
    return np.rint(model.marginal(scope) * UNITS).astype(np.int64)


def l1_distance(counts: NDArray[np.int64], model_units: NDArray[np.int64]) -> int:
    """Return sum over cells |count - model|, in units.

    Args:
        counts: int64, records per cell.
        model_units: int64, of the same shape, units of 2^-20 records.

    Privacy: a function of true counts (secret). One record added or removed moves one cell by one record, so
        the distance by at most 2^20 units; one record replaced moves it by at most twice that. Integers
        throughout: no rounding adds to it.
    """
    return int(np.abs(counts * UNITS - model_units).sum())


@dataclass(frozen=True, slots=True)
class MarginalTier(Tier[tuple[str, ...], MarginalRequest]):
    """The tests of whole marginals that questions are about."""

    plan: MarginalTestPlan

    def may_test(self, state: PublicState) -> bool:
        return self.plan.tests and Tier.may_test(self, state)

    def wanted(
        self, state: PublicState, queries: Sequence[LinearQuery]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        may, known = self.may_test(state), dict[tuple[str, ...], tuple[tuple[str, ...], ...]]()
        own = own_numbers(state)
        for query in queries:
            if query.scope not in known:
                known[query.scope] = tuple(self.scopes(state, query)) if may else ()
            yield () if own.serves(query) else known[query.scope]

    def most_positives(self, state: PublicState, queries: Sequence[LinearQuery]) -> int:
        """Return how many positives some questions can come to at most: one for each marginal.

        A positive changes the model, so that what was tested before is tested again, and what its tree could
        not hold it may hold now.
        """
        scopes = {query.scope for query in queries}
        return len({each for scope in scopes for each in self._candidates(state, scope)})

    def settles(self, state: PublicState, query: LinearQuery) -> bool:
        """Tell whether a question's whole scope is tested in any case: then it is certified or measured."""
        cells = state.grid(query.scope).scope_size(query.scope)
        return len(query.scope) <= 2 and cells <= self.plan.most_cells

    def scopes(self, state: PublicState, query: LinearQuery) -> Iterator[tuple[str, ...]]:
        """Yield the marginals that a question asks to be tested: its pairs, then its whole scope.

        Pairs come first because noise hides least in them. Not tested is what a measured marginal contains,
        what has too many cells for the noise, and what is wider than a pair and the model could not hold. One
        question cannot use up the positives: where its pairs are more than half of them, it asks for its
        whole scope alone. What was tested against this very model is tested again only where the threshold
        has come down since.
        """
        for scope in self._candidates(state, query.scope):
            if not self._was_just_tested(state, scope) and (len(scope) <= 2 or model_holds(state, scope)):
                yield scope

    def _candidates(self, state: PublicState, whole: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not whole:
            return
        sizes = {min(2, len(whole)), len(whole)}
        if math.comb(len(whole), 2) > max(_PAIRS, self.plan.update_limit // 2):
            sizes = {len(whole)}
        held = [set(one.scope) for one in (*state.opening, *state.marginals)]
        for size in sorted(sizes):
            for scope in itertools.combinations(whole, size):
                cells = state.grid(scope).scope_size(scope)
                if cells <= self.plan.most_cells and not any(set(scope) <= wider for wider in held):
                    yield scope

    def _was_just_tested(self, state: PublicState, scope: tuple[str, ...]) -> bool:
        """Tell whether a marginal was tested against this very model, at a threshold about as low."""
        cells = state.grid(scope).scope_size(scope)
        certificate = state.certificates.get(scope)
        if certificate is None or certificate.version != state.version:
            return False
        return self.plan.threshold(cells, state.asked) > _LOWER * certificate.threshold

    def requests(
        self, state: PublicState, wanted: Sequence[Sequence[tuple[str, ...]]]
    ) -> tuple[list[MarginalRequest], list[int]]:
        requests: dict[tuple[str, ...], MarginalRequest] = {}
        needs = []
        for scopes in wanted:
            for scope in scopes:
                if scope not in requests:
                    units = marginal_units(state, scope)
                    threshold = self.plan.threshold(units.size, state.asked)
                    requests[scope] = MarginalRequest(scope, units, threshold, self._widened(state, scope))
            needs.append(len(requests))
        return list(requests.values()), needs

    def _widened(self, state: PublicState, scope: tuple[str, ...]) -> tuple[str, ...]:
        """Return the widest scope around one that has at most the plan's ``free_cells``: its noise is small.

        Attributes that add the fewest cells come first. A scope on declared cells that would be binned
        elsewhere stays on declared ones.
        """
        domain, most = state.coarsening.coarse, self.plan.free_cells
        fine = state.domain.scope_size(scope)
        if self.plan.is_fine(fine) and fine > domain.scope_size(scope):
            domain, most = state.domain, self.plan.fine_cells
        if state.coarsening.coarse.size > (state.contract.options.max_cells or DEFAULT_MAX_CELLS):
            return scope  # each further attribute would make a tree's cliques larger
        cells = domain.scope_size(scope)
        names = set(scope)
        for attribute in sorted(domain, key=lambda one: one.size):
            if attribute.name not in names and cells * attribute.size <= most:
                names.add(attribute.name)
                cells *= attribute.size
        return domain.scope(list(names))

    def draw(
        self,
        requests: Sequence[MarginalRequest],
        before: SparseState,
        source: CountSource,
        bits: BitSource,
        coarse: CountSource | None = None,
    ) -> tuple[BatchDraws, NoisyThreshold | None]:
        """Return the outcomes of tests, up to and including the first positive, and the noise kept.

        Privacy: one step of the sparse vector on ``l1_distance``, and one marginal with fresh noise on each
            cell at a positive; costs what ``charges`` says.
        """
        plan = self.plan
        tables = Tables(source, coarse, lambda scope: plan.is_fine(source.domain.scope_size(scope)))
        scopes = [request.scope for request in requests]
        for each in (source, coarse):
            if each is not None:
                each.prepare([scope for scope in scopes if tables.over(scope) is each])
        distances = [
            l1_distance(tables.over(request.scope).counts(request.scope).counts, request.model_units)
            for request in requests
        ]
        values = np.array(distances, dtype=np.int64)
        thresholds = np.array([request.threshold for request in requests], dtype=np.int64)
        after, outcomes = plan.sparse.scan(before, values, thresholds, bits)
        released = None
        if outcomes[-1]:
            scope = requests[len(outcomes) - 1].measured
            measured = tables.over(scope).counts(scope).counts
            released = draw_numbers(measured, plan.noise, None, bits)
        return BatchDraws(tuple(int(outcome) for outcome in outcomes), released), self.kept(after)

    def settle(
        self, state: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers
    ) -> tuple[PublicState, FirstAnswers]:
        """Return the state after a batch, and the answers, which are of the model after it."""
        after = self.after(state, proposal, draws)
        return after, partial(self._answers, after, proposal, draws, free)

    def _answers(
        self, after: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers, most: int
    ) -> Answers:
        """Return the answers to the questions that no positive, and no test after it, stands before.

        The question whose marginal was measured is answered where what was measured contains it; else it is
        asked again, for it may ask for further tests.
        """
        queries = proposal.queries[:most]
        size = sum(need <= draws.negatives for need in proposal.needs[:most])  # needs never fall
        found = free.of(after).answers(QuestionList(queries[:size]))
        if size < len(queries) and set(queries[size].scope) <= set(after.marginals[-1].scope):
            measured = free.of(after).answer(queries[size], measured=True)
            return concatenated([found, Answers.of(after, [measured])])
        return found

    def certified(self, state: PublicState, requests: Sequence[MarginalRequest]) -> PublicState:
        version = state.version
        found = {
            one.scope: Certificate(one.scope, version, one.threshold, one.model_units) for one in requests
        }
        return replace(state, certificates={**state.certificates, **found})

    def measurement(self, request: MarginalRequest, released: Released) -> MarginalMeasurement:
        return MarginalMeasurement(request.measured, np.asarray(released), self.plan.noise)


# Cells of the largest table that is counted for one question. Beyond it the question is not tested: a
# recorded batch that can never be counted would stand in the way of all that come after it.
_LARGEST_COUNTED = 2**24


@dataclass(frozen=True, slots=True)
class QuestionTier(Tier[LinearQuery, QueryRequest]):
    """The tests of single questions: all that there is in the textbooks, or of what no marginal holds."""

    plan: QueryTestPlan

    def wanted(self, state: PublicState, queries: Sequence[LinearQuery]) -> list[tuple[LinearQuery, ...]]:
        """Return for each question itself, where it is to be tested.

        Under an accuracy contract that is what has no bar within it. Else it is what no released number
        covers; but not what lies between two readings, for a test is about the number of records if cells
        were evenly filled, which bounds nothing. Behind a tier of marginals it is what no marginal holds,
        where cells can be counted and weights are not the same for everybody; all of this is public.
        """
        if not self.may_test(state):
            return [()] * len(queries)
        if state.contract.options.bar_limit is not None:
            answers = ModelAnswers(state)
            return [
                (query,)
                if query.factors
                and query.readings is None
                and state.domain.scope_size(query.scope) <= _LARGEST_COUNTED
                and answers.answer(query).is_refused
                else ()
                for query in queries
            ]
        if self.place == 0:
            return [
                () if query.readings is not None or is_held(state, query) else (query,) for query in queries
            ]
        alone = {
            scope
            for scope in {query.scope for query in queries}
            if state.domain.scope_size(scope) <= _LARGEST_COUNTED and holding_of(state, scope) in NOT_HELD
        }
        own = own_numbers(state)
        return [
            (query,) if query.factors and query.scope in alone and not own.serves(query) else ()
            for query in queries
        ]

    def most_positives(self, state: PublicState, queries: Sequence[LinearQuery]) -> int:
        return len(queries) if self.place == 0 else sum(map(len, self.wanted(state, queries)))

    def requests(
        self, state: PublicState, wanted: Sequence[Sequence[LinearQuery]]
    ) -> tuple[list[QueryRequest], list[int]]:
        requests: list[QueryRequest] = []
        needs = []
        for queries in wanted:
            for query in queries:
                units = round(local_models(state).answer(query) * UNITS)
                requests.append(QueryRequest(query, units, self.plan.threshold))
            needs.append(len(requests))
        return requests, needs

    def draw(
        self,
        requests: Sequence[QueryRequest],
        before: SparseState,
        source: CountSource,
        bits: BitSource,
        coarse: CountSource | None = None,
    ) -> tuple[BatchDraws, NoisyThreshold | None]:
        """Return the outcomes of tests, up to and including the first positive, and the noise kept.

        Privacy: one step of the sparse vector, and one value with fresh noise at a positive. The statistic
            q(D) - q(A) is an integer in units; one person moves it by at most ``query_sensitivity``.
        """
        source.prepare([request.query.scope for request in requests])
        answers = np.array(
            [request.query.answer(source.counts(request.query.scope)) for request in requests], dtype=np.int64
        )
        models = np.array([request.model_units for request in requests], dtype=np.int64)
        thresholds = np.array([request.threshold for request in requests], dtype=np.int64)
        after, outcomes, error = self.plan.vector.scan(before, answers - models, thresholds, bits)
        released = None if error is None else error + requests[len(outcomes) - 1].model_units
        return BatchDraws(tuple(int(outcome) for outcome in outcomes), released), self.kept(after)

    def settle(
        self, state: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers
    ) -> tuple[PublicState, FirstAnswers]:
        """Return the state after a batch, and its answers, which are of the model before it."""
        return self.after(state, proposal, draws), partial(self._answers, state, proposal, draws, free)

    def _answers(
        self, state: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers, most: int
    ) -> Answers:
        needs = np.array(proposal.needs[:most], dtype=np.int64)
        size = len(needs) if draws.released is None else int(np.searchsorted(needs, draws.negatives, "right"))
        are_tested = np.diff(needs[:size], prepend=0) > 0
        queries = QuestionList(proposal.queries)
        untested, tested = np.flatnonzero(~are_tested), np.flatnonzero(are_tested)
        units = [int(proposal.requests[need - 1].model_units) for need in needs[tested].tolist()]
        of = free.of(state)
        certified = of.certified(queries.take(tested), np.array(units, np.int64), self.plan)
        parts = [(untested, of.answers(queries.take(untested))), (tested, certified)]
        if size < len(needs) and draws.released is not None:
            last = of.measured(proposal.queries[size], int(draws.released), self.plan.noise)
            parts.append((np.array([size]), Answers.of(state, [last])))
        return placed(parts)

    def measurement(self, request: QueryRequest, released: Released) -> QueryMeasurement:
        return QueryMeasurement(request.query, int(released), self.plan.noise, request.model_units)
