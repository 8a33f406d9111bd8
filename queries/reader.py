"""Readers of many questions over one domain, also of those in files and tables.

A comparison that was read before is not read again.

A condition that joins comparisons of different attributes by AND counts the product of what each counts
alone. What holds a new comparison, or has another shape, goes through the parsers of single questions: what
they refuse is refused here, and what they read is read alike.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queries.domain import Domain
from queries.errors import QueryError
from queries.factors import Factor
from queries.linear import LinearQuery, range_factor
from queries.memory import Memory
from queries.parsing import (
    NAME,
    SPACE,
    Question,
    is_statement,
    parse_sql,
    parse_where,
    plain_predicate,
    plain_terms,
    question_of,
    read_line,
)
from queries.segments import count_where

if TYPE_CHECKING:
    import pandas as pd

    from queries.statements import Statement

_MOST_CONDITIONS = 2**14  # whole conditions that are remembered
_MOST_TERMS = 2**12  # comparisons
_MOST_BEGINNINGS = 2**6  # of statements
_MOST_BYTES = 2**24  # of each memory
_MOST_TOLD = 100  # refused questions
_LONGEST_TEXT = 2000  # characters; a longer one is rarely asked twice

_PLAIN = frozenset([str, int, float, bool])

_COUNT = re.compile(
    rf"(SELECT{SPACE}+COUNT\(\*\){SPACE}+FROM{SPACE}+{NAME}{SPACE}+WHERE{SPACE}+)", re.IGNORECASE
)


class QuestionReader:
    """Reads questions over one domain; each is the one that the parser of single questions makes of it."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._conditions: Memory[LinearQuery] = Memory(_MOST_CONDITIONS, _MOST_BYTES)
        self._statements: Memory[Statement] = Memory(_MOST_CONDITIONS, _MOST_BYTES)
        self._beginnings: Memory[bool] = Memory(_MOST_BEGINNINGS, _MOST_BYTES)  # that were read
        self._terms: Memory[Factor] = Memory(_MOST_TERMS, _MOST_BYTES)

    def where(self, where: str | Mapping[str, Any]) -> LinearQuery:
        """Return the query that counts where a condition holds; see ``parse_where``."""
        if isinstance(where, str):
            return self._remembered(where, where, lambda: self._text(where, ""))
        if _is_plain(where):  # its text tells 1 from 1.0 and True
            return self._remembered(repr(where), where, lambda: self._structured(where))
        return parse_where(where, self.domain)

    def question(self, form: Mapping[str, Any]) -> Question:
        """Return the question that a JSON object states; see ``parse_question``."""
        return question_of(form, self.where, self.statement)

    def statement(self, text: str) -> Statement:
        """Return what a statement asks; see ``parse_sql``."""
        known = self._statements.get(text)
        if known is not None:
            return known
        if len(text) <= _LONGEST_TEXT and (match := _COUNT.match(text)):
            found = None
            with suppress(QueryError):  # what is refused is read again, for the message
                found = self._text(text[match.end() :], match[1])
            if found is not None and found.constant:  # a condition on nobody has a note
                from queries.statements import Statement  # conditions need none of it

                statement = Statement.count_by(found, text=text)
                self._statements.keep(text, statement, found.size_in_bytes + len(text))
                return statement
        return parse_sql(text, self.domain)

    def _remembered(
        self, key: str, where: str | Mapping[str, Any], read: Callable[[], LinearQuery | None]
    ) -> LinearQuery:
        if len(key) > _LONGEST_TEXT:
            return parse_where(where, self.domain)
        found = self._conditions.get(key)
        if found is None:
            found = read()
            if found is None:
                found = parse_where(where, self.domain)
            self._conditions.keep(key, found, found.size_in_bytes + len(key))
        return found

    def _structured(self, where: Mapping[str, Any]) -> LinearQuery | None:
        if any(len(conditions) != 1 for conditions in where.values()):
            return None
        keys = {name: f"{name!r}{conditions!r}" for name, conditions in where.items()}
        return self._product(keys, lambda: parse_where(where, self.domain))

    def _text(self, where: str, head: str) -> LinearQuery | None:
        terms = list(plain_terms(where))
        keys = {one["name"].strip('"'): head + one[0] for one in terms if one is not None}
        if len(keys) < len(terms):
            return None  # comparisons of one attribute are read together
        return self._product(
            keys, lambda: self._counted(head, where) if head else parse_where(where, self.domain)
        )

    def _counted(self, head: str, where: str) -> LinearQuery:
        """Return the query of a condition in a statement; a statement's head is read whole once."""
        plain = plain_predicate(where, self.domain) if self._beginnings.get(head) else None
        if plain is not None:
            return count_where(plain, self.domain)
        query = parse_sql(head + where, self.domain).where
        self._beginnings.keep(head, True, len(head))
        return query

    def _product(self, keys: Mapping[str, str], read: Callable[[], LinearQuery]) -> LinearQuery | None:
        """Return the query of comparisons that all hold: by what is known of each, or read together."""
        domain = self.domain
        if not keys or domain.impossible or any(name not in domain for name in keys):
            return None  # a comparison beside others leaves out impossible cells that it has alone
        known = {name: self._terms.get(key) for name, key in keys.items()}
        if None in known.values():
            query = read()
            if not query.aligned or query.constant == 0:
                return query
            factors = {factor.scope[0]: factor for factor in query.factors}
            for name in [name for name, factor in known.items() if factor is None]:
                size = domain[name].size
                factor = factors.get(name) or range_factor(name, size, 0, size)  # it holds for everybody
                self._terms.keep(keys[name], factor, factor.size_in_bytes + len(keys[name]))
                known[name] = factor
        return LinearQuery(domain, tuple([factor for factor in known.values() if factor is not None]))


