"""Calibration: the quietest noise and the narrowest noisy comparison that a price allows.

Scales are rounded up and prices down, so that what is charged never exceeds what was planned.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from pmw.errors import BudgetError, NoiseError
from pmw.privacy.budget import (
    LEAST_SIGMA,
    Composition,
    floor_price,
    gaussian_mu_squared,
    pure_epsilon,
    root_down,
)
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution, NoiseDistribution
from pmw.public.charges import CellNumbers, l1_sensitivity, query_sensitivity
from pmw.public.options import Options
from pmw.public.row_sensitivity import Moved
from pmw.sparse_vector import (
    NoiseKind,
    NoisyComparison,
    Sech2Test,
    Sides,
    SparseVectorKind,
    ThresholdNoise,
    ThresholdTest,
)
from queries.frozen import dataclass

USUAL_SHARE = Fraction(2, 100)  # of the budget, for what is measured on request where no other is asked for
_BETA = 0.05  # failure probability in the split between threshold and test noise


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is tested.

    Args:
        sensitivity: the most that a value changes between neighbouring tables, in units.
    """

    sides: Sides
    sensitivity: int
    expected: int

    @property
    def monotone(self) -> bool:
        """All values of one side move the same way between neighbours: signed counts under add/remove."""
        return self.sides is Sides.TWO_THRESHOLDS


def query_statistic(options: Options) -> Statistic:
    """Return the comparison of a question's error with a threshold."""
    return Statistic(options.chosen_sides, query_sensitivity(options), options.expected_queries)


def marginal_statistic(expected: int, options: Options) -> Statistic:
    """Return the comparison of a marginal's L1 distance with a threshold: it moves both ways."""
    return Statistic(Sides.ONE_SIDED, l1_sensitivity(options), expected)


def scaled_test(
    tests: Fraction, limit: int, statistic: Statistic, kind: SparseVectorKind, composition: Composition
) -> NoisyComparison:
    """Return the comparison with the narrowest band of error that the price of all tests allows.

    With b1 = Delta/epsilon1, b = m p Delta/epsilon2 and p positives per threshold draw, the half-width
    (b ln(2K/beta) + b1 ln(2/beta))/2 is least where epsilon1 : epsilon2 is
    sqrt(ln(2/beta)) : sqrt(m p ln(2K/beta)). Where rhos add, sigma = Delta/sqrt(2 rho1) and
    b = m Delta sqrt(c/(2 rho2)), and rho1 : rho2 is the ratio of the two widths at one price, to the power
    2/3.
    """
    if kind.is_sech2 and composition is Composition.GDP:
        raise BudgetError("expected tests that are proved in GDP, got sech^2 tests; choose zCDP")
    if kind.is_sech2 and composition is Composition.ZCDP:
        return _scaled_by_rhos(tests, limit, statistic)
    epsilon = _epsilon_of(composition, floor_price(tests / limit) if kind.redraw else tests)
    if epsilon <= 0:
        raise NoiseError("expected a positive budget for tests, got none")
    factor = (1 if statistic.monotone else 2) * (1 if kind.redraw else limit)
    threshold_epsilon = epsilon * _threshold_share(factor, statistic.expected)
    scales = (
        Fraction(math.ceil(statistic.sensitivity / threshold_epsilon)),
        Fraction(math.ceil(factor * statistic.sensitivity / (epsilon - threshold_epsilon))),
    )
    what = (statistic.sides, statistic.sensitivity, statistic.monotone)
    if kind.is_sech2:
        return Sech2Test(ThresholdNoise.EXPONENTIAL, *what, *scales)
    return ThresholdTest(NoiseKind.LAPLACE if kind.is_laplace else NoiseKind.EXPONENTIAL, *what, *scales)


def _epsilon_of(composition: Composition, price: Fraction) -> Fraction:
    """Return the largest epsilon, rounded down, of a pure event that costs at most the price."""
    if composition is Composition.ZCDP:
        return root_down(2 * price)
    return pure_epsilon(floor_price(price)) if composition is Composition.GDP else price


def _scaled_by_rhos(tests: Fraction, limit: int, statistic: Statistic) -> Sech2Test:
    """Return the sech^2 comparison with Gaussian threshold noise that a rho measures."""
    if tests <= 0:
        raise NoiseError("expected a positive budget for tests, got none")
    rate = 1 if statistic.monotone else 2
    kept = math.sqrt(2 * math.log(2 / _BETA))
    fresh = rate * math.sqrt(limit) * math.log(8 * statistic.expected / _BETA)
    share = Fraction(round(2**20 * kept ** (2 / 3) / (kept ** (2 / 3) + fresh ** (2 / 3))), 2**20)
    threshold = floor_price(tests * share)
    positive = floor_price((tests - threshold) / limit)
    if min(threshold, positive) <= 0:
        raise NoiseError("expected a positive budget for tests, got none")
    moved = statistic.sensitivity
    return Sech2Test(
        ThresholdNoise.GAUSSIAN,
        statistic.sides,
        moved,
        statistic.monotone,
        Fraction(math.ceil(moved / root_down(2 * threshold))),
        Fraction(math.ceil(rate * moved / root_down(2 * positive))),
    )


