"""What a positive measures: every number has noise of its own, of the scale that is charged.

The draws of a batch are expanded from its bytes in one order: threshold noise where a round opens, then the
noise of its tests, then that of what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pmw
import pmw.public.charges
from pmw.data import MemorySource
from pmw.loop.loop import batch_entries, draw_tests, propose, settle
from pmw.loop.measuring import draw_numbers
from pmw.loop.secret import SecretState
from pmw.loop.tiers import BatchDraws, MarginalRequest, MarginalTier, Proposal, QueryRequest, QuestionTier
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement
from pmw.model.strategy import AxisRows, Strategy
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import marginal_charge
from pmw.public.options import Options
from pmw.public.state import LaterMeasurement, PublicState
from pmw.sparse_vector import NoisyThreshold, NumericSparse, Sides
from queries import UNITS, LinearQuery
from tests.draws import MOVES, RELATIONS, Tape, charged_scale, read_from_tape, require_scale
from tests.residuals import gaussian, ordered_rows, value_rows
from tests.worlds import LETTERS, marginal_plan, state_with

DOMAIN = LETTERS.domain
SOURCE = MemorySource.from_frame(LETTERS.frame, DOMAIN)
TWO, FIVE = ("a", "b"), tuple("abcde")
OTHER = NoisyThreshold(5), NoisyThreshold(5, 6)


def boxed(*names: str) -> LinearQuery:
    return LinearQuery.cells(DOMAIN, dict.fromkeys(names, (0, 3)))


def opened(composition: Composition = Composition.ZCDP, **choices: Any) -> PublicState:
    """Return a session's state in which pairs of attributes are tested as marginals, and five not at all."""
    state = LETTERS.state(epsilon=4, seed=1, composition=composition, update_limit=4, **choices)
    return state_with(state, decay=(0, 1), most_cells=512, free_cells=64)


def vector_of(state: PublicState) -> NumericSparse:
    assert state.query_plan is not None
    return state.query_plan.vector


def positive(state: PublicState, query: LinearQuery) -> Proposal:
    """Return a batch that surely ends in a positive at its first test."""
    proposal = propose(state, [query])
    requests: list[Any] = [replace(request, threshold=-(10**14)) for request in proposal.requests]
    return replace(proposal, requests=tuple(requests))


