"""Questions as they come: where-texts, structured conditions and lines of JSON."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from queries.cells import nearest
from queries.conditions import plain_predicate, structured_predicate
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery, cut_factors, nearest_to
from queries.plain_values import is_encodable
from queries.segments import count_where
from queries.work import counted_reading

if TYPE_CHECKING:
    from queries.statements import Statement

QuestionId: TypeAlias = str | int | None

_LONGEST_LINE = 2**20  # bytes
_MOST_EDGES = 4  # attributes whose edges a message lists, where it is not known which were compared
_DEEPEST = 16  # lists and objects inside each other; a question needs four
_MARK = "\ufeff"  # of the order of bytes: JSON has none
_KEYS = ("id", "where", "sql", "request_id")
_STATEMENT = re.compile(r"\s*(select\s|with\s+(\w+|\"[^\"]+\")\s+as\s*\()", re.IGNORECASE)
_NO_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)  # a text, or anything else
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a stream.

    Args:
        query: what is asked: a count of records, or a statement, which is answered with a table.
        id: the analyst's own label, given back with the answer.
        request_id: idempotency key, for safe retries; the same key gets the same answer.
    """

    query: LinearQuery | Statement
    id: QuestionId = None
    request_id: str | None = None

    @property
    def is_counting(self) -> bool:
        """Whether it is answered by counting questions alone."""
        if isinstance(self.query, LinearQuery):
            return True
        asks = self.query.counts_alone and bool(self.query.leaves)
        return asks and next(self.query.groups(), None) is not None  # the condition may exclude them all

    def parts(self) -> Iterator[Question]:
        """Yield its counting questions: itself, or one for each COUNT(*) of a statement in each group."""
        if isinstance(self.query, LinearQuery):
            yield self
            return
        for leaf, group, query in self.query.questions():
            number = self.query.question_number(leaf, group)
            yield Question(query, self.id, part_key(self.request_id, number))


def part_key(request_id: str | None, number: int) -> str | None:
    """Return the idempotency key of one of the answers to a question.

    A key that an analyst gives holds no control character, so this is no analyst's own.
    """
    return request_id if request_id is None or number == 0 else f"{request_id}\n{number}"


@counted_reading()
def parse_where(where: str | Mapping[str, Any], domain: Domain) -> LinearQuery:
    """Return the query that counts where a condition holds.

    Args:
        where: a where-text or a structured condition; an empty one counts everybody.
        domain: the declared attributes.

    Raises:
        QueryError: the condition cannot be read or names what is not declared.
    """
    if isinstance(where, str):
        plain = plain_predicate(where, domain)
        if plain is not None:
            with suppress(QueryError):  # what is refused is read again, for the message
                return count_where(plain, domain)
        from queries.row_conditions import parse_condition  # late: some texts alone need the SQL parser

        try:
            return parse_condition(where, domain)
        except QueryError as error:
            error.text = where
            raise
    if isinstance(where, Mapping):
        return count_where(structured_predicate(where, domain), domain)
    raise QueryError("where must be a text or an object", code="bad_request", position="where")


def is_statement(question: object) -> bool:
    """Tell whether a question is the text of a statement, and no condition."""
    return isinstance(question, str) and _STATEMENT.match(question) is not None


@counted_reading()
def parse_sql(text: str, domain: Domain, numbers: Sequence[tuple[float, float, float]] = ()) -> Statement:
    """Return what a statement such as ``SELECT sex, COUNT(*) FROM people GROUP BY sex`` asks.

    Args:
        text: the statement.
        domain: the declared attributes.
        numbers: of one that is read again, what the statements that are asked first (``Statement.given``)
            came to: the least, the answer and the greatest.

    Raises:
        QueryError: the text is no statement that can be answered; where there is another way to ask, the
            message has it.
    """
    from queries.sql import parse_sql as parse  # late: the SQL parser is only needed for texts

    return parse(text, domain, numbers)


def require_aligned(query: LinearQuery) -> None:
    """Refuse a question that cuts cells, whose answer takes them as evenly filled."""
    if query.aligned:
        return
    names = [name for factor in cut_factors(query) for name in factor.scope] or list(query.scope)
    near = nearest_to([query])
    edges = _edges(query.domain, list(dict.fromkeys(names)))
    starts = [f"; cells of {name!r} begin at {listed}" for name, listed in edges]
    if not starts:
        near = "; it decides no cell of an attribute: compare with an edge, or declare narrower cells"
        known = _edges(query.domain, query.domain.names)[:_MOST_EDGES]
        starts = [f"; the edges of {name!r} are {listed}" for name, listed in known]
    raise QueryError(
        f"the condition cuts cells, and only whole cells are asked for{near}{''.join(starts)}",
        code="unaligned",
    )


