"""The proof of docs/proofs/zcdp-sparse-vector.md, step by step, and whole mechanisms by enumeration.

Polynomial identities are checked in exact fractions on more points than their degrees, which proves them;
derivatives and signs at 100 digits on random points.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeAlias

import mpmath
import numpy as np
import pytest

from pmw.errors import BudgetError, BudgetExhaustedError, NoiseError
from pmw.privacy.budget import Budget, Composition, zcdp_epsilon
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import (
    OutcomeTables,
    OutputDistribution,
    renyi_curve,
    renyi_divergence,
    sharing_noise,
    tables_of,
    tree_distribution,
    without_noise,
)
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
from pmw.sparse_vector import Outcome, Sech2Test, Sides, Sparse, ThresholdNoise

Number: TypeAlias = mpmath.mpf

# --- the lemma ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """Everything the lemma names, at shift s, for fixed u and alpha."""

    u: Number
    beta: Number

    def w(self, s: Number) -> Number:
        t = mpmath.tanh(s / 2)
        return (self.u + t) / (1 + self.u * t)

    def m(self, s: Number) -> Number:
        return 1 / (1 + (self.beta + 1) * mpmath.expm1(s))

    def one_minus_w(self, s: Number) -> Number:
        t = mpmath.tanh(s / 2)
        return (1 - self.u) * (1 - t) / (1 + self.u * t)

    def growth(self, s: Number) -> Number:
        return self.m(s) * mpmath.exp((self.beta + 1) * s)

    def passed(self, s: Number) -> Number:
        passing = self.one_minus_w(s) * (1 + self.w(s))
        return (1 - self.u**2) ** (self.beta + 1) * passing**-self.beta

    def failed(self, s: Number) -> Number:
        return self.u**2 * (self.u / self.w(s)) ** (2 * self.beta)

    def excess(self, s: Number) -> Number:
        """H = growth (1 - failed) - passed."""
        return self.growth(s) * (1 - self.failed(s)) - self.passed(s)

    def floor(self, s: Number) -> Number:
        """phi = w (w - l)/(1 - l w)."""
        w, left = self.w(s), 1 - self.m(s)
        return w * (w - left) / (1 - left * w)

    def log_gap(self, s: Number) -> Number:
        """K = ln failed - ln phi, where w > l."""
        return mpmath.log(self.failed(s)) - mpmath.log(self.floor(s))


def points(count: int, seed: int) -> Iterator[tuple[Point, Number]]:
    draws = random.Random(seed)
    for _ in range(count):
        u = 1 - mpmath.mpf(10) ** draws.uniform(-12, -0.001)
        beta = mpmath.mpf(10) ** draws.uniform(-6, 5)
        yield Point(u, beta), mpmath.mpf(10) ** draws.uniform(-5, 1)


def tame_points(count: int, seed: int) -> Iterator[tuple[Point, Number]]:
    """Points at which a numerical derivative keeps its digits."""
    draws = random.Random(seed)
    for _ in range(count):
        yield (
            Point(mpmath.mpf(draws.uniform(0.05, 0.95)), mpmath.mpf(draws.uniform(0.05, 20))),
            mpmath.mpf(draws.uniform(0.05, 2)),
        )


def close(first: Number, second: Number) -> bool:
    return bool(abs(first - second) <= mpmath.mpf(10) ** -40 * (1 + abs(first) + abs(second)))


def test_the_derivatives_are_as_stated() -> None:
    with mpmath.workdps(100):
        for point, s in tame_points(25, 1):
            w, m, beta = point.w(s), point.m(s), point.beta
            left = 1 - m
            assert close(mpmath.diff(point.w, s), (1 - w**2) / 2)
            assert close(mpmath.diff(point.m, s), -m * (1 + beta * m))
            assert close(mpmath.diff(point.growth, s), beta * left * point.growth(s))
            assert close(mpmath.diff(point.passed, s), beta * w * point.passed(s))
            assert close(mpmath.diff(point.failed, s), -beta * (1 - w**2) * point.failed(s) / w)


def test_the_excess_follows_its_flow() -> None:
    with mpmath.workdps(100):
        for point, s in tame_points(25, 2):
            w, left, beta, failed = point.w(s), 1 - point.m(s), point.beta, point.failed(s)
            bracket = failed * (1 / w - left) - (w - left)
            flow = beta * w * point.excess(s) + beta * point.growth(s) * bracket
            assert close(mpmath.diff(point.excess, s), flow)


def test_the_gap_grows() -> None:
    seen = 0
    with mpmath.workdps(100):
        for point, s in tame_points(60, 3):
            w, left = point.w(s), 1 - point.m(s)
            if w <= left + mpmath.mpf("0.01"):
                continue
            seen += 1
            slope = (1 - w**2) * (point.beta + mpmath.mpf(1) / 2) * left * (1 - w) ** 2
            assert close(mpmath.diff(point.log_gap, s), slope / (w * (w - left) * (1 - left * w)))
            assert slope >= 0
    assert seen >= 10


def test_the_polynomial_identities_hold_exactly() -> None:
    values = [Fraction(number, 7) for number in range(1, 7)]  # more points than any degree below
    for w, left, beta in itertools.product(values, repeat=3):
        m = 1 - left
        assert w * m**2 - (w - left) * (1 - left * w) == left * (1 - w) ** 2
        assert 1 - left**2 == m * (2 - m)
        if w != left:
            product = (w - left) * (1 - left * w)
            assert 1 / (w - left) + left / (1 - left * w) == (1 - left**2) / product
            assert 1 / (w - left) - w / (1 - left * w) == (1 - w**2) / product
        slope = (1 - w**2) / 2 * (1 - left**2) - m * (1 + beta * m) * (1 - w**2)
        assert slope == -(1 - w**2) * (beta + Fraction(1, 2)) * m**2


def test_the_lemma_holds_at_100_digits() -> None:
    gaps = 0
    with mpmath.workdps(100):
        for point, s in points(400, 4):
            assert point.excess(s) > 0
            if point.w(s) > 1 - point.m(s):
                gaps += 1
                assert point.log_gap(s) > 0
    assert gaps >= 60


def test_the_price_is_met_as_values_fall_far_below_their_threshold() -> None:
    with mpmath.workdps(100):
        point, s = Point(1 - mpmath.mpf(10) ** -20, mpmath.mpf(3)), mpmath.mpf("0.4")
        assert point.passed(s) / (1 - point.failed(s)) / point.growth(s) > 1 - mpmath.mpf(10) ** -15


def test_a_smaller_shift_costs_less_than_the_full_one() -> None:
    # F + lambda E is convex in p', and at most lambda at p' = p: every shift up to the full one is covered.
    with mpmath.workdps(60):
        for point, s in tame_points(30, 5):
            price = point.growth(s)
            sums = [point.passed(s * k / 8) + price * point.failed(s * k / 8) for k in range(9)]
            assert all(total <= price * (1 + mpmath.mpf(10) ** -50) for total in sums)
            falls = [1 - point.w(s * k / 8) ** 2 for k in range(9)]
            slopes = [
                (sums[k + 1] - sums[k]) / (falls[k + 1] - falls[k]) for k in range(8)
            ]  # falls decrease: slopes of a convex function do too
            assert all(later <= earlier for earlier, later in itertools.pairwise(slopes))


def test_a_sure_positive_is_covered() -> None:
    # y <= 0: p = 1, E = 0, and F = p'^-beta is at most the price.
    with mpmath.workdps(60):
        for point, s in tame_points(30, 6):
            after = 1 - mpmath.tanh(s / 2) ** 2
            assert after**-point.beta <= point.growth(s)


# --- whole mechanisms ---------------------------------------------------------------------------------------

LIMIT, TESTS, THRESHOLD, WIDE = 2, 5, 6, 4
ORDERS = (1.2, 1.6, 2.5, 5.0, 15.0, 60.0, 300.0, 2000.0)
History: TypeAlias = tuple[int, ...]


def make(noise: ThresholdNoise, sides: Sides, *, monotone: bool) -> Sech2Test:
    return Sech2Test(noise, sides, 1, monotone, Fraction(3), Fraction(WIDE))


def mechanism(test: Sech2Test) -> OutcomeTables:
    return tables_of(Sparse(test, LIMIT, redraw=False), THRESHOLD)


@dataclass(frozen=True)
class Node:
    """A test of a tree: the value, how a neighbour's moves, and the scale of the noise."""

    value: int
    move: int
    scale: int


