"""Comparison: what is compared, with which noise, and how its scales follow from shares of epsilon."""

from __future__ import annotations

import enum
import math
from fractions import Fraction

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction, round_up
from pmw.sparse_vector.noisy_comparison import NoiseKind, Sides, ThresholdTest
from queries.frozen import dataclass

_EXACT = 2**40  # a scale with parts up to this is kept as it is
_DIGITS = 40
_GRID = 2**16


class Ratio(enum.Enum):
    """epsilon1 : epsilon2, with c the update limit.

    ``OPTIMAL`` minimises the variance of rho - nu, 2 (Delta/epsilon1)^2 + 2 (2c Delta/epsilon2)^2;
    ``OPTIMAL_MONOTONE`` does so where tests are charged at the monotone rate.

    Source: Lyu, Su and Li (2017), Sections 4.2 and 4.3; the five are those of their Section 6.
    """

    EVEN = "1:1"
    ONE_TO_THREE = "1:3"
    ONE_TO_C = "1:c"
    OPTIMAL = "1:(2c)^(2/3)"
    OPTIMAL_MONOTONE = "1:c^(2/3)"

    def tests_per_threshold(self, update_limit: int) -> Fraction:
        """Return epsilon2/epsilon1; a root is rounded to a multiple of 2^-16, which both shares allow for."""
        whole = {Ratio.EVEN: 1, Ratio.ONE_TO_THREE: 3, Ratio.ONE_TO_C: update_limit}
        if self in whole:
            return Fraction(whole[self])
        base = (2 if self is Ratio.OPTIMAL else 1) * update_limit
        return Fraction(round(float(base) ** (2 / 3) * _GRID), _GRID)


@dataclass(frozen=True, slots=True)
class Split:
    """The shares of one run.

    Args:
        epsilon3: of all released values together; 0 where none is released.
    """

    epsilon1: Fraction
    epsilon2: Fraction
    epsilon3: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        for name in ("epsilon1", "epsilon2", "epsilon3"):
            object.__setattr__(self, name, as_fraction(getattr(self, name), name))
        if min(self.epsilon1, self.epsilon2) <= 0 or self.epsilon3 < 0:
            raise BudgetError(
                "expected epsilon1 > 0, epsilon2 > 0 and epsilon3 >= 0, got "
                f"{float(self.epsilon1):g}, {float(self.epsilon2):g} and {float(self.epsilon3):g}"
            )

    @classmethod
    def of(cls, ratio: Ratio, *, epsilon: Number, update_limit: int, values: Number = 0) -> Split:
        """Return the split of ``epsilon`` whose shares add up to it exactly.

        Args:
            values: epsilon3, the part of ``epsilon`` that released values take.
        """
        if update_limit < 1:
            raise BudgetError(f"expected an update limit of at least 1, got {update_limit}")
        third = as_fraction(values, "epsilon3")
        tests = as_fraction(epsilon, "epsilon") - third
        first = tests / (1 + ratio.tests_per_threshold(update_limit))
        return cls(first, tests - first, third)

    @property
    def epsilon(self) -> Fraction:
        """The whole."""
        return self.epsilon1 + self.epsilon2 + self.epsilon3


@dataclass(frozen=True, slots=True)
class Comparison:
    """A noisy comparison before its scales are chosen.

    Args:
        sensitivity: the most that one value changes between neighbours, in units of the values.
        monotone: all values move the same way between neighbours.
    """

    noise: NoiseKind = NoiseKind.LAPLACE
    sides: Sides = Sides.ONE_SIDED
    sensitivity: int = 1
    monotone: bool = False

    @property
    def best_ratio(self) -> Ratio:
        """The ratio epsilon1 : epsilon2 of least variance."""
        return Ratio.OPTIMAL_MONOTONE if self.monotone else Ratio.OPTIMAL

    def priced(self, split: Split, positives: int) -> ThresholdTest:
        """Return the test whose threshold costs epsilon1 and whose ``positives`` cost epsilon2, at most.

        Scales Delta/epsilon1 and m c Delta/epsilon2, rounded up.

        Args:
            split: the prices; epsilon3 plays no part.
            positives: c.

        Raises:
            BudgetError: ``monotone`` cannot hold for these sides, or there is no positive.
        """
        if positives < 1 or self.sensitivity < 1:
            raise BudgetError(
                "expected an update limit of at least 1 and a sensitivity of at least 1, got "
                f"{positives} and {self.sensitivity}"
            )
        rate = 1 if self.monotone else 2
        return ThresholdTest(
            self.noise,
            self.sides,
            self.sensitivity,
            self.monotone,
            scale_up(self.sensitivity / split.epsilon1),
            scale_up(rate * positives * self.sensitivity / split.epsilon2),
        )


def scale_up(scale: Fraction) -> Fraction:
    """Return the scale, or one with short parts that is at most 2^-39 of it larger; never a smaller one.

    Samplers take scales p/q with parts up to 2^50. A scale below 2^-10 keeps a grid of 2^-50.
    """
    if max(scale.numerator, scale.denominator) <= _EXACT:
        return scale
    size = math.floor(scale).bit_length() if scale >= 1 else -int(1 / scale).bit_length() + 1
    return round_up(scale, 2 ** min(50, max(0, _DIGITS - size)))
