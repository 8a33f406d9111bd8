"""Forgery: a session file whose rows were altered gets checksums and a chain that fit them.

Whoever can write to a session file can do this. Tests do it to see what else tells that rows were altered.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from pmw.session.store.chain import Chain
from pmw.session.store.checksums import as_written
from pmw.session.store.schema import CHAINED, COLUMNS, SEALED

__all__ = ["reseal"]


def reseal(connection: sqlite3.Connection) -> None:
    """Compute every checksum and every link again, from what the tables hold; inside a transaction.

    Links keep the numbers of the rows that they cover; the last one covers what was added.
    """
    connection.create_function("row_checksum", -1, _checksum)
    (answers,) = connection.execute("SELECT count(*) FROM answers").fetchone()
    connection.execute("UPDATE meta SET value = ? WHERE key = 'answers'", (str(answers),))
    for table in SEALED:
        columns = ", ".join(COLUMNS[table])
        connection.execute(f"UPDATE {table} SET checksum = row_checksum('{table}', {columns})")  # noqa: S608
    last = [
        connection.execute(f"SELECT coalesce(max(sequence), 0) FROM {table} WHERE {rows}").fetchone()[0]  # noqa: S608
        for table, rows in CHAINED.items()
    ]
    former = connection.execute(f"SELECT {', '.join(CHAINED)} FROM chain ORDER BY sequence").fetchall()  # noqa: S608
    connection.execute("DELETE FROM chain")
    connection.execute("DELETE FROM meta WHERE key = 'link'")
    chain = Chain(connection, "forged")
    for number, places in enumerate([*former[:-1], last], start=1):
        chain._add(chain._next(chain._newest(), (number, *map(min, places, last))))


def _checksum(table: str, *values: object) -> Any:
    return as_written(table, values)[-1]
