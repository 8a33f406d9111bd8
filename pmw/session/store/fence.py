"""The fence: what is written to a session file comes from its newest holder alone.

A lock keeps two processes apart as long as it is one lock. The fence holds even where it is not: who takes a
session over writes its own token into the file, and every later transaction of an earlier holder finds it and
stops.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from pmw.errors import SessionError, SessionLockedError
from pmw.privacy.random_bits import fresh_seed
from pmw.session.store.checksums import insertion, sealed


class Fence:
    """Tells whether a connection still holds its session file.

    Args:
        connection: the connection, just made.
        path: the resolved file; None for a database in memory.
        name: what messages call the session.
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
        row = sealed("meta", ("holder", self._holder))
        self._connection.execute(insertion("meta", "INSERT OR REPLACE"), row)

    def check(self) -> None:
        """Refuse to go on where the token is another's, or the file is another. Call it inside a transaction.

        Raises:
            SessionError: the session was opened for reading.
            SessionLockedError: another process has taken the session over, or its file was moved.
        """
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
