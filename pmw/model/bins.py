"""Bins: which cells of a long attribute a model keeps apart, and a domain whose cells are bins of another's.

A long attribute is modelled on a few bins of its cells, chosen from released one-way counts. Inside a bin a
record's cell follows the released one-way shape, independently of everything else. Bins and shares are
functions of released numbers, so all of this is post-processing: it is public and free. A model of the bins,
with the shares inside them, is a distribution over the declared cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.distribution import SyntheticDistribution, Term, WeightedFactor
from pmw.model.measurement import DEFAULT_BINS, OneWayMeasurement, ResidualMeasurement, Target, target_of
from queries.categories import CategoricalAttribute
from queries.cell_sets import CellSets
from queries.domain import Attribute, Domain
from queries.errors import ScopeError
from queries.factors import UNITS, Factor, told_apart
from queries.frozen import dataclass
from queries.linear import LinearQuery, range_factor
from queries.numbers import IntegerAttribute
from queries.places import as_index
from queries.questions import Products
from queries.records import CodedRecords

_Bins: TypeAlias = NDArray[np.int64]
_Shares: TypeAlias = NDArray[np.float64]
_TOLERANCE = 1e-9  # of the sum of a bin's shares
_RANK = 1e-9  # relative: eigenvalues of a covariance below are those of constants


@dataclass(frozen=True, slots=True)
class _Runs:
    """An axis of fine cells, ready to be reduced: the cells bin by bin, and where each bin starts."""

    order: NDArray[np.int64] | None  # None where the cells lie bin by bin as they are
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, bin_: NDArray[np.int64]) -> _Runs:
        order = np.argsort(bin_, kind="stable").astype(np.int64)
        starts = np.searchsorted(bin_[order], np.arange(int(bin_.max()) + 1)).astype(np.int64)
        return cls(None if np.array_equal(order, np.arange(order.size)) else order, starts)

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], axis: int) -> NDArray[Any]:
        ordered = values if self.order is None else values.take(as_index(self.order), axis=axis)
        reduced: NDArray[Any] = ufunc.reduceat(ordered, as_index(self.starts), axis=axis)
        return reduced


@dataclass(frozen=True, slots=True, eq=False)
class Coarsening:
    """Which cells of a domain make up each cell of a coarser one, attribute by attribute.

    Args:
        bins: per attribute, the bin of each cell: int64, shape (cells,), every bin of the coarse
            attribute at least once; None where the attribute is kept as it is.
        shares: per attribute, the share of each cell in the records of its bin: float64, shape (cells,),
            summing to 1 inside each bin; None where the attribute is kept as it is.

    Attributes:
        is_identity: every attribute is kept as it is.
    """

    fine: Domain
    coarse: Domain
    bins: tuple[NDArray[np.int64] | None, ...]
    shares: tuple[NDArray[np.float64] | None, ...]
    is_identity: bool = field(init=False, repr=False)
    _runs: tuple[_Runs | None, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.fine.names != self.coarse.names:
            raise ScopeError(
                f"expected the attributes {list(self.fine.names)}, got {list(self.coarse.names)}"
            )
        if not len(self.bins) == len(self.shares) == len(self.fine):
            raise ScopeError(f"expected bins and shares of {len(self.fine)} attributes")
        bins, shares, runs = [], [], []
        for position, given in enumerate(zip(self.bins, self.shares, strict=True)):
            bin_, share = self._checked(position, *given)
            bins.append(bin_)
            shares.append(share)
            runs.append(None if bin_ is None else _Runs.of(bin_))
        for name, value in (("bins", bins), ("shares", shares), ("_runs", runs)):
            object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "is_identity", all(bin_ is None for bin_ in bins))

    def _checked(
        self, position: int, bin_: NDArray[np.int64] | None, share: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
        """Return read-only copies of an attribute's parts."""
        name = self.fine.names[position]
        if bin_ is None or share is None:
            if bin_ is not None or share is not None or self.fine[name] != self.coarse[name]:
                raise ScopeError(f"expected attribute {name!r} as it is, or both its bins and its shares")
            return None, None
        size, coarse_size = self.fine.shape[position], self.coarse.shape[position]
        bin_, share = np.array(bin_, dtype=np.int64), np.array(share, dtype=np.float64)
        if bin_.shape != (size,) or share.shape != (size,):
            raise ScopeError(f"expected a bin and a share for each of the {size} cells of {name!r}")
        if not np.array_equal(np.unique(bin_), np.arange(coarse_size)):
            raise ScopeError(f"expected bins 0..{coarse_size - 1} of {name!r}, each with a cell")
        sums = np.bincount(as_index(bin_), weights=share, minlength=coarse_size)
        if np.any(share < 0) or not np.all(np.abs(sums - 1) < _TOLERANCE):
            raise ScopeError(f"expected shares of {name!r} of at least 0 that sum to 1 in each bin")
        bin_.flags.writeable = share.flags.writeable = False
        return bin_, share

    @classmethod
    def identity(cls, domain: Domain) -> Coarsening:
        """Return the coarsening that keeps every attribute as it is."""
        nothing = (None,) * len(domain)
        return cls(domain, domain, nothing, nothing)

    @classmethod
    def of(cls, domain: Domain, binned: Mapping[str, tuple[Attribute, _Bins, _Shares]]) -> Coarsening:
        """Return that of some attributes: what each becomes, and the bin and the share of each cell."""
        coarse, bins, shares = zip(*[binned.get(one.name, (one, None, None)) for one in domain], strict=True)
        return cls(domain, Domain(coarse, domain.name), bins, shares)

    def grid(self, scope: Sequence[str], cells: int) -> Domain:
        """Return the domain, declared or coarse, in which a scope has so many cells."""
        for domain in (self.coarse, self.fine):
            if domain.scope_size(scope) == cells:
                return domain
        raise ScopeError(f"expected the cells of {list(scope)}, or their bins, got {cells}")

    def is_aligned(self, query: LinearQuery) -> bool:
        """Tell whether a query over the fine domain has one weight inside every bin.

        Exact: factors are not negative and none is zero everywhere, so their product is constant inside every
        bin only where each of them is.
        """
        return all(self._extremes(factor)[1] is None for factor in query.factors)

    def inner(self, query: LinearQuery) -> LinearQuery:
        """Return the coarse query with the least weight inside each bin, exactly: never above the query.

        Factors share no attribute and are not negative, so the least product is the product of the least.
        """
        return self.bounds(query)[0]

    def bounds(self, query: LinearQuery) -> tuple[LinearQuery, LinearQuery]:
        """Return the inner and the outer query; one and the same object where the query is aligned."""
        if self.is_identity:
            return query, query
        least, greatest = [], []
        if query.constant != UNITS:
            least.append(Factor((), np.array(query.constant, dtype=np.int64)))
            greatest.append(least[0])
        for factor in query.factors:
            low, high = self._extremes(factor)
            least.append(low)
            greatest.append(low if high is None else high)
        inner = LinearQuery(self.coarse, tuple(least))
        if all(low is high for low, high in zip(least, greatest, strict=True)):
            return inner, inner
        return inner, LinearQuery(self.coarse, tuple(greatest))

    def keeps(self, scope: Sequence[str]) -> bool:
        """Tell whether the cells of some attributes are their bins."""
        return all(self._runs[self.fine.index(name)] is None for name in scope)

    def has_bounds(self, products: Products) -> bool:
        """Tell whether products are bounded by products of bins: of attributes with bins they are ranges.

        Bins of a categorical attribute need not be runs of cells; there they are single cells.
        """
        axes = zip(map(self.fine.index, products.scope), products.sides, strict=True)
        binned = ((runs, side) for axis, side in axes if (runs := self._runs[axis]) is not None)
        return all(
            side.starts is None and (runs.order is None or np.array_equal(side.first, side.last))
            for runs, side in binned
        )

    def product_bounds(self, products: Products) -> tuple[Products, Products, NDArray[np.bool_]]:
        """Return inner and outer products of bins, and which differ; see ``has_bounds``.

        An inner range may be empty: its first bin is after its last.
        """
        inner = outer = products.on(self.coarse)
        differ = np.zeros(len(products), dtype=np.bool_)
        if self.keeps(products.scope):
            return inner, outer, differ
        least, most = list(products.sides), list(products.sides)
        for axis, position in enumerate(map(self.fine.index, products.scope)):
            bin_, runs, side = self.bins[position], self._runs[position], products.sides[axis]
            if bin_ is None or runs is None:
                continue
            first, last = side.first, side.last
            low, high = bin_[first], bin_[last]
            stops = np.append(runs.starts[1:], len(bin_)) - 1
            if runs.order is not None:  # a cell alone is all of its bin, or none
                first = last = runs.starts[low]
            cuts = runs.starts[low] < first, stops[high] > last
            least[axis], most[axis] = CellSets(low + cuts[0], high - cuts[1]), CellSets(low, high)
            differ |= cuts[0] | cuts[1]
        return replace(inner, sides=tuple(least)), replace(outer, sides=tuple(most)), differ

    def weights(self, query: LinearQuery) -> list[WeightedFactor]:
        """Return the mean weights inside the bins, factor by factor, for ``expectation`` of a coarse model.

        Returns:
            Pairs of a scope and float64 weights over it, one axis per attribute in coarse cells, of records;
            the query's constant is in the first. The empty list counts everybody.
        """
        factors = [
            (factor.scope, self.averaged(factor.scope, factor.weights / UNITS)) for factor in query.factors
        ]
        if query.constant == UNITS:
            return factors
        if not factors:
            return [((), np.array(query.constant / UNITS))]
        scope, weights = factors[0]
        return [(scope, weights * (query.constant / UNITS)), *factors[1:]]

    def summed(self, scope: Sequence[str], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return fine values summed inside the bins: float64, one axis per attribute."""
        return self._reduced(np.add, scope, values)

    def least(self, scope: Sequence[str], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the least of fine weights inside each bin: float64, one axis per attribute."""
        return self._reduced(np.minimum, scope, weights)

    def greatest(self, scope: Sequence[str], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the greatest of fine weights inside each bin: float64, one axis per attribute."""
        return self._reduced(np.maximum, scope, weights)

    def averaged(self, scope: Sequence[str], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of fine weights inside the bins, by shares: float64, one axis per attribute."""
        for axis, name in enumerate(scope):
            position = self.fine.index(name)
            share, runs = self.shares[position], self._runs[position]
            if share is not None and runs is not None:
                weights = runs.reduce(np.add, weights * _along(share, axis, weights.ndim), axis)
        return weights

    def cells_of(self, columns: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Return the bin of each record's cell, attribute by attribute.

        Args:
            columns: per attribute, integers, shape (records,): the fine cell of each record.

        Returns:
            As many integer columns; int64 where an attribute is binned, else the given one.
        """
        return tuple(
            column if bin_ is None else bin_[column] for column, bin_ in zip(columns, self.bins, strict=True)
        )

    def drawn(
        self, records: CodedRecords, generator: np.random.Generator, *, independent: bool
    ) -> CodedRecords:
        """Return records of bins with a cell drawn for each of them, inside its bin.

        Args:
            independent: independent draws; else every cell gets its share of its bin's records, rounded up
                or down.
        """
        columns = []
        for position, column in enumerate(records.columns):
            bin_, share = self.bins[position], self.shares[position]
            if bin_ is not None and share is not None:
                cells = _drawn_inside(column.astype(np.int64), (bin_, share), generator, independent)
                columns.append(cells.astype(np.min_scalar_type(len(bin_) - 1)))
            else:
                columns.append(column)
        return CodedRecords(self.fine, tuple(columns))

    def expand(self, scope: Sequence[str], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coarse counts spread over the fine cells of their bins, by shares.

        Returns:
            float64, records per fine cell, one axis per attribute.
        """
        for axis, name in enumerate(scope):
            position = self.fine.index(name)
            bin_, share = self.bins[position], self.shares[position]
            if bin_ is not None and share is not None:
                values = values.take(as_index(bin_), axis=axis) * _along(share, axis, values.ndim)
        return values

    def _extremes(self, factor: Factor) -> tuple[Factor, Factor | None]:
        """Return the least and the greatest weights inside each bin; None for the same again."""
        if self.keeps(factor.scope):
            return factor, None
        if factor.is_box and len(factor.scope) == 1:
            found = self._bins_of(factor.scope[0], factor.box[0])
            if found is not None:
                return found
        low = self._reduced(np.minimum, factor.scope, factor.weights)
        high = self._reduced(np.maximum, factor.scope, factor.weights)
        same = bool((low == high).all())
        return Factor(factor.scope, low), None if same else Factor(factor.scope, high)

    def _bins_of(self, name: str, cells: slice) -> tuple[Factor, Factor | None] | None:
        """Return the bins inside some consecutive cells, and those that these reach; None where no runs."""
        position = self.fine.index(name)
        bin_, runs = self.bins[position], self._runs[position]
        if bin_ is None or runs is None or runs.order is not None:
            return None
        low, high, count = int(bin_[cells.start]), int(bin_[cells.stop - 1]), runs.starts.size
        end = runs.starts[high + 1] if high + 1 < count else bin_.size
        first, stop = low + int(runs.starts[low] < cells.start), high + int(end <= cells.stop)
        least = range_factor(name, count, first, max(first, stop))
        same = (first, stop) == (low, high + 1)
        return least, None if same else range_factor(name, count, low, high + 1)

    def _reduced(self, ufunc: np.ufunc, scope: Sequence[str], values: NDArray[Any]) -> NDArray[Any]:
        """Reduce the fine cells of each bin, along every binned axis."""
        for axis, name in enumerate(scope):
            runs = self._runs[self.fine.index(name)]
            if runs is not None:
                values = runs.reduce(ufunc, values, axis)
        return values


def coarse_target(coarsening: Coarsening, measurement: OneWayMeasurement, total: float) -> Target:
    """Return what a model of bins should give where bins, or declared cells, were measured."""
    target = target_of(measurement, total)
    if target.values.shape == coarsening.coarse.scope_shape(target.scope):
        return target
    if isinstance(measurement, ResidualMeasurement):
        return _summed_residual(coarsening, measurement, target)
    variance = coarsening.summed(target.scope, target.variance)
    bin_ = coarsening.bins[coarsening.fine.index(target.scope[0])]
    if measurement.rows is not None and bin_ is not None:  # a tree, whose cells' noise is correlated
        inside = (np.where(np.equal(bin_, number), 1.0, 0.0) for number in range(len(variance)))
        variance = np.array([measurement.estimate.weighted_variance(one) for one in inside])
    return Target(target.scope, coarsening.summed(target.scope, target.values), variance)


def _summed_residual(coarsening: Coarsening, measurement: ResidualMeasurement, target: Target) -> Target:
    """Return what a model of bins should give where a residual was measured on declared cells.

    The residual of bins is the centred sum of that of their cells; its covariance is one along each
    attribute.
    """
    information = list[NDArray[np.float64]]()
    for name, axis in zip(measurement.scope, measurement.strategy.axes, strict=True):
        bin_ = coarsening.bins[coarsening.fine.index(name)]
        covariance = axis.covariance
        if bin_ is not None:
            sums = np.equal.outer(np.arange(int(bin_.max()) + 1), bin_) * 1.0
            centre = np.eye(len(sums)) - 1 / len(sums)
            covariance = centre @ sums @ covariance @ sums.T @ centre
        inverse = np.linalg.pinv(covariance, rcond=_RANK, hermitian=True)
        information.append(np.asarray(inverse, dtype=np.float64))
    values = coarsening.summed(target.scope, target.values)
    return Target(target.scope, values, np.full(values.shape, target.variance.flat[0]), tuple(information))


def _along(values: NDArray[np.float64], axis: int, axes: int) -> NDArray[np.float64]:
    """Return a vector that broadcasts along one axis of so many."""
    return values.reshape([-1 if other == axis else 1 for other in range(axes)])


@dataclass(frozen=True, slots=True, eq=False)
class CoarsenedDistribution(SyntheticDistribution):
    """A distribution over the fine domain: a model of the bins, and the shares inside them.

    The cell of a record inside its bin is independent of the record's other attributes.
    """

    coarsening: Coarsening
    model: SyntheticDistribution

    def __post_init__(self) -> None:
        if self.model.domain != self.coarsening.coarse:
            raise ScopeError("expected a model over the coarse domain")

    @property
    def domain(self) -> Domain:
        return self.coarsening.fine

    @property
    def total(self) -> float:
        return self.model.total

    @property
    def terms(self) -> tuple[Term, ...]:
        """The factors of the model, over the coarse domain."""
        return self.model.terms

    @property
    def cells(self) -> int:
        return self.model.cells

    def with_terms(self, terms: Sequence[Term]) -> CoarsenedDistribution:
        """Return the distribution with other factors, which are over the coarse domain."""
        return CoarsenedDistribution(self.coarsening, self.model.with_terms(terms))

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        values = self.coarsening.expand(scope, self.model.marginal(scope))
        values.flags.writeable = False
        return values

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        found = []
        for scope, coarse in zip(scopes, self.model.marginals(scopes), strict=True):
            values = self.coarsening.expand(scope, coarse)
            values.flags.writeable = False
            found.append(values)
        return found

    def answer(self, query: LinearQuery) -> float:
        if not query.scope:
            return self.total * (query.constant / UNITS)
        return self.model.expectation(self.coarsening.weights(query))

    def expectation(self, factors: Sequence[WeightedFactor]) -> float:
        coarse = [(scope, self.coarsening.averaged(scope, weights)) for scope, weights in factors]
        return self.model.expectation(coarse)

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records.

        The model's records, each of whose binned cells is drawn inside its bin: in systematic proportion,
        so that every cell gets its share of the bin's records rounded up or down and one-way shapes are
        kept, or as independent draws.
        """
        records = self.model.sample(count, generator, independent=independent)
        return self.coarsening.drawn(records, generator, independent=independent)


def _drawn_inside(
    column: NDArray[np.int64],
    parts: tuple[NDArray[np.int64], NDArray[np.float64]],
    generator: np.random.Generator,
    independent: bool,
) -> NDArray[np.int64]:
    """Return a fine cell for each record's bin: int64, shape (records,)."""
    bin_, share = parts
    drawn = np.empty(len(column), dtype=np.int64)
    for number in range(int(bin_.max()) + 1):
        rows = np.flatnonzero(column == number)
        if not len(rows):
            continue
        cells = np.flatnonzero(bin_ == number)
        ends = np.cumsum(share[cells])
        if independent:
            places = generator.random(len(rows))
        else:
            places = generator.permutation((np.arange(len(rows)) + generator.random()) / len(rows))
        found = np.searchsorted(ends, places * ends[-1], side="right")
        drawn[rows] = cells[np.minimum(found, np.flatnonzero(share[cells])[-1])]
    return drawn


SHORT_ORDERED = 24  # cells: an ordered attribute of at most so many is always kept as it is
SHORT_CATEGORICAL = 8  # values: a categorical attribute of at most so many is kept as it is
_NOISE = 3.0  # standard deviations that a count must exceed to be told from noise
_CLEAR = 4.0  # times as much that an assumed bin has: real ones are uneven


def fewest_bins(cells: int) -> int:
    """Return the fewest bins that leave an ordered attribute of so many cells as it is."""
    return 1 if cells <= SHORT_ORDERED else -(-cells * 2 // 3)


def choose_coarsening(
    domain: Domain,
    one_way: Mapping[str, NDArray[np.float64]],
    deviations: Mapping[str, float],
    *,
    bins: int = DEFAULT_BINS,
) -> Coarsening:
    """Return bins of about equal mass for long ordered attributes, and rare values pooled.

    An ordered attribute of more than SHORT_ORDERED cells, and of more than 3/2 as many as bins, is cut into
    about so many runs of consecutive cells: a cell heavier than a bin's share stands alone, and what lies
    between such cells is cut at equal masses, never into bins that noise could make. In a categorical
    attribute of more than SHORT_CATEGORICAL values those below three standard deviations are pooled where
    there are at least two. The cells of single numbers and the ``missing`` and ``other`` cells stay alone.
    Inside a bin shares are those of the counts.

    Args:
        one_way: per attribute, released records per cell: float64, shape (cells,); an attribute without them
            is kept as it is.
        deviations: per attribute, the standard deviation of one cell's count, in records.
    """
    binned: dict[str, tuple[Attribute, _Bins, _Shares]] = {}
    for attribute in domain:
        if attribute.name in one_way:
            counts = np.maximum(one_way[attribute.name], 0.0)
            bin_ = _group_cells(attribute, counts, deviations[attribute.name], bins)
            if bin_ is not None:
                binned[attribute.name] = _coarse_attribute(attribute, bin_), bin_, _shares(bin_, counts)
    return Coarsening.of(domain, binned)


def told_apart_by(domain: Domain, queries: Sequence[LinearQuery]) -> Coarsening:
    """Return bins of cells that no question tells apart: runs with the same weights in each of them.

    So a question about long attributes is counted over few cells. Attributes that none is about stay as they
    are.
    """
    begins = told_apart(factor for query in queries for factor in query.factors)
    binned: dict[str, tuple[Attribute, _Bins, _Shares]] = {}
    for name, starts in begins.items():
        if starts.size < domain[name].size:
            lengths = np.diff(np.append(starts, domain[name].size))
            coarse = CategoricalAttribute(name, tuple(range(starts.size)))
            bins = np.repeat(np.arange(starts.size), lengths), np.repeat(1 / lengths, lengths)
            binned[name] = (coarse, *bins)
    return Coarsening.of(domain, binned)


def assumed_domain(
    domain: Domain, total: float, deviations: Mapping[str, float], *, bins: int = DEFAULT_BINS
) -> Domain:
    """Return the coarse domain that a plan counts on, whatever counts are released.

    A long ordered attribute is taken to have as many bins as are wanted, of at least 12 standard deviations
    each if they were alike; of a long categorical one, the values that exceed three standard deviations are
    taken to be those that would if the k-th was 1/k times as frequent as the first (Zipf's law). On the
    tables of the stream benchmark this leads to about the numbers of positives that their own bins would.

    Args:
        deviations: per attribute, the standard deviation of one cell's count, in records; an attribute
            without one is kept as it is.
    """

    def size(attribute: Attribute) -> int:
        deviation = deviations.get(attribute.name)
        if deviation is None:
            return attribute.base_size
        told_apart = total / (_NOISE * deviation) if deviation > 0 else math.inf
        if isinstance(attribute, CategoricalAttribute):
            nodes = max(attribute.hierarchy[0]) + 1 if attribute.hierarchy else 0
            apart = min(nodes, math.floor(min(nodes, told_apart / _CLEAR)))
            return max(_assumed_values(attribute.base_size, told_apart), apart)
        return min(bins, max(2, math.floor(min(bins, told_apart / _CLEAR))))

    return _resized(domain, size, bins)


def extreme_domains(
    domain: Domain, deviations: Mapping[str, float], *, bins: int = DEFAULT_BINS
) -> tuple[Domain, Domain]:
    """Return coarse domains of the fewest and of the most bins that any released counts lead to.

    Beside h < bins heavy cells there are at most h + 1 runs, whose shares of a bin sum to bins - h. A
    run of share s makes one bin, or round(s) <= s + 1/2. So all runs make at most h + 1 + (bins - h) -
    1/2 bins, and h + 1 where each makes one: with the heavy cells at most bins + h <= 2 bins - 1. Of a
    categorical attribute no value may be rare.

    Args:
        deviations: names the attributes that are binned, as for ``assumed_domain``.
    """

    def fewest(attribute: Attribute) -> int:
        return 1 if attribute.name in deviations else attribute.base_size

    def most(attribute: Attribute) -> int:
        binned = attribute.name in deviations and not isinstance(attribute, CategoricalAttribute)
        return min(attribute.base_size, 2 * bins - 1) if binned else attribute.base_size

    return _resized(domain, fewest, bins), _resized(domain, most, bins)


def _is_long(attribute: Attribute, bins: int) -> bool:
    """Tell whether an attribute has too many cells to be kept as it is, where its counts were measured."""
    categorical = isinstance(attribute, CategoricalAttribute)
    return attribute.base_size > (SHORT_CATEGORICAL if categorical else max(SHORT_ORDERED, bins * 3 // 2))


def coarse_of(attribute: Attribute) -> Attribute:
    """Return the attribute that others are measured with, as far as its length alone tells."""
    if not _is_long(attribute, DEFAULT_BINS) or attribute.base_size <= DEFAULT_BINS:
        return attribute
    return _coarse_attribute(attribute, np.arange(DEFAULT_BINS))


def _resized(domain: Domain, size: Callable[[Attribute], int], bins: int) -> Domain:
    """Return a domain in which each long attribute has so many cells besides the special ones."""
    resized: list[Attribute] = []
    for attribute in domain:
        cells = size(attribute) if _is_long(attribute, bins) else attribute.base_size
        same = cells == attribute.base_size
        resized.append(attribute if same else _coarse_attribute(attribute, np.arange(cells)))
    return Domain(tuple(resized), domain.name)


def _assumed_values(values: int, told_apart: float) -> int:
    """Return how many values are left of a long list, the rare ones pooled, if Zipf's law held."""
    harmonic = float(np.sum(1 / np.arange(1, values + 1)))
    rare = values - math.floor(min(values, told_apart / harmonic))
    return values if rare < 2 else max(2, values - rare + 1)


def _group_cells(
    attribute: Attribute, counts: NDArray[np.float64], deviation: float, bins: int
) -> NDArray[np.int64] | None:
    """Return the bin of each cell, the special cells last, or None where nothing is binned."""
    if not _is_long(attribute, bins):
        return None
    base = counts[: attribute.base_size]
    if isinstance(attribute, CategoricalAttribute):
        bin_ = _pool_rare(base, deviation, attribute.hierarchy)
    else:
        bin_ = cut_runs(base, deviation, bins)
    if bin_ is None or bin_.max() == len(bin_) - 1:
        return None
    special = attribute.size - attribute.base_size
    return np.append(bin_, bin_.max() + 1 + np.arange(special))


def cut_runs(counts: NDArray[np.float64], deviation: float, bins: int) -> NDArray[np.int64]:
    """Return runs of consecutive cells of about equal mass: int64, shape (cells,), numbered from 0.

    Args:
        counts: float64, shape (cells,), records per cell, none negative.
    """
    share, heavy = _heavy_cells(counts, deviation, bins)
    # The pieces that are cut apart whatever their mass: heavy cells, and the cells between two of them.
    edges = heavy.copy()
    edges[1:] |= heavy[:-1]
    pieces = np.cumsum(edges)
    bin_ = np.empty(len(counts), dtype=np.int64)
    following = 0
    for piece in np.unique(pieces):
        cells = np.flatnonzero(pieces == piece)
        mass = counts[cells]
        total = float(mass.sum())
        told_apart = total / (_NOISE * deviation) if deviation > 0 else math.inf
        wanted = min(total / share if share > 0 else 0.0, told_apart)
        parts = max(1, min(len(cells), round(wanted)))
        middle = np.cumsum(mass) - mass / 2
        place = np.floor(middle * (parts / total)) if total > 0 else np.zeros(len(cells))
        _, number = np.unique(np.minimum(place, parts - 1), return_inverse=True)
        bin_[cells] = following + number.reshape(-1)
        following = int(bin_[cells[-1]]) + 1
    return bin_


def _heavy_cells(counts: NDArray[np.float64], deviation: float, bins: int) -> tuple[float, NDArray[np.bool_]]:
    """Return the share of a bin in the other cells' records, and the cells that are heavier than it."""
    heavy = np.zeros(len(counts), dtype=bool)
    while True:
        left = max(1, bins - int(heavy.sum()))
        share = float(counts[~heavy].sum()) / left
        found = ~heavy & (counts > max(share, _NOISE * deviation))
        if not found.any() or int((heavy | found).sum()) >= bins:
            return share, heavy
        heavy |= found


def _pool_rare(
    counts: NDArray[np.float64], deviation: float, hierarchy: Sequence[Sequence[int]]
) -> NDArray[np.int64] | None:
    """Return a bin for each value that is not rare, and bins of the rare ones, each where its first is.

    Rare values are pooled inside the nodes of the finest level where their sum is not rare, then of the next
    coarser one, and those that are left together.
    """
    rare = counts < _NOISE * deviation
    if int(rare.sum()) < 2:
        return None
    first = np.arange(len(counts))  # the first value of each one's bin
    left = rare.copy()
    for level in reversed(hierarchy):
        nodes = np.array(level)
        for node in np.unique(nodes[left]):
            members = np.flatnonzero(left & (nodes == node))
            if counts[members].sum() >= _NOISE * deviation:
                first[members], left[members] = members[0], False
    first[left] = int(left.argmax())
    return np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _coarse_attribute(attribute: Attribute, bin_: NDArray[np.int64]) -> Attribute:
    size = int(bin_[: attribute.base_size].max()) + 1 + len(attribute.atoms)
    special: dict[str, Any] = {"missing": attribute.missing, "other": attribute.other}
    if isinstance(attribute, CategoricalAttribute):
        return CategoricalAttribute(attribute.name, tuple(range(size)), **special)
    return IntegerAttribute(attribute.name, 0, size - 1, **special)


def _shares(bin_: NDArray[np.int64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each cell's share of its bin's records; all alike where the bin has none."""
    sums, cells = np.bincount(as_index(bin_), weights=counts), np.bincount(as_index(bin_))
    empty = sums[bin_] <= 0
    return np.where(empty, 1 / cells[bin_], counts / np.where(empty, 1.0, sums[bin_]))
