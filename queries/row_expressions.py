"""Expressions of one row in SQL: numbers, CASE and conditions, evaluated cell by cell.

A division of whole numbers drops the fraction, as in PostgreSQL: ``age / 10 * 10`` is a decade.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from queries.cell_values import (
    CellCondition,
    CellValues,
    attribute_values,
    combined,
    constant_value,
    union_scope,
)
from queries.comparisons import meaning_of, resolve_attribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.joins import LookupCells, single_column
from queries.predicates import COMPARE, Not, Order
from queries.segments import count_where
from queries.sql_dates import part_of
from queries.sql_tree import COMPARISONS, PART_NODES, error_at, position_of, refuse
from queries.where_text import convert_condition

_Numbers: TypeAlias = NDArray[np.float64]

_NEGATED: dict[Order, Order] = {
    "eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt",
}  # fmt: skip
_WHOLE_TYPES = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT)
_REAL_TYPES = (exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL)


def row_value(node: exp.Expr, domain: Domain) -> CellValues:
    """Return what a row of each cell holds of an expression.

    Raises:
        QueryError: the expression is not supported, or names what is not declared.
    """
    node = node.unnest()
    read = _READERS.get(type(node))
    if read is None:
        refuse(node, None if isinstance(node, exp.Func) else "this expression")
    return read(node, domain)


def _column(node: exp.Expr, domain: Domain) -> CellValues:
    return attribute_values(domain[_name(node, domain)])


def _lookup_column(node: exp.Expr, domain: Domain) -> CellValues:
    return LookupCells.of(node, domain).values(node, domain)


def _name(node: exp.Expr, domain: Domain) -> str:
    quoted = bool(node.this.args.get("quoted"))
    return resolve_attribute(node.name, domain, position_of(node), any_case=not quoted)


def _constant(node: exp.Expr, domain: Domain) -> CellValues:
    del domain
    text = str(node.this)
    if isinstance(node, exp.Null | exp.Boolean):
        return constant_value(None if isinstance(node, exp.Null) else int(bool(node.this)))
    if node.args.get("is_string"):
        return constant_value(text)
    return constant_value(int(text) if text.isdigit() and len(text) <= 15 else float(text))


def wrong_kind(what: str, node: exp.Expr) -> QueryError:
    """Return the error of an expression that holds no numbers where some are needed."""
    name = node.find(exp.Column)
    shown = "" if name is None else f", {name.name!r} holds none"
    return error_at(
        node,
        "wrong_kind",
        f"{what} needs numbers{shown}; COUNT(*) with GROUP BY counts values, and CASE WHEN … THEN 1 ELSE 0 "
        "END makes numbers of them",
    )


def _numbers(node: exp.Expr, domain: Domain, what: str) -> CellValues:
    values = row_value(node, domain)
    if values.labels is not None:
        raise wrong_kind(what, node)
    return values


def _arithmetic(node: exp.Expr, domain: Domain) -> CellValues:
    left, right = (_numbers(side, domain, "arithmetic") for side in (node.this, node.expression))
    whole = left.whole and right.whole
    function = _ARITHMETIC[type(node)]
    if function in (np.divide, np.fmod):
        if right.constant is None or right.constant == 0:
            refuse(node, "a division by anything but a number other than 0")
        if function is np.fmod and np.any(left.low != left.high):
            refuse(node, "a remainder of numbers that are known to wide cells alone")
        function = _whole_division if whole and function is np.divide else function
    return combined(domain, function, left, right, whole=whole)


_ARITHMETIC: dict[type[exp.Expr], Callable[[_Numbers, _Numbers], _Numbers]] = {
    exp.Add: np.add, exp.Sub: np.subtract, exp.Mul: np.multiply, exp.Div: np.divide, exp.Mod: np.fmod,
}  # fmt: skip


def _whole_division(one: _Numbers, two: _Numbers) -> _Numbers:
    return np.trunc(one / two)


def _negative(node: exp.Expr, domain: Domain) -> CellValues:
    inner = _numbers(node.this, domain, "arithmetic")
    return combined(domain, np.subtract, constant_value(0), inner, whole=inner.whole)


def _floor(node: exp.Expr, domain: Domain) -> CellValues:
    function = np.floor if isinstance(node, exp.Floor) else np.ceil
    return _numbers(node.this, domain, "arithmetic").mapped(function, whole=True)


def _round(node: exp.Expr, domain: Domain) -> CellValues:
    given = node.args.get("decimals")
    wanted = 0 if given is None else row_value(given, domain).constant
    if wanted is None or wanted != int(wanted) or abs(wanted) > 99:
        refuse(node, "ROUND to anything but a whole number of digits")
    digits = int(wanted)
    values = _numbers(node.this, domain, "ROUND")
    return values.mapped(lambda numbers: _rounded(numbers, digits), whole=not digits)


def _rounded(numbers: _Numbers, digits: int) -> _Numbers:
    """Return numbers rounded half away from zero, as SQL does."""
    scale = 10.0**digits
    return np.sign(numbers) * np.floor(np.abs(numbers) * scale + 0.5) / scale


def _absolute(node: exp.Expr, domain: Domain) -> CellValues:
    values = _numbers(node.this, domain, "ABS")
    ends = np.abs(values.low), np.abs(values.high)
    inside = (values.low < 0) & (values.high > 0)
    low = np.where(inside, 0.0, np.minimum(*ends))
    return replace(values, low=low, middle=np.abs(values.middle), high=np.maximum(*ends))


def _cast(node: exp.Expr, domain: Domain) -> CellValues:
    values, kind = _numbers(node.this, domain, "CAST"), node.args["to"].this
    if kind in _WHOLE_TYPES:
        return values.mapped(lambda numbers: _rounded(numbers, 0), whole=True)
    if kind not in _REAL_TYPES:
        refuse(node, "a cast to anything but INTEGER or DOUBLE")
    return replace(values, whole=False)


def _part(node: exp.Expr, domain: Domain) -> CellValues:
    """Return a part of a date: a number such as YEAR(hired), or a text."""
    name, part = part_of(node, domain)
    size, is_number = domain[name].size, part.kind == "number"
    numbers, present, labels = np.zeros(size), np.zeros(size, dtype=bool), np.full(size, None, dtype=object)
    for value, cells in meaning_of(domain[name]).part_groups(part, position_of(node)):
        present[cells], labels[cells] = True, value
        if is_number:
            numbers[cells] = float(value)
    return CellValues((name,), numbers, numbers, numbers, present, None if is_number else labels, is_number)


def _nullif(node: exp.Expr, domain: Domain) -> CellValues:
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    return _case(exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=node.this.copy()), domain)


def _coalesce(node: exp.Expr, domain: Domain) -> CellValues:
    *found, value = [row_value(one, domain) for one in (node.this, *node.args["expressions"])]
    for one in reversed(found):
        value = _chosen(CellCondition.decided(one.scope, one.present), one, value, domain)
    return value


def _truth(node: exp.Expr, domain: Domain) -> CellValues:
    """Return 1 where a condition holds, 0 where it does not, and NULL where it is neither."""
    fails = row_condition(node, domain, negated=True)
    known = _chosen(fails, constant_value(0), constant_value(None), domain)
    return _chosen(row_condition(node, domain), constant_value(1), known, domain)


def _case(node: exp.Expr, domain: Domain) -> CellValues:
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
    value = constant_value(None) if default is None else row_value(default, domain)
    for branch in reversed(branches):
        test = branch.this
        if isinstance(node, exp.Case) and node.this is not None:
            test = exp.EQ(this=node.this.copy(), expression=test.copy())
        value = _chosen(row_condition(test, domain), row_value(branch.args["true"], domain), value, domain)
    return value


def _chosen(holds: CellCondition, then: CellValues, other: CellValues, domain: Domain) -> CellValues:
    """Return one value where a condition holds, else the other; what lies between where it is not decided."""
    scope = union_scope(domain, (holds.scope, then.scope, other.scope))
    nowhere = CellCondition.decided(scope, np.zeros(domain.scope_shape(scope), dtype=bool))
    where = nowhere.either(holds, domain)
    then, other = then.placed(domain, scope), other.placed(domain, scope)
    least, most, open_ = where.least, where.most, where.most & ~where.least
    if np.any(open_ & (then.present != other.present)) or (_is_text(then, other) and open_.any()):
        raise QueryError(
            "CASE WHEN cuts cells, and its values cannot be told inside them; compare with an edge of a cell",
            code="unaligned",
        )
    present = np.where(least, then.present, other.present)
    labels = None
    if _is_text(then, other):
        if not _fits(then) or not _fits(other):
            raise QueryError(
                "CASE or COALESCE gives a text in one place and a number in another", code="wrong_kind"
            )
        labels = np.where(least, _labels(then), _labels(other))
    low = np.where(least, then.low, np.where(most, np.minimum(then.low, other.low), other.low))
    high = np.where(least, then.high, np.where(most, np.maximum(then.high, other.high), other.high))
    middle = np.where(least, 1.0, np.where(most, where.share, 0.0))
    middle = middle * then.middle + (1 - middle) * other.middle
    # NULL is of any kind.
    whole = (then.whole or not then.present.any()) and (other.whole or not other.present.any())
    return CellValues(scope, low, middle, high, present, labels, whole)


def _is_text(*values: CellValues) -> bool:
    return any(one.labels is not None for one in values)


def _fits(values: CellValues) -> bool:
    return values.labels is not None or not values.present.any()


def _labels(values: CellValues) -> NDArray[Any]:
    if values.labels is not None:
        return values.labels
    return np.full(values.present.shape, None, dtype=object)


_READERS: dict[type[exp.Expr], Callable[[exp.Expr, Domain], CellValues]] = {
    exp.Column: _column,
    exp.Dot: _lookup_column,
    **dict.fromkeys((exp.Literal, exp.Boolean, exp.Null), _constant),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    exp.Neg: _negative,
    **dict.fromkeys((exp.Floor, exp.Ceil), _floor),
    exp.Round: _round,
    exp.Abs: _absolute,
    exp.Cast: _cast,
    **dict.fromkeys(PART_NODES, _part),
    exp.Nullif: _nullif,
    exp.Coalesce: _coalesce,
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys(COMPARISONS, _truth),
}
_COMPUTED = (
    *(*_ARITHMETIC, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Round, exp.Abs, exp.Floor, exp.Ceil),
    exp.Dot,
)


# --- conditions ---------------------------------------------------------------------------------------------


def row_condition(node: exp.Expr, domain: Domain, *, negated: bool = False) -> CellCondition:
    """Return where a condition holds: in the words of ``convert_condition``, or with arithmetic and CASE.

    What is compared with NULL holds nowhere, and neither does its negation.

    Raises:
        QueryError: the condition is not supported, or names what is not declared.
    """
    if isinstance(node, exp.Paren):
        return row_condition(node.this, domain, negated=negated)
    if isinstance(node, exp.Not):
        return row_condition(node.this, domain, negated=not negated)
    if not is_computed(node):
        predicate = convert_condition(node, domain)
        return CellCondition.of(count_where(Not(predicate) if negated else predicate, domain))
    single = single_column(node, domain)
    if single is not None:
        cells, inner = single
        return cells.spread(row_condition(inner, cells.domain, negated=negated))
    if isinstance(node, exp.And | exp.Or):
        one, two = (row_condition(side, domain, negated=negated) for side in (node.this, node.expression))
        return one.both(two, domain) if isinstance(node, exp.And) != negated else one.either(two, domain)
    return _computed_condition(node, domain, negated)


def is_computed(node: exp.Expr) -> bool:
    """Tell whether a condition holds what ``convert_condition`` does not read."""
    return any(
        isinstance(part, _COMPUTED)
        or (isinstance(part, exp.Cast | exp.Neg) and not isinstance(part.this, exp.Literal))
        for part in node.walk(prune=lambda one: isinstance(one, PART_NODES))
    )


def _computed_condition(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    if type(node) in COMPARISONS:
        sign = COMPARISONS[type(node)]
        return _compared(node.this, _NEGATED[sign] if negated else sign, node.expression, domain)
    if isinstance(node, exp.Between):
        low = _compared(node.this, "lt" if negated else "ge", node.args["low"], domain)
        high = _compared(node.this, "gt" if negated else "le", node.args["high"], domain)
        return low.either(high, domain) if negated else low.both(high, domain)
    if not isinstance(node, exp.In) or not node.args.get("expressions"):
        refuse(node, "a condition of this kind on computed values")
    found = [_compared(node.this, "ne" if negated else "eq", one, domain) for one in node.expressions]
    whole = found[0]
    for one in found[1:]:
        whole = whole.both(one, domain) if negated else whole.either(one, domain)
    return whole


def _compared(left: exp.Expr, sign: Order, right: exp.Expr, domain: Domain) -> CellCondition:
    one, two = row_value(left, domain), row_value(right, domain)
    if one.labels is not None or two.labels is not None:
        return _compared_labels(one, sign, two, domain, left)
    difference = combined(domain, np.subtract, one, two, whole=False)
    low, high, present = difference.low, difference.high, difference.present
    ends = COMPARE[sign](low, 0.0), COMPARE[sign](high, 0.0)
    least, most = ends[0] & ends[1], ends[0] | ends[1]
    width = np.where(high > low, high - low, 1.0)
    share = np.clip(np.where(sign in ("gt", "ge"), high, -low) / width, 0.0, 1.0)
    if sign in ("eq", "ne"):
        inside = (low <= 0) & (high >= 0)
        least, most = (low == 0) & (high == 0), inside
        share = np.zeros(low.shape)
        if sign == "ne":
            least, most, share = ~inside, ~least, np.ones(low.shape)
    least, most = least & present, most & present
    return CellCondition(difference.scope, least, np.where(least, 1.0, np.where(most, share, 0.0)), most)


def _compared_labels(
    one: CellValues, sign: Order, two: CellValues, domain: Domain, node: exp.Expr
) -> CellCondition:
    if one.labels is None or two.labels is None or sign not in ("eq", "ne"):
        raise error_at(node, "wrong_kind", "a text of CASE is compared with = or <> and a text")
    scope = union_scope(domain, (one.scope, two.scope))
    one, two = one.placed(domain, scope), two.placed(domain, scope)
    holds = (one.labels == two.labels) if sign == "eq" else (one.labels != two.labels)
    holds = np.asarray(holds, dtype=bool) & one.present & two.present
    return CellCondition.decided(scope, holds)
