"""Comparison: scales follow from prices and are never rounded down."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError, NoiseError
from pmw.sparse_vector import Comparison, NoiseKind, Ratio, Sides, Split, ThresholdTest
from pmw.sparse_vector.composition import scale_up


def test_scales_are_sensitivity_over_price() -> None:
    split = Split(Fraction(1, 3), Fraction(2, 3))
    general = Comparison(sensitivity=5).priced(split, 4)
    assert (general.threshold_scale, general.query_scale) == (Fraction(15), 2 * 4 * 5 * Fraction(3, 2))
    monotone = Comparison(sensitivity=5, monotone=True).priced(split, 4)
    assert (monotone.threshold_scale, monotone.query_scale) == (Fraction(15), 4 * 5 * Fraction(3, 2))


def test_the_best_ratio_depends_on_the_rate() -> None:
    assert Comparison().best_ratio is Ratio.OPTIMAL
    assert Comparison(monotone=True).best_ratio is Ratio.OPTIMAL_MONOTONE


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


@pytest.mark.parametrize("denominator", [3**40, 7**30, 10**17])
def test_a_price_with_many_digits_is_never_exceeded(denominator: int) -> None:
    split = Split(Fraction(denominator // 3, denominator), Fraction(denominator // 7, denominator))
    test = Comparison().priced(split, 3)
    assert test.threshold_price <= split.epsilon1
    assert 3 * test.positive_price <= split.epsilon2


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


@pytest.mark.parametrize(("ratio", "rate"), [(Ratio.OPTIMAL, 2), (Ratio.OPTIMAL_MONOTONE, 1)])
@pytest.mark.parametrize("limit", [1, 4, 300])
def test_the_optimal_ratio_has_the_least_variance(ratio: Ratio, rate: int, limit: int) -> None:
    def variance(first: Fraction) -> float:
        return float(2 / first**2 + 2 * (rate * limit / (1 - first)) ** 2)

    best = Split.of(ratio, epsilon=1, update_limit=limit).epsilon1
    for factor in (Fraction(98, 100), Fraction(102, 100)):
        assert variance(best) < variance(best * factor)


def test_values_take_their_share_first() -> None:
    split = Split.of(Ratio.ONE_TO_THREE, epsilon=1, update_limit=7, values="0.2")
    assert split == Split(Fraction(1, 5), Fraction(3, 5), Fraction(1, 5))
    assert split.epsilon == 1
    assert Split(0.1, "0.2", 0).epsilon == Fraction(3, 10)  # type: ignore[arg-type]  # as they are written


@pytest.mark.parametrize(("epsilon", "values"), [(0, 0), (-1, 0), (1, 1), (1, 2), (1, -1)])
def test_shares_out_of_range_are_refused(epsilon: int, values: int) -> None:
    with pytest.raises(BudgetError, match="expected epsilon1 > 0, epsilon2 > 0 and epsilon3 >= 0"):
        Split.of(Ratio.EVEN, epsilon=epsilon, update_limit=3, values=values)
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        Split.of(Ratio.EVEN, epsilon=1, update_limit=0)
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        Comparison().priced(Split(Fraction(1), Fraction(1)), 0)
