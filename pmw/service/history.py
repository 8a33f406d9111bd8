"""The history: what users asked, as they asked it, and when; and what each session had spent by then.

It is a file beside that of the users, with the mode of that. Answers are none of its business: they stand in
the sessions. Of equal questions of a user the last one is kept, and none that is very long. The day of each
token's last use is here, too.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pmw.errors import StoreError
from queries.frozen import dataclass

_MOST_KEPT = 10_000  # questions of a user at a session
_LONGEST = 2**14  # bytes of a question: no user's take more than 175 MB at a session
# What questions are equal by is short: an index repeats what it is over.
_TABLES = """
CREATE TABLE IF NOT EXISTS asked (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, user TEXT NOT NULL, time TEXT NOT NULL,
    question TEXT NOT NULL, digest BLOB NOT NULL, UNIQUE (session, user, digest));
CREATE INDEX IF NOT EXISTS newest_asked ON asked (session, user, number);
CREATE TABLE IF NOT EXISTS spending (session TEXT NOT NULL, time TEXT NOT NULL, share REAL NOT NULL);
CREATE INDEX IF NOT EXISTS course ON spending (session);
CREATE TABLE IF NOT EXISTS used (user TEXT PRIMARY KEY, day TEXT NOT NULL);
"""
_SHORTENED = """
BEGIN; INSERT INTO asked SELECT number, session, user, time, question, digest(question) FROM questions;
DROP TABLE questions; COMMIT; VACUUM;
"""  # of a file whose index is over the questions themselves


@dataclass(frozen=True, slots=True)
class AskedText:
    """A question of a user.

    Args:
        time: when it was asked last, in UTC, such as 2027-01-31 09:30:00.
    """

    time: str
    user: str
    text: str


class History:
    """What was asked, in a file that is made with the first question."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._spent: dict[str, float] = {}
        self._used: dict[str, str] = {}

    def add(self, session: str, user: str, texts: Sequence[str]) -> None:
        """Keep questions that were answered, but for very long ones."""
        now = _now()
        asked = dict.fromkeys(text.encode(errors="replace") for text in texts)
        rows = [(session, user, now, text.decode()) for text in asked if len(text) <= _LONGEST]
        newest = "SELECT number FROM asked WHERE session = ? AND user = ? ORDER BY number DESC LIMIT 1"
        with self._open() as file:
            file.executemany(
                "INSERT OR REPLACE INTO asked (session, user, time, question, digest) "
                "VALUES (?1, ?2, ?3, ?4, digest(?4))",
                rows,
            )
            file.execute(
                f"DELETE FROM asked WHERE session = ? AND user = ? AND number <= ({newest} OFFSET ?)",  # noqa: S608
                (session, user, session, user, _MOST_KEPT),
            )

    def note_spending(self, session: str, share: float) -> None:
        """Note what a session has spent by now, where that is new."""
        if self._spent.get(session) != share:
            with self._open() as file:
                last = file.execute(
                    "SELECT share FROM spending WHERE session = ? ORDER BY rowid DESC LIMIT 1", (session,)
                ).fetchone()
                if last != (share,):
                    file.execute("INSERT INTO spending VALUES (?, ?, ?)", (session, _now(), share))
            self._spent[session] = share

    def note_use(self, user: str) -> None:
        """Note that a user's token was used today."""
        today = _now()[:10]
        if self._used.get(user) != today:
            with self._open() as file:
                file.execute("INSERT OR REPLACE INTO used VALUES (?, ?)", (user, today))
            self._used[user] = today

    def used(self) -> dict[str, str]:
        """Return on which day each user's token was used last, in UTC; nothing where there is no file."""
        if not self._path.exists():
            return {}
        with self._open() as file:
            return dict(file.execute("SELECT user, day FROM used"))

    def spending(self, session: str) -> list[tuple[datetime, float]]:
        """Return when a session was seen to have spent which part of its cap, in order."""
        with self._open() as file:
            rows = file.execute(
                "SELECT time, share FROM spending WHERE session = ? ORDER BY rowid", (session,)
            )
            return [(datetime.fromisoformat(time), share) for time, share in rows]

    def count(self, session: str, user: str | None, find: str = "") -> int:
        """Return how many questions ``questions`` tells of."""
        where, values = _where(session, user, find)
        statement = f"SELECT count(*) FROM asked {where}"  # noqa: S608 - our own words
        with self._open() as file:
            return int(file.execute(statement, values).fetchone()[0])

    def questions(
        self, session: str, user: str | None, find: str = "", *, first: int = 0, most: int = _MOST_KEPT
    ) -> list[AskedText]:
        """Return questions of a user, or of everybody, the newest first."""
        where, values = _where(session, user, find)
        columns, newest = "time, user, question", "ORDER BY number DESC LIMIT ? OFFSET ?"
        statement = f"SELECT {columns} FROM asked {where} {newest}"  # noqa: S608 - our own words
        with self._open() as file:
            return [AskedText(*row) for row in file.execute(statement, (*values, most, first))]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Hold the file open for one transaction of one thread."""
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = _connected(self._path)
                with self._connection:
                    yield self._connection
        except (sqlite3.Error, OSError):
            raise StoreError(f"{self._path}: the history of questions cannot be read or written") from None


def history_of(users: Path) -> Path:
    """Return the file of the history that belongs to a users file."""
    return users.with_name(f"{users.name}-asked")


def _connected(path: Path) -> sqlite3.Connection:
    """Return a connection to the file, which is its owner's alone, made here where there is none."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # of a file that was there; only its owner may
    finally:
        os.close(descriptor)
    made = sqlite3.connect(path, check_same_thread=False)
    # What a power cut takes of it is lost to its user's convenience alone.
    try:
        made.create_function("digest", 1, lambda text: sha256(text.encode()).digest(), deterministic=True)
        made.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {_TABLES}")
        if made.execute("SELECT 1 FROM sqlite_master WHERE name = 'questions'").fetchone():
            made.executescript(_SHORTENED)
    except sqlite3.Error:
        made.close()
        raise
    return made


def _where(session: str, user: str | None, find: str) -> tuple[str, tuple[str, ...]]:
    parts, values = ["session = ?"], [session]
    if user is not None:
        parts.append("user = ?")
        values.append(user)
    if find:
        parts.append("instr(lower(question), lower(?)) > 0")
        values.append(find)
    return f"WHERE {' AND '.join(parts)}", tuple(values)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
