"""The screen: how much of a text a terminal shows at once, and a line of progress on standard error.

What is piped has no screen, no limit and no progress.
"""

from __future__ import annotations

import shutil
import sys
import time

import click

_EVERY = 0.2  # seconds between two updates


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


class Progress:
    """Counts what was done, on one line that is rewritten in place.

    It shows how many questions were answered, or models fitted, and public state, nothing else. The time
    that is left is a guess from the pace so far, which whoever waits sees anyway.

    Args:
        verb: what becomes of each.
        total: how many there are; None where nobody knows.
    """

    def __init__(self, verb: str, total: int | None = None) -> None:
        self._verb = verb
        self._total = total
        self._began = time.monotonic()
        self._count = 0
        self._shown = 0.0
        self._active = sys.stderr.isatty()

    def expect(self, total: int) -> None:
        """Tell how many there are, once it is known."""
        self._total = total

    def add(self, count: int, note: str = "") -> None:
        """Count more, and show it now and then."""
        self._count += count
        now = time.monotonic()
        if self._active and now - self._shown > _EVERY:
            self._shown = now
            done = f"{self._count:,}" if self._total is None else f"{self._count:,} of {self._total:,}"
            parts = [f"{done} {self._verb}", self._left(now - self._began), note]
            sys.stderr.write(f"\r\x1b[K{'; '.join(part for part in parts if part)}")
            sys.stderr.flush()

    def _left(self, seconds: float) -> str:
        """Return how long the rest takes at the pace so far, in words."""
        if self._total is None or not self._count:
            return ""
        left = round(seconds / self._count * max(0, self._total - self._count))
        return f"about {left // 60}:{left % 60:02} min left" if left >= 60 else f"about {left} s left"

    def close(self) -> None:
        """Clear the line."""
        if self._active and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
