"""Parts of conditions on one row: which of them are plain comparisons, and what stands for another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from queries.categories import CategoricalAttribute
from queries.cells import quoted_name
from queries.comparisons import Comparison, Junction, Operator, Order, Predicate, Scalar, negation
from queries.domain import Domain
from queries.errors import QueryError
from queries.sql_dates import dated_text, part_of
from queries.sql_tree import COMPARISONS, PART_NODES, check_node, error_at, operand_of, position_of, refuse

WHOLE_TYPES = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT, exp.DType.TINYINT)
TEXT_FUNCTIONS = (
    *(exp.Lower, exp.Upper, exp.Left, exp.Right, exp.Substring, exp.Length, exp.Trim, exp.Replace),
)
CHOICES = (exp.Case, exp.If, exp.Coalesce)  # of conditions, or of values
_CONDITIONS = (
    *(*COMPARISONS, exp.Between, exp.In, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Like, exp.ILike, exp.Escape, exp.StartsWith, exp.Boolean),
)
_COMPUTED = (
    *(exp.Dot, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Abs, exp.Greatest, exp.Least, exp.Sqrt, exp.Ln, exp.DPipe, exp.Concat, exp.Nullif),
    *(*TEXT_FUNCTIONS, *CHOICES, *PART_NODES),
)


def is_operand(node: exp.Expr) -> bool:
    """Tell whether a node is no condition; TRUE and FALSE are values, too."""
    return isinstance(node, exp.Boolean) or type(node) not in (*_CONDITIONS, exp.And, exp.Or, exp.Not)


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


def apart(node: exp.Expr) -> str:
    """Return how ``1 < a < 2`` is written, which is parsed as ``(1 < a) < 2``."""
    left, right = node.this, node.expression
    if type(left) not in COMPARISONS:
        return ""
    first, second = left.sql(), type(node)(this=left.expression.copy(), expression=right.copy()).sql()
    return f" (write {first} AND {second})"


_DATED = {"dated": ("YEAR", "dates"), "clock": ("HOUR", "times of day")}  # a part that is a number


def wrong_kind(what: str, node: exp.Expr, *, dated: str) -> QueryError:
    """Return the error of an expression that holds no numbers where some are needed, but perhaps dates."""
    name = node.find(exp.Column)
    shown = "" if name is None else f", {name.name!r} holds none"
    if dated in _DATED and name is not None:
        part, held = _DATED[dated]
        way = f"{part}({quoted_name(name.name)}) is a number, and {held} are compared with {held}"
        return error_at(node, "wrong_kind", f"{what} needs numbers, {name.name!r} holds {held}; {way}")
    return error_at(
        node,
        "wrong_kind",
        f"{what} needs numbers{shown}; COUNT(*) with GROUP BY counts values, and CASE WHEN … THEN 1 ELSE 0 "
        "END makes numbers of them",
    )


def require_declared(left: exp.Expr, right: exp.Expr, domain: Domain) -> None:
    """Refuse a name in the place of a value that is no attribute's."""
    if not (isinstance(left, exp.Column) and isinstance(right, exp.Column)):
        return
    name, names = right.name, {one.casefold() for one in (*domain.names, *domain.levels)}
    if name.casefold() in names or left.name.casefold() not in names:
        return
    texts = domain[left.name].texts() if left.name in domain else ()
    text = right.this.args.get("quoted") or name in (texts or ())
    hint = f"; a text stands in single quotes: '{name}'" if text else ""
    raise error_at(right, "unsupported", f"expected a value to compare with, got the name {name!r}{hint}")


def rewritten(node: exp.Expr) -> exp.Expr:
    """Return a node without parentheses, and what is short for something else as that."""
    node = node.unnest()
    one, two = node.this, node.expression
    if isinstance(node, exp.Neg):
        return exp.Sub(this=exp.Literal.number(0), expression=one.copy())
    if isinstance(node, exp.Nullif):
        equal = exp.EQ(this=one.copy(), expression=two.copy())
        return exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=one.copy())
    if isinstance(node, exp.StartsWith):
        start = re.sub(r"([%_!])", r"!\1", quoted(two, node))
        like = exp.Like(this=one.copy(), expression=exp.Literal.string(f"{start}%"))
        return exp.Escape(this=like, expression=exp.Literal.string("!"))
    if isinstance(node, exp.In | exp.EQ | exp.NEQ) and isinstance(names := one.unnest(), exp.Tuple):
        rows = node.expressions if isinstance(node, exp.In) else [two.unnest()]
        found: exp.Expr = exp.or_(*(_row_of_values(names, values) for values in rows), copy=False)
        return exp.Not(this=found) if isinstance(node, exp.NEQ) else found.unnest()
    return node


def _row_of_values(names: exp.Tuple, values: exp.Expr) -> exp.Expr:
    if not isinstance(values, exp.Tuple) or len(values.expressions) != len(names.expressions):
        raise error_at(names, "syntax", f"expected a list of tuples of {len(names.expressions)} values")
    pairs = zip(names.expressions, values.expressions, strict=True)
    return exp.and_(*(exp.EQ(this=name.copy(), expression=value.copy()) for name, value in pairs), copy=False)


def ranges_of(node: exp.Expr) -> exp.Expr:
    """Return BETWEEN as two comparisons, and SYMMETRIC as two ranges."""
    low, high = node.args["low"], node.args["high"]
    known = [number for end in (low, high) if isinstance(number := literal_value(end), float)]
    if node.args.get("symmetric") and known != sorted(known):
        low, high = high, low
    whole = _both(exp.GTE, node.this, low, exp.LTE, high)
    if node.args.get("symmetric") and len(known) < 2:
        return exp.Or(this=whole, expression=_both(exp.GTE, node.this, high, exp.LTE, low))
    return whole


