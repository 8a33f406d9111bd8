"""What the sech^2 test costs: R and its bound against 100 digits, scales for a budget, and the filter."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pmw.errors import BudgetError, BudgetExhaustedError, NoiseError
from pmw.privacy.budget import Budget, Composition, zcdp_epsilon
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import (
    AdaptiveSech2,
    least_query_scale,
    order_charges,
    order_filter,
    renyi_charge,
    renyi_charge_bound,
    run_epsilon,
    threshold_renyi,
)
from pmw.sparse_vector import Outcome, Sech2Test, Sides, ThresholdNoise

BUDGET = Budget.of(1, 1e-9)


def counts(
    noise: ThresholdNoise, threshold_scale: Fraction, query_scale: Fraction = Fraction(5)
) -> Sech2Test:
    return Sech2Test(noise, Sides.TWO_THRESHOLDS, 1, True, threshold_scale, query_scale)


def exact(alpha: float, s: float) -> mpmath.mpf:
    order, shift = mpmath.mpf(alpha), mpmath.mpf(s)
    return (order * shift - mpmath.log1p(order * mpmath.expm1(shift))) / (order - 1)


def test_the_charge_lies_between_the_exact_value_and_the_simple_bounds() -> None:
    draws = np.random.default_rng(31)
    with mpmath.workdps(100):
        for _ in range(1500):
            alpha = 1 + 10 ** float(draws.uniform(-8, 6))
            s = 10 ** float(draws.uniform(-8, 2))
            wanted, bound = exact(alpha, s), renyi_charge_bound(alpha, s)
            assert wanted <= min(mpmath.mpf(s), mpmath.mpf(alpha) * mpmath.mpf(s) ** 2 / 2)
            assert wanted <= bound
            assert bound <= s
            assert bound <= alpha * s * s / 2 * (1 + 1e-12)
            if alpha > 1.5 and s > 1e-4:
                assert bound <= wanted * (1 + mpmath.mpf("1e-9"))
                assert renyi_charge(alpha, s) == pytest.approx(float(wanted), rel=1e-9)


@pytest.mark.parametrize(("alpha", "s"), [(2.0, 1e-200), (1e300, 3.0), (2.0, 800.0), (1 + 1e-15, 0.1)])
def test_extreme_orders_and_shifts_stay_bounded(alpha: float, s: float) -> None:
    with mpmath.workdps(400):
        assert exact(alpha, s) <= renyi_charge_bound(alpha, s) <= s


# The query scale b for epsilon = 1 and delta = 1e-9, c positives, and threshold noise at b1.
@pytest.mark.parametrize(
    ("limit", "threshold_scale", "scale", "simple"),
    [(10, Fraction(10), 10.16, 20.2), (50, Fraction(50, 3), 32.2, 43.4), (200, Fraction(50, 3), 75.1, 86.7)],
)
def test_the_least_scales_for_a_budget(
    limit: int, threshold_scale: Fraction, scale: float, simple: float
) -> None:
    test = counts(ThresholdNoise.EXPONENTIAL, threshold_scale)
    found = least_query_scale(test, limit, BUDGET)
    assert float(found) == pytest.approx(scale, rel=2e-3)
    assert run_epsilon(replace(test, query_scale=found), limit, 1e-9) <= 1
    assert run_epsilon(replace(test, query_scale=found * Fraction(7, 10)), limit, 1e-9) > 1.3
    assert run_epsilon(replace(test, query_scale=found * Fraction(13, 10)), limit, 1e-9) < 0.85
    # The rho of s^2/2 alone, with the threshold's epsilon beside it.
    shift = 1 / simple
    rho_alone = float(1 / threshold_scale) + zcdp_epsilon(limit * shift**2 / 2, 1e-9)
    assert rho_alone == pytest.approx(1, rel=5e-3)


def test_a_pure_run_needs_no_delta() -> None:
    test = counts(ThresholdNoise.EXPONENTIAL, Fraction(10), Fraction(20))
    assert run_epsilon(test, 3, 0) == pytest.approx(1 / 10 + 3 / 20)
    assert run_epsilon(test, 3, 1e-12) <= run_epsilon(test, 3, 0)
    assert least_query_scale(test, 3, Budget.of("0.25")) == pytest.approx(20, rel=1e-5)
    with pytest.raises(BudgetError, match="expected delta > 0 for Gaussian noise"):
        run_epsilon(counts(ThresholdNoise.GAUSSIAN, Fraction(10)), 3, 0)


def test_a_budget_that_holds_no_threshold_noise_is_refused() -> None:
    with pytest.raises(BudgetError, match="does not hold the threshold noise"):
        least_query_scale(counts(ThresholdNoise.EXPONENTIAL, Fraction(1, 2)), 3, BUDGET)


@pytest.mark.parametrize(("limit", "delta"), [(0, 0.1), (1, 1.0), (1, -0.1)])
def test_runs_that_cannot_be_are_refused(limit: int, delta: float) -> None:
    with pytest.raises(BudgetError, match="expected c >= 1"):
        run_epsilon(counts(ThresholdNoise.GAUSSIAN, Fraction(10)), limit, delta)


@pytest.mark.parametrize(("alpha", "s"), [(1.0, 0.1), (math.inf, 0.1), (2.0, 0.0), (math.nan, 0.1)])
def test_orders_and_shifts_out_of_range_are_refused(alpha: float, s: float) -> None:
    for function in (renyi_charge, renyi_charge_bound):
        with pytest.raises(BudgetError, match="expected an order above 1"):
            function(alpha, s)


def test_threshold_noise_costs_what_its_shift_does_at_each_order() -> None:
    # Sums over the lattice, of the very distribution that is drawn, against the stated price.
    values = np.arange(-400, 401)
    for noise, scale in ((noise, Fraction(6)) for noise in ThresholdNoise):
        test = counts(noise, scale)
        distribution, shifted = test.threshold_noise.pmf(values), test.threshold_noise.pmf(values + 1)
        kept = (distribution > 1e-200) & (shifted > 1e-200)
        for alpha in (1.01, 1.5, 3.0, 12.0, 40.0):
            total = float(
                np.exp(alpha * np.log(distribution[kept]) + (1 - alpha) * np.log(shifted[kept])).sum()
            )
            found = math.log(total) / (alpha - 1)
            assert found <= threshold_renyi(test, alpha) * (1 + 1e-9) + 1e-12
            if noise is ThresholdNoise.EXPONENTIAL:
                # epsilon1 already near order 1, so no rho below epsilon1 is sound for it
                assert found == pytest.approx(1 / 6)
                assert alpha >= 12 or found > alpha * (1 / 6) ** 2 / 2


def test_scales_may_change_as_it_goes_and_each_positive_pays_its_own() -> None:
    run = AdaptiveSech2(counts(ThresholdNoise.LAPLACE, Fraction(10), Fraction(20)))
    bits = BitSource.from_integer(41)
    state = run.open(PrivacyFilter(Composition.PURE, Fraction(1, 2)), bits)
    assert state.ledger.spent == Fraction(1, 10)
    state, outcome = run.step(state, 10**6, 0, bits)
    assert (outcome, state.ledger.spent) == (Outcome.ABOVE, Fraction(3, 20))
    state, outcome = run.step(state, -(10**6), 0, bits, query_scale=Fraction(4))
    assert (outcome, state.ledger.spent) == (Outcome.ABOVE_NEGATED, Fraction(2, 5))
    for _ in range(20):  # negatives cost nothing
        state, outcome = run.step(state, 0, 10**6, bits, query_scale=Fraction(10))
        assert outcome is Outcome.BELOW
    assert state.ledger.spent == Fraction(2, 5)
    assert "secret" in repr(state)


def test_a_test_that_could_exceed_what_is_left_is_refused_and_draws_nothing() -> None:
    run = AdaptiveSech2(counts(ThresholdNoise.GAUSSIAN, Fraction(10), Fraction(10)))
    bits, untouched = BitSource.from_integer(42), BitSource.from_integer(42)
    state = run.open(PrivacyFilter(Composition.ZCDP, Fraction(1, 180)), bits)
    run.test.draw_threshold(untouched)
    with pytest.raises(BudgetExhaustedError, match="ask for a larger query scale"):
        run.step(state, 0, 10**6, bits)
    with pytest.raises(NoiseError):
        run.step(state, 0, 10**6, bits, query_scale=Fraction(0))
    assert bits.words(4).tolist() == untouched.words(4).tolist()
    run.step(state, 0, 10**6, bits, query_scale=Fraction(60))
    with pytest.raises(BudgetExhaustedError):
        run.open(PrivacyFilter(Composition.ZCDP, Fraction(1, 300)), bits)
    with pytest.raises(BudgetError, match="pure budget"):
        run.open(PrivacyFilter(Composition.PURE, Fraction(1)), bits)


def test_a_filter_of_one_order_allows_more_positives_than_rho() -> None:
    test, alpha = counts(ThresholdNoise.EXPONENTIAL, Fraction(10), Fraction(102, 10)), 122.0
    ledger = order_filter(BUDGET, alpha)
    threshold, positive = order_charges(test, alpha)
    assert threshold.rho == pytest.approx(0.1 / alpha, rel=1e-9)
    assert positive.rho == pytest.approx(renyi_charge(alpha, 10 / 102) / alpha, rel=1e-9)
    assert positive.rho < test.positive_charge.rho / 3
    run, bits = AdaptiveSech2(test, order=alpha), BitSource.from_integer(43)
    state = run.open(ledger, bits)
    found = 0
    while state.ledger.allows(run.charges()[1]):
        state, _ = run.step(state, 10**6, 0, bits)
        found += 1
    assert found == 10  # as the least scale for ten positives, 10.16, says


def test_a_filter_that_holds_nothing_is_refused() -> None:
    with pytest.raises(BudgetError, match="holds no budget at order"):
        order_filter(BUDGET, 2.0)
    with pytest.raises(BudgetError, match="expected delta > 0"):
        order_filter(Budget.of(1), 20.0)
