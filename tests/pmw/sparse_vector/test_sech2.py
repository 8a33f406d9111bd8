"""The sech^2 test: its distribution, its prices, its secrets and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.errors import BudgetError, NoiseError
from pmw.privacy.budget import RHO_GRID, Charge, Composition, pure_charge, round_up
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import FreeGap
from pmw.sparse_vector import (
    NoiseKind,
    NoisyThreshold,
    NumericSparse,
    Outcome,
    Sech2Test,
    Sides,
    Sparse,
    ThresholdNoise,
)

SCALE = Fraction(10)


def make(
    noise: ThresholdNoise = ThresholdNoise.GAUSSIAN,
    sides: Sides = Sides.ONE_SIDED,
    *,
    monotone: bool = False,
    threshold_scale: Fraction = Fraction(8),
    query_scale: Fraction = SCALE,
) -> Sech2Test:
    return Sech2Test(noise, sides, 2, monotone, threshold_scale, query_scale)


def signed(noise: ThresholdNoise = ThresholdNoise.GAUSSIAN) -> Sech2Test:
    return make(noise, Sides.TWO_THRESHOLDS, monotone=True)


def two_sided_p(found: int, count: int, probability: float) -> float:
    return float(stats.binomtest(found, count, probability).pvalue)


def passes(test: Sech2Test, distance: int, count: int, seed: int) -> NDArray[np.int8]:
    """Return the outcomes of ``count`` tests of a value that lies ``distance`` below its noisy threshold."""
    values = np.full(count, 1000 - distance)
    return test.compare(NoisyThreshold(0), values, np.full(count, 1000), BitSource.from_integer(seed))


@pytest.mark.statistical
@pytest.mark.parametrize("distance", [-50, 0, 1, 4, 12, 30, 70])
def test_a_value_passes_with_the_squared_hyperbolic_secant(distance: int) -> None:
    count = 6000
    distribution = 1.0 if distance <= 0 else 1 / math.cosh(distance / (2 * float(SCALE))) ** 2
    found = int(passes(make(), distance, count, 11).sum())
    assert make().pass_probability(np.array([distance]))[0] == pytest.approx(distribution)
    assert found == count if distance <= 0 else two_sided_p(found, count, distribution) > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
def test_a_scale_that_is_off_by_30_percent_is_noticed(factor: Fraction) -> None:
    found = int(passes(make(query_scale=SCALE * factor), 20, 6000, 12).sum())
    assert two_sided_p(found, 6000, float(make().pass_probability(np.array([20]))[0])) < 1e-9


def test_a_threshold_draw_and_a_positive_are_charged_as_they_come_under_zcdp() -> None:
    laplace = Sparse(make(ThresholdNoise.LAPLACE), 50, redraw=False)
    parts = pure_charge(Fraction(2, 8)), pure_charge(Fraction(4, 10))
    assert laplace.charges(Composition.ZCDP) == tuple(replace(part, mu_squared=None) for part in parts)
    gaussian = Sparse(signed(), 50, redraw=False)
    opening, positive = gaussian.charges(Composition.ZCDP)
    assert opening == Charge(None, Fraction(4, 2 * 64))
    assert positive == Charge(Fraction(1, 5), round_up(Fraction(1, 50), RHO_GRID))


def test_epsilons_add_as_for_any_comparison() -> None:
    sparse = Sparse(make(ThresholdNoise.EXPONENTIAL), 50, redraw=False)
    opening, positive = sparse.charges(Composition.PURE)
    assert (opening.epsilon, positive.epsilon) == (Fraction(1, 4), Fraction(2, 5))
    assert sparse.total_epsilon == Fraction(1, 4) + 50 * Fraction(2, 5)


def test_exponential_noise_pays_its_epsilon_in_rho_and_not_half_the_square() -> None:
    # Shifted by Delta it diverges by Delta/b1 at every order, so near order 1 no smaller rho holds.
    charge = make(ThresholdNoise.EXPONENTIAL).threshold_charge
    assert charge == Charge(Fraction(1, 4), Fraction(1, 4))


def test_gaussian_threshold_noise_has_no_pure_price() -> None:
    with pytest.raises(BudgetError, match="expected pure threshold noise, got Gaussian"):
        make().threshold_price  # noqa: B018
    opening, _ = Sparse(make(), 2, redraw=False).charges(Composition.PURE)
    with pytest.raises(BudgetError, match="expected a pure event under a pure budget"):
        PrivacyFilter(Composition.PURE, Fraction(1)).price(opening)


def test_a_round_that_is_redrawn_pays_for_each_draw() -> None:
    test = make()
    opening, positive = Sparse(test, 3, redraw=True).charges(Composition.ZCDP)
    assert opening == test.threshold_charge + test.positive_charge
    assert positive == pure_charge(Fraction(0))


def test_thresholds_are_drawn_from_the_named_distribution() -> None:
    assert make(ThresholdNoise.EXPONENTIAL).threshold_noise == Geometric(Fraction(8))
    assert make(ThresholdNoise.LAPLACE).threshold_noise == DiscreteLaplace(Fraction(8))
    assert make(ThresholdNoise.GAUSSIAN).threshold_noise == DiscreteGaussian(Fraction(8))


def test_two_thresholds_draw_two_separate_noises_and_tell_the_sign() -> None:
    bits = BitSource.from_integer(2)
    drawn = [signed().draw_threshold(bits) for _ in range(30)]
    assert any(noisy.upper != noisy.lower for noisy in drawn)
    assert all(make().draw_threshold(bits).lower is None for _ in range(5))
    values = np.array([10**6, -(10**6), 0])
    found = signed().compare(NoisyThreshold(3, 5), values, np.full(3, 10_000), bits)
    assert found.tolist() == [Outcome.ABOVE, Outcome.ABOVE_NEGATED, Outcome.BELOW]


@pytest.mark.statistical
def test_the_second_of_a_pair_is_of_no_effect_once_the_first_passed() -> None:
    count = 6000
    found = signed().compare(
        NoisyThreshold(0, 4), np.full(count, 2), np.full(count, 12), BitSource.from_integer(5)
    )
    first, second = signed().pass_probability(np.array([10, 18]))
    assert two_sided_p(int((found == Outcome.ABOVE).sum()), count, first) > 1e-4
    assert two_sided_p(int((found == Outcome.ABOVE_NEGATED).sum()), count, (1 - first) * second) > 1e-4


def test_a_pair_takes_as_many_bits_whichever_passes() -> None:
    def next_word(values: list[int]) -> int:
        bits = BitSource.from_integer(9)
        signed().compare(NoisyThreshold(3, 5), np.array(values), np.full(2, 10_000), bits)
        return bits.bits(64)

    assert next_word([10**6, 10**6]) == next_word([0, -(10**6)]) == next_word([0, 0])


def test_an_absolute_value_passes_by_its_size() -> None:
    test = make(sides=Sides.TWO_SIDED)
    found = test.compare(
        NoisyThreshold(0), np.array([-(10**6), 10**6, 0]), np.full(3, 10_000), BitSource.from_integer(1)
    )
    assert found.tolist() == [1, 1, 0]
    assert test.positive_price == Fraction(2 * 2, 10)


def test_the_sparse_vector_runs_it_and_halts() -> None:
    sparse = Sparse(signed(ThresholdNoise.EXPONENTIAL), 2, redraw=False)
    bits = BitSource.from_integer(4)
    state = sparse.open(bits)
    threshold = state.noisy
    state, outcomes = sparse.scan(state, np.array([0, 0, 10**6, 0]), np.full(4, 10_000), bits)
    assert outcomes.tolist() == [0, 0, 1]
    assert state.noisy is threshold  # kept: only one draw was paid
    state, outcome = sparse.step(state, -(10**6), 10_000, bits)
    assert outcome is Outcome.ABOVE_NEGATED
    with pytest.raises(BudgetError, match="halted after 2 positives"):
        sparse.step(state, 0, 10_000, bits)


def test_numeric_sparse_adds_the_value_to_each_positive() -> None:
    vector = NumericSparse(Sparse(make(), 2, redraw=False), DiscreteGaussian(Fraction(20)))
    opening, positive = vector.charges(Composition.ZCDP)
    assert opening == make().threshold_charge
    assert positive.rho == make().positive_charge.rho + round_up(Fraction(4, 800), RHO_GRID)
    bits = BitSource.from_integer(3)
    _, outcomes, released = vector.scan(vector.open(bits), np.array([0, 9000]), np.full(2, 1000), bits)
    assert outcomes.tolist() == [0, 1]
    assert released is not None


def test_its_gaps_are_not_free() -> None:
    with pytest.raises(BudgetError, match="expected a ThresholdTest for a free gap"):
        FreeGap(Sparse(make(), 2, redraw=False))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", list(ThresholdNoise))
@pytest.mark.parametrize("sides", [Sides.ONE_SIDED, Sides.TWO_THRESHOLDS])
def test_a_negative_lies_below_the_margin_as_often_as_stated(noise: ThresholdNoise, sides: Sides) -> None:
    test = Sech2Test(noise, sides, 1, sides is Sides.TWO_THRESHOLDS, Fraction(30), Fraction(20))
    margin = math.ceil(test.negative_margin(0.9))
    bits = BitSource.from_integer(77)
    values = np.full(1, 100 + margin)
    found = [
        int(test.compare(test.draw_threshold(bits), values, np.array([100]), bits)[0]) for _ in range(400)
    ]
    assert found.count(0) / len(found) <= 0.1 + 4 * math.sqrt(0.09 / len(found))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BudgetError, match="an absolute value is not monotone"):
        make(sides=Sides.TWO_SIDED, monotone=True)
    with pytest.raises(BudgetError, match="two thresholds need monotone values"):
        make(sides=Sides.TWO_THRESHOLDS)
    with pytest.raises(BudgetError, match="sensitivity of at least 1"):
        Sech2Test(ThresholdNoise.GAUSSIAN, Sides.ONE_SIDED, 0, False, SCALE, SCALE)
    with pytest.raises(BudgetError, match="expected threshold noise of a sech"):
        Sech2Test(NoiseKind.LAPLACE, Sides.ONE_SIDED, 1, False, SCALE, SCALE)  # type: ignore[arg-type]
    with pytest.raises(NoiseError, match="expected a positive fraction"):
        make(threshold_scale=Fraction(0))
    with pytest.raises(NoiseError, match="expected a positive fraction"):
        make(query_scale=Fraction(-1))
    with pytest.raises(BudgetError, match="drawn for other sides"):
        signed().compare(NoisyThreshold(3), np.array([1]), np.array([1]), BitSource.from_integer(3))
    sparse = Sparse(make(), 1, redraw=False)
    with pytest.raises(BudgetError, match="expected integer values"):
        sparse.scan(
            sparse.open(BitSource.from_integer(1)), np.array([0.5]), np.array([1]), BitSource.from_integer(1)
        )
