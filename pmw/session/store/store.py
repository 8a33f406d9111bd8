"""The session file: one SQLite database that holds everything a session must not forget.

The ledger is the truth; model snapshots are a cache. A chain of hashes covers what was charged, measured or
answered, and every other row has a checksum: a damaged file is refused, for a smaller ledger would spend
again. A batch that draws noise takes two synchronised writes: the batch with its 32 fresh bytes into the
companion file, before anything is drawn, then one commit of its outcome, charges and answers. Deleted rows
are overwritten. The log keeps old pages: it is emptied after each commit that wiped a secret. What lies in
this file is secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, SessionError, StoreError
from pmw.privacy.random_bits import fresh_seed
from pmw.session.store.answers import ANSWERS, StoredAnswers
from pmw.session.store.companion import SESSION_BYTES, Companion
from pmw.session.store.connection import (
    APPLICATION_ID,
    Fence,
    SessionFiles,
    claim,
    connect,
    empty_log,
    guarded,
    is_model_file,
    resolved,
    transaction,
    write_ahead,
)
from pmw.session.store.copying import forget_copies
from pmw.session.store.locking import SessionLock, file_locks
from pmw.session.store.rows import (
    FORMAT_VERSION,
    OPENING,
    SEALED,
    TABLES,
    CertificateRow,
    Chain,
    ChainedRows,
    IntentRow,
    LedgerRow,
    MeasurementRow,
    Outcome,
    add_rows,
    read_fact,
    sealed_rows,
)

_FEW_PAGES = 4096  # 16 MiB: looking at them takes a few hundredths of a second
_MOST_NOTED = 2**12  # questions that were asked again, before they are written
_PATIENCE = 5000  # milliseconds that readers are waited for when a file is written again


class SessionStore:
    """One connection to a session file, or to a database in memory.

    Every method that writes is one durable transaction, and writes nothing where another process has taken
    the session over. Every row is compared with its checksum, or with the chain, as it is read. Texts of the
    driver are replaced by our own.

    Attributes:
        answers: what was answered.
        place: the file as it was named; None in memory.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        self._connection = connect(":memory:" if path is None else str(path), name)
        self._name, self.place = name, None if path is None else name
        self._damaged = f"{name}: the session file is damaged"
        self._chain = Chain(self._connection, name)
        self.answers = StoredAnswers(self._connection, name)
        self._fence = Fence(self._connection, path, name)
        self._companion = Companion(path, name)
        self._recorded = 0  # the newest batch that is known to be durable
        self._log = None if path is None else SessionFiles(path).log
        self._log_tells = True  # the log may hold a secret that was wiped
        self._noted, self._again = 0, dict[tuple[str, str], None]()  # what the next outcome tells, too

    @classmethod
    def create(cls, path: Path | None, seed: bytes, outcome: Outcome) -> SessionStore:
        """Return the store of a new session file (mode 0600), or one in memory for None.

        The opening's intent is in the companion file before the tables and the first facts are made in one
        transaction: a session exists with its intent or not at all.

        Args:
            seed: of the opening, 32 bytes.
        """
        name = "the session in memory" if path is None else str(path)
        target = None if path is None else resolved(path)
        if target is not None:
            claim(target, name)
        store = cls(target, name)
        try:
            session = fresh_seed()[:SESSION_BYTES]
            store._companion.create(session, IntentRow(1, OPENING, "{}", seed, 0))
            store._recorded = 1
            with guarded(name):
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
        _make_tables(self._connection)
        self._add("meta", [("asked", "0"), ("intent", "0"), ("session", f'"{session.hex()}"')])

    @classmethod
    def open(cls, path: Path) -> SessionStore:
        """Return the store of an existing session file, for reading until ``take_over``."""
        if path.parts[:1] in (("http:",), ("https:",)):
            raise SessionError(
                "expected a session file, got an address; ask, measure, status and mcp take one"
            )
        if not path.is_file():
            raise SessionError(f"{path}: expected a session file, found none; make one with open")
        if is_model_file(path):
            raise SessionError(
                f"{path}: expected a session file, found a model or other JSON; a model is read by ask, "
                "status and export alone"
            )
        file_locks()
        target = resolved(path)
        forget_copies(target)
        store = cls(target, str(path))
        try:
            store._require_session()
        except BaseException:
            store.close()
            raise
        return store

    def _require_session(self) -> None:
        """Tell another kind of file, another format or other tables, before anything is read or written."""
        with guarded(self._name):
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
            found = {row[0] for row in self._connection.execute("SELECT sql FROM sqlite_master")}
            if not found.issuperset(TABLES.values()):
                raise SessionCorruptError(
                    f"{self._name}: its tables are not those of a session of format {FORMAT_VERSION}; it is "
                    "damaged, or was made before that format was released: use the version that made it"
                )
            newest = self._newest_batch()  # before the charges, which may grow meanwhile
            write_ahead(self._connection)
            if newest is not None:
                self._require_log(newest)

    # --- reading --------------------------------------------------------------------------------------------

    def meta(self, key: str) -> str | None:
        """Return a public fact, as JSON text."""
        with guarded(self._name):
            return read_fact(self._connection, key, self._name)

    def secret(self, key: str) -> bytes | None:
        """Return a secret fact."""
        rows = self._rows("secrets", "WHERE key = ?", key)
        return bytes(rows[0][1]) if rows else None

    def chained(self) -> ChainedRows:
        """Return all that was charged and measured."""
        is_open = self._connection.in_transaction
        with guarded(self._name), contextlib.nullcontext() if is_open else self.reading():
            links = self._chain.follow()
            origin = self._chain.origin()
        charges, measurements = ([row[1:] for link in links for row in link.rows[table]] for table in (0, 1))
        return ChainedRows(
            ledger=tuple(LedgerRow(*row) for _, *row in charges),
            ledger_intents=tuple(intent for intent, *_ in charges),
            measurements=tuple(MeasurementRow(*row) for _, *row in measurements),
            measurement_intents=tuple(intent for intent, *_ in measurements),
            origin=origin,
            links=tuple(link.hash for link in links),
        )

    def certificates(self) -> list[CertificateRow]:
        """Return the newest certificate of each marginal, in the order of their tests."""
        return [CertificateRow(*row) for row in self._rows("certificates", "ORDER BY sequence")]

    def charge_count(self) -> int:
        """Return how many charges there are."""
        with guarded(self._name):
            return self._charges()

    def last_intent(self) -> int:
        """Return the number of the last batch that has its outcome; 0 before the opening has."""
        return int(self.meta("intent") or 0)

    def ties(self) -> dict[int, str]:
        """Return what is kept of each measurement that had an idempotency key: JSON, by its batch."""
        return {int(batch): str(tie) for batch, tie in self._rows("ties", "ORDER BY sequence")}

    def tie_of(self, batch: int) -> str:
        """Return what is kept of the measurement of a batch that had an idempotency key, as JSON text."""
        rows = self._rows("ties", "WHERE intent = ?", batch)
        if not rows:
            raise SessionCorruptError(f"{self._damaged}: what a key was used for is gone")
        return str(rows[0][1])

    def secret_names(self) -> set[str]:
        """Return which secret facts there are, without their values."""
        with guarded(self._name):
            return {str(row[0]) for row in self._connection.execute("SELECT key FROM secrets")}

    def asked(self) -> int:
        """Return how many questions were answered, repeated ones included."""
        return int(self.meta("asked") or 0) + self._noted

    def snapshot(self) -> tuple[int, NDArray[np.float64]] | None:
        """Return the newest snapshot whose checksum holds: its version and dual numbers, or None."""
        row = self._one("SELECT version, duals, checksum FROM snapshots ORDER BY version DESC LIMIT 1")
        if row is None or snapshot_checksum(row[0], row[1]) != row[2]:
            return None
        return int(row[0]), np.frombuffer(row[1], dtype="<f8").astype(np.float64)

    def has_snapshot(self) -> bool:
        """Tell whether there is a snapshot, damaged or not."""
        return self._one("SELECT 1 FROM snapshots") is not None

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """See one state of the file throughout, whatever is written meanwhile; nothing may be written."""
        with guarded(self._name):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection, once what was noted is written; where that fails, it is lost."""
        with contextlib.suppress(SessionError, StoreError):
            self.tell()
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def _charges(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(sequence), 0) FROM ledger").fetchone()[0])

    def _one(self, statement: str) -> Any:
        with guarded(self._name):
            return self._connection.execute(statement).fetchone()

    def _rows(self, table: str, which: str, *values: object) -> list[tuple[Any, ...]]:
        with guarded(self._name):
            return list(sealed_rows(self._connection, table, self._name, which, values))

    # --- wholeness ------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Tell whether the file's own structure holds together, and no row was altered or is gone."""
        if self._one("PRAGMA integrity_check(1)")[0] != "ok":
            return False
        with guarded(self._name):
            self._require_all()
        return True

    def _require_all(self) -> None:
        self._require_answers()
        self._require_rows(SEALED)
        tied = self._connection.execute("SELECT count(*) FROM requests WHERE answer < 0").fetchone()[0]
        if tied != len(self.ties()):
            raise SessionCorruptError(f"{self._damaged}: what a key was used for is gone")
        for _ in self.answers.blocks():
            pass

    def _require_whole(self) -> None:
        """Check all but what drew no noise before the session is written to; of them their number."""
        # A small file's pages are checked too: what lies in damaged ones could be written over.
        is_small = self._one("PRAGMA page_count")[0] <= _FEW_PAGES
        if is_small and self._one("PRAGMA integrity_check(1)")[0] != "ok":
            raise SessionCorruptError(f"{self._damaged}: its pages contradict each other")
        self._require_rows([table for table in SEALED if table != "requests"])  # as many as answers
        self._require_answers()

    def _require_rows(self, tables: Iterable[str]) -> None:
        for table in tables:
            for _ in sealed_rows(self._connection, table, self._name):
                pass

    def _require_answers(self) -> None:
        """Follow the chain, look up what drew noise, and compare how many answers there are with what was."""
        self._chain.follow()
        spans, count = self.answers.spans(), int(self.meta(ANSWERS) or 0)
        if [first for first, _ in spans] + [count + 1] != [1, *(end for _, end in spans)]:
            raise SessionCorruptError(f"{self._damaged}: rows of its answers are not there")
        self.answers.require_drawn()
        self._require_ties()

    def _require_ties(self) -> None:
        """Look up what was measured by its idempotency keys: else a key would be charged twice."""
        with contextlib.suppress(ValueError, LookupError, TypeError):
            ties = self.ties()
            keys = [str(json.loads(tie)["key"]) for tie in ties.values()]
            if self.answers.by_request_ids(keys).tolist() == [-batch for batch in ties]:
                return
        raise SessionCorruptError(f"{self._damaged}: keys of its measurements are not there")

    def copy_public(self, path: Path) -> None:
        """Write one state to a new file (mode 0600), without secrets, nor where the table is.

        Others may go on using the session meanwhile.
        """
        execute = self._connection.execute
        with guarded(self._name):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            with closing(sqlite3.connect(str(path), isolation_level=None)) as made:
                _make_tables(made)
            execute("ATTACH DATABASE ? AS copy", (str(path),))
            try:
                execute("PRAGMA copy.synchronous = FULL")
                self._copy()
            finally:
                with contextlib.suppress(sqlite3.Error):  # what went wrong before is what is told
                    execute("DETACH DATABASE copy")

    def _copy(self) -> None:
        execute = self._connection.execute
        execute("BEGIN")
        try:
            self._require_all()
            for table in TABLES:
                if table != "secrets":
                    execute(f"INSERT INTO copy.{table} SELECT * FROM main.{table}")
            execute("DELETE FROM copy.meta WHERE key = 'data'")
            execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                execute("ROLLBACK")
            raise

    # --- the batch under way --------------------------------------------------------------------------------

    def _newest_batch(self) -> IntentRow | None:
        try:
            is_closed = self.meta("closed") is not None
            return None if is_closed else self._companion.read(self._session(), self.last_intent())
        except SessionCorruptError:  # whoever writes is told, and readers go on
            return None

    def _session(self) -> bytes:
        return bytes.fromhex(str(self.meta("session")).strip('"'))

    def take_over(self) -> None:
        """Become the one who writes, durably; whoever held the session before writes nothing any more."""
        with self._transaction():
            self._require_whole()
            self._fence.take()
            last = self.last_intent()
        self._companion.wipe(last)  # as far as a kill or a power cut left a seed
        self._quiet_log()

    def require_companion(self) -> None:
        """Refuse to spend from an open session whose companion file is not the one that belongs to it."""
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
        """Record a batch durably, before anything is drawn, and return its number."""
        with self._writing():  # nobody else writes meanwhile; the session file itself stays as it is
            session, number = self._session(), self.last_intent() + 1
            if self._companion.read(session, number - 1).id != number - 1:
                raise self._fence.lost()
            self._companion.begin(session, IntentRow(number, kind, proposal, seed, self._charges()))
        self._recorded = number
        return number

    def begin_again(self, intent: IntentRow) -> None:
        """Record a batch once more before it is drawn again, where it was read: it may never have lasted."""
        if intent.id != self._recorded:
            with self._writing():
                self._companion.begin(self._session(), intent)
            self._recorded = intent.id

    def note(self, asked: int, repeats: Sequence[tuple[str, str]]) -> None:
        """Note that stored answers were given again; a crash before the next outcome may lose that.

        Args:
            repeats: analysts and the questions, as ``Outcome`` has them.
        """
        self._noted += asked
        self._again.update(dict.fromkeys(repeats))
        if len(self._again) >= _MOST_NOTED:
            self.tell()

    def tell(self) -> None:
        """Write what was noted, durably."""
        if self._noted:
            self.finish(None, Outcome())

    def finish(self, intent: int | None, outcome: Outcome) -> None:
        """Record an outcome durably, and overwrite the seed of the batch that it belongs to.

        When this returns, no byte of what was wiped is left in the files or the log, unless somebody is just
        reading old pages: then they are wiped at the next commit that finds nobody.
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
        self._noted, self._again = 0, {}
        if intent is not None:
            self._companion.wipe(intent)
        self._quiet_log()

    def finalize(self, intent: int | None, outcome: Outcome) -> None:
        """Record a last outcome and wipe every secret, in one durable transaction."""
        with self._writing():
            self._insert(intent or 0, outcome)
            self._connection.execute("DELETE FROM secrets")
        self._noted, self._again = 0, {}

    def scrub(self) -> None:
        """Remove the companion, write the file again and empty its log: nothing is left of what was wiped.

        Deleted rows are overwritten at once; but the log keeps old pages, and a page that was split may keep
        an old copy of a row.
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
        if outcome.tie is not None:  # before the link that covers it, with the charge
            key, kept = outcome.tie
            self._add("requests", [(key, -intent)])
            self._add("ties", [(intent, kept)])
        are_many = bool(outcome.columns) and self.answers.add(outcome)
        self._add(
            "certificates",
            [(row.scope, row.version, row.threshold, row.units) for row in outcome.certificates],
            "INSERT OR REPLACE",
        )
        facts = dict(outcome.meta)
        if outcome.asked or self._noted:
            facts["asked"] = str(self.asked() + outcome.asked)
        self._add("meta", facts.items(), "INSERT OR REPLACE")
        if outcome.ledger or outcome.measurements or are_many:
            self.answers.join(self._chain.last_block())
            self._chain.extend()
        if outcome.idempotency_keys or self._again:
            self.answers.tie(outcome.idempotency_keys, tuple(self._again))
        for key, value in outcome.secrets.items():
            if value is None:
                self._connection.execute("DELETE FROM secrets WHERE key = ?", (key,))
            else:
                self._add("secrets", [(key, value)], "INSERT OR REPLACE")

    def _add(self, table: str, rows: Iterable[Sequence[object]], verb: str = "INSERT") -> None:
        add_rows(self._connection, table, rows, verb)

    def _require_log(self, newest: IntentRow) -> None:
        """Compare the session file with its companion, which tells what the file must hold."""
        last, charges = self.last_intent(), self._charges()
        finished = newest.id - 1 if newest.seed else newest.id
        if last < finished or charges < newest.charges:
            raise SessionCorruptError(
                f"{self._name}: it had {finished} batches and {newest.charges} charges or more, and holds "
                f"{last} and {charges}: its log ({self._name}-wal) was lost or damaged, or an older copy was "
                "put in its place"
            )

    def _transaction(self) -> contextlib.AbstractContextManager[None]:
        return transaction(self._connection, self._name)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._transaction():
                self._fence.check()
                yield
        except BaseException:
            self.answers.forget()
            raise


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def snapshot_checksum(version: int, raw: bytes) -> bytes:
    """Return the checksum of a snapshot."""
    return hashlib.sha256(version.to_bytes(8, "little") + raw).digest()


@contextlib.contextmanager
def writing(path: Path, wait: float, check: Callable[[SessionStore], object]) -> Iterator[SessionStore]:
    """Hold a session file alone. Nothing is written to it before ``SessionStore.take_over``.

    Args:
        wait: seconds that another process is waited for; 0 refuses at once.
        check: refuses a session that is not to be written to. It sees the file before a lock file is made,
            and again once the session is held, for another process may have written meanwhile.
    """
    with closing(SessionStore.open(path)) as store:
        check(store)
    lock = SessionLock(path, wait)
    try:
        with closing(SessionStore.open(path)) as store:
            check(store)
            yield store
    finally:
        lock.release()
