"""Limits: how much a service takes at a time, from one user and for one session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pmw.errors import ServiceError

__all__ = [
    "BODY_BYTES",
    "BusyError",
    "KEPT_CONNECTIONS",
    "MOST_CONNECTIONS",
    "MOST_IDLE",
    "MOST_QUESTIONS",
    "MOST_WAITING",
    "OneEach",
    "Rate",
    "Waiting",
]

BODY_BYTES = 2**20
MOST_CONNECTIONS = 512
KEPT_CONNECTIONS = 16  # of them, for requests with a good token
MOST_IDLE = 128  # connections of one address that wait for a request
MOST_QUESTIONS = 1000  # of one request
MOST_WAITING = 32  # requests at one session; each takes a thread


class BusyError(ServiceError):
    """A request that comes too early; asked again later, it is served."""


class Rate:
    """A bucket of tokens for each user: so many requests a second, and so many at once.

    Args:
        per_second: requests that each user may make for long.
        at_once: requests that may come together after a pause.
        clock: seconds, never going back.
    """

    def __init__(
        self, per_second: float, at_once: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._at_once, self._clock = per_second, at_once, clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Count one request of a user.

        Raises:
            BusyError: there were too many.
        """
        with self._lock:
            now = self._clock()
            left, before = self._left.get(name, (self._at_once, now))
            left = min(self._at_once, left + (now - before) * self._per_second)
            self._left[name] = max(left - 1, 0) if left >= 1 else left, now
        if left < 1:
            raise BusyError(f"expected at most {self._per_second:g} requests a second; ask again in a second")


class OneEach:
    """Who has an export under way: one each, for it takes memory until its client has read it."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, name: str) -> None:
        """Note that a user's export begins.

        Raises:
            BusyError: one of the user's is under way.
        """
        with self._lock:
            if name in self._names:
                raise BusyError("another export of yours is being sent; ask again when it has ended")
            self._names.add(name)

    def end(self, name: str) -> None:
        """Note that it ended."""
        with self._lock:
            self._names.discard(name)


class Waiting:
    """How many requests are at one session, or wait for it."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place for the time of a request.

        Raises:
            BusyError: too many wait already.
        """
        if not self._free.acquire(blocking=False):
            raise BusyError("too many requests wait for this session; ask again in a second")
        try:
            yield
        finally:
            self._free.release()
