"""Scales that a budget allows, for mechanisms of the literature that the project does not offer.

Floating point, for comparison only: nothing private is drawn at these scales.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from benchmarks.sparse_noise import TEST_DISTRIBUTIONS, Floats

__all__ = ["converted", "gaussian_sigma", "ORDERS", "uncoupled_scale"]

ORDERS = 1 + np.geomspace(1e-3, 1e6, 4000)  # of Rényi divergences
_PLACES = np.linspace(-40.0, 40.0, 4001)  # threshold - value, in units of the scale


def converted(divergences: Floats, delta: float) -> float:
    """Return epsilon at delta, the least over ORDERS of D + ln(1 - 1/a) - (ln delta + ln a)/(a - 1).

    Args:
        divergences: float64, shape ORDERS.shape, Rényi divergence at each order.
        delta: of the guarantee.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    excess = ORDERS - 1
    return float(np.min(divergences + np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / excess))


def gaussian_sigma(queries: int, positives: int, *, epsilon: float, delta: float) -> float:
    """Return sigma of the Gaussian sparse vector: threshold N(0, sigma^2), kept, and tests N(0, 4 sigma^2).

    Its divergence at order a is c ln(k/c)/(a - 1) + (c + 1) a/(2 sigma^2).

    Source: Zhu and Wang (2020), for c > 1 and a bound k on the queries, as in the authors' program autodp.
    """
    length = positives * math.log(queries / positives) / (ORDERS - 1)

    def spent(log_sigma: float) -> float:
        noise = (positives + 1) * ORDERS / (2 * math.exp(2 * log_sigma))
        return converted(length + noise, delta) - epsilon

    return math.exp(float(brentq(spent, 0.0, 30.0)))


def uncoupled_scale(positives: int, *, epsilon: float, delta: float) -> float:
    """Return the Laplace scale b of tests without threshold noise, charged by the positive.

    An endless stream of tests with pairs (p, p') of Pr[above], p' at most Delta/b away, costs
    c ln(lambda)/(a - 1) at order a, lambda = sup p^a p'^(1-a) / (1 - (1-p)^a (1-p')^(1-a)) over all places of
    the value and both directions.

    Source: the setting is Cohen and Lyu (2023), target charging; the induction over positives is that of the
        tests with threshold noise, with both outcomes counted.
    """

    def spent(log_scale: float) -> float:
        step = math.exp(-log_scale)
        logs = np.maximum(_log_lambda(step), _log_lambda(-step))
        return converted(positives * logs / (ORDERS - 1), delta) - epsilon

    return math.exp(float(brentq(spent, -1.0, 12.0, xtol=1e-5)))


def _log_lambda(step: float) -> Floats:
    """Return ln lambda at each order; infinite where a stream of tests is not bounded."""
    distribution = TEST_DISTRIBUTIONS["laplace"]
    above, other = distribution.log_above(_PLACES), distribution.log_above(_PLACES + step)
    below, beside = distribution.log_below(_PLACES), distribution.log_below(_PLACES + step)
    found = np.full_like(ORDERS, np.inf)
    for place, order in enumerate(ORDERS):
        stays = order * below + (1 - order) * beside
        if stays.max() >= 0:
            break  # and at all higher orders
        found[place] = np.max(order * above + (1 - order) * other - np.log(-np.expm1(stays)))
    return found
