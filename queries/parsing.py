"""Questions as they come: where-texts, structured conditions and lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from queries.domain import Domain, nearest
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.segments import count_where
from queries.structured import structured_predicate

__all__ = [
    "parse_line",
    "parse_question",
    "parse_where",
    "Question",
    "QuestionId",
    "read_line",
]

QuestionId: TypeAlias = str | int | None

_LONGEST_LINE = 2**20  # bytes
_KEYS = ("id", "where", "request_id")


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a stream.

    Args:
        query: what is asked.
        id: the analyst's own mark, given back with the answer.
        request_id: marks one request for safe retries; the same mark gets the same answer.
    """

    query: LinearQuery
    id: QuestionId = None
    request_id: str | None = None


def parse_where(where: str | Mapping[str, Any], domain: Domain) -> LinearQuery:
    """Return the query that counts where a condition holds.

    Args:
        where: a where-text or a structured condition; an empty one counts everybody.
        domain: the declared attributes.

    Raises:
        QueryError: the condition cannot be read or names what is not declared.
    """
    if isinstance(where, str):
        from queries.where_text import parse_predicate  # late: the SQL parser is only needed for texts

        try:
            return count_where(parse_predicate(where, domain), domain)
        except QueryError as error:
            error.text = where
            raise
    if isinstance(where, Mapping):
        return count_where(structured_predicate(where, domain), domain)
    raise QueryError("where must be a text or an object", code="bad_request", position="where")


def parse_line(line: str | bytes, domain: Domain) -> Question:
    """Return the question on one line of JSON.

    Raises:
        QueryError: the line is not a question; nothing else is ever raised.
    """
    return parse_question(read_line(line), domain)


def read_line(line: str | bytes) -> dict[str, Any]:
    """Return the JSON object on a line.

    Raises:
        QueryError: the line is too long, is no JSON object, or repeats a key.
    """
    if len(line) > _LONGEST_LINE:
        raise QueryError(f"a line has at most {_LONGEST_LINE:,} bytes", code="too_long")
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        form = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise QueryError("expected UTF-8 text", code="bad_request", position=error.start) from None
    except json.JSONDecodeError as error:
        raise QueryError(f"expected JSON: {error.msg}", code="bad_request", position=error.pos) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, QueryError):
            raise
        raise QueryError(
            "expected JSON: nested too deeply or a number too long", code="bad_request"
        ) from None
    if not isinstance(form, dict):
        raise QueryError('expected a JSON object such as {"where": "age >= 30"}', code="bad_request")
    return form


def parse_question(form: Mapping[str, Any], domain: Domain) -> Question:
    """Return the question that a JSON object states.

    Raises:
        QueryError: a key is unknown, a value has the wrong type, or the condition is refused.
    """
    for key in form:
        if key not in _KEYS:
            raise QueryError(
                f"expected the keys {', '.join(_KEYS)}, got {key[:60]!r}{nearest(key, _KEYS)}",
                code="bad_request",
                position=key,
            )
    identifier, request = form.get("id"), form.get("request_id")
    if (
        isinstance(identifier, bool)
        or not isinstance(identifier, str | int | None)
        or not _is_text(identifier)
    ):
        raise QueryError("id must be a text or a whole number", code="bad_request", position="id")
    if request is not None and (
        not isinstance(request, str) or not 1 <= len(request) <= 200 or not _is_text(request)
    ):
        raise QueryError(
            "request_id must be a text of 1 to 200 characters", code="bad_request", position="request_id"
        )
    if "where" not in form:
        raise QueryError("expected the key 'where'; an empty one counts everybody", code="bad_request")
    return Question(parse_where(form["where"], domain), identifier, request)


def _is_text(value: object) -> bool:
    return not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value)


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
