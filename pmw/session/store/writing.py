"""Writing: how a process comes to hold a session file that exists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from pmw.session.store.locking import SessionLock
from pmw.session.store.session_store import SessionStore


@contextlib.contextmanager
def writing(path: Path, wait: float, check: Callable[[SessionStore], object]) -> Iterator[SessionStore]:
    """Hold a session file alone. Nothing is written to it before ``SessionStore.take_over``.

    Args:
        path: the session file.
        wait: seconds that another process is waited for; 0 refuses at once.
        check: refuses a session that is not to be written to. It sees the file before a lock file is made,
            and again once the session is held, for another process may have written meanwhile.

    Raises:
        SessionCorruptError: the file is no session, or damaged.
        SessionError: it is absent, or has several names; or the time to wait is no number of seconds.
        SessionLockedError: another process held it all that time.
        StoreError: the lock file cannot be made.
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
