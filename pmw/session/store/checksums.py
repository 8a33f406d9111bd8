"""Checksums: what tells a row that was damaged.

A checksum stands in the last column of its row. Checksums find damage, not forgery: whoever can write to the
file can compute them.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.session.store.answer_rows import MEASURED
from pmw.session.store.schema import COLUMNS, SEALED

_SOURCE = COLUMNS["answers"].index("source")
_PLAIN = frozenset([str, int, type(None)])  # whose texts stand for them as they are
_LONG = 256  # bytes
_SIZE = 16  # bytes of a checksum: no damage passes one by chance


def _checksum(table: str, values: Sequence[object]) -> bytes:
    """Return the checksum of a row: 16 bytes, of its table and the types and values of its columns.

    Different values of the types that the database reads back have different ASCII texts, in every version.
    """
    plain = [value if type(value) in _PLAIN else _plain(value) for value in values]
    return hashlib.blake2b(ascii((table, plain)).encode(), digest_size=_SIZE).digest()


def _plain(value: object) -> object:
    """Return a value as it is read back, a long one as its hash."""
    if isinstance(value, float):
        return float(value) + 0.0  # the database keeps no minus of a zero
    if isinstance(value, bytes):
        return value if len(value) <= _LONG else (len(value), hashlib.blake2b(value).digest())
    return str(value) if isinstance(value, str) else int(str(value))


def as_written(table: str, values: Sequence[object]) -> tuple[object, ...]:
    """Return a row as its table holds it: with its checksum, or without one where the chain covers it."""
    if table not in SEALED:
        return tuple(values)
    is_measured = table == "answers" and values[_SOURCE] == MEASURED
    return (*values, None) if is_measured else sealed(table, values)


def sealed(table: str, values: Sequence[object]) -> tuple[object, ...]:
    """Return a row with its checksum."""
    return (*values, _checksum(table, values))


def insertion(table: str, verb: str = "INSERT", *, numbered: bool = False) -> str:
    """Return the statement that adds a row to a table, sealed where the table has checksums.

    Args:
        table: its name.
        verb: with what it begins.
        numbered: the row ends with its number.
    """
    columns = (*COLUMNS[table], "checksum") if table in SEALED else COLUMNS[table]
    columns = (*columns, "sequence") if numbered else columns
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


def read_fact(connection: sqlite3.Connection, key: str, name: str) -> str | None:
    """Return a public fact, as JSON text; None where there is none.

    Raises:
        SessionCorruptError: it was altered.
    """
    row = connection.execute("SELECT key, value, checksum FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(require_checksum("meta", row, name)[1])
