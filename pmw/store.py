"""The session file: one SQLite database that holds everything a session must not forget.

The ledger is the truth; model snapshots are a cache with a checksum. A batch that draws noise takes two
durable commits: its intent with 32 fresh bytes before anything is drawn, then its outcome, charges and
answers together with the wiping of the bytes. What lies in this file is secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError, SessionExistsError, SessionLockedError, StoreError

__all__ = [
    "FORMAT_VERSION",
    "IntentRow",
    "LedgerRow",
    "MeasurementRow",
    "Outcome",
    "SessionStore",
    "StoredAnswer",
]

FORMAT_VERSION = 1
_APPLICATION_ID = 0x504D5753  # "PMWS", tells a session from other SQLite files

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
CREATE TABLE intents (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, proposal TEXT NOT NULL,
    seed BLOB NOT NULL) STRICT;
CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL, event TEXT NOT NULL,
    label TEXT NOT NULL, epsilon TEXT, rho TEXT NOT NULL) STRICT;
CREATE TABLE measurements (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL, kind TEXT NOT NULL,
    what TEXT NOT NULL, units BLOB NOT NULL, noise TEXT NOT NULL) STRICT;
CREATE TABLE answers (sequence INTEGER PRIMARY KEY, request_id TEXT UNIQUE, query_key BLOB NOT NULL,
    query TEXT NOT NULL, count REAL NOT NULL, low REAL, high REAL, confidence REAL NOT NULL,
    source TEXT NOT NULL, version INTEGER NOT NULL, share REAL NOT NULL) STRICT;
CREATE INDEX answers_by_query ON answers (query_key);
CREATE TABLE snapshots (version INTEGER PRIMARY KEY, duals BLOB NOT NULL, checksum BLOB NOT NULL) STRICT;
"""


@dataclass(frozen=True, slots=True, repr=False)
class IntentRow:
    """A batch that was recorded but has no outcome yet. The seed is secret."""

    id: int
    kind: str
    proposal: str
    seed: bytes


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One charge: exact fractions as texts; epsilon is None where the event is not pure."""

    event: str
    label: str
    epsilon: str | None
    rho: str


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One released measurement.

    Args:
        kind: ``total``, ``marginal`` or ``query``.
        what: JSON, the scope or the query.
        units: little-endian int64, units of 2^-20 records.
        noise: JSON, the law of the noise.
    """

    kind: str
    what: str
    units: bytes
    noise: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it was released, and the question it belongs to."""

    request_id: str | None
    query_key: bytes
    query: str
    count: float
    interval: tuple[float, float] | None
    confidence: float
    source: str
    version: int
    share: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one commit adds to the file.

    Args:
        ledger: charges.
        measurements: released measurements.
        answers: released answers.
        asked: how many questions it answers, repeated ones included.
        meta: public facts to set, as JSON texts.
        secrets: secret facts to set; None wipes one.
    """

    ledger: Sequence[LedgerRow] = ()
    measurements: Sequence[MeasurementRow] = ()
    answers: Sequence[StoredAnswer] = ()
    asked: int = 0
    meta: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes | None] = field(default_factory=dict)


