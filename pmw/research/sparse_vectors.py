"""Sparse vectors of the literature that no session runs.

Those that are not private as published are not offered here: see ``pmw.research.audit.flawed``. Those of Lyu,
Su and Li stand under their numbers: 1, 2 and 7. One vector pays for each value asked, and one tells gaps.

Two choose about the largest c values, which are all there beforehand: one place after place by the
exponential mechanism, the other by passing again over what it has not selected, at raised thresholds.

Runs of the sech^2 test are charged order by order. A positive costs
R(alpha, s) = (alpha s - ln(1 + alpha (e^s - 1)))/(alpha - 1) of Rényi divergence at order
alpha, exactly the price of this coupling, and no more than min(s, alpha s^2/2). Summed at each order and
turned into (epsilon, delta) at the best one, it allows less noise than the rho of s^2/2 alone, most of all
for few positives; and exponential threshold noise pays its epsilon once, at every order.

Bounds are evaluated in floating point and rounded up: an error of at most 2^-49 of the two terms of R is
added before they are subtracted.

Runs may also choose their scales as they go, with a filter instead of a limit of positives. Thresholds and
query scales may then change from test to test as any function of the outputs so far. A positive is charged at
the scale of its own test, and a test is refused, with nothing drawn, where its positive would exceed what is
left. Threshold noise stays what it was. The sum of charges cannot exceed the cap, which is what the induction
of the proof needs.

Source: Lyu, Su and Li, "Understanding the Sparse Vector Technique for Differential Privacy" (2017);
``docs/proofs/zcdp-sparse-vector.md``, its section on filters for the latter; the conversion: Canonne,
Kamath and Steinke (2020, arXiv v5), Proposition 12.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError, BudgetExhaustedError
from pmw.privacy.budget import (
    RHO_GRID,
    Budget,
    Charge,
    Composition,
    Number,
    as_fraction,
    root_down,
    round_up,
    zcdp_rho,
)
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Geometric, uniform_array_below
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import MOST_PASSES, ExponentialMechanism, first_passes
from pmw.sparse_vector.composition import Comparison, Ratio, Split, composed_epsilon, round_epsilon, scale_up
from pmw.sparse_vector.noisy_comparison import (
    NoiseKind,
    NoisyThreshold,
    Outcome,
    Sech2Test,
    Sides,
    ThresholdNoise,
    ThresholdTest,
    require_integers,
)
from pmw.sparse_vector.sparse import NumericSparse, Sparse, SparseState, ValueNoise, sigma_up, value_charge
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

    Monotone values need c Delta/epsilon2 only. Exponential noise, which is not the paper's, costs the same.

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


# --- choices among values that are there beforehand -------------------------------------------------------

_FIRST_BATCH, _LARGEST_BATCH = 64, 2**16


@dataclass(frozen=True, slots=True)
class TopC:
    """Choose c places one after the other, each by the exponential mechanism among those left.

    Args:
        mechanism: of one choice.
        count: c.

    Raises:
        BudgetError: ``count`` is less than 1.

    Privacy: c adaptively chosen events of the mechanism's epsilon, each of bounded range, so also c times
        epsilon^2/8-zCDP. How long a choice takes depends on the values: timings are secret.

    Source: McSherry and Talwar (2007); Lyu, Su and Li (2017), Section 5, for c choices at epsilon/c, with
        weights exp(epsilon q/(2 c Delta)), for monotone values exp(epsilon q/(c Delta)).
    """

    mechanism: ExponentialMechanism
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BudgetError(f"expected at least 1 value to choose, got count={self.count}")

    @classmethod
    def of(
        cls, *, epsilon: Number, delta: Number = 0, count: int, sensitivity: int = 1, monotone: bool = False
    ) -> TopC:
        """Return the algorithm whose c choices together cost at most (epsilon, delta).

        Each costs epsilon/c, or with delta > 0 the larger of it and sqrt(8 rho/c), rounded down so that
        samplers can draw it.
        """
        budget = Budget.of(epsilon, delta)
        if count < 1 or sensitivity < 1:
            raise BudgetError(f"expected count and sensitivity of at least 1, got {count} and {sensitivity}")
        rate = 1 if monotone else 2
        price = budget.epsilon / count
        if budget.delta > 0:
            price = max(price, root_down(8 * zcdp_rho(budget) / count))
        scale = scale_up(rate * sensitivity / price)
        return cls(ExponentialMechanism(sensitivity, rate * sensitivity / scale, monotone), count)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of all choices when epsilons add."""
        return self.count * self.mechanism.epsilon

    @property
    def charge(self) -> Charge:
        """What one choice costs."""
        return self.mechanism.charge()

    def select(self, values: NDArray[np.int64], bits: BitSource) -> tuple[int, ...]:
        """Return c different places in the order of their choice.

        Args:
            values: int64, shape (n,), n at least c.
            bits: source of the draws.

        Raises:
            BudgetError: there are fewer values than c, or one is not an integer.
        """
        given = require_integers(values)
        if given.ndim != 1 or len(given) < self.count:
            raise BudgetError(f"expected at least {self.count} values in a row, got shape {given.shape}")
        left = np.arange(len(given))
        chosen: list[int] = []
        for _ in range(self.count):
            place = self._choose(given[left], bits)
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        return tuple(chosen)

    def _choose(self, values: NDArray[np.int64], bits: BitSource) -> int:
        """Return one place: candidates drawn evenly, the first accepted with e^(-rate (best - value)).

        A geometric draw at scale 1/rate is at least a gap with just this probability, so the choice has
        exactly the distribution of ``ExponentialMechanism.select``, many candidates at a time.
        """
        gaps = values.max() - values
        coin = Geometric(1 / self.mechanism.rate)
        size = _FIRST_BATCH
        while True:
            drawn = uniform_array_below(len(gaps), size, bits)
            accepted = np.flatnonzero(coin.sample_array(bits, size) >= gaps[drawn])
            if len(accepted):
                return int(drawn[accepted[0]])
            size = min(2 * size, _LARGEST_BATCH)


