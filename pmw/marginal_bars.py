"""Error bars where whole marginals are tested and bought, from public numbers alone.

A question over a scope is held by evidence of two kinds: the noise of a bought marginal that contains the
scope, or a certificate of a marginal that does. A question that cuts a group of cells lies, cell by cell,
between its inner and its outer query on the groups: the low end is the inner one's, the high end the outer
one's. Proofs are in ``docs/marginal-test.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pmw.answers import Answer, Source, Spent
from pmw.error_bars import Confidences, answer_within, total_half_width
from pmw.model import MarginalMeasurement, OneWayMeasurement
from pmw.noise_bounds import (
    certificate_half_width,
    simultaneous_half_width,
    split_confidence,
    sum_half_width,
)
from pmw.policy import MarginalTestPlan
from pmw.state import Certificate, PublicState
from queries.linear import UNITS, LinearQuery

__all__ = [
    "certificate_bound",
    "is_fine",
    "is_held",
    "Known",
    "known_of",
    "marginal_answer",
    "negative_half_width",
    "opening_over",
]


Known: TypeAlias = MarginalMeasurement | Certificate


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What bounds a query: a number, and how far the truth may be from it, in records."""

    value: float
    half_width: float


def marginal_answer(state: PublicState, query: LinearQuery, spent: Spent, *, bought: bool = False) -> Answer:
    """Return the model's answer to a question, within what released numbers and tests promise.

    Args:
        state: the state after the tests that the question asked for.
        query: the question.
        spent: what the session had spent.
        bought: a marginal was bought for it.
    """
    if not query.scope:
        return answer_within(state, query, *_everybody(state, query), Source.SYNTHETIC, spent)
    count = _count(state, query)
    interval = _interval(state, query)
    source = Source.MEASURED if bought and interval is not None else Source.SYNTHETIC
    if interval is None:
        spendable = not state.closed and state.positives_used < state.positives_limit
        source = Source.UNVERIFIED if spendable else Source.EXHAUSTED
    else:  # the answer lies within its interval
        interval = (min(interval[0], count), max(interval[1], count))
    return answer_within(state, query, count, interval, source, spent)


