"""The session file: one SQLite database that holds everything a session must not forget.

The ledger is the truth; model snapshots are a cache with a checksum. A batch that draws noise takes two
durable commits: its intent with 32 fresh bytes before anything is drawn, then its outcome, charges and
answers together with the wiping of the bytes. Deleted rows are overwritten, and the log, which keeps old
pages, is emptied after each commit that wiped a secret. What lies in this file is secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError, SessionError, StoreError
from pmw.store.connection import Transaction, claim, connect, empty_log, own_error, resolved
from pmw.store.fence import Fence
from pmw.store.rows import IntentRow, LedgerRow, MeasurementRow, Outcome, StoredAnswer

__all__ = [
    "FORMAT_VERSION",
    "SessionStore",
]

FORMAT_VERSION = 1
_PATIENCE = 5000  # milliseconds that readers are waited for when a file is written anew
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


class SessionStore:
    """One connection to a session file, or to a database in memory.

    Every method that writes is one durable transaction, and writes nothing where another process has taken
    the session over. Texts of the driver are replaced by our own.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        self._connection = connect(":memory:" if path is None else str(path), name)
        self._name = name
        self._fence = Fence(self._connection, path, name)
        self._log_tells = True  # the log may hold a secret that was wiped

    @classmethod
    def create(
        cls, path: Path | None, kind: str, proposal: str, seed: bytes, outcome: Outcome
    ) -> SessionStore:
        """Return the store of a new session file (mode 0600), or one in memory for None.

        The tables, the first facts and the opening's intent are one transaction: a session exists with its
        intent or not at all.

        Raises:
            SessionError: the file has several names.
            SessionExistsError: the file exists.
            StoreError: the file cannot be made.
        """
        name = "the session in memory" if path is None else str(path)
        target = None if path is None else resolved(path)
        if target is not None:
            claim(target, name)
        store = cls(target, name)
        with store._transaction():
            for statement in _SCHEMA.split(";"):
                store._connection.execute(statement)
            store._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            store._connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            store._connection.execute("INSERT INTO meta VALUES ('asked', '0')")
            store._fence.take()
            store._insert(0, outcome)
            store._insert_intent(kind, proposal, seed)
        return store

    @classmethod
    def open(cls, path: Path) -> SessionStore:
        """Return the store of an existing session file, for reading until ``take_over``.

        Raises:
            SessionCorruptError: the file is no session, or was made by a newer version.
            SessionError: the file is absent, or has several names.
        """
        if not path.is_file():
            raise SessionError(f"{path}: expected a session file, found none; make one with open")
        store = cls(resolved(path), str(path))
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

    def take_over(self) -> None:
        """Become the one who writes, durably; whoever held the session before writes nothing any more."""
        with self._transaction():
            self._fence.take()
        self._quiet_log()

    def begin(self, kind: str, proposal: str, seed: bytes) -> int:
        """Record an intent durably, before anything is drawn, and return its number.

        Raises:
            SessionLockedError: another process has taken over, or another intent has no outcome yet.
        """
        self._log_tells = True
        with self._writing():
            if self._connection.execute("SELECT 1 FROM intents").fetchone() is not None:
                raise self._fence.lost()
            return self._insert_intent(kind, proposal, seed)

    def finish(self, intent: int | None, outcome: Outcome) -> None:
        """Record an outcome durably, and wipe the intent that it belongs to.

        When this returns, no byte of what was wiped is left in the file or its log, unless somebody is just
        reading old pages: then they are wiped at the next commit that finds nobody.

        Raises:
            SessionLockedError: another process has taken over, the intent has its outcome already, or the
                file holds other charges than the outcome goes on from.
        """
        self._log_tells |= bool(outcome.secrets)
        with self._writing():
            if outcome.charged_before not in (None, self._charges()):
                raise self._fence.lost()
            self._insert(intent or 0, outcome)
            if intent is not None:
                wiped = self._connection.execute("DELETE FROM intents WHERE id = ?", (intent,)).rowcount
                if wiped != 1:
                    raise self._fence.lost()
        self._quiet_log()

    def seal(self, intent: int | None, outcome: Outcome) -> None:
        """Record a last outcome and wipe every secret and every intent, in one durable transaction."""
        with self._writing():
            self._insert(intent or 0, outcome)
            self._connection.execute("DELETE FROM intents")
            self._connection.execute("DELETE FROM secrets")

    def scrub(self) -> None:
        """Write the file anew and empty its log, so that neither holds a trace of what was wiped.

        Deleted rows are overwritten at once; but the log keeps old pages, and a page that was split may keep
        an old copy of a row.

        Raises:
            StoreError: there is no room, or a reader held on to the old pages.
        """
        execute = self._connection.execute
        try:
            execute("PRAGMA temp_store = MEMORY")  # no copy of the session in another folder
            execute("VACUUM")
            done = empty_log(self._connection, _PATIENCE)
        except sqlite3.Error:
            done = False
        if not done:
            raise StoreError(
                f"{self._name}: the session is closed, but its file could not be written anew, so old copies "
                "of its secrets may lie in it; make room and let its readers end, then close it again"
            )

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

    def ledger_intents(self) -> list[int]:
        """Return the number of the intent that each charge belongs to, in order."""
        return [int(row[0]) for row in self._all("SELECT intent FROM ledger")]

    def measurement_intents(self) -> list[int]:
        """Return the number of the intent that each measurement belongs to, in order."""
        return [int(row[0]) for row in self._all("SELECT intent FROM measurements")]

    def charge_count(self) -> int:
        """Return how many charges there are."""
        with self._guarded():
            return self._charges()

    def intent_count(self) -> int:
        """Return how many intents have no outcome."""
        return int(self._one("SELECT count(*) FROM intents")[0])

    def secret_names(self) -> set[str]:
        """Return which secret facts there are, without their values."""
        with self._guarded():
            return {str(row[0]) for row in self._connection.execute("SELECT key FROM secrets")}

    def asked(self) -> int:
        """Return how many questions were answered, repeated ones included."""
        return int(self.meta("asked") or 0)

    def answer_to_request(self, request_id: str) -> StoredAnswer | None:
        """Return the answer that a request was given, or None."""
        return _stored(self._one(f"{_ANSWER} WHERE request_id = ?", request_id))

    def newest_answer(self, query_key: bytes) -> StoredAnswer | None:
        """Return the newest answer to a query, or None."""
        return _stored(self._one(f"{_ANSWER} WHERE query_key = ? ORDER BY sequence DESC LIMIT 1", query_key))

    def answers(self) -> Iterator[StoredAnswer]:
        """Yield all released answers, in order."""
        with self._guarded():
            for row in self._connection.execute(f"{_ANSWER} ORDER BY sequence"):
                yield _answer(row)

    def shares(self, most: int) -> list[tuple[int, float]]:
        """Return the share spent after n answers, as (n, share), evenly thinned to ``most`` pairs."""
        (last,) = self._one("SELECT coalesce(max(sequence), 0) FROM answers")
        step = max(1, -(-last // most))
        with self._guarded():
            return self._connection.execute(_SHARES, (last, step, step)).fetchall()

    def save_snapshot(self, version: int, duals: NDArray[np.float64]) -> None:
        """Keep the model's dual numbers as a cache; only the newest are kept."""
        raw = np.ascontiguousarray(duals, dtype="<f8").tobytes()
        with self._writing():
            self._connection.execute("DELETE FROM snapshots")
            self._connection.execute(
                "INSERT INTO snapshots VALUES (?, ?, ?)", (version, raw, _checksum(version, raw))
            )
        self._quiet_log()

    def snapshot(self) -> tuple[int, NDArray[np.float64]] | None:
        """Return the newest snapshot whose checksum holds: its version and dual numbers, or None."""
        row = self._one("SELECT version, duals, checksum FROM snapshots ORDER BY version DESC LIMIT 1")
        if row is None or _checksum(row[0], row[1]) != row[2]:
            return None
        return int(row[0]), np.frombuffer(row[1], dtype="<f8").astype(np.float64)

    def has_snapshot(self) -> bool:
        """Tell whether there is a snapshot, damaged or not."""
        return self._one("SELECT 1 FROM snapshots") is not None

    def is_whole(self) -> bool:
        """Tell whether the file's own structure holds together."""
        return bool(self._one("PRAGMA integrity_check(1)")[0] == "ok")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """See one state of the file throughout, whatever is written meanwhile; nothing may be written."""
        with self._guarded():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _quiet_log(self) -> None:
        """Empty the log where it may tell of a wiped secret; a reader in the way makes nothing fail."""
        if self._log_tells:
            self._log_tells = not empty_log(self._connection)

    def _charges(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(sequence), 0) FROM ledger").fetchone()[0])

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

    def _transaction(self) -> Transaction:
        return Transaction(self._connection, self._name)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One durable transaction, for whoever holds the session."""
        with self._transaction():
            self._fence.check()
            yield

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise own_error(error, self._name) from None


# Looks up every so manyth row by its number, from the last one down, so that a long table is not read.
_SHARES = (
    "WITH RECURSIVE steps(place) AS (SELECT ? UNION ALL SELECT place - ? FROM steps WHERE place > ?)"
    " SELECT sequence, share FROM steps JOIN answers ON sequence = place ORDER BY sequence"
)
_ANSWER = (
    "SELECT request_id, query_key, query, count, low, high, confidence, source, version, share FROM answers"
)


def _checksum(version: int, raw: bytes) -> bytes:
    return hashlib.sha256(version.to_bytes(8, "little") + raw).digest()


def _answer_row(answer: StoredAnswer) -> tuple[Any, ...]:
    low, high = (None, None) if answer.interval is None else answer.interval
    head = (answer.request_id, answer.query_key, answer.query, answer.count, low, high)
    return (*head, answer.confidence, answer.source, answer.version, answer.share)


def _stored(row: Any) -> StoredAnswer | None:
    return None if row is None else _answer(row)


def _answer(row: Any) -> StoredAnswer:
    request_id, key, query, count, low, high, confidence, source, version, share = row
    interval = None if low is None else (low, high)
    return StoredAnswer(request_id, key, query, count, interval, confidence, source, version, share)
