"""Packed records: the cells of several attributes to a byte, block by block, in memory or in a scratch file.

Attributes are put together while all their combinations fit into a byte, so that ten attributes of a census
take five bytes a record. What a count needs of a record is a sum over its bytes, each looked up in a table.
Of a block in a file only the bytes that a count needs are read.

Where all records take more memory than one number for each cell of the domain, they are counted instead: of
each cell that has records there is one row, which says how many. Whether that may be depends on the domain
and the limit alone; all counts, sums and digests are the same.

A digest tells a table's records from others, whatever their order. A record is a few numbers of 64 bits for
it. They are put into order and hashed, in memory or by way of a file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.data.scratch import MemoryLimit, ScratchFile, SortedRows, StoredArray, Words
from pmw.errors import DataError
from queries.domain import Domain
from queries.frozen import dataclass
from queries.places import as_index
from queries.records import CodedRecords

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
Block: TypeAlias = tuple[Codes | StoredArray, ...]  # of some records: one array per group
_Number = TypeVar("_Number", bound=np.integer[Any])

_BYTE = 256
_STORED_RECORDS = 2**18  # of a block in a file
_SORTED_AT_ONCE = 2**24  # records
_MOST_COUNTED = 2**24  # cells of a domain whose records are counted as they come
_HASHED_AT_ONCE = 2**20  # records
_PARTING_CELLS = 2**12  # of the attributes that tell which records come first
_NO_WORDS: Words = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedRecords:
    """The cells of records (secret).

    Args:
        blocks: of some records each, as ``pack`` has them.
        limit: the memory that they were to take, where they are in a file; None where they are in memory.
        owners: of each block the numbers of its records' persons; None where these are not kept.
        persons: how many persons there are: each of the numbers below has a record.
        times: of each block how many records each of its rows stands for: int64, shape (rows,). The rows are
            then different cells in growing order. None where each row is one record.
    """

    domain: Domain
    blocks: tuple[Block, ...]
    limit: MemoryLimit | None = None
    owners: Block | None = None
    persons: int = 0
    times: tuple[NDArray[np.int64], ...] | None = None

    @classmethod
    def of_counts(cls, domain: Domain, counts: NDArray[np.int64]) -> PackedRecords:
        """Return so many records of each cell.

        Args:
            counts: int64, shape (cells,), in declared order.
        """
        cells, blocks, times = np.flatnonzero(counts), [], []
        for start in range(0, len(cells), _STORED_RECORDS):
            some = cells[start : start + _STORED_RECORDS]
            blocks.append(pack(domain, np.unravel_index(some, domain.shape)))
            times.append(counts[some])
        return cls(domain, tuple(blocks), times=tuple(times))

    def __len__(self) -> int:
        if self.times is not None:
            return sum(int(times.sum()) for times in self.times)
        return sum(len(block[0]) for block in self.blocks)

    @property
    def times_by_block(self) -> Iterator[NDArray[np.int64] | None]:
        """Of each block how many records each of its rows stands for; None where each is one."""
        return iter([None] * len(self.blocks) if self.times is None else self.times)

    def sums(self, tables: Sequence[NDArray[_Number] | None]) -> Iterator[NDArray[_Number]]:
        """Yield block by block, of each row, the sum over attributes of what its cell stands for.

        Args:
            tables: per attribute, a number for each cell: shape (cells,); None stands for nothing. One at
                least is given.
        """
        return (found for (found,) in self.several_sums([tables]))

    def several_sums(
        self, wanted: Sequence[Sequence[NDArray[_Number] | None]]
    ) -> Iterator[list[NDArray[_Number]]]:
        """Yield block by block the ``sums`` for several tables each, of one reading."""
        joined = [_joined_tables(self.domain, tables) for tables in wanted]
        for block in self.blocks:
            codes = _needed(block, joined)
            yield [_summed(tables, codes) for tables in joined]

    def sums_between(
        self,
        tables: Sequence[Words | None],
        leading: Sequence[Codes | None],
        ends: tuple[int | None, int | None],
    ) -> Iterator[Words]:
        """Yield block by block the ``sums`` of the rows of which another sum lies between two ends.

        Args:
            ends: the least that it may be, and what it is to be below; None where there is no end.
        """
        joined, other = _joined_tables(self.domain, tables), _joined_tables(self.domain, leading)
        low, high = ends
        for block in self.blocks:
            codes = _needed(block, [joined, other])
            looked_at = _summed(other, codes)
            within = np.ones(len(looked_at), dtype=bool)
            if low is not None:
                within &= looked_at >= looked_at.dtype.type(low)
            if high is not None:
                within &= looked_at < looked_at.dtype.type(high)
            places = np.flatnonzero(within)  # which take few rows several times as fast
            yield _summed(joined, [None if part is None else part.take(places) for part in codes])

    def persons_of(self, tables: Sequence[NDArray[np.int64] | None], cells: int) -> NDArray[np.int64]:
        """Return how many persons have a record in each cell: int64, shape (cells,).

        Persons are looked at in parts, so that about as many records are put into order as at once.
        """
        if self.owners is None:
            raise DataError("expected records whose persons are known, got others")
        counts, parts = np.zeros(cells, dtype=np.int64), max(1, -(-len(self) // _SORTED_AT_ONCE))
        for part in range(parts):
            pairs = [np.zeros(0, dtype=np.int64)]
            for found, block in zip(self.sums(tables), self.owners, strict=True):
                persons = _loaded(block).astype(np.int64)
                chosen = persons % parts == part
                pairs.append(persons[chosen] * cells + found[chosen])
            np.add.at(counts, np.unique(np.concatenate(pairs)) % cells, 1)
        return counts

    def unpacked(self) -> CodedRecords:
        """Return the cells of each attribute in an array of its own."""
        columns = []
        for place, size in enumerate(self.domain.shape):
            tables: list[NDArray[np.int64] | None] = [None] * len(self.domain)
            tables[place] = np.arange(size)
            dtype = np.min_scalar_type(size - 1)
            pieces = [
                found.astype(dtype) if times is None else np.repeat(found.astype(dtype), as_index(times))
                for found, times in zip(self.sums(tables), self.times_by_block, strict=True)
            ]
            columns.append(np.concatenate([np.empty(0, dtype=dtype), *pieces]))
        return CodedRecords(self.domain, tuple(columns))


class BlockKeeper:
    """Keeps blocks in memory: as they are, or counted; or all of them in a scratch file beyond a limit.

    Args:
        single: each record is kept by itself, for it is told whose it is.
    """

    def __init__(self, domain: Domain, limit: MemoryLimit, *, single: bool = False) -> None:
        self._domain, self._limit, self._most = domain, limit, limit.in_bytes
        self._held: list[tuple[Codes, ...]] = []
        self._stored: list[Block] = []
        self._file: ScratchFile | None = None
        self._bytes = self._records = 0
        # Bytes of the counts of all cells; beside them, no more is held.
        self._counted_bytes = 8 * domain.size
        self._may_count = (
            not single and domain.size <= _MOST_COUNTED and 2 * self._counted_bytes <= self._most
        )
        self._counts: NDArray[np.int64] | None = None

    def add(self, block: tuple[Codes, ...]) -> None:
        """Take in the cells of some records, as ``pack`` has them."""
        self._held.append(block)
        self._records += len(block[0])
        self._bytes += sum(codes.nbytes for codes in block)
        if self._may_count:
            if self._bytes > self._counted_bytes:
                self._count()
        elif self._bytes > self._most if self._file is None else self._records >= _STORED_RECORDS:
            self._store()

    def finish(self, persons: int | None = None) -> PackedRecords:
        """Return all records.

        Args:
            persons: how many there are, where each block ends with the numbers of its records' persons.
        """
        if self._counts is not None:
            self._count()
            return PackedRecords.of_counts(self._domain, self._counts)
        if self._file is not None:
            self._store()
        blocks: Sequence[Block] = self._held if self._file is None else self._stored
        limit = None if self._file is None else self._limit
        if persons is None:
            return PackedRecords(self._domain, tuple(blocks), limit)
        owners = tuple(block[-1] for block in blocks)
        return PackedRecords(self._domain, tuple(block[:-1] for block in blocks), limit, owners, persons)

    def _count(self) -> None:
        if self._counts is None:
            self._counts = np.zeros(self._domain.size, dtype=np.int64)
        (tables,) = _word_tables(self._domain.shape)
        for words in PackedRecords(self._domain, tuple(self._held)).sums(tables):
            add_up(self._counts, words.view(np.int64))
        self._held, self._bytes, self._records = [], 0, 0

    def _store(self) -> None:
        if self._file is None:
            self._file = ScratchFile(self._limit.folder)
        groups = []
        for number in range(len(self._held[0]) if self._held else 0):
            codes = np.concatenate([block[number] for block in self._held])
            starts = range(0, len(codes), _STORED_RECORDS)
            groups.append([self._file.append(codes[start : start + _STORED_RECORDS]) for start in starts])
        self._stored += zip(*groups, strict=True)
        self._held, self._bytes, self._records = [], 0, 0


def add_up(
    counts: NDArray[np.int64], cells: NDArray[np.int64], times: NDArray[np.int64] | None = None
) -> None:
    """Add to counts the number of records in each cell.

    Args:
        counts: int64, shape (cells,); changed in place.
        times: how many records each row stands for; None where each is one.
    """
    if times is not None:
        np.add.at(counts, cells, times)
    elif len(cells) < len(counts):
        np.add.at(counts, cells, 1)  # else an array of all cells would be made for each block
    else:
        counts += np.bincount(as_index(cells), minlength=len(counts))


def pack(domain: Domain, columns: Sequence[NDArray[np.integer[Any]]]) -> tuple[Codes, ...]:
    """Return the cells of some records, packed.

    Args:
        columns: integers, shape (records,) each: the cell of each record, one array per attribute.
    """
    block = []
    for group in _groups(domain.shape):
        cells = math.prod(domain.shape[place] for place in group)
        codes = columns[group[0]].astype(np.min_scalar_type(cells - 1))
        for place in group[1:]:
            codes *= codes.dtype.type(domain.shape[place])
            codes += columns[place].astype(codes.dtype)
        block.append(codes)
    return tuple(block)


def _loaded(codes: Codes | StoredArray) -> Codes:
    return codes.read() if isinstance(codes, StoredArray) else codes


@lru_cache(maxsize=16)
def _groups(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return which attributes are packed together, by their places: first fit, the longest first."""
    groups: list[list[int]] = []
    for place in sorted(range(len(shape)), key=lambda place: (-shape[place], place)):
        for group in groups:
            if shape[place] * math.prod(shape[other] for other in group) <= _BYTE:
                group.append(place)
                break
        else:
            groups.append([place])
    return tuple(map(tuple, groups))


