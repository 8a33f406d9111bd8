"""The session file: one SQLite database that holds everything a session must not forget.

The ledger is the truth; model snapshots are a cache. Every row has a checksum, and rows that are gone are
missed: a damaged file is refused, for a smaller ledger would spend again. A batch that draws noise takes two
durable commits: its intent with 32 fresh bytes before anything is drawn, then its outcome, charges and
answers together with the wiping of the bytes. Deleted rows are overwritten. The log keeps old pages: of a
batch's bytes it never holds more than what a mask made of them, and it is emptied after each commit that
wiped another secret. What lies in this file is secret.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, SessionError, StoreError
from pmw.randomness import SEED_BYTES
from pmw.store.answer_rows import mark_of, query_key, row_of_answer
from pmw.store.archive import BLOCK
from pmw.store.checksums import (
    add_counts,
    insertion,
    require_format,
    require_whole,
    reseal,
    sealed,
)
from pmw.store.connection import (
    APPLICATION_ID,
    Transaction,
    claim,
    connect,
    empty_log,
    resolved,
    write_ahead,
)
from pmw.store.copying import copy_public
from pmw.store.fence import Fence
from pmw.store.masks import Masks
from pmw.store.migrations import migrate
from pmw.store.rows import IntentRow, Outcome
from pmw.store.schema import FORMAT_VERSION, statements
from pmw.store.session_reader import SessionReader, snapshot_checksum
from pmw.store.witness import Witness

__all__ = [
    "SessionStore",
]

_AT_ONCE = 16 * BLOCK  # answers that are archived in one transaction
_PATIENCE = 5000  # milliseconds that readers are waited for when a file is written anew


class SessionStore(SessionReader):
    """One connection to a session file, or to a database in memory.

    Every method that writes is one durable transaction, and writes nothing where another process has taken
    the session over. Texts of the driver are replaced by our own.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        super().__init__(connect(":memory:" if path is None else str(path), name), name, FORMAT_VERSION)
        self._fence = Fence(self._connection, path, name)
        self._witness = Witness(path, name)
        self._masks = Masks(path, name)
        self._log = None if path is None else path.with_name(f"{path.name}-wal")
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
        try:
            store._witness.forget()
            store._masks.forget()
            with store._guarded():
                write_ahead(store._connection)
            with store._transaction():
                store._make_tables()
                store._fence.take()
                store._insert(0, outcome)
                store._insert_intent(kind, proposal, seed)
        except BaseException:
            store.close()
            raise
        return store

    def _make_tables(self) -> None:
        for statement in statements():
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        self._add("meta", [("asked", "0")])
        reseal(self._connection)

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
        try:
            store._require_session()
        except BaseException:
            store.close()
            raise
        return store

    def _require_session(self) -> None:
        """Tell another kind of file, a newer format or other tables, before anything is read or written."""
        with self._guarded():
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise SessionCorruptError(
                    f"{self._name}: expected a session file, found another kind of file"
                )
            if version > FORMAT_VERSION:
                raise SessionCorruptError(
                    f"{self._name}: a session of format {version}; this program reads up to "
                    f"{FORMAT_VERSION}, update it"
                )
            self._version = version
            told = self._witness.told()  # before the charges, which may grow meanwhile
            require_format(self._connection, version, self._name)
            write_ahead(self._connection)
            self._witness.require(told, self._charges())

    def take_over(self) -> None:
        """Become the one who writes, durably; whoever held the session before writes nothing any more."""
        with self._transaction():
            if self._version < FORMAT_VERSION:
                migrate(self._connection, self._version, self._masks.mask)
                self._masks.mask(self._last_intent() + 1, bytes(SEED_BYTES))  # from now on they are there
            require_whole(self._connection, self._name)
            self._fence.take()
            (waiting,) = self._connection.execute("SELECT count(*) FROM intents").fetchone()
            finished = self._last_intent() - waiting
        self._version = FORMAT_VERSION
        self._masks.wipe(finished, since=1)  # as far as a kill or a power cut left any
        self._quiet_log()

    def require_companions(self) -> None:
        """Refuse to spend from an open session that was moved or copied without the files beside it.

        Raises:
            SessionCorruptError: its masks are not there, so its log may not be either.
        """
        if self._version == FORMAT_VERSION and self.meta("closed") is None:
            self._masks.require()

    def pending(self) -> IntentRow | None:
        """Return the intent without an outcome, or None; its seed is None where the mask of it is gone."""
        row = super().pending()
        if row is None or row.seed is None or self._version < FORMAT_VERSION:  # they had no masks
            return row
        return replace(row, seed=self._masks.unmask(row.id, row.seed))

    def begin(self, kind: str, proposal: str, seed: bytes) -> int:
        """Record an intent durably, before anything is drawn, and return its number.

        Raises:
            SessionLockedError: another process has taken over, or another intent has no outcome yet.
        """
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
        self._log_tells |= bool(outcome.secrets or outcome.ledger)  # no charge stays in the log alone
        tells = self._log_tells
        self._log_tells |= intent is not None  # until its mask is gone: an interrupt may come first
        with self._writing():
            if outcome.charged_before not in (None, self._charges()):
                raise self._fence.lost()
            self._insert(intent or 0, outcome)
            if intent is not None:
                wiped = self._connection.execute("DELETE FROM intents WHERE id = ?", (intent,)).rowcount
                if wiped != 1:
                    raise self._fence.lost()
            charges = self._charges()
        if intent is not None and self._masks.wipe(intent):
            self._log_tells = tells
        self._quiet_log()
        if outcome.ledger and self._log_tells:
            self._witness.tell(charges)

    def seal(self, intent: int | None, outcome: Outcome) -> None:
        """Record a last outcome and wipe every secret and every intent, in one durable transaction."""
        with self._writing():
            self._insert(intent or 0, outcome)
            self._connection.execute("DELETE FROM intents")
            self._connection.execute("DELETE FROM secrets")

    def scrub(self) -> None:
        """Remove the masks, write the file anew and empty its log, so that nothing is left of what was wiped.

        Deleted rows are overwritten at once; but the log keeps old pages, and a page that was split may keep
        an old copy of a row.

        Raises:
            StoreError: there is no room, or a reader held on to the old pages.
        """
        execute = self._connection.execute
        try:
            self._masks.forget()  # first: it needs no room
            execute("PRAGMA temp_store = MEMORY")  # no copy of the session in another folder
            execute("VACUUM")
            done = empty_log(self._connection, _PATIENCE)
            if self._log is not None:
                synchronise(self._log)  # else a power cut may bring back what it held
        except (sqlite3.Error, StoreError, OSError):
            done = False
        if not done:
            raise StoreError(
                f"{self._name}: the session is closed, but its file could not be written anew, so old copies "
                "of its secrets may lie in it; make room and let its readers end, then close it again"
            )

    def archive_some(self, since: int) -> int | None:
        """Move some stored answers into the archive, durably: all that drew no noise but the newest answer.

        Args:
            since: the number of the answer after which they begin; 0 at first.

        Returns:
            The number of the last one that was moved; None where none is left.
        """
        columns = f"{self._columns('answers')}, sequence"
        wanted = "source <> 'measured' AND sequence > ? AND sequence < (SELECT max(sequence) FROM answers)"
        statement = f"SELECT {columns} FROM answers WHERE {wanted} ORDER BY sequence LIMIT {_AT_ONCE}"
        with self._writing():
            rows = [self._numbered(row) for row in self._connection.execute(statement, (since,))]
            kept = [
                (number, answer) for number, answer in rows if answer.query_key == query_key(answer.query)
            ]
            for start in range(0, len(kept), BLOCK):
                self._archives.add(kept[start : start + BLOCK])
            numbers = [(number,) for number, _ in kept]
            self._connection.executemany("DELETE FROM answers WHERE sequence = ?", numbers)
        return rows[-1][0] if rows else None

    def write_anew(self) -> None:
        """Write the file anew, without the room that is not used any more.

        Raises:
            StoreError: there is no room for it.
        """
        try:
            self._connection.execute("PRAGMA temp_store = MEMORY")  # no copy of the session in another folder
            self._connection.execute("VACUUM")
            empty_log(self._connection, _PATIENCE)
        except sqlite3.Error:
            raise StoreError(
                f"{self._name}: the answers are archived, but there was no room to write the file anew; "
                "make room, then compact it again"
            ) from None

    def copy_public(self, path: Path, target: Path) -> None:
        """Write a copy without secrets to a new file, while others may be using the session.

        Args:
            path: the file to make.
            target: what it will be called, for messages.

        Raises:
            SessionCorruptError: a row was altered or is gone.
            SessionError: the file is of an older format.
            StoreError: the copy cannot be written.
        """
        if self._version < FORMAT_VERSION:
            raise SessionError(
                f"{self._name}: a session of format {self._version}; ask it a question first, which brings "
                f"it to format {FORMAT_VERSION}"
            )
        try:
            with self._guarded():
                copy_public(self._connection, path, self._name)
        except OSError as error:
            raise StoreError(f"{target}: the copy cannot be written: {error.strerror}") from None

    def save_snapshot(self, version: int, duals: NDArray[np.float64]) -> None:
        """Keep the model's dual numbers as a cache; only the newest are kept."""
        raw = np.ascontiguousarray(duals, dtype="<f8").tobytes()
        with self._writing():
            self._connection.execute("DELETE FROM snapshots")
            self._connection.execute(
                "INSERT INTO snapshots VALUES (?, ?, ?)", (version, raw, snapshot_checksum(version, raw))
            )
        self._quiet_log()

    def _quiet_log(self) -> None:
        """Empty the log where it may tell of a wiped secret; a reader in the way makes nothing fail."""
        if self._log_tells:
            self._log_tells = not empty_log(self._connection)

    def _insert(self, intent: int, outcome: Outcome) -> None:
        self._add("ledger", [(intent, row.event, row.label, row.epsilon, row.rho) for row in outcome.ledger])
        self._add(
            "measurements",
            [(intent, row.kind, row.what, row.units, row.noise) for row in outcome.measurements],
        )
        self._add("answers", [row_of_answer(answer) for answer in outcome.answers])
        self._add(
            "certificates",
            [(row.scope, row.version, row.threshold, row.units) for row in outcome.certificates],
            "INSERT OR REPLACE",
        )
        self._add("meta", list(outcome.meta.items()), "INSERT OR REPLACE")
        added = {
            "ledger": len(outcome.ledger),
            "measurements": len(outcome.measurements),
            "answers": len(outcome.answers),
            "measured": sum(answer.source == "measured" for answer in outcome.answers),
        }
        if any(added.values()):
            add_counts(self._connection, added, self._name)
        if outcome.asked:
            self._add("meta", [("asked", str(self.asked() + outcome.asked))], "INSERT OR REPLACE")
        marks = [(mark_of(request), self._number_of(key)) for request, key in outcome.marks.items()]
        self._add("meta", marks)
        for key, value in outcome.secrets.items():
            if value is None:
                self._connection.execute("DELETE FROM secrets WHERE key = ?", (key,))
            else:
                self._add("secrets", [(key, value)], "INSERT OR REPLACE")

    def _add(self, table: str, rows: Sequence[Sequence[object]], verb: str = "INSERT") -> None:
        self._connection.executemany(insertion(table, verb), [sealed(table, row) for row in rows])

    def _number_of(self, key: bytes) -> str:
        """Return the number of the newest answer to a query."""
        found = self._newest(key)
        if found is None:
            raise StoreError(f"{self._name}: expected a stored answer to mark, found none")
        return str(found[0])

    def _insert_intent(self, kind: str, proposal: str, seed: bytes) -> int:
        number = self._last_intent() + 1  # never given again
        row = sealed("intents", (kind, proposal, self._masks.mask(number, seed)))
        return int(self._connection.execute(insertion("intents"), row).lastrowid or 0)

    def _last_intent(self) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'intents'").fetchone()
        return 0 if row is None else int(row[0])

    def _transaction(self) -> Transaction:
        return Transaction(self._connection, self._name)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One durable transaction, for whoever holds the session."""
        with self._transaction():
            self._fence.check()
            yield
