"""Error bars: what each kind of answer promises, from public numbers alone.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the weights of the question, summed over the kept records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from pmw.answers import Answer, Source, Spent
from pmw.model import half_width
from pmw.noise import DiscreteGaussian, DiscreteLaplace
from pmw.noise_bounds import split_confidence, sum_half_width
from pmw.policy import MarginalTestPlan, Options, QueryTestPlan, TestPlan
from pmw.privacy import Composition
from pmw.state import PublicState
from queries.linear import UNITS, LinearQuery

__all__ = [
    "answer_within",
    "certified_answer",
    "certified_half_width",
    "Confidences",
    "everybody_answer",
    "is_covered",
    "measured_answer",
    "sum_quantile",
    "total_half_width",
    "untested_answer",
]


@dataclass(frozen=True, slots=True)
class Confidences:
    """How surely each noise holds that an interval rests on, so that the interval holds as stated.

    Args:
        alone: of one noise that an interval rests on alone: of a measurement, or of the number of records.
        certificate: of the threshold noise of all rounds, where the number of records comes with it.
        total: of the number of records, where threshold noise comes with it.
    """

    alone: float
    certificate: float
    total: float

    @classmethod
    def of(cls, options: Options, opening: int, plan: TestPlan | None, *, private_total: bool) -> Confidences:
        """Return the confidences of a session.

        Intervals that hold for all questions at once share the failure probability among all noises that the
        session can ever draw: the total, the opening's measurements, each positive's, and the thresholds of
        each sparse vector, whose rounds share theirs in turn.

        Args:
            options: the stated confidence, and whether intervals hold for all questions at once.
            opening: measurements bought at opening.
            plan: the tests; None where there are none.
            private_total: the number of records is released with noise.
        """
        if not options.simultaneous:
            part = split_confidence(options.confidence, 2) if private_total else options.confidence
            return cls(options.confidence, part, part)
        vectors = [] if plan is None else [plan]
        if isinstance(plan, MarginalTestPlan) and plan.queries is not None:
            vectors.append(plan.queries)
        events = 1 + opening + sum(1 + vector.update_limit for vector in vectors)
        part = split_confidence(options.confidence, events)
        return cls(part, part, part)

    @classmethod
    def in_state(cls, state: PublicState) -> Confidences:
        """Return the confidences of a session, by its public state."""
        options, private = state.contract.options, state.total.deviation > 0
        return cls.of(options, len(state.opening), state.plan, private_total=private)


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
    plan, count = state.query_plan, units / UNITS
    width = None
    if plan is not None:
        width = half_width(plan.vector.value_noise, Confidences.in_state(state).alone)
    answer = answer_within(state, query, count, _around(count, width), Source.MEASURED, spent)
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
    return answer_within(state, query, count, _around(count, width), Source.SYNTHETIC, spent)


def certified_half_width(plan: QueryTestPlan, threshold: int, confidence: float) -> float:
    """Return how far, in records, the model may be off on a question whose test was negative.

    Args:
        plan: the sparse vector.
        threshold: T of the test, in units.
        confidence: of the interval. Where threshold noise is redrawn, each round has its part of it: a round
            lasts longer the higher its noise came out, so that questions meet high noise more often than a
            single draw is high.
    """
    rounds = plan.update_limit if plan.vector.sparse.redraw else 1
    margin = plan.vector.sparse.test.negative_margin(split_confidence(confidence, rounds))
    return (threshold + margin + 1) / UNITS


def untested_answer(state: PublicState, query: LinearQuery, spent: Spent) -> Answer:
    """Return the model's answer to a question that was not tested.

    Where released numbers cover it, the interval follows from their noise and from how far the model is from
    them; otherwise nothing is promised.
    """
    if not query.scope:
        return everybody_answer(state, query, spent)
    count = state.model.answer(query)
    covering = state.covering(query)
    if covering is None:
        return answer_within(state, query, count, None, Source.EXHAUSTED, spent)
    measured = covering.values
    axes = tuple(axis for axis, name in enumerate(covering.scope) if name not in query.scope)
    weights = np.expand_dims(query.weights() / UNITS, axes)
    deviation = math.sqrt(covering.weighted_variance(np.broadcast_to(weights, measured.shape)))
    misfit = abs(count - query.evaluate(measured.sum(axis=axes)))
    width = misfit + deviation * _quantile(state) + 1 / UNITS
    return answer_within(state, query, count, _around(count, width), Source.SYNTHETIC, spent)


def everybody_answer(state: PublicState, query: LinearQuery, spent: Spent) -> Answer:
    """Return the answer to a question of one weight for everybody, within the noise of the total."""
    weight = query.evaluate(np.ones(()))
    width = weight * (state.total.deviation * _quantile(state) + _total_misfit(state))
    count = weight * state.total.value
    return answer_within(state, query, count, _around(count, width), Source.SYNTHETIC, spent)


def answer_within(
    state: PublicState,
    query: LinearQuery,
    count: float,
    interval: tuple[float, float] | None,
    source: Source,
    spent: Spent,
) -> Answer:
    """Return an answer of the state's model; no number of records is below zero."""
    shown = max(0.0, count)
    return Answer(
        count=shown,
        fraction=shown / state.total.value,
        interval=None if interval is None else (max(0.0, interval[0]), max(0.0, interval[1])),
        confidence=state.contract.options.confidence,
        source=source,
        aligned=query.aligned,
        version=state.version,
        spent=spent,
        seeded=state.contract.seeded,
    )


def _around(count: float, width: float | None) -> tuple[float, float] | None:
    return None if width is None else (count - width, count + width)


def total_half_width(composition: Composition, deviation: float, confidence: float) -> float:
    """Return how far the released number of records may be from the true one, in records.

    It is a sum of noises; where they are Laplace noise its tails are at most those of a single one of its
    variance (``noise_bounds``).

    Args:
        composition: which law the noises have: Laplace where epsilons add.
        deviation: standard deviation of the released number, in records; 0 where it is public.
        confidence: of the width.
    """
    if deviation == 0:
        return 0.0
    units = deviation * UNITS
    if composition is Composition.PURE:
        return sum_half_width(DiscreteLaplace(Fraction(math.ceil(units / math.sqrt(2)))), 1.0, confidence)
    return sum_half_width(DiscreteGaussian(Fraction(math.ceil(units))), 1.0, confidence)


def _total_misfit(state: PublicState) -> float:
    # The model's total is at least 1, whatever came out of the noise.
    return abs(state.total.value - state.total.estimate)


def _quantile(state: PublicState) -> float:
    return sum_quantile(state.ledger.composition, state.contract.options.confidence)


def sum_quantile(composition: Composition, confidence: float) -> float:
    """Return how many standard deviations a sum of the opening's noises stays within, at the confidence.

    Gaussian sums: the normal quantile. Laplace sums: the larger of the Laplace and the normal quantile, which
    the tests check for sums of up to 64 cells. At some confidences two equal cells exceed it, though by less
    than 1 % of the failure probability; ``noise_bounds`` has one that is proved for all weights.
    """
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    if composition is Composition.PURE:
        return max(normal, -math.log1p(-confidence) / math.sqrt(2))
    return normal
