"""Readers of many questions over one domain, also of those in files and tables.

A comparison that was read before is not read again.

A condition that joins comparisons of different attributes by AND counts the product of what each counts
alone. What holds a new comparison, or has another shape, goes through the parsers of single questions: what
they refuse is refused here, and what they read is read alike.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

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

_Where: TypeAlias = str | dict[str, Any]
_Term: TypeAlias = tuple[_Where, Sequence[Any]]  # a comparison, and the ends of BETWEEN
_UNDECIDED = Factor((), np.array(0))  # in place of what a comparison counts that is read whole

_PLAIN = frozenset([str, int, float, bool])

_COUNT = re.compile(
    rf"(SELECT{SPACE}+COUNT\(\*\){SPACE}+FROM{SPACE}+{NAME}{SPACE}+WHERE{SPACE}+)", re.IGNORECASE
)


class QuestionReader:
    """Reads questions over one domain; each is the one that the parser of single questions makes of it."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._sizes = domain.sizes
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
            if found is not None:
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
        terms: dict[str, _Term] = {}
        for name, conditions in where.items():
            ends = conditions.get("between", ())
            terms[name] = {name: conditions}, ends if type(ends) is list else ()
        return self._product(terms, "")

    def _text(self, where: str, head: str) -> LinearQuery | None:
        """Return the query of a plain where-text of one comparison for each name; None for others."""
        terms, found = dict[str, _Term](), list(plain_terms(where))
        for one in found:
            if one is not None:
                ends = (one["low"], one["high"]) if one["between"] else ()
                terms[one["name"].strip('"')] = one[0], ends
        return self._product(terms, head) if len(terms) == len(found) else None  # one's are read together

    def _counted(self, head: str, where: str) -> LinearQuery:
        """Return the query of a condition in a statement; a statement's head is read whole once."""
        plain = plain_predicate(where, self.domain) if self._beginnings.get(head) else None
        if plain is not None:
            return count_where(plain, self.domain)
        query = parse_sql(head + where, self.domain).where
        self._beginnings.keep(head, True, len(head))
        return query

    def _product(self, terms: Mapping[str, _Term], head: str) -> LinearQuery | None:
        """Return the query of comparisons that all hold, one for each name; None where they go together."""
        if not terms or self.domain.impossible or any(name not in self._sizes for name in terms):
            return None  # a comparison beside others leaves out impossible cells that it has alone
        factors = list[Factor]()
        for name, (where, ends) in terms.items():
            found = self._between(name, ends, head, isinstance(where, str)) if len(ends) == 2 else None
            if found is None:
                key = head + where if isinstance(where, str) else repr(where)
                found = self._terms.get(key) or self._read(name, where, head, key)
                if found is _UNDECIDED:
                    return None
            factors.append(found)
        return LinearQuery(self.domain, tuple(factors))

    def _between(self, name: str, ends: Sequence[Any], head: str, in_text: bool) -> Factor | None:
        """Return what comparisons with two ends leave of an attribute, where that is one range of cells."""
        size = stop = self._sizes[name]
        start = 0
        for order, end in zip((">=", "<=") if in_text else ("ge", "le"), ends, strict=True):
            key = head, name, order, end.__class__, end
            found = self._terms.get(key)
            if found is None:
                where = f'"{name}" {order} {end}' if in_text else {name: {order: end}}
                found = self._read(name, where, head, key)
            if found.is_box:
                (own,) = found.box
                start = own.start if own.start > start else start  # quicker than ``max``
                stop = own.stop if own.stop < stop else stop
            elif not found.constant:
                return None
        return range_factor(name, size, start, stop) if start < stop else None

    def _read(self, name: str, where: _Where, head: str, key: Hashable) -> Factor:
        """Return the cells that one comparison counts; none where they do not decide it, or it is refused."""
        found = _UNDECIDED
        with suppress(QueryError):  # what is refused is read again, with what it was written with
            query = self._counted(head, str(where)) if head else parse_where(where, self.domain)
            if query.aligned and query.constant:
                size = self._sizes[name]
                found = query.factors[0] if query.factors else range_factor(name, size, 0, size)
        self._terms.keep(key, found, found.size_in_bytes + len(head) + len(str(where)))
        return found


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
