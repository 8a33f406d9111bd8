"""Maintenance: a session file that is read while others may be using it, verified, copied, or closed.

Reading, verifying and copying take no lock, so they work while the session is in use.
"""

from __future__ import annotations

import os
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from pmw.data import Place, Table, require_table
from pmw.disk import require_file, synchronise
from pmw.errors import DataError, SessionError, SessionExistsError, StoreError
from pmw.public.ledger import Ledger
from pmw.public.state import PublicState
from pmw.public.status import History, Status, status_of
from pmw.session.engine import Engine
from pmw.session.events import empty_ledger, load_contract
from pmw.session.journal import closing_outcome, read_reserved
from pmw.session.loading import (
    load_facts,
    load_history,
    load_ledger,
    load_state,
    newest_released,
    opening_left,
)
from pmw.session.model_file import export_model
from pmw.session.store.connection import SessionFiles
from pmw.session.store.copying import copying, part_of
from pmw.session.store.rows import OPENING
from pmw.session.store.store import SessionStore, writing
from pmw.session.table import refuse_given_table, session_table, table_place
from pmw.session.verification.anchor import Anchor
from pmw.session.verification.checks import verify
from pmw.session.verification.report import Told, Verification, untold


def read_session(path: str | Path) -> tuple[PublicState, Status]:
    """Return the public state and status of a session in a file, while others may be using it."""
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        state = load_state(store)
        return state, status_of(state, store.asked())


def read_shares(path: str | Path) -> tuple[Fraction, Fraction]:
    """Return the parts of the cap that opening left and that are left now, while others may use the file."""
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        state = load_state(store)
        left = opening_left(state, load_contract(store)[1])
        return left, state.ledger.remaining / state.ledger.cap


def read_history(path: str | Path) -> History:
    """Return how the budget of a session in a file was spent, while others may be using it."""
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        return load_history(store)


def save_model(path: str | Path, output: str | Path, *, force: bool = False) -> dict[str, Any]:
    """Write the model of a session in a file, while others may be using it, and return what it is."""
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        released = newest_released(store, load_state(store))
    return export_model(released, Path(output), force=force)


def save_report(path: str | Path, output: str | Path, *, force: bool = False) -> None:
    """Write a report on a session in a file, while others may be using it."""
    from pmw.public.report import write_report  # late: its charts take a while to load

    require_file(Path(output), force=force)
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        facts = load_facts(store, load_state(store))
    write_report(facts, Path(output), force=force)


def remembered_table(path: str | Path) -> Place | None:
    """Return where a session reads its table, or None for a table in memory."""
    with closing(SessionStore.open(Path(path))) as store:
        return table_place(store)


def read_ledger(path: str | Path) -> Ledger:
    """Return every charge of a session in a file, while others may be using it."""
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        return load_ledger(store)


def verify_session(
    path: str | Path, anchor: str | Path | None = None, *, told: Told = untold
) -> Verification:
    """Check a session file, while others may be using it, and return what holds.

    Args:
        path: the session file.
        anchor: a file of public bytes, kept apart from the session, that tells how far it had come; it is
            made where there is none, and goes on to this state where everything holds.
        told: called after each model that was fitted again, with 1 and the number of all.

    Raises:
        SessionCorruptError: the file is no session.
        SessionError: the anchor is none.
        StoreError: the file cannot be read, or the anchor cannot be written.
    """
    with closing(SessionStore.open(Path(path))) as store:
        return verify(store, None if anchor is None else Anchor(Path(anchor)), told)


def is_closed(path: str | Path) -> bool:
    """Tell whether a session in a file was closed permanently."""
    with closing(SessionStore.open(Path(path))) as store:
        return store.meta("closed") is not None