def literal_value(node: exp.Expr) -> float | str | None:
    """Return the number or the text that a node writes; None of anything else."""
    sign, node = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(node, exp.Literal):
        return None
    return str(node.this) if node.is_string else sign * float(node.this)


def _both(
    first: type[exp.Expr], left: exp.Expr, one: exp.Expr, second: type[exp.Expr], two: exp.Expr
) -> exp.Expr:
    sides = [kind(this=left.copy(), expression=end.copy()) for kind, end in ((first, one), (second, two))]
    return exp.And(this=sides[0], expression=sides[1])


def quoted(node: exp.Expr, whole: exp.Expr) -> str:
    """Return a text in quotes, such as the pattern of LIKE."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise error_at(whole, "wrong_kind", "LIKE compares a text with a pattern in quotes, such as 'A%'")
    return str(node.this)


def like_kind(pattern: str, escape: str | None) -> tuple[str | None, bool]:
    """Return the one text that a LIKE matches, None for several, and whether all texts match."""
    if escape is not None and len(escape) != 1:
        raise QueryError(f"ESCAPE needs one character, got {escape[:40]!r}", code="syntax")
    mark = "(?!)" if escape is None else re.escape(escape)
    wild = re.sub(f"{mark}.", "y" if escape == "x" else "x", pattern, flags=re.DOTALL)
    if escape is not None and wild.endswith(escape):
        raise QueryError("a pattern of LIKE does not end with its ESCAPE character", code="syntax")
    only = re.sub(f"{mark}(.)", r"\1", pattern, flags=re.DOTALL)
    return None if re.search("[%_]", wild) else only, bool(wild) and not wild.strip("%")


@contextmanager
def placed(*nodes: exp.Expr) -> Iterator[None]:
    """Have an error that says no place name that of the first part of the text."""
    try:
        yield
    except QueryError as error:
        if error.position is None and nodes:
            error.position = position_of(nodes[0])
        raise


def is_computed(node: exp.Expr) -> bool:
    """Tell whether a condition holds what ``convert_condition`` does not read."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And | exp.Or):
            waiting += [one.this, one.expression]
        elif isinstance(one, exp.Not | exp.Paren):
            waiting.append(one.this)
        elif type(one) in CHOICES or (type(one) in _CONDITIONS and not _is_plain(one)):
            return True
    return False


def _is_plain(node: exp.Expr) -> bool:
    """Tell whether one comparison is of an attribute, or a part of it, with values."""
    if (
        isinstance(node, exp.Is)
        and isinstance(node.expression, exp.Null)
        and isinstance(node.this, PART_NODES)
    ):
        return True  # of an empty date
    for part in node.walk():
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
    if isinstance(node, exp.Cast):
        return has_column(node) or dated_text(node) is None
    if isinstance(node, exp.Neg):
        return has_column(node)
    return isinstance(node, (exp.Tuple, *_COMPUTED))


# --- comparisons with values --------------------------------------------------------------------------------


_WHOLE = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLIPPED: dict[Order, Order] = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def convert_condition(node: exp.Expr, domain: Domain) -> Predicate:
    """Return the predicate that a syntax tree states."""
    check_node(node)
    if isinstance(node, exp.Paren):
        return convert_condition(node.this, domain)
    if isinstance(node, exp.Not):
        return negation(convert_condition(node.this, domain))
    if isinstance(node, exp.And | exp.Or):
        children = tuple(convert_condition(operand, domain) for operand in operands_of(node))
        return Junction("and" if isinstance(node, exp.And) else "or", children)
    if isinstance(node, exp.Column):
        return _lone_attribute(node, domain)
    left, operator, values = _compared(node)
    if operator == "missing":  # so is a part of an empty date
        name, _ = part_of(left, domain) if isinstance(left, PART_NODES) else _named(left, domain)
        return Comparison(name, operator, position=position_of(left))
    name, part = _named(left, domain)
    return Comparison(name, operator, tuple(map(_literal, values)), position_of(left), part)


def _compared(node: exp.Expr) -> tuple[exp.Expr, Operator, list[exp.Expr]]:
    """Return what a comparison is of, its operator and its values."""
    left = node.this
    if isinstance(node, exp.Between):
        return left, "between", [node.args["low"], node.args["high"]]
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return left, "missing", []
    if isinstance(node, exp.In):
        if not node.expressions:
            raise error_at(node, "syntax", "IN needs at least one value")
        return left, "in", node.expressions
    if type(node) not in COMPARISONS:
        refuse(node, "a condition without a comparison")
    right, operator = node.expression, COMPARISONS[type(node)]
    if not isinstance(left, exp.Column | exp.Sub) and isinstance(right, exp.Column | exp.Sub):
        return right, _FLIPPED[operator], [left]
    return left, operator, [right]


def operands_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain such as ``a AND b AND c``, without recursion into its left side."""
    operands: list[exp.Expr] = []
    left: exp.Expr = node
    while type(left) is type(node):
        check_node(left)
        operands.append(left.expression)
        left = left.this
    return [left, *reversed(operands)]


def _lone_attribute(node: exp.Expr, domain: Domain) -> Predicate:
    name, level = _named(node, domain)
    if level is not None:
        raise error_at(node, "wrong_kind", f"{level!r} is a level of {name!r}; expected an attribute")
    attribute = domain[name]
    if isinstance(attribute, CategoricalAttribute) and all(isinstance(one, bool) for one in attribute.values):
        return Comparison(name, "eq", (True,), position_of(node))
    raise error_at(
        node, "syntax", f"expected a comparison, got the attribute {name!r} alone; write {name} = …"
    )


def _named(node: exp.Expr, domain: Domain) -> tuple[str, str | None]:
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
