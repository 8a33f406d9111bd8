"""Progress: how many of many things were done, on standard error, where somebody waits before it."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import ClassVar

_FIRST, _EVERY = 1.0, 0.2  # seconds before anything is shown, and between two updates


class Progress:
    """Counts what was done, on one line that is rewritten in place.

    It shows how many questions were answered, or models fitted, and public state, nothing else. The time
    that is left is a guess from the pace so far, which whoever waits sees anyway.

    Nothing is shown in the first second, in a thread beside the main one, and where standard error is neither
    a terminal nor a notebook's. Of two at a time the outer one is shown.

    Args:
        total: how many there are; None where nobody knows.
        wanted: whether anything may be shown at all.
    """

    _shown: ClassVar[Progress | None] = None  # whose line it is

    def __init__(self, verb: str, total: int | None = None, *, wanted: bool = True) -> None:
        self._verb = verb
        self._total = total
        self._began = self._last = time.monotonic()
        self._count = self._length = 0
        self._in_notebook = type(sys.stderr).__module__.startswith("ipykernel.")
        is_main = threading.current_thread() is threading.main_thread()
        is_seen = self._in_notebook or bool(getattr(sys.stderr, "isatty", bool)())
        self.is_watched = wanted and Progress._shown is None and is_main and is_seen
        if self.is_watched:
            Progress._shown = self

    def expect(self, total: int) -> None:
        """Tell how many there are, once it is known."""
        self._total = total

    def add(self, count: int, note: str = "") -> None:
        """Count more, and show it now and then."""
        self._count += count
        if not self.is_watched:
            return
        now = time.monotonic()
        if now - self._began >= _FIRST and (not self._length or now - self._last > _EVERY):
            self._last = now
            self._write(self._told(), self._left(now - self._began), note)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line; in a notebook, which cannot, say how many it were."""
        if not self.is_watched:
            return
        self.is_watched, Progress._shown = False, None
        if self._length and self._in_notebook:
            self._write(self._told())
            self._put("\n")
        elif self._length:
            self._put("\r\x1b[K")

    def _told(self) -> str:
        done = f"{self._count:,}" if self._total is None else f"{self._count:,} of {self._total:,}"
        return f"{done} {self._verb}"

    def _left(self, seconds: float) -> str:
        if self._total is None or not self._count:
            return ""
        left = round(seconds / self._count * max(0, self._total - self._count))
        return f"about {left // 60}:{left % 60:02} min left" if left >= 60 else f"about {left} s left"

    def _write(self, *parts: str) -> None:
        text = "; ".join(part for part in parts if part)
        self._put(f"\r{text.ljust(self._length)}" if self._in_notebook else f"\r\x1b[K{text}")
        self._length = len(text)

    def _put(self, text: str) -> None:
        with suppress(OSError, ValueError):  # who no longer looks stops nobody's answers
            sys.stderr.write(text)
            sys.stderr.flush()
