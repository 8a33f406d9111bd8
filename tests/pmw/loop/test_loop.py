"""The loop over batches: which questions belong together, what is answered at once, and that it goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.errors import BudgetError
from pmw.loop.loop import batch_entries, draw_tests, propose
from pmw.loop.secret import SecretState
from pmw.loop.tiers import MarginalRequest, Proposal, QueryRequest
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.charges import WHOLE
from pmw.public.options import ModelKind
from pmw.public.state import PublicState
from pmw.session.journal import Recorded, read_recorded, recorded_text
from pmw.session.store.rows import IntentRow
from pmw.sparse_vector import NoisyThreshold
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery
from tests.draws import carried_out
from tests.worlds import JOINED, marginal_plan, state_with

DOMAIN = JOINED.domain
SOURCE = MemorySource.from_frame(JOINED.frame, DOMAIN)


def boxed(*names: str, high: int = 3) -> LinearQuery:
    return LinearQuery.cells(DOMAIN, dict.fromkeys(names, (0, high)))


def opened(**choices: Any) -> PublicState:
    state = JOINED.state(epsilon=4, seed=1, composition=pmw.Composition.ZCDP, update_limit=4, **choices)
    return state_with(state, decay=(0, 1), most_cells=512)


def answered(state: PublicState, queries: list[LinearQuery]) -> tuple[PublicState, list[pmw.Answer], int]:
    """Answer questions as the engine does; return how many batches it took."""
    secret, answers, batches = SecretState.closed(2), list[pmw.Answer](), 0
    while len(answers) < len(queries):
        proposal = propose(state, queries[len(answers) :])
        settled, secret = carried_out(state, proposal, secret, SOURCE, batches)
        positive = settled.state.version > state.version
        assert settled.answers or positive, "a batch answered nothing and measured nothing"
        state, batches = settled.state, batches + 1
        answers += settled.answers
        assert batches <= len(queries) + 10
    return state, answers, batches


def test_a_batch_tests_marginals_or_single_questions_never_both() -> None:
    state = opened()
    pair, five = boxed("a", "b"), boxed("a", "b", "c", "d", "e")
    assert propose(state, [pair, five]).tier == 0
    held = state_with(state, most_cells=2)
    proposal = propose(held, [five, pair])
    assert proposal.tier == 1
    assert all(isinstance(request, QueryRequest) for request in proposal.requests)
    small = state_with(state, most_cells=64)
    after, _, _ = answered(state_with(small, margin=10**13), [pair])
    proposal = propose(after, [pair, boxed("c", "d"), five])
    assert [type(request) for request in proposal.requests] == [MarginalRequest] * len(proposal.requests)
    assert proposal.queries[0] == pair  # known, so it needs no test
    assert proposal.needs[0] == 0


def test_answers_come_in_order_and_every_batch_gets_on() -> None:
    state = opened(model=ModelKind.GRAPHICAL)
    queries = [
        boxed("c", "d"), boxed("a"), boxed("a", "b"), boxed("a", "b", "c"), LinearQuery.everything(DOMAIN),
        boxed("a", "b", "c", "d", "e"), boxed("d", "e"), boxed("b", "e"), boxed("a", "c", "d", "e"),
        boxed("a", "b", high=1),
    ]  # fmt: skip
    after, answers, _ = answered(state, queries)
    truth = [query.answer(SOURCE.counts(query.scope)) / UNITS for query in queries]
    for answer, count in zip(answers, truth, strict=True):
        assert answer.interval is None or answer.interval[0] - 50 <= count <= answer.interval[1] + 50
    versions = [answer.version for answer in answers]
    assert versions == sorted(versions)
    assert after.positives_used >= 1
    assert Source.MEASURED in {answer.source for answer in answers}
    assert after.asked == len(queries)
    _, twice, batches = answered(state, queries + queries)  # again: most of it is known by then
    assert twice[: len(queries)] == answers
    assert batches <= 2 * len(queries) + 2


def test_a_question_with_too_many_cells_to_count_is_answered_untested_and_the_session_goes_on() -> None:
    names = tuple(f"a{place}" for place in range(20))
    domain = Domain(tuple(CategoricalAttribute(name, tuple("wxyz")) for name in names))
    frame = pd.DataFrame({name: list("wxyz") * 50 for name in names})
    options = pmw.Options(seed=1, update_limit=1)
    with pmw.open_session(frame, domain, epsilon=100, delta=1e-9, options=options) as session:
        wide = LinearQuery.cells(domain, dict.fromkeys(names, (1, 3)))
        asked = [wide, LinearQuery.cells(domain, {"a0": (1, 3), "a1": (1, 3)})]
        assert session.state.query_plan is not None
        first, second = session.ask_all(asked)
        assert first.source in (Source.UNVERIFIED, Source.EXHAUSTED)
        assert first.interval is not None  # of its parts
        assert second.interval is not None
        assert session.state.positives(1) == 0
        assert session.verify().holds


def test_threshold_noise_is_drawn_only_where_it_is_paid_for_and_paid_for_only_where_it_is_drawn() -> None:
    state, drawn = opened(), SecretState((NoisyThreshold(0), None))
    proposal = propose(state, [boxed("a", "b")])
    assert proposal.opens_round
    unpaid = replace(proposal, opens_round=False)
    for batch, secret in ((proposal, drawn), (unpaid, SecretState.closed(2))):
        with pytest.raises(BudgetError, match="the threshold noise is not as the batch was recorded"):
            draw_tests(batch, state.plan, secret, SOURCE, BitSource(bytes(32)))


def test_a_recorded_batch_draws_again_what_it_would_have_drawn_the_wider_marginal_included() -> None:
    state = opened(model=ModelKind.DENSE)
    plan = replace(marginal_plan(state), free_cells=512)
    state = replace(state, plan=(plan, *state.plan[1:]))
    first = propose(state, [boxed("a", "b")])
    (request,) = first.requests
    assert isinstance(request, MarginalRequest)
    assert set(request.measured) > set(request.scope)
    text = recorded_text(Recorded(first, first.reserved, WHOLE, (None,)))
    recorded = read_recorded(state.coarsening, IntentRow(1, "tests", text, bytes(32), 0)).batch
    assert isinstance(recorded, Proposal)
    (read,) = recorded.requests
    assert isinstance(read, MarginalRequest)
    assert (read.scope, read.measured, read.threshold) == (request.scope, request.measured, request.threshold)
    assert np.array_equal(read.model_units, request.model_units)
    for seed in (bytes([number]) * 32 for number in range(40)):
        one, kept = draw_tests(first, state.plan, SecretState.closed(2), SOURCE, BitSource(seed))
        again, kept_again = draw_tests(recorded, state.plan, SecretState.closed(2), SOURCE, BitSource(seed))
        assert one.outcomes == again.outcomes
        assert kept == kept_again
        assert np.array_equal(one.released, again.released)  # type: ignore[arg-type]
        assert batch_entries(first, one, state) == batch_entries(recorded, again, state)
    assert one.released is not None
