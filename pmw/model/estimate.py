"""Estimates: the counts that measurements say, and how their noise moves every weighted sum of them.

Counts are a sum of blocks with independent noise. A block is a table over some attributes, in which the cells
along the others share evenly: a sum with weights w over all cells takes of it the mean of w over the others.
The noise of its values has the covariance v (S_1 x ... x S_m), a factor along each of its attributes. So the
variance of a sum is, over the blocks, the sum of v w' (S_1 x ... x S_m) w.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.model.hierarchical_histogram import (
    MOST_COVARIANCES,
    HierarchicalHistogram,
    covariance_times,
    leaf_variances,
    query_variance,
    range_variances,
)
from pmw.privacy.noise import DiscreteLaplace, NoiseDistribution
from queries.cell_sets import CellSets
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.places import as_index

_Array = NDArray[np.float64]
_Shape = tuple[int, ...]


def noise_variance(noise: NoiseDistribution) -> float:
    """Return an upper bound on the variance of a distribution in units, in squared records.

    2 b^2 for discrete Laplace, sigma^2 for discrete Gaussian; both are attained for wide noise.

    Source: Canonne, Kamath and Steinke (2020, arXiv v5), Corollary 9, for the Gaussian; the discrete Laplace
        has variance 2r/(1-r)^2 <= 2 b^2.
    """
    if isinstance(noise, DiscreteLaplace):
        return 2 * (float(noise.scale) / UNITS) ** 2
    return (float(noise.sigma) / UNITS) ** 2


def noise_scale(noise: NoiseDistribution) -> float:
    """Return the scale of a distribution, in units."""
    return float(noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma)


class Covariance:
    """The covariance S of the noise along one attribute, of numbers that sum to zero along it.

    Attributes:
        whole: the variance of the sum of all cells.
    """

    whole = 0.0

    def __init__(self, matrix: _Array) -> None:
        self.matrix = matrix

    @functools.cached_property
    def runs(self) -> _Array:
        """The variance of the sum of each run of cells: float64, by its first and its last cell."""
        sums = np.zeros((len(self.matrix) + 1, len(self.matrix) + 1))
        sums[1:, 1:] = self.matrix.cumsum(axis=0).cumsum(axis=1)
        corners = sums.diagonal()
        return np.maximum(corners[1:] - 2 * sums[:-1, 1:] + corners[:-1, None], 0.0)

    @property
    def diagonal(self) -> _Array:
        """The variance of each cell: float64, shape (cells,)."""
        return self.matrix.diagonal()

    def times(self, weights: _Array, axis: int) -> _Array:
        """Return S w along an axis of some weights."""
        return np.moveaxis(np.tensordot(self.matrix, weights, (1, axis)), 0, axis)

    def of_sets(self, side: CellSets) -> _Array:
        """Return the variances of the sums of sets of cells: float64, shape (n,)."""
        return side.variances(self.runs)

    def summed(self, bin_: NDArray[np.int64]) -> _Array:
        """Return the covariance of the sums in bins, of the bin of each cell: float64, shape (bins, bins)."""
        sums = np.equal.outer(np.arange(int(bin_.max()) + 1), bin_) * 1.0
        return np.asarray(sums @ self.matrix @ sums.T)


class Independent(Covariance):
    """Noise of one variance on each cell by itself: S = I."""

    def __init__(self, size: int) -> None:
        self.whole = float(size)

    @property
    def diagonal(self) -> _Array:
        return np.ones(int(self.whole))

    def times(self, weights: _Array, axis: int) -> _Array:
        return weights

    def of_sets(self, side: CellSets) -> _Array:
        return side.cells().astype(np.float64)

    def summed(self, bin_: NDArray[np.int64]) -> _Array:
        return np.diag(np.bincount(as_index(bin_)) * 1.0)


class OfTree(Covariance):
    """The noise that least squares leave on the cells of a tree."""

    def __init__(self, tree: HierarchicalHistogram) -> None:
        self.tree = tree

    @functools.cached_property
    def whole(self) -> float:  # type: ignore[override]
        """The variance of the sum of all cells."""
        return query_variance(self.tree, np.ones(self.tree.size))

    @property
    def is_scattered(self) -> bool:
        """Whether runs have to be looked at one by one: the tree is long, and its nodes are declared."""
        return self.tree.size > MOST_COVARIANCES and bool(self.tree.hierarchy)

    @property
    def diagonal(self) -> _Array:
        return leaf_variances(self.tree)

    def times(self, weights: _Array, axis: int) -> _Array:
        return covariance_times(self.tree, weights)

    def summed(self, bin_: NDArray[np.int64]) -> _Array:
        columns = [self.times((bin_ == number) * 1.0, 0) for number in range(int(bin_.max()) + 1)]
        return np.array([np.bincount(as_index(bin_), weights=column) for column in columns])

    def of_sets(self, side: CellSets) -> _Array:
        found, are_runs = np.empty(len(side)), (side.counts == 1) & (not self.is_scattered)
        runs = side.take(np.flatnonzero(are_runs))
        if self.tree.size <= MOST_COVARIANCES:
            found[are_runs] = _short_covariance(self.tree).runs[runs.first, runs.last]
        else:
            found[are_runs] = range_variances(self.tree, runs.first, runs.last)
        for place in np.flatnonzero(~are_runs):
            mask = side.take(np.array([place])).masks(self.tree.size)[0]
            found[place] = query_variance(self.tree, mask * 1.0)
        return found


@functools.lru_cache(maxsize=64)
def _short_covariance(tree: HierarchicalHistogram) -> Covariance:
    return Covariance(OfTree(tree).summed(np.arange(tree.size)))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A table that counts are the sum of, with others, whose noise is independent of theirs.

    Args:
        axes: which of the estimate's, in order.
        values: float64, one of these axes each, records.
        variance: v, in squared records.
        grid: standard deviation of the measured numbers, each on their own grid.
        slopes: of the number of records, which has no axes: what its noise moves the cells along some axes
            by, beyond an even share: the axes, and float64, shape (cells,), which sums to zero.
    """

    axes: tuple[int, ...]
    values: _Array
    variance: float
    factors: tuple[Covariance, ...]
    grid: float
    slopes: tuple[tuple[int, _Array], ...] = ()

    def _rest(self, shape: _Shape, axes: _Shape | None = None) -> tuple[_Shape, int]:
        """Return the axes beside some, by default beside its own, and how many cells they have."""
        others = tuple(one for one in range(len(shape)) if one not in (self.axes if axes is None else axes))
        return others, math.prod(shape[one] for one in others)

    def spread(self, shape: _Shape) -> _Array:
        """Return what it is in the count of each cell of the estimate, to broadcast to their shape."""
        others, cells = self._rest(shape)
        return np.expand_dims(self.values, others) / cells

    def squares(self, weights: _Array) -> float:
        """Return its variance in a sum, by the weights of all cells."""
        own = weights.mean(axis=self._rest(weights.shape)[0])
        for axis, slope in self.slopes:
            own = own + weights.mean(axis=self._rest(weights.shape, (axis,))[0]) @ slope
        for axis, factor in enumerate(self.factors):
            if type(factor) is Covariance:  # loses less where weights are nearly alike
                own = own - own.mean(axis=axis, keepdims=True)
        seen = own
        for axis, factor in enumerate(self.factors):
            seen = factor.times(seen, axis)
        return self.variance * float(np.vdot(own, seen))

    def of_products(self, sides: Sequence[CellSets], shares: Sequence[_Array]) -> _Array:
        """Return its variances in the counts of products: float64, shape (n,).

        Args:
            shares: what part of the cells that is: float64, shape (n,) each.
        """
        own = _product([share for axis, share in enumerate(shares) if axis not in self.axes])
        for axis, slope in self.slopes:
            sums, side = np.append(0.0, slope.cumsum()), sides[axis]
            moved = side.summed(sums[side.last + 1] - sums[side.first])
            own = own + moved * _product([share for other, share in enumerate(shares) if other != axis])
        factors = zip(self.axes, self.factors, strict=True)
        return self.variance * _product([factor.of_sets(sides[axis]) for axis, factor in factors]) * own**2

    def of_cells(self, shape: _Shape) -> _Array:
        """Return its variance in the count of each cell, to broadcast to the shape of all."""
        others, cells = self._rest(shape)
        own = np.full((1,) * len(shape), 1 / cells)
        for axis, slope in self.slopes:
            rest, beside = self._rest(shape, (axis,))
            own = own + np.expand_dims(slope, rest) / beside
        diagonals = [factor.diagonal for factor in self.factors]
        found = functools.reduce(np.multiply.outer, diagonals, np.asarray(self.variance))
        return np.asarray(np.expand_dims(found, others) * own**2)

    def over(self, kept: Sequence[int]) -> Block | None:
        """Return it where the other axes are summed out, or None where nothing of it is left."""
        place = {axis: number for number, axis in enumerate(kept)}
        summed = tuple(number for number, axis in enumerate(self.axes) if axis not in place)
        variance = self.variance * math.prod(self.factors[number].whole for number in summed)
        left = [
            (place[axis], one) for axis, one in zip(self.axes, self.factors, strict=True) if axis in place
        ]
        slopes = tuple((place[axis], slope) for axis, slope in self.slopes if axis in place)
        axes, factors = tuple(axis for axis, _ in left), tuple(one for _, one in left)
        if summed and not variance:
            return None
        return Block(axes, self.values.sum(axis=summed), variance, factors, self.grid, slopes)


