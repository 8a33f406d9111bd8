"""The chain: one running hash over all rows that were charged, measured, tied to a key or answered.

Each outcome that charged or measured anything adds a link, and so does one after which many answers stand in
no link yet: a hash of the link before it and of the rows. The first link goes on from the session's own bytes
and its contract. A row that was altered, exchanged or added, or is gone, breaks its link. Links that are gone
are missed, for the newest one is kept as a fact too. So the newest link stands for the whole history. Blocks
of answers that a link covers are never written again; the newest ones, which none covers yet, have their own
hashes alone.

Links find damage, not forgery: whoever can write to the file can compute them, and only a link that is known
from elsewhere tells that.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.session.store.rows import CHAINED, COLUMNS, add_rows, read_fact
from queries.frozen import dataclass

_SIZE = 32  # bytes of a link: nobody finds other rows with the same one
_HEAD = "link"  # the fact that holds the newest link
_LINKS = f"SELECT link, sequence, {', '.join(CHAINED)} FROM chain"
_ROWS = {table: f"SELECT sequence, {', '.join(COLUMNS[table])} FROM {table}" for table in CHAINED}
_START = (0,) * (1 + len(CHAINED))


@dataclass(frozen=True, slots=True)
class Link:
    """One link, and the rows that it covers.

    Args:
        hash: 32 bytes.
        places: its number, and the numbers of the last rows of the chained tables up to it.
        rows: of each chained table, in order: the number of a row and its columns.
    """

    hash: bytes
    places: tuple[int, ...]
    rows: tuple[list[Any], ...]


class Chain:
    """The chain of a session file."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def origin(self) -> bytes:
        """Return what the first link goes on from: a hash of the session's own bytes and its contract."""
        facts = [read_fact(self._connection, key, self._name) for key in ("session", "contract")]
        return _hash(b"", facts)

    def follow(self) -> list[Link]:
        """Return every link, compared with its rows, in order; within a transaction."""
        stored = self._connection.execute(f"{_LINKS} ORDER BY sequence").fetchall()
        last, links = Link(self.origin(), _START, ()), list[Link]()
        parts = [
            self._parts(table, [row[2 + place] for row in stored]) for place, table in enumerate(CHAINED)
        ]
        for number, ((found, *places), *rows) in enumerate(zip(stored, *parts, strict=False), start=1):
            last = _link(last, tuple(places), tuple(rows))
            if last.hash != found or places[0] != number:
                raise self._broken(number)
            links.append(last)
        head = read_fact(self._connection, _HEAD, self._name)
        if any(part[-1] for part in parts[:-1]) or head != (_quoted(last) if links else None):
            raise self._broken(len(links) + 1)
        return links

    def last_block(self) -> int:
        """Return the number of the last block that a link covers; 0 where there is none."""
        return self._newest().places[-1]

    def extend(self) -> None:
        """Add a link over the rows that none covers yet. Call it inside the transaction that adds them."""
        last = self._newest()
        newest = "SELECT coalesce(max(sequence), 0)"
        ends = [self._connection.execute(f"{newest} FROM {table}").fetchone()[0] for table in CHAINED]
        self._add(self._next(last, (last.places[0] + 1, *ends)))

    def _add(self, link: Link) -> None:
        columns = ", ".join("?" * (1 + len(link.places)))
        self._connection.execute(f"INSERT INTO chain VALUES ({columns})", (*link.places, link.hash))
        add_rows(self._connection, "meta", [(_HEAD, _quoted(link))], "INSERT OR REPLACE")

    def _newest(self) -> Link:
        row = self._connection.execute(f"{_LINKS} ORDER BY sequence DESC LIMIT 1").fetchone()
        return Link(self.origin(), _START, ()) if row is None else Link(row[0], tuple(row[1:]), ())

    def _parts(self, table: str, ends: Sequence[int]) -> list[list[Any]]:
        """Return the rows of a table up to each number, after those before it; then the rows after all."""
        parts: list[list[Any]] = [[] for _ in (*ends, None)]
        for row in self._connection.execute(f"{_ROWS[table]} ORDER BY sequence"):
            parts[bisect_left(ends, row[0])].append(row)
        return parts

    def _next(self, last: Link, places: tuple[int, ...]) -> Link:
        ranges = zip(CHAINED, last.places[1:], places[1:], strict=True)
        rows = tuple(
            self._connection.execute(
                f"{_ROWS[table]} WHERE sequence > ? AND sequence <= ? ORDER BY sequence", ends
            ).fetchall()
            for table, *ends in ranges
        )
        return _link(last, places, rows)

    def _broken(self, number: int) -> SessionCorruptError:
        return SessionCorruptError(
            f"{self._name}: the session file is damaged: charges, measurements, keys or answers were "
            f"altered or are gone (link {number} of its chain)"
        )


def _quoted(link: Link) -> str:
    return f'"{link.hash.hex()}"'


def _link(last: Link, places: tuple[int, ...], rows: tuple[list[Any], ...]) -> Link:
    return Link(_hash(last.hash, [places, *rows]), places, rows)


def _hash(before: bytes, content: Sequence[object]) -> bytes:
    """Return a hash of bytes and of JSON, where blobs stand as their own hashes."""
    # A column has one type, so that its text tells its value.
    text = json.dumps(content, default=lambda blob: hashlib.blake2b(blob, digest_size=_SIZE).hexdigest())
    return hashlib.blake2b(before + text.encode(), digest_size=_SIZE).digest()
