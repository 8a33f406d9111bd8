"""Published sparse vectors that are not what they claim, each with the pair of tables that shows it.

Nothing here is private at its claimed price, with the one exception that its function names. They serve
audits alone: a method that does not catch them is no audit. Only the audits beside it may import this module.

The same algorithms are the three broken forms of Machanavajjhala's slides (2016): without noise on the tests
(``algorithm_5``), without a limit on positives (``algorithm_6``), and with the noisy value of the test itself
released (``algorithm_3``).

Source: Lyu, Su and Li (2017), Figure 1 and Appendix (Algorithms 3 to 6), unless a function says otherwise.
Counterexamples are computed on the integers from the distributions that the algorithms draw from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.noise import DiscreteLaplace, Geometric
from pmw.privacy.random_bits import BitSource
from pmw.research.audit.entries import Counterexample, Instance, released_output
from pmw.research.audit.exact import Factors, OutcomeTables
from pmw.sparse_vector.noisy_comparison import require_integers
from queries.frozen import dataclass

Outputs: TypeAlias = tuple[int | None, ...]  # 0 or 1 each; where values are released, None or the value

_RELEASED = 40  # released values within this distance of 0 are told apart, those beyond are not enumerated
_REACH = 80  # support of the threshold noise in scales: what lies beyond weighs e^-80


@dataclass(frozen=True, slots=True)
class FlawedSparse:
    """A sparse vector as it was published.

    Args:
        query_noise: distribution of nu; None where tests carry no noise.
        update_limit: positives after which it halts; None where it never does.
        inside: compares \\|value + nu\\|, the noise inside the absolute value.
        releases: a positive releases value + nu, the very number that was compared.
    """

    name: str
    claimed: Fraction
    threshold_noise: DiscreteLaplace | Geometric
    query_noise: DiscreteLaplace | Geometric | None
    update_limit: int | None
    redraw: bool = False
    inside: bool = False
    releases: bool = False

    @property
    def support(self) -> NDArray[np.int64]:
        """The threshold noises of the tables: int64, shape (z,)."""
        reach = math.ceil(_REACH * self.threshold_noise.scale)
        return np.arange(0 if isinstance(self.threshold_noise, Geometric) else -reach, reach + 1)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The probability of each threshold noise of the support: float64, shape (z,)."""
        found: NDArray[np.float64] = self.threshold_noise.pmf(self.support)
        return found

    def above(self, value: int, threshold: int) -> NDArray[np.float64]:
        """Return the probability that a value passes, for each threshold noise: float64, shape (z,)."""
        limits = threshold + self.support
        if self.query_noise is None:
            return (value >= limits).astype(np.float64)
        upper = self.query_noise.survival(limits - value)
        if not self.inside:
            return upper
        # |value + nu| >= limit: always for limits up to 0, else nu >= limit - value or nu <= -limit - value.
        lower = 1.0 - self.query_noise.survival(1 - limits - value)
        passes: NDArray[np.float64] = np.where(limits <= 0, 1.0, upper + lower)
        return passes

    def tables(self, threshold: int) -> OutcomeTables:
        """Return what one test may say: 0, 1, or ``released_output`` of a value within 40 of 0."""

        def outcomes(value: int) -> Mapping[int, Factors]:
            above = self.above(value, threshold)
            if not self.releases or self.query_noise is None:
                return {0: (1.0 - above,), 1: (above,)}
            values, passed = np.arange(-_RELEASED, _RELEASED + 1), threshold + self.support
            chances = self.query_noise.pmf(values - value).tolist()
            shown = zip(values.tolist(), chances, strict=True)
            return {0: (1.0 - above,)} | {
                released_output(one): (chance * (one >= passed),) for one, chance in shown
            }

        return OutcomeTables((self.weights,), outcomes, self.update_limit, self.redraw)

    def run(self, values: NDArray[np.int64], thresholds: NDArray[np.int64], bits: BitSource) -> Outputs:
        """Return the outputs on a stream, up to the positive that halts it."""
        given, limits = require_integers(values), require_integers(thresholds)
        compared = given
        if self.query_noise is not None:
            compared = given + self.query_noise.sample_array(bits, len(given))
        size = np.abs(compared) if self.inside else compared
        outputs: list[int | None] = []
        rho, positives = self.threshold_noise.sample(bits), 0
        for noisy, seen, limit in zip(compared.tolist(), size.tolist(), limits.tolist(), strict=True):
            if positives == self.update_limit:
                break
            passed = seen >= limit + rho
            outputs.append((noisy if passed else None) if self.releases else int(passed))
            positives += passed
            if passed and self.redraw:
                rho = self.threshold_noise.sample(bits)
        return tuple(outputs)


