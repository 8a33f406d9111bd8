"""The log: one line of JSON for each request, with nothing of a question, a token or a record in it."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    """Writes lines of JSON.

    Args:
        stream: where to; None for standard error.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        """Write one line: when, what happened, and what is told of it."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields})
        with self._lock:
            print(line, file=self._stream or sys.stderr, flush=True)

    def failure(self, error: BaseException, **fields: Any) -> None:
        """Write down an unexpected error: its type and the lines of the program, never its message."""
        frames = traceback.extract_tb(error.__traceback__)[-12:]
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        self.write("failure", error=type(error).__name__, where=where, **fields)
