"""The number of the draw that first reaches a gap: exact by inversion, as if drawn one by one."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from pmw.errors import NoiseError
from pmw.privacy import selection as module
from pmw.privacy.noise import DiscreteLaplace, Geometric
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import MOST_PASSES, first_passes

DISTRIBUTIONS = [Geometric, DiscreteLaplace]
SCALE = Fraction(7, 3)


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
@pytest.mark.parametrize("gap", [-30, 0, 1, 2, 9, 30, 50])
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
    runs, edges = 60_000, np.arange(1, 12)
    drawn = first_passes(distribution(SCALE), np.full(runs, gap), 10**6, BitSource.from_integer(8))
    found = np.array([*((drawn == m).sum() for m in edges), (drawn > edges[-1]).sum()])

    def p_value(scale: Fraction) -> float:
        below = float(distribution(scale).survival(np.array([gap]))[0])
        distribution_of = np.array([*(below * (1 - below) ** (edges - 1)), (1 - below) ** len(edges)]) * runs
        kept = distribution_of >= 5
        return float(
            stats.chisquare(
                found[kept], distribution_of[kept] * found[kept].sum() / distribution_of[kept].sum()
            ).pvalue
        )

    if distribution is Geometric and gap <= 0:
        assert (drawn == 1).all()  # noise that is never negative
        return
    assert p_value(SCALE) > 1e-4
    if abs(gap) > 1:
        for wrong in (Fraction(10, 13), Fraction(13, 10)):
            assert p_value(SCALE * wrong) < 1e-6


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


@pytest.mark.parametrize("most", [0, MOST_PASSES + 1])
def test_a_bound_out_of_range_is_refused(most: int) -> None:
    with pytest.raises(NoiseError, match="from 1 to 2\\^40"):
        first_passes(Geometric(SCALE), np.zeros(1, dtype=int), most, BitSource.from_integer(1))
