"""Comparisons of SQL with values, such as ``age BETWEEN 30 AND 39``, as predicates."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.predicates import Comparison, Junction, Not, Order, Predicate, Scalar
from queries.sql_dates import dated_text, part_of
from queries.sql_tree import COMPARISONS, PART_NODES, check_node, error_at, operand_of, position_of, refuse

_WHOLE = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLIPPED: dict[Order, Order] = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def convert_condition(node: exp.Expr, domain: Domain) -> Predicate:
    """Return the predicate that a syntax tree states."""
    check_node(node)
    convert = _comparison if type(node) in COMPARISONS else _CONVERTERS.get(type(node))
    if convert is None:
        refuse(node, "a condition without a comparison")
    return convert(node, domain)


def _inside(node: exp.Expr, domain: Domain) -> Predicate:
    return convert_condition(node.this, domain)


def _negation(node: exp.Expr, domain: Domain) -> Predicate:
    return Not(convert_condition(node.this, domain))


def _chain(node: exp.Expr, domain: Domain) -> Predicate:
    children = tuple(convert_condition(operand, domain) for operand in _operands(node))
    return Junction("and" if isinstance(node, exp.And) else "or", children)


def _range(node: exp.Expr, domain: Domain) -> Predicate:
    ends = _literal(node.args["low"]), _literal(node.args["high"])
    name, part = _named(node.this, domain)
    return Comparison(name, "between", ends, position_of(node), part)


def _missing(node: exp.Expr, domain: Domain) -> Predicate:
    if not isinstance(node.expression, exp.Null):
        refuse(node, "IS with anything but NULL")
    is_part = isinstance(node.this, PART_NODES)  # of an empty date
    name, _ = part_of(node.this, domain) if is_part else _named(node.this, domain)
    return Comparison(name, "missing", position=position_of(node))


def _lone_attribute(node: exp.Expr, domain: Domain) -> Predicate:
    """Return the condition that an attribute of truth values is by itself."""
    name = _attribute(node, domain)
    attribute = next((one for one in domain if one.name == name), None)
    if isinstance(attribute, CategoricalAttribute) and all(isinstance(one, bool) for one in attribute.values):
        return Comparison(name, "eq", (True,), position_of(node))
    raise error_at(
        node, "syntax", f"expected a comparison, got the attribute {name!r} alone; write {name} = …"
    )


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain such as ``a AND b AND c``, without recursion into its left side."""
    operands: list[exp.Expr] = []
    left: exp.Expr = node
    while type(left) is type(node):
        check_node(left)
        operands.append(left.expression)
        left = left.this
    return [left, *reversed(operands)]


def _comparison(node: exp.Expr, domain: Domain) -> Predicate:
    operator = COMPARISONS[type(node)]
    left, right = node.this, node.expression
    if (
        not isinstance(left, exp.Column)
        and isinstance(right, exp.Column | exp.Sub)
        and not isinstance(left, exp.Sub)
    ):
        left, right, operator = right, left, _FLIPPED[operator]
    attribute, part = _named(left, domain)
    return Comparison(attribute, operator, (_literal(right),), position_of(left), part)


def _membership(node: exp.Expr, domain: Domain) -> Predicate:
    values = tuple(_literal(item) for item in node.args.get("expressions") or ())
    if not values:
        raise error_at(node, "syntax", "IN needs at least one value")
    name, part = _named(node.this, domain)
    return Comparison(name, "in", values, position_of(node), part)


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
    name, level = _named(node, domain)
    if level is not None:
        raise error_at(node, "wrong_kind", f"{level!r} is a level of {name!r}; expected an attribute")
    return name


def _named(node: exp.Expr, domain: Domain) -> tuple[str, str | None]:
    """Return the attribute that a node names, and its level where it names one."""
    require_no_hyphen(node, domain)
    check_node(node)
    if not isinstance(node, exp.Column):
        refuse(node, "a comparison without an attribute")
    check_node(node.this)
    return operand_of(node, domain)


def require_no_hyphen(node: exp.Expr, domain: Domain) -> None:
    """Refuse a subtraction whose text is a declared name."""
    name = _hyphenated(node)
    declared = [known for known in domain.names if known.casefold() == name.casefold()]
    if declared:
        raise error_at(node, "syntax", f'a name with a hyphen stands in double quotes: "{declared[0]}"')


def _hyphenated(node: exp.Expr) -> str:
    """Return the name that a chain of minus signs between names would be, or an empty text."""
    parts: list[str] = []
    while isinstance(node, exp.Sub):
        parts.append(node.expression.name if isinstance(node.expression, exp.Column | exp.Literal) else "")
        node = node.this
    return "-".join([node.name, *reversed(parts)]) if parts and isinstance(node, exp.Column) else ""


def _literal(node: exp.Expr) -> Scalar:
    text = dated_text(node)
    if text is not None:
        return text
    check_node(node)
    if isinstance(node, exp.Paren):
        return _literal(node.this)
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        if isinstance(value, str | bool):
            refuse(node, "a minus before a text")
        return -value
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        refuse(node, None if isinstance(node, exp.Null) else "a comparison with anything but a value")
    return str(node.this) if node.is_string else _number(node)


def _number(node: exp.Literal) -> int | float:
    text = str(node.this)
    if _WHOLE.fullmatch(text) and len(text) <= 300:
        return int(text)
    if not _DECIMAL.fullmatch(text):
        raise error_at(node, "syntax", f"expected a number, got {text[:40]!r}")
    return float(text)
