"""Large counts: the ranges worth answering, and the cohorts of a least size, found by Sparse."""

from __future__ import annotations

import numpy as np
from applications.clipping import sum_noise
from numpy.typing import ArrayLike, NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import Sparse
from pmw.sparse_vector.noisy_comparison import require_integers
from queries.frozen import dataclass


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


def sparse_cohorts(
    sizes: NDArray[np.int64], algorithm: Sparse, *, threshold: int, bits: BitSource
) -> NDArray[np.bool_]:
    """Say of each cohort in turn whether it has the threshold's number of members, until c have.

    Args:
        sizes: int64, shape (k,), true counts; cohorts may overlap.
        algorithm: Sparse on counts; it halts after its ``update_limit`` c of large cohorts, not c + 1.
        threshold: T, public, in records.
        bits: source of the noise.

    Returns:
        bool, shape (m,), m <= k; cohorts beyond the c-th large one have no answer.

    Raises:
        BudgetError: the sizes are not integers.

    Privacy: that of the algorithm, for a list of any length.

    Source: Machanavajjhala (2016), slides on the sparse vector technique, cohort size estimation.
    """
    sizes = require_integers(sizes)
    return algorithm.run(sizes, np.full(len(sizes), threshold), bits) > 0


def laplace_cohorts(
    sizes: NDArray[np.int64], *, epsilon: Number, threshold: int, bits: BitSource
) -> NDArray[np.bool_]:
    """Say of each cohort whether it is large by a noisy count of its own: bool, shape (k,).

    For comparison: k counts at epsilon/k each, noise of scale k/epsilon.

    Args:
        sizes: int64, shape (k,), true counts; cohorts may overlap.
        epsilon: of the whole list.
        threshold: T, public, in records.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, or the sizes are not integers.

    Privacy: epsilon, by composition of one noisy count per cohort.
    """
    sizes = require_integers(sizes)
    noise = sum_noise(max(1, len(sizes)), as_fraction(epsilon, "epsilon"))
    return sizes + noise.sample_array(bits, len(sizes)) >= threshold
