"""Blocks: runs of answers that drew no noise, each one row of compressed columns.

The chain covers a block's row with a hash of its answers, so that none can be altered, exchanged or lost. A
question is found by 32 bits of its text; its text decides. These keys are kept in memory, 8 bytes an answer,
once a question is looked up.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError
from pmw.session.store.answer_rows import StoredAnswer
from pmw.session.store.columns import AnswerColumns, packed, question_keys, unpacked
from queries.memory import Memory

__all__ = [
    "Blocks",
]

_DECODED = 64  # blocks that are kept as columns
_RECENT = 2**14  # keys that are sorted again with each new block
_BITS = np.uint64(32)  # of a number, below the bits of a question's key
_NONE = np.empty(0, dtype=np.uint64)
_INSERT = f"INSERT INTO blocks VALUES ({', '.join('?' * 9)})"
_READ = "SELECT sequence, size, analyst, confidence, share, version, keys, hash, answers FROM blocks"


class Blocks:
    """The blocks of a session file.

    Args:
        connection: to the file.
        name: what messages call the session.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._decoded: Memory[AnswerColumns] = Memory(_DECODED)
        self.forget()

    def forget(self) -> None:
        """Forget what was read: blocks that were written may be gone again."""
        self._decoded = Memory(_DECODED)
        self._sorted = self._recent = _NONE  # a question's key and an answer's number, sorted
        self._known = 0  # the number of the first answer of the newest block whose keys are known

    def insert(self, first: int, columns: AnswerColumns) -> None:
        """Add a block, inside a transaction; its first answer has this number."""
        keys, answers = question_keys(columns.texts).astype("<u4").tobytes(), packed(columns)
        shared = columns.analyst, columns.confidence, columns.share, columns.version
        row = (first, len(columns), *shared, keys, _hash(answers), answers)
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

    def newest(self, texts: Sequence[str]) -> list[tuple[int, StoredAnswer] | None]:
        """Return the newest answer in a block to each of some questions, with its number, or None."""
        self._read_keys()
        keys = question_keys(texts).astype(np.uint64) << _BITS
        found: list[tuple[int, StoredAnswer] | None] = [None] * len(texts)
        for held in (self._sorted, self._recent):  # what is newer comes later
            low = np.searchsorted(held, keys)
            high = np.searchsorted(held, keys | np.uint64(2**32 - 1), side="right")
            for place in np.flatnonzero(high > low).tolist():
                for key in held[low[place] : high[place]][::-1]:
                    number = int(key & np.uint64(2**32 - 1))
                    answer = self.at(number)
                    if answer is not None and answer.query == texts[place]:
                        found[place] = number, answer
                        break
        return found

    def each(self) -> Iterator[tuple[int, AnswerColumns]]:
        """Yield the blocks with the numbers of their first answers, in order; their keys are compared.

        Raises:
            SessionCorruptError: one was altered.
        """
        for row in self._connection.execute(f"{_READ} ORDER BY sequence"):
            columns = self._read(row)
            if question_keys(columns.texts).astype("<u4").tobytes() != row[6]:
                raise self._damaged()
            yield row[0], columns

    def _columns(self, first: int) -> AnswerColumns:
        known = self._decoded.get(first)
        if known is None:
            row = self._connection.execute(f"{_READ} WHERE sequence = ?", (first,)).fetchone()
            if row is None:
                raise self._damaged()
            known = self._read(row)
            self._decoded.keep(first, known)
        return known

    def _read(self, row: tuple[Any, ...]) -> AnswerColumns:
        _, size, *shared, _, found, answers = row
        if _hash(answers) == found:
            with contextlib.suppress(ValueError, TypeError):
                columns = unpacked(answers, *shared)
                if len(columns) == size:
                    return columns
        raise self._damaged()

    def _read_keys(self) -> None:
        """Read the keys of blocks that are new since the last look."""
        statement = "SELECT sequence, size, keys FROM blocks WHERE sequence > ? ORDER BY sequence"
        new = list[NDArray[np.uint64]]()
        for first, size, raw in self._connection.execute(statement, (self._known,)):
            keys = np.frombuffer(raw, dtype="<u4").astype(np.uint64)
            if keys.size != size:
                raise self._damaged()
            new.append((keys << _BITS) | np.arange(first, first + size, dtype=np.uint64))
            self._known = first
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


def _hash(answers: bytes) -> bytes:
    return hashlib.blake2b(answers, digest_size=32).digest()
