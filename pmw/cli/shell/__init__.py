"""``pmw shell``: one session held open, and a dialogue over it, line by line."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmw.cli.session_files import resumed, wait_option
from pmw.cli.usage import PATH, echo, flag

if TYPE_CHECKING:
    from pmw.cli.shell.dialogue import Lines
    from queries.domain import Domain


@click.command(
    "shell",
    short_help="Ask one question after the other, with completion.",
    epilog="""\b
Examples:
  pmw shell study.pmw
  pmw shell study.pmw --no-history
  printf '%s\\n' "age >= 65" ".cost" | pmw shell study.pmw
""",
)
@click.argument("session", type=PATH)
@flag("--no-history", "Keep no questions after the shell has ended.")
@wait_option
def command(session: Path, no_history: bool, wait: float) -> None:
    """Ask SESSION questions on a terminal, one after the other.

    A line is a condition, or an SQL statement, which may go over several lines and ends with a semicolon. It
    is answered as by `pmw ask`, durably. Commands begin with a dot; .help lists them. An error ends its line
    alone. Ctrl-C drops a line; Ctrl-D and .quit leave.

    On a terminal, Tab completes the schema's names and values, and questions are kept for the next shell in
    $XDG_STATE_HOME/pmw/history, or ~/.local/state/pmw/history, which you alone can read. This needs the extra
    'shell'; without it, lines are read as they come. Piped in, they are answered in order, and the exit code
    is 4 where every question was refused.

    The session is in use until the shell ends: other processes can read it, but not ask.
    """
    from pmw.cli.shell.dialogue import Dialogue, history_path

    with _told_to_end(), resumed(session, wait) as opened:
        lines = lines_of(opened.domain, None if no_history else history_path())
        if lines.is_terminal:
            share, names = opened.state.ledger.share, len(opened.domain)
            about = f"{opened.domain.name}: {names} attributes; {share:.1%} of the budget spent"
            echo(f"{about}. .help tells what can be written.", err=True)
        code = Dialogue(opened).run(lines)
    sys.exit(code)


@contextlib.contextmanager
def _told_to_end() -> Iterator[None]:
    """Have SIGTERM leave the shell in order: the terminal as it was, and the session let go of."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def lines_of(domain: Domain, history: Path | None) -> Lines:
    """Return the lines of standard input, edited and kept in a history where it is a terminal."""
    from pmw.cli.shell.dialogue import PlainLines
    from pmw.display.texts import installed_by

    if not sys.stdin.isatty():
        return PlainLines(sys.stdin.buffer, is_terminal=False)
    try:
        from pmw.cli.shell.editing import EditedLines
    except ModuleNotFoundError as error:
        if error.name != "prompt_toolkit":
            raise
        echo(f"For completion, history and line editing: {installed_by('shell')}", err=True)
        return PlainLines(sys.stdin.buffer, is_terminal=True)
    if not sys.stdout.isatty():
        return PlainLines(sys.stdin.buffer, is_terminal=True)
    return EditedLines(domain, history)
