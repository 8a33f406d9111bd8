"""Fitting the model to measurements by multiplicative weights. All of it is post-processing, and free.

``step`` is the textbook's single update. ``refit`` looks for the distribution A that minimises

    sum_i (a_i(A) - y_i)^2 / (2 variance_i)  +  PRIOR_WEIGHT * KL(A || uniform),

with a_i the model's answers and y_i the measured ones: an exponential family with one dual number per
measured number, dual_i = (y_i - a_i) / (PRIOR_WEIGHT * variance_i). It takes the measurements in turn,
newest first, and solves for the dual of one of them with the others held: each such step is a multiplicative
weights update whose length is found exactly, and which stops short of the noisy number by its variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.dense import DenseCells, DenseDistribution
from pmw.model.distribution import MarginalTerm, QueryTerm, Term
from pmw.model.measurement import QueryMeasurement, SingleMeasurement, Target, target_of
from queries.linear import LinearQuery

PRIOR_WEIGHT = 1e-3  # per record; from 1e-2 to 1e-4 the stream errors differ by less than 1 %
_SWEEPS = 10  # of one refit, at most
_TOLERANCE = 0.05  # stop when no fitted number moves by more than this many standard deviations
_LARGEST_DUAL_STEP = 20.0
_FEWEST_STEPS = 8  # laying an array out again pays after about this many steps on its last axes
_LARGEST_EXPONENT = 200.0  # of steps multiplied in, together; keeps cells far from overflow


def step(
    distribution: DenseDistribution, query: LinearQuery, *, learning_rate: float, increase: bool
) -> DenseDistribution:
    """Return the distribution after one multiplicative weights update.

    A(x) becomes A(x) exp(+-learning_rate q(x)), normalised. The textbook's exp(-learning_rate r(x)) with
    r = q or 1 - q differs from this by a constant factor only.

    Args:
        learning_rate: eta, without unit.

    Source: Dwork and Roth (2014), Algorithm 5 (MW), with eta = alpha/2.
    """
    if not 0 < learning_rate < math.inf:
        raise BudgetError(f"expected a positive learning rate, got {learning_rate}")
    term = QueryTerm(query, learning_rate if increase else -learning_rate)
    terms, combined = (*distribution.terms, term), distribution.combined
    steps = [abs(one.dual) for one in terms[combined:] if isinstance(one, QueryTerm)]
    before = sum(isinstance(one, QueryTerm) for one in terms[:combined])
    cells = distribution.copied()
    # They are combined again whenever their number doubles, or their exponents grow large.
    if len(steps) >= max(_FEWEST_STEPS, before) or sum(steps) > _LARGEST_EXPONENT:
        cells.combine(terms)
        combined = len(terms)
    else:
        cells.tilt_query(term.query, term.dual)
    return cells.frozen(terms, combined)


def refit(distribution: DenseDistribution, measurements: Sequence[SingleMeasurement]) -> DenseDistribution:
    """Return the distribution fitted to all measurements, starting from the given one.

    The result depends on the duals alone, to the last bit.

    Args:
        distribution: a model whose terms fit the first measurements, in order; further measurements start
            with a dual of zero.
        measurements: at least as many as the model has terms.
    """
    terms = list(distribution.terms)
    if len(terms) > len(measurements):
        raise BudgetError(f"expected at most {len(measurements)} terms, got {len(terms)}")
    aims = [
        one if isinstance(one, QueryMeasurement) else target_of(one, distribution.total)
        for one in measurements
    ]
    terms += [aim.term(np.zeros(aim.values.shape)) for aim in aims[len(terms) :]]
    cells = distribution.copied()
    for _ in range(_SWEEPS):
        moved = 0.0
        for number in range(len(terms) - 1, -1, -1):
            terms[number], change = _solve(cells, terms[number], aims[number])
            moved = max(moved, change)
        if moved < _TOLERANCE:
            break
    cells.combine(terms)
    return cells.frozen(tuple(terms), len(terms))


def _solve(cells: DenseCells, term: Term, aim: Target | QueryMeasurement) -> tuple[Term, float]:
    """Return the term with its dual solved for, and by how many standard deviations its answer moved."""
    if isinstance(term, MarginalTerm) and isinstance(aim, Target):
        answers = cells.marginal(term.scope)
        change = _marginal_steps(term.duals, answers, aim.values, PRIOR_WEIGHT * aim.variance)
        cells.tilt_marginal(term.scope, change)
        moved = (np.abs(answers * np.expm1(change)) / np.sqrt(aim.variance)).max()
        return term.moved(change), float(moved)
    if isinstance(term, QueryTerm) and isinstance(aim, QueryMeasurement):
        return _solve_query(cells, term, aim)
    raise BudgetError("expected the terms of a model in the order of its measurements")


def _marginal_steps(
    duals: NDArray[np.float64],
    answers: NDArray[np.float64],
    targets: NDArray[np.float64],
    pull: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Solve dual + d + (answer e^d - target)/pull = 0 for d, cell by cell, by Newton's method."""
    tiny = np.maximum(answers, 1e-300)
    change = np.clip(np.log(np.maximum(targets, 1.0) / tiny), -_LARGEST_DUAL_STEP, _LARGEST_DUAL_STEP)
    for _ in range(60):
        grown = tiny * np.exp(change)
        newton = (duals + change + (grown - targets) / pull) / (1 + grown / pull)
        newton = np.clip(newton, -3.0, 3.0)
        change = change - newton
        if np.abs(newton).max() < 1e-9:
            break
    bounded: NDArray[np.float64] = np.clip(change, -_LARGEST_DUAL_STEP, _LARGEST_DUAL_STEP)
    return bounded


