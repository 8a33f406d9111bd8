"""The screen: how much of a text a terminal shows at once. What is piped has no screen, and no limit."""

from __future__ import annotations

import shutil
import sys

import click


def terminal_width() -> int | None:
    """Return the characters of a line of the terminal; None where standard output is none."""
    return max(1, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def show(text: str) -> None:
    """Print data to standard output, through a pager where a terminal cannot show it at once."""
    width = terminal_width()
    if width is None:
        click.echo(text)
        return
    lines = sum(max(1, -(-len(line) // width)) for line in text.split("\n"))
    if lines < shutil.get_terminal_size().lines:
        click.echo(text)
    else:
        click.echo_via_pager(text + "\n")
