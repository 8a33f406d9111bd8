"""NumericSparse: Sparse that also releases the values that passed, with fresh noise.

What composes several rounds is imported late, as in ``pmw.sparse_vector.sparse``.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import (
    Budget,
    Charge,
    Composition,
    Number,
    as_fraction,
    floor_price,
    gaussian_charge,
    pure_charge,
    root_down,
    zcdp_rho,
)
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import Integers, NoiseKind, Outcome, Sides, ThresholdTest
from pmw.sparse_vector.sparse import Sparse, SparseState, textbook_sigma
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.sparse_vector.comparison import Comparison

_MARGIN = Fraction(1, 10**20)

ValueNoise: TypeAlias = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class NumericSparse:
    """Sparse, with each positive value released under fresh noise.

    The noise that a test used is never reused for its value: that would reveal an upper end of the noisy
    threshold and cost e^((m-1) epsilon/2) after m negatives (Lyu, Su and Li 2017, Theorem 9.11).

    Args:
        value_noise: distribution of the noise on released values, in their units.

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
        with denominator sqrt(512) + 1, rounded down. A round with its value then costs at most
        epsilon/sqrt(8 c ln(2/delta)).
        """
        from pmw.sparse_vector.composition import require_printed

        budget = Budget.of(epsilon, delta)
        root = Fraction(Decimal(512).sqrt())  # 28 digits; both shares are taken a little low
        tests, values = Fraction(8, 9), Fraction(2, 9)
        if budget.delta > 0:
            tests, values = (part / (root + 1) * (1 - _MARGIN) for part in (root, Fraction(2)))
        sigmas = [
            sensitivity * textbook_sigma(Budget(share * budget.epsilon, budget.delta / 2), update_limit)
            for share in (tests, values)
        ]
        require_printed(budget, update_limit, halved=True)
        test = ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, sensitivity, False, sigmas[0], 2 * sigmas[0])
        return cls(Sparse(test, update_limit, redraw=True), DiscreteLaplace(sigmas[1]))

    @classmethod
    def composed(
        cls,
        comparison: Comparison,
        *,
        epsilon: Number,
        delta: Number = 0,
        update_limit: int,
        value_share: Number = "0.2",
    ) -> NumericSparse:
        """Return c redrawn rounds, each with a value, at the tightest composition.

        Of two ways the one with the smaller sum of standard deviations, of a test and of a value: Laplace
        values, a round being pure as a whole and priced by ``round_epsilon``; and, with delta > 0, Gaussian
        values, tests and values adding up their rho.

        Args:
            value_share: the part of each round's price, epsilon or rho, that its value takes; in (0, 1).

        Privacy: (epsilon, delta)-DP as a whole.
        """
        from pmw.sparse_vector.comparison import scale_up
        from pmw.sparse_vector.composition import round_epsilon

        budget, share = Budget.of(epsilon, delta), as_fraction(value_share, "value_share")
        if not 0 < share < 1:
            raise BudgetError(f"expected a value share between 0 and 1, got {float(share):g}")
        price = round_epsilon(budget, update_limit)
        laplace = cls(
            _priced_rounds(comparison, (1 - share) * price, update_limit),
            DiscreteLaplace(scale_up(comparison.sensitivity / (share * price))),
        )
        if budget.delta == 0:
            return laplace
        rho = zcdp_rho(budget) / update_limit
        gaussian = cls(
            _priced_rounds(comparison, root_down(2 * floor_price((1 - share) * rho)), update_limit),
            DiscreteGaussian(sigma_up(comparison.sensitivity, share * rho)),
        )
        return min(laplace, gaussian, key=NumericSparse._deviations)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run when epsilons add."""
        if self.value_charge.epsilon is None:
            raise BudgetError("expected Laplace values for a pure price, got Gaussian values")
        return self.sparse.epsilon + self.sparse.update_limit * self.value_charge.epsilon

    def epsilon_at(self, delta: Number) -> Fraction:
        """Return the smallest epsilon known of the whole run at delta, rounded up."""
        from pmw.sparse_vector.composition import composed_epsilon, rho_epsilon

        share, found = Budget.of(1, delta).delta, []
        limit, value = self.sparse.update_limit, self.value_charge
        if value.epsilon is not None:
            found.append(self.epsilon)
            if self.sparse.redraw:
                found.append(composed_epsilon(self.sparse.round_epsilon + value.epsilon, limit, share))
        if share > 0:
            opening, positive = self.charges(Composition.ZCDP)
            found.append(
                rho_epsilon((limit if self.sparse.redraw else 1) * opening.rho + limit * positive.rho, share)
            )
        if not found:
            raise BudgetError("expected delta > 0 for Gaussian values, got delta=0")
        return min(found)

    @property
    def sensitivity(self) -> int:
        """The most that one value changes between neighbours, in units of the values."""
        return self.sparse.test.sensitivity

    @property
    def monotone(self) -> bool:
        """Its price rests on values that all move the same way between neighbours."""
        return self.sparse.test.monotone

    @property
    def update_limit(self) -> int:
        """The number of positives after which it halts."""
        return self.sparse.update_limit

    @property
    def redraw(self) -> bool:
        """New threshold noise is drawn, and charged, after each positive."""
        return self.sparse.redraw

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
        """Test one value; at a positive also release it with fresh noise."""
        state, outcomes, released = self.scan(state, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0]), released

    def scan(
        self, state: SparseState, values: Integers, thresholds: Integers, bits: BitSource
    ) -> tuple[SparseState, NDArray[np.int8], int | None]:
        """Test values in order, up to and including the first positive.

        Returns:
            The state after it; the outcomes so far: int8, shape (m,), m <= n; and the value that passed
            with fresh noise, or None where none did.
        """
        state, outcomes = self.sparse.scan(state, values, thresholds, bits)
        if not outcomes.any():
            return state, outcomes, None
        return state, outcomes, int(values[len(outcomes) - 1]) + self.value_noise.sample(bits)

    def run(
        self, values: Integers, thresholds: Integers, bits: BitSource
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """Test values that were all fixed beforehand, in a run of its own.

        Returns:
            The outcomes up to the end or to the positive that halts it: int8, shape (m,), m <= n; and the
            values of the positives with fresh noise each: int64, shape (p,), p <= c.
        """
        outcomes = self.sparse.run(values, thresholds, bits)
        found = np.asarray(values)[np.flatnonzero(outcomes)]
        return outcomes, found + self.value_noise.sample_array(bits, len(found))

    def _deviations(self) -> float:
        test, value = self.sparse.test, self.value_noise
        spread = math.sqrt(2) if test.noise is NoiseKind.LAPLACE else 1.0
        if isinstance(value, DiscreteGaussian):
            return spread * float(test.query_scale) + float(value.sigma)
        return spread * float(test.query_scale) + math.sqrt(2) * float(value.scale)


def sigma_up(sensitivity: int, rho: Fraction) -> Fraction:
    """Return a sigma, rounded up, at which one value of the given sensitivity costs at most rho."""
    from pmw.sparse_vector.comparison import scale_up

    price = floor_price(rho)
    if price <= 0:
        raise BudgetError("expected a budget that holds values of some noise, got a smaller one")
    return scale_up(sensitivity / root_down(2 * price))


def value_charge(noise: ValueNoise, sensitivity: int) -> Charge:
    """Return the price of one value of the given sensitivity under fresh noise."""
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(sensitivity / noise.scale)
    return gaussian_charge(Fraction(sensitivity**2), noise.sigma)


def _priced_rounds(comparison: Comparison, price: Fraction, update_limit: int) -> Sparse:
    from pmw.sparse_vector.comparison import Split

    split = Split.of(comparison.best_ratio, epsilon=price, update_limit=1)
    return Sparse(comparison.priced(split, 1), update_limit, redraw=True)
