"""The files of a session: one database, what SQLite keeps beside it, a lock, and the companion."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Where the files of a session lie.

    Args:
        path: the session file, with every symbolic link followed where the others are to be found.
    """

    path: Path

    @property
    def log(self) -> Path:
        """SQLite's write-ahead log: it may hold the last charges and answers."""
        return self._beside("-wal")

    @property
    def index(self) -> Path:
        """SQLite's index of the log, in shared memory."""
        return self._beside("-shm")

    @property
    def lock(self) -> Path:
        """The lock of whoever writes; empty."""
        return self._beside("-lock")

    @property
    def companion(self) -> Path:
        """The batch under way."""
        return self._beside("-companion")

    @property
    def all(self) -> tuple[Path, ...]:
        """Every one of them."""
        return (self.path, self.log, self.index, self.lock, self.companion)

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name + end)


def is_model_file(path: Path) -> bool:
    """Tell whether a file begins as a model to hand out does, which is JSON, and as no session does."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as stream:
            return stream.read(1) == b"{"
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
