"""Aggregates from a session's public state: sums, means, quantiles and spreads of a group, with error bars.

Everything here is post-processing of released numbers: no record is touched, and nothing is spent. Values
come from the model; intervals from what is known of the aggregate's scope (``pmw.public.bars``).

* A mean, or a ratio of sums, is the set of r for which numerator - r denominator may be 0 (Fieller 1954):
  one event for both. Where the denominator may be 0, the interval holds if it is not.
* A quantile inverts a test at each threshold of the cumulative counts: the true value's own threshold is one
  fixed linear form, so each end fails with half of what may fail, without a union over thresholds.
* A mean is not known, but some point of a grid that nothing released has moved is within half a step of it.
  The mean of squares about that point is one linear form of the true table, so one event bounds it; so do the
  few other points that the mean's own interval leaves. A variance and a standard deviation follow.
* Of n kept records in a group there are at most n persons, and at least n/K. What was measured of persons by
  the cells of a scope says more, where one of these cells is the group, or holds it. Which measurement is
  taken is decided by the scale of its noise, not by what was drawn.

Proofs are in ``docs/intervals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.model.estimate import noise_variance
from pmw.model.measurement import PersonsMeasurement
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.bars import SumBounds
from pmw.public.state import PublicState
from pmw.public.sums import (
    Estimate,
    GroupWeights,
    Sums,
    following_question,
    hard_ends,
    multiplied_values,
    squared_values,
    summed_values,
    within,
)
from pmw.public.value_sums import JointLine
from queries.cell_values import (
    CellCondition,
    CellValues,
    counted_where,
    on_scope,
    union_scope,
)
from queries.expressions import (
    EVERYBODY,
    AggregateNode,
    Correlation,
    Linear,
    Persons,
    Quantile,
    Ratio,
    Spread,
    counted,
)
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.statements import Group, Statement


def estimated_persons(state: PublicState, sums: Sums, group: GroupWeights, events: int) -> Estimate:
    """Return how many persons have a kept record in a group.

    The number of the group's records, and what was measured of persons, have half each of what may fail,
    where any persons were measured.

    Args:
        group: the weights of its records.
    """
    most = state.contract.options.records_per_person
    events = 2 * events if state.persons else events
    low, high = sums.ends(group, events)
    low, high, hard = max(low, 0.0) / most, max(high, 0.0), sums.hard_ends(group)
    cells = ((one, _cell_of(state, one, group)) for one in state.persons)
    found = [
        (not cell[1], noise_variance(one.noise), cell[0], one) for one, cell in cells if cell is not None
    ]
    inexact, _, place, known = min(found, key=lambda one: one[:2], default=(True, 0.0, 0, None))
    value = sums.model(group) * _per_record(state)
    if known is not None:
        width = sum_half_width(known.noise, 1.0, sums.alone(events))
        measured = float(known.units.flat[place]) / UNITS
        high = min(high, measured + width)
        value, low = (value, low) if inexact else (measured, max(low, measured - width))
    return within(value, (low, high), hard)


def _cell_of(state: PublicState, one: PersonsMeasurement, group: GroupWeights) -> tuple[int, bool] | None:
    """Return the measured cell that holds a group, and whether it is the group.

    Else the cell has more records, and bounds the number from above alone. None where records of several
    cells may be in the group.
    """
    beside = tuple(place for place, name in enumerate(group.scope) if name not in one.scope)
    common = tuple(name for name in group.scope if name in one.scope)
    shape = [state.domain[name].size for name in common]
    least = on_scope(state.domain, common, np.asarray(group.least.all(axis=beside)).reshape(shape), one.scope)
    most = on_scope(state.domain, common, np.asarray(group.most.any(axis=beside)).reshape(shape), one.scope)
    (cells,) = np.broadcast_to(most, one.units.shape).reshape(-1).nonzero()
    if len(cells) != 1:
        return None
    return int(cells[0]), bool(np.broadcast_to(least, one.units.shape).reshape(-1)[cells[0]])


def _per_record(state: PublicState) -> float:
    """Return how many persons there are for each record, over all: measured, or the middle of what may be."""
    least = 1 / state.contract.options.records_per_person
    whole = [one for one in state.persons if not one.scope]
    best = min(whole, key=lambda one: noise_variance(one.noise), default=None)
    if best is None or state.total.value <= 0:
        return (1 + least) / 2
    return min(max(float(best.units) / UNITS / state.total.value, least), 1.0)


_Array = NDArray[np.float64]
_MOST_THRESHOLDS = 20_000
_MEANS = 100  # candidates for a mean, across the range of the values
_FEW_LEVELS = 16  # different numbers, of which each may be told by a sum
_SPREAD_EVENTS = 3  # the mean, the mean of squares and the number of records


class Aggregates:
    """The aggregates of a statement in one state; what they have in common is computed once."""

    def __init__(self, state: PublicState, statement: Statement) -> None:
        self._state = state
        self._statement = statement
        self._domain = statement.domain
        self._sums = Sums(state, statement)

    def estimate(self, node: AggregateNode, group: Group, *, events: int = 1) -> Estimate:
        """Return what an aggregate comes to in a group."""
        if isinstance(node, Linear | Ratio):
            if isinstance(node, Linear):
                return self._sum(self._sums.weights(node, group), events)
            return self.quotient((node.numerator, group), (node.denominator, group), events)
        sums = self._sums.over(node.condition)
        if isinstance(node, Quantile):
            return quantile(sums, node, group, events)
        if isinstance(node, Persons):
            return estimated_persons(self._state, sums, sums.weights(EVERYBODY, group), events)
        if isinstance(node, Spread):
            return spread(sums, node, group, events)
        return Estimate(correlation(sums, node, group))

    def question(self, node: AggregateNode, group: Group) -> LinearQuery:
        """Return the counting question of an aggregate in a group: its own, or one with its scope.

        A number of records is its own question. For any other aggregate it is a question with weights that
        follow the numbers, over the same attributes: what answers it bounds the aggregate as well.
        """
        if isinstance(node, Linear) and node.is_count:
            return self._statement.counted(group)
        parts = self._parts(node, group)
        if isinstance(node, Persons) or (isinstance(node, Linear) and node.counting):
            return self._counted(parts[0])
        return following_question(self._domain, parts)

    def records(self, node: AggregateNode, group: Group) -> tuple[LinearQuery, ...]:
        """Return the questions of how many records an aggregate of a group is made of.

        A mean of truth values is made of those of which they hold, too, and what is summed of those that have
        more than 0, and of those that have each of a few numbers.
        """
        if isinstance(node, Linear) and node.is_count:
            return (self._statement.counted(group),)
        forms = [*_records_of(node), *_levels_of(node)]
        return tuple(self._counted(self._sums.weights(one, group)) for one in forms)

    def summed(self, node: AggregateNode, group: Group) -> NDArray[np.float64]:
        """Return what the records of each cell weigh in the sum of a group, or in that of its quotient."""
        return self._parts(node, group)[0].middle

    def _counted(self, weights: GroupWeights) -> LinearQuery:
        condition = CellCondition(weights.scope, weights.low > 0, weights.middle, weights.high > 0)
        return counted_where([condition], self._domain)

    def scope(self, node: AggregateNode, group: Group) -> tuple[str, ...]:
        """Return the attributes that an aggregate of a group is about, in declared order."""
        return union_scope(self._domain, [part.scope for part in self._parts(node, group)])

    def may_hold(self, node: AggregateNode, group: Group) -> bool:
        """Tell whether some record may be one that an aggregate of a group is taken of."""
        if isinstance(node, Persons):
            return True
        sums = self._sums
        if isinstance(node, Linear | Ratio):
            forms = [node] if isinstance(node, Linear) else [node.numerator, node.denominator]
            needed = [one for form in forms for one in form.values]
            needed += forms[1:]  # which nothing is divided by if they are 0
        else:
            sums = sums.over(node.condition)
            needed = [counted(one) for one in _values(node)]
        return all(sums.may_count(one, group) for one in needed)

    def is_summed(self, node: AggregateNode, group: Group) -> bool:
        """Tell whether the values of a group's records have a measured sum."""
        form = node.numerator if isinstance(node, Ratio) else node
        return isinstance(form, Linear) and self._sums.is_summed(self._sums.weights(form, group))

    def quotient(self, above: tuple[Linear, Group], below: tuple[Linear, Group], events: int) -> Estimate:
        """Return a sum over a group divided by a sum over another one: one event for both.

        Args:
            above: a sum, and the group whose records it is over.
        """
        return self._ratio(*self._sums.pair(above, below), events)

    def is_aligned(self, node: AggregateNode, group: Group) -> bool:
        """Tell whether the cells decide which of a group's records an aggregate is about."""
        forms = [node.numerator, node.denominator] if isinstance(node, Ratio) else [node]
        return all(self._sums.is_decided(one.condition, group) for one in forms)

    def _parts(self, node: AggregateNode, group: Group) -> list[GroupWeights]:
        if isinstance(node, Linear):
            return [self._sums.weights(node, group)]
        if isinstance(node, Ratio):
            return list(self._sums.pair((node.numerator, group), (node.denominator, group)))
        forms = [EVERYBODY] if isinstance(node, Persons) else [summed_values(one) for one in _values(node)]
        return [self._sums.over(node.condition).weights(form, group) for form in forms]

    # --- sums and ratios ------------------------------------------------------------------------------------

    def _sum(self, weights: GroupWeights, events: int) -> Estimate:
        value, measured = self._sums.model(weights), self._sums.measured(weights, events)
        if measured is None:
            return within(value, self._sums.ends(weights, events))
        if measured.joint is not None:
            return self._sums.joint_sum(weights, measured, measured.joint)
        low, high = self._sums.ends(measured.counted, measured.events)
        low, high = (low + measured.value - measured.half_width, high + measured.value + measured.half_width)
        return within(self._sums.joined(weights, measured), (low, high), self._sums.hard_ends(weights))

    def _ratio(self, above: GroupWeights, below: GroupWeights, events: int) -> Estimate:
        divisor, measured = self._sums.model(below), self._sums.measured(above, events, below)
        upper = self._sums.model(above) if measured is None else self._sums.joined(above, measured)
        model, value = ((one / divisor if divisor else math.nan) for one in (self._sums.model(above), upper))
        if not math.isfinite(value):
            return Estimate(None)
        if measured is not None and measured.joint is not None:
            return self._sums.joint_mean((above, below), measured, measured.joint)
        hard = hard_ends(above, below)
        if measured is not None:
            events, (below, measured) = measured.events, self._sums.narrowed(below, measured)
        bounds = self._sums.bounds(below, events)
        ends = self._sums.ratio_ends(above, below, bounds, measured, hard)
        if ends is None:
            return Estimate(value)
        sure = self._sums.is_sure(below, bounds, events)  # else the measured quotient may lie anywhere
        return within(value if sure else model, ends, hard, conditional=not sure)


