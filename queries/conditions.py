"""Conditions that need no SQL parser: plain where-texts, and structured ones such as ``{"age": {"ge": 30}}``.

A plain text is comparisons of declared names with numbers and texts, joined by AND. Most where-texts are no
more than that. They are read here, in a tenth of the time that the SQL parser takes and without loading it.
What is not plain, or is refused, is left to that parser, which has the messages.

The keys of a structured condition are joined by AND. Positions in messages are paths such as
``where.age.between``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from queries.cells import GRAMMAR_WORDS, nearest
from queries.comparisons import resolve_operand
from queries.domain import Domain
from queries.errors import QueryError
from queries.predicates import Comparison, Junction, Not, Operator, Predicate, Scalar

SPACE = r"[ \t\r\n]"
NAME = r'(?:"[^"\n]+"|[A-Za-z_][A-Za-z_0-9]*)'
_VALUE = r"(?:-?[0-9]+(?:\.[0-9]+)?|'[^'\\\n]*')"
_TERM = re.compile(
    rf"(?P<name>{NAME})(?:"
    rf"{SPACE}*(?P<operator><=|>=|<>|!=|=|<|>){SPACE}*(?P<value>{_VALUE})"
    rf"|{SPACE}+(?P<between>BETWEEN){SPACE}+(?P<low>{_VALUE}){SPACE}+AND{SPACE}+(?P<high>{_VALUE})"
    rf"|{SPACE}+(?P<in>IN){SPACE}*\({SPACE}*{_VALUE}(?:{SPACE}*,{SPACE}*{_VALUE})*{SPACE}*\))",
    re.IGNORECASE,
)
_AND = re.compile(rf"{SPACE}+AND{SPACE}+", re.IGNORECASE)
_EACH = re.compile(_VALUE)
_SIGNS: dict[str | None, Operator] = {
    "=": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_LONGEST = 300  # characters, so of a number, too
_MOST_TERMS = 20
_MOST_VALUES = 10_000


def plain_terms(text: str) -> Iterator[re.Match[str] | None]:
    """Yield the comparisons of a plain where-text; None in place of the first thing that is none."""
    place = 0
    while term := _TERM.match(text, place):
        yield term
        if term.end() == len(text):
            return
        joint = _AND.match(text, term.end())
        if joint is None:
            break
        place = joint.end()
    yield None


def plain_predicate(text: str, domain: Domain) -> Predicate | None:
    """Return the predicate that a plain where-text states; None where it is not plain."""
    if len(text) > _LONGEST or "\\" in text or not text.isascii():
        return None
    found = list[Predicate]()
    for match in plain_terms(text):
        term = None if match is None or len(found) == _MOST_TERMS else _comparison(match, domain)
        if term is None:
            return None
        found.append(term)
    return found[0] if len(found) == 1 else Junction("and", tuple(found))


def _comparison(match: re.Match[str], domain: Domain) -> Predicate | None:
    name = match["name"]
    if name.startswith('"'):
        name = name[1:-1]
    elif name.casefold() in GRAMMAR_WORDS:
        return None
    if name not in domain or name in domain.levels:
        return None
    operator: Operator = "between" if match["between"] else "in" if match["in"] else _SIGNS[match["operator"]]
    values = _EACH.findall(match.string, match.end("name"), match.end())
    return Comparison(name, operator, tuple(map(_plain_scalar, values)), match.start())


def _plain_scalar(text: str) -> Scalar:
    if text.startswith("'"):
        return text[1:-1]
    return float(text) if "." in text else int(text)


# --- structured conditions ----------------------------------------------------------------------------------


def structured_predicate(where: Mapping[str, Any], domain: Domain) -> Predicate:
    """Return the predicate that a structured condition states; an empty one holds for everybody."""
    terms: list[Predicate] = []
    for name, conditions in where.items():
        if not isinstance(name, str):
            raise _refusal(f"expected an attribute's name, got {_kind(name)}", "where")
        path = f"where.{name}"
        attribute, part = resolve_operand(name, domain, path)
        if not isinstance(conditions, dict) or not conditions:
            raise _refusal(f'expected an object such as {{"eq": 3}}, got {_kind(conditions)}', path)
        for key, value in conditions.items():
            operator, values = _read(key, value, f"{path}.{key}")
            term = Comparison(attribute, operator, values, f"{path}.{key}", part)
            terms.append(Not(term) if value is False and not values else term)
    return Junction("and", tuple(terms))


def _read(key: str, value: Any, path: str) -> tuple[Operator, tuple[Scalar, ...]]:
    if key not in _OPERATORS:
        known = tuple(_OPERATORS)
        raise _refusal(f"expected one of {', '.join(known)}, got {key[:60]!r}{nearest(key, known)}", path)
    operator, read = _OPERATORS[key]
    return operator, read(value, path)


def _scalar(value: Any, path: str) -> Scalar:
    if isinstance(value, str | int | float | bool):
        return value
    raise _refusal(f"expected a text, a number, true or false, got {_kind(value)}", path)


def _one(value: Any, path: str) -> tuple[Scalar, ...]:
    return (_scalar(value, path),)


def _two(value: Any, path: str) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise _refusal(f"expected a list of two ends, got {_kind(value)}", path)
    return tuple(_scalar(item, path) for item in value)


def _several(value: Any, path: str) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_VALUES:
        raise _refusal(f"expected a list of 1 to {_MOST_VALUES:,} values, got {_kind(value)}", path)
    return tuple(_scalar(item, path) for item in value)


def _none(value: Any, path: str) -> tuple[Scalar, ...]:
    if not isinstance(value, bool):
        raise _refusal(f"expected true or false, got {_kind(value)}", path)
    return ()


_OPERATORS: dict[str, tuple[Operator, Callable[[Any, str], tuple[Scalar, ...]]]] = {
    **{order: (order, _one) for order in ("eq", "ne", "ge", "gt", "le", "lt")},
    "between": ("between", _two),
    "in": ("in", _several),
    "is_missing": ("missing", _none),
    "is_other": ("other", _none),
}


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    names: dict[type, str] = {dict: "an object", str: "a text", type(None): "null"}
    if isinstance(value, bool):
        return "true or false"
    if value == {}:
        return "an empty object"
    if isinstance(value, int | float):
        return "a number"
    return names.get(type(value), f"a {type(value).__name__}")


def _refusal(message: str, path: str) -> QueryError:
    return QueryError(message, code="bad_request", position=path)
