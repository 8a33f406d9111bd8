"""Segments: the pieces into which comparisons cut cells, and the linear query of a predicate.

A predicate is constant on a segment, so a cell's weight is the share of the cell where it holds, with
values taken as evenly spread inside a cell and, across attributes, independently. A cell where it holds for
every value, or for none, gets a weight of exactly 1 or 0. Any other cell is not decided, be its share as
small as that of a single number: the query then lies between two readings, without such cells and with them.

Empty values follow SQL: a comparison with one is neither true nor false, and only what is true is counted.
"""

from __future__ import annotations

import functools
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellRange, counted_where
from queries.comparisons import (
    Comparison,
    Intervals,
    Junction,
    Meaning,
    Predicate,
    comparisons_of,
    connected_terms,
    joined_by,
    meaning_of,
    resolve_attribute,
    where_true,
)
from queries.domain import Attribute, Domain
from queries.frozen import dataclass
from queries.linear import LinearQuery, range_factor
from queries.places import as_index
from queries.work import count_cells, require_fit

_ROUNDING = 1e-12  # of a sum of shares


def count_where(predicate: Predicate, domain: Domain) -> LinearQuery:
    """Return the query that counts the records where the predicate holds."""
    return counted_where(conditions_where(predicate, domain), domain)


def conditions_where(predicate: Predicate, domain: Domain) -> list[CellCondition | CellRange]:
    """Return where a predicate holds: conditions on different attributes, which all hold."""
    groups = connected_terms(joined_by("and", predicate))
    return [_range_where(members, domain) or _evaluate(members, domain) for members in groups]


def _range_where(terms: Sequence[Predicate], domain: Domain) -> CellRange | None:
    """Return where comparisons of one attribute all hold, if they leave one range of it; else None.

    Of comparisons that only ``_evaluate`` reads, and of those that it refuses as a whole, there is none.
    """
    first, found = terms[0], list[tuple[float, float]]()
    if not isinstance(first, Comparison) or first.operator == "ne" or len(first.listed) > 1:
        return None
    if first.attribute not in domain:
        return None
    attribute = domain[first.attribute]
    meaning = meaning_of(attribute)
    if len(terms) == 1:
        cells = meaning.named_cells(first)
        if cells is not None:
            return _held_range(attribute, cells[0], cells[0] + 1) if len(cells) == 1 else None
        found += meaning.intervals(first)
    else:
        bounds = [one for one in terms if isinstance(one, Comparison) and one.bounds]
        if len(bounds) == len(terms):
            found += [interval for one in bounds for interval in meaning.intervals(one)]
    return _between(attribute, meaning, found) if len(found) == len(terms) and not attribute.atoms else None


def _held_range(attribute: Attribute, start: int, stop: int, pieces: int = 0) -> CellRange:
    name, size = attribute.name, attribute.size
    count_cells(size + pieces, (name,))
    held = range_factor(name, size, start, stop)
    return CellRange(held, held)


def _between(
    attribute: Attribute, meaning: Meaning[Any], intervals: Sequence[tuple[float, float]]
) -> CellRange | None:
    """Return where intervals of an attribute without atoms meet; None where they cut more than its ends."""
    low, high = intervals[0]
    for start, end in intervals[1:]:
        low, high = max(low, start), min(high, end)
    cuts = {end for interval in intervals for end in interval} - meaning.boundaries
    if low >= high or (cuts and not cuts <= {low, high}):
        return None
    start, stop = bisect_right(meaning.points, low) - 1, bisect_left(meaning.points, high)
    most = _held_range(attribute, start, stop, len(cuts))
    if not cuts:
        return most
    first, last = [_share(attribute, cell, low, high) for cell in (start, stop - 1)]
    least = range_factor(attribute.name, attribute.size, start + (low in cuts), stop - (high in cuts))
    return CellRange(least, most.most, (first, last))


def _share(attribute: Attribute, cell: int, low: float, high: float) -> float:
    """Return the part of a cell between two ends, by the sums that ``_cut`` takes."""
    start, stop = meaning_of(attribute).points[cell : cell + 2]
    end = float(attribute.boundaries[-1])  # the closing number of the last cell has no length
    pieces = sorted({start, *[one for one in (low, high) if start < one < stop], stop})
    lengths = [min(two, end) - min(one, end) for one, two in pairwise(pieces)]
    share = lengths[pieces.index(max(start, low))] / functools.reduce(operator.add, lengths)
    return 1.0 if share > 1 - _ROUNDING else 0.0 if share < _ROUNDING else share


