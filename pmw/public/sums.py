"""Sums over the records of a group and their quotients: the model's, and what the true ones lie between.

A quotient is known from one event for both sums (Fieller 1954). That its divisor is not 0 may be known from
elsewhere: of a fixed table only one of the two claims can fail. Proofs are in ``docs/intervals.md``.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Source
from pmw.public.bars import Bars, SumBounds, ends_in_order, hard_ends_of
from pmw.public.bounded import narrowed
from pmw.public.local_models import local_models
from pmw.public.state import PublicState
from pmw.public.value_sums import (
    JointLine,
    JointSums,
    MeasuredPart,
    SummedOver,
    ValueSums,
    joined_by_width,
    last,
)
from queries.cell_values import CellCondition, CellValues, on_scope, union_scope
from queries.domain import Domain
from queries.expressions import Linear, counted, total
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.impossible import impossible_cells
from queries.linear import LinearQuery
from queries.statements import Group, Statement

_Array = NDArray[np.float64]
_ALIKE = 1e-12  # relative: weights that differ by rounding alone
_TYPICAL = 0.25  # of half the width of a cell: how far the mean of its values is taken to be from its middle


def _told(number: float | None, whole: bool) -> float | None:
    if number is None or not math.isfinite(number):
        return None
    return round(number) if whole else number  # a whole number is written without a point


def _rounded(function: Callable[[float], float], number: float) -> float:
    near = round(number)  # numbers that differ from a whole one as floats do are that one
    if not math.isfinite(number) or abs(number - near) <= 1e-9 * max(1.0, abs(number)):
        return number if not math.isfinite(number) else float(near)
    return float(function(number))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an aggregate comes to.

    Args:
        value: None where the model itself divides by 0, or where it is refused.
        interval: holds the true value with the stated confidence; None where nothing is promised.
        typical: of a count, as ``Answer`` has it.
        aligned: False where the cells cannot decide which records are meant.
        conditional: nothing released says that there are records to take the value of: the interval holds if
            there are.
        is_null: there is no value on any table, by the declaration.
        below: the number that a withheld one is below; None where it is shown, or withheld beside such a one.
    """

    value: float | None
    interval: tuple[float, float] | None = None
    source: Source = Source.SYNTHETIC
    typical: tuple[float, float] | None = None
    aligned: bool = True
    conditional: bool = False
    is_null: bool = False
    below: int | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the session's accuracy contract leaves it without an answer."""
        return self.source is Source.REFUSED

    @property
    def is_promised(self) -> bool:
        """Whether there is a true value, and an interval that holds it."""
        return self.interval is not None and not self.conditional

    def whole(self) -> Estimate:
        """Return the estimate of a whole number: the nearest one, between whole ends that hold all others."""
        if self.value is None:
            return self
        interval, typical = (
            None if ends is None else (_rounded(math.floor, ends[0]), _rounded(math.ceil, ends[1]))
            for ends in (self.interval, self.typical)
        )
        return replace(self, value=_rounded(round, self.value), interval=interval, typical=typical)

    def to_dict(self, *, whole: bool = False) -> dict[str, Any]:
        """Return the form of an aggregate in an answer, ready for JSON."""
        low, high = (_told(end, whole) for end in self.interval or (None, None))
        form: dict[str, Any] = {
            "value": _told(self.value, whole),
            "low": low,
            "high": high,
            "source": self.source.value,
            "typical": None if self.typical is None else [_told(end, whole) for end in self.typical],
            "aligned": self.aligned,
        }
        if self.below is not None:
            form["below"] = self.below
        return {**form, "conditional": True} if self.conditional else form