def _records_of(node: AggregateNode) -> list[Linear]:
    """Return the numbers of records that an aggregate is made of."""
    if isinstance(node, Ratio):
        return [*_records_of(node.denominator), *([node.numerator] if node.numerator.counting else [])]
    if not isinstance(node, Linear):
        forms = [EVERYBODY] if isinstance(node, Persons) else [counted(one) for one in _values(node)]
        return [replace(one, condition=node.condition) for one in forms]
    ones = ((node.low != 0) | (node.high != 0)).astype(np.float64)  # of what is no sum of values
    plain = Linear(node.scope, ones, ones, ones, counting=True, condition=node.condition)
    return [node] if node.counting else [*node.values] or [plain]


def _levels_of(node: AggregateNode) -> list[Linear]:
    """Return the numbers of records with any number that is summed, and with each of a few computed ones."""
    above = node.numerator if isinstance(node, Ratio) else node
    forms: list[Linear | CellValues] = [above] if isinstance(above, Linear) and not above.counting else []
    if isinstance(node, Spread | Correlation | Quantile):
        forms = [*_values(node)]
    found = list[Linear]()
    for form in forms:
        levels = np.unique(form.middle[form.middle != 0])
        is_line = (form.summed if isinstance(form, Linear) else form.line) is not None
        masks = [form.middle != 0]
        masks += [] if is_line or levels.size > _FEW_LEVELS else [form.middle == one for one in levels]
        weights = [mask.astype(np.float64) for mask in masks]
        found += [
            Linear(form.scope, one, one, one, counting=True, condition=above.condition) for one in weights
        ]
    return found


