"""Clipping bounds: where the clipped sum of a column stops growing, found at a price that no list lengthens.

With S(b) the sum of the values clipped to 0..b, the query at bound b is S(b) - S(b + 1). S itself changes by
up to b with one record, this difference by at most 1: on integers it is minus the number of values above b.
It climbs to 0 as b approaches the largest value, and AboveThreshold finds the first b where it is near.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction, round_up
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import AboveThreshold
from pmw.sparse_vector.noisy_comparison import require_integers
from queries.frozen import dataclass

_SCALE_GRID = 2**10  # scales are rounded up to multiples of 1/_SCALE_GRID
_LARGEST_SCALE = 2**40
_LOW_BITS = 32
_BLOCK = 4096  # tests whose noise is drawn at a time


def clipped_sum(values: NDArray[np.int64], bound: int) -> int:
    """Return the sum of the values clipped to 0..bound: exact, however large.

    Args:
        values: int64, shape (n,), true data.
        bound: b, at least 0.

    Privacy: the true sum, of sensitivity b: add noise before it is shown.
    """
    clipped = np.clip(require_integers(values), 0, bound)
    # In two halves, so that no 64-bit sum overflows.
    high, low = int((clipped >> _LOW_BITS).sum()), int((clipped & (2**_LOW_BITS - 1)).sum())
    return (high << _LOW_BITS) + low


def clipping_queries(values: NDArray[np.int64], bounds: ArrayLike) -> NDArray[np.int64]:
    """Return S(b) - S(b + 1) for each bound b: minus the number of values above b.

    Args:
        values: int64, shape (n,), true data.
        bounds: whole numbers, shape (k,), public.

    Returns:
        int64, shape (k,), none above 0.

    Privacy: true values, each of sensitivity 1 when a record is added, removed or replaced. They all move
        the same way when one is added or removed.
    """
    ordered = np.sort(require_integers(values))
    return np.searchsorted(ordered, checked_bounds(bounds), side="right") - np.int64(len(ordered))


def clipping_bound(
    values: NDArray[np.int64],
    bounds: ArrayLike,
    algorithm: AboveThreshold,
    *,
    threshold: int = 0,
    bits: BitSource,
) -> int | None:
    """Return the first bound above which, up to noise, no more than -threshold values lie; None if none has.

    Args:
        values: int64, shape (n,), true data.
        bounds: whole numbers of at least 1, rising, public; the list may be of any length.
        algorithm: tests of sensitivity 1. ``monotone`` is allowed where records are added or removed.
        threshold: T of the tests. At 0 the largest value is looked for, and the noise may carry the search
            past it; T = -m settles where up to about m values are cut. See ``firm_threshold``.
        bits: source of the noise.

    Raises:
        BudgetError: bounds are out of order or below 1.

    Privacy: ``algorithm.epsilon``, for a list of any length.

    Source: Dwork and Roth (2014), Algorithm 1, on the difference queries of Near and Abuah, "Programming
        Differential Privacy", chapter on the sparse vector technique.
    """
    places = checked_bounds(bounds)
    changes = clipping_queries(values, places)
    noisy = algorithm.open(bits)
    for start in range(0, len(places), _BLOCK):
        block = changes[start : start + _BLOCK]
        _, outcomes = algorithm.scan(noisy, block, np.full(len(block), threshold), bits)
        if outcomes[-1]:
            return int(places[start + len(outcomes) - 1])
    return None


def firm_threshold(algorithm: AboveThreshold, *, confidence: float) -> int:
    """Return the T at which the first bound that cuts nothing passes, where the search comes so far.

    Its query is 0, and passes a threshold that lies the margin of a negative below that. At T = 0 it passes
    hardly more often than not, and the noisy threshold, drawn once, may carry the search far past it.

    Args:
        algorithm: tests of sensitivity 1.
        confidence: of passing, between 0 and 1.

    Raises:
        BudgetError: the confidence is out of range.
    """
    if not 0 < confidence < 1:
        raise BudgetError(f"expected a confidence between 0 and 1, got {confidence!r}")
    return -math.ceil(algorithm.test.negative_margin(confidence))


def naive_clipping_bound(
    values: NDArray[np.int64],
    bounds: ArrayLike,
    *,
    epsilon: Number,
    threshold: int = 10,
    bits: BitSource,
) -> int:
    """Return the first bound at which a noisy sum is hardly above the one before; the last if none is.

    For comparison: every sum on the list is paid for, so its noise grows with the length k of the list, to
    a scale of b k/epsilon.

    Args:
        values: int64, shape (n,), true data.
        bounds: whole numbers of at least 1, rising, public.
        epsilon: of the whole list.
        threshold: the increase that counts as none.
        bits: source of the noise.

    Raises:
        BudgetError: bounds are out of order or below 1, or the noise is too wide to draw.

    Privacy: epsilon, by composition of one noisy sum per bound.

    Source: Near and Abuah, "Programming Differential Privacy", as above.
    """
    places = checked_bounds(bounds)
    return first_settled_sum(
        lambda bound: clipped_sum(values, bound), places, epsilon=epsilon, threshold=threshold, bits=bits
    )


def first_settled_sum(
    sum_at: Callable[[int], int],
    places: NDArray[np.int64],
    *,
    epsilon: Number,
    threshold: int,
    bits: BitSource,
) -> int:
    """Return the first bound at which a noisy sum is hardly above the one before; the last if none is.

    Args:
        sum_at: the true sum at bound b, of sensitivity b.
        places: int64, shape (k,), the bounds, as ``checked_bounds`` returns them.
        epsilon: of the whole list.
        threshold: the increase that counts as none.
        bits: source of the noise.

    Raises:
        BudgetError: the noise is too wide to draw.

    Privacy: epsilon, by composition of one noisy sum per bound.
    """
    each = as_fraction(epsilon, "epsilon") / len(places)
    sum_noise(int(places[-1]), each)  # refuses what is too wide before anything is drawn
    before = 0
    for bound in places.tolist():
        noisy = sum_at(bound) + sum_noise(bound, each).sample(bits)
        if noisy - before <= threshold:
            return int(bound)
        before = noisy
    return int(places[-1])


def checked_bounds(bounds: ArrayLike) -> NDArray[np.int64]:
    """Return the bounds as int64, shape (k,).

    Raises:
        BudgetError: they are not whole numbers, none, below 1, or not rising.
    """
    places = np.asarray(bounds)
    if places.ndim != 1 or not len(places) or not np.issubdtype(places.dtype, np.integer):
        raise BudgetError("expected a list of whole numbers as clipping bounds")
    if places[0] < 1 or (places[1:] <= places[:-1]).any():
        raise BudgetError("expected clipping bounds of at least 1, each above the one before")
    return places.astype(np.int64)


def sum_noise(sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
    """Return the noise that makes a sum of this sensitivity epsilon-DP, its scale rounded up to 1/1024.

    Raises:
        BudgetError: epsilon is not positive, or the scale is beyond 2^40.
    """
    if epsilon <= 0:
        raise BudgetError(f"expected epsilon > 0, got epsilon={float(epsilon):g}")
    scale = round_up(Fraction(sensitivity) / epsilon, _SCALE_GRID)
    if scale > _LARGEST_SCALE:
        raise BudgetError(
            f"expected a noise scale of at most 2^40, got {float(scale):g} = {sensitivity:,}/epsilon; "
            "give smaller bounds or a larger epsilon"
        )
    return DiscreteLaplace(scale)


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