def _joined_tables(
    domain: Domain, tables: Sequence[NDArray[_Number] | None]
) -> list[NDArray[_Number] | None]:
    """Return the table of each group; None where none of its attributes has one."""
    return [
        None if all(tables[place] is None for place in group) else _joined(domain, group, tables)
        for group in _groups(domain.shape)
    ]


def _needed(block: Block, joined: Sequence[Sequence[NDArray[Any] | None]]) -> list[Codes | None]:
    """Return the codes of a block; None where no table is for them, and they are not read."""
    return [
        None if all(tables[number] is None for tables in joined) else _loaded(part)
        for number, part in enumerate(block)
    ]


def _summed(tables: Sequence[NDArray[_Number] | None], codes: Sequence[Codes | None]) -> NDArray[_Number]:
    """Return the sum over groups of what each row's code stands for."""
    found = [
        table[part]
        for table, part in zip(tables, codes, strict=True)
        if table is not None and part is not None
    ]
    return reduce(np.add, found)


def _joined(
    domain: Domain, group: Sequence[int], tables: Sequence[NDArray[_Number] | None]
) -> NDArray[_Number]:
    """Return the table of a group: the sum of its attributes' tables, for each code that ``pack`` makes."""
    kind = next(table.dtype for table in tables if table is not None)
    parts = [
        np.zeros(domain.shape[place], dtype=kind) if table is None else table
        for place, table in ((place, tables[place]) for place in group)
    ]
    joined: NDArray[_Number] = reduce(np.add.outer, parts).reshape(-1)
    return joined


