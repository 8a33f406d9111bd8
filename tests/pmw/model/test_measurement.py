"""Measurements: their units, variances and quantiles."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import PMWError
from pmw.model import MarginalMeasurement, NoiseLaw, QueryMeasurement, half_width, noise_variance
from pmw.noise import DiscreteGaussian, DiscreteLaplace
from pmw.randomness import BitSource
from queries import UNITS, Domain, IntegerAttribute, LinearQuery, ScopeError

LAWS: list[NoiseLaw] = [DiscreteLaplace(Fraction(30 * UNITS)), DiscreteGaussian(Fraction(30 * UNITS))]


def test_units_become_records() -> None:
    measurement = MarginalMeasurement(("a",), np.array([UNITS, -UNITS // 2]), LAWS[1])
    assert measurement.values.tolist() == [1.0, -0.5]
    query = LinearQuery.everything(Domain((IntegerAttribute("a", 0, 1),)))
    assert QueryMeasurement(query, 3 * UNITS, LAWS[1]).value == 3.0


def test_a_marginal_needs_one_axis_per_attribute_and_is_read_only() -> None:
    with pytest.raises(ScopeError, match="expected 2 axes"):
        MarginalMeasurement(("a", "b"), np.array([1, 2]), LAWS[0])
    with pytest.raises(ValueError, match="read-only"):
        MarginalMeasurement(("a",), np.array([1]), LAWS[0]).units[0] = 2


@pytest.mark.statistical
@pytest.mark.parametrize("noise", LAWS)
def test_the_variance_is_that_of_the_draws(noise: NoiseLaw) -> None:
    draws = noise.sample_array(BitSource.from_integer(3), 100_000) / UNITS
    assert draws.var() == pytest.approx(noise_variance(noise), rel=0.04)


@pytest.mark.statistical
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("noise", LAWS)
def test_the_half_width_holds_as_often_as_stated(noise: NoiseLaw, confidence: float) -> None:
    draws = np.abs(noise.sample_array(BitSource.from_integer(3), 200_000)) / UNITS
    held = (draws <= half_width(noise, confidence)).mean()
    error = 4 * np.sqrt(confidence * (1 - confidence) / len(draws))
    assert confidence - error < held < confidence + error


@pytest.mark.parametrize("confidence", [0.0, 1.0, 1.5])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(PMWError, match="strictly between 0 and 1"):
        half_width(LAWS[0], confidence)
