"""The exponential mechanism: its distribution, and what it costs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.privacy import selection as module
from pmw.privacy.noise import DiscreteLaplace, Geometric
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import MOST_PASSES, ExponentialMechanism, first_passes
from pmw.research.audit import OutputDistribution, renyi_divergence
from tests.distributions import WRONG, fit, require_scale

EPSILON = Fraction(3, 2)
QUALITIES = np.array([0, 3, 4, 7, -2, 4])
# Where one candidate hardly counts, its own change moves the constant no more: there the bound is attained.
BASES = [(0, 0, 0, 0), (5, 0, 3, 1), (0, -200, -200, 1), (-300, 0, 0, 0)]
DISTRIBUTIONS = [Geometric, DiscreteLaplace]
SCALE = Fraction(7, 3)


def worst_ratio(mechanism: ExponentialMechanism, sensitivity: int, *, monotone: bool) -> float:
    """Return the largest log-ratio of any choice between any base point and its neighbours."""
    moves = (0, sensitivity) if monotone else (-sensitivity, 0, sensitivity)
    found = 0.0
    for base, move in itertools.product(BASES, itertools.product(moves, repeat=4)):
        ratio = np.log(mechanism.probabilities(np.array(base)))
        ratio -= np.log(mechanism.probabilities(np.array(base) + np.array(move)))
        found = max(found, float(np.abs(ratio).max()))
    return found


def draws_of(mechanism: ExponentialMechanism, qualities: NDArray[np.int64], count: int) -> Counter[int]:
    bits = BitSource.from_integer(31)
    return Counter(mechanism.select(qualities, bits) for _ in range(count))


@pytest.mark.statistical
@pytest.mark.parametrize(("sensitivity", "monotone"), [(1, True), (4, False)])
def test_choices_follow_the_distribution_and_no_other_scale(sensitivity: int, monotone: bool) -> None:
    mechanism = ExponentialMechanism(sensitivity, EPSILON, monotone)
    drawn = draws_of(mechanism, QUALITIES, 6_000)

    def p_value(factor: Fraction) -> float:
        off = ExponentialMechanism(sensitivity, EPSILON / factor, monotone)
        return fit(drawn, dict(enumerate(off.probabilities(QUALITIES).tolist())))

    require_scale(p_value)


@pytest.mark.statistical
def test_choices_follow_the_distribution_on_the_grid_of_a_session() -> None:
    # Qualities of millions of units and an epsilon with 60 binary digits, as a release draws them.
    units = 2**20
    epsilon = Fraction(math.isqrt(2 * 2**120 // 1000), 2**60)
    mechanism = ExponentialMechanism(2 * units, epsilon)
    qualities = np.array([900, 880, 850, -(10**6)]) * units + 17
    drawn = draws_of(mechanism, qualities, 6_000)
    assert drawn[3] == 0
    assert fit(drawn, dict(enumerate(mechanism.probabilities(qualities).tolist()))) > 1e-4


def test_probabilities_and_the_charge_are_the_textbook_formulas() -> None:
    distribution = ExponentialMechanism(2, Fraction(1)).probabilities(np.array([4, 0]))
    assert distribution[0] / distribution[1] == pytest.approx(math.e)
    distribution = ExponentialMechanism(2, Fraction(1), monotone=True).probabilities(np.array([4, 0]))
    assert distribution[0] / distribution[1] == pytest.approx(math.e**2)
    charge = ExponentialMechanism(5, Fraction(2)).charge()
    assert charge.epsilon == 2
    assert charge.rho == Fraction(1, 2)  # an eighth of its square


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("monotone", [False, True])
def test_neighbours_differ_by_epsilon_and_no_less(sensitivity: int, monotone: bool) -> None:
    mechanism = ExponentialMechanism(sensitivity, EPSILON, monotone)
    found = worst_ratio(mechanism, sensitivity, monotone=monotone)
    assert found <= float(EPSILON) + 1e-9
    assert found == pytest.approx(float(EPSILON), abs=1e-6)  # attained: no cheaper price is sound


@pytest.mark.parametrize("wrong", WRONG)
def test_a_scale_30_percent_off_shows_in_the_enumeration(wrong: Fraction) -> None:
    found = worst_ratio(ExponentialMechanism(1, EPSILON * wrong), 1, monotone=False)
    assert (found > float(EPSILON) + 0.05) if wrong > 1 else (found < float(EPSILON) - 0.05)


def test_the_monotone_scale_is_not_for_qualities_that_move_apart() -> None:
    found = worst_ratio(ExponentialMechanism(1, EPSILON, monotone=True), 1, monotone=False)
    assert found > float(EPSILON) + 0.5


@pytest.mark.parametrize("alpha", [1.01, 64.0])
def test_the_renyi_divergence_stays_below_the_charge_and_comes_near_it(alpha: float) -> None:
    mechanism = ExponentialMechanism(1, Fraction(1, 2))
    rho = float(mechanism.charge().rho)
    found = 0.0
    for gap, move in itertools.product(range(-8, 9), itertools.product((-1, 0, 1), repeat=2)):
        here, there = np.array([gap, 0]), np.array([gap + move[0], move[1]])
        distributions: list[OutputDistribution] = [
            {(place,): float(p) for place, p in enumerate(mechanism.probabilities(values))}
            for values in (here, there)
        ]
        found = max(found, renyi_divergence(distributions[0], distributions[1], alpha))
    assert found <= alpha * rho * (1 + 1e-9)
    if alpha < 3:
        assert found > 0.95 * alpha * rho


@pytest.mark.parametrize(
    ("sensitivity", "epsilon"), [(0, Fraction(1)), (-1, Fraction(1)), (1, Fraction(0)), (1, 0.5), (1.5, 1)]
)
def test_a_mechanism_that_cannot_be_is_refused(sensitivity: int, epsilon: Fraction) -> None:
    with pytest.raises(NoiseError, match="expected"):
        ExponentialMechanism(sensitivity, epsilon)


@pytest.mark.parametrize("qualities", [np.array([], dtype=np.int64), np.array([0.5]), np.zeros((2, 2), int)])
def test_qualities_that_cannot_be_are_refused(qualities: NDArray[np.int64]) -> None:
    with pytest.raises(NoiseError, match="expected whole qualities"):
        ExponentialMechanism(1, Fraction(1)).select(qualities, BitSource.from_integer(1))


class Scripted(BitSource):
    """A source whose 64-bit words are given; other bits are seeded."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(bytes(32))
        self._words = words

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array(self._words[:count], dtype=np.uint64)


