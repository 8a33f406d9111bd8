"""The sech^2 test: a comparison whose positives cost s^2/2 in zCDP, and whose negatives cost nothing.

A value passes with probability S(y) = sech^2(y/2b) where y = T + rho - value is above 0, and surely where it
is not: value + nu >= T + rho with nu of the distribution ``SechSquared``. rho is drawn once and kept. Let s
be Delta/b where all values move the same way and for two thresholds, else 2 Delta/b. For neighbours and every
alpha > 1,

    D_alpha <= D_alpha(rho shifted by Delta) + c R(alpha, s),      R(alpha, s) <= min(s, alpha s^2/2),

for any number of adaptively chosen tests with at most c positives. The first term is at most Delta/b1 for
exponential noise, alpha Delta^2/(2 b1^2) for Laplace and for Gaussian noise (where b1 is sigma). So one
threshold draw and each positive may be charged as they come, under zCDP as well as when epsilons add.

Exponential noise has a threshold price of Delta/b1 at every order, down to alpha = 1: shifted, it cannot be
told apart by more than that, but by no less either, so its rho is Delta/b1 and not half the square of it.
Under zCDP take Gaussian or Laplace noise; ``sech2_charges`` accounts for exponential noise order by order.

Source: ``docs/proofs/zcdp-sparse-vector.md``, the complete proof; each of its steps has a test.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import RHO_GRID, Charge, gaussian_charge, pure_charge, round_up
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Geometric
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import (
    NoisyThreshold,
    Sides,
    draw_noisy_threshold,
    require_comparable,
    take_outcomes,
)
from pmw.sparse_vector.sech2_noise import SechSquared


class ThresholdNoise(enum.Enum):
    """The distribution of the threshold noise of a sech^2 test; ``GAUSSIAN`` has no pure price."""

    EXPONENTIAL = "exponential"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class Sech2Test:
    """Scales and sides of the sech^2 comparison, and what they cost.

    Args:
        noise: distribution of the threshold noise.
        sides: what is compared.
        sensitivity: Delta, the most that one value changes between neighbouring tables, in units of values.
        monotone: all values move the same way between neighbours (counts under add/remove). It halves s; it
            is wrong under replace-one and for absolute values.
        threshold_scale: b1, in units of the values; sigma for Gaussian noise.
        query_scale: b, in units of the values.

    Raises:
        BudgetError: a parameter is out of range, or ``monotone`` cannot hold for these sides.
        NoiseError: a scale is not a positive fraction of parts up to 2^50.

    Privacy: with one threshold draw and at most c positives, the sum of ``threshold_charge`` and c times
        ``positive_charge``, for any number of adaptively chosen tests. The threshold noise must be kept
        from positive to positive, or paid at each draw.
    """

    noise: ThresholdNoise
    sides: Sides
    sensitivity: int
    monotone: bool
    threshold_scale: Fraction
    query_scale: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.noise, ThresholdNoise):
            raise BudgetError(f"expected threshold noise of a sech^2 test, got {self.noise!r}")
        require_comparable(self)
        self.threshold_noise, self.query_noise  # noqa: B018 - both check their scale

    @property
    def threshold_noise(self) -> Distribution:
        """The distribution of rho."""
        if self.noise is ThresholdNoise.GAUSSIAN:
            return DiscreteGaussian(self.threshold_scale)
        if self.noise is ThresholdNoise.LAPLACE:
            return DiscreteLaplace(self.threshold_scale)
        return Geometric(self.threshold_scale)

    @property
    def query_noise(self) -> SechSquared:
        """The distribution of nu."""
        return SechSquared(self.query_scale)

    @property
    def threshold_price(self) -> Fraction:
        """Epsilon of one threshold draw: Delta/b1; two thresholds pay it once, for only one is shifted.

        Raises:
            BudgetError: Gaussian noise, which is not pure.
        """
        if self.noise is ThresholdNoise.GAUSSIAN:
            raise BudgetError("expected pure threshold noise, got Gaussian noise, which has a rho only")
        return self.sensitivity / self.threshold_scale

    @property
    def positive_price(self) -> Fraction:
        """s, epsilon of one positive: Delta/b if monotone, else 2 Delta/b."""
        return (1 if self.monotone else 2) * self.sensitivity / self.query_scale

    @property
    def threshold_charge(self) -> Charge:
        """What one threshold draw costs.

        Exponential: epsilon1 = Delta/b1, and rho = epsilon1, the least with epsilon1 <= alpha rho for all
        alpha > 1. Laplace: epsilon1 and epsilon1^2/2. Gaussian: Delta^2/(2 sigma^2), not pure. None of them
        has a mu: what is proved of a run is that the Rényi divergences of its parts add.
        """
        if self.noise is ThresholdNoise.GAUSSIAN:
            charge = gaussian_charge(Fraction(self.sensitivity**2), self.threshold_scale)
            return replace(charge, mu_squared=None)
        if self.noise is ThresholdNoise.LAPLACE:
            return replace(pure_charge(self.threshold_price), mu_squared=None)
        return Charge(self.threshold_price, round_up(self.threshold_price, RHO_GRID))

    @property
    def positive_charge(self) -> Charge:
        """What one positive costs: s, and rho = s^2/2; no mu is proved."""
        return replace(pure_charge(self.positive_price), mu_squared=None)

    @property
    def rhos_add(self) -> bool:
        """True: the divergences of the threshold draw and of the positives add at every order."""
        return True

    def pass_probability(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability that a test passes, for audits: float64, same shape.

        Args:
            distances: int64, y = threshold + threshold noise - value, in units.
        """
        return self.query_noise.survival(distances)

    def negative_margin(self, confidence: float) -> float:
        """Return how far above its threshold a value may lie that was found below, in units.

        A value at or above T + rho always passes, so value < T + rho for every negative at once, and rho is
        at most b1 ln(k/beta), for Gaussian noise sigma sqrt(2 ln(k/beta)), with k thresholds.

        Source: Canonne, Kamath and Steinke (2020), Fact 18: the discrete Gaussian is subgaussian.
        """
        draws = 2 if self.sides is Sides.TWO_THRESHOLDS else 1
        tail = max(0.0, math.log(draws / (1 - confidence)))
        if self.noise is ThresholdNoise.GAUSSIAN:
            tail = math.sqrt(2 * tail)
        return float(self.threshold_scale) * tail

    def draw_threshold(self, bits: BitSource) -> NoisyThreshold:
        """Draw the threshold noise of a run: one number, or two with two thresholds."""
        return draw_noisy_threshold(self, bits)

    def compare(
        self,
        noisy: NoisyThreshold,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> NDArray[np.int8]:
        """Return the outcome of each test, with fresh noise each: int8, shape (n,), values of Outcome.

        Both comparisons of a pair always run, and the second has no effect once the first passed.

        Args:
            noisy: the run's threshold noise.
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public.
            bits: source of the noise.

        Raises:
            BudgetError: the threshold noise is not of these sides.
        """
        return take_outcomes(self, noisy, values, thresholds, bits)
