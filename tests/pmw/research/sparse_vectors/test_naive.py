"""NaiveAboveThreshold: every value is paid for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, zcdp_rho
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import NaiveAboveThreshold
from pmw.sparse_vector import AboveThreshold
from tests.distributions import noise_fit, require_scale


def test_pure_noise_grows_with_the_number_of_values_asked() -> None:
    naive = NaiveAboveThreshold.of(epsilon="0.5", query_limit=100, sensitivity=3)
    assert naive.value_noise == DiscreteLaplace(Fraction(600))
    assert naive.epsilon == Fraction(1, 2)
    assert (
        AboveThreshold.textbook(epsilon="0.5", sensitivity=3).test.query_scale == 24
    )  # whatever their number


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


def test_outcomes_are_computed_from_the_noisy_values() -> None:
    naive, bits = NaiveAboveThreshold.of(epsilon=1, query_limit=500), BitSource.from_integer(3)
    thresholds = np.arange(500)
    answered, outcomes, released = naive.scan(naive.open(), np.full(500, 250), thresholds, bits)
    assert answered == 500
    assert outcomes.tolist() == (released >= thresholds).astype(int).tolist()


def test_every_value_has_noise_of_its_own() -> None:
    naive, again = NaiveAboveThreshold(DiscreteLaplace(Fraction(9)), 100), BitSource.from_integer(4)
    _, _, released = naive.scan(0, np.full(100, 70), np.zeros(100, dtype=int), BitSource.from_integer(4))
    assert (released - 70).tolist() == DiscreteLaplace(Fraction(9)).sample_array(again, 100).tolist()


@pytest.mark.statistical
def test_released_values_carry_noise_of_the_stated_scale() -> None:
    naive, bits = NaiveAboveThreshold(DiscreteLaplace(Fraction(9)), 20_000), BitSource.from_integer(3)
    _, _, released = naive.scan(0, np.full(20_000, 70), np.zeros(20_000, dtype=int), bits)
    require_scale(lambda factor: noise_fit(released - 70, DiscreteLaplace(9 * factor)))


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


@pytest.mark.parametrize(
    ("epsilon", "limit", "sensitivity"), [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, 1, 0), ("inf", 1, 1)]
)
def test_parameters_out_of_range_are_refused(epsilon: int | str, limit: int, sensitivity: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        NaiveAboveThreshold.of(epsilon=epsilon, query_limit=limit, sensitivity=sensitivity)


def test_only_integers_are_answered() -> None:
    naive = NaiveAboveThreshold.of(epsilon=1, query_limit=2)
    with pytest.raises(BudgetError, match="expected integer values"):
        naive.scan(0, np.array([0.5]), np.array([1]), BitSource.from_integer(3))