def miss(distribution: Geometric | DiscreteLaplace, gap: int) -> mpmath.mpf:
    """Return Pr[noise < gap], to the digits that are set."""
    step = mpmath.mpf(distribution.scale.denominator) / distribution.scale.numerator
    if isinstance(distribution, Geometric):
        return 1 - mpmath.exp(-step * gap) if gap > 0 else mpmath.mpf(0)
    share = 1 / (1 + mpmath.exp(-step))
    return 1 - share * mpmath.exp(-step * gap) if gap > 0 else share * mpmath.exp(-step * (1 - gap))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("gap", [-30, 0, 1, 9, 50])
def test_the_draw_is_the_inverse_of_its_distribution_for_every_leading_bit(
    distribution: type[Geometric | DiscreteLaplace], gap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, size = distribution(SCALE), 2**10
    monkeypatch.setattr(module, "_BITS", 10)  # all uniform numbers are enumerated by their ten leading bits
    words = [u << 54 for u in range(size)]
    drawn = first_passes(noise, np.full(size, gap), 1000, Scripted(words))
    with mpmath.workdps(40):
        below = miss(noise, gap)
        for m in (1, 2, 5, 30, 1000):
            # U <= (1-p)^m is G > m: all u below, none above, and the one in between by its further bits
            share = below**m * size
            assert int(mpmath.floor(share)) <= (drawn > m).sum() <= int(mpmath.floor(share)) + 1


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_single_draws_agree_with_many_digits(distribution: type[Geometric | DiscreteLaplace]) -> None:
    noise, bits = distribution(Fraction(55, 2)), BitSource.from_integer(2)
    words = [int(word) for word in bits.words(300)]
    gaps = np.arange(300) * 2 - 40
    drawn = first_passes(noise, gaps, 10**9, Scripted(words))
    with mpmath.workdps(60):
        for gap, word, found in zip(gaps.tolist(), words, drawn.tolist(), strict=True):
            uniform, below = mpmath.mpf(2 * (word >> 12) + 1) / 2**53, miss(noise, gap)
            expected = 1 + (int(mpmath.log(uniform) / mpmath.log(below)) if below else 0)
            assert found == pytest.approx(min(expected, 10**9 + 1), rel=1e-9)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_more_digits_give_what_floating_point_was_sure_of(
    distribution: type[Geometric | DiscreteLaplace], monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = np.arange(-20, 180)
    quick = first_passes(distribution(SCALE), gaps, 10**6, BitSource.from_integer(5))
    monkeypatch.setattr(module, "_FLOAT_ERROR", 0.999)  # nothing is sure: each is resolved with more bits
    slow = first_passes(distribution(SCALE), gaps, 10**6, BitSource.from_integer(5))
    assert (quick == slow).all()
    assert len(np.unique(quick)) > 20


@pytest.mark.statistical
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("gap", [-2, 0, 1, 6])
def test_the_distribution_is_that_of_draws_one_by_one(
    distribution: type[Geometric | DiscreteLaplace], gap: int
) -> None:
    drawn = first_passes(distribution(SCALE), np.full(60_000, gap), 10**6, BitSource.from_integer(8))
    if distribution is Geometric and gap <= 0:
        assert (drawn == 1).all()  # noise that is never negative
        return
    counts = dict(enumerate(np.bincount(np.minimum(drawn, 12), minlength=13).tolist()))

    def p_value(factor: Fraction) -> float:
        below = float(distribution(SCALE * factor).survival(np.array([gap]))[0])
        expected = {m: below * (1 - below) ** (m - 1) for m in range(1, 12)}
        return fit(counts, {0: 0.0, **expected, 12: (1 - below) ** 11})

    if abs(gap) > 1:
        require_scale(p_value)
    else:
        assert p_value(Fraction(1)) > 1e-4


def test_gaps_draw_apart_from_each_other() -> None:
    drawn = first_passes(
        DiscreteLaplace(SCALE), np.zeros(20_000, dtype=int), 10**6, BitSource.from_integer(9)
    )
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.03
    assert len(np.unique(drawn)) > 8


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_what_is_never_reached_ends_at_the_bound(distribution: type[Geometric | DiscreteLaplace]) -> None:
    far = np.array([2**40, 10**12, 2**62])
    for most in (1, 7, MOST_PASSES):
        assert (first_passes(distribution(SCALE), far, most, BitSource.from_integer(1)) == most + 1).all()
    ones = Scripted([2**64 - 1] * 3)  # the leading bits of a uniform number that is almost 1
    assert (first_passes(distribution(SCALE), far, 7, ones) == 8).all()
    zeros = Scripted([0] * 3)
    assert (first_passes(distribution(SCALE), np.array([5, 5, 5]), 7, zeros) == 8).all()
    assert first_passes(distribution(SCALE), np.zeros(0, dtype=int), 7, zeros).shape == (0,)
    for most in (0, MOST_PASSES + 1):
        with pytest.raises(NoiseError, match="from 1 to 2\\^40"):
            first_passes(distribution(SCALE), far, most, zeros)
