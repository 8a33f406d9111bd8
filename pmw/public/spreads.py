"""Variances, standard deviations and correlations from a session's public state, with error bars.

A mean is not known, but some point of a grid that nothing released has moved is within half a step of it. The
mean of squares, or of products, about that point is one linear form of the true table, so one event bounds
it; so do the few other points that the mean's own interval leaves. Proofs are in ``docs/aggregates.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pmw.public.bars import SumBounds
from pmw.public.group_weights import (
    GroupWeights,
    counted_values,
    multiplied_values,
    squared_values,
    summed_values,
)
from pmw.public.sums import Estimate, Sums, within
from queries.cell_values import CellValues, union_scope
from queries.statements import Correlation, Group, Spread

_Array = NDArray[np.float64]
_MEANS = 100  # candidates for a mean, across the range of the values
_MOST_PAIRS = 400  # of candidates for two means
_SPREAD_EVENTS = 3  # the mean, the mean of squares and the number of records
_CORRELATION_EVENTS = 6  # two means, two means of squares, the mean of products, the number of records


def spread(sums: Sums, node: Spread, group: Group, events: int) -> Estimate:
    """Return a variance or a standard deviation."""
    counted = sums.weights(counted_values(node.values), group)
    count = sums.model(counted)
    if count <= 1:
        return Estimate(None)
    finish = _finisher(node)
    mean = sums.model(sums.weights(summed_values(node.values), group)) / count
    square = sums.model(sums.weights(squared_values(node.values, mean), group)) / count
    value = finish(max(0.0, square), count)
    bounds = sums.bounds(counted, _SPREAD_EVENTS * events)
    if bounds is None:
        return Estimate(value)
    records = sums.ends(counted, _SPREAD_EVENTS * events)
    means = _means(sums, node.values, group, (counted, bounds))
    if records[0] <= 1 or means is None:
        return Estimate(None)
    low, high = _variance_ends(sums, node.values, group, (counted, bounds), means)
    return within(value, finish(low, records[1]), finish(high, records[0]))


def correlation(sums: Sums, node: Correlation, group: Group, events: int) -> Estimate:
    """Return a correlation of the rows that hold both numbers.

    No interval is given where a variance may be 0, or where the means may be anywhere.
    """
    domain = sums.domain
    scope = union_scope(domain, (node.one.scope, node.two.scope))
    both = node.one.placed(domain, scope), node.two.placed(domain, scope)
    both = _together(both[0], both[1]), _together(both[1], both[0])
    counted = sums.weights(counted_values(both[0]), group)
    count = sums.model(counted)
    if count <= 0:
        return Estimate(None)
    value = _modelled(sums, both, group, count)
    bounds = sums.bounds(counted, _CORRELATION_EVENTS * events)
    if value is None or bounds is None:
        return Estimate(value)
    if sums.low_end(counted, _CORRELATION_EVENTS * events) <= 1:
        return Estimate(None)
    ends = _correlation_ends(sums, both, group, (counted, bounds))
    return Estimate(value) if ends is None else within(value, *ends)


_Both = tuple[CellValues, CellValues]
_Counted = tuple[GroupWeights, SumBounds]  # the records that are meant, and what bounds their sums


def _together(values: CellValues, others: CellValues) -> CellValues:
    return CellValues(
        *(values.scope, values.low, values.middle, values.high, values.present & others.present)
    )


def _modelled(sums: Sums, both: _Both, group: Group, count: float) -> float | None:
    """Return the model's correlation, or None where it has none."""
    means = [sums.model(sums.weights(summed_values(one), group)) / count for one in both]
    one, two = both
    product = sums.model(sums.weights(multiplied_values(one, two, (means[0], means[1])), group)) / count
    squares = [
        sums.model(sums.weights(squared_values(values, mean), group)) / count
        for values, mean in zip(both, means, strict=True)
    ]
    scale = math.sqrt(max(0.0, squares[0] * squares[1]))
    return max(-1.0, min(1.0, product / scale)) if scale > 0 else None


def _correlation_ends(sums: Sums, both: _Both, group: Group, counted: _Counted) -> tuple[float, float] | None:
    """Return what a correlation lies between; None where that cannot be told.

    About the grid's points nearest to both means, the mean of products is the covariance and at most
    h k / 4 more or less, for steps h and k.
    """
    means = [_means(sums, values, group, counted) for values in both]
    if means[0] is None or means[1] is None or len(means[0]) * len(means[1]) > _MOST_PAIRS:
        return None
    variances = [
        _variance_ends(sums, values, group, counted, tried)
        for values, tried in zip(both, (means[0], means[1]), strict=True)
    ]
    if variances[0][0] <= 0 or variances[1][0] <= 0:
        return None
    found = []
    for centres in itertools.product(means[0], means[1]):
        products = sums.weights(multiplied_values(*both, centres), group)
        found.append(sums.ratio_ends(products, *counted) or (-math.inf, math.inf))
    lows, highs = zip(*found, strict=True)
    slack = _step(both[0]) * _step(both[1]) / 4
    covariances = min(lows) - slack, max(highs) + slack
    scales = [math.sqrt(one * two) for one, two in zip(*variances, strict=True)]
    corners = [covariance / scale for covariance in covariances for scale in scales]
    return max(-1.0, min(corners)), min(1.0, max(corners))


def _step(values: CellValues) -> float:
    least, greatest = _range(values)
    return (greatest - least) / _MEANS


def _range(values: CellValues) -> tuple[float, float]:
    return float(values.low[values.present].min()), float(values.high[values.present].max())


def _means(sums: Sums, values: CellValues, group: Group, counted: _Counted) -> list[float] | None:
    """Return the points of the grid within half a step of what the mean may be; None where it has no ends."""
    mean = sums.ratio_ends(sums.weights(summed_values(values), group), *counted)
    if mean is None:
        return None
    least, step = _range(values)[0], _step(values)
    tried = [least + number * step for number in range(_MEANS + 1)]
    half = step / 2 * (1 + 1e-9)
    return [one for one in tried if mean[0] - half <= one <= mean[1] + half]


def _variance_ends(
    sums: Sums, values: CellValues, group: Group, counted: _Counted, means: list[float]
) -> tuple[float, float]:
    """Return what the variance lies between, over n records.

    At the point nearest to the true mean, within half a step h of it, the mean of (x - m)^2 is the variance
    and at most h^2/4 more.
    """
    least, greatest = _range(values)
    most = (greatest - least) ** 2 / 4
    found = []
    for tried in means:
        squares = sums.weights(squared_values(values, tried), group)
        found.append(sums.ratio_ends(squares, *counted) or (0.0, math.inf))
    lows, highs = zip(*found, strict=True) if found else ((0.0,), (most,))
    return max(0.0, min(lows) - _step(values) ** 2 / 4), min(max(highs), most)


def _finisher(node: Spread) -> Callable[[float, float], float]:
    """Return what makes a variance over n records, and n, the number that is asked for."""

    def finish(variance: float, records: float) -> float:
        found = variance * records / (records - 1) if node.sample else variance
        return math.sqrt(found) if node.root else found

    return finish