@dataclass(frozen=True, slots=True)
class _Segments:
    """The pieces of one attribute's cells; the ``missing`` and ``other`` cells come last."""

    attribute: Attribute
    starts: NDArray[np.float64]  # of the pieces of ordered cells; empty for categorical attributes
    cells: NDArray[np.int64]  # first piece of each cell
    shares: NDArray[np.float64]  # the piece's share of its cell

    @property
    def count(self) -> int:
        return len(self.shares)

    @property
    def is_whole(self) -> bool:
        return len(self.shares) == len(self.cells)

    def holds(self, comparison: Comparison, intervals: Intervals, negated: bool) -> NDArray[np.bool_]:
        """Return on which pieces a comparison is true, or on which it is false."""
        attribute, meaning = self.attribute, meaning_of(self.attribute)
        true, known = np.zeros(self.count, dtype=bool), np.ones(self.count, dtype=bool)
        if attribute.missing and comparison.operator not in ("missing", "other"):
            known[(attribute.missing_code or 0) - attribute.size] = False
        cells = meaning.named_cells(comparison)
        if cells is not None:
            true[np.array(cells) - attribute.size] = True  # named cells of a scale come last, cut or not
            return known & ~true if (comparison.operator == "ne") != negated else true
        if attribute.other:
            known[-1] = False
        base = self.count - (attribute.size - attribute.base_size)
        for low, high in intervals:
            ends = [_without_atoms(attribute, end, meaning.boundaries) for end in (low, high)]
            first, last = self.starts.searchsorted(ends)
            true[first:last] = True
            for place, number in enumerate(attribute.atoms, base):
                true[place] |= low <= number < high
        return known & ~true if negated else true


def _evaluate(terms: Sequence[Predicate], domain: Domain) -> CellCondition:
    """Return the share of each cell where terms hold that are not about different attributes."""
    comparisons = [comparison for term in terms for comparison in comparisons_of(term)]
    for one in comparisons:
        resolve_attribute(one.attribute, domain, one.position)
    scope = domain.scope(list({one.attribute for one in comparisons}))
    require_fit(domain.scope_size(scope), scope)
    # By identity, for comparisons with 1 and with True are equal.
    asked = [
        {id(one): meaning_of(domain[name]).intervals(one) for one in comparisons if one.attribute == name}
        for name in scope
    ]
    segments = [_cut(domain[name], own.values()) for name, own in zip(scope, asked, strict=True)]
    shape = tuple(piece.count for piece in segments)
    count_cells(math.prod(shape), scope)

    def where(comparison: Comparison, negated: bool) -> NDArray[np.bool_]:
        axis = scope.index(comparison.attribute)
        found = segments[axis].holds(comparison, asked[axis][id(comparison)], negated)
        return found.reshape([-1 if other == axis else 1 for other in range(len(scope))])

    whole = terms[0] if len(terms) == 1 else Junction("and", tuple(terms))
    return _weighted(scope, segments, np.broadcast_to(where_true(whole, where), shape))


def _weighted(
    scope: tuple[str, ...], segments: Sequence[_Segments], holds: NDArray[np.bool_]
) -> CellCondition:
    """Return where a condition holds that holds on some segments: a cell's share is that of those in it."""
    share, least, most = holds.astype(np.float64), holds, holds
    for axis, piece in enumerate(segments):
        if not piece.is_whole:
            shape = [-1 if other == axis else 1 for other in range(len(segments))]
            share = np.add.reduceat(share * piece.shares.reshape(shape), as_index(piece.cells), axis=axis)
            least = np.logical_and.reduceat(least, as_index(piece.cells), axis=axis)
            most = np.logical_or.reduceat(most, as_index(piece.cells), axis=axis)
    if least is not most:
        # Shares of one cell sum to 1 but for rounding; those of single numbers are nothing.
        share[share > 1 - _ROUNDING] = 1.0
        share[share < _ROUNDING] = 0.0
    return CellCondition(scope, least, share, most)


def _cut(attribute: Attribute, asked: Iterable[Intervals]) -> _Segments:
    known = meaning_of(attribute).boundaries
    ends = {
        _without_atoms(attribute, end, known)
        for intervals in asked
        for interval in intervals
        for end in interval
    }
    if ends <= known:
        return _whole_cells(attribute)
    boundaries = np.array(attribute.boundaries, dtype=np.float64)
    points = np.array(sorted(known | ends), dtype=np.float64)
    starts = points[:-1]
    owner = np.searchsorted(boundaries[:-1], starts, side="right") - 1
    lengths = np.diff(np.minimum(points, boundaries[-1]))  # the closing number of the last cell has none
    if attribute.is_whole:
        pieces = points.searchsorted(np.array(attribute.atoms), side="right") - 1
        lengths -= np.bincount(as_index(pieces), minlength=len(starts))  # they are no values of the cells
    sums = np.bincount(as_index(owner), weights=lengths)
    special = attribute.size - attribute.base_size
    return _Segments(
        attribute,
        starts,
        np.concatenate([np.searchsorted(points, boundaries[:-1]), len(starts) + np.arange(special)]),
        np.concatenate([lengths / sums[owner], np.ones(special)]),
    )


@functools.lru_cache(maxsize=1024)
def _whole_cells(attribute: Attribute) -> _Segments:
    starts = np.array(meaning_of(attribute).points[:-1], dtype=np.float64)
    return _Segments(attribute, starts, np.arange(attribute.size), np.ones(attribute.size))


def _without_atoms(attribute: Attribute, end: float, boundaries: Container[float]) -> float:
    """Return where an interval that ends somewhere ends among the values without a cell of their own.

    Ends between which there are atoms alone cut the other values alike. Of these the boundary of a cell is
    returned where one is among them, else the lowest.
    """
    atoms = attribute.atoms
    if not atoms:
        return end

    def moved(value: float, step: int) -> float:
        return value + step if attribute.is_whole else math.nextafter(value, step * math.inf)

    while moved(end, -1) in atoms:
        end = moved(end, -1)
    lowest = end
    while end not in boundaries and end in atoms:
        end = moved(end, 1)
    return end if end in boundaries else lowest
