"""Intake of persons: their records while a table is read, in memory or, beyond a limit, parted in a file.

Beyond the limit records go into buckets by the hash of the id, so that all records of a person are in one
bucket, and buckets are bounded one after the other. What is kept, and the table's digest, are those of
``keep_bounded`` and ``PeopleRecords.identity`` over the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pmw.data.digests import Words, records_of
from pmw.data.memory_limit import MemoryLimit
from pmw.data.packed import BlockKeeper, Codes, PackedRecords, pack
from pmw.data.people import OWN, Bound, PeopleRecords, Roster, chosen_records, keep_bounded
from pmw.data.scratch import ScratchFile, StoredArray
from pmw.data.sorted_rows import SortedRows
from queries.domain import Domain

if TYPE_CHECKING:
    from queries.person import Person

_BUCKET_BITS = 8  # of the first hash, at each parting
_HASH_BITS = 64


class PeopleIntake:
    """Bounds the records of persons.

    Args:
        domain: the declared attributes, and persons.
        person: what is declared of persons.
        key: 32 bytes, secret, that choose which records of a person are kept.
        limit: how much memory the records may take.
    """

    def __init__(self, domain: Domain, person: Person, key: bytes, limit: MemoryLimit) -> None:
        self._domain, self._person, self._key, self._limit = domain, person, key, limit
        self._most = person.records or 1
        self.roster = Roster(person, key)
        self._blocks: list[tuple[Codes, ...]] = []
        self._records = 0
        self._kept = BlockKeeper(domain, limit)
        self._everyone: SortedRows | None = None
        self._buckets: _Buckets | None = None

    def add(self, block: tuple[Codes, ...]) -> None:
        """Take in the cells of records whose persons ``roster`` took in just before.

        Raises:
            DataError: the file cannot be made, or the disk is full.
        """
        self._blocks.append(block)
        self._records += len(block[0])
        if self._records > self._limit.records_with_persons:
            self._set_aside()

    def finish(self) -> tuple[PackedRecords, Bound]:
        """Return the records that are kept, and how they were bounded.

        Raises:
            DataError: the disk is full, or fails.
        """
        if self._everyone is None or self._buckets is None:
            found = self._found()
            self._keep(found)
            identity = found.identity()
        else:
            self._set_aside()
            identity = self._everyone.digest()
            self._everyone = None  # its file is gone
            for rows in self._buckets.each(self._limit.records_with_persons):
                self._keep(_people(self._domain, rows))
        return self._kept.finish(), Bound(self._person, self._key, identity)

    def _found(self) -> PeopleRecords:
        """Return the records that are held, which are held no more."""
        blocks, roster = tuple(self._blocks), self.roster
        self._blocks, self._records = [], 0
        self.roster = Roster(self._person, self._key)
        return PeopleRecords(PackedRecords(self._domain, blocks).unpacked(), *roster.finish())

    def _keep(self, found: PeopleRecords) -> None:
        self._kept.add(pack(self._domain, keep_bounded(found, self._most).columns))

    def _set_aside(self) -> None:
        """Write the records that are held to a file, those left out that no bounding of all would keep."""
        found = self._found()
        words = found.words
        if self._everyone is None or self._buckets is None:
            self._everyone = SortedRows(len(words), self._limit)
            self._buckets = _Buckets(ScratchFile(self._limit.folder))
        self._everyone.add(words)
        own = found.persons == OWN
        self._kept.add(pack(self._domain, [column[own] for column in found.records.columns]))
        named = chosen_records(found, self._most) & ~own
        self._buckets.add([word[named] for word in words])


def _people(domain: Domain, rows: Sequence[Words]) -> PeopleRecords:
    """Return the records of rows, which all have an id."""
    hashes = np.stack([rows[0], rows[1]])
    return PeopleRecords.of(records_of(domain, rows[2:]), hashes, np.zeros(len(rows[0]), dtype=bool))


class _Buckets:
    """Rows in a file, parted by some bits of their first word (secret).

    Args:
        file: where they are.
        passed: the leading bits that all rows agree in.
    """

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
