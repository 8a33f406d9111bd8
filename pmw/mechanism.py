"""The loop: online private multiplicative weights, in three phases that are kept apart.

*Propose* looks at public state and questions, and decides what will be tested, against which numbers.
*Draw* looks at the data: it is a function of a recorded proposal, the table and 32 recorded bytes, in exact
integers throughout, so that replaying it after a crash gives the same outcome bit by bit.
*Settle* is public again: it makes answers and charges of the outcome, and corrects the model.

Source: Hardt and Rothblum (2010); Dwork and Roth (2014), Section 4.2 (online private multiplicative weights
by NumericSparse), with c positives, not c + 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pmw.accounting import PrivacyFilter
from pmw.answers import Answer, Spent
from pmw.data import CountSource
from pmw.error_bars import certified_answer, is_covered, measured_answer, untested_answer
from pmw.errors import BudgetError
from pmw.model import (
    DenseDistribution,
    MarginalMeasurement,
    NoiseLaw,
    QueryMeasurement,
    noise_variance,
    refit,
    step,
)
from pmw.noise import DiscreteLaplace
from pmw.planning import l1_sensitivity, l2_squared_sensitivity
from pmw.policy import Contract, OpeningPlan, Options, QueryTestPlan, UpdateRule
from pmw.privacy import Charge, Composition, gaussian_charge, pure_charge
from pmw.randomness import BitSource
from pmw.sparse_vector import NumericSparse, SparseState
from pmw.state import PublicState, SecretState, Total
from queries.linear import UNITS, LinearQuery

__all__ = [
    "abandoned_entry",
    "answers_of",
    "batch_entries",
    "BatchDraws",
    "correct",
    "draw_opening",
    "draw_tests",
    "LedgerEntry",
    "measurement_entry",
    "opening_entries",
    "OpeningDraws",
    "Proposal",
    "propose",
    "QueryRequest",
    "released_total",
    "reservation",
    "settle",
    "settle_opening",
    "threshold_entry",
]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One charge and what it paid for."""

    event: str
    label: str
    charge: Charge


# --- opening ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpeningDraws:
    """What opening released.

    Args:
        total_units: records in units of 2^-20, noisy, or exact where the row count is public.
        marginals: one per attribute bought.
    """

    total_units: int
    marginals: tuple[MarginalMeasurement, ...]


def opening_entries(plan: OpeningPlan, options: Options) -> tuple[LedgerEntry, ...]:
    """Return what opening charges: a marginal is one event, since a record is in one of its cells."""
    entries = []
    if plan.total_noise is not None:
        entries.append(LedgerEntry("total", "number of records", _marginal_charge(plan.total_noise, options)))
    for name, noise in plan.marginal_noise.items():
        entries.append(LedgerEntry("marginal", name, _marginal_charge(noise, options)))
    return tuple(entries)


def _marginal_charge(noise: NoiseLaw, options: Options) -> Charge:
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(l1_sensitivity(options) / noise.scale)
    return gaussian_charge(l2_squared_sensitivity(options), noise.sigma)


def draw_opening(plan: OpeningPlan, source: CountSource, bits: BitSource) -> OpeningDraws:
    """Return the noisy number of records and marginals.

    Privacy: costs what ``opening_entries`` says, under the neighbours that the plan's noise was made for;
        a row count without noise is for replace-one only, where it is the same for all neighbours.
    """
    total = source.counts(()).total * UNITS
    if plan.total_noise is not None:
        total += plan.total_noise.sample(bits)
    marginals = []
    for name, noise in plan.marginal_noise.items():
        units = source.counts((name,)).counts * UNITS + noise.sample_array(bits, source.domain[name].size)
        marginals.append(MarginalMeasurement((name,), units, noise))
    return OpeningDraws(total, tuple(marginals))


def settle_opening(
    contract: Contract,
    plan: OpeningPlan,
    draws: OpeningDraws,
    ledger: PrivacyFilter,
    test: QueryTestPlan | None,
    fitted: DenseDistribution | None = None,
) -> PublicState:
    """Return the session's first public state.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        draws: what they gave.
        ledger: the filter after their charges.
        test: the sparse vector, planned from the same numbers.
        fitted: the model, where it is known already; None fits it.
    """
    total = released_total(plan, draws)
    model = fitted or refit(DenseDistribution.uniform(contract.domain, total.value), draws.marginals)
    return PublicState(
        contract=contract,
        ledger=ledger,
        total=total,
        opening=draws.marginals,
        measured=(),
        model=model,
        plan=test,
        round_open=False,
    )


