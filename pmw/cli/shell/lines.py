"""Lines: where a shell reads from, a terminal with line editing, a plain one, or a pipe.

The lines of a terminal are kept in a file of the user.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO, Protocol

import click

from pmw.cli.shell.words import GOES_ON, LONGEST, PROMPT
from pmw.display.texts import installed_by
from queries.domain import Domain

_LONGEST = LONGEST + 1  # the rest of such a line is thrown away


class Lines(Protocol):
    """Lines that somebody writes.

    Attributes:
        is_terminal: whoever writes them waits for each answer, so one interrupt drops one line.
    """

    is_terminal: bool

    def read(self, unfinished: str) -> str | None:
        """Return what was written next, a line or several; None at the end.

        Args:
            unfinished: the statement that it goes on with.

        Raises:
            KeyboardInterrupt: the line is to be dropped.
        """
        ...


class PlainLines:
    """Lines of a pipe, or of a terminal without line editing."""

    def __init__(self, source: BinaryIO, *, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._source = source

    def read(self, unfinished: str) -> str | None:
        """Return the next line; what is no UTF-8 is marked, and refused as a question."""
        if self.is_terminal:
            click.echo(GOES_ON if unfinished else PROMPT, nl=False, err=True)
        line = self._source.readline(_LONGEST)
        if not line:
            return None
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = self._source.readline(_LONGEST)
        return line.decode("utf-8", errors="replace").rstrip("\r\n")


def lines_of(domain: Domain, history: Path | None) -> Lines:
    """Return the lines of standard input, edited where it is a terminal.

    Args:
        domain: the declared attributes, for completion.
        history: where lines are kept; None keeps them no longer than the shell.
    """
    if not sys.stdin.isatty():
        return PlainLines(sys.stdin.buffer, is_terminal=False)
    try:
        from pmw.cli.shell.editing import EditedLines
    except ModuleNotFoundError as error:
        if error.name != "prompt_toolkit":
            raise
        click.echo(f"For completion, history and line editing: {installed_by('shell')}", err=True)
        return PlainLines(sys.stdin.buffer, is_terminal=True)
    if not sys.stdout.isatty():
        return PlainLines(sys.stdin.buffer, is_terminal=True)
    return EditedLines(domain, history)


def history_path() -> Path | None:
    """Return the file of the user's state directory; None where the user has no home.

    Source: XDG Base Directory Specification 0.8: a relative ``XDG_STATE_HOME`` is ignored.
    """
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        state = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "pmw" / "history"
