"""Session files, as tests look into them, alter them, and cut their writing off."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import pmw
from pmw.loop.untested import Requested
from pmw.public.answer import Source
from pmw.public.answers import KINDS, SOURCES
from pmw.public.codec import read_kind
from pmw.session.store.answers import StoredAnswers, block_hash
from pmw.session.store.columns import AnswerColumns, StoredAnswer, question_keys
from pmw.session.store.rows import CHAINED, COLUMNS, SEALED, Chain, IntentRow, Outcome, as_written
from pmw.session.store.store import SessionStore
from tests.waiting import WAIT

# --- looking -------------------------------------------------------------------------------------------


def failed(path: Path) -> dict[str, str]:
    """Return the checks of a session that do not hold, and why."""
    return {check.name: check.detail for check in pmw.verify_session(path).checks if not check.holds}


def secrets_of(path: Path) -> dict[str, bytes]:
    """Return the secret facts of a session file."""
    with closing(SessionStore.open(path)) as store:
        return {name: store.secret(name) or b"" for name in store.secret_names()}


def pending_of(path: Path) -> IntentRow | None:
    """Return the batch that waits, or None."""
    with closing(SessionStore.open(path)) as store:
        return store.pending()


def waiting_of(path: Path) -> IntentRow:
    """Return the batch that waits."""
    waiting = pending_of(path)
    assert waiting is not None
    return waiting


def bytes_of(path: Path) -> bytes:
    """Return all that lies in a session's files."""
    return b"|".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def newest_answers(store: SessionStore, texts: Sequence[str]) -> list[StoredAnswer | None]:
    """Return the newest answer to each of some questions, or None."""
    found: list[StoredAnswer | None] = [None] * len(texts)
    for columns, asked, own in store.answers.find(texts).parts:
        for place, at in zip(asked.tolist(), own.tolist(), strict=True):
            found[place] = columns.answer(at)
    return found


def newest_answer(store: SessionStore, text: str) -> StoredAnswer | None:
    """Return the newest answer to a question, or None."""
    return newest_answers(store, [text])[0]


def answer_to_request(store: SessionStore, request_id: str) -> StoredAnswer | None:
    """Return the answer that a request was given, or None."""
    (number,) = store.answers.by_request_ids([request_id]).tolist()
    return store.answers.answer(number) if number else None


def marked_answers(store: SessionStore) -> list[tuple[str | None, StoredAnswer]]:
    """Return all answers in order, each with the request that it was first given to."""
    return [
        (mark, one)
        for columns in store.answers.blocks()
        for mark, one in zip(columns.request_ids or (None,) * len(columns), columns.answers(), strict=True)
    ]


def columns_of(
    answers: Sequence[StoredAnswer], request_ids: Sequence[str | None] = ()
) -> tuple[AnswerColumns, ...]:
    """Return one answer or more as columns: those in order that were given at one time, together.

    Args:
        answers: as they are to be read back.
        request_ids: of their requests; empty where none has one.
    """
    found, start = list[AnswerColumns](), 0
    for common, alike in groupby(answers, attrgetter("analyst", "confidence", "share", "version")):
        run = list(alike)
        kinds = [KINDS.index(one.kind and read_kind(one.kind)) for one in run]
        keys = tuple(request_ids[start : start + len(run)])
        columns = AnswerColumns(
            [one.query for one in run],
            np.array([one.count for one in run], dtype=np.float64),
            np.array([one.interval or (np.nan, np.nan) for one in run], dtype=np.float64),
            np.array([one.typical or (np.nan, np.nan) for one in run], dtype=np.float64),
            np.array([SOURCES.index(Source(one.source)) for one in run], dtype=np.uint8),
            np.array(kinds, dtype=np.uint8),
            np.array([one.settled for one in run], dtype=np.uint8),
            *common,
            request_ids=keys if any(keys) else (),
        )
        found.append(columns)
        start += len(run)
    return tuple(found)


# --- altering ------------------------------------------------------------------------------------------


