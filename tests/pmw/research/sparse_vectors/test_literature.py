"""Sparse vectors of the literature: what pays for every value, free gaps, and those of Lyu, Su and Li."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Composition, zcdp_rho
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import OutputDistribution, worst_log_ratio
from pmw.research.sparse_vectors import (
    FreeGap,
    NaiveAboveThreshold,
    algorithm_1,
    algorithm_2,
    algorithm_7,
    numeric_algorithm_7,
)
from pmw.sparse_vector import (
    Comparison,
    NoiseKind,
    Ratio,
    Sides,
    Sparse,
    SparseState,
    Split,
    ThresholdTest,
)
from tests.distributions import WRONG, attained, largest_ratio


def test_many_values_with_delta_take_gaussian_noise_and_few_laplace_noise() -> None:
    budget = Budget.of(1, "1e-9")
    many = NaiveAboveThreshold.of(epsilon=1, delta="1e-9", query_limit=1000)
    assert isinstance(many.value_noise, DiscreteGaussian)
    assert 1000 * many.charge.rho <= zcdp_rho(budget)
    assert float(1000 * many.charge.rho / zcdp_rho(budget)) == pytest.approx(1, abs=1e-9)
    with pytest.raises(BudgetError, match="expected Laplace noise for a pure price"):
        many.epsilon_at("1e-9")
    few = NaiveAboveThreshold.of(epsilon=1, delta="1e-9", query_limit=4)
    assert isinstance(few.value_noise, DiscreteLaplace)
    assert few.epsilon_at("1e-9") <= 1
    assert float(few.epsilon_at("1e-9")) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("factor", [Fraction(10, 13), Fraction(1), Fraction(13, 10)])
def test_the_price_is_attained_by_a_distribution_of_its_scale_alone(factor: Fraction) -> None:
    naive = NaiveAboveThreshold.of(epsilon=1, query_limit=3, sensitivity=2)
    assert isinstance(naive.value_noise, DiscreteLaplace)
    distribution = DiscreteLaplace(naive.value_noise.scale * factor)
    values = np.arange(-50, 51)
    # Values are released with independent noise, so the worst log-ratios of three add up.
    worst = 3 * float(np.abs(np.log(distribution.pmf(values) / distribution.pmf(values - 2))).max())
    assert (0.95 <= worst <= 1 + 1e-9) == (factor == 1)


def test_every_value_has_noise_of_its_own_and_outcomes_follow_from_the_noisy_values() -> None:
    naive, again = NaiveAboveThreshold(DiscreteLaplace(Fraction(9)), 100), BitSource.from_integer(4)
    thresholds = np.arange(20, 120)
    answered, outcomes, released = naive.scan(
        naive.open(), np.full(100, 70), thresholds, BitSource.from_integer(4)
    )
    assert (released - 70).tolist() == DiscreteLaplace(Fraction(9)).sample_array(again, 100).tolist()
    assert outcomes.tolist() == (released >= thresholds).astype(int).tolist()
    assert answered == 100


def test_it_halts_after_the_values_that_were_paid_for() -> None:
    naive, bits = NaiveAboveThreshold.of(epsilon=1, query_limit=2), BitSource.from_integer(3)
    answered = naive.open()
    for _ in range(2):
        answered, outcome, released = naive.step(answered, 10_000, 500, bits)
        assert outcome == 1
        assert math.isclose(released, 10_000, abs_tol=200)
    with pytest.raises(BudgetError, match="expected at most 0 more values of 2, got 1"):
        naive.step(answered, 10_000, 500, bits)
    with pytest.raises(BudgetError, match="expected at most 2 more values of 2, got 3"):
        naive.scan(0, np.zeros(3, dtype=int), np.zeros(3, dtype=int), bits)


THRESHOLD, GAPS = 2, np.arange(0, 60)
EVEN = Split(Fraction(1), Fraction(1))
VARIANTS = [
    (noise, sides, monotone)
    for noise in NoiseKind
    for sides, monotone in ((Sides.ONE_SIDED, False), (Sides.ONE_SIDED, True), (Sides.TWO_SIDED, False))
]


def gap_of(
    noise: NoiseKind,
    sides: Sides = Sides.ONE_SIDED,
    monotone: bool = False,
    *,
    factor: Fraction = Fraction(1),
) -> FreeGap:
    scales = Fraction(4), factor * Fraction(5)
    return FreeGap(Sparse(ThresholdTest(noise, sides, 1, monotone, *scales), 1, redraw=False))


def log_distribution(free: FreeGap, values: tuple[int, ...]) -> dict[int, NDArray[np.float64]]:
    """Return ln of the probability that the test at a place is the first to pass, for each of its gaps."""
    test = free.sparse.test
    reach = math.ceil(60 * test.threshold_scale)
    support = np.arange(0 if test.noise is NoiseKind.EXPONENTIAL else -reach, reach + 1)
    weights, distribution = test.threshold_noise.pmf(support), {}
    for place, value in enumerate(values):
        compared = abs(value) if test.sides is Sides.TWO_SIDED else value
        noise = GAPS[:, None] + THRESHOLD + support[None, :] - compared
        distribution[place] = np.log(test.query_noise.pmf(noise) @ weights)
        weights = weights * (1 - test.query_noise.survival(THRESHOLD + support - compared))
    return distribution


def worst(free: FreeGap) -> float:
    def distribution(values: tuple[int, ...]) -> OutputDistribution:
        logs = log_distribution(free, values)
        return {
            (place, gap): float(np.exp(one)) for place, row in logs.items() for gap, one in enumerate(row)
        }

    # Many negatives that rise force a large rho, where two-sided noise attains its bound.
    far = ((2,) * 41, (3,) * 40 + (2 if free.sparse.test.monotone else 1,))
    bases = [(2, 2, 2), (2, 1, 2), (-9, 30, 2), (2, 2, -40)]
    return max(
        worst_log_ratio(*map(distribution, far)),
        largest_ratio(distribution, bases, monotone=free.sparse.test.monotone),
    )


@pytest.mark.parametrize(("noise", "sides", "monotone"), VARIANTS)
def test_outcomes_and_gaps_together_stay_within_the_price(
    noise: NoiseKind, sides: Sides, monotone: bool
) -> None:
    free = gap_of(noise, sides, monotone)
    assert worst(free) <= float(free.epsilon) + 1e-9
    if sides is Sides.ONE_SIDED:
        assert worst(free) >= 0.95 * float(free.epsilon)


def test_the_price_is_that_of_the_tests() -> None:
    free = gap_of(NoiseKind.EXPONENTIAL)
    assert free.epsilon == Fraction(1, 4) + Fraction(2, 5)  # 0.65, which the enumeration attains
    assert worst(free) == pytest.approx(0.65, abs=1e-9)
    for composition in Composition:
        assert free.charges(composition) == free.sparse.charges(composition)


@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("factor", WRONG)
def test_a_scale_30_percent_off_shows_in_the_enumeration(noise: NoiseKind, factor: Fraction) -> None:
    claimed = float(gap_of(noise).epsilon)
    assert not 0.95 * claimed <= worst(gap_of(noise, factor=factor)) <= claimed + 1e-9


@pytest.mark.parametrize("noise", list(NoiseKind))
def test_a_gap_is_the_excess_of_the_value_that_passed(noise: NoiseKind) -> None:
    free, values, thresholds = gap_of(noise), np.array([5, -3, 7, 2, 6]), np.array([4, 2, 9, 3, 2])
    lengths = set()
    for seed in range(40):
        bits, again = BitSource.from_integer(seed), BitSource.from_integer(seed)
        state, outcomes, gap = free.scan(free.open(bits), values, thresholds, bits)
        opened = free.sparse.open(again)
        assert opened.noisy is not None
        nu = free.sparse.test.query_noise.sample_array(again, 5)
        excess = values + nu - thresholds - opened.noisy.upper
        positives = np.flatnonzero(excess >= 0)
        place = int(positives[0]) if len(positives) else 5
        assert outcomes.tolist() == [0] * min(place, 5) + [1] * (place < 5)
        assert gap == (int(excess[place]) if place < 5 else None)
        assert state == SparseState(opened.noisy, int(place < 5))
        lengths.add(place)
    assert len(lengths) > 3


def test_the_printed_scales() -> None:
    tests, split = Comparison(sensitivity=3), Split(Fraction(1, 4), Fraction(3, 4))
    found = (
        algorithm_1(epsilon=1, update_limit=10),
        algorithm_2(epsilon=1, update_limit=10),
        algorithm_7(tests, split, 10),
        algorithm_7(Comparison(sensitivity=3, monotone=True), split, 10),
    )
    assert [one.test.threshold_scale for one in found] == [2, 20, 12, 12]
    assert [one.test.query_scale for one in found] == [40, 40, 80, 40]
    assert [one.redraw for one in found] == [False, True, False, False]
    values = Split.of(Ratio.OPTIMAL, epsilon=1, update_limit=10, values=Fraction(1, 4))
    numeric = numeric_algorithm_7(tests, values, 10)
    assert numeric.value_noise == DiscreteLaplace(Fraction(120))  # c Delta/epsilon3
    assert 1 - 1e-11 < numeric.epsilon <= 1


def test_one_threshold_noise_without_c_redrawn_is_caught() -> None:
    # Algorithm 1 redrawn without scaling its threshold noise by c pays for the threshold c times.
    unscaled = Sparse(algorithm_1(epsilon=1, update_limit=4).test, 4, redraw=True)
    assert attained(unscaled) > 2


FREE, BITS, ONE = gap_of(NoiseKind.LAPLACE), BitSource.from_integer(1), np.array([1])
HALF: Any = np.array([0.5])
KEPT = FreeGap(Sparse(FREE.sparse.test, 2, redraw=False))
TWO = Comparison(sides=Sides.TWO_THRESHOLDS, monotone=True).priced(EVEN, 1)
REFUSED: list[tuple[str, Callable[[], object]]] = [
    (
        "expected integer values",
        lambda: NaiveAboveThreshold.of(epsilon=1, query_limit=2).scan(0, HALF, ONE, BITS),
    ),
    ("expected integer values", lambda: FREE.scan(FREE.open(BITS), HALF, ONE, BITS)),
    ("drawn once, but it is lost", lambda: KEPT.step(SparseState(None, 1), 0, 0, BITS)),
    ("expected one threshold for a free gap", lambda: FreeGap(Sparse(TWO, 1, redraw=False))),
    ("expected one threshold, got two", lambda: TWO.excess(TWO.draw_threshold(BITS), ONE, ONE, BITS)),
    ("expected epsilon3 = 0", lambda: algorithm_7(Comparison(), replace(EVEN, epsilon3=Fraction(1)), 2)),
    ("expected epsilon3 > 0", lambda: numeric_algorithm_7(Comparison(), EVEN, 2)),
]


@pytest.mark.parametrize(("told", "act"), REFUSED)
def test_what_cannot_be_is_refused(told: str, act: Callable[[], object]) -> None:
    with pytest.raises(BudgetError, match=told):
        act()


@pytest.mark.parametrize(
    ("epsilon", "limit", "sensitivity"),
    [(0, 3, 1), (-1, 3, 1), ("nan", 3, 1), ("inf", 3, 1), (1, 0, 1), (1, -3, 1), (1, 1, 0)],
)
def test_parameters_out_of_range_are_refused(epsilon: int | str, limit: int, sensitivity: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        NaiveAboveThreshold.of(epsilon=epsilon, query_limit=limit, sensitivity=sensitivity)
    for algorithm in (algorithm_1, algorithm_2):
        with pytest.raises(BudgetError, match="expected"):
            algorithm(epsilon=epsilon, update_limit=limit, sensitivity=sensitivity)
