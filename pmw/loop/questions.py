"""The tier of questions: one question at a time is tested, and measured where the model is wrong.

Source: Hardt and Rothblum (2010); Dwork and Roth (2014), Section 4.2 (online private multiplicative weights
by NumericSparse), with c positives, not c + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pmw.loop.tier import BatchDraws, FirstAnswers, Proposal, QueryRequest, Released, Tier
from pmw.model import QueryMeasurement
from pmw.privacy.random_bits import BitSource
from pmw.public.answers import Answers, placed
from pmw.public.evidence import NOT_HELD, holding_of, is_held
from pmw.public.free_answers import FreeAnswers, ModelAnswers
from pmw.public.local_models import local_models
from pmw.public.own_numbers import own_numbers
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from pmw.sparse_vector import NoisyThreshold, SparseState
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.questions import QuestionList

if TYPE_CHECKING:
    from pmw.data import CountSource

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
            tested = [
                _has_one_reading(state, query) and answers.answer(query).is_refused for query in queries
            ]
            return [(query,) if test else () for query, test in zip(queries, tested, strict=True)]
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
        """Return how many positives some questions can come to at most: one each."""
        return len(queries) if self.place == 0 else sum(map(len, self.wanted(state, queries)))

    def requests(
        self, state: PublicState, wanted: Sequence[Sequence[LinearQuery]]
    ) -> tuple[list[QueryRequest], list[int]]:
        """Return the tests, one by one, and how many of them come up to each question."""
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
        """Return so many answers, or those up to the one that was measured, which is the last."""
        needs = np.array(proposal.needs[:most], dtype=np.int64)
        size = len(needs) if draws.released is None else int(np.searchsorted(needs, draws.negatives, "right"))
        are_tested = np.diff(needs[:size], prepend=0) > 0
        queries = QuestionList(proposal.queries)
        untested, tested = np.flatnonzero(~are_tested), np.flatnonzero(are_tested)
        units = [int(proposal.requests[need - 1].model_units) for need in needs[tested].tolist()]
        parts = [
            (untested, free.answers(state, queries.take(untested))),
            (
                tested,
                free.certified(
                    state,
                    [proposal.queries[place] for place in tested.tolist()],
                    np.array(units, np.int64),
                    self.plan,
                ),
            ),
        ]
        if size < len(needs) and draws.released is not None:
            last = free.of(state).measured(proposal.queries[size], int(draws.released), self.plan.noise)
            parts.append((np.array([size]), Answers.of(state, [last])))
        return placed(parts)

    def measurement(self, request: QueryRequest, released: Released) -> QueryMeasurement:
        """Return the measurement that a positive released."""
        return QueryMeasurement(request.query, int(released), self.plan.noise, request.model_units)


def _has_one_reading(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether a test bounds the error of a question: cells decide it, and not too many are counted."""
    few = state.domain.scope_size(query.scope) <= _LARGEST_COUNTED
    return bool(query.factors) and query.readings is None and few
