"""Backups: copies of a session that can never spend.

Two copies of one session that both spend would spend its budget twice, and neither can know of the other. So
a backup is closed while it is made: it keeps all that was released, answers and exports from it, and has no
secret and no budget left. What the original has spent since then, no copy can spend again.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, SessionError, SessionExistsError, StoreError
from pmw.journal import closing_outcome, load_state, load_status
from pmw.status import Status
from pmw.store import SessionStore

__all__ = [
    "backup_session",
]

_ENDS = ("-wal", "-shm", "-journal")


def backup_session(path: str | Path, output: str | Path, *, force: bool = False) -> Status:
    """Write a closed copy of a session, while others may be using it, and return where the copy stands.

    The copy is of one state of the session. A batch that is just being answered is charged in it, and
    nothing is ever released from it there. A copy of a copy is a copy: so a backup is put back.

    Args:
        path: the session file.
        output: the file to make; mode 0600.
        force: replace an earlier backup of this session, or what it was before; never an open session,
            never another one, and never one that holds measurements or answers which this one lacks.

    Raises:
        SessionCorruptError: the session is damaged.
        SessionError: its opening is not finished.
        SessionExistsError: the file exists, and may not be replaced.
        StoreError: the copy cannot be written.

    Privacy: free; the copy holds what was released, and what was asked. It is to be kept as the session is.
    """
    target = Path(output)
    _require_free(target, Path(path), force)
    part = target.with_name(f".{target.name}.part")
    try:
        _forget(part)
        with closing(SessionStore.open(Path(path))) as store:
            pending = store.pending()
            if pending is not None and pending.kind == "opening":
                raise SessionError(f"{path}: its opening is not finished; there is nothing to copy yet")
            store.copy_public(part, target)
            pending = store.pending()  # of the state that was copied, or begun since
        with closing(SessionStore.open(part)) as copy:
            copy.take_over()
            if copy.meta("closed") is None:
                if pending is not None and pending.id != copy.last_intent() + 1:
                    pending = None
                copy.seal(None if pending is None else pending.id, closing_outcome(pending))
            copy.scrub()
            state = load_state(copy)
            status = load_status(copy, state)
        _put(part, target, Path(path), force)
        return status
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{target}: the backup cannot be written: {error.strerror}") from None
    finally:
        _forget(part)


def _require_free(target: Path, source: Path, force: bool) -> None:
    if target.exists():
        _require_earlier(target, source, force)
    log = target.with_name(target.name + "-wal")
    if log.exists() and log.stat().st_size:  # charges may lie in it alone, and it would be read into the copy
        raise SessionExistsError(
            f"{log} holds changes of another session, or somebody is just reading them; choose another name"
        )


def _require_earlier(target: Path, source: Path, force: bool) -> None:
    if not force:
        raise SessionExistsError(f"{target} exists; choose another name, or replace a backup by force")
    try:
        found = SessionStore.open(target)
    except SessionCorruptError:  # of whatever kind it is, it is kept
        raise SessionExistsError(
            f"{target} is not a backup of this session, or a damaged one, refused; choose another name"
        ) from None
    with closing(found):
        if found.meta("closed") is None:
            raise SessionExistsError(
                f"{target} holds a session that is not closed, and no backup; choose another name"
            )
        released, contract, answers = found.measurements(), found.meta("contract"), found.answer_count()
    with closing(SessionStore.open(source)) as copied:
        same = copied.meta("contract") == contract and copied.measurements()[: len(released)] == released
        if not same or copied.answer_count() < answers:
            raise SessionExistsError(
                f"{target} holds another session, or a newer state of {source}; choose another name"
            )


def _put(part: Path, target: Path, source: Path, force: bool) -> None:
    """Give a finished copy its name, durably; what was there by that name is replaced whole or not at all."""
    _require_free(target, source, force)  # it may have come meanwhile
    if force:
        for end in ("-companion", *_ENDS):  # they belong to what is replaced
            target.with_name(target.name + end).unlink(missing_ok=True)
        part.replace(target)
    else:
        try:
            os.link(part, target)  # fails where there is a file meanwhile
        except FileExistsError:
            raise SessionExistsError(f"{target} exists; choose another name") from None
    synchronise(target.parent)


def _forget(part: Path) -> None:
    for end in ("", "-companion", *_ENDS):
        part.with_name(part.name + end).unlink(missing_ok=True)
