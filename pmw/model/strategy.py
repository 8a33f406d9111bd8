"""Strategies: integer rows by which a marginal is measured, so that nothing is measured twice.

The residual of a marginal is what its counts say beyond the marginals of fewer of its attributes. It is
measured by rows that sum to zero along each attribute: for attributes with row matrices K_i, the numbers

    y = f (K_1 x ... x K_m) counts + noise,    K_i 1 = 0,

with f a power of two. Any linear unbiased estimate of the residual is K+ y = counts, centred along each
attribute; its noise has the covariance sigma^2/f^2 (S_1 x ... x S_m), S_i = (K_i' K_i)+.

Ordered attributes have the rows that are best for ranges, of all strategies of one price; the values of
others have K = n I - 1 1', which treats them alike. Both are functions of an attribute's shape.

Source: Xiao, He, Zhang and Kifer (2023), "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
    Convex Loss Functions", for residuals; Li, Miklau, Hay, McGregor and Rastogi (2015), "The matrix
    mechanism: optimizing linear counting queries under differential privacy", for strategies and their price.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.privacy.noise import DiscreteGaussian, NoiseDistribution
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.frozen import dataclass

MOST_ORDERED = 128  # cells of an ordered attribute that is measured by rows
MOST_VALUES = 512  # of another one
SCALE = 1024  # of rows before they are rounded: ranges have .3 % more variance than without rounding
_ROUNDS = 200  # of a fixed point
_CONVERGED = 1e-6  # of the weights in one round: what is left changes no row by one
_LARGEST_ROW = 2**20
_MOST_SCALE = 2**21  # of a whole scope, so that sums over 2^40 records fit in 62 bits


@dataclass(frozen=True)
class AxisRows:
    """The rows along one attribute.

    Args:
        size: n, the attribute's cells, at least 2.
        rows: n^2 integers, row by row, each row summing to zero; empty for n I - 1 1'.
    """

    size: int
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MOST_VALUES:
            raise ScopeError(f"expected rows over 2 to {MOST_VALUES} cells, got {self.size}")
        if not self.rows:
            return
        if len(self.rows) != self.size**2 or max(map(abs, self.rows)) > _LARGEST_ROW:
            raise ScopeError(f"expected {self.size} rows of as many numbers of at most {_LARGEST_ROW}")
        if self.matrix.sum(axis=1).any():
            raise ScopeError("expected rows that sum to zero")
        if np.linalg.matrix_rank(self.matrix) != self.size - 1:
            raise ScopeError(f"expected rows of rank {self.size - 1}, which miss no contrast of the cells")

    @functools.cached_property
    def matrix(self) -> NDArray[np.int64]:
        """K: int64, shape (n, n)."""
        if not self.rows:
            return self.size * np.eye(self.size, dtype=np.int64) - 1
        return np.array(self.rows, dtype=np.int64).reshape(self.size, self.size)

    @functools.cached_property
    def gram(self) -> NDArray[np.int64]:
        """K'K: int64, shape (n, n), exact.

        The rows are at most 2^9, of numbers of at most 2^20, so every sum of their products is below 2^53 in
        whatever order it is taken: floats hold each, and are multiplied far more quickly than integers.
        """
        rows = self.matrix.astype(np.float64)
        return (rows.T @ rows).astype(np.int64)

    @functools.cached_property
    def inverse(self) -> NDArray[np.float64]:
        """K+, the pseudo-inverse: float64, shape (n, n); its columns sum to zero."""
        if not self.rows:
            return self.matrix / self.size**2
        # K has rank n - 1 and the kernel of constants, to which K+ is orthogonal.
        everybody = np.full((self.size, self.size), 1 / self.size)
        scale = math.sqrt(float(self.gram.diagonal().max()))
        wide = np.linalg.inv(self.gram / scale**2 + everybody) - everybody
        return np.asarray(wide @ self.matrix.T / scale**2)

    @functools.cached_property
    def covariance(self) -> NDArray[np.float64]:
        """S = K+ K+': float64, shape (n, n)."""
        return self.inverse @ self.inverse.T

    @property
    def norm(self) -> int:
        """The largest squared column."""
        return int(self.gram.diagonal().max())


