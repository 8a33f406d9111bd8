"""Turns: threads that use one session, one at a time, in an order that work alone decides.

Work is counted in questions, from what is asked: no clock, and nothing of a record, says who is next.
"""

from __future__ import annotations

import heapq
import itertools
import threading

TURN_WORK = 512  # questions of one turn, about: what whoever comes next waits for at most


class Turns:
    """A lock that threads take in turns, each as often as it likes within its own.

    Whoever waits has a number: the work that was done by others until it came, and its own on top. The least
    number is next. So what is small passes what is large, first come goes first among equals, and nobody is
    passed by more work than a turn holds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int, _Waiter]] = []
        self._numbers = itertools.count()
        self._holder: int | None = None
        self._last: int | None = None  # the thread of the turn before
        self._depth = 0
        self._done = 0  # work of the turns that ended
        self._work = 0  # work of this turn so far
        self.is_shared = False  # whether more than one thread has had a turn

    @property
    def awaited(self) -> bool:
        """Whether another thread waits for its turn."""
        return bool(self._waiting)

    def __enter__(self) -> Turns:
        """Wait for a turn; within one's own there is nothing to wait for."""
        own = threading.get_ident()
        with self._lock:
            if self._holder == own:
                self._depth += 1
                return self
            if self._holder is None:
                self._begin(own, 1)
                return self
            waiter = self._queue(_Waiter(own, 1), 1)
        self._wait(waiter)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._holder != threading.get_ident():
                return  # interrupted while it waited to go on
            self._depth -= 1
            if not self._depth:
                self._pass_on()

    def pause(self, work: int) -> None:
        """Count work of this turn, and once that is enough let those who wait go first."""
        self._work += work
        if self._work < TURN_WORK:
            return
        with self._lock:
            if not self._waiting:
                self._done, self._work = self._done + self._work, 0
                return
            waiter = self._queue(_Waiter(threading.get_ident(), self._depth), TURN_WORK)
            self._pass_on()
        self._wait(waiter)

    def _queue(self, waiter: _Waiter, work: int) -> _Waiter:
        heapq.heappush(self._waiting, (self._done + self._work + work, next(self._numbers), waiter))
        return waiter

    def _wait(self, waiter: _Waiter) -> None:
        try:
            waiter.turn.wait()
        except BaseException:  # such as an interrupt from the keyboard: nobody waits for who has left
            with self._lock:
                if waiter.turn.is_set():
                    self._pass_on()
                else:
                    self._waiting = [one for one in self._waiting if one[2] is not waiter]
                    heapq.heapify(self._waiting)
            raise

    def _begin(self, holder: int | None, depth: int) -> None:
        self._holder, self._depth, self._work = holder, depth, 0
        if holder is not None:
            self.is_shared |= self._last not in (None, holder)
            self._last = holder

    def _pass_on(self) -> None:
        self._done += max(1, self._work)
        if not self._waiting:
            self._begin(None, 0)
            return
        waiter = heapq.heappop(self._waiting)[2]
        self._begin(waiter.thread, waiter.depth)
        waiter.turn.set()


class _Waiter:
    """A thread that waits, and how often it will hold its turn."""

    __slots__ = ("depth", "thread", "turn")

    def __init__(self, thread: int, depth: int) -> None:
        self.thread, self.depth, self.turn = thread, depth, threading.Event()
