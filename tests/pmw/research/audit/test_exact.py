"""Exact audits of the sparse vector: sound variants stay within their claim, wrong ones are caught.

Values, thresholds and noise live on the integers, and every output vector of 5 tests with at most 2 positives
is enumerated over all neighbour patterns, from the implementation's own tables.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.errors import BudgetError
from pmw.privacy.budget import Composition, pure_charge
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import (
    ComparisonTables,
    OutputDistribution,
    delta_curve,
    hockey_stick_divergence,
    neighbor_patterns,
    output_distribution,
    output_distribution_of,
    renyi_curve,
    renyi_divergence,
    tables_of,
    worst_log_ratio,
)
from pmw.sparse_vector import NoiseKind, NumericSparse, Sides, Sparse, ThresholdTest

TESTS, LIMIT, THRESHOLD = 5, 2, 2
# One-sided noise attains its bound where values lie at the threshold, two-sided noise far from it.
BASES = [(2, 2, 2, 2, 2), (1, 4, 1, 4, 1), (4, 1, 2, 4, 4), (0, 2, 4, 2, 0), (-6, 9, -6, 9, 2)]

VARIANTS = [
    (noise, sides, monotone, redraw)
    for noise in NoiseKind
    for sides, monotone in (
        (Sides.ONE_SIDED, False),
        (Sides.ONE_SIDED, True),
        (Sides.TWO_SIDED, False),
        (Sides.TWO_THRESHOLDS, True),
    )
    for redraw in (False, True)
]


def sparse(noise: NoiseKind, sides: Sides, monotone: bool, redraw: bool) -> Sparse:
    return Sparse(ThresholdTest(noise, sides, 1, monotone, Fraction(3), Fraction(4)), LIMIT, redraw)


def worst(
    distribution: Callable[[tuple[int, ...]], OutputDistribution],
    bases: Sequence[tuple[int, ...]],
    monotone: bool,
) -> float:
    """Return the largest log-ratio between any base point and any of its neighbours."""
    known: dict[tuple[int, ...], OutputDistribution] = {}
    found = 0.0
    for base, pattern in itertools.product(bases, neighbor_patterns(TESTS, monotone=monotone)):
        moved = tuple(value + change for value, change in zip(base, pattern, strict=True))
        for values in (base, moved):
            if values not in known:
                known[values] = distribution(values)
        found = max(found, worst_log_ratio(known[base], known[moved]))
    return found


@pytest.mark.parametrize(("noise", "sides", "monotone", "redraw"), VARIANTS)
def test_every_variant_stays_within_its_claim(
    noise: NoiseKind, sides: Sides, monotone: bool, redraw: bool
) -> None:
    audited = sparse(noise, sides, monotone, redraw)
    found = worst(lambda values: output_distribution_of(audited, THRESHOLD, values), BASES, monotone)
    claimed = float(audited.total_epsilon)
    assert found <= claimed + 1e-9
    if noise is NoiseKind.EXPONENTIAL:
        assert found == pytest.approx(claimed, abs=1e-6)  # the bound is attained: no cheaper price is sound


@pytest.mark.parametrize("wrong", [Fraction(10, 13), Fraction(13, 10)])
@pytest.mark.parametrize("which", ["threshold_scale", "query_scale"])
def test_a_scale_30_percent_off_shows_in_the_audit(which: str, wrong: Fraction) -> None:
    claimed = float(sparse(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, True, False).total_epsilon)
    scales = {"threshold_scale": Fraction(3), "query_scale": Fraction(4)}
    scales[which] *= wrong
    off = Sparse(ThresholdTest(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, 1, True, **scales), LIMIT, False)
    found = worst(lambda values: output_distribution_of(off, THRESHOLD, values), BASES, True)
    assert (found > claimed + 0.05) if wrong < 1 else (found < claimed - 0.05)


def test_one_shared_threshold_at_two_threshold_scales_is_caught() -> None:
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, True, False)
    tables = tables_of(audited.test, THRESHOLD)
    shared = ComparisonTables(tables.weights, tables.above, tables.negated, shared=True)
    found = worst(lambda values: output_distribution(shared, values, LIMIT, redraw=False), BASES, True)
    assert found > float(audited.total_epsilon) + 0.1


def test_exponential_noise_inside_the_absolute_value_is_caught() -> None:
    # Far below -T a value passes by nu near 0 alone. Moved up by 1, with the threshold shifted, it needs
    # nu <= -1, which one-sided noise never is.
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.TWO_SIDED, False, False)
    threshold = 20
    tables = tables_of(audited.test, threshold)
    limits = threshold + np.arange(len(tables.weights))
    noise = audited.test.query_noise

    def inside(value: int) -> NDArray[np.float64]:
        below_minus_limit = 1 - noise.survival(1 - limits - value)
        return noise.survival(limits - value) + below_minus_limit  # Pr[|value + nu| >= limit]

    wrong = ComparisonTables(tables.weights, inside)
    found = worst(
        lambda values: output_distribution(wrong, values, LIMIT, redraw=False), [(-21,) * TESTS], False
    )
    assert found > float(audited.total_epsilon) + 0.1
    right = worst(lambda values: output_distribution_of(audited, threshold, values), [(-21,) * TESTS], False)
    assert right <= float(audited.total_epsilon) + 1e-9


@pytest.mark.parametrize("redraw", [False, True])
def test_one_positive_too_many_is_caught(redraw: bool) -> None:
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, False, redraw)
    tables = tables_of(audited.test, THRESHOLD)
    found = worst(lambda values: output_distribution(tables, values, LIMIT + 1, redraw=redraw), BASES, False)
    assert found > float(audited.total_epsilon) + 0.1


def test_test_noise_without_threshold_noise_is_caught() -> None:
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, False, False)
    tables = tables_of(audited.test, THRESHOLD)
    bare = ComparisonTables(np.eye(1, len(tables.weights))[0], tables.above)
    assert worst(lambda values: output_distribution(bare, values, LIMIT, redraw=False), BASES, False) > 10


def test_threshold_and_positives_charged_as_separate_squares_are_caught() -> None:
    # One event of epsilon1 + c epsilon2 costs its whole square; the sum of separate squares undercharges it.
    audited = Sparse(
        ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(20), Fraction(20)), 4, False
    )
    near, far = (19,) * 6, (20,) * 6
    first, second = output_distribution_of(audited, 20, near), output_distribution_of(audited, 20, far)
    separate = audited.test.threshold_price**2 / 2 + 4 * audited.test.positive_price**2 / 2
    whole = audited.charges(Composition.ZCDP)[0].rho
    ratios = [
        max(renyi_divergence(first, second, alpha), renyi_divergence(second, first, alpha)) / alpha
        for alpha in (1.01, 1.5, 2, 4, 8, 16, 32)
    ]
    assert max(ratios) > float(separate)
    assert max(ratios) <= float(whole)
    assert audited.charges(Composition.ZCDP) == (
        pure_charge(audited.test.threshold_price + 4 * audited.test.positive_price),
        audited.charges(Composition.ZCDP)[1],
    )


@pytest.mark.parametrize(("noise", "sides", "monotone", "redraw"), VARIANTS)
def test_the_whole_charge_bounds_the_renyi_divergence(
    noise: NoiseKind, sides: Sides, monotone: bool, redraw: bool
) -> None:
    audited = sparse(noise, sides, monotone, redraw)
    opening, _ = audited.charges(Composition.ZCDP)
    rho = float(opening.rho) * (LIMIT if redraw else 1)
    base = output_distribution_of(audited, THRESHOLD, (2, 1, 4, 2, 1))
    for pattern in neighbor_patterns(TESTS, monotone=monotone):
        moved = output_distribution_of(
            audited, THRESHOLD, [v + d for v, d in zip((2, 1, 4, 2, 1), pattern, strict=True)]
        )
        for alpha in (1.1, 2.0, 8.0):
            assert renyi_divergence(base, moved, alpha) <= alpha * rho + 1e-9
            assert renyi_divergence(moved, base, alpha) <= alpha * rho + 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "sides", "monotone", "redraw"), VARIANTS)
def test_the_implementation_draws_the_distribution_that_is_audited(
    noise: NoiseKind, sides: Sides, monotone: bool, redraw: bool
) -> None:
    audited = sparse(noise, sides, monotone, redraw)
    values = (1, -3, 3, 2)
    distribution = output_distribution_of(audited, THRESHOLD, values)
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)
    bits = BitSource.from_integer(41)
    runs = 2000 if noise is NoiseKind.EXPONENTIAL else 4000  # either shows nearly every scale 30 % off
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(runs):
        state = audited.open(bits)
        outputs: list[int] = []
        while len(outputs) < len(values) and state.positives < LIMIT:
            rest = np.array(values[len(outputs) :])
            state, outcomes = audited.scan(state, rest, np.full(len(rest), THRESHOLD), bits)
            outputs.extend(int(outcome) for outcome in outcomes)
        found[tuple(outputs)] += 1
    likely = [outputs for outputs, probability in distribution.items() if probability * runs >= 5]
    counts = [*(found[outputs] for outputs in likely), runs - sum(found[outputs] for outputs in likely)]
    shares = [distribution[outputs] for outputs in likely]
    expected = np.array([*shares, max(1 - sum(shares), 1e-12)]) * runs
    statistic = float(np.sum((np.array(counts) - expected) ** 2 / np.maximum(expected, 1e-9)))
    assert set(found) <= set(distribution)
    assert stats.chi2.sf(statistic, len(likely)) > 1e-4


@pytest.mark.parametrize("value_noise", [DiscreteLaplace(Fraction(5)), DiscreteGaussian(Fraction(5))])
def test_numeric_sparse_adds_the_price_of_each_value(value_noise: DiscreteLaplace | DiscreteGaussian) -> None:
    # Outputs are vectors of outcomes and, for each positive, a value; given the outcomes, values are drawn
    # independently of the threshold noise, so log-ratios add.
    audited = NumericSparse(sparse(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, False, False), value_noise)
    base, released = (2, 3, 2, 3, 2), np.arange(-40, 50)
    found = 0.0
    for pattern in neighbor_patterns(TESTS, monotone=False):
        moved = tuple(v + d for v, d in zip(base, pattern, strict=True))
        first = output_distribution_of(audited.sparse, THRESHOLD, base)
        second = output_distribution_of(audited.sparse, THRESHOLD, moved)
        for outputs in first:
            ratio = abs(np.log(first[outputs] / second[outputs]))
            for place in [place for place, symbol in enumerate(outputs) if symbol]:
                here, there = (
                    value_noise.pmf(released - base[place]),
                    value_noise.pmf(released - moved[place]),
                )
                ratio += float(np.abs(np.log(here / there)).max())
            found = max(found, ratio)
    opening, positive = audited.charges(Composition.PURE)
    if isinstance(value_noise, DiscreteGaussian):
        assert positive.epsilon is None  # not pure: only its rho counts
        assert Fraction(1, 50) <= audited.value_charge.rho < Fraction(1, 50) + Fraction(1, 2**60)
    else:
        assert opening.epsilon is not None
        assert positive.epsilon is not None
        assert found <= float(opening.epsilon + LIMIT * positive.epsilon) + 1e-9


@pytest.mark.parametrize("negatives", [2, 4, 8, 16])
def test_reusing_the_test_noise_for_the_value_is_caught(negatives: int) -> None:
    # Lyu, Su and Li (2017), Algorithm 3 and Theorem 9.11 at epsilon = 1, c = 1, T = 0: m values that go from
    # 0 to 1, a last one that goes from 1 to 0, and the output: m negatives, then the value 0 of its own test.
    noise = DiscreteLaplace(Fraction(2))
    support = np.arange(-400, 1)  # the released 0 >= T + z shows that z <= 0

    def log_probability(value: int, last: int) -> float:
        below = 1 - noise.survival(support - value)
        density = float(noise.pmf(np.array([0 - last]))[0])
        return float(np.log(np.sum(noise.pmf(support) * below**negatives)) + np.log(density))

    ratio = log_probability(0, 1) - log_probability(1, 0)
    assert ratio == pytest.approx((negatives - 1) / 2, abs=1e-9)
    assert (ratio > 1) == (negatives > 3)


def test_an_impossible_audit_is_refused() -> None:
    tables = tables_of(sparse(NoiseKind.LAPLACE, Sides.ONE_SIDED, False, False).test, 1)
    with pytest.raises(BudgetError, match="expected an update limit of at least 1"):
        output_distribution(tables, (1, 2), 0, redraw=False)


def test_a_possible_against_an_impossible_output_is_an_infinite_ratio() -> None:
    assert worst_log_ratio({(0,): 0.5, (1,): 0.5}, {(0,): 1.0, (1,): 0.0}) == float("inf")
    assert renyi_divergence({(0,): 0.5, (1,): 0.5}, {(0,): 1.0, (1,): 0.0}, 2) == float("inf")
    assert worst_log_ratio({(0,): 1.0, (1,): 0.0}, {(0,): 1.0, (1,): 0.0}) == 0


def test_the_delta_curve_is_that_of_randomised_response() -> None:
    # Truth with probability e/(1+e): delta(x) = (e - e^x)/(1 + e) for 0 <= x <= 1, and 0 beyond.
    truth = np.e / (1 + np.e)
    first: OutputDistribution = {(0,): truth, (1,): 1 - truth}
    second: OutputDistribution = {(0,): 1 - truth, (1,): truth}
    epsilons = [0.0, 0.3, 0.9, 1.0, 2.0]
    expected = np.maximum(0, (np.e - np.exp(epsilons)) / (1 + np.e))
    assert delta_curve(first, second, epsilons) == pytest.approx(expected, abs=1e-12)


def test_curves_take_the_worse_direction() -> None:
    first: OutputDistribution = {(0,): 0.5, (1,): 0.5}
    second: OutputDistribution = {(0,): 0.9, (1,): 0.1}
    one = hockey_stick_divergence(first, second, 0.5)
    other = hockey_stick_divergence(second, first, 0.5)
    assert one == pytest.approx(0.5 - 0.1 * np.exp(0.5))
    assert other == pytest.approx(0.9 - 0.5 * np.exp(0.5))
    assert delta_curve(first, second, [0.5])[0] == max(one, other)
    assert renyi_curve(first, second, [2.0])[0] == max(
        renyi_divergence(first, second, 2.0), renyi_divergence(second, first, 2.0)
    )


def test_no_delta_is_left_at_the_claim_of_a_pure_run() -> None:
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, False, False)
    first = output_distribution_of(audited, THRESHOLD, (4, 1, 2, 4, 4))
    second = output_distribution_of(audited, THRESHOLD, (3, 2, 3, 5, 3))
    claimed = float(audited.total_epsilon)
    curve = delta_curve(first, second, [0.0, 0.5 * claimed, 0.95 * claimed, claimed + 1e-9])
    assert (np.diff(curve) < 0).all()
    assert curve[2] > 0
    assert curve[3] == 0
