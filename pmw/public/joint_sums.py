"""Sums, numbers of values and sums of squares that have one noise: means and variances, and their ends.

A combination of these numbers with weights that are fixed beforehand is off by the noise of one number. At
the true mean r the sum less r times the number of values is 0 but for noise whose weights r fixes. So those r
at which it may be 0 hold the true one (Fieller 1954), and likewise of variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.tail_bounds import sum_half_width
from queries.factors import UNITS
from queries.frozen import dataclass

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
        """Return how far a combination may be off by noise.

        Args:
            confidence: that the noise holds.
        """
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
        """Return how far a sum, less so much for each of the values, may be off by noise and by rounding.

        Args:
            confidence: that the noise holds.
        """
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

        Args:
            confidence: that the noise holds.
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
        """Return what the means of squared differences from some points lie between: float64 each.

        Args:
            centres: float64, the points.
            confidence: that the noise holds, at each point by itself.
        """
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
