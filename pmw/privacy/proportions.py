"""Proportions: exact bounds on a probability, from how often something came in independent trials.

Source: Clopper and Pearson (1934), through quantiles of the Beta distribution; so counts and numbers of
trials need not be whole.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64] | NDArray[np.int64] | float


def proportion_low(count: Numbers, trials: Numbers, failure: float) -> NDArray[np.float64]:
    """Return what a probability is at least: the quantile of Beta(count, trials - count + 1); 0 for none.

    It grows with the count, shrinks with the trials, and grows with both in proportion where ``failure`` is
    at most 1/2 (``docs/intervals.md``).

    Args:
        failure: the probability that the bound is wrong, at most.
    """
    from scipy.special import betaincinv  # late: an answer needs none of it

    some = np.where(np.asarray(count) > 0, count, 1.0)
    return np.where(np.asarray(count) > 0, betaincinv(some, trials - some + 1.0, failure), 0.0)


def proportion_high(count: Numbers, trials: Numbers, failure: float) -> NDArray[np.float64]:
    """Return what a probability is at most: that of Beta(count + 1, trials - count); 1 for all trials.

    See ``proportion_low``, of whose complement it is the bound.
    """
    from scipy.special import betainccinv

    left = np.subtract(trials, count)
    some = np.where(left > 0, left, 1.0)
    return np.where(left > 0, betainccinv(trials - some + 1.0, some, failure), 1.0)