def _edges(domain: Domain, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the ordered ones of some attributes, with the edges of their cells."""
    return [
        (attribute.name, _listed(attribute))
        for attribute in map(domain.__getitem__, names)
        if attribute.is_ordered
    ]


def _listed(attribute: Any) -> str:
    edges = attribute.boundaries
    return ", ".join(map(attribute.literal, edges[:6])) + (", …" if len(edges) > 6 else "")


def parse_line(line: str | bytes, domain: Domain) -> Question:
    """Return the question on one line of JSON.

    Raises:
        QueryError: the line is not a question; nothing else is ever raised.
    """
    return parse_question(read_line(line), domain)


def read_line(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object on a line."""
    if len(line) > _LONGEST_LINE:
        raise QueryError(f"a line has at most {_LONGEST_LINE:,} bytes", code="too_long")
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        _require_shallow(text)
        form = json.loads(text) if text.startswith(_MARK) else _decode(text)  # the former words its refusal
    except UnicodeDecodeError as error:
        raise QueryError("expected UTF-8 text", code="bad_request", position=error.start) from None
    except json.JSONDecodeError as error:
        raise QueryError(f"expected JSON: {error.msg}", code="bad_request", position=error.pos) from None
    except QueryError:
        raise
    except ValueError:
        raise QueryError("expected JSON: a number has too many digits", code="bad_request") from None
    if not isinstance(form, dict):
        raise QueryError('expected a JSON object such as {"where": "…"} or {"sql": "…"}', code="bad_request")
    return form


def _require_shallow(text: str) -> None:
    """Refuse a line that is nested too deeply, before a parser meets a limit of its own."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    depths = itertools.accumulate(map(_STEPS.__getitem__, _NO_BRACKET.sub("", text)))
    if max(depths, default=0) > _DEEPEST:
        raise QueryError(f"expected JSON nested at most {_DEEPEST} deep", code="bad_request")


def identifier_of(form: Mapping[str, Any]) -> str | int | None:
    """Return the id of a JSON object, or None where it has none that can be given back."""
    identifier = form.get("id")
    if isinstance(identifier, str):
        return identifier if is_encodable(identifier) else None
    return identifier if isinstance(identifier, int) and not isinstance(identifier, bool) else None


def parse_question(form: Mapping[str, Any], domain: Domain) -> Question:
    """Return the question that a JSON object states.

    Raises:
        QueryError: a key is unknown, a value has the wrong type, or the condition is refused.
    """
    return question_of(form, lambda where: parse_where(where, domain), lambda sql: parse_sql(sql, domain))


def question_of(
    form: Mapping[str, Any],
    read_where: Callable[[Any], LinearQuery],
    read_sql: Callable[[str], LinearQuery | Statement],
) -> Question:
    """Return the question that a JSON object states."""
    for key in form:
        if key not in _KEYS:
            raise QueryError(
                f"expected the keys {', '.join(_KEYS)}, got {key[:60]!r}{nearest(key, _KEYS)}",
                code="bad_request",
                position=key,
            )
    identifier, request = identifier_of(form), form.get("request_id")
    if identifier is None and form.get("id") is not None:
        raise QueryError("id must be a text or a whole number", code="bad_request", position="id")
    if request is not None:
        require_key(request)
    return Question(_query_of(form, read_where, read_sql), identifier, request)


def _query_of(
    form: Mapping[str, Any],
    read_where: Callable[[Any], LinearQuery],
    read_sql: Callable[[str], LinearQuery | Statement],
) -> LinearQuery | Statement:
    if ("where" in form) == ("sql" in form):
        came = "both" if "where" in form else "neither"
        raise QueryError(
            f"expected one of the keys 'where' and 'sql', got {came}; an empty 'where' counts everybody",
            code="bad_request",
        )
    if "where" in form:
        return read_where(form["where"])
    if not isinstance(form["sql"], str):
        raise QueryError("sql must be a text", code="bad_request", position="sql")
    return read_sql(form["sql"])


def require_key(value: object) -> None:
    """Refuse what is no idempotency key."""
    is_text = isinstance(value, str) and 1 <= len(value) <= 200 and is_encodable(value)
    if not (is_text and min(str(value)) >= " "):
        raise QueryError(
            "request_id must be a text of 1 to 200 characters, without control characters",
            code="bad_request",
            position="request_id",
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    form = dict(pairs)
    if len(form) != len(pairs):
        seen: set[str] = set()
        for twice, _ in pairs:
            if twice in seen:
                break
            seen.add(twice)
        raise QueryError(f"the key {twice[:60]!r} stands there twice", code="bad_request", position=twice)
    return form


def _refuse_constant(name: str) -> NoReturn:
    raise QueryError(f"expected a finite number, got {name}", code="bad_request")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant).decode  # one for all
