"""Measurements: noisy numbers that were measured, and how noisy they are. All of it is public.

Measurements of the same cells are taken together: each by the inverse of its variance.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import PMWError
from pmw.model.distribution import MarginalTerm, QueryTerm, Term
from pmw.model.estimate import Block, Covariance, Estimate, OfTree, noise_scale, noise_variance
from pmw.model.hierarchical_histogram import HierarchicalHistogram, least_squares, non_negative_least_squares
from pmw.model.strategy import Strategy, along
from pmw.model.value_sums import Places, SummedValues
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from queries.domain import Domain
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.marginal import Marginal

DEFAULT_BINS = 16  # on which a long ordered attribute is measured with others, at least


class Estimated(ABC):
    """What is told of the counts of a measurement by their estimate."""

    __slots__ = ()
    noise: NoiseDistribution

    @property
    def variance(self) -> float:
        """Variance of the noise, in squared records."""
        return noise_variance(self.noise)

    @property
    @abstractmethod
    def estimate(self) -> Estimate:
        """The counts that the measurement says, with their noise."""

    @property
    def rows(self) -> Strategy | HierarchicalHistogram | None:
        """What the numbers are of: rows, or nodes; None of cells."""
        return None

    @property
    def values(self) -> NDArray[np.float64]:
        """The counts: float64, one axis per attribute, records."""
        return self.estimate.values

    @property
    def cell_variances(self) -> NDArray[np.float64]:
        """Variance of each cell's value: float64, one axis per attribute, squared records."""
        return self.estimate.cell_variances


def _read_only(units: NDArray[np.int64], scope: tuple[str, ...]) -> NDArray[np.int64]:
    """Return a copy of noisy numbers, with an axis for each attribute."""
    found = np.array(units, dtype=np.int64)
    if found.ndim != len(scope):
        raise ScopeError(f"expected {len(scope)} axes over {list(scope)}, got {found.ndim}")
    found.flags.writeable = False
    return found


@dataclass(frozen=True, slots=True, eq=False)
class MarginalMeasurement(Estimated):
    """A whole marginal, each cell under fresh noise.

    Args:
        scope: attribute names in declared order; empty for the number of records.
        units: int64, one axis per attribute, noisy records per cell in units of 2^-20.
        requested: an analyst asked for it; it is not what a positive measured.
        part: how many marginals of the same part of a session's reserve there are from this one on; 0 for one
            that is in no part.
    """

    scope: tuple[str, ...]
    units: NDArray[np.int64]
    noise: NoiseDistribution
    requested: bool = False
    part: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", _read_only(self.units, self.scope))

    @property
    def estimate(self) -> Estimate:
        """The noisy counts."""
        return replace(Estimate.of_cells(self.scope, self.noise, self.units / UNITS), drawn=True)


@dataclass(frozen=True, slots=True, eq=False)
class PersonsMeasurement:
    """Numbers of persons with a kept record in each cell, under fresh noise; one may be in several cells.

    Args:
        scope: attribute names in declared order; none for one number of all persons.
        units: int64, one axis per attribute of the scope, noisy, in units of 2^-20 persons.
    """

    scope: tuple[str, ...]
    units: NDArray[np.int64]
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", _read_only(self.units, self.scope))


