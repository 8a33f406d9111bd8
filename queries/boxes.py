"""Boxes: many counting questions about ranges of the same attributes, as arrays.

A box counts the records whose cells lie between a first and a last cell of each attribute of a scope. Its sum
over real numbers is taken from prefix sums in one fixed order, so that a box has the same sum to the last bit
whether it is asked alone or among many.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from queries.domain import Domain
from queries.errors import ScopeError
from queries.linear import LinearQuery
from queries.questions import Questions
from queries.range_texts import RangeTexts

MOST_SUMS = 2**14  # cells of a table whose prefix sums are kept
_MOST_SIDES = 5  # attributes of it: a box has a corner for each choice of their ends


@dataclass(frozen=True, slots=True, eq=False)
class Boxes(Questions):
    """Questions about ranges of the same attributes.

    Args:
        domain: the table's domain.
        scope: names of attributes, in any order.
        first: int64, shape (n, attributes): the first cell of each range.
        last: int64, the same of the last cells, inclusive.

    Raises:
        ScopeError: an attribute is unknown or named twice, shapes differ, or a range is empty or outside of
            its attribute.
    """

    domain: Domain
    scope: tuple[str, ...]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    most_together: ClassVar[int] = 2**13

    @classmethod
    def of(cls, domain: Domain, scope: Sequence[str], first: ArrayLike, last: ArrayLike) -> Boxes:
        """Return questions with their attributes in declared order; see ``Boxes`` for what is refused."""
        named = tuple(scope)
        ends = [_cells(end, len(named)) for end in (first, last)]
        if ends[0].shape != ends[1].shape:
            raise ScopeError(f"expected as many last cells as first ones, got {len(ends[1])}, {len(ends[0])}")
        ordered = domain.scope(named)
        order = [named.index(name) for name in ordered]
        low, high = (np.ascontiguousarray(end[:, order]) for end in ends)
        for axis, name in enumerate(ordered):
            size = domain[name].size
            start, end = low[:, axis], high[:, axis]
            wrong = np.flatnonzero((start < 0) | (start > end) | (end >= size))
            if wrong.size:
                place = int(wrong[0])
                raise ScopeError(
                    f"attribute {name!r} has cells 0..{size - 1}, got the range "
                    f"{start[place]}..{end[place]} in question {place + 1}"
                )
        return cls(domain, ordered, low, high)

    @classmethod
    def of_queries(cls, queries: Sequence[LinearQuery]) -> Boxes:
        """Return questions whose weights are one record inside their box, and which have the same scope."""
        ends = [[(side.start, side.stop) for side in query.box] for query in queries]
        both = np.array(ends, dtype=np.int64).reshape(len(queries), -1, 2)
        return cls(queries[0].domain, queries[0].scope, both[:, :, 0], both[:, :, 1] - 1)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, places: NDArray[np.int64]) -> Boxes:
        """Return some of the questions."""
        return Boxes(self.domain, self.scope, self.first[places], self.last[places])

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the first of equal questions, in order, and for each question which it is."""
        sizes = [self.domain[name].size for name in self.scope]
        codes = np.zeros(len(self), dtype=np.int64)
        if np.prod([float(size) for size in sizes]) ** 2 < 2.0**62:
            for axis, size in enumerate(sizes):
                codes = (codes * size + self.first[:, axis]) * size + self.last[:, axis]
        else:
            both = np.concatenate([self.first, self.last], axis=1)
            codes = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        _, found, numbers = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(found, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return found[order].astype(np.int64), rank[numbers.reshape(-1)].astype(np.int64)

    def parts(self) -> Iterator[tuple[NDArray[np.int64], Boxes]]:
        """Yield the questions by the attributes that they depend on: their places, and they themselves.

        A range of all cells of an attribute asks nothing of it.
        """
        asked = self._asked()
        kinds = asked @ (1 << np.arange(len(self.scope), dtype=np.int64))
        for kind in np.unique(kinds):
            places = np.flatnonzero(kinds == kind)
            axes = np.flatnonzero(asked[places[0]])
            scope = tuple(self.scope[axis] for axis in axes.tolist())
            yield places, Boxes(self.domain, scope, self.first[places][:, axes], self.last[places][:, axes])

    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        """Return which kind each question is of, and one question of each kind; see ``Questions``."""
        codes = self._asked() @ (1 << np.arange(len(self.scope), dtype=np.int64))
        _, places, numbers = np.unique(codes, return_index=True, return_inverse=True)
        return numbers.reshape(-1), [self.query(place) for place in places.tolist()]

    def aligned(self) -> NDArray[np.bool_]:
        """Tell of which questions the cells decide the condition: all."""
        return np.ones(len(self), dtype=np.bool_)

    def _asked(self) -> NDArray[np.bool_]:
        """Tell which attributes each question depends on: bool, shape (n, attributes)."""
        sizes = np.array([self.domain[name].size for name in self.scope], dtype=np.int64)
        return np.asarray((self.first > 0) | (self.last < sizes - 1))

    def query(self, place: int) -> LinearQuery:
        """Return one question by itself."""
        ranges = zip(self.scope, self.first[place].tolist(), self.last[place].tolist(), strict=True)
        return LinearQuery.cells(self.domain, {name: (low, high) for name, low, high in ranges})

    def describe(self) -> list[str]:
        """Return the questions in words; see ``LinearQuery.describe``."""
        columns = []
        for axis, name in enumerate(self.scope):
            ends = list(zip(self.first[:, axis].tolist(), self.last[:, axis].tolist(), strict=True))
            words = {pair: LinearQuery.cells(self.domain, {name: pair}) for pair in dict.fromkeys(ends)}
            said = {pair: one.describe() if one.scope else "" for pair, one in words.items()}
            columns.append([said[pair] for pair in ends])
        return [" and ".join(filter(None, parts)) or "everybody" for parts in zip(*columns, strict=True)]

    def texts(self) -> RangeTexts:
        """Return the canonical texts of the questions, each of which depends on all attributes."""
        return RangeTexts(self.scope, np.stack([self.first.T, self.last.T + 1], axis=1))

    def cells(self) -> NDArray[np.int64]:
        """Return how many cells each box has: int64, shape (n,)."""
        return np.asarray(np.prod(self.last - self.first + 1, axis=1, dtype=np.int64))


def _cells(ends: ArrayLike, attributes: int) -> NDArray[np.int64]:
    """Return ends of ranges as a table: int64, shape (n, attributes)."""
    found = np.asarray(ends)
    if found.ndim == 1 and attributes == 1:
        found = found.reshape(-1, 1)
    if found.ndim != 2 or found.shape[1] != attributes or not np.issubdtype(found.dtype, np.integer):
        raise ScopeError(
            f"expected whole numbers of cells, of shape (questions, {attributes}), "
            f"got {found.dtype} of {found.shape}"
        )
    return found.astype(np.int64)


class BoxSums:
    """Sums of real numbers inside boxes, by prefix sums.

    Args:
        values: float64, one axis per attribute.
    """

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
        return cls(values) if values.ndim <= _MOST_SIDES and values.size <= MOST_SUMS else None

    def one(self, box: Sequence[slice]) -> float:
        """Return the sum inside one box."""
        total, ends = 0.0, [(side.start, side.stop) for side in box]
        for corner, sign in self._signs:
            place = tuple([end[which] for end, which in zip(ends, corner, strict=True)])
            total += sign * self._sums.item(place)
        return total

    def many(self, boxes: Boxes) -> NDArray[np.float64]:
        """Return the sum inside each box: float64, shape (n,). The same as ``one``, to the last bit."""
        total, stops = np.zeros(len(boxes)), boxes.last + 1
        for corner, sign in self._signs:
            place = tuple((stops if which else boxes.first)[:, axis] for axis, which in enumerate(corner))
            total += sign * self._sums[place]
        return total
