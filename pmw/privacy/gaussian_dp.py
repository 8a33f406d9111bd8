"""Gaussian differential privacy: what a budget holds in mu^2, and what pure and Gaussian events cost in it.

An event is mu-GDP where no test tells two neighbours apart better than N(0, 1) from N(mu, 1). Squares of mu
add up, for adaptively chosen and interleaved events too. ``docs/proofs/gaussian-filter.md`` proves each
number here, the discrete Gaussian's among them.

Everything is rounded outward: decimals of 100 digits, whose errors are below 10^-90 (the series has positive
terms only, and fewer than 1,000), are held against margins of 10^-60 and more.

Source: Dong, Roth and Su (2022); Balle and Wang (2018), Theorem 8, for the equation of the cap.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from pmw.errors import BudgetError

LEAST_SIGMA = 6_700  # units; from here on the surcharge for the lattice is below 0.015 % of a price
_TINY = Fraction(1, 2**40)
_MOST_EPSILON = 64  # of a pure event that has a price; beyond, zCDP has one
_MOST_MU = 64  # of a cap: so noise of a session is never narrower than LEAST_SIGMA
_MOST_PURE_MU = 20  # of a pure event that a price is turned into
_GRID = 2**60
_DIGITS = 100
_MARGIN = Decimal(10) ** -60
_LEAST_DELTA = Decimal(10) ** -60  # of delta e^-epsilon: from there on delta is known to a part of 10^30
_DELTA_MARGIN = Decimal(10) ** -25
_ROOT_TAU = Decimal(  # the square root of 2 pi, to 110 digits
    "2.506628274631000502415765284811045253006986740609938316629923576342293654607841974946595838378057266"
    "1160099726652"
)


def gaussian_mu_squared(l2_squared: Fraction, sigma: Fraction) -> Fraction | None:
    """Return mu^2 of discrete Gaussian noise, exactly; None below ``LEAST_SIGMA``.

    It is that of continuous noise, l2^2/sigma^2, times (1 + 1/(2 sigma))^2.

    Args:
        l2_squared: squared L2 sensitivity, in squared units of the noise.
        sigma: parameter of the discrete Gaussian, in the same units; integer-valued statistics only.

    Source: docs/proofs/gaussian-filter.md, Section 3; Dong, Roth and Su (2022), Corollary 3.3, for several
        coordinates.
    """
    if sigma < LEAST_SIGMA:
        return None
    surcharge = 1 + 1 / (2 * sigma)
    return l2_squared * surcharge**2 / sigma**2


@lru_cache(maxsize=4096)
def pure_mu_squared(epsilon: Fraction) -> Fraction | None:
    """Return mu^2 of an epsilon-DP event, rounded up: (2 Phi^-1(e^epsilon/(1 + e^epsilon)))^2.

    None above epsilon = 64.

    Source: docs/proofs/gaussian-filter.md, Section 4.
    """
    if epsilon > _MOST_EPSILON:
        return None
    if epsilon < _TINY:  # Phi(y) - 1/2 >= epsilon/4 at y = epsilon sqrt(11/7)/2, as 11/7 > pi/2
        return Fraction(11, 7) * epsilon**2
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        wanted = Decimal(1) / 2 - 1 / (1 + _decimal(epsilon).exp())
        root = Decimal(0)
        step = wanted * _ROOT_TAU
        while step > root * _MARGIN:  # Newton's method from below: Phi is concave there
            root += step
            step = (wanted - _centre(root)) / _density(root)
        up = root * (1 + 10 * _MARGIN)
        return Fraction(4 * up * up * (1 + _MARGIN))


def pure_epsilon(mu_squared: Fraction) -> Fraction:
    """Return the largest epsilon, rounded down to a multiple of 2^-60, of a pure event of this mu^2.

    Above mu = 20 it is that of mu = 20, about 53.
    """
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        root = min(_decimal(mu_squared).sqrt(), Decimal(_MOST_PURE_MU)) / 2
        above = _centre(root) * (1 - Decimal(10) ** -40)
        epsilon = ((Decimal(1) / 2 + above) / (Decimal(1) / 2 - above)).ln() * (1 - _MARGIN)
        return Fraction(math.floor(epsilon * _GRID), _GRID)


@lru_cache(maxsize=64)
def mu_squared_cap(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu^2, rounded down to a multiple of 2^-60, that gives (epsilon, delta).

    mu solves Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) = delta. It is searched in floating
    point, improved by Newton's method, and held against the equation in 100 digits.

    Raises:
        BudgetError: delta is 0; there is no such mu in floating point; or e^epsilon/delta is above 10^60,
            which 100 digits do not resolve.

    Source: Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13.
    """
    if delta == 0:
        raise BudgetError("expected delta > 0 for GDP, got delta=0")
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        exact, most = _decimal(epsilon), _decimal(delta)
        if most >= exact.exp() * _LEAST_DELTA:
            near = Decimal(_searched(float(epsilon), float(delta)))
            root = min(_improved(near, exact, most), Decimal(_MOST_MU))
            cap = math.floor(root * root * _GRID)
            for steps in range(4):
                candidate = Fraction(cap - steps, _GRID)
                if candidate > 0 and _delta(_decimal(candidate).sqrt(), exact) <= most * (1 - _DELTA_MARGIN):
                    return candidate
    raise BudgetError(f"epsilon={float(epsilon):g} with delta={float(delta):g} has no mu for GDP")


def _searched(epsilon: float, delta: float) -> float:
    """Return a mu near the solution, by bisection of its logarithm; a wrong one is found out later."""
    low, high = 1e-12, float(_MOST_MU)
    for _ in range(100):
        middle = math.sqrt(low * high)
        far = math.erfc((epsilon / middle + middle / 2) / math.sqrt(2)) / 2
        near = math.erfc((epsilon / middle - middle / 2) / math.sqrt(2)) / 2
        low, high = (low, middle) if near - math.exp(epsilon) * far > delta else (middle, high)
    return low


def _improved(mu: Decimal, epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the solution near mu by Newton's method: the derivative is the density at epsilon/mu - mu/2."""
    for _ in range(4):
        better = mu + (delta - _delta(mu, epsilon)) / _density(epsilon / mu - mu / 2)
        if not mu / 2 < better < 2 * mu:
            break
        mu = better
    return mu


def _delta(mu: Decimal, epsilon: Decimal) -> Decimal:
    """Return the delta of mu-GDP at epsilon, with an error of at most e^epsilon 10^-90."""
    return _normal(mu / 2 - epsilon / mu) - epsilon.exp() * _normal(-mu / 2 - epsilon / mu)


def _normal(value: Decimal) -> Decimal:
    """Return Phi, with an error of at most 10^-90."""
    centre = _centre(abs(value))
    return Decimal(1) / 2 + (centre if value > 0 else -centre)


def _centre(value: Decimal) -> Decimal:
    """Return Phi(value) - 1/2 for value >= 0: density times value^(2k+1)/(1*3*...*(2k+1)), summed."""
    if value > 24:  # the rest is below 10^-100
        return Decimal(1) / 2
    term = total = value
    square, odd = value * value, 1
    while term > total * Decimal(10) ** -_DIGITS:
        odd += 2
        term *= square / odd
        total += term
    return total * _density(value)


def _density(value: Decimal) -> Decimal:
    return (-value * value / 2).exp() / _ROOT_TAU


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
