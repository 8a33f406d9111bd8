"""Sparse and NumericSparse: up to c positives, with values or without, and what each way of running costs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.privacy.budget import NOTHING, Budget, Composition, pure_charge, zcdp_rho
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import stream_distribution, tables_of
from pmw.sparse_vector import (
    AboveThreshold,
    Comparison,
    NoiseKind,
    NumericSparse,
    Outcome,
    Sides,
    Sparse,
    SparseState,
    ThresholdTest,
    round_epsilon,
)
from pmw.sparse_vector.sparse import sigma_up, value_charge
from tests.distributions import WRONG, attained, fit, require_scale


def sparse(*, redraw: bool, limit: int = 3) -> Sparse:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(10), Fraction(20))
    return Sparse(test, limit, redraw)


def test_the_textbook_scale_with_delta() -> None:
    # Dwork and Roth (2014), Algorithm 2: sqrt(32 c ln(1/delta))/epsilon, rounded up.
    test, exact = (
        Sparse.textbook(epsilon=1, delta="1e-9", update_limit=10).test,
        math.sqrt(320 * math.log(1e9)),
    )
    assert exact <= float(test.threshold_scale) < exact + 2e-6
    assert test.query_scale == 2 * test.threshold_scale


@pytest.mark.parametrize("composition", Composition)
def test_a_redrawn_round_is_charged_whole_and_a_kept_threshold_as_it_goes_where_epsilons_add(
    composition: Composition,
) -> None:
    threshold, positive = pure_charge(Fraction(1, 10)), pure_charge(Fraction(1, 20))
    assert sparse(redraw=True).charges(composition) == (pure_charge(Fraction(3, 20)), NOTHING)
    whole, kept = pure_charge(Fraction(1, 10) + 3 * Fraction(1, 20)), sparse(redraw=False)
    wanted = (threshold, positive) if composition is Composition.PURE else (whole, NOTHING)
    assert kept.charges(composition) == wanted
    assert kept.epsilon == kept.epsilon_at("1e-9") == whole.epsilon
    assert whole.rho > threshold.rho + 3 * positive.rho  # separate squares would undercharge it


@pytest.mark.parametrize("redraw", [False, True])
def test_it_answers_exactly_c_positives(redraw: bool) -> None:
    algorithm = sparse(redraw=redraw)
    bits = BitSource.from_integer(9)
    state = algorithm.open(bits)
    outcomes = []
    for _ in range(3):
        state, outcome = algorithm.step(state, 10_000, 100, bits)
        outcomes.append(outcome)
    assert outcomes == [Outcome.ABOVE] * 3
    with pytest.raises(BudgetError, match="it halted after 3 positives"):
        algorithm.step(state, 10_000, 100, bits)


def test_the_threshold_is_redrawn_after_a_positive_and_only_then() -> None:
    algorithm = sparse(redraw=True)
    bits = BitSource.from_integer(9)
    state = algorithm.open(bits)
    quiet, _ = algorithm.step(state, -100, 1000, bits)
    assert quiet == state
    loud, _ = algorithm.step(state, 10_000, 100, bits)
    assert loud == SparseState(None, 1)
    following, _ = algorithm.step(loud, -100, 1000, bits)
    assert following.noisy is not None
    assert following.noisy != state.noisy


def test_a_scan_stops_at_a_positive_and_a_threshold_that_is_kept_is_never_drawn_a_second_time() -> None:
    algorithm, bits = sparse(redraw=False), BitSource.from_integer(9)
    state = algorithm.open(bits)
    after, outcomes = algorithm.scan(state, np.array([-100, 10_000, 10_000]), np.full(3, 1000), bits)
    assert outcomes.tolist() == [0, 1]
    assert after == SparseState(state.noisy, 1)
    assert repr(after) == "SparseState(positives=1, noise secret)"
    values = np.array([-100])
    with pytest.raises(BudgetError, match="drawn once, but it is lost"):
        algorithm.scan(SparseState(None, 1), values, values, bits)
    algorithm.scan(SparseState(None, 0), values, values, bits)
    sparse(redraw=True).scan(SparseState(None, 1), values, values, bits)


@pytest.mark.parametrize(
    ("comparison", "limit"),
    [
        (Comparison(NoiseKind.EXPONENTIAL, Sides.TWO_SIDED), 10),
        (Comparison(NoiseKind.LAPLACE, Sides.ONE_SIDED, monotone=True), 50),
        (Comparison(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, monotone=True), 200),
    ],
)
def test_composed_rounds_get_the_tightest_price(comparison: Comparison, limit: int) -> None:
    algorithm = Sparse.composed(comparison, epsilon=1, delta="1e-9", update_limit=limit)
    price = round_epsilon(Budget.of(1, "1e-9"), limit)
    assert price * (1 - Fraction(1, 10**6)) < algorithm.round_epsilon <= price
    assert algorithm.epsilon_at("1e-9") <= 1
    assert float(algorithm.epsilon_at("1e-9")) == pytest.approx(1, abs=1e-6)
    assert (algorithm.redraw, algorithm.update_limit) == (True, limit)
    assert (algorithm.test.noise, algorithm.test.sides) == (comparison.noise, comparison.sides)
    ratio = float(algorithm.test.query_scale / algorithm.test.threshold_scale)
    assert ratio == pytest.approx(1 if comparison.monotone else 2 ** (1 / 3), rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "limit"), [(0, 0, 3), (-1, 0, 3), (1, 1, 3), (1, -1, 3), (1, 0, 0)]
)
def test_a_composition_that_cannot_be_is_refused(epsilon: int, delta: int, limit: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        Sparse.composed(Comparison(), epsilon=epsilon, delta=delta, update_limit=limit)
    with pytest.raises(BudgetError, match="expected epsilon > 0"):
        AboveThreshold.textbook(epsilon=min(epsilon, 0))
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        sparse(redraw=True, limit=0)
    for share in (0, 1, -1, 2):
        with pytest.raises(BudgetError, match="expected a value share between 0 and 1"):
            NumericSparse.composed(Comparison(), epsilon=1, update_limit=5, value_share=share)
    fraction, threshold, bits = np.array([0.5]), np.array([1]), BitSource.from_integer(1)
    for run in (sparse(redraw=False).run, sparse(redraw=True).run, AboveThreshold.textbook(epsilon=1).find):
        with pytest.raises(BudgetError, match="expected integer values"):
            run(fraction, threshold, bits)


@pytest.mark.parametrize("redraw", [False, True])
def test_a_batch_ends_with_the_positive_that_halts_it(redraw: bool) -> None:
    algorithm, bits = sparse(redraw=redraw, limit=2), BitSource.from_integer(9)
    values = np.array([-100, 10_000, -100, 10_000, 10_000])
    assert algorithm.run(values, np.full(5, 1000), bits).tolist() == [0, 1, 0, 1]
    assert algorithm.run(values[:3], np.full(3, 1000), bits).tolist() == [0, 1, 0]
    assert algorithm.run(values[:0], values[:0], bits).tolist() == []


def test_a_redrawn_batch_is_scanned_round_by_round() -> None:
    algorithm, values, thresholds = sparse(redraw=True), np.arange(60) % 7 * 30, np.full(60, 150)
    bits, found = BitSource.from_integer(11), list[int]()
    state = algorithm.open(bits)
    while len(found) < 60 and state.positives < 3:
        state, outcomes = algorithm.scan(state, values[len(found) :], thresholds[len(found) :], bits)
        found += outcomes.tolist()
    assert algorithm.run(values, thresholds, BitSource.from_integer(11)).tolist() == found
    assert sum(found) == 3


@pytest.mark.statistical
def test_a_batch_has_the_distribution_of_the_stream() -> None:
    test = ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, 1, False, Fraction(3), Fraction(4))
    bits, values = BitSource.from_integer(11), (1, -3, 3, 2)
    algorithm, thresholds = Sparse(test, 2, redraw=False), np.full(4, 2)
    drawn = Counter(tuple(algorithm.run(np.array(values), thresholds, bits).tolist()) for _ in range(3000))

    def p_value(factor: Fraction) -> float:
        off = replace(algorithm, test=replace(test, query_scale=4 * factor))
        return fit(drawn, stream_distribution(tables_of(off, 2), values))

    require_scale(p_value, wrong=1e-4)


# --- AboveThreshold ------------------------------------------------------------------------------------


def test_it_finds_the_first_large_value_and_halts_and_tells_where_there_is_none() -> None:
    algorithm, bits = AboveThreshold.textbook(epsilon=1), BitSource.from_integer(4)
    values, limits = np.array([0, 0, 10_000, 10_000]), np.full(4, 1000)
    after, outcomes = algorithm.scan(algorithm.open(bits), values, limits, bits)
    assert outcomes.tolist() == [0, 0, 1]
    assert after is None
    with pytest.raises(BudgetError, match="it halted at its positive"):
        algorithm.step(after, 0, 1000, bits)
    assert algorithm.find(values, limits, bits) == 2
    assert algorithm.find(np.zeros(4, dtype=int), limits, bits) is None
    assert algorithm.find(values[:0], limits[:0], bits) is None


def test_find_may_answer_a_failure_by_a_random_place() -> None:
    algorithm = AboveThreshold.textbook(epsilon=1)
    values, limits, bits = np.zeros(4, dtype=int), np.full(4, 1000), BitSource.from_integer(4)
    places = [algorithm.find(values, limits, bits, random_index=True) for _ in range(200)]
    assert {places.count(place) > 25 for place in range(4)} == {True}
    assert set(places) == {0, 1, 2, 3}
    with pytest.raises(BudgetError, match="at least one value for a random index"):
        algorithm.find(values[:0], limits[:0], bits, random_index=True)


@pytest.mark.parametrize("wrong", [*WRONG, Fraction(1)])
@pytest.mark.parametrize("which", ["threshold_scale", "query_scale"])
def test_the_price_is_attained_and_a_scale_30_percent_off_is_not_it(which: str, wrong: Fraction) -> None:
    test = AboveThreshold.textbook(epsilon=1).test
    test = replace(test, **{which: wrong * getattr(test, which)})
    assert (0.95 <= attained(Sparse(test, 1, redraw=False)) <= 1 + 1e-9) == (wrong == 1)


# --- values that passed -----------------------------------------------------------------------------------


def numeric(value_noise: DiscreteLaplace | DiscreteGaussian) -> NumericSparse:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 3, True, Fraction(10), Fraction(20))
    return NumericSparse(Sparse(test, 4, redraw=False), value_noise)


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
def test_composed_rounds_with_values_take_the_quieter_of_two_ways(
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