def _threshold_share(factor: int, tests: int) -> Fraction:
    """Return the part of epsilon that threshold noise takes."""
    kept = math.sqrt(math.log(2 / _BETA))
    fresh = math.sqrt(factor * math.log(2 * tests / _BETA))
    return Fraction(round(2**20 * kept / (kept + fresh)), 2**20)


def marginal_noise(composition: Composition, price: Fraction, options: Options) -> NoiseDistribution:
    """Return the narrowest noise, in whole units, on the cells of a marginal that costs at most the price."""
    return noise_of_price(composition, floor_price(price), CellNumbers(()).sensitivity(options))


def value_noise(composition: Composition, price: Fraction, options: Options) -> NoiseDistribution:
    """Return the narrowest noise, in whole units, on one answer that costs at most the price."""
    moved = query_sensitivity(options)
    return noise_of_price(composition, price, Moved(moved, moved**2))


def selection_epsilon(composition: Composition, price: Fraction) -> Fraction:
    """Return the largest epsilon, rounded down, of an exponential mechanism that costs at most the price.

    Under zCDP its price is epsilon^2/8 (``bounded_range_charge``).

    Args:
        price: a multiple of 1/RHO_GRID under zCDP, so that a charge that is rounded up still fits.
    """
    if composition is Composition.GDP:
        raise BudgetError("expected a selection that is proved in GDP, got one of bounded range; choose zCDP")
    return root_down(8 * price) if composition is Composition.ZCDP else price


def noise_of_share(ledger: PrivacyFilter, share: Fraction | None, moved: Moved) -> NoiseDistribution:
    """Return the narrowest noise that costs at most a share of the budget, of what is measured on request."""
    share = USUAL_SHARE if share is None else share
    if not 0 < share <= 1:
        raise BudgetError(f"expected a share of the budget above 0, at most 1, got {float(share):g}")
    try:
        return noise_of_price(ledger.composition, floor_price(share * ledger.cap), moved)
    except NoiseError:
        raise BudgetError("the share is too small to measure anything; give a larger one") from None


def noise_of_price(composition: Composition, price: Fraction, moved: Moved) -> NoiseDistribution:
    """Return the narrowest noise, in whole units, that costs at most the price.

    Args:
        price: of the event; under GDP a multiple of 1/RHO_GRID.
    """
    if price <= 0:
        raise NoiseError("expected a positive price, got 0")
    if composition is Composition.PURE:
        return DiscreteLaplace(Fraction(math.ceil(moved.l1 / price)))
    squared = Fraction(moved.l2_squared)
    if composition is Composition.ZCDP:
        return DiscreteGaussian(Fraction(_sqrt_up(squared / (2 * price))))
    sigma = Fraction(max(_sqrt_up(squared / price), LEAST_SIGMA))
    while (gaussian_mu_squared(squared, sigma) or 0) > price:  # the surcharge is worth half a unit
        sigma += 1
    return DiscreteGaussian(sigma)


def _sqrt_up(value: Fraction) -> int:
    """Return the smallest whole number that is at least the square root."""
    whole = math.ceil(value)
    root = math.isqrt(whole)
    return root if root * root >= value else root + 1


_FAR = 2**62  # units; beyond every scale that noise is made for


def half_band(test: NoisyComparison, tests: int, positives: int, *, beta: float = 0.05) -> float:
    """Return the half-width of the band in which any test of a run may err, in units.

    With probability at least 1 - beta all of so many values below the band are found below, and all of so
    many above it above, where the threshold stands at the band's middle but for one public shift. A false
    positive needs nu - rho of at least the distance, a false negative rho - nu: each tail of a distribution
    takes an equal part of beta, by the union bound. Exact one-dimensional integrals are 3 to 7 % smaller.

    Source: Dwork and Roth (2014), Theorem 3.24, for the union bound.
    """
    kept, fresh = test.threshold_noise, test.query_noise
    draws = 2 if test.sides is Sides.TWO_THRESHOLDS else 1
    tails = 2 + sum(_is_two_sided(distribution) for distribution in (kept, fresh))
    part = beta / tails
    rise = _upper(fresh, part / (draws * tests)) + _lower(kept, part / draws)
    fall = _upper(kept, part / draws) + _lower(fresh, part / positives)
    return (rise + fall) / 2


def _is_two_sided(distribution: Distribution) -> bool:
    return isinstance(distribution, DiscreteLaplace | DiscreteGaussian)


def _upper(distribution: Distribution, probability: float) -> int:
    """Return the least number that the noise reaches with at most a probability.

    Of Gaussian noise it is the continuous quantile and one unit, for wide noise has no table.
    """
    if isinstance(distribution, DiscreteGaussian):
        return math.ceil(float(distribution.sigma) * NormalDist().inv_cdf(1 - probability)) + 1
    return bisect_left(
        range(_FAR), True, key=lambda value: bool(distribution.survival(np.array([value]))[0] <= probability)
    )


def _lower(distribution: Distribution, probability: float) -> int:
    """Return the least number below whose negative the noise falls with at most a probability."""
    return _upper(distribution, probability) if _is_two_sided(distribution) else 0
