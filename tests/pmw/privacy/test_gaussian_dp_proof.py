"""The proof of docs/proofs/gaussian-filter.md, step by step, and what it lets a filter charge."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache, reduce
from statistics import NormalDist

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.planning.calibration import marginal_noise, selection_epsilon, value_noise
from pmw.privacy.budget import (
    LEAST_SIGMA,
    NOTHING,
    Budget,
    Composition,
    NeighboringRelation,
    bounded_range_charge,
    gaussian_charge,
    gaussian_mu_squared,
    mu_squared_cap,
    pure_charge,
    pure_epsilon,
    pure_mu_squared,
)
from pmw.privacy.filter import open_filter
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import l1_sensitivity, l2_squared_sensitivity, query_sensitivity
from pmw.public.options import Options
from pmw.sparse_vector import (
    NoiseKind,
    Sech2Test,
    Sides,
    Sparse,
    ThresholdNoise,
    ThresholdTest,
)
from tests.worlds import known

GRID = Fraction(1, 2**60)
BUDGETS = [
    (1, "1e-9"),
    (1, "1e-6"),
    ("0.1", "1e-9"),
    (3, "1e-9"),
    (10, "1e-5"),
    ("0.001", "0.01"),
    (64, "1e-12"),
]
EPSILONS = st.fractions(min_value=Fraction(1, 10**6), max_value=60)


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def gaussian_delta(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Return the left side of (1), the delta of N(0, 1) against N(mu, 1) at epsilon, with digits to spare."""
    with mpmath.workdps(120):
        near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far)


def quantile(tail: mpmath.mpf, start: float) -> mpmath.mpf:
    """Return the z that N(0, 1) exceeds with this probability."""
    return mpmath.findroot(
        lambda z: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2 / tail), mpmath.mpf(start)
    )


# --- the cap ------------------------------------------------------------------------------------------------


def test_the_reference_budget_gives_the_published_mu() -> None:
    assert math.sqrt(open_filter(Budget.of(1, "1e-9"), Composition.GDP).cap) == pytest.approx(
        0.18197, abs=5e-6
    )


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_cap_is_the_largest_mu_squared_rounded_down(epsilon: int | str, delta: str) -> None:
    budget = Budget.of(epsilon, delta)
    cap = mu_squared_cap(budget.epsilon, budget.delta)
    assert (cap / GRID).denominator == 1
    with mpmath.workdps(120):
        reached, beyond = (
            gaussian_delta(mpmath.sqrt(real(each)), real(budget.epsilon)) for each in (cap, cap + 2 * GRID)
        )
        assert reached <= real(budget.delta) < beyond


@given(st.fractions(min_value=Fraction(1, 1000), max_value=100), st.integers(1, 50), st.integers(1, 999))
def test_a_cap_never_promises_more_than_its_budget(epsilon: Fraction, digits: int, part: int) -> None:
    delta = Fraction(part, 1000 * 10 ** (digits - 1))
    try:
        cap = mu_squared_cap(epsilon, delta)
    except BudgetError:
        assert math.exp(epsilon) / delta > 1e58  # too small for 100 digits, or no mu that the grid holds
        return
    with mpmath.workdps(120):
        assert gaussian_delta(mpmath.sqrt(real(cap)), real(epsilon)) <= real(delta)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1000, "1e-9"), (1, "1e-300"), (1, "1e-61"), ("1e-12", "1e-50"), (1, 1 - Fraction(1, 10**400)), (1, 0)],
)
def test_a_budget_without_a_mu_has_no_filter_of_squares(epsilon: int | str, delta: Fraction | str) -> None:
    with pytest.raises(BudgetError, match="for GDP"):
        open_filter(Budget.of(epsilon, delta), Composition.GDP)


# --- the discrete Gaussian ----------------------------------------------------------------------------------


@cache
def tails(sigma: int, reach: int) -> tuple[mpmath.mpf, ...]:
    """Return Pr[X >= t] for t in 0..reach, summed from far out."""
    with mpmath.workdps(60):
        far = math.isqrt(reach**2 + 240 * sigma**2) + 1  # what is beyond is 10^-50 of the last tail
        step = mpmath.exp(-mpmath.mpf(1) / sigma**2)
        ratio, weight, weights = mpmath.sqrt(step), mpmath.mpf(1), []
        for _ in range(far + 1):  # e^(-k^2/2 sigma^2), each from the one before
            weights.append(weight)
            weight, ratio = weight * ratio, ratio * step
        found, total = [], mpmath.mpf(0)
        for weight in reversed(weights):
            total += weight
            found.append(total)
        mass = 2 * total - 1
        return tuple(one / mass for one in found[::-1][: reach + 1])


