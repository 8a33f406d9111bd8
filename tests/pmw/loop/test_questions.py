"""The loop's three phases: what is tested, what is drawn, what it costs and what is released."""

from __future__ import annotations

import inspect
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import pmw
from pmw.data import MemorySource
from pmw.errors import BudgetError
from pmw.loop import loop, priors, untested
from pmw.loop.loop import draw_tests, propose, settle
from pmw.loop.secret import SecretState
from pmw.loop.tiers import MarginalRequest, QueryRequest
from pmw.model.dense import DenseDistribution
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.charges import query_sensitivity
from pmw.public.options import ModelKind, Opening, Options, TestKind, UpdateRule
from pmw.public.state import PublicState
from pmw.research.audit import stream_distribution, tables_of
from pmw.sparse_vector import NoisyThreshold, Sparse, SparseVectorKind, ThresholdTest
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery
from tests.draws import carried_out, coded, opened_by_hand
from tests.worlds import JOINED, state_with

DOMAIN = Domain(
    (IntegerAttribute("a", 0, 5), CategoricalAttribute("b", ("x", "y", "z")), IntegerAttribute("c", 0, 2))
)
BUDGET = Budget.of(1, 1e-9)
QUERY = LinearQuery.cells(DOMAIN, {"a": (1, 3), "b": (0, 1)})


KINDS = [SparseVectorKind.EXPONENTIAL_ROUNDS, SparseVectorKind.EXPONENTIAL]


def table(rows: NDArray[np.int64]) -> MemorySource:
    return coded(DOMAIN, rows)


def random_rows(count: int, seed: int = 0) -> NDArray[np.int64]:
    generator = np.random.default_rng(seed)
    return np.stack([generator.integers(0, size, count) for size in DOMAIN.shape], axis=1)


def opened(rows: NDArray[np.int64], budget: Budget = BUDGET, **choices: Any) -> PublicState:
    return opened_by_hand(table(rows), budget, Options(**{"test": TestKind.QUERY, **choices}))


def run(state: PublicState, rows: NDArray[np.int64], queries: list[LinearQuery]) -> PublicState:
    """Run queries through the loop, one batch at a time, as the engine does."""
    source, secret, batches = table(rows), SecretState.closed(1), 0
    while queries:
        settled, secret = carried_out(state, propose(state, queries), secret, source, batches)
        state, queries, batches = settled.state, queries[len(settled.answers) :], batches + 1
    return state


@pytest.mark.parametrize("update", list(UpdateRule))
def test_settling_leaves_the_state_that_it_is_given_as_it_was(update: UpdateRule) -> None:
    rows = random_rows(3000)
    rows[:, 2] = rows[:, 1]  # no uniform model is right
    state = opened(rows, update=update, opening=Opening.NONE, threshold=20.0)
    query = LinearQuery.cells(DOMAIN, {"b": (0, 0), "c": (0, 0)})
    proposal = propose(state, [query])
    assert state.query_plan is not None
    draws, _ = draw_tests(proposal, state.plan, SecretState.closed(1), table(rows), BitSource.from_integer(3))
    assert draws.outcomes == (True,)
    assert isinstance(state.model, DenseDistribution)
    held, before = state.model._held().values, state.model.values
    first, second = (settle(state, proposal, draws, state.ledger) for _ in range(2))
    assert state.model._held().values is held
    assert np.array_equal(state.model.values, before)
    one, other = (settled.state.model.marginal(DOMAIN.names) for settled in (first, second))
    assert np.array_equal(one, other)
    assert first.answers == second.answers
    assert first.state.version == state.version + 1
    assert first.state.model.answer(query) > state.model.answer(query)
    if update is UpdateRule.REFIT:
        assert first.state.model.answer(query) == pytest.approx(first.answers[0].count, rel=0.02)


