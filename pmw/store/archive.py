"""The archive: stored answers in compressed blocks, found again by question, by request and by number.

An answer that drew no noise need not lie in a row of its own for ever: most of the row is the text of its
question, and texts resemble one another. Blocks hold answers as they were released, down to the last bit, and
a short key for each leads to them. A key is checked against the answer that it led to.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.store.answer_rows import answer_of_row, query_key, row_of_answer
from pmw.store.checksums import insertion, require_checksum, sealed
from pmw.store.rows import StoredAnswer
from pmw.store.schema import COLUMNS

__all__ = [
    "Archive",
    "BLOCK",
]

BLOCK = 512  # answers; to look one of them up takes a few milliseconds
_KEY = 16  # bytes: who chooses questions and marks would try 2^64 of them until two keys are alike
_COLUMNS = ", ".join((*COLUMNS["archive"], "checksum"))
_INSERT_KEY = "INSERT OR REPLACE INTO archive_keys VALUES (?, ?)"


class Archive:
    """The blocks of a session file.

    Args:
        connection: to a file of the newest format.
        name: what messages call the session.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._read: tuple[int, dict[int, StoredAnswer]] = (0, {})  # the block that was read last

    def add(self, answers: Sequence[tuple[int, StoredAnswer]]) -> None:
        """Add a block of answers with their numbers, in order; inside a transaction.

        A key leads to the newest answer to a query, and to the first one that a request was given.
        """
        rows = [(number, *_packed(answer)) for number, answer in answers]
        payload = zlib.compress(json.dumps(list(zip(*rows, strict=True))).encode(), 9)
        block = (rows[-1][0], len(rows), answers[-1][1].share, payload)
        self._connection.execute(insertion("archive"), sealed("archive", block))
        for number, answer in answers:
            self._connection.execute(_INSERT_KEY, (answer.query_key[:_KEY], number))
            if answer.request_id is not None:
                self._connection.execute(_INSERT_KEY, (_request_key(answer.request_id), number))

    def to_request(self, request_id: str) -> StoredAnswer | None:
        """Return the answer that a request was given first, or None."""
        found = self._found(_request_key(request_id))
        return found[1] if found is not None and found[1].request_id == request_id else None

    def newest(self, key: bytes) -> tuple[int, StoredAnswer] | None:
        """Return the newest archived answer to a query, with its number, or None."""
        found = self._found(key[:_KEY])
        return found if found is not None and found[1].query_key == key else None

    def answer(self, number: int) -> StoredAnswer | None:
        """Return the answer of a number, or None."""
        statement = f"SELECT {_COLUMNS} FROM archive WHERE last >= ? ORDER BY last LIMIT 1"
        if number not in self._read[1]:
            row = self._connection.execute(statement, (number,)).fetchone()
            if row is None:
                return None
            self._read = (row[0], dict(self._block(row)))
        return self._read[1].get(number)

    def answers(self) -> Iterator[tuple[int, StoredAnswer]]:
        """Yield all archived answers with their numbers, in order."""
        for row in self._connection.execute(f"SELECT {_COLUMNS} FROM archive ORDER BY last"):
            yield from self._block(row)

    def shares(self) -> list[tuple[int, float]]:
        """Return the share spent after the last answer of each block, as (n, share)."""
        return self._connection.execute("SELECT last, share FROM archive ORDER BY last").fetchall()

    def require_keys(self) -> None:
        """Check that every archived answer is led to, or a newer one to the same question.

        Raises:
            SessionCorruptError: a key is gone, or leads elsewhere.
        """
        for number, answer in self.answers():
            found = self._number_at(answer.query_key[:_KEY])
            marked = number if answer.request_id is None else self._number_at(_request_key(answer.request_id))
            if found is None or found < number or marked != number:
                raise SessionCorruptError(f"{self._name}: the session file is damaged: a key is not there")

    def count(self) -> int:
        """Return how many answers are archived."""
        return int(self._connection.execute("SELECT coalesce(sum(size), 0) FROM archive").fetchone()[0])

    def _found(self, key: bytes) -> tuple[int, StoredAnswer] | None:
        number = self._number_at(key)
        answer = None if number is None else self.answer(number)
        return None if number is None or answer is None else (number, answer)

    def _number_at(self, key: bytes) -> int | None:
        row = self._connection.execute("SELECT number FROM archive_keys WHERE key = ?", (key,)).fetchone()
        return None if row is None else int(row[0])

    def _block(self, row: Sequence[Any]) -> Iterator[tuple[int, StoredAnswer]]:
        """Yield the answers of a block.

        Raises:
            SessionCorruptError: the block was altered.
        """
        _, size, _, payload = require_checksum("archive", row, self._name)
        rows = list(zip(*json.loads(zlib.decompress(payload)), strict=True))
        if len(rows) != size:
            raise SessionCorruptError(f"{self._name}: the session file is damaged: a block is not whole")
        for number, request, query, *rest in rows:
            yield int(number), answer_of_row((request, query_key(query), query, *rest))


def _packed(answer: StoredAnswer) -> tuple[Any, ...]:
    """Return the columns of an answer without its key, which follows from its query."""
    request, _, *rest = row_of_answer(answer)
    return (request, *rest)


def _request_key(request_id: str) -> bytes:
    return hashlib.sha256(b"request " + request_id.encode()).digest()[:_KEY]
