"""Sound sparse vectors of the literature: one that pays for each value asked, one that tells gaps, and Lyu's.

Those of Lyu, Su and Li stand under their numbers: 1, 2 and 7. Algorithms 3 to 6 are not private as stated and
are found in ``pmw.research.audit.flawed`` alone.

Source: Lyu, Su and Li, "Understanding the Sparse Vector Technique for Differential Privacy" (2017).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Charge, Composition, Number, zcdp_rho
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.comparison import Comparison, Ratio, Split, scale_up
from pmw.sparse_vector.composition import composed_epsilon, round_epsilon
from pmw.sparse_vector.noisy_comparison import Outcome, Sides, ThresholdTest, require_integers
from pmw.sparse_vector.numeric_sparse import NumericSparse, ValueNoise, sigma_up, value_charge
from pmw.sparse_vector.sparse import Sparse, SparseState
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True)
class NaiveAboveThreshold:
    """Release each of at most k values with fresh noise, and compare it with its threshold in public.

    What the sparse vector improves upon: there is no threshold noise, every value is released, and the
    number of values asked, not of those found, sets the price.

    Args:
        value_noise: distribution of the noise on each value.
        query_limit: k, after which nothing more is answered.
        sensitivity: the most that one value changes between neighbours, in units of the values.

    Privacy: k events of (Delta/b)-DP (discrete Laplace at scale b), or of Delta^2/(2 sigma^2)-zCDP.

    Source: Dwork and Roth (2014), Section 3.6, first paragraphs; Kamath's notes on the sparse vector.
    """

    value_noise: ValueNoise
    query_limit: int
    sensitivity: int = 1

    def __post_init__(self) -> None:
        if self.query_limit < 1:
            raise BudgetError(f"expected a query limit of at least 1, got {self.query_limit}")
        if self.sensitivity < 1:
            raise BudgetError(f"expected a sensitivity of at least 1, got {self.sensitivity}")

    @classmethod
    def of(
        cls, *, epsilon: Number, delta: Number = 0, query_limit: int, sensitivity: int = 1
    ) -> NaiveAboveThreshold:
        """Return the algorithm with the quieter of Laplace and, with delta > 0, Gaussian noise."""
        budget = Budget.of(epsilon, delta)
        if query_limit < 1 or sensitivity < 1:
            raise BudgetError(
                f"expected a query limit and sensitivity of at least 1, got {query_limit} and {sensitivity}"
            )
        laplace = DiscreteLaplace(scale_up(sensitivity / round_epsilon(budget, query_limit)))
        if budget.delta == 0:
            return cls(laplace, query_limit, sensitivity)
        gaussian = DiscreteGaussian(sigma_up(sensitivity, zcdp_rho(budget) / query_limit))
        quiet = gaussian if gaussian.sigma**2 < 2 * laplace.scale**2 else laplace
        return cls(quiet, query_limit, sensitivity)

    @property
    def charge(self) -> Charge:
        """What one value costs."""
        return value_charge(self.value_noise, self.sensitivity)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run when epsilons add."""
        if self.charge.epsilon is None:
            raise BudgetError("expected Laplace noise for a pure price, got Gaussian noise")
        return self.query_limit * self.charge.epsilon

    def epsilon_at(self, delta: Number) -> Fraction:
        """Return the smallest epsilon known of the whole run at delta > 0, rounded up, for Laplace noise."""
        self.epsilon  # noqa: B018 - refuses Gaussian noise
        return composed_epsilon(self.epsilon / self.query_limit, self.query_limit, Budget.of(1, delta).delta)

    def open(self) -> int:
        """Return the state of a run: the number of values answered so far, which is public."""
        return 0

    def step(self, answered: int, value: int, threshold: int, bits: BitSource) -> tuple[int, Outcome, int]:
        """Release one value with fresh noise and compare it."""
        answered, outcomes, released = self.scan(answered, np.array([value]), np.array([threshold]), bits)
        return answered, Outcome(outcomes[0]), int(released[0])

    def scan(
        self, answered: int, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> tuple[int, NDArray[np.int8], NDArray[np.int64]]:
        """Release values with fresh noise, positives and negatives alike.

        Returns:
            The number of values answered; outcomes: int8, shape (n,); and noisy values: int64, shape (n,).
        """
        values, thresholds = require_integers(values), require_integers(thresholds)
        if answered + len(values) > self.query_limit:
            raise BudgetError(
                f"expected at most {self.query_limit - answered} more values of {self.query_limit}, "
                f"got {len(values)}"
            )
        released = values + self.value_noise.sample_array(bits, len(values))
        return answered + len(values), (released >= thresholds).astype(np.int8), released


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
        return self.sparse.epsilon

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged when threshold noise is drawn, and at each positive: as without gaps."""
        return self.sparse.charges(composition)

    def open(self, bits: BitSource) -> SparseState:
        """Draw the secret threshold noise of the first round."""
        return self.sparse.open(bits)

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, Outcome, int | None]:
        """Test one value; at a positive also return its gap, else None."""
        state, outcomes, gap = self.scan(state, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0]), gap

    def scan(
        self, state: SparseState, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> tuple[SparseState, NDArray[np.int8], int | None]:
        """Test values in order, up to and including the first positive.

        Returns:
            The state after it; the outcomes so far: int8, shape (m,), m <= n; and the gap of the value that
            passed, in units of the values, or None where none did.
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


def algorithm_1(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> Sparse:
    """Return Algorithm 1: one threshold noise Lap(2 Delta/epsilon), kept; tests Lap(4 c Delta/epsilon).

    Privacy: epsilon-DP.
    """
    split = Split.of(Ratio.EVEN, epsilon=epsilon, update_limit=update_limit)
    return algorithm_7(Comparison(sensitivity=sensitivity), split, update_limit)


def algorithm_2(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> Sparse:
    """Return Algorithm 2, Dwork and Roth's: threshold noise Lap(2 c Delta/epsilon), redrawn; tests twice it.

    Privacy: epsilon-DP.
    """
    return Sparse.textbook(epsilon=epsilon, update_limit=update_limit, sensitivity=sensitivity)


def algorithm_7(comparison: Comparison, split: Split, update_limit: int) -> Sparse:
    """Return Algorithm 7 without values: threshold Delta/epsilon1, kept; tests 2 c Delta/epsilon2.

    Monotone values need c Delta/epsilon2 only.

    Args:
        comparison: what is compared; Laplace noise is the paper's, exponential noise costs the same.
        split: the shares, epsilon3 = 0.
        update_limit: c.

    Raises:
        BudgetError: a parameter is out of range, or the split pays for values.

    Privacy: (epsilon1 + epsilon2)-DP.

    Source: Algorithm 7 and Theorems 4 and 5; Section 4.2 for the split. Exponential noise: Liu et al. (2024).
    """
    if split.epsilon3:
        raise BudgetError(f"expected epsilon3 = 0 where no value is released, got {float(split.epsilon3):g}")
    return Sparse(comparison.priced(split, update_limit), update_limit, redraw=False)


def numeric_algorithm_7(comparison: Comparison, split: Split, update_limit: int) -> NumericSparse:
    """Return Algorithm 7 with values: beside the tests, each positive value plus Lap(c Delta/epsilon3).

    Args:
        comparison: what is compared.
        split: the shares, epsilon3 > 0.
        update_limit: c.

    Raises:
        BudgetError: a parameter is out of range, or the split does not pay for values.

    Privacy: (epsilon1 + epsilon2 + epsilon3)-DP.

    Source: Algorithm 7 with epsilon3 > 0.
    """
    if not split.epsilon3:
        raise BudgetError("expected epsilon3 > 0 where values are released, got 0")
    tests = algorithm_7(comparison, Split(split.epsilon1, split.epsilon2), update_limit)
    return NumericSparse(
        tests, DiscreteLaplace(scale_up(update_limit * comparison.sensitivity / split.epsilon3))
    )
