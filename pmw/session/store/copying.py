"""Copies under way: what a killed process left of one is removed by whoever opens the session next.

A copy is made in a file with a name of its own, locked as a session is. It may lie in any folder, so a note
beside the session says where.
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
    """Note that a copy is being made; at the end its files are removed, as far as they are still there."""
    session, part = Path(os.path.realpath(session)), Path(os.path.realpath(part))
    note = SessionFiles(session).copies
    with turn_in(note.parent):
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(f"\n{json.dumps(str(part))}\n".encode())
        synchronise(note)
        lock = SessionLock(part)
    try:
        _remove(part)
        yield
    finally:
        lock.release()
        forget_copies(session)


def forget_copies(session: Path) -> None:
    """Remove what is left of the copies of a session that nobody is making; nothing fails for it."""
    note = SessionFiles(session).copies
    if note.exists():
        with suppress(OSError), turn_in(note.parent):
            if not [line for line in note.read_bytes().splitlines() if _is_made(line)]:
                note.unlink()


def _is_made(line: bytes) -> bool:
    """Tell whether the copy that a line of the note names is still being made; remove its files if not."""
    try:
        part = Path(json.loads(line))
        if part.is_absolute() and part == part_of(part.with_name(part.name[1:-5])) and part.parent.is_dir():
            lock = SessionLock(part)
            _remove(part)
            SessionFiles(part).lock.unlink(missing_ok=True)
            lock.release()
    except (SessionLockedError, OSError):
        return True
    except (ValueError, TypeError):  # a line that is torn
        pass
    return False


def _remove(part: Path) -> None:
    files = SessionFiles(part)
    for file in (files.path, files.log, files.index, files.companion, part.with_name(f"{part.name}-journal")):
        file.unlink(missing_ok=True)
