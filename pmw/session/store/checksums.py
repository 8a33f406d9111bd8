"""Checksums: what tells a row that was damaged, and a row that is gone.

Each row ends with a checksum of its columns. The tables that only ever grow have their numbers of rows in one
more fact, so that a page that lost some is noticed too. Checksums find damage, not forgery: whoever can write
to the file can compute them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.session.store.schema import COLUMNS, COUNTED, statements

__all__ = [
    "add_counts",
    "insertion",
    "require_all",
    "require_checksum",
    "require_count",
    "require_tables",
    "require_whole",
    "reseal",
    "sealed",
]

_SIZE = 16  # bytes of a checksum: no damage passes one by chance
_FEW_PAGES = 4096  # 16 MiB: looking at them takes a few hundredths of a second
_COUNTS = "counts"  # the fact that holds the numbers of rows


def _checksum(table: str, values: Sequence[object]) -> bytes:
    """Return the checksum of a row: 16 bytes, of its table and the types and values of its columns."""
    pieces = [table.encode()]
    for value in values:
        kind, raw = _bytes_of(value)
        pieces += (b"%s %d:" % (kind, len(raw)), raw)
    return hashlib.blake2b(b"".join(pieces), digest_size=_SIZE).digest()


def _bytes_of(value: object) -> tuple[bytes, bytes]:
    """Return a letter for the type that a value is read back as, and bytes that tell its value exactly."""
    if isinstance(value, bytes):
        return b"b", value
    if isinstance(value, float):
        return b"f", repr(float(value) + 0.0).encode()  # the database keeps no minus of a zero
    if isinstance(value, str):
        return b"t", value.encode()
    return (b"n", b"") if value is None else (b"i", str(value).encode())


def sealed(table: str, values: Sequence[object]) -> tuple[object, ...]:
    """Return a row with its checksum."""
    return (*values, _checksum(table, values))


def insertion(table: str, verb: str = "INSERT") -> str:
    """Return the statement that adds a sealed row to a table."""
    columns = (*COLUMNS[table.removeprefix("copy.")], "checksum")
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def require_checksum(table: str, row: Sequence[Any], name: str) -> tuple[Any, ...]:
    """Return a sealed row without its checksum.

    Raises:
        SessionCorruptError: the checksum is not that of the row.
    """
    *values, found = row
    if _checksum(table, values) != found:
        raise SessionCorruptError(f"{name}: the session file is damaged: a row of its {table} was altered")
    return tuple(values)


# --- counts ------------------------------------------------------------------------------------------------


def add_counts(connection: sqlite3.Connection, added: dict[str, int], name: str) -> None:
    """Add to the numbers of rows; inside the transaction that adds the rows."""
    counts = _read_counts(connection, name)
    for table, number in added.items():
        counts[table] = counts.get(table, 0) + number
    _write_counts(connection, counts)


def _read_counts(connection: sqlite3.Connection, name: str) -> dict[str, int]:
    """Return how many rows each counted table should have, and how many answers are marked measured.

    Raises:
        SessionCorruptError: the fact is not there, or is damaged.
    """
    row = connection.execute("SELECT key, value, checksum FROM meta WHERE key = ?", (_COUNTS,)).fetchone()
    if row is None:
        raise SessionCorruptError(f"{name}: the session file is damaged: it lacks {_COUNTS!r}")
    counts: dict[str, int] = json.loads(require_checksum("meta", row, name)[1])
    return counts


def _write_counts(connection: sqlite3.Connection, counts: dict[str, int]) -> None:
    row = sealed("meta", (_COUNTS, json.dumps(counts)))
    connection.execute(insertion("meta", "INSERT OR REPLACE"), row)


def require_count(connection: sqlite3.Connection, table: str, found: int, name: str) -> None:
    """Compare how many rows of a table were read with its number of rows, where it is counted.

    Raises:
        SessionCorruptError: rows are gone, or too many.
    """
    if table in COUNTED and found != _read_counts(connection, name).get(table):
        raise _gone(name, table)


def _require_counts(connection: sqlite3.Connection, name: str) -> None:
    """Compare the counted tables with their numbers of rows, and look up every answer marked measured.

    Raises:
        SessionCorruptError: rows are gone, or an index does not lead to them.
    """
    counts = _read_counts(connection, name)
    for table in COUNTED:
        places = "count(*), coalesce(min(sequence), 1), coalesce(max(sequence), 0)"
        found, first, last = connection.execute(f"SELECT {places} FROM {table} NOT INDEXED").fetchone()
        if not (found == last == counts.get(table) and first == 1):
            raise _gone(name, table)
    by_query = "SELECT count(*) FROM answers INDEXED BY answers_by_query"
    if connection.execute(by_query).fetchone() != (counts["answers"],):
        raise _gone(name, "answers")
    _require_measured(connection, counts.get("measured", 0), name)


def _require_measured(connection: sqlite3.Connection, count: int, name: str) -> None:
    """What drew noise must be found again, by its question and by its idempotency key."""
    columns = ", ".join((*COLUMNS["answers"], "checksum", "sequence"))
    rows = connection.execute(f"SELECT {columns} FROM answers WHERE source = 'measured'").fetchall()
    if len(rows) != count:
        raise _gone(name, "answers")
    for *row, place in rows:
        request, key = require_checksum("answers", row, name)[:2]
        by_key = "SELECT 1 FROM answers WHERE query_key = ? AND sequence = ?"
        found = connection.execute(by_key, (key, place)).fetchone()
        if found and request is not None:
            by_key = "SELECT 1 FROM answers WHERE request_id = ? AND sequence = ?"
            found = connection.execute(by_key, (request, place)).fetchone()
        if not found:
            raise _gone(name, "answers")


def _gone(name: str, table: str) -> SessionCorruptError:
    return SessionCorruptError(f"{name}: the session file is damaged: rows of its {table} are not there")


# --- whole tables ------------------------------------------------------------------------------------------


def require_whole(connection: sqlite3.Connection, name: str) -> None:
    """Check all but the answers before a session is written to; of them their number and what drew noise.

    A small file's pages are checked too: what lies in damaged ones could be written over.

    Raises:
        SessionCorruptError: something was altered or is gone.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages <= _FEW_PAGES and connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise SessionCorruptError(f"{name}: the session file is damaged: its pages contradict each other")
    _require_rows(connection, [table for table in COLUMNS if table != "answers"], name)
    _require_counts(connection, name)