def algorithm_3(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> FlawedSparse:
    """Return Algorithm 3 (Roth's lecture notes, 2011): it releases value + nu, with the noise of its test.

    Threshold Lap(2 Delta/epsilon), tests Lap(2 c Delta/epsilon). The released number shows an upper end of
    the noisy threshold, and m negatives before it cost e^((m-1) epsilon/2): not private for any epsilon.
    """
    half, limit = _checked(epsilon, update_limit) / 2, update_limit
    distributions = DiscreteLaplace(sensitivity / half), DiscreteLaplace(limit * sensitivity / half)
    return FlawedSparse("Algorithm 3", 2 * half, *distributions, limit, releases=True)


def algorithm_4(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> FlawedSparse:
    """Return Algorithm 4 (Lee and Clifton 2014): its test noise does not grow with c.

    Threshold Lap(4 Delta/epsilon), tests Lap(4 Delta/(3 epsilon)). It is (1 + 6c)/4 epsilon-DP, and
    (1 + 3c)/4 epsilon-DP for monotone values; both are attained.
    """
    whole = _checked(epsilon, update_limit)
    distributions = DiscreteLaplace(4 * sensitivity / whole), DiscreteLaplace(4 * sensitivity / (3 * whole))
    return FlawedSparse("Algorithm 4", whole, *distributions, update_limit)


def algorithm_5(*, epsilon: Number, sensitivity: int = 1) -> FlawedSparse:
    """Return Algorithm 5 (Stoddard et al. 2014): no noise on tests, no limit; never private."""
    whole = _checked(epsilon, 1)
    return FlawedSparse("Algorithm 5", whole, DiscreteLaplace(2 * sensitivity / whole), None, None)


def algorithm_6(*, epsilon: Number, sensitivity: int = 1) -> FlawedSparse:
    """Return Algorithm 6 (Chen et al. 2015): Lap(2 Delta/epsilon) on both and no limit on positives.

    m negatives and m positives cost more than m epsilon/2: not private for any epsilon.
    """
    whole = _checked(epsilon, 1)
    distribution = DiscreteLaplace(2 * sensitivity / whole)
    return FlawedSparse("Algorithm 6", whole, distribution, distribution, None)


def gptt(*, epsilon1: Number, epsilon2: Number, sensitivity: int = 1) -> FlawedSparse:
    """Return generalized private threshold testing: Algorithm 6 with any epsilon1 : epsilon2.

    It is not private for any epsilon, as Algorithm 6 is not. The proof of this in the paper that named it
    (Chen and Machanavajjhala 2015) is wrong, though: the same argument would show that Algorithm 1, which is
    private, is not. Only the counterexample here is evidence.
    """
    first, second = _checked(epsilon1, 1), _checked(epsilon2, 1)
    distributions = DiscreteLaplace(sensitivity / first), DiscreteLaplace(sensitivity / second)
    return FlawedSparse("GPTT", first + second, *distributions, None)


def exponential_inside(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> FlawedSparse:
    """Return Algorithm 7's general scales, 1:1, with exponential noise inside the absolute value.

    Below -T a value passes by small noise alone. Moved up by Delta it needs noise of about 2T instead, so the
    log-ratio grows with T/b without bound. Outside the absolute value the same noise keeps the claim.
    """
    half, limit = _checked(epsilon, update_limit) / 2, update_limit
    distributions = Geometric(sensitivity / half), Geometric(2 * limit * sensitivity / half)
    return FlawedSparse("exponential noise inside", 2 * half, *distributions, limit, inside=True)


def laplace_inside(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> FlawedSparse:
    """Return Algorithm 7's general scales, 1:1, with Laplace noise inside the absolute value.

    It keeps its claim, and attains it far from 0: both tails of nu shift by 2 Delta at e^(2 Delta/b). It is
    here because the left side is never negative, so a negative shows that T + rho > 0, which is to be secret:
    at epsilon = 1 and T = 0, one negative lifts the probability of this from 0.378 to 1.

    Source: the form printed by Hardt and Rothblum (2010) and Roth and Roughgarden (2010), as Lyu, Su and Li
        (2017), Section 3.4, observe.
    """
    half, limit = _checked(epsilon, update_limit) / 2, update_limit
    distributions = DiscreteLaplace(sensitivity / half), DiscreteLaplace(2 * limit * sensitivity / half)
    return FlawedSparse("Laplace noise inside", 2 * half, *distributions, limit, inside=True)


def one_too_many(*, epsilon: Number, update_limit: int, sensitivity: int = 1) -> FlawedSparse:
    """Return the tests of a numeric sparse vector that asks whether count < c after it has answered.

    It answers c + 1 positives at scales made for c, so its redrawn tests cost (c+1)/c of their share
    epsilon1. It is judged on that share: values were given more noise than their share needs, which hides it
    in the whole.

    Args:
        epsilon: epsilon1, the share of the tests.

    Source: Machanavajjhala's slides (2016), slide 25.
    """
    share, limit = _checked(epsilon, update_limit), update_limit
    distributions = (
        DiscreteLaplace(2 * limit * sensitivity / share),
        DiscreteLaplace(4 * limit * sensitivity / share),
    )
    return FlawedSparse("one positive too many", share, *distributions, limit + 1, redraw=True)


def _checked(epsilon: Number, update_limit: int) -> Fraction:
    price = as_fraction(epsilon, "epsilon")
    if price <= 0:
        raise BudgetError(f"expected epsilon > 0, got epsilon={float(price):g}")
    if update_limit < 1:
        raise BudgetError(f"expected an update limit of at least 1, got {update_limit}")
    return price


_Example: TypeAlias = tuple[FlawedSparse, Counterexample]


def _example(mechanism: FlawedSparse, instance: Instance, outputs: Outputs) -> _Example:
    coded = tuple(map(released_output, outputs)) if mechanism.releases else tuple(one or 0 for one in outputs)
    return mechanism, Counterexample(mechanism.tables, instance, coded, mechanism.releases)


def _unlimited(mechanism: FlawedSparse, each: int) -> _Example:
    """Return m values that rise and m that fall by 16 units, the sensitivity."""
    instance = Instance((0,) * (2 * each), (16,) * each + (-16,) * each, sensitivity=16)
    return _example(mechanism, instance, (0,) * each + (1,) * each)


def _rounds(mechanism: FlawedSparse, outputs: Outputs) -> _Example:
    """Return negatives far above the threshold that rise, which need a large rho, and positives that fall."""
    first = tuple(0 if output else 20 for output in outputs)
    second = tuple(-1 if output else 21 for output in outputs)
    return _example(mechanism, Instance(first, second), outputs)


_BELOW = (0,) * 5

# Published forms, each with streams and an output that convict it.
COUNTEREXAMPLES: tuple[_Example, ...] = (
    *(  # m values that go from 0 to 1, and one that goes from 1 to 0
        _example(
            algorithm_3(epsilon=1, update_limit=1),
            Instance((0,) * negatives + (1,), (1,) * negatives + (0,)),
            (None,) * negatives + (0,),
        )
        for negatives in (2, 4, 8, 16)
    ),
    *(_rounds(algorithm_4(epsilon=1, update_limit=limit), _BELOW + (1,) * limit) for limit in (1, 2, 4)),
    _example(algorithm_5(epsilon=1), Instance((0, 1), (1, 0)), (0, 1)),
    *(_unlimited(algorithm_6(epsilon=1, sensitivity=16), each) for each in (2, 4, 8, 16)),
    *(
        _unlimited(gptt(epsilon1=first, epsilon2=second, sensitivity=16), 8)
        for first, second in (("0.25", "0.75"), ("0.75", "0.25"))
    ),
    *(  # a value at -T that rises by 1, beside a negative that rises too
        _example(
            exponential_inside(epsilon=1, update_limit=1),
            Instance((0, -threshold), (1, 1 - threshold), threshold),
            (0, 1),
        )
        for threshold in (20, 100)
    ),
    *(
        _rounds(one_too_many(epsilon=1, update_limit=limit), (*_BELOW, 1) * (limit + 1))
        for limit in (1, 2, 4)
    ),
)
