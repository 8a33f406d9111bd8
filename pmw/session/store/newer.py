"""Newer answers to questions that have stored ones: they are answers, and no further questions.

A fact for each run of them holds the number of the first, and how many of them each analyst asked first.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence

from pmw.session.store.checksums import as_written, insertion, require_checksum, sealed

_NAMED = "newer "  # how the names of the facts begin
_AFTER = "newer!"  # the name after all of them
_MOVE = "UPDATE repeats SET answer = ?, checksum = ? WHERE analyst = ? AND answer = ?"


def add_newer(
    connection: sqlite3.Connection, first: int, older: Sequence[int], analysts: Sequence[str]
) -> None:
    """Note newer answers, inside a transaction; who was noted to have asked again stays noted once.

    Args:
        connection: to the session file.
        first: number of the first of them; the others follow it.
        older: the numbers of the newest answers to the same questions before.
        analysts: who asked each first.
    """
    fact = f"{_NAMED}{first}", json.dumps(Counter(analysts))
    connection.execute(insertion("meta"), as_written("meta", fact))
    moved = dict(zip(older, range(first, first + len(older)), strict=True))
    between = "SELECT analyst, answer FROM repeats WHERE answer BETWEEN ? AND ?"
    noted = connection.execute(between, (min(older), max(older))).fetchall()
    pairs = [(name, number) for name, number in noted if number in moved]
    rows = [(*sealed("repeats", (name, moved[number]))[1:], name, number) for name, number in pairs]
    connection.executemany(_MOVE, rows)


def newer_runs(connection: sqlite3.Connection, name: str) -> Iterator[tuple[int, Counter[str]]]:
    """Yield the number of the first answer of each run, and how many each analyst asked first, in no order.

    Args:
        connection: to the session file.
        name: what messages call the session.

    Raises:
        SessionCorruptError: a fact was altered.
    """
    facts = "SELECT key, value, checksum FROM meta WHERE key >= ? AND key < ?"
    for row in connection.execute(facts, (_NAMED, _AFTER)):
        key, value = require_checksum("meta", row, name)
        yield int(key.removeprefix(_NAMED)), Counter(json.loads(value))
