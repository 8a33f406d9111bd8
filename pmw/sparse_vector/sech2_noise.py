"""Noise that is at least y with probability sech^2(y/2b): the distribution under the sech^2 test.

It is the larger of two independent numbers H >= 0 with Pr[H < y] = tanh(y/2b), the logistic distribution
folded at 0 and rounded down to integers. With r_y = e^(-y/b),

    Pr[H = y] = tanh((y+1)/2b) - tanh(y/2b) = 2 (1 - e^(-1/b)) r_y / ((1 + r_y)(1 + r_(y+1))),

so H is one-sided geometric noise y, kept if two coins of 1/(1 + r_y) and 1/(1 + r_(y+1)) both show heads:
about every second is. Such a coin takes fair coins and coins of r alone, by a two-coin Bernoulli factory:
heads if a fair coin shows heads, else tails if a coin of r shows heads, else again. Every draw is exact, and
its running time depends on the noise drawn and not on the value that it is compared with.

Source: the identity above is checked in the tests; Bernoulli factories of two coins: Gonçalves, Łatuszyński
and Roberts (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.noise import Geometric, bernoulli_exp, bernoulli_exp_array
from pmw.privacy.random_bits import BitSource


@dataclass(frozen=True, slots=True)
class SechSquared:
    """Noise on integers >= 0 that is at least y with probability sech^2(y/2b) for each integer y > 0.

    Args:
        scale: b, exact, in units of the statistic.

    Raises:
        NoiseError: the scale is not a positive fraction of parts up to 2^50.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", Geometric(self.scale).scale)

    def sample(self, bits: BitSource) -> int:
        """Draw one number."""
        return max(self._half_logistic(bits), self._half_logistic(bits))

    def sample_array(self, bits: BitSource, count: int) -> NDArray[np.int64]:
        """Draw ``count`` independent numbers: int64, shape (count,)."""
        pairs = np.empty(2 * count, dtype=np.int64)
        missing = np.arange(2 * count)
        while len(missing):
            pairs[missing] = Geometric(self.scale).sample_array(bits, len(missing))
            missing = missing[~self._kept(pairs[missing], bits)]
        larger: NDArray[np.int64] = pairs.reshape(2, -1).max(axis=0)
        return larger

    def pmf(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each value: float64, same shape."""
        step = 1 / float(self.scale)
        first = np.exp(-step * np.maximum(values, 0))
        second = first * np.exp(-step)
        rise = -2 * np.expm1(-step) * first / ((1 + first) * (1 + second))  # of tanh from value to value + 1
        total = (1 - first) / (1 + first) + (1 - second) / (1 + second)
        return np.where(values >= 0, rise * total, 0.0)

    def survival(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of drawing at least each value: float64, same shape."""
        decay = np.exp(-np.maximum(values, 0) / float(self.scale))
        passed: NDArray[np.float64] = 4 * decay / (1 + decay) ** 2
        return passed

    def _half_logistic(self, bits: BitSource) -> int:
        high, low = self.scale.numerator, self.scale.denominator
        while True:
            draw = Geometric(self.scale).sample(bits)
            # Both coins are tossed whatever the first shows, as they are for many draws at a time.
            heads = [_logistic_coin((draw + more) * low, high, bits) for more in (0, 1)]
            if all(heads):
                return draw

    def _kept(self, draws: NDArray[np.int64], bits: BitSource) -> NDArray[np.bool_]:
        high, low = self.scale.numerator, self.scale.denominator
        first = _logistic_coins(draws * low, high, bits)
        kept: NDArray[np.bool_] = first & _logistic_coins((draws + 1) * low, high, bits)
        return kept


def _logistic_coin(numerator: int, denominator: int, bits: BitSource) -> bool:
    """Return True with probability 1/(1 + e^(-numerator/denominator))."""
    while True:
        if bits.bits(1):
            return True
        if bernoulli_exp(numerator, denominator, bits):
            return False


def _logistic_coins(numerators: NDArray[np.int64], denominator: int, bits: BitSource) -> NDArray[np.bool_]:
    """Return True with probability 1/(1 + e^(-numerator/denominator)) each."""
    shown = np.zeros(len(numerators), dtype=bool)
    active = np.arange(len(numerators))
    while len(active):
        fair = (bits.words(len(active)) >> np.uint64(63)).astype(bool)
        shown[active[fair]] = True
        active = active[~fair]
        active = active[~bernoulli_exp_array(numerators[active], denominator, bits)]
    return shown
