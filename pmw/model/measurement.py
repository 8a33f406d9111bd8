"""Measurements: noisy numbers that were measured, and how noisy they are. All of it is public.

Measurements of the same cells are taken together: each by the inverse of its variance.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import field
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
from pmw.model.strategy import Strategy, along
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.products import CellSets

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
class MainEffect:
    """What is known of one attribute beside the number of records, on the cells of a marginal.

    Args:
        values: float64, shape (cells,), records per cell; their mean says nothing.
        covariance: of their own noise: float64, shape (cells, cells), squared records.
        slope: float64, shape (cells,): what they move by with the number of records, which the counts of
            declared cells take in where these are summed to bins of several sizes.
    """

    values: NDArray[np.float64]
    covariance: NDArray[np.float64]
    slope: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Foundation:
    """What a residual stands on: the number of records, the main effects of its attributes, and residuals.

    The noises of the parts are independent of each other and of the residual's.

    Args:
        total: records.
        variance: of the total, in squared records; 0 where it is public.
        effects: one per attribute of a pair, or more; none below the residual of a single attribute.
        finest: the least standard deviation of a noise that it takes in, on its own grid of numbers.
        residuals: of all marginals of two or more, but not all, of its attributes, on the same cells; none
            below a pair.
    """

    total: float
    variance: float
    effects: tuple[MainEffect, ...]
    finest: float
    residuals: tuple[ResidualMeasurement, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ResidualMeasurement(MarginalMeasurement):
    """What a marginal's counts say beyond those of fewer attributes, under fresh noise on each number.

    ``units`` are the noisy numbers of the strategy, on a grid of its own. ``noise`` is that of a marginal of
    the same price, on each of its cells; the numbers have ``drawn``. Counts follow from it with what it
    stands on: with weights w over the cells,

        w' x = mean(w) total + sum_i w_i' effect_i + sum_B w_B' K_B+ y_B + w' K+ y,

    where w_i is the mean of w over the other attributes less mean(w), B are the sets of two or more of the
    attributes, but not of all, and w_B is the mean of w over the attributes that are not in B. All terms have
    independent noise.

    Args:
        strategy: the rows.
        foundation: the parts that it stands on; None until it has a place in a state.

    Raises:
        ScopeError: the strategy is of other cells.
    """

    strategy: Strategy = field(kw_only=True)
    foundation: Foundation | None = None

    def __post_init__(self) -> None:
        MarginalMeasurement.__post_init__(self)
        if tuple(axis.size for axis in self.strategy.axes) != self.units.shape:
            raise ScopeError(f"expected the numbers of {list(self.scope)}, got {self.units.shape}")

    @property
    def drawn(self) -> DiscreteGaussian:
        """The noise of each number, on the strategy's grid.

        Raises:
            NoiseError: the noise is not Gaussian.
        """
        return self.strategy.noise(self.noise)

    @property
    def precision(self) -> float:
        """One over the variance of each number's noise, on the strategy's grid."""
        return float(1 / self.drawn.sigma**2)

    @property
    def counts(self) -> ResidualCounts:
        """The counts that it says with what it stands on."""
        return ResidualCounts((self,))

    @property
    def values(self) -> NDArray[np.float64]:
        """The counts: float64, one axis per attribute, records."""
        return self.counts.values

    @property
    def cell_variances(self) -> NDArray[np.float64]:
        """Variance of each cell's value: float64, one axis per attribute, squared records."""
        return self.counts.cell_variances

    @property
    def variance(self) -> float:
        """The largest variance of a cell's value, in squared records."""
        return float(self.cell_variances.max())

    def weighted_variance(self, weights: NDArray[np.float64]) -> float:
        """Return the variance of a weighted sum of the values, in squared records.

        Args:
            weights: float64, one axis per attribute.
        """
        return self.counts.weighted_variance(weights)


def measured_as(
    scope: tuple[str, ...],
    numbers: NDArray[np.int64],
    noise: NoiseDistribution,
    strategy: Strategy | None,
    *,
    requested: bool = False,
) -> MarginalMeasurement:
    """Return the measurement of a marginal's noisy numbers, of cells or of a strategy's rows."""
    if strategy is None:
        return MarginalMeasurement(scope, numbers, noise, requested)
    return ResidualMeasurement(scope, numbers, noise, requested, strategy=strategy)


