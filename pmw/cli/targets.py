"""Targets: files that a command is to write, and that must not be the session's own, nor its table."""

from __future__ import annotations

import os
from pathlib import Path

import click


def refuse_session_files(target: Path, session: Path, what: str) -> None:
    """Refuse to write over a session or a file beside it, forced or not, by whatever name it is reached.

    Args:
        target: the file to write.
        session: the session file.
        what: what would be written, for the message.

    Raises:
        UsageError: the file is one of the session's.
    """
    from pmw.session.store import SessionFiles

    real = Path(os.path.realpath(session))
    for file in (file for path in (session, real) for file in SessionFiles(path).all):
        same = target.exists() and file.exists() and target.samefile(file)
        if same or os.path.realpath(target) == os.path.realpath(file):
            raise click.UsageError(f"{what} would overwrite the session; name another file")


def refuse_table(target: Path, session: Path, what: str) -> None:
    """Refuse to write over the table that a session remembers.

    Args:
        target: the file that would be overwritten by force.
        session: the session file.
        what: what would be written, for the message.

    Raises:
        UsageError: the file is the table, or one of its files.
    """
    from pmw.session.maintenance import remembered_table

    table = remembered_table(session)
    files = [] if table is None else table.files
    if os.path.realpath(target) in map(os.path.realpath, files):
        raise click.UsageError(f"{what} would overwrite the session's table; name another file")
