"""Expressions of one row in SQL: numbers, texts, CASE and conditions, evaluated cell by cell.

A division of whole numbers drops the fraction, as in PostgreSQL: ``age / 10 * 10`` is a decade.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from queries.calendar import read_seconds
from queries.cell_comparisons import (
    LikePattern,
    changed_letters,
    compared,
    joined_texts,
    like_condition,
    mapped_texts,
    require_reachable,
    text_lengths,
)
from queries.cell_values import (
    CellCondition,
    CellValues,
    attribute_values,
    combined,
    constant_value,
    counted_where,
    require_fit,
    union_scope,
)
from queries.cells import OTHER_LABEL
from queries.comparisons import meaning_of, resolve_attribute, resolve_operand
from queries.domain import Domain
from queries.errors import QueryError
from queries.joins import LookupCells, single_column
from queries.linear import LinearQuery
from queries.predicates import Junction, Not, Order
from queries.segments import conditions_where, count_where
from queries.sql_dates import part_of
from queries.sql_tree import COMPARISONS, LONGEST_TEXT, PART_NODES, error_at, position_of, refuse
from queries.where_text import convert_condition, is_dated, require_no_hyphen

_Numbers: TypeAlias = NDArray[np.float64]

_NEGATED: dict[Order, Order] = {
    "eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt",
}  # fmt: skip
_WHOLE_TYPES = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT)
_TEXT_TYPES = (exp.DType.VARCHAR, exp.DType.TEXT)
_REAL_TYPES = (exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL)


def row_value(node: exp.Expr, domain: Domain) -> CellValues:
    """Return what a row of each cell holds of an expression.

    Raises:
        QueryError: the expression is not supported, or names what is not declared.
    """
    node = node.unnest()
    read = _READERS.get(type(node))
    if read is None and isinstance(node, exp.AggFunc):
        refuse(node, "an aggregate in a condition")
    if read is None:
        refuse(node, None if isinstance(node, exp.Func | exp.Tuple) else "this expression")
    return read(node, domain)


def _column(node: exp.Expr, domain: Domain) -> CellValues:
    quoted = bool(node.this.args.get("quoted"))
    name, level = resolve_operand(node.name, domain, position_of(node), any_case=not quoted)
    values = attribute_values(domain[name])
    if level is None:
        return values
    labels = np.full(values.present.shape, OTHER_LABEL, dtype=object)
    groups = meaning_of(domain[name]).part_groups(level)
    for label, cells in groups:
        labels[cells] = label
    # An undeclared text may share its first characters with a declared one.
    return replace(values, labels=labels, declared=frozenset())


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
    require_no_hyphen(node, domain)
    left, right = (_numbers(side, domain, "arithmetic") for side in (node.this, node.expression))
    whole = left.whole and right.whole
    function = _ARITHMETIC[type(node)]
    if function in (np.divide, np.fmod, _whole_division):
        if function is _whole_division and not whole:
            refuse(node, "// of anything but whole numbers")
        if right.constant is None or right.constant == 0:
            refuse(node, "a division by anything but a number other than 0")
        if function is np.fmod and np.any(left.low != left.high):
            refuse(node, "a remainder of numbers that are known to wide cells alone")
        function = _whole_division if whole and function is np.divide else function
    return combined(domain, function, left, right, whole=whole)


def _whole_division(one: _Numbers, two: _Numbers) -> _Numbers:
    return np.trunc(one / two)


_ARITHMETIC: dict[type[exp.Expr], Callable[[_Numbers, _Numbers], _Numbers]] = {
    exp.Add: np.add, exp.Sub: np.subtract, exp.Mul: np.multiply, exp.Div: np.divide, exp.Mod: np.fmod,
    exp.IntDiv: _whole_division,
}  # fmt: skip


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


def _extreme(node: exp.Expr, domain: Domain) -> CellValues:
    """Return GREATEST or LEAST of numbers; NULL is left out."""
    function = np.maximum if isinstance(node, exp.Greatest) else np.minimum
    first, *others = (_numbers(one, domain, node.key.upper()) for one in (node.this, *node.expressions))
    for other in others:
        both = combined(domain, function, first, other, whole=first.whole and other.whole)
        one, two = first.placed(domain, both.scope), other.placed(domain, both.scope)
        low, middle, high = (
            np.where(both.present, joint, np.where(one.present, left, right))
            for joint, left, right in zip(both.arrays, one.arrays, two.arrays, strict=True)
        )
        undecided, present = one.undecided | two.undecided, one.present | two.present
        first = CellValues(both.scope, low, middle, high, present & ~undecided, None, both.whole, undecided)
    return first


def _cast(node: exp.Expr, domain: Domain) -> CellValues:
    kind = node.args["to"].this
    if kind in _TEXT_TYPES:
        return _as_text(node.this, domain)
    second = read_seconds(str(node.this.this), "UTC") if is_dated(node) else None
    if second is not None:
        label = np.array(node.this.this, dtype=object)
        return replace(constant_value(second), labels=label, dated=True)
    values = _numbers(node.this, domain, "CAST")
    if kind in _WHOLE_TYPES:
        return values.mapped(lambda numbers: _rounded(numbers, 0), whole=True)
    if kind not in _REAL_TYPES:
        refuse(node, "a cast to anything but INTEGER, DOUBLE or VARCHAR")
    return replace(values, whole=False)


def _as_text(node: exp.Expr, domain: Domain) -> CellValues:
    """Return a text, or the text of a whole number."""
    values = row_value(node, domain)
    if values.dated:
        refuse(node, "a text of a date")
    if values.labels is not None or values.is_null:
        return values
    if not values.whole or np.any((values.low != values.high) & values.present):
        refuse(node, "a text of numbers that are fractions, or known to wide cells alone")
    labels = np.array([str(int(one)) for one in values.middle.ravel()], dtype=object)
    return replace(values, labels=labels.reshape(values.middle.shape), whole=False)


def _text(node: exp.Expr, domain: Domain) -> CellValues:
    values = row_value(node, domain)
    if values.labels is None or values.dated:
        raise error_at(
            node, "wrong_kind", "expected a text here; CAST(… AS VARCHAR) makes one of a whole number"
        )
    return values


def _mapped(node: exp.Expr, domain: Domain) -> CellValues:
    """Return LOWER or UPPER of a text, letter by letter."""
    change = str.lower if isinstance(node, exp.Lower) else str.upper
    return mapped_texts(_text(node.this, domain), lambda text: changed_letters(text, change))


def _piece(node: exp.Expr, domain: Domain) -> CellValues:
    """Return LEFT, RIGHT or SUBSTRING of a text."""
    if isinstance(node, exp.Substring):
        start = _count(node.args["start"], domain) - 1
        length = None if node.args.get("length") is None else _count(node.args["length"], domain)
        if start < 0:
            refuse(node, "SUBSTRING that begins before the first character, which is 1")
        cut = slice(start, None if length is None else start + length)
    else:
        length = _count(node.expression, domain)
        # text[-0:] would be all of it
        cut = (
            slice(length) if isinstance(node, exp.Left) else slice(-length if length else LONGEST_TEXT, None)
        )
    return mapped_texts(_text(node.this, domain), lambda text: text[cut])


def _count(node: exp.Expr, domain: Domain) -> int:
    number = row_value(node, domain).constant
    if number is None or number != int(number) or not 0 <= number <= LONGEST_TEXT:
        refuse(node, f"a number of characters other than 0 to {LONGEST_TEXT:,}")
    return int(number)


def _length(node: exp.Expr, domain: Domain) -> CellValues:
    return text_lengths(_text(node.this, domain))


def _joined(node: exp.Expr, domain: Domain) -> CellValues:
    return joined_texts(_as_text(node.this, domain), _as_text(node.expression, domain), domain)


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
    true, false = row_condition(node, domain), row_condition(node, domain, negated=True)
    known = true.either(false, domain)
    true = true.placed(domain, known.scope)
    low, middle, high = (one.astype(np.float64) for one in (true.least, true.weights, true.most))
    return CellValues(known.scope, low, middle, high, known.most, None, whole=True)


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
    where = holds.placed(domain, scope)
    then, other = then.placed(domain, scope), other.placed(domain, scope)
    least, most, open_ = where.least, where.most, where.most & ~where.least
    labels = None
    if _is_text(then, other):
        if not (_fits(then) and _fits(other)):
            raise QueryError(
                "CASE or COALESCE gives a text in one place and a number in another", code="wrong_kind"
            )
        labels = np.where(least, _labels(then), _labels(other))
        told = (then.present == other.present) & (_labels(then) == _labels(other))
        open_ = open_ & ~told.astype(bool)
        labels[open_] = None
    elif np.any(open_ & (then.present != other.present)):
        raise QueryError(
            "CASE WHEN cuts cells, and its values cannot be told inside them; compare with an edge of a cell",
            code="unaligned",
        )
    present = np.where(least, then.present, np.where(open_, then.present & other.present, other.present))
    undecided = np.where(
        least, then.undecided, np.where(most, then.undecided | other.undecided, other.undecided)
    )
    low = np.where(least, then.low, np.where(most, np.minimum(then.low, other.low), other.low))
    high = np.where(least, then.high, np.where(most, np.maximum(then.high, other.high), other.high))
    middle = np.where(least, 1.0, np.where(most, where.share, 0.0))
    middle = middle * then.middle + (1 - middle) * other.middle
    # NULL is of any kind.
    whole = (then.whole or then.is_null) and (other.whole or other.is_null)
    if labels is None:
        return CellValues(scope, low, middle, high, present, None, whole, undecided)
    dated = (then.dated or then.is_null) and (other.dated or other.is_null)
    mixed = open_.any() and not dated  # the cell holds one text or another: it may be any of them
    return CellValues(
        scope, low, middle, high, present, labels, whole, undecided | open_,
        frozenset() if mixed else _undeclared(then, other), dated,
    )  # fmt: skip


def _undeclared(*values: CellValues) -> frozenset[str]:
    """Return texts that no undecided cell of several values holds."""
    found = [one.declared for one in values if one.undecided.any()]
    return frozenset.intersection(*found) if found else frozenset()


def _is_text(*values: CellValues) -> bool:
    return any(one.labels is not None for one in values)


def _fits(values: CellValues) -> bool:
    return values.labels is not None or values.is_null


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
    **dict.fromkeys((exp.Greatest, exp.Least), _extreme),
    exp.Cast: _cast,
    **dict.fromkeys((exp.Lower, exp.Upper), _mapped),
    **dict.fromkeys((exp.Left, exp.Right, exp.Substring), _piece),
    exp.Length: _length,
    exp.DPipe: _joined,
    **dict.fromkeys(PART_NODES, _part),
    exp.Nullif: _nullif,
    exp.Coalesce: _coalesce,
    **dict.fromkeys((exp.Case, exp.If), _case),
}


# --- conditions ---------------------------------------------------------------------------------------------


def row_condition(node: exp.Expr, domain: Domain, *, negated: bool = False) -> CellCondition:
    """Return where a condition holds: as ``convert_condition`` reads it where it can, else cell by cell.

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
        sides = [row_condition(side, domain, negated=negated) for side in (node.this, node.expression)]
        return _joined_conditions(sides, domain, every=isinstance(node, exp.And) != negated)
    try:
        return _CONDITIONS.get(type(node), _is_true)(node, domain, negated)
    except QueryError as error:
        if error.position is None:
            error.position = position_of(node)
        raise