class Tree:
    """An adaptive analyst: what it asks depends on the outputs so far, drawn once for each."""

    def __init__(self, seed: int, moves: Sequence[int], scales: Sequence[int] = (WIDE,)) -> None:
        self._draws = random.Random(seed)
        self._moves, self._scales = moves, scales
        self._hostile = self._draws.random() < 0.5
        self._nodes: dict[History, Node] = {}

    def __call__(self, history: History) -> Node:
        if history not in self._nodes:
            near = not history if self._hostile else self._draws.random() < 0.5
            distance = self._draws.choice([0, 0, -1, 1, 3]) if near else self._draws.choice([12, 25, 40])
            extreme = max(self._moves) if near else min(self._moves)
            move = extreme if self._hostile else self._draws.choice(self._moves)
            self._nodes[history] = Node(THRESHOLD - distance, move, self._draws.choice(self._scales))
        return self._nodes[history]

    def distributions(self, tables: OutcomeTables) -> tuple[OutputDistribution, OutputDistribution]:
        """Return the probability of every transcript for a table and its neighbour."""

        def ask(history: History, *, moved: bool) -> int | None:
            node = self(history) if len(history) < TESTS else None
            return None if node is None else node.value + moved * node.move

        here, there = (tree_distribution(tables, partial(ask, moved=moved)) for moved in (False, True))
        return here, there


