"""The noise of a table that is measured whole, where the number of records is known beside its cells.

Let y_i be the m noisy cells, each of variance s^2, and t the number of records, released with independent
noise of variance r s^2, or public (r = 0). A question with weights w_i is answered by

    sum w_i y_i + k (t - sum y_i),   k = W/(m + r),   W = sum w_i,

which is unbiased for every k; this k has the least variance, s^2 (sum w_i^2 - W^2/(m + r)). So a question
about most records is known as well as one about the few others. k is in proportion to W: the answer is that
of cells that all moved by (t - sum y_i)/(m + r). That is (estimate - sum y_i)/m, with the estimate of the
number of records that weighs t and sum y_i by inverse variance.

This holds for any real weights, those of a sum of numbers too. The noise of the answer has weight w_i - k on
cell i and k on t, so the squares are sum w_i^2 - 2kW + (m + r)k^2. With a the least of 0 and the weights, b
the greatest, W is between m a and m b, so k is between a and b. w_i - k is at most b, or b - k where k is
negative, and at least a, or a - k where k is positive: no |w_i - k| exceeds the larger of b - min(k, 0) and
max(k, 0) - a, which is 1 for weights in [0, 1]. The half-width is in proportion to the weights.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.model import MarginalMeasurement, NoiseDistribution, noise_variance
from pmw.privacy.tail_bounds import sum_half_width

_INTERVALS = 512  # of the weight of a question, in each of which its widest interval is bounded
_BESIDE = 1e-9  # relative: below a power of 2


@dataclass(frozen=True, slots=True)
class TableNoise:
    """The noise of such a table.

    Args:
        noise: on each cell, in units.
        cells: m, how many were measured.
        ratio: r, the variance of the noise on the number of records in those of a cell; 0 where it is public.
    """

    noise: NoiseDistribution
    cells: int
    ratio: float

    @classmethod
    def of(cls, noise: NoiseDistribution, cells: int, deviation: float) -> TableNoise:
        """Return the noise of a table by the deviation of the number of records that takes in its cells.

        Args:
            noise: on each cell, in units.
            cells: how many were measured.
            deviation: of the number of records, in records: 1/deviation^2 = 1/(r s^2) + 1/(m s^2).
        """
        part = deviation**2 / (cells * noise_variance(noise))  # r/(m + r)
        return cls(noise, cells, cells * part / (1 - part) if part < 1 else math.inf)

    def half_width(
        self, squares: float, weight: float, confidence: float, ends: tuple[float, float] = (0.0, 1.0)
    ) -> float:
        """Return how far the truth may be from the answer to a question, or from a sum, in records.

        The noise is a sum over the cells with weights w_i - k, and of the number of records with weight k: in
        scales of a cell's noise the square of that is k^2 r. Where the number of records is the less noisy
        one, it is taken to be as noisy as a cell, so that ``sum_half_width`` holds.

        Args:
            squares: sum of w_i^2 over the measured cells.
            weight: W, the sum of w_i over them.
            confidence: of the width.
            ends: the least and the greatest weight; those of a question are in [0, 1].
        """
        left, peak = self._left(squares, weight), self._peak(weight, ends)
        return sum_half_width(self.noise, left, confidence, peak=peak)

    def widest(self, confidence: float) -> float:
        """Return what no half-width of a question with weights in [0, 1] exceeds, in records.

        Between whole W the squares that are left are convex in W, and they are concave over whole W: so in
        each of some intervals of W their most is at its ends or at the one maximum, and the largest square
        grows with W. Where the quantile steps with the number of equal cells, both sides of the step count.
        """
        ends = np.unique(
            np.linspace(0, self.cells, min(self.cells, _INTERVALS) + 1).astype(np.int64)
        ).tolist()
        gain = self._left(0.0, 1.0, floor=False)  # the squares that are left are W + gain W^2 at most
        peak_at = float(self.cells) if gain >= 0 else min(-1 / (2 * gain), float(self.cells))
        widths = []
        for low, high in itertools.pairwise(ends):
            inside = min(max(round(peak_at), low), high)
            most = max(self._left(float(one), float(one)) for one in (low, inside, high))
            peak = self._peak(float(high))
            step = peak * 2.0 ** math.floor(math.log2(max(most / peak, 1.0))) * (1 - _BESIDE)
            widths += [
                sum_half_width(self.noise, one, confidence, peak=peak) for one in (most, min(step, most))
            ]
        return max(widths)

    @property
    def _shift(self) -> float:
        """1/(m + r)."""
        return 1 / (self.cells + self.ratio)

    def _left(self, squares: float, weight: float, *, floor: bool = True) -> float:
        """Return the sum of the squares of all weights, in scales of a cell's noise."""
        share = weight * self._shift
        left = squares - 2 * share * weight + (self.cells + self._known) * share**2
        return max(0.0, left) if floor else left

    def _peak(self, weight: float, ends: tuple[float, float] = (0.0, 1.0)) -> float:
        """Return what no square of a weight exceeds, in scales of a cell's noise."""
        share = weight * self._shift
        above = max(ends[1], 0.0) - min(share, 0.0)
        below = max(share, 0.0) - min(ends[0], 0.0)
        return max(above**2, below**2, self._known * share**2)

    @property
    def _known(self) -> float:
        """r, where there is noise on the number of records at least that of a cell."""
        return max(self.ratio, 1.0) if 0 < self.ratio < math.inf else 0.0


def moved_cells(table: MarginalMeasurement, estimate: float) -> NDArray[np.float64]:
    """Return the cells of a table, moved alike so that they sum to the number of records: float64, records.

    Args:
        table: the noisy cells.
        estimate: the number of records that takes in their sum by inverse variance, or the public one.
    """
    values = table.values
    return values + (estimate - float(values.sum())) / values.size
