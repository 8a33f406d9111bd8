"""Aggregates from a session's public state: sums, means, quantiles and spreads of a group, with error bars.

Everything here is post-processing of released numbers: no record is touched, and nothing is spent. Values
come from the model; intervals from what is known of the aggregate's scope (``pmw.public.linear_bounds``).

* A sum is one linear form.
* A mean, or a ratio of sums, is the set of r for which numerator - r denominator may be 0 (Fieller 1954):
  one event for both. It is undefined where the denominator's bar reaches 0.
* A quantile inverts a test at each threshold of the cumulative counts: the true value's own threshold is one
  fixed linear form, so each end fails with half of what may fail, without a union over thresholds.
* A variance is the mean of (x - m)^2 at the true mean m, for every m that the mean's own interval leaves.
* A correlation has a value and no interval.

Proofs are in ``docs/aggregates.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.public.group_weights import (
    GroupWeights,
    counted_values,
    following_question,
    group_weights,
    squared_values,
    summed_values,
)
from pmw.public.linear_bounds import LinearBounds, linear_bounds
from pmw.public.state import PublicState
from queries.cell_values import CellCondition, CellValues, on_scope, union_scope
from queries.linear import LinearQuery
from queries.statements import AggregateNode, Correlation, Group, Linear, Quantile, Ratio, Spread, Statement

__all__ = [
    "Aggregates",
    "Estimate",
]

_Array = NDArray[np.float64]
_STEPS = 32  # of a bisection
_MEANS = 100  # candidates for the mean of a variance, across the range of the values
_MOST_THRESHOLDS = 20_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an aggregate comes to.

    Args:
        value: None where it is undefined: it may be a division by nobody.
        interval: holds the true value with the stated confidence; None where nothing is promised.
    """

    value: float | None
    interval: tuple[float, float] | None = None


