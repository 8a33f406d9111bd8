"""Comparisons and their noise: prices of scales, tests, thresholds and what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError, NoiseError
from pmw.privacy.budget import RHO_GRID, Charge, Composition, pure_charge, round_up
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Geometric, SechSquared
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import stream_distribution, tables_of
from pmw.research.sparse_vectors import FreeGap
from pmw.sparse_vector import (
    Comparison,
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    NumericSparse,
    Outcome,
    Ratio,
    Sech2Test,
    Sides,
    Sparse,
    Split,
    ThresholdNoise,
    ThresholdTest,
)
from pmw.sparse_vector.composition import scale_up
from pmw.sparse_vector.noisy_comparison import require_integers


def test_scales_are_sensitivity_over_price() -> None:
    split = Split(Fraction(1, 3), Fraction(2, 3))
    general = Comparison(sensitivity=5).priced(split, 4)
    assert (general.threshold_scale, general.query_scale) == (Fraction(15), 2 * 4 * 5 * Fraction(3, 2))
    monotone = Comparison(sensitivity=5, monotone=True).priced(split, 4)
    assert (monotone.threshold_scale, monotone.query_scale) == (Fraction(15), 4 * 5 * Fraction(3, 2))


@given(st.fractions(Fraction(1, 2**45), Fraction(2**45)))
def test_a_scale_is_never_rounded_down(scale: Fraction) -> None:
    found = scale_up(scale)
    assert found >= scale
    if scale >= Fraction(1, 2**10):
        assert found <= scale * (1 + Fraction(1, 2**38))
    assert max(found.numerator, found.denominator) <= 2**50
    assert scale_up(found) == found  # a short scale is kept as it is


@pytest.mark.parametrize(
    ("scale", "message"),
    [(2.5, "expected a positive fraction"), (Fraction(3**40, 2**60), "round it up to a coarser one")],
)
def test_a_scale_that_cannot_be_drawn_is_refused_and_not_rounded(scale: Fraction, message: str) -> None:
    with pytest.raises(NoiseError, match=message):
        ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, 1, False, scale, Fraction(1))


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (Ratio.EVEN, 1),
        (Ratio.ONE_TO_THREE, 3),
        (Ratio.ONE_TO_C, 25),
        (Ratio.OPTIMAL, 50 ** (2 / 3)),
        (Ratio.OPTIMAL_MONOTONE, 25 ** (2 / 3)),
    ],
)
def test_the_ratios_of_the_paper(ratio: Ratio, expected: float) -> None:
    split = Split.of(ratio, epsilon="0.1", update_limit=25)
    assert float(split.epsilon2 / split.epsilon1) == pytest.approx(expected, rel=1e-5)
    assert split.epsilon == Fraction(1, 10)


@pytest.mark.parametrize(("epsilon", "values"), [(0, 0), (-1, 0), (1, 1), (1, 2), (1, -1)])
def test_shares_out_of_range_are_refused(epsilon: int, values: int) -> None:
    with pytest.raises(BudgetError, match="expected epsilon1 > 0, epsilon2 > 0 and epsilon3 >= 0"):
        Split.of(Ratio.EVEN, epsilon=epsilon, update_limit=3, values=values)
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        Split.of(Ratio.EVEN, epsilon=1, update_limit=0)
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        Comparison().priced(Split(Fraction(1), Fraction(1)), 0)


# --- noisy comparison -----------------------------------------------------------------------------------


NOISES: list[NoiseKind | ThresholdNoise] = [*NoiseKind, *ThresholdNoise]
DISTRIBUTIONS: dict[str, Callable[[Fraction], Distribution]] = {
    "exponential": Geometric,
    "laplace": DiscreteLaplace,
    "gaussian": DiscreteGaussian,
}


def make(
    noise: NoiseKind | ThresholdNoise = NoiseKind.EXPONENTIAL,
    sides: Sides = Sides.ONE_SIDED,
    *,
    monotone: bool | None = None,
    **other: int | Fraction,
) -> NoisyComparison:
    """Return a comparison; monotone where it has two thresholds, unless told."""
    given = {"sensitivity": 2, "threshold_scale": Fraction(8), "query_scale": Fraction(10), **other}
    kind = ThresholdTest if isinstance(noise, NoiseKind) else Sech2Test
    rising = sides is Sides.TWO_THRESHOLDS if monotone is None else monotone
    return kind(noise=noise, sides=sides, monotone=rising, **given)  # type: ignore[arg-type]


def secret(sides: Sides) -> NoisyThreshold:
    return NoisyThreshold(4, 9 if sides is Sides.TWO_THRESHOLDS else None)


# --- prices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [NoiseKind.EXPONENTIAL, NoiseKind.LAPLACE, ThresholdNoise.LAPLACE])
def test_prices_are_sensitivity_over_scale(noise: NoiseKind | ThresholdNoise) -> None:
    assert make(noise).threshold_price == Fraction(2, 8)
    assert make(noise).positive_price == make(noise, Sides.TWO_SIDED).positive_price == Fraction(2 * 2, 10)
    assert make(noise, monotone=True).positive_price == Fraction(2, 10)
    two = make(noise, Sides.TWO_THRESHOLDS)  # they pay for one shift, and the monotone rate
    assert (two.threshold_price, two.positive_price) == (Fraction(2, 8), Fraction(2, 10))


def test_a_sech2_threshold_and_a_positive_are_charged_as_they_come_under_zcdp() -> None:
    laplace = Sparse(make(ThresholdNoise.LAPLACE), 50, redraw=False)
    parts = pure_charge(Fraction(2, 8)), pure_charge(Fraction(4, 10))
    assert laplace.charges(Composition.ZCDP) == tuple(replace(part, mu_squared=None) for part in parts)
    # Shifted by Delta it diverges by Delta/b1 at every order, so near order 1 no smaller rho holds.
    assert make(ThresholdNoise.EXPONENTIAL).threshold_charge == Charge(Fraction(1, 4), Fraction(1, 4))
    gaussian = Sparse(make(ThresholdNoise.GAUSSIAN, Sides.TWO_THRESHOLDS), 50, redraw=False)
    opening, positive = gaussian.charges(Composition.ZCDP)
    assert opening == Charge(None, Fraction(4, 2 * 64))
    assert positive == Charge(Fraction(1, 5), round_up(Fraction(1, 50), RHO_GRID))


def test_gaussian_threshold_noise_has_no_pure_price() -> None:
    test = make(ThresholdNoise.GAUSSIAN)
    with pytest.raises(BudgetError, match="expected pure threshold noise, got Gaussian"):
        test.threshold_price  # noqa: B018
    opening, _ = Sparse(test, 2, redraw=False).charges(Composition.PURE)
    with pytest.raises(BudgetError, match="expected a pure event under a pure budget"):
        PrivacyFilter(Composition.PURE, Fraction(1)).price(opening)


def test_a_sech2_round_that_is_redrawn_pays_for_each_draw() -> None:
    kept = Sparse(make(ThresholdNoise.EXPONENTIAL), 50, redraw=False)
    assert [one.epsilon for one in kept.charges(Composition.PURE)] == [Fraction(1, 4), Fraction(2, 5)]
    assert kept.epsilon == Fraction(1, 4) + 50 * Fraction(2, 5)
    test = make(ThresholdNoise.GAUSSIAN)
    opening, positive = Sparse(test, 3, redraw=True).charges(Composition.ZCDP)
    assert opening == test.threshold_charge + test.positive_charge
    assert positive == pure_charge(Fraction(0))


# --- draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_thresholds_are_drawn_from_the_named_distribution_two_of_them_apart(
    noise: NoiseKind | ThresholdNoise,
) -> None:
    distribution = DISTRIBUTIONS[noise.value](Fraction(8))
    bits, again = BitSource.from_integer(2), BitSource.from_integer(2)
    two = make(noise, Sides.TWO_THRESHOLDS)
    drawn = [two.draw_threshold(bits) for _ in range(50)]
    assert drawn == [
        NoisyThreshold(distribution.sample(again), distribution.sample(again)) for _ in range(50)
    ]
    assert {repr(noisy) for noisy in drawn} == {"NoisyThreshold(secret)"}
    assert any(noisy.upper != noisy.lower for noisy in drawn)
    assert make(noise).draw_threshold(bits) == NoisyThreshold(distribution.sample(again))


@pytest.mark.parametrize("sides", list(Sides))
@pytest.mark.parametrize(
    ("noise", "distribution"),
    [
        (NoiseKind.EXPONENTIAL, Geometric),
        (NoiseKind.LAPLACE, DiscreteLaplace),
        (ThresholdNoise.GAUSSIAN, SechSquared),
    ],
)
def test_every_comparison_of_a_batch_has_noise_of_its_own(
    noise: NoiseKind | ThresholdNoise,
    distribution: type[Geometric | DiscreteLaplace | SechSquared],
    sides: Sides,
) -> None:
    two, values, thresholds = sides is Sides.TWO_THRESHOLDS, np.arange(-60, 60), np.arange(120) % 40
    found = make(noise, sides).compare(secret(sides), values, thresholds, BitSource.from_integer(5))
    nu = distribution(Fraction(10)).sample_array(BitSource.from_integer(5), 240 if two else 120)
    compared = np.abs(values) if sides is Sides.TWO_SIDED else values
    expected = (compared + nu[:120] >= thresholds + 4).astype(np.int8)
    if two:  # those of -value come after those of value, and count where value did not pass
        expected[(expected == 0) & (-values + nu[120:] >= thresholds + 9)] = Outcome.ABOVE_NEGATED
    assert found.tolist() == expected.tolist()
    assert set(found.tolist()) == ({-1, 0, 1} if two else {0, 1})


@pytest.mark.parametrize("noise", [NoiseKind.LAPLACE, ThresholdNoise.GAUSSIAN])
def test_a_pair_takes_as_many_bits_whichever_passes(noise: NoiseKind | ThresholdNoise) -> None:
    def next_word(values: list[int]) -> int:
        bits, test = BitSource.from_integer(9), make(noise, Sides.TWO_THRESHOLDS)
        test.compare(NoisyThreshold(3, 5), np.array(values), np.full(2, 10_000), bits)
        return bits.bits(64)

    assert next_word([10**6, 10**6]) == next_word([0, -(10**6)]) == next_word([0, 0])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sides", [Sides.ONE_SIDED, Sides.TWO_THRESHOLDS])
@pytest.mark.parametrize("scales", [(30, 2), (8, 40)])  # the threshold noise is the wide one, then the tests'
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
def test_a_negative_lies_below_the_margin_as_often_as_stated(
    noise: NoiseKind | ThresholdNoise, sides: Sides, scales: tuple[int, int], confidence: float
) -> None:
    kept, fresh = (Fraction(scale) for scale in scales)
    test = make(noise, sides, sensitivity=1, threshold_scale=kept, query_scale=fresh)
    margin = math.floor(test.negative_margin(confidence)) + 1
    below = stream_distribution(tables_of(Sparse(test, 1, redraw=False), 0), (margin,))[0,]
    assert below <= 1 - confidence
    assert 0 < test.negative_margin(confidence) < test.negative_margin(0.9999)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [NoiseKind.LAPLACE, ThresholdNoise.GAUSSIAN])
@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"sides": Sides.TWO_SIDED, "monotone": True}, "an absolute value is not monotone"),
        ({"sides": Sides.TWO_THRESHOLDS, "monotone": False}, "two thresholds need monotone values"),
        ({"sensitivity": 0}, "sensitivity of at least 1"),
        ({"threshold_scale": Fraction(0)}, "expected a positive fraction"),
        ({"query_scale": Fraction(-1)}, "expected a positive fraction"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_drawn(
    noise: NoiseKind | ThresholdNoise, choices: dict[str, Any], told: str
) -> None:
    with pytest.raises((BudgetError, NoiseError), match=told):
        make(noise, **choices)


def test_noise_of_another_kind_is_refused() -> None:
    scales = Fraction(1), Fraction(1)
    with pytest.raises(BudgetError, match="expected threshold noise of a sech"):
        Sech2Test(NoiseKind.LAPLACE, Sides.ONE_SIDED, 1, False, *scales)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="expected a ThresholdTest for a free gap"):
        FreeGap(Sparse(make(ThresholdNoise.LAPLACE), 2, redraw=False))  # its gaps are not free


def test_only_integers_are_compared() -> None:
    with pytest.raises(BudgetError, match="expected integer values on a grid, got dtype=float64"):
        require_integers(np.array([1.0]))
    for wrong in ([1, 2.5], ["1"], [None], [2**70], [[1], [2, 3]]):
        with pytest.raises(BudgetError):
            require_integers(wrong)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(BudgetError, match="or a list, got a set"):
        require_integers({1})  # type: ignore[arg-type]  # what is refused


def test_lists_are_taken_where_arrays_are() -> None:
    assert require_integers([]).dtype == require_integers((3, -4)).dtype == np.int64
    vector = NumericSparse.textbook(epsilon=2, update_limit=2, sensitivity=3)
    values, thresholds = [1, 40, -3, 90, 2], (20, 20, 20, 20, 20)
    lists = vector.run(values, thresholds, BitSource.from_integer(5))
    arrays = vector.run(np.array(values), np.array(thresholds), BitSource.from_integer(5))
    for one, other in zip(lists, arrays, strict=True):
        np.testing.assert_array_equal(one, other)
    state, outcomes, _ = vector.scan(vector.open(BitSource()), [-900, 900], [0, 0], BitSource())
    assert (state.positives, outcomes.tolist()) == (1, [0, 1])


def test_noise_comes_from_a_bit_source_alone() -> None:
    vector = NumericSparse.textbook(epsilon=2, update_limit=2)
    with pytest.raises(NoiseError, match="expected a BitSource"):
        vector.open(np.random.default_rng(1))  # type: ignore[arg-type]  # what is refused
    state = vector.open(BitSource())
    with pytest.raises(NoiseError, match="expected a BitSource"):
        vector.step(state, 1, 2, None)  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("sides", "noisy"),
    [
        (Sides.TWO_THRESHOLDS, NoisyThreshold(3)),
        (Sides.ONE_SIDED, NoisyThreshold(3, 4)),
        (Sides.TWO_SIDED, NoisyThreshold(3, 0)),
    ],
)
def test_a_lost_second_threshold_is_told_and_not_taken_for_no_noise(
    sides: Sides, noisy: NoisyThreshold
) -> None:
    values = np.array([5, -5])
    with pytest.raises(BudgetError, match="the threshold noise was drawn for other sides than") as caught:
        make(sides=sides).compare(noisy, values, values, BitSource.from_integer(3))
    assert "3" not in str(caught.value)
