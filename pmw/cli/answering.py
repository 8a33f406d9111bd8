"""Answering: one question as a command gets it, and its answer in the forms that commands print."""

from __future__ import annotations

from typing import TypeAlias

from pmw.cli.streaming import StreamOptions, answer_code, table_code
from pmw.cli.texts import answer_text, answers_text, table_text
from pmw.public.answers import Answers
from pmw.public.tables import AnswerTable
from pmw.session.asking import Asking
from queries.domain import Domain
from queries.grouping import GroupedQuery
from queries.linear import LinearQuery
from queries.parsing import parse_statement, parse_where, read_line, require_aligned
from queries.statements import Statement

Asked: TypeAlias = LinearQuery | GroupedQuery | Statement
Result: TypeAlias = Answers | AnswerTable


def read_condition(where: str, domain: Domain) -> LinearQuery:
    """Return the query of a condition, written as text or as a JSON object.

    Raises:
        QueryError: it cannot be read, or names what is not declared.
    """
    return parse_where(read_line(where) if where.lstrip().startswith("{") else where, domain)


def read_statement(sql: str, domain: Domain) -> GroupedQuery | Statement:
    """Return what an SQL statement asks.

    Raises:
        QueryError: it cannot be answered.
    """
    return parse_statement(sql, domain)


def answered(session: Asking, asked: Asked, options: StreamOptions) -> Result:
    """Return the answer to one question.

    Raises:
        QueryError: the question is refused; nothing is spent.
        StoreError: the answer could not be made durable; nothing was released.
    """
    if options.strict_cells:
        require_aligned(asked)
    if isinstance(asked, Statement):
        return session.tabulate(asked, fresh=options.fresh)
    if isinstance(asked, GroupedQuery):
        return session.ask_groups(asked, fresh=options.fresh)
    return session.ask_all([asked], fresh=options.fresh)


def text_of(result: Result) -> str:
    """Return an answer in words, or as a table."""
    if isinstance(result, AnswerTable):
        return table_text(result)
    alone = result.alone()
    return answers_text(result) if alone is None else answer_text(alone)


def csv_of(result: Result) -> str:
    """Return an answer as CSV with a header: what was asked, the number, and the ends of its interval."""
    return str(result.to_pandas().to_csv(index=False)).rstrip("\n")


def exit_code_of(result: Result, *, strict: bool) -> int:
    """Return the exit code of an answer: a refused one's, or that of one without a promise under --strict."""
    if isinstance(result, AnswerTable):
        return table_code(result) if strict else 0
    return max(answer_code(one, strict=strict) for one in result)
