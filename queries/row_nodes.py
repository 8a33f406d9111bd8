"""Parts of conditions on one row: which of them are plain comparisons, and what stands for another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from queries.cells import quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.sql_tree import COMPARISONS, PART_NODES, error_at, position_of

WHOLE_TYPES = (exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT)
CHOICES = (exp.Case, exp.If, exp.Coalesce)  # of conditions, or of values
_CONDITIONS = (
    *(*COMPARISONS, exp.Between, exp.In, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Like, exp.ILike, exp.Escape, exp.StartsWith, exp.Boolean),
)
_COMPUTED = (
    *(exp.Dot, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Abs, exp.Greatest, exp.Least, exp.Lower, exp.Upper, exp.Left, exp.Right, exp.Substring),
    *(exp.Length, exp.DPipe, exp.Nullif, *CHOICES),
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


def period_of(node: exp.Expr) -> str:
    """Return of which period a node is the start, as text; an empty one for anything else."""
    return node.transform(_blanked).sql() if node.find(exp.DateTrunc) else ""


def _blanked(node: exp.Expr) -> exp.Expr:
    return exp.Null() if isinstance(node, exp.Column) else node


def wrong_kind(what: str, node: exp.Expr, *, dated: bool) -> QueryError:
    """Return the error of an expression that holds no numbers where some are needed."""
    name = node.find(exp.Column)
    shown = "" if name is None else f", {name.name!r} holds none"
    if dated and name is not None:
        way = f"YEAR({quoted_name(name.name)}) is a number, and dates are compared with dates"
        return error_at(node, "wrong_kind", f"{what} needs numbers, {name.name!r} holds dates; {way}")
    return error_at(
        node,
        "wrong_kind",
        f"{what} needs numbers{shown}; COUNT(*) with GROUP BY counts values, and CASE WHEN … THEN 1 ELSE 0 "
        "END makes numbers of them",
    )


def require_declared(left: exp.Expr, right: exp.Expr, domain: Domain) -> None:
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


def ranges_of(node: exp.Expr) -> exp.Expr:
    """Return BETWEEN as two comparisons, and SYMMETRIC as two ranges."""
    low, high = node.args["low"], node.args["high"]
    known = [number for end in (low, high) if (number := _literal(end)) is not None]
    if node.args.get("symmetric") and known != sorted(known):
        low, high = high, low
    whole = _both(exp.GTE, node.this, low, exp.LTE, high)
    if node.args.get("symmetric") and len(known) < 2:
        return exp.Or(this=whole, expression=_both(exp.GTE, node.this, high, exp.LTE, low))
    return whole


def _literal(node: exp.Expr) -> float | None:
    """Return the number that a node writes; None of anything else."""
    sign, node = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    is_number = isinstance(node, exp.Literal) and not node.is_string
    return sign * float(node.this) if is_number else None


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


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern of LIKE: ``%`` is any text, ``_`` any character.

    Args:
        text: the pattern.
        escape: the character behind which another one stands for itself; None for none.
        fold: upper and lower case are alike, as for ILIKE.

    Raises:
        QueryError: the pattern ends with the character, or that is not one.
    """

    text: str
    escape: str | None = None
    fold: bool = False

    def __post_init__(self) -> None:
        if self.escape is not None and len(self.escape) != 1:
            raise QueryError(f"ESCAPE needs one character, got {self.escape[:40]!r}", code="syntax")
        self._pieces()

    def _pieces(self) -> list[tuple[str, bool]]:
        """Return the characters, and whether each stands for others."""
        found: list[tuple[str, bool]] = []
        rest = iter(self.text)
        for character in rest:
            if character != self.escape:
                found.append((character, character in ("%", "_")))
                continue
            literal = next(rest, None)
            if literal is None:
                message = "a pattern of LIKE does not end with its ESCAPE character"
                raise QueryError(message, code="syntax")
            found.append((literal, False))
        return found

    @property
    def only(self) -> str | None:
        """The one text that matches; None where several do."""
        pieces = self._pieces()
        if self.fold or any(wild for _, wild in pieces):
            return None
        return "".join(one for one, _ in pieces)

    @property
    def is_any(self) -> bool:
        """Every text matches."""
        pieces = self._pieces()
        return bool(pieces) and all(one == "%" and wild for one, wild in pieces)


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
