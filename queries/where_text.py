"""Where-text: conditions written as in SQL, such as ``age BETWEEN 30 AND 39 AND sex = 'Female'``.

The text is parsed by sqlglot; every node and every argument of the result must be on a whitelist, so a
construct that this package does not know is refused by name and never half understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from queries.domain import Domain
from queries.errors import QueryError
from queries.intervals import resolve_attribute
from queries.predicates import (
    And,
    Between,
    Comparison,
    IsIn,
    IsMissing,
    Not,
    Operator,
    Or,
    Predicate,
    Scalar,
)

__all__ = [
    "LONGEST_TEXT",
    "parse_predicate",
]

LONGEST_TEXT = 4096  # bytes of UTF-8

_WHOLE = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_FLIPPED: dict[Operator, Operator] = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

# Which arguments each node may carry; a node or an argument that is not here is refused.
_ARGUMENTS: dict[type[exp.Expr], frozenset[str]] = {
    **{kind: frozenset({"this", "expression"}) for kind in (*_OPERATORS, exp.And, exp.Or, exp.Is)},
    **{kind: frozenset({"this"}) for kind in (exp.Not, exp.Paren, exp.Neg, exp.Column, exp.Boolean)},
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Null: frozenset(),
}

_WORDS: dict[type[exp.Expr], str] = {
    exp.Select: "a sub-query",
    exp.Subquery: "a sub-query",
    exp.Exists: "EXISTS",
    exp.Cast: "a cast",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.Case: "CASE",
    exp.Star: "*",
    exp.Placeholder: "a placeholder",
    exp.Parameter: "a parameter",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Null: "NULL (write IS NULL)",
    exp.Tuple: "a tuple",
    exp.Block: "a second statement",
    exp.Anonymous: "a function",
}
_ARGUMENT_WORDS = {"query": "a sub-query", "symmetric": "BETWEEN SYMMETRIC"}
_ADVICE = "use =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR, NOT and parentheses"


def parse_predicate(text: str, domain: Domain) -> Predicate:
    """Return the predicate that a where-text states; an empty text holds for everybody.

    Raises:
        QueryError: the text is too long or nested, is no condition, or names what is not declared.
    """
    if len(text.encode("utf-8", "replace")) > LONGEST_TEXT:
        raise QueryError(f"a where-text has at most {LONGEST_TEXT:,} bytes", code="too_long")
    if not text.strip():
        return And(())
    try:
        return _convert(_parsed(text), domain)
    except RecursionError:
        raise QueryError(
            "the condition is nested too deeply; write fewer parentheses", code="too_long"
        ) from None


def _parsed(text: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, into=exp.Condition)
    except SqlglotError as error:
        found = getattr(error, "errors", None)
        position = _offset(text, found[0]) if found else None
        what = f" near {found[0]['highlight']!r}" if found and found[0].get("highlight") else ""
        if position is None and text.count("'") % 2:
            what = ": a quote is not closed"
        raise QueryError(
            f"expected a condition such as age >= 30 AND sex = 'Female'; it cannot be read{what}",
            code="syntax",
            position=position,
        ) from None


def _offset(text: str, error: dict[str, object]) -> int | None:
    """Return the character offset of a parser error, which counts lines and columns from 1."""
    line, column = error.get("line"), error.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    highlight = error.get("highlight")
    length = len(highlight) if isinstance(highlight, str) else 1
    offset = starts[min(line, len(starts)) - 1] + column - length
    return max(0, min(offset, len(text)))


def _convert(node: exp.Expr, domain: Domain) -> Predicate:
    _check(node)
    convert = _comparison if type(node) in _OPERATORS else _CONVERTERS.get(type(node))
    if convert is None:
        _refuse(node, "a condition without a comparison")
    return convert(node, domain)


def _inside(node: exp.Expr, domain: Domain) -> Predicate:
    return _convert(node.this, domain)


def _negation(node: exp.Expr, domain: Domain) -> Predicate:
    return Not(_convert(node.this, domain))


def _chain(node: exp.Expr, domain: Domain) -> Predicate:
    children = tuple(_convert(operand, domain) for operand in _operands(node))
    return And(children) if isinstance(node, exp.And) else Or(children)


def _range(node: exp.Expr, domain: Domain) -> Predicate:
    low, high = _literal(node.args["low"]), _literal(node.args["high"])
    return Between(_attribute(node.this, domain), low, high, _position(node))


def _missing(node: exp.Expr, domain: Domain) -> Predicate:
    if not isinstance(node.expression, exp.Null):
        _refuse(node, "IS with anything but NULL")
    return IsMissing(_attribute(node.this, domain), _position(node))


def _lone_attribute(node: exp.Expr, domain: Domain) -> NoReturn:
    name = _attribute(node, domain)
    raise QueryError(
        f"expected a comparison, got the attribute {name!r} alone; write {name} = …",
        code="syntax",
        position=_position(node),
    )


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain such as ``a AND b AND c``, without recursion into its left side."""
    operands: list[exp.Expr] = []
    left: exp.Expr = node
    while type(left) is type(node):
        _check(left)
        operands.append(left.expression)
        left = left.this
    return [left, *reversed(operands)]