def draw(state: PublicState, proposal: Proposal, bits: BitSource) -> tuple[BatchDraws, SecretState]:
    return draw_tests(proposal, state.plan, SecretState.closed(2), SOURCE, bits)


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", list(Composition))
def test_every_cell_of_a_measured_marginal_has_noise_of_its_own_of_the_scale_that_is_charged(
    composition: Composition,
    relation: NeighboringRelation,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    state = opened(composition, neighboring_relation=relation, records_per_person=3)
    proposal = positive(state, boxed(*TWO))
    (request,) = proposal.requests
    assert isinstance(request, MarginalRequest)
    assert request.measured == TWO
    drawn = []
    for seed in range(60):
        released = draw(state, proposal, BitSource.from_integer(seed))[0].released
        assert isinstance(released, np.ndarray)
        drawn.append((released - SOURCE.counts(TWO).counts * UNITS).ravel())
    charge = pmw.public.charges.marginal_charge(marginal_plan(state).noise, state.contract.options)
    require_scale(np.concatenate(drawn) / UNITS, *charged_scale(charge, records=3, moves=MOVES[relation]))
    require_independent(np.stack(drawn))


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", list(Composition))
def test_a_measured_answer_has_noise_of_the_scale_that_is_charged(
    composition: Composition, relation: NeighboringRelation
) -> None:
    state = opened(composition, neighboring_relation=relation, records_per_person=3)
    proposal, true = positive(state, boxed(*FIVE)), boxed(*FIVE).answer(SOURCE.counts(FIVE))
    drawn = []
    for seed in range(600):
        released = draw(state, proposal, BitSource.from_integer(seed))[0].released
        assert isinstance(released, int)
        drawn.append(released - true)
    require_scale(np.array(drawn) / UNITS, *charged_scale(vector_of(state).value_charge, records=3))


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("names", [TWO, FIVE])
def test_the_noise_of_a_batch_is_expanded_in_one_order(names: tuple[str, ...], opens: bool) -> None:
    state = opened()
    state = replace(state, rounds=(not opens, not opens))
    queries = [boxed(*names), boxed(*names[:-1], "d"), boxed(*names)]
    proposal = propose(state, queries)
    requests: list[Any] = [replace(one, threshold=2 * 10**14) for one in proposal.requests]
    requests[-1] = replace(requests[-1], threshold=-(10**14))  # the last one is positive, those before not
    proposal = replace(proposal, requests=tuple(requests))
    questions = isinstance(requests[0], QueryRequest)
    assert proposal.opens_round is opens
    bits, again = (BitSource.from_integer(9) for _ in range(2))
    held = SecretState.closed(2) if opens else SecretState(OTHER)
    draws, _ = draw_tests(proposal, state.plan, held, SOURCE, bits)
    test = vector_of(state).sparse.test if questions else marginal_plan(state).sparse.test
    two = test.sides is Sides.TWO_THRESHOLDS
    assert two is questions
    for _ in range((1 + two) * opens):
        test.threshold_noise.sample(again)
    test.query_noise.sample_array(again, (1 + two) * len(requests))
    if questions:
        query = requests[-1].query
        true = query.answer(SOURCE.counts(query.scope))
        assert draws.released == true + vector_of(state).value_noise.sample(again)
    else:
        counts = SOURCE.counts(requests[-1].measured).counts
        noise = marginal_plan(state).noise.sample_array(again, counts.size)
        assert np.array_equal(draws.released, counts * UNITS + noise.reshape(counts.shape))  # type: ignore[arg-type]
    assert bits.take(8) == again.take(8)


@pytest.mark.statistical
@pytest.mark.parametrize("names", [TWO, FIVE])
def test_threshold_noise_has_the_scale_that_a_round_is_charged_for(names: tuple[str, ...]) -> None:
    state = opened(Composition.PURE, records_per_person=3, sparse_vector=pmw.SparseVectorKind.EXPONENTIAL)
    proposal = propose(state, [boxed(*names)])
    requests: list[Any] = [replace(one, threshold=10**14) for one in proposal.requests]
    proposal, found = replace(proposal, requests=tuple(requests)), []
    for seed in range(600):
        _, secret = draw(state, proposal, BitSource.from_integer(seed))
        noisy = secret.thresholds[0] if names is TWO else secret.thresholds[1]
        assert noisy is not None
        found.append([noisy.upper, noisy.upper if noisy.lower is None else noisy.lower])
    (entry,) = batch_entries(proposal, BatchDraws((0,), None), state)
    scale, _ = charged_scale(entry.charge, records=3)
    drawn = np.array(found)
    for column in drawn.T:
        require_scale(column / UNITS, scale, "expon")
    if names is FIVE:  # two thresholds, drawn apart
        assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.15
        assert (drawn[:, 0] != drawn[:, 1]).all()


@pytest.mark.statistical
def test_the_tests_of_a_batch_have_noise_of_their_own() -> None:
    # Two questions at their threshold: one passing must say nothing of the other, but for the threshold.
    state = opened()
    query = boxed(*FIVE)
    request = QueryRequest(query, query.answer(SOURCE.counts(FIVE)), 0)
    proposal = replace(propose(state, [query]), requests=(request,) * 40, opens_round=False)
    held = SecretState((None, NoisyThreshold(*[int(vector_of(state).sparse.test.query_scale)] * 2)))
    lengths, sides = [], []
    for seed in range(200):
        draws, _ = draw_tests(proposal, state.plan, held, SOURCE, BitSource.from_integer(seed))
        lengths.append(len(draws.outcomes))
        sides.append(draws.outcomes[-1])
    passes = 1 - (1 - math.exp(-1)) ** 2  # of two noises, each at least its scale with probability 1/e
    assert max(lengths) > 3
    assert np.mean(lengths) == pytest.approx(1 / passes, rel=0.2)
    assert np.mean(np.array(sides) == 1) == pytest.approx(math.exp(-1) / passes, abs=0.1)


# --- the limit of positives, and the threshold noise of both tiers ----------------------------------------


def after_positives(state: PublicState, marginals: int, questions: int) -> PublicState:
    """Return the state after so many positives, as if nothing had been charged for them."""
    plan, vector = marginal_plan(state), vector_of(state)
    drawn = MarginalMeasurement(TWO, np.zeros((8, 8), dtype=np.int64), plan.noise)
    asked = QueryMeasurement(boxed(*FIVE), 0, vector.value_noise)
    measured: tuple[LaterMeasurement, ...] = (*[drawn] * marginals, *[asked] * questions)
    return replace(state, measured=measured, ledger=replace(state.ledger, spent=Fraction(0)))


@pytest.mark.parametrize("questions", [False, True])
def test_a_tier_is_tested_up_to_its_limit_of_positives_and_not_beyond(questions: bool) -> None:
    state = opened()
    assert state.query_plan is not None
    tier = QuestionTier(1, state.query_plan) if questions else MarginalTier(0, marginal_plan(state))
    limit = (vector_of(state).sparse if questions else marginal_plan(state)).update_limit
    for used in (limit - 1, limit, limit + 1):
        after = after_positives(state, *((0, used) if questions else (used, 5)))
        assert after.positives(int(questions)) == used
        for open_ in (False, True):
            assert tier.may_test(replace(after, rounds=(open_, open_))) is (used < limit)
        (request, *_) = propose(after, [boxed(*(FIVE if questions else ("c", "d")))]).requests or (None,)
        kind = QueryRequest if questions else MarginalRequest
        assert isinstance(request, kind) is (used < limit)
    assert not tier.may_test(replace(state, closed=True))


def test_the_noise_that_is_kept_is_the_noise_that_is_used() -> None:
    state = opened()
    for names in (TWO, FIVE):
        proposal = propose(replace(state, rounds=(True, True)), [boxed(*names)])
        requests: list[Any] = [replace(one, threshold=10**14) for one in proposal.requests]
        proposal, held = replace(proposal, requests=tuple(requests)), SecretState(OTHER)
        draws, kept = draw_tests(proposal, state.plan, held, SOURCE, BitSource.from_integer(1))
        assert (draws.outcomes, kept) == ((0,), held)
        high = NoisyThreshold(10**15), NoisyThreshold(10**15, 10**15)
        draws, kept = draw_tests(
            positive(replace(state, rounds=(True, True)), boxed(*names)),
            state.plan, SecretState(high), SOURCE, BitSource.from_integer(1),
        )  # fmt: skip
        assert draws.outcomes == (0,)  # no test passes a threshold that noise lifts so far


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [None, pmw.SparseVectorKind.EXPONENTIAL])
@pytest.mark.parametrize("names", [("c", "d"), FIVE])
def test_a_round_is_open_as_long_as_its_threshold_noise_is_kept(
    names: tuple[str, ...], kind: pmw.SparseVectorKind | None, last: bool
) -> None:
    state, questions = opened(sparse_vector=kind), names is FIVE
    limit = (vector_of(state).sparse if questions else marginal_plan(state)).update_limit
    used = (limit - 1) * last
    state = after_positives(state, 0 if questions else used, used if questions else 0)
    proposal, held = positive(state, boxed(*names)), SecretState.closed(2)
    if last:
        held = SecretState(OTHER)
        proposal = replace(proposal, opens_round=False)
    draws, secret = draw_tests(proposal, state.plan, held, SOURCE, BitSource.from_integer(1))
    after = settle(state, proposal, draws, state.ledger).state
    open_, kept = (
        (after.rounds[1], secret.thresholds[1]) if questions else (after.round_open, secret.thresholds[0])
    )
    assert open_ == (kept is not None) == (kind is not None and not last)
    assert secret.thresholds[not questions] == held.thresholds[not questions]  # the other tier keeps its own


