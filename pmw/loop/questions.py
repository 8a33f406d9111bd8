"""The query test: one question at a time is tested, and bought where the model is wrong.

Source: Hardt and Rothblum (2010); Dwork and Roth (2014), Section 4.2 (online private multiplicative weights
by NumericSparse), with c positives, not c + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmw.data import CountSource
from pmw.loop.batch import BatchDraws, Proposal, QueryRequest
from pmw.model import QueryMeasurement
from pmw.privacy.budget import Composition
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Answer, Spent
from pmw.public.charges import LedgerEntry, measurement_entry, reservation, threshold_entry
from pmw.public.contract import TestKind
from pmw.public.intervals import certified_answer, measured_answer
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from pmw.sparse_vector import NoisyThreshold, NumericSparse, SparseState
from queries.linear import UNITS, LinearQuery

__all__ = [
    "bought_query",
    "draw_queries",
    "may_test_queries",
    "propose_queries",
    "query_entries",
    "tested_query_answer",
]


def may_test_queries(state: PublicState, positives: int, *, round_open: bool) -> bool:
    """Tell whether a single question may be tested: while a positive can be had and be paid."""
    plan = None if state.closed else state.query_plan
    if plan is None or positives >= plan.update_limit:
        return False
    return state.ledger.allows(reservation(plan.vector, state.ledger, round_open=round_open))


def propose_queries(
    state: PublicState,
    queries: Sequence[LinearQuery],
    tested: Sequence[bool],
    *,
    positives: int,
    round_open: bool,
) -> Proposal:
    """Return a batch that tests some of the questions, one by one.

    Args:
        state: the public state.
        queries: the questions, in order.
        tested: whether each is to be tested.
        positives: of the sparse vector so far.
        round_open: it holds threshold noise.
    """
    plan = state.query_plan
    requests: list[QueryRequest] = []
    needs = []
    for query, test in zip(queries, tested, strict=True):
        if test and plan is not None:
            units = round(state.model.answer(query) * UNITS)
            requests.append(QueryRequest(query, units, plan.threshold))
        needs.append(len(requests))
    reserved = None
    if plan is not None and requests:
        reserved = reservation(plan.vector, state.ledger, round_open=round_open)
    return Proposal(
        tuple(queries),
        TestKind.QUERY,
        tuple(requests),
        tuple(needs),
        positives=positives,
        opens_round=bool(requests) and not round_open,
        reserved=reserved,
    )


def draw_queries(
    requests: Sequence[QueryRequest],
    before: SparseState,
    vector: NumericSparse,
    source: CountSource,
    bits: BitSource,
) -> tuple[BatchDraws, NoisyThreshold | None]:
    """Return the outcomes of a batch's tests, up to and including the first positive, and the noise kept.

    Privacy: one step of the sparse vector, and one value with fresh noise at a positive. The statistic
        q(D) - q(A) is an integer in units; one person moves it by at most ``query_sensitivity``.
    """
    answers = np.array(
        [request.query.answer(source.counts(request.query.scope)) for request in requests], dtype=np.int64
    )
    models = np.array([request.model_units for request in requests], dtype=np.int64)
    thresholds = np.array([request.threshold for request in requests], dtype=np.int64)
    after, outcomes, error = vector.scan(before, answers - models, thresholds, bits)
    released = None if error is None else error + requests[len(outcomes) - 1].model_units
    # A round that closes takes its threshold noise with it.
    kept = after.noisy if after.positives < vector.sparse.update_limit else None
    return BatchDraws(tuple(int(outcome) for outcome in outcomes), released), kept


def query_entries(
    proposal: Proposal,
    draws: BatchDraws,
    vector: NumericSparse,
    composition: Composition,
    *,
    second: bool,
) -> tuple[LedgerEntry, ...]:
    """Return what a batch charges; ``second`` beside a sparse vector of marginals."""
    entries = []
    if proposal.opens_round:
        entries.append(threshold_entry(vector, composition, second=second))
    if draws.released is not None:
        request = proposal.requests[len(draws.outcomes) - 1]
        if isinstance(request, QueryRequest):
            entries.append(measurement_entry(vector, composition, request.query))
    return tuple(entries)


def bought_query(request: QueryRequest, released: int, plan: QueryTestPlan) -> QueryMeasurement:
    """Return the measurement that a positive released."""
    return QueryMeasurement(request.query, released, plan.vector.value_noise, request.model_units)


def tested_query_answer(
    state: PublicState, request: QueryRequest, outcome: int, draws: BatchDraws, spent: Spent
) -> Answer:
    """Return the answer to a question that was tested by itself."""
    if outcome and isinstance(draws.released, int):
        return measured_answer(state, request.query, draws.released, spent)
    return certified_answer(state, request.query, request.model_units, request.threshold, spent)