def where_query(nodes: Sequence[exp.Expr], domain: Domain) -> LinearQuery:
    """Return the question that counts the records where conditions all hold.

    Raises:
        QueryError: a condition is not supported, or names what is not declared, or joins too many cells.
    """
    terms = [term for node in nodes for term in _conjuncts(node)]
    plain = [convert_condition(term, domain) for term in terms if not is_computed(term)]
    found = conditions_where(Junction("and", tuple(plain)), domain)
    for term in terms:
        one = row_condition(term, domain) if is_computed(term) else None
        if one is None:
            continue
        joined = [other for other in found if set(other.scope) & set(one.scope)]
        found = [other for other in found if other not in joined]
        found.append(_joined_conditions([*joined, one], domain, every=True))
    return counted_where(found, domain)


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what a condition joins by AND, from left to right."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And):
            waiting += [one.expression, one.this]
        elif isinstance(one, exp.Paren):
            waiting.append(one.this)
        else:
            yield one


def is_computed(node: exp.Expr) -> bool:
    """Tell whether a condition holds what ``convert_condition`` does not read."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And | exp.Or):
            waiting += [one.this, one.expression]
        elif isinstance(one, exp.Not | exp.Paren):
            waiting.append(one.this)
        elif isinstance(one, _CHOICES) or (type(one) in _CONDITIONS and not _is_plain(one)):
            return True
    return False


def _is_plain(node: exp.Expr) -> bool:
    """Tell whether one comparison is of an attribute, or a part of it, with values."""
    for part in node.walk(prune=lambda one: isinstance(one, PART_NODES)):
        if _is_computation(part) or (part is not node and not _is_operand(part)):
            return False
    if type(node) in COMPARISONS:
        return _has_column(node.this) != _has_column(node.expression)
    if isinstance(node, exp.Between):
        ends = node.args["low"], node.args["high"]
        return _has_column(node.this) and not any(map(_has_column, ends)) and not node.args.get("symmetric")
    if isinstance(node, exp.In):
        nulls = any(isinstance(one, exp.Null) for one in node.expressions)
        return not (nulls or any(map(_has_column, node.expressions)))
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)


def _is_operand(node: exp.Expr) -> bool:
    """Tell whether a node is no condition; TRUE and FALSE are values, too."""
    return isinstance(node, exp.Boolean) or type(node) not in (*_CONDITIONS, exp.And, exp.Or, exp.Not)


def _has_column(node: exp.Expr) -> bool:
    return node.find(exp.Column) is not None


def _is_computation(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast | exp.Neg):
        return _has_column(node)
    return isinstance(node, (exp.Tuple, *_COMPUTED))


_CHOICES = (exp.Case, exp.If, exp.Coalesce)  # of conditions
_COMPUTED = tuple(kind for kind in _READERS if kind not in (
    *PART_NODES, exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Cast, exp.Neg,
))  # fmt: skip


def _joined_conditions(conditions: Sequence[CellCondition], domain: Domain, *, every: bool) -> CellCondition:
    join = CellCondition.both if every else CellCondition.either
    return functools.reduce(lambda one, two: join(one, two, domain), conditions)


def _comparison(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    _require_declared(node.this, node.expression, domain)
    sides = node.this.unnest(), node.expression.unnest()
    if not any(map(_has_column, sides)) and any(isinstance(one, exp.Boolean | exp.Null) for one in sides):
        refuse(node, "a comparison without an attribute")
    if len({_is_operand(one) for one in sides if not isinstance(one, exp.Boolean)}) > 1:
        refuse(node, f"a comparison of a comparison{_apart(node)}")
    if isinstance(sides[0], exp.Tuple) and isinstance(node, exp.EQ | exp.NEQ):
        return _row_of_values(sides[0], sides[1], domain, negated != isinstance(node, exp.NEQ))
    if len({_period(one) for one in sides}) > 1:
        raise error_at(node, "wrong_kind", "the start of a period is compared with that of the same period")
    return _compared(node, COMPARISONS[type(node)], domain, negated)


def _compared(node: exp.Expr, sign: Order, domain: Domain, negated: bool) -> CellCondition:
    """Return where both sides of a node compare as a sign says, or do not.

    Raises:
        QueryError: only numbers beyond the ends satisfy it. They count as the ends: nobody knows how many do.
    """
    one, two = row_value(node.this, domain), row_value(node.expression, domain)
    require_reachable((node.this.sql(), one), sign, (node.expression.sql(), two), domain)
    return compared(one, _NEGATED[sign] if negated else sign, two, domain)


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


def _range(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return BETWEEN as two comparisons, and SYMMETRIC as two ranges."""
    low, high = node.args["low"], node.args["high"]
    numbers = [row_value(end, domain).constant for end in (low, high) if not _has_column(end)]
    known = [number for number in numbers if number is not None]
    if node.args.get("symmetric") and known != sorted(known):
        low, high = high, low
    whole = _both(exp.GTE, node.this, low, exp.LTE, high)
    if node.args.get("symmetric") and len(known) < 2:
        whole = exp.Or(this=whole, expression=_both(exp.GTE, node.this, high, exp.LTE, low))
    return row_condition(whole, domain, negated=negated)


