"""Private selection, drawn exactly: the exponential mechanism, and the first of many draws that passes.

Noise that is drawn again and again reaches a gap each time with the same probability p, so the number G of
the draw that first does is geometric: Pr[G > m] = (1 - p)^m, and G = 1 + floor(ln U / ln(1 - p)) for a
uniform U. So ``first_passes`` takes one draw for all of them.

That draw is exact although logarithms are not. U is known by its leading bits, so it lies in an interval.
Where both ends of the interval, widened by more than the rounding errors, give the same G, more bits of U
cannot change it. Elsewhere more bits are drawn, and the logarithms are computed to more digits, until they
do. What is returned is thus a function of U alone, never of a rounding.

Source: inversion (Devroye 1986, Section II.2), with the bits of U drawn as they are needed (Knuth and Yao
1976).
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.privacy.budget import Charge, bounded_range_charge, decimal_of
from pmw.privacy.noise import DiscreteLaplace, Geometric, bernoulli_exp, uniform_below
from pmw.privacy.random_bits import BitSource
from queries.frozen import dataclass

MOST_PASSES = 2**40
_BITS, _MORE_BITS = 52, 64
# Of ln U / ln(1 - p) in floating point, relative. A quotient below 2^40 has p > 2^-92 and so a gap of at most
# 64 scales, whose rounding gives 1.5e-14; logarithms add a few 1e-16. Larger quotients exceed ``most``.
_FLOAT_ERROR = 1e-12
_FAR = 700.0  # gaps in scales beyond which e^-gap is not a normal number
_FARTHEST = Decimal(10**5)  # the same in decimals: cutting gaps there moves no probability by e^-99,000


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """Chooses one of finitely many candidates, a better one with a higher probability.

    P(candidate) is proportional to exp(epsilon quality / (2 sensitivity)), or to
    exp(epsilon quality / sensitivity) where qualities are monotone.

    A candidate is drawn evenly and accepted with probability exp(-epsilon (best - quality)/(2 sensitivity)),
    else another is drawn. An accepted one has a probability proportional to the probability of acceptance,
    which is the distribution above divided by a constant. Candidates and coins are drawn from uniform bits
    with exact integers, so the distribution holds exactly, not up to rounding.

    Args:
        sensitivity: how much one person changes any quality at most, in units of the qualities.
        monotone: between neighbours no two qualities move in opposite directions.

    Privacy: the choice is epsilon-DP, and rho-zCDP with rho = epsilon^2/8, for neighbours that change each
        quality by at most ``sensitivity``. The candidates are public. How long a choice takes depends on the
        qualities: timings are secret, as all timings of a session are.

    Source: McSherry and Talwar (2007) for the mechanism; Dwork and Roth (2014), Section 3.4, for the
        monotone scale; Cesar and Rogers (2021) for epsilon^2/8.
    """

    sensitivity: int
    epsilon: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.sensitivity, bool) or not isinstance(self.sensitivity, int | np.integer):
            raise NoiseError(f"expected a whole sensitivity, got {self.sensitivity!r}")
        if self.sensitivity <= 0:
            raise NoiseError(f"expected a positive sensitivity, got {self.sensitivity!r}")
        if not isinstance(self.epsilon, Fraction | int) or self.epsilon <= 0:
            raise NoiseError(f"expected a positive fraction for epsilon, got {self.epsilon!r}")
        object.__setattr__(self, "sensitivity", int(self.sensitivity))
        object.__setattr__(self, "epsilon", Fraction(self.epsilon))

    @property
    def rate(self) -> Fraction:
        """How much the logarithm of the weight grows for each unit of quality."""
        return self.epsilon / ((1 if self.monotone else 2) * self.sensitivity)

    def charge(self) -> Charge:
        """Return the price of one choice.

        The logarithm of the ratio of a candidate's probabilities on two neighbours is rate * (its change) +
        a constant. Changes lie within +-sensitivity, and within [0, sensitivity] or [-sensitivity, 0] where
        monotone, so over all candidates it spans at most epsilon: a choice has bounded range.
        """
        return bounded_range_charge(self.epsilon)

    def select(self, qualities: NDArray[np.int64], bits: BitSource) -> int:
        """Return the place of the chosen candidate.

        Args:
            qualities: int64, shape (k,), one per candidate, k at least 1.
        """
        given = np.asarray(qualities)
        if given.ndim != 1 or not len(given) or not np.issubdtype(given.dtype, np.integer):
            raise NoiseError(
                f"expected whole qualities of at least one candidate, got {given.dtype} {given.shape}"
            )
        exact = [int(quality) for quality in given.tolist()]
        best = max(exact)
        while True:
            place = uniform_below(len(exact), bits)
            short = self.rate * (best - exact[place])
            if bernoulli_exp(short.numerator, short.denominator, bits):
                return place

    def probabilities(self, qualities: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the distribution of ``select``: float64, shape (k,), for audits and planning only."""
        distances = np.asarray(qualities, dtype=np.int64) - int(np.max(qualities))
        weights = np.exp(distances * float(self.rate))
        distribution: NDArray[np.float64] = weights / weights.sum()
        return distribution


