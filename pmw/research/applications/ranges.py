"""Range queries worth answering: Sparse finds the large ones, and only they are paid for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.random_bits import BitSource
from pmw.research.applications.clipping import sum_noise
from pmw.sparse_vector import Sparse
from pmw.sparse_vector.noisy_comparison import require_integers


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """The released count of one range; all of it is public.

    Args:
        place: which range of the list it answers, from 0.
        low: the smallest value that is counted.
        high: the largest value that is counted.
        count: records in the range, with noise.
        scale: of that noise, in records.
    """

    place: int
    low: int
    high: int
    count: int
    scale: float


def range_counts(values: NDArray[np.int64], ranges: ArrayLike) -> NDArray[np.int64]:
    """Return how many values lie in each range, both ends included.

    Args:
        values: int64, shape (n,), true data.
        ranges: whole numbers, shape (k, 2), public: the ends of each range.

    Returns:
        int64, shape (k,).

    Raises:
        BudgetError: the values are not whole numbers, or the ranges no pairs of them.

    Privacy: true counts, each of sensitivity 1, all moving the same way when a record is added or removed.
    """
    ends = np.asarray(ranges)
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.issubdtype(ends.dtype, np.integer):
        raise BudgetError("expected pairs of whole numbers as ranges")
    ordered = np.sort(require_integers(values))
    up_to_high = np.searchsorted(ordered, ends[:, 1], side="right")
    below_low = np.searchsorted(ordered, ends[:, 0], side="left")
    counts: NDArray[np.int64] = np.maximum(up_to_high - below_low, 0).astype(np.int64)
    return counts


def range_query_svt(
    values: NDArray[np.int64],
    ranges: ArrayLike,
    algorithm: Sparse,
    *,
    threshold: int,
    epsilon: Number,
    bits: BitSource,
) -> tuple[RangeAnswer, ...]:
    """Answer the first ranges whose count is, up to noise, above the threshold; the others cost nothing.

    Args:
        values: int64, shape (n,), true data.
        ranges: whole numbers, shape (k, 2), public: both ends are included.
        algorithm: Sparse on counts, which finds at most its ``update_limit`` of ranges.
        threshold: T, public, in records.
        epsilon: of all the counts that are answered. Those that were found share it evenly.
        bits: source of the noise.

    Raises:
        BudgetError: the ranges are not pairs of whole numbers, or epsilon is not positive.

    Privacy: the price of the algorithm, and epsilon for the counts. Their number is known from the tests
        by the time that their noise is chosen, so it may be shared among fewer than ``update_limit``.

    Source: Near and Abuah, "Programming Differential Privacy", chapter on the sparse vector technique.
        Departures: each answer says which range it is for, and counts that were not found leave their share
        to those that were. Fresh noise: a count is never the number that its test compared.
    """
    price = as_fraction(epsilon, "epsilon")
    sum_noise(algorithm.update_limit, price)  # refuses a bad price before anything is drawn
    counts = range_counts(values, ranges)
    places = np.flatnonzero(algorithm.run(counts, np.full(len(counts), threshold), bits))
    if not len(places):
        return ()
    noise = sum_noise(1, price / len(places))
    ends = np.asarray(ranges)[places].tolist()
    return tuple(
        RangeAnswer(place, low, high, int(counts[place]) + noise.sample(bits), float(noise.scale))
        for place, (low, high) in zip(places.tolist(), ends, strict=True)
    )