@dataclass(frozen=True, slots=True, eq=False)
class HierarchicalMeasurement(Estimated):
    """All nodes of a hierarchical histogram over one attribute, each under fresh noise.

    Its values are the cells that least squares makes of all nodes: unbiased, and of all unbiased linear
    estimates those of least variance for every query.

    Args:
        units: int64, shape (nodes,), noisy records per node in units of 2^-20, level by level, the widest
            first.
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
    def rows(self) -> HierarchicalHistogram:
        return self.tree

    @property
    def estimate(self) -> Estimate:
        """The least squares counts."""
        values = least_squares(self.tree, self.units / UNITS)
        block = Block((0,), values, 1.0, (OfTree(self.tree),), noise_scale(self.noise))
        return Estimate(self.scope, values.shape, self.noise, (block,), noise_variance(self.noise))

    @property
    def cells(self) -> MarginalMeasurement:
        """The cells' own noisy counts, whatever the wider nodes say."""
        return MarginalMeasurement(self.scope, self.units[-self.tree.size :], self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class ResidualMeasurement(MarginalMeasurement):
    """What a marginal's counts say beyond those of fewer attributes, under fresh noise on each number.

    ``units`` are the noisy numbers of the strategy, on a grid of its own. ``noise`` is that of a marginal of
    the same price, on each of its cells; the numbers have ``drawn``. Counts follow from it with what it
    stands on (``docs/intervals.md``).

    Args:
        foundation: what it stands on, on the same cells: the number of records; of a pair, or more, what is
            known beside it of each attribute; and the residuals of all marginals of two or more, but not all,
            of its attributes. None until it has a place in a state.
    """

    strategy: Strategy = field(kw_only=True)
    foundation: tuple[Block | ResidualMeasurement, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", _read_only(self.units, self.scope))
        if tuple(axis.size for axis in self.strategy.axes) != self.units.shape:
            raise ScopeError(f"expected the numbers of {list(self.scope)}, got {self.units.shape}")

    @property
    def rows(self) -> Strategy:
        return self.strategy

    @property
    def drawn(self) -> DiscreteGaussian:
        """The noise of each number, on the strategy's grid."""
        return self.strategy.noise(self.noise)

    @property
    def fineness(self) -> float:
        """One over the variance of each number's noise, of rows without their factor, in squared records."""
        return float(1 / self.drawn.sigma**2) * float(self.strategy.factor) ** 2

    @property
    def estimate(self) -> Estimate:
        """The counts that it says with what it stands on."""
        return _of_residuals((self,))


def _residual(parts: Sequence[ResidualMeasurement], scope: tuple[str, ...]) -> Block:
    """Return a residual among the counts of a scope: of several the mean by inverse variance."""
    fineness, strategy = sum(one.fineness for one in parts), parts[0].strategy
    weighted = sum(one.units * (one.fineness / fineness) for one in parts)
    axes = tuple(scope.index(name) for name in parts[0].scope)
    factors = tuple(Covariance(axis.covariance) for axis in strategy.axes)
    grid = min(float(one.drawn.sigma) for one in parts)
    return Block(axes, strategy.estimate(np.asarray(weighted)), 1 / fineness, factors, grid)


@functools.lru_cache(maxsize=2**8)  # each version of a model asks for all of them; they are known by identity
def _of_residuals(parts: tuple[ResidualMeasurement, ...]) -> Estimate:
    """Return the counts from residuals over one scope, by one strategy and on one foundation.

    The noises lie on several grids. Each is taken for one of the least standard deviation, in steps of its
    own grid, with a weight that is larger in proportion.
    """
    scope, under = parts[0].scope, parts[0].foundation
    if under is None:
        raise ScopeError(f"the residual of {list(scope)} has no place in a state yet")
    below = (one if isinstance(one, Block) else _residual((one,), scope) for one in under)
    blocks = (_residual(parts, scope), *below)
    least = DiscreteGaussian(Fraction(math.floor(min(one.grid for one in blocks))))
    return Estimate(scope, parts[0].units.shape, least, blocks)


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


@dataclass(frozen=True, slots=True, eq=False)
class QueryMeasurement:
    """The answer to one query under fresh noise.

    Args:
        units: the noisy answer, in units of 2^-20 records.
        model_units: the model's answer that it corrects, in units.
    """

    query: LinearQuery
    units: int
    noise: NoiseDistribution
    model_units: int = 0
    free_numbers: ClassVar[int] = 1
    information: ClassVar[None] = None  # it is seen by itself

    @property
    def scope(self) -> tuple[str, ...]:
        """The attributes that the query is about."""
        return self.query.scope

    @property
    def value(self) -> float:
        """The noisy answer, in records."""
        return self.units / UNITS

    @property
    def values(self) -> NDArray[np.float64]:
        """The noisy answer, as a fit aims at it: float64, shape ()."""
        return np.array(self.value)

    @property
    def variance(self) -> float:
        """Variance of the noise, in squared records."""
        return noise_variance(self.noise)

    def term(self, dual: NDArray[np.float64]) -> Term:
        """Return the factor of a model that is fitted to it."""
        return QueryTerm(self.query, float(dual))


@dataclass(frozen=True, slots=True, eq=False)
class RowsMeasurement:
    """The answers to a list of questions that an analyst asked to have measured, each under fresh noise.

    Args:
        queries: what was asked, each once; cells decide every one of them.
        units: int64, shape (n,), the noisy answers, in units of 2^-20 records.
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
            weights: float64, shape (cells,): what a record of each cell of that axis adds; not all 0.
            sums: float64, one axis per other attribute.
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

    def term(self, duals: NDArray[np.float64]) -> Term:
        """Return the factor of a model that is fitted to it."""
        return MarginalTerm(self.scope, duals)

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
    nodes: on a column most of whose cells are empty the mean error of ranges is 48 records then, 85 with
    signs left free, and 127 without the sum.
    """
    if isinstance(measurement, ResidualMeasurement):
        variance = np.full(measurement.units.shape, 1 / measurement.fineness)
        information = tuple(axis.gram.astype(np.float64) for axis in measurement.strategy.axes)
        return Target(measurement.scope, measurement.values, variance, information)
    if isinstance(measurement, HierarchicalMeasurement):
        values = non_negative_least_squares(measurement.tree, measurement.units / UNITS, total)
    else:
        values = measurement.values + (total - measurement.values.sum()) / measurement.values.size
    return Target(measurement.scope, values, measurement.cell_variances)


def half_width(noise: NoiseDistribution, confidence: float) -> float:
    """Return w, in records, such that noise lies within +-w with at least the given probability.

    One unit is added for the rounding of the continuous quantile to the grid. For t = b ln(1/beta) + 1 and
    r = e^(-1/b), Pr[|X| > t] <= 2 r^t / (1 + r) = beta 2r/(1 + r) <= beta for Laplace noise X. For Gaussian
    noise Pr[X >= m] <= Pr[Z >= m - 1] at every whole m >= 1, Z continuous of the same sigma.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Proposition 25, for the Gaussian.
    """
    if not 0 < confidence < 1:
        raise PMWError(f"expected a confidence strictly between 0 and 1, got {confidence}")
    if isinstance(noise, DiscreteLaplace):
        return (float(noise.scale) * -math.log1p(-confidence) + 1) / UNITS
    return (float(noise.sigma) * NormalDist().inv_cdf((1 + confidence) / 2) + 1) / UNITS


def combined(measurements: Sequence[OneWayMeasurement]) -> list[Estimate]:
    """Return the counts of measurements in order, those of the same cells as one, at the place of the first.

    It is their mean by inverse variance.
    """
    same: dict[tuple[object, ...], list[OneWayMeasurement]] = {}
    for one in measurements:
        same.setdefault((one.scope, one.units.shape, type(one.noise), one.rows), []).append(one)
    return [_as_one(tuple(parts)) for parts in same.values()]


def _as_one(parts: tuple[OneWayMeasurement, ...]) -> Estimate:
    if len(parts) == 1:
        return parts[0].estimate
    residuals = tuple(one for one in parts if isinstance(one, ResidualMeasurement))
    if residuals:
        return _of_residuals(residuals)
    variances = [noise_variance(one.noise) for one in parts]
    variance = 1 / sum(1 / one for one in variances)
    noise = min((one.noise for one in parts), key=noise_variance)
    values, squares = np.zeros(parts[0].units.shape), list[float]()
    for one, own in zip(parts, variances, strict=True):
        values += variance / own * one.values
        squares.append((variance / own * noise_scale(one.noise) / noise_scale(noise)) ** 2)
    return replace(Estimate.of_cells(parts[0].scope, noise, values, sum(squares)), peak=max(squares))


# --- sums of values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SummedRows(SummedValues):
    """Sums over the records that each of a list of questions counts, one number for each question.

    Args:
        rows: the questions, of whole cells, each once; ``scope`` has all of their attributes.
    """

    rows: tuple[LinearQuery, ...] = ()

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of what is measured: the parts, and the questions."""
        return (self.parts, len(self.rows))

    def tables(self, domain: Domain) -> Sequence[tuple[str, ...]]:
        """Return the scope of each question, with the attribute."""
        return tuple(dict.fromkeys(self._over(domain, row) for row in self.rows))

    def _over(self, domain: Domain, row: LinearQuery) -> tuple[str, ...]:
        return domain.scope(tuple(dict.fromkeys((*row.scope, self.attribute))))

    def _added(
        self, domain: Domain, tables: Mapping[tuple[str, ...], Sequence[NDArray[np.int64]]]
    ) -> Sequence[NDArray[np.int64]]:
        known: dict[tuple[str, ...], list[Marginal]] = {}
        for row in self.rows:
            if row.scope not in known:
                over = self._over(domain, row)
                known[row.scope] = [Marginal(domain, over, one).project(row.scope) for one in tables[over]]
        parts = range(len(next(iter(known.values()))))
        answers = [[row.answer(known[row.scope][part]) // UNITS for row in self.rows] for part in parts]
        return [np.array(one, dtype=np.int64) for one in answers]


@dataclass(frozen=True, slots=True, eq=False)
class SumMeasurement:
    """Sums of values, each under fresh noise.

    Args:
        units: int64, of their ``shape``, noisy: sums in units of 2^-20 of the scope's w, then numbers of
            values, then squares, in those of ``SummedValues``.
    """

    summed: SummedValues | SummedRows
    units: NDArray[np.int64]
    noise: NoiseDistribution

    def __post_init__(self) -> None:
        units = np.array(self.units, dtype=np.int64)
        parts, axes = self.summed.parts, self.summed.axes
        if units.ndim != axes or len(units) != parts:
            raise ScopeError(
                f"expected {parts} numbers a cell, {axes} axes over {list(self.summed.scope)}, got "
                f"{units.shape}"
            )
        units.flags.writeable = False
        object.__setattr__(self, "units", units)

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order, by which values are summed, or that the questions are about."""
        return self.summed.scope

    @property
    def sums(self) -> NDArray[np.int64]:
        """The sums: int64, one axis per attribute of the scope, in units."""
        return np.asarray(self.units[0], dtype=np.int64)

    @property
    def counts(self) -> NDArray[np.float64]:
        """How many records have a value, where that is measured: float64, one axis per attribute."""
        return np.asarray(self.units[1] / self.summed.count_units, dtype=np.float64)

    def scales(self, domain: Domain) -> NDArray[np.float64]:
        """Return what one record's units stand for in each sum: w/2 steps, in the attribute's own unit."""
        step = Places.of(domain, self.summed.attribute).grid.step
        if self.summed.clipped:
            return np.full(self.sums.shape, UNITS / self.summed.factor(domain) * step)
        return np.asarray(self.summed.widths(domain) * (step / 2), dtype=np.float64)

    def values(self, domain: Domain) -> NDArray[np.float64]:
        """Return the noisy sums of values less the middles that they are measured from: float64."""
        return np.asarray(self.sums / UNITS * self.scales(domain), dtype=np.float64)

    def squares(self, domain: Domain) -> NDArray[np.float64]:
        """Return the sums of squared differences of values from what they are measured from: float64."""
        return np.asarray(self.units[2] / UNITS * self.scales(domain) ** 2, dtype=np.float64)

    def middles(self, domain: Domain) -> NDArray[np.float64]:
        """Return what the values of each cell of the attribute are measured from: float64, shape (cells,)."""
        places = Places.of(domain, self.summed.attribute)
        middle, _ = self.summed.ends(domain)
        return np.where(places.present, places.grid.number(0) + places.grid.step * middle / 2, 0.0)
