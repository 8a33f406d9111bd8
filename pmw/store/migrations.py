"""Migrations: a session file of an older format, made one of the newest in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from pmw.randomness import SEED_BYTES
from pmw.store.checksums import reseal
from pmw.store.schema import CERTIFICATES_2, COLUMNS, FORMAT_VERSION, INDEXES, KEYS, TABLES

__all__ = [
    "migrate",
]


def migrate(connection: sqlite3.Connection, version: int, mask: Callable[[int, bytes], bytes]) -> None:
    """Bring a file to the newest format, one format after the other; inside a transaction.

    Args:
        connection: the connection that writes.
        version: the file's format; 1 or higher.
        mask: masks the bytes of an intent, given its number.
    """
    for older in range(version, FORMAT_VERSION):
        _STEPS[older](connection)
    _mask_bytes(connection, mask)
    reseal(connection)
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def _add_certificates(connection: sqlite3.Connection) -> None:
    connection.execute(CERTIFICATES_2)


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Write the tables anew, each row with room for a checksum; numbers stay."""
    connection.execute("DROP INDEX IF EXISTS answers_by_query")
    for table in ("archive", "archive_keys"):
        connection.execute(TABLES[table])
    for table, columns in COLUMNS.items():
        if table == "archive":
            continue
        # An intent's number is never given again, so its table's memory of the last one goes with it.
        last = "UPDATE sqlite_sequence SET name = ? WHERE name = ?"
        kept = ", ".join((KEYS[table], *columns) if table in KEYS else columns)
        connection.execute(f"ALTER TABLE {table} RENAME TO older_{table}")
        connection.execute(TABLES[table])
        connection.execute(f"INSERT INTO {table} ({kept}, checksum) SELECT {kept}, x'' FROM older_{table}")
        if table == "intents":
            connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            connection.execute(last, (table, f"older_{table}"))
        connection.execute(f"DROP TABLE older_{table}")
    connection.execute("DROP TABLE snapshots")  # a cache, and its text differs
    connection.execute(TABLES["snapshots"])
    for statement in INDEXES:
        connection.execute(statement)


def _mask_bytes(connection: sqlite3.Connection, mask: Callable[[int, bytes], bytes]) -> None:
    """Mask the bytes of a batch that waits, before they are sealed; its errors stay what they are."""
    for number, seed in connection.execute("SELECT id, seed FROM intents").fetchall():
        if len(seed) == SEED_BYTES:  # others cannot be drawn from; closing charges their batch
            masked = (mask(number, seed), number)
            connection.execute("UPDATE intents SET seed = ? WHERE id = ?", masked)


_STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _add_certificates, 2: _add_checksums}
