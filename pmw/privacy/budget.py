"""Privacy parameters: budgets, neighbours, charges, and what a budget holds in zCDP and in Gaussian DP.

Everything here is exact: parameters are fractions, and formulas with logarithms are evaluated to 60 digits
and rounded down.

An event is mu-GDP where no test tells two neighbours apart better than N(0, 1) from N(mu, 1). Squares of mu
add up, for adaptively chosen and interleaved events too. ``docs/proofs/gaussian-filter.md`` proves each
number about mu here, the discrete Gaussian's among them. These are rounded outward: decimals of 100 digits,
whose errors are below 10^-90 (the series has positive terms only, and fewer than 1,000), are held against
margins of 10^-60 and more.

Source: Dong, Roth and Su (2022); Balle and Wang (2018), Theorem 8, for the equation of the cap in GDP.
"""

from __future__ import annotations

import decimal
import enum
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from pmw.errors import BudgetError
from queries.frozen import dataclass
from queries.plain_values import type_name

Number: TypeAlias = int | float | str | Fraction | Decimal

RHO_GRID = 2**60  # charges in rho and in mu^2 are rounded up to multiples of 1/RHO_GRID, totals down
_LONGEST_SHOWN = 40  # characters of a number that is refused
_DIGITS = 60
LEAST_SIGMA = 6_700  # units; from here on the surcharge for the lattice is below 0.015 % of a price
_TINY = Fraction(1, 2**40)
_MOST_EPSILON = 64  # of a pure event that has a price; beyond, zCDP has one
_MOST_MU = 64  # of a cap: so noise of a session is never narrower than LEAST_SIGMA
_MOST_PURE_MU = 20  # of a pure event that a price is turned into
_MU_DIGITS = 100
_MARGIN = Decimal(10) ** -60
_LEAST_DELTA = Decimal(10) ** -60  # of delta e^-epsilon: from there on delta is known to a part of 10^30
_DELTA_MARGIN = Decimal(10) ** -25
_ROOT_TAU = Decimal(  # the square root of 2 pi, to 110 digits
    "2.506628274631000502415765284811045253006986740609938316629923576342293654607841974946595838378057266"
    "1160099726652"
)


