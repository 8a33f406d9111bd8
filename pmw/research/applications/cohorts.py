"""Cohort sizes: is each of a list of cohorts at least so large? By Sparse, and by noise on every count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.random_bits import BitSource
from pmw.research.applications.clipping import sum_noise
from pmw.sparse_vector import Sparse
from pmw.sparse_vector.noisy_comparison import require_integers


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
