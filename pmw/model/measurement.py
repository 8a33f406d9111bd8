"""Measurements: noisy numbers that were bought, and how noisy they are. All of it is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import PMWError
from pmw.noise import DiscreteGaussian, DiscreteLaplace
from queries.errors import ScopeError
from queries.linear import UNITS, LinearQuery

__all__ = [
    "half_width",
    "MarginalMeasurement",
    "Measurement",
    "noise_form",
    "noise_variance",
    "NoiseLaw",
    "QueryMeasurement",
    "read_noise",
]

NoiseLaw: TypeAlias = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True, eq=False)
class MarginalMeasurement:
    """A whole marginal, each cell under fresh noise.

    Args:
        scope: attribute names in declared order; empty for the number of records.
        units: int64, one axis per attribute, noisy records per cell in units of 2^-20.
        noise: law of each cell's noise, in units.
    """

    scope: tuple[str, ...]
    units: NDArray[np.int64]
    noise: NoiseLaw

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        if units.ndim != len(self.scope):
            raise ScopeError(f"expected {len(self.scope)} axes over {list(self.scope)}, got {units.ndim}")
        units.flags.writeable = False
        object.__setattr__(self, "units", units)

    @property
    def values(self) -> NDArray[np.float64]:
        """The noisy counts: float64, records per cell."""
        return self.units / UNITS

    @property
    def variance(self) -> float:
        """Variance of one cell's noise, in squared records."""
        return noise_variance(self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class QueryMeasurement:
    """The answer to one query under fresh noise.

    Args:
        query: what was asked.
        units: the noisy answer, in units of 2^-20 records.
        noise: law of the noise, in units.
        model_units: the model's answer that it corrects, in units.
    """

    query: LinearQuery
    units: int
    noise: NoiseLaw
    model_units: int = 0

    @property
    def value(self) -> float:
        """The noisy answer, in records."""
        return self.units / UNITS

    @property
    def variance(self) -> float:
        """Variance of the noise, in squared records."""
        return noise_variance(self.noise)


Measurement: TypeAlias = MarginalMeasurement | QueryMeasurement


def noise_variance(noise: NoiseLaw) -> float:
    """Return an upper bound on the variance of a law in units, in squared records.

    2 b^2 for discrete Laplace, sigma^2 for discrete Gaussian; both are attained for wide noise.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Corollary 9, for the Gaussian; the discrete Laplace
        has variance 2r/(1-r)^2 <= 2 b^2.
    """
    if isinstance(noise, DiscreteLaplace):
        return 2 * (float(noise.scale) / UNITS) ** 2
    return (float(noise.sigma) / UNITS) ** 2


def half_width(noise: NoiseLaw, confidence: float) -> float:
    """Return w, in records, such that noise lies within +-w with at least the given probability.

    One unit is added for the rounding of the continuous quantile to the grid.

    Raises:
        PMWError: the confidence is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise PMWError(f"expected a confidence strictly between 0 and 1, got {confidence}")
    if isinstance(noise, DiscreteLaplace):
        return (float(noise.scale) * -math.log1p(-confidence) + 1) / UNITS
    return (float(noise.sigma) * NormalDist().inv_cdf((1 + confidence) / 2) + 1) / UNITS


def noise_form(noise: NoiseLaw) -> dict[str, str]:
    """Return the form of a noise law: its name and its scale in units."""
    if isinstance(noise, DiscreteLaplace):
        return {"law": "discrete_laplace", "scale": str(noise.scale)}
    return {"law": "discrete_gaussian", "sigma": str(noise.sigma)}


def read_noise(form: dict[str, str]) -> NoiseLaw:
    """Return the noise law of a form."""
    if form["law"] == "discrete_laplace":
        return DiscreteLaplace(Fraction(form["scale"]))
    return DiscreteGaussian(Fraction(form["sigma"]))