def bound(test: Sech2Test, alpha: float) -> float:
    return threshold_renyi(test, alpha) + LIMIT * renyi_charge(alpha, float(test.positive_price))


def worst(
    test: Sech2Test, moves: Sequence[int], trees: int = 60, *, broken: OutcomeTables | None = None
) -> float:
    """Return the largest divergence over its bound, of many trees, in both orders of the neighbours."""
    tables = mechanism(test) if broken is None else broken
    found = [Tree(seed, moves).distributions(tables) for seed in range(trees)]
    bounds = np.array([bound(test, alpha) for alpha in ORDERS])
    return max(float((renyi_curve(here, there, ORDERS) / bounds).max()) for here, there in found)


SETTINGS = {
    "general": (Sides.ONE_SIDED, False, (-1, 0, 1)),
    "monotone": (Sides.ONE_SIDED, True, (0, 1)),
    "two thresholds": (Sides.TWO_THRESHOLDS, True, (0, 1)),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("noise", list(ThresholdNoise))
def test_no_analyst_exceeds_the_bound(noise: ThresholdNoise, setting: str) -> None:
    sides, monotone, moves = SETTINGS[setting]
    found = worst(make(noise, sides, monotone=monotone), moves)
    assert found <= 1 + 1e-9
    if noise is ThresholdNoise.EXPONENTIAL:
        assert found >= 0.95


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
@pytest.mark.parametrize(("which", "moves"), [("query_scale", (-1, 0, 1)), ("threshold_scale", (0, 1))])
def test_a_scale_that_is_off_by_30_percent_is_noticed(
    which: str, moves: Sequence[int], factor: Fraction
) -> None:
    test = make(ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, monotone=min(moves) == 0)
    drawn = mechanism(replace(test, **{which: getattr(test, which) * factor}))
    found = worst(test, moves, 40, broken=drawn)
    assert found > 1.05 if factor < 1 else found < 0.95


def test_the_order_in_which_values_rise_pays_for_no_threshold() -> None:
    test = make(ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, monotone=True)
    for seed in range(30):
        here, there = Tree(seed, (0, 1)).distributions(mechanism(test))
        for alpha in ORDERS:
            price = LIMIT * renyi_charge(alpha, float(test.positive_price))
            assert renyi_divergence(there, here, alpha) <= price + 1e-9


def test_two_signs_on_one_threshold_break_the_bound() -> None:
    test = make(ThresholdNoise.EXPONENTIAL, Sides.TWO_THRESHOLDS, monotone=True)
    assert worst(test, (0, 1), broken=sharing_noise(mechanism(test))) > 1.1


def test_values_that_move_either_way_break_the_monotone_price() -> None:
    assert worst(make(ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, monotone=True), (-1, 0, 1)) > 1.1


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_threshold_noise_has_no_bound(setting: str) -> None:
    sides, monotone, moves = SETTINGS[setting]
    test = make(ThresholdNoise.EXPONENTIAL, sides, monotone=monotone)
    assert worst(test, moves, 20, broken=without_noise(mechanism(test))) == math.inf


@pytest.mark.parametrize("setting", SETTINGS)
def test_exponential_noise_taken_off_the_threshold_has_no_bound(setting: str) -> None:
    sides, monotone, moves = SETTINGS[setting]
    test = make(ThresholdNoise.EXPONENTIAL, sides, monotone=monotone)
    reach = len(mechanism(test).weights[0]) - 1  # T - rho is T - reach + (reach - rho)
    lower = tables_of(Sparse(test, LIMIT, redraw=False), THRESHOLD - reach)
    taken_off = replace(lower, weights=tuple(one[::-1] for one in lower.weights))
    assert worst(test, moves, 20, broken=taken_off) == math.inf


def test_scales_may_follow_the_outputs_under_a_filter() -> None:
    test, cap_share = make(ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, monotone=False), 2.0
    scales = (WIDE, 2 * WIDE, 3 * WIDE)
    tables = {scale: mechanism(replace(test, query_scale=Fraction(scale))) for scale in scales}
    # A test is asked by its scale and its value, in one number.
    whole = replace(
        tables[WIDE],
        outcomes=lambda asked: tables[asked // 1000].outcomes(asked % 1000 - 500),
        update_limit=None,
    )
    highest = 0.0
    for seed, alpha in itertools.product(range(40), (1.6, 60.0, 2000.0)):
        tree = Tree(seed, (-1, 0, 1), scales)
        cap = cap_share * renyi_charge(alpha, 2 / WIDE)

        def ask(
            history: History, *, moved: bool, tree: Tree = tree, alpha: float = alpha, cap: float = cap
        ) -> int | None:
            spent = sum(
                renyi_charge(alpha, 2 / tree(history[:place]).scale)
                for place, output in enumerate(history)
                if output
            )
            node = tree(history)
            # a test that could exceed the cap is refused, and this analyst stops there
            if len(history) >= TESTS or spent + renyi_charge(alpha, 2 / node.scale) > cap + 1e-12:
                return None
            return 1000 * node.scale + 500 + node.value + moved * node.move

        here, there = (tree_distribution(whole, partial(ask, moved=moved)) for moved in (False, True))
        highest = max(highest, renyi_curve(here, there, [alpha])[0] / (threshold_renyi(test, alpha) + cap))
    assert 0.8 < highest <= 1 + 1e-9


# --- what the test costs: R and its bound against 100 digits, scales for a budget, and the filter -----------

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
        for _ in range(500):
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


def test_what_has_no_price_is_refused() -> None:
    with pytest.raises(BudgetError, match="does not hold the threshold noise"):
        least_query_scale(counts(ThresholdNoise.EXPONENTIAL, Fraction(1, 2)), 3, BUDGET)
    for limit, delta in ((0, 0.1), (1, 1.0), (1, -0.1)):
        with pytest.raises(BudgetError, match="expected c >= 1"):
            run_epsilon(counts(ThresholdNoise.GAUSSIAN, Fraction(10)), limit, delta)
    for alpha, s in ((1.0, 0.1), (math.inf, 0.1), (2.0, 0.0), (math.nan, 0.1)):
        for function in (renyi_charge, renyi_charge_bound):
            with pytest.raises(BudgetError, match="expected an order above 1"):
                function(alpha, s)
    with pytest.raises(BudgetError, match="holds no budget at order"):
        order_filter(BUDGET, 2.0)
    with pytest.raises(BudgetError, match="expected delta > 0"):
        order_filter(Budget.of(1), 20.0)


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
