"""The session lock: one writing process at a time, and the others wait for their turn."""

from __future__ import annotations

import contextlib
import math
import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO

from pmw.errors import SessionError, SessionLockedError, StoreError
from pmw.session.store.connection import SessionFiles

_FIRST_PAUSE = 0.001  # seconds between the first two tries; it doubles
_LONGEST_PAUSE = 0.05
_HELD: weakref.WeakSet[SessionLock] = weakref.WeakSet()


def file_locks() -> ModuleType:
    """Return the module of POSIX file locks. Models are asked and sessions planned without it."""
    try:
        import fcntl
    except ModuleNotFoundError:
        raise StoreError(
            "a session in a file needs the file locks of POSIX, which this system lacks; open it on Linux, "
            "macOS or WSL"
        ) from None
    return fcntl


class SessionLock:
    """Holds a session for one writing process: an advisory lock that dies with the process.

    The lock file lies beside the session file, wherever symbolic links to it lie. It is another file, because
    letting go of any descriptor of a database drops the locks that SQLite holds on it.

    Args:
        path: the session file, which need not exist.
        wait: seconds that another holder is waited for; 0 for none. Who tries first after it ended is next.

    Privacy: how long one waits tells how long others use the session: no more than asking again and again.
    """

    def __init__(self, path: Path, wait: float = 0) -> None:
        if not (math.isfinite(wait) and wait >= 0):
            raise SessionError(f"expected 0 or more seconds to wait, got {wait}")
        target = Path(os.path.realpath(path))
        self._path = SessionFiles(target).lock
        self._name = str(path)
        self._file: IO[bytes] | None = None
        self._made = False
        end, pause = time.monotonic() + wait, _FIRST_PAUSE
        while not self._taken():
            left = end - time.monotonic()
            if left <= 0:
                raise SessionLockedError(
                    f"{path}: another process is using the session; wait for it to end, then try again"
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _taken(self) -> bool:
        fcntl = file_locks()
        try:
            descriptor = self._opened()
            os.fchmod(descriptor, 0o600)
        except OSError as error:
            told = StoreError(f"{self._name}-lock: the lock file cannot be made: {error.strerror}")
            told.strerror = error.strerror
            raise told from None
        file = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        if not self._is_there(file):  # deleted while it was waited for: the lock of nothing
            file.close()
            return False
        self._file = file
        _HELD.add(self)
        return True

    def _opened(self) -> int:
        """Open the lock file, and note whether it was this that made it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._made = True
        return descriptor

    def _is_there(self, file: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._path))
        except FileNotFoundError:
            return False

    def release(self, *, forget: bool = False) -> None:
        """Let another process have the session.

        Args:
            forget: there is no session; remove the lock file, if it was made here. Who waits for it meanwhile
                finds it gone, and makes another.
        """
        if self._file is not None:
            if forget and self._made:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            self._file.close()
            self._file = None


@contextlib.contextmanager
def turn_in(folder: Path) -> Iterator[None]:
    """Let one process, or thread, at a time do something short in a folder; no file is made for it.

    Where the file system cannot lock a folder, all go on at once.
    """
    fcntl = file_locks()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _let_go_in_child() -> None:
    """Close the descriptors that a fork copied: the lock is the parent's, and ends with the parent."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):  # a system that does not fork copies no descriptors
    os.register_at_fork(after_in_child=_let_go_in_child)
