"""FreeGap: a sparse vector that also tells by how much a value passed, at the same price."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Charge, Composition
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import Outcome, Sides, ThresholdTest, require_integers
from pmw.sparse_vector.sparse import Sparse, SparseState


@dataclass(frozen=True, slots=True)
class FreeGap:
    """Sparse, with the gap value + nu - (T + rho) >= 0 of each positive to its noisy threshold.

    The gap is not the value: T + gap estimates it with the noise nu - rho of the test, and since a positive
    was selected for a large gap, the estimate is biased upward near the threshold. Releasing value + nu
    itself would show the noisy threshold and is not private (Lyu, Su and Li 2017, Algorithm 3).

    Args:
        sparse: the tests, against one threshold.

    Raises:
        BudgetError: the tests have two thresholds, or are sech^2 tests, whose proof does not cover gaps.

    Privacy: the price of ``sparse``, unchanged: for a given gap, the shift of rho by Delta that pays for the
        negatives asks for nu' = nu + Delta + value - value' >= nu, so nu' keeps to the support of one-sided
        noise and its density falls by e^(2 Delta/b) at most (e^(Delta/b) if monotone), as the positive
        itself costs. The bound is pure; where ``sparse`` is charged under zCDP, so is each whole event.

    Source: Ding, Wang, Zhang and Kifer (2019), "Free Gap Information from the Differentially Private Sparse
        Vector and Noisy Max Mechanisms", Section 6, for Laplace noise.
    """

    sparse: Sparse

    def __post_init__(self) -> None:
        if self.sparse.test.sides is Sides.TWO_THRESHOLDS:
            raise BudgetError("expected one threshold for a free gap, got two")
        self._test()

    def _test(self) -> ThresholdTest:
        test = self.sparse.test
        if not isinstance(test, ThresholdTest):
            raise BudgetError(f"expected a ThresholdTest for a free gap, got a {type(test).__name__}")
        return test

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run when epsilons add: that of the tests alone."""
        return self.sparse.total_epsilon

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged when threshold noise is drawn, and at each positive: as without gaps."""
        return self.sparse.charges(composition)

    def open(self, bits: BitSource) -> SparseState:
        """Draw the secret threshold noise of the first round."""
        return self.sparse.open(bits)

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, Outcome, int | None]:
        """Test one value; at a positive also return its gap, else None.

        Raises:
            BudgetError: the run has halted, or the value is not an integer.
        """
        state, outcomes, gap = self.scan(state, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0]), gap

    def scan(
        self,
        state: SparseState,
        values: NDArray[np.int64],
        thresholds: NDArray[np.int64],
        bits: BitSource,
    ) -> tuple[SparseState, NDArray[np.int8], int | None]:
        """Test values in order, up to and including the first positive.

        Returns:
            The state after it; the outcomes so far: int8, shape (m,), m <= n; and the gap of the value that
            passed, in units of the values, or None where none did.

        Raises:
            BudgetError: the run has halted, a value is not an integer, or kept threshold noise is lost.
        """
        values, thresholds = require_integers(values), require_integers(thresholds)
        noisy = self.sparse.round_noise(state, bits)
        excess = self._test().excess(noisy, values, thresholds, bits)
        positives = np.flatnonzero(excess >= 0)
        if not len(positives):
            return SparseState(noisy, state.positives), np.zeros(len(values), dtype=np.int8), None
        place = int(positives[0])
        outcomes = np.append(np.zeros(place, dtype=np.int8), np.int8(Outcome.ABOVE))
        return self.sparse.after_positive(state, noisy), outcomes, int(excess[place])