def _values(node: Quantile | Spread | Correlation) -> list[CellValues]:
    return [node.one, node.two] if isinstance(node, Correlation) else [node.values]


# --- quantiles ----------------------------------------------------------------------------------------------


def quantile(sums: Sums, node: Quantile, group: Group, events: int) -> Estimate:
    """Return a quantile; it is never below the least value that is answered, nor above the greatest.

    Where noise has their bars cross, a bar is widened to hold its value.
    """
    records = sums.weights(counted(node.values), group)
    bounds = sums.bounds(records, events)
    found = _bounded_quantile(sums, node, records, bounds)
    if found.value is None or found.interval is None:
        return found
    extremes = (replace(node, part=part, extreme=True) for part in (0.0, 1.0))
    ends = sorted(_bounded_quantile(sums, one, records, bounds).value or 0.0 for one in extremes)
    value = ends[int(node.part)] if node.extreme else min(max(found.value, ends[0]), ends[1])
    interval = min(value, found.interval[0]), max(value, found.interval[1])
    if node.is_whole:
        value = float((math.floor, math.ceil)[int(node.part)](value))
    return Estimate(value, interval, conditional=not sums.is_sure(records, bounds, events))


def _bounded_quantile(
    sums: Sums, node: Quantile, records: GroupWeights, bounds: SumBounds | None
) -> Estimate:
    values, part = node.values.placed(sums.domain, records.scope), node.part
    value = _quantile_of_model(node, (values.low, values.high), records.middle * sums.marginal(records.scope))
    if value is None:
        return Estimate(None)
    low, high = (np.where(records.high > 0, end, math.nan) for end in (values.low, values.high))
    if bounds is None:
        return within(value, (float(np.nanmin(low)), float(np.nanmax(high))))
    beyond = (1 - part, -part) if node.extreme else (-part, 1 - part)
    top = -_first_end(-high, records, bounds, (1 - part, -beyond[1]))
    return within(value, (_first_end(low, records, bounds, (part, beyond[0])), top))


