"""Digests: what tells a table's records from others, whatever their order.

A record is a few numbers of 64 bits. They are put into order and hashed, in memory or by way of a file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.packed import PackedRecords
from pmw.data.sorted_rows import SortedRows
from queries.domain import Domain
from queries.records import CodedRecords

_SORTED_AT_ONCE = 2**24  # records

Words = NDArray[np.uint64]
_NO_WORDS: Words = np.zeros(0, dtype=np.uint64)


def cell_words(
    records: CodedRecords, places: NDArray[np.signedinteger[Any]] | slice = slice(None)
) -> list[Words]:
    """Return the cells of records as numbers of 64 bits, all of them equal where all cells are."""
    count = len(records.columns[0][places])
    words = [np.zeros(count, dtype=np.uint64)]
    filled = 1
    for size, column in zip(records.domain.shape, records.columns, strict=True):
        filled *= size
        if filled > 2**64:
            words.append(np.zeros(count, dtype=np.uint64))
            filled = size
        words[-1] *= np.uint64(size)
        words[-1] += column[places]
    return words


def records_of(domain: Domain, words: Sequence[Words]) -> CodedRecords:
    """Return the records that ``cell_words`` gives these words for."""
    columns: list[NDArray[np.unsignedinteger[Any]]] = []
    for tables, word in zip(_word_tables(domain.shape), words, strict=True):
        rest = word
        sizes = [size for size, table in zip(domain.shape, tables, strict=True) if table is not None]
        found = []
        for size in reversed(sizes):
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
    """Return ``multiset_digest`` of the records' ``cell_words``, in little memory.

    Raises:
        DataError: they are in a file, and the disk is full, or fails.
    """
    tables = _word_tables(records.domain.shape)
    if records.limit is not None:
        rows = SortedRows(len(tables), records.limit)
        for found in records.several_sums(tables):
            rows.add(found)
        return rows.digest()
    if len(tables) > 1:
        return multiset_digest([np.concatenate([_NO_WORDS, *records.sums(each)]) for each in tables])
    digest = hashlib.sha256(len(records).to_bytes(8, "little"))
    ends = _ends(records, tables[0])
    sizes = np.zeros(len(ends) + 1, dtype=np.int64)
    for words in records.sums(tables[0]):
        sizes += np.bincount(_parts(ends, words), minlength=len(sizes))
    space = np.empty(int(sizes.max()), dtype=np.uint64)  # used again for each part
    for part, size in enumerate(sizes.tolist()):
        filled = 0
        for words in records.sums(tables[0]):
            chosen = words[_parts(ends, words) == part]
            space[filled : filled + len(chosen)] = chosen
            filled += len(chosen)
        space[:size].sort()
        digest.update(space[:size].view(np.uint8).data)
    return digest.digest()


def _ends(records: PackedRecords, tables: Sequence[Words | None]) -> Words:
    """Return words that part the records into sets of about as many as are sorted at once."""
    parts = -(-len(records) // _SORTED_AT_ONCE)
    if parts <= 1:
        return _NO_WORDS
    sample = np.sort(np.concatenate([words[:: 32 * parts].copy() for words in records.sums(tables)]))
    return np.unique(sample[:: max(1, len(sample) // parts)][1:parts])


def _parts(ends: Words, words: Words) -> NDArray[np.int64]:
    """Return the part of each word: how many of the ends are not above it."""
    return np.searchsorted(ends, words, "right")


def _word_tables(shape: Sequence[int]) -> list[list[Words | None]]:
    """Return what each cell of each attribute adds to the words that ``cell_words`` makes, word by word."""
    words: list[list[int]] = [[]]
    for place, size in enumerate(shape):
        if size * math.prod(shape[other] for other in words[-1]) > 2**64:
            words.append([])
        words[-1].append(place)
    found = []
    for word in words:
        tables: list[Words | None] = [None] * len(shape)
        for number, place in enumerate(word):
            stride = math.prod(shape[other] for other in word[number + 1 :])
            tables[place] = np.arange(shape[place], dtype=np.uint64) * np.uint64(stride % 2**64)
        found.append(tables)
    return found