def require_all(connection: sqlite3.Connection, name: str) -> None:
    """Check every row and every number of rows.

    Raises:
        SessionCorruptError: something was altered or is gone.
    """
    _require_rows(connection, list(COLUMNS), name)
    _require_counts(connection, name)


def _require_rows(connection: sqlite3.Connection, tables: Sequence[str], name: str) -> None:
    for table in tables:
        columns = ", ".join((*COLUMNS[table], "checksum"))
        for row in connection.execute(f"SELECT {columns} FROM {table}"):
            require_checksum(table, row, name)


def require_tables(connection: sqlite3.Connection, name: str) -> None:
    """Check that the tables are those of a session.

    Raises:
        SessionCorruptError: they are not.
    """
    found = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if not found.issuperset(statements()):
        raise SessionCorruptError(
            f"{name}: the session file is damaged: its tables are not those of a session"
        )


def reseal(connection: sqlite3.Connection) -> None:
    """Compute every checksum and count again, from what the tables hold; inside a transaction."""
    connection.create_function("row_checksum", -1, lambda table, *values: _checksum(table, values))
    for table, columns in COLUMNS.items():
        connection.execute(f"UPDATE {table} SET checksum = row_checksum('{table}', {', '.join(columns)})")
    counts = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in COUNTED}
    measured = "SELECT count(*) FROM answers WHERE source = 'measured'"
    counts["measured"] = connection.execute(measured).fetchone()[0]
    _write_counts(connection, counts)
