"""The top c values: the exact distribution of the choices, and what they cost."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, zcdp_rho
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.research.audit import OutputDistribution, neighbor_patterns, worst_log_ratio
from pmw.research.sparse_vectors import TopC, top_c

BASES = [(0, 0, 0, 0), (5, 0, 3, 1), (40, -60, 0, -60), (0, 40, 40, -60)]


def distribution_of(chooser: TopC, values: tuple[int, ...]) -> OutputDistribution:
    """Return the probability of every ordered choice, from the distribution of one."""
    distribution = {}
    for choice in itertools.permutations(range(len(values)), chooser.count):
        left, probability = list(range(len(values))), 1.0
        for place in choice:
            shares = chooser.mechanism.probabilities(np.array([values[other] for other in left]))
            probability *= float(shares[left.index(place)])
            left.remove(place)
        distribution[choice] = probability
    return distribution


def worst(chooser: TopC, *, monotone: bool) -> float:
    unit, found = chooser.mechanism.sensitivity, 0.0
    for base in BASES:
        here = distribution_of(chooser, base)
        for pattern in neighbor_patterns(4, monotone=monotone):
            moved = tuple(value + unit * change for value, change in zip(base, pattern, strict=True))
            found = max(found, worst_log_ratio(here, distribution_of(chooser, moved)))
    return found


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_choices_stay_within_the_price_and_attain_it(count: int, monotone: bool, sensitivity: int) -> None:
    chooser = TopC.of(epsilon=3, count=count, monotone=monotone, sensitivity=sensitivity)
    assert chooser.epsilon == 3
    found = worst(chooser, monotone=monotone)
    assert 0.95 * 3 <= found <= 3 + 1e-9


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("wrong", [Fraction(10, 13), Fraction(13, 10)])
def test_a_scale_30_percent_off_leaves_the_band(wrong: Fraction, monotone: bool) -> None:
    mechanism = TopC.of(epsilon=3, count=2, monotone=monotone).mechanism
    off = TopC(ExponentialMechanism(1, mechanism.epsilon * wrong, monotone), 2)
    assert not 0.95 * 3 <= worst(off, monotone=monotone) <= 3 + 1e-9


def test_the_monotone_scale_is_not_for_values_that_move_apart() -> None:
    assert worst(TopC.of(epsilon=3, count=2, monotone=True), monotone=False) > 3.5


@pytest.mark.statistical
def test_choices_follow_the_distribution_and_no_other_scale() -> None:
    values, bits, runs = (0, 2, 3, 3, -9), BitSource.from_integer(5), 2500
    chooser = TopC.of(epsilon=4, count=2, monotone=True)
    drawn = Counter(chooser.select(np.array(values), bits) for _ in range(runs))

    def p_value(epsilon: Fraction) -> float:
        distribution = distribution_of(TopC.of(epsilon=epsilon, count=2, monotone=True), values)
        likely = [choice for choice, probability in distribution.items() if probability * runs >= 5]
        expected = np.array([distribution[choice] for choice in likely]) * runs
        counts = np.array([drawn[choice] for choice in likely])
        return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)

    assert p_value(Fraction(4)) > 1e-4
    for wrong in (Fraction(10, 13), Fraction(13, 10)):
        assert p_value(4 * wrong) < 1e-6


def test_large_values_are_found_and_none_twice() -> None:
    values = np.arange(3000) // 30 * 400
    chosen = top_c(values, BitSource.from_integer(5), count=30, epsilon=10, monotone=True)
    assert sorted(chosen) == list(range(2970, 3000))


def test_all_values_may_be_chosen() -> None:
    assert sorted(top_c(np.array([5, 1, 3]), BitSource.from_integer(5), count=3, epsilon=1)) == [0, 1, 2]


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
        top_c(values, BitSource.from_integer(1), count=2, epsilon=1)