def _comparison(node: exp.Expr, domain: Domain) -> Predicate:
    operator = _OPERATORS[type(node)]
    left, right = node.this, node.expression
    if (
        not isinstance(left, exp.Column)
        and isinstance(right, exp.Column | exp.Sub)
        and not isinstance(left, exp.Sub)
    ):
        left, right, operator = right, left, _FLIPPED[operator]
    if isinstance(left, exp.Column) and isinstance(right, exp.Column):
        name = right.name
        values = getattr(domain[left.name], "values", ()) if left.name in domain else ()
        text = right.this.args.get("quoted") or name in values
        hint = f"; a text stands in single quotes: '{name}'" if text else ""
        raise QueryError(
            f"expected a value to compare with, got the name {name!r}{hint}",
            code="unsupported",
            position=_position(right),
        )
    return Comparison(_attribute(left, domain), operator, _literal(right), _position(left))


def _membership(node: exp.Expr, domain: Domain) -> Predicate:
    values = tuple(_literal(item) for item in node.args.get("expressions") or ())
    if not values:
        raise QueryError("IN needs at least one value", code="syntax", position=_position(node))
    return IsIn(_attribute(node.this, domain), values, _position(node))


_CONVERTERS: dict[type[exp.Expr], Callable[[exp.Expr, Domain], Predicate]] = {
    exp.Paren: _inside,
    exp.Not: _negation,
    exp.And: _chain,
    exp.Or: _chain,
    exp.Between: _range,
    exp.In: _membership,
    exp.Is: _missing,
    exp.Column: _lone_attribute,
}


def _attribute(node: exp.Expr, domain: Domain) -> str:
    name = _hyphenated(node)
    declared = [known for known in domain.names if known.casefold() == name.casefold()]
    if declared:
        raise QueryError(
            f'a name with a hyphen stands in double quotes: "{declared[0]}"',
            code="syntax",
            position=_position(node),
        )
    if isinstance(node, exp.Column) and node.args.get("table"):
        _refuse(node, f"a name with a dot such as {'.'.join(part.name for part in node.parts)}")
    _check(node)
    if not isinstance(node, exp.Column):
        _refuse(node, "a comparison without an attribute")
    _check(node.this)
    quoted = bool(node.this.args.get("quoted"))
    return resolve_attribute(node.name, domain, _position(node), any_case=not quoted)


def _hyphenated(node: exp.Expr) -> str:
    """Return the name that a chain of minus signs between names would be, or an empty text."""
    parts: list[str] = []
    while isinstance(node, exp.Sub):
        parts.append(node.expression.name if isinstance(node.expression, exp.Column | exp.Literal) else "")
        node = node.this
    return "-".join([node.name, *reversed(parts)]) if parts and isinstance(node, exp.Column) else ""


def _literal(node: exp.Expr) -> Scalar:
    _check(node)
    if isinstance(node, exp.Paren):
        return _literal(node.this)
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        if isinstance(value, str | bool):
            _refuse(node, "a minus before a text")
        return -value
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        _refuse(node)
    if not isinstance(node, exp.Literal):
        _refuse(node, "a comparison with anything but a value")
    text = str(node.this)
    if node.is_string:
        return text
    if _WHOLE.fullmatch(text) and len(text) <= 300:
        return int(text)
    if not _DECIMAL.fullmatch(text):
        raise QueryError(f"expected a number, got {text[:40]!r}", code="syntax", position=_position(node))
    return float(text)


def _check(node: object) -> None:
    if not isinstance(node, exp.Expr):
        raise QueryError(f"unsupported condition; {_ADVICE}", code="unsupported")
    allowed = _ARGUMENTS.get(type(node))
    if allowed is None:
        _refuse(node)
    for key, value in node.args.items():
        if value not in (None, False, []) and key not in allowed:
            _refuse(node, _ARGUMENT_WORDS.get(key))


def _refuse(node: exp.Expr, what: str | None = None) -> NoReturn:
    words = what or _WORDS.get(type(node)) or f"{type(node).__name__.upper()} here"
    raise QueryError(f"{words} is not supported; {_ADVICE}", code="unsupported", position=_position(node))


def _position(node: exp.Expr) -> int | None:
    """Return where a part of the text begins, or None where the parser kept no place in it."""
    part: object = node
    while isinstance(part, exp.Expr):  # the leftmost part is the first argument, all the way down
        if "start" in part.meta:
            return int(part.meta["start"])
        part = part.parts[0] if isinstance(part, exp.Column) else part.args.get("this")
    starts = [int(part.meta["start"]) for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None
