"""The session file: one SQLite database that holds everything a session must not forget.

The ledger is the truth; model snapshots are a cache. A chain of hashes covers what was charged, measured or
drawn, and every other row has a checksum: a damaged file is refused, for a smaller ledger would spend again.
A batch that draws noise takes two synchronised writes: the batch with its 32 fresh bytes into the companion
file, before anything is drawn, then one commit of its outcome, charges and answers. Deleted rows are
overwritten. The log keeps old pages: it is emptied after each commit that wiped a secret. What lies in this
file is secret.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, SessionError, StoreError
from pmw.privacy.random_bits import fresh_seed
from pmw.session.store.answer_rows import MEASURED, key_name, row_of_answer
from pmw.session.store.checksums import as_written, insertion
from pmw.session.store.columns import AnswerColumns, runs
from pmw.session.store.companion import SESSION_BYTES, Companion
from pmw.session.store.connection import (
    APPLICATION_ID,
    Transaction,
    claim,
    connect,
    empty_log,
    resolved,
    write_ahead,
)
from pmw.session.store.copying import copy_public
from pmw.session.store.fence import Fence
from pmw.session.store.files import SessionFiles, is_model_file
from pmw.session.store.newer import add_newer
from pmw.session.store.rows import IntentRow, Outcome
from pmw.session.store.schema import FORMAT_VERSION, statements
from pmw.session.store.session_reader import SessionReader, snapshot_checksum
from pmw.session.store.wholeness import ANSWERS, require_tables, require_whole

_PATIENCE = 5000  # milliseconds that readers are waited for when a file is written again


class SessionStore(SessionReader):
    """One connection to a session file, or to a database in memory.

    Every method that writes is one durable transaction, and writes nothing where another process has taken
    the session over. Texts of the driver are replaced by our own.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        super().__init__(connect(":memory:" if path is None else str(path), name), name)
        self._fence = Fence(self._connection, path, name)
        self._companion = Companion(path, name)
        self._recorded = 0  # the newest batch that is known to be durable
        self._log = None if path is None else SessionFiles(path).log
        self._log_tells = True  # the log may hold a secret that was wiped

    @classmethod
    def create(
        cls, path: Path | None, kind: str, proposal: str, seed: bytes, outcome: Outcome
    ) -> SessionStore:
        """Return the store of a new session file (mode 0600), or one in memory for None.

        The opening's intent is in the companion file before the tables and the first facts are made in one
        transaction: a session exists with its intent or not at all.

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
            session = fresh_seed()[:SESSION_BYTES]
            store._companion.create(session, IntentRow(1, kind, proposal, seed, 0))
            store._recorded = 1
            with store._guarded():
                write_ahead(store._connection)
            with store._transaction():
                store._make_tables(session)
                store._fence.take()
                store._insert(0, outcome)
        except BaseException:
            store.close()
            raise
        return store

    def _make_tables(self, session: bytes) -> None:
        for statement in statements():
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        self._add("meta", [("asked", "0"), ("intent", "0"), ("session", f'"{session.hex()}"')])

    @classmethod
    def open(cls, path: Path) -> SessionStore:
        """Return the store of an existing session file, for reading until ``take_over``.

        Raises:
            SessionCorruptError: the file is no session, damaged, or of another format.
            SessionError: the file is absent, or has several names.
        """
        if not path.is_file():
            raise SessionError(f"{path}: expected a session file, found none; make one with open")
        if is_model_file(path):
            raise SessionError(
                f"{path}: expected a session file, found a model or other JSON; a model is read by ask and "
                "status alone"
            )
        store = cls(resolved(path), str(path))
        try:
            store._require_session()
        except BaseException:
            store.close()
            raise
        return store

    def _require_session(self) -> None:
        """Tell another kind of file, another format or other tables, before anything is read or written."""
        with self._guarded():
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise SessionCorruptError(
                    f"{self._name}: expected a session file, found another kind of file"
                )
            if version != FORMAT_VERSION:
                raise SessionCorruptError(
                    f"{self._name}: a session of format {version}; this program reads format "
                    f"{FORMAT_VERSION} alone; use the version that made it"
                )
            require_tables(self._connection, self._name)
            newest = self._newest_batch()  # before the charges, which may grow meanwhile
            write_ahead(self._connection)
            if newest is not None:
                self._require_log(newest)

    def _newest_batch(self) -> IntentRow | None:
        """Return the newest batch, or None where the session is closed or its companion is of no use."""
        try:
            return (
                None
                if self.meta("closed") is not None
                else self._companion.read(self._session(), self.last_intent())
            )
        except SessionCorruptError:  # whoever writes is told, and readers go on
            return None

    def _session(self) -> bytes:
        return bytes.fromhex(str(self.meta("session")).strip('"'))

    def take_over(self) -> None:
        """Become the one who writes, durably; whoever held the session before writes nothing any more."""
        with self._transaction():
            require_whole(self._connection, self._name)
            self._fence.take()
            last = self.last_intent()
        self._companion.wipe(last)  # as far as a kill or a power cut left a seed
        self._quiet_log()

    def require_companion(self) -> None:
        """Refuse to spend from an open session whose companion file is not the one that belongs to it.

        Raises:
            SessionCorruptError: it is not there, damaged, another session's, or of another time.
        """
        if self.meta("closed") is None:
            with self.reading():
                last = self.last_intent()
                newest = self._companion.read(self._session(), last)
            if newest.id < last:
                raise SessionCorruptError(
                    f"{self._name}: the session had {last} batches, and its companion file knows of "
                    f"{newest.id}: it is an older copy; put the newest one beside the session, or close the "
                    "session with --abandon"
                )

    def pending(self) -> IntentRow | None:
        """Return the batch that has no outcome yet, or None; None too where the companion is of no use."""
        newest = self._newest_batch()
        if newest is None or not newest.seed:  # a reader of older pages may find it finished meanwhile
            return None
        return newest if newest.id == self.last_intent() + 1 else None

    def begin(self, kind: str, proposal: str, seed: bytes) -> int:
        """Record a batch durably, before anything is drawn, and return its number.

        Raises:
            SessionLockedError: another process has taken over, or another batch has no outcome yet.
            StoreError: the companion file cannot be written.
        """
        with self._writing():  # nobody else writes meanwhile; the session file itself stays as it is
            session, number = self._session(), self.last_intent() + 1
            if self._companion.read(session, number - 1).id != number - 1:
                raise self._fence.lost()
            self._companion.begin(session, IntentRow(number, kind, proposal, seed, self._charges()))
        self._recorded = number
        return number

    def begin_again(self, intent: IntentRow) -> None:
        """Record a batch once more before it is drawn again, where it was read: it may never have lasted.

        Raises:
            SessionLockedError: another process has taken over.
            StoreError: the companion file cannot be written.
        """
        if intent.id != self._recorded:
            with self._writing():
                self._companion.begin(self._session(), intent)
            self._recorded = intent.id

    def finish(self, intent: int | None, outcome: Outcome) -> None:
        """Record an outcome durably, and overwrite the seed of the batch that it belongs to.

        When this returns, no byte of what was wiped is left in the files or the log, unless somebody is just
        reading old pages: then they are wiped at the next commit that finds nobody.

        Raises:
            SessionLockedError: another process has taken over, the batch has its outcome already, or the
                file holds other charges than the outcome goes on from.
        """
        self._log_tells |= bool(outcome.secrets)
        with self._writing():
            if outcome.charged_before not in (None, self._charges()):
                raise self._fence.lost()
            if intent is not None:
                if intent != self.last_intent() + 1:
                    raise self._fence.lost()
                self._add("meta", [("intent", str(intent))], "INSERT OR REPLACE")
            self._insert(intent or 0, outcome)
        if intent is not None:
            self._companion.wipe(intent)
        self._quiet_log()

    def finalize(self, intent: int | None, outcome: Outcome) -> None:
        """Record a last outcome and wipe every secret, in one durable transaction."""
        with self._writing():
            self._insert(intent or 0, outcome)
            self._connection.execute("DELETE FROM secrets")

    def scrub(self) -> None:
        """Remove the companion, write the file again and empty its log: nothing is left of what was wiped.

        Deleted rows are overwritten at once; but the log keeps old pages, and a page that was split may keep
        an old copy of a row.

        Raises:
            StoreError: there is no room, or a reader held on to the old pages.
        """
        execute = self._connection.execute
        try:
            self._companion.remove()  # first: it needs no room
            execute("PRAGMA temp_store = MEMORY")  # no copy of the session in another folder
            execute("VACUUM")
            done = empty_log(self._connection, _PATIENCE)
            if self._log is not None:
                synchronise(self._log)  # else a power cut may bring back what it held
        except (sqlite3.Error, StoreError, OSError):
            done = False
        if not done:
            raise StoreError(
                f"{self._name}: the session is closed, but its file could not be written again, so "
                "old copies of its secrets may lie in it; make room and let its readers end, "
                "then close it again"
            )

    def copy_public(self, path: Path, target: Path) -> None:
        """Write a copy without secrets to a new file, while others may be using the session.

        Args:
            path: the file to make.
            target: what it will be called, for messages.

        Raises:
            SessionCorruptError: a row was altered or is gone.
            StoreError: the copy cannot be written.
        """
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
        self._add("ledger", [(intent, *astuple(row)) for row in outcome.ledger])
        self._add(
            "measurements",
            [(intent, row.kind, row.what, row.units, row.noise) for row in outcome.measurements],
        )
        is_covered = bool(outcome.answers or outcome.columns) and self._add_answers(outcome)
        self._add(
            "certificates",
            [(row.scope, row.version, row.threshold, row.units) for row in outcome.certificates],
            "INSERT OR REPLACE",
        )
        facts = dict(outcome.meta)
        if outcome.asked:
            facts["asked"] = str(self.asked() + outcome.asked)
        self._add("meta", facts.items(), "INSERT OR REPLACE")
        if outcome.ledger or outcome.measurements or is_covered:
            self._chain.extend()
        numbers = self._newest_stored([*outcome.idempotency_keys.values()])
        self._add("meta", zip(map(key_name, outcome.idempotency_keys), map(str, numbers), strict=True))
        analysts, texts = zip(*outcome.repeats, strict=True) if outcome.repeats else ((), ())
        again = zip(analysts, self._newest_stored(texts), strict=True)
        repeats = [one for one in again if self.answer_at(one[1]).analyst != one[0]]
        self._add("repeats", repeats, "INSERT OR IGNORE")
        for key, value in outcome.secrets.items():
            if value is None:
                self._connection.execute("DELETE FROM secrets WHERE key = ?", (key,))
            else:
                self._add("secrets", [(key, value)], "INSERT OR REPLACE")

    def _add_answers(self, outcome: Outcome) -> bool:
        """Add answers, the many that drew no noise as blocks; tell whether the chain covers any of them."""
        number, is_covered = int(self.meta(ANSWERS) or 0), False
        if outcome.are_newer:
            pairs = [(one.query, one.analyst) for one in outcome.answers]
            pairs += [(text, one.analyst) for one in outcome.columns for text in one.texts]
            older = self._newest_stored([text for text, _ in pairs])
            add_newer(self._connection, number + 1, older, [analyst for _, analyst in pairs])
        for run in (*runs(outcome.answers), *outcome.columns):
            if isinstance(run, AnswerColumns):
                self._blocks.insert(number + 1, run)
                is_covered = True
            else:
                rows = (as_written("answers", row_of_answer(answer)) for answer in run)
                numbered = [(*row, place) for place, row in enumerate(rows, start=number + 1)]
                self._connection.executemany(insertion("answers", numbered=True), numbered)
                is_covered |= any(answer.source == MEASURED for answer in run)
            number += len(run)
        self._add("meta", [(ANSWERS, str(number))], "INSERT OR REPLACE")
        return is_covered

    def _add(self, table: str, rows: Iterable[Sequence[object]], verb: str = "INSERT") -> None:
        self._connection.executemany(insertion(table, verb), [as_written(table, row) for row in rows])

    def _newest_stored(self, texts: Sequence[str]) -> list[int]:
        """Return the numbers of the newest answers to some questions."""
        if not texts:
            return []
        numbers, rows = self._newest(texts)
        found = [rows.get(place, number) for place, number in enumerate(numbers.tolist())]
        if not all(found):
            raise StoreError(f"{self._name}: expected a stored answer to tie a key to, found none")
        return found

    def _require_log(self, newest: IntentRow) -> None:
        """Compare the session file with its companion, which tells what the file must hold.

        Raises:
            SessionCorruptError: a batch that had its outcome is gone, or charges are.
        """
        last, charges = self.last_intent(), self._charges()
        finished = newest.id - 1 if newest.seed else newest.id
        if last < finished or charges < newest.charges:
            raise SessionCorruptError(
                f"{self._name}: it had {finished} batches and {newest.charges} charges or more, and holds "
                f"{last} and {charges}: its log ({self._name}-wal) was lost or damaged, or an older copy was "
                "put in its place"
            )

    def _transaction(self) -> Transaction:
        return Transaction(self._connection, self._name)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One durable transaction, for whoever holds the session."""
        try:
            with self._transaction():
                self._fence.check()
                yield
        except BaseException:
            self._blocks.forget()
            raise
