"""Private selection: the exponential mechanism, drawn exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.privacy.budget import Charge, bounded_range_charge
from pmw.privacy.noise import bernoulli_exp, uniform_below
from pmw.privacy.random_bits import BitSource


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
        epsilon: of the choice, exactly.
        monotone: between neighbours no two qualities move in opposite directions.

    Raises:
        NoiseError: the sensitivity or epsilon is not positive.

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
            bits: where the draws come from.

        Raises:
            NoiseError: there is no candidate, or the qualities are not integers.
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