def execute(path: Path, script: str) -> None:
    """Run statements on a session file, and leave its hashes as they are."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def edit(path: Path, table: str, column: str, where: str, change: Callable[[Any], Any]) -> None:
    """Replace a stored value by another, and make all hashes fit again."""
    with closing(sqlite3.connect(path)) as connection, connection:
        key, value = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {where}").fetchone()
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (change(value), key))
        reseal(connection)


def reseal(connection: sqlite3.Connection) -> None:
    """Compute every checksum, hash and link again, from what the tables hold; inside a transaction.

    Whoever can write to a session file can do this.
    Links keep the numbers of the rows that they cover; the last one covers what was added.
    """
    connection.create_function("row_checksum", -1, _checksum)
    connection.create_function("block_hash", -1, block_hash)
    (answers,) = connection.execute("SELECT coalesce(sum(size), 0) FROM blocks").fetchone()
    connection.execute("UPDATE meta SET value = ? WHERE key = 'answers'", (str(answers),))
    for table in SEALED:
        columns = ", ".join(COLUMNS[table])
        connection.execute(f"UPDATE {table} SET checksum = row_checksum('{table}', {columns})")
    columns = ", ".join(name for name in COLUMNS["blocks"] if name != "hash")
    connection.execute(f"UPDATE blocks SET hash = block_hash(sequence, {columns}, answers)")
    last = [
        connection.execute(f"SELECT coalesce(max(sequence), 0) FROM {table}").fetchone()[0]
        for table in CHAINED
    ]
    former = connection.execute(f"SELECT {', '.join(CHAINED)} FROM chain ORDER BY sequence").fetchall()
    connection.execute("DELETE FROM chain")
    connection.execute("DELETE FROM meta WHERE key = 'link'")
    chain = Chain(connection, "forged")
    for number, places in enumerate([*former[:-1], last], start=1):
        chain._add(chain._next(chain._newest(), (number, *map(min, places, last))))


def _checksum(table: str, *values: object) -> Any:
    return as_written(table, values)[-1]


@contextmanager
def unwritable(path: Path, table: str, when: str = "") -> Iterator[None]:
    """Let no row be added to a table of a session file, as on a full disk."""
    execute(
        path, f"CREATE TRIGGER full BEFORE INSERT ON {table} {when} BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    yield
    execute(path, "DROP TRIGGER full")


@contextmanager
def cut_off(after: int = 0) -> Iterator[None]:
    """End the process, as it were, before the outcome of a batch is written, after so many others."""
    finish, left = SessionStore.finish, iter(range(after))

    def ended(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        if intent is not None and next(left, None) is None:
            raise KeyboardInterrupt
        finish(store, intent, outcome)

    with mock.patch.object(SessionStore, "finish", ended), pytest.raises(KeyboardInterrupt):
        yield


def kill_at(step: str, use: Callable[[], object], *, before: Callable[..., object] = lambda *_: None) -> None:
    """Do something in a process that is killed, without any warning, at a step of the store.

    Args:
        step: the method of a store that is killed instead.
        use: what is done.
        before: what is done at that step still, given the method and what it was given. Where that returns
            True, the process goes on.
    """
    method = getattr(SessionStore, step)

    def deadly(*given: Any) -> None:
        if before(method, *given) is not True:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        setattr(SessionStore, step, deadly)
        use()

    assert ended(run) == -signal.SIGKILL


def ended(use: Callable[[], object]) -> int | None:
    """Do something in a process of its own, and return what that ended with."""
    child = multiprocessing.get_context("fork").Process(target=use, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that this process may have threads
        child.start()
    child.join(WAIT)
    return child.exitcode


@contextmanager
def killed_drawing(when: Callable[[Requested], bool] = lambda _: True) -> Iterator[list[NDArray[np.int64]]]:
    """End the process, as it were, once what was requested is drawn, and before it is durable.

    Yields:
        Where the numbers are noted that were drawn.
    """
    really, seen = Requested.measured, list[NDArray[np.int64]]()

    def killed(requested: Requested, *rest: Any) -> Any:
        measured = really(requested, *rest)
        seen.append(measured.units)
        if when(requested):
            raise KeyboardInterrupt
        return measured

    with mock.patch.object(Requested, "measured", killed), pytest.raises(KeyboardInterrupt):
        yield seen


_Row: TypeAlias = tuple[Any, ...]
_NAMES = (
    "sequence", "query", "keyed_by", "count", "low", "high", "confidence", "source", "version", "share",
    "kind", "typical_low", "typical_high", "analyst", "settled", "request_id",
)  # fmt: skip


def tamper(path: Path, script: str, *, relink: bool = True) -> None:
    """Run statements on a session file as somebody does who can write to it, and make all hashes fit again.

    Args:
        path: of the session file.
        script: SQL. To it the stored answers are a table ``answers`` with a row for each; ``keyed_by`` is the
            text by which its question is found.
        relink: make the links of the chain fit, too; else what none covers is all that may be changed.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TEMP TABLE answers ({', '.join(_NAMES)})")
        places = ", ".join("?" * len(_NAMES))
        connection.executemany(f"INSERT INTO answers VALUES ({places})", _rows(connection))
        connection.executescript(script)
        _write(connection, connection.execute("SELECT * FROM answers ORDER BY sequence").fetchall())
        if relink:
            reseal(connection)
        else:
            (count,) = connection.execute("SELECT coalesce(sum(size), 0) FROM blocks").fetchone()
            fact = as_written("meta", ("answers", str(count)))
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", fact)


