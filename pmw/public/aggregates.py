"""Aggregates from a session's public state: sums, means, quantiles and spreads of a group, with error bars.

Everything here is post-processing of released numbers: no record is touched, and nothing is spent. Values
come from the model; intervals from what is known of the aggregate's scope (``pmw.public.bars``).

* A sum is one linear form.
* A mean, or a ratio of sums, is the set of r for which numerator - r denominator may be 0 (Fieller 1954):
  one event for both. It is undefined where the denominator may be 0.
* A quantile inverts a test at each threshold of the cumulative counts: the true value's own threshold is one
  fixed linear form, so each end fails with half of what may fail, without a union over thresholds.
* Variances and correlations are in ``pmw.public.spreads``.

Proofs are in ``docs/aggregates.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.public.bars import SumBounds
from pmw.public.group_weights import GroupWeights, counted_values, following_question, summed_values
from pmw.public.spreads import correlation, spread
from pmw.public.state import PublicState
from pmw.public.sums import Estimate, Sums, within
from queries.cell_values import CellCondition, CellValues, on_scope
from queries.linear import LinearQuery
from queries.statements import AggregateNode, Correlation, Group, Linear, Quantile, Ratio, Spread, Statement

_Array = NDArray[np.float64]
_MOST_THRESHOLDS = 20_000


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
        self._sums = Sums(state, statement)
        self._filtered: dict[CellCondition, Aggregates] = {}

    def estimate(self, node: AggregateNode, group: Group, *, events: int = 1) -> Estimate:
        """Return what an aggregate comes to in a group.

        Args:
            node: the aggregate.
            group: the group.
            events: how many aggregates' intervals have to hold together.
        """
        if not isinstance(node, Linear | Ratio) and node.condition is not None:
            return self._where(node.condition).estimate(replace(node, condition=None), group, events=events)
        if isinstance(node, Linear):
            return self._sum(self._weights(node, group), events)
        if isinstance(node, Ratio):
            return self._ratio(*self._sums.pair(node, group), events)
        if isinstance(node, Quantile):
            return self._quantile(node, group, events)
        if isinstance(node, Spread):
            return spread(self._sums, node, group, events)
        return correlation(self._sums, node, group, events)

    def is_in_order(self, place: int) -> bool:
        """Tell whether the groups of one of the statement's groupings stand in the order of their values."""
        return self._statement.groupings[place].in_order

    def question(self, node: AggregateNode, group: Group) -> LinearQuery:
        """Return the counting question of an aggregate in a group: its own, or one with its scope.

        A number of records is its own question. For any other aggregate it is a question with weights that
        follow the numbers, over the same attributes: what answers it bounds the aggregate as well.
        """
        if not isinstance(node, Linear | Ratio) and node.condition is not None:
            return self._where(node.condition).question(replace(node, condition=None), group)
        if isinstance(node, Linear):
            weights = self._weights(node, group)
            if node.counting:
                condition = CellCondition(weights.scope, weights.low > 0, weights.middle, weights.high > 0)
                return condition.query(self._domain)
            parts = [weights]
        elif isinstance(node, Ratio):
            parts = list(self._sums.pair(node, group))
        else:
            values = [node.one, node.two] if isinstance(node, Correlation) else [node.values]
            parts = [self._weights(summed_values(one), group) for one in values]
        return following_question(self._domain, parts)

    def _where(self, condition: CellCondition) -> Aggregates:
        """Return the aggregates of the records where a further condition holds."""
        if condition not in self._filtered:
            where = self._statement.where.both(condition, self._domain)
            self._filtered[condition] = Aggregates(self._state, replace(self._statement, where=where))
        return self._filtered[condition]

    # --- sums and ratios ------------------------------------------------------------------------------------

    def _weights(self, form: Linear, group: Group) -> GroupWeights:
        return self._sums.weights(form, group)

    def _sum(self, weights: GroupWeights, events: int) -> Estimate:
        value, ends = self._sums.model(weights), self._sums.ends(weights, events)
        if not math.isfinite(ends[1] - ends[0]):
            ends = self._sums.free_ends(weights, events)
        return within(value, *ends)

    def _ratio(self, above: GroupWeights, below: GroupWeights, events: int) -> Estimate:
        divisor = self._sums.model(below)
        value = self._sums.model(above) / divisor if divisor > 0 else None
        bounds = self._sums.bounds(below, events)
        if bounds is None:  # of counts the model has to expect somebody at least
            return Estimate(value if divisor >= min(1.0, float(below.high.max())) else None)
        ends = self._sums.ratio_ends(above, below, bounds)
        if ends is None or value is None or self._sums.low_end(below, events) <= 0:
            return Estimate(None)
        return within(value, *ends)

    # --- quantiles ------------------------------------------------------------------------------------------

    def _quantile(self, node: Quantile, group: Group, events: int) -> Estimate:
        counted = self._weights(counted_values(node.values), group)
        bounds = self._sums.bounds(counted, events)
        value = self._quantile_of_model(node, counted)
        if bounds is None or value is None:
            return Estimate(value)
        if self._sums.low_end(counted, events) <= 0:
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
        return within(value, bottom, top)

    def _extreme(
        self, part: float, low: _Array, high: _Array, counted: GroupWeights, bounds: SumBounds
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
        mass = np.maximum(counted.middle * self._sums.marginal(counted.scope), 0.0)
        whole = float(mass.sum())
        if whole <= 0:
            return None
        order = np.argsort((low + high)[mass > 0] / 2, kind="stable")
        low, high, mass = (one[mass > 0][order] for one in (low, high, mass))
        reached = np.cumsum(mass)
        place = min(int(np.searchsorted(reached, node.part * whole)), len(reached) - 1)
        inside = (node.part * whole - (reached[place] - mass[place])) / mass[place]
        return float(low[place] + (high[place] - low[place]) * min(max(inside, 0.0), 1.0))


def _first_end(low: _Array, counted: GroupWeights, bounds: SumBounds, part: float, beyond: float) -> float:
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


def _last_end(high: _Array, counted: GroupWeights, bounds: SumBounds, part: float, beyond: float) -> float:
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
