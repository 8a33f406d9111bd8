"""The marginal test: its statistic, what it tests, what it costs, and what stays secret."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.data import MemorySource
from pmw.loop.loop import batch_entries, draw_tests, propose, settle
from pmw.loop.secret import SecretState
from pmw.loop.tiers import (
    BatchDraws,
    MarginalRequest,
    MarginalTier,
    QueryRequest,
    l1_distance,
    marginal_units,
)
from pmw.model.estimate import noise_variance
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.budget import Budget, NeighboringRelation
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.charges import l1_sensitivity, marginal_charge, reservation
from pmw.public.options import ModelKind, Opening, Options, TestKind
from pmw.public.state import PublicState
from pmw.sparse_vector import SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery
from tests.draws import carried_out, coded, opened_by_hand
from tests.worlds import marginal_plan, state_with

SIZES = {"a": 6, "b": 3, "c": 3, "d": 5}
DOMAIN = Domain(tuple(CategoricalAttribute(name, tuple("uvwxyz"[:size])) for name, size in SIZES.items()))
BUDGET = Budget.of(1, 1e-9)
ROUNDS, ONCE = SparseVectorKind.EXPONENTIAL_ROUNDS, SparseVectorKind.EXPONENTIAL
PAIR = LinearQuery.cells(DOMAIN, {"a": (0, 2), "b": (0, 0)})
TRIPLE = LinearQuery.cells(DOMAIN, {"a": (0, 2), "b": (0, 0), "c": (1, 1)})


def table(rows: NDArray[np.int64]) -> MemorySource:
    return coded(DOMAIN, rows)


def random_rows(count: int, *, joined: bool = False) -> NDArray[np.int64]:
    """Return records of independent attributes, or of ones where b follows a."""
    generator = np.random.default_rng(1)
    rows = np.stack([generator.integers(0, size, count) for size in DOMAIN.shape], axis=1)
    if joined:
        rows[:, 1] = rows[:, 0] // 2
    return rows


def opened(rows: NDArray[np.int64], budget: Budget = BUDGET, **choices: Any) -> PublicState:
    state = opened_by_hand(
        table(rows), budget, Options(**{"test": TestKind.MARGINAL, "opening": Opening.ONE_WAY, **choices})
    )
    # No head start: what is tested first is held to the same threshold as what comes later.
    return state_with(state, decay=(0, 1))


def scopes_to_test(state: PublicState, query: LinearQuery) -> Iterator[tuple[str, ...]]:
    return MarginalTier(0, marginal_plan(state)).scopes(state, query)


def patient(state: PublicState) -> PublicState:
    """Return the state with thresholds that nothing reaches."""
    return state_with(state, margin=20_000 * UNITS)


# --- the statistic ----------------------------------------------------------------------------------------

cell_counts = st.lists(st.integers(0, 40), min_size=1, max_size=6)


@given(cell_counts, st.data())
def test_the_distance_is_an_exact_integer_whatever_the_model_says(
    counts: list[int], data: st.DataObject
) -> None:
    units = data.draw(st.lists(st.integers(0, 2**46), min_size=len(counts), max_size=len(counts)))
    expected = sum(abs(count * UNITS - unit) for count, unit in zip(counts, units, strict=True))
    found = l1_distance(np.array(counts), np.array(units))
    assert found == expected
    assert isinstance(found, int)


@given(cell_counts, st.data())
def test_one_person_moves_the_distance_by_at_most_its_sensitivity_either_way(
    counts: list[int], data: st.DataObject
) -> None:
    place = st.integers(0, len(counts) - 1)
    records = data.draw(st.integers(1, 4))
    cells = [data.draw(place) for _ in range(records)]
    units = np.array(data.draw(st.lists(st.integers(0, 2**46), min_size=len(counts), max_size=len(counts))))
    here = np.array(counts)
    there = here.copy()
    np.add.at(there, cells, 1)
    options = Options(records_per_person=records)
    assert abs(l1_distance(there, units) - l1_distance(here, units)) <= l1_sensitivity(options)
    moved = there.copy()
    np.add.at(moved, [data.draw(place) for _ in range(records)], 1)
    np.subtract.at(moved, cells, 1)
    swap = replace(options, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert abs(l1_distance(there, units) - l1_distance(moved, units)) <= l1_sensitivity(swap)


def test_the_distance_moves_both_ways_so_that_positives_are_charged_at_the_general_rate() -> None:
    units = np.array([3 * UNITS, 0])
    down = l1_distance(np.array([3, 0]), units) - l1_distance(np.array([2, 0]), units)
    up = l1_distance(np.array([4, 0]), units) - l1_distance(np.array([3, 0]), units)
    assert (down, up) == (-UNITS, UNITS)
    for relation in NeighboringRelation:
        test = marginal_plan(opened(random_rows(500), neighboring_relation=relation)).sparse.test
        assert not test.monotone
        assert test.sensitivity == l1_sensitivity(Options(neighboring_relation=relation))


# --- what is tested ---------------------------------------------------------------------------------------


def test_a_question_asks_for_its_pairs_and_then_for_itself() -> None:
    state = opened(random_rows(20_000))
    assert list(scopes_to_test(state, TRIPLE)) == [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert list(scopes_to_test(state, PAIR)) == [("a", "b")]
    assert list(scopes_to_test(state, LinearQuery.everything(DOMAIN))) == []
    covered = LinearQuery.cells(DOMAIN, {"a": (0, 1)})
    assert list(scopes_to_test(state, covered)) == []  # what opening measured
    bare = replace(state, opening=())
    assert list(scopes_to_test(bare, covered)) == [("a",)]


def test_one_question_cannot_use_up_the_positives() -> None:
    domain = Domain(tuple(CategoricalAttribute(f"a{place:02}", ("x", "y")) for place in range(24)))
    frame = pd.DataFrame(np.random.default_rng(2).choice(["x", "y"], (300, 24)), columns=list(domain.names))
    options = Options(seed=1, update_limit=70)
    with pmw.open_session(frame, domain, epsilon=9, delta=1e-9, options=options) as session:
        state = session.state
    limit = marginal_plan(state).update_limit

    def asked(attributes: int) -> list[tuple[str, ...]]:
        query = LinearQuery.cells(domain, dict.fromkeys(domain.names[:attributes], (0, 0)))
        return list(scopes_to_test(state, query))

    pairs = [math.comb(attributes, 2) for attributes in range(25)]
    assert any(6 < number <= limit // 2 for number in pairs)
    assert pairs[24] > limit // 2
    for attributes in range(2, 25):
        tested = sum(len(scope) == 2 for scope in asked(attributes))
        assert tested == (pairs[attributes] if pairs[attributes] <= max(6, limit // 2) else 0)


def test_a_marginal_is_tested_once_for_all_questions_of_a_batch_and_again_after_a_correction() -> None:
    rows = random_rows(20_000)
    state = patient(opened(rows, update_limit=3))
    queries = [PAIR, LinearQuery.cells(DOMAIN, {"a": (1, 1), "b": (2, 2)}), TRIPLE]
    proposal = propose(state, queries)
    assert [one.scope for one in proposal.requests if isinstance(one, MarginalRequest)] == [
        ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c"),
    ]  # fmt: skip
    assert proposal.needs == (1, 1, 4)
    settled, _ = carried_out(state, proposal, SecretState.closed(2), table(rows), 2)
    after = settled.state
    assert set(after.certificates) == {("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")}
    assert propose(after, queries).requests == ()
    noise = marginal_plan(after).noise
    corrected = MarginalMeasurement(("c", "d"), marginal_units(after, ("c", "d")), noise)
    later = replace(after, measured=(*after.measured, corrected))
    assert len(propose(later, queries).requests) == 4


def test_a_marginal_is_tested_again_where_its_threshold_came_down() -> None:
    rows = random_rows(20_000)
    state = opened(rows)
    state = state_with(state, decay=(20_000 * UNITS, 10))
    settled, _ = carried_out(state, propose(state, [PAIR]), SecretState.closed(2), table(rows), 2)
    assert propose(settled.state, [PAIR]).requests == ()
    later = replace(settled.state, asked=100)
    (request,) = propose(later, [PAIR]).requests
    assert request.threshold < settled.state.certificates["a", "b"].threshold / 2


def test_a_measured_scope_is_widened_while_its_noise_is_as_good_as_none() -> None:
    rows = random_rows(20_000)
    state = opened(rows)
    for free, wanted in ((1, ("a", "b")), (53, ("a", "b")), (54, ("a", "b", "c")), (270, DOMAIN.names)):
        changed = state_with(state, free_cells=free)
        (request,) = propose(changed, [PAIR]).requests
        assert isinstance(request, MarginalRequest)
        assert request.scope == ("a", "b")
        assert request.measured == wanted


def test_a_threshold_is_what_noise_would_make_of_the_distance_and_a_margin() -> None:
    state = opened(random_rows(20_000))
    plan = marginal_plan(state)
    (request,) = propose(state, [PAIR]).requests
    distance = 18 * math.sqrt(noise_variance(plan.noise) * 2 / math.pi) * UNITS
    assert request.threshold - plan.margin == pytest.approx(plan.noise_factor * distance, rel=1e-3)
    assert np.array_equal(request.model_units, np.rint(state.model.marginal(("a", "b")) * UNITS))


# --- what it costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ROUNDS, ONCE])
@pytest.mark.parametrize("budget", [BUDGET, Budget.of(1)])
def test_charges_are_exactly_the_round_the_positive_and_the_marginal(
    budget: Budget, kind: SparseVectorKind
) -> None:
    rows = random_rows(20_000, joined=True)
    state = opened(rows, budget=budget, sparse_vector=kind, update_limit=3)
    plan, composition = marginal_plan(state), state.ledger.composition
    opening, positive = plan.sparse.charges(composition)
    value = marginal_charge(plan.noise, state.contract.options)
    proposal = propose(state, [PAIR])
    assert proposal.reserved == opening + positive + value
    draws, _ = draw_tests(proposal, state.plan, SecretState.closed(2), table(rows), BitSource.from_integer(3))
    assert draws.outcomes == (1,)
    entries = batch_entries(proposal, draws, state)
    event = "sparse vector round" if kind.redraw else "sparse vector"
    (request,) = proposal.requests
    assert isinstance(request, MarginalRequest)
    assert [(entry.event, entry.label) for entry in entries] == [
        (event, "threshold noise drawn"), ("marginal", ", ".join(request.measured)),
    ]  # fmt: skip
    assert [entry.charge for entry in entries] == [opening, positive + value]
    none = batch_entries(proposal, BatchDraws((0,), None), state)
    assert [entry.charge for entry in none] == [opening]


def test_a_test_runs_only_if_its_positive_and_its_marginal_are_reserved() -> None:
    state = opened(random_rows(20_000))
    plan, options = marginal_plan(state), state.contract.options
    least = Fraction(1, 10**15)
    for is_open in (False, True):
        held = replace(state, rounds=(is_open, False))
        charge = reservation(plan, options, held.ledger.composition, round_open=is_open)
        needed = held.ledger.price(charge)
        for left, tier in ((needed, 0), (needed - least, 1)):
            ledger = replace(held.ledger, spent=held.ledger.cap - left)
            proposal = propose(replace(held, ledger=ledger), [PAIR])
            assert proposal.requests
            assert proposal.tier == tier


@pytest.mark.parametrize("budget", [BUDGET, Budget.of(1)])
def test_all_positives_fit_under_the_cap_and_no_more_are_tested(budget: Budget) -> None:
    rows = random_rows(20_000, joined=True)
    state, secret = opened(rows, budget=budget, update_limit=3), SecretState.closed(2)
    eager = state_with(state, margin=-(10**12), free_cells=1)  # all are positive
    state, queries = eager, [TRIPLE, PAIR, LinearQuery.cells(DOMAIN, {"c": (0, 1), "d": (0, 1)})]
    for seed in range(20):
        proposal = propose(state, queries)
        settled, secret = carried_out(state, proposal, secret, table(rows), seed)
        state = settled.state
    assert state.positives_used == 3
    assert state.ledger.spent <= state.ledger.cap
    assert not any(isinstance(one, MarginalRequest) for one in propose(state, queries).requests)


# --- what a negative leaves -------------------------------------------------------------------------------


def test_a_certificate_bounds_the_answers_of_later_models_too() -> None:
    rows = random_rows(20_000)
    state = patient(opened(rows, update_limit=3))
    settled, _ = carried_out(state, propose(state, [PAIR]), SecretState.closed(2), table(rows), 2)
    (before,) = settled.answers
    far = replace(settled.state, model=opened(rows[:200]).model.with_terms(()), plan=state.plan)
    proposal = replace(propose(settled.state, [PAIR]), queries=(PAIR,))
    (after,) = settle(far, proposal, BatchDraws((), None), far.ledger).answers
    assert after.count != pytest.approx(before.count)
    assert before.interval is not None
    assert after.interval is not None
    assert after.interval[0] <= after.count <= after.interval[1]
    assert after.interval[0] <= before.interval[0]
    assert after.interval[1] == pytest.approx(max(before.interval[1], after.count))


# --- the second tier --------------------------------------------------------------------------------------


def test_a_question_that_no_marginal_holds_is_tested_by_itself_and_charged_apart() -> None:
    rows = random_rows(20_000, joined=True)
    state = opened(rows, model=ModelKind.GRAPHICAL, update_limit=3)
    state = state_with(state, most_cells=2)
    proposal = propose(state, [PAIR, TRIPLE])
    assert proposal.tier == 1
    assert all(isinstance(request, QueryRequest) for request in proposal.requests)
    vector = state.query_plan
    assert vector is not None
    opening, positive = vector.vector.charges(state.ledger.composition)
    assert proposal.reserved == opening + positive
    settled, secret = carried_out(state, proposal, SecretState.closed(2), table(rows), 2)
    assert secret.thresholds[0] is None
    assert settled.state.rounds[1] == (secret.thresholds[1] is not None)
    assert not settled.state.round_open
    assert {answer.source for answer in settled.answers} <= {Source.SYNTHETIC, Source.MEASURED}
    assert all(answer.interval is not None for answer in settled.answers)
    (entry, *_) = batch_entries(proposal, BatchDraws((0,), None), state)
    assert entry.label == "threshold noise drawn for single questions"
