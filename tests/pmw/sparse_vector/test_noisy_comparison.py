"""The noisy comparison: its prices, its secrets and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError, NoiseError
from pmw.privacy.noise import Geometric
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import NoiseKind, NoisyThreshold, Outcome, Sides, ThresholdTest
from pmw.sparse_vector.noisy_comparison import require_integers


def make(sides: Sides = Sides.ONE_SIDED, *, monotone: bool = False, **other: object) -> ThresholdTest:
    given: dict[str, object] = {"noise": NoiseKind.EXPONENTIAL, "threshold_scale": Fraction(8), **other}
    return ThresholdTest(
        sides=sides,
        sensitivity=2,
        monotone=monotone,
        query_scale=Fraction(10),
        **given,  # type: ignore[arg-type]
    )


def test_prices_are_sensitivity_over_scale() -> None:
    assert make().threshold_price == Fraction(2, 8)
    assert make().positive_price == Fraction(2 * 2, 10)
    assert make(monotone=True).positive_price == Fraction(2, 10)


def test_two_thresholds_pay_for_one_shift_and_the_monotone_rate() -> None:
    test = make(Sides.TWO_THRESHOLDS, monotone=True)
    assert test.threshold_price == Fraction(2, 8)
    assert test.positive_price == Fraction(2, 10)


def test_an_absolute_value_is_never_monotone() -> None:
    with pytest.raises(BudgetError, match="an absolute value is not monotone"):
        make(Sides.TWO_SIDED, monotone=True)


def test_two_thresholds_need_monotone_values() -> None:
    with pytest.raises(BudgetError, match="two thresholds need monotone values"):
        make(Sides.TWO_THRESHOLDS)


def test_scales_and_sensitivities_are_checked_before_anything_is_drawn() -> None:
    with pytest.raises(NoiseError, match="expected a positive fraction"):
        make(threshold_scale=Fraction(0))
    with pytest.raises(BudgetError, match="sensitivity of at least 1"):
        ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, 0, False, Fraction(1), Fraction(1))


def test_two_thresholds_draw_two_separate_noises() -> None:
    bits = BitSource.from_integer(2)
    drawn = [make(Sides.TWO_THRESHOLDS, monotone=True).draw_threshold(bits) for _ in range(50)]
    assert any(noisy.upper != noisy.lower for noisy in drawn)
    again, distribution = BitSource.from_integer(2), Geometric(Fraction(8))
    assert drawn == [
        NoisyThreshold(distribution.sample(again), distribution.sample(again)) for _ in range(50)
    ]
    assert all(make().draw_threshold(bits).lower is None for _ in range(5))


@pytest.mark.parametrize("sides", list(Sides))
def test_every_comparison_of_a_batch_has_noise_of_its_own(sides: Sides) -> None:
    two = sides is Sides.TWO_THRESHOLDS
    test, noisy = make(sides, monotone=two), NoisyThreshold(4, 9 if two else None)
    values, thresholds = np.arange(-60, 60), np.arange(120) % 40
    found = test.compare(noisy, values, thresholds, BitSource.from_integer(5))
    nu = Geometric(Fraction(10)).sample_array(BitSource.from_integer(5), 240 if two else 120)
    compared = np.abs(values) if sides is Sides.TWO_SIDED else values
    expected = (compared + nu[:120] >= thresholds + 4).astype(np.int8)
    if two:  # those of -value come after those of value
        expected[(expected == 0) & (-values + nu[120:] >= thresholds + 9)] = -1
    assert found.tolist() == expected.tolist()
    assert set(found.tolist()) == ({-1, 0, 1} if two else {0, 1})


def test_a_noisy_threshold_shows_nothing() -> None:
    assert repr(NoisyThreshold(123456, 654321)) == "NoisyThreshold(secret)"


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(10**6, Outcome.ABOVE), (-(10**6), Outcome.ABOVE_NEGATED), (0, Outcome.BELOW)],
)
def test_two_thresholds_tell_the_sign(value: int, outcome: Outcome) -> None:
    test = make(Sides.TWO_THRESHOLDS, monotone=True)
    found = test.compare(
        NoisyThreshold(3, 5), np.array([value]), np.array([10_000]), BitSource.from_integer(1)
    )
    assert found.tolist() == [outcome]


def test_two_sided_tests_look_at_the_size_alone() -> None:
    values = np.array([-(10**6), 10**6, 0])
    found = make(Sides.TWO_SIDED).compare(
        NoisyThreshold(3), values, np.full(3, 10_000), BitSource.from_integer(1)
    )
    assert found.tolist() == [1, 1, 0]


def test_thresholds_may_differ_from_test_to_test() -> None:
    found = make().compare(
        NoisyThreshold(0), np.array([500, 500]), np.array([100, 10_000]), BitSource.from_integer(1)
    )
    assert found.tolist() == [1, 0]


@pytest.mark.parametrize("sides", [Sides.ONE_SIDED, Sides.TWO_SIDED])
def test_every_excess_of_a_batch_has_noise_of_its_own(sides: Sides) -> None:
    values = np.arange(-30, 30)
    found = make(sides).excess(NoisyThreshold(4), values, np.full(60, 7), BitSource.from_integer(6))
    nu = Geometric(Fraction(10)).sample_array(BitSource.from_integer(6), 60)
    compared = np.abs(values) if sides is Sides.TWO_SIDED else values
    assert found.tolist() == (compared + nu - 11).tolist()


def test_only_integers_are_compared() -> None:
    with pytest.raises(BudgetError, match="expected integer values on a grid, got dtype=float64"):
        require_integers(np.array([1.0]))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("sides", [Sides.ONE_SIDED, Sides.TWO_THRESHOLDS])
def test_a_negative_lies_below_the_margin_as_often_as_stated(noise: NoiseKind, sides: Sides) -> None:
    test = ThresholdTest(noise, sides, 1, sides is Sides.TWO_THRESHOLDS, Fraction(30), Fraction(20))
    margin = math.ceil(test.negative_margin(0.9))
    bits = BitSource.from_integer(77)
    values = np.full(1, 100 + margin)
    found = [
        int(test.compare(test.draw_threshold(bits), values, np.array([100]), bits)[0]) for _ in range(4000)
    ]
    # A value at the margin is found below with probability at most 10 %.
    assert found.count(0) / len(found) <= 0.1 + 4 * math.sqrt(0.09 / len(found))


def test_a_wider_confidence_has_a_wider_margin() -> None:
    assert make().negative_margin(0.99) > make().negative_margin(0.9) > 0


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
    test = make(sides, monotone=sides is Sides.TWO_THRESHOLDS)
    values = np.array([5, -5])
    with pytest.raises(BudgetError, match="the threshold noise was drawn for other sides than") as caught:
        test.compare(noisy, values, values, BitSource.from_integer(3))
    assert "3" not in str(caught.value)