def _solve_query(cells: DenseCells, term: QueryTerm, measurement: QueryMeasurement) -> tuple[Term, float]:
    total, pull = cells.total, PRIOR_WEIGHT * measurement.variance
    if term.query.is_box:
        before = cells.records(term.query)
        tilted = _box_answer(before, total)
    else:
        weights, records = cells.weight_classes(term.query)
        before = float(weights @ records)
        tilted = _class_answer(weights, records, total)

    def excess(change: float) -> tuple[float, float]:
        answer, slope = tilted(change)
        return term.dual + change + (answer - measurement.value) / pull, 1 + slope / pull

    change = _root(excess)
    cells.tilt_query(term.query, change)
    moved = abs(tilted(change)[0] - before) / math.sqrt(measurement.variance)
    return replace(term, dual=term.dual + change), moved


def _box_answer(mass: float, total: float) -> Callable[[float], tuple[float, float]]:
    """Return the answer of a box query and its slope, after a tilt by e^change."""

    def tilted(change: float) -> tuple[float, float]:
        inside = mass * math.exp(change)
        answer = total * inside / (total - mass + inside)
        return answer, answer * (1 - answer / total)

    return tilted


def _class_answer(
    weights: NDArray[np.float64], records: NDArray[np.float64], total: float
) -> Callable[[float], tuple[float, float]]:
    """Return the answer of a weighted query and its slope, after a tilt by e^(change * weight)."""

    def tilted(change: float) -> tuple[float, float]:
        shares = records * np.exp(change * weights)
        shares /= shares.sum()
        mean = float(weights @ shares)
        return total * mean, total * (float(weights**2 @ shares) - mean * mean)

    return tilted


def _root(function: Callable[[float], tuple[float, float]]) -> float:
    """Return the root of an increasing function on +-20: Newton's method inside a shrinking bracket."""
    low, high = -_LARGEST_DUAL_STEP, _LARGEST_DUAL_STEP
    point = 0.0
    for _ in range(100):
        value, slope = function(point)
        if value > 0:
            high = point
        else:
            low = point
        newton = point - value / slope
        following = newton if low < newton < high else (low + high) / 2
        if abs(following - point) < 1e-10:
            return following
        point = following
    return point
