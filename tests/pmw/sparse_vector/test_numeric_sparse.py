"""NumericSparse: values that passed, under fresh noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

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
from pmw.sparse_vector.sparse import sigma_up, value_charge


def numeric(value_noise: DiscreteLaplace | DiscreteGaussian) -> NumericSparse:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 3, True, Fraction(10), Fraction(20))
    return NumericSparse(Sparse(test, 4, redraw=False), value_noise)


def test_the_textbook_price() -> None:
    # Dwork and Roth (2014), Algorithm 3, delta = 0: epsilon1 = 8/9, epsilon2 = 2/9 of epsilon.
    algorithm = NumericSparse.textbook(epsilon=1, update_limit=5)
    opening, positive = algorithm.charges(Composition.PURE)
    assert opening.epsilon is not None
    assert positive.epsilon is not None
    assert 5 * (opening.epsilon + positive.epsilon) == algorithm.epsilon == 1


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


def test_a_positive_pays_for_its_test_and_for_its_value_by_sensitivity_over_scale() -> None:
    assert numeric(DiscreteLaplace(Fraction(30))).value_charge.epsilon == Fraction(3, 30)
    gaussian = numeric(DiscreteGaussian(Fraction(30))).value_charge
    assert gaussian.epsilon is None
    assert float(gaussian.rho) == pytest.approx(9 / 1800)
    _, positive = numeric(DiscreteLaplace(Fraction(30))).charges(Composition.PURE)
    assert positive.epsilon == Fraction(3, 20) + Fraction(3, 30)


@pytest.mark.parametrize("value_noise", [DiscreteLaplace(Fraction(9)), DiscreteGaussian(Fraction(9))])
def test_a_positive_releases_its_value_with_fresh_noise_and_a_negative_nothing(
    value_noise: DiscreteLaplace | DiscreteGaussian,
) -> None:
    algorithm, values, thresholds = numeric(value_noise), np.array([-500, 130, 90]), np.array([100, 100, 100])
    released = []
    for seed in range(100):
        bits, again = BitSource.from_integer(seed), BitSource.from_integer(seed)
        state, outcomes, value = algorithm.scan(algorithm.open(bits), values, thresholds, bits)
        wanted = algorithm.sparse.scan(algorithm.sparse.open(again), values, thresholds, again)
        assert (state, outcomes.tolist()) == (wanted[0], wanted[1].tolist())
        if outcomes.any():  # of its own distribution, drawn after the test
            assert value == values[len(outcomes) - 1] + value_noise.sample(again)
            released.append(value)
        else:
            assert value is None
        assert bits.take(8) == again.take(8)
    assert 50 < len(released) < 100
    bits = BitSource.from_integer(2)
    assert algorithm.step(algorithm.open(bits), -500, 100, bits)[1:] == (0, None)


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


@pytest.mark.parametrize("share", [0, 1, -1, 2])
def test_a_share_out_of_range_is_refused(share: int) -> None:
    with pytest.raises(BudgetError, match="expected a value share between 0 and 1"):
        NumericSparse.composed(Comparison(), epsilon=1, update_limit=5, value_share=share)


@pytest.mark.parametrize("value_noise", [DiscreteLaplace(Fraction(9)), DiscreteGaussian(Fraction(9))])
def test_the_values_of_a_batch_have_noise_of_their_own_drawn_after_all_tests(
    value_noise: DiscreteLaplace | DiscreteGaussian,
) -> None:
    algorithm = replace(numeric(value_noise), sparse=replace(numeric(value_noise).sparse, update_limit=40))
    bits, again = BitSource.from_integer(7), BitSource.from_integer(7)
    values = np.where(np.arange(80) % 2, 9000, -9000) + np.arange(80)
    thresholds = np.zeros(80, dtype=np.int64)
    outcomes, released = algorithm.run(values, thresholds, bits)
    assert outcomes.tolist() == [0, 1] * 40
    algorithm.sparse.run(values, thresholds, again)
    assert (released - values[1::2]).tolist() == value_noise.sample_array(again, 40).tolist()
    assert bits.take(8) == again.take(8)


def test_a_price_too_small_for_any_value_noise_is_refused() -> None:
    with pytest.raises(BudgetError, match="holds values of some noise"):
        sigma_up(1, Fraction(1, 2**61))
    assert value_charge(DiscreteGaussian(sigma_up(7, Fraction(1, 300))), 7).rho <= Fraction(1, 300)