class Aggregates:
    """The aggregates of a statement in one state; what they have in common is computed once.

    Args:
        state: the state after the statement's counting questions.
        statement: whose conditions and groups are meant.
    """

    def __init__(self, state: PublicState, statement: Statement) -> None:
        self._state = state
        self._statement = statement
        self._domain = statement.domain
        self._models: dict[tuple[str, ...], _Array] = {}

    def estimate(self, node: AggregateNode, group: Group, *, events: int = 1) -> Estimate:
        """Return what an aggregate comes to in a group.

        Args:
            node: the aggregate.
            group: the group.
            events: how many aggregates' intervals have to hold together.
        """
        if isinstance(node, Linear):
            return self._sum(self._weights(node, group), events)
        if isinstance(node, Ratio):
            return self._ratio(*self._pair(node, group), events)
        if isinstance(node, Quantile):
            return self._quantile(node, group, events)
        if isinstance(node, Spread):
            return self._spread(node, group, events)
        return self._correlation(node, group)

    def is_in_order(self, place: int) -> bool:
        """Tell whether the groups of one of the statement's groupings stand in the order of their values."""
        return self._statement.groupings[place].in_order

    def question(self, node: AggregateNode, group: Group) -> LinearQuery:
        """Return the counting question of an aggregate in a group: its own, or one with its scope.

        A number of records is its own question. For any other aggregate it is a question with weights that
        follow the numbers, over the same attributes: what answers it bounds the aggregate as well.
        """
        if isinstance(node, Linear):
            weights = self._weights(node, group)
            if node.counting:
                condition = CellCondition(weights.scope, weights.low > 0, weights.middle, weights.high > 0)
                return condition.query(self._domain)
            parts = [weights]
        elif isinstance(node, Ratio):
            parts = list(self._pair(node, group))
        else:
            values = [node.one, node.two] if isinstance(node, Correlation) else [node.values]
            parts = [self._weights(summed_values(one), group) for one in values]
        return following_question(self._domain, parts)

    # --- sums and ratios ------------------------------------------------------------------------------------

    def _weights(self, form: Linear, group: Group, extra: tuple[str, ...] = ()) -> GroupWeights:
        return group_weights(self._statement, form, group, extra)

    def _pair(self, node: Ratio, group: Group) -> tuple[GroupWeights, GroupWeights]:
        forms = (node.numerator, node.denominator)
        scopes = [form.scope for form in forms] + [group.scope for form in forms if form.grouped]
        scope = union_scope(self._domain, scopes)
        above, below = (self._weights(form, group, scope) for form in forms)
        return above, below

    def _model(self, weights: GroupWeights, *, of: _Array | None = None) -> float:
        scope = weights.scope
        if scope not in self._models:
            marginal = np.array(self._state.total.value) if not scope else self._state.model.marginal(scope)
            self._models[scope] = np.asarray(marginal, dtype=np.float64)
        return float(np.sum((weights.middle if of is None else of) * self._models[scope]))

    def _bounds(self, weights: GroupWeights, events: int) -> LinearBounds | None:
        return linear_bounds(self._state, weights.scope, weights.high, events=events)

    def _sum(self, weights: GroupWeights, events: int) -> Estimate:
        value, bounds = self._model(weights), self._bounds(weights, events)
        if bounds is None:
            return Estimate(value)
        return _within(value, bounds.low(weights.low), bounds.high(weights.high))

    def _ratio(self, above: GroupWeights, below: GroupWeights, events: int) -> Estimate:
        divisor = self._model(below)
        bounds = self._bounds(below, events)
        if bounds is None:
            return Estimate(self._model(above) / divisor if divisor > 0 else None)
        ends = self._ratio_ends(above, below, bounds)
        if ends is None or divisor <= 0:
            return Estimate(None)
        return _within(self._model(above) / divisor, *ends)

    def _ratio_ends(
        self, above: GroupWeights, below: GroupWeights, bounds: LinearBounds
    ) -> tuple[float, float] | None:
        """Return the least and the greatest r for which the two sums may be equal; None for no end."""
        least = bounds.low(below.low)
        if least <= 0:
            return None
        hard = _hard_ends(above, below)
        reach = 2 * max(abs(bounds.low(above.low)), abs(bounds.high(above.high))) / least
        low, high = max(hard[0], -reach), min(hard[1], reach)
        top = _last(lambda r: bounds.high(above.minus(r, below).high) >= 0, low, high)
        bottom = -_last(lambda r: bounds.low(above.minus(-r, below).low) <= 0, -high, -low)
        return bottom, top

    # --- quantiles ------------------------------------------------------------------------------------------

    def _quantile(self, node: Quantile, group: Group, events: int) -> Estimate:
        counted = self._weights(counted_values(node.values), group)
        bounds = self._bounds(counted, events)
        value = self._quantile_of_model(node, counted)
        if bounds is None or value is None:
            return Estimate(value)
        if bounds.low(counted.low) <= 0:
            return Estimate(None)
        low, high = (
            np.where(counted.high > 0, self._placed(node.values, counted.scope, end), math.nan)
            for end in (node.values.low, node.values.high)
        )
        below, beyond = (0.0, 0.0) if node.extreme else (-node.part, 1 - node.part)
        if node.extreme:
            return self._extreme(node.part, low, high, counted, bounds)
        bottom = _first_end(low, counted, bounds, node.part, below)
        top = _last_end(high, counted, bounds, node.part, beyond)
        return _within(value, bottom, top)

    def _extreme(
        self, part: float, low: _Array, high: _Array, counted: GroupWeights, bounds: LinearBounds
    ) -> Estimate:
        """Return the outermost value that is sure to be there, and what the true one lies between."""
        if part == 1:  # the greatest number is minus the least of the negative ones
            found = self._extreme(0, -high, -low, counted, bounds)
            if found.value is None or found.interval is None:
                return found
            return Estimate(-found.value, (-found.interval[1], -found.interval[0]))
        bottom = _first_end(low, counted, bounds, 0.0, 1.0)
        top = _last_end(high, counted, bounds, 0.0, 0.0)
        return Estimate(top, (min(bottom, top), top))

    def _placed(self, values: CellValues, scope: tuple[str, ...], array: _Array) -> _Array:
        return np.broadcast_to(
            on_scope(self._domain, values.scope, array, scope), self._domain.scope_shape(scope)
        )

    def _quantile_of_model(self, node: Quantile, counted: GroupWeights) -> float | None:
        """Return the model's quantile; values are taken as evenly spread inside a cell."""
        low, high = (
            self._placed(node.values, counted.scope, end) for end in (node.values.low, node.values.high)
        )
        self._model(counted)
        mass = np.maximum(counted.middle * self._models[counted.scope], 0.0)
        whole = float(mass.sum())
        if whole <= 0:
            return None
        order = np.argsort((low + high)[mass > 0] / 2, kind="stable")
        low, high, mass = (one[mass > 0][order] for one in (low, high, mass))
        reached = np.cumsum(mass)
        place = min(int(np.searchsorted(reached, node.part * whole)), len(reached) - 1)
        inside = (node.part * whole - (reached[place] - mass[place])) / mass[place]
        return float(low[place] + (high[place] - low[place]) * min(max(inside, 0.0), 1.0))

    # --- spreads --------------------------------------------------------------------------------------------

    def _spread(self, node: Spread, group: Group, events: int) -> Estimate:
        counted = self._weights(counted_values(node.values), group)
        count = self._model(counted)
        if count <= 1:
            return Estimate(None)
        finish = _finisher(node)
        mean = self._model(self._weights(summed_values(node.values), group)) / count
        square = self._model(self._weights(squared_values(node.values, mean), group)) / count
        value = finish(max(0.0, square), count)
        bounds = self._bounds(counted, 3 * events)
        if bounds is None:
            return Estimate(value)
        records = bounds.low(counted.low), bounds.high(counted.high)
        if records[0] <= 1:
            return Estimate(None)
        ends = self._variance_ends(node.values, group, counted, bounds)
        if ends is None:
            return Estimate(None)
        return _within(value, finish(ends[0], records[1]), finish(ends[1], records[0]))

    def _variance_ends(
        self, values: CellValues, group: Group, counted: GroupWeights, bounds: LinearBounds
    ) -> tuple[float, float] | None:
        """Return what the variance lies between, over n records.

        The means on a grid that nothing released has moved are tried: at the one nearest to the true mean,
        within half a step h of it, the mean of (x - m)^2 is the variance and at most h^2/4 more.
        """
        mean = self._ratio_ends(self._weights(summed_values(values), group), counted, bounds)
        if mean is None:
            return None
        least, greatest = float(values.low[values.present].min()), float(values.high[values.present].max())
        step = (greatest - least) / _MEANS
        found = []
        for number in range(_MEANS + 1):
            tried = least + number * step
            if mean[0] - step / 2 <= tried <= mean[1] + step / 2:
                squares = self._weights(squared_values(values, tried), group)
                found.append(self._ratio_ends(squares, counted, bounds) or (0.0, math.inf))
        lows, highs = zip(*found, strict=True) if found else ((0.0,), ((greatest - least) ** 2 / 4,))
        return max(0.0, min(lows) - step**2 / 4), min(max(highs), (greatest - least) ** 2 / 4)

    def _correlation(self, node: Correlation, group: Group) -> Estimate:
        """Return the model's correlation; no interval is known that holds and says something."""
        scope = union_scope(self._domain, (node.one.scope, node.two.scope))
        one, two = node.one.placed(self._domain, scope), node.two.placed(self._domain, scope)
        present = one.present & two.present

        def mean(numbers: _Array) -> float:
            numbers = np.where(present, numbers, 0.0)
            return self._model(self._weights(Linear(scope, numbers, numbers, numbers), group)) / count

        ones = np.where(present, 1.0, 0.0)
        count = self._model(self._weights(Linear(scope, ones, ones, ones), group))
        if count <= 0:
            return Estimate(None)
        x, y = one.middle - mean(one.middle), two.middle - mean(two.middle)
        scale = math.sqrt(max(0.0, mean(x * x) * mean(y * y)))
        return Estimate(max(-1.0, min(1.0, mean(x * y) / scale)) if scale > 0 else None)