@cache
def quantiles(sigma: int, places: range) -> tuple[mpmath.mpf, ...]:
    """Return z(t), that of Pr[X < t], for t >= 1."""
    found = tails(sigma, places[-1])
    return tuple(quantile(found[t], (t - 0.5) / sigma) for t in places)


PLACES = [
    (4, 1, 80),
    (5, 1, 80),
    (17, 1, 120),
    (60, 1, 100),
    (60, 3000, 3020),
    (300, 5, 15),
    (300, 9000, 9006),
]


@pytest.mark.parametrize(("sigma", "first", "last"), PLACES)
def test_quantiles_of_the_discrete_gaussian_rise_by_no_more_than_the_lemma_says(
    sigma: int, first: int, last: int
) -> None:
    with mpmath.workdps(50):
        found = quantiles(sigma, range(first, last))
        rises = [sigma * (after - before) - 1 for before, after in itertools.pairwise(found)]
        if first == 1:
            rises.append(sigma * 2 * found[0] - 1)  # from z(0) = -z(1)
        assert max(rises) <= mpmath.mpf(1) / (2 * sigma)
        assert max(rises) >= 0 or first > 1
        assert max(rises) * 24 * sigma**2 == pytest.approx(1, abs=0.01) or first > 1  # the least surcharge


@pytest.mark.parametrize(("sigma", "first", "last"), PLACES)
def test_quantiles_of_the_discrete_gaussian_lie_beyond_the_middle_of_their_cell(
    sigma: int, first: int, last: int
) -> None:
    with mpmath.workdps(50):
        slack = 3 * 3 * mpmath.exp(-2 * mpmath.pi**2 * sigma**2) / 2 + mpmath.mpf(10) ** -45
        for t, z in zip(range(first, last), quantiles(sigma, range(first, last)), strict=True):
            assert z >= (t - mpmath.mpf(1) / 2) / sigma - slack


