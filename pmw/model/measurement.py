"""Measurements: noisy numbers that were measured, and how noisy they are. All of it is public.

Measurements of the same cells are taken together: each by the inverse of its variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import PMWError
from pmw.model.hierarchical_histogram import (
    HierarchicalHistogram,
    leaf_variances,
    least_squares,
    non_negative_least_squares,
    query_variance,
)
from pmw.privacy.noise import DiscreteLaplace, NoiseDistribution
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.linear import LinearQuery

DEFAULT_BINS = 16  # on which a long ordered attribute is measured with others, at least


@dataclass(frozen=True, slots=True, eq=False)
class MarginalMeasurement:
    """A whole marginal, each cell under fresh noise.

    Args:
        scope: attribute names in declared order; empty for the number of records.
        units: int64, one axis per attribute, noisy records per cell in units of 2^-20.
        noise: distribution of each cell's noise, in units.
        requested: an analyst asked for it; it is not what a positive measured.
    """

    scope: tuple[str, ...]
    units: NDArray[np.int64]
    noise: NoiseDistribution
    requested: bool = False

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

    @property
    def cell_variances(self) -> NDArray[np.float64]:
        """Variance of each cell's value: float64, one axis per attribute, squared records."""
        return np.full(self.units.shape, self.variance)

    def weighted_variance(self, weights: NDArray[np.float64]) -> float:
        """Return the variance of a weighted sum of the values, in squared records.

        Args:
            weights: float64, one axis per attribute.
        """
        return float(np.sum(weights**2)) * self.variance


@dataclass(frozen=True, slots=True, eq=False)
class HierarchicalMeasurement:
    """All nodes of a hierarchical histogram over one attribute, each under fresh noise.

    Its values are the cells that least squares makes of all nodes: unbiased, and of all unbiased linear
    estimates those of least variance for every query.

    Args:
        scope: the attribute's name, alone.
        tree: the nodes.
        units: int64, shape (nodes,), noisy records per node in units of 2^-20, level by level, the widest
            first.
        noise: distribution of each node's noise, in units.

    Raises:
        ScopeError: the numbers do not fit the tree.
    """

    scope: tuple[str, ...]
    tree: HierarchicalHistogram
    units: NDArray[np.int64]
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        if len(self.scope) != 1 or units.shape != (self.tree.nodes,):
            raise ScopeError(
                f"expected {self.tree.nodes} nodes over one attribute, "
                f"got {units.shape} over {list(self.scope)}"
            )
        units.flags.writeable = False
        object.__setattr__(self, "units", units)

    @property
    def values(self) -> NDArray[np.float64]:
        """The least squares counts: float64, shape (cells,), records per cell."""
        return least_squares(self.tree, self.units / UNITS)

    @property
    def cell_values(self) -> NDArray[np.float64]:
        """The cells' own noisy counts, whatever the wider nodes say: float64, shape (cells,), records."""
        return self.units[-self.tree.size :] / UNITS

    @property
    def variance(self) -> float:
        """Variance of one node's noise, in squared records."""
        return noise_variance(self.noise)

    @property
    def cell_variances(self) -> NDArray[np.float64]:
        """Variance of each cell's value: float64, shape (cells,), squared records."""
        return leaf_variances(self.tree) * self.variance

    def weighted_variance(self, weights: NDArray[np.float64]) -> float:
        """Return the variance of a weighted sum of the values, in squared records.

        Args:
            weights: float64, shape (cells,).
        """
        return query_variance(self.tree, weights) * self.variance


@dataclass(frozen=True, slots=True, eq=False)
class QueryMeasurement:
    """The answer to one query under fresh noise.

    Args:
        query: what was asked.
        units: the noisy answer, in units of 2^-20 records.
        noise: distribution of the noise, in units.
        model_units: the model's answer that it corrects, in units.
    """

    query: LinearQuery
    units: int
    noise: NoiseDistribution
    model_units: int = 0

    @property
    def value(self) -> float:
        """The noisy answer, in records."""
        return self.units / UNITS

    @property
    def variance(self) -> float:
        """Variance of the noise, in squared records."""
        return noise_variance(self.noise)


