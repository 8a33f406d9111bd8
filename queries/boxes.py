"""Boxes: many counting questions about ranges of the same attributes, as arrays.

A box counts the records whose cells lie between a first and a last cell of each attribute of a scope. Its sum
over real numbers is taken from prefix sums in one fixed order, so that a box has the same sum to the last bit
whether it is asked alone or among many.

The canonical texts of boxes are numbers, too, and written where one is looked at. What is found by 32 bits of
its text needs them of many texts at once. CRC-32 is linear over bits, so the checksum of a text follows from
those of its parts and from their lengths (M. Adler's ``crc32_combine``).
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from queries.domain import Domain
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index
from queries.products import CellSets, Products
from queries.questions import Questions

MOST_SUMS = 2**14  # cells of a table whose prefix sums are kept
MOST_SIDES = 5  # attributes of it: a box has a corner for each choice of their ends
_FEW = 2**12  # numbers whose texts are kept in a table; more are written for each lookup
_Written: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint32]]
_HEAD, _BETWEEN, _AFTER, _TAIL = '{"factors":[', ",", f",{UNITS}]]]", "]}"


@dataclass(frozen=True, slots=True, eq=False)
class Boxes(Questions):
    """Questions about ranges of the same attributes.

    Args:
        scope: names of attributes, in any order.
        first: int64, shape (n, attributes): the first cell of each range.
        last: int64, the same of the last cells, inclusive.
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
                came = f"the range {start[place]}..{end[place]} in question {place + 1}"
                raise domain[name].no_cell(came)
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
        if len(places) == len(self) and np.array_equal(places, np.arange(len(self))):
            return self
        return Boxes(self.domain, self.scope, self.first[places], self.last[places])

    def on(self, domain: Domain) -> Boxes:
        """Return the same cells of another domain, whose attributes have the same ones."""
        return Boxes(domain, self.scope, self.first, self.last)

    def ranges(self) -> Boxes:
        """Return the boxes themselves; see ``Products.ranges``."""
        return self

    @property
    def sides(self) -> tuple[CellSets, ...]:
        """The ranges of each attribute."""
        return tuple(map(CellSets, self.first.T, self.last.T))

    def pieces(self) -> tuple[NDArray[np.int64], NDArray[np.int64], None]:
        """Return the first and the last cells of each box; see ``Products.pieces``."""
        return self.first, self.last, None

    def over(self, scope: tuple[str, ...]) -> Boxes:
        """Return the ranges of some of the attributes, which are in declared order."""
        axes = [self.scope.index(name) for name in scope]
        return Boxes(self.domain, scope, self.first[:, axes], self.last[:, axes])

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
        """Yield them by the attributes that they depend on; a range of all cells asks nothing of one."""
        asked = self._asked()
        codes = _codes(asked)
        for code in np.unique(codes):
            places = np.flatnonzero(codes == code)
            axes = np.flatnonzero(asked[places[0]])
            scope = tuple(self.scope[axis] for axis in axes.tolist())
            yield places, Boxes(self.domain, scope, self.first[places][:, axes], self.last[places][:, axes])

    def kinds(self) -> tuple[NDArray[np.intp], list[LinearQuery]]:
        _, places, numbers = np.unique(_codes(self._asked()), return_index=True, return_inverse=True)
        return numbers.reshape(-1), [self.query(place) for place in places.tolist()]

    def aligned(self) -> NDArray[np.bool_]:
        return np.ones(len(self), dtype=np.bool_)

    def _asked(self) -> NDArray[np.bool_]:
        """Tell which attributes each question depends on: bool, shape (n, attributes)."""
        sizes = np.array([self.domain[name].size for name in self.scope], dtype=np.int64)
        return np.asarray((self.first > 0) | (self.last < sizes - 1))

    def query(self, place: int) -> LinearQuery:
        ranges = zip(self.scope, self.first[place].tolist(), self.last[place].tolist(), strict=True)
        return LinearQuery.cells(self.domain, {name: (low, high) for name, low, high in ranges})

    def describe(self) -> list[str]:
        columns = []
        for axis, name in enumerate(self.scope):
            ends = list(zip(self.first[:, axis].tolist(), self.last[:, axis].tolist(), strict=True))
            words = {pair: LinearQuery.cells(self.domain, {name: pair}) for pair in dict.fromkeys(ends)}
            said = {pair: one.describe() if one.scope else "" for pair, one in words.items()}
            columns.append([said[pair] for pair in ends])
        return [" and ".join(filter(None, parts)) or "everybody" for parts in zip(*columns, strict=True)]

    def texts(self) -> RangeTexts:
        return RangeTexts(self.scope, np.stack([self.first.T, self.last.T + 1], axis=1))

    def cells(self) -> NDArray[np.int64]:
        """Return how many cells each box has: int64, shape (n,)."""
        found = np.ones(len(self), dtype=np.int64)
        for axis in range(len(self.scope)):  # quicker than a product along a short axis
            found *= self.last[:, axis] - self.first[:, axis] + 1
        return found


