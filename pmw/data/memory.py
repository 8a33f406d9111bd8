"""Tables of this machine: taken in part by part, dropped and bounded, packed, and counted by ``bincount``.

Every table that is read goes through here, so that all of them drop and bound alike: first records are
dropped, each by its own values, then, where the domain declares persons, at most K of each are kept
(``pmw.data.people``). Packed cell numbers are in memory, or in a scratch file where they exceed a limit.
Counts are the same.

Records of persons are held in memory or, beyond a limit, parted in a file: they go into buckets by the hash
of the id, so that all records of a person are in one bucket, and buckets are bounded one after the other.
What is kept, and the table's digest, are those of ``keep_bounded`` and ``PeopleRecords.identity`` over the
whole table.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.engine_columns import require_ids
from pmw.data.packed import BlockKeeper, Codes, PackedRecords, add_up, pack, packed_digest, records_of
from pmw.data.people import (
    OWN,
    Bound,
    Numbers,
    PeopleRecords,
    Roster,
    chosen_records,
    clipped,
    keep_bounded,
    required_bound,
)
from pmw.data.refusals import detached
from pmw.data.scratch import MemoryLimit, ScratchFile, SortedRows, StoredArray, Words
from pmw.data.source import Bins, CountSource, no_values
from queries.domain import Domain
from queries.frozen import dataclass
from queries.impossible import possible_records
from queries.numbers import ValueGrid
from queries.records import (
    CodedRecords,
    Columns,
    encode_columns,
    encode_places,
    frame_columns,
    kept_records,
)
from queries.schema import stored_schema

if TYPE_CHECKING:
    import pandas as pd

_BUCKET_BITS = 8  # of the first hash, at each parting
_HASH_BITS = 64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TablePart:
    """Some records of a table, in its order.

    Args:
        malformed: why lines of a file could not be read, by their numbers, its first line being 1.
    """

    columns: Columns
    malformed: Mapping[int, str] = field(default_factory=dict)


class PeopleIntake:
    """Bounds the records of persons."""

    def __init__(self, domain: Domain, bound: Bound, limit: MemoryLimit) -> None:
        self._domain, self._bound, self._limit = domain, bound, limit
        self.roster = Roster(bound.person, bound.key)
        self._blocks: list[tuple[Codes, ...]] = []
        self._records = 0
        self._persons = 0  # whose records are kept
        # Where one record of each is kept, records are persons.
        self._numbers_persons = bound.records > 1
        self._kept = BlockKeeper(domain, limit, single=self._numbers_persons)
        self._everyone: SortedRows | None = None
        self._buckets: _Buckets | None = None

    def add(self, block: tuple[Codes, ...]) -> None:
        """Take in the cells of records whose persons ``roster`` took in just before."""
        self._blocks.append(block)
        self._records += len(block[0])
        if self._records > self._limit.records_with_persons:
            self._set_aside()

    def finish(self) -> tuple[PackedRecords, Bound, bytes]:
        """Return the records that are kept, how they were bounded, and what tells the table from others."""
        if self._everyone is None or self._buckets is None:
            found = self._found()
            self._keep(found)
            identity = found.identity()
        else:
            self._set_aside()
            identity = self._everyone.digest()
            self._everyone = None  # its file is gone
            for rows in self._buckets.each(self._limit.records_with_persons):
                records, everyone = records_of(self._domain, rows[2:]), np.zeros(len(rows[0]), dtype=bool)
                self._keep(PeopleRecords.of(records, np.stack(rows[:2]), everyone))  # all have an id
        persons = self._persons if self._numbers_persons else None
        return self._kept.finish(persons), self._bound, identity

    def _found(self) -> PeopleRecords:
        """Return the records that are held, which are held no more."""
        blocks, roster = tuple(self._blocks), self.roster
        self._blocks, self._records = [], 0
        self.roster = Roster(self._bound.person, self._bound.key)
        return PeopleRecords(PackedRecords(self._domain, blocks).unpacked(), *roster.finish())

    def _keep(self, found: PeopleRecords) -> None:
        self._add(*keep_bounded(found, self._bound.records), found.keys.shape[1])

    def _add(self, kept: CodedRecords, persons: Numbers, known: int) -> None:
        """Take in what is kept of some persons whose other records were all taken in with these."""
        block = pack(self._domain, kept.columns)
        if self._numbers_persons:
            own = persons == OWN
            numbers = np.where(own, known - 1 + np.cumsum(own), persons) + self._persons
            self._persons += known + int(own.sum())
            block = (*block, numbers.astype(np.min_scalar_type(self._persons)))
        self._kept.add(block)

    def _set_aside(self) -> None:
        """Write the records that are held to a file, those left out that no bounding of all would keep."""
        found = self._found()
        words = found.words
        if self._everyone is None or self._buckets is None:
            self._everyone = SortedRows(len(words), self._limit)
            self._buckets = _Buckets(ScratchFile(self._limit.folder))
        self._everyone.add(words)
        own = found.persons == OWN
        alone = CodedRecords(self._domain, tuple(column[own] for column in found.records.columns))
        self._add(clipped(alone, found.persons[own]), found.persons[own], 0)
        named = chosen_records(found, self._bound.records) & ~own
        self._buckets.add([word[named] for word in words])


class _Buckets:
    """Rows in a file, parted by some bits of their first word (secret)."""

    def __init__(self, file: ScratchFile, passed: int = 0) -> None:
        self._file, self._passed = file, passed
        self._pieces: list[tuple[list[StoredArray], list[int]]] = []

    def add(self, rows: Sequence[Words]) -> None:
        """Take in rows: uint64, shape (rows,), one array per word."""
        low = np.uint64(_HASH_BITS - self._passed - _BUCKET_BITS)
        numbers = (rows[0] >> low & np.uint64(2**_BUCKET_BITS - 1)).astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=2**_BUCKET_BITS))
        self._pieces.append(([self._file.append(word[order]) for word in rows], [0, *ends.tolist()]))

    def each(self, most: int) -> Iterator[list[Words]]:
        """Yield the rows bucket by bucket; one of more rows than that is parted again as far as it can be."""
        passed = self._passed + _BUCKET_BITS
        for bucket in range(2**_BUCKET_BITS):
            rows = sum(ends[bucket + 1] - ends[bucket] for _, ends in self._pieces)
            if rows > most and passed < _HASH_BITS:
                inner = _Buckets(self._file, passed)
                for piece in self._read(bucket):
                    inner.add(piece)
                yield from inner.each(most)
            elif rows:
                yield [np.concatenate(word) for word in zip(*self._read(bucket), strict=True)]

    def _read(self, bucket: int) -> Iterator[list[Words]]:
        for words, ends in self._pieces:
            if count := ends[bucket + 1] - ends[bucket]:
                yield [word.read(ends[bucket], count) for word in words]


class Intake:
    """Takes in a table part by part."""

    def __init__(self, domain: Domain, key: bytes | None, limit: MemoryLimit | None = None) -> None:
        self._domain, self._stored, limit = domain, domain.stored, limit or MemoryLimit()
        bound = required_bound(domain, key)
        self._people = None if bound is None else PeopleIntake(self._stored, bound, limit)
        self._kept = BlockKeeper(self._stored, limit)

    def add(self, part: TablePart) -> None:
        """Take in the records of a part; of those that cannot be read all values are undeclared."""
        people = self._people
        codes = kept_codes(part.columns, self._domain, None if people is None else people.roster)
        (self._kept if people is None else people).add(pack(self._stored, codes))
        if part.malformed and holds_malformed(self._domain):
            others = [np.full(len(part.malformed), attribute.other_code) for attribute in self._stored]
            self._kept.add(pack(self._stored, others))

    def finish(self) -> tuple[PackedRecords, Bound | None, bytes | None]:
        """Return the records that a session counts, how those of persons were bounded, and the identity."""
        return (self._kept.finish(), None, None) if self._people is None else self._people.finish()


def frame_parts(frames: Iterable[pd.DataFrame], domain: Domain) -> Iterator[TablePart]:
    """Yield the records of pandas tables, declared columns only."""
    return (TablePart(frame_columns(frame, domain.columns)) for frame in frames)


def kept_codes(
    columns: Columns, domain: Domain, roster: Roster | None
) -> tuple[NDArray[np.signedinteger[Any]], ...]:
    """Return the cells of the records that are not dropped, and behind them the places of values on grids.

    These are as many arrays as ``domain.stored`` has attributes, shape (kept records,) each.

    Args:
        roster: takes in whose the kept records are; None where no persons are declared.
    """
    ids = ids_of(columns, domain)
    codes = encode_columns(columns, domain) + encode_places(columns, domain)
    kept = kept_records(codes, domain)
    if roster is not None and ids is not None:
        kept[kept] = roster.add(ids if kept.all() else ids[kept])
    return codes if kept.all() else tuple(column[kept] for column in codes)


def ids_of(columns: Columns, domain: Domain) -> pd.Series[Any] | None:
    """Return the column of ids of some records; None where no persons are declared."""
    if domain.person is None:
        return None
    ids = columns[domain.person.column].series()
    require_ids("the table", domain, {domain.person.column: declared_kind(ids.dtype)})
    return ids


def declared_kind(dtype: Any) -> str:
    """Return the type of a column of pandas; where it lists its values, or leaves empty ones out, theirs."""
    categories = getattr(dtype, "categories", None)
    kind = str(dtype if categories is None else categories.dtype)
    return kind.removeprefix("Sparse[").removeprefix("dictionary<values=")


def holds_malformed(domain: Domain) -> bool:
    """Return whether a record that cannot be read has a cell, which it never has where it needs a person."""
    if domain.person is not None or not all(attribute.other for attribute in domain):
        return False
    others = [np.array([attribute.other_code]) for attribute in domain]
    return bool(possible_records(domain.impossible, domain.names, others).all())


class MemorySource(CountSource):
    """A table of cell numbers.

    Args:
        identity: what tells the table from others, where persons are declared: the kept records alone do not
            tell whose they are, nor which were left out. None where the records tell it.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_identity", "_records")

    def __init__(
        self,
        records: CodedRecords | PackedRecords,
        bound: Bound | None = None,
        identity: bytes | None = None,
        binned: tuple[Domain, Bins] | None = None,
    ) -> None:
        super().__init__(records.domain.declared, bound, binned)
        if isinstance(records, CodedRecords):
            records = PackedRecords(records.domain, (pack(records.domain, records.columns),))
        self._records, self._identity = records, identity

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, domain: Domain, key: bytes | None = None) -> MemorySource:
        """Return the source of a pandas table; see ``from_parts``."""
        return cls.from_parts(frame_parts([frame], domain), domain, key)

    @classmethod
    def from_parts(
        cls, parts: Iterable[TablePart], domain: Domain, key: bytes | None, limit: MemoryLimit | None = None
    ) -> MemorySource:
        """Return the source of a table that comes part by part.

        A line of a CSV file that cannot be read is a record whose every value is undeclared: it counts in the
        ``other`` cells where every attribute has one, and is dropped otherwise, as any such record is. Where
        persons are declared it has none, and is dropped.

        Args:
            parts: of the table.
            domain: the declared attributes, and persons.
            key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
                declared.
            limit: how much memory the records may take, besides the parts; None for the usual.

        Raises:
            DataError: the table is none, or cannot be read, or lacks a declared column; persons are declared
                and there is no key; or the records exceed the limit, and the disk is full, or fails.
        """

        def taken_in() -> MemorySource:
            intake = Intake(domain, key, limit)
            for part in parts:
                intake.add(part)
            return cls(*intake.finish())

        return detached(taken_in)

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Count several scopes in one reading, where the records are in a file; else each when asked for.

        Privacy: exact and secret; nothing is returned.
        """
        if self._records.limit is not None:
            super().prepare(scopes)

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain and the cells of the records, in any order; where persons are
        declared, of all records before any was left out, and of their ids.
        """
        if self._identity is None:  # the records never change: a session that opens asks twice
            self._identity = packed_digest(self._records)
        digest = hmac.new(key, stored_schema(self.domain).encode(), hashlib.sha256)
        digest.update(self._identity)
        return digest.digest()

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        counted = [np.zeros(self.domain.scope_size(scope), dtype=np.int64) for scope in scopes]
        tables = [self._summands(scope) for scope in scopes if scope]
        looked_up = [counts for scope, counts in zip(scopes, counted, strict=True) if scope]
        sums = self._records.several_sums(tables) if tables else ()
        for found, times in zip(sums, self._records.times_by_block, strict=False):
            for counts, cells in zip(looked_up, found, strict=True):
                add_up(counts, cells, times)
        for counts in (counts for scope, counts in zip(scopes, counted, strict=True) if not scope):
            counts[0] = len(self._records)
        return counted

    def _sum(self, scope: tuple[str, ...], grid: ValueGrid, squared: bool) -> NDArray[np.int64]:
        stored = self._records.domain
        if grid.name not in stored:
            raise no_values(grid.attribute)
        places = np.zeros(grid.size, dtype=np.int64)  # 0 for an empty or undeclared value
        places[: grid.base_size] = np.arange(grid.base_size)
        if squared:
            places[: grid.base_size] = grid.squares(places[: grid.base_size])
        values: list[NDArray[np.int64] | None] = [None] * len(stored)
        values[stored.index(grid.name)] = places
        summed = np.zeros(self.domain.scope_size(scope), dtype=np.int64)
        found = self._records.several_sums([self._summands(scope), values])
        for (cells, placed), times in zip(found, self._records.times_by_block, strict=True):
            np.add.at(summed, cells, placed if times is None else placed * times)
        return summed

    @property
    def counts_persons(self) -> bool:
        """Whether it is kept whose the records are."""
        return self._records.owners is not None

    def _persons(self, scope: tuple[str, ...]) -> NDArray[np.int64]:
        if self.counts_persons and not scope:
            return np.array([self._records.persons], dtype=np.int64)
        if not self.counts_persons:
            return super()._persons(scope)
        return self._records.persons_of(self._summands(scope), self.domain.scope_size(scope))

    def _summands(self, scope: tuple[str, ...]) -> list[NDArray[np.int64] | None]:
        """Return what each cell of an attribute adds to the number of a cell of the scope."""
        tables: list[NDArray[np.int64] | None] = [None] * len(self._records.domain)
        for place, bin_, stride in self._strides(scope):
            cells = np.arange(self._declared.shape[place]) if bin_ is None else bin_.astype(np.int64)
            tables[place] = cells * stride
        return tables

    def _over(self, coarse: Domain, bins: Bins) -> MemorySource:
        return MemorySource(self._records, binned=(coarse, bins))
