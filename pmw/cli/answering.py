"""Answering: one question as a command gets it, and its answer in the forms that commands print."""

from __future__ import annotations

from typing import Any, TypeAlias

from pmw.cli.streaming import StreamOptions, answer_code, table_code
from pmw.cli.texts import answer_text, table_text
from pmw.public.answers import Answers
from pmw.public.tables import AnswerTable
from pmw.session.asking import Asking
from queries.domain import Domain
from queries.linear import LinearQuery
from queries.parsing import parse_where, read_line, require_aligned
from queries.statements import Statement

Asked: TypeAlias = LinearQuery | Statement
Result: TypeAlias = Answers | AnswerTable  # of one condition, or of a statement


def read_condition(where: str, domain: Domain) -> LinearQuery:
    """Return the query of a condition, written as text or as a JSON object.

    Raises:
        QueryError: it cannot be read, or names what is not declared.
    """
    return parse_where(read_line(where) if where.lstrip().startswith("{") else where, domain)


def answered(session: Asking, asked: Asked, options: StreamOptions) -> Result:
    """Return the answer to one question.

    Raises:
        QueryError: the question is refused; nothing is spent.
        StoreError: the answer could not be made durable; nothing was released.
    """
    if options.strict_cells:
        require_aligned(asked.where if isinstance(asked, Statement) else asked)
    if isinstance(asked, Statement):
        return session.tabulate(asked, fresh=options.fresh)
    return session.ask_all([asked], fresh=options.fresh)


def form_of(result: Result) -> dict[str, Any]:
    """Return an answer ready for JSON."""
    return result.to_dict() if isinstance(result, AnswerTable) else result[0].to_dict()


def text_of(result: Result) -> str:
    """Return an answer in words, or as a table."""
    return table_text(result) if isinstance(result, AnswerTable) else answer_text(result[0])


def csv_of(result: Result) -> str:
    """Return an answer as CSV with a header: what was asked, the number, and the ends of its interval."""
    return str(result.to_pandas().to_csv(index=False)).rstrip("\n")


def exit_code_of(result: Result, *, strict: bool) -> int:
    """Return the exit code of an answer: a refused one's, or that of one without a promise under --strict."""
    if isinstance(result, AnswerTable):
        return table_code(result, strict=strict)
    return answer_code(result[0], strict=strict)
