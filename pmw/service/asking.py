"""Asking: the questions of one request, answered in order, each with the object that ``pmw ask`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.forms import form_of
from pmw.service.hosting import ForbiddenError
from pmw.session.asking import Asking
from pmw.session.dialogue import Dialogue
from queries.errors import QueryError
from queries.grouping import GroupedQuery
from queries.linear import LinearQuery
from queries.parsing import Question, identifier_of, require_aligned
from queries.statements import Statement

__all__ = [
    "answered",
    "answered_all",
    "answered_within",
]


def answered(
    session: Asking, form: Mapping[str, Any], key: str | None, fresh: bool = False, aligned: bool = False
) -> dict[str, Any]:
    """Return the answer object of one question.

    Args:
        session: who answers.
        form: the question, as a line of a stream.
        key: its idempotency key.
        fresh: ask a newer model, or for tests that were not made, where there are stored answers.
        aligned: refuse a question that cuts cells.

    Raises:
        QueryError: it is refused; nothing is spent.
    """
    question = _read(session, form, aligned=aligned)
    return _answers(session, [replace(question, request_id=key)], fresh=fresh)[0]


def answered_all(
    session: Asking,
    forms: Sequence[Mapping[str, Any]],
    key: str | None,
    fresh: bool = False,
    aligned: bool = False,
) -> list[dict[str, Any]]:
    """Return an answer object for each question; a refused one has an error object. See ``answered``.

    Raises:
        QueryError: a key was used for another question; nothing is spent.
    """
    found: list[dict[str, Any]] = []
    questions: dict[int, Question] = {}
    for place, form in enumerate(forms):
        head = {} if (identifier := identifier_of(form)) is None else {"id": identifier}
        try:
            own = None if key is None else key if place == 0 else f"{key}\n{place}"
            questions[place] = replace(_read(session, form, aligned=aligned), request_id=own)
            found.append(head)
        except QueryError as error:
            found.append({**head, "error": error.to_dict()})
    for place, answer in zip(
        questions, _answers(session, list(questions.values()), fresh=fresh), strict=True
    ):
        found[place] = {**found[place], **answer}
    return found


def answered_within(
    analyst: Dialogue, form: Mapping[str, Any], within: float, *, dry_run: bool, pays: bool, aligned: bool
) -> dict[str, Any]:
    """Return the answer object of a question with a bar of so many records at most, or what it costs.

    Repeated, it costs nothing more: the bar is there already.

    Args:
        analyst: who answers, and whose share pays.
        form: the question, as a line of a stream.
        within: half-width of the bar, in records.
        dry_run: tell the price alone.
        pays: may pay; else what is not free is refused.
        aligned: refuse a question that cuts cells.

    Raises:
        BudgetExhaustedError: the price is not left; nothing is spent.
        ForbiddenError: it is not free, and nothing may be paid.
        QueryError: it is refused; nothing is spent.
    """
    query = _read(analyst, form, aligned=aligned).query
    if not isinstance(query, LinearQuery):
        raise QueryError(
            "a bar is for one count; leave within out, or ask for COUNT(*) alone",
            code="unsupported",
            position="within",
        )
    quote = analyst.quote(query, within)
    if dry_run:
        return {**quote.to_dict(), "needed": quote.needed}
    if quote.needed and not pays:
        raise ForbiddenError(
            "a reader gets free answers only; ask for a wider bar, or leave it to an analyst"
        )
    return analyst.ask_within(query, within).to_dict()


def _read(session: Asking, form: Mapping[str, Any], *, aligned: bool) -> Question:
    question = session.reader.question(form)
    if question.request_id is not None:
        raise QueryError(
            "give the key of a request in its header Idempotency-Key",
            code="bad_request",
            position="request_id",
        )
    if aligned:
        require_aligned(question.query)
    return question


def _answers(session: Asking, questions: Sequence[Question], *, fresh: bool) -> list[dict[str, Any]]:
    """Return the answer objects of questions: those that count together, and statements one by one."""
    counts = [question for question in questions if not isinstance(question.query, Statement)]
    parts = [part for question in counts for part in question.parts()]
    answers = iter(session.ask_all(parts, fresh=fresh) if parts else ())
    return [_form(session, question, answers, fresh=fresh) for question in questions]


def _form(session: Asking, question: Question, answers: Any, *, fresh: bool) -> dict[str, Any]:
    query = question.query
    if isinstance(query, Statement):
        return form_of(session.tabulate(query, fresh=fresh, request_id=question.request_id))
    if isinstance(query, GroupedQuery):
        return form_of(Answers(tuple(next(answers) for _ in query), query))
    answer: Answer = next(answers)
    return answer.to_dict()