def _finisher(node: Spread) -> Callable[[float, float], float]:
    """Return what makes a variance over n records, and n, the number that is asked for."""

    def finish(variance: float, records: float) -> float:
        found = variance * records / (records - 1) if node.sample else variance
        return math.sqrt(found) if node.root else found

    return finish


def _within(value: float, low: float, high: float) -> Estimate:
    """Return a value and its interval; the value is moved into it, for no record is where it is not."""
    if low > high:  # what may fail has failed, or rounding: nothing is narrower than the value
        low, high = min(low, high), max(low, high)
    return Estimate(min(max(value, low), high), (low, high))


def _hard_ends(above: GroupWeights, below: GroupWeights) -> tuple[float, float]:
    """Return what a ratio lies between on every table, where a record without a divisor has no numerator."""
    inside = below.low > 0
    empty = (below.high == 0) & (above.low == 0) & (above.high == 0)
    if not np.all(inside | empty) or not inside.any():
        return -math.inf, math.inf
    corners = [
        one[inside] / two[inside] for one in (above.low, above.high) for two in (below.low, below.high)
    ]
    return float(min(one.min() for one in corners)), float(max(one.max() for one in corners))


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the greatest number in a range where a condition holds that holds up to it, from above."""
    if low >= high or holds(high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def _first_end(low: _Array, counted: GroupWeights, bounds: LinearBounds, part: float, beyond: float) -> float:
    """Return the least l such that sum (1[low <= l] - part) may be ``beyond`` or more."""
    ends = np.unique(low[~np.isnan(low)])
    if len(ends) > _MOST_THRESHOLDS:
        return float(ends[0])
    for end in ends:
        with np.errstate(invalid="ignore"):
            inside = low <= end
        if bounds.high(_shifted(inside, part, counted)[1]) >= beyond:
            return float(end)
    return float(ends[-1])


def _last_end(high: _Array, counted: GroupWeights, bounds: LinearBounds, part: float, beyond: float) -> float:
    """Return the greatest h such that sum (1[high < h] - part) may be ``beyond`` or less."""
    ends = np.unique(high[~np.isnan(high)])
    if len(ends) > _MOST_THRESHOLDS:
        return float(ends[-1])
    for end in ends[::-1]:
        with np.errstate(invalid="ignore"):
            inside = high < end
        if bounds.low(_shifted(inside, part, counted)[0]) <= beyond:
            return float(end)
    return float(ends[0])


def _shifted(inside: NDArray[np.bool_], part: float, counted: GroupWeights) -> tuple[_Array, _Array]:
    """Return the least and the greatest weight of 1[inside] - part for records that may be counted."""
    weight = inside - part
    low = np.where(counted.low > 0, weight, np.where(counted.high > 0, np.minimum(weight, 0.0), 0.0))
    high = np.where(counted.low > 0, weight, np.where(counted.high > 0, np.maximum(weight, 0.0), 0.0))
    return low, high
