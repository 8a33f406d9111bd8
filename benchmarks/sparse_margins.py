"""Margins of sparse vector mechanisms: how far from the threshold a value must be to be told right.

The margin is the smallest alpha such that, with probability 1 - beta, k - c values at T - alpha all come out
below and c at T + alpha all above. The threshold that is used may be T shifted by a public amount, and the
best shift is taken. Probabilities are integrals over the threshold noise, no union bounds. Sensitivity is 1;
where the threshold is redrawn, each round has one value above and an equal share of those below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from benchmarks.sparse_noise import TEST_DISTRIBUTIONS, THRESHOLD_DISTRIBUTIONS
from pmw.sparse_vector import NoisyComparison, Sech2Test

__all__ = ["BETA", "best_split", "log_success", "margin", "Scales", "Stream"]

BETA = 0.05
_LEAST_SHARE, _MOST_SHARE = 0.005, 0.8


@dataclass(frozen=True, slots=True)
class Stream:
    """What is tested.

    Args:
        queries: k, all values.
        positives: c, those that should come out above.
    """

    queries: int
    positives: int


@dataclass(frozen=True, slots=True)
class Scales:
    """A mechanism's noise.

    Args:
        threshold_distribution: a name in THRESHOLD_DISTRIBUTIONS.
        threshold_scale: b1, in units of the values; for a Gaussian, its standard deviation.
        test_distribution: a name in TEST_DISTRIBUTIONS.
        test_scale: b.
        redrawn: the threshold noise is drawn again after each positive.
    """

    threshold_distribution: str
    threshold_scale: float
    test_distribution: str
    test_scale: float
    redrawn: bool = False

    @classmethod
    def of(cls, test: NoisyComparison, *, redrawn: bool) -> Scales:
        """Return the noise of a one-sided test."""
        distribution = str(test.noise.value)
        test_distribution = "sech2" if isinstance(test, Sech2Test) else distribution
        return cls(
            distribution, float(test.threshold_scale), test_distribution, float(test.query_scale), redrawn
        )


def log_success(scales: Scales, stream: Stream, alpha: float, shift: float) -> float:
    """Return ln of the probability that all values at T -+ alpha are told right at threshold T + shift.

    It is ln of E[Pr[below]^(k-c) Pr[above]^c] over the threshold noise; redrawn, c times that of one round.
    """
    nodes, weights = THRESHOLD_DISTRIBUTIONS[scales.threshold_distribution]
    test = TEST_DISTRIBUTIONS[scales.test_distribution]
    rounds = stream.positives if scales.redrawn else 1
    below, above = (stream.queries - stream.positives) / rounds, stream.positives / rounds
    threshold = shift + scales.threshold_scale * nodes
    logs = below * test.log_below((threshold + alpha) / scales.test_scale)
    logs += above * test.log_above((threshold - alpha) / scales.test_scale)
    return rounds * float(logsumexp(logs, b=weights))


def margin(scales: Scales, stream: Stream, beta: float = BETA) -> float:
    """Return the margin, to four digits.

    The probability is log-concave in alpha and the shift together, so that both searches have one optimum.
    """
    unit = scales.threshold_scale + scales.test_scale
    reach = 2 * math.log(4 * stream.queries / beta) * unit

    def excess(alpha: float) -> float:
        found = minimize_scalar(
            lambda shift: -log_success(scales, stream, alpha, shift),
            bounds=(-reach, reach),
            method="bounded",
            options={"xatol": 1e-4 * unit},
        )
        return -float(found.fun) - math.log1p(-beta)

    return float(brentq(excess, 0.0, reach, rtol=1e-5))


def best_split(split: Callable[[float], Scales], stream: Stream, beta: float = BETA) -> tuple[float, Scales]:
    """Return the least margin over the share of the threshold, and the scales that give it.

    Args:
        split: from the share that pays for the threshold noise, in (0, 1), to scales.
        stream: what is tested.
        beta: failure probability.
    """
    found = minimize_scalar(
        lambda log_share: margin(split(math.exp(log_share)), stream, beta),
        bounds=(np.log(_LEAST_SHARE), np.log(_MOST_SHARE)),
        method="bounded",
        options={"xatol": 0.02},
    )
    return float(found.fun), split(math.exp(float(found.x)))
