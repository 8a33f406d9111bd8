"""Conditions on one row in SQL, evaluated cell by cell: comparisons of values, IN, IS, LIKE.

They are of values that somebody else reads (``queries.row_expressions``), in which conditions stand in turn.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from queries.cell_comparisons import LikePattern, Side, compared, compared_sides, like_condition
from queries.cell_values import CellCondition, CellValues, constant_value
from queries.domain import Domain
from queries.sql_tree import COMPARISONS, error_at, refuse

WHOLE_TYPES = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT)


class Rows(Protocol):
    """What reads the values and the conditions that a condition is made of."""

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        ...

    def value(self, node: exp.Expr) -> CellValues:
        """Return what a row of each cell holds of an expression."""
        ...

    def condition(self, node: exp.Expr, *, negated: bool = False) -> CellCondition:
        """Return where a condition holds, or where its negation does."""
        ...


def is_operand(node: exp.Expr) -> bool:
    """Tell whether a node is no condition; TRUE and FALSE are values, too."""
    return isinstance(node, exp.Boolean) or type(node) not in (*CONDITION_READERS, exp.And, exp.Or, exp.Not)


def branches_of(node: exp.Expr) -> tuple[list[tuple[exp.Expr, exp.Expr]], exp.Expr]:
    """Return the conditions of a CASE, or of an IF, with their values, and what stands where none holds.

    A condition, also one that is cast to a number, is 1 where it holds and else 0. Of anything else there are
    no conditions, and it stands everywhere.
    """
    node = node.unnest()
    if isinstance(node, exp.If):
        return [(node.this, node.args["true"])], node.args.get("false") or exp.Null()
    if isinstance(node, exp.Case):
        tests = [one.this for one in node.args["ifs"]]
        if node.this is not None:
            tests = [exp.EQ(this=node.this.copy(), expression=test.copy()) for test in tests]
        values = (one.args["true"] for one in node.args["ifs"])
        return list(zip(tests, values, strict=True)), node.args.get("default") or exp.Null()
    is_cast = isinstance(node, exp.Cast) and node.args["to"].this in WHOLE_TYPES
    test = node.this.unnest() if is_cast else node
    one, zero = (exp.Literal(this=digit, is_string=False) for digit in "10")
    return ([], node) if is_operand(test) else ([(test, one)], zero)


def has_column(node: exp.Expr) -> bool:
    """Tell whether a node names an attribute."""
    return node.find(exp.Column) is not None


def joined_conditions(conditions: Sequence[CellCondition], domain: Domain, *, every: bool) -> CellCondition:
    """Return where all of some conditions hold, or one of them."""
    join = CellCondition.both if every else CellCondition.either
    return functools.reduce(lambda one, two: join(one, two, domain), conditions)


def _comparison(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    _require_declared(node.this, node.expression, rows.domain)
    sides = node.this.unnest(), node.expression.unnest()
    if not any(map(has_column, sides)) and any(isinstance(one, exp.Boolean | exp.Null) for one in sides):
        refuse(node, "a comparison without an attribute")
    if len({is_operand(one) for one in sides if not isinstance(one, exp.Boolean)}) > 1:
        refuse(node, f"a comparison of a comparison{_apart(node)}")
    for inner, other in (sides, sides[::-1]):
        is_condition = not is_operand(inner) or type(inner) in CHOICES
        if isinstance(other, exp.Boolean) and is_condition and isinstance(node, exp.EQ | exp.NEQ):
            return rows.condition(inner, negated=negated != (isinstance(node, exp.EQ) != bool(other.this)))
    if isinstance(sides[0], exp.Tuple) and isinstance(node, exp.EQ | exp.NEQ):
        return _row_of_values(sides[0], sides[1], rows, negated != isinstance(node, exp.NEQ))
    if len({_period(one) for one in sides}) > 1:
        raise error_at(node, "wrong_kind", "the start of a period is compared with that of the same period")
    left, right = _side(node.this, rows), _side(node.expression, rows)
    return compared_sides(left, COMPARISONS[type(node)], right, rows.domain, negated=negated)


def _side(node: exp.Expr, rows: Rows) -> Side:
    return node.sql, rows.value(node)


def _apart(node: exp.Expr) -> str:
    """Return how ``1 < a < 2`` is written, which is parsed as ``(1 < a) < 2``."""
    left, right = node.this, node.expression
    if type(left) not in COMPARISONS:
        return ""
    first, second = left.sql(), type(node)(this=left.expression.copy(), expression=right.copy()).sql()
    return f" (write {first} AND {second})"


def _period(node: exp.Expr) -> str:
    """Return of which period a node is the start, as text; an empty one for anything else."""
    return node.transform(_blanked).sql() if node.find(exp.DateTrunc) else ""


def _blanked(node: exp.Expr) -> exp.Expr:
    return exp.Null() if isinstance(node, exp.Column) else node


def _require_declared(left: exp.Expr, right: exp.Expr, domain: Domain) -> None:
    """Refuse a name in the place of a value that is no attribute's.

    Raises:
        QueryError: tells how a text is written.
    """
    if not (isinstance(left, exp.Column) and isinstance(right, exp.Column)):
        return
    name, names = right.name, {one.casefold() for one in (*domain.names, *domain.levels)}
    if name.casefold() in names or left.name.casefold() not in names:
        return
    texts = domain[left.name].texts() if left.name in domain else ()
    text = right.this.args.get("quoted") or name in (texts or ())
    hint = f"; a text stands in single quotes: '{name}'" if text else ""
    raise error_at(right, "unsupported", f"expected a value to compare with, got the name {name!r}{hint}")


def _range(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return BETWEEN as two comparisons, and SYMMETRIC as two ranges."""
    low, high = node.args["low"], node.args["high"]
    numbers = [rows.value(end).constant for end in (low, high) if not has_column(end)]
    known = [number for number in numbers if number is not None]
    if node.args.get("symmetric") and known != sorted(known):
        low, high = high, low
    whole = _both(exp.GTE, node.this, low, exp.LTE, high)
    if node.args.get("symmetric") and len(known) < 2:
        whole = exp.Or(this=whole, expression=_both(exp.GTE, node.this, high, exp.LTE, low))
    return rows.condition(whole, negated=negated)


