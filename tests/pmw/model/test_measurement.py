"""Measurements: their units, variances and quantiles."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import PMWError
from pmw.model import (
    HierarchicalHistogram,
    HierarchicalMeasurement,
    MarginalMeasurement,
    QueryMeasurement,
    half_width,
    noise_variance,
    target_of,
)
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource
from queries import UNITS, Domain, IntegerAttribute, LinearQuery, ScopeError

DISTRIBUTIONS: list[NoiseDistribution] = [
    DiscreteLaplace(Fraction(30 * UNITS)),
    DiscreteGaussian(Fraction(30 * UNITS)),
]


def test_units_become_records() -> None:
    measurement = MarginalMeasurement(("a",), np.array([UNITS, -UNITS // 2]), DISTRIBUTIONS[1])
    assert measurement.values.tolist() == [1.0, -0.5]
    query = LinearQuery.everything(Domain((IntegerAttribute("a", 0, 1),)))
    assert QueryMeasurement(query, 3 * UNITS, DISTRIBUTIONS[1]).value == 3.0


def test_numbers_fit_their_scope_and_are_read_only() -> None:
    tree, noise, nodes = HierarchicalHistogram(30, 1, 4, 2), DISTRIBUTIONS[0], np.zeros(40, dtype=np.int64)
    with pytest.raises(ScopeError, match="expected 2 axes"):
        MarginalMeasurement(("a", "b"), np.array([1, 2]), noise)
    with pytest.raises(ScopeError, match="expected 40 nodes"):
        HierarchicalMeasurement(("a",), tree, nodes[:31], noise)
    with pytest.raises(ScopeError, match="over one attribute"):
        HierarchicalMeasurement(("a", "b"), tree, nodes, noise)
    for one in (
        MarginalMeasurement(("a",), nodes, noise),
        HierarchicalMeasurement(("a",), tree, nodes, noise),
    ):
        with pytest.raises(ValueError, match="read-only"):
            one.units[0] = 2


@pytest.mark.parametrize("noise", DISTRIBUTIONS)
def test_the_variances_of_a_tree_are_those_of_its_values(noise: NoiseDistribution) -> None:
    tree, weights = HierarchicalHistogram(30, 1, 4, 2), np.arange(31) % 3 / 2
    # Values are linear in the numbers of the nodes, whose noises are independent: one record in each in turn.
    records = [
        HierarchicalMeasurement(("a",), tree, units, noise) for units in UNITS * np.eye(tree.nodes, dtype=int)
    ]
    values = np.array([measurement.values for measurement in records])
    variance = noise_variance(noise)
    assert variance * (values**2).sum(axis=0) == pytest.approx(records[0].cell_variances)
    assert variance * ((values @ weights) ** 2).sum() == pytest.approx(
        records[0].estimate.weighted_variance(weights)
    )


def test_a_marginals_target_shares_what_its_cells_lack_evenly() -> None:
    measurement = MarginalMeasurement(("a",), np.array([UNITS, 3 * UNITS]), DISTRIBUTIONS[1])
    target = target_of(measurement, 10.0)
    assert target.scope == ("a",)
    assert target.values.tolist() == [4.0, 6.0]
    assert target.variance.tolist() == [900.0, 900.0]
    assert measurement.estimate.weighted_variance(np.array([1.0, 0.5])) == pytest.approx(900 * 1.25)


def test_a_trees_target_is_not_negative_and_has_the_total() -> None:
    tree = HierarchicalHistogram(30, 0, 4, 2)
    units = DISTRIBUTIONS[1].sample_array(BitSource.from_integer(6), tree.nodes)
    target = target_of(HierarchicalMeasurement(("a",), tree, units, DISTRIBUTIONS[1]), 100.0)
    assert target.values.min() >= 0
    assert target.values.sum() == pytest.approx(100.0)
    assert target.variance.max() < 900


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(3001)])
@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
def test_the_variance_is_that_of_the_table_for_wide_noise_and_never_less(
    make: type[DiscreteLaplace | DiscreteGaussian], scale: Fraction
) -> None:
    values = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    exact = float(np.sum(values.astype(float) ** 2 * make(scale).pmf(values))) / UNITS**2
    assert exact <= noise_variance(make(scale)) * (1 + 1e-9)
    assert scale < 3 or noise_variance(make(scale)) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.95, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(3001)])
def test_noise_is_beyond_the_half_width_with_no_more_than_may_fail(
    scale: Fraction, confidence: float
) -> None:
    for noise in (DiscreteLaplace(scale), DiscreteGaussian(scale)):
        beyond = math.floor(half_width(noise, confidence) * UNITS) + 1
        fails = 2 * float(noise.survival(np.array([beyond]))[0])
        assert fails <= (1 - confidence) * (1 + 1e-6)
        assert scale < 3000 or fails > (1 - confidence) * 0.99  # nor is it wider


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(3001)])
def test_the_discrete_gaussian_is_at_most_one_beyond_the_continuous_one(sigma: Fraction) -> None:
    # Pr[X >= m] <= Pr[Z >= m - 1] for every whole m >= 1
    values = np.unique(np.ceil(np.linspace(1, 6 * float(sigma) + 2, 200)).astype(np.int64))
    tails = [math.erfc((value - 1) / (math.sqrt(2) * float(sigma))) / 2 for value in values.tolist()]
    assert np.all(DiscreteGaussian(sigma).survival(values) <= np.array(tails) * (1 + 1e-9))


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(PMWError, match="strictly between 0 and 1"):
        half_width(DISTRIBUTIONS[0], confidence)