def released_total(plan: OpeningPlan, draws: OpeningDraws) -> Total:
    """Return the released total combined with the sums of the released marginals, by inverse variance.

    Post-processing: each marginal's cells sum to the number of records plus noise.
    """
    estimate = draws.total_units / UNITS
    if plan.total_noise is None:
        return Total(max(1.0, estimate), estimate, 0.0)
    estimates = [estimate, *(float(marginal.values.sum()) for marginal in draws.marginals)]
    variances = [noise_variance(plan.total_noise)]
    variances += [marginal.values.size * marginal.variance for marginal in draws.marginals]
    precision = sum(1 / variance for variance in variances)
    combined = sum(value / variance for value, variance in zip(estimates, variances, strict=True)) / precision
    return Total(max(1.0, combined), combined, math.sqrt(1 / precision))


# --- questions -------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a batch of questions will do. A function of public state and the questions.

    Args:
        queries: the questions, in order.
        requests: those that need a test, in order.
        places: the position in ``queries`` of each request.
        positives: positives of the sparse vector before the batch.
        opens_round: the first test draws new threshold noise.
        reserved: the most that the batch can charge.
    """

    queries: tuple[LinearQuery, ...]
    requests: tuple[QueryRequest, ...]
    places: tuple[int, ...]
    positives: int
    opens_round: bool
    reserved: Charge | None


@dataclass(frozen=True, slots=True)
class BatchDraws:
    """What the tests of a batch released.

    Args:
        outcomes: one per request up to and including the first positive, values of ``Outcome``.
        released: the noisy answer of that positive, in units; None where all were negative.
    """

    outcomes: tuple[int, ...]
    released: int | None


def propose(state: PublicState, queries: Sequence[LinearQuery]) -> Proposal:
    """Return which questions are tested: those that no measurement covers, while a positive can be paid.

    A closed session tests nothing.
    """
    plan = None if state.closed else state.plan
    reserved = None if plan is None else reservation(plan.vector, state.ledger, round_open=state.round_open)
    requests, places = [], []
    if plan is not None and reserved is not None and state.ledger.allows(reserved):
        for place, query in enumerate(queries):
            if state.positives_used < plan.update_limit and not is_covered(state, query):
                units = round(state.model.answer(query) * UNITS)
                requests.append(QueryRequest(query, units, plan.threshold))
                places.append(place)
    return Proposal(
        tuple(queries),
        tuple(requests),
        tuple(places),
        positives=state.positives_used,
        opens_round=bool(requests) and not state.round_open,
        reserved=reserved if requests else None,
    )


def reservation(vector: NumericSparse, ledger: PrivacyFilter, *, round_open: bool) -> Charge:
    """Return the most that a batch can charge: threshold noise, unless it is drawn, and one positive."""
    opening, positive = vector.charges(ledger.composition)
    return positive if round_open else opening + positive


def abandoned_entry(reserved: Charge) -> LedgerEntry:
    """Return what a batch charges that is never finished: all that was reserved for it."""
    return LedgerEntry("abandoned batch", "reserved; nothing was released", reserved)


def draw_tests(
    proposal: Proposal, vector: NumericSparse, secret: SecretState, source: CountSource, bits: BitSource
) -> tuple[BatchDraws, SecretState]:
    """Return the outcomes of a batch's tests, up to and including the first positive.

    Privacy: one step of the sparse vector, and one value with fresh noise at a positive. The statistic
        q(D) - q(A) is an integer in units; one person moves it by at most ``query_sensitivity``.

    Raises:
        BudgetError: the batch would draw threshold noise that it does not pay for, or pay for what is drawn.
    """
    if proposal.opens_round != (secret.noisy is None):
        raise BudgetError(
            "the threshold noise is not as the batch was recorded: a round is charged when, and only when, "
            "it draws its noise; resume the session"
        )
    answers = np.array(
        [request.query.answer(source.counts(request.query.scope)) for request in proposal.requests],
        dtype=np.int64,
    )
    models = np.array([request.model_units for request in proposal.requests], dtype=np.int64)
    thresholds = np.array([request.threshold for request in proposal.requests], dtype=np.int64)
    before = SparseState(secret.noisy, proposal.positives)
    after, outcomes, error = vector.scan(before, answers - models, thresholds, bits)
    released = None if error is None else error + proposal.requests[len(outcomes) - 1].model_units
    # A round that closes takes its threshold noise with it.
    kept = after.noisy if after.positives < vector.sparse.update_limit else None
    return BatchDraws(tuple(int(outcome) for outcome in outcomes), released), SecretState(kept)


def batch_entries(proposal: Proposal, draws: BatchDraws, state: PublicState) -> tuple[LedgerEntry, ...]:
    """Return what a batch charges."""
    if state.plan is None or not proposal.requests:
        return ()
    vector, composition = state.plan.vector, state.ledger.composition
    entries = []
    if proposal.opens_round:
        entries.append(threshold_entry(vector, composition))
    if draws.released is not None:
        query = proposal.requests[len(draws.outcomes) - 1].query
        entries.append(measurement_entry(vector, composition, query))
    return tuple(entries)


def threshold_entry(vector: NumericSparse, composition: Composition) -> LedgerEntry:
    """Return what drawing threshold noise charges: a whole round, or a whole vector that is not redrawn."""
    event = "sparse vector round" if vector.sparse.redraw else "sparse vector"
    return LedgerEntry(event, "threshold noise drawn", vector.charges(composition)[0])


def measurement_entry(vector: NumericSparse, composition: Composition, query: LinearQuery) -> LedgerEntry:
    """Return what a positive charges with the value that it releases."""
    return LedgerEntry("measurement", query.describe(), vector.charges(composition)[1])


def answers_of(
    proposal: Proposal, draws: BatchDraws, state: PublicState, ledger: PrivacyFilter
) -> tuple[Answer, ...]:
    """Return the answers of a batch, in order, up to and including its first positive.

    Args:
        proposal: the batch.
        draws: what its tests released.
        state: the state that the batch was proposed in.
        ledger: the filter after the batch's charges.
    """
    tested = dict(zip(proposal.places, range(len(proposal.requests)), strict=True))
    end = len(proposal.queries)
    if draws.released is not None:
        end = proposal.places[len(draws.outcomes) - 1] + 1
    spent = Spent(ledger.share, float(state.contract.budget.epsilon), float(state.contract.budget.delta))
    answers = []
    for place, query in enumerate(proposal.queries[:end]):
        number = tested.get(place)
        if number is None:
            answers.append(untested_answer(state, query, spent))
        elif draws.outcomes[number]:
            answers.append(measured_answer(state, query, draws.released or 0, spent))
        else:
            request = proposal.requests[number]
            answers.append(certified_answer(state, query, request.model_units, request.threshold, spent))
    return tuple(answers)


def settle(state: PublicState, proposal: Proposal, draws: BatchDraws, ledger: PrivacyFilter) -> PublicState:
    """Return the public state after a batch, with the model corrected at a positive."""
    plan = state.plan
    if plan is None or not proposal.requests:
        return state
    if draws.released is None:
        return replace(state, ledger=ledger, round_open=True)
    request = proposal.requests[len(draws.outcomes) - 1]
    noise = plan.vector.value_noise
    measurement = QueryMeasurement(request.query, draws.released, noise, request.model_units)
    return correct(replace(state, ledger=ledger, round_open=not plan.vector.sparse.redraw), measurement)


def correct(state: PublicState, measurement: QueryMeasurement) -> PublicState:
    """Return the state with one more measurement and the model corrected by it; post-processing, free."""
    measured = (*state.measured, measurement)
    if state.contract.options.update is UpdateRule.STEP and state.plan is not None:
        model = step(
            state.model,
            measurement.query,
            learning_rate=state.plan.learning_rate,
            increase=measurement.units > measurement.model_units,
        )
    else:
        model = refit(state.model, (*state.opening, *measured))
    return replace(state, measured=measured, model=model)
