"""Exact audits of the sparse vector: sound variants stay within their claim, wrong ones are caught.

Values, thresholds and noise live on the integers, and every output vector of 4 tests with at most 2 positives
is enumerated over all neighbour patterns, from the implementation's own tables.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.privacy.budget import Composition
from pmw.research.audit import (
    OutcomeTables,
    OutputDistribution,
    RandomTree,
    delta_curve,
    hockey_stick_divergence,
    log_probability,
    neighbor_patterns,
    releasing,
    renyi_curve,
    renyi_divergence,
    stream_distribution,
    tables_of,
    without_noise,
    worst_log_ratio,
)
from pmw.sparse_vector import NoiseKind, Sech2Test, Sides, Sparse, ThresholdNoise, ThresholdTest
from tests.distributions import WRONG, enumerated

TESTS, LIMIT, THRESHOLD = 4, 2, 2
# One-sided noise attains its bound where values lie at the threshold, two-sided noise far from it.
BASES = [(2, 2, 2, 2), (1, 4, 1, 4), (4, 1, 2, 4), (0, 2, 4, 2), (-6, 9, -6, 9)]

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


@pytest.mark.parametrize(("noise", "sides", "monotone", "redraw"), VARIANTS)
def test_every_variant_stays_within_its_claim(
    noise: NoiseKind, sides: Sides, monotone: bool, redraw: bool
) -> None:
    audited = sparse(noise, sides, monotone, redraw)
    found, claimed = enumerated(audited, THRESHOLD, BASES), float(audited.epsilon)
    assert found <= claimed + 1e-9
    if noise is NoiseKind.EXPONENTIAL:
        assert found == pytest.approx(claimed, abs=1e-6)  # the bound is attained: no cheaper price is sound


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("which", ["threshold_scale", "query_scale"])
def test_a_scale_30_percent_off_shows_in_the_audit(which: str, wrong: Fraction) -> None:
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, True, False)
    claimed = float(audited.epsilon)
    scale = wrong * getattr(audited.test, which)
    off = replace(audited, test=replace(audited.test, **{which: scale}))
    found = enumerated(off, THRESHOLD, BASES)
    assert (found > claimed + 0.05) if wrong < 1 else (found < claimed - 0.05)


def test_threshold_and_positives_charged_as_separate_squares_are_caught() -> None:
    # One event of epsilon1 + c epsilon2 costs its whole square; the sum of separate squares undercharges it.
    audited = Sparse(
        ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(20), Fraction(20)), 4, False
    )
    tables = tables_of(audited, 20)
    first, second = (stream_distribution(tables, (value,) * 6) for value in (19, 20))
    separate = audited.test.threshold_price**2 / 2 + 4 * audited.test.positive_price**2 / 2
    whole = audited.charges(Composition.ZCDP)[0].rho
    ratios = [
        max(renyi_divergence(first, second, alpha), renyi_divergence(second, first, alpha)) / alpha
        for alpha in (1.01, 1.5, 2, 4, 8, 16, 32)
    ]
    assert float(separate) < max(ratios) <= float(whole)


@pytest.mark.parametrize(("noise", "sides", "monotone", "redraw"), VARIANTS)
def test_the_whole_charge_bounds_the_renyi_divergence(
    noise: NoiseKind, sides: Sides, monotone: bool, redraw: bool
) -> None:
    audited = sparse(noise, sides, monotone, redraw)
    opening, _ = audited.charges(Composition.ZCDP)
    rho, tables = float(opening.rho) * (LIMIT if redraw else 1), tables_of(audited, THRESHOLD)
    values, orders = (2, 1, 4, 2), np.array([1.1, 2.0, 8.0])
    base = stream_distribution(tables, values)
    for pattern in neighbor_patterns(TESTS, monotone=monotone):
        moved = stream_distribution(tables, [v + d for v, d in zip(values, pattern, strict=True)])
        assert (renyi_curve(base, moved, orders.tolist()) <= orders * rho + 1e-9).all()


def test_the_delta_curve_is_that_of_randomised_response() -> None:
    # Truth with probability e/(1+e): delta(x) = (e - e^x)/(1 + e) for 0 <= x <= 1, and 0 beyond.
    truth = np.e / (1 + np.e)
    first: OutputDistribution = {(0,): truth, (1,): 1 - truth}
    second: OutputDistribution = {(0,): 1 - truth, (1,): truth}
    epsilons = [0.0, 0.3, 0.9, 1.0, 2.0]
    expected = np.maximum(0, (np.e - np.exp(epsilons)) / (1 + np.e))
    assert delta_curve(first, second, epsilons) == pytest.approx(expected, abs=1e-12)


def test_a_possible_against_an_impossible_output_is_an_infinite_ratio() -> None:
    possible: OutputDistribution = {(0,): 0.5, (1,): 0.5}
    impossible: OutputDistribution = {(0,): 1.0, (1,): 0.0}
    assert worst_log_ratio(possible, impossible) == worst_log_ratio(impossible, possible) == math.inf
    assert renyi_divergence(possible, impossible, 2) == math.inf
    assert worst_log_ratio(impossible, impossible) == 0


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


# --- the enumeration itself ---------------------------------------------------------------------------------


def by_definition(audited: Sparse, values: tuple[int, ...]) -> OutputDistribution:
    """Return the probability of every output vector: round by round, summed over both threshold noises."""
    test, support = audited.test, np.arange(-120, 121)
    two = test.sides is Sides.TWO_THRESHOLDS
    weights = np.outer(*[test.threshold_noise.pmf(support)] * 2)

    def chance(value: int, output: int) -> NDArray[np.float64]:
        compared = abs(value) if test.sides is Sides.TWO_SIDED else value
        above = test.query_noise.survival(THRESHOLD + support - compared)[:, None]
        negated = test.query_noise.survival(THRESHOLD + support + value)[None, :] * two
        return np.asarray({1: above, 0: (1 - above) * (1 - negated), -1: (1 - above) * negated}[output])

    found = {}
    for outputs in itertools.product((-1, 0, 1) if two else (0, 1), repeat=len(values)):
        positives = [place + 1 for place, output in enumerate(outputs) if output]
        end = positives[LIMIT - 1] if len(positives) >= LIMIT else len(outputs)
        bounds = [0, *(positives if audited.redraw else []), end]
        rounds = [
            [chance(values[place], outputs[place]) for place in range(low, high)]
            for low, high in itertools.pairwise(sorted({one for one in bounds if one <= end}))
        ]
        found[outputs[:end]] = math.prod(float(math.prod(parts, start=weights).sum()) for parts in rounds)
    return found


@pytest.mark.parametrize("sech2", [None, *ThresholdNoise])
@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("sides", list(Sides))
def test_streams_have_the_distribution_of_the_definition(
    sides: Sides, redraw: bool, sech2: ThresholdNoise | None
) -> None:
    audited, values = sparse(NoiseKind.LAPLACE, sides, sides is Sides.TWO_THRESHOLDS, redraw), (2, -3, 4)
    if sech2 is not None:
        test = Sech2Test(sech2, sides, 1, audited.test.monotone, Fraction(3), Fraction(4))
        audited = replace(audited, test=test)
    tables = tables_of(audited, THRESHOLD)
    found, expected = stream_distribution(tables, values), by_definition(audited, values)
    assert found == pytest.approx(expected, abs=1e-12)
    for outputs, chance in expected.items():
        assert math.exp(log_probability(tables, values[: len(outputs)], outputs)) == pytest.approx(chance)


def test_a_result_is_released_at_each_positive_alone() -> None:
    tables = tables_of(sparse(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, False, True), THRESHOLD)
    found = stream_distribution(releasing(tables, lambda value: {5: 0.25, 7: 0.75}), (2, 1))
    without = stream_distribution(tables, (2, 1))
    assert {one for outputs in found for one in outputs} == {0, 5, 7}
    assert found[0, 7] == pytest.approx(0.75 * without[0, 1])
    assert found[5, 5] == pytest.approx(0.0625 * without[1, 1])
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


def test_a_random_tree_is_a_pair_of_neighbours() -> None:
    for seed in range(20):
        tree = RandomTree(seed, 5, 4, True)
        pairs = [tree.values(outputs) for outputs in [(), (0,), (1,), (0, 1), (0, 0), (1, 1, 0)]]
        assert all(abs(first) <= 4 and abs(second - first) <= 1 for first, second in pairs)
        moves = {second - first for first, second in pairs}
        assert moves <= {0, 1} or moves <= {0, -1}
        assert tree.values((0, 1)) == pairs[3]
    assert len({RandomTree(seed, 5, 4, False).values(()) for seed in range(40)}) > 10


def test_random_trees_catch_a_missing_threshold_noise_and_keep_a_sound_claim() -> None:
    audited = sparse(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, True, True)
    whole = tables_of(audited, THRESHOLD)

    def worst(tables: OutcomeTables) -> float:
        trees = [RandomTree(seed, 4, 4, True) for seed in range(12)]
        return max(
            worst_log_ratio(*(tree.distribution(tables, neighbor=neighbor) for neighbor in (False, True)))
            for tree in trees
        )

    assert 0.5 < worst(whole) <= float(audited.epsilon) + 1e-9
    assert worst(without_noise(whole)) > 10