def cell_words(
    records: CodedRecords, places: NDArray[np.signedinteger[Any]] | slice = slice(None)
) -> list[Words]:
    """Return the cells of records as numbers of 64 bits, all of them equal where all cells are."""
    shape, columns = records.domain.shape, [column[places] for column in records.columns]
    words = []
    for group in _word_groups(shape):
        word = np.zeros(len(columns[0]), dtype=np.uint64)
        for place in group:
            word *= np.uint64(shape[place])
            word += columns[place]
        words.append(word)
    return words


def records_of(domain: Domain, words: Sequence[Words]) -> CodedRecords:
    """Return the records that ``cell_words`` gives these words for."""
    columns: list[NDArray[np.unsignedinteger[Any]]] = []
    for group, word in zip(_word_groups(domain.shape), words, strict=True):
        rest, found = word, []
        for place in reversed(group):
            size = domain.shape[place]
            rest, cells = np.divmod(rest, np.uint64(size)) if size < 2**64 else (rest, rest)
            found.append(cells.astype(np.min_scalar_type(size - 1)))
        columns += reversed(found)
    return CodedRecords(domain, tuple(columns))


def multiset_digest(words: Sequence[Words]) -> bytes:
    """Return 32 bytes that tell sets of records from others, whatever the order of the records.

    Args:
        words: of each record, some numbers: uint64, shape (records,) each.
    """
    digest = hashlib.sha256(len(words[0]).to_bytes(8, "little"))
    order = None if len(words) == 1 else np.lexsort(words)
    for word in words:
        digest.update((np.sort(word) if order is None else word[order]).view(np.uint8).data)
    return digest.digest()