def _quantile_of_model(node: Quantile, ends: tuple[_Array, _Array], mass: _Array) -> float | None:
    """Return the model's quantile; values are taken as evenly spread inside a cell.

    Of n numbers the outermost are expected at 1/(n + 1) of them, from either end.

    Source: David and Nagaraja 2003, "Order Statistics", section 3.1.
    """
    mass, whole = np.maximum(mass, 0.0), float(np.maximum(mass, 0.0).sum())
    if whole <= 0:
        return None
    order = np.argsort((ends[0] + ends[1])[mass > 0] / 2, kind="stable")
    low, high, mass = (one[mass > 0][order] for one in (*ends, mass))
    reached = np.cumsum(mass)
    part = abs(node.part - 1 / (max(whole, 1.0) + 1)) if node.extreme else node.part
    place = min(int(np.searchsorted(reached, part * whole)), len(reached) - 1)
    inside = (part * whole - (reached[place] - mass[place])) / mass[place]
    return float(low[place] + (high[place] - low[place]) * min(max(inside, 0.0), 1.0))


def _first_end(low: _Array, records: GroupWeights, bounds: SumBounds, claim: tuple[float, float]) -> float:
    """Return the least l such that sum (1[low <= l] - part) may be ``beyond`` or more."""
    ends = np.unique(low[~np.isnan(low)])
    if len(ends) > _MOST_THRESHOLDS:
        return float(ends[0])
    for end in ends:
        with np.errstate(invalid="ignore"):
            weight = (low <= end) - claim[0]
        most = np.where(records.low > 0, weight, np.where(records.high > 0, np.maximum(weight, 0.0), 0.0))
        if bounds.high(most) >= claim[1]:
            return float(end)
    return float(ends[-1])


# --- variances and correlations -----------------------------------------------------------------------------

_Counted = tuple[GroupWeights, SumBounds]  # the records that are meant, and what bounds their sums
_Ends = tuple[float, float]


