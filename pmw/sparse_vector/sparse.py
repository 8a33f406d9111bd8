"""AboveThreshold finds the first value above a threshold, then halts; Sparse finds up to c of them.

NumericSparse also releases the values that passed, with fresh noise. Those that a session may be asked for
have names.

What composes several rounds is imported late, by what chooses scales or states the price of a whole run: a
session charges each event by itself.
"""

from __future__ import annotations

import decimal
import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import (
    NOTHING,
    Budget,
    Charge,
    Composition,
    Number,
    as_fraction,
    decimal_of,
    floor_price,
    gaussian_charge,
    pure_charge,
    root_down,
    round_up,
    zcdp_rho,
)
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, uniform_below
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector.noisy_comparison import (
    Integers,
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    Outcome,
    Sides,
    ThresholdTest,
    require_integers,
)
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.sparse_vector.composition import Comparison


class SparseVectorKind(enum.Enum):
    """A sound sparse vector: the distribution of its noise, and whether its threshold noise is drawn once or
    again.

    ``EXPONENTIAL``: one-sided noise, one draw for the threshold.
    ``EXPONENTIAL_ROUNDS``: the same, the threshold's drawn again after each positive.
    ``LAPLACE``: two-sided noise, one draw: Lyu, Su and Li (2017), Algorithm 7.
    ``LAPLACE_ROUNDS``: the same, drawn again: Dwork and Roth (2014), Algorithm 2.
    ``SECH2``: positives by a coin of sech^2, one draw for the threshold: Gaussian under zCDP, else one-sided.
    """

    EXPONENTIAL = "exponential"
    EXPONENTIAL_ROUNDS = "exponential-rounds"
    LAPLACE = "laplace"
    LAPLACE_ROUNDS = "laplace-rounds"
    SECH2 = "sech2"

    @property
    def redraw(self) -> bool:
        """New threshold noise is drawn after each positive."""
        return self in (SparseVectorKind.EXPONENTIAL_ROUNDS, SparseVectorKind.LAPLACE_ROUNDS)

    @property
    def theorem(self) -> str:
        """What the price of its tests rests on."""
        return _THEOREMS[self]

    @property
    def is_laplace(self) -> bool:
        """Its noise is two-sided, so a negative bounds its own test alone."""
        return self in (SparseVectorKind.LAPLACE, SparseVectorKind.LAPLACE_ROUNDS)

    @property
    def is_sech2(self) -> bool:
        """Its positives rest on the proof in ``docs/proofs/zcdp-sparse-vector.md``."""
        return self is SparseVectorKind.SECH2


