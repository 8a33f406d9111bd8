"""Copies of a session file: all that is public in it, and none of its secrets."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pmw.session.store.connection import APPLICATION_ID
from pmw.session.store.schema import FORMAT_VERSION, TABLES, statements
from pmw.session.store.wholeness import require_all


def copy_public(connection: sqlite3.Connection, path: Path, name: str) -> None:
    """Write a new file (mode 0600) with one state of a session: without its secrets, nor where its table is.

    Others may go on writing meanwhile.

    Args:
        connection: to a session file, outside a transaction.
        path: the file to make.
        name: what messages call the session.

    Raises:
        SessionCorruptError: a row was altered or is gone.
        OSError: the file cannot be made.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(str(path), isolation_level=None)) as made:
        for statement in statements():
            made.execute(statement)
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("ATTACH DATABASE ? AS copy", (str(path),))
    try:
        connection.execute("PRAGMA copy.synchronous = FULL")
        connection.execute("BEGIN")
        try:
            require_all(connection, name)
            _copy(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    finally:
        connection.execute("DETACH DATABASE copy")


def _copy(connection: sqlite3.Connection) -> None:
    for table in TABLES:
        if table != "secrets":
            connection.execute(f"INSERT INTO copy.{table} SELECT * FROM main.{table}")
    connection.execute("DELETE FROM copy.meta WHERE key = 'data'")