class SessionStore:
    """One connection to a session file, or to a database in memory.

    Every method that writes is one durable transaction. Texts of the driver are replaced by our own.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    @classmethod
    def create(
        cls, path: Path | None, kind: str, proposal: str, seed: bytes, outcome: Outcome
    ) -> SessionStore:
        """Return the store of a new session file (mode 0600), or one in memory for None.

        The tables, the first facts and the opening's intent are one transaction: a session exists with its
        intent or not at all.

        Raises:
            SessionExistsError: the file exists.
            StoreError: the file cannot be made.
        """
        name = "the session in memory" if path is None else str(path)
        if path is not None:
            _claim(path)
        store = cls(_connect(":memory:" if path is None else str(path)), name)
        with store._transaction():
            for statement in _SCHEMA.split(";"):
                store._connection.execute(statement)
            store._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            store._connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            store._connection.execute("INSERT INTO meta VALUES ('asked', '0')")
            store._insert(0, outcome)
            store._insert_intent(kind, proposal, seed)
        return store

    @classmethod
    def open(cls, path: Path) -> SessionStore:
        """Return the store of an existing session file.

        Raises:
            SessionCorruptError: the file is absent, is no session, or was made by a newer version.
        """
        if not path.is_file():
            raise SessionCorruptError(f"{path}: expected a session file, found none; make one with open")
        store = cls(_connect(str(path)), str(path))
        with store._guarded():
            (application,) = store._connection.execute("PRAGMA application_id").fetchone()
            (version,) = store._connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            store.close()
            raise SessionCorruptError(f"{path}: expected a session file, found another kind of file")
        if version > FORMAT_VERSION:
            store.close()
            raise SessionCorruptError(
                f"{path}: a session of format {version}; this program reads up to {FORMAT_VERSION}, update it"
            )
        return store

    def begin(self, kind: str, proposal: str, seed: bytes) -> int:
        """Record an intent durably, before anything is drawn, and return its number."""
        with self._transaction():
            return self._insert_intent(kind, proposal, seed)

    def finish(self, intent: int | None, outcome: Outcome) -> None:
        """Record an outcome durably, and wipe the intent that it belongs to."""
        with self._transaction():
            self._insert(intent or 0, outcome)
            if intent is not None:
                self._connection.execute("DELETE FROM intents WHERE id = ?", (intent,))

    def pending(self) -> IntentRow | None:
        """Return the intent without an outcome, or None."""
        row = self._one("SELECT id, kind, proposal, seed FROM intents ORDER BY id LIMIT 1")
        return None if row is None else IntentRow(*row)

    def meta(self, key: str) -> str | None:
        """Return a public fact, as JSON text."""
        row = self._one("SELECT value FROM meta WHERE key = ?", key)
        return None if row is None else str(row[0])

    def secret(self, key: str) -> bytes | None:
        """Return a secret fact."""
        row = self._one("SELECT value FROM secrets WHERE key = ?", key)
        return None if row is None else bytes(row[0])

    def ledger(self) -> list[LedgerRow]:
        """Return all charges, in order."""
        return [LedgerRow(*row) for row in self._all("SELECT event, label, epsilon, rho FROM ledger")]

    def measurements(self) -> list[MeasurementRow]:
        """Return all released measurements, in order."""
        return [
            MeasurementRow(*row) for row in self._all("SELECT kind, what, units, noise FROM measurements")
        ]

    def asked(self) -> int:
        """Return how many questions were answered, repeated ones included."""
        return int(self.meta("asked") or 0)

    def answer_to_request(self, request_id: str) -> StoredAnswer | None:
        """Return the answer that a request was given, or None."""
        return _stored(self._one(f"{_ANSWER} WHERE request_id = ?", request_id))

    def newest_answer(self, query_key: bytes) -> StoredAnswer | None:
        """Return the newest answer to a query, or None."""
        return _stored(self._one(f"{_ANSWER} WHERE query_key = ? ORDER BY sequence DESC LIMIT 1", query_key))

    def shares(self, most: int) -> list[tuple[int, float]]:
        """Return the share spent after n answers, as (n, share), evenly thinned to ``most`` pairs."""
        (last,) = self._one("SELECT coalesce(max(sequence), 0) FROM answers")
        step = max(1, -(-last // most))
        with self._guarded():
            return self._connection.execute(_SHARES, (last, step, step)).fetchall()

    def save_snapshot(self, version: int, duals: NDArray[np.float64]) -> None:
        """Keep the model's dual numbers as a cache; only the newest are kept."""
        raw = np.ascontiguousarray(duals, dtype="<f8").tobytes()
        with self._transaction():
            self._connection.execute("DELETE FROM snapshots")
            self._connection.execute(
                "INSERT INTO snapshots VALUES (?, ?, ?)", (version, raw, _checksum(version, raw))
            )

    def snapshot(self) -> tuple[int, NDArray[np.float64]] | None:
        """Return the newest snapshot whose checksum holds: its version and dual numbers, or None."""
        row = self._one("SELECT version, duals, checksum FROM snapshots ORDER BY version DESC LIMIT 1")
        if row is None or _checksum(row[0], row[1]) != row[2]:
            return None
        return int(row[0]), np.frombuffer(row[1], dtype="<f8").astype(np.float64)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _insert(self, intent: int, outcome: Outcome) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        many(
            "INSERT INTO ledger (intent, event, label, epsilon, rho) VALUES (?, ?, ?, ?, ?)",
            [(intent, row.event, row.label, row.epsilon, row.rho) for row in outcome.ledger],
        )
        many(
            "INSERT INTO measurements (intent, kind, what, units, noise) VALUES (?, ?, ?, ?, ?)",
            [(intent, row.kind, row.what, row.units, row.noise) for row in outcome.measurements],
        )
        many(
            "INSERT INTO answers (request_id, query_key, query, count, low, high, confidence, source,"
            " version, share) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [_answer_row(answer) for answer in outcome.answers],
        )
        if outcome.asked:
            execute(
                "UPDATE meta SET value = CAST(value AS INTEGER) + ? WHERE key = 'asked'", (outcome.asked,)
            )
        many("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(outcome.meta.items()))
        for key, value in outcome.secrets.items():
            if value is None:
                execute("DELETE FROM secrets WHERE key = ?", (key,))
            else:
                execute("INSERT OR REPLACE INTO secrets VALUES (?, ?)", (key, value))

    def _insert_intent(self, kind: str, proposal: str, seed: bytes) -> int:
        cursor = self._connection.execute(
            "INSERT INTO intents (kind, proposal, seed) VALUES (?, ?, ?)", (kind, proposal, seed)
        )
        return int(cursor.lastrowid or 0)

    def _one(self, statement: str, *values: Any) -> Any:
        with self._guarded():
            return self._connection.execute(statement, values).fetchone()

    def _all(self, statement: str) -> list[Any]:
        with self._guarded():
            return self._connection.execute(f"{statement} ORDER BY sequence").fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE … COMMIT, or ROLLBACK where anything fails."""
        with self._guarded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _own_error(error, self._name) from None


# Looks up every so manyth row by its number, from the last one down, so that a long table is not read.
_SHARES = (
    "WITH RECURSIVE steps(place) AS (SELECT ? UNION ALL SELECT place - ? FROM steps WHERE place > ?)"
    " SELECT sequence, share FROM steps JOIN answers ON sequence = place ORDER BY sequence"
)
_ANSWER = (
    "SELECT request_id, query_key, query, count, low, high, confidence, source, version, share FROM answers"
)


def _claim(path: Path) -> None:
    """Make an empty file with mode 0600, or take over one that a killed opening left without any table."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not _is_unborn(path):
            raise SessionExistsError(
                f"{path} exists; choose another name, or go on with the session that it holds"
            ) from None
    except OSError as error:
        raise StoreError(f"{path}: the session file cannot be made: {error.strerror}") from None


def _is_unborn(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(str(path), timeout=1)) as connection:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return bool(tables == 0)
    except sqlite3.Error:
        return False


def _connect(target: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(target, timeout=30, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
    except sqlite3.Error as error:
        raise _own_error(error, target) from None
    return connection


def _own_error(error: sqlite3.Error, name: str) -> Exception:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return SessionLockedError(f"{name}: another process is using the session; try again when it ended")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return SessionCorruptError(f"{name}: the file is no session file, or it is damaged")
    return StoreError(
        f"{name}: the session file cannot be read or written; nothing was released; "
        "make room or restore access, then ask again"
    )


def _checksum(version: int, raw: bytes) -> bytes:
    return hashlib.sha256(version.to_bytes(8, "little") + raw).digest()


def _answer_row(answer: StoredAnswer) -> tuple[Any, ...]:
    low, high = (None, None) if answer.interval is None else answer.interval
    head = (answer.request_id, answer.query_key, answer.query, answer.count, low, high)
    return (*head, answer.confidence, answer.source, answer.version, answer.share)


def _stored(row: Any) -> StoredAnswer | None:
    if row is None:
        return None
    request_id, key, query, count, low, high, confidence, source, version, share = row
    interval = None if low is None else (low, high)
    return StoredAnswer(request_id, key, query, count, interval, confidence, source, version, share)
