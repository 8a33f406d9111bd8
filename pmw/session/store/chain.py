"""The chain: one running hash over all rows that were charged, measured or drawn.

Each outcome with such rows adds a link: a hash of the link before it and of the rows. The first link goes on
from the session's own bytes and its contract. A row that was altered, exchanged or added, or is gone, breaks
its link. Links that are gone are missed, for the newest one is kept as a fact too. So the newest link stands
for the whole history. The chain finds damage, not forgery: whoever can write to the file can compute it, and
only a link that is known from elsewhere tells that.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.session.store.checksums import bytes_of_row, insertion, read_fact, sealed
from pmw.session.store.schema import CHAINED, COLUMNS

__all__ = [
    "Chain",
    "Link",
]

_SIZE = 32  # bytes of a link: nobody finds other rows with the same one
_HEAD = "link"  # the fact that holds the newest link
_LINKS = f"SELECT link, sequence, {', '.join(CHAINED)} FROM chain"
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
    """The chain of a session file.

    Args:
        connection: to the file.
        name: what messages call the session.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def origin(self) -> bytes:
        """Return what the first link goes on from: a hash of the session's own bytes and its contract.

        Raises:
            SessionCorruptError: one of them was altered.
        """
        facts = [read_fact(self._connection, key, self._name) for key in ("session", "contract")]
        return _hash(bytes_of_row("origin", facts))

    def follow(self) -> Iterator[Link]:
        """Yield every link, in order, compared with its rows. Call it while one state of the file is read.

        Raises:
            SessionCorruptError: a link does not fit, links are gone, or rows are there that none covers.
        """
        last, counts = Link(self.origin(), _START, ()), [0] * len(CHAINED)
        for found, *places in self._connection.execute(f"{_LINKS} ORDER BY sequence"):
            link = self._link(last, tuple(places))
            if link.hash != found or places[0] != last.places[0] + 1:
                raise self._broken(last.places[0] + 1)
            yield link
            last, counts = link, [count + len(rows) for count, rows in zip(counts, link.rows, strict=True)]
        there = [self._one(f"SELECT count(*) FROM {table} WHERE {rows}") for table, rows in CHAINED.items()]
        head = read_fact(self._connection, _HEAD, self._name)
        if there != counts or head != (_quoted(last) if last.places[0] else None):
            raise self._broken(last.places[0] + 1)

    def require_answer(self, number: int) -> None:
        """Compare a measured answer, by its number, with the link that covers it.

        Raises:
            SessionCorruptError: the link does not fit, or none covers the answer.
        """
        covering = f"{_LINKS} WHERE answers >= ? ORDER BY sequence LIMIT 1"
        found, *places = self._connection.execute(covering, (number,)).fetchone() or (None, 0)
        if found is not None:
            link = self._link(self._newest(places[0] - 1), tuple(places))
            if link.hash == found and number in (row[0] for row in link.rows[-1]):
                return
        raise self._broken(places[0])

    def extend(self) -> None:
        """Add a link over the rows that none covers yet. Call it inside the transaction that adds them."""
        last = self._newest()
        newest = "SELECT coalesce(max(sequence), 0)"
        ends = [self._one(f"{newest} FROM {table} WHERE {rows}") for table, rows in CHAINED.items()]
        self._add(self._link(last, (last.places[0] + 1, *ends)))

    def _add(self, link: Link) -> None:
        columns = ", ".join("?" * (1 + len(link.places)))
        self._connection.execute(f"INSERT INTO chain VALUES ({columns})", (*link.places, link.hash))
        head = sealed("meta", (_HEAD, _quoted(link)))
        self._connection.execute(insertion("meta", "INSERT OR REPLACE"), head)

    def _newest(self, number: int | None = None) -> Link:
        """Return the newest link, or the one of a number, as it is stored and without its rows."""
        which = "ORDER BY sequence DESC LIMIT 1" if number is None else "WHERE sequence = ?"
        row = self._connection.execute(f"{_LINKS} {which}", () if number is None else (number,)).fetchone()
        return Link(self.origin(), _START, ()) if row is None else Link(row[0], tuple(row[1:]), ())

    def _link(self, last: Link, places: tuple[int, ...]) -> Link:
        """Return the link that goes on from another one with the rows between their places."""
        ranges = zip(CHAINED, last.places[1:], places[1:], strict=True)
        rows = {table: self._rows(table, start, end) for table, start, end in ranges}
        pieces = [bytes_of_row(table, row) for table, found in rows.items() for row in found]
        return Link(_hash(last.hash, bytes_of_row("chain", places), *pieces), places, tuple(rows.values()))

    def _rows(self, table: str, start: int, end: int) -> list[Any]:
        columns = ", ".join(("sequence", *COLUMNS[table]))
        statement = (
            f"SELECT {columns} FROM {table} WHERE {CHAINED[table]} AND sequence > ? AND sequence <= ?"
            " ORDER BY sequence"
        )
        return self._connection.execute(statement, (start, end)).fetchall()

    def _one(self, statement: str) -> int:
        return int(self._connection.execute(statement).fetchone()[0])

    def _broken(self, number: int) -> SessionCorruptError:
        return SessionCorruptError(
            f"{self._name}: the session file is damaged: charges, measurements or measured answers were "
            f"altered or are gone (link {number} of its chain)"
        )


def _quoted(link: Link) -> str:
    """Return a link as the fact that is kept of it: JSON."""
    return f'"{link.hash.hex()}"'


def _hash(*pieces: bytes) -> bytes:
    running = hashlib.blake2b(digest_size=_SIZE)
    for piece in pieces:
        running.update(piece)
    return running.digest()
