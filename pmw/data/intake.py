"""Intake: the records of a table, part by part, into the cells that a session counts.

Every source goes through here, so that all of them drop and bound alike: first records are dropped, each by
its own values, then, where the domain declares persons, at most K of each are kept (``pmw.data.people``).

Records of persons are held in memory or, beyond a limit, parted in a file: they go into buckets by the hash
of the id, so that all records of a person are in one bucket, and buckets are bounded one after the other.
What is kept, and the table's digest, are those of ``keep_bounded`` and ``PeopleRecords.identity`` over the
whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.engine_columns import require_ids
from pmw.data.packed import BlockKeeper, Codes, PackedRecords, pack, records_of
from pmw.data.people import OWN, Bound, PeopleRecords, Roster, chosen_records, keep_bounded
from pmw.data.scratch import MemoryLimit, ScratchFile, SortedRows, StoredArray, Words
from pmw.errors import DataError
from queries.domain import Domain
from queries.records import encode_columns, named_column, require_frame
from queries.values import DROPPED

if TYPE_CHECKING:
    import pandas as pd

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


class Intake:
    """Takes in a table part by part.

    Args:
        domain: the declared attributes, and persons.
        key: 32 bytes, secret, that choose which records of a person are kept; None where the domain declares
            no persons.
        limit: how much memory the records may take; None for the usual.

    Raises:
        DataError: there is no key, or no number of records, and persons are declared.
    """

    def __init__(self, domain: Domain, key: bytes | None, limit: MemoryLimit | None = None) -> None:
        self._domain, person = domain, domain.person
        limit = limit or MemoryLimit()
        self._people: PeopleIntake | None = None
        if person is not None:
            if key is None or person.records is None:
                raise DataError(
                    f"expected a key and a number of records per person, since {domain.name!r} declares the "
                    f"column {person.column!r} of ids, got none; open a session on the table itself"
                )
            self._people = PeopleIntake(domain, person, key, limit)
        self._kept = BlockKeeper(domain, limit)

    def add(self, frame: pd.DataFrame) -> None:
        """Take in the records of a part.

        Raises:
            RecordsError: it is no pandas table, or a declared column is absent or stands there twice.
            DataError: the column of ids is of a type that is refused; or the records exceed the limit, and
                the disk is full, or fails.
        """
        people = self._people
        codes = kept_codes(frame, self._domain, None if people is None else people.roster)
        (self._kept if people is None else people).add(pack(self._domain, codes))

    def add_malformed(self, count: int) -> None:
        """Take in so many records that cannot be read: all their values are undeclared."""
        if count and holds_malformed(self._domain):
            codes = [np.full(count, attribute.other_code) for attribute in self._domain]
            self._kept.add(pack(self._domain, codes))

    def finish(self) -> tuple[PackedRecords, Bound | None]:
        """Return the records that a session counts, and how they were bounded, if they were.

        Raises:
            DataError: the records exceed the limit, and the disk is full, or fails.
        """
        return (self._kept.finish(), None) if self._people is None else self._people.finish()


def kept_codes(frame: pd.DataFrame, domain: Domain, roster: Roster | None) -> tuple[NDArray[np.int64], ...]:
    """Return the cells of the records that are not dropped: one array per attribute, shape (kept records,).

    Args:
        frame: some records.
        domain: the declared attributes, and persons.
        roster: takes in whose the kept records are; None where no persons are declared.

    Raises:
        RecordsError: it is no pandas table, or a declared column is absent or stands there twice.
        DataError: the column of ids is of a type that is refused.
    """
    require_frame(frame)
    person = domain.person
    ids = None if person is None else named_column(frame, person.column)
    if person is not None and ids is not None:
        require_ids("the table", domain, {person.column: _declared_kind(ids.dtype)})
    codes = encode_columns(frame, domain)
    kept = np.ones(len(frame), dtype=bool)
    for column in codes:
        kept &= column != DROPPED
    if roster is not None and ids is not None:
        kept[kept] = roster.add(ids if kept.all() else ids[kept])
    return codes if kept.all() else tuple(column[kept] for column in codes)


def _declared_kind(dtype: Any) -> str:
    """Return the type of a column of pandas; where it lists its values, or leaves empty ones out, theirs."""
    categories = getattr(dtype, "categories", None)
    kind = str(dtype if categories is None else categories.dtype)
    return kind.removeprefix("Sparse[").removeprefix("dictionary<values=")


def holds_malformed(domain: Domain) -> bool:
    """Return whether a record that cannot be read has a cell, which it never has where it needs a person."""
    return domain.person is None and all(attribute.other for attribute in domain)
