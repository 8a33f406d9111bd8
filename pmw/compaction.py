"""Compaction: stored answers packed into compressed blocks, so that a long session takes little room."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pmw.locking import SessionLock
from pmw.store import SessionStore

__all__ = [
    "compact_session",
    "Compaction",
]


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did.

    Args:
        answers: how many stored answers there are.
        archived: how many of them lie in compressed blocks now.
        bytes_before: the size of the session's files.
        bytes_after: the same, afterwards.
    """

    answers: int
    archived: int
    bytes_before: int
    bytes_after: int


def compact_session(path: str | Path, *, wait: float = 0) -> Compaction:
    """Pack a session's stored answers into compressed blocks, and write its file anew.

    Nothing is forgotten: every charge and measurement stays as it is, and so does every answer, down to the
    last bit. Repeated questions and requests get what they got, and verification and anchors read all of it.
    Answers that drew noise, and the newest one, keep rows of their own. What a kill leaves is a session of
    which a part is packed.

    Args:
        path: the session file, open or closed.
        wait: seconds that another process is waited for; 0 refuses at once.

    Raises:
        SessionCorruptError: the file is no session, or damaged, or made by a newer version.
        SessionLockedError: another process was using it all that time.
        SessionError: the file has several names (hard links).
        StoreError: it could not be written; all that was packed is.

    Privacy: free; nothing is drawn, charged or released.
    """
    target = Path(path)
    SessionStore.open(target).close()  # says what is wrong before a lock file is made
    lock = SessionLock(target, wait)
    try:
        before = _size(target)
        with closing(SessionStore.open(target)) as store:
            store.take_over()
            last: int | None = 0
            while last is not None:
                last = store.archive_some(last)
            store.write_anew()
            answers, archived = store.answer_count(), store.archived_count()
        return Compaction(answers, archived, before, _size(target))
    finally:
        lock.release()


def _size(path: Path) -> int:
    """Return the size of a session file and its log, which lies beside the file that a link leads to."""
    real = Path(os.path.realpath(path))
    files = (real, real.with_name(f"{real.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