@dataclass(frozen=True)
class Strategy:
    """The rows of a marginal: those of its attributes, multiplied.

    Args:
        axes: the rows along each attribute, in declared order.
        replaced: a record is replaced between neighbouring tables; else it is added or removed.
    """

    axes: tuple[AxisRows, ...]
    replaced: bool

    def __post_init__(self) -> None:
        if self.factor**2 * self._norm > _MOST_SCALE**2:
            raise NoiseError(f"expected rows of at most {_MOST_SCALE} in all, got {math.isqrt(self._norm)}")

    @functools.cached_property
    def _norm(self) -> int:
        return math.prod(axis.norm for axis in self.axes)

    @functools.cached_property
    def factor(self) -> int:
        """The least power of two with which a record moves the numbers by at least 2^20.

        So they lie on a grid as fine as that of counts in units of 2^-20.
        """
        factor = 1
        while factor**2 * self._norm < UNITS**2:
            factor *= 2
        return factor

    @functools.cached_property
    def squared_sensitivity(self) -> int:
        """The square of how much one record moves the numbers in L2, or more: an exact integer.

        Added or removed it moves them by its cell's column of the product, whose square is the product of
        the axes' Gram diagonals. Replaced, by the difference of two columns, whose square is at most twice
        the largest diagonal less twice the least entry of the product of the Gram matrices: cells may agree
        on some attributes. The entries of a product are products of the axes' entries, in any combination.
        """
        largest = self.factor**2 * self._norm
        if not self.replaced:
            return largest
        ends = [(int(axis.gram.min()), int(axis.gram.max())) for axis in self.axes]
        least = min(math.prod(one) for one in itertools.product(*ends))
        return 2 * largest - 2 * self.factor**2 * least

    def noise(self, of_cells: NoiseDistribution) -> DiscreteGaussian:
        """Return the noise of each number that costs at most what a marginal costs with noise on its cells.

        A record moves the cells of a marginal by 2^20 units in L2 where it is added or removed, and by the
        root of 2 as much where it is replaced. The numbers move by s times as much, s >= 1, so sigma is s
        times as large, rounded up to a whole unit. The surcharge for the grid is no larger, for sigma is not
        smaller.
        """
        if not isinstance(of_cells, DiscreteGaussian):
            raise NoiseError("expected Gaussian noise on what is measured by rows")
        moved = (2 if self.replaced else 1) * UNITS**2
        wanted = of_cells.sigma**2 * Fraction(self.squared_sensitivity, moved)
        return DiscreteGaussian(max(Fraction(math.isqrt(math.ceil(wanted) - 1) + 1), of_cells.sigma))

    def applied(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return f (K_1 x ... x K_m) counts: int64, of the shape of the counts.

        Exact: with rows of at most 2^21 in all, sums over fewer than 2^40 records stay below 2^62.

        Privacy: a function of true counts (secret); ``squared_sensitivity`` bounds how one record moves it.
        """
        return along([axis.matrix for axis in self.axes], counts * self.factor)

    def estimate(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the centred counts that the noisy numbers say: float64, records."""
        return along([axis.inverse for axis in self.axes], numbers / self.factor)


def widest_of_rows(of_cells: NoiseDistribution) -> DiscreteGaussian:
    """Return noise that is no narrower than that of any rows, of the price of noise on cells.

    A record moves the rows' numbers by at most 2^21, and two of them by twice as much: s^2 is at most 8.
    """
    if not isinstance(of_cells, DiscreteGaussian):
        raise NoiseError("expected Gaussian noise on what is measured by rows")
    return DiscreteGaussian(3 * of_cells.sigma)


def along(matrices: Sequence[NDArray[Any]], values: NDArray[Any]) -> NDArray[Any]:
    """Return values after one matrix along each axis."""
    if len(matrices) == 2:  # what a fit asks for, many times
        return np.asarray(matrices[0] @ values @ matrices[1].T)
    shape = values.shape
    for axis, matrix in enumerate(matrices):
        values = matrix @ values.reshape(math.prod(shape[:axis]), shape[axis], -1)
    return np.asarray(values.reshape(shape))


# --- rows of an ordered attribute ------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def ordered_rows(cells: int, special: int, scale: int = SCALE) -> AxisRows:
    """Return the best rows for ranges of ordered cells, and for each special cell alone, as integers.

    The rounded rows get what they fall short of zero, or exceed it by, on their diagonal.

    Args:
        scale: of the rows before they are rounded: the larger, the nearer they are to the best.
    """
    rows = np.rint(scale * _root(range_information(cells, special))).astype(np.int64)
    rows[np.arange(len(rows)), np.arange(len(rows))] -= rows.sum(axis=1)
    return AxisRows(len(rows), tuple(rows.ravel().tolist()))


@functools.lru_cache(maxsize=64)  # rows of several scales are made of it
def range_information(cells: int, special: int) -> NDArray[np.float64]:
    """Return X = K'K of the best rows K for ranges, of largest diagonal 1: float64, shape (n, n).

    X minimises the mean variance tr(V X+) of ranges, V their centred Gram matrix, under max_j X_jj <= 1. With
    weights w of that limit's dual, X = W^-1/2 (W^1/2 V W^1/2)^1/2 W^-1/2, and w_j X_jj is in proportion to
    w_j at the solution: a fixed point.

    Source: Li et al. (2015) for the problem; its dual is solved here by a fixed point, and that rows of this
        K are as good as any is pinned by a test of the optimum's conditions.
    """
    size = cells + special
    centre = np.eye(size) - 1 / size
    gram = centre @ question_gram(cells, special) @ centre
    weights = np.full(size, 1 / size)
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        found = _root(root[:, None] * gram * root) / root[:, None] / root
        moved = weights * found.diagonal()
        moved /= moved.sum()
        change, weights = float(np.abs(moved - weights).max()), moved
        if change < _CONVERGED / size:
            break
    found = centre @ found @ centre
    found = np.asarray(found / found.diagonal().max(), dtype=np.float64)
    found.flags.writeable = False
    return found


def question_gram(cells: int, special: int, alone: float = 0.0) -> NDArray[np.float64]:
    """Return the mean of w w' over questions about an ordered attribute: float64, shape (n, n).

    All ranges of its ordered cells are alike, each as often as each of its special cells.

    Args:
        alone: part of the questions that are about one cell.
    """
    place = np.arange(cells)
    first, last = np.minimum.outer(place, place), np.maximum.outer(place, place)
    ranges = cells * (cells + 1) // 2
    gram = np.zeros((cells + special, cells + special))
    gram[:cells, :cells] = (first + 1.0) * (cells - last)
    gram[np.arange(cells, cells + special), np.arange(cells, cells + special)] = 1.0
    return gram * ((1 - alone) / (ranges + special)) + np.eye(len(gram)) * (alone / len(gram))


def _root(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the root of a matrix that is symmetric and has no negative eigenvalue but by rounding."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
