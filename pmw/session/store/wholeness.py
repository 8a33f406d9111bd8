"""Wholeness: what is checked of a session file before it is written to, copied or called whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pmw.errors import SessionCorruptError
from pmw.session.store.answers import ANSWERS, StoredAnswers
from pmw.session.store.chain import Chain
from pmw.session.store.connection import APPLICATION_ID
from pmw.session.store.rows import FORMAT_VERSION, SEALED, TABLES, read_fact, sealed_rows, statements

_FEW_PAGES = 4096  # 16 MiB: looking at them takes a few hundredths of a second


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


def require_whole(connection: sqlite3.Connection, name: str) -> None:
    """Check all but what drew no noise before a session is written to; of them their number.

    A small file's pages are checked too: what lies in damaged ones could be written over.

    Raises:
        SessionCorruptError: something was altered or is gone.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages <= _FEW_PAGES and connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise SessionCorruptError(f"{name}: the session file is damaged: its pages contradict each other")
    _require_rows(connection, [table for table in SEALED if table != "requests"], name)  # as many as answers
    _require_answers(connection, name)


def require_all(connection: sqlite3.Connection, name: str) -> None:
    """Check every row, the chain and the number of answers.

    Raises:
        SessionCorruptError: something was altered or is gone.
    """
    _require_answers(connection, name)
    _require_rows(connection, SEALED, name)
    for _ in StoredAnswers(connection, name).blocks():
        pass


def _require_rows(connection: sqlite3.Connection, tables: Sequence[str], name: str) -> None:
    """Compare the rows of tables with their checksums."""
    for table in tables:
        for _ in sealed_rows(connection, table, name):
            pass


def _require_answers(connection: sqlite3.Connection, name: str) -> None:
    """Follow the chain, look up what drew noise, and compare the numbers of answers with what they were."""
    Chain(connection, name).follow()
    count, answers, after = int(read_fact(connection, ANSWERS, name) or 0), StoredAnswers(connection, name), 1
    for first, end in answers.spans():
        if first != after:
            break
        after = end
    else:
        if after == count + 1:
            answers.require_drawn()
            return
    raise SessionCorruptError(f"{name}: the session file is damaged: rows of its answers are not there")


# --- copies ----------------------------------------------------------------------------------------------


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