def first_passes(
    noise: Geometric | DiscreteLaplace, gaps: NDArray[np.int64], most: int, bits: BitSource
) -> NDArray[np.int64]:
    """Return for each gap the number of the draw, from 1, in which noise is first at least the gap.

    Args:
        gaps: int64, shape (n,), in units of the noise.
        most: draws that are told apart, at most 2^40; a later one is ``most`` + 1.

    Privacy: none by itself. The distribution is that of ``most`` draws of the noise for each gap, one after
        the other. How long it takes depends on the gaps hardly at all, on ``most`` not at all.
    """
    if not 1 <= most <= MOST_PASSES:
        raise NoiseError(f"expected from 1 to 2^40 draws, got {most}")
    leading = (bits.words(len(gaps)) >> np.uint64(64 - _BITS)).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        misses = _log_miss(noise, gaps)
        fewest = np.log((leading + 1) / 2.0**_BITS) / misses * (1 - _FLOAT_ERROR)
        longest = np.log(leading / 2.0**_BITS) / misses * (1 + _FLOAT_ERROR)
    certain = np.isneginf(misses)  # one-sided noise is never below 0
    low = np.where(certain, 0, np.floor(np.clip(fewest, 0, most))).astype(np.int64)
    high = np.where(certain, 0, np.floor(np.clip(longest, 0, most))).astype(np.int64)
    for place in np.flatnonzero(low != high):
        low[place] = _resolved(noise, int(gaps[place]), most, int(leading[place]), bits)
    return low + 1


def _log_miss(noise: Geometric | DiscreteLaplace, gaps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ln Pr[noise < gap]; minus infinity where it is 0, and that at 700 scales for gaps beyond."""
    scale = float(noise.scale)
    size = np.minimum(gaps / scale, _FAR)
    if isinstance(noise, Geometric):
        near, far = np.log(-np.expm1(-size)), np.log1p(-np.exp(-size))
        return np.where(gaps <= 0, -np.inf, np.where(size < 1, near, far))
    both = math.log1p(math.exp(-1 / scale))
    above: NDArray[np.float64] = np.log1p(-np.exp(-size - both))
    return np.where(gaps <= 0, (np.minimum(gaps, 0) - 1) / scale - both, above)


def _resolved(noise: Geometric | DiscreteLaplace, gap: int, most: int, leading: int, bits: BitSource) -> int:
    """Return min(floor(ln U / ln(1 - p)), most) for a U with these leading bits, drawing more of them."""
    length = _BITS
    while True:
        leading, length = leading << _MORE_BITS | bits.bits(_MORE_BITS), length + _MORE_BITS
        with decimal.localcontext() as context:
            digits = 30 + length  # U itself needs fewer; what is left over covers the rounding
            context.prec = digits
            unit = Decimal(2) ** length
            miss = _exact_log_miss(noise, gap, digits)
            error = Decimal(10) ** (20 - digits)
            low = ((leading + 1) / unit).ln() / miss * (1 - error)
            high = (leading / unit).ln() / miss * (1 + error) if leading else Decimal(most)
            low, high = max(min(low, Decimal(most)), Decimal(0)), min(high, Decimal(most))
            if int(low) == int(high):
                return int(low)


def _exact_log_miss(noise: Geometric | DiscreteLaplace, gap: int, digits: int) -> Decimal:
    """Return ln Pr[noise < gap] < 0 to about so many digits."""
    with decimal.localcontext() as context:
        context.prec = 2 * digits  # so that 1 - p keeps as many digits of p
        step = decimal_of(1 / noise.scale)
        both = Decimal(0) if isinstance(noise, Geometric) else (1 + (-step).exp()).ln()
        if gap <= 0:
            return -(1 - gap) * step - both
        reached = (-min(gap * step, _FARTHEST) - both).exp()
        return -reached if reached.adjusted() < -digits else (1 - reached).ln()