# --- numbers of rows ------------------------------------------------------------------------------------


AXES = {
    "values": (value_rows(3), value_rows(3)),
    "ordered": (ordered_rows(5), value_rows(2)),
    "one attribute": (ordered_rows(6),),
    "three attributes": (value_rows(2), value_rows(3), value_rows(2)),
}
GIVEN = gaussian(4.5)


def counted(axes: tuple[AxisRows, ...]) -> NDArray[np.int64]:
    return np.random.default_rng(8).integers(0, 500, [axis.size for axis in axes])


def noises(
    strategy: Strategy | None, counts: NDArray[np.int64], noise: NoiseDistribution
) -> NDArray[np.int64]:
    """Return what is drawn in 60 measurements of a table, beyond what is true: int64, (draws, numbers)."""
    true = counts * UNITS if strategy is None else strategy.applied(counts)
    drawn = [draw_numbers(counts, noise, strategy, BitSource.from_integer(seed)) - true for seed in range(60)]
    return np.array(drawn).reshape(60, -1)


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", AXES)
def test_every_number_of_rows_has_noise_of_its_own_of_the_scale_that_is_charged(
    name: str, relation: NeighboringRelation, require_independent: Callable[[NDArray[np.int64]], None]
) -> None:
    axes, records = AXES[name], 3
    strategy = Strategy(axes, relation is NeighboringRelation.REPLACE_ONE)
    drawn = noises(strategy, counted(axes), GIVEN)
    # A person moves the numbers by K s in L2, and the price is that of noise which is as much wider.
    charge = marginal_charge(GIVEN, Options(neighboring_relation=relation, records_per_person=records))
    scale, distribution = charged_scale(charge, records=records)
    require_scale(drawn / math.sqrt(strategy.squared_sensitivity), scale, distribution)
    require_independent(drawn)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [GIVEN, DiscreteLaplace(Fraction(4 * UNITS))])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_cell_has_noise_of_its_own_where_there_are_no_rows(
    relation: NeighboringRelation,
    noise: NoiseDistribution,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    drawn = noises(None, counted(AXES["values"]), noise)
    charge = marginal_charge(noise, Options(neighboring_relation=relation, records_per_person=2))
    require_scale(drawn / UNITS, *charged_scale(charge, records=2, moves=MOVES[relation]))
    require_independent(drawn)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", AXES)
def test_one_draw_is_taken_for_each_number_from_the_noise_that_is_charged(
    name: str, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, counts = Strategy(AXES[name], replaced), counted(AXES[name])
    wanted = strategy.noise(GIVEN)
    taped = read_from_tape(monkeypatch, DiscreteGaussian)
    tape = Tape(range(3, 3 + counts.size))
    found = draw_numbers(counts, GIVEN, strategy, tape)
    assert taped == [(wanted, counts.size)]
    assert not tape.left
    own = np.arange(3, 3 + counts.size).reshape(counts.shape) * UNITS
    assert found.tolist() == (strategy.applied(counts) + own).tolist()
    assert found.dtype == np.int64
