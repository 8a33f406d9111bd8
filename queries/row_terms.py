"""Expressions and conditions of one row in SQL, written anew for rows of cells (``queries.cell_engine``).

Nothing of a text is passed on: each kind of node has its own SQL here, columns have numbers for names, and
texts are parameters or quoted. A division of whole numbers drops the fraction, as in PostgreSQL: so
``age / 10 * 10`` is a decade.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from sqlglot import exp

from queries.categories import CategoricalAttribute
from queries.cell_engine import NEVER, PERIODS, Term, Truth, Writer, either, every, some, some_decided
from queries.cell_values import (
    CellCondition,
    CellValues,
    Kind,
    Line,
    attribute_values,
    constant_value,
    require_finite,
)
from queries.cells import OTHER_LABEL, canonical_text, number_text, quoted_name
from queries.comparisons import Comparison, Order, example_texts, meaning_of, negation, shown_value
from queries.date_parts import CALENDAR, moment_text_sql
from queries.dates import Periods, read_clock, read_seconds
from queries.domain import Domain
from queries.errors import QueryError
from queries.joins import LookupCells
from queries.row_nodes import (
    CHOICES,
    TEXT_FUNCTIONS,
    WHOLE_TYPES,
    apart,
    branches_of,
    convert_condition,
    has_column,
    is_computed,
    is_operand,
    like_kind,
    literal_value,
    placed,
    quoted,
    ranges_of,
    require_declared,
    require_no_hyphen,
    rewritten,
    wrong_kind,
)
from queries.segments import count_where
from queries.sql_dates import constant_second, dated_text, part_of
from queries.sql_tree import COMPARISONS, LONGEST_TEXT, PART_NODES, error_at, operand_of, position_of, refuse
from queries.work import TEXT, count_cells

MOST_VALUES = 2**12  # whole numbers of an attribute that are enumerated
_PERIODS_CALLED = {"dated": "dates", "clock": "times of day"}
_ROUNDING = "1e-12"  # of numbers that are computed, as a part of them
_TEXT_TYPES = (exp.DType.VARCHAR, exp.DType.TEXT)
_REAL_TYPES = {
    exp.DType.DOUBLE: Kind.DOUBLE, exp.DType.FLOAT: Kind.DOUBLE, exp.DType.DECIMAL: Kind.DECIMAL,
}  # fmt: skip
_SIGNS: dict[Order, str] = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NEGATED: dict[Order, Order] = {
    "eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt",
}  # fmt: skip


def value_term(node: exp.Expr, rows: Writer) -> Term:
    """Return the term of an expression."""
    node = rewritten(node)
    return rows.once(("value", node), lambda: rows.shortened(_term(node, rows)))


def _term(node: exp.Expr, rows: Writer) -> Term:
    write = _TERMS.get(type(node))
    with placed(node):
        if write is not None:
            return write(node, rows)
        if is_operand(node):
            if isinstance(node, exp.AggFunc):
                refuse(node, "an aggregate in a condition")
            refuse(node, None if isinstance(node, exp.Func | exp.Tuple) else "this expression")
        sql = rows.decided(truth_of(node, rows))
        return Term(f"CAST(({sql}) AS DOUBLE)", "number", Kind.TRUTH, column=has_column(node))


def _column(node: exp.Expr, rows: Writer) -> Term:
    if isinstance(node, exp.Dot):
        cells = LookupCells.of(node, rows.domain)
        number = rows.new(
            node, cells.attribute.name, values=cells.values(), keys=cells.undeclared, outer=node.args["outer"]
        ).number
        return Term(f"v{number}", "text", Kind.DOUBLE, f"n{number}", column=True)
    name, level = operand_of(node, rows.domain)
    attribute = rows.domain[name]
    values = attribute_values(attribute)
    count_cells(values.present.size * (1 if values.labels is None else TEXT), (name,))
    coarser = (
        attribute.level(level) if level is not None and isinstance(attribute, CategoricalAttribute) else None
    )
    if coarser is not None:
        labels = np.full(values.present.shape, OTHER_LABEL, dtype=object)
        labels[: attribute.base_size] = coarser.parents
        # An undeclared text may share its first characters with a declared one.
        values = replace(values, labels=labels, declared=frozenset())
    return _input(rows, (name, level), name, values)


def _part(node: exp.Expr, rows: Writer) -> Term:
    name, part = part_of(node, rows.domain)
    position = position_of(node)
    attribute = part.of(rows.domain[name], position)
    starts = part.starts(attribute, position)
    number = rows.dates(attribute, starts)
    second = f"\x01{number}\x02" if starts is None else f"l{number}"
    low, high = rows.ends(Term(part.moment(second), "dated"))
    if part.steps:
        inside = f"coalesce({low} >= {CALENDAR[0]} AND {high} < {CALENDAR[1]}, TRUE)"
        rows.check(inside, every, lambda: part.past_end(attribute, position))
    shape, sql = {"moment": "dated"}.get(part.kind, part.kind), part.sql(second)
    label = moment_text_sql(low) if shape == "dated" else sql
    is_text = shape == "text"
    return Term(
        sql, shape, Kind.DOUBLE if is_text else Kind.WHOLE, label, plain=False, column=True, ordered=is_text
    )


def _input(rows: Writer, key: object, name: str, values: CellValues) -> Term:
    spread = (values.high - values.low)[values.present]
    listed = rows.lists and values.labels is None and values.whole and bool(0 < spread.sum() < MOST_VALUES)
    number = rows.new(key, name, values=values, listed=listed).number
    undecided = frozenset([f"u{number}"] if values.undecided.any() else [])
    if values.labels is None or values.dated:
        wide = bool(spread.any()) and not listed
        return Term(
            f"\x01{number}\x02" if wide else f"v{number}", values.dated or "number", values.kind,
            label=f"n{number}" if values.dated else "", open=undecided, lost=undecided, line=values.line,
            source=values, column=True,
        )  # fmt: skip
    witnessed = f"u{number}" if undecided and values.declared else ""
    return Term(
        f"v{number}", "text", Kind.DOUBLE, f"n{number}", witnessed, undecided - {witnessed},
        source=values, column=True,
    )  # fmt: skip


def _literal(node: exp.Expr, rows: Writer) -> Term:
    text = str(node.this)
    if isinstance(node, exp.Null):
        return Term("NULL", "null")
    if isinstance(node, exp.Boolean):
        return _constant(bool(node.this), Kind.TRUTH)
    if node.args.get("is_string"):
        held = rows.text(text)
        return Term(held, "text", Kind.DOUBLE, held, source=constant_value(text))
    number = int(text) if text.isdigit() and len(text) <= 15 else float(text)
    require_finite(np.array(float(number)))
    kind = Kind.DOUBLE if "E" in text.upper() else Kind.DECIMAL
    return _constant(number, Kind.WHOLE if isinstance(number, int) else kind)


def _constant(number: float, kind: Kind) -> Term:
    text = repr(float(number))  # with an exponent it is read as a DOUBLE
    sql = f"({text})" if "e" in text else f"({text}e0)"
    return Term(sql, "number", kind, source=constant_value(number))


def _made(sql: str, shape: str, kind: Kind, *terms: Term, label: str = "") -> Term:
    """Return a term that is made of others, and open where one of them is."""
    return Term(
        sql, shape, kind, label or sql,
        open=frozenset[str]().union(*(one.open for one in terms)),
        undeclared=either(*sorted({one.undeclared for one in terms} - {""})),
        lost=frozenset[str]().union(*(one.lost for one in terms)),
        plain=all(one.plain for one in terms), column=any(one.column for one in terms),
    )  # fmt: skip


def _computed(sql: str, shape: str, kind: Kind, *terms: Term) -> Term:
    """Return a function of texts or numbers: of an undeclared text it may be anything."""
    made = _made(sql, shape, kind, *terms)
    return replace(made, open=made.open | ({made.undeclared} - {""}), undeclared="", plain=False)


def _numbers(node: exp.Expr, rows: Writer, what: str) -> Term:
    term = value_term(node, rows)
    if term.shape in ("text", *PERIODS):
        raise wrong_kind(what, node, dated=term.shape)
    return replace(term, sql="CAST(NULL AS DOUBLE)") if term.shape == "null" else term


def constant_of(node: exp.Expr, domain: Domain) -> float | None:
    """Return the number that an expression is of every row; None where it is none."""
    if has_column(node):
        return None
    rows = Writer(domain)
    return rows.values(value_term(node, rows)).constant


_DIVISIONS = (exp.Div, exp.IntDiv, exp.Mod)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "({} + {})", exp.Sub: "({} - {})", exp.Mul: "({} * {})", exp.Div: "({} / {})",
    exp.Mod: "({} % {})", exp.IntDiv: "trunc({} / {})",
}  # fmt: skip


def _arithmetic(node: exp.Expr, rows: Writer) -> Term:
    require_no_hyphen(node, rows.domain)
    left, right = (_numbers(side, rows, "arithmetic") for side in (node.this, node.expression))
    kind, form = max(left.kind, right.kind, Kind.WHOLE), _OPERATORS[type(node)]
    if isinstance(node, _DIVISIONS):
        if isinstance(node, exp.IntDiv) and kind is not Kind.WHOLE:
            refuse(node, "// of anything but whole numbers")
        if constant_of(node.expression, rows.domain) in (None, 0):
            refuse(node, "a division by anything but a number other than 0")
        if isinstance(node, exp.Mod) and left.spots:
            refuse(node, "a remainder of numbers that are known to wide cells alone")
        if isinstance(node, exp.Div):
            form, kind = (_OPERATORS[exp.IntDiv], kind) if kind is Kind.WHOLE else (form, Kind.DOUBLE)
    term = _made(form.format(left.sql, right.sql), "number", kind, left, right)
    return replace(term, line=_line(node, form, (left, right), rows.domain))


def _line(node: exp.Expr, form: str, sides: tuple[Term, Term], domain: Domain) -> Line | None:
    """Return which attribute a sum, a multiple or a part of numbers follows, and how; None where none."""
    is_left = sides[0].line is not None
    line, other = (sides[0].line, node.expression) if is_left else (sides[1].line, node.this)
    constant = None if line is None else constant_of(other, domain)
    if line is None or constant is None or form == _OPERATORS[exp.IntDiv] or isinstance(node, exp.Mod):
        return None
    if isinstance(node, exp.Mul):
        return Line(line.attribute, line.factor * constant)
    if isinstance(node, exp.Div):
        return Line(line.attribute, line.factor / constant) if is_left else None
    return line if is_left or isinstance(node, exp.Add) else Line(line.attribute, -line.factor)


def _function(node: exp.Expr, rows: Writer) -> Term:
    inner, kind = _numbers(node.this, rows, "arithmetic"), Kind.DOUBLE
    if isinstance(node, exp.Floor | exp.Ceil):
        kind = Kind.WHOLE
        if inner.whole:
            return replace(inner, kind=kind)
    return _made(f"{node.key}({inner.sql})", "number", kind, inner)


def _round(node: exp.Expr, rows: Writer) -> Term:
    given = node.args.get("decimals")
    wanted = 0 if given is None else constant_of(given, rows.domain)
    if wanted is None or wanted != int(wanted) or abs(wanted) > 99:
        refuse(node, "ROUND to anything but a whole number of digits")
    digits, inner = int(wanted), _numbers(node.this, rows, "ROUND")
    if inner.whole and digits >= 0:
        return inner if digits else replace(inner, kind=Kind.WHOLE)
    kind = Kind.WHOLE if inner.whole or not digits else inner.kind
    return _made(f"round({inner.sql}, {digits})", "number", kind, inner)


def _absolute(node: exp.Expr, rows: Writer) -> Term:
    inner = _numbers(node.this, rows, "ABS")
    kind = max(inner.kind, Kind.WHOLE)
    if not inner.spots:
        return _made(f"abs({inner.sql})", "number", kind, inner)
    low, high = rows.ends(inner)  # not monotone where 0 lies inside
    least = f"CASE WHEN {low} < 0 AND {high} > 0 THEN 0e0 ELSE least(abs({low}), abs({high})) END"
    most, middle = f"greatest(abs({low}), abs({high}))", f"abs({inner.everywhere('v')})"
    return rows.spot(_made("", "number", kind, inner), least, most, middle)


def _extreme(node: exp.Expr, rows: Writer) -> Term:
    terms = [_numbers(one, rows, node.key.upper()) for one in (node.this, *node.expressions)]
    for one in terms:
        if one.column and one.source is None:
            rows.ends(one)  # an infinite number would be hidden by the others
    listed = ", ".join(one.sql for one in terms)
    return _made(f"{node.key}({listed})", "number", max(one.kind for one in terms), *terms)


def _cast(node: exp.Expr, rows: Writer) -> Term:
    kind = node.args["to"].this
    if kind in _TEXT_TYPES:
        return _as_text(node.this, rows)
    clock = read_clock(dated_text(node)) if kind is exp.DType.TIME else None
    second = constant_second(node) if clock is None else clock
    if second is not None:
        shape = "dated" if clock is None else "clock"
        return Term(_constant(second, Kind.WHOLE).sql, shape, Kind.WHOLE, rows.text(str(node.this.this)))
    inner = _numbers(node.this, rows, "CAST")
    if kind in WHOLE_TYPES:
        if inner.whole:
            return replace(inner, kind=Kind.WHOLE)
        function = "round_even" if inner.kind is Kind.DOUBLE else "round"
        return _made(f"{function}({inner.sql}, 0)", "number", Kind.WHOLE, inner)
    if kind not in _REAL_TYPES:
        refuse(node, "a cast to anything but INTEGER, DOUBLE or VARCHAR")
    return replace(inner, kind=_REAL_TYPES[kind])


def _as_text(node: exp.Expr, rows: Writer) -> Term:
    term = value_term(node, rows)
    if term.shape in PERIODS:
        if term.plain:
            refuse(node, "a text of a date")
        return replace(term, shape="text", sql=term.label)
    if term.shape in ("text", "null"):
        return term
    if not term.whole or term.spots:
        refuse(node, "a text of numbers that are fractions, or known to wide cells alone")
    sql = f"CAST(CAST({term.sql} AS BIGINT) AS VARCHAR)"
    if term.kind is Kind.TRUTH:
        sql = f"CASE WHEN {term.sql} <> 0 THEN '{canonical_text(True)}' WHEN {term.sql} = 0 THEN " \
              f"'{canonical_text(False)}' END"  # fmt: skip
    return _computed(sql, "text", Kind.DOUBLE, term)


def _text(node: exp.Expr, rows: Writer) -> Term:
    term = value_term(node, rows)
    if term.shape != "text":
        raise error_at(
            node, "wrong_kind", "expected a text here; CAST(… AS VARCHAR) makes one of a whole number"
        )
    return term


def _count(node: exp.Expr, rows: Writer) -> int:
    number = constant_of(node, rows.domain)
    if number is None or number != int(number) or not 0 <= number <= LONGEST_TEXT:
        refuse(node, f"a number of characters other than 0 to {LONGEST_TEXT:,}")
    return int(number)


def _of_text(node: exp.Expr, rows: Writer) -> Term:
    names = ("this", "expression", "start", "length", "replacement")
    first, *others = [one for name in names if isinstance(one := node.args.get(name), exp.Expr)]
    counts, texts = list[int](), [_text(first, rows)]
    if isinstance(node, exp.Left | exp.Right | exp.Substring):
        counts = [_count(one, rows) for one in others]
    else:
        texts += [_text(one, rows) for one in others]
    if isinstance(node, exp.Substring) and counts[0] < 1:
        refuse(node, "SUBSTRING that begins before the first character, which is 1")
    sql = f"{node.key}({', '.join([*(one.sql for one in texts), *map(str, counts)])})"
    if isinstance(node, exp.Length):
        return _computed(f"CAST({sql} AS DOUBLE)", "number", Kind.WHOLE, *texts)
    return _computed(sql, "text", Kind.DOUBLE, *texts)


def _joined(node: exp.Expr, rows: Writer) -> Term:
    """Return ``||``, which is NULL where a side is, or CONCAT, which leaves NULL out."""
    is_concat = isinstance(node, exp.Concat)
    if is_concat and not node.args.get("safe"):  # two texts without anything between them
        refuse(node)
    sides = [_as_text(one, rows) for one in (node.expressions or (node.this, node.expression))]
    form, sign = ("concat({})", ", ") if is_concat else ("({})", " || ")
    return _computed(form.format(sign.join(one.sql for one in sides)), "text", Kind.DOUBLE, *sides)


def _coalesce(node: exp.Expr, rows: Writer) -> Term:
    terms = [value_term(one, rows) for one in (node.this, *node.args["expressions"])]
    return _chosen(terms, lambda each: _branched([f"NOT {one.null}" for one in terms[:-1]], each))


def _case(node: exp.Expr, rows: Writer) -> Term:
    branches, default = branches_of(node)
    tests = [rows.decided(truth_of(test, rows)) for test, _ in branches]
    terms = [value_term(one, rows) for one in (*(value for _, value in branches), default)]
    return replace(_chosen(terms, lambda each: _branched(tests, each)), column=has_column(node))


def _branched(tests: Sequence[str], values: Sequence[str]) -> str:
    pairs = " ".join(f"WHEN {test} THEN {one}" for test, one in zip(tests, values, strict=False))
    return f"CASE {pairs} ELSE {values[-1]} END" if pairs else values[-1]


def _chosen(terms: Sequence[Term], written: Callable[[Sequence[str]], str]) -> Term:
    """Return a value that is one of several; NULL is of any kind."""
    held = [one for one in terms if one.shape != "null"]
    shapes = {one.shape for one in held}
    if "number" in shapes and len(shapes) > 1:
        raise QueryError(
            "CASE or COALESCE gives a text in one place and a number in another", code="wrong_kind"
        )
    if not held:
        return Term("NULL", "null", column=any(one.column for one in terms))
    if len(shapes) > 1:  # a date and a text: of both the text is known alone
        held = [one if one.shape == "text" else replace(one, shape="text", sql=one.label) for one in held]
        terms = [
            one if one.shape not in PERIODS else replace(one, shape="text", sql=one.label) for one in terms
        ]
    sql, label = (written([_part_of(one, part) for one in terms]) for part in ("sql", "label"))
    kind = max(one.kind for one in held)
    made = _made(sql, held[0].shape, kind, *terms, label="" if held[0].shape == "number" else label)
    return replace(
        made, undeclared=written([one.undeclared or "FALSE" for one in terms]) if made.undeclared else ""
    )


def _part_of(term: Term, part: str) -> str:
    return "NULL" if term.shape == "null" else str(getattr(term, part))


_TERMS: dict[type[exp.Expr], Callable[[exp.Expr, Writer], Term]] = {
    **dict.fromkeys((exp.Column, exp.Dot), _column),
    **dict.fromkeys(PART_NODES, _part),
    **dict.fromkeys((exp.Literal, exp.Boolean, exp.Null), _literal),
    **dict.fromkeys(_OPERATORS, _arithmetic),
    **dict.fromkeys((exp.Floor, exp.Ceil, exp.Sqrt, exp.Ln), _function),
    exp.Round: _round,
    exp.Abs: _absolute,
    **dict.fromkeys((exp.Greatest, exp.Least), _extreme),
    exp.Cast: _cast,
    **dict.fromkeys(TEXT_FUNCTIONS, _of_text),
    **dict.fromkeys((exp.DPipe, exp.Concat), _joined),
    exp.Coalesce: _coalesce,
    **dict.fromkeys((exp.Case, exp.If), _case),
}


# --- conditions ---------------------------------------------------------------------------------------------


def truth_of(node: exp.Expr, rows: Writer) -> Truth:
    """Return whether a condition holds."""
    node = rewritten(node)
    if isinstance(node, exp.Not):
        return truth_of(node.this, rows).negated
    return rows.once(("condition", node), lambda: rows.held(_truth(node, rows)))


def _truth(node: exp.Expr, rows: Writer) -> Truth:
    with placed(node):
        if isinstance(node, exp.And | exp.Or):
            one, two = truth_of(node.this, rows), truth_of(node.expression, rows)
            return one.both(two) if isinstance(node, exp.And) else one.either(two)
        if isinstance(node, exp.Null):
            return NEVER
        if isinstance(node, exp.Boolean):
            return Truth.certain("TRUE" if node.this else "FALSE")
        if is_operand(node) and not isinstance(node, exp.Column) and type(node) not in CHOICES:
            return compared_terms(value_term(node, rows), "ne", _constant(0, Kind.WHOLE), rows)
        if not is_computed(node):
            return _native(node, rows)
        errors = _errors_of_part(node, rows.domain)
        found = _TRUTHS[type(node)](node, rows)
        for holds, error in zip((some, some_decided), errors, strict=False):
            rows.check(found.sql or f"CASE WHEN NOT {found.null} THEN {found.true} END", holds, error)
        return found


def _errors_of_part(node: exp.Expr, domain: Domain) -> tuple[Callable[[], QueryError], ...]:
    """Return the errors of a part of dates and constants: if it never holds, and if no cell tells of it."""
    is_plain = isinstance(node, (*COMPARISONS, exp.Between, exp.In))
    sides = [one.unnest() for one in node.iter_expressions()] if is_plain else []
    parts = [one for one in sides if isinstance(one, PART_NODES)]
    if len(parts) != 1 or any(has_column(one) for one in sides if one is not parts[0]):
        return ()
    name, part = part_of(parts[0], domain)
    position, attribute = position_of(node), part.of(domain[name], None)
    wanted = {"number": "a whole number", "text": "a text"}.get(part.kind)
    for value in map(literal_value, sides):
        if value is None or wanted is None:
            continue
        if (part.kind == "text") != isinstance(value, str) or (not isinstance(value, str) and value % 1):
            message = f"{part.shown(quoted_name(name))} is {wanted}; got {shown_value(value)}"
            raise error_at(node, "wrong_kind", message)
    errors = (lambda: part.is_nowhere(attribute, position)), (lambda: part.cuts(attribute, position))
    return errors if part.periods else ()


def _native(node: exp.Expr, rows: Writer) -> Truth:
    """Return a plain comparison of an attribute, whose cells are decided without an engine."""
    predicate = convert_condition(node, rows.domain)
    holds, fails = (
        CellCondition.of(count_where(one, rows.domain)) for one in (predicate, negation(predicate))
    )
    scope = holds.scope or fails.scope
    if not scope:
        return Truth.certain("TRUE" if holds.most else "FALSE" if fails.most else "CAST(NULL AS BOOLEAN)")
    holds, fails = (one.placed(rows.domain, scope) for one in (holds, fails))
    flags = {"m": holds.most, "g": fails.most, "p": holds.weights}
    number = rows.new(("holds", node), scope[0], flags=flags).number
    if holds.is_decided and fails.is_decided:
        return Truth.certain(f"CASE WHEN m{number} THEN TRUE WHEN g{number} THEN FALSE END")
    return Truth(f"m{number}", f"g{number}", f"(NOT (m{number} OR g{number}))", f"p{number}")


def compared_terms(one: Term, sign: Order, two: Term, rows: Writer) -> Truth:
    """Return whether two values compare as a sign says; what is compared with NULL is unknown."""
    if "null" in (one.shape, two.shape):
        return NEVER
    periods = {one.shape, two.shape}.intersection(PERIODS)
    if periods:
        one, two = (_dated(*sides, periods, rows) for sides in ((one, two), (two, one)))
    elif one.shape == two.shape == "text":
        return _compared_texts(one, sign, two)
    elif "text" in (one.shape, two.shape):
        raise _mixed(one, two, rows)
    return _Difference(one, two, rows).truth(sign)


def _compared_texts(one: Term, sign: Order, two: Term) -> Truth:
    if sign not in ("eq", "ne") and any(side.column and not side.ordered for side in (one, two)):
        raise _no_order(one, two)
    open_ = one.open | two.open
    if not (one.plain and two.plain):  # a witness is complete for texts that are compared as they stand
        open_ |= {one.undeclared, two.undeclared} - {""}
    return Truth.unless(
        f"({one.sql} {_SIGNS[sign]} {two.sql})", open_, one.lost | two.lost, "1e0" if sign == "ne" else "0e0"
    )


def _no_order(one: Term, two: Term) -> QueryError:
    sides = [term.source for term in (one, two) if term.source is not None and term.source.declared]
    names = [quoted_name(*values.scope) for values in sides]
    texts = [example_texts(sorted(values.declared))[0] for values in sides]
    way = ""
    if len(set(names)) == 1:
        way = f", as in {names[0]} IN ({texts[0]})"
    elif names:
        way = f", or list pairs, as in ({', '.join(names)}) IN (({', '.join(texts)}))"
    return QueryError(f"texts are categorical and have no order; use =, <> or IN{way}", code="wrong_kind")


def _dated(term: Term, other: Term, shapes: set[str], rows: Writer) -> Term:
    """Return the seconds of dates and times, or of times of day, also of a text that is one."""
    if shapes == {term.shape}:
        return term
    text = rows.written(term)
    attributes = (rows.domain[name] for name in _names_in(other, rows))
    usual: Callable[[object], int | None] = (
        read_clock if other.shape == "clock" else partial(read_seconds, zone="UTC")
    )
    own = [one for one in attributes if isinstance(one, Periods) and one.shape == other.shape]
    seconds = [] if text is None else [one.read_second(text) for one in own] or [usual(text)]
    second = next((one for one in seconds if one is not None), None)
    if second is None:
        raise _mixed(other, term, rows)
    return Term(_constant(second, Kind.WHOLE).sql, other.shape, Kind.WHOLE)


def _mixed(one: Term, two: Term, rows: Writer) -> QueryError:
    periods = {one.shape, two.shape}.intersection(PERIODS)
    text = next((side for side in (one, two) if side.shape == "text"), None)
    way = ""
    if not periods and text is not None:
        way = "; a number stands without quotes, and CAST(… AS VARCHAR) makes texts of whole numbers"
    elif text is None and periods == {"dated"}:
        way = "; a date is a text such as '2023-12-31'"
    elif text is None and periods == {"clock"}:
        way = "; a time of day is a text such as '08:30'"
    return QueryError(
        f"expected two values of one kind, got {_kind(one, rows)} and {_kind(two, rows)}{way}",
        code="wrong_kind",
    )


def _kind(term: Term, rows: Writer) -> str:
    if not term.column:
        text = rows.written(term)
        return "a number" if text is None else f"the text {shown_value(text)}"
    return f"{_PERIODS_CALLED.get(term.shape, f'{term.shape}s')} of {' and '.join(_names_in(term, rows))}"


def _names_in(term: Term, rows: Writer) -> tuple[str, ...]:
    numbers = set(re.findall(r"(?:\x01|\b[a-z])([0-9]+)", term.sql))
    return rows.domain.scope(
        list({one.attribute for one in rows.inputs.values() if str(one.number) in numbers})
    )


class _Difference:
    """By how much two numbers differ: at least and at most, where both are there."""

    def __init__(self, one: Term, two: Term, rows: Writer) -> None:
        self.one, self.two, self.rows = one, two, rows
        (self.a, self.b), (self.c, self.d) = rows.ends(one), rows.ends(two)
        number = rows.new_number()
        self.is_point = not (one.spots or two.spots)
        self.is_whole = one.whole and two.whole
        self.open, self.lost = sorted(one.open | two.open), sorted(one.lost | two.lost)
        self.low = self.high = f"x{number}"
        if not self.is_point:
            self.high = f"y{number}"
        rows.staged({self.low: f"{self.a} - {self.d}", self.high: f"{self.b} - {self.c}"})
        self.near = self._near()

    def may(self, sign: Order) -> str:
        """Return SQL of whether they may compare so by their ends; NULL of NULL."""
        if self.is_point:
            return f"({self.low} {_SIGNS[sign]} 0)"
        if sign == "eq":
            return f"({self.low} <= 0 AND {self.high} >= 0)"
        if sign == "ne":
            return f"(NOT ({self.low} = 0 AND {self.high} = 0))"
        return f"({self.low if sign in ('lt', 'le') else self.high} {_SIGNS[sign]} 0)"

    def possible(self, sign: Order) -> str:
        """Return SQL of whether some numbers may compare so."""
        return either(f"coalesce({self.may(sign)}, FALSE)", *self.open, *self.lost, *self.near)

    def truth(self, sign: Order) -> Truth:
        if self.is_point and self.is_whole:
            return Truth.unless(self.may(sign), self.open, self.lost, "1e0" if sign == "ne" else "0e0")
        null, opened = f"({self.low} IS NULL)", either(*self.open, *self.near)
        unclear = [f"({opened} AND NOT {null})"] if opened else []
        true, false = (
            either(f"coalesce({self.may(one)}, FALSE)", *unclear, *self.lost)
            for one in (sign, _NEGATED[sign])
        )
        return Truth(true, false, either(null, *self.lost), f"coalesce({self._share(sign)}, 0e0)")

    def _share(self, sign: Order) -> str:
        low, high = self.low, self.high
        if sign in ("eq", "ne"):
            inside, share = f"({low} <= 0 AND {high} >= 0)", "0e0"
            if self.is_whole:
                both = f"least({self.b}, {self.d}) - greatest({self.a}, {self.c}) + 1"
                pairs = f"(({self.b} - {self.a} + 1) * ({self.d} - {self.c} + 1))"
                share = f"greatest(0e0, least(1e0, ({both}) / {pairs}))"
            equal = f"CASE WHEN {inside} THEN {share} ELSE 0e0 END"
            return equal if sign == "eq" else f"(1e0 - {equal})"
        part = high if sign in ("gt", "ge") else f"-{low}"
        width = f"CASE WHEN {high} > {low} THEN {high} - {low} ELSE 1e0 END"
        return f"greatest(0e0, least(1e0, ({part}) / ({width})))"

    def _near(self) -> list[str]:
        """Return a column of whether numbers differ by so little that their rounding may be all of it."""
        if self.is_whole:
            return []
        ends = dict.fromkeys((self.a, self.b, self.c, self.d))
        least = f"{_ROUNDING} * greatest({', '.join(f'abs({end})' for end in ends)})"
        near = [f"({end} <> 0 AND abs({end}) <= {least})" for end in dict.fromkeys((self.low, self.high))]
        column = f"x{self.rows.new_number()}"
        self.rows.staged({column: f"coalesce({' OR '.join(near)}, FALSE)"})
        return [column]


def _compared(left: exp.Expr, sign: Order, right: exp.Expr, rows: Writer) -> Truth:
    """Return a comparison; of numbers that the declared ends never satisfy it is refused."""
    for inner, other in ((left.unnest(), right), (right.unnest(), left)):
        text = literal_value(other) if isinstance(inner, exp.Dot) else None
        if text is not None:  # one of those of the lookup
            attribute = LookupCells.of(inner, rows.domain).domain.attributes[0]
            meaning_of(attribute).named_cells(Comparison(attribute.name, sign, (text,), position_of(inner)))
    one, two = value_term(left, rows), value_term(right, rows)
    of_part = isinstance(left.unnest(), PART_NODES) or isinstance(right.unnest(), PART_NODES)
    if of_part or not (one.column or two.column) or one.shape != "number" or two.shape != "number":
        if sign in ("eq", "ne") and one.shape == two.shape == "text":
            name = rows.texts.get(OTHER_LABEL)
            one, two = _named(one, two, name), _named(two, one, name)
        return compared_terms(one, sign, two, rows)
    difference = _Difference(one, two, rows)
    signs: tuple[Order, ...] = ("le", "ge") if sign in ("eq", "ne") else (sign,)  # beyond either end
    for each in signs:
        rows.check(difference.possible(each), some, lambda: _empty_range(left, one, right, two, rows))
    return difference.truth(sign)


def _named(term: Term, other: Term, name: str | None) -> Term:
    """Return a text in which undeclared ones are called by the name of their cell, where one asks for it."""
    is_name = name is not None and other.sql == f"${name}"
    return replace(term, sql=term.label) if is_name and term.undeclared else term


def _empty_range(left: exp.Expr, one: Term, right: exp.Expr, two: Term, rows: Writer) -> QueryError:
    written, other, value = (left, right, two) if one.column else (right, left, one)
    told = "no declared values satisfy it"
    with suppress(QueryError):  # of values that no cell tells
        own = Writer(rows.domain)
        values = own.values(value_term(written, own))
        if not value.column and values.present.any():
            ends = values.low[values.present].min(), values.high[values.present].max()
            low, high = (number_text(float(end)) for end in ends)
            told = f"got {other.sql()}; {written.sql()} goes from {low} to {high}"
    return QueryError(
        f"an empty range: {told} (values outside count as the declared ends)", code="empty_range"
    )


def _comparison(node: exp.Expr, rows: Writer) -> Truth:
    require_declared(node.this, node.expression, rows.domain)
    sides = node.this.unnest(), node.expression.unnest()
    if not any(map(has_column, sides)) and any(isinstance(one, exp.Boolean | exp.Null) for one in sides):
        refuse(node, "a comparison without an attribute")
    if len({is_operand(one) for one in sides if not isinstance(one, exp.Boolean)}) > 1:
        refuse(node, f"a comparison of a comparison{apart(node)}")
    for inner, other in (sides, sides[::-1]):
        is_condition = not is_operand(inner) or type(inner) in CHOICES
        if isinstance(other, exp.Boolean) and is_condition and isinstance(node, exp.EQ | exp.NEQ):
            found = truth_of(inner, rows)
            return found if isinstance(node, exp.EQ) == bool(other.this) else found.negated
    return _compared(node.this, COMPARISONS[type(node)], node.expression, rows)


def _membership(node: exp.Expr, rows: Writer) -> Truth:
    if not node.expressions:
        raise error_at(node, "syntax", "IN needs at least one value")
    return functools.reduce(Truth.either, [_compared(node.this, "eq", one, rows) for one in node.expressions])


def _is(node: exp.Expr, rows: Writer) -> Truth:
    """Return IS NULL, IS TRUE or IS FALSE, which are never NULL themselves."""
    inner, asked = node.this.unnest(), node.expression
    if isinstance(asked, exp.Boolean):
        test = exp.EQ(this=inner, expression=exp.true()) if isinstance(inner, exp.Column) else inner
        found = truth_of(test, rows)
        return (found if asked.this else found.negated).is_true
    if not isinstance(asked, exp.Null):
        refuse(node, "IS with anything but NULL, TRUE or FALSE")
    return _nulls(value_term(inner, rows)) if is_operand(inner) else truth_of(inner, rows).is_null


def _nulls(term: Term) -> Truth:
    return Truth.unless(term.null, term.lost, ())


def _distinct(node: exp.Expr, rows: Writer) -> Truth:
    require_declared(node.this, node.expression, rows.domain)
    one, two = (value_term(side, rows) for side in (node.this, node.expression))
    found = _nulls(one).both(_nulls(two))
    if "null" not in (one.shape, two.shape):
        equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
        found = found.either(truth_of(equal, rows).is_true)
    return found if isinstance(node, exp.NullSafeEQ) else found.negated


def _pattern(node: exp.Expr, rows: Writer) -> Truth:
    like, escape = (node.this, node.expression) if isinstance(node, exp.Escape) else (node, None)
    mark = None if escape is None else quoted(escape, node)
    pattern, term = quoted(like.expression, node), value_term(like.this, rows)
    only, is_any = like_kind(pattern, mark)
    if term.shape not in ("text", "null"):
        raise error_at(
            node,
            "wrong_kind",
            f"LIKE compares texts, and {like.this.sql()} holds none; CAST(… AS VARCHAR) makes texts of whole "
            "numbers",
        )
    ending = "" if mark is None else f" ESCAPE {rows.text(mark)}"
    sql = f"({term.sql} {like.key.upper()} {rows.text(pattern)}{ending})"
    found = Truth.unless(sql, term.open | ({term.undeclared} - {""}), term.lost)
    if term.shape == "null":
        found = NEVER
    elif is_any:
        found = Truth.unless(f"(CASE WHEN {term.null} THEN NULL ELSE TRUE END)", (), term.lost)
    elif only is not None and isinstance(like, exp.Like):
        text = rows.text(only)
        found = _compared_texts(term, "eq", Term(text, "text", Kind.DOUBLE, text))
    return found.negated if like.args.get("negate") else found


def _choice_of_conditions(node: exp.Expr, rows: Writer) -> Truth:
    branches, default = branches_of(node)
    tests = [rows.decided(truth_of(test, rows)) for test, _ in branches]
    found = [rows.decided(truth_of(one, rows)) for one in (*(value for _, value in branches), default)]
    return Truth.certain(_branched(tests, found))


def _first_known(node: exp.Expr, rows: Writer) -> Truth:
    found = [rows.decided(truth_of(one, rows)) for one in (node.this, *node.args["expressions"])]
    return Truth.certain(f"coalesce({', '.join(found)})")


_TRUTHS: dict[type[exp.Expr], Callable[[exp.Expr, Writer], Truth]] = {
    **dict.fromkeys(COMPARISONS, _comparison),
    exp.Between: lambda node, rows: truth_of(ranges_of(node), rows),
    exp.In: _membership,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _distinct),
    exp.Is: _is,
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), _pattern),
    **dict.fromkeys((exp.Case, exp.If), _choice_of_conditions),
    exp.Coalesce: _first_known,
}
