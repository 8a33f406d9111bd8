"""Limits: how much a service takes at a time, from one user, for one session and in one request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress

from pmw.errors import ServiceError
from pmw.session.turns import TURN_WORK, Turns
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.statements import Statement

BODY_BYTES = 2**20
STRANGER_BYTES = 2**14  # of a body that comes without a good token; nobody reads what is in it
SIGN_IN_BYTES = 2**12
MOST_FIELDS = 2**12  # of a form
MOST_CONNECTIONS = 512
KEPT_CONNECTIONS = 16  # of them, for requests with a good token
MOST_IDLE = 128  # connections of one address that wait for a request
MOST_QUESTIONS = 1000  # of one request
MOST_CELLS = 20_000  # numbers that one request may ask for
PLACES = 16  # requests that are carried out together at one session; each takes a thread
OWN_PLACES = 4  # of them, of one user
MOST_WAITING = 512  # requests that wait for a place
OWN_WAITING = 32  # of them, of one user
MOST_CALLS = 64  # requests of assistants, each of which may take a thread, or wait for a person
OWN_CALLS = 16  # of them, of one user; open streams count
WAITING_SECONDS = 20.0
MOST_LARGE = 4  # requests of more than a turn that are at one session; all but one wait
_LARGE_SECONDS = 5  # after which one of them may be asked again
_SERVED = 50  # small requests that a session answers in a second, at least


class BusyError(ServiceError):
    """A request that comes too early; asked again after some seconds, it is served."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EndingError(BusyError):
    """A request that is cut, for the service ends."""


class GoneError(ServiceError):
    """A request that is cut, for its client has left."""


class Rate:
    """A bucket of tokens for each user: so many requests a second, and so many at once after a pause."""

    def __init__(
        self, per_second: float, at_once: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._at_once, self._clock = per_second, at_once, clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Count one request of a user."""
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
        """Note that a user's export begins."""
        with self._lock:
            if name in self._names:
                raise BusyError("another export of yours is being sent; ask again when it has ended")
            self._names.add(name)

    def end(self, name: str) -> None:
        """Note that it ended."""
        with self._lock:
            self._names.discard(name)


class Queue:
    """Requests at one session: some are carried out, and others wait, with a deadline.

    Users have their requests carried out in turns, each user's in order: at most ``OWN_PLACES`` together, and
    ``OWN_WAITING`` that wait. Whoever waits on an event loop takes no thread.
    """

    def __init__(
        self, places: int = PLACES, most: int = MOST_WAITING, seconds: float = WAITING_SECONDS
    ) -> None:
        self._free, self._most, self._seconds = places, most, seconds
        self._held = Counter[str]()  # places, by user
        self._waiting: dict[str, deque[Future[None]]] = {}  # by user; who is next comes first
        self._lock = threading.RLock()

    @property
    def retry_after(self) -> int:
        """Seconds after which a request that is refused may find a place: by who waits, not by the clock."""
        return 1 + self.waiting // _SERVED

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def place(self, name: str) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the time of a request."""
        turn = self._enter(name)
        if turn is not None:
            with self._patience(name, turn):
                await asyncio.wait_for(asyncio.wrap_future(turn), self._seconds)
        try:
            yield
        finally:
            self._leave(name)

    @contextmanager
    def place_of_thread(self, name: str) -> Iterator[None]:
        """Wait for a place as ``place`` does, in a thread that has nothing else to do."""
        turn = self._enter(name)
        if turn is not None:
            with self._patience(name, turn):
                turn.result(self._seconds)
        try:
            yield
        finally:
            self._leave(name)

    def _enter(self, name: str) -> Future[None] | None:
        """Take a place, or return what tells when there is one."""
        with self._lock:
            own = self._waiting.get(name, deque())
            if self._free and self._held[name] < OWN_PLACES:
                self._take(name)
                return None
            if len(own) >= OWN_WAITING or self.waiting >= self._most:
                whose = "of yours " if len(own) >= OWN_WAITING else ""
                told = f"too many requests {whose}wait for this session; ask again later"
                raise BusyError(told, self.retry_after)
            turn = Future[None]()
            self._waiting.setdefault(name, own).append(turn)
            return turn

    @contextmanager
    def _patience(self, name: str, turn: Future[None]) -> Iterator[None]:
        """Give a turn up where it was not waited for; it may have come in the same moment."""
        try:
            yield
        except BaseException as error:
            with self._lock:
                if turn.done() and not turn.cancelled():
                    self._leave(name)  # it was this request's turn, but nobody is there
                else:
                    with suppress(ValueError):  # whoever left before may have found that it no longer waits
                        self._waiting.get(name, deque()).remove(turn)
            if not isinstance(error, TimeoutError):
                raise
            late = f"this session had no place within {self._seconds:g} seconds; ask again later"
            raise BusyError(late, self.retry_after) from None

    def _leave(self, name: str) -> None:
        """Free a place, and give free ones to those who wait, a user at a time."""
        with self._lock:
            self._free += 1
            self._held[name] -= 1
            while self._free:
                next_one = next((one for one in self._waiting if self._held[one] < OWN_PLACES), None)
                if next_one is None:
                    return
                own = self._waiting.pop(next_one)
                turn = own.popleft() if own else None
                if own:
                    self._waiting[next_one] = own  # behind all others
                if turn is not None and turn.set_running_or_notify_cancel():
                    self._take(next_one)
                    turn.set_result(None)

    def _take(self, name: str) -> None:
        self._free -= 1
        self._held[name] += 1


class LargeRequests:
    """Requests of more work than a turn holds: one of them at a time is at a session, first come first.

    What a request has read and was answered is held in memory until its end; so few may wait.
    """

    def __init__(self, most: int = MOST_LARGE) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._turns = Turns()

    @contextmanager
    def place(self, cells: int) -> Iterator[None]:
        """Wait for the large requests before this one, if it is one."""
        if cells <= TURN_WORK:
            yield
            return
        if not self._places.acquire(blocking=False):
            raise BusyError("too many large requests wait for this session; ask again later", _LARGE_SECONDS)
        try:
            with self._turns:
                yield
        finally:
            self._places.release()


class Working:
    """How many threads work for requests at one session; and whether they are told to stop."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()
        self._ending = False

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Count this thread while it works."""
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """Tell all work to stop at its next turn."""
        self._ending = True

    def wait(self) -> None:
        """Wait until no thread works."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count)

    def look(self, gone: threading.Event) -> None:
        """Stop the work of a request where there is nobody to work for."""
        if gone.is_set():
            raise GoneError("the client has left")
        if self._ending:
            raise EndingError("the service ends; ask again, and what was answered already is free", 5)


def cells_of(query: LinearQuery | Statement) -> int:
    """Return how many numbers a question asks for: its groups, times their aggregates; one without groups."""
    return query.size if isinstance(query, Statement) else 1


def require_few_cells(cells: int, told: str = "") -> None:
    """Refuse a request that asks for too many numbers, before any of them is looked at."""
    if cells > MOST_CELLS:
        raise QueryError(
            f"expected at most {MOST_CELLS:,} cells in a request (groups, times aggregates of each, where a "
            f"quantile is as many as its values), got {cells:,}{told}; ask for fewer groups, or in several "
            "requests",
            code="too_large",
        )