@dataclass(frozen=True, slots=True)
class Retraversal:
    """Select up to c of values that are all there beforehand, by repeated passes of one sparse vector.

    Each threshold is raised by a number of standard deviations of the test noise, so that a pass selects few
    values and surely large ones; the next pass tests those that are left, with fresh noise, until c are
    selected. Selected values are not tested again.

    Where the c-th value is near its threshold, thousands of passes may be needed. They take no longer than
    one: given the threshold noise, a value passes each time with the same probability, so the pass in which
    it first does is geometric, and one exact draw gives it.

    Args:
        sparse: the tests, with Laplace or exponential noise; c is its update limit.
        deviations: how far thresholds are raised, in standard deviations of the test noise; at least 0.
        passes: after which a run ends with fewer than c values, so that it ends where nothing ever passes;
            from 1 to 2^40. After the default of 10^9, a value is left out with probability at most
            exp(-10^9 p), where p is the probability of passing once. This is below 10^-6 for a value that is
            within 12 standard deviations of Laplace test noise (17 of exponential noise) below what it is
            compared with.

    Raises:
        BudgetError: a parameter is out of range, or the tests are of another kind.

    Privacy: the price of ``sparse``, once, for any number of passes. All passes together are one run of it on
        one longer stream: the same threshold noise, fresh noise on each test, at most c positives. Which
        value is tested next, and when the run ends, follows from the outcomes so far and from public numbers;
        negatives cost nothing, however many there are. How long a run takes is secret, as all timings are.

    Source: Lyu, Su and Li (2017), Section 5 (SVT-ReTr). A bound on the passes is a departure.
    """

    sparse: Sparse
    deviations: Fraction = Fraction(1)
    passes: int = 10**9

    def __post_init__(self) -> None:
        object.__setattr__(self, "deviations", as_fraction(self.deviations, "deviations"))
        if self.deviations < 0:
            raise BudgetError(f"expected deviations of at least 0, got {float(self.deviations):g}")
        if not 1 <= self.passes <= MOST_PASSES:
            raise BudgetError(f"expected from 1 to 2^40 passes, got {self.passes}")
        self._test_noise  # noqa: B018 - refuses other distributions

    @classmethod
    def of(cls, sparse: Sparse, *, deviations: Number = 1, passes: int = 10**9) -> Retraversal:
        """Return the algorithm, ``deviations`` being given as it is written."""
        return cls(sparse, as_fraction(deviations, "deviations"), passes)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the whole run when epsilons add: that of the sparse vector."""
        return self.sparse.epsilon

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged when threshold noise is drawn, and at each selected value."""
        return self.sparse.charges(composition)

    @property
    def raised(self) -> int:
        """How far thresholds are raised, in whole units rounded up: sqrt(2) b for Laplace noise, else b."""
        spread = math.sqrt(2) if self.sparse.test.noise is NoiseKind.LAPLACE else 1.0
        return math.ceil(float(self.deviations) * spread * float(self.sparse.test.query_scale))

    def select(
        self, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> tuple[int, ...]:
        """Return the places selected, at most c, in the order in which they were; see ``run``."""
        return tuple(int(place) for place in self.run(values, thresholds, bits)[:, 1])

    def run(
        self, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource
    ) -> NDArray[np.int64]:
        """Return the pass, from 1, and the place of each selected value, in order: int64, shape (m, 2).

        Both follow from the outcomes of the tests, which the price covers.

        Args:
            values: int64, shape (n,).
            thresholds: int64, shape (n,), public, before they are raised.
            bits: source of the noise.

        Raises:
            BudgetError: a value is not an integer.
        """
        given, limits = require_integers(values), require_integers(thresholds) + self.raised
        state, found, left = self.sparse.open(bits), np.zeros((0, 2), dtype=np.int64), np.arange(len(given))
        while state.positives < self.sparse.update_limit and len(left):
            noisy = self.sparse.round_noise(state, bits)
            hits = self._hits(noisy, given[left], limits[left], bits)
            if len(found):  # a new round goes on behind the last positive, in the pass of that one
                hits += found[-1, 0] - (left > found[-1, 1])
            order = np.lexsort((left, hits))[: 1 if self.sparse.redraw else self.sparse.update_limit]
            order = order[hits[order] <= self.passes]
            if not len(order):
                break
            found = np.concatenate([found, np.stack([hits[order], left[order]], axis=1)])
            left = np.delete(left, order)
            for _ in order:
                state = self.sparse.after_positive(state, noisy)
            if not self.sparse.redraw:
                break
        return found

    @property
    def _test_noise(self) -> Geometric | DiscreteLaplace:
        noise = self.sparse.test.query_noise
        if not isinstance(noise, Geometric | DiscreteLaplace):
            raise BudgetError(f"expected tests with Laplace or exponential noise, got {type(noise).__name__}")
        return noise

    def _hits(
        self, noisy: NoisyThreshold, values: NDArray[np.int64], limits: NDArray[np.int64], bits: BitSource
    ) -> NDArray[np.int64]:
        """Return the pass in which each value would first be selected: int64, shape (n,)."""
        test = self.sparse.test
        compared = np.abs(values) if test.sides is Sides.TWO_SIDED else values
        hits = first_passes(self._test_noise, limits + noisy.upper - compared, self.passes, bits)
        if noisy.lower is None:
            return hits
        negated = first_passes(self._test_noise, limits + noisy.lower + values, self.passes, bits)
        return np.minimum(hits, negated)


# --- charges of sech^2 tests ------------------------------------------------------------------------------

_ORDERS = tuple(1 + math.exp(-5 + step / 25) for step in range(626))  # 1.007 to 5e8; any order is sound
_LARGE = 500.0  # e^s still fits in a double
_SMALL = 1e-100  # s^2 still does
_SLACK = 2.0**-45  # covers the rounding of a dozen additions
_SCALE_GRID = 2**20


def renyi_charge(alpha: float, s: float) -> float:
    """Return R(alpha, s) = (alpha s - ln(1 + alpha (e^s - 1)))/(alpha - 1), in floating point.

    Near order 1, and for small s, the difference loses digits; accounts take ``renyi_charge_bound``.

    Args:
        alpha: order, above 1.
        s: shift over scale, above 0.

    Raises:
        BudgetError: alpha or s is out of range.
    """
    _check(alpha, s)
    if s > _LARGE:
        return s - math.log(alpha) / (alpha - 1)
    return (alpha * s - math.log1p(alpha * math.expm1(s))) / (alpha - 1)


def renyi_charge_bound(alpha: float, s: float | Fraction) -> float:
    """Return R(alpha, s), or a little more: never below the exact value, never above min(s, alpha s^2/2).

    A relative error d in v = alpha (e^s - 1) moves ln(1 + v) by at most d v/(1 + v) <= d ln(1 + v), so the
    whole of it is below 16 units of 2^-53 of the two terms.

    Args:
        alpha: order, above 1.
        s: shift over scale, above 0; a fraction is rounded up.

    Raises:
        BudgetError: alpha or s is out of range.
    """
    shift = _float_up(s)
    _check(alpha, shift)
    if not _SMALL < shift < _LARGE:
        return shift
    first, second = alpha * shift, math.log1p(alpha * math.expm1(shift))
    exact = (first - second + 2.0**-49 * (first + second)) / (alpha - 1) * (1 + 2.0**-50)
    return min(shift, alpha * shift * shift / 2 * (1 + 2.0**-48), exact)


def threshold_renyi(test: Sech2Test, alpha: float) -> float:
    """Return the divergence of order alpha that one threshold draw costs, rounded up.

    Exponential: Delta/b1 at every order. Laplace: min(Delta/b1, alpha (Delta/b1)^2/2). Gaussian:
    alpha Delta^2/(2 sigma^2).
    """
    price = _float_up(test.sensitivity / test.threshold_scale)
    _check(alpha, price)
    squared = alpha * price * price / 2 * (1 + 2.0**-48)
    if test.noise is ThresholdNoise.GAUSSIAN:
        return squared
    return min(price, squared) if test.noise is ThresholdNoise.LAPLACE else price


def run_epsilon(test: Sech2Test, update_limit: int, delta: float) -> float:
    """Return an epsilon such that a run with one threshold draw is (epsilon, delta)-DP, rounded up.

    epsilon = min over alpha of E + c R(alpha, s) + ln(1 - 1/alpha) - (ln delta + ln alpha)/(alpha - 1), E the
    threshold's; and at most the pure price, where there is one.
    """
    if update_limit < 1 or not 0 <= delta < 1:
        raise BudgetError(f"expected c >= 1 and 0 <= delta < 1, got {update_limit}, {delta:g}")
    best = math.inf
    if test.noise is not ThresholdNoise.GAUSSIAN:
        best = _float_up(test.threshold_price + update_limit * test.positive_price)
    if delta == 0:
        if best == math.inf:
            raise BudgetError("expected delta > 0 for Gaussian noise, got delta=0")
        return best
    for alpha in _ORDERS:
        spent = threshold_renyi(test, alpha) + update_limit * renyi_charge_bound(alpha, test.positive_price)
        best = min(best, spent * (1 + _SLACK) + _conversion(alpha, delta))
    return best


def least_query_scale(test: Sech2Test, update_limit: int, budget: Budget) -> Fraction:
    """Return the smallest b, rounded up to a multiple of 2^-20 Delta, for which a run stays in the budget.

    The test's own query scale plays no part.
    """

    def fits(steps: int) -> bool:
        scaled = replace(test, query_scale=Fraction(steps * test.sensitivity, _SCALE_GRID))
        return run_epsilon(scaled, update_limit, float(budget.delta)) <= budget.epsilon

    high = _SCALE_GRID
    while not fits(high):
        if high > 2**45:
            raise BudgetError(f"epsilon={float(budget.epsilon):g} does not hold the threshold noise alone")
        high *= 2
    steps = 1 + bisect_left(range(1, high), True, key=fits)
    return Fraction(steps * test.sensitivity, _SCALE_GRID)


def order_filter(budget: Budget, alpha: float) -> PrivacyFilter:
    """Return a filter that holds one Rényi order to a budget: its rhos are divergences over alpha.

    Every charge against it must hold at this order: those of ``order_charges``, and any rho of zCDP.
    """
    _check(alpha, 1.0)
    if budget.delta == 0:
        raise BudgetError("expected delta > 0 for a Rényi order, got delta=0")
    cap = (float(budget.epsilon) - _conversion(alpha, float(budget.delta))) * (1 - _SLACK) / alpha
    if cap <= 0:
        raise BudgetError(f"epsilon={float(budget.epsilon):g} holds no budget at order {alpha:g}")
    return PrivacyFilter(Composition.ZCDP, Fraction(cap))


def order_charges(test: Sech2Test, alpha: float) -> tuple[Charge, Charge]:
    """Return what a threshold draw and a positive cost at one order, as rhos of ``order_filter``."""
    threshold, positive = threshold_renyi(test, alpha), renyi_charge_bound(alpha, test.positive_price)
    order = Fraction(alpha)
    return (
        Charge(test.threshold_charge.epsilon, round_up(Fraction(threshold) / order, RHO_GRID)),
        Charge(test.positive_price, round_up(Fraction(positive) / order, RHO_GRID)),
    )


def _conversion(alpha: float, delta: float) -> float:
    """Return ln(1 - 1/alpha) - (ln delta + ln alpha)/(alpha - 1), rounded up."""
    parts = (math.log1p(-1 / alpha), -math.log(delta) / (alpha - 1), -math.log(alpha) / (alpha - 1))
    return math.fsum(parts) + _SLACK * math.fsum(map(abs, parts))


def _float_up(value: float | Fraction) -> float:
    return value if isinstance(value, float) else math.nextafter(float(value), math.inf)


def _check(alpha: float, s: float) -> None:
    if not (1 < alpha < math.inf and 0 < s < math.inf):
        raise BudgetError(f"expected an order above 1 and a shift above 0, got {alpha:g} and {s:g}")


@dataclass(frozen=True, slots=True, repr=False)
class AdaptiveState:
    """Where a run stands. The threshold noise is secret; what was charged is public."""

    noisy: NoisyThreshold
    ledger: PrivacyFilter

    def __repr__(self) -> str:
        return f"AdaptiveState(charged {self.ledger.share:.1%} of the cap, noise secret)"


@dataclass(frozen=True, slots=True)
class AdaptiveSech2:
    """Test values at scales of the caller's choice while a filter allows another positive.

    Args:
        test: sides, sensitivity and threshold noise; its query scale is where a test names none.
        order: None to charge epsilons or rhos, as the filter's composition says; a Rényi order, fixed
            beforehand, to charge what a positive costs at this order against an ``order_filter`` of it.

    Privacy: the run stays under the cap of its filter, with whatever else is charged against it.
    """

    test: Sech2Test
    order: float | None = None

    def charges(self, query_scale: Fraction | None = None) -> tuple[Charge, Charge]:
        """Return what the threshold draw and a positive at a scale cost."""
        test = self._scaled(query_scale)
        if self.order is None:
            return test.threshold_charge, test.positive_charge
        return order_charges(test, self.order)

    def open(self, ledger: PrivacyFilter, bits: BitSource) -> AdaptiveState:
        """Charge the threshold noise and draw it."""
        after = ledger.charge(self.charges()[0])
        return AdaptiveState(self.test.draw_threshold(bits), after)

    def step(
        self,
        state: AdaptiveState,
        value: int,
        threshold: int,
        bits: BitSource,
        *,
        query_scale: Fraction | None = None,
    ) -> tuple[AdaptiveState, Outcome]:
        """Test one value at a scale; None for the test's own."""
        test, price = self._scaled(query_scale), self.charges(query_scale)[1]
        if not state.ledger.allows(price):
            raise BudgetExhaustedError(
                f"expected a positive of at most {float(state.ledger.remaining):g}, got one of "
                f"{float(state.ledger.price(price)):g}; ask for a larger query scale"
            )
        values, thresholds = require_integers(np.array([value])), require_integers(np.array([threshold]))
        outcome = Outcome(test.compare(state.noisy, values, thresholds, bits)[0])
        if outcome is Outcome.BELOW:
            return state, outcome
        return replace(state, ledger=state.ledger.charge(price)), outcome

    def _scaled(self, query_scale: Fraction | None) -> Sech2Test:
        return self.test if query_scale is None else replace(self.test, query_scale=query_scale)
