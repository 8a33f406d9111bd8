"""Range trees: an attribute at several widths at once, so that ranges and levels are sums of few numbers.

The lowest level of a tree are the attribute's cells; each level above sums ``branching`` neighbours of the
one below. Every level is measured: a record is in one node of each, so one record changes ``height`` numbers
by one. A range of any length is then the sum of a few nodes where cell by cell it would be the sum of many.

The noisy nodes contradict each other; least squares makes them one set of cells. On a tree it is exact in two
passes: upwards, each node's own number is averaged with the sum of its children by inverse variance;
downwards, what a parent differs from its children's sum is shared out among them by variance.

Source: Hay, Rastogi, Miklau and Suciu (2010, arXiv v2), Section 4 (two passes for complete trees); here with
a variance per node, so that incomplete trees are exact too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from queries.errors import ScopeError
from queries.frozen import dataclass
from queries.places import as_index

_MOST_PIVOTS = 200  # of one non-negative solution; a few dozen are usual
_SMALLEST_DUAL = 1e-9  # relative, below which a gradient counts as zero
MOST_COVARIANCES = 512  # cells of a tree whose covariances are kept
_CUTS = 7  # between which ranges are averaged: 28 of them; no power of a branching, so that they cut nodes


@dataclass(frozen=True, slots=True)
class HierarchicalHistogram:
    """The nodes over an attribute's cells, level by level, the widest first.

    The ``missing`` and ``other`` cells have no neighbours. They hang beside the tree as a node of their own
    at each level, which costs nothing: a record of theirs too is in one node per level.

    Args:
        branching: neighbours of one level that make a node of the one above, at least 2.
        height: levels, at least 1; with one level the tree is a marginal.
        hierarchy: of a tree whose nodes are declared, for each level above the cells, the widest first, the
            node of each cell; the cells of a node need not be neighbours. Empty where ``branching`` decides.

    Attributes:
        sizes: nodes of each level, the widest first, the special ones included.
    """

    cells: int
    special: int
    branching: int
    height: int
    hierarchy: tuple[tuple[int, ...], ...] = ()
    sizes: tuple[int, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.cells < 1 or self.special < 0 or self.branching < 2 or self.height < 1:
            raise ScopeError(
                f"expected cells and levels of at least 1 and a branching of at least 2, got {self.cells}, "
                f"{self.height} and {self.branching}"
            )
        if self.hierarchy:
            object.__setattr__(self, "sizes", self._declared_sizes())
            return
        if self.height > 1 and self.branching ** (self.height - 1) >= self.cells:
            raise ScopeError(
                f"expected at least two nodes at each level, got {self.height} levels of branching "
                f"{self.branching} over {self.cells} cells"
            )
        sizes = [self.special - (-self.cells // width) for width in self.widths]
        object.__setattr__(self, "sizes", tuple(sizes))

    def _declared_sizes(self) -> tuple[int, ...]:
        nodes = [np.array(level, dtype=np.int64) for level in self.hierarchy]
        if len(nodes) != self.height - 1 or any(level.shape != (self.cells,) for level in nodes):
            raise ScopeError(f"expected the nodes of {self.cells} cells in {self.height - 1} levels")
        sizes = [int(level.max()) + 1 for level in nodes]
        for level, size in zip(nodes, sizes, strict=True):
            if not 2 <= size <= self.cells or not np.array_equal(np.unique(level), np.arange(size)):
                raise ScopeError(
                    "expected at least two nodes at each level, numbered from 0, each with a cell"
                )
        for wide, level, size in zip(nodes, nodes[1:], sizes[1:], strict=False):
            if len(np.unique(wide * size + level)) != size:
                raise ScopeError("expected each node inside one of the level above")
        return tuple(size + self.special for size in (*sizes, self.cells))

    def owners(self, level: int) -> NDArray[np.int64]:
        """Return the node of each ordered cell at a level: int64, shape (cells,)."""
        if self.hierarchy and level < self.height - 1:
            return np.array(self.hierarchy[level], dtype=np.int64)
        width = 1 if level == self.height - 1 else self.widths[level]
        return np.arange(self.cells) // width

    @property
    def widths(self) -> tuple[int, ...]:
        """Cells of a node of each level, the widest first, where ``branching`` decides them."""
        return tuple(self.branching**level for level in range(self.height - 1, -1, -1))

    @property
    def size(self) -> int:
        """Cells of the attribute, the special ones included."""
        return self.cells + self.special

    @property
    def nodes(self) -> int:
        """Nodes of all levels."""
        return sum(self.sizes)

    def levels(self, values: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Yield the numbers of each level, the widest first, of a flat array over all nodes."""
        start = 0
        for size in self.sizes:
            yield values[start : start + size]
            start += size

    def node_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the records of every node: int64, shape (nodes,), level by level, the widest first.

        Args:
            counts: int64, shape (size,), records per cell.

        Privacy: as secret as the counts. A record is in one node per level, so where it moves the counts by
            k in L1 it moves the nodes by k times ``height``.
        """
        ordered, special = counts[: self.cells], counts[self.cells :]
        levels = []
        for level, size in enumerate(self.sizes):
            sums = np.zeros(size - self.special, dtype=np.int64)
            np.add.at(sums, self.owners(level), ordered)  # exact: these are whole numbers
            levels += [sums, special]
        return np.concatenate(levels).astype(np.int64)

    def parents(self, level: int) -> NDArray[np.int64]:
        """Return the number, in its level, of the node above each node of a level: int64, shape (nodes,)."""
        own = self.sizes[level] - self.special
        above = self.sizes[level - 1] - self.special
        parents = np.arange(own) // self.branching
        if self.hierarchy:
            parents[self.owners(level)] = self.owners(level - 1)
        return np.append(parents, above + np.arange(self.special))


def least_squares(
    tree: HierarchicalHistogram,
    nodes: NDArray[np.float64],
    fixed: NDArray[np.bool_] | None = None,
    total: float | None = None,
) -> NDArray[np.float64]:
    """Return the cells x that minimise the sum of (sum of a node's x - its number)^2: float64, shape (size,).

    Args:
        nodes: float64, shape (nodes,), the numbers, all of one variance.
        fixed: cells that must be zero; None for none.
        total: what the cells must sum to; None where they need not.
    """
    upward = list(_upward(tree, nodes, fixed))
    upward.reverse()  # the widest level first
    values, variances = upward[0]
    if total is not None:
        values = values + _shared(total - values.sum(), variances, np.zeros(len(values), dtype=np.int64))
    for level in range(1, tree.height):
        children, variances = upward[level]
        parents = tree.parents(level)
        missing = values - np.bincount(as_index(parents), weights=children, minlength=len(values))
        values = children + _shared(missing, variances, parents)
    return values


def _upward(
    tree: HierarchicalHistogram, nodes: NDArray[np.float64], fixed: NDArray[np.bool_] | None
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield, from the cells up, what a node's own number and those below it say: values and variances."""
    own = list(tree.levels(nodes))
    values: NDArray[np.float64] = np.array(own[-1], dtype=np.float64)
    variances = np.ones(len(values))
    if fixed is not None:
        values[fixed] = variances[fixed] = 0.0
    yield values, variances
    for level in range(tree.height - 1, 0, -1):
        parents, size = tree.parents(level), tree.sizes[level - 1]
        sums = np.bincount(as_index(parents), weights=values, minlength=size)
        spread = np.bincount(as_index(parents), weights=variances, minlength=size)
        values = sums + (own[level - 1] - sums) * (spread / (1 + spread))
        variances = spread / (1 + spread)
        yield values, variances


def _shared(
    missing: NDArray[np.float64] | float, variances: NDArray[np.float64], parents: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Share out what each parent's children lack among them, by variance: nothing to those without any."""
    sums = np.bincount(as_index(parents), weights=variances)
    per_variance = np.divide(missing, sums, out=np.zeros(len(sums)), where=sums > 0)
    return variances * per_variance[parents]


def leaf_variances(tree: HierarchicalHistogram) -> NDArray[np.float64]:
    """Return the variance of each least squares cell per variance of a node: float64, shape (size,).

    Given its parent, a child varies by v - v^2/S, with v its variance from below and S the sum over its
    siblings; and it takes the part v/S of what the parent varies.
    """
    upward = [variances for _, variances in _upward(tree, np.zeros(tree.nodes), None)]
    upward.reverse()
    result = upward[0]
    for level in range(1, tree.height):
        variances, parents = upward[level], tree.parents(level)
        part = variances / np.bincount(as_index(parents), weights=variances)[parents]
        result = variances * (1 - part) + part**2 * result[parents]
    return result


def covariance_times(tree: HierarchicalHistogram, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return S w, S = (A'A)^-1 the covariance of the least squares cells per variance of a node.

    A is the incidence of cells in nodes; and S w are the least squares cells of nodes that are w at the
    lowest level and zero above it.
    """
    nodes = np.zeros(tree.nodes)
    nodes[tree.nodes - tree.size :] = weights
    return least_squares(tree, nodes)


def query_variance(tree: HierarchicalHistogram, weights: NDArray[np.float64]) -> float:
    """Return the variance of the least squares answer to a query, per variance of a node: w' S w."""
    return max(0.0, float(weights @ covariance_times(tree, weights)))


@dataclass(frozen=True, slots=True, eq=False)
class _Spreads:
    """Of one level of a long tree, what ranges of its nodes vary by.

    Args:
        own: float64, shape (nodes,), the variance of each node from below, v.
        before: float64, shape (nodes + 1,), the sums of v over the nodes before each one.
        parents: int64, shape (nodes,), the node above each one; none of the widest level.
        starts: int64, shape (parents + 1,), the first node of each one above, and where the last ends.
    """

    own: NDArray[np.float64]
    before: NDArray[np.float64]
    parents: NDArray[np.int64]
    starts: NDArray[np.int64]

    def between(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sums of v over runs of nodes; none of those that stop where they start or before."""
        return np.where(start < stop, self.before[stop] - self.before[np.minimum(start, stop)], 0.0)


@lru_cache(maxsize=16)
def _spreads(tree: HierarchicalHistogram) -> tuple[_Spreads, ...]:
    """Return what the levels of a tree vary by, the cells first."""
    found, places = [], np.arange(0)
    for up, (_, own) in enumerate(_upward(tree, np.zeros(tree.nodes), None)):
        level = tree.height - 1 - up
        parents = tree.parents(level) if level else places
        starts = np.searchsorted(parents, np.arange(tree.sizes[level - 1] + 1)) if level else places
        found.append(_Spreads(own, np.append(0.0, own.cumsum()), parents, starts))
    return tuple(found)


def range_variances(
    tree: HierarchicalHistogram, first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the variances of ranges of cells, per variance of a node: float64, shape (n,).

    They are those of the least squares answers, in steps per level, not per cell. Nodes are runs of cells.

    Given its parent, a node of variance v from below takes the part v/S of what the parent varies, with S the
    sum of v over its siblings and itself; and siblings vary beside by v - v^2/S, with covariances -v v'/S. So
    where g_c is what an answer takes of each child, it takes g = (sum g_c v_c)/S of the parent, and varies
    beside by sum g_c^2 v_c - (sum g_c v_c)^2/S. That is none where all g_c are alike: what counts are, at
    each level, the node that a range begins in and the one that it ends in.
    """
    low, high, taken_low = first, last, np.ones(first.shape)
    taken_high, found = np.where(first < last, 1.0, 0.0), np.zeros(first.shape)  # 0 where both are one node
    spreads = _spreads(tree)
    for level in spreads:
        apart = low < high
        squares_low, sums_low = taken_low**2 * level.own[low], taken_low * level.own[low]
        squares_high, sums_high = taken_high**2 * level.own[high], taken_high * level.own[high]
        if level is spreads[-1]:
            return found + squares_low + squares_high + level.between(low + 1, high)
        above_low, above_high = level.parents[low], level.parents[high]
        together = above_low == above_high
        # Nodes between the two that belong to the lower one's parent, and those of the higher one's.
        ends = np.where(together, high, level.starts[above_low + 1])
        begins = np.where(together, high, level.starts[above_high])
        beside_low = np.where(apart, level.between(low + 1, ends), 0.0)
        beside_high = np.where(apart, level.between(begins, high), 0.0)
        squares_low, sums_low = squares_low + beside_low, sums_low + beside_low
        squares_high, sums_high = squares_high + beside_high, sums_high + beside_high
        squares_low = np.where(together, squares_low + squares_high, squares_low)
        sums_low = np.where(together, sums_low + sums_high, sums_low)
        whole_low = level.between(level.starts[above_low], level.starts[above_low + 1])
        whole_high = level.between(level.starts[above_high], level.starts[above_high + 1])
        found += squares_low - sums_low**2 / whole_low
        found += np.where(together, 0.0, squares_high - sums_high**2 / whole_high)
        low, high = above_low, above_high
        taken_low, taken_high = sums_low / whole_low, np.where(together, 0.0, sums_high / whole_high)
    raise AssertionError  # the widest level ends it


@lru_cache(maxsize=1024)
def mean_range_variance(tree: HierarchicalHistogram) -> float:
    """Return the variance of a range, per variance of a node and per cell of the range.

    Averaged over the ranges between evenly spaced cells; 1 where the tree is a marginal.
    """
    ends = np.unique(np.linspace(0, tree.cells, _CUTS + 1).astype(np.int64))
    variance, cells = 0.0, 0
    for place, low in enumerate(ends):
        for high in ends[place + 1 :]:
            weights = np.zeros(tree.size)
            weights[low:high] = 1.0
            variance += query_variance(tree, weights)
            cells += int(high - low)
    return variance / cells


def non_negative_least_squares(
    tree: HierarchicalHistogram, nodes: NDArray[np.float64], total: float | None = None
) -> NDArray[np.float64]:
    """Return the least squares cells among those of at least 0: float64, shape (size,).

    Exact, by block principal pivoting: guess which cells are zero, solve for the others by the two passes,
    then exchange the cells whose sign or whose gradient is wrong, until there are none. Where the number of
    wrong cells does not fall, only the last one is exchanged, which ends after finitely many steps.

    Args:
        total: what the cells must sum to, positive; None where they need not.

    Source: Portugal, Judice and Vicente (1994), Section 3 (block principal pivoting with Murty's rule).
    """
    zero = np.zeros(tree.size, dtype=bool)
    fewest, patience = tree.size + 1, 3
    tolerance = _SMALLEST_DUAL * max(1.0, float(np.abs(nodes).max(initial=0.0)))
    values = least_squares(tree, nodes, zero, total)
    for _ in range(_MOST_PIVOTS):
        gradient = _gradient(tree, nodes, values)
        if total is not None:  # the multiplier of the sum: the free cells have one gradient
            gradient = gradient - gradient[~zero].mean()
        wrong = np.where(zero, gradient < -tolerance, values < -tolerance)
        count = int(wrong.sum())
        if not count:
            break
        if count < fewest:
            fewest, patience = count, 3
        elif patience:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        zero ^= wrong
        if zero.all():
            zero[int(np.argmax(values))] = False
        values = least_squares(tree, nodes, zero, total)
    return np.maximum(values, 0.0)


def _gradient(
    tree: HierarchicalHistogram, nodes: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return half the gradient of the squared residual in each cell: float64, shape (size,)."""
    ordered, special = values[: tree.cells], values[tree.cells :]
    gradient = np.zeros(tree.size)
    for level, own in enumerate(tree.levels(nodes)):
        count, owners = len(own) - tree.special, tree.owners(level)
        sums = np.bincount(as_index(owners), weights=ordered, minlength=count)
        residual = np.concatenate([sums, special]) - own
        gradient[: tree.cells] += residual[owners]
        gradient[tree.cells :] += residual[count:]
    return gradient