_ONE_SIDED = "Lyu, Su and Li (2017), eq. 5, for one-sided noise (docs/algorithm.md)"
_THEOREMS = {
    SparseVectorKind.EXPONENTIAL: _ONE_SIDED,
    SparseVectorKind.EXPONENTIAL_ROUNDS: _ONE_SIDED,
    SparseVectorKind.LAPLACE: "Lyu, Su and Li (2017), Algorithm 7",
    SparseVectorKind.LAPLACE_ROUNDS: "Dwork and Roth (2014), Theorem 3.25",
    SparseVectorKind.SECH2: "docs/proofs/zcdp-sparse-vector.md",
}


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Test values one after the other until the first that passes.

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
        """Test one value; after a positive the state is None and no further value is accepted."""
        state, outcomes = self.scan(noisy, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0])

    def scan(
        self, noisy: NoisyThreshold | None, values: Integers, thresholds: Integers, bits: BitSource
    ) -> tuple[NoisyThreshold | None, NDArray[np.int8]]:
        """Test values in order, up to and including the first positive.

        Returns:
            The state after it (None once halted), and the outcomes so far: int8, shape (m,), m <= n.
        """
        if noisy is None:
            raise BudgetError("expected a running AboveThreshold, but it halted at its positive")
        outcomes = self.test.compare(noisy, require_integers(values), require_integers(thresholds), bits)
        positives = np.flatnonzero(outcomes)
        if len(positives):
            return None, outcomes[: positives[0] + 1]
        return noisy, outcomes

    def find(
        self, values: Integers, thresholds: Integers, bits: BitSource, *, random_index: bool = False
    ) -> int | None:
        """Return the place of the first value found above its threshold, in a run of its own.

        Args:
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public.
            random_index: where no value is found, return a random place instead of None. It costs nothing,
                but such an answer cannot be told from a found one.

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


@dataclass(frozen=True, slots=True, repr=False)
class SparseState:
    """Where a run stands. The threshold noise is secret; the number of positives is public.

    Args:
        noisy: the noise of the open round; None where the next test must draw it first.
    """

    noisy: NoisyThreshold | None
    positives: int

    def __repr__(self) -> str:
        return f"SparseState(positives={self.positives}, noise secret)"


@dataclass(frozen=True, slots=True)
class Sparse:
    """Test values until ``update_limit`` of them passed.

    Args:
        update_limit: c, the number of positives after which it halts; exactly c are answered, not c + 1.
        redraw: draw new threshold noise after each positive (c rounds of AboveThreshold), or keep one draw.

    Privacy: redrawn, c events of (Delta/b1 + m Delta/b)-DP; not redrawn, one event of
        (Delta/b1 + c m Delta/b)-DP.

    Source: Dwork and Roth (2014), Algorithm 2 and Theorem 3.25 (redrawn); Lyu, Su and Li (2017), Algorithm 7
        (not redrawn).
    """

    test: NoisyComparison
    update_limit: int
    redraw: bool

    def __post_init__(self) -> None:
        if self.update_limit < 1:
            raise BudgetError(f"expected an update limit of at least 1, got {self.update_limit}")

    @classmethod
    def textbook(
        cls, *, epsilon: Number, delta: Number = 0, update_limit: int, sensitivity: int = 1
    ) -> Sparse:
        """Return the algorithm with the textbook's scales: Lap(sigma) redrawn and Lap(2 sigma).

        sigma = 2c/epsilon for delta = 0, else sqrt(32 c ln(1/delta))/epsilon, rounded up.
        """
        from pmw.sparse_vector.composition import require_printed

        budget = Budget.of(epsilon, delta)
        scale = sensitivity * textbook_sigma(budget, update_limit)
        require_printed(budget, update_limit)
        test = ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, sensitivity, False, scale, 2 * scale)
        return cls(test, update_limit, redraw=True)

    @classmethod
    def composed(
        cls, comparison: Comparison, *, epsilon: Number, delta: Number = 0, update_limit: int
    ) -> Sparse:
        """Return c redrawn rounds at the largest price that any composition theorem allows each.

        Within a round epsilon1 : epsilon2 is 1 : m^(2/3), the split of least variance for one positive.

        Args:
            comparison: what is compared, with which noise.
            epsilon: of the whole run.
            delta: of the whole run.
            update_limit: c.

        Raises:
            BudgetError: a parameter is out of range.

        Privacy: (epsilon, delta)-DP as a whole; each round is pure.
        """
        from pmw.sparse_vector.composition import round_epsilon

        price = round_epsilon(Budget.of(epsilon, delta), update_limit)
        return _priced_rounds(comparison, price, update_limit)

    def epsilon_at(self, delta: Number) -> Fraction:
        """Return the smallest epsilon known of the whole run at delta, rounded up."""
        from pmw.sparse_vector.composition import composed_epsilon

        share = Budget.of(1, delta).delta
        if not self.redraw:
            return self.epsilon
        return composed_epsilon(self.round_epsilon, self.update_limit, share)

    @property
    def round_epsilon(self) -> Fraction:
        """Epsilon of one redrawn round."""
        return AboveThreshold(self.test).epsilon

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run when epsilons add."""
        draws = self.update_limit if self.redraw else 1
        return draws * self.test.threshold_price + self.update_limit * self.test.positive_price

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged when threshold noise is drawn, and at each positive.

        A redrawn round is charged whole when it opens. A run that is not redrawn is one event: under zCDP
        and GDP it is charged whole when it opens, and never as separate squares, which would undercharge it
        up to c-fold; when epsilons add, it pays for the threshold at opening and for each positive as it
        comes. So it does under zCDP too with a test whose rhos add (``Sech2Test``), which has no price in
        GDP.
        """
        if self.redraw:
            if self.test.rhos_add:
                return self.test.threshold_charge + self.test.positive_charge, NOTHING
            return pure_charge(self.round_epsilon), NOTHING
        if composition is not Composition.PURE and not self.test.rhos_add:
            return pure_charge(self.epsilon), NOTHING
        return self.test.threshold_charge, self.test.positive_charge

    def open(self, bits: BitSource) -> SparseState:
        """Draw the secret threshold noise of the first round."""
        return SparseState(self.test.draw_threshold(bits), 0)

    def step(
        self, state: SparseState, value: int, threshold: int, bits: BitSource
    ) -> tuple[SparseState, Outcome]:
        """Test one value."""
        state, outcomes = self.scan(state, np.array([value]), np.array([threshold]), bits)
        return state, Outcome(outcomes[0])

    def scan(
        self, state: SparseState, values: Integers, thresholds: Integers, bits: BitSource
    ) -> tuple[SparseState, NDArray[np.int8]]:
        """Test values in order, up to and including the first positive, after which the caller may react.

        Returns:
            The state after it, and the outcomes so far: int8, shape (m,), m <= n.
        """
        noisy = self.round_noise(state, bits)
        after, outcomes = AboveThreshold(self.test).scan(noisy, values, thresholds, bits)
        if after is not None:
            return SparseState(noisy, state.positives), outcomes
        return self.after_positive(state, noisy), outcomes

    def round_noise(self, state: SparseState, bits: BitSource) -> NoisyThreshold:
        """Return the secret threshold noise of the open round, drawn first where none is kept."""
        if state.positives >= self.update_limit:
            raise BudgetError(f"expected a running Sparse, but it halted after {self.update_limit} positives")
        if state.noisy is None and state.positives > 0 and not self.redraw:
            raise BudgetError("expected the threshold noise of the run, which is drawn once, but it is lost")
        return self.test.draw_threshold(bits) if state.noisy is None else state.noisy

    def after_positive(self, state: SparseState, noisy: NoisyThreshold) -> SparseState:
        """Return the state that follows a positive of the round with this threshold noise."""
        return SparseState(None if self.redraw else noisy, state.positives + 1)

    def run(self, values: Integers, thresholds: Integers, bits: BitSource) -> NDArray[np.int8]:
        """Test values that were all fixed beforehand, in a run of its own.

        Returns:
            The outcomes up to the end or to the positive that halts it: int8, shape (m,), m <= n.
        """
        values, thresholds = require_integers(values), require_integers(thresholds)
        state = self.open(bits)
        if not self.redraw:
            outcomes = self.test.compare(self.round_noise(state, bits), values, thresholds, bits)
            positives = np.flatnonzero(outcomes)
            ended = len(positives) >= self.update_limit
            return outcomes[: positives[self.update_limit - 1] + 1] if ended else outcomes
        found, start = [np.zeros(0, dtype=np.int8)], 0
        while start < len(values) and state.positives < self.update_limit:
            state, outcomes = self.scan(state, values[start:], thresholds[start:], bits)
            found.append(outcomes)
            start += len(outcomes)
        return np.concatenate(found)


def textbook_sigma(budget: Budget, update_limit: int) -> Fraction:
    """Return sigma(epsilon): 2c/epsilon, or sqrt(32 c ln(1/delta))/epsilon rounded up to a millionth.

    Source: Dwork and Roth (2014), Algorithm 2.
    """
    if update_limit < 1:
        raise BudgetError(f"expected an update limit of at least 1, got {update_limit}")
    if budget.delta == 0:
        return 2 * update_limit / budget.epsilon
    with decimal.localcontext() as context:
        context.prec = 40
        log = -decimal_of(budget.delta).ln()
        root = Fraction((32 * update_limit * log).sqrt())
    return round_up(root / budget.epsilon + Fraction(1, 10**30), 10**6)


# --- NumericSparse ----------------------------------------------------------------------------------------

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
        from pmw.sparse_vector.composition import round_epsilon, scale_up

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
    from pmw.sparse_vector.composition import scale_up

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
    from pmw.sparse_vector.composition import Split

    split = Split.of(comparison.best_ratio, epsilon=price, update_limit=1)
    return Sparse(comparison.priced(split, 1), update_limit, redraw=True)
