"""Reporting: what a report on a session is made of, read from the rows of its file."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

from pmw.disk import require_file
from pmw.public.report import AnsweredQuestion, Facts, write_report
from pmw.public.state import PublicState
from pmw.session.loading import load_history, load_ledger, load_state, load_status, read_question
from pmw.session.store import SessionStore


def load_facts(store: SessionStore, state: PublicState) -> Facts:
    """Return what a report on a session is made of.

    Args:
        store: of the session.
        state: what may be published of it.

    Raises:
        SessionCorruptError: a charge, an answer or its question cannot be read.
    """
    first: dict[str, AnsweredQuestion] = {}
    for row in store.answers.each():
        if row.query not in first:
            low, high = row.interval or (math.nan, math.nan)
            reach = max(row.count - low, high - row.count)
            first[row.query] = AnsweredQuestion(read_question(row.query, state.domain).scope, reach)
    return Facts(
        state, load_status(store, state), load_history(store), load_ledger(store), tuple(first.values())
    )


def save_report(path: str | Path, output: str | Path, *, force: bool = False) -> None:
    """Write a report on a session in a file, while others may be using it.

    Args:
        path: the session file.
        output: the HTML file to write.
        force: overwrite an existing file.

    Raises:
        SessionCorruptError: the file is no session, damaged, or its opening was never finished.
        ReleaseError: the output exists and ``force`` is not given, or it cannot be written.
    """
    require_file(Path(output), force=force)
    with closing(SessionStore.open(Path(path))) as store, store.reading():
        write_session_report(store, load_state(store), Path(output), force=force)


def write_session_report(store: SessionStore, state: PublicState, output: Path, *, force: bool) -> None:
    """Write a report on the session of a store.

    Raises:
        SessionCorruptError: a charge, an answer or its question cannot be read.
        ReleaseError: the output exists and ``force`` is not given, or it cannot be written.
    """
    require_file(output, force=force)
    write_report(load_facts(store, state), output, force=force)