def packed_digest(records: PackedRecords) -> bytes:
    """Return ``multiset_digest`` of the records' ``cell_words``, in little memory."""
    tables = _word_tables(records.domain.shape)
    if records.limit is not None:
        rows = SortedRows(len(tables), records.limit)
        for found in records.several_sums(tables):
            rows.add(found)
        return rows.digest()
    if records.times is not None:
        return _counted_digest(records, tables[0], records.times)
    if len(tables) > 1:
        return multiset_digest([np.concatenate([_NO_WORDS, *records.sums(each)]) for each in tables])
    digest = hashlib.sha256(len(records).to_bytes(8, "little"))
    for words in _in_order(records, tables[0]):
        digest.update(words.view(np.uint8).data)
    return digest.digest()


def _in_order(records: PackedRecords, tables: Sequence[Words | None]) -> Iterator[Words]:
    """Yield the words of all records in order, some at a time; each array is used again for the next."""
    leading = _leading_tables(records.domain.shape)
    ends = _ends(records, leading)
    sizes = np.zeros(len(ends) + 1, dtype=np.int64)
    for words in records.sums(leading):
        sizes += np.bincount(np.searchsorted(ends, words, "right"), minlength=len(sizes))
    space = np.empty(int(sizes.max()), dtype=np.uint64)
    for size, between in zip(sizes.tolist(), pairwise([None, *ends.tolist(), None]), strict=True):
        filled = 0
        for words in records.sums_between(tables, leading, between):
            space[filled : filled + len(words)] = words
            filled += len(words)
        space[:size].sort()
        yield space[:size]


def _leading_tables(shape: Sequence[int]) -> list[Codes | None]:
    """Return what each cell of each of the first attributes adds to the number of the cell of them all."""
    first = next(
        (count for count in range(1, len(shape)) if math.prod(shape[:count]) >= _PARTING_CELLS), len(shape)
    )
    tables: list[Codes | None] = [None] * len(shape)
    for place in range(first):
        stride, cells = math.prod(shape[place + 1 : first]), np.arange(shape[place], dtype=np.uint64)
        tables[place] = (cells * np.uint64(stride % 2**64)).astype(
            np.min_scalar_type(math.prod(shape[:first]) - 1)
        )
    return tables


def _counted_digest(
    records: PackedRecords, tables: Sequence[Words | None], times: Sequence[NDArray[np.int64]]
) -> bytes:
    """Return ``packed_digest`` of records that are counted: their words are in order."""
    digest = hashlib.sha256(len(records).to_bytes(8, "little"))
    for words, counts in zip(records.sums(tables), times, strict=True):
        ends = np.cumsum(counts)
        for start in range(0, int(ends[-1]), _HASHED_AT_ONCE):
            stop = min(start + _HASHED_AT_ONCE, int(ends[-1]))
            some = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop) + 1)
            within = np.minimum(ends[some], stop) - np.maximum(ends[some] - counts[some], start)
            digest.update(np.repeat(words[some], as_index(within)).view(np.uint8).data)
    return digest.digest()


def _ends(records: PackedRecords, tables: Sequence[Codes | None]) -> Codes:
    """Return numbers that part the records into sets of about as many as are sorted at once."""
    parts = -(-len(records) // _SORTED_AT_ONCE)
    if parts <= 1:
        return _NO_WORDS
    sample = np.sort(np.concatenate([words[:: 32 * parts].copy() for words in records.sums(tables)]))
    return np.unique(sample[:: max(1, len(sample) // parts)][1:parts])


def _word_groups(shape: Sequence[int]) -> list[list[int]]:
    """Return which attributes are in a word of 64 bits together, by their places in declared order."""
    groups: list[list[int]] = [[]]
    for place, size in enumerate(shape):
        if size * math.prod(shape[other] for other in groups[-1]) > 2**64:
            groups.append([])
        groups[-1].append(place)
    return groups


def _word_tables(shape: Sequence[int]) -> list[list[Words | None]]:
    """Return what each cell of each attribute adds to the words that ``cell_words`` makes, word by word."""
    found = []
    for group in _word_groups(shape):
        tables: list[Words | None] = [None] * len(shape)
        for number, place in enumerate(group):
            stride = math.prod(shape[other] for other in group[number + 1 :])
            tables[place] = np.arange(shape[place], dtype=np.uint64) * np.uint64(stride % 2**64)
        found.append(tables)
    return found
