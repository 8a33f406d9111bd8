"""FreeGap: gaps cost nothing, and never are the value."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Composition
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import OutputDistribution, worst_log_ratio
from pmw.research.sparse_vectors import FreeGap
from pmw.sparse_vector import Comparison, NoiseKind, Outcome, Sides, Sparse, SparseState, Split, ThresholdTest
from tests.distributions import WRONG, largest_ratio

THRESHOLD, GAPS = 2, np.arange(0, 60)
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


def test_it_says_by_how_much_a_value_passed_and_nothing_of_a_negative() -> None:
    free, bits = gap_of(NoiseKind.LAPLACE), BitSource.from_integer(2)
    state = free.open(bits)
    state, outcome, gap = free.step(state, -500, 100, bits)
    assert (outcome, gap, state.positives) == (Outcome.BELOW, None, 0)
    state, outcome, gap = free.step(state, 1100, 100, bits)
    assert outcome is Outcome.ABOVE
    assert gap == pytest.approx(1000, abs=80)
    with pytest.raises(BudgetError, match="it halted after 1 positives"):
        free.step(state, 0, 0, bits)


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


def test_a_redrawn_round_ends_with_its_gap() -> None:
    sparse = Sparse(Comparison().priced(Split(Fraction(1), Fraction(1)), 1), 2, redraw=True)
    bits = BitSource.from_integer(6)
    free = FreeGap(sparse)
    state, outcomes, gap = free.scan(free.open(bits), np.array([0, 900, 900]), np.full(3, 400), bits)
    assert (outcomes.tolist(), state) == ([0, 1], SparseState(None, 1))
    assert gap == pytest.approx(500, abs=50)


def test_a_kept_threshold_that_is_lost_is_refused() -> None:
    sparse = Sparse(gap_of(NoiseKind.LAPLACE).sparse.test, 2, redraw=False)
    with pytest.raises(BudgetError, match="drawn once, but it is lost"):
        FreeGap(sparse).step(SparseState(None, 1), 0, 0, BitSource.from_integer(1))


def test_two_thresholds_and_other_than_integers_are_refused() -> None:
    two = Comparison(sides=Sides.TWO_THRESHOLDS, monotone=True).priced(Split(Fraction(1), Fraction(1)), 1)
    with pytest.raises(BudgetError, match="expected one threshold for a free gap"):
        FreeGap(Sparse(two, 1, redraw=False))
    free, bits = gap_of(NoiseKind.LAPLACE), BitSource.from_integer(1)
    with pytest.raises(BudgetError, match="expected integer values"):
        free.scan(free.open(bits), np.array([0.5]), np.array([1]), bits)
    with pytest.raises(BudgetError, match="expected one threshold, got two"):
        two.excess(two.draw_threshold(bits), np.array([1]), np.array([1]), bits)