@pytest.mark.parametrize("limit", [1, 2])
def test_threshold_noise_that_is_kept_for_all_positives_does_not_outlive_the_last(limit: int) -> None:
    rows, query = random_rows(3000), LinearQuery.cells(DOMAIN, {"b": (0, 0), "c": (0, 0)})
    rows[:, 2] = rows[:, 1]
    kind = SparseVectorKind.EXPONENTIAL
    state = opened(rows, sparse_vector=kind, update_limit=limit, opening=Opening.NONE, threshold=20.0)
    bits = BitSource.from_integer(3)
    draws, kept = draw_tests(propose(state, [query]), state.plan, SecretState.closed(1), table(rows), bits)
    assert draws.released is not None
    assert (kept == SecretState.closed(1)) == (limit == 1)


# --- sensitivity: what one person can change --------------------------------------------------------------

record = st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 2))
tables = st.lists(record, max_size=8)


@st.composite
def random_query(draw: st.DrawFn) -> LinearQuery:
    scope = DOMAIN.scope(draw(st.lists(st.sampled_from(DOMAIN.names), unique=True)))
    factors = []
    for number, name in enumerate(scope):
        size = DOMAIN[name].size
        weights = st.integers(0, UNITS) if number == 0 else st.sampled_from([0, UNITS])
        factors.append(Factor((name,), np.array(draw(st.lists(weights, min_size=size, max_size=size)))))
    return LinearQuery(DOMAIN, tuple(factors))


