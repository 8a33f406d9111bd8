"""Questions on their way to an answer, and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pmw.public.answer import Answer
from pmw.session.journal import answer_row
from pmw.session.store import Outcome
from queries.errors import QueryError
from queries.linear import LinearQuery

__all__ = [
    "Ask",
    "ready_answers",
    "require_same",
    "with_answers",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question on its way.

    Args:
        query: what is asked.
        text: the query's canonical text.
        request_id: idempotency key, for safe retries; None for none.
        fresh: answer again even where the same question was answered before.
    """

    query: LinearQuery
    text: str
    request_id: str | None = None
    fresh: bool = False


def ready_answers(known: dict[int, Answer], repeats: dict[int, int], places: range) -> list[Answer]:
    """Return the answers that are known without a gap; a repeat is known with the earlier place."""
    ready = []
    for place in places:
        if place in repeats:
            known[place] = known[repeats[place]]
        if place not in known:
            break
        ready.append(known[place])
    return ready


def require_same(ask: Ask, text: str) -> None:
    """Refuse an idempotency key that was used for another question.

    Raises:
        QueryError: it was.
    """
    if ask.text != text:
        raise QueryError(
            f"request_id {ask.request_id!r} was used for another question; choose a new one",
            code="bad_request",
            position="request_id",
        )


def with_answers(
    outcome: Outcome, asked: Sequence[tuple[str, str | None]], answers: Sequence[Answer]
) -> Outcome:
    """Return an outcome with the rows of answers, which may end at a positive before the questions do."""
    rows = [
        answer_row(answer, text, request)
        for answer, (text, request) in zip(answers, asked, strict=False)  # answers end at a positive
    ]
    return replace(outcome, answers=rows, asked=len(rows))
