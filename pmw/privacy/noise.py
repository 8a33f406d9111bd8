"""Exact noise: one-sided geometric, discrete Laplace, discrete Gaussian and sech^2, on integers.

These are the only draws on private values. Every sampler works on integers and uniform bits; no
floating-point number takes part in a draw, so there is nothing for attacks on floating-point noise
(Mironov 2012; Haney et al. 2022) to hold on to. Running time depends on the draws, not on the values they
are added to. The tables (``pmf``, ``survival``) are floating point and serve audits and planning only.
One draw elsewhere takes logarithms, within bounds that make its result exact: ``first_passes``.

Each distribution draws one number (``sample``) or many (``sample_array``); the two consume different bits
and give the same distribution.

Source of the samplers: Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy"
(2020), Algorithms 1 to 3. Departure: the acceptance step of the Gaussian is split into factors
``exp(-a^2/2) exp(-a r/p) exp(-r^2/2p^2)`` with integers a, r, so that 64-bit integers suffice.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.privacy.random_bits import BitSource
from queries.frozen import dataclass

_LARGEST_PART = 2**50  # numerator and denominator of a scale: products with small counts fit in int64


class Distribution(Protocol):
    """A distribution on the integers that can be drawn exactly and tabulated."""

    __slots__ = ()

    def sample(self, bits: BitSource) -> int:
        """Draw one number."""

    def sample_array(self, bits: BitSource, count: int) -> NDArray[np.int64]:
        """Draw ``count`` independent numbers: int64, shape (count,)."""

    def pmf(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each value: float64, same shape."""

    def survival(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of drawing at least each value: float64, same shape."""


def _checked_scale(scale: Fraction, name: str) -> Fraction:
    if not isinstance(scale, Fraction | int) or scale <= 0:
        raise NoiseError(f"expected a positive fraction for {name}, got {scale!r}")
    scale = Fraction(scale)
    if max(scale.numerator, scale.denominator) > _LARGEST_PART:
        raise NoiseError(
            f"expected {name} = p/q with p, q up to 2^50, got {float(scale):g}; round it up to a coarser one"
        )
    return scale


@dataclass(frozen=True, slots=True)
class Geometric(Distribution):
    """One-sided geometric noise, the exponential distribution on integers.

    P(x) = (1-r) r^x for x >= 0, r = e^(-1/scale).

    Args:
        scale: exact, in units of the statistic.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked_scale(self.scale, "scale"))

    def sample(self, bits: BitSource) -> int:
        high, low = self.scale.numerator, self.scale.denominator
        while True:
            remainder = uniform_below(high, bits)
            if bernoulli_exp(remainder, high, bits):
                break
        whole = 0
        while bernoulli_exp(1, 1, bits):
            whole += 1
        return (remainder + high * whole) // low

    def sample_array(self, bits: BitSource, count: int) -> NDArray[np.int64]:
        high, low = self.scale.numerator, self.scale.denominator
        remainder = _accepted(
            count,
            bits,
            lambda size: uniform_array_below(high, size, bits),
            lambda draws: _exp_coins(draws, high, bits),
        )
        return (remainder + high * _geometric_e(count, bits)) // low

    def pmf(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        step = 1 / float(self.scale)
        return np.where(values >= 0, -np.expm1(-step) * np.exp(-step * np.maximum(values, 0)), 0.0)

    def survival(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.exp(-np.maximum(values, 0) / float(self.scale))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Distribution):
    """Two-sided geometric noise: P(x) = (1-r)/(1+r) r^|x|, r = e^(-1/scale).

    Args:
        scale: exact, in units of the statistic.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _checked_scale(self.scale, "scale"))

    def sample(self, bits: BitSource) -> int:
        one_sided = Geometric(self.scale)
        while True:
            negative, size = bits.bits(1), one_sided.sample(bits)
            if not (negative and size == 0):  # zero must not count twice
                return -size if negative else size

    def sample_array(self, bits: BitSource, count: int) -> NDArray[np.int64]:
        one_sided = Geometric(self.scale)
        signed = _accepted(
            count,
            bits,
            lambda size: _signs(size, bits) * (1 + one_sided.sample_array(bits, size)),
            lambda draws: draws != -1,  # one more than each size was drawn, so this is a negative zero
        )
        return signed - np.sign(signed)

    def pmf(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        step = 1 / float(self.scale)
        return math.tanh(step / 2) * np.exp(-step * np.abs(values))

    def survival(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        step = 1 / float(self.scale)
        above = np.exp(-step * np.maximum(values, 0)) / (1 + math.exp(-step))
        below = np.exp(-step * np.maximum(1 - values, 0)) / (1 + math.exp(-step))
        return np.where(values > 0, above, 1.0 - below)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Distribution):
    """Discrete Gaussian noise: P(x) proportional to e^(-x^2/(2 sigma^2)) on the integers.

    Args:
        sigma: exact, in units of the statistic; the standard deviation does not exceed it.
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _checked_scale(self.sigma, "sigma"))

    def sample(self, bits: BitSource) -> int:
        high, low = self.sigma.numerator, self.sigma.denominator
        proposal = DiscreteLaplace(self.sigma)
        while True:
            draw = proposal.sample(bits)
            distance = abs(abs(draw) * low - high)
            if bernoulli_exp(distance * distance, 2 * high * high, bits):
                return draw

    def sample_array(self, bits: BitSource, count: int) -> NDArray[np.int64]:
        high, low = self.sigma.numerator, self.sigma.denominator
        proposal = DiscreteLaplace(self.sigma)
        return _accepted(
            count,
            bits,
            lambda size: proposal.sample_array(bits, size),
            lambda draws: _gaussian_coins(np.abs(np.abs(draws) * low - high), high, bits),
        )

    def pmf(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        sigma = float(self.sigma)
        density: NDArray[np.float64] = np.exp(-(values.astype(np.float64) ** 2) / (2 * sigma**2))
        normalised: NDArray[np.float64] = density / self._mass()
        return normalised

    def survival(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.sigma > 2**16:
            raise NoiseError(f"expected sigma up to 2^16 for a table, got {float(self.sigma):g}")
        reach = math.ceil(40 * float(self.sigma)) + 2
        support = np.arange(-reach, reach + 1, dtype=np.int64)
        tail = np.append(np.cumsum(self.pmf(support)[::-1])[::-1], 0.0)
        return tail[np.clip(values + reach, 0, 2 * reach + 1)]

    def _mass(self) -> float:
        # By Poisson summation the sum differs from the integral by a factor 1 + 2e^(-2 pi^2 sigma^2).
        sigma = float(self.sigma)
        if sigma > 4:
            return sigma * math.sqrt(2 * math.pi)
        return math.fsum(math.exp(-(value**2) / (2 * sigma**2)) for value in range(-200, 201))


# --- one number at a time --------------------------------------------------------------------------------


NoiseDistribution: TypeAlias = DiscreteLaplace | DiscreteGaussian  # what a session measures with


def uniform_below(bound: int, bits: BitSource) -> int:
    """Draw a uniform integer in 0..bound-1 by rejection."""
    length = (bound - 1).bit_length()
    while True:
        draw = bits.bits(length)
        if draw < bound:
            return draw


def bernoulli_exp(numerator: int, denominator: int, bits: BitSource) -> bool:
    """Return True with probability e^(-numerator/denominator), for any non-negative fraction."""
    whole, rest = divmod(numerator, denominator)
    for _ in range(whole):
        if not _bernoulli_exp_unit(1, 1, bits):
            return False
    return _bernoulli_exp_unit(rest, denominator, bits)


def _bernoulli_exp_unit(numerator: int, denominator: int, bits: BitSource) -> bool:
    # von Neumann: the first k with a tail among coins of gamma/k is odd with probability e^-gamma.
    k = 1
    while uniform_below(denominator * k, bits) < numerator:
        k += 1
    return k % 2 == 1


# --- many numbers at a time ------------------------------------------------------------------------------


class _Draw(Protocol):
    def __call__(self, size: int, /) -> NDArray[np.int64]: ...


class _Coins(Protocol):
    def __call__(self, draws: NDArray[np.int64], /) -> NDArray[np.bool_]: ...


def bernoulli_exp_array(
    numerators: NDArray[np.int64], denominator: int, bits: BitSource
) -> NDArray[np.bool_]:
    """Return True with probability e^(-numerator/denominator) each, for non-negative numerators.

    Args:
        numerators: int64, shape (n,).
        denominator: at most 2^50.
    """
    whole, rest = np.divmod(numerators, denominator)
    kept = _exp_coins(rest, denominator, bits)
    _keep_tossed(kept, whole, lambda rows: _exp_coins(np.ones(len(rows), dtype=np.int64), 1, bits))
    return kept


def _accepted(count: int, bits: BitSource, draw: _Draw, accept: _Coins) -> NDArray[np.int64]:
    """Return ``count`` draws that passed their coins, drawing again where they did not."""
    result = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        draws = draw(count - filled)
        kept = draws[accept(draws)]
        result[filled : filled + len(kept)] = kept
        filled += len(kept)
    return result


def uniform_array_below(bound: int, count: int, bits: BitSource) -> NDArray[np.int64]:
    """Draw uniform integers in 0..bound-1, bound up to 2^62."""
    shift = np.uint64(64 - max(1, (bound - 1).bit_length()))
    result = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        draws = (bits.words(count - filled) >> shift).astype(np.int64)
        kept = draws[draws < bound]
        result[filled : filled + len(kept)] = kept
        filled += len(kept)
    return result


def _signs(count: int, bits: BitSource) -> NDArray[np.int64]:
    return 1 - 2 * (bits.words(count) >> np.uint64(63)).astype(np.int64)


def _exp_coins(numerators: NDArray[np.int64], denominator: int, bits: BitSource) -> NDArray[np.bool_]:
    """Return True with probability e^(-numerator/denominator) each, for numerators up to the denominator."""
    odd = np.ones(len(numerators), dtype=bool)
    active = np.arange(len(numerators))
    k = 1
    while len(active):
        shown = uniform_array_below(denominator * k, len(active), bits) < numerators[active]
        active = active[shown]
        odd[active] ^= True
        k += 1
    return odd


def _geometric_e(count: int, bits: BitSource) -> NDArray[np.int64]:
    """Draw the number of successes in a row of coins with probability 1/e."""
    result = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    while len(active):
        active = active[_exp_coins(np.ones(len(active), dtype=np.int64), 1, bits)]
        result[active] += 1
    return result


def _gaussian_coins(distances: NDArray[np.int64], high: int, bits: BitSource) -> NDArray[np.bool_]:
    """Return True with probability e^(-(d/high)^2/2) each.

    With d = a high + r: (d/high)^2/2 = a^2/2 + a r/high + r^2/(2 high^2), three factors of which each is a
    product of coins whose parts fit in 64 bits.
    """
    whole, rest = np.divmod(distances, high)
    kept = np.ones(len(distances), dtype=bool)
    _keep_tossed(kept, whole * whole, lambda rows: _exp_coins(np.ones(len(rows), dtype=np.int64), 2, bits))
    _keep_tossed(kept, whole, lambda rows: _exp_coins(rest[rows], high, bits))
    rows = np.flatnonzero(kept)
    kept[rows] = _exp_half_square(rest[rows], high, bits)
    return kept


def _keep_tossed(kept: NDArray[np.bool_], tosses: NDArray[np.int64], toss: _Coins) -> None:
    """Toss ``tosses[i]`` coins for each row still kept, and drop the rows with a tail."""
    number = 1
    while True:
        rows = np.flatnonzero(kept & (tosses >= number))
        if not len(rows):
            return
        kept[rows] = toss(rows)
        number += 1


def _exp_half_square(rests: NDArray[np.int64], high: int, bits: BitSource) -> NDArray[np.bool_]:
    """Return True with probability e^(-(r/high)^2/2) each: von Neumann with coins r/high, r/high, 1/(2k)."""
    odd = np.ones(len(rests), dtype=bool)
    active = np.arange(len(rests))
    k = 1
    while len(active):
        for _ in range(2):
            active = active[uniform_array_below(high, len(active), bits) < rests[active]]
        active = active[uniform_array_below(2 * k, len(active), bits) == 0]
        odd[active] ^= True
        k += 1
    return odd


@dataclass(frozen=True, slots=True)
class SechSquared(Distribution):
    """Noise on integers >= 0 that is at least y with probability sech^2(y/2b) for each integer y > 0.

    It is the larger of two independent numbers H >= 0 with Pr[H < y] = tanh(y/2b), the logistic distribution
    folded at 0 and rounded down to integers. With r_y = e^(-y/b),

        Pr[H = y] = tanh((y+1)/2b) - tanh(y/2b) = 2 (1 - e^(-1/b)) r_y / ((1 + r_y)(1 + r_(y+1))),

    so H is one-sided geometric noise y, kept if two coins of 1/(1 + r_y) and 1/(1 + r_(y+1)) both show 1:
    about every second is. Such a coin takes fair coins and coins of r alone, by a two-coin Bernoulli factory:
    1 if a fair coin shows 1, else 0 if a coin of r shows 1, else again. Every draw is exact,
    and its running time depends on the noise drawn and not on the value that it is compared with.

    Args:
        scale: b, exact, in units of the statistic.

    Source: the identity above is checked in the tests; Bernoulli factories of two coins: Gonçalves,
        Łatuszyński and Roberts (2017).
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", Geometric(self.scale).scale)

    def sample(self, bits: BitSource) -> int:
        return max(self._half_logistic(bits), self._half_logistic(bits))

    def sample_array(self, bits: BitSource, count: int) -> NDArray[np.int64]:
        pairs = np.empty(2 * count, dtype=np.int64)
        missing = np.arange(2 * count)
        while len(missing):
            pairs[missing] = Geometric(self.scale).sample_array(bits, len(missing))
            missing = missing[~self._kept(pairs[missing], bits)]
        larger: NDArray[np.int64] = pairs.reshape(2, -1).max(axis=0)
        return larger

    def pmf(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        step = 1 / float(self.scale)
        first = np.exp(-step * np.maximum(values, 0))
        second = first * np.exp(-step)
        rise = -2 * np.expm1(-step) * first / ((1 + first) * (1 + second))  # of tanh from value to value + 1
        total = (1 - first) / (1 + first) + (1 - second) / (1 + second)
        return np.where(values >= 0, rise * total, 0.0)

    def survival(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        decay = np.exp(-np.maximum(values, 0) / float(self.scale))
        passed: NDArray[np.float64] = 4 * decay / (1 + decay) ** 2
        return passed

    def _half_logistic(self, bits: BitSource) -> int:
        high, low = self.scale.numerator, self.scale.denominator
        while True:
            draw = Geometric(self.scale).sample(bits)
            # Both coins are tossed whatever the first shows, as they are for many draws at a time.
            coins = [_logistic_coin((draw + more) * low, high, bits) for more in (0, 1)]
            if all(coins):
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