@pytest.mark.parametrize("sigma", [4, 5, 17, 60])
def test_the_odds_of_the_next_integer_exceed_the_normal_ones_by_eta(sigma: int) -> None:
    with mpmath.workdps(50):
        found, h = tails(sigma, 20 * sigma), mpmath.mpf(1) / sigma
        allowed = mpmath.exp(h**2 / 8) / (1 - h / mpmath.sqrt(2 * mpmath.pi))
        assert allowed <= 1 + h / 2
        for t in range(1, 20 * sigma, max(1, sigma // 4)):
            odds = found[t] / found[t + 1] - 1
            x = (t - mpmath.mpf(1) / 2) * h
            normal = mpmath.ncdf(-x) / mpmath.ncdf(-x - h) - 1
            assert odds <= allowed * normal


@pytest.mark.parametrize("shift", [1, 67, 6700, 67000])
def test_the_discrete_gaussian_is_no_less_private_than_its_price_says(shift: int) -> None:
    sigma, reach = LEAST_SIGMA, 12 * LEAST_SIGMA
    found = tails(sigma, reach)

    def tail(t: int) -> mpmath.mpf:
        return found[t] if t >= 0 else 1 - found[1 - t]

    priced = known(gaussian_mu_squared(Fraction(shift**2), Fraction(sigma)))
    with mpmath.workdps(50):
        mu, plain, touched = mpmath.sqrt(real(priced)), mpmath.mpf(shift) / sigma, False
        for t in range(max(shift - reach, -reach) + 2, reach, 1500):
            first, second = tail(t), tail(shift - t + 1)  # Pr[X >= t]; Pr[X + shift < t], by symmetry
            if first > mpmath.mpf(1) / 2:  # the curve is its own mirror image: the two orders are one
                first, second = second, first
            z = quantile(first, float((t if first == tail(t) else shift - t + 1) - 0.5) / sigma)
            assert second >= mpmath.ncdf(z - mu)
            touched = touched or second < mpmath.ncdf(z - plain)
    assert touched  # without the surcharge it is not so: the surcharge is needed


@pytest.mark.parametrize("shift", [(3, 0), (2, 2), (1, 5), (4, 3), (6, 6)])
@pytest.mark.parametrize("sigma", [4, 6])
def test_several_coordinates_cost_the_sum_of_their_squares(sigma: int, shift: tuple[int, int]) -> None:
    values = np.arange(-30 * sigma, 30 * sigma + 1)
    pmf = DiscreteGaussian(Fraction(sigma)).pmf(values)
    moved = [DiscreteGaussian(Fraction(sigma)).pmf(values - each) for each in shift]
    here, there = np.outer(pmf, pmf), np.outer(*moved)
    mu = math.hypot(*shift) / sigma * (1 + 1 / (2 * sigma))
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = [
            float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in ((here, there), (there, here))
        ]
        assert exact[0] == pytest.approx(exact[1], rel=1e-9)
        assert max(exact) <= float(gaussian_delta(mpmath.mpf(mu), mpmath.mpf(epsilon))) * (1 + 1e-9)


@given(st.integers(1, 10**8), st.fractions(min_value=LEAST_SIGMA, max_value=10**12))
def test_gaussian_noise_costs_its_square_with_the_surcharge_rounded_up(moved: int, sigma: Fraction) -> None:
    charged = known(gaussian_charge(Fraction(moved**2), sigma).mu_squared)
    exact = Fraction(moved**2) * (2 * sigma + 1) ** 2 / (4 * sigma**4)
    assert Fraction(moved**2) / sigma**2 < exact <= charged < exact + GRID


def test_narrow_noise_has_no_mu() -> None:
    assert gaussian_charge(Fraction(1), Fraction(LEAST_SIGMA)).mu_squared is not None
    narrow = gaussian_charge(Fraction(1), LEAST_SIGMA - Fraction(1, 1000))
    assert narrow.mu_squared is None
    with pytest.raises(BudgetError, match="proved in GDP"):
        open_filter(Budget.of(1, "1e-9"), Composition.GDP).allows(narrow)
    # No budget of a session is so large: a person moves a number by a million units at least.
    largest = open_filter(Budget.of(100, Fraction(999, 1000)), Composition.GDP)
    assert query_sensitivity(Options()) ** 2 / LEAST_SIGMA**2 > 64**2 > largest.cap


@given(
    st.sampled_from(list(NeighboringRelation)),
    st.sampled_from([1, 2, 7]),
    st.booleans(),
    st.fractions(min_value=Fraction(1, 10**8), max_value=Fraction(1, 10)),
)
def test_noise_is_the_narrowest_that_its_price_allows(
    relation: NeighboringRelation, people: int, one: bool, price: Fraction
) -> None:
    options = Options(neighboring_relation=relation, records_per_person=people)
    l1 = query_sensitivity(options) if one else l1_sensitivity(options)
    moved = Fraction(l1 * l1) if one else l2_squared_sensitivity(options)
    price = Fraction(math.floor(price / GRID)) * GRID
    noise = (value_noise if one else marginal_noise)(Composition.GDP, price, options)
    assert isinstance(noise, DiscreteGaussian)
    cost, narrower = (
        known(gaussian_charge(moved, sigma).mu_squared) for sigma in (noise.sigma, noise.sigma - 1)
    )
    assert cost <= price < narrower


# --- pure events --------------------------------------------------------------------------------------------


@given(EPSILONS)
def test_the_gaussian_curve_of_a_pure_event_touches_its_corner_from_below(epsilon: Fraction) -> None:
    squared = known(pure_mu_squared(epsilon))
    charged = known(pure_charge(epsilon).mu_squared)
    assert squared <= charged < squared + GRID
    with mpmath.workdps(80):
        mu, corner = mpmath.sqrt(real(squared)), 1 / (1 + mpmath.exp(real(epsilon)))
        assert mpmath.ncdf(-mu / 2) <= corner  # G_mu(c) = Phi(-(mu - mu/2)) where Phi^-1(1 - c) = mu/2
        assert mpmath.ncdf(-mu / 2 * (1 - mpmath.mpf(10) ** -50)) > corner
        assert squared <= mpmath.pi / 2 * real(epsilon) ** 2 * (1 + mpmath.mpf(10) ** -50)


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 5.0])
def test_a_pure_event_is_nowhere_easier_to_tell_apart_than_its_gaussian(epsilon: float) -> None:
    mu, normal = math.sqrt(known(pure_mu_squared(Fraction(epsilon)))), NormalDist()
    for alpha in np.linspace(0.001, 0.999, 500):
        pure = max(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
        assert pure >= normal.cdf(normal.inv_cdf(1 - alpha) - mu) - 1e-12


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=300))
def test_a_pure_event_of_a_price_costs_that_price_and_hardly_less(price: Fraction) -> None:
    price = max(Fraction(math.floor(price / GRID)), Fraction(1)) * GRID
    epsilon = pure_epsilon(price)
    assert known(pure_charge(epsilon).mu_squared) <= price
    assert known(pure_mu_squared(epsilon + 2 * GRID)) > price - GRID