@dataclass(frozen=True, slots=True, eq=False)
class GroupWeights:
    """Weights of the records of one group, cell by cell.

    Args:
        scope: attribute names in declared order.
        ends: the least and the greatest weight of a record that is meant, and the one that stands for it.
        least: the records of the cell are meant.
        share: the part of them, of an evenly filled cell.
        most: some of them may be meant.
        summed: the values that are summed, and over which records; None where none were measured.
    """

    scope: tuple[str, ...]
    ends: tuple[_Array, _Array, _Array]  # low, middle, high
    least: NDArray[np.bool_]
    share: _Array
    most: NDArray[np.bool_]
    summed: SummedOver | None = None
    low: _Array = field(init=False)
    middle: _Array = field(init=False)
    high: _Array = field(init=False)

    def __post_init__(self) -> None:
        middle = self.ends[1] * self.least
        low, high = (middle if one is self.ends[1] else one * self.least for one in self.ends[::2])
        if self.most is not self.least:
            maybe = self.most & ~self.least
            low = low + np.minimum(self.ends[0], 0.0) * maybe
            middle = middle + self.share * self.ends[1] * maybe
            high = high + np.maximum(self.ends[2], 0.0) * maybe
        for name, array in (("low", low), ("middle", middle), ("high", high)):
            object.__setattr__(self, name, np.broadcast_to(array, self.least.shape))

    def minus(self, r: float, other: GroupWeights) -> GroupWeights:
        """Return these weights minus r times others, on one scope.

        Where both sums are of the same records, they take a record in, or leave it out, together.
        """
        together = np.array_equal(self.least, other.least) and np.array_equal(self.most, other.most)
        one, two = (self.ends, other.ends) if together else (self._reached, other._reached)
        low, high = (two[2], two[0]) if r >= 0 else (two[0], two[2])
        ends = one[0] - r * low, one[1] - r * two[1], one[2] - r * high
        if together:
            return GroupWeights(self.scope, ends, self.least, self.share, self.most)
        everywhere = np.ones(self.least.shape, dtype=bool)
        return GroupWeights(self.scope, ends, everywhere, everywhere.astype(np.float64), everywhere)

    @property
    def varying(self) -> set[str]:
        """The attributes along which weights differ."""
        return {name for one in self._reached for name in narrowed(self.scope, one)[0]}

    def over(self, names: set[str]) -> GroupWeights:
        """Return the same weights over some attributes: along the others they do not differ."""
        kept = tuple(slice(None) if name in names else 0 for name in self.scope)
        arrays: tuple[Any, ...] = (*self.ends, self.least, self.share, self.most)
        low, middle, high, least, share, most = (
            np.broadcast_to(one, self.least.shape)[kept] for one in arrays
        )
        scope = tuple(name for name in self.scope if name in names)
        return GroupWeights(scope, (low, middle, high), least, share, most)

    @property
    def _reached(self) -> tuple[_Array, _Array, _Array]:
        return self.low, self.middle, self.high


class MeasuredSum(NamedTuple):
    """A sum by what was measured of its values: a count with weights, and a measured number.

    Attributes:
        counted: the weights of the count.
        value: the measured number.
        half_width: how far the truth may be from it.
        events: how many intervals its count has to hold together with, counted as aggregates are.
        widths: how far this way, and the model's, may be off; the model knows nothing of clipped values.
        joint: the sum with the number of its values by what was measured of both, in place of what is known
            of the count; None where that is narrower.
        line: what one of the values weighs in the sum: a factor, and a constant.
    """

    counted: GroupWeights
    value: float
    half_width: float
    events: int
    widths: tuple[float, float]
    joint: JointSums | None = None
    line: tuple[float, float] = (1.0, 0.0)