def _rows(connection: sqlite3.Connection) -> Iterator[_Row]:
    stored = StoredAnswers(connection, "forged")
    for (first, _), columns in zip(stored.spans(), stored.blocks(), strict=True):
        requests = columns.request_ids or (None,) * len(columns)
        for number, (one, request) in enumerate(zip(columns.answers(), requests, strict=True), start=first):
            ends = (*(one.interval or (None, None)), one.confidence, one.source, one.version, one.share)
            yield (
                *(number, one.query, one.query, one.count, *ends, one.kind),
                *(*(one.typical or (None, None)), one.analyst, one.settled, request),
            )


def _write(connection: sqlite3.Connection, rows: list[_Row]) -> None:
    """Write those blocks anew whose answers are others now; what is new stands alone."""
    stored, left, before = StoredAnswers(connection, "forged"), list(rows), list(_rows(connection))
    for first, end in stored.spans():
        old = [row for row in before if first <= row[0] < end]
        new = [row for row in rows if first <= row[0] < end]
        left = [row for row in left if row not in new]
        if new != old:
            connection.execute("DELETE FROM blocks WHERE sequence = ?", (first,))
            alike = [row[0] - place for place, row in enumerate(new)]
            for start in dict.fromkeys(alike):
                _insert(connection, [row for row, own in zip(new, alike, strict=True) if own == start])
    for row in left:
        _insert(connection, [row])


def _insert(connection: sqlite3.Connection, rows: list[_Row]) -> None:
    """Write answers with numbers that follow one another."""
    answers, first = [_answer(*row[1:-1]) for row in rows], rows[0][0]
    for columns in columns_of(answers, [row[-1] for row in rows] if any(row[-1] for row in rows) else ()):
        StoredAnswers(connection, "forged")._insert(first, columns)
        own = [row[2] for row in rows if first <= row[0] < first + len(columns)]
        keys = question_keys(own).astype("<u4").tobytes()
        if own != list(columns.texts):
            connection.execute("UPDATE blocks SET keys = ? WHERE sequence = ?", (keys, first))
        first += len(columns)


def _answer(query: str, keyed_by: str, count: float, low: float, high: float, *others: Any) -> StoredAnswer:
    del keyed_by
    confidence, source, version, share, kind, *typical, analyst, settled = others
    interval, pair = (None if None in ends else ends for ends in ((low, high), tuple(typical)))
    return StoredAnswer(
        query, count, interval, confidence, source, version, share, kind, pair, analyst, settled
    )
