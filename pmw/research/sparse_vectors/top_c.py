"""The top c values by the exponential mechanism: the choice when all values are there beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Charge, Number, root_down, zcdp_rho
from pmw.privacy.noise import Geometric, uniform_array_below
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.sparse_vector.comparison import scale_up
from pmw.sparse_vector.noisy_comparison import require_integers

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

        Raises:
            BudgetError: a parameter is out of range.
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


def top_c(
    values: NDArray[np.int64],
    bits: BitSource,
    *,
    count: int,
    epsilon: Number,
    sensitivity: int = 1,
    monotone: bool = False,
) -> tuple[int, ...]:
    """Return the places of about the largest c values, epsilon-DP as a whole.

    Args:
        values: int64, shape (n,).
        bits: source of the draws.
        count: c.
        epsilon: of all choices together.
        sensitivity: the most that one value changes between neighbours, in units of the values.
        monotone: all values move the same way between neighbours.

    Raises:
        BudgetError: a parameter is out of range.

    Privacy: see ``TopC``.
    """
    chooser = TopC.of(epsilon=epsilon, count=count, sensitivity=sensitivity, monotone=monotone)
    return chooser.select(values, bits)
