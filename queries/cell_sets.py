"""Cell sets: sets of cells of one attribute for each of many questions, as arrays, and sums over them.

A set is a few runs of cells, so a product of sets of several attributes is a few boxes that lie apart. A sum
over it is that of its boxes in one fixed order: the same to the last bit alone and among many.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from queries.factors import Factor, weight_runs
from queries.frozen import dataclass
from queries.linear import LinearQuery, range_factor
from queries.places import as_index

MOST_SUMS = 2**14  # cells of a table whose prefix sums are kept
MOST_SIDES = 5  # attributes of it: a box has a corner for each choice of their ends
_SHORT = 256  # cells of an attribute whose sets are kept
_Numbers = NDArray[np.int64]
_Values = NDArray[np.float64]


def _runs(factor: Factor) -> tuple[tuple[int, int], ...]:
    """Return the runs of cells that a factor counts: the first cell, and the one after the last."""
    return _kept_runs(factor) if factor.shape[0] <= _SHORT else _found_runs(factor)


def _found_runs(factor: Factor) -> tuple[tuple[int, int], ...]:
    return tuple([(start, stop) for start, stop, _ in weight_runs(factor)])


_kept_runs = functools.lru_cache(maxsize=1024)(_found_runs)  # questions share factors, block after block


@dataclass(frozen=True, slots=True, eq=False)
class CellSets:
    """Sets of cells of one attribute, one for each of n questions, as runs that do not touch.

    Args:
        first: int64, shape (m,), the first cell of each run.
        last: int64, shape (m,), the last one, inclusive.
        starts: int64, shape (n,), the place of each question's first run; its runs follow one another, at
            least one. None where each question has one run.
    """

    first: _Numbers
    last: _Numbers
    starts: _Numbers | None = None

    @property
    def counts(self) -> _Numbers:
        """How many runs each question has: int64, shape (n,)."""
        if self.starts is None:
            return np.ones(len(self.first), dtype=np.int64)
        return np.diff(self.starts, append=len(self.first))

    @property
    def owners(self) -> _Numbers:
        """Whose each run is, as the place of its question: int64, shape (m,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), as_index(self.counts))

    @classmethod
    def of_factors(cls, factors: Sequence[Factor]) -> CellSets:
        """Return the cells that factors of one attribute count, some but not all; each is looked at once."""
        numbers = dict[int, int]()
        places = [numbers.setdefault(id(factor), len(numbers)) for factor in factors]
        shared = {id(factor): factor for factor in factors}
        return cls._of_distinct(list(shared.values())).take(np.array(places, dtype=np.int64))

    @classmethod
    def _of_distinct(cls, factors: Sequence[Factor]) -> CellSets:
        if all(factor.is_box for factor in factors):
            ends = [(factor.box[0].start, factor.box[0].stop) for factor in factors]
            starts = None
        else:
            listed = [_runs(factor) for factor in factors]
            counts = np.array([len(runs) for runs in listed], dtype=np.int64)
            ends = [ends for runs in listed for ends in runs]
            starts = np.cumsum(counts) - counts
        both = np.array(ends, dtype=np.int64).reshape(-1, 2)
        return cls(both[:, 0], both[:, 1] - 1, starts)

    def __len__(self) -> int:
        return len(self.first) if self.starts is None else len(self.starts)

    def cells(self) -> _Numbers:
        """Return how many cells each set has: int64, shape (n,)."""
        found = self.last - self.first + 1
        return found if self.starts is None else np.add.reduceat(found, as_index(self.starts))

    def take(self, places: _Numbers) -> CellSets:
        """Return the sets of some of the questions."""
        if self.starts is None:
            return CellSets(self.first[places], self.last[places])
        owners, runs = self.spread(places)
        counts = np.bincount(as_index(owners), minlength=len(places))
        return CellSets(self.first[runs], self.last[runs], np.cumsum(counts) - counts)

    def spread(self, places: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Return each run of the sets at some places: whose it is, as a place in ``places``, and its own."""
        if self.starts is None:
            return np.arange(len(places), dtype=np.int64), places
        counts = self.counts[places]
        owners = np.repeat(np.arange(len(places), dtype=np.int64), as_index(counts))
        within = np.arange(len(owners), dtype=np.int64) - np.repeat(
            np.cumsum(counts) - counts, as_index(counts)
        )
        return owners, self.starts[places][owners] + within

    def summed(self, values: _Values) -> _Values:
        """Return the sum of the numbers of each question's runs: float64, shape (n,), in the runs' order."""
        if self.starts is None:
            return values
        return np.asarray(np.bincount(as_index(self.owners), values, minlength=len(self)), dtype=np.float64)

    def sums(self, runs: _Values) -> _Values:
        """Return the sum over each set of what is additive over cells, by that of each run of cells."""
        return self.summed(runs[self.first, self.last])

    def variances(self, runs: _Values) -> _Values:
        """Return the variance of the sum over each set of cells, which may depend on each other.

        With V of runs, what two runs apart and the gap g between them have in common follows from those that
        they make together: 2 cov(a, b) = V(a g b) - V(a g) - V(g b) + V(g).
        """
        found = self.sums(runs)
        if self.starts is None:
            return found
        owners, counts = self.owners, self.counts
        place = np.arange(len(self.first)) - self.starts[owners]  # of each run among those of its set
        for apart in range(1, int(counts.max(initial=1))):
            one = np.flatnonzero(place + apart < counts[owners])
            other = one + apart
            start, stop, gap = self.first[one], self.last[other], (self.last[one] + 1, self.first[other] - 1)
            both = runs[start, stop] - runs[start, gap[1]] - runs[gap[0], stop] + runs[gap]
            found = found + np.bincount(as_index(owners[one]), both, minlength=len(self))
        return np.maximum(found, 0.0)

    def factor(self, name: str, size: int, place: int) -> Factor:
        """Return one record in each cell of the set at a place, of an attribute of so many cells."""
        if self.starts is None:
            return range_factor(name, size, int(self.first[place]), int(self.last[place]) + 1)
        return Factor.where((name,), self.take(np.array([place])).masks(size)[0])

    def masks(self, size: int) -> NDArray[np.bool_]:
        """Return which cells each set has: bool, shape (n, size)."""
        steps = np.zeros((len(self), size + 1), dtype=np.int64)
        np.add.at(steps, (self.owners, self.first), 1)
        np.add.at(steps, (self.owners, self.last + 1), -1)
        return np.cumsum(steps, axis=1)[:, :-1] > 0


def sides_of(products: Sequence[LinearQuery]) -> tuple[CellSets, ...]:
    """Return the cells that products of the same attributes count, by attribute in declared order."""
    return tuple(map(CellSets.of_factors, zip(*(query.factors for query in products), strict=True)))


class BoxSums:
    """Sums inside boxes of real numbers, float64 with one axis per attribute, by prefix sums."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        sums = np.zeros([size + 1 for size in values.shape])
        sums[(slice(1, None),) * values.ndim] = values
        for axis in range(values.ndim):
            np.cumsum(sums, axis=axis, out=sums)
        self._sums = sums
        self._signs = tuple(
            (corner, -1.0 if (values.ndim - sum(corner)) % 2 else 1.0)
            for corner in itertools.product((1, 0), repeat=values.ndim)
        )

    @classmethod
    def of_few(cls, values: NDArray[np.float64]) -> BoxSums | None:
        """Return sums over a table of few cells and attributes; None where it has more."""
        return cls(values) if values.ndim <= MOST_SIDES and values.size <= MOST_SUMS else None

    def one(self, query: LinearQuery) -> float | None:
        """Return the sum inside one product, to the bit that among ``many``; None for other questions."""
        if not query.is_box:
            return float(self.many(sides_of([query]))[0]) if query.is_product else None
        total, ends = 0.0, [(side.start, side.stop) for side in query.box]
        for corner, sign in self._signs:
            place = tuple([end[which] for end, which in zip(ends, corner, strict=True)])
            total += sign * self._sums.item(place)
        return total

    def many(self, sides: Sequence[CellSets]) -> NDArray[np.float64]:
        """Return the sums inside products of sets: float64, shape (n,)."""
        ends, owners = _boxes(sides)
        total = np.zeros(len(ends[0][0]))
        for corner, sign in self._signs:
            total += sign * self._sums[tuple([end[which] for end, which in zip(ends, corner, strict=True)])]
        if owners is None:
            return total
        return np.asarray(np.bincount(as_index(owners), total, minlength=len(sides[0])), dtype=np.float64)


def _boxes(sides: Sequence[CellSets]) -> tuple[list[tuple[_Numbers, _Numbers]], _Numbers | None]:
    """Return the boxes that make products of sets, and whose each is; None where each product is one box.

    Of each axis the first cell of every box, and the one after the last: int64, shape (m,).
    """
    if all(side.starts is None for side in sides):
        return [(side.first, side.last + 1) for side in sides], None
    owners, ends = np.arange(len(sides[0]), dtype=np.int64), list[tuple[_Numbers, _Numbers]]()
    for side in sides:
        rows, runs = side.spread(owners)
        ends = [(first[rows], stop[rows]) for first, stop in ends]
        ends.append((side.first[runs], side.last[runs] + 1))
        owners = owners[rows]
    return ends, owners
