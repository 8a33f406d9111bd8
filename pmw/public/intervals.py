"""Error bars: what each kind of answer promises, from public numbers alone.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the kept records that the condition holds for; of a question given
as weights, their sum over the kept records.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pmw.model import OneWayMeasurement, half_width
from pmw.public.answer import Answer, Basis, Source, Spent
from pmw.public.confidences import Confidences, negative_margin, total_error_bound
from pmw.public.error_quantiles import kind_of, typical_half_width
from pmw.public.evidence import evidence_of
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from queries.factors import UNITS
from queries.linear import LinearQuery

BAR_SLACK = 1e-6  # records: what rounding may add to a bar that is as wide as an accuracy contract allows


def is_covered(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers bound the error of a question without a test, as well as after one.

    So they do where a question lies between two readings: a test, or a purchase, is about the number of
    records if cells were evenly filled, which bounds nothing.
    """
    return not query.factors or query.readings is not None or state.covering(query) is not None


def measured_answer(state: PublicState, query: LinearQuery, units: int, spent: Spent) -> Answer:
    """Return the answer that was measured: the noisy number, within a quantile of its noise.

    Args:
        state: the state that the question was asked in.
        query: the question.
        units: the noisy number, in units of 2^-20 records.
        spent: what the session had spent.
    """
    plan, count = state.query_plan, units / UNITS
    width = None
    if plan is not None:
        width = half_width(plan.vector.value_noise, Confidences.in_state(state).alone)
    interval = _interval(state, query, count, width)
    answer = answer_within(state, query, count, interval, Source.MEASURED, spent)
    return replace(answer, version=state.version + 1)


def certified_answer(
    state: PublicState, query: LinearQuery, model_units: int, threshold: int, spent: Spent
) -> Answer:
    """Return the model's answer to a question whose test was negative.

    The error is below T plus what the threshold noise can hide; with exponential noise this holds for all
    negatives of a round at once, so the interval is a bound and holds more often than stated.

    Args:
        state: the state that the question was asked in.
        query: the question.
        model_units: the model's answer in the test, in units.
        threshold: T of the test, in units.
        spent: what the session had spent.
    """
    plan, count = state.query_plan, model_units / UNITS
    width = None
    if plan is not None:
        width = certified_half_width(plan, threshold, Confidences.in_state(state).alone)
    interval = _interval(state, query, count, width)
    answer = answer_within(state, query, count, interval, Source.SYNTHETIC, spent)
    return with_typical(state, query, answer, Basis.TESTED)


def certified_half_width(plan: QueryTestPlan, threshold: int, confidence: float) -> float:
    """Return how far, in records, the model may be off on a question whose test was negative.

    Args:
        plan: the sparse vector.
        threshold: T of the test, in units.
        confidence: of the interval.
    """
    return (threshold + negative_margin(plan, confidence) + 1) / UNITS


def untested_answer(state: PublicState, query: LinearQuery, spent: Spent) -> Answer:
    """Return the model's answer to a question that was not tested.

    Where released numbers cover it, the interval follows from their noise and from how far the model is from
    them; otherwise nothing is promised.
    """
    if not query.scope and query.readings is None:
        return everybody_answer(state, query, spent)
    count, width = state.model.answer(query), None
    covering = state.covering(query)
    if not is_covered(state, query):
        return answer_within(state, query, count, None, Source.EXHAUSTED, spent)
    if covering is not None and query.readings is None:
        value, noise = _measured(state, covering, query)
        width = abs(count - value) + noise
    interval = _interval(state, query, count, width)
    return answer_within(state, query, count, interval, Source.SYNTHETIC, spent)


def _measured(state: PublicState, covering: OneWayMeasurement, query: LinearQuery) -> tuple[float, float]:
    """Return what a marginal that covers a question says of it, and how far its noise goes, in records."""
    evidence = evidence_of(state, covering, query.scope, Confidences.in_state(state))
    return evidence.value(query), evidence.half_width(query)


def _interval(
    state: PublicState, query: LinearQuery, count: float, width: float | None
) -> tuple[float, float] | None:
    """Return the interval of an answer: around it, or from one reading's low end to the other's high end.

    What was tested or measured is the number of records if cells were evenly filled: of a condition that
    cells cannot decide it bounds nothing. The noises of the opening are symmetric, so an end of a reading's
    interval fails with half the probability that the interval does, and by the union bound both ends hold
    as stated.
    """
    if query.readings is None:
        return None if width is None else (count - width, count + width)
    (low, _), (_, high) = (_of_cells(state, reading) for reading in query.readings)
    return min(low, count), max(high, count)


def _of_cells(state: PublicState, reading: LinearQuery) -> tuple[float, float]:
    """Return the interval of a reading: of released numbers that cover it, else from nobody to everybody."""
    total, confidence = state.total, Confidences.in_state(state).alone
    most = total_error_bound(state, confidence)
    if not reading.scope:
        share = reading.constant / UNITS  # of everybody, or of nobody
        return share * (total.value - most), share * (total.value + most)
    # Where intervals hold for all questions at once, a quantile for one question is not enough.
    covering = None if state.contract.options.simultaneous else state.covering(reading)
    if covering is None:
        return 0.0, total.value + most
    value, noise = _measured(state, covering, reading)
    return value - noise, value + noise


def everybody_answer(state: PublicState, query: LinearQuery, spent: Spent) -> Answer:
    """Return the answer to a question of one weight for everybody, within the noise of the total."""
    weight = query.evaluate(np.ones(()))
    width = weight * total_error_bound(state, state.contract.options.confidence)
    count = weight * state.total.value
    return answer_within(state, query, count, (count - width, count + width), Source.SYNTHETIC, spent)


def answer_within(
    state: PublicState,
    query: LinearQuery,
    count: float,
    interval: tuple[float, float] | None,
    source: Source,
    spent: Spent,
) -> Answer:
    """Return an answer of the state's model; no number of records is below zero.

    Under an accuracy contract it is moved to where its error bar reaches no farther than the contract allows
    either way; where there is no such place, the question is refused. Both depend on public numbers alone.
    """
    shown = max(0.0, count)
    ends = None if interval is None else (max(0.0, interval[0]), max(0.0, interval[1]))
    limit = state.contract.options.bar_limit
    if limit is not None:
        if ends is None or ends[1] - ends[0] > 2 * limit + BAR_SLACK:
            shown, ends, source = math.nan, None, Source.REFUSED
        elif max(ends[1] - shown, shown - ends[0]) > limit + BAR_SLACK:
            shown = min(max(shown, ends[1] - limit), ends[0] + limit)
    return Answer(
        count=shown,
        fraction=shown / state.total.value,
        interval=ends,
        confidence=state.contract.options.confidence,
        source=source,
        aligned=query.aligned,
        version=state.version,
        spent=spent,
        seeded=state.contract.seeded,
        kept=state.contract.records_kept,
    )


def with_typical(state: PublicState, query: LinearQuery, answer: Answer, basis: Basis) -> Answer:
    """Return an answer with its kind, and with the typical error of that kind where one was released.

    Args:
        state: the state that answers.
        query: the question.
        answer: to it, with an interval.
        basis: what the interval rests on.
    """
    kind = kind_of(query, basis)
    if kind is None or answer.interval is None:  # an accuracy contract may have refused it
        return answer
    width = typical_half_width(state.quantiles, kind, answer.confidence)
    typical = None if width is None else (max(0.0, answer.count - width), answer.count + width)
    return replace(answer, kind=kind, typical=typical)
