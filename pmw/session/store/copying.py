"""Copies under way: what a killed process left of one is removed by whoever opens the session next.

A copy is made in a file with a name of its own, and that is locked as a session is. A note beside the session
says where, for a copy may lie in any folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pmw.disk import synchronise
from pmw.errors import SessionLockedError
from pmw.session.store.connection import SessionFiles
from pmw.session.store.locking import SessionLock, turn_in


def part_of(target: Path) -> Path:
    """Return the file in which a copy is made before it gets its name."""
    return target.with_name(f".{target.name}.part")


@contextmanager
def copying(session: Path, part: Path) -> Iterator[None]:
    """Note that a copy is being made; at the end its files are removed, as far as they are still there.

    Args:
        session: the session file.
        part: the file that is made.

    Raises:
        OSError: the note or the lock cannot be written.
        SessionLockedError: another process makes the same copy.
    """
    session, part = Path(os.path.realpath(session)), Path(os.path.realpath(part))
    note = SessionFiles(session).copies
    with turn_in(note.parent):
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"\n{json.dumps(str(part))}\n".encode())
        for written in (note, note.parent):
            synchronise(written)
        lock = SessionLock(part)
    try:
        _remove(part)
        yield
    finally:
        with suppress(OSError):
            _remove(part)
        lock.release()
        forget_copies(session)


def forget_copies(session: Path) -> None:
    """Remove what is left of the copies of a session that nobody is making; nothing fails for it.

    Args:
        session: the session file, with every symbolic link followed.
    """
    note = SessionFiles(session).copies
    if not note.exists():
        return
    with suppress(OSError), turn_in(note.parent):
        if not note.is_symlink() and not [one for one in note.read_bytes().splitlines() if not _is_gone(one)]:
            note.unlink()


def _is_gone(line: bytes) -> bool:
    """Remove the files that a line of the note names, unless the copy is still being made."""
    try:
        part = Path(json.loads(line))
        is_copy = part == part_of(part.with_name(part.name[1 : -len(".part")]))
    except (ValueError, TypeError):  # such as a line that is torn
        return True
    if not (is_copy and part.is_absolute() and part.parent.is_dir()):
        return True
    try:
        lock = SessionLock(part)
    except (SessionLockedError, OSError):
        return False
    try:
        _remove(part)
        SessionFiles(part).lock.unlink(missing_ok=True)
    finally:
        lock.release()
    return True


def _remove(part: Path) -> None:
    lock = SessionFiles(part).lock
    for file in (*SessionFiles(part).all, part.with_name(f"{part.name}-journal")):
        if file != lock:  # held meanwhile
            file.unlink(missing_ok=True)
