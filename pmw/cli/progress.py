"""A progress line on standard error, for terminals only."""

from __future__ import annotations

import sys
import time

__all__ = [
    "Progress",
]

_EVERY = 0.2  # seconds between two updates


class Progress:
    """Counts what was done, on one line that is rewritten in place.

    It shows how many questions were answered and public state, nothing else.
    """

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._count = 0
        self._shown = 0.0
        self._active = sys.stderr.isatty()

    def add(self, count: int, note: str = "") -> None:
        """Count more, and show it now and then."""
        self._count += count
        now = time.monotonic()
        if self._active and now - self._shown > _EVERY:
            self._shown = now
            sys.stderr.write(f"\r\x1b[K{self._count:,} {self._verb}{'; ' + note if note else ''}")
            sys.stderr.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._active and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
