"""Averages: a clipping bound is found, then the clipped sum and the count are released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.random_bits import BitSource
from pmw.research.applications.clipping import checked_bounds, clipped_sum, clipping_bound, sum_noise
from pmw.sparse_vector import AboveThreshold
from pmw.sparse_vector.noisy_comparison import require_integers


@dataclass(frozen=True, slots=True)
class AutoAverage:
    """A released average and what it is made of; all of it is public.

    Args:
        bound: the clipping bound that was found, in units of the column.
        noisy_sum: the sum of the values clipped to 0..bound, with noise, in units of the column.
        noisy_count: the number of values, with noise.
    """

    bound: int
    noisy_sum: int
    noisy_count: int

    @property
    def average(self) -> float:
        """Noisy sum over noisy count, in units of the column; the count is taken as at least 1."""
        return self.noisy_sum / max(1, self.noisy_count)


def auto_avg(
    values: NDArray[np.int64],
    bounds: ArrayLike,
    *,
    epsilon: Number,
    threshold: int = 0,
    bits: BitSource,
) -> AutoAverage:
    """Return the average of a column of any scale, a third of epsilon for each of bound, sum and count.

    Where no bound passes, the last one is taken, which tells no more than that none passed. Values below 0
    count as 0.

    Args:
        values: int64, shape (n,), true data, one value per record.
        bounds: whole numbers of at least 1, rising, public; as many and as far apart as one likes.
        epsilon: of the whole.
        threshold: T of the search for the bound, see ``clipping_bound``.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, bounds are out of order or below 1, or the noise is too wide.

    Privacy: epsilon-DP when a record is added, removed or replaced: AboveThreshold at epsilon/3, then
        Laplace noise of scale 3 b/epsilon on a sum of sensitivity b, and of 3/epsilon on the count.

    Source: Near and Abuah, "Programming Differential Privacy", chapter on the sparse vector technique.
        Departures: where no bound passes, the chapter takes one at random; noise and sums are exact here.
    """
    values = require_integers(values)
    third = as_fraction(epsilon, "epsilon") / 3
    places = checked_bounds(bounds)
    sum_noise(int(places[-1]), third)  # refuses what is too wide before anything is drawn
    algorithm = AboveThreshold.textbook(epsilon=third)
    found = clipping_bound(values, places, algorithm, threshold=threshold, bits=bits)
    bound = int(places[-1]) if found is None else found
    noisy_sum = clipped_sum(values, bound) + sum_noise(bound, third).sample(bits)
    return AutoAverage(bound, noisy_sum, len(values) + sum_noise(1, third).sample(bits))
