"""Split: the five ratios, and shares that add up exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pmw.errors import BudgetError
from pmw.sparse_vector import Ratio, Split


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
    assert (split.epsilon1, split.epsilon2, split.epsilon3) == (
        Fraction(1, 5),
        Fraction(3, 5),
        Fraction(1, 5),
    )
    assert split.epsilon == 1


@pytest.mark.parametrize(("epsilon", "values"), [(0, 0), (-1, 0), (1, 1), (1, 2), (1, -1)])
def test_shares_out_of_range_are_refused(epsilon: int, values: int) -> None:
    with pytest.raises(BudgetError, match="expected epsilon1 > 0, epsilon2 > 0 and epsilon3 >= 0"):
        Split.of(Ratio.EVEN, epsilon=epsilon, update_limit=3, values=values)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        Split.of(Ratio.EVEN, epsilon=1, update_limit=0)


def test_decimals_are_taken_as_written() -> None:
    assert Split(0.1, "0.2", 0).epsilon == Fraction(3, 10)  # type: ignore[arg-type]
