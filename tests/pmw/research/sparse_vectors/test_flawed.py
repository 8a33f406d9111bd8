"""The flawed algorithms: their counterexamples, at the figures that theory gives."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

import pmw.sparse_vector
from pmw.errors import BudgetError
from pmw.privacy.noise import DiscreteLaplace, Geometric
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import ComparisonTables, neighbor_patterns, output_distribution, worst_log_ratio
from pmw.research.sparse_vectors import flawed
from pmw.research.sparse_vectors.flawed import (
    COUNTEREXAMPLES,
    Counterexample,
    FlawedSparse,
    algorithm_3,
    algorithm_4,
    algorithm_5,
    algorithm_6,
    exponential_inside,
    gptt,
    laplace_inside,
    one_too_many,
)


def found(name: str) -> list[float]:
    return [example.log_ratio() for example in COUNTEREXAMPLES if example.mechanism.name == name]


@pytest.mark.parametrize(
    "example", COUNTEREXAMPLES, ids=lambda example: f"{example.mechanism.name}-{example.found}"
)
def test_a_counterexample_holds_between_neighbours_at_its_figure(example: Counterexample) -> None:
    unit = 16 if example.mechanism.name in ("Algorithm 6", "GPTT") else 1
    assert all(abs(a - b) <= unit for a, b in zip(example.first, example.second, strict=True))
    assert example.log_ratio() == pytest.approx(example.found, abs=6e-5)
    assert -math.inf < example.mechanism.log_probability(example.first, example.thresholds, example.output)


def test_each_algorithm_breaks_its_claim() -> None:
    for name in {example.mechanism.name for example in COUNTEREXAMPLES}:
        claims = [
            float(example.mechanism.claimed) for example in COUNTEREXAMPLES if example.mechanism.name == name
        ]
        assert max(found(name)) > 1.05 * max(claims), name


def test_algorithm_3_costs_half_epsilon_for_each_negative_but_one() -> None:
    assert found("Algorithm 3") == pytest.approx([(m - 1) / 2 for m in (2, 4, 8, 16)], abs=1e-9)


def test_algorithm_4_costs_what_its_noise_does_not_pay_for() -> None:
    assert found("Algorithm 4") == pytest.approx([(1 + 6 * c) / 4 for c in (1, 2, 4)], abs=1e-4)


def test_algorithm_4_costs_less_where_values_are_monotone() -> None:
    for limit in (1, 2, 4):
        first, second = (20,) * 5 + (0,) * limit, (21,) * 5 + (0,) * limit
        outputs = (0,) * 5 + (1,) * limit
        ratio = Counterexample(
            algorithm_4(epsilon=1, update_limit=limit), first, second, (0,) * len(first), outputs, 0.0
        ).log_ratio()
        assert ratio == pytest.approx((1 + 3 * limit) / 4, abs=1e-4)


def test_algorithm_5_says_what_cannot_be() -> None:
    assert found("Algorithm 5") == [math.inf]


def test_algorithm_6_costs_more_than_half_epsilon_for_each_pair() -> None:
    # Figures of the continuous distribution; on the grid of 16 units they differ by 0.003 at most.
    assert found("Algorithm 6") == pytest.approx([1.70, 3.55, 7.35, 15.1], abs=0.02)
    for ratio, pairs in zip(found("Algorithm 6"), (2, 4, 8, 16), strict=True):
        assert ratio > pairs / 2


def test_threshold_testing_grows_without_bound_at_any_split() -> None:
    for first, second in (("0.25", "0.75"), ("0.75", "0.25")):
        ratios = [
            Counterexample(
                gptt(epsilon1=first, epsilon2=second, sensitivity=16),
                (0,) * (2 * m), (16,) * m + (-16,) * m, (0,) * (2 * m), (0,) * m + (1,) * m, 0.0,
            ).log_ratio()
            for m in (4, 8, 16)
        ]  # fmt: skip
        assert ratios[1] > 1.8 * ratios[0]
        assert ratios[2] > 1.8 * ratios[1]


def test_exponential_noise_inside_grows_with_the_threshold() -> None:
    assert found("exponential noise inside") == pytest.approx([7.60, 47.60], abs=0.01)


def test_one_positive_too_many_costs_a_round_more_than_the_share_of_the_tests() -> None:
    for ratio, limit in zip(found("one positive too many"), (1, 2, 4), strict=True):
        assert ratio == pytest.approx((limit + 1) / limit, rel=0.01)
        assert ratio <= (limit + 1) / limit + 1e-9


def test_laplace_noise_inside_keeps_its_claim_and_shows_the_sign_of_the_threshold() -> None:
    algorithm = laplace_inside(epsilon=2, update_limit=2)
    worst = 0.0
    for threshold, base in itertools.product((0, 2, 40), ((0,) * 4, (2, -2, 2, -2), (40, 41, -40, -41))):
        tables = ComparisonTables(algorithm.weights, partial(algorithm.above, threshold=threshold))
        here = output_distribution(tables, base, 2, redraw=False)
        for pattern in neighbor_patterns(4, monotone=False):
            moved = tuple(value + change for value, change in zip(base, pattern, strict=True))
            worst = max(worst, worst_log_ratio(here, output_distribution(tables, moved, 2, redraw=False)))
    assert worst <= 2 + 1e-9
    # Far from 0 it is the one-sided test, and attains its claim: it may not be charged less.
    outputs = (0,) * 40 + (1,) * 2
    far = Counterexample(algorithm, (400,) * 42, (401,) * 40 + (399,) * 2, (400,) * 42, outputs, 2.0)
    assert far.log_ratio() == pytest.approx(2, abs=1e-3)
    assert far.log_ratio() <= 2 + 1e-9
    # A negative says T + rho > 0 for sure; before it that had probability 0.378 at T = 0.
    algorithm = laplace_inside(epsilon=1, update_limit=1)
    below = 1 - algorithm.above(7, 0)
    assert not below[algorithm.support <= 0].any()
    prior = float(algorithm.weights[algorithm.support > 0].sum())
    assert prior == pytest.approx(0.3775, abs=1e-4)


MECHANISMS = [
    algorithm_3(epsilon=1, update_limit=2),
    algorithm_4(epsilon=1, update_limit=2),
    algorithm_5(epsilon=1),
    algorithm_6(epsilon=1),
    gptt(epsilon1="0.3", epsilon2="0.7"),
    exponential_inside(epsilon=1, update_limit=2),
    laplace_inside(epsilon=1, update_limit=2),
    one_too_many(epsilon=1, update_limit=1),
]


def test_the_scales_are_those_that_were_published() -> None:
    assert [mechanism.threshold_noise.scale for mechanism in MECHANISMS] == [
        2, 2 * 2, 2, 2, Fraction(10, 3), 2, 2, 2,
    ]  # fmt: skip
    scales = [m.query_noise.scale if m.query_noise else None for m in MECHANISMS]
    assert scales == [4, Fraction(4, 3), None, 2, Fraction(10, 7), 8, 8, 4]
    assert [mechanism.claimed for mechanism in MECHANISMS] == [1] * 8
    assert [mechanism.update_limit for mechanism in MECHANISMS] == [2, 2, None, None, None, 2, 2, 2]


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_runs_follow_the_distribution_of_the_tables(mechanism: FlawedSparse) -> None:
    values, thresholds, runs = np.array([1, -3, 2]), np.array([2, 1, 2]), 1500
    bits = BitSource.from_integer(7)
    drawn = Counter(
        tuple(int(output is not None if mechanism.releases else output or 0) for output in outputs)
        for outputs in (mechanism.run(values, thresholds, bits) for _ in range(runs))
    )
    tables = [
        mechanism.above(int(value), int(limit)) for value, limit in zip(values, thresholds, strict=True)
    ]

    def probability(outputs: tuple[int, ...]) -> float:
        if mechanism.redraw:
            asked = values[: len(outputs)].tolist(), thresholds[: len(outputs)].tolist()
            return math.exp(mechanism.log_probability(*asked, outputs))
        factors = (above if output else 1 - above for above, output in zip(tables, outputs, strict=False))
        return float(np.sum(np.prod([*factors, mechanism.weights], axis=0)))

    distribution = {outputs: probability(outputs) for outputs in drawn}
    assert sum(distribution.values()) == pytest.approx(1, abs=0.02)
    likely = [outputs for outputs in distribution if distribution[outputs] * runs >= 5]
    expected = np.array([distribution[outputs] for outputs in likely]) * runs
    counts = np.array([drawn[outputs] for outputs in likely])
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


def test_a_released_value_is_the_compared_one() -> None:
    outputs = algorithm_3(epsilon=1, update_limit=2).run(
        np.array([-900, 5000, -900, 6000, 7000]), np.full(5, 1000), BitSource.from_integer(3)
    )
    assert [output is None for output in outputs] == [True, False, True, False]
    assert [outputs[1], outputs[3]] == pytest.approx([5000, 6000], abs=60)


def test_an_impossible_parameter_is_refused() -> None:
    with pytest.raises(BudgetError, match="expected epsilon > 0"):
        algorithm_6(epsilon=0)
    with pytest.raises(BudgetError, match="update limit of at least 1"):
        algorithm_3(epsilon=1, update_limit=0)
    with pytest.raises(BudgetError, match="expected integer values"):
        algorithm_6(epsilon=1).run(np.array([0.5]), np.array([1]), BitSource.from_integer(3))


def test_the_package_does_not_offer_them() -> None:
    offered = {
        name for name, kind in vars(flawed).items() if getattr(kind, "__module__", "") == flawed.__name__
    }
    assert "algorithm_6" in offered
    assert not offered & set(pmw.sparse_vector.__all__)
    assert {type(mechanism.threshold_noise) for mechanism in MECHANISMS} == {DiscreteLaplace, Geometric}
