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
from pmw.errors import SessionError, SessionExistsError, StoreError
from pmw.public.status import Status
from pmw.session.journal import closing_outcome
from pmw.session.loading import load_state, load_status
from pmw.session.store import SessionFiles, SessionStore


def backup_session(path: str | Path, output: str | Path) -> Status:
    """Write a closed copy of a session, while others may be using it, and return where the copy stands.

    The copy is of one state of the session. A batch that is just being answered is charged in it, and
    nothing is ever released from it there. A copy of a copy is a copy: so a backup is put back.

    Args:
        path: the session file.
        output: the file to make, which must not be there; mode 0600.

    Raises:
        SessionCorruptError: the session is damaged.
        SessionError: its opening is not finished.
        SessionExistsError: the file exists, or a log of that name holds something.
        StoreError: the copy cannot be written.

    Privacy: free; the copy holds what was released, and what was asked. It is to be kept as the session is.
    """
    target = Path(output)
    _require_free(target)
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
                copy.finalize(None if pending is None else pending.id, closing_outcome(pending))
            copy.scrub()
            state = load_state(copy)
            status = load_status(copy, state)
        _put(part, target)
        return status
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{target}: the backup cannot be written: {error.strerror}") from None
    finally:
        _forget(part)


def _require_free(target: Path) -> None:
    if target.exists():
        raise SessionExistsError(f"{target} exists; choose another name")
    log = SessionFiles(target).log
    if log.exists() and log.stat().st_size:  # charges may lie in it alone, and it would be read into the copy
        raise SessionExistsError(f"{log} holds changes of another session; choose another name")


def _put(part: Path, target: Path) -> None:
    """Give a finished copy its name, durably; a file that came meanwhile is kept."""
    _require_free(target)
    try:
        os.link(part, target)
    except FileExistsError:
        raise SessionExistsError(f"{target} exists; choose another name") from None
    synchronise(target.parent)


def _forget(part: Path) -> None:
    for file in (*SessionFiles(part).all, part.with_name(f"{part.name}-journal")):
        file.unlink(missing_ok=True)