def finalize_session(
    path: str | Path, data: Table | None = None, *, wait: float = 0, abandon: bool = False
) -> Status:
    """Close a session in a file permanently, and return where it stands.

    As ``Session.finalize``, which finishes an interrupted batch first. Where the table differs
    or cannot be read, nothing is changed, unless the batch may be abandoned: then its whole reservation is
    charged, and nothing is ever released from it. Where the companion file is not the session's, whether a
    batch waits cannot be known: then too the session is closed only where a batch may be abandoned.

    Args:
        path: the session file.
        data: the table, for a session that was opened on one in memory. It is looked at only to finish an
            interrupted batch.
        wait: seconds that another process is waited for; 0 refuses at once.
        abandon: give up a batch that cannot be finished; one that can be is finished all the same.

    Raises:
        DataError: the session reads its table from a file, and one is given.
        SessionCorruptError: the file is no session, damaged, or of another format.
        SessionLockedError: another process was using it all that time.
        SessionError: a batch waits that cannot be finished, and may not be abandoned; or it is the session's
            opening; or the file has several names (hard links).
        StoreError: the session could not be closed; or it is closed, and its file holds old copies yet.

    Privacy: ``data`` is for the custodian alone: whether it is the session's table is reported without noise.
    """
    require_table(data)
    target = Path(path)
    with writing(target, wait, lambda store: refuse_given_table(store, data)) as store:
        table = _table_to_finish(store, data, target, may_abandon=abandon)  # before anything is written
        store.take_over()
        if table is None and store.pending() is not None:
            _abandon(store)
        engine = Engine(store, table)
        engine.finalize()
        return status_of(engine.state, store.asked())


def _abandon(store: SessionStore) -> None:
    """Close a session whose interrupted batch cannot be finished: the batch is charged and never released.

    Privacy: the batch drew noise from recorded bytes, if at all, and none of it was released. Its full
        reservation is charged, and its bytes are wiped, in the commit that closes the session.
    """
    intent = store.pending()
    if intent is not None and intent.kind == OPENING:
        raise SessionError(
            "the opening was never finished, and its table cannot be read: there is nothing to answer from; "
            "give the table, or delete the session file: nothing was ever released from it"
        )
    store.finalize(None if intent is None else intent.id, closing_outcome(intent))


def _table_to_finish(
    store: SessionStore, data: Table | None, path: Path, *, may_abandon: bool
) -> Table | None:
    """Return the table that a waiting batch is finished with; None where none waits, or it is abandoned."""
    waiting = store.pending()
    if waiting is None:
        if not may_abandon:
            store.require_companion()  # a batch may wait that it would have told
        return None
    try:
        return session_table(store, data, load_contract(store)[0].domain)
    except DataError as error:
        fault = str(error)
    if waiting.kind != OPENING and not may_abandon:
        whole = empty_ledger(load_contract(store)[0])
        share = float(whole.price(read_reserved(waiting)[0]) / whole.cap)
        raise SessionError(
            f"{path}: a batch that was begun waits to be finished, and cannot be: {fault}. Nothing was "
            "changed. To give the batch up, close with --abandon: all that was reserved for it "
            f"({share:.2%} of the budget) is charged, and nothing is ever released from it"
        )
    return None


# --- backups ---------------------------------------------------------------------------------------------
#
# Two copies of one session that both spend would spend its budget twice, and neither can know of the other.
# So a backup is closed while it is made: it keeps all that was released, answers and exports from it, and has
# no secret and no budget left. What the original has spent since then, no copy can spend again.


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
        SessionLockedError: another process is making the same copy.
        StoreError: the copy cannot be written.

    Privacy: free; the copy holds what was released, and what was asked. It is to be kept as the session is.
    """
    target = Path(output)
    _require_free(target)
    part = part_of(target)
    try:
        with closing(SessionStore.open(Path(path))) as store, copying(Path(path), part):
            pending = store.pending()
            if pending is not None and pending.kind == OPENING:
                raise SessionError(f"{path}: its opening is not finished; there is nothing to copy yet")
            store.copy_public(part)
            pending = store.pending()  # of the state that was copied, or begun since
            with closing(SessionStore.open(part)) as copy:
                copy.take_over()
                if copy.meta("closed") is None:
                    if pending is not None and pending.id != copy.last_intent() + 1:
                        pending = None
                    copy.finalize(None if pending is None else pending.id, closing_outcome(pending))
                copy.scrub()
                state = load_state(copy)
                status = status_of(state, copy.asked())
            _put(part, target)
            return status
    except OSError as error:
        reason = error.strerror or "its disk is full, or fails"
        raise StoreError(f"{target}: the copy cannot be written: {reason}") from None


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
