"""Connections: the files of a session, and how its database is opened, held and complained about."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from pmw.errors import SessionCorruptError, SessionError, SessionExistsError, SessionLockedError, StoreError
from pmw.privacy.random_bits import fresh_seed
from pmw.session.store.rows import add_rows

APPLICATION_ID = 0x504D5753  # "PMWS", tells a session from other SQLite files

# What damaged pages make of a reader: no file of ours, no such column, a text that is none (no code at all).
_DAMAGED = (
    0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB,
)  # fmt: skip
_WAIT = 30_000  # milliseconds that another connection's transaction is waited for


class SessionFiles:
    """Where the files of a session lie.

    Args:
        path: the session file, with every symbolic link followed where the others are to be found.

    Attributes:
        log: SQLite's write-ahead log: it may hold the last charges and answers.
        index: SQLite's index of the log, in shared memory.
        lock: of whoever writes; empty.
        companion: the batch under way.
        copies: where copies of the session are being made, each on a line.
        all: every one of them, the session file first.
    """

    def __init__(self, path: Path) -> None:
        ends = ("-wal", "-shm", "-lock", "-companion", "-copies")
        self.path, beside = path, [path.with_name(path.name + end) for end in ends]
        self.log, self.index, self.lock, self.companion, self.copies = beside
        self.all = (path, *beside)


def is_model_file(path: Path) -> bool:
    """Tell whether a file begins as a model to hand out does, which is JSON, and as no session does."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as stream:
            return stream.read(1) == b"{"
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def resolved(path: Path) -> Path:
    """Return the one name of a session file, with every symbolic link followed."""
    target = Path(os.path.realpath(path))
    try:
        names = target.stat().st_nlink
    except OSError:
        return target  # absent, or out of reach: told where it is made or opened
    if target.is_file() and names > 1:
        raise SessionError(
            f"{path}: expected a session file with one name, found {names} hard links to it; "
            "remove the others, then try again"
        )
    return target


def claim(path: Path, name: str) -> None:
    """Make an empty file with mode 0600, or take over one that a killed opening left without any table."""
    files = SessionFiles(path)
    log = files.log
    if not path.exists() and log.exists() and log.stat().st_size:
        raise SessionExistsError(
            f"{log} is what was left of another session, and may hold charges; put its session back beside "
            "it, or choose another name"
        )
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if is_model_file(path):
            raise SessionExistsError(f"{name} holds a model or other JSON; choose another name") from None
        if path.exists() and not _is_unborn(path):
            raise SessionExistsError(
                f"{name} exists; choose another name, or go on with the session that it holds"
            ) from None
    except OSError as error:
        raise StoreError(f"{name}: the session file cannot be made: {error.strerror}") from None
    for file in (path, log, files.index):
        _make_private(file)


def _make_private(path: Path) -> None:
    """Give a file mode 0600, where there is one: an old log keeps its mode, whatever its database has."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path}: the session file cannot be made: {error.strerror}") from None
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise StoreError(f"{path}: the file belongs to another user; choose another name")
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _is_unborn(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(str(path), timeout=1)) as connection:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return bool(tables == 0)
    except sqlite3.Error:
        return False


def connect(target: str, name: str) -> sqlite3.Connection:
    """Return a connection whose commits are durable and whose deleted bytes are overwritten.

    Args:
        target: the database.
        name: what messages call it.
    """
    try:
        with contextlib.ExitStack() as undone:
            connection = sqlite3.connect(target, isolation_level=None, check_same_thread=False)
            undone.callback(connection.close)
            connection.execute(f"PRAGMA busy_timeout = {_WAIT}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            undone.pop_all()
            return connection
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise own_error(error, name) from None


def write_ahead(connection: sqlite3.Connection) -> None:
    """Write commits to a log first; a file keeps that mode, so it must be known to be a session's."""
    connection.execute("PRAGMA journal_mode = WAL")


def empty_log(connection: sqlite3.Connection, patience: int = 0) -> bool:
    """Move the log into the file and cut it off, so that it keeps no old pages; tell whether that was done.

    Args:
        patience: milliseconds that readers of old pages are waited for.
    """
    try:
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    except sqlite3.Error:
        return False
    finally:
        with contextlib.suppress(sqlite3.Error):  # what was committed is durable: nothing may fail any more
            connection.execute(f"PRAGMA busy_timeout = {_WAIT}")


def own_error(error: sqlite3.Error | UnicodeDecodeError, name: str) -> Exception:
    """Return our own error for one of the driver's, without its text; a text that is none is damage."""
    extended = getattr(error, "sqlite_errorcode", None) or 0
    code = extended & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return SessionLockedError(f"{name}: another process is using the session; try again when it ended")
    if code in _DAMAGED or extended == sqlite3.SQLITE_IOERR_SHORT_READ:
        return SessionCorruptError(f"{name}: the file is no session file, or it is damaged")
    told = StoreError(
        f"{name}: the session file cannot be read or written; nothing was released; "
        "make room or restore access, then ask again"
    )
    told.strerror = os.strerror(errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO)
    return told


@contextlib.contextmanager
def guarded(name: str) -> Iterator[None]:
    """Put our own error in the place of one of the driver's; ``name`` is what messages call the session."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise own_error(error, name) from None


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, name: str) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK where anything fails; see ``guarded``."""
    with guarded(name):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


class Fence:
    """Tells whether a connection still holds its session file: its newest holder alone writes to it.

    A lock keeps two processes apart as long as it is one lock. The fence holds even where it is not: who
    takes a session over writes its own token into the file, and every later transaction of an earlier holder
    finds it and stops.

    Args:
        path: the resolved file; None for a database in memory.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None, name: str) -> None:
        self._connection = connection
        self._path = path
        self._name = name
        self._place = self._found()
        self._holder: str | None = None

    def take(self) -> None:
        """Write a fresh token into the file. Call it inside a transaction."""
        self._holder = f'"{fresh_seed().hex()}"'
        add_rows(self._connection, "meta", [("holder", self._holder)], "INSERT OR REPLACE")

    def check(self) -> None:
        """Refuse to go on where the token or the file is another's; within a transaction."""
        if self._holder is None:
            raise SessionError(f"{self._name}: the session was opened for reading; resume it to write")
        if self._found() != self._place:
            raise SessionLockedError(
                f"{self._name}: the session file was moved, replaced or linked while in use; "
                "give it one name and resume it there"
            )
        if self._connection.execute("SELECT value FROM meta WHERE key = 'holder'").fetchone() != (
            self._holder,
        ):
            raise self.lost()

    def lost(self) -> SessionLockedError:
        """Return the error for a file that is not as this connection left it."""
        return SessionLockedError(
            f"{self._name}: another process has taken over this session; resume it again"
        )

    def _found(self) -> tuple[int, int, int] | None:
        """Return what lies at the path: device, file and number of names; None for nothing."""
        try:
            found = None if self._path is None else os.stat(self._path)
        except OSError:
            return None
        return None if found is None else (found.st_dev, found.st_ino, found.st_nlink)
