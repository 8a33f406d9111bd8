"""Sums of values in answers: where in their cells values lie, and what was measured of a group's sums.

A sum of values over some records is the sum of the numbers that they were measured from, which is a count
with weights, and the measured sum of the differences. Which of two ways bounds it, this one or the ends of
cells, is decided by the scale of the noise and by how wide the cells are, not by what was drawn.

Where sums, numbers of values and squares have one noise, a combination with weights that are fixed beforehand
is off by the noise of one number. At the true mean r the sum less r times the number of values is 0 but for
noise whose weights r fixes. So those r at which it may be 0 hold the true one (Fieller 1954), and likewise of
variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.model.estimate import noise_variance
from pmw.model.measurement import SumMeasurement, Target
from pmw.model.value_sums import Places
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.local_models import local_models
from pmw.public.state import PublicState
from queries.cell_values import on_scope
from queries.domain import Domain
from queries.expressions import Summed
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index
from queries.records import CodedRecords

_STEPS = 32  # of a bisection
_MEANS = 4096  # candidates for a mean, across the range of the values
_Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class JointSums:
    """What was measured of some records' values under one noise, and what the values are measured from.

    Args:
        value: the sum of the differences of values from where they are measured from.
        squares: the sum of the squares of the differences; None where it was not measured.
        middle: what the values are measured from.
        reach: how far a value may be from the middle of those of its place.
        noise: of each cell's number, in units.
        cells: whose numbers these are the sums of.
        scale, one: what 2^20 units stand for in a sum, and in a number of values.
    """

    value: float
    count: float
    squares: float | None
    middle: float
    reach: float
    noise: NoiseDistribution
    cells: int
    scale: float
    one: float

    def half_width(self, weights: tuple[float, float, float], confidence: float) -> float:
        """Return how far a combination may be off by noise."""
        return self._width_of_one(confidence) * math.hypot(
            weights[0] * self.scale, weights[1] * self.one, weights[2] * self.scale**2
        )

    def _width_of_one(self, confidence: float) -> float:
        """Return how far numbers of all cells may be off whose 2^20 units stand for 1.

        No square of a weight is above that of a combination in its cell, so noise is spread over all cells.
        """
        return sum_half_width(self.noise, float(self.cells), confidence, peak=1.0)

    @property
    def rounded(self) -> float:
        """How far the sum may be above what was measured: each cell's was rounded down."""
        return self.cells * self.scale / UNITS

    def count_half_width(self, confidence: float) -> float:
        """Return how far the number of values may be off."""
        return self.half_width((0.0, 1.0, 0.0), confidence)

    def is_sure(self, least: int, confidence: float) -> bool:
        """Tell whether there are at least so many values."""
        return self.count - self.count_half_width(confidence) > least - 1

    def sum_half_width(self, line: _Ends, of_one: float, confidence: float) -> float:
        """Return how far a sum, less so much for each of the values, may be off by noise and by rounding."""
        factor, constant = line
        weights = factor, factor * self.middle + constant - of_one, 0.0
        return self.half_width(weights, confidence) + abs(factor) * self.rounded

    def sum_ends(self, line: _Ends, confidence: float) -> tuple[float, _Ends]:
        """Return the sum of what the values weigh, and what it lies between.

        How far values may be from the middles of their places is the same for all on average: some number
        within the reach, whose noise is that of a combination with fixed weights, and the ends are convex in
        it.
        """
        factor, constant = line
        weight, reach = factor * self.middle + constant, abs(factor) * self.reach
        found, ends = factor * self.value, list[float]()
        for moved in (-reach, reach):
            width = self.sum_half_width(line, -moved, confidence)
            ends += [found + (weight + moved) * self.count + sign * width for sign in (-1, 1)]
        return found + weight * self.count, (min(ends), max(ends))

    def mean(self, line: _Ends, records: float) -> float:
        """Return the mean of what the values weigh, of so many records; NaN where there are none."""
        factor, constant = line
        return factor * (self.middle + self.value / records) + constant if records > 0 else math.nan

    def mean_ends(self, line: _Ends, hard: _Ends, confidence: float) -> _Ends:
        """Return what the mean lies between.

        They hold if there are values. Where the number of them may be 0 any mean may be.
        """
        if not self.is_sure(1, confidence):
            return hard
        factor, constant = line
        weight, reach = factor * self.middle + constant, abs(factor) * self.reach

        def high(r: float) -> float:
            width = self.sum_half_width(line, r - reach, confidence)
            return factor * self.value + (weight + reach - r) * self.count + width

        def low(r: float) -> float:
            width = self.sum_half_width(line, r + reach, confidence)
            return factor * self.value + (weight - reach - r) * self.count - width

        top = last(lambda r: high(r) >= 0, *hard)
        return -last(lambda r: low(-r) <= 0, -hard[1], -hard[0]), top

    def variance(self, records: float) -> float:
        """Return the variance of the values over so many records; NaN where there are none."""
        if self.squares is None or records <= 0:
            return math.nan
        return max(self.squares / records - (self.value / records) ** 2, 0.0)

    def variance_width(self, mean: float, variance: float, confidence: float) -> float:
        """Return how far the sum of squares that a variance is taken of may be off by noise, by scales."""
        away = mean - self.middle
        return self.half_width((-2 * away, away**2 - variance, 1.0), confidence)

    def variance_ends(self, hard: _Ends, confidence: float) -> _Ends:
        """Return what the variance of the values lies between, over n of them.

        The mean is known from one event, and from another one the mean of (v - m)^2, for the point m of a
        fixed grid that is nearest to the true mean: within half a step h of it, so that it is the variance
        and at most h^2/4 more.
        """
        least, greatest = hard
        most = (greatest - least) ** 2 / 4
        if self.squares is None or not self.is_sure(1, confidence) or greatest <= least:
            return 0.0, most
        ends, step = self.mean_ends((1.0, 0.0), hard, confidence), (greatest - least) / _MEANS
        first, final = (math.floor((end - least) / step + 0.5) for end in ends)
        centres = np.asarray(least + step * np.arange(first, final + 1), dtype=np.float64)
        lows, highs = self._square_ends(centres, 4 * most, confidence)
        return max(0.0, float(lows.min()) - step**2 / 4), min(float(highs.max()), most)

    def _square_ends(
        self, centres: NDArray[np.float64], ceiling: float, confidence: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the means of squared differences from some points lie between: float64 each."""
        away = centres - self.middle
        # Of each value: its square was rounded down, and it may be beside the middle of its place.
        reach = (2 * (self.scale + np.abs(away)) + self.reach) * self.reach
        above, one = self.scale**2 / UNITS + reach, self._width_of_one(confidence)
        measured = (self.squares or 0.0) - 2 * away * self.value
        still = (2 * away * self.scale) ** 2 + self.scale**4

        def gap(r: NDArray[np.float64], sign: int) -> NDArray[np.float64]:
            weight = away**2 - r
            off = one * np.sqrt(still + (weight * self.one) ** 2) + 2 * np.abs(away) * self.rounded
            return np.asarray(measured + weight * self.count + sign * off, dtype=np.float64)

        least, greatest = np.zeros(len(centres)), np.full(len(centres), ceiling)
        lows, highs = (least, greatest.copy()), (least.copy(), greatest)
        for _ in range(_STEPS):
            middle = (lows[0] + lows[1]) / 2
            inside = gap(middle + reach, -1) <= 0
            lows = np.where(inside, lows[0], middle), np.where(inside, middle, lows[1])
            middle = (highs[0] + highs[1]) / 2
            inside = gap(middle - above, 1) >= 0
            highs = np.where(inside, middle, highs[0]), np.where(inside, highs[1], middle)
        return lows[0], highs[1]


JointLine = tuple[JointSums, _Ends]  # and what one of the values weighs: a factor, and a constant


def last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the greatest number in a range where a condition holds that holds up to it, from above."""
    if low >= high or holds(high):
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


_Array = NDArray[np.float64]
_MOST_TARGET_CELLS = 2048  # of an attribute whose sums rows are fitted to
_SPREAD = 1 / 12  # squared half-widths: how far the mean of a cell is taken to be from its middle, beforehand


class MeasuredPart(NamedTuple):
    """What was measured of a sum, beyond a count.

    Attributes:
        value: the measured sum of the differences.
        half_width: how far the truth may be from it.
        counted: float64, over the scope of the sum: the weights of the count that goes with it.
        reach: how far each weight may be off, since values are known to their places on the grid: float64.
        joint: the sum with the number of its values, where that was measured too.
    """

    value: float
    half_width: float
    counted: _Array
    reach: _Array
    joint: JointSums | None


@dataclass(frozen=True, slots=True)
class SummedOver:
    """A sum of values of an attribute over some records.

    Args:
        scope: attribute names in declared order, those of the attribute among them.
        held: bool, one axis per attribute: the records whose values count.
        middle: float64: the weights that stand for the cells, the middles of cells where values count.
    """

    summed: Summed
    scope: tuple[str, ...]
    held: NDArray[np.bool_]
    middle: _Array

    def question(self, domain: Domain) -> LinearQuery:
        """Return the question that counts these records, and perhaps others that hold no value."""
        name, scope, held = self.summed.line.attribute, self.scope, self.held
        place, present = scope.index(name), Places.of(domain, name).present
        inside = np.compress(present, held, axis=place)
        any_value = np.asarray(inside.any(axis=place))
        if np.array_equal(inside.all(axis=place), any_value):
            scope, held = tuple(one for one in scope if one != name), any_value
        return LinearQuery(domain, (Factor.where(scope, held),))


class ValueSums:
    """What a state knows of sums of values; what sums have in common is computed once."""

    def __init__(self, state: PublicState) -> None:
        self._state = state
        self._shifts: dict[str, _Array] = {}
        self._by_cells = [one for one in state.sums if not one.summed.rows]
        self._rows: dict[int, dict[str, int]] = {}  # of each measured list, the places of its questions

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self._state.domain

    def is_clipped(self, summed: Summed) -> bool:
        """Tell whether the values of each person come to no more than is declared."""
        person = self.domain.person
        return person is not None and summed.line.attribute in person.clip

    def above_zero(self, summed: Summed) -> _Array:
        """Return how much more the middle of each cell weighs than 0 does: float64, shape (cells,)."""
        return summed.line.factor * cell_middles(self.domain, summed.line.attribute)

    def shift(self, attribute: str) -> _Array:
        """Return how far the mean of each cell's values is above the cell's middle: float64, shape (cells,).

        The measured sum over the model's records, drawn to the middle as far as its noise asks for: values
        are taken to be spread evenly, with means that differ by a little. Where values are clipped, all means
        are scaled down to the measured total, drawn to the middles likewise.
        """
        if attribute not in self._shifts:
            self._shifts[attribute] = self._shift(attribute)
        return self._shifts[attribute]

    def _shift(self, attribute: str) -> _Array:
        own = (one for one in self._state.sums if one.summed.scope == (attribute,) and one.summed.by_cells)
        measured = next((one for one in own if one.summed.attribute == attribute), None)
        totals = (one for one in self._by_cells if one.summed.attribute == attribute and one.summed.clipped)
        total = next((one for one in totals if not one.summed.scope), None)
        if total is not None:
            middles = cell_middles(self.domain, attribute)
            whole = float(np.sum(middles * np.maximum(local_models(self._state).marginal((attribute,)), 0.0)))
            if whole <= 0:
                return np.zeros_like(middles)
            noise = float(total.scales(self.domain)) ** 2 * noise_variance(total.noise) / whole**2
            part = min(max(float(total.values(self.domain)) / whole, 0.0), 1.0)
            return middles * (part - 1.0) * _SPREAD / (_SPREAD + noise)
        cells = np.zeros(self.domain[attribute].size)
        if measured is None:
            return cells
        scales = measured.scales(self.domain)
        counts = np.maximum(local_models(self._state).marginal((attribute,)), 0.0)
        noise = noise_variance(measured.noise)
        mean = measured.sums / UNITS * counts * _SPREAD / (counts**2 * _SPREAD + noise)
        moved = np.clip(mean, -1.0, 1.0) * scales
        return np.where(
            scales > 0, moved + measured.middles(self.domain) - cell_middles(self.domain, attribute), 0.0
        )

    def leans(self, records: CodedRecords) -> dict[str, _Array]:
        """Return where in their cells numbers of synthetic rows lie on average, by what was measured of sums.

        Of the newest sums by groups, those of each group add up to what was measured, as far as its cells
        allow; where none were measured, those of each cell have the mean that opening tells.

        Returns:
            Of each attribute whose values are summed, float64, shape (rows,), in (0, 1).
        """
        names = dict.fromkeys(one.summed.attribute for one in self._by_cells if not one.summed.clipped)
        return {name: self._leans(name, records) for name in names}

    def targets(self) -> Sequence[Target]:
        """Return what synthetic rows should add up to: the newest sums by groups, and numbers of values.

        A row counts with the mean of its cell, or bin. Left out are groups by bins of long attributes, and
        attributes with so many cells that all pairs of them are too much to hold.
        """
        coarsening, found = self._state.coarsening, list[Target]()
        newest = {(one.summed.attribute, one.summed.scope): one for one in self._by_cells}
        for (name, scope), one in newest.items():
            cells = coarsening.coarse[name].size
            if one.summed.by_cells or one.summed.clipped or name in scope or cells > _MOST_TARGET_CELLS:
                continue
            if coarsening.coarse.scope_shape(scope) != self.domain.scope_shape(scope):
                continue
            over, present = self.domain.scope(one.summed.counted), Places.of(self.domain, name).present
            places = cell_middles(self.domain, name) + self.shift(name) - one.middles(self.domain)
            weights = coarsening.averaged((name,), np.where(present, places, 0.0))
            scale, variance = float(one.scales(self.domain).max()), noise_variance(one.noise)
            where = over.index(name)
            if weights.any():
                sums = one.values(self.domain)
                found.append(Target.of_sums(over, where, weights, sums, variance * scale**2))
            if one.summed.count_units:
                ones = coarsening.averaged((name,), present.astype(np.float64))
                counted = variance * (UNITS / one.summed.count_units) ** 2
                found.append(Target.of_sums(over, where, ones, one.counts, counted))
        return found

    def _leans(self, name: str, records: CodedRecords) -> _Array:
        own = (one for one in self._by_cells if one.summed.attribute == name and not one.summed.by_cells)
        grouped = list(own)
        codes = records.columns[self.domain.index(name)].astype(np.int64)
        least, greatest = self._reached(name)
        if not grouped:
            wide = greatest - least
            return _inside(0.5 + self.shift(name) / np.where(wide > 0, wide, 1.0))[codes]
        measured = grouped[-1]
        groups = np.zeros(len(records), dtype=np.int64)
        for one in measured.summed.scope:
            groups = groups * self.domain[one].size + records.columns[self.domain.index(one)]
        held = Places.of(self.domain, name).present[codes]

        def summed(numbers: _Array) -> _Array:
            weights = np.where(held, numbers, 0.0)
            return np.asarray(np.bincount(as_index(groups), weights, measured.sums.size), dtype=np.float64)

        if measured.summed.count_units:  # rows have the mean, whatever their number is
            rows = summed(np.ones(len(records))) / np.maximum(measured.counts.ravel(), 1.0)
        else:
            rows = np.full(measured.sums.size, len(records) / self._state.total.value)
        wanted = measured.values(self.domain).ravel() * rows + summed(measured.middles(self.domain)[codes])
        low, wide = summed(least[codes]), summed((greatest - least)[codes])
        return _inside((wanted - low) / np.where(wide > 0, wide, 1.0))[groups]

    def _reached(self, attribute: str) -> tuple[_Array, _Array]:
        """Return the ends between which numbers of each cell are drawn: float64, shape (cells,) each.

        A whole number is drawn as a real one is, half of 1 to either side of it, and then rounded.
        """
        declared = self.domain[attribute]
        least, greatest = declared.number_ends() or ((), ())
        ends = np.zeros((2, declared.size))
        beyond = 0.5 if declared.is_whole else 0.0
        ends[0, : len(least)] = np.array(least) - beyond
        ends[1, : len(greatest)] = np.array(greatest) + beyond
        return ends[0], ends[1]

    def measured(self, over: SummedOver, confidence: float) -> Sequence[MeasuredPart]:
        """Return what was measured of a sum: of the least noise, alone and with the number of its values."""
        name = over.summed.line.attribute
        found = [
            part
            for one in self._state.sums
            if one.summed.attribute == name and (part := self._part(one, over, confidence)) is not None
        ]
        found.sort(key=lambda part: part.half_width)
        joint = [part for part in found[1:] if part.joint is not None]
        return (*found[:1], *joint[:1])

    def squared(self, over: SummedOver) -> JointSums | None:
        """Return what was measured of squares, with the least noise; None where nothing was."""
        name, found = over.summed.line.attribute, list[JointSums]()
        for one in self._state.sums:
            inside = self._inside(one, over) if one.summed.attribute == name and one.summed.squared else None
            joint = None if inside is None else self._joint(one, inside)
            found += [] if joint is None else [joint]
        return min(
            found,
            key=lambda joint: joint.cells * joint.scale * float(noise_variance(joint.noise)),
            default=None,
        )

    def _part(self, measured: SumMeasurement, over: SummedOver, confidence: float) -> MeasuredPart | None:
        inside = self._inside(measured, over)
        if inside is None:
            return None
        domain, name, factor = self.domain, *over.summed.line
        scales = np.where(inside, measured.scales(domain), 0.0)
        squares, largest = float(np.sum(scales**2)), float(np.max(scales, initial=0.0))
        width = sum_half_width(measured.noise, squares, confidence, peak=largest**2 or None)
        width += float(scales.sum()) / UNITS  # it was rounded down
        moved = measured.middles(domain) - cell_middles(self.domain, name)
        places = np.broadcast_to(on_scope(domain, (name,), moved, over.scope), over.held.shape)
        counted = over.middle + np.where(over.held, factor * places, 0.0)
        reach = np.where(over.held, abs(factor) * Places.of(domain, name).grid.reach, 0.0)
        value = factor * float(np.sum(scales * measured.sums) / UNITS)
        return MeasuredPart(value, abs(factor) * width, counted, reach, self._joint(measured, inside))

    def _joint(self, measured: SumMeasurement, inside: NDArray[np.bool_]) -> JointSums | None:
        summed, domain = measured.summed, self.domain
        cells = int(np.count_nonzero(inside))
        if not summed.count_units or not cells:
            return None
        places = Places.of(domain, summed.attribute)
        return JointSums(
            float(measured.values(domain)[inside].sum()),
            float(measured.counts[inside].sum()),
            float(measured.squares(domain)[inside].sum()) if summed.squared else None,
            float(measured.middles(domain)[places.present][0]),
            places.grid.reach,
            measured.noise,
            cells,
            float(measured.scales(domain).max()),
            UNITS / summed.count_units,
        )

    def _inside(self, measured: SumMeasurement, over: SummedOver) -> NDArray[np.bool_] | None:
        """Return the numbers whose sum is that of the records that count; None where there are none such.

        Whether a record counts has to follow from its cell in the measured scope, but for records without a
        value.
        """
        if measured.summed.rows:  # the one question that counts these records
            places = self._rows.get(id(measured))
            if places is None:
                places = {row.to_json(): place for place, row in enumerate(measured.summed.rows)}
                self._rows[id(measured)] = places
            place = places.get(over.question(self.domain).to_json())
            return None if place is None else np.arange(len(places)) == place
        name, scope = over.summed.line.attribute, measured.summed.scope
        held = over.held
        if name not in scope:  # of the cells that hold values
            place = over.scope.index(name)
            held = np.compress(Places.of(self.domain, name).present, held, axis=place)
        beside = tuple(place for place, one in enumerate(over.scope) if one not in scope)
        least = np.asarray(held.all(axis=beside, keepdims=True))
        most = np.asarray(held.any(axis=beside, keepdims=True))
        if not np.array_equal(least, most):
            return None
        common = tuple(one for one in over.scope if one in scope)
        inside = least.reshape([self.domain[one].size for one in common])
        inside = on_scope(self.domain, common, inside, scope)
        return np.broadcast_to(inside, measured.sums.shape)


def cell_middles(domain: Domain, attribute: str) -> _Array:
    """Return the middle of each cell, as sums without measurements have it: float64; 0 without values."""
    least, greatest = domain[attribute].number_ends() or ((), ())
    middles = np.zeros(domain[attribute].size)
    middles[: len(least)] = (np.array(least) + np.array(greatest)) / 2
    return middles


def _inside(places: _Array) -> _Array:
    """Return mean places in a cell, kept so far from its ends that numbers still differ."""
    return np.clip(places, 0.01, 0.99)


def joined_by_width(values: tuple[float, float], widths: tuple[float, float]) -> float:
    """Return two estimates of a number joined, each by the square of its half-width."""
    (one, other), (width, wider) = values, widths
    if math.isinf(wider) or width == wider == 0:
        return one
    if math.isinf(width):
        return other
    part = wider**2 / (width**2 + wider**2)
    return part * one + (1 - part) * other
