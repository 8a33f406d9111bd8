"""Error bars: what each kind of answer promises, from public numbers alone.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the kept records that the condition holds for; of a question given
as weights, their sum over the kept records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pmw.model import NoiseDistribution, OneWayMeasurement, half_width, noise_variance
from pmw.privacy.budget import Composition
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.tail_bounds import split_confidence, sum_half_width
from pmw.public.answer import Answer, Basis, Source, Spent
from pmw.public.contract import Options
from pmw.public.error_quantiles import kind_of, typical_half_width
from pmw.public.plans import QueryTestPlan, TestPlan, TierPlan
from pmw.public.state import PublicState
from queries.linear import UNITS, LinearQuery

BAR_SLACK = 1e-6  # records: what rounding may add to a bar that is as wide as an accuracy contract allows

__all__ = [
    "answer_within",
    "BAR_SLACK",
    "certified_answer",
    "certified_half_width",
    "Confidences",
    "everybody_answer",
    "is_covered",
    "measured_answer",
    "negative_margin",
    "total_error_bound",
    "total_half_width",
    "untested_answer",
    "with_typical",
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
    def of(cls, options: Options, opening: int, plan: TestPlan, *, private_total: bool) -> Confidences:
        """Return the confidences of a session.

        Intervals that hold for all questions at once share the failure probability among all noises that the
        session can ever draw: the total, the opening's measurements, each positive's, and the thresholds of
        each sparse vector, whose rounds share theirs in turn.

        Args:
            options: the stated confidence, and whether intervals hold for all questions at once.
            opening: measurements measured at opening.
            plan: the tiers of tests.
            private_total: the number of records is released with noise.
        """
        if not options.simultaneous:
            part = split_confidence(options.confidence, 2) if private_total else options.confidence
            return cls(options.confidence, part, part)
        events = 1 + opening + sum(1 + tier.update_limit for tier in plan)
        part = split_confidence(options.confidence, events)
        return cls(part, part, part)

    def of_one_end(self) -> Confidences:
        """Return the same where the two ends of an interval may rest on different noises.

        Both ends of a certificate's interval fail together, so each is given half of what may fail.
        """
        return replace(
            self,
            certificate=split_confidence(self.certificate, 2),
            total=split_confidence(self.total, 2),
        )

    @classmethod
    def in_state(cls, state: PublicState) -> Confidences:
        """Return the confidences of a session, by its public state."""
        options, private = state.contract.options, state.total.deviation > 0
        return cls.of(options, len(state.opening), state.plan, private_total=private)


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


def negative_margin(tier: TierPlan, confidence: float) -> float:
    """Return how far beyond its threshold a tested value may be where its test was negative, in units.

    Where threshold noise is redrawn, each round that the session can open has its part of the confidence: a
    round lasts longer the higher its noise came out, so that questions meet high noise more often than a
    single draw is high.
    """
    rounds = tier.update_limit if tier.sparse.redraw else 1
    return tier.sparse.test.negative_margin(split_confidence(confidence, rounds))


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
    axes = tuple(axis for axis, name in enumerate(covering.scope) if name not in query.scope)
    weights = np.expand_dims(query.weights() / UNITS, axes)
    squares = covering.weighted_variance(np.broadcast_to(weights, covering.values.shape)) / covering.variance
    noise = sum_half_width(covering.noise, squares, state.contract.options.confidence, peak=1.0)
    return query.evaluate(covering.values.sum(axis=axes)), noise


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


def total_half_width(
    composition: Composition, deviation: float, confidence: float, opening: Iterable[NoiseDistribution] = ()
) -> float:
    """Return how far the released number of records may be from the true one, in records.

    It is a weighted sum of noises of several scales, the quietest of scale s: so it is one of noises of scale
    s, whose squared weights sum to variance / var(s) and exceed those of the first, and ``sum_half_width``
    holds for it.

    Args:
        composition: which distribution the noises have: Laplace where epsilons add.
        deviation: standard deviation of the released number, in records; 0 where it is public.
        confidence: of the width.
        opening: the noises on the opening's measurements, whose sums the number takes in.
    """
    if deviation == 0:
        return 0.0
    units = deviation * UNITS
    alone: NoiseDistribution
    if composition is Composition.PURE:
        alone = DiscreteLaplace(Fraction(math.ceil(units / math.sqrt(2))))
    else:
        alone = DiscreteGaussian(Fraction(math.ceil(units)))
    quietest = min((alone, *opening), key=noise_variance)
    squares = 1.0 if quietest is alone else deviation**2 / noise_variance(quietest)
    return sum_half_width(quietest, squares, confidence)


def total_error_bound(state: PublicState, confidence: float) -> float:
    """Return how far the model's total may be from the number of records, in records.

    That is the noise of the released number, and what the model's total differs from it: a total is at least
    1, whatever came out of the noise.
    """
    total = state.total
    opening = [one.noise for one in state.opening]
    noise = total_half_width(state.ledger.composition, total.deviation, confidence, opening)
    return abs(total.value - total.estimate) + noise