def _product(values: Sequence[_Array]) -> _Array:
    return functools.reduce(np.multiply, values, np.ones(()))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Counts of the cells of a scope, and the noise that they take in.

    A sum of noises of scales s_i with weights w_i, s the least scale, is bounded as one of noises of scale s
    with the weights a_i = w_i s_i / s: by s and the sum of the a_i^2 (``docs/intervals.md``).

    Args:
        noise: the quietest, of scale s.
        unit: of the variances of the blocks, in squared records.
        peak: the largest a_i^2 of a sum with weights in [0, 1], which counts for Laplace noise; None where it
            is not known.
        drawn: the values are the noisy numbers of cells, or sums of them.
        total_deviation: where the cells were moved to sum to the number of records: its standard deviation,
            in records; None where they were not.
    """

    scope: tuple[str, ...]
    shape: _Shape
    noise: NoiseDistribution
    blocks: tuple[Block, ...]
    unit: float = 1.0
    peak: float | None = 1.0
    drawn: bool = False
    total_deviation: float | None = None

    @classmethod
    def of_cells(
        cls, scope: tuple[str, ...], noise: NoiseDistribution, values: _Array, variance: float = 1.0
    ) -> Estimate:
        """Return that of cells whose noise is independent, of a variance in those of the noise."""
        axes, factors = tuple(range(values.ndim)), tuple(map(Independent, values.shape))
        block = Block(axes, values, variance, factors, noise_scale(noise))
        return cls(scope, values.shape, noise, (block,), noise_variance(noise))

    @functools.cached_property
    def values(self) -> _Array:
        """The counts: float64, one axis per attribute, records."""
        return sum((one.spread(self.shape) for one in self.blocks[1:]), self.blocks[0].spread(self.shape))

    @property
    def is_alike(self) -> bool:
        """Whether the noise of a sum depends on the weights, and not on which cells they are of."""
        factors = self.blocks[0].factors
        return bool(factors) and all(isinstance(one, Independent) for one in factors)

    @property
    def cell_variances(self) -> _Array:
        """Variance of each cell's value: float64, one axis per attribute, squared records."""
        found = sum((one.of_cells(self.shape) for one in self.blocks), np.zeros(self.shape))
        return np.asarray(found * self.unit)

    def weighted_variance(self, weights: _Array) -> float:
        """Return the variance of a weighted sum of the values, in squared records.

        Args:
            weights: float64, one axis per attribute.
        """
        return max(0.0, sum(one.squares(weights) for one in self.blocks)) * self.unit

    def product_squares(self, sides: Sequence[CellSets]) -> _Array:
        """Return the sums of the a_i^2 of counts of products: float64, shape (n,)."""
        shares = [side.cells() / size for side, size in zip(sides, self.shape, strict=True)]
        found = sum(one.of_products(sides, shares) for one in self.blocks)
        return np.asarray(found * (self.unit / noise_variance(self.noise)))

    def over(self, scope: tuple[str, ...]) -> Estimate:
        """Return the sums of the counts over the other attributes."""
        if scope == self.scope:
            return self
        kept = [axis for axis, name in enumerate(self.scope) if name in scope]
        blocks = tuple(block for one in self.blocks if (block := one.over(kept)) is not None)
        return replace(self, scope=scope, shape=tuple(self.shape[axis] for axis in kept), blocks=blocks)
