"""Answers as rows of their table, and back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

MEASURED = "measured"  # the source of an answer that drew noise of its own

# Whether an answer settles its question: its asker could have paid for a test. Only the first counts.
UNSETTLED, FIRST, AGAIN = 0, 1, 2

# Looks up every so manyth row by its number, from the last one down, so that a long table is not read.
SHARES = (
    "WITH RECURSIVE steps(place) AS (SELECT ? UNION ALL SELECT place - ? FROM steps WHERE place > ?)"
    " SELECT sequence, share FROM steps JOIN answers ON sequence = place ORDER BY sequence"
)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer as it was released, and the question it belongs to."""

    request_id: str | None
    query_key: bytes
    query: str
    count: float
    interval: tuple[float, float] | None
    confidence: float
    source: str
    version: int
    share: float
    kind: str | None = None  # of the question, where errors of such questions are looked at
    typical: tuple[float, float] | None = None
    analyst: str = ""  # who asked first; an empty name where nobody was named
    settled: int = (
        UNSETTLED  # or ``FIRST``, or ``AGAIN`` where an earlier answer to the question was the first
    )


def query_key(text: str) -> bytes:
    """Return the 32 bytes under which the answers to a query's canonical text are found."""
    return hashlib.sha256(text.encode()).digest()


def key_name(request_id: str) -> str:
    """Return the name of the fact that a request was given an answer stored for another, with its number."""
    return f"request {request_id}"


def row_of_answer(answer: StoredAnswer) -> tuple[Any, ...]:
    """Return the columns of an answer."""
    low, high = (None, None) if answer.interval is None else map(float, answer.interval)
    head = (answer.request_id, answer.query_key, answer.query, float(answer.count), low, high)
    typical = (None, None) if answer.typical is None else tuple(map(float, answer.typical))
    tail = (float(answer.confidence), answer.source, answer.version, float(answer.share))
    return (*head, *tail, answer.kind, *typical, answer.analyst, answer.settled)


def answer_of_row(row: Any) -> StoredAnswer:
    """Return the answer of a row's columns."""
    request_id, key, query, count, low, high, confidence, source, version, share, *last = row
    kind, least, most, *asked_by = last
    interval = None if low is None else (low, high)
    typical = None if least is None else (least, most)
    head = (request_id, key, query, count, interval)
    return StoredAnswer(*head, confidence, source, version, share, kind, typical, *asked_by)
