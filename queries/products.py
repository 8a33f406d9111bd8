"""Products: many counting questions about sets of cells of the same attributes, as arrays.

A product counts the records whose cells lie in a set of cells of each attribute of a scope. A set is a few
runs of cells, so a product is a few boxes that lie apart, and a sum over it is that of its boxes in one fixed
order: it is the same to the last bit whether a product is asked alone or among many. A box is a product of
one run each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.factors import UNITS, Factor, weight_runs
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index

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

    def masks(self, size: int) -> NDArray[np.bool_]:
        """Return which cells each set has: bool, shape (n, size)."""
        steps = np.zeros((len(self), size + 1), dtype=np.int64)
        np.add.at(steps, (self.owners, self.first), 1)
        np.add.at(steps, (self.owners, self.last + 1), -1)
        return np.cumsum(steps, axis=1)[:, :-1] > 0


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Questions about sets of cells of the same attributes, in declared order, on which each depends."""

    domain: Domain
    scope: tuple[str, ...]
    sides: tuple[CellSets, ...]

    @staticmethod
    def is_one(query: LinearQuery) -> bool:
        """Tell whether a question counts the cells of a product."""
        alone = all(len(factor.scope) == 1 and factor.is_indicator for factor in query.factors)
        return alone and bool(query.factors) and query.constant == UNITS and query.aligned

    @classmethod
    def of_queries(cls, queries: Sequence[LinearQuery]) -> Products:
        """Return questions that are products over the same scope."""
        factors = zip(*(query.factors for query in queries), strict=True)
        return cls(queries[0].domain, queries[0].scope, tuple(map(CellSets.of_factors, factors)))

    def __len__(self) -> int:
        return len(self.sides[0])

    def ranges(self) -> None:
        """Return the questions as boxes: None, for they need not be any."""

    def on(self, domain: Domain) -> Products:
        """Return the same cells of another domain, whose attributes have the same ones."""
        return replace(self, domain=domain)

    def take(self, places: _Numbers) -> Products:
        """Return some of the questions."""
        return replace(self, sides=tuple(side.take(places) for side in self.sides))

    def over(self, scope: tuple[str, ...]) -> Products:
        """Return the sets of some of the attributes, which are in declared order."""
        return replace(self, scope=scope, sides=tuple(self.sides[self.scope.index(name)] for name in scope))

    def cells(self) -> _Numbers:
        """Return how many cells each product has: int64, shape (n,)."""
        found = np.ones(len(self), dtype=np.int64)
        for side in self.sides:
            found = found * side.cells()
        return found

    def pieces(self) -> tuple[_Numbers, _Numbers, _Numbers | None]:
        """Return the first and the last cells of the boxes that make the products, and whose each is.

        Int64, shape (m, attributes) and (m,); no owners where each product is one box.
        """
        owners = np.arange(len(self), dtype=np.int64)
        ends = list[tuple[_Numbers, _Numbers]]()
        for side in self.sides:
            rows, runs = side.spread(owners)
            ends = [(first[rows], last[rows]) for first, last in ends]
            ends.append((side.first[runs], side.last[runs]))
            owners = owners[rows]
        first, last = (np.stack(own, axis=1) for own in zip(*ends, strict=True))
        return first, last, None if len(owners) == len(self) else owners
