"""The noisy comparison that all sparse vector algorithms share: is value + noise >= threshold + noise?

Its threshold and its tests have noise of one distribution (``ThresholdTest``), or its tests that of the
sech^2 test (``Sech2Test``).

Values, thresholds and noise are integers. For neighbouring tables, with Delta the sensitivity, rho the
threshold noise at scale b1 and nu the fresh noise at scale b of each test:

    Pr[outcomes | D] = sum_z Pr[rho = z] prod_below Pr[value + nu < T + z] prod_above Pr[value + nu >= T + z]

Shifting z by Delta costs e^(Delta/b1) once and makes every "below" at least as likely; an "above" moves by
the shift and by its own value, 2 Delta in general (e^(2 Delta/b)) and Delta when all values move the same
way. Both need only f(z) <= e^(Delta/b1) f(z + Delta) and S(y) <= e^(d/b) S(y + d), which hold for two-sided
and for one-sided (exponential) noise alike.

Source: Lyu, Su and Li (2017), equation (5), Algorithm 7 and Section 4.3 (monotone queries); for exponential
noise, Liu et al. (2024, PVLDB 18). The proof on integers, with two thresholds:
``docs/proofs/above-threshold.md``.
"""

from __future__ import annotations

import abc
import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import RHO_GRID, Charge, gaussian_charge, pure_charge, round_up
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Geometric, SechSquared
from pmw.privacy.random_bits import BitSource, require_bits
from queries.frozen import dataclass
from queries.plain_values import type_name

Integers: TypeAlias = NDArray[np.int64] | Sequence[int]  # one number per test


class NoiseKind(enum.Enum):
    """The distribution of threshold and test noise. All but ``LAPLACE`` count as one-sided."""

    EXPONENTIAL = "exponential"
    LAPLACE = "laplace"


class ThresholdNoise(enum.Enum):
    """The distribution of the threshold noise of a sech^2 test; ``GAUSSIAN`` has no pure price."""

    EXPONENTIAL = "exponential"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


_DISTRIBUTIONS: dict[str, Callable[[Fraction], Distribution]] = {
    "exponential": Geometric,
    "laplace": DiscreteLaplace,
    "gaussian": DiscreteGaussian,
}


class Sides(enum.Enum):
    """What is compared.

    ``ONE_SIDED``: value + nu >= T + rho.
    ``TWO_SIDED``: |value| + nu >= T + rho, the noise outside the absolute value.
    ``TWO_THRESHOLDS``: value + nu >= T + rho and -value + nu' >= T + rho' with separately drawn rho, rho'.
    """

    ONE_SIDED = "one-sided"
    TWO_SIDED = "two-sided"
    TWO_THRESHOLDS = "two-thresholds"


class Outcome(enum.IntEnum):
    """What a test says; ``ABOVE_NEGATED`` occurs with two thresholds only, where -value passed."""

    ABOVE_NEGATED = -1
    BELOW = 0
    ABOVE = 1


@dataclass(frozen=True, slots=True, repr=False)
class NoisyThreshold:
    """The secret threshold noise of one round; never shown, kept until the round closes.

    Args:
        lower: added to the threshold of -value; None unless there are two thresholds.
    """

    upper: int
    lower: int | None = None

    def __repr__(self) -> str:
        return "NoisyThreshold(secret)"


