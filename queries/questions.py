"""Questions: many counting questions over one domain, in order, as a list of any or as arrays of products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from queries.cell_sets import CellSets, sides_of
from queries.domain import Domain
from queries.errors import ScopeError
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.range_texts import RangeTexts

Places: TypeAlias = NDArray[np.int64]
Scope: TypeAlias = tuple[str, ...]
_MOST_RUNS = 2**17  # of cells, about, in the sets of questions that are looked at together
_SOME = 2  # questions about the same attributes, from which on arrays are faster than one by one


class Questions(ABC):
    """Counting questions; what is found of many at once is the same to the bit as of each alone."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def query(self, place: int) -> LinearQuery:
        """Return one question by itself."""

    def __iter__(self) -> Iterator[LinearQuery]:
        return map(self.query, range(len(self)))

    @abstractmethod
    def take(self, places: Places) -> Questions:
        """Return some of the questions, in the order of their places."""

    def distinct(self) -> tuple[Places, Places]:
        """Return the places of the first of equal questions, in order, and for each question which it is."""
        numbers: dict[str, int] = {}
        which = [numbers.setdefault(text, len(numbers)) for text in self.texts()]
        if len(numbers) == len(which):
            same = np.arange(len(which), dtype=np.int64)
            return same, same
        found = np.array(which, dtype=np.int64)
        return np.unique(found, return_index=True)[1].astype(np.int64), found

    @abstractmethod
    def parts(self) -> Iterator[tuple[Places, Questions]]:
        """Yield the questions in parts whose texts are written alike: their places, and they themselves."""

    @abstractmethod
    def products(self, are_ranges: Callable[[Scope], bool]) -> Iterator[tuple[Places, Products]]:
        """Yield those that are products of the same attributes, together: their places, and they themselves.

        Args:
            are_ranges: over which attributes only ranges are taken together.
        """

    def texts(self) -> Sequence[str]:
        """Return the canonical texts; of ``Products`` those of a part."""
        return [query.to_json() for query in self]

    @abstractmethod
    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        """Return which kind each question is of, int, shape (n,), and one question of each kind.

        Questions of one kind have the same scope, and alike factors and readings, or none.
        """

    def aligned(self) -> NDArray[np.bool_]:
        """Tell of which questions the cells decide the condition: bool, shape (n,)."""
        return np.array([query.aligned for query in self], dtype=np.bool_)

    def describe(self) -> list[str]:
        """Return the questions in words; see ``LinearQuery.describe``."""
        return [query.describe() for query in self]


class QuestionList(Questions):
    """Questions one by one; their canonical texts are written where they are needed, if not given."""

    __slots__ = ("_listed", "_texts")

    def __init__(self, listed: Sequence[LinearQuery], texts: Sequence[str] | None = None) -> None:
        self._listed = listed
        self._texts = texts

    def __len__(self) -> int:
        return len(self._listed)

    def query(self, place: int) -> LinearQuery:
        return self._listed[place]

    def take(self, places: Places) -> QuestionList:
        listed, texts = places.tolist(), self._texts
        some = None if texts is None else [texts[place] for place in listed]
        return QuestionList([self._listed[place] for place in listed], some)

    def parts(self) -> Iterator[tuple[Places, Questions]]:
        if len(self):
            yield np.arange(len(self), dtype=np.int64), self

    def products(self, are_ranges: Callable[[Scope], bool]) -> Iterator[tuple[Places, Products]]:
        groups = dict[tuple[str, ...], list[int]]()
        only = dict[Scope, bool]()
        for place, query in enumerate(self._listed):
            if query.is_product:
                if query.scope not in groups:
                    groups[query.scope], only[query.scope] = [], are_ranges(query.scope)
                if query.is_box or not only[query.scope]:
                    groups[query.scope].append(place)
        for group in groups.values():
            for places in self._by_runs(group) if len(group) >= _SOME else ():
                yield np.array(places, dtype=np.int64), Products.of_queries([*map(self.query, places)])

    def _by_runs(self, group: Sequence[int]) -> Iterator[list[int]]:
        """Yield places in order, so many at a time that the runs of their sets take little memory.

        A set has no more runs than cells, nor more than four for each byte that it is kept in.
        """
        places, runs = list[int](), 0
        for place in group:
            query = self._listed[place]
            own = 1 if query.is_box else max([min(one.shape[0], one.size_in_bytes) for one in query.factors])
            if places and runs + own > _MOST_RUNS:
                yield places
                places, runs = [], 0
            places.append(place)
            runs += own
        yield places

    def texts(self) -> Sequence[str]:
        if self._texts is None:
            self._texts = super().texts()
        return self._texts

    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        numbers: dict[tuple[Scope, bool, bool], int] = {}
        codes, examples = [], list[LinearQuery]()
        for query in self._listed:
            kind = query.scope, bool(query.factors), query.readings is None
            number = numbers.setdefault(kind, len(examples))
            if number == len(examples):
                examples.append(query)
            codes.append(number)
        return np.array(codes, dtype=np.intp), examples