@given(tables, st.lists(record, min_size=1, max_size=3), record, random_query())
def test_one_person_moves_an_answer_by_at_most_its_sensitivity(
    rows: list[tuple[int, ...]], added: list[tuple[int, ...]], other: tuple[int, ...], query: LinearQuery
) -> None:
    def answered(*cells: tuple[int, ...]) -> int:
        return query.answer(table(np.array(cells, dtype=np.int64)).counts(query.scope))

    options = Options(test=TestKind.QUERY, records_per_person=len(added))
    change = answered(*rows, *added) - answered(*rows)
    # Never negative: signed tests may charge the monotone rate.
    assert 0 <= change <= query_sensitivity(options)
    swap = Options(test=TestKind.QUERY, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert abs(answered(*rows, added[0]) - answered(*rows, other)) <= query_sensitivity(swap)


@pytest.mark.statistical
def test_tests_pass_as_often_as_the_audited_distribution_says() -> None:
    # On the session's own grid, with the session's own scales divided by 2^20 for the table.
    rows = random_rows(2000)
    state = opened(rows, opening=Opening.NONE, update_limit=20)
    assert state.query_plan is not None
    test = state.query_plan.vector.sparse.test
    assert isinstance(test, ThresholdTest)
    source = table(rows)
    truth = QUERY.answer(source.counts(QUERY.scope))
    error, threshold, runs = 40, 60, 2500  # records between the true answer and the model's
    proposal = propose(state, [QUERY])
    request = proposal.requests[0]
    assert isinstance(request, QueryRequest)
    request = replace(request, model_units=truth - error * UNITS, threshold=threshold * UNITS)
    proposal, closed, bits = (
        replace(proposal, requests=(request,)),
        SecretState.closed(1),
        BitSource(bytes(32)),
    )
    found = [draw_tests(proposal, state.plan, closed, source, bits)[0].outcomes[0] for _ in range(runs)]
    for off in (Fraction(1), Fraction(10, 13), Fraction(13, 10)):
        coarse = replace(
            test,
            sensitivity=1,
            threshold_scale=(test.threshold_scale * off / UNITS).limit_denominator(1000),
            query_scale=(test.query_scale * off / UNITS).limit_denominator(1000),
        )
        distribution = stream_distribution(tables_of(Sparse(coarse, 1, redraw=True), threshold), (error,))
        expected = np.array([distribution[outcome,] for outcome in (-1, 0, 1)]) * runs
        statistic = float(((np.bincount(np.array(found) + 1, minlength=3) - expected) ** 2 / expected).sum())
        assert (stats.chi2.sf(statistic, 2) > 1e-4) == (off == 1)


# --- what is tested, and what it costs --------------------------------------------------------------------


def test_only_what_counts_or_draws_sees_the_table() -> None:
    holders = {
        name
        for module in (loop, priors, untested)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and "CountSource" in str(inspect.signature(function))
    }
    assert holders == {"draw_opening", "draw_tests", "prior_of_table", "ranked_errors"}


def test_a_batch_ends_at_its_first_positive() -> None:
    rows = np.tile(np.array([[2, 0, 0]]), (20_000, 1))
    state = opened(rows, opening=Opening.NONE)
    assert state.query_plan is not None
    proposal = propose(state, [QUERY] * 5)
    draws, _ = draw_tests(proposal, state.plan, SecretState.closed(1), table(rows), BitSource.from_integer(1))
    assert draws.outcomes == (1,)
    assert [answer.source for answer in settle(state, proposal, draws, state.ledger).answers] == [
        Source.MEASURED
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [BUDGET, Budget.of(1)])
def test_exactly_c_positives_are_answered_and_the_cap_holds(budget: Budget, kind: SparseVectorKind) -> None:
    rows = random_rows(30_000)
    chosen: dict[str, Any] = {"update_limit": 4, "sparse_vector": kind, "opening": Opening.NONE}
    queries = [
        LinearQuery.cells(DOMAIN, {"a": (low, high), "b": (value, value)})
        for low in range(6)
        for high in range(low, 6)
        for value in range(3)
    ]
    state = opened(rows, budget=budget, threshold=1e9, **chosen)
    none = run(state, rows, queries[:9])  # without positives it pays for one round
    assert state.query_plan is not None
    opening, _ = state.query_plan.vector.charges(state.ledger.composition)
    assert none.ledger.spent == state.ledger.spent + state.ledger.price(opening)
    assert (none.positives_used, none.round_open) == (0, True)
    after = run(opened(rows, budget=budget, threshold=0.001, **chosen), rows, queries)
    assert after.positives_used == 4
    assert after.ledger.spent <= after.ledger.cap
    assert after.ledger.share > 0.999
    assert propose(after, queries).requests == ()


@pytest.mark.parametrize("kind", KINDS)
def test_the_reservation_holds_the_threshold_noise_and_the_positive_with_its_value(
    kind: SparseVectorKind,
) -> None:
    state = opened(random_rows(1000), budget=Budget.of(1), sparse_vector=kind, update_limit=3)
    assert state.query_plan is not None
    assert state.ledger.composition is Composition.PURE
    opening, positive = (
        state.ledger.price(charge) for charge in state.query_plan.vector.charges(Composition.PURE)
    )
    assert opening > 0
    assert positive > 0
    least = Fraction(1, 10**12)
    for round_open, needed in ((False, opening + positive), (True, positive)):
        for left, runs in (
            (needed, 1),
            (needed - least, 0),
            (needed - positive / 2, 0),
            (opening, opening >= needed),
        ):
            ledger = replace(state.ledger, spent=state.ledger.cap - left)
            proposal = propose(replace(state, ledger=ledger, rounds=(round_open,)), [QUERY])
            assert len(proposal.requests) == runs, (round_open, left)


# --- batches: which questions belong together, and that the loop goes on --------------------------------


JOINED_DOMAIN = JOINED.domain
SOURCE = MemorySource.from_frame(JOINED.frame, JOINED_DOMAIN)


def boxed(*names: str, high: int = 3) -> LinearQuery:
    return LinearQuery.cells(JOINED_DOMAIN, dict.fromkeys(names, (0, high)))


def opened_joined(**choices: Any) -> PublicState:
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
    state = opened_joined()
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
    state = opened_joined(model=ModelKind.GRAPHICAL)
    queries = [
        boxed("c", "d"), boxed("a"), boxed("a", "b"), boxed("a", "b", "c"), boxed("d", "e"), boxed("b", "e"),
        boxed("a", "b", "c", "d", "e"), boxed("a", "c", "d", "e"), LinearQuery.everything(JOINED_DOMAIN),
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
    state, drawn = opened_joined(), SecretState((NoisyThreshold(0), None))
    proposal = propose(state, [boxed("a", "b")])
    assert proposal.opens_round
    unpaid = replace(proposal, opens_round=False)
    for batch, secret in ((proposal, drawn), (unpaid, SecretState.closed(2))):
        with pytest.raises(BudgetError, match="the threshold noise is not as the batch was recorded"):
            draw_tests(batch, state.plan, secret, SOURCE, BitSource(bytes(32)))
