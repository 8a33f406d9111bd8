"""The noisy comparison that all sparse vector algorithms share: is value + noise >= threshold + noise?

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

import enum
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Charge, pure_charge
from pmw.privacy.noise import DiscreteLaplace, Distribution, Geometric
from pmw.privacy.random_bits import BitSource
from queries.plain_values import type_name


class NoiseKind(enum.Enum):
    """The distribution of threshold and test noise."""

    EXPONENTIAL = "exponential"
    LAPLACE = "laplace"


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
        upper: added to the threshold of value.
        lower: added to the threshold of -value; None unless there are two thresholds.
    """

    upper: int
    lower: int | None = None

    def __repr__(self) -> str:
        return "NoisyThreshold(secret)"


class NoisyComparison(Protocol):
    """What a sparse vector algorithm needs to know of its test: is value + nu >= T + rho, and at what price?

    ``noise`` names the distribution of rho, ``sides`` what is compared; sensitivity and scales are in units
    of the values. The prices are epsilons; a comparison that has none raises BudgetError there and states
    charges.
    """

    @property
    def noise(self) -> enum.Enum: ...  # noqa: D102 - the class says what each means
    @property
    def sides(self) -> Sides: ...  # noqa: D102
    @property
    def sensitivity(self) -> int: ...  # noqa: D102
    @property
    def monotone(self) -> bool: ...  # noqa: D102
    @property
    def threshold_scale(self) -> Fraction: ...  # noqa: D102
    @property
    def query_scale(self) -> Fraction: ...  # noqa: D102
    @property
    def threshold_noise(self) -> Distribution: ...  # noqa: D102
    @property
    def query_noise(self) -> Distribution: ...  # noqa: D102

    @property
    def threshold_price(self) -> Fraction:
        """Epsilon of one threshold draw."""

    @property
    def positive_price(self) -> Fraction:
        """Epsilon of one positive."""

    @property
    def threshold_charge(self) -> Charge:
        """What one threshold draw costs."""

    @property
    def positive_charge(self) -> Charge:
        """What one positive costs."""

    @property
    def rhos_add(self) -> bool:
        """Whether the rhos of the threshold draw and of each positive add up to a sound total."""

    def negative_margin(self, confidence: float) -> float:
        """Return how far above its threshold a value may lie that was found below, in units."""

    def draw_threshold(self, bits: BitSource) -> NoisyThreshold:
        """Draw the threshold noise of a round."""

    def compare(
        self,
        noisy: NoisyThreshold,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> NDArray[np.int8]:
        """Return the outcome of each test, with fresh noise each: int8, shape (n,), values of Outcome."""


@dataclass(frozen=True, slots=True)
class ThresholdTest:
    """Scales and sides of the comparison, and what they cost.

    Args:
        noise: distribution of both noises.
        sides: what is compared.
        sensitivity: the most that one value changes between neighbouring tables, in units of the values.
        monotone: all values move the same way between neighbours (counts under add/remove). It halves
            the price of a positive; it is wrong under replace-one and for absolute values.
        threshold_scale: b1, in units of the values.
        query_scale: b, in units of the values.

    Raises:
        BudgetError: a parameter is out of range, or ``monotone`` cannot hold for these sides.

    Privacy: with at most c positives and one threshold draw, (Delta/b1 + c m Delta/b)-DP with m = 1 if
        monotone, else 2, for any number of adaptively chosen tests.
    """

    noise: NoiseKind
    sides: Sides
    sensitivity: int
    monotone: bool
    threshold_scale: Fraction
    query_scale: Fraction

    def __post_init__(self) -> None:
        require_comparable(self)
        self.threshold_noise, self.query_noise  # noqa: B018 - both check their scale

    @property
    def threshold_noise(self) -> Distribution:
        """The distribution of rho."""
        return _distribution(self.noise, self.threshold_scale)

    @property
    def query_noise(self) -> Distribution:
        """The distribution of nu."""
        return _distribution(self.noise, self.query_scale)

    @property
    def threshold_price(self) -> Fraction:
        """Epsilon of one threshold draw: Delta/b1; two thresholds pay it once, for only one is shifted."""
        return self.sensitivity / self.threshold_scale

    @property
    def positive_price(self) -> Fraction:
        """Epsilon of one positive: Delta/b if monotone, else 2 Delta/b."""
        return (1 if self.monotone else 2) * self.sensitivity / self.query_scale

    @property
    def threshold_charge(self) -> Charge:
        """What one threshold draw costs."""
        return pure_charge(self.threshold_price)

    @property
    def positive_charge(self) -> Charge:
        """What one positive costs."""
        return pure_charge(self.positive_price)

    @property
    def rhos_add(self) -> bool:
        """False: a run is one pure event, and the squares of its parts would undercharge it."""
        return False

    def negative_margin(self, confidence: float) -> float:
        """Return how far above its threshold a value may lie that was found below, in units.

        With exponential noise nu >= 0, so value < T + rho for every negative of a round at once, and
        rho <= b1 ln(k/beta) with k thresholds. With Laplace noise this holds for each negative by itself:
        b1 ln(k/beta) + b ln(1/beta), each tail taking half of beta.
        """
        beta = 1 - confidence
        draws = 2 if self.sides is Sides.TWO_THRESHOLDS else 1
        kept = float(self.threshold_scale) * max(0.0, math.log(draws / beta))
        if self.noise is NoiseKind.EXPONENTIAL:
            return kept
        return kept + float(self.query_scale) * max(0.0, -math.log(beta))

    def draw_threshold(self, bits: BitSource) -> NoisyThreshold:
        """Draw the threshold noise of a round: one number, or two with two thresholds."""
        return draw_noisy_threshold(self, bits)

    def compare(
        self,
        noisy: NoisyThreshold,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> NDArray[np.int8]:
        """Return the outcome of each test, with fresh noise each: int8, shape (n,), values of Outcome.

        Both comparisons of a pair always run, so the time taken does not tell which one passed.

        Args:
            noisy: the round's threshold noise.
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public.
            bits: source of the noise.

        Raises:
            BudgetError: the threshold noise is not of these sides; a lost second threshold is not no noise.
        """
        return take_outcomes(self, noisy, values, thresholds, bits)

    def excess(
        self,
        noisy: NoisyThreshold,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> NDArray[np.int64]:
        """Return value + nu - (T + rho) of each test, with fresh noise each: int64, shape (n,), secret.

        A test passes where it is at least 0. Below 0 it is never shown, and above 0 by ``FreeGap`` alone.

        Raises:
            BudgetError: there are two thresholds, or the threshold noise is of two.
        """
        if self.sides is Sides.TWO_THRESHOLDS or noisy.lower is not None:
            raise BudgetError("expected one threshold, got two")
        compared = np.abs(values) if self.sides is Sides.TWO_SIDED else values
        nu = self.query_noise.sample_array(bits, len(values))
        found: NDArray[np.int64] = compared + nu - (thresholds + noisy.upper)
        return found


def require_comparable(test: NoisyComparison) -> None:
    """Refuse a comparison whose price would be wrong for what it compares.

    Raises:
        BudgetError: the sensitivity is less than 1, or ``monotone`` cannot hold for these sides.
    """
    if test.sensitivity < 1:
        raise BudgetError(f"expected a sensitivity of at least 1, got {test.sensitivity}")
    if test.sides is Sides.TWO_SIDED and test.monotone:
        raise BudgetError("an absolute value is not monotone; charge it at the general rate")
    if test.sides is Sides.TWO_THRESHOLDS and not test.monotone:
        raise BudgetError("two thresholds need monotone values: signed counts under add/remove")


def draw_noisy_threshold(test: NoisyComparison, bits: BitSource) -> NoisyThreshold:
    """Return fresh threshold noise: one number, or two, drawn apart, with two thresholds."""
    upper = test.threshold_noise.sample(bits)
    if test.sides is not Sides.TWO_THRESHOLDS:
        return NoisyThreshold(upper)
    return NoisyThreshold(upper, test.threshold_noise.sample(bits))


def take_outcomes(
    test: NoisyComparison,
    noisy: NoisyThreshold,
    values: NDArray[np.int64],
    thresholds: NDArray[np.int64],
    bits: BitSource,
) -> NDArray[np.int8]:
    """Return the outcome of each test, by its sides and the distribution of its noise; see ``compare``.

    Of a pair the second comparison is always drawn, and of no effect once the first passed.

    Raises:
        BudgetError: the threshold noise is not of these sides; a lost second threshold is not no noise.
    """
    if (noisy.lower is None) != (test.sides is not Sides.TWO_THRESHOLDS):
        raise BudgetError(f"the threshold noise was drawn for other sides than {test.sides.value}")
    limits = thresholds + noisy.upper
    if noisy.lower is not None:
        nu = test.query_noise.sample_array(bits, 2 * len(values)).reshape(2, -1)
        above = values + nu[0] >= limits
        negated = -values + nu[1] >= thresholds + noisy.lower
        return np.where(above, Outcome.ABOVE, np.where(negated, Outcome.ABOVE_NEGATED, 0)).astype(np.int8)
    compared = np.abs(values) if test.sides is Sides.TWO_SIDED else values
    above = compared + test.query_noise.sample_array(bits, len(values)) >= limits
    return above.astype(np.int8)


def require_integers(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values as int64.

    Raises:
        BudgetError: a value is not an integer; floating-point statistics have no exact sensitivity.
    """
    if not issubclass(type(values), np.ndarray):  # its type alone: nothing of what it holds is shown
        raise BudgetError(f"expected a numpy array of integers, got a {type_name(values)}")
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise BudgetError(f"expected integer values on a grid, got dtype={array.dtype}")
    return array.astype(np.int64)


def _distribution(noise: NoiseKind, scale: Fraction) -> Distribution:
    return Geometric(scale) if noise is NoiseKind.EXPONENTIAL else DiscreteLaplace(scale)
