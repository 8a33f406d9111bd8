"""Waiting in tests: never without an end, for a thread or a process may have died of an error."""

from __future__ import annotations

from multiprocessing.process import BaseProcess
from threading import Thread

WAIT = 60.0  # seconds: far more than anything here takes, on a busy machine too


def joined(*workers: Thread | BaseProcess) -> None:
    """Wait for threads or processes that are about to end, and fail where one does not, or died."""
    for worker in workers:
        worker.join(WAIT)
        assert not worker.is_alive(), f"{worker.name} did not end"
        assert getattr(worker, "exitcode", 0) == 0, f"{worker.name} died"
