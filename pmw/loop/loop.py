"""The loop over batches of questions: propose, draw, settle, whatever is tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pmw.data import CountSource
from pmw.errors import BudgetError
from pmw.loop.batch import BatchDraws, MarginalRequest, Proposal, QueryRequest
from pmw.loop.fit import correct
from pmw.loop.marginals import (
    bought_marginal,
    certified,
    draw_marginals,
    marginal_entries,
    may_test_marginals,
    propose_marginals,
    scopes_to_test,
)
from pmw.loop.questions import (
    bought_query,
    draw_queries,
    may_test_queries,
    propose_queries,
    query_entries,
    tested_query_answer,
)
from pmw.loop.secret import SecretState
from pmw.model import MarginalMeasurement
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Answer, Spent
from pmw.public.charges import LedgerEntry
from pmw.public.contract import TestKind
from pmw.public.intervals import is_covered, untested_answer
from pmw.public.marginal_intervals import MarginalBars, is_held
from pmw.public.plans import MarginalTestPlan, TestPlan
from pmw.public.state import Bought, PublicState
from pmw.sparse_vector import Sparse, SparseState
from queries.linear import LinearQuery

# Cells of the largest table that is counted for one question. Beyond it the question is not tested: a
# recorded batch that can never be counted would stand in the way of all that come after it.
_LARGEST_COUNTED = 2**24

__all__ = [
    "batch_entries",
    "draw_tests",
    "propose",
    "settle",
    "Settled",
]


@dataclass(frozen=True, slots=True)
class Settled:
    """What a batch came to.

    Args:
        state: the public state after it.
        answers: to the first of its questions, in order; those after a positive are asked anew.
    """

    state: PublicState
    answers: tuple[Answer, ...]


def propose(state: PublicState, queries: Sequence[LinearQuery]) -> Proposal:
    """Return what is tested for the first of the questions, up to one that asks for another kind of test.

    While a positive can be paid, a question that no measurement covers is tested; where marginals are
    tested, it is those that it asks about, and then, if none of them holds it, the question by itself. A
    closed session tests nothing.
    """
    if state.contract.options.test is TestKind.QUERY:
        open_, positives = state.round_open, state.positives_used
        may = may_test_queries(state, positives, round_open=open_)
        tested = [may and not is_covered(state, query) for query in queries]
        return propose_queries(state, queries, tested, positives=positives, round_open=open_)
    alone = _alone(state, queries)
    kind, queries, wanted = _first_of_a_kind(state, queries, alone)
    if kind is TestKind.MARGINAL:
        return propose_marginals(state, queries, wanted)
    return propose_queries(
        state, queries, alone[: len(queries)], positives=state.query_positives, round_open=state.queries_open
    )


def _alone(state: PublicState, queries: Sequence[LinearQuery]) -> list[bool]:
    """Tell which questions may be tested by themselves, where marginals are tested.

    No marginal holds such a question, its cells can be counted, and its weights are not the same for
    everybody; all of this is public.
    """
    if not may_test_queries(state, state.query_positives, round_open=state.queries_open):
        return [False] * len(queries)
    alone = {
        scope
        for scope, query in {query.scope: query for query in queries}.items()
        if state.domain.scope_size(scope) <= _LARGEST_COUNTED and not is_held(state, query)
    }
    return [bool(query.factors) and query.scope in alone for query in queries]


def _first_of_a_kind(
    state: PublicState, queries: Sequence[LinearQuery], alone: Sequence[bool]
) -> tuple[TestKind, Sequence[LinearQuery], list[Sequence[tuple[str, ...]]]]:
    """Return the kind of the first test, the first questions that ask for no other, and what they ask for."""
    may = may_test_marginals(state)
    kind: TestKind | None = None
    wanted: list[Sequence[tuple[str, ...]]] = []
    known: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
    for query, is_alone in zip(queries, alone, strict=True):
        if query.scope not in known:
            known[query.scope] = tuple(scopes_to_test(state, query)) if may else ()
        scopes = known[query.scope]
        own = None
        if scopes:
            own = TestKind.MARGINAL
        elif is_alone:
            own = TestKind.QUERY
        if kind is not None and own not in (None, kind):
            break
        kind = kind or own
        wanted.append(scopes)
    return kind or TestKind.QUERY, queries[: len(wanted)], wanted


def draw_tests(
    proposal: Proposal,
    plan: TestPlan,
    secret: SecretState,
    source: CountSource,
    bits: BitSource,
    coarse: CountSource | None = None,
) -> tuple[BatchDraws, SecretState]:
    """Return the outcomes of a batch's tests, up to and including the first positive, and the secret state.

    Args:
        proposal: the batch, with at least one request.
        plan: the tests.
        secret: the threshold noise so far.
        source: the table, over the declared cells.
        bits: source of the noise.
        coarse: the same table over groups of cells; None where nothing is grouped.

    Privacy: one step of a sparse vector, and one measurement with fresh noise at a positive.

    Raises:
        BudgetError: the batch would draw threshold noise that it does not pay for, or pay for what is drawn.
    """
    second = isinstance(plan, MarginalTestPlan) and proposal.kind is TestKind.QUERY
    noisy = secret.queries if second else secret.noisy
    if proposal.opens_round != (noisy is None):
        raise BudgetError(
            "the threshold noise is not as the batch was recorded: a round is charged when, and only when, "
            "it draws its noise; resume the session"
        )
    before = SparseState(noisy, proposal.positives)
    marginals = [request for request in proposal.requests if isinstance(request, MarginalRequest)]
    questions = [request for request in proposal.requests if isinstance(request, QueryRequest)]
    if isinstance(plan, MarginalTestPlan) and marginals:
        draws, kept = draw_marginals(marginals, before, plan, source, bits, coarse)
        return draws, replace(secret, noisy=kept)
    queries = plan.queries if isinstance(plan, MarginalTestPlan) else plan
    if queries is None:
        raise BudgetError("expected a plan for tests of single questions")
    draws, kept = draw_queries(questions, before, queries.vector, source, bits)
    return draws, replace(secret, queries=kept) if second else replace(secret, noisy=kept)


def batch_entries(proposal: Proposal, draws: BatchDraws, state: PublicState) -> tuple[LedgerEntry, ...]:
    """Return what a batch charges."""
    if not proposal.requests:
        return ()
    composition = state.ledger.composition
    if isinstance(state.plan, MarginalTestPlan) and proposal.kind is TestKind.MARGINAL:
        return marginal_entries(proposal, draws, state.plan, state.contract.options, composition)
    plan = state.query_plan
    if plan is None:
        return ()
    second = isinstance(state.plan, MarginalTestPlan)
    return query_entries(proposal, draws, plan.vector, composition, second=second)


def settle(state: PublicState, proposal: Proposal, draws: BatchDraws, ledger: PrivacyFilter) -> Settled:
    """Return the public state after a batch, with the model corrected at a positive, and the answers.

    Args:
        state: the state that the batch was proposed in; it stays as it is.
        proposal: the batch.
        draws: what its tests released.
        ledger: the filter after the batch's charges.
    """
    spent = Spent(ledger.share, float(state.contract.budget.epsilon), float(state.contract.budget.delta))
    if state.contract.options.test is TestKind.QUERY or proposal.kind is TestKind.QUERY:
        answers = _query_answers(state, proposal, draws, spent)
        after = _after(state, proposal, draws, ledger)
    else:
        after = _after(state, proposal, draws, ledger)
        answers = _marginal_answers(after, proposal, draws, spent)
    return Settled(replace(after, asked=state.asked + len(answers)), answers)


def _query_answers(
    state: PublicState, proposal: Proposal, draws: BatchDraws, spent: Spent
) -> tuple[Answer, ...]:
    by_model = MarginalBars(state, spent).answer
    if state.contract.options.test is TestKind.QUERY:
        by_model = partial(untested_answer, state, spent=spent)
    answers, done = [], 0
    for query, need in zip(proposal.queries, proposal.needs, strict=True):
        if need == done:
            answers.append(by_model(query))
            continue
        done = need
        request, outcome = proposal.requests[need - 1], draws.outcomes[need - 1]
        if isinstance(request, QueryRequest):
            answers.append(tested_query_answer(state, request, outcome, draws, spent))
        if outcome:
            break
    return tuple(answers)


def _marginal_answers(
    after: PublicState, proposal: Proposal, draws: BatchDraws, spent: Spent
) -> tuple[Answer, ...]:
    """Return the answers to the questions that no positive, and no test after it, stands before.

    The question whose marginal was bought is answered where what was bought contains it; else it is asked
    anew, for it may ask for further tests.
    """
    negatives = len(draws.outcomes) - (draws.released is not None)
    alone, bars = _alone(after, proposal.queries), MarginalBars(after, spent)
    answers = []
    for place, (query, need) in enumerate(zip(proposal.queries, proposal.needs, strict=True)):
        if need > negatives:
            newest = after.measured[-1] if draws.released is not None else None
            inside = isinstance(newest, MarginalMeasurement) and set(query.scope) <= set(newest.scope)
            if inside and (place == 0 or proposal.needs[place - 1] <= negatives):
                answers.append(bars.answer(query, bought=True))
            break
        if alone[place]:
            break
        answers.append(bars.answer(query))
    return tuple(answers)


def _after(state: PublicState, proposal: Proposal, draws: BatchDraws, ledger: PrivacyFilter) -> PublicState:
    plan = state.plan
    if plan is None or not proposal.requests:
        return state
    state = replace(state, ledger=ledger)
    number = len(draws.outcomes) - 1
    request = proposal.requests[number]
    if isinstance(request, MarginalRequest) and isinstance(plan, MarginalTestPlan):
        negative = [one for one in proposal.requests[:number] if isinstance(one, MarginalRequest)]
        if draws.released is None:
            negative.append(request)
        state = certified(state, negative)
        open_ = _stays_open(proposal, draws, plan.sparse)
        state = replace(state, round_open=open_)
        if draws.released is None or isinstance(draws.released, int):
            return state
        return correct(state, bought_marginal(request, draws.released, plan))
    questions = state.query_plan
    if questions is None or not isinstance(request, QueryRequest):
        return state
    open_ = _stays_open(proposal, draws, questions.vector.sparse)
    second = isinstance(plan, MarginalTestPlan)
    state = replace(state, queries_open=open_) if second else replace(state, round_open=open_)
    if not isinstance(draws.released, int):
        return state
    bought: Bought = bought_query(request, draws.released, questions)
    return correct(state, bought)


def _stays_open(proposal: Proposal, draws: BatchDraws, sparse: Sparse) -> bool:
    """Tell whether the sparse vector holds threshold noise after a batch: not after its last positive."""
    if draws.released is None:
        return True
    return not sparse.redraw and proposal.positives + 1 < sparse.update_limit
