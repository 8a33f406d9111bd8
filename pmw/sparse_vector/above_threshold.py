"""AboveThreshold: find the first value above a threshold, then halt."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.noise import uniform_below
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import (
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    Outcome,
    Sides,
    ThresholdTest,
    require_integers,
)


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Test values one after the other until the first that passes.

    Args:
        test: the noisy comparison.

    Privacy: epsilon-DP with epsilon = Delta/b1 + m Delta/b, however many values are tested.

    Source: Dwork and Roth (2014), Algorithm 1 and Theorem 3.23, with Lap(2/epsilon) and Lap(4/epsilon).
    """

    test: NoisyComparison

    @classmethod
    def textbook(cls, *, epsilon: Number, sensitivity: int = 1) -> AboveThreshold:
        """Return the algorithm with the textbook's scales: Laplace at 2/epsilon and 4/epsilon."""
        price = as_fraction(epsilon, "epsilon")
        if price <= 0:
            raise BudgetError(f"expected epsilon > 0, got epsilon={float(price):g}")
        scale = Fraction(2 * sensitivity) / price
        test = ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, sensitivity, False, scale, 2 * scale)
        return cls(test)

    @property
    def epsilon(self) -> Fraction:
        """What one run costs."""
        return self.test.threshold_price + self.test.positive_price

    def open(self, bits: BitSource) -> NoisyThreshold:
        """Draw the secret threshold noise."""
        return self.test.draw_threshold(bits)

    def step(
        self, noisy: NoisyThreshold | None, value: int, threshold: int, bits: BitSource
    ) -> tuple[NoisyThreshold | None, Outcome]:
        """Test one value; after a positive the state is None and no further value is accepted.

        Raises:
            BudgetError: the run has halted, or the value is not an integer.
        """
        state, outcomes = self.scan(noisy, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0])

    def scan(
        self,
        noisy: NoisyThreshold | None,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> tuple[NoisyThreshold | None, NDArray[np.int8]]:
        """Test values in order, up to and including the first positive.

        Returns:
            The state after it (None once halted), and the outcomes so far: int8, shape (m,), m <= n.

        Raises:
            BudgetError: the run has halted, or a value is not an integer.
        """
        if noisy is None:
            raise BudgetError("expected a running AboveThreshold, but it halted at its positive")
        outcomes = self.test.compare(noisy, require_integers(values), require_integers(thresholds), bits)
        positives = np.flatnonzero(outcomes)
        if len(positives):
            return None, outcomes[: positives[0] + 1]
        return noisy, outcomes

    def find(
        self,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
        *,
        random_index: bool = False,
    ) -> int | None:
        """Return the place of the first value found above its threshold, in a run of its own.

        Args:
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public.
            bits: source of the noise.
            random_index: where no value is found, return a random place instead of None. It costs nothing,
                but such an answer cannot be told from a found one.

        Raises:
            BudgetError: a value is not an integer, or a random place is asked for among none.

        Privacy: epsilon, of one run; None and a random place are computed from the outcomes alone.

        Source: Near and Abuah, "Programming Differential Privacy", chapter on the sparse vector, for the
            random index; None is the departure that tells the analyst of the failure.
        """
        if random_index and not len(values):
            raise BudgetError("expected at least one value for a random index, got none")
        _, outcomes = self.scan(self.open(bits), values, thresholds, bits)
        if outcomes.any():
            return len(outcomes) - 1
        return uniform_below(len(values), bits) if random_index else None