def _both(
    first: type[exp.Expr], left: exp.Expr, one: exp.Expr, second: type[exp.Expr], two: exp.Expr
) -> exp.Expr:
    sides = [kind(this=left.copy(), expression=end.copy()) for kind, end in ((first, one), (second, two))]
    return exp.And(this=sides[0], expression=sides[1])


def _membership(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    if not node.expressions:
        raise error_at(node, "syntax", "IN needs at least one value")
    if isinstance(node.this, exp.Tuple):
        found = [_row_of_values(node.this, one, rows, negated) for one in node.expressions]
        return joined_conditions(found, rows.domain, every=negated)
    own = _side(node.this, rows)
    found = [
        compared_sides(own, "eq", _side(one, rows), rows.domain, negated=negated) for one in node.expressions
    ]
    return joined_conditions(found, rows.domain, every=negated)


def _row_of_values(names: exp.Tuple, values: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return where attributes have the values that a tuple lists."""
    if not isinstance(values, exp.Tuple) or len(values.expressions) != len(names.expressions):
        raise error_at(names, "syntax", f"expected a list of tuples of {len(names.expressions)} values")
    pairs = zip(names.expressions, values.expressions, strict=True)
    tests = [exp.EQ(this=name.copy(), expression=value.copy()) for name, value in pairs]
    found = [rows.condition(test, negated=negated) for test in tests]
    return joined_conditions(found, rows.domain, every=not negated)


def _is(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return IS NULL, IS TRUE or IS FALSE, which are never NULL themselves."""
    inner, asked = node.this.unnest(), node.expression
    if isinstance(asked, exp.Boolean):
        test = exp.EQ(this=inner, expression=exp.true()) if isinstance(inner, exp.Column) else inner
        found = rows.condition(test, negated=not asked.this)
    elif not isinstance(asked, exp.Null):
        refuse(node, "IS with anything but NULL, TRUE or FALSE")
    elif is_operand(inner):
        found = rows.value(inner).nulls
    else:
        sides = [rows.condition(inner, negated=side) for side in (False, True)]
        found = joined_conditions(sides, rows.domain, every=False).complement
    return found.complement if negated else found


def _distinct(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return IS DISTINCT FROM: unequal, where NULL equals NULL."""
    one, two = rows.value(node.this), rows.value(node.expression)
    _require_declared(node.this, node.expression, rows.domain)
    nulls = one.nulls.both(two.nulls, rows.domain)
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    if not (one.is_null or two.is_null):
        nulls = nulls.either(rows.condition(equal), rows.domain)
    return nulls if isinstance(node, exp.NullSafeEQ) != negated else nulls.complement


def _pattern(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return LIKE and ILIKE, with ESCAPE or without."""
    like, escape = (node.this, node.expression) if isinstance(node, exp.Escape) else (node, None)
    mark = None if escape is None else _quoted(escape, node)
    pattern = LikePattern(_quoted(like.expression, node), mark, isinstance(like, exp.ILike))
    values = rows.value(like.this)
    if values.labels is None or values.dated:
        raise error_at(
            node,
            "wrong_kind",
            f"LIKE compares texts, and {like.this.sql()} holds none; CAST(… AS VARCHAR) makes texts of whole "
            "numbers",
        )
    return like_condition(values, pattern, negated=negated != bool(like.args.get("negate")))


def _quoted(node: exp.Expr, whole: exp.Expr) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise error_at(whole, "wrong_kind", "LIKE compares a text with a pattern in quotes, such as 'A%'")
    return str(node.this)


def _beginning(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return starts_with(text, 'A'), which is LIKE 'A%'."""
    start = re.sub(r"([%_!])", r"!\1", _quoted(node.expression, node))
    return like_condition(rows.value(node.this), LikePattern(f"{start}%", "!"), negated=negated)


def is_true(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return where a value is true, which is what is not 0."""
    return compared(rows.value(node), "eq" if negated else "ne", constant_value(0), rows.domain)


def _chosen(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return where CASE, or IF, of conditions is true, or where it is false."""
    branches, default = branches_of(node)
    found = rows.condition(default, negated=negated)
    for test, one in reversed(branches):
        found = rows.condition(test).choosing(rows.condition(one, negated=negated), found, rows.domain)
    return found


def _first_known(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    """Return where COALESCE of conditions is true, or where it is false.

    Where the others hold, all that is not known to be false is true; elsewhere what is true.
    """
    conditions: list[exp.Expr] = [node.this, *node.args["expressions"]]
    found = rows.condition(conditions.pop(), negated=negated)
    for one in reversed(conditions):
        maybe = rows.condition(one, negated=not negated).complement
        found = found.choosing(maybe, rows.condition(one, negated=negated), rows.domain)
    return found


def _constant_condition(node: exp.Expr, rows: Rows, negated: bool) -> CellCondition:
    del rows
    return CellCondition.constant(not isinstance(node, exp.Null) and bool(node.this) != negated)


CONDITION_READERS: Mapping[type[exp.Expr], Callable[[exp.Expr, Rows, bool], CellCondition]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    exp.Between: _range,
    exp.In: _membership,
    exp.Is: _is,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _distinct),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), _pattern),
    exp.StartsWith: _beginning,
    exp.Boolean: _constant_condition,
}
CHOICES: Mapping[type[exp.Expr], Callable[[exp.Expr, Rows, bool], CellCondition]] = {  # of conditions
    **dict.fromkeys((exp.Case, exp.If), _chosen),
    exp.Coalesce: _first_known,
}
