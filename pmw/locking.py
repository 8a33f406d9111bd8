"""The session lock: one writing process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from pmw.errors import SessionLockedError, StoreError

__all__ = [
    "SessionLock",
]


class SessionLock:
    """Holds a session for one writing process: an advisory lock that dies with the process.

    The lock file lies beside the session file, wherever symbolic links to it lie. It is another file, because
    letting go of any descriptor of a database drops the locks that SQLite holds on it.

    Args:
        path: the session file, which need not exist.

    Raises:
        SessionLockedError: another process holds it.
        StoreError: the lock file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        target = Path(os.path.realpath(path))
        lock_path = target.with_name(target.name + "-lock")
        self._file: IO[bytes] | None = None
        try:
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
            os.fchmod(descriptor, 0o600)
        except OSError as error:
            raise StoreError(f"{path}-lock: the lock file cannot be made: {error.strerror}") from None
        file = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise SessionLockedError(
                f"{path}: another process is using the session; wait for it to end, then try again"
            ) from None
        self._file = file

    def release(self) -> None:
        """Let another process have the session."""
        if self._file is not None:
            self._file.close()
            self._file = None
