"""Structured questions: conditions as JSON, such as ``{"age": {"between": [30, 39]}}``.

Keys are joined by AND. Positions in messages are paths such as ``where.age.between``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from queries.cells import nearest
from queries.domain import Domain
from queries.errors import QueryError
from queries.intervals import resolve_operand
from queries.predicates import (
    And,
    Between,
    Comparison,
    IsIn,
    IsMissing,
    IsOther,
    Not,
    Predicate,
    Scalar,
)

_MOST_VALUES = 10_000


def structured_predicate(where: Mapping[str, Any], domain: Domain) -> Predicate:
    """Return the predicate that a structured condition states; an empty one holds for everybody.

    Raises:
        QueryError: a name, an operator or a value is not what the format expects.
    """
    terms: list[Predicate] = []
    for name, conditions in where.items():
        if not isinstance(name, str):
            raise _refusal(f"expected an attribute's name, got {_kind(name)}", "where")
        path = f"where.{name}"
        attribute, part = resolve_operand(name, domain, path)
        if not isinstance(conditions, dict) or not conditions:
            raise _refusal(f'expected an object such as {{"eq": 3}}, got {_kind(conditions)}', path)
        for operator, value in conditions.items():
            condition = _condition(attribute, operator, value, f"{path}.{operator}")
            if part is not None and isinstance(condition, Comparison | Between | IsIn):
                condition = replace(condition, part=part)
            terms.append(condition)
    return And(tuple(terms))


def _condition(attribute: str, operator: str, value: Any, path: str) -> Predicate:
    build = _OPERATORS.get(operator)
    if build is None:
        known = tuple(_OPERATORS)
        raise _refusal(
            f"expected one of {', '.join(known)}, got {operator[:60]!r}{nearest(operator, known)}", path
        )
    return build(attribute, operator, value, path)


def _compare(attribute: str, operator: Any, value: Any, path: str) -> Predicate:
    return Comparison(attribute, operator, _scalar(value, path), path)


def _between(attribute: str, operator: str, value: Any, path: str) -> Predicate:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise _refusal(f"expected a list of two ends, got {_kind(value)}", path)
    return Between(attribute, _scalar(value[0], path), _scalar(value[1], path), path)


def _is_in(attribute: str, operator: str, value: Any, path: str) -> Predicate:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_VALUES:
        raise _refusal(f"expected a list of 1 to {_MOST_VALUES:,} values, got {_kind(value)}", path)
    return IsIn(attribute, tuple(_scalar(item, path) for item in value), path)


def _special(attribute: str, operator: str, value: Any, path: str) -> Predicate:
    if not isinstance(value, bool):
        raise _refusal(f"expected true or false, got {_kind(value)}", path)
    atom = IsMissing(attribute, path) if operator == "is_missing" else IsOther(attribute, path)
    return atom if value else Not(atom)


_OPERATORS: dict[str, Callable[[str, str, Any, str], Predicate]] = {
    **dict.fromkeys(("eq", "ne", "ge", "gt", "le", "lt"), _compare),
    "between": _between,
    "in": _is_in,
    "is_missing": _special,
    "is_other": _special,
}


def _scalar(value: Any, path: str) -> Scalar:
    if isinstance(value, str | int | float | bool):
        return value
    raise _refusal(f"expected a text, a number, true or false, got {_kind(value)}", path)


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    names: dict[type, str] = {dict: "an object", str: "a text", bool: "true or false", type(None): "null"}
    if isinstance(value, bool):
        return "true or false"
    if value == {}:
        return "an empty object"
    return (
        "a number" if isinstance(value, int | float) else names.get(type(value), f"a {type(value).__name__}")
    )


def _refusal(message: str, path: str) -> QueryError:
    return QueryError(message, code="bad_request", position=path)
