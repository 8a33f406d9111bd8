"""Wholeness: what is checked of a session file before it is written to, copied or called whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from pmw.errors import SessionCorruptError
from pmw.session.store.blocks import Blocks
from pmw.session.store.chain import Chain
from pmw.session.store.checksums import read_fact, require_checksum
from pmw.session.store.schema import CHAINED, COLUMNS, SEALED, statements

ANSWERS = "answers"  # the fact that holds how many answers are stored
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
    """Check all but the free answers before a session is written to; of them their number.

    A small file's pages are checked too: what lies in damaged ones could be written over.

    Raises:
        SessionCorruptError: something was altered or is gone.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages <= _FEW_PAGES and connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise SessionCorruptError(f"{name}: the session file is damaged: its pages contradict each other")
    _require_rows(connection, [table for table in SEALED if table not in CHAINED], name)
    _require_answers(connection, name)


def require_all(connection: sqlite3.Connection, name: str) -> None:
    """Check every row, the chain and the number of answers.

    Raises:
        SessionCorruptError: something was altered or is gone.
    """
    _require_answers(connection, name)
    _require_rows(connection, SEALED, name)
    for _ in Blocks(connection, name).each():
        pass


def _require_rows(connection: sqlite3.Connection, tables: Sequence[str], name: str) -> None:
    """Compare the rows of tables with their checksums."""
    for table in tables:
        columns = ", ".join((*COLUMNS[table], "checksum"))
        sealed = f"NOT INDEXED WHERE NOT ({CHAINED[table]})" if table in CHAINED else ""
        for row in connection.execute(f"SELECT {columns} FROM {table} {sealed}"):
            require_checksum(table, row, name)


def _require_answers(connection: sqlite3.Connection, name: str) -> None:
    """Follow the chain, look up every measured answer, and compare the number of answers with what it was."""
    measured = [row for link in Chain(connection, name).follow() for row in link.rows[-1]]
    count = int(read_fact(connection, ANSWERS, name) or 0)
    rows = f"SELECT count(*), total({CHAINED['answers']}) FROM answers NOT INDEXED"
    found = connection.execute(rows).fetchone()
    by_query = connection.execute("SELECT count(*) FROM answers INDEXED BY answers_by_query").fetchone()
    gaps = list(_gaps(Blocks(connection, name).spans(), count))
    whole = found == (sum(stop - start for start, stop in gaps), len(measured)) and by_query == found[:1]
    if not (
        whole
        and all(_is_full(connection, *gap) for gap in gaps)
        and all(_is_found(connection, *row[:3]) for row in measured)
    ):
        raise SessionCorruptError(f"{name}: the session file is damaged: rows of its answers are not there")


def _gaps(spans: Sequence[tuple[int, int]], count: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of answers that are in no block, from the first up to the one after the last."""
    start = 1
    for first, end in (*spans, (count + 1, count + 1)):
        if first != start:
            yield start, first
        start = end


def _is_full(connection: sqlite3.Connection, start: int, stop: int) -> bool:
    """Tell whether there is a row for each number."""
    between = "SELECT count(*) FROM answers NOT INDEXED WHERE sequence >= ? AND sequence < ?"
    return bool(connection.execute(between, (start, stop)).fetchone() == (stop - start,))


def _is_found(connection: sqlite3.Connection, place: int, request: str | None, key: bytes) -> bool:
    """Tell whether a measured answer is found by its question and by its request: else it is drawn again."""
    by_key = "SELECT 1 FROM answers WHERE query_key = ? AND sequence = ?"
    if connection.execute(by_key, (key, place)).fetchone() is None:
        return False
    by_request = "SELECT 1 FROM answers WHERE request_id = ? AND sequence = ?"
    return request is None or connection.execute(by_request, (request, place)).fetchone() is not None
