"""Bands of tests: how near to its threshold a value must lie for a sparse vector's test to err."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution
from pmw.sparse_vector import NoisyComparison, Sides

__all__ = [
    "half_band",
]

_FAR = 2**62  # units; beyond every scale that noise is made for


def half_band(test: NoisyComparison, tests: int, positives: int, *, beta: float = 0.05) -> float:
    """Return the half-width of the band in which any test of a run may err, in units.

    With probability at least 1 - beta all of so many values below the band are found below, and all of so
    many above it above, where the threshold stands at the band's middle but for one public shift. A false
    positive needs nu - rho of at least the distance, a false negative rho - nu: each tail of a law takes an
    equal part of beta, by the union bound. Exact one-dimensional integrals are 3 to 7 % smaller.

    Args:
        test: the comparison.
        tests: how many values are tested.
        positives: how many of them are to pass.
        beta: failure probability of the run.

    Source: Dwork and Roth (2014), Theorem 3.24, for the union bound.
    """
    kept, fresh = test.threshold_noise, test.query_noise
    draws = 2 if test.sides is Sides.TWO_THRESHOLDS else 1
    tails = 2 + sum(_is_two_sided(law) for law in (kept, fresh))
    part = beta / tails
    rise = _upper(fresh, part / (draws * tests)) + _lower(kept, part / draws)
    fall = _upper(kept, part / draws) + _lower(fresh, part / positives)
    return (rise + fall) / 2


def _is_two_sided(law: Distribution) -> bool:
    return isinstance(law, DiscreteLaplace | DiscreteGaussian)


def _upper(law: Distribution, probability: float) -> int:
    """Return the least number that the noise reaches with at most a probability.

    Of Gaussian noise it is the continuous quantile and one unit, for wide noise has no table.
    """
    if isinstance(law, DiscreteGaussian):
        return math.ceil(float(law.sigma) * NormalDist().inv_cdf(1 - probability)) + 1
    low, high = 0, _FAR
    while low < high:
        middle = (low + high) // 2
        if law.survival(np.array([middle]))[0] <= probability:
            high = middle
        else:
            low = middle + 1
    return low


def _lower(law: Distribution, probability: float) -> int:
    """Return the least number below whose negative the noise falls with at most a probability."""
    return _upper(law, probability) if _is_two_sided(law) else 0