def _both(
    first: type[exp.Expr], left: exp.Expr, one: exp.Expr, second: type[exp.Expr], two: exp.Expr
) -> exp.Expr:
    sides = [kind(this=left.copy(), expression=end.copy()) for kind, end in ((first, one), (second, two))]
    return exp.And(this=sides[0], expression=sides[1])


def _membership(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    if not node.expressions:
        raise error_at(node, "syntax", "IN needs at least one value")
    if isinstance(node.this, exp.Tuple):
        found = [_row_of_values(node.this, one, domain, negated) for one in node.expressions]
        return _joined_conditions(found, domain, every=negated)
    values = row_value(node.this, domain)
    require_fit(values.present.size * len(node.expressions), values.scope)
    tests = [exp.EQ(this=node.this, expression=one) for one in node.copy().expressions]
    found = [_compared(test, "eq", domain, negated) for test in tests]
    return _joined_conditions(found, domain, every=negated)


def _row_of_values(names: exp.Tuple, values: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return where attributes have the values that a tuple lists."""
    if not isinstance(values, exp.Tuple) or len(values.expressions) != len(names.expressions):
        raise error_at(names, "syntax", f"expected a list of tuples of {len(names.expressions)} values")
    pairs = zip(names.expressions, values.expressions, strict=True)
    tests = [exp.EQ(this=name.copy(), expression=value.copy()) for name, value in pairs]
    found = [row_condition(test, domain, negated=negated) for test in tests]
    return _joined_conditions(found, domain, every=not negated)


def _is(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return IS NULL, IS TRUE or IS FALSE, which are never NULL themselves."""
    inner, asked = node.this.unnest(), node.expression
    if isinstance(asked, exp.Boolean):
        test = exp.EQ(this=inner, expression=exp.true()) if isinstance(inner, exp.Column) else inner
        found = row_condition(test, domain, negated=not asked.this)
    elif not isinstance(asked, exp.Null):
        refuse(node, "IS with anything but NULL, TRUE or FALSE")
    elif _is_operand(inner):
        found = row_value(inner, domain).nulls
    else:
        sides = [row_condition(inner, domain, negated=side) for side in (False, True)]
        found = _joined_conditions(sides, domain, every=False).complement
    return found.complement if negated else found


def _distinct(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return IS DISTINCT FROM: unequal, where NULL equals NULL."""
    one, two = row_value(node.this, domain), row_value(node.expression, domain)
    _require_declared(node.this, node.expression, domain)
    nulls = one.nulls.both(two.nulls, domain)
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    if not (one.is_null or two.is_null):
        nulls = nulls.either(row_condition(equal, domain), domain)
    return nulls if isinstance(node, exp.NullSafeEQ) != negated else nulls.complement


def _pattern(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return LIKE and ILIKE, with ESCAPE or without."""
    like, escape = (node.this, node.expression) if isinstance(node, exp.Escape) else (node, None)
    mark = None if escape is None else _quoted(escape, node)
    pattern = LikePattern(_quoted(like.expression, node), mark, isinstance(like, exp.ILike))
    values = row_value(like.this, domain)
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


def _beginning(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return starts_with(text, 'A'), which is LIKE 'A%'."""
    start = re.sub(r"([%_!])", r"!\1", _quoted(node.expression, node))
    return like_condition(_text(node.this, domain), LikePattern(f"{start}%", "!"), negated=negated)


def _is_true(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    """Return where CASE or COALESCE of conditions is true: what is not 0."""
    return compared(row_value(node, domain), "eq" if negated else "ne", constant_value(0), domain)


def _constant_condition(node: exp.Expr, domain: Domain, negated: bool) -> CellCondition:
    del domain
    return CellCondition.constant(not isinstance(node, exp.Null) and bool(node.this) != negated)


_CONDITIONS: dict[type[exp.Expr], Callable[[exp.Expr, Domain, bool], CellCondition]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    exp.Between: _range,
    exp.In: _membership,
    exp.Is: _is,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _distinct),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), _pattern),
    exp.StartsWith: _beginning,
    exp.Boolean: _constant_condition,
}
_READERS.update(
    dict.fromkeys((kind for kind in (*_CONDITIONS, exp.And, exp.Or, exp.Not) if kind not in _READERS), _truth)
)
