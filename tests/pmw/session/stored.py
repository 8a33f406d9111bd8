"""Stored answers one by one, as tests look at them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.damage import reseal
from pmw.session.store import AnswerColumns, SessionStore, StoredAnswer
from pmw.session.store.answers import StoredAnswers
from pmw.session.store.chain import as_written
from pmw.session.store.columns import question_keys


def newest_answers(store: SessionStore, texts: Sequence[str]) -> list[StoredAnswer | None]:
    """Return the newest answer to each of some questions, or None."""
    return store.answers.find(texts).rows()


def newest_answer(store: SessionStore, text: str) -> StoredAnswer | None:
    """Return the newest answer to a question, or None."""
    return newest_answers(store, [text])[0]


def answer_to_request(store: SessionStore, request_id: str) -> StoredAnswer | None:
    """Return the answer that a request was given, or None."""
    (number,) = store.answers.by_request_ids([request_id]).tolist()
    return store.answers.answer(number) if number else None


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
        before = connection.execute("SELECT * FROM answers").fetchall()
        connection.executescript(script)
        after = connection.execute("SELECT * FROM answers ORDER BY sequence").fetchall()
        if after != before:
            connection.execute("DELETE FROM blocks")
            for row in after:
                _write(connection, *row)
        if relink:
            reseal(connection)
        else:
            fact = as_written("meta", ("answers", str(len(after))))
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", fact)


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    stored = StoredAnswers(connection, "forged")
    for first, columns in zip([first for first, _ in stored.spans()], stored.blocks(), strict=True):
        requests = columns.request_ids or (None,) * len(columns)
        for number, (one, request) in enumerate(zip(columns.answers(), requests, strict=True), start=first):
            ends = (*(one.interval or (None, None)), one.confidence, one.source, one.version, one.share)
            yield (
                *(number, one.query, one.query, one.count, *ends, one.kind),
                *(*(one.typical or (None, None)), one.analyst, one.settled, request),
            )


def _write(connection: sqlite3.Connection, number: int, query: str, keyed_by: str, *others: Any) -> None:
    count, low, high, confidence, source, version, share, kind, *typical, analyst, settled, request = others
    interval, pair = (None if None in ends else ends for ends in ((low, high), tuple(typical)))
    one = StoredAnswer(
        query, count, interval, confidence, source, version, share, kind, pair, analyst, settled
    )
    StoredAnswers(connection, "forged")._insert(number, AnswerColumns.of([one], [request] if request else ()))
    key = question_keys([keyed_by]).astype("<u4").tobytes()
    connection.execute("UPDATE blocks SET keys = ? WHERE sequence = ?", (key, number))
