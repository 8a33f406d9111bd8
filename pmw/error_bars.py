"""Error bars: what each kind of answer promises, from public numbers alone.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the weights of the question, summed over the kept records.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from pmw.answers import Answer, Source, Spent
from pmw.model import half_width
from pmw.policy import QueryTestPlan
from pmw.privacy import Composition
from pmw.state import PublicState
from queries.linear import UNITS, LinearQuery

__all__ = [
    "certified_answer",
    "certified_half_width",
    "is_covered",
    "measured_answer",
    "sum_quantile",
    "untested_answer",
]


def is_covered(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers bound the error of a question without a test."""
    return not query.scope or state.covering(query) is not None


def measured_answer(state: PublicState, query: LinearQuery, units: int, spent: Spent) -> Answer:
    """Return the answer that was bought: the noisy number, within a quantile of its noise.

    Args:
        state: the state that the question was asked in.
        query: the question.
        units: the noisy number, in units of 2^-20 records.
        spent: what the session had spent.
    """
    width = None
    if state.plan is not None:
        width = half_width(state.plan.vector.value_noise, state.contract.options.confidence)
    return _answer(state, query, units / UNITS, width, Source.MEASURED, spent)


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
    width = None
    if state.plan is not None:
        width = certified_half_width(state.plan, threshold, state.contract.options.confidence)
    return _answer(state, query, model_units / UNITS, width, Source.SYNTHETIC, spent)


def certified_half_width(plan: QueryTestPlan, threshold: int, confidence: float) -> float:
    """Return how far, in records, the model may be off on a question whose test was negative.

    Args:
        plan: the sparse vector.
        threshold: T of the test, in units.
        confidence: of the interval.
    """
    return (threshold + plan.vector.sparse.test.negative_margin(confidence) + 1) / UNITS


def untested_answer(state: PublicState, query: LinearQuery, spent: Spent) -> Answer:
    """Return the model's answer to a question that was not tested.

    Where released numbers cover it, the interval follows from their noise and from how far the model is from
    them; otherwise nothing is promised.
    """
    if not query.scope:
        weight = query.evaluate(np.ones(()))
        width = weight * (state.total.deviation * _quantile(state) + _total_misfit(state))
        return _answer(state, query, weight * state.total.value, width, Source.SYNTHETIC, spent)
    count = state.model.answer(query)
    covering = state.covering(query)
    if covering is None:
        return _answer(state, query, count, None, Source.EXHAUSTED, spent)
    measured = covering.values
    axes = tuple(axis for axis, name in enumerate(covering.scope) if name not in query.scope)
    repeated = math.prod(measured.shape[axis] for axis in axes)
    squares = float(np.sum((query.weights() / UNITS) ** 2)) * repeated
    deviation = math.sqrt(squares * covering.variance)
    misfit = abs(count - query.evaluate(measured.sum(axis=axes)))
    width = misfit + deviation * _quantile(state) + 1 / UNITS
    return _answer(state, query, count, width, Source.SYNTHETIC, spent)


def _answer(
    state: PublicState, query: LinearQuery, count: float, width: float | None, source: Source, spent: Spent
) -> Answer:
    shown = max(0.0, count)
    return Answer(
        count=shown,
        fraction=shown / state.total.value,
        interval=None if width is None else (max(0.0, count - width), max(0.0, count + width)),
        confidence=state.contract.options.confidence,
        source=source,
        aligned=query.aligned,
        version=state.version + (1 if source is Source.MEASURED else 0),
        spent=spent,
        seeded=state.contract.seeded,
    )


def _total_misfit(state: PublicState) -> float:
    # The model's total is at least 1, whatever came out of the noise.
    return abs(state.total.value - state.total.estimate)


def _quantile(state: PublicState) -> float:
    return sum_quantile(state.ledger.composition, state.contract.options.confidence)


def sum_quantile(composition: Composition, confidence: float) -> float:
    """Return how many standard deviations a sum of the opening's noises stays within, at the confidence.

    Gaussian sums: the normal quantile. Laplace sums lie between the Laplace and the normal law, so the larger
    of the two quantiles; the tests check it for sums of up to 64 cells.
    """
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    if composition is Composition.PURE:
        return max(normal, -math.log1p(-confidence) / math.sqrt(2))
    return normal