class NeighboringRelation(enum.Enum):
    """Which two tables must be indistinguishable.

    ``ADD_REMOVE``: one person's records (at most ``records_per_person``) are added or removed.
    ``REPLACE_ONE``: as many records of one person are replaced by others; the row count is public.
    Where a column of ids tells whose a record is, they are replaced by any number of others, of which as many
    are counted at most, and the row count is private.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"


class Composition(enum.Enum):
    """How charges add up: ``PURE`` sums epsilons; ``ZCDP`` sums rhos and ``GDP`` squares of mu, which pay
    delta once.
    """

    PURE = "pure"
    ZCDP = "zcdp"
    GDP = "gdp"


@dataclass(frozen=True, slots=True)
class Budget:
    """The guarantee fixed at opening: (epsilon, delta)-differential privacy, as exact fractions.

    Args:
        delta: at least 0 and below 1.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        epsilon, delta = self.epsilon, self.delta
        if epsilon <= 0:
            raise BudgetError(f"expected epsilon > 0, got epsilon={_shown(epsilon)}")
        if epsilon > 1000:
            raise BudgetError(f"expected epsilon of at most 1000, got epsilon={_shown(epsilon)}")
        if not 0 <= delta < 1:
            raise BudgetError(f"expected 0 <= delta < 1, got delta={_shown(delta)}")
        if 0 < delta < Fraction(1, 10**300):
            raise BudgetError("expected delta = 0 or delta >= 1e-300")

    @classmethod
    def of(cls, epsilon: Number, delta: Number = 0) -> Budget:
        """Return the budget of two numbers as they are written; ``0.1`` is 1/10."""
        return cls(as_fraction(epsilon, "epsilon"), as_fraction(delta, "delta"))


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of one event under each way of adding up.

    Args:
        epsilon: the event is epsilon-DP; None where it is not pure.
        mu_squared: the event is mu-GDP; None where no mu is proved.
    """

    epsilon: Fraction | None
    rho: Fraction
    mu_squared: Fraction | None = None

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            _sum(self.epsilon, other.epsilon), self.rho + other.rho, _sum(self.mu_squared, other.mu_squared)
        )


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


NOTHING = Charge(Fraction(0), Fraction(0), Fraction(0))


def as_fraction(value: Number, name: str) -> Fraction:
    """Return the number as it is written: ``0.1`` becomes 1/10, not the nearest binary number."""
    kind = type(value)  # not what a thing in a number's place says of itself
    if kind is bool or not (kind is Fraction or issubclass(kind, int | float | str | Decimal)):
        got = repr(value) if kind is bool else f"a {type_name(value)}"
        raise BudgetError(f"expected a number for {name}, got {got}")
    with suppress(ValueError, OverflowError, ZeroDivisionError):
        return Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    text = str(value)
    shown = repr(value) if text.isprintable() and len(text) <= _LONGEST_SHOWN else f"a {type_name(value)}"
    raise BudgetError(f"expected a finite number for {name}, got {shown}")


def _shown(value: Fraction) -> str:
    try:
        return f"{float(value):g}"
    except OverflowError:  # a fraction may be larger than any float
        return "a number beyond 1e308" if value > 0 else "a number below -1e308"


def round_up(value: Fraction, grid: int) -> Fraction:
    """Return the smallest multiple of 1/grid that is not below the value."""
    return Fraction(math.ceil(value * grid), grid)


def floor_price(price: Fraction) -> Fraction:
    """Return the largest multiple of 2^-60 that is at most a price: a charge rounded up still fits."""
    return Fraction(math.floor(price * RHO_GRID), RHO_GRID)


def root_down(value: Fraction) -> Fraction:
    """Return a multiple of 2^-60 that is at most the square root, and less than one such step below it."""
    return Fraction(math.isqrt(math.floor(value * RHO_GRID * RHO_GRID)), RHO_GRID)


def pure_charge(epsilon: Fraction) -> Charge:
    """Return the price of an epsilon-DP event: epsilon, rho = epsilon^2/2, and mu^2, rounded up.

    Source: Bun and Steinke (2016), Proposition 1.4, for rho; ``pure_mu_squared`` for mu^2.
    """
    return Charge(epsilon, round_up(epsilon * epsilon / 2, RHO_GRID), _on_grid(pure_mu_squared(epsilon)))


def _on_grid(price: Fraction | None) -> Fraction | None:
    return None if price is None else round_up(price, RHO_GRID)


def bounded_range_charge(epsilon: Fraction) -> Charge:
    """Return the price of an event of bounded range: epsilon, and rho = epsilon^2/8 rounded up; no mu.

    An event has range epsilon where, for any two neighbours, the logarithms L of the ratios of its outcomes'
    probabilities all lie in one interval of length epsilon. 0 lies in it, since both distributions sum to 1,
    so
    |L| <= epsilon. Under the first distribution P, E[e^-L] = 1, and Hoeffding's lemma gives
    1 <= exp(-E[L] + epsilon^2/8), so the mean of L is at most epsilon^2/8; once more it gives
    E[e^((alpha-1) L)] <= exp((alpha-1) epsilon^2/8 + (alpha-1)^2 epsilon^2/8), so the Rényi divergence of
    order alpha is at most alpha epsilon^2/8.

    Source: Dong, Durfee and Rogers (2020) for bounded range; Cesar and Rogers (2021) for epsilon^2/8.
    """
    return Charge(epsilon, round_up(epsilon * epsilon / 8, RHO_GRID))


def gaussian_charge(l2_squared: Fraction, sigma: Fraction) -> Charge:
    """Return the price of discrete Gaussian noise: rho = l2^2/(2 sigma^2), and mu^2, rounded up; not pure.

    Args:
        l2_squared: squared L2 sensitivity, in squared units of the noise.
        sigma: parameter of the discrete Gaussian, in the same units; integer-valued statistics only.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Theorem 4, for one integer coordinate; coordinates
        have independent noise, so their Rényi divergences add (Bun and Steinke 2016, Lemma 1.7).
        ``gaussian_mu_squared`` for mu^2.
    """
    rho = round_up(l2_squared / (2 * sigma * sigma), RHO_GRID)
    return Charge(None, rho, _on_grid(gaussian_mu_squared(l2_squared, sigma)))


def zcdp_rho(budget: Budget) -> Fraction:
    """Return the largest rho, rounded down, whose tight conversion gives (epsilon, delta).

    For every alpha > 1, rho-zCDP implies (epsilon, delta)-DP where
    ``ln delta = (alpha-1)(alpha rho - epsilon) + alpha ln(1-1/alpha) - ln(alpha-1)``. Solved for rho this
    is a lower bound at each alpha; the best alpha is searched in floating point, and the bound at that
    alpha is evaluated to 60 digits and rounded down to a multiple of 2^-60, so it holds whatever alpha is.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Proposition 12 and Corollary 13; the conversion of
        Bun and Steinke (2016), Proposition 1.3, is weaker.
    """
    if budget.delta == 0:
        raise BudgetError("expected delta > 0 for zCDP, got delta=0")
    alpha = _best_alpha(float(budget.epsilon), math.log(budget.delta))
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        rho = _rho_at(decimal_of(budget.epsilon), decimal_of(budget.delta).ln(), Decimal(alpha))
        safe = rho * (1 - Decimal(10) ** (10 - _DIGITS))  # covers the rounding of 60-digit arithmetic
        floor = int((safe * RHO_GRID).to_integral_value(decimal.ROUND_FLOOR))
    if floor <= 0:
        raise BudgetError(
            f"epsilon={float(budget.epsilon):g} with delta={float(budget.delta):g} holds no zCDP budget"
        )
    return Fraction(floor, RHO_GRID)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the epsilon that rho-zCDP gives at delta, in floating point, for display.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Proposition 12 and Corollary 13.
    """
    if rho <= 0:
        return 0.0

    def epsilon_at(log_excess: float) -> float:
        alpha, term = _conversion(log_excess, math.log(delta))
        return alpha * rho - term

    return max(0.0, epsilon_at(_minimise(epsilon_at, -12.0, 60.0)))