class Sums:
    """The sums of a statement in one state; what they have in common is computed once."""

    def __init__(self, state: PublicState, statement: Statement) -> None:
        self._state = state
        self._statement = statement
        self._models: dict[tuple[str, ...], _Array] = {}
        self._whole = statement.condition
        self._meant: dict[CellCondition | None, CellCondition] = {}  # where further conditions hold
        self._values = ValueSums(state)
        # By how many aggregates fail together.
        self._shared = functools.cache(lambda events: Bars(state, events, groups=statement.choices))

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self._statement.domain

    def over(self, condition: CellCondition | None) -> Sums:
        """Return the sums of the records where a further condition holds."""
        found = copy.copy(self)
        found._whole, found._meant = self._where(condition), {}
        return found

    def _where(self, condition: CellCondition | None) -> CellCondition:
        if condition not in self._meant:
            whole = self._whole or CellCondition.of(self._statement.where)
            self._meant[condition] = whole if condition is None else whole.both(condition, self.domain)
        return self._meant[condition]

    def may_count(self, form: Linear, group: Group) -> bool:
        """Tell whether a record of a group may weigh something in a sum, by the declaration."""
        where, domain = self._where(form.condition), self.domain
        scope = union_scope(domain, [where.scope, form.scope, group.scope])
        weighs = on_scope(domain, form.scope, (form.low != 0) | (form.high != 0), scope)
        most = on_scope(domain, where.scope, where.most, scope)
        return bool(np.any(most & weighs & self._inside(group, scope)))

    def is_decided(self, condition: CellCondition | None, group: Group) -> bool:
        """Tell whether the cells decide which of a group's records are meant where a condition holds."""
        where, domain = self._where(condition), self.domain
        if where.is_decided:
            return True
        scope = union_scope(domain, [where.scope, group.scope])
        open_ = on_scope(domain, where.scope, where.least != where.most, scope)
        return not np.any(open_ & self._inside(group, scope))

    def _inside(self, group: Group, scope: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return which possible cells a group has, shaped to broadcast over a scope."""
        inside = group.inside(self.domain, scope)
        return inside & ~impossible_cells(self.domain.impossible, scope) if self.domain.impossible else inside

    def weights(self, form: Linear, group: Group, extra: tuple[str, ...] = ()) -> GroupWeights:
        """Return the weights of a sum over a group's records where the statement's condition holds."""
        domain, where = self.domain, self._where(form.condition)
        scope = union_scope(domain, [where.scope, form.scope, extra, group.scope])
        shape = domain.scope_shape(scope)
        share = on_scope(domain, where.scope, where.share, scope)
        low, middle, high = (
            np.broadcast_to(on_scope(domain, form.scope, one, scope), shape) for one in form.arrays
        )
        if all(np.array_equal(form.middle, one) for one in form.arrays):
            low = high = middle
        inside = self._inside(group, scope)
        least = np.broadcast_to(on_scope(domain, where.scope, where.least, scope) & inside, shape)
        most = least
        if not where.is_decided:
            most = np.broadcast_to(on_scope(domain, where.scope, where.most, scope) & inside, shape)
        summed = None
        if form.summed is not None:
            name, factor = form.summed.line
            held = np.broadcast_to(on_scope(domain, (name,), form.summed.held, scope), shape)
            if np.array_equal(least & held, most & held):
                summed = SummedOver(form.summed, scope, held & least, np.where(least, middle, 0.0))
            if self._values.is_clipped(form.summed):  # a value counts for as little as 0
                none = middle - on_scope(domain, (name,), self._values.above_zero(form.summed), scope)
                low = np.where(held, np.minimum(low, none), low)
                high = np.where(held, np.maximum(high, none), high)
            shift = on_scope(domain, (name,), self._values.shift(name), scope)
            middle = np.where(held, middle + factor * shift, middle)
        return GroupWeights(scope, (low, middle, high), least, np.broadcast_to(share, shape), most, summed)

    def pair(self, *forms: tuple[Linear, Group]) -> tuple[GroupWeights, GroupWeights]:
        """Return the weights of two sums, each over a group's records, over the same attributes."""
        scopes = [(one.scope, self._where(one.condition).scope, group.scope) for one, group in forms]
        scope = union_scope(self.domain, [one for three in scopes for one in three])
        above, below = (self.weights(form, group, scope) for form, group in forms)
        return above, below

    def marginal(self, scope: tuple[str, ...]) -> _Array:
        """Return what the model has in the cells of a scope: float64, records, one axis per attribute."""
        if scope not in self._models:
            local = local_models(self._state)
            marginal = local.marginal(scope) if scope else np.array(self._state.total.records)
            self._models[scope] = np.asarray(marginal, dtype=np.float64)
        return self._models[scope]

    def model(self, weights: GroupWeights) -> float:
        """Return the model's sum."""
        return float(np.sum(weights.middle * self.marginal(weights.scope)))

    def bounds(self, weights: GroupWeights, events: int) -> SumBounds | None:
        """Return the bounds on sums over the attributes of one; None where nothing released holds them."""
        return self._shared(events).of_family(weights.scope, weights.high)

    def ends(self, weights: GroupWeights, events: int) -> tuple[float, float]:
        """Return what a sum lies between; what is known of fewer attributes serves where it does not vary.

        The two ends fail together with what may fail of ``events`` aggregates.
        """
        ends = self._shared(events).of_sum(weights.scope, weights.low, weights.high)
        low, high = map(float, ends_in_order(*ends, self.hard_ends(weights)))
        return low, high

    def hard_ends(self, weights: GroupWeights) -> tuple[float, float]:
        """Return what a sum lies between on every table."""
        return hard_ends_of(self._state, float(weights.low.min()), float(weights.high.max()))

    def is_summed(self, weights: GroupWeights) -> bool:
        """Tell whether what a sum is of has a measured sum of its values."""
        return weights.summed is not None and bool(self._values.measured(weights.summed, 0.5))

    def measured(
        self, weights: GroupWeights, events: int, below: GroupWeights | None = None
    ) -> MeasuredSum | None:
        """Return a sum by what was measured of its values, where that bounds it better than its cells do.

        The count that goes with the measured number, and that number, have half each of what may fail; where
        the count was measured under the same noise, both have all of it. Which way is taken depends on the
        scales of noise, and on how far values may lie apart in the cells of the model's records; not on what
        was drawn for the sum.
        """
        if not self.is_summed(weights):
            return None
        found, by_cells = self._ways(weights, events, below)
        best = min(found, key=lambda one: one.widths[0], default=None)
        return None if best is None or best.widths[0] >= by_cells else best

    def half_width(self, weights: GroupWeights, events: int, below: GroupWeights | None = None) -> float:
        """Return how far a sum may be off, less a part of what it is divided by; infinite without bounds.

        It is that of the way that ``measured`` takes, and depends on the same.
        """
        found, by_cells = self._ways(weights, events, below)
        return min([by_cells, *(one.widths[0] for one in found)])

    def _ways(
        self, weights: GroupWeights, events: int, below: GroupWeights | None
    ) -> tuple[list[MeasuredSum], float]:
        """Return a sum by each way that has measured values, and how far it may be off by its cells."""
        over, found = weights.summed, list[MeasuredSum]()
        mass = np.maximum(self.marginal(weights.scope), 0.0)
        middle = weights.middle if over is None else over.middle  # of cells, by no measured sum
        divisor = 0.0 if below is None else self.model(below)
        ratio = float(np.sum(middle * self.marginal(weights.scope))) / divisor if divisor else 0.0
        apart = float(np.sum((weights.high - weights.low) * mass)) / 2
        noise = self._reach(weights.scope, middle, below, ratio, events)
        if over is None:
            return found, noise + apart
        other = math.hypot(noise, apart if self._values.is_clipped(over.summed) else _TYPICAL * apart)
        for part in self._values.measured(over, self._shared(2 * events).confidences.alone):
            reached, counts, line = self.way(weights, part, below, ratio, events)
            width = part.half_width + reached + counts
            found.append(self._measured(weights, part, 2 * events, (width, other)))
            if part.joint is not None and line is not None:
                width = part.joint.sum_half_width(line, ratio, self.alone(events)) + reached
                one = self._measured(weights, part, events, (width, other))
                found.append(one._replace(joint=part.joint, line=line))
        return found, noise + apart

    def way(
        self, weights: GroupWeights, part: MeasuredPart, below: GroupWeights | None, ratio: float, events: int
    ) -> tuple[float, float, tuple[float, float] | None]:
        """Return what a bar by measured values is as wide as beside their noise, of a sum less a ratio.

        It depends on scales of noise, and on where the model has its records.

        Returns:
            How far values may be from the middles of their places; how far counts may move the sum that were
            measured elsewhere; and what one of the values weighs, or None where that is not one line.
        """
        over, mass = weights.summed, np.maximum(self.marginal(weights.scope), 0.0)
        counts = self._reach(weights.scope, part.counted, below, ratio, 2 * events)
        line = None if over is None else _line_of(over, part, below)
        return float(np.sum(part.reach * mass)), counts, line

    def _measured(
        self, weights: GroupWeights, part: MeasuredPart, events: int, widths: tuple[float, float]
    ) -> MeasuredSum:
        ends = part.counted - part.reach, part.counted, part.counted + part.reach
        everywhere = np.ones(part.counted.shape, dtype=bool)
        counted = GroupWeights(weights.scope, ends, everywhere, everywhere * 1.0, everywhere)
        return MeasuredSum(counted, part.value, part.half_width, events, widths)

    def _reach(
        self, scope: tuple[str, ...], middle: _Array, below: GroupWeights | None, ratio: float, events: int
    ) -> float:
        """Return how far counts may move a sum, less a part of what it is divided by; by scales of noise.

        Attributes along which these weights do not vary are left out; without anything that is known of the
        others it is infinite.
        """
        weights = middle if below is None else middle - ratio * below.middle
        names, whole = narrowed(scope, np.broadcast_to(weights, self.domain.scope_shape(scope)))
        bounds = self._shared(events).of_family(names, whole)
        return math.inf if bounds is None else bounds.half_width(whole)

    def joint_sum(self, weights: GroupWeights, measured: MeasuredSum, joint: JointSums) -> Estimate:
        """Return a sum by what was measured of it and of the number of its values, joined with the model."""
        found, ends = joint.sum_ends(measured.line, self.alone(measured.events))
        value = joined_by_width((found, self.model(weights)), measured.widths)
        return within(value, ends, self.hard_ends(weights))

    def joint_mean(
        self, pair: tuple[GroupWeights, GroupWeights], measured: MeasuredSum, joint: JointSums
    ) -> Estimate:
        """Return a mean by what was measured of the sum and of the number of its values, likewise.

        That there are values is known from the number alone: of a fixed table only one of the two claims can
        fail.
        """
        alone = self.alone(measured.events)
        above, below = map(self.model, pair)
        value, sure = above / below, joint.is_sure(1, alone)
        if sure:  # else the measured quotient may lie anywhere
            found = joint.mean(measured.line, self.counted(joint, pair[1], measured.events))
            value = joined_by_width((found, value), measured.widths)
        hard = hard_ends(*pair)
        return within(value, joint.mean_ends(measured.line, hard, alone), hard, conditional=not sure)

    def counted(self, joint: JointSums, counted: GroupWeights, events: int) -> float:
        """Return a number of values as it was measured and as other measurements have it, by their scales."""
        bounds = self.bounds(counted, events)
        if bounds is None:
            return joint.count
        known = (bounds.low(counted.middle) + bounds.high(counted.middle)) / 2
        widths = joint.count_half_width(self.alone(events)), bounds.half_width(counted.middle)
        return joined_by_width((joint.count, known), widths)

    def joint_spread(
        self, values: CellValues, group: Group, model: tuple[float, float], events: int
    ) -> JointLine | None:
        """Return what was measured of squares of values, where that is better known than their cells tell.

        With it comes what one of the values weighs: a factor, and a constant.

        It depends on scales of noise and on how far values may lie apart in the cells of the model's records.
        """
        whole = self.weights(total(values), group)
        joint = None if whole.summed is None else self._values.squared(whole.summed)
        if whole.summed is None or joint is None or not whole.summed.summed.line.factor:
            return None
        name, factor = whole.summed.summed.line
        own = on_scope(self.domain, (name,), self._values.above_zero(whole.summed.summed), whole.scope)
        constant = float((whole.summed.middle - own)[whole.summed.held].flat[0])
        (mean, variance), squares = model, self.weights(squared_values(values, model[0]), group)
        count = self.weights(counted(values), group)
        mass = np.maximum(self.marginal(squares.scope), 0.0)
        apart = float(np.sum((squares.high - squares.low) * mass)) / 2
        reach = self._reach(squares.scope, squares.middle, count, variance, events)
        width = joint.variance_width((mean - constant) / factor, variance / factor**2, self.alone(events))
        return (joint, (factor, constant)) if width * factor**2 < apart + reach else None

    def alone(self, events: int) -> float:
        """Return how surely a measurement holds that both ends of an interval rest on."""
        return self._shared(events).confidences.alone

    def narrowed(self, below: GroupWeights, measured: MeasuredSum) -> tuple[GroupWeights, MeasuredSum]:
        """Return a divisor, and what was measured of the sum above it, over the attributes that matter.

        Once a sum of values is measured, where a value lies in its cells matters no more.
        """
        names = below.varying | measured.counted.varying
        if names.issuperset(below.scope):
            return below, measured
        return below.over(names), measured._replace(counted=measured.counted.over(names))

    def joined(self, weights: GroupWeights, measured: MeasuredSum) -> float:
        """Return a sum as the model has it and as it was measured, each by its scale.

        The model's is taken to be off by what counts may move it, and by a quarter of what values may lie
        apart in their cells.
        """
        found = measured.value + self.model(measured.counted)
        return joined_by_width((found, self.model(weights)), measured.widths)

    def is_sure(
        self, counted: GroupWeights, bounds: SumBounds | None, events: int, *, least: int = 1
    ) -> bool:
        """Tell whether released numbers say that there are so many records to take a number of."""
        return bounds is not None and self.ends(counted, events)[0] > least - 1

    def ratio_ends(
        self,
        above: GroupWeights,
        below: GroupWeights,
        bounds: SumBounds | None,
        measured: MeasuredSum | None = None,
        hard: tuple[float, float] | None = None,
    ) -> tuple[float, float] | None:
        """Return the least and the greatest r for which two sums may be equal, above = r below.

        They hold if the divisor is not 0. Without bounds they are what any records allow. None where there is
        no end: the ratio has none on some tables, and the divisor's bar reaches 0.

        Args:
            measured: what was measured of the first; the bounds leave it its part of what may fail.
            hard: what the ratio lies between on every table, where the sums are given over fewer attributes.
        """
        low, high = hard if hard is not None else hard_ends(above, below)
        least_more = most_more = 0.0
        if measured is not None:
            above = measured.counted
            least_more, most_more = (
                measured.value - measured.half_width, measured.value + measured.half_width
            )  # fmt: skip
        if bounds is None:
            return (low, high) if math.isfinite(high - low) else None
        least = bounds.low(below.low)
        if least > 0:
            sums = bounds.low(above.low) + least_more, bounds.high(above.high) + most_more
            reach = 2 * max(map(abs, sums)) / least
            low, high = max(low, -reach), min(high, reach)
        if not math.isfinite(high - low):
            return None
        top = last(lambda r: bounds.high(above.minus(r, below).high) + most_more >= 0, low, high)
        bottom = -last(lambda r: bounds.low(above.minus(-r, below).low) + least_more <= 0, -high, -low)
        return bottom, top


def _line_of(over: SummedOver, part: MeasuredPart, below: GroupWeights | None) -> tuple[float, float] | None:
    """Return what one value weighs: a factor, and a constant; None where values of cells weigh differently.

    Or where what the sum is divided by is not the number of its values.
    """
    factor, held = over.summed.line.factor, over.held
    if part.joint is None or not (factor and held.any()) or np.any(part.counted[~held]):
        return None
    if below is not None and not all(np.array_equal(one, held) for one in (below.low, below.high)):
        return None
    weights = part.counted[held]
    constant = float(weights.flat[0]) - factor * part.joint.middle
    apart = float(weights.max() - weights.min())
    if apart > _ALIKE * max(float(np.abs(weights).max()), abs(factor) * part.joint.scale):
        return None
    return factor, constant


def within(
    value: float,
    ends: tuple[float, float],
    hard: tuple[float, float] = (-math.inf, math.inf),
    *,
    conditional: bool = False,
) -> Estimate:
    """Return a value and its interval; the value is moved into it, for no record is where it is not.

    Args:
        hard: what the number lies between on every table; nothing where ``ends`` are of this kind.
        conditional: they hold if there are records to take the value of.
    """
    low, high = map(float, ends_in_order(*ends, hard))
    return Estimate(min(max(value, low), high), (low, high), conditional=conditional)


def joined(sign: str, left: Estimate, right: Estimate) -> Estimate:
    """Return two estimates joined by an operator; their intervals hold together (interval arithmetic)."""
    if left.value is None or right.value is None:
        return Estimate(None, is_null=left.is_null or right.is_null)
    divided, ends = sign == "/", right.interval
    if divided and right.value == 0:
        return Estimate(None)
    join = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[sign]
    value = float(join(left.value, right.value))
    if left.interval is None or ends is None or (divided and ends[0] <= 0 <= ends[1]):
        return Estimate(value)
    corners = [float(join(one, two)) for one in left.interval for two in ends]
    return Estimate(value, (min(corners), max(corners)), conditional=left.conditional or right.conditional)


def hard_ends(above: GroupWeights, below: GroupWeights) -> tuple[float, float]:
    """Return what a ratio lies between on every table, where a record without a divisor has no numerator."""
    together = np.array_equal(above.least, below.least) and np.array_equal(above.most, below.most)
    if together:  # a record counts in both sums or in neither
        (low, _, high), (least, _, most), meant = above.ends, below.ends, below.most
    else:
        low, high, least, most = above.low, above.high, below.low, below.high
        meant = np.ones(below.most.shape, dtype=bool)
    low, high, least, most = np.broadcast_arrays(low, high, least, most)
    inside = meant & (least > 0)
    empty = (most == 0) & (low == 0) & (high == 0)
    if not np.all(inside | empty | ~meant) or not inside.any():
        return -math.inf, math.inf
    corners = [one[inside] / two[inside] for one in (low, high) for two in (least, most)]
    return float(min(one.min() for one in corners)), float(max(one.max() for one in corners))


# --- sums that aggregates are made of -----------------------------------------------------------------------


def summed_values(values: CellValues) -> Linear:
    """Return the sum of a number over the records that hold one."""
    low, middle, high = (np.where(values.present, one, 0.0) for one in values.arrays)
    return Linear(values.scope, low, middle, high)


def squared_values(values: CellValues, centre: float) -> Linear:
    """Return the sum of squared differences from a number; what lies inside a cell is allowed for."""
    ends = (values.low - centre) ** 2, (values.high - centre) ** 2
    inside = (values.low <= centre) & (centre <= values.high)
    low, high = np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends)
    middle = (values.middle - centre) ** 2 + (values.high - values.low) ** 2 / 12  # as evenly spread
    middle = np.where(values.high > values.low, np.clip(middle, low, high), (values.middle - centre) ** 2)
    low, middle, high = (np.where(values.present, one, 0.0) for one in (low, middle, high))
    return Linear(values.scope, low, middle, high)