@pytest.mark.parametrize("power", [30, 39, 40, 41, 300])
def test_a_tiny_pure_event_costs_no_less_than_its_corner_says(power: int) -> None:
    squared = known(pure_mu_squared(Fraction(1, 2**power)))
    with mpmath.workdps(300):
        exact = mpmath.pi / 2 * mpmath.mpf(2) ** (-2 * power)  # less a part of epsilon^2
        assert exact * (1 - mpmath.mpf(4) ** -power) <= real(squared) <= exact * mpmath.mpf("1.001")


def test_tiny_and_huge_pure_events_are_defined() -> None:
    assert pure_charge(Fraction(0)) == NOTHING
    tiny = pure_charge(Fraction(1, 10**300)).mu_squared
    assert tiny == GRID
    assert pure_charge(Fraction(64)).mu_squared is not None
    assert pure_charge(Fraction(65)).mu_squared is None
    assert pure_epsilon(Fraction(10**6)) == pure_epsilon(Fraction(400)) > 50


def test_a_run_that_is_not_redrawn_is_one_event() -> None:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, False, Fraction(20), Fraction(300))
    opening, positive = Sparse(test, 50, redraw=False).charges(Composition.GDP)
    assert (opening, positive) == (pure_charge(Fraction(1, 20) + 50 * Fraction(2, 300)), NOTHING)
    opening, positive = Sparse(test, 50, redraw=True).charges(Composition.GDP)
    assert (opening, positive) == (pure_charge(Fraction(1, 20) + Fraction(2, 300)), NOTHING)


# --- what has no price --------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", list(ThresholdNoise))
@pytest.mark.parametrize("redraw", [False, True])
def test_what_is_proved_in_zcdp_alone_has_no_price(noise: ThresholdNoise, redraw: bool) -> None:
    ledger = open_filter(Budget.of(1, "1e-9"), Composition.GDP)
    wide = Fraction(10**9)
    sech2 = Sparse(Sech2Test(noise, Sides.ONE_SIDED, 1, False, wide, wide), 5, redraw=redraw)
    opening, positive = sech2.charges(Composition.GDP)
    choice = bounded_range_charge(Fraction(1, 1000))
    for charge in (opening, opening + positive, choice, choice + pure_charge(Fraction(1, 1000))):
        with pytest.raises(BudgetError, match="proved in GDP"):
            ledger.charge(charge)
    if not redraw:
        with pytest.raises(BudgetError, match="proved in GDP"):
            ledger.charge(positive)
    with pytest.raises(BudgetError, match="proved in GDP"):
        selection_epsilon(Composition.GDP, Fraction(1, 1000))


# --- the filter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tests", "rounds", "epsilon", "delta"),
    [
        (0, 1, 1, "1e-6"), (0, 1, 3, "1e-9"), (1, 1, 1, "1e-6"), (1, 21, 3, "1e-9"),
        (Fraction(3, 100), 21, 1, "1e-6"), (Fraction(3, 10), 1, 3, "1e-9"), (Fraction(3, 10), 21, 1, "1e-6"),
    ],
)  # fmt: skip
def test_sums_of_squares_hold_against_exact_composition(
    tests: Fraction | int, rounds: int, epsilon: int, delta: str
) -> None:
    """Spend a cap on Gaussians and pure rounds; their exact composition, from below and from above."""
    budget = Budget.of(epsilon, delta)
    ledger = open_filter(budget, Composition.GDP)
    priced = Fraction(math.floor(tests * ledger.cap / rounds / GRID)) * GRID
    one = pure_epsilon(priced)
    charges = [pure_charge(one)] * rounds if tests else []
    wide = Fraction(10**9)
    left = ledger.cap - sum(charge.mu_squared or 0 for charge in charges)
    moved = Fraction(math.isqrt(math.floor(left * wide**2)) - 1) if tests < 1 else Fraction(0)
    for charge in (*charges, gaussian_charge(moved**2, wide)):
        ledger = ledger.charge(charge)
    assert ledger.share > 0.999999
    interval = float(budget.epsilon) * 2e-5
    if charges:
        interval = float(one) / math.ceil(float(one) / interval)  # so that no loss of a round is rounded
    parts = [
        pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(float(one)), value_discretization_interval=interval
        ).self_compose(rounds)
    ][: len(charges)]
    if moved:
        parts.append(pld.from_gaussian_mechanism(float(wide / moved), value_discretization_interval=interval))
    found = reduce(pld.PrivacyLossDistribution.compose, parts).get_epsilon_for_delta(float(budget.delta))
    assert found <= float(budget.epsilon) * (1 + 1e-4)  # never more is spent than is claimed
    if not charges:
        assert found >= float(budget.epsilon) * 0.98  # and with Gaussians alone hardly less
