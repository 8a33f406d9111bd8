"""Comparison: what is compared, with which noise; its scales follow from a price and are rounded up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pmw.errors import BudgetError
from pmw.privacy.budget import round_up
from pmw.sparse_vector.noisy_comparison import NoiseKind, Sides, ThresholdTest
from pmw.sparse_vector.split import Ratio, Split

_EXACT = 2**40  # a scale with parts up to this is kept as it is
_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Comparison:
    """A noisy comparison before its scales are chosen.

    Args:
        noise: distribution of threshold and test noise.
        sides: what is compared.
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
