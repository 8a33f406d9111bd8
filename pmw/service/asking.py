"""Asking: the questions of one request, answered in order, each with the object that ``pmw ask`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.forms import form_of
from pmw.session.asking import Asking
from queries.errors import QueryError
from queries.grouping import GroupedQuery
from queries.parsing import Question, identifier_of, require_aligned
from queries.statements import Statement

__all__ = [
    "answered",
    "answered_all",
]


def answered(
    session: Asking, form: Mapping[str, Any], key: str | None, fresh: bool = False, aligned: bool = False
) -> dict[str, Any]:
    """Return the answer object of one question.

    Args:
        session: who answers.
        form: the question, as a line of a stream.
        key: its idempotency key.
        fresh: answer again what was answered before.
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
