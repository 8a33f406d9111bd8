"""Books: a session file that is read while others may be using it, verified, or closed for good.

Reading and verifying take no lock, so they work while the session is in use.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from pmw.data import Table, TableFile
from pmw.engine import Engine, abandon
from pmw.errors import DataError
from pmw.journal import load_history, load_ledger, load_state, load_status
from pmw.ledger import Ledger
from pmw.locking import SessionLock
from pmw.state import PublicState
from pmw.status import History, Status
from pmw.store import SessionStore
from pmw.verification import Anchor, Verification, verify

__all__ = [
    "is_closed",
    "read_history",
    "read_ledger",
    "read_session",
    "remembered_table",
    "seal_session",
    "verify_session",
]


def read_session(path: str | Path) -> tuple[PublicState, Status]:
    """Return the public state and status of a session in a file, while others may be using it.

    Raises:
        SessionCorruptError: the file is no session, or its opening was never finished.
    """
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        state = load_state(store)
        return state, load_status(store, state)


def read_history(path: str | Path) -> History:
    """Return how the budget of a session in a file was spent, while others may be using it.

    Raises:
        SessionCorruptError: the file is no session.
    """
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        return load_history(store)


def remembered_table(path: str | Path) -> TableFile | None:
    """Return where a session's table was when it opened, or None for a table in memory."""
    with closing(SessionStore.open(Path(path))) as store:
        form = json.loads(store.meta("data") or "null")
        return None if form is None else TableFile.from_dict(form)


def read_ledger(path: str | Path) -> Ledger:
    """Return every charge of a session in a file, while others may be using it.

    Raises:
        SessionCorruptError: the file is no session, or a charge cannot be read.
    """
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        return load_ledger(store)


def verify_session(path: str | Path, anchor: str | Path | None = None) -> Verification:
    """Recompute the books of a session in a file, while others may be using it, and return what holds.

    Args:
        path: the session file.
        anchor: a file of public bytes, kept apart from the session, that tells how far it had come; it is
            made where there is none, and goes on to this state where everything holds.

    Raises:
        SessionCorruptError: the file is no session.
        SessionError: the anchor is none.
        StoreError: the file cannot be read, or the anchor cannot be written.
    """
    with closing(SessionStore.open(Path(path))) as store:
        return verify(store, None if anchor is None else Anchor(Path(anchor)))


def is_closed(path: str | Path) -> bool:
    """Tell whether a session in a file was closed for good.

    Raises:
        SessionCorruptError: the file is no session.
    """
    with closing(SessionStore.open(Path(path))) as store:
        return store.meta("closed") is not None


def seal_session(path: str | Path, data: Table | None = None, *, wait: float = 0) -> Status:
    """Close a session in a file for good, and return where it stands.

    As ``Session.seal``; but where a crash interrupted a batch, and the table or the mask that would finish it
    cannot be read, the batch is abandoned: its whole reservation is charged, and nothing is ever released
    from it.

    Args:
        path: the session file.
        data: the table, where it is not (or no longer) at the place that the session remembers. It is read
            only to finish an interrupted batch.
        wait: seconds that another process is waited for; 0 refuses at once.

    Raises:
        SessionCorruptError: the file is no session, or damaged, or made by a newer version.
        SessionLockedError: another process was using it all that time.
        SessionError: the session's opening was never finished, and the table cannot be read; or the file has
            several names (hard links).
        StoreError: the session could not be closed; or it is closed, and its file holds old copies yet.
    """
    target = Path(path)
    SessionStore.open(target).close()  # says what is wrong before a lock file is made
    lock = SessionLock(target, wait)
    try:
        with closing(SessionStore.open(target)) as store:
            store.take_over()
            engine = _engine_to_seal(store, data)
            engine.seal()
            return load_status(store, engine.state)
    finally:
        lock.release()


def _engine_to_seal(store: SessionStore, data: Table | None) -> Engine:
    waiting = store.pending()
    if waiting is not None and waiting.seed is None:  # the mask of its bytes is gone
        abandon(store)
    try:
        return Engine(store, data)
    except DataError:
        abandon(store)
        return Engine(store, None)