def spread(sums: Sums, node: Spread, group: Group, events: int) -> Estimate:
    """Return a variance or a standard deviation; a sample's needs two records."""
    records = sums.weights(counted(node.values), group)
    count, least = sums.model(records), 2 if node.sample else 1
    if count <= 0:
        return Estimate(None)
    finish = _finisher(node)
    summed = sums.weights(summed_values(node.values), group)
    mean = sums.model(summed) / count
    square = sums.model(sums.weights(squared_values(node.values, mean), group)) / count
    value = finish(max(0.0, square), max(count, least))
    lowest, highest = hard_ends(summed, records)
    hard = 0.0, finish((highest - lowest) ** 2 / 4, least)
    joint = sums.joint_spread(node.values, group, (mean, square), events)
    if joint is not None:
        return _joint_spread(sums, node, (records, value, hard), joint, events)
    bounds = sums.bounds(records, _SPREAD_EVENTS * events)
    if bounds is None:
        return within(value, hard, conditional=True)
    sure = sums.is_sure(records, bounds, _SPREAD_EVENTS * events, least=least)
    fewest, most = (max(end, least) for end in sums.ends(records, _SPREAD_EVENTS * events))
    low, high = _variance_ends(sums, node.values, group, (records, bounds))
    return within(value, (finish(low, most), finish(high, fewest)), hard, conditional=not sure)


def _joint_spread(
    sums: Sums, node: Spread, model: tuple[GroupWeights, float, _Ends], measured: JointLine, events: int
) -> Estimate:
    """Return the same by what was measured of the number of the values, their sum and their squares."""
    (joint, (factor, constant)), (counted, value, hard) = measured, model
    least, finish = 2 if node.sample else 1, _finisher(node)
    alone = sums.alone(_SPREAD_EVENTS * events)
    least_mean, most_mean = sorted((end - constant) / factor for end in _range(node.values))
    low, high = (end * factor**2 for end in joint.variance_ends((least_mean, most_mean), alone))
    half = joint.count_half_width(alone)
    fewest, most = (max(joint.count + sign * half, least) for sign in (-1, 1))
    sure = joint.is_sure(least, alone)
    if sure:  # else what was measured may say anything
        records = max(sums.counted(joint, counted, events), least)
        value = finish(joint.variance(records) * factor**2, records)
    return within(value, (finish(low, most), finish(high, fewest)), hard, conditional=not sure)


def correlation(sums: Sums, node: Correlation, group: Group) -> float | None:
    """Return the model's correlation of the rows that hold both numbers, or None where it has none."""
    scope = union_scope(sums.domain, (node.one.scope, node.two.scope))
    one, two = node.one.placed(sums.domain, scope), node.two.placed(sums.domain, scope)
    one, two = (replace(values, present=one.present & two.present) for values in (one, two))
    count = sums.model(sums.weights(counted(one), group))
    if count <= 0:
        return None
    means = [sums.model(sums.weights(summed_values(values), group)) / count for values in (one, two)]
    product = sums.model(sums.weights(multiplied_values(one, two, (means[0], means[1])), group)) / count
    squares = [
        sums.model(sums.weights(squared_values(values, mean), group)) / count
        for values, mean in zip((one, two), means, strict=True)
    ]
    scale = math.sqrt(max(0.0, squares[0] * squares[1]))
    return max(-1.0, min(1.0, product / scale)) if scale > 0 else None


def _range(values: CellValues) -> tuple[float, float]:
    return float(values.low[values.present].min()), float(values.high[values.present].max())


def _variance_ends(sums: Sums, values: CellValues, group: Group, counted: _Counted) -> tuple[float, float]:
    """Return what the variance lies between, over n records.

    At the point nearest to the true mean, within half a step h of it, the mean of (x - m)^2 is the variance
    and at most h^2/4 more.
    """
    least, greatest = _range(values)
    most, step = (greatest - least) ** 2 / 4, (greatest - least) / _MEANS
    mean = sums.ratio_ends(sums.weights(summed_values(values), group), *counted)
    low, high = (least, greatest) if mean is None else mean
    half, found = step / 2 * (1 + 1e-9), []
    for tried in (least + number * step for number in range(_MEANS + 1)):
        if not low - half <= tried <= high + half:
            continue
        squares = sums.weights(squared_values(values, tried), group)
        found.append(sums.ratio_ends(squares, *counted) or (0.0, math.inf))
    lows, highs = zip(*found, strict=True) if found else ((0.0,), (most,))
    return max(0.0, min(lows) - step**2 / 4), min(max(highs), most)


def _finisher(node: Spread) -> Callable[[float, float], float]:
    """Return what makes a variance over n records, and n, the number that is asked for."""

    def finish(variance: float, records: float) -> float:
        found = variance * records / (records - 1) if node.sample else variance
        return math.sqrt(found) if node.root else found

    return finish
