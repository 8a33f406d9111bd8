"""Expressions of one row in SQL: numbers, texts and CASE, evaluated cell by cell, and conditions on them.

A division of whole numbers drops the fraction, as in PostgreSQL: ``age / 10 * 10`` is a decade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from queries.cell_comparisons import (
    changed_letters,
    joined_texts,
    mapped_texts,
    text_lengths,
)
from queries.cell_values import (
    CellCondition,
    CellValues,
    Kind,
    Line,
    attribute_values,
    chosen_values,
    combined,
    constant_value,
    counted_where,
    require_finite,
    truths,
)
from queries.cells import OTHER_LABEL, canonical_text, quoted_name
from queries.comparisons import meaning_of
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.joins import LookupCells, single_column
from queries.linear import LinearQuery, nearest_to
from queries.predicates import Junction, Not
from queries.row_conditions import (
    CHOICES,
    CONDITION_READERS,
    WHOLE_TYPES,
    branches_of,
    has_column,
    is_operand,
    is_true,
    joined_conditions,
)
from queries.segments import conditions_where, count_where
from queries.sql_dates import constant_second, part_of
from queries.sql_tree import (
    COMPARISONS,
    LONGEST_TEXT,
    PART_NODES,
    error_at,
    operand_of,
    position_of,
    refuse,
)
from queries.where_text import convert_condition, require_no_hyphen
from queries.work import TEXT, count_cells, once

_Numbers: TypeAlias = NDArray[np.float64]

_TEXT_TYPES = (exp.DType.VARCHAR, exp.DType.TEXT)
_REAL_TYPES = {
    exp.DType.DOUBLE: Kind.DOUBLE, exp.DType.FLOAT: Kind.DOUBLE, exp.DType.DECIMAL: Kind.DECIMAL,
}  # fmt: skip


@once
def row_value(node: exp.Expr, domain: Domain) -> CellValues:
    """Return what a row of each cell holds of an expression.

    Raises:
        QueryError: the expression is not supported, or names what is not declared.
    """
    node = node.unnest()
    read = _READERS.get(type(node)) or (None if is_operand(node) else _truth)
    if read is None and isinstance(node, exp.AggFunc):
        refuse(node, "an aggregate in a condition")
    if read is None:
        refuse(node, None if isinstance(node, exp.Func | exp.Tuple) else "this expression")
    with placed(node):
        return read(node, domain)


def _column(node: exp.Expr, domain: Domain) -> CellValues:
    name, level = operand_of(node, domain)
    count_cells(TEXT * domain[name].size, (name,))
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


def _constant(node: exp.Expr, domain: Domain) -> CellValues:
    del domain
    text = str(node.this)
    if isinstance(node, exp.Null | exp.Boolean):
        return constant_value(None if isinstance(node, exp.Null) else bool(node.this))
    if node.args.get("is_string"):
        return constant_value(text)
    number = int(text) if text.isdigit() and len(text) <= 15 else float(text)
    require_finite(np.array(float(number)))
    if isinstance(number, int):
        return constant_value(number)
    return replace(constant_value(number), kind=Kind.DOUBLE if "E" in text.upper() else Kind.DECIMAL)


def wrong_kind(what: str, node: exp.Expr, values: CellValues) -> QueryError:
    """Return the error of an expression that holds no numbers where some are needed."""
    name = node.find(exp.Column)
    shown = "" if name is None else f", {name.name!r} holds none"
    if values.dated and name is not None:
        way = f"YEAR({quoted_name(name.name)}) is a number, and dates are compared with dates"
        return error_at(node, "wrong_kind", f"{what} needs numbers, {name.name!r} holds dates; {way}")
    return error_at(
        node,
        "wrong_kind",
        f"{what} needs numbers{shown}; COUNT(*) with GROUP BY counts values, and CASE WHEN … THEN 1 ELSE 0 "
        "END makes numbers of them",
    )


def _numbers(node: exp.Expr, domain: Domain, what: str) -> CellValues:
    values = row_value(node, domain)
    if values.labels is not None:
        raise wrong_kind(what, node, values)
    return values


def _arithmetic(node: exp.Expr, domain: Domain) -> CellValues:
    require_no_hyphen(node, domain)
    left, right = (_numbers(side, domain, "arithmetic") for side in (node.this, node.expression))
    kind = max(left.kind, right.kind, Kind.WHOLE)
    whole, function = kind is Kind.WHOLE, _ARITHMETIC[type(node)]
    if function in (np.divide, np.fmod, _whole_division):
        if function is _whole_division and not whole:
            refuse(node, "// of anything but whole numbers")
        if right.constant is None or right.constant == 0:
            refuse(node, "a division by anything but a number other than 0")
        if function is np.fmod and np.any(left.low != left.high):
            refuse(node, "a remainder of numbers that are known to wide cells alone")
        if function is np.divide:
            function, kind = (_whole_division, kind) if whole else (function, Kind.DOUBLE)
    found = combined(domain, function, left, right, kind)
    for ends in (found.low, found.high):
        require_finite(ends)
    return replace(found, line=_line(function, left, right))


def _line(function: Callable[..., _Numbers], left: CellValues, right: CellValues) -> Line | None:
    """Return which attribute a sum, a multiple or a part of numbers follows, and how; None where none."""
    inner, constant = (left.line, right.constant) if left.line is not None else (right.line, left.constant)
    if inner is None or constant is None:
        return None
    is_left = inner is left.line
    if function is np.multiply:
        return Line(inner.attribute, inner.factor * constant)
    if function is np.divide and is_left:
        return Line(inner.attribute, inner.factor / constant)
    if function not in (np.add, np.subtract):
        return None
    return inner if is_left or function is np.add else Line(inner.attribute, -inner.factor)


def _whole_division(one: _Numbers, two: _Numbers) -> _Numbers:
    return np.trunc(one / two)


_ARITHMETIC: dict[type[exp.Expr], Callable[[_Numbers, _Numbers], _Numbers]] = {
    exp.Add: np.add, exp.Sub: np.subtract, exp.Mul: np.multiply, exp.Div: np.divide, exp.Mod: np.fmod,
    exp.IntDiv: _whole_division,
}  # fmt: skip


def _negative(node: exp.Expr, domain: Domain) -> CellValues:
    inner = _numbers(node.this, domain, "arithmetic")
    zero = constant_value(0)
    found = combined(domain, np.subtract, zero, inner, max(inner.kind, Kind.WHOLE))
    return replace(found, line=_line(np.subtract, zero, inner))


def _floor(node: exp.Expr, domain: Domain) -> CellValues:
    function = np.floor if isinstance(node, exp.Floor) else np.ceil
    return _numbers(node.this, domain, "arithmetic").mapped(function, Kind.WHOLE)


def _round(node: exp.Expr, domain: Domain) -> CellValues:
    given = node.args.get("decimals")
    wanted = 0 if given is None else row_value(given, domain).constant
    if wanted is None or wanted != int(wanted) or abs(wanted) > 99:
        refuse(node, "ROUND to anything but a whole number of digits")
    digits = int(wanted)
    values = _numbers(node.this, domain, "ROUND")
    kind = Kind.WHOLE if values.whole or not digits else values.kind
    return values if values.whole and digits > 0 else values.mapped(lambda one: _rounded(one, digits), kind)


def _rounded(numbers: _Numbers, digits: int) -> _Numbers:
    """Return numbers rounded half away from zero, as SQL does."""
    scale = 10.0**digits
    return np.sign(numbers) * np.floor(np.abs(numbers) * scale + 0.5) / scale


def _absolute(node: exp.Expr, domain: Domain) -> CellValues:
    values = _numbers(node.this, domain, "ABS")
    count_cells(values.present.size, values.scope)
    ends = np.abs(values.low), np.abs(values.high)
    inside = (values.low < 0) & (values.high > 0)
    low = np.where(inside, 0.0, np.minimum(*ends))
    high, kind = np.maximum(*ends), max(values.kind, Kind.WHOLE)
    return replace(values, low=low, middle=np.abs(values.middle), high=high, kind=kind, line=None)


def _extreme(node: exp.Expr, domain: Domain) -> CellValues:
    """Return GREATEST or LEAST of numbers; NULL is left out."""
    function = np.maximum if isinstance(node, exp.Greatest) else np.minimum
    first, *others = (_numbers(one, domain, node.key.upper()) for one in (node.this, *node.expressions))
    for other in others:
        both = combined(domain, function, first, other, max(first.kind, other.kind))
        one, two = first.placed(domain, both.scope), other.placed(domain, both.scope)
        low, middle, high = (
            np.where(both.present, joint, np.where(one.present, left, right))
            for joint, left, right in zip(both.arrays, one.arrays, two.arrays, strict=True)
        )
        undecided, present = one.undecided | two.undecided, one.present | two.present
        first = CellValues(both.scope, low, middle, high, present & ~undecided, None, both.kind, undecided)
    return first


def _cast(node: exp.Expr, domain: Domain) -> CellValues:
    kind = node.args["to"].this
    if kind in _TEXT_TYPES:
        return _as_text(node.this, domain)
    second = constant_second(node)
    if second is not None:
        label = np.array(node.this.this, dtype=object)
        return replace(constant_value(second), labels=label, dated=True)
    values = _numbers(node.this, domain, "CAST")
    if kind in WHOLE_TYPES:
        is_double = values.kind is Kind.DOUBLE
        return values.mapped(np.rint if is_double else lambda numbers: _rounded(numbers, 0), Kind.WHOLE)
    if kind not in _REAL_TYPES:
        refuse(node, "a cast to anything but INTEGER, DOUBLE or VARCHAR")
    return replace(values, kind=_REAL_TYPES[kind])


def _as_text(node: exp.Expr, domain: Domain) -> CellValues:
    """Return a text, or the text of a whole number."""
    values = row_value(node, domain)
    if values.dated:
        refuse(node, "a text of a date")
    if values.labels is not None or values.is_null:
        return values
    if not values.whole or np.any((values.low != values.high) & values.present):
        refuse(node, "a text of numbers that are fractions, or known to wide cells alone")
    count_cells(TEXT * values.present.size, values.scope)
    write = bool if values.kind is Kind.TRUTH else int
    labels = np.array([canonical_text(write(one)) for one in values.middle.ravel()], dtype=object)
    return replace(values, labels=labels.reshape(values.middle.shape), kind=Kind.DOUBLE)


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
    count_cells(TEXT * domain[name].size, (name,))
    size, is_number = domain[name].size, part.kind == "number"
    numbers, present, labels = np.zeros(size), np.zeros(size, dtype=bool), np.full(size, None, dtype=object)
    for value, cells in meaning_of(domain[name]).part_groups(part, position_of(node)):
        present[cells], labels[cells] = True, value
        if is_number:
            numbers[cells] = float(value)
    return CellValues((name,), numbers, numbers, numbers, present, None if is_number else labels,
                      Kind.WHOLE if is_number else Kind.DOUBLE)  # fmt: skip


def _nullif(node: exp.Expr, domain: Domain) -> CellValues:
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    return _case(exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=node.this.copy()), domain)


def _coalesce(node: exp.Expr, domain: Domain) -> CellValues:
    *found, value = [row_value(one, domain) for one in (node.this, *node.args["expressions"])]
    for one in reversed(found):
        value = chosen_values(CellCondition.decided(one.scope, one.present), one, value, domain)
    return value


def _truth(node: exp.Expr, domain: Domain) -> CellValues:
    """Return 1 where a condition holds, 0 where it does not, and NULL where it is neither."""
    true, false = row_condition(node, domain), row_condition(node, domain, negated=True)
    known = true.either(false, domain)
    one, other = true.placed(domain, known.scope), false.placed(domain, known.scope)
    open_ = (one.most ^ other.most) & ~known.least  # it may be NULL for some values of the cell
    return replace(truths(one), present=known.most, undecided=open_)


def _case(node: exp.Expr, domain: Domain) -> CellValues:
    branches, default = branches_of(node)
    value = row_value(default, domain)
    for test, one in reversed(branches):
        value = chosen_values(row_condition(test, domain), row_value(one, domain), value, domain)
    return value


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


@dataclass(frozen=True, slots=True)
class _Rows:
    """Reads the values and conditions inside a condition."""

    domain: Domain

    def value(self, node: exp.Expr) -> CellValues:
        return row_value(node, self.domain)

    def condition(self, node: exp.Expr, *, negated: bool = False) -> CellCondition:
        return row_condition(node, self.domain, negated=negated)


def with_edges(node: exp.Expr, domain: Domain, refusal: QueryError) -> QueryError:
    """Return a refusal; where a key cuts cells, one that names conditions at the edges nearest to its own."""
    cut = list[LinearQuery]()
    for one in node.find_all(*COMPARISONS, exp.Between) if refusal.code == "unaligned" else ():
        with suppress(QueryError):
            cut.append(count_where(convert_condition(one, domain), domain))
    message = refusal.message + nearest_to(cut)
    return QueryError(message, code=refusal.code, position=refusal.position) if cut else refusal


@once
def row_condition(node: exp.Expr, domain: Domain, *, negated: bool = False) -> CellCondition:
    """Return where a condition holds: as ``convert_condition`` reads it where it can, else cell by cell.

    What is compared with NULL holds nowhere, and neither does its negation.

    Raises:
        QueryError: the condition is not supported, or names what is not declared.
    """
    if isinstance(node, exp.Paren | exp.Not):
        return row_condition(node.this, domain, negated=negated != isinstance(node, exp.Not))
    rows = _Rows(domain)
    with placed(node):
        if is_operand(node) and not isinstance(node, exp.Column | exp.Boolean) and type(node) not in CHOICES:
            return is_true(node, rows, negated)
        if not is_computed(node):
            predicate = convert_condition(node, domain)
            return CellCondition.of(count_where(Not(predicate) if negated else predicate, domain))
        single = single_column(node, domain)
        if single is not None:
            cells, inner = single
            return cells.spread(row_condition(inner, cells.domain, negated=negated))
        if isinstance(node, exp.And | exp.Or):
            sides = [row_condition(side, domain, negated=negated) for side in _sides(node)]
            return joined_conditions(sides, domain, every=isinstance(node, exp.And) != negated)
        return (CHOICES.get(type(node)) or CONDITION_READERS[type(node)])(node, rows, negated)


def _sides(chain: exp.Expr) -> list[exp.Expr]:
    """Return what a chain of ANDs, or of ORs, joins; what is plain at its left stays together."""
    links, sides = list[exp.Expr](), list[exp.Expr]()
    left = chain
    while type(left) is type(chain):
        links.append(left)
        sides.append(left.expression)
        left = left.this
    sides = [left, *reversed(sides)]
    plain = next((place for place, side in enumerate(sides) if is_computed(side)), 0)
    return sides if plain < 2 else [links[len(sides) - plain], *sides[plain:]]


@contextmanager
def placed(*nodes: exp.Expr) -> Iterator[None]:
    """Have an error that says no place name that of the first part of the text."""
    try:
        yield
    except QueryError as error:
        if error.position is None and nodes:
            error.position = position_of(nodes[0])
        raise


def where_query(nodes: Sequence[exp.Expr], domain: Domain) -> LinearQuery:
    """Return the question that counts the records where conditions all hold.

    Raises:
        QueryError: a condition is not supported, or names what is not declared, or joins too many cells.
    """
    terms = [term for node in nodes for term in _conjuncts(node)]
    computed = [term for term in terms if is_computed(term)]
    plain = [convert_condition(term, domain) for term in terms if not is_computed(term)]
    with placed(*nodes):
        found = conditions_where(Junction("and", tuple(plain)), domain)
    for term in computed:
        with placed(term):
            one = row_condition(term, domain)
            joined = [other for other in found if set(other.scope) & set(one.scope)]
            found = [other for other in found if other not in joined]
            found.append(joined_conditions([*(other.cells() for other in joined), one], domain, every=True))
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
        elif type(one) in CHOICES or (type(one) in CONDITION_READERS and not _is_plain(one)):
            return True
    return False


def _is_plain(node: exp.Expr) -> bool:
    """Tell whether one comparison is of an attribute, or a part of it, with values."""
    for part in node.walk(prune=lambda one: isinstance(one, PART_NODES)):
        if _is_computation(part) or (part is not node and not is_operand(part)):
            return False
    if type(node) in COMPARISONS:
        return has_column(node.this) != has_column(node.expression)
    if isinstance(node, exp.Between):
        ends = node.args["low"], node.args["high"]
        return has_column(node.this) and not any(map(has_column, ends)) and not node.args.get("symmetric")
    if isinstance(node, exp.In):
        nulls = any(isinstance(one, exp.Null) for one in node.expressions)
        return not (nulls or any(map(has_column, node.expressions)))
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)


def _is_computation(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast | exp.Neg):
        return has_column(node)
    return isinstance(node, (exp.Tuple, *_COMPUTED))


_COMPUTED = tuple(kind for kind in _READERS if kind not in (
    *PART_NODES, exp.Column, exp.Literal, exp.Boolean, exp.Null, exp.Cast, exp.Neg,
))  # fmt: skip
