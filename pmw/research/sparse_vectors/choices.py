"""Choices of about the largest c values, which are all there beforehand.

One chooses place after place by the exponential mechanism. The other is a sparse vector that raises its
thresholds and passes again over what it has not selected.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Charge, Composition, Number, as_fraction, root_down, zcdp_rho
from pmw.privacy.noise import DiscreteLaplace, Geometric, uniform_array_below
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import MOST_PASSES, ExponentialMechanism, first_passes
from pmw.sparse_vector.comparison import scale_up
from pmw.sparse_vector.noisy_comparison import NoiseKind, NoisyThreshold, Sides, require_integers
from pmw.sparse_vector.sparse import Sparse
from queries.frozen import dataclass

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
            raise BudgetError("expected tests with Laplace or exponential noise")
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