def _conversion(log_excess: float, log_delta: float) -> tuple[float, float]:
    """Return alpha, by the logarithm of alpha - 1, and the part of the conversion that delta has there."""
    excess = math.exp(log_excess)
    alpha = 1 + excess
    return alpha, (log_delta + math.log(excess) - alpha * math.log1p(-1 / alpha)) / excess


def _best_alpha(epsilon: float, log_delta: float) -> float:
    def negated(log_excess: float) -> float:
        alpha, term = _conversion(log_excess, log_delta)
        return -(epsilon + term) / alpha

    return 1 + math.exp(_minimise(negated, -12.0, 60.0))


def _minimise(function: Callable[[float], float], low: float, high: float) -> float:
    """Return a point near the minimum: a grid to find the basin, then golden-section search."""
    grid = [low + (high - low) * step / 400 for step in range(401)]
    values = [function(point) for point in grid]
    best = min(range(401), key=values.__getitem__)
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, 400)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        one, two = right - ratio * (right - left), left + ratio * (right - left)
        left, right = (left, two) if function(one) < function(two) else (one, right)
    return (left + right) / 2


def _rho_at(epsilon: Decimal, log_delta: Decimal, alpha: Decimal) -> Decimal:
    excess = alpha - 1
    bracket = log_delta + excess.ln() - alpha * (excess / alpha).ln()
    return (epsilon + bracket / excess) / alpha


def decimal_of(value: Fraction) -> Decimal:
    """Return a fraction as a decimal, to the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


# --- Gaussian differential privacy -----------------------------------------------------------------------


def gaussian_mu_squared(l2_squared: Fraction, sigma: Fraction) -> Fraction | None:
    """Return mu^2 of discrete Gaussian noise, exactly; None below ``LEAST_SIGMA``.

    It is that of continuous noise, l2^2/sigma^2, times (1 + 1/(2 sigma))^2.

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
        context.prec = _MU_DIGITS
        wanted = Decimal(1) / 2 - 1 / (1 + decimal_of(epsilon).exp())
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
        context.prec = _MU_DIGITS
        root = min(decimal_of(mu_squared).sqrt(), Decimal(_MOST_PURE_MU)) / 2
        above = _centre(root) * (1 - Decimal(10) ** -40)
        epsilon = ((Decimal(1) / 2 + above) / (Decimal(1) / 2 - above)).ln() * (1 - _MARGIN)
        return Fraction(math.floor(epsilon * RHO_GRID), RHO_GRID)


@lru_cache(maxsize=64)
def mu_squared_cap(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu^2, rounded down to a multiple of 2^-60, that gives (epsilon, delta).

    mu solves Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) = delta. It is searched in floating
    point, improved by Newton's method, and held against the equation in 100 digits.

    Source: Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13.
    """
    if delta == 0:
        raise BudgetError("expected delta > 0 for GDP, got delta=0")
    with decimal.localcontext() as context:
        context.prec = _MU_DIGITS
        exact, most = decimal_of(epsilon), decimal_of(delta)
        if most >= exact.exp() * _LEAST_DELTA:
            near = Decimal(_searched(float(epsilon), float(delta)))
            root = min(_improved(near, exact, most), Decimal(_MOST_MU))
            cap = math.floor(root * root * RHO_GRID)
            for steps in range(4):
                candidate = Fraction(cap - steps, RHO_GRID)
                if candidate > 0 and _delta(decimal_of(candidate).sqrt(), exact) <= most * (
                    1 - _DELTA_MARGIN
                ):
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
    while term > total * Decimal(10) ** -_MU_DIGITS:
        odd += 2
        term *= square / odd
        total += term
    return total * _density(value)


def _density(value: Decimal) -> Decimal:
    return (-value * value / 2).exp() / _ROOT_TAU