def is_held(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers or a certificate bound the error of a question."""
    if not query.scope or opening_over(state, query.scope) is not None:
        return True
    wanted = set(query.scope)
    held = [one.scope for one in state.marginals]
    return any(wanted <= set(scope) for scope in (*held, *state.certificates))


def _count(state: PublicState, query: LinearQuery) -> float:
    """Return the model's answer.

    Where a marginal says more of the scope than the model can know, since it is kept beside the model, or is
    on declared cells of a group that the question cuts, the answer is moved to within one standard deviation
    of what the marginal says.
    """
    count = state.model.answer(query)
    wanted = set(query.scope)
    cut: bool | None = None
    for place in reversed(range(len(state.measured))):
        one = state.measured[place]
        if not isinstance(one, MarginalMeasurement) or not wanted <= set(one.scope):
            continue
        if place not in state.beside:
            cut = not state.coarsening.is_aligned(query) if cut is None else cut
            if not (cut and is_fine(state, one)):
                continue
        value, deviation = _weighed(state, one, query)
        return min(max(count, value - deviation), value + deviation)
    return count


def _weighed(state: PublicState, measurement: MarginalMeasurement, query: LinearQuery) -> tuple[float, float]:
    """Return what a bought marginal says of a question, and its standard deviation, in records."""
    axes = _others(measurement.scope, query)
    values = measurement.values.sum(axis=axes)
    squares = np.full(values.shape, measurement.units.size / values.size)
    factors = state.coarsening.weights(query)
    if is_fine(state, measurement):
        factors = [(query.scope, query.weights() / UNITS)]
    for names, weights in factors:
        shape = [size if name in names else 1 for name, size in zip(query.scope, values.shape, strict=True)]
        values = values * weights.reshape(shape)
        squares = squares * weights.reshape(shape) ** 2
    return float(values.sum()), math.sqrt(float(squares.sum()) * measurement.variance)


def _interval(state: PublicState, query: LinearQuery) -> tuple[float, float] | None:
    opening = opening_over(state, query.scope)
    if opening is not None:
        found = _of_noise(state, opening, query)
        return found.value - found.half_width, found.value + found.half_width
    coarsening = state.coarsening
    fine, coarse = known_of(state, query.scope)
    if coarsening.is_aligned(query):
        return _bounds(state, (query, fine), (coarsening.inner(query), coarse))
    if fine:  # the groups that the question cuts have been looked into
        return _bounds(state, (query, fine))
    inner, outer = (
        _bounds(state, (one, coarse)) for one in (coarsening.inner(query), coarsening.outer(query))
    )
    return None if inner is None or outer is None else (inner[0], outer[1])


def _bounds(state: PublicState, *known: tuple[LinearQuery, Sequence[Known]]) -> tuple[float, float] | None:
    """Return the interval of the evidence with the smallest half-width; it does not depend on noise.

    Args:
        state: the state.
        known: a question, and what is known of a scope that contains its own, on the same cells.
    """
    evidence = []
    for query, pieces in known:
        if not query.scope:  # one weight, or none where a group was cut: everybody, or nobody
            return _everybody(state, query)[1]
        evidence += [_evidence(state, one, query) for one in pieces]
    found = min(evidence, key=lambda one: one.half_width, default=None)
    return None if found is None else (found.value - found.half_width, found.value + found.half_width)


def _everybody(state: PublicState, query: LinearQuery) -> tuple[float, tuple[float, float]]:
    """Return the answer to a question of one weight for everybody, and its interval."""
    weight = query.constant / UNITS
    count, width = weight * state.total.value, weight * _misfit(state, Confidences.in_state(state).alone)
    return count, (count - width, count + width)


def known_of(state: PublicState, scope: tuple[str, ...]) -> tuple[list[Known], list[Known]]:
    """Return what is known of a scope: on declared cells, and on groups of them."""
    wanted = set(scope)
    known: list[Known] = [one for one in state.marginals if wanted <= set(one.scope)]
    certificate = state.certificates.get(scope)
    if certificate is not None:
        known.append(certificate)
    else:
        known += [one for wider, one in state.certificates.items() if wanted <= set(wider)]
    fine = [one for one in known if is_fine(state, one)]
    return fine, [one for one in known if not is_fine(state, one)]


def is_fine(state: PublicState, known: Known) -> bool:
    """Tell whether something is known on declared cells that are grouped elsewhere."""
    return known.units.shape != state.coarsening.coarse.scope_shape(known.scope)


def _evidence(state: PublicState, known: Known, query: LinearQuery) -> _Evidence:
    if isinstance(known, Certificate):
        return _of_certificate(state, known, query)
    return _of_noise(state, known, query)


def opening_over(state: PublicState, scope: tuple[str, ...]) -> OneWayMeasurement | None:
    """Return what opening bought over a scope, on the declared cells."""
    wanted = set(scope)
    return next((one for one in state.opening if wanted <= set(one.scope)), None)


def _of_noise(state: PublicState, measurement: OneWayMeasurement, query: LinearQuery) -> _Evidence:
    axes, noise = _others(measurement.scope, query), measurement.noise
    confidence, values = Confidences.in_state(state).alone, measurement.values
    if state.contract.options.simultaneous:
        # A tree's cells are taken as they were drawn, for the noise of least squares is not independent.
        drawn = values if isinstance(measurement, MarginalMeasurement) else measurement.cell_values
        half_width = simultaneous_half_width(noise, drawn.size, confidence)
        return _Evidence(query.evaluate(drawn.sum(axis=axes)), half_width)
    if isinstance(measurement, MarginalMeasurement):
        repeated = math.prod(values.shape[axis] for axis in axes)
        squares = float(np.sum((query.weights() / UNITS) ** 2)) * repeated
    else:
        squares = measurement.weighted_variance(query.weights() / UNITS) / measurement.variance
    # Least squares too gives no number a weight beyond 1.
    half_width = sum_half_width(noise, squares, confidence, peak=1.0)
    return _Evidence(query.evaluate(values.sum(axis=axes)), half_width)


def _of_certificate(state: PublicState, certificate: Certificate, query: LinearQuery) -> _Evidence:
    axes = _others(certificate.scope, query)
    value = query.evaluate((certificate.units / UNITS).sum(axis=axes))
    return _Evidence(value, certificate_bound(state, certificate))


def certificate_bound(state: PublicState, certificate: Certificate) -> float:
    """Return how far any question on the tested cells may be from the tested marginal, in records."""
    if not isinstance(state.plan, MarginalTestPlan):
        return math.inf
    confidences = Confidences.in_state(state)
    misfit = _misfit(state, confidences.total)
    return negative_half_width(state.plan, certificate.threshold, certificate.units.size, confidences, misfit)


def negative_half_width(
    plan: MarginalTestPlan, threshold: int, cells: int, confidences: Confidences, misfit: float
) -> float:
    """Return how far any question may be from a marginal whose test was negative, in records.

    Args:
        plan: the test.
        threshold: T of the test, in units.
        cells: of the marginal.
        confidences: of the threshold noise, which all rounds that the session can open share.
        misfit: how far the model's total may be from the number of records, in records.
    """
    rounds = plan.update_limit if plan.sparse.redraw else 1
    margin = plan.sparse.test.negative_margin(split_confidence(confidences.certificate, rounds))
    return certificate_half_width((threshold + margin) / UNITS, misfit, cells)


def _misfit(state: PublicState, confidence: float) -> float:
    """Return how far the model's total may be from the number of records."""
    total = state.total
    noise = total_half_width(state.ledger.composition, total.deviation, confidence)
    return abs(total.value - total.estimate) + noise


def _others(scope: tuple[str, ...], query: LinearQuery) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(scope) if name not in query.scope)
