"""Sums of values: what is measured of where in its cell, or between its ends, the values of records lie.

A value lies t whole steps above the least declared one. Measured is the sum of 2t - (l + h) over the records
of each cell of a scope, where l and h are the least and the greatest place that a value may have there: of
the record's own cell, or of all values. So each record adds a number between -w and w, w = h - l. The sum is
taken in parts of w, in units of 2^-20 of it, rounded down, so that a record adds one record's units at most.

With sums by other attributes than their own, two more numbers of each cell can be measured under the same
noise: how many records have a value, and the sum of the squares of what they add, in parts of w^2. In place
of the cells of a scope, each of a list of questions can have these numbers: those of the records it counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.numbers import NumberCells, ValueGrid, places_of

if TYPE_CHECKING:
    from queries.linear import LinearQuery

# Units that a record may add to the number of values beside a sum, the most first: 2^20 / sqrt(2)^k.
COUNT_UNITS = tuple(math.isqrt(UNITS**2 >> power) for power in range(13))


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the values of an attribute's cells lie on its grid.

    Args:
        least, greatest: int64, shape (cells,): the places that a value of each cell may have; 0 where a cell
            holds none.
        present: bool, shape (cells,): the cell holds values.
    """

    grid: ValueGrid
    least: NDArray[np.int64]
    greatest: NDArray[np.int64]
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, domain: Domain, name: str) -> Places:
        """Return the places of a declared attribute."""
        attribute = domain[name]
        grid = next((one for one in domain.grids if one.attribute == name), None)
        if grid is None or not isinstance(attribute, NumberCells):
            raise ScopeError(f"the values of {name!r} are not summed: the schema gives them no resolution")
        low, high = places_of(attribute, grid)
        least, greatest = np.zeros((2, attribute.size), dtype=np.int64)
        least[: len(low)], greatest[: len(high)] = low, high
        return cls(grid, least, greatest, np.arange(attribute.size) < len(low))