@dataclass(frozen=True, eq=False)
class ResidualCounts:
    """Counts from a residual, measured once or more by the same rows, and from what it stands on.

    Several measurements are taken together by the inverse of their variances.

    Args:
        parts: the measurements, over one scope, by one strategy and on one foundation; at least one.
    """

    parts: tuple[ResidualMeasurement, ...]

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order."""
        return self.parts[0].scope

    @property
    def units(self) -> NDArray[np.int64]:
        """The newest noisy numbers alone: int64, one axis per attribute."""
        return self.parts[-1].units

    @property
    def noise(self) -> NoiseDistribution:
        """The quietest noise of a marginal of the same price."""
        return min((one.noise for one in self.parts), key=noise_variance)

    @property
    def foundation(self) -> Foundation:
        """The parts that it stands on.

        Raises:
            ScopeError: it has no place in a state yet.
        """
        found = self.parts[0].foundation
        if found is None:
            raise ScopeError(f"the residual of {list(self.scope)} has no place in a state yet")
        return found

    @property
    def strategy(self) -> Strategy:
        """The rows."""
        return self.parts[0].strategy

    @functools.cached_property
    def precision(self) -> float:
        """One over the variance of each number's noise, on the strategy's grid."""
        return sum(one.precision for one in self.parts)

    @property
    def finest(self) -> float:
        """The least standard deviation of a noise that the counts take in, on its own grid of numbers."""
        return min(*(float(one.drawn.sigma) for one in self.parts), self.foundation.finest)

    @functools.cached_property
    def centred(self) -> NDArray[np.float64]:
        """The residual: float64, one axis per attribute along each of which it sums to zero, records."""
        weighted = sum(one.units * (one.precision / self.precision) for one in self.parts)
        return self.strategy.estimate(np.asarray(weighted))

    @functools.cached_property
    def values(self) -> NDArray[np.float64]:
        """The counts: float64, one axis per attribute, records."""
        under, shape = self.foundation, self.units.shape
        values = self.centred + under.total / math.prod(shape)
        for axis, effect in enumerate(under.effects):
            values = values + self._spread((axis,), effect.values - effect.values.mean())
        for axes, below in self._below:
            values = values + self._spread(axes, below.centred)
        values.flags.writeable = False
        return values

    @functools.cached_property
    def _below(self) -> list[tuple[tuple[int, ...], ResidualCounts]]:
        """The residuals that it stands on, and the axes of their attributes."""
        scope = self.scope
        return [
            (tuple(scope.index(name) for name in one.scope), one.counts) for one in self.foundation.residuals
        ]

    def _others(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Return the axes beside some."""
        return tuple(axis for axis in range(len(self.scope)) if axis not in axes)

    def _spread(self, axes: Sequence[int], table: NDArray[np.float64], power: int = 1) -> NDArray[np.float64]:
        """Return a table over some axes, to broadcast over all, divided by a power of the others' cells."""
        others, shape = self._others(axes), self.units.shape
        spread = np.expand_dims(table, others) / math.prod(shape[axis] for axis in others) ** power
        return np.asarray(spread)

    @property
    def cell_variances(self) -> NDArray[np.float64]:
        """Variance of each cell's value: float64, one axis per attribute, squared records."""
        shape = self.units.shape
        found, everybody = self._own_variances, np.full(shape, 1 / math.prod(shape))
        for axis, (variances, slopes) in enumerate(self._effect_runs):
            found = found + self._spread((axis,), variances.diagonal(), 2)
            everybody = everybody + self._spread((axis,), slopes.diagonal())
        for axes, below in self._below:
            found = found + self._spread(axes, below._own_variances, 2)
        return np.asarray(found + everybody**2 * self.foundation.variance)

    @property
    def _own_variances(self) -> NDArray[np.float64]:
        """Variance of each cell's part in the residual: float64, one axis per attribute, squared records."""
        diagonals = [axis.covariance.diagonal() for axis in self.strategy.axes]
        return np.asarray(functools.reduce(np.multiply.outer, diagonals) / self.fineness)

    def weighted_variance(self, weights: NDArray[np.float64]) -> float:
        """Return the variance of a weighted sum of the values, in squared records.

        Args:
            weights: float64, one axis per attribute.
        """
        under, mean = self.foundation, float(np.mean(weights))
        found, everybody = self._own_variance(weights), mean
        for axis, effect in enumerate(under.effects):
            own = weights.mean(axis=self._others((axis,))) - mean
            found += float(own @ effect.covariance @ own)
            everybody += float(own @ effect.slope)
        for axes, below in self._below:
            found += below._own_variance(weights.mean(axis=self._others(axes)))
        return found + everybody**2 * under.variance

    def _own_variance(self, weights: NDArray[np.float64]) -> float:
        """Return the variance of a weighted sum's part in the residual, in squared records."""
        rows = along([axis.inverse.T for axis in self.strategy.axes], weights)
        return float(np.sum(rows**2)) / self.fineness

    def product_variances(self, sides: Sequence[CellSets]) -> NDArray[np.float64]:
        """Return the variances of counts of products: float64, shape (n,), squared records.

        Args:
            sides: of each attribute, which cells are counted.
        """
        shares = [side.cells() / size for side, size in zip(sides, self.units.shape, strict=True)]

        def rest(axes: Sequence[int]) -> NDArray[np.float64]:
            """Return the share of the cells along the other axes."""
            return np.asarray(np.prod([shares[axis] for axis in self._others(axes)], axis=0))

        found, everybody = self._own_variances_of(sides), np.prod(shares, axis=0)
        for axis, (variances, slopes) in enumerate(self._effect_runs):
            found += sides[axis].variances(variances) * rest((axis,)) ** 2
            everybody = everybody + sides[axis].sums(slopes) * rest((axis,))
        for axes, below in self._below:
            found += below._own_variances_of([sides[axis] for axis in axes]) * rest(axes) ** 2
        return np.asarray(found + everybody**2 * self.foundation.variance, dtype=np.float64)

    def _own_variances_of(self, sides: Sequence[CellSets]) -> NDArray[np.float64]:
        """Return the variances of products' parts in the residual: float64, shape (n,), squared records."""
        found = np.full(len(sides[0]), 1 / self.fineness)
        for table, side in zip(self._axis_runs, sides, strict=True):
            found = found * side.variances(table)
        return found

    @property
    def fineness(self) -> float:
        """One over the variance of each number's noise, of rows without their factor, in squared records."""
        return self.precision * float(self.strategy.factor) ** 2

    @functools.cached_property
    def _axis_runs(self) -> list[NDArray[np.float64]]:
        """Of each run of cells along each attribute, the factor of the residual's variance."""
        return [run_variances(axis.covariance) for axis in self.strategy.axes]

    @functools.cached_property
    def _effect_runs(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Of each run of cells along each attribute, the variance of the main effect, and its slope.

        Weights of a main effect sum to zero: those of a run are one, less the run's share of all cells.
        """
        effects = []
        for effect in self.foundation.effects:
            centre = np.eye(len(effect.slope)) - 1 / len(effect.slope)
            slopes = np.concatenate([[0.0], np.cumsum(effect.slope - effect.slope.mean())])
            runs = np.subtract.outer(slopes[1:], slopes[:-1]).T
            effects.append((run_variances(centre @ effect.covariance @ centre), runs))
        return effects


def run_variances(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of the sum of each run of cells: float64, by its first and its last cell.

    Args:
        covariance: float64, shape (cells, cells).
    """
    sums = np.zeros((len(covariance) + 1, len(covariance) + 1))
    sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    ends, corner = sums[1:, 1:].diagonal(), sums[:-1, :-1].diagonal()
    return np.maximum(ends[None, :] + corner[:, None] - sums[:-1, 1:] - sums[1:, :-1].T, 0.0)


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


@dataclass(frozen=True, slots=True, eq=False)
class RowsMeasurement:
    """The answers to a list of questions that an analyst asked to have measured, each under fresh noise.

    Args:
        queries: what was asked, each once; cells decide every one of them.
        units: int64, shape (n,), the noisy answers, in units of 2^-20 records.
        noise: distribution of each number's noise, in units.
    """

    queries: tuple[LinearQuery, ...]
    units: NDArray[np.int64]
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        if units.shape != (len(self.queries),) or not self.queries:
            raise ScopeError(f"expected a number for each of {len(self.queries)} questions, got {units.size}")
        units.flags.writeable = False
        object.__setattr__(self, "units", units)

    @property
    def scope(self) -> tuple[str, ...]:
        """All attributes that the questions are about, in declared order."""
        names = {name for query in self.queries for name in query.scope}
        return self.queries[0].domain.scope(list(names))

    @property
    def numbers(self) -> tuple[QueryMeasurement, ...]:
        """The questions with their numbers, one by one."""
        pairs = zip(self.queries, self.units.tolist(), strict=True)
        return tuple(QueryMeasurement(query, units, self.noise) for query, units in pairs)


# What opening measures.
OneWayMeasurement: TypeAlias = MarginalMeasurement | ResidualMeasurement | HierarchicalMeasurement
SingleMeasurement: TypeAlias = OneWayMeasurement | QueryMeasurement  # that is one aim of a fit
Measurement: TypeAlias = SingleMeasurement | RowsMeasurement


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What a fit of the model aims at over a scope.

    Args:
        scope: attribute names in declared order.
        values: float64, one axis per attribute, records per cell.
        variance: float64, likewise, in squared records: how far off each value may be; of a residual the same
            for all, those of its numbers.
        information: of a residual, K'K along each attribute, through which it is seen: float64, shapes
            (cells, cells); None where each value is seen by itself.
        weighed: place of the axis along which one weighted sum is seen, of rows that are fitted; None where
            there is none.
    """

    scope: tuple[str, ...]
    values: NDArray[np.float64]
    variance: NDArray[np.float64]
    information: tuple[NDArray[np.float64], ...] | None = None
    weighed: int | None = None

    @classmethod
    def of_sums(
        cls, scope: tuple[str, ...], weighed: int, weights: NDArray[np.float64], sums: NDArray[np.float64],
        variance: float,
    ) -> Target:  # fmt: skip
        """Return the target of weighted sums along one axis, by the other attributes.

        Args:
            scope: attribute names in declared order.
            weighed: place of the axis.
            weights: float64, shape (cells,): what a record of each cell of that axis adds; not all 0.
            sums: float64, one axis per other attribute.
            variance: of each of them.
        """
        shape = [1] * len(scope)
        shape[weighed] = len(weights)
        values = np.expand_dims(sums, weighed) * (weights / np.vdot(weights, weights)).reshape(shape)
        information = [np.eye(size) for size in values.shape]
        information[weighed] = np.outer(weights, weights)
        return cls(scope, values, np.full(values.shape, variance), tuple(information), weighed)

    @property
    def free_numbers(self) -> int:
        """How many numbers the measurement is of: a residual sums to zero along each attribute."""
        if self.weighed is not None:
            return math.prod(self.values.shape[: self.weighed] + self.values.shape[self.weighed + 1 :])
        return math.prod(size - (self.information is not None) for size in self.values.shape)

    def pull(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return K'K (a - y) / v, by which errors of the values weigh: float64, one axis per attribute.

        Args:
            errors: a - y: float64, one axis per attribute, records.
        """
        seen = errors if self.information is None else along(self.information, errors)
        return np.asarray(seen / self.variance)


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
    if isinstance(measurement, ResidualMeasurement):
        variance = np.full(measurement.units.shape, 1 / measurement.counts.fineness)
        information = tuple(axis.gram.astype(np.float64) for axis in measurement.strategy.axes)
        return Target(measurement.scope, measurement.values, variance, information)
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


MarginalValues: TypeAlias = MarginalMeasurement | CombinedMarginal | ResidualCounts


def _scale(noise: NoiseDistribution) -> float:
    return float(noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma)


def combined(measurements: Sequence[MarginalMeasurement]) -> list[MarginalValues]:
    """Return the measurements in order, those of the same cells as one, at the place of the first."""
    same: dict[tuple[object, ...], list[MarginalMeasurement]] = {}
    for one in measurements:
        rows = one.strategy if isinstance(one, ResidualMeasurement) else None
        same.setdefault((one.scope, one.units.shape, type(one.noise), rows), []).append(one)
    return [_as_one(tuple(parts)) for parts in same.values()]


def _as_one(parts: tuple[MarginalMeasurement, ...]) -> MarginalValues:
    residuals = tuple(one for one in parts if isinstance(one, ResidualMeasurement))
    if residuals:
        return ResidualCounts(residuals)
    return parts[0] if len(parts) == 1 else CombinedMarginal(parts)
