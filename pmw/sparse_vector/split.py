"""Split: how epsilon is shared between the threshold, the tests and the released values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction

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
        epsilon1: of the threshold noise, positive.
        epsilon2: of all tests together, positive.
        epsilon3: of all released values together; 0 where none is released.

    Raises:
        BudgetError: a share is out of range.
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
            ratio: of epsilon1 to epsilon2.
            epsilon: of the whole run.
            update_limit: c.
            values: epsilon3, the part of ``epsilon`` that released values take.

        Raises:
            BudgetError: a parameter is out of range.
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