@dataclass(frozen=True, slots=True)
class SummedValues:
    """Which sums are measured.

    Args:
        scope: attribute names in declared order, one number for each cell; none for one number of everybody.
        by_cells: a value is measured from the middle of its own cell; else from that of the declared ends.
        clipped: values are measured from 0, and those of one person come to no more than is declared.
        count_units: how much a record with a value adds to the number of values of its cell, which is then
            measured beside the sum: one of ``COUNT_UNITS``; 0 where it is not measured.
    """

    attribute: str
    scope: tuple[str, ...]
    by_cells: bool = False
    clipped: bool = False
    count_units: int = 0
    squared: bool = False

    def __post_init__(self) -> None:
        if self.count_units and (self.by_cells or self.count_units not in COUNT_UNITS):
            raise ScopeError(f"no number of values is measured at {self.count_units} units beside such a sum")
        if self.squared and (self.clipped or not self.count_units):
            raise ScopeError("squares are measured beside a number of values, where no values are clipped")

    @property
    def parts(self) -> int:
        """How many numbers of each cell are measured: the sum, the number of values, the squares."""
        return 1 + bool(self.count_units) + self.squared

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of what is measured: the parts, and one axis per attribute of the scope."""
        return (self.parts, *domain.scope_shape(self.scope))

    @property
    def axes(self) -> int:
        """How many axes that shape has."""
        return 2 if self.rows else 1 + len(self.scope)

    @property
    def rows(self) -> tuple[LinearQuery, ...]:
        """The questions whose records have a sum each; none where the cells of the scope have."""
        return ()

    @property
    def counted(self) -> tuple[str, ...]:
        """The attributes that records are counted over, in any order: those of the scope and its own."""
        return tuple(dict.fromkeys((*self.scope, self.attribute)))

    def ends(self, domain: Domain) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return l + h and w of each cell of the attribute: int64, shape (cells,) each."""
        places = Places.of(domain, self.attribute)
        if self.clipped:  # measured from 0, in parts of twice the most: a value adds twice its steps
            ends = 2 * places.grid.zero, 2 * places.grid.most
            return np.where(places.present, ends[0], 0), np.where(places.present, ends[1], 0)
        if self.by_cells:
            return places.least + places.greatest, places.greatest - places.least
        most = int(places.greatest.max())
        return np.where(places.present, most, 0), np.where(places.present, most, 0)

    def widths(self, domain: Domain) -> NDArray[np.int64]:
        """Return w of each cell of the scope, or question, the largest of any value there: int64."""
        _, own = self.ends(domain)
        shape = self.shape(domain)[1:]
        if self.attribute in self.scope and not self.rows:
            return np.broadcast_to(_along(domain, self.attribute, own, self.scope), shape)
        return np.full(shape, own.max(), dtype=np.int64)

    def factor(self, domain: Domain) -> int:
        """Return the units of one step, where values are clipped: as many as the most of them leave room."""
        return UNITS // Places.of(domain, self.attribute).grid.most

    def tables(self, domain: Domain) -> Sequence[tuple[str, ...]]:
        """Return over which scopes records are counted, and the places of values summed."""
        return (domain.scope(self.counted),)

    def units(
        self, domain: Domain, tables: Mapping[tuple[str, ...], Sequence[NDArray[np.int64]]]
    ) -> NDArray[np.int64]:
        """Return what is measured: int64, of ``shape``, in units.

        Args:
            tables: over each of the scopes of ``tables``, in declared order, int64: the records, the sums of
                the places of values, and those of the squares, where they are measured.

        Privacy: a function of true sums (secret). A record adds between -2^20 and 2^20 to one number: the
            quotient of a whole number of at most w by w, times 2^20, is a whole number at its ends, and
            rounding down keeps differences within whole numbers. Where values are clipped, a person's steps
            over all cells come to at most ``ValueGrid.most``, each counts for ``factor`` units, and nothing
            is rounded. To the number of values beside it a record adds ``count_units``, and to the squares
            between 0 and 2^20.
        """
        summed, *beside = self._added(
            domain, {over: self._of_cells(domain, over, *tables[over]) for over in tables}
        )
        if self.clipped:
            sums = summed // 2 * self.factor(domain)
        else:
            widths = np.maximum(self.widths(domain), 1)
            whole, rest = np.divmod(summed, widths)  # so that no product is larger than 2^62
            sums = whole * UNITS + rest * UNITS // widths
        counts = [self.count_units * beside[0]] if self.count_units else []
        return np.stack([sums, *counts, *beside[1 : 1 + self.squared]]).astype(np.int64)

    def _of_cells(
        self,
        domain: Domain,
        over: tuple[str, ...],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        *squares: NDArray[np.int64],
    ) -> Sequence[NDArray[np.int64]]:
        """Return of each cell the sum in steps, the number of values, and the squares: int64."""
        middle, _ = self.ends(domain)
        present = Places.of(domain, self.attribute).present.astype(np.int64)
        held = _along(domain, self.attribute, present, over)
        summed = 2 * places - counts * _along(domain, self.attribute, middle, over)
        return (summed, counts * held, *(one * held for one in squares))

    def _added(
        self, domain: Domain, tables: Mapping[tuple[str, ...], Sequence[NDArray[np.int64]]]
    ) -> Sequence[NDArray[np.int64]]:
        """Return these numbers, added up to those of what is measured."""
        ((over, numbers),) = tables.items()
        axes = () if self.attribute in self.scope else (over.index(self.attribute),)
        return [np.asarray(one.sum(axis=axes), dtype=np.int64) for one in numbers]


def _along(domain: Domain, name: str, array: NDArray[np.int64], scope: tuple[str, ...]) -> NDArray[np.int64]:
    """Return numbers of an attribute's cells, shaped to broadcast over a scope."""
    return array.reshape([domain[one].size if one == name else 1 for one in scope])


def sums_of(domain: Domain, name: str, scope: tuple[str, ...]) -> SummedValues:
    """Return the sums of an attribute's values by the cells of a scope, as they are measured.

    Args:
        name: the attribute; where the scope names it, values are measured from the middles of their cells.
        scope: attribute names in declared order.
    """
    clipped = Places.of(domain, name).grid.clip is not None
    return SummedValues(name, scope, by_cells=name in scope and not clipped, clipped=clipped)


def opening_sums(domain: Domain) -> Sequence[SummedValues]:
    """Return the sums that opening measures: of an attribute those of its cells, or one if it is clipped.

    Left out is an attribute whose cells tell its values.
    """
    names = [grid.attribute for grid in domain.grids]
    found = [sums_of(domain, name, (name,)) for name in names]
    found = [replace(one, scope=()) if one.clipped else one for one in found]
    return [one for one in found if one.widths(domain).any()]