Counted: TypeAlias = Boxes | Products  # questions whose sums are those of boxes


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

    def one(self, box: Sequence[slice]) -> float:
        """Return the sum inside one box."""
        total, ends = 0.0, [(side.start, side.stop) for side in box]
        for corner, sign in self._signs:
            place = tuple([end[which] for end, which in zip(ends, corner, strict=True)])
            total += sign * self._sums.item(place)
        return total

    def many(self, counted: Counted) -> NDArray[np.float64]:
        """Return the sum inside each box or product: float64, shape (n,); of a box ``one``, to the bit."""
        first, last, owners = counted.pieces()
        total, stops = np.zeros(len(first)), last + 1
        for corner, sign in self._signs:
            place = tuple((stops if which else first)[:, axis] for axis, which in enumerate(corner))
            total += sign * self._sums[place]
        if owners is None:
            return total
        return np.asarray(np.bincount(as_index(owners), total, minlength=len(counted)), dtype=np.float64)


# --- canonical texts ----------------------------------------------------------------------------------------


class RangeTexts(Sequence[str]):
    """Texts of questions, each about a range of every one of the same attributes.

    Args:
        names: of the attributes, in declared order.
        ends: whole numbers, shape (attributes, 2, n): first cells, and those after the last.
    """

    def __init__(self, names: Sequence[str], ends: NDArray[np.integer[Any]]) -> None:
        self.names = tuple(names)
        self.ends = ends
        self._before = [f"{',' if place else ''}[[{json.dumps(name)}],[[" for place, name in enumerate(names)]

    @property
    def _form(self) -> str:
        parts = (before.replace("%", "%%") + "%d" + _BETWEEN + "%d" + _AFTER for before in self._before)
        return _HEAD + "".join(parts) + _TAIL

    def __len__(self) -> int:
        return int(self.ends.shape[2])

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> RangeTexts: ...

    def __getitem__(self, place: int | slice) -> str | RangeTexts:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        return self._form % tuple(self.ends[:, :, place].reshape(-1).tolist())

    def __iter__(self) -> Iterator[str]:
        form = self._form
        if not self.names:
            return iter([form] * len(self))
        columns = self.ends.reshape(2 * len(self.names), len(self)).tolist()
        return iter([form % ends for ends in zip(*columns, strict=True)])

    def take(self, places: NDArray[np.int64]) -> RangeTexts:
        """Return some of the texts."""
        return RangeTexts(self.names, self.ends[:, :, places])

    def checksums(self) -> NDArray[np.uint32]:
        """Return the CRC-32 of each text: uint32, shape (n,)."""
        found = np.full(len(self), zlib.crc32(_HEAD.encode()), dtype=np.uint32)
        for before, (first, stop) in zip(self._before, self.ends, strict=True):
            found = _followed(found, before, _BETWEEN, first)
            found = _followed(found, "", _AFTER, stop)
        return _followed(found, "", _TAIL, None)

    def are(self, own: NDArray[np.int64], others: RangeTexts, theirs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of some texts are those of others, one by one: bool, shape (n,)."""
        if self.names != others.names:
            return np.zeros(len(own), dtype=bool)
        same = self.ends[:, :, own] == others.ends[:, :, theirs]
        return np.asarray(same.all(axis=(0, 1)))


def _followed(
    checksums: NDArray[np.uint32], before: str, after: str, numbers: NDArray[np.integer[Any]] | None
) -> NDArray[np.uint32]:
    """Return the checksums of texts once each is followed by a number, between two other texts."""
    if numbers is None:
        places = np.zeros(len(checksums), dtype=np.int64)
        own, starts, tables = _kept(before, after, 0)
    elif (most := int(numbers.max(initial=0))) < _FEW:
        places = numbers.astype(np.int64)
        own, starts, tables = _kept(before, after, 1 << most.bit_length())
    else:
        distinct, which = np.unique(numbers, return_inverse=True)
        places = which.reshape(-1)
        own, starts, tables = _written([f"{before}{number}{after}" for number in distinct.tolist()])
    start, found = starts[places], own[places]
    for byte, each in enumerate(checksums.astype("<u4").view(np.uint8).reshape(-1, 4).T):
        found ^= tables.take(as_index(start + (256 * byte + each.astype(np.int64))))
    return found


@lru_cache(maxsize=128)
def _kept(before: str, after: str, values: int) -> _Written:
    """Return what is ``_written`` of texts with each number from 0 on; for none, of one without a number."""
    return _written([f"{before}{number}{after}" for number in range(values)] or [before + after])


def _written(words: Sequence[str]) -> _Written:
    """Return what texts do to a checksum that they follow.

    Returns:
        Their own checksums; where the table of each starts; and tables of what each value of each byte of
        the other checksum contributes after so many bytes, one after the other.
    """
    texts = [word.encode() for word in words]
    lengths = list(dict.fromkeys(map(len, texts)))
    starts = [lengths.index(len(text)) * 4 * 256 for text in texts]
    tables = []
    for length in lengths:
        zeros = bytes(length)
        none = zlib.crc32(zeros)
        places = (value << 8 * byte for byte in range(4) for value in range(256))
        tables += [zlib.crc32(zeros, place) ^ none for place in places]
    own = [zlib.crc32(text) for text in texts]
    return np.array(own, dtype=np.uint32), np.array(starts), np.array(tables, dtype=np.uint32)
