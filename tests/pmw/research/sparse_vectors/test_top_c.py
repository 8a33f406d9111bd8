"""The top c values: the exact distribution of the choices, and what they cost."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, zcdp_rho
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.research.audit.sound import chooser_distribution
from pmw.research.sparse_vectors import TopC
from tests.distributions import WRONG, fit, largest_ratio, require_scale

BASES = [(0, 0, 0, 0), (5, 0, 3, 1), (40, -60, 0, -60), (0, 40, 40, -60)]


def worst(chooser: TopC, *, monotone: bool) -> float:
    distribution = chooser_distribution(chooser)
    unit = chooser.mechanism.sensitivity
    return largest_ratio(lambda values: distribution(values, 0), BASES, monotone=monotone, unit=unit)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_choices_stay_within_the_price_and_attain_it(count: int, monotone: bool, sensitivity: int) -> None:
    chooser = TopC.of(epsilon=3, count=count, monotone=monotone, sensitivity=sensitivity)
    assert chooser.epsilon == 3
    found = worst(chooser, monotone=monotone)
    assert 0.95 * 3 <= found <= 3 + 1e-9


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_scale_30_percent_off_leaves_the_band(wrong: Fraction, monotone: bool) -> None:
    mechanism = TopC.of(epsilon=3, count=2, monotone=monotone).mechanism
    off = TopC(ExponentialMechanism(1, mechanism.epsilon * wrong, monotone), 2)
    assert not 0.95 * 3 <= worst(off, monotone=monotone) <= 3 + 1e-9


def test_the_monotone_scale_is_not_for_values_that_move_apart() -> None:
    assert worst(TopC.of(epsilon=3, count=2, monotone=True), monotone=False) > 3.5


@pytest.mark.statistical
def test_choices_follow_the_distribution_and_no_other_scale() -> None:
    values, bits = (0, 2, 3, 3, -9), BitSource.from_integer(5)
    chooser = TopC.of(epsilon=4, count=2, monotone=True)
    drawn = Counter(chooser.select(np.array(values), bits) for _ in range(1500))

    def p_value(factor: Fraction) -> float:
        off = TopC.of(epsilon=4 / factor, count=2, monotone=True)
        return fit(drawn, chooser_distribution(off)(values, 0))

    require_scale(p_value, wrong=1e-4)


def test_large_values_are_found_and_none_twice() -> None:
    values, bits = np.arange(3000) // 30 * 400, BitSource.from_integer(5)
    chosen = TopC.of(epsilon=10, count=30, monotone=True).select(values, bits)
    assert sorted(chosen) == list(range(2970, 3000))
    assert sorted(TopC.of(epsilon=1, count=3).select(np.array([5, 1, 3]), bits)) == [0, 1, 2]


def test_with_delta_the_choices_share_a_rho() -> None:
    rho = zcdp_rho(Budget.of(1, "1e-9"))
    many = TopC.of(epsilon=1, delta="1e-9", count=200)
    assert 200 * many.charge.rho <= rho * (1 + Fraction(1, 10**9))
    assert many.mechanism.epsilon == pytest.approx(math.sqrt(8 * float(rho) / 200), rel=1e-6)
    # Bounded range halves the price of a pure round: 0.0245 against 0.0122.
    assert float(many.mechanism.epsilon) == pytest.approx(0.02447, abs=1e-5)
    few = TopC.of(epsilon=1, delta="1e-9", count=2)
    assert few.mechanism.epsilon == Fraction(1, 2)


def test_a_price_with_many_digits_is_never_exceeded() -> None:
    chooser = TopC.of(epsilon=Fraction(3**35, 7**20), count=3)
    assert 0 < chooser.epsilon <= Fraction(3**35, 7**20)


@pytest.mark.parametrize(
    ("epsilon", "count", "sensitivity"), [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, -2, 1), (1, 1, 0)]
)
def test_parameters_out_of_range_are_refused(epsilon: int, count: int, sensitivity: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        TopC.of(epsilon=epsilon, count=count, sensitivity=sensitivity)
    with pytest.raises(BudgetError, match="at least 1 value to choose"):
        TopC(ExponentialMechanism(1, Fraction(1)), 0)


@pytest.mark.parametrize("values", [np.array([1]), np.array([1.0, 2.0]), np.zeros((2, 2), dtype=int)])
def test_values_that_cannot_be_are_refused(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    with pytest.raises(BudgetError, match="expected"):
        TopC.of(epsilon=1, count=2).select(values, BitSource.from_integer(1))
