"""The sound algorithms of Lyu, Su and Li, under their numbers: 1, 2 and 7.

Their Algorithms 3 to 6 are not private as stated and are found in ``pmw.research.sparse_vectors.flawed``
alone.

Source: Lyu, Su and Li, "Understanding the Sparse Vector Technique for Differential Privacy" (2017).
"""

from __future__ import annotations

from pmw.errors import BudgetError
from pmw.privacy.budget import Number
from pmw.privacy.noise import DiscreteLaplace
from pmw.sparse_vector.comparison import Comparison, Ratio, Split, scale_up
from pmw.sparse_vector.numeric_sparse import NumericSparse
from pmw.sparse_vector.sparse import Sparse


def algorithm_1(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> Sparse:
    """Return Algorithm 1: one threshold noise Lap(2 Delta/epsilon), kept; tests Lap(4 c Delta/epsilon).

    Raises:
        BudgetError: a parameter is out of range.

    Privacy: epsilon-DP.
    """
    split = Split.of(Ratio.EVEN, epsilon=epsilon, update_limit=update_limit)
    return algorithm_7(Comparison(sensitivity=sensitivity), split, update_limit)


def algorithm_2(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> Sparse:
    """Return Algorithm 2, Dwork and Roth's: threshold noise Lap(2 c Delta/epsilon), redrawn; tests twice it.

    Raises:
        BudgetError: a parameter is out of range.

    Privacy: epsilon-DP.
    """
    return Sparse.textbook(epsilon=epsilon, update_limit=update_limit, sensitivity=sensitivity)


def algorithm_7(comparison: Comparison, split: Split, update_limit: int) -> Sparse:
    """Return Algorithm 7 without values: threshold Delta/epsilon1, kept; tests 2 c Delta/epsilon2.

    Monotone values need c Delta/epsilon2 only.

    Args:
        comparison: what is compared; Laplace noise is the paper's, exponential noise costs the same.
        split: the shares, epsilon3 = 0.
        update_limit: c.

    Raises:
        BudgetError: a parameter is out of range, or the split pays for values.

    Privacy: (epsilon1 + epsilon2)-DP.

    Source: Algorithm 7 and Theorems 4 and 5; Section 4.2 for the split. Exponential noise: Liu et al. (2024).
    """
    if split.epsilon3:
        raise BudgetError(f"expected epsilon3 = 0 where no value is released, got {float(split.epsilon3):g}")
    return Sparse(comparison.priced(split, update_limit), update_limit, redraw=False)


def numeric_algorithm_7(comparison: Comparison, split: Split, update_limit: int) -> NumericSparse:
    """Return Algorithm 7 with values: beside the tests, each positive value plus Lap(c Delta/epsilon3).

    Args:
        comparison: what is compared.
        split: the shares, epsilon3 > 0.
        update_limit: c.

    Raises:
        BudgetError: a parameter is out of range, or the split does not pay for values.

    Privacy: (epsilon1 + epsilon2 + epsilon3)-DP.

    Source: Algorithm 7 with epsilon3 > 0.
    """
    if not split.epsilon3:
        raise BudgetError("expected epsilon3 > 0 where values are released, got 0")
    tests = algorithm_7(comparison, Split(split.epsilon1, split.epsilon2), update_limit)
    return NumericSparse(
        tests, DiscreteLaplace(scale_up(update_limit * comparison.sensitivity / split.epsilon3))
    )
