"""NumericSparse: Sparse that also releases the values that passed, with fresh noise."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy import Budget, Charge, Composition, Number, gaussian_charge, pure_charge
from pmw.randomness import BitSource
from pmw.sparse_vector.sparse import Sparse, SparseState, textbook_sigma
from pmw.sparse_vector.threshold_test import NoiseKind, Outcome, Sides, ThresholdTest

__all__ = [
    "NumericSparse",
    "value_charge",
    "ValueNoise",
]

_MARGIN = Fraction(1, 10**20)

ValueNoise: TypeAlias = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class NumericSparse:
    """Sparse, with each positive value released under fresh noise.

    The noise that a test used is never reused for its value: that would reveal an upper end of the noisy
    threshold and cost e^((m-1) epsilon/2) after m negatives (Lyu, Su and Li 2017, Theorem 9.11).

    Args:
        sparse: the tests.
        value_noise: law of the noise on released values, in their units.

    Privacy: the tests as in Sparse, and for each positive Delta/b (discrete Laplace at scale b) or
        Delta^2/(2 sigma^2)-zCDP (discrete Gaussian).

    Source: Dwork and Roth (2014), Algorithm 3 and Theorem 3.27.
    """

    sparse: Sparse
    value_noise: ValueNoise

    @classmethod
    def textbook(
        cls, *, epsilon: Number, delta: Number = 0, update_limit: int, sensitivity: int = 1
    ) -> NumericSparse:
        """Return the algorithm with the textbook's scales.

        Tests at epsilon1 and values under Lap(sigma(epsilon2)), sigma as in Sparse (with ln(2/delta)):
        epsilon1 = 8/9 epsilon, epsilon2 = 2/9 epsilon for delta = 0; otherwise in the ratio sqrt(512) : 2
        with denominator sqrt(512) + 1, rounded down.
        """
        budget = Budget.of(epsilon, delta)
        root = Fraction(Decimal(512).sqrt())  # 28 digits; both shares are taken a little low
        tests, values = Fraction(8, 9), Fraction(2, 9)
        if budget.delta > 0:
            tests, values = (part / (root + 1) * (1 - _MARGIN) for part in (root, Fraction(2)))
        sigmas = [
            sensitivity * textbook_sigma(Budget(share * budget.epsilon, budget.delta / 2), update_limit)
            for share in (tests, values)
        ]
        test = ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, sensitivity, False, sigmas[0], 2 * sigmas[0])
        return cls(Sparse(test, update_limit, redraw=True), DiscreteLaplace(sigmas[1]))

    @property
    def value_charge(self) -> Charge:
        """What one released value costs."""
        return value_charge(self.value_noise, self.sparse.test.sensitivity)

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged when threshold noise is drawn, and at each positive with its value."""
        opening, positive = self.sparse.charges(composition)
        return opening, positive + self.value_charge

    def open(self, bits: BitSource) -> SparseState:
        """Draw the secret threshold noise of the first round."""
        return self.sparse.open(bits)

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, Outcome, int | None]:
        """Test one value; at a positive also release it with fresh noise.

        Raises:
            BudgetError: the run has halted, or the value is not an integer.
        """
        state, outcomes, released = self.scan(state, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0]), released

    def scan(
        self,
        state: SparseState,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> tuple[SparseState, NDArray[np.int8], int | None]:
        """Test values in order, up to and including the first positive.

        Returns:
            The state after it; the outcomes so far: int8, shape (m,), m <= n; and the value that passed
            with fresh noise, or None where none did.

        Raises:
            BudgetError: the run has halted, or a value is not an integer.
        """
        state, outcomes = self.sparse.scan(state, values, thresholds, bits)
        if not outcomes.any():
            return state, outcomes, None
        return state, outcomes, int(values[len(outcomes) - 1]) + self.value_noise.sample(bits)


def value_charge(noise: ValueNoise, sensitivity: int) -> Charge:
    """Return the price of one value of the given sensitivity under fresh noise."""
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(sensitivity / noise.scale)
    return gaussian_charge(Fraction(sensitivity**2), noise.sigma)