@dataclass(frozen=True, slots=True)
class NoisyComparison(abc.ABC):
    """A noisy comparison, is value + nu >= T + rho, and what it costs: what its two kinds of noise share.

    The prices are epsilons; a comparison that has none raises BudgetError there and states charges.

    Args:
        noise: distribution of rho.
        sensitivity: Delta, the most that one value changes between neighbouring tables, in units of the
            values.
        monotone: all values move the same way between neighbours (counts under add/remove). It halves
            the price of a positive; it is wrong under replace-one and for absolute values.
        threshold_scale: b1, in units of the values; sigma for Gaussian noise.
        query_scale: b, in units of the values.
    """

    rhos_add: ClassVar[bool]  # those of the threshold draw and of each positive, to a sound total
    noise: enum.Enum
    sides: Sides
    sensitivity: int
    monotone: bool
    threshold_scale: Fraction
    query_scale: Fraction

    def __post_init__(self) -> None:
        if self.sensitivity < 1:
            raise BudgetError(f"expected a sensitivity of at least 1, got {self.sensitivity}")
        if self.sides is Sides.TWO_SIDED and self.monotone:
            raise BudgetError("an absolute value is not monotone; charge it at the general rate")
        if self.sides is Sides.TWO_THRESHOLDS and not self.monotone:
            raise BudgetError("two thresholds need monotone values: signed counts under add/remove")
        self.threshold_noise, self.query_noise  # noqa: B018 - both check their scale

    @property
    def threshold_noise(self) -> Distribution:
        """The distribution of rho."""
        return _DISTRIBUTIONS[self.noise.value](self.threshold_scale)

    @property
    @abc.abstractmethod
    def query_noise(self) -> Distribution:
        """The distribution of nu."""

    @property
    def threshold_price(self) -> Fraction:
        """Epsilon of one threshold draw: Delta/b1; two thresholds pay it once, for only one is shifted."""
        return self.sensitivity / self.threshold_scale

    @property
    def positive_price(self) -> Fraction:
        """Epsilon of one positive: Delta/b if monotone, else 2 Delta/b."""
        return (1 if self.monotone else 2) * self.sensitivity / self.query_scale

    @property
    @abc.abstractmethod
    def threshold_charge(self) -> Charge:
        """What one threshold draw costs."""

    @property
    @abc.abstractmethod
    def positive_charge(self) -> Charge:
        """What one positive costs."""

    @abc.abstractmethod
    def negative_margin(self, confidence: float) -> float:
        """Return how far above its threshold a value may lie that was found below, in units."""

    def draw_threshold(self, bits: BitSource) -> NoisyThreshold:
        """Draw the threshold noise of a round: one number, or two, drawn apart, with two thresholds."""
        require_bits(bits)
        upper = self.threshold_noise.sample(bits)
        if self.sides is not Sides.TWO_THRESHOLDS:
            return NoisyThreshold(upper)
        return NoisyThreshold(upper, self.threshold_noise.sample(bits))

    def compare(
        self, noisy: NoisyThreshold, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> NDArray[np.int8]:
        """Return the outcome of each test, with fresh noise each: int8, shape (n,), values of Outcome.

        Both comparisons of a pair always run, so the time taken does not tell which one passed; the second
        has no effect once the first passed.

        Args:
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public.
        """
        require_bits(bits)
        if (noisy.lower is None) != (self.sides is not Sides.TWO_THRESHOLDS):
            raise BudgetError(f"the threshold noise was drawn for other sides than {self.sides.value}")
        limits = thresholds + noisy.upper
        if noisy.lower is not None:
            nu = self.query_noise.sample_array(bits, 2 * len(values)).reshape(2, -1)
            above = values + nu[0] >= limits
            negated = -values + nu[1] >= thresholds + noisy.lower
            return np.where(above, Outcome.ABOVE, np.where(negated, Outcome.ABOVE_NEGATED, 0)).astype(np.int8)
        compared = np.abs(values) if self.sides is Sides.TWO_SIDED else values
        above = compared + self.query_noise.sample_array(bits, len(values)) >= limits
        return above.astype(np.int8)

    def _threshold_tail(self, confidence: float) -> float:
        """Return ln(k/beta) with k thresholds: how far each rho lies out at most, in scales."""
        draws = 2 if self.sides is Sides.TWO_THRESHOLDS else 1
        return max(0.0, math.log(draws / (1 - confidence)))


@dataclass(frozen=True, slots=True)
class ThresholdTest(NoisyComparison):
    """The comparison whose tests have the noise of its threshold, at a scale of their own.

    The arguments and errors are those of ``NoisyComparison``.

    Privacy: with at most c positives and one threshold draw, (Delta/b1 + c m Delta/b)-DP with m = 1 if
        monotone, else 2, for any number of adaptively chosen tests.
    """

    rhos_add = False  # a run is one pure event, and the squares of its parts would undercharge it
    noise: NoiseKind

    @property
    def query_noise(self) -> Distribution:
        return _DISTRIBUTIONS[self.noise.value](self.query_scale)

    @property
    def threshold_charge(self) -> Charge:
        return pure_charge(self.threshold_price)

    @property
    def positive_charge(self) -> Charge:
        return pure_charge(self.positive_price)

    def negative_margin(self, confidence: float) -> float:
        """Return how far above its threshold a value may lie that was found below, in units.

        With exponential noise nu >= 0, so value < T + rho for every negative of a round at once, and
        rho <= b1 ln(k/beta) with k thresholds. With Laplace noise this holds for each negative by itself:
        b1 ln(k/beta) + b ln(1/beta), each tail taking half of beta.
        """
        kept = float(self.threshold_scale) * self._threshold_tail(confidence)
        if self.noise is NoiseKind.EXPONENTIAL:
            return kept
        return kept + float(self.query_scale) * max(0.0, -math.log(1 - confidence))

    def excess(
        self, noisy: NoisyThreshold, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> NDArray[np.int64]:
        """Return value + nu - (T + rho) of each test, with fresh noise each: int64, shape (n,), secret.

        A test passes where it is at least 0. Below 0 it is never shown, and above 0 by ``FreeGap`` alone.
        """
        if self.sides is Sides.TWO_THRESHOLDS or noisy.lower is not None:
            raise BudgetError("expected one threshold, got two")
        compared = np.abs(values) if self.sides is Sides.TWO_SIDED else values
        nu = self.query_noise.sample_array(bits, len(values))
        found: NDArray[np.int64] = compared + nu - (thresholds + noisy.upper)
        return found


@dataclass(frozen=True, slots=True)
class Sech2Test(NoisyComparison):
    """The sech^2 test: a comparison whose positives cost s^2/2 in zCDP, and whose negatives cost nothing.

    A value passes with probability S(y) = sech^2(y/2b) where y = T + rho - value is above 0, and surely where
    it is not: nu is of the distribution ``SechSquared``. rho is drawn once and kept. Let s be Delta/b where
    all values move the same way and for two thresholds, else 2 Delta/b. For neighbours and every alpha > 1,

        D_alpha <= D_alpha(rho shifted by Delta) + c R(alpha, s),      R(alpha, s) <= min(s, alpha s^2/2),

    for any number of adaptively chosen tests with at most c positives. The first term is at most Delta/b1 for
    exponential noise, alpha Delta^2/(2 b1^2) for Laplace and for Gaussian noise (where b1 is sigma). So one
    threshold draw and each positive may be charged as they come, under zCDP as well as when epsilons add.

    Exponential noise has a threshold price of Delta/b1 at every order, down to alpha = 1: shifted, it cannot
    be told apart by more than that, but by no less either, so its rho is Delta/b1 and not half the square of
    it. Under zCDP take Gaussian or Laplace noise; ``sech2_charges`` accounts for exponential noise order by
    order.

    The arguments and errors are those of ``NoisyComparison``.

    Privacy: with one threshold draw and at most c positives, the sum of ``threshold_charge`` and c times
        ``positive_charge``, for any number of adaptively chosen tests. The threshold noise must be kept
        from positive to positive, or paid at each draw.

    Source: ``docs/proofs/zcdp-sparse-vector.md``, the complete proof; each of its steps has a test.
    """

    rhos_add = True  # the divergences of the threshold draw and of the positives add at every order
    noise: ThresholdNoise

    def __post_init__(self) -> None:
        if not isinstance(self.noise, ThresholdNoise):
            raise BudgetError(f"expected threshold noise of a sech^2 test, got {self.noise!r}")
        NoisyComparison.__post_init__(self)

    @property
    def query_noise(self) -> SechSquared:
        return SechSquared(self.query_scale)

    @property
    def threshold_price(self) -> Fraction:
        if self.noise is ThresholdNoise.GAUSSIAN:
            raise BudgetError("expected pure threshold noise, got Gaussian noise, which has a rho only")
        return self.sensitivity / self.threshold_scale

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

    def negative_margin(self, confidence: float) -> float:
        """Return how far above its threshold a value may lie that was found below, in units.

        A value at or above T + rho always passes, so value < T + rho for every negative at once, and rho is
        at most b1 ln(k/beta), for Gaussian noise sigma sqrt(2 ln(k/beta)), with k thresholds.

        Source: Canonne, Kamath and Steinke (2020), Fact 18: the discrete Gaussian is subgaussian.
        """
        tail = self._threshold_tail(confidence)
        if self.noise is ThresholdNoise.GAUSSIAN:
            tail = math.sqrt(2 * tail)
        return float(self.threshold_scale) * tail


def require_integers(values: Integers) -> NDArray[np.int64]:
    """Return the values of an array, or of a list, as int64."""
    if not issubclass(type(values), np.ndarray | list | tuple):  # its type alone: nothing of it is shown
        raise BudgetError(f"expected a numpy array of integers, or a list, got a {type_name(values)}")
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):
        raise BudgetError("expected a list of integers, got one that is no array of numbers") from None
    if not np.issubdtype(array.dtype, np.integer):
        raise BudgetError(f"expected integer values on a grid, got dtype={array.dtype}")
    return array.astype(np.int64)
