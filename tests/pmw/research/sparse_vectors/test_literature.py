"""Sparse vectors of the literature: what pays for every value, free gaps, and those of Lyu, Su and Li."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Composition, zcdp_rho
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.research.audit import OutputDistribution, tables_of, tree_distribution, worst_log_ratio
from pmw.research.audit.catalogue import chooser_distribution, retraversal_distribution
from pmw.research.sparse_vectors import (
    FreeGap,
    NaiveAboveThreshold,
    Retraversal,
    TopC,
    algorithm_1,
    algorithm_2,
    algorithm_7,
    numeric_algorithm_7,
)
from pmw.sparse_vector import (
    Comparison,
    NoiseKind,
    Sech2Test,
    Sides,
    Sparse,
    SparseState,
    Split,
    ThresholdNoise,
    ThresholdTest,
)
from tests.distributions import WRONG, Values, attained, fit, largest_ratio, require_scale


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
        assert released == pytest.approx(10_000, abs=200)
    with pytest.raises(BudgetError, match="expected at most 0 more values of 2, got 1"):
        naive.step(answered, 10_000, 500, bits)
    with pytest.raises(BudgetError, match="expected at most 2 more values of 2, got 3"):
        naive.scan(0, np.zeros(3, dtype=int), np.zeros(3, dtype=int), bits)


THRESHOLD, GAPS = 2, np.arange(0, 60)
EVEN = Split(Fraction(1), Fraction(1))


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


def worst_gap(free: FreeGap) -> float:
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


@pytest.mark.parametrize(
    ("noise", "sides", "monotone"),
    [
        (NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, False),
        (NoiseKind.LAPLACE, Sides.ONE_SIDED, True),
        (NoiseKind.EXPONENTIAL, Sides.TWO_SIDED, False),
    ],
)
def test_outcomes_and_gaps_together_stay_within_the_price(
    noise: NoiseKind, sides: Sides, monotone: bool
) -> None:
    free = gap_of(noise, sides, monotone)
    assert free.epsilon == Fraction(1, 4) + Fraction(1 if monotone else 2, 5)  # that of the tests alone
    assert all(free.charges(composition) == free.sparse.charges(composition) for composition in Composition)
    found = worst_gap(free)
    assert found <= float(free.epsilon) + 1e-9
    if sides is Sides.ONE_SIDED:
        assert found >= 0.95 * float(free.epsilon)


@pytest.mark.parametrize("factor", WRONG)
def test_a_scale_30_percent_off_shows_in_the_enumeration(factor: Fraction) -> None:
    claimed = float(gap_of(NoiseKind.EXPONENTIAL).epsilon)
    found = worst_gap(gap_of(NoiseKind.EXPONENTIAL, factor=factor))
    assert not 0.95 * claimed <= found <= claimed + 1e-9


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


@pytest.mark.parametrize(
    ("epsilon", "limit", "sensitivity"), [(0, 3, 1), ("nan", 3, 1), (1, 0, 1), (1, 1, 0)]
)
def test_parameters_out_of_range_are_refused(epsilon: int | str, limit: int, sensitivity: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        NaiveAboveThreshold.of(epsilon=epsilon, query_limit=limit, sensitivity=sensitivity)
    for algorithm in (algorithm_1, algorithm_2):
        with pytest.raises(BudgetError, match="expected"):
            algorithm(epsilon=epsilon, update_limit=limit, sensitivity=sensitivity)


# --- choices of the largest values: by the exponential mechanism, and by passes of a sparse vector ----------


@pytest.mark.statistical
def test_choices_follow_the_distribution_and_no_other_scale() -> None:
    values, bits = (0, 2, 3, 3, -9), BitSource.from_integer(5)
    chooser = TopC.of(epsilon=4, count=2, monotone=True)
    assert chooser.epsilon == TopC.of(epsilon=4, count=2, sensitivity=3).epsilon == 4
    drawn = Counter(chooser.select(np.array(values), bits) for _ in range(1000))

    def p_value(factor: Fraction) -> float:
        off = TopC.of(epsilon=4 / factor, count=2, monotone=True)
        return fit(drawn, chooser_distribution(off)(values, 0))

    require_scale(p_value, wrong=1e-4)


def test_with_delta_the_choices_share_a_rho() -> None:
    rho = zcdp_rho(Budget.of(1, "1e-9"))
    many = TopC.of(epsilon=1, delta="1e-9", count=200)
    assert 200 * many.charge.rho <= rho * (1 + Fraction(1, 10**9))
    assert many.mechanism.epsilon == pytest.approx(math.sqrt(8 * float(rho) / 200), rel=1e-6)
    # Bounded range halves the price of a pure round: 0.0245 against 0.0122.
    assert float(many.mechanism.epsilon) == pytest.approx(0.02447, abs=1e-5)
    few = TopC.of(epsilon=1, delta="1e-9", count=2)
    assert few.mechanism.epsilon == Fraction(1, 2)
    digits = Fraction(3**35, 7**20)  # too many for a sampler: never exceeded
    assert 0 < TopC.of(epsilon=digits, count=3).epsilon <= digits


VALUES = (1, 3, -1)


def repeated(
    noise: NoiseKind,
    sides: Sides = Sides.ONE_SIDED,
    *,
    monotone: bool = False,
    redraw: bool = False,
    factor: Fraction = Fraction(1),
) -> Retraversal:
    test = ThresholdTest(noise, sides, 1, monotone, 3 * factor, 4 * factor)
    return Retraversal(Sparse(test, 2, redraw), Fraction(1, 2), 2)


def walked(outputs: Values, count: int) -> tuple[list[int], int, int | None]:
    """Return pass and place of each value selected so far, and pass and place of the test that is next.

    One test after the other, in whole passes over what is left.
    """
    left, waiting, selected, number = list(range(count)), list(range(count)), list[int](), 1
    for output in outputs:
        if not waiting:
            waiting, number = list(left), number + 1
        place = waiting.pop(0)
        if output:
            selected += [number, place]
            left.remove(place)
    return selected, number + (not waiting), (waiting or left or [None])[0]  # type: ignore[list-item]


def walk(values: Values, passes: int, outputs: Values) -> int | None:
    """Return the value of the test that is next, or None after the last pass."""
    _, number, place = walked(outputs, len(values))
    return None if place is None or number > passes else values[place]


def selections(algorithm: Retraversal, values: Values, threshold: int) -> dict[Values, float]:
    """Return the distribution of pass and place of each selected value."""
    found: dict[Values, float] = {}
    tables = tables_of(algorithm.sparse, threshold)
    tests = tree_distribution(tables, partial(walk, values, algorithm.passes))  # all of them, one by one
    for output, chance in tests.items():
        selected = tuple(walked(output, len(values))[0])
        found[selected] = found.get(selected, 0.0) + chance
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "redraw", "sides", "values"),
    [
        (NoiseKind.LAPLACE, False, Sides.ONE_SIDED, (0, 4, -6)),
        (NoiseKind.EXPONENTIAL, True, Sides.ONE_SIDED, (0, 4, -6)),
        (NoiseKind.EXPONENTIAL, False, Sides.TWO_THRESHOLDS, (0, 4, -6)),
    ],
)
def test_one_draw_for_all_passes_has_the_distribution_of_tests_one_by_one(
    noise: NoiseKind, redraw: bool, sides: Sides, values: Values
) -> None:
    repeat = partial(repeated, noise, sides, monotone=sides is Sides.TWO_THRESHOLDS, redraw=redraw)
    algorithm, bits, thresholds = repeat(), BitSource.from_integer(12), np.zeros(3, dtype=int)
    drawn = Counter(
        tuple(algorithm.run(np.array(values), thresholds, bits).ravel().tolist()) for _ in range(2000)
    )
    require_scale(
        lambda factor: fit(drawn, selections(repeat(factor=factor), values, algorithm.raised)), wrong=1e-4
    )


def test_the_audit_has_the_distribution_of_tests_one_by_one() -> None:
    algorithm = repeated(NoiseKind.LAPLACE)
    expected = selections(algorithm, VALUES, algorithm.raised)
    assert retraversal_distribution(algorithm)(VALUES, 0) == pytest.approx(expected, abs=1e-12)


def test_thresholds_rise_by_standard_deviations_of_the_test_noise_at_the_price_of_one_run() -> None:
    sparse = algorithm_1(epsilon=1, update_limit=5)
    laplace = Retraversal.of(sparse, deviations="1.5")
    assert laplace.raised == math.ceil(1.5 * math.sqrt(2) * 20)
    assert laplace.epsilon == 1
    assert all(laplace.charges(one) == sparse.charges(one) for one in Composition)
    one_sided = algorithm_7(Comparison(NoiseKind.EXPONENTIAL), Split(Fraction(1, 2), Fraction(1, 2)), 5)
    assert [Retraversal.of(one_sided, deviations=many).raised for many in (2, 0)] == [40, 0]


def test_it_selects_c_large_values_and_none_twice() -> None:
    sparse, bits = algorithm_1(epsilon=8, update_limit=5), BitSource.from_integer(3)
    values = np.array([0, 900, 0, 901, 902, 0, 903, 904, 905])
    chosen = Retraversal.of(sparse, deviations=3).select(values, np.full(9, 500), bits)
    assert sorted(chosen) == [1, 3, 4, 6, 7]
    assert Retraversal.of(sparse).select(values[:2], np.full(2, 500), bits) == (1,)
    assert Retraversal.of(sparse).select(values[:0], np.full(0, 500), bits) == ()


def test_more_passes_find_more_of_the_price_and_never_more_than_it() -> None:
    sparse = repeated(NoiseKind.EXPONENTIAL).sparse
    found, price = [], float(sparse.epsilon)
    for passes in (1, 4, 12):
        distribution = retraversal_distribution(Retraversal(sparse, Fraction(1, 2), passes))
        assert math.fsum(distribution((2, 2, 2), 0).values()) == pytest.approx(1, abs=1e-9)
        bases = [(0, 0, 0), (4, 4, 4)]
        ratio = largest_ratio(lambda values, of=distribution: of(values, 0), bases, monotone=False)  # type: ignore[misc]
        found.append(ratio)
    assert found == pytest.approx(sorted(found), abs=1e-12)
    assert 0.95 * price <= found[-1] <= price + 1e-9


def test_a_million_passes_take_no_longer_than_one() -> None:
    # No value comes near: pass after pass, this would be 10^12 tests.
    sparse = algorithm_1(epsilon=50, update_limit=2)
    algorithm = Retraversal.of(sparse, deviations=5, passes=10**6)
    far = np.zeros(10**6, dtype=int)
    assert algorithm.select(far, np.full(10**6, 10**6), BitSource.from_integer(1)) == ()


SECH2 = Sech2Test(ThresholdNoise.LAPLACE, Sides.ONE_SIDED, 1, True, Fraction(3), Fraction(4))
TWO_PASSES = algorithm_1(epsilon=1, update_limit=2)
PASSES: list[tuple[int | str, int]] = [(-1, 3), (1, 0), (1, 2**40 + 1), ("nan", 2)]


@pytest.mark.parametrize(
    ("told", "act"),
    [
        *REFUSED,
        ("at least 1 value to choose", lambda: TopC(ExponentialMechanism(1, Fraction(1)), 0)),
        ("Laplace or exponential noise", lambda: Retraversal(Sparse(SECH2, 2, redraw=False))),
        ("expected integer values", lambda: Retraversal(TWO_PASSES).select(HALF, np.array([1]), BITS)),
        *[
            ("expected", partial(TopC.of, epsilon=epsilon, count=count, sensitivity=unit))
            for epsilon, count, unit in [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
        ],
        *[
            ("expected", partial(TopC.of(epsilon=1, count=2).select, values, BITS))
            for values in (np.array([1]), np.array([1.0, 2.0]), np.zeros((2, 2), dtype=int))
        ],
        *[
            ("expected", partial(Retraversal.of, TWO_PASSES, deviations=deviations, passes=passes))
            for deviations, passes in PASSES
        ],
    ],
)
def test_what_cannot_be_is_refused(told: str, act: Callable[[], object]) -> None:
    with pytest.raises(BudgetError, match=told):
        act()
