"""NumericSparse: values that passed, under fresh noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Composition, zcdp_rho
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import (
    Comparison,
    NoiseKind,
    NumericSparse,
    Sides,
    Sparse,
    ThresholdTest,
    round_epsilon,
)
from pmw.sparse_vector.numeric_sparse import sigma_up, value_charge


def numeric(value_noise: DiscreteLaplace | DiscreteGaussian) -> NumericSparse:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 3, True, Fraction(10), Fraction(20))
    return NumericSparse(Sparse(test, 4, redraw=False), value_noise)


def test_the_textbook_scales() -> None:
    # Dwork and Roth (2014), Algorithm 3, delta = 0: epsilon1 = 8/9, epsilon2 = 2/9 of epsilon.
    algorithm = NumericSparse.textbook(epsilon=1, update_limit=5)
    assert algorithm.sparse.test.threshold_scale == Fraction(90, 8)
    assert algorithm.value_noise == DiscreteLaplace(Fraction(45))
    opening, positive = algorithm.charges(Composition.PURE)
    assert opening.epsilon is not None
    assert positive.epsilon is not None
    assert 5 * (opening.epsilon + positive.epsilon) == 1


def test_the_textbook_scales_with_delta() -> None:
    algorithm = NumericSparse.textbook(epsilon=1, delta=1e-9, update_limit=50)
    # sqrt(32 c ln(2/delta))/epsilon_i with epsilon1 : epsilon2 = sqrt(512) : 2 (193, 2187).
    sigma = math.sqrt(32 * 50 * math.log(2e9))
    root = math.sqrt(512)
    assert float(algorithm.sparse.test.threshold_scale) == pytest.approx(sigma * (root + 1) / root, rel=1e-6)
    assert isinstance(algorithm.value_noise, DiscreteLaplace)
    assert float(algorithm.value_noise.scale) == pytest.approx(sigma * (root + 1) / 2, rel=1e-6)
    assert round(float(algorithm.sparse.test.threshold_scale)) == 193
    assert round(float(algorithm.value_noise.scale)) == 2187


def test_a_value_costs_its_sensitivity_over_its_scale() -> None:
    assert numeric(DiscreteLaplace(Fraction(30))).value_charge.epsilon == Fraction(3, 30)
    gaussian = numeric(DiscreteGaussian(Fraction(30))).value_charge
    assert gaussian.epsilon is None
    assert float(gaussian.rho) == pytest.approx(9 / 1800)


def test_a_positive_pays_for_its_test_and_its_value() -> None:
    algorithm = numeric(DiscreteLaplace(Fraction(30)))
    _, positive = algorithm.charges(Composition.PURE)
    assert positive.epsilon == Fraction(3, 20) + Fraction(3, 30)


def test_negatives_release_nothing() -> None:
    algorithm = numeric(DiscreteLaplace(Fraction(3)))
    bits = BitSource.from_integer(2)
    state, outcome, released = algorithm.step(algorithm.open(bits), -500, 100, bits)
    assert (outcome, released, state.positives) == (0, None, 0)


@pytest.mark.statistical
@pytest.mark.parametrize("value_noise", [DiscreteLaplace(Fraction(9)), DiscreteGaussian(Fraction(9))])
def test_released_values_carry_fresh_noise_of_the_stated_scale(
    value_noise: DiscreteLaplace | DiscreteGaussian,
) -> None:
    algorithm = numeric(value_noise)
    bits = BitSource.from_integer(31)
    draws: list[int] = []
    for _ in range(6000):
        _, _, released = algorithm.step(algorithm.open(bits), 10_000, 100, bits)
        assert released is not None
        draws.append(released - 10_000)
    edges = np.arange(-20, 21, 2)
    found = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)

    def p_value(distribution: DiscreteLaplace | DiscreteGaussian) -> float:
        above = distribution.survival(edges)
        expected = np.concatenate([[1 - above[0]], above[:-1] - above[1:], [above[-1]]]) * len(draws)
        return float(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue)

    assert p_value(value_noise) > 1e-4
    scale = value_noise.scale if isinstance(value_noise, DiscreteLaplace) else value_noise.sigma
    for wrong in (Fraction(10, 13), Fraction(13, 10)):
        assert p_value(type(value_noise)(scale * wrong)) < 1e-9


@pytest.mark.statistical
def test_the_value_does_not_depend_on_the_noise_of_its_test() -> None:
    # A value near the threshold passes when its test noise is large; the released noise stays centred.
    algorithm = numeric(DiscreteLaplace(Fraction(9)))
    bits = BitSource.from_integer(33)
    draws: list[int] = []
    while len(draws) < 3000:
        _, _, released = algorithm.step(algorithm.open(bits), 85, 100, bits)
        if released is not None:
            draws.append(released - 85)
    assert abs(np.mean(draws)) < 4 * 9 * math.sqrt(2 / 3000)


@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize(
    ("limit", "distribution"), [(4, DiscreteLaplace), (50, DiscreteGaussian), (200, DiscreteGaussian)]
)
def test_composed_rounds_take_the_quieter_of_two_ways(
    noise: NoiseKind, limit: int, distribution: type
) -> None:
    algorithm = NumericSparse.composed(Comparison(noise), epsilon=1, delta="1e-9", update_limit=limit)
    assert isinstance(algorithm.value_noise, distribution)
    assert float(algorithm.epsilon_at("1e-9")) == pytest.approx(1, abs=1e-6)
    opening, positive = algorithm.charges(Composition.ZCDP)
    if distribution is DiscreteGaussian:
        budget = zcdp_rho(Budget.of(1, "1e-9"))
        assert limit * (opening.rho + positive.rho) <= budget
        assert float(limit * positive.rho / budget) == pytest.approx(0.2, rel=1e-6)
        with pytest.raises(BudgetError, match="expected Laplace values for a pure price"):
            algorithm.epsilon  # noqa: B018
        with pytest.raises(BudgetError, match="expected delta > 0 for Gaussian values"):
            algorithm.epsilon_at(0)
    else:
        assert algorithm.sparse.round_epsilon < round_epsilon(Budget.of(1, "1e-9"), limit)


def test_composed_rounds_without_delta_add() -> None:
    algorithm = NumericSparse.composed(Comparison(), epsilon=1, update_limit=5, value_share="0.25")
    assert algorithm.epsilon == 1
    assert algorithm.value_noise == DiscreteLaplace(Fraction(20))


def test_tight_composition_needs_far_less_noise_than_the_textbook() -> None:
    textbook = NumericSparse.textbook(epsilon=1, delta="1e-9", update_limit=50)
    tight = NumericSparse.composed(
        Comparison(NoiseKind.EXPONENTIAL, monotone=True), epsilon=1, delta="1e-9", update_limit=50
    )
    assert isinstance(tight.value_noise, DiscreteGaussian)
    assert float(tight.value_noise.sigma) < math.sqrt(2) * 2187 / 30
    assert tight.sparse.test.query_scale < textbook.sparse.test.query_scale / 4


@pytest.mark.parametrize("share", [0, 1, -1, 2])
def test_a_share_out_of_range_is_refused(share: int) -> None:
    with pytest.raises(BudgetError, match="expected a value share between 0 and 1"):
        NumericSparse.composed(Comparison(), epsilon=1, update_limit=5, value_share=share)


def test_a_batch_releases_a_value_for_each_positive() -> None:
    algorithm, bits = numeric(DiscreteLaplace(Fraction(3))), BitSource.from_integer(2)
    values = np.array([-500, 5000, -500, 7000])
    outcomes, released = algorithm.run(values, np.full(4, 1000), bits)
    assert outcomes.tolist() == [0, 1, 0, 1]
    assert released == pytest.approx([5000, 7000], abs=60)
    assert released.tolist() != [5000, 7000]


@pytest.mark.parametrize("value_noise", [DiscreteLaplace(Fraction(9)), DiscreteGaussian(Fraction(9))])
def test_the_values_of_a_batch_have_noise_of_their_own_drawn_after_all_tests(
    value_noise: DiscreteLaplace | DiscreteGaussian,
) -> None:
    algorithm = replace(numeric(value_noise), sparse=replace(numeric(value_noise).sparse, update_limit=40))
    bits, again = BitSource.from_integer(7), BitSource.from_integer(7)
    values, thresholds = np.full(40, 9000), np.zeros(40, dtype=np.int64)
    outcomes, released = algorithm.run(values, thresholds, bits)
    assert outcomes.all()
    algorithm.sparse.run(values, thresholds, again)
    assert (released - 9000).tolist() == value_noise.sample_array(again, 40).tolist()
    assert bits.take(8) == again.take(8)


def test_a_price_too_small_for_any_value_noise_is_refused() -> None:
    with pytest.raises(BudgetError, match="holds values of some noise"):
        sigma_up(1, Fraction(1, 2**61))
    assert value_charge(DiscreteGaussian(sigma_up(7, Fraction(1, 300))), 7).rho <= Fraction(1, 300)
