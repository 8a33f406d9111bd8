"""Blocks: runs of answers that drew no noise, each one row of compressed columns.

The chain covers a block's row with a hash of its answers, so that none can be altered, exchanged or lost. A
question is found by 32 bits of its text; its text decides. These keys are kept in memory, 8 bytes an answer,
once a question is looked up.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError
from pmw.session.store.answer_rows import FIRST, StoredAnswer
from pmw.session.store.columns import AnswerColumns, are_same, packed, question_keys, unpacked

_DECODED = 2**25  # bytes of columns that are kept; one block is kept in any case
_RECENT = 2**14  # keys that are sorted again with each new block
_BITS = np.uint64(32)  # of a number, below the bits of a question's key
_NUMBER = np.uint64(2**32 - 1)
_NONE = np.empty(0, dtype=np.uint64)
_INSERT = f"INSERT INTO blocks VALUES ({', '.join('?' * 11)})"
_READ = "SELECT sequence, size, analyst, confidence, share, version, hash, answers, keys FROM blocks"


class Blocks:
    """The blocks of a session file.

    Args:
        connection: to the file.
        name: what messages call the session.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._decoded = OrderedDict[int, AnswerColumns]()  # by their first answers, the oldest look first
        self.forget()

    def forget(self) -> None:
        """Forget what was read: blocks that were written may be gone again."""
        self._decoded.clear()
        self._held = 0  # bytes of the decoded blocks
        self._sorted = self._recent = _NONE  # a question's key and an answer's number, sorted
        self._firsts = list[int]()  # the numbers of the first answers of the blocks whose keys are known

    def insert(self, first: int, columns: AnswerColumns) -> None:
        """Add a block, inside a transaction; its first answer has this number."""
        keys, answers = question_keys(columns.texts).astype("<u4").tobytes(), packed(columns)
        shared = columns.analyst, columns.confidence, columns.share, columns.version
        kinds = sum(columns.kinds.tobytes().count(code) for code in columns.named_kinds())
        settled = columns.settled.tobytes().count(FIRST)
        row = (first, len(columns), *shared, kinds, settled, keys, _hash(answers), answers)
        self._connection.execute(_INSERT, row)

    def spans(self) -> list[tuple[int, int]]:
        """Return the number of each block's first answer, and of the one after its last, in order."""
        found = self._connection.execute("SELECT sequence, size FROM blocks ORDER BY sequence")
        return [(first, first + size) for first, size in found]

    def counts(self) -> dict[str, int]:
        """Return how many answers each analyst was given in blocks."""
        return dict(self._connection.execute("SELECT analyst, sum(size) FROM blocks GROUP BY analyst"))

    def shares(self, places: Sequence[int]) -> list[tuple[int, float]]:
        """Return the share spent at those of some answers that are in blocks, with their numbers."""
        wanted = np.sort(np.array(places, dtype=np.int64))
        found = list[tuple[int, float]]()
        for first, size, share in self._connection.execute("SELECT sequence, size, share FROM blocks"):
            low, high = np.searchsorted(wanted, (first, first + size))
            found += [(int(place), share) for place in wanted[low:high]]
        return found

    def newest_numbers(self, analyst: str | None, most: int) -> list[int]:
        """Return the numbers of the newest answers in blocks, the newest first."""
        which, given = ("WHERE analyst = ?", (analyst,)) if analyst is not None else ("", ())
        statement = f"SELECT sequence, size FROM blocks {which} ORDER BY sequence DESC"
        found = list[int]()
        for first, size in self._connection.execute(statement, given):
            found += range(first + size - 1, first - 1, -1)[: most - len(found)]
            if len(found) >= most:
                break
        return found

    def at(self, number: int) -> StoredAnswer | None:
        """Return the answer of a number; None where it is in no block."""
        where = "WHERE sequence <= ? ORDER BY sequence DESC LIMIT 1"
        row = self._connection.execute(f"SELECT sequence, size FROM blocks {where}", (number,)).fetchone()
        if row is None or number >= row[0] + row[1]:
            return None
        return self._columns(row[0]).answer(number - row[0])

    def newest(self, texts: Sequence[str], keys: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the numbers of the newest answers in blocks to some questions, 0 where there is none.

        Args:
            texts: of the questions.
            keys: of the texts.
        """
        self._read_keys()
        found = np.zeros(len(texts), dtype=np.int64)
        for held in (self._recent, self._sorted):  # what is newer comes first
            starts, stops = _spans(held, keys)
            places = np.flatnonzero((stops > starts) & (found == 0))
            while places.size:  # each with the newest answer of its key that was not looked at
                stops[places] -= 1
                numbers = (held[stops[places]] & _NUMBER).astype(np.int64)
                same = np.zeros(places.size, dtype=bool)
                for columns, own, at in self.places(numbers):
                    same[at] = are_same(columns.texts, own, texts, places[at])
                found[places[same]] = numbers[same]
                left = places[~same]
                places = left[stops[left] > starts[left]]
        return found

    def places(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[AnswerColumns, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the blocks of answers that were found, with their places there, and in ``numbers``."""
        blocks = np.searchsorted(np.array(self._firsts, dtype=np.int64), numbers, side="right") - 1
        for block in np.flatnonzero(np.bincount(blocks)).tolist():
            at, first = np.flatnonzero(blocks == block), self._firsts[block]
            yield self._columns(first), numbers[at] - first, at

    def each(self) -> Iterator[tuple[int, AnswerColumns]]:
        """Yield the blocks with the numbers of their first answers, in order; their keys are compared.

        Raises:
            SessionCorruptError: one was altered.
        """
        for *row, keys in self._connection.execute(f"{_READ} ORDER BY sequence"):
            columns = self._read(row)
            if question_keys(columns.texts).astype("<u4").tobytes() != keys:
                raise self._damaged()
            yield row[0], columns

    def first_answers(self, *, with_kinds: bool) -> Iterator[tuple[int, AnswerColumns, NDArray[np.bool_]]]:
        """Yield blocks in order: the number of the first answer, the block, and which settle questions first.

        Args:
            with_kinds: only blocks in which some answer has a kind.
        """
        which = "AND kinds > 0" if with_kinds else ""
        for *row, _ in self._connection.execute(f"{_READ} WHERE settled > 0 {which} ORDER BY sequence"):
            columns = self._read(row)
            yield row[0], columns, columns.settled == FIRST

    def settled_count(self, last: int) -> int:
        """Return how many questions were first settled in blocks, by answers up to a number."""
        count = 0
        rows = "SELECT sequence, size, settled FROM blocks WHERE sequence <= ?"
        for first, size, settled in self._connection.execute(rows, (last,)).fetchall():
            is_whole = first + size - 1 <= last
            count += (
                settled
                if is_whole
                else int((self._columns(first).settled[: last - first + 1] == FIRST).sum())
            )
        return count

    def _columns(self, first: int) -> AnswerColumns:
        known = self._decoded.get(first)
        if known is not None:
            self._decoded.move_to_end(first)
        else:
            row = self._connection.execute(f"{_READ} WHERE sequence = ?", (first,)).fetchone()
            if row is None:
                raise self._damaged()
            known = self._read(row[:-1])
            self._decoded[first] = known
            self._held += known.nbytes
            while self._held > _DECODED and len(self._decoded) > 1:
                self._held -= self._decoded.popitem(last=False)[1].nbytes
        return known

    def _read(self, row: Sequence[Any]) -> AnswerColumns:
        _, size, *shared, found, answers = row
        if _hash(answers) == found:
            with contextlib.suppress(ValueError, TypeError):
                columns = unpacked(answers, *shared)
                if len(columns) == size:
                    return columns
        raise self._damaged()

    def _read_keys(self) -> None:
        """Read the keys of blocks that are new since the last look."""
        statement = "SELECT sequence, size, keys FROM blocks WHERE sequence > ? ORDER BY sequence"
        new, known = list[NDArray[np.uint64]](), self._firsts[-1] if self._firsts else 0
        for first, size, raw in self._connection.execute(statement, (known,)):
            keys = np.frombuffer(raw, dtype="<u4").astype(np.uint64)
            if keys.size != size:
                raise self._damaged()
            new.append((keys << _BITS) | np.arange(first, first + size, dtype=np.uint64))
            self._firsts.append(first)
        if not new:
            return
        self._recent = np.sort(np.concatenate([self._recent, *new]))
        if self._recent.size > _RECENT:
            self._sorted = np.sort(np.concatenate([self._sorted, self._recent]))
            self._recent = _NONE

    def _damaged(self) -> SessionCorruptError:
        return SessionCorruptError(
            f"{self._name}: the session file is damaged: a row of its blocks of answers was altered"
        )


def _spans(held: NDArray[np.uint64], keys: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where in ``held`` the answers of each key start and stop: int64, shape (n,) each."""
    low = keys.astype(np.uint64) << _BITS
    return np.searchsorted(held, low), np.searchsorted(held, low | _NUMBER, side="right")


def _hash(answers: bytes) -> bytes:
    return hashlib.blake2b(answers, digest_size=32).digest()
