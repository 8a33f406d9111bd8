"""Targets: files that a command is to write, and that must not be the session's own, nor its table."""

from __future__ import annotations

import os
from pathlib import Path

import click

__all__ = [
    "refuse_session_files",
    "refuse_table",
]

_ENDS = ("", "-wal", "-shm", "-lock", "-companion")  # of the files that make up a session


def refuse_session_files(target: Path, session: Path, what: str) -> None:
    """Refuse to write over a session or a file beside it, forced or not, by whatever name it is reached.

    Args:
        target: the file to write.
        session: the session file.
        what: what would be written, for the message.

    Raises:
        UsageError: the file is one of the session's.
    """
    real = Path(os.path.realpath(session))
    for file in (path.with_name(path.name + end) for path in (session, real) for end in _ENDS):
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
        UsageError: the file is the table.
    """
    from pmw.session.maintenance import remembered_table

    table = remembered_table(session)
    if table is not None and os.path.realpath(target) == os.path.realpath(table.path):
        raise click.UsageError(f"{what} would overwrite the session's table; name another file")
