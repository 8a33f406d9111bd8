"""Connections: how the session file is opened, locked for a transaction, and complained about."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from types import TracebackType

from pmw.errors import SessionCorruptError, SessionError, SessionExistsError, SessionLockedError, StoreError
from pmw.session.store.files import SessionFiles, is_model_file

APPLICATION_ID = 0x504D5753  # "PMWS", tells a session from other SQLite files

# What damaged pages make of a reader: no file of ours, no such column, a text that is none (no code at all).
_DAMAGED = (
    0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB,
)  # fmt: skip
_WAIT = 30_000  # milliseconds that another connection's transaction is waited for


def resolved(path: Path) -> Path:
    """Return the one name of a session file, with every symbolic link followed.

    Raises:
        SessionError: the file has more names: the log beside it belongs to one of them only.
    """
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
    """Make an empty file with mode 0600, or take over one that a killed opening left without any table.

    Args:
        path: the resolved file.
        name: what messages call it.

    Raises:
        SessionExistsError: the file holds something, or the log beside it does.
        StoreError: the file cannot be made, or it belongs to another user.
    """
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
        connection: the connection, outside a transaction.
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
    return StoreError(
        f"{name}: the session file cannot be read or written; nothing was released; "
        "make room or restore access, then ask again"
    )


class Transaction:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK where anything fails."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def __enter__(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise own_error(error, self._name) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
                return
        except sqlite3.Error as failure:
            error = failure
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            raise own_error(error, self._name) from None
