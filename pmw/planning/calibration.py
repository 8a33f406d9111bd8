"""Scales of tests: the narrowest noisy comparison that a price buys, for each kind of sparse vector.

Scales are rounded up to whole units, so that what is charged never exceeds the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pmw.errors import NoiseError
from pmw.planning.noise_scales import floor_price, l1_sensitivity, query_sensitivity, sqrt_down
from pmw.privacy.budget import Composition
from pmw.public.contract import Options
from pmw.sparse_vector import (
    NoiseKind,
    NoisyComparison,
    Sech2Test,
    Sides,
    SparseVectorKind,
    ThresholdNoise,
    ThresholdTest,
)

__all__ = [
    "marginal_statistic",
    "query_statistic",
    "scaled_test",
    "Statistic",
]

_BETA = 0.05  # failure probability in the split between threshold and test noise


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is tested.

    Args:
        sides: what is compared with the threshold.
        sensitivity: the most that a value changes between neighbouring tables, in units.
        expected: about how many tests there will be.
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
    """Return the comparison of a marginal's L1 distance with a threshold: it moves both ways.

    Args:
        expected: about how many marginals will be tested.
        options: the custodian's choices.
    """
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

    Args:
        tests: price of all tests together, in the filter's own measure.
        limit: number of positives.
        statistic: what is tested.
        kind: the law of the noise, and how often the threshold's is drawn.
        composition: how charges add up.

    Raises:
        NoiseError: nothing is left for tests.
    """
    if kind.is_sech2 and composition is Composition.ZCDP:
        return _scaled_by_rhos(tests, limit, statistic)
    price = floor_price(tests / limit) if kind.redraw else tests
    epsilon = sqrt_down(2 * price) if composition is Composition.ZCDP else price
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


def _scaled_by_rhos(tests: Fraction, limit: int, statistic: Statistic) -> Sech2Test:
    """Return the sech^2 comparison with Gaussian threshold noise that a rho buys."""
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
        Fraction(math.ceil(moved / sqrt_down(2 * threshold))),
        Fraction(math.ceil(rate * moved / sqrt_down(2 * positive))),
    )


def _threshold_share(factor: int, tests: int) -> Fraction:
    """Return the part of epsilon that threshold noise takes."""
    kept = math.sqrt(math.log(2 / _BETA))
    fresh = math.sqrt(factor * math.log(2 * tests / _BETA))
    return Fraction(round(2**20 * kept / (kept + fresh)), 2**20)