def _is_plain(where: Mapping[str, Any]) -> bool:
    if type(where) is not dict:
        return False
    for name, conditions in where.items():
        if type(name) is not str or type(conditions) is not dict:
            return False
        for value in conditions.values():
            if not (type(value) in _PLAIN or (type(value) is list and _PLAIN.issuperset(map(type, value)))):
                return False
    return True


# --- files and tables ---------------------------------------------------------------------------------------


def questions_in_text(
    path: str | PathLike[str], reader: QuestionReader, *, counts_alone: bool = False
) -> list[Question]:
    """Return the questions in a file of conditions, statements and objects of JSON Lines.

    A question is a line; where a line ends in a semicolon, all questions go on to one. Blank lines, and those
    that begin with ``--``, ask nothing.

    Args:
        counts_alone: refuse what counts do not answer, and return each group of a GROUP BY by itself.
    """
    found, refused = list[Question](), list[QueryError]()
    for number, text in _pieces(Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)):
        try:
            question = _question_in(text, reader)
            if counts_alone and not question.is_counting:
                words = "a workload holds counting questions; write COUNT(*) alone"
                raise QueryError(words, code="unsupported")
            found += question.parts() if counts_alone else (question,)
        except QueryError as error:
            refused.append(QueryError(f"line {number:,}: {error.message}", code=error.code))
    if refused:
        more = [f"and {len(refused) - _MOST_TOLD:,} more"] if len(refused) > _MOST_TOLD else []
        told = (one.message for one in refused[:_MOST_TOLD])
        raise QueryError("\n".join([*told, *more]), code=refused[0].code)
    return found


def _pieces(text: bytes) -> Iterator[tuple[int, bytes]]:
    lines = [b"" if line.lstrip().startswith(b"--") else line.strip() for line in text.splitlines()]
    ends = any(line.endswith(b";") for line in lines)
    first, piece = 1, list[bytes]()
    for number, line in enumerate([*lines, b";"], 1):
        first = first if piece else number
        piece += [line] if line else []
        if line.endswith(b";") or not ends:
            if asked := b"\n".join(piece).rstrip(b"; "):
                yield first, asked
            piece = []


def _question_in(text: bytes, reader: QuestionReader) -> Question:
    if text.startswith(b"{"):
        return reader.question(read_line(text))
    try:
        asked = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise QueryError("expected UTF-8 text", code="bad_request", position=error.start) from None
    return Question(reader.statement(asked) if is_statement(asked) else reader.where(asked))


def conditions_in_rows(frame: pd.DataFrame) -> list[str | dict[str, Any]]:
    """Return the conditions that the rows of a table state.

    Its columns are ``where``, of where-texts, or attributes, whose values a record must have unless empty.
    """
    if list(frame.columns) == ["where"]:
        return frame["where"].tolist()
    empty = frame.isna().to_numpy()
    return [
        {
            str(name): {"eq": value}
            for place, (name, value) in enumerate(row.items())
            if not empty[number, place]
        }
        for number, row in enumerate(frame.to_dict("records"))
    ]