@dataclass(frozen=True, slots=True, eq=False)
class Products(Questions):
    """Questions that count the records whose cells lie in a set of cells of each of the same attributes.

    Args:
        scope: attribute names in declared order.
        sides: the sets of each attribute.
        size: n, how many questions there are.
    """

    domain: Domain
    scope: Scope
    sides: tuple[CellSets, ...]
    size: int

    @classmethod
    def of_queries(cls, queries: Sequence[LinearQuery]) -> Products:
        """Return questions that are products over the same scope."""
        return cls(queries[0].domain, queries[0].scope, sides_of(queries), len(queries))

    @classmethod
    def of_ranges(cls, domain: Domain, scope: Sequence[str], first: ArrayLike, last: ArrayLike) -> Products:
        """Return questions about a range of cells of each attribute.

        Args:
            scope: names of attributes, in any order.
            first: int, shape (n, attributes), or (n,) of one attribute: the first cell of each range.
            last: int, the same of the last cells, inclusive.

        Raises:
            ScopeError: an attribute is unknown, shapes differ, or a range is empty or outside.
        """
        named = tuple(scope)
        low, high = (_cells(end, len(named)) for end in (first, last))
        if low.shape != high.shape:
            raise ScopeError(f"expected as many last cells as first ones, got {len(high)}, {len(low)}")
        sides, ordered = list[CellSets](), domain.scope(named)
        for name in ordered:
            start, end = (np.ascontiguousarray(ends[:, named.index(name)]) for ends in (low, high))
            wrong = np.flatnonzero((start < 0) | (start > end) | (end >= domain[name].size))
            if wrong.size:
                place = int(wrong[0])
                came = f"the range {start[place]}..{end[place]} in question {place + 1}"
                raise domain[name].no_cell(came)
            sides.append(CellSets(start, end))
        return cls(domain, ordered, tuple(sides), len(low))

    def __len__(self) -> int:
        return self.size

    @property
    def are_ranges(self) -> bool:
        """Whether each set is one run of cells."""
        return all(side.starts is None for side in self.sides)

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last cells of ranges, as ``of_ranges`` takes them."""
        first, last = np.empty((2, len(self), len(self.scope)), dtype=np.int64)
        for axis, side in enumerate(self.sides):
            first[:, axis], last[:, axis] = side.first, side.last
        return first, last

    def query(self, place: int) -> LinearQuery:
        named = zip(self.scope, self.sides, strict=True)
        factors = [side.factor(name, self.domain[name].size, place) for name, side in named]
        return LinearQuery(self.domain, tuple(factors))

    def on(self, domain: Domain) -> Products:
        """Return the same cells of another domain, whose attributes have the same ones."""
        return replace(self, domain=domain)

    def take(self, places: Places) -> Products:
        if len(places) == len(self) and np.array_equal(places, np.arange(len(self))):
            return self
        return replace(self, sides=tuple([side.take(places) for side in self.sides]), size=len(places))

    def are_empty(self) -> NDArray[np.bool_]:
        """Tell which have a range without cells, whose first one is after its last: bool, shape (n,)."""
        found = np.zeros(len(self), dtype=np.bool_)
        for side in self.sides:
            found |= side.cells() <= 0
        return found

    def over(self, scope: Scope) -> Products:
        """Return the sets of some of the attributes, which are in declared order."""
        return replace(self, scope=scope, sides=tuple([self.sides[self.scope.index(name)] for name in scope]))

    def distinct(self) -> tuple[Places, Places]:
        if not self.are_ranges:
            return super().distinct()
        sizes = [self.domain[name].size for name in self.scope]
        codes = np.zeros(len(self), dtype=np.int64)
        if np.prod([float(size) for size in sizes]) ** 2 < 2.0**62:
            for size, side in zip(sizes, self.sides, strict=True):
                codes = (codes * size + side.first) * size + side.last
        else:
            both = np.stack([end for side in self.sides for end in (side.first, side.last)], axis=1)
            codes = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        _, found, numbers = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(found, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return found[order].astype(np.int64), rank[numbers.reshape(-1)].astype(np.int64)

    def parts(self) -> Iterator[tuple[Places, Products]]:
        """Yield them by the attributes that they depend on; a set of all cells asks nothing of one."""
        asked = self._asked()
        codes = _codes(asked)
        for code in np.unique(codes):
            places = np.flatnonzero(codes == code)
            scope = tuple([name for name, own in zip(self.scope, asked[places[0]], strict=True) if own])
            yield places, self.over(scope).take(places)

    def products(self, are_ranges: Callable[[Scope], bool]) -> Iterator[tuple[Places, Products]]:
        return ((places, part) for places, part in self.parts() if part.scope)

    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        _, places, numbers = np.unique(_codes(self._asked()), return_index=True, return_inverse=True)
        return numbers.reshape(-1), [self.query(place) for place in places.tolist()]

    def aligned(self) -> NDArray[np.bool_]:
        return np.ones(len(self), dtype=np.bool_)

    def _asked(self) -> NDArray[np.bool_]:
        """Tell which attributes each question depends on: bool, shape (n, attributes)."""
        found = np.empty((len(self), len(self.scope)), dtype=np.bool_)
        for axis, (name, side) in enumerate(zip(self.scope, self.sides, strict=True)):
            found[:, axis] = side.cells() < self.domain[name].size
        return found

    def describe(self) -> list[str]:
        if not self.are_ranges:
            return super().describe()
        columns = []
        for name, side in zip(self.scope, self.sides, strict=True):
            ends = list(zip(side.first.tolist(), side.last.tolist(), strict=True))
            words = {pair: LinearQuery.cells(self.domain, {name: pair}) for pair in dict.fromkeys(ends)}
            said = {pair: one.describe() if one.scope else "" for pair, one in words.items()}
            columns.append([said[pair] for pair in ends])
        return [" and ".join(filter(None, parts)) or "everybody" for parts in zip(*columns, strict=True)]

    def texts(self) -> Sequence[str]:
        if not self.are_ranges:
            return super().texts()
        ends = np.empty((len(self.scope), 2, len(self)), dtype=np.int64)
        for own, side in zip(ends, self.sides, strict=True):
            own[0], own[1] = side.first, side.last + 1
        return RangeTexts(self.scope, ends)


def _codes(asked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return one number per row, the same for rows that are the same: int64, shape (n,)."""
    if asked.shape[1] < 63:  # else one bit each would not fit
        return asked @ (1 << np.arange(asked.shape[1], dtype=np.int64))
    return np.unique(asked, axis=0, return_inverse=True)[1].reshape(-1)


def _cells(ends: ArrayLike, attributes: int) -> NDArray[np.int64]:
    found = np.asarray(ends)
    if found.ndim == 1 and attributes == 1:
        found = found.reshape(-1, 1)
    if found.ndim != 2 or found.shape[1] != attributes or not np.issubdtype(found.dtype, np.integer):
        raise ScopeError(
            f"expected whole numbers of cells, of shape (questions, {attributes}), "
            f"got {found.dtype} of {found.shape}"
        )
    return found.astype(np.int64)
