"""Sensitivity of a list of linear questions (rows): how much one person changes all of their answers.

Row i counts a record of cell x as w_i(x), in units of 2^-20 records: integers from 0 to 2^20.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.public.options import Options
from queries.factors import UNITS, told_apart

if TYPE_CHECKING:
    from queries.factors import Factor
    from queries.linear import LinearQuery

_CELLS = 2**22  # the most cells of an array; also the most rows of one sum, which so stays below 2^62
_COLUMNS = 4096  # the most columns that are compared in pairs
_SUMMED = 2**28  # the most numbers that are added up for one part
_WORK = 2**26  # the most numbers that are sorted to find columns, and that are subtracted in pairs

_Numbers: TypeAlias = NDArray[np.int64]
_Axes: TypeAlias = Mapping[
    str, NDArray[np.intp]
]  # of each attribute, the first cell of every run, in declared order


class Moved(NamedTuple):
    """How much one person changes the answers to a list of rows.

    Args:
        l1: in L1, in units of 2^-20 records.
        l2_squared: the square of the same in L2, in squared units.
    """

    l1: int
    l2_squared: int


class _Row(NamedTuple):
    factors: tuple[Factor, ...]  # those that not all rows have
    peak: int  # the largest weight of all the rest


def rows_sensitivity(queries: Sequence[LinearQuery], options: Options, *, persons: bool) -> Moved:
    """Return how much one person changes the answers to a list of rows, all of them together.

    A record adds the column w(x) of its cell to the answers. K records that are added or removed change them
    by K max_x |w(x)| at most, in L1 and in L2, and do so where all are in one cell. K records that are
    replaced by K others change them by K max_{x, y} |w(x) - w(y)| at most: the difference is the sum of K
    such differences, and a norm is convex. It is attained where all K leave x and all K enter y. Where there
    is a column of ids, a person may have fewer records than another. Then "no record", whose column is 0, is
    one more cell of either.

    Factors that all rows share multiply every column by f, between 0 and its maximum. The norm of
    f w(x) - g w(y) is convex in f and g, so both are at their ends: 0 for one of them is the column 0. Rows
    that share no attribute are parts whose cells are independent, so the maxima of the parts add up.

    The result is exact where every such part has at most 2^22 cells, after cells in a row that no question
    tells apart are taken together. Else it is an upper bound: maxima of smaller parts are added, and
    attributes that a part leaves out are replaced by the largest weight over their cells. Weights are not
    negative, so a pair of columns differs by their two norms at most, in L1 and squared in L2. That stands
    where pairs are too many to compare.

    Args:
        persons: the table has a column of ids, by which at most K records of a person are kept.

    Returns:
        In L1, and squared in L2; 0 and 0 where no record changes any answer, so that nothing is to be drawn.
    """
    counted = [query for query in queries if query.constant]
    if not counted:
        return Moved(0, 0)
    shared = _shared(counted)
    peak = min([int(one.weights.max()) for one in shared], default=UNITS)  # one has fractions at most
    rows = []
    for query in counted:
        own = tuple([factor for factor in query.factors if not any(_equal(factor, one) for one in shared)])
        rows.append(_Row(own, query.constant * peak // UNITS))
    runs = told_apart(factor for row in rows for factor in row.factors)
    axes = {name: runs[name] for name in counted[0].domain.scope(list(runs))}
    parts = _parts(rows, {name: cells.size for name, cells in axes.items()})
    reaches = [_reach(part, axes, pairs=options.replaces) for part in parts]
    column, column_squared, pair, pair_squared = (sum(one) for one in zip(*reaches, strict=True))
    records = options.records_per_person
    if not options.replaces:
        return Moved(records * column, records**2 * column_squared)
    if persons or shared:
        pair, pair_squared = max(pair, column), max(pair_squared, column_squared)
    return Moved(records * pair, records**2 * pair_squared)


def _equal(one: Factor, other: Factor) -> bool:
    if one is other:
        return True
    alike = (one.scope, one.box, one.is_box) == (other.scope, other.box, other.is_box)
    return alike and (one.is_box or np.array_equal(one.weights, other.weights))


@functools.lru_cache(maxsize=64)
def most_together(queries: tuple[LinearQuery, ...]) -> int:
    """Return how many questions of whole cells one record may count in, at most; see ``rows_sensitivity``."""
    return rows_sensitivity(queries, Options(), persons=False).l1 // UNITS


def _shared(queries: Sequence[LinearQuery]) -> list[Factor]:
    """Return the factors that all questions have, and that are 0 somewhere."""
    shared = [one for one in queries[0].factors if not one.weights.all()]
    for query in queries:
        shared = [one for one in shared if any(_equal(one, other) for other in query.factors)]
        if not shared:
            break
    return shared


def _parts(rows: Sequence[_Row], sizes: Mapping[str, int]) -> Iterator[list[_Row]]:
    """Yield rows that share attributes, together; where their cells are too many, in smaller parts."""
    groups: dict[frozenset[str], list[_Row]] = {}
    for row in rows:
        groups.setdefault(frozenset(name for one in row.factors for name in one.scope), []).append(row)
    linked: dict[frozenset[str], list[frozenset[str]]] = {}
    for names in groups:
        met = [one for one in linked if one & names]
        linked[names.union(*met)] = [names, *itertools.chain.from_iterable(map(linked.pop, met))]
    for scopes in linked.values():
        bins: list[list[frozenset[str]]] = []
        for names in sorted(scopes, key=len, reverse=True):
            fit = (one for one in bins if math.prod(sizes[name] for name in names.union(*one)) <= _CELLS)
            found = next(fit, [])
            if not found:
                bins.append(found)
            found.append(names)
        for one in bins:
            part = [row for names in one for row in groups[names]]
            yield from (part[start : start + _CELLS] for start in range(0, len(part), _CELLS))


def _reach(part: Sequence[_Row], axes: _Axes, *, pairs: bool) -> tuple[int, int, int, int]:
    """Return bounds of the columns of a part, in L1 and squared in L2, and of their differences."""
    names = {name for row in part for factor in row.factors for name in factor.scope}
    kept = sorted(names, key=lambda name: axes[name].size)
    while math.prod(axes[name].size for name in kept) > _CELLS:
        kept.pop()
    within = {name: cells for name, cells in axes.items() if name in kept}
    shape = (1, *[cells.size for cells in within.values()])
    sums, squares = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    work = 0
    for done, row in enumerate(part, 1):
        box, weights = _placed(row, within)
        sums[box] += weights
        squares[box] += weights * weights
        work += sums[box].size
        if work > _SUMMED:  # the others are bounded one by one
            left = [_peak(one) for one in part[done:]]
            column = int(sums.max()) + sum(left)
            squared = int(squares.max()) + sum(one**2 for one in left)
            return column, squared, 2 * column, 2 * squared
    column, squared = int(sums.max()), int(squares.max())
    columns = _columns(part, within, shape) if pairs and len(kept) == len(names) else None
    if columns is None:
        return column, squared, 2 * column, 2 * squared
    return column, squared, _farthest(columns), _farthest(columns, squared=True)


def _peak(row: _Row) -> int:
    """Return a bound of the largest weight of a row: at most one of its factors has fractions."""
    peaks = (int(one.weights.max()) for one in row.factors if not one.is_box)
    return row.peak * min(peaks, default=UNITS) // UNITS


def _placed(row: _Row, axes: _Axes) -> tuple[tuple[slice, ...], _Numbers]:
    """Return a box of runs outside which a row is 0, and its largest weights in them.

    Args:
        axes: the attributes whose cells are told apart; the largest weight over the others is taken.

    Returns:
        A box, with an axis of 1 before all others, and weights that broadcast to it.
    """
    sides = {name: slice(0, cells.size) for name, cells in axes.items()}
    weights = np.full((1,) * (len(axes) + 1), row.peak, dtype=np.int64)
    for factor in row.factors:
        for name, side in zip(factor.scope, factor.box, strict=True):
            if name in axes:
                low, high = np.searchsorted(axes[name], (side.start, side.stop))
                sides[name] = slice(int(low), int(high))
        if not factor.is_box:
            table = factor.weights[factor.box]
            for axis, (name, side) in enumerate(zip(factor.scope, factor.box, strict=True)):
                if name in axes:
                    table = table.take(axes[name][sides[name]] - side.start, axis=axis)
                else:
                    table = table.max(axis=axis, keepdims=True)
            lengths = [side.stop - side.start if name in factor.scope else 1 for name, side in sides.items()]
            weights = weights * table.reshape(1, *lengths) // UNITS
    return (slice(0, 1), *sides.values()), weights


def _columns(part: Sequence[_Row], axes: _Axes, shape: tuple[int, ...]) -> _Numbers | None:
    """Return the different columns of a part: int64, shape (rows, columns); None where they are too many.

    Cells have one label where their columns are equal. Each row splits labels where it is not 0.
    """
    labels = np.zeros(shape, dtype=np.int64)
    cells, last, work = {0: labels.size}, 0, 0  # of each label that is left, how many cells have it
    for row in part:
        box, weights = _placed(row, axes)
        block = labels[box]
        work += block.size
        if work > _WORK:
            return None
        positive = np.broadcast_to(weights > 0, block.shape)
        keys = (block * (2 * UNITS) + weights)[positive]  # labels are below 2^27, weights up to 2^20
        found, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
        block[positive] = last + 1 + places.reshape(-1)
        for label, count in zip((found // (2 * UNITS)).tolist(), counts.tolist(), strict=True):
            last += 1
            cells[last] = count
            cells[label] -= count
            if not cells[label]:
                del cells[label]
        if len(cells) > _COLUMNS or len(cells) * len(part) > _CELLS:
            return None
    firsts = np.unique(labels, return_index=True)[1]
    columns = np.zeros((len(part), firsts.size), dtype=np.int64)
    for row, line in zip(part, columns, strict=True):
        box, weights = _placed(row, axes)
        labels[:] = 0
        labels[box] = weights
        line[:] = labels.reshape(-1)[firsts]
    return columns


def _farthest(columns: _Numbers, *, squared: bool = False) -> int:
    """Return the largest distance of two columns in L1, or squared in L2; a bound where pairs are too many.

    Two columns differ by their norms' sum at most. So pairs are left out once the largest norms that are left
    are no more together than the largest distance so far.
    """
    power = 2 if squared else 1
    norms = (columns**power).sum(axis=0)
    order = np.argsort(-norms, kind="stable")
    columns, norms, farthest, work = columns[:, order], norms[order].tolist(), 0, 0
    for first, second in itertools.pairwise(range(len(norms))):
        most = norms[first] + norms[second]
        if most <= farthest:
            break
        work += columns[:, second:].size
        if work > _WORK:
            return int(most)
        apart = np.abs(columns[:, second:] - columns[:, first:second])
        farthest = max(farthest, int((apart**power).sum(axis=0).max()))
    return farthest
