"""Distributions of the noise in sparse vector tests, as the integrals of the margins need them.

A threshold distribution gives nodes and weights: sum of weights * h(nodes) is E[h(rho)] at scale 1. A test
distribution gives the logarithms of S(y) = Pr[nu >= y] and of 1 - S(y) at scale 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

__all__ = ["TEST_DISTRIBUTIONS", "TestLaw", "THRESHOLD_DISTRIBUTIONS", "Floats"]

Floats = NDArray[np.float64]

# Below this argument a one-sided noise never answers "below". Its probability is 0; a steep line stands for
# its logarithm, so that a search for the best threshold still sees where to go. e^-200 is nothing.
_NEVER = -200.0


@dataclass(frozen=True, slots=True)
class TestLaw:
    """What a test answers, at scale 1.

    Args:
        log_above: y -> ln Pr["above"], where y is threshold + threshold noise - value.
        log_below: y -> ln Pr["below"].
    """

    __test__ = False  # it is no test case

    log_above: Callable[[Floats], Floats]
    log_below: Callable[[Floats], Floats]


def _panels() -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on (0, 1/2), on panels that halve towards 0."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    ends = np.concatenate([[0.0], 0.5 ** np.arange(26, 0, -1)])
    widths = np.diff(ends)[:, None]
    places = ends[:-1, None] + widths * (nodes + 1) / 2
    return places.ravel(), (widths * weights / 2).ravel()


def _two_tails(
    quantile: Callable[[Floats], Floats], upper: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return nodes at the quantiles p and 1 - p of the panels, both tails resolved."""
    places, weights = _panels()
    return np.concatenate([quantile(places), upper(places)]), np.concatenate([weights, weights])


def _laplace_above(y: Floats) -> Floats:
    tail = np.exp(-np.abs(y))
    return np.where(y > 0, -y - np.log(2), np.log1p(-tail / 2))


def _laplace_below(y: Floats) -> Floats:
    return _laplace_above(-y)


def _exponential_above(y: Floats) -> Floats:
    return -np.maximum(y, 0.0)


def _exponential_below(y: Floats) -> Floats:
    over = np.maximum(y, 1e-80)
    near = np.log(-np.expm1(-np.minimum(over, 1.0)))
    far = np.log1p(-np.exp(-np.maximum(over, 1.0)))  # keeps what is left where it is almost nothing
    return np.where(y > 1, far, np.where(y > 0, near, _NEVER * (1 - y)))


def _sech2_above(y: Floats) -> Floats:
    over: Floats = np.maximum(y, 0.0)
    logs: Floats = math.log(4) - over - 2 * np.log1p(np.exp(-over))
    return logs


def _sech2_below(y: Floats) -> Floats:
    return np.where(y > 0, 2 * np.log(np.tanh(np.maximum(y, 1e-80) / 2)), _NEVER * (1 - y))


THRESHOLD_DISTRIBUTIONS: dict[str, tuple[Floats, Floats]] = {
    "laplace": _two_tails(lambda p: np.log(2 * p), lambda p: -np.log(2 * p)),
    "exponential": _two_tails(lambda p: -np.log1p(-p), lambda p: -np.log(p)),
    "gaussian": _two_tails(ndtri, lambda p: -ndtri(p)),
    "none": (np.zeros(1), np.ones(1)),
}

TEST_DISTRIBUTIONS = {
    "laplace": TestLaw(_laplace_above, _laplace_below),
    "exponential": TestLaw(_exponential_above, _exponential_below),
    "gaussian": TestLaw(lambda y: np.asarray(log_ndtr(-y)), lambda y: np.asarray(log_ndtr(y))),
    "sech2": TestLaw(_sech2_above, _sech2_below),
}
