"""Bounds on weighted sums of records over one scope, for any real weights, from released numbers alone.

A query has weights in [0, 1]; the sum of a number, or the sum that decides whether a mean may be r, has any
weights. What holds a scope bounds these too:

* noise of a measured marginal: a quantile of sum w_i X_i, a function of sum w_i^2 (``sum_half_width``);
* a certificate: (max w - min w)/2 S + |max w + min w|/2 |delta| (``certificate_half_width``).

A weight that is known to lie between two ends gives two sums. Each end of an interval fails with half of what
may fail where it rests on a symmetric noise, so both hold as stated; a certificate holds for all at once.
Proofs are in ``docs/aggregates.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pmw.model import CombinedMarginal, HierarchicalMeasurement, MarginalValues, OneWayMeasurement
from pmw.privacy.tail_bounds import (
    certificate_half_width,
    simultaneous_half_width,
    split_confidence,
    sum_half_width,
)
from pmw.public.evidence import Known, known_of, opened_over
from pmw.public.intervals import Confidences, negative_margin, total_error_bound
from pmw.public.plans import marginal_tier
from pmw.public.state import Certificate, PublicState
from queries.linear import UNITS

__all__ = [
    "linear_bounds",
    "LinearBounds",
]

_Weights = NDArray[np.float64]
_HalfWidth = Callable[[_Weights], float]


@dataclass(frozen=True, slots=True)
class LinearBounds:
    """What is known of the sums over one scope.

    Args:
        values: float64, records per cell, one axis per attribute; declared cells, or bins of them.
        half_width: how far a sum with such weights may be from the one on the values.
        least, greatest: the least and the greatest weight on these cells, of weights on declared cells.
    """

    values: NDArray[np.float64]
    half_width: _HalfWidth
    least: Callable[[_Weights], _Weights]
    greatest: Callable[[_Weights], _Weights]

    def low(self, weights: _Weights) -> float:
        """Return a number that the sum with these weights, or greater ones, is at least."""
        reduced = self.least(weights)
        return float(np.sum(reduced * self.values)) - self.half_width(reduced)

    def high(self, weights: _Weights) -> float:
        """Return a number that the sum with these weights, or smaller ones, is at most."""
        reduced = self.greatest(weights)
        return float(np.sum(reduced * self.values)) + self.half_width(reduced)


def linear_bounds(
    state: PublicState, scope: tuple[str, ...], example: _Weights, *, events: int = 1
) -> LinearBounds | None:
    """Return the bounds on sums over a scope, or None where nothing released holds it.

    Args:
        state: the state.
        scope: attribute names in declared order.
        example: float64, weights of such a sum: of several bounds the one with the smallest half-width is
            taken. That does not depend on noise.
        events: how many bounds have to hold together, each with its part of what may fail.
    """
    confidences = Confidences.in_state(state)
    if events > 1 and not state.contract.options.simultaneous:
        confidences = Confidences(
            *(
                split_confidence(one, events)
                for one in (confidences.alone, confidences.certificate, confidences.total)
            )
        )
    if not scope:
        error = total_error_bound(state, confidences.alone)
        everybody = np.array(state.total.value)
        return LinearBounds(everybody, lambda weights: float(np.abs(weights).max()) * error, _same, _same)
    fine: Sequence[OneWayMeasurement | Known]
    coarse: Sequence[Known]
    fine, coarse = opened_over(state, scope)
    if not fine:
        fine, coarse = known_of(state, scope)
    found = [_bounds(state, one, scope, confidences, binned=False) for one in fine]
    if not found:
        found = [_bounds(state, one, scope, confidences, binned=True) for one in coarse]
    if not found:
        return None
    return min(found, key=lambda one: one.half_width(one.greatest(example)))


def _same(weights: _Weights) -> _Weights:
    return weights


def _bounds(
    state: PublicState,
    known: OneWayMeasurement | Known,
    scope: tuple[str, ...],
    confidences: Confidences,
    *,
    binned: bool,
) -> LinearBounds:
    axes = tuple(axis for axis, name in enumerate(known.scope) if name not in scope)
    if isinstance(known, Certificate):
        values = (known.units / UNITS).sum(axis=axes)
        found = LinearBounds(values, _certified(state, known, confidences), _same, _same)
    else:
        simultaneous = state.contract.options.simultaneous
        values = (_drawn(known) if simultaneous else known.values).sum(axis=axes)
        width = _at_once(known, confidences.alone) if simultaneous else _noisy(known, axes, confidences.alone)
        found = LinearBounds(values, width, _same, _same)
    if not binned:
        return found
    coarsening = state.coarsening
    return replace(
        found,
        least=lambda weights: coarsening.least(scope, weights),
        greatest=lambda weights: coarsening.greatest(scope, weights),
    )


def _certified(state: PublicState, certificate: Certificate, confidences: Confidences) -> _HalfWidth:
    plan = marginal_tier(state.plan)
    if plan is None:
        return lambda _: math.inf
    statistic = (certificate.threshold + negative_margin(plan, confidences.certificate)) / UNITS
    error = total_error_bound(state, confidences.total)
    cells = certificate.units.size

    def half_width(weights: _Weights) -> float:
        ends = float(weights.min()), float(weights.max())
        return certificate_half_width(statistic, error, cells, weights=ends)

    return half_width


def _noisy(
    measurement: OneWayMeasurement | MarginalValues, axes: tuple[int, ...], confidence: float
) -> _HalfWidth:
    repeated = math.prod([measurement.values.shape[axis] for axis in axes])

    def half_width(weights: _Weights) -> float:
        if isinstance(measurement, HierarchicalMeasurement):
            spread = np.broadcast_to(np.expand_dims(weights, axes), measurement.values.shape)
            squares = measurement.weighted_variance(spread) / measurement.variance
            return sum_half_width(measurement.noise, squares, confidence)
        squares, peak = float(np.sum(weights**2)) * repeated, float(np.max(weights**2))
        if isinstance(measurement, CombinedMarginal):
            squares, peak = squares * measurement.squares, peak * measurement.peak
        return sum_half_width(measurement.noise, squares, confidence, peak=peak or None)

    return half_width


def _at_once(measurement: OneWayMeasurement | MarginalValues, confidence: float) -> _HalfWidth:
    """Return half-widths that hold for all weights at once.

    With P and N the sums of the positive and the negative parts of the noise, both at most W in one event,
    sum w_i X_i is at most max(w, 0) P - min(w, 0) N: at most (max(w, 0) - min(w, 0)) W.
    """
    width = simultaneous_half_width(measurement.noise, _drawn(measurement).size, confidence)
    return lambda weights: (max(float(weights.max()), 0.0) - min(float(weights.min()), 0.0)) * width


def _drawn(measurement: OneWayMeasurement | MarginalValues) -> NDArray[np.float64]:
    """Return the cells' own noisy counts: noise that least squares leaves on a histogram hangs together."""
    return measurement.cell_values if isinstance(measurement, HierarchicalMeasurement) else measurement.values
