"""Expected questions for a session to open with, read against its schema alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, TypeAlias

from pmw.public.options import ExpectedQuestions
from queries.domain import Domain, require_domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import Question, is_statement
from queries.reader import QuestionReader, questions_in_text
from queries.statements import Statement

_MOST = 10**6  # different questions
Asked: TypeAlias = Question | LinearQuery | Statement | str | Mapping[str, Any]


def expected_questions(source: str | PathLike[str] | Iterable[Asked], domain: Domain) -> ExpectedQuestions:
    """Return the questions that are expected, for ``Options.expected``.

    A statement stands for one question in each group. Each question counts once, in any order.

    Args:
        source: the path of a file of conditions, statements and JSON Lines (``questions_in_text``); or
            queries, statements, conditions, and their texts.

    Privacy: they are declared public, and no table is read. Questions that were written after a look at the
        table tell of it, such as by naming its rare values: nothing protects that.
    """
    require_domain(domain)
    reader, found = QuestionReader(domain), dict[bytes, tuple[str, ...]]()
    if isinstance(source, str | PathLike):
        asked: Iterable[Any] = (one.query for one in questions_in_text(source, reader))
    else:
        asked = source
    for one in asked:
        for query in _counted(one, reader):
            found.setdefault(query.key(), query.scope)
            if len(found) > _MOST:
                raise QueryError(f"expected at most {_MOST:,} different questions", code="too_large")
    if not found:
        raise QueryError(
            "expected a question, got none; write a condition, a statement or a line of JSON",
            code="bad_request",
        )
    counts = Counter(found.values())
    scopes = tuple(sorted(counts))
    digest = hashlib.sha256(b"".join(sorted(found))).hexdigest()
    return ExpectedQuestions(scopes, tuple(counts[scope] for scope in scopes), digest)


def joined_questions(first: ExpectedQuestions, second: ExpectedQuestions) -> ExpectedQuestions:
    """Return questions of two kinds as expected ones, each kind with half of the weight."""
    scopes = tuple(sorted({*first.scopes, *second.scopes}))
    parts = [(first.by_scope, len(second)), (second.by_scope, len(first))]
    counts = (sum(times * one.get(scope, 0) for one, times in parts) for scope in scopes)
    digest = hashlib.sha256(f"{first.digest}{second.digest}".encode()).hexdigest()
    return ExpectedQuestions(scopes, tuple(counts), digest)


def _counted(question: Asked, reader: QuestionReader) -> Iterable[LinearQuery]:
    if isinstance(question, Question):
        question = question.query
    if is_statement(question):
        question = reader.statement(str(question))
    elif isinstance(question, str | Mapping):
        question = reader.where(question)
    if question.domain != reader.domain:
        raise QueryError("the questions are made for another domain", code="bad_request")
    if isinstance(question, Statement):
        question.require_one_step()
        return (arm.counted(group) for arm in question.alone for group in arm.groups())
    return (question,)