def multiplied_values(one: CellValues, two: CellValues, centres: tuple[float, float]) -> Linear:
    """Return the sum of products of differences from two numbers, over the records that hold both values."""
    left, right = ([array - centre for array in values.arrays]
                   for values, centre in zip((one, two), centres, strict=True))  # fmt: skip
    corners = [first * second for first in (left[0], left[2]) for second in (right[0], right[2])]
    arrays = np.minimum.reduce(corners), left[1] * right[1], np.maximum.reduce(corners)
    low, middle, high = (np.where(one.present & two.present, array, 0.0) for array in arrays)
    return Linear(one.scope, low, middle, high)


def following_question(domain: Domain, parts: list[GroupWeights]) -> LinearQuery:
    """Return a question whose weights follow those of some sums: a half to one where any of them is not 0."""
    scope = union_scope(domain, [one.scope for one in parts])
    weights, inside = np.zeros(domain.scope_shape(scope)), np.zeros(domain.scope_shape(scope), dtype=bool)
    for number, part in enumerate(parts):
        middle = on_scope(domain, part.scope, part.middle, scope)
        span = float(middle.max() - middle.min())
        weights = weights + (middle - middle.min()) / (span or 1.0) / (number + 1)
        possible = (part.low != 0) | (part.high != 0)
        inside = inside | on_scope(domain, part.scope, possible, scope)
    weights = np.where(inside, 0.5 + 0.5 * weights / max(float(weights.max()), 1.0), 0.0)
    return LinearQuery(domain, (Factor(scope, np.rint(weights * UNITS).astype(np.int64)),))