OneWayMeasurement: TypeAlias = MarginalMeasurement | HierarchicalMeasurement  # what opening measures
Measurement: TypeAlias = OneWayMeasurement | QueryMeasurement


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What a fit of the model aims at over a scope.

    Args:
        scope: attribute names in declared order.
        values: float64, one axis per attribute, records per cell.
        variance: float64, likewise, in squared records: how far off each value may be.
    """

    scope: tuple[str, ...]
    values: NDArray[np.float64]
    variance: NDArray[np.float64]


def target_of(measurement: OneWayMeasurement, total: float) -> Target:
    """Return what a model that sums to a total should give where a measurement was made.

    The total is known better than the sum of the cells. Of a marginal, the cells share the difference evenly.
    Of a hierarchical histogram, the cells are the non-negative ones with that sum that are nearest to all
    nodes: on columns most of whose cells are empty that halves the error of ranges, and without the sum it
        would raise
    them (figures in docs/algorithm.md).

    Args:
        measurement: noisy numbers over a scope.
        total: records that the model sums to; positive.
    """
    if isinstance(measurement, HierarchicalMeasurement):
        values = non_negative_least_squares(measurement.tree, measurement.units / UNITS, total)
    else:
        values = measurement.values + (total - measurement.values.sum()) / measurement.values.size
    return Target(measurement.scope, values, measurement.cell_variances)


def noise_variance(noise: NoiseDistribution) -> float:
    """Return an upper bound on the variance of a distribution in units, in squared records.

    2 b^2 for discrete Laplace, sigma^2 for discrete Gaussian; both are attained for wide noise.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Corollary 9, for the Gaussian; the discrete Laplace
        has variance 2r/(1-r)^2 <= 2 b^2.
    """
    if isinstance(noise, DiscreteLaplace):
        return 2 * (float(noise.scale) / UNITS) ** 2
    return (float(noise.sigma) / UNITS) ** 2


def half_width(noise: NoiseDistribution, confidence: float) -> float:
    """Return w, in records, such that noise lies within +-w with at least the given probability.

    One unit is added for the rounding of the continuous quantile to the grid. For t = b ln(1/beta) + 1 and
    r = e^(-1/b), Pr[|X| > t] <= 2 r^t / (1 + r) = beta 2r/(1 + r) <= beta for Laplace noise X. For Gaussian
    noise Pr[X >= m] <= Pr[Z >= m - 1] at every whole m >= 1, Z continuous of the same sigma.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Proposition 25, for the Gaussian.

    Raises:
        PMWError: the confidence is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise PMWError(f"expected a confidence strictly between 0 and 1, got {confidence}")
    if isinstance(noise, DiscreteLaplace):
        return (float(noise.scale) * -math.log1p(-confidence) + 1) / UNITS
    return (float(noise.sigma) * NormalDist().inv_cdf((1 + confidence) / 2) + 1) / UNITS


@dataclass(frozen=True, slots=True, eq=False)
class CombinedMarginal:
    """A marginal that was measured several times: the mean by inverse variance.

    With weights w_i that sum to 1 and noises X_i of scales s_i, s the least, the noise of a cell is
    sum w_i X_i. That is one of noises of scale s whose weights are a_i = w_i s_i / s >= w_i, exactly so for
    continuous noise; what discrete noise adds is bounded for the weights a_i too, since w_i <= a_i
    (``pmw.privacy.tail_bounds``). So ``sum_half_width`` holds with the noise of scale s and the squares
    a_i^2. The weights depend on scales alone.

    Args:
        parts: the measurements, over one scope and the same cells; at least one, all of one distribution.
    """

    parts: tuple[MarginalMeasurement, ...]

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order."""
        return self.parts[0].scope

    @property
    def units(self) -> NDArray[np.int64]:
        """The newest noisy counts alone: int64, one axis per attribute, units of 2^-20 records."""
        return self.parts[-1].units

    @property
    def noise(self) -> NoiseDistribution:
        """The quietest noise."""
        return min((one.noise for one in self.parts), key=noise_variance)

    @property
    def values(self) -> NDArray[np.float64]:
        """The mean of the noisy counts: float64, one axis per attribute, records per cell."""
        values = np.zeros(self.units.shape)
        for weight, one in zip(self._weights(), self.parts, strict=True):
            values += weight * one.values
        return values

    @property
    def variance(self) -> float:
        """Variance of one cell's value, in squared records."""
        return 1 / sum(1 / one.variance for one in self.parts)

    @property
    def squares(self) -> float:
        """The sum of a_i^2: how much less noisy a cell is than the quietest measurement of it."""
        return sum(weight**2 for weight in self._scaled())

    @property
    def peak(self) -> float:
        """The largest a_i^2."""
        return max(weight**2 for weight in self._scaled())

    def _weights(self) -> list[float]:
        return [self.variance / one.variance for one in self.parts]

    def _scaled(self) -> list[float]:
        least = _scale(self.noise)
        pairs = zip(self._weights(), self.parts, strict=True)
        return [weight * _scale(one.noise) / least for weight, one in pairs]


MarginalValues: TypeAlias = MarginalMeasurement | CombinedMarginal


def _scale(noise: NoiseDistribution) -> float:
    return float(noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma)


def combined(measurements: Sequence[MarginalMeasurement]) -> list[MarginalValues]:
    """Return the measurements in order, those of the same cells as one, at the place of the first."""
    same: dict[tuple[object, ...], list[MarginalMeasurement]] = {}
    for one in measurements:
        same.setdefault((one.scope, one.units.shape, type(one.noise)), []).append(one)
    return [parts[0] if len(parts) == 1 else CombinedMarginal(tuple(parts)) for parts in same.values()]
