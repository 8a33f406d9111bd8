"""What Spark's workers run: the encoder of every other source, over the Arrow batches of a partition.

A worker turns records into words, whole numbers of 64 bits that hold the cells of several attributes each,
and behind them the places of values on grids (``domain.stored``).
It calls the code that every source calls: ``arrow_parts`` reads values, ``kept_codes`` encodes and drops,
``keep_bounded`` chooses the records of a person. So a record has the same cells here as elsewhere.

Privacy: the workers hold true records, and for persons the secret key; both stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data.arrow_stream import arrow_parts
from pmw.data.memory import kept_codes
from pmw.data.people import OWN, PeopleRecords, Roster, hashes_of, keep_bounded
from queries.domain import Domain
from queries.frozen import dataclass
from queries.records import CodedRecords, Columns

Stage: TypeAlias = Callable[[Iterator[Any]], Iterator[Any]]  # of a partition: batches in, batches out
_Numbers: TypeAlias = NDArray[np.int64]

HASHES = 4  # independent hashes of 64 bits of a record, in the fingerprint
# Of a record, where persons are declared: two hashes of the id; 1 where it has none and is its own person.
OWNER_COLUMNS = ("k0", "k1", "own")

_WORD_BITS = 63  # a long of Spark has a sign
_ROWS = 2**18  # encoded at a time


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the cell of each attribute stands in the words of a record.

    Args:
        places: per attribute: the word, the lowest bit, and the number of bits.
    """

    shape: tuple[int, ...]
    places: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, domain: Domain) -> Layout:
        """Return the layout of a domain: attributes in declared order, as many to a word as fit."""
        places, word, filled = [], 0, 0
        for size in domain.shape:
            bits = (size - 1).bit_length()
            if filled + bits > _WORD_BITS:
                word, filled = word + 1, 0
            places.append((word, filled, bits))
            filled += bits
        return cls(tuple(domain.shape), tuple(places))

    @property
    def words(self) -> int:
        """The number of words."""
        return self.places[-1][0] + 1

    def packed(self, codes: Sequence[NDArray[Any]]) -> list[_Numbers]:
        """Return the words of records, int64, shape (records,) each, from the cells of each attribute."""
        words = [np.zeros(len(codes[0]), dtype=np.int64) for _ in range(self.words)]
        for (word, low, _), column in zip(self.places, codes, strict=True):
            words[word] |= column.astype(np.int64) << np.int64(low)
        return words

    def unpacked(self, words: Sequence[_Numbers]) -> list[NDArray[np.unsignedinteger[Any]]]:
        """Return one array of cells per attribute from the words of records."""
        return [
            (words[word] >> np.int64(low) & np.int64(2**bits - 1)).astype(np.min_scalar_type(size - 1))
            for (word, low, bits), size in zip(self.places, self.shape, strict=True)
        ]


def encoder(domain: Domain, key: bytes | None) -> Stage:
    """Return the stage that turns records into words, and drops those that every source drops.

    Returns:
        A stage whose batches have ``domain.columns`` before, under the names c0, c1, ..., and words, and
        ``OWNER_COLUMNS`` where persons are declared, after.
    """

    placed = _placed(domain)

    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        for table in _tables(batches):
            for columns in arrow_parts(table, placed):
                yield _batch(_encoded(columns, placed, key))

    return encode


def bounder(domain: Domain, records: int) -> Stage:
    """Return the stage that keeps at most so many records of each person, and clips their values.

    A partition holds all records of each of its persons; what is kept of a person depends on these alone.
    """

    def bound(batches: Iterator[Any]) -> Iterator[Any]:
        layout = Layout.of(domain)
        *words, first, second, own = _columns(batches, layout.words + len(OWNER_COLUMNS))
        hashes = np.stack([first, second]).view(np.uint64)
        found = PeopleRecords.of(CodedRecords(domain, tuple(layout.unpacked(words))), hashes, own != 0)
        yield _batch(layout.packed(keep_bounded(found, records)[0].columns))

    return bound


def summer(columns: int, keys: Sequence[str]) -> Stage:
    """Return the stage that adds up keyed hashes of a partition's records, modulo 2^64, and counts them.

    Such sums tell multisets from others, in any order and however they are parted.

    Args:
        keys: ``HASHES`` secret keys of 16 characters.

    Source: Clarke, Devadas, van Dijk, Gassend and Suh (2003), MSet-Add-Hash; SipHash-2-4 as pandas has it.
    """

    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        from pandas.util import hash_array  # late: only on a worker

        sums = np.zeros(len(keys) + 1, dtype=np.uint64)
        for table in _tables(batches):
            rows = np.stack(_columns(iter(table.to_batches()), columns), axis=1)
            distinct, times = np.unique(rows, axis=0, return_counts=True)
            raw, width = distinct.tobytes(), distinct.itemsize * columns
            texts = np.empty(len(distinct), dtype=object)
            texts[:] = [raw[start : start + width] for start in range(0, len(raw), width)]
            for place, key in enumerate(keys):
                hashes = hash_array(texts, hash_key=key, categorize=False)
                sums[place] += (hashes * times.astype(np.uint64)).sum(dtype=np.uint64)
            sums[-1] += np.uint64(len(rows))
        yield _batch([sums[place : place + 1].view(np.int64) for place in range(len(sums))])

    return add_up


def _placed(domain: Domain) -> Domain:
    """Return a domain whose columns are called by their places: DuckDB takes A and a for one name."""
    names = {name: f"c{place}" for place, name in enumerate(domain.columns)}
    person = domain.person
    return Domain(
        tuple(replace(attribute, name=names[attribute.name]) for attribute in domain),
        domain.name,
        None
        if person is None
        else replace(
            person,
            column=names[person.column],
            constant=tuple(names[name] for name in person.constant),
            clips=tuple((names[name], most) for name, most in person.clips),
        ),
        impossible=tuple(
            replace(one, scope=tuple(names[name] for name in one.scope)) for one in domain.impossible
        ),
    )


def _encoded(columns: Columns, domain: Domain, key: bytes | None) -> list[_Numbers]:
    roster = None if domain.person is None or key is None else Roster(domain.person, key)
    words = Layout.of(domain.stored).packed(kept_codes(columns, domain, roster))
    if roster is None:
        return words
    persons, keys = roster.finish()
    return [*words, *hashes_of(persons, keys).view(np.int64), (persons == OWN).astype(np.int64)]


def _tables(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of a partition as tables of Arrow, of many records each."""
    import pyarrow as pa  # late: only on a worker

    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(len(one) for one in held) >= _ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _columns(batches: Iterator[Any], columns: int) -> list[_Numbers]:
    held = list(batches)
    empty = np.empty(0, dtype=np.int64)
    return [
        np.concatenate([empty, *(batch.column(place).to_numpy() for batch in held)])
        for place in range(columns)
    ]


def _batch(columns: Sequence[_Numbers]) -> Any:
    import pyarrow as pa  # late: only on a worker

    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=pa.int64()) for column in columns],
        names=[f"c{i}" for i in range(len(columns))],
    )
