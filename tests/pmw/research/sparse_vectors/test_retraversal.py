"""Retraversal: repeated passes are one sparse vector."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.errors import BudgetError
from pmw.privacy.budget import Composition
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import (
    OutputDistribution,
    adaptive_distribution,
    neighbor_patterns,
    tables_of,
    worst_log_ratio,
)
from pmw.research.audit.sound import retraversal_distribution
from pmw.research.sparse_vectors import Retraversal, algorithm_1, algorithm_7
from pmw.sparse_vector import (
    Comparison,
    NoiseKind,
    Sech2Test,
    Sides,
    Sparse,
    Split,
    ThresholdNoise,
    ThresholdTest,
)

VALUES = (1, 3, -1)
_SAME = Fraction(1)


def repeated(
    noise: NoiseKind, *, monotone: bool = False, redraw: bool = False, factor: Fraction = _SAME
) -> Retraversal:
    test = ThresholdTest(noise, Sides.ONE_SIDED, 1, monotone, 3 * factor, 4 * factor)
    return Retraversal(Sparse(test, 2, redraw), Fraction(1, 2), 2)


def places_of(outputs: tuple[int, ...], count: int) -> tuple[list[int], int | None]:
    """Return the places selected by the tests so far, and the place tested next: whole passes in order."""
    left, selected, waiting = list(range(count)), list[int](), list[int]()
    for output in outputs:
        waiting = waiting or list(left)
        place = waiting.pop(0)
        if output:
            selected.append(place)
            left.remove(place)
    return selected, (waiting or left or [None])[0]  # type: ignore[list-item]


def asker(values: tuple[int, ...], most: int) -> Callable[[tuple[int, ...]], int | None]:
    def ask(outputs: tuple[int, ...]) -> int | None:
        tests, selected = 0, 0
        for _ in range(most):  # how many tests all passes hold, given what was selected
            left = len(values) - selected
            tests, selected = tests + left, selected + sum(outputs[tests : tests + left])
        place = places_of(outputs, len(values))[1]
        return None if len(outputs) >= tests or place is None else values[place]

    return ask


def distribution_of(algorithm: Retraversal, values: tuple[int, ...]) -> OutputDistribution:
    tables = tables_of(algorithm.sparse.test, algorithm.raised)
    ask = asker(values, algorithm.passes)
    return adaptive_distribution(tables, ask, algorithm.sparse.update_limit, redraw=algorithm.sparse.redraw)


@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("redraw", [False, True])
def test_two_passes_stay_within_the_price_of_one_sparse_vector(
    noise: NoiseKind, monotone: bool, redraw: bool
) -> None:
    algorithm = repeated(noise, monotone=monotone, redraw=redraw)
    found = 0.0
    for base in (VALUES, (2, 2, 2), (4, 4, 4)):
        here = distribution_of(algorithm, base)
        for pattern in neighbor_patterns(3, monotone=monotone):
            moved = tuple(value + change for value, change in zip(base, pattern, strict=True))
            found = max(found, worst_log_ratio(here, distribution_of(algorithm, moved)))
    assert found <= float(algorithm.epsilon) + 1e-9
    if noise is NoiseKind.EXPONENTIAL and not redraw:  # a value cannot both rise and fall in two rounds
        assert found >= 0.95 * float(algorithm.epsilon)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", list(NoiseKind))
def test_selections_follow_the_distribution_that_is_audited(noise: NoiseKind) -> None:
    algorithm, bits, runs = repeated(noise), BitSource.from_integer(12), 3000
    limits = np.zeros(3, dtype=int)
    drawn = Counter(algorithm.select(np.array(VALUES), limits, bits) for _ in range(runs))

    def p_value(factor: Fraction) -> float:
        off = repeated(noise, factor=factor)
        distribution: Counter[tuple[int, ...]] = Counter()
        tables = tables_of(off.sparse.test, algorithm.raised)
        for outputs, probability in adaptive_distribution(tables, asker(VALUES, 2), 2, redraw=False).items():
            distribution[tuple(places_of(outputs, 3)[0])] += probability  # type: ignore[assignment]
        likely = [places for places, probability in distribution.items() if probability * runs >= 5]
        expected = np.array([distribution[places] for places in likely]) * runs
        counts = np.array([drawn[places] for places in likely])
        return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)

    assert p_value(Fraction(1)) > 1e-4
    for wrong in (Fraction(10, 13), Fraction(13, 10)):
        assert p_value(wrong) < 1e-4


def test_thresholds_rise_by_standard_deviations_of_the_test_noise() -> None:
    laplace = Retraversal.of(algorithm_1(epsilon=1, update_limit=5), deviations="1.5")
    assert laplace.raised == math.ceil(1.5 * math.sqrt(2) * 20)
    one_sided = algorithm_7(Comparison(NoiseKind.EXPONENTIAL), Split(Fraction(1, 2), Fraction(1, 2)), 5)
    assert Retraversal.of(one_sided, deviations=2).raised == 40
    assert Retraversal.of(one_sided, deviations=0).raised == 0


def test_the_price_is_that_of_one_run() -> None:
    sparse = algorithm_1(epsilon=1, update_limit=5)
    assert Retraversal(sparse).epsilon == 1
    for composition in Composition:
        assert Retraversal(sparse).charges(composition) == sparse.charges(composition)


def test_it_selects_c_large_values_and_none_twice() -> None:
    sparse, bits = algorithm_1(epsilon=8, update_limit=5), BitSource.from_integer(3)
    values = np.array([0, 900, 0, 901, 902, 0, 903, 904, 905])
    chosen = Retraversal.of(sparse, deviations=3).select(values, np.full(9, 500), bits)
    assert sorted(chosen) == [1, 3, 4, 6, 7]
    assert Retraversal.of(sparse).select(values[:2], np.full(2, 500), bits) == (1,)
    assert Retraversal.of(sparse).select(values[:0], np.full(0, 500), bits) == ()


def test_more_passes_find_what_one_does_not() -> None:
    # Values at the threshold, raised by three deviations: a pass selects a few of them only.
    values, limits = np.full(30, 500), np.full(30, 500)
    sparse = algorithm_1(epsilon=1, update_limit=10)
    sizes = []
    for passes in (1, 1000):
        algorithm = Retraversal.of(sparse, deviations=3, passes=passes)
        sizes.append(len(algorithm.select(values, limits, BitSource.from_integer(3))))
    assert sizes[0] < sizes[1] == 10


@pytest.mark.parametrize("noise", list(NoiseKind))
def test_more_passes_find_more_of_the_price_and_never_more_than_it(noise: NoiseKind) -> None:
    test = ThresholdTest(noise, Sides.ONE_SIDED, 1, False, Fraction(3), Fraction(4))
    found, price = [], 0.0
    for passes in (1, 2, 6, 20):
        again = Retraversal(Sparse(test, 2, redraw=False), Fraction(1, 2), passes)
        distribution, price = retraversal_distribution(again), float(again.epsilon)
        ratios = []
        for base in ((2, 2, 2), (6, 6, 6)):
            here = distribution(base, 2)
            assert math.fsum(here.values()) == pytest.approx(1, abs=1e-9)
            for pattern in neighbor_patterns(3, monotone=False):
                moved = tuple(value + change for value, change in zip(base, pattern, strict=True))
                ratios.append(worst_log_ratio(here, distribution(moved, 2)))
        found.append(max(ratios))
    assert found == pytest.approx(sorted(found), abs=1e-12)
    assert found[-1] <= price + 1e-9
    assert found[-1] >= (0.95 if noise is NoiseKind.EXPONENTIAL else 0.6) * price


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "redraw", "sides"),
    [
        (NoiseKind.LAPLACE, False, Sides.ONE_SIDED),
        (NoiseKind.EXPONENTIAL, True, Sides.ONE_SIDED),
        (NoiseKind.LAPLACE, True, Sides.TWO_THRESHOLDS),
        (NoiseKind.EXPONENTIAL, False, Sides.TWO_THRESHOLDS),
    ],
)
def test_one_draw_for_all_passes_has_the_distribution_of_tests_one_by_one(
    noise: NoiseKind, redraw: bool, sides: Sides
) -> None:
    monotone = sides is Sides.TWO_THRESHOLDS
    test = ThresholdTest(noise, sides, 1, monotone, Fraction(3), Fraction(4))
    again, values, limits = (
        Retraversal(Sparse(test, 2, redraw), passes=30),
        np.array([1, 3, -7]),
        np.full(3, 4),
    )
    runs, bits = 1000, BitSource.from_integer(21)
    drawn = [again.run(values, limits, bits).ravel() for _ in range(runs)]
    walked = [one_by_one(again, values, limits, bits) for _ in range(runs)]
    chosen = [Counter(tuple(one[1::2]) for one in side) for side in (drawn, walked)]
    likely = [places for places, count in (chosen[0] + chosen[1]).items() if count >= 20]
    table = [[*(side[places] for places in likely), 1] for side in chosen]
    assert stats.chi2_contingency(table).pvalue > 1e-4
    for which in (0, 2):  # the passes of the first and of the second positive
        passes = [
            np.array([one[which] if len(one) > which else 31 for one in side]) for side in (drawn, walked)
        ]
        assert stats.ks_2samp(passes[0], passes[1]).pvalue > 1e-4
        assert np.mean(passes[0]) > 1.3  # the test could tell a wrong distribution


def one_by_one(
    again: Retraversal, values: NDArray[np.int64], limits: NDArray[np.int64], bits: BitSource
) -> list[int]:
    """Return what ``run`` does, by one test of the sparse vector after the other."""
    state, left, found = again.sparse.open(bits), list(range(len(values))), list[int]()
    for number in range(1, again.passes + 1):
        for place in list(left):
            state, outcome = again.sparse.step(state, values[place], limits[place] + again.raised, bits)
            if outcome:
                found += [number, place]
                left.remove(place)
            if state.positives == again.sparse.update_limit:
                return found
    return found


def test_a_million_passes_take_no_longer_than_one() -> None:
    # No value comes near: pass after pass, this would be 10^12 tests.
    sparse = algorithm_1(epsilon=50, update_limit=2)
    algorithm = Retraversal.of(sparse, deviations=5, passes=10**6)
    far = np.zeros(10**6, dtype=int)
    assert algorithm.select(far, np.full(10**6, 10**6), BitSource.from_integer(1)) == ()


def test_tests_of_another_kind_are_refused() -> None:
    test = Sech2Test(ThresholdNoise.LAPLACE, Sides.ONE_SIDED, 1, True, Fraction(3), Fraction(4))
    with pytest.raises(BudgetError, match="Laplace or exponential noise"):
        Retraversal(Sparse(test, 2, redraw=False))


def test_passes_end_at_their_bound() -> None:
    sparse = algorithm_1(epsilon=50, update_limit=2)
    algorithm = Retraversal.of(sparse, deviations=5, passes=3)
    assert algorithm.select(np.zeros(4, dtype=int), np.full(4, 10**6), BitSource.from_integer(1)) == ()


@pytest.mark.parametrize(("deviations", "passes"), [(-1, 3), (1, 0), (1, 2**40 + 1), ("nan", 2)])
def test_parameters_out_of_range_are_refused(deviations: int | str, passes: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        Retraversal.of(algorithm_1(epsilon=1, update_limit=2), deviations=deviations, passes=passes)


def test_only_integers_are_compared() -> None:
    with pytest.raises(BudgetError, match="expected integer values"):
        Retraversal(algorithm_1(epsilon=1, update_limit=2)).select(
            np.array([0.5]),
            np.array([1]),
            BitSource.from_integer(1),
        )


def test_the_reference_of_these_tests_walks_the_passes_in_order() -> None:
    assert places_of((0, 1, 0), 3) == ([1], 0)
    assert places_of((0, 1, 0, 0, 1), 3) == ([1, 2], 0)
    ask = asker((7, 8), 2)
    assert [ask((0,) * tests) for tests in range(5)] == [7, 8, 7, 8, None]
