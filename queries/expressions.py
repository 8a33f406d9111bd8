"""Expressions of answers: aggregates of cells, COUNT among them, arithmetic on them, and conditions on them.

All of it is a function of the statement and of the declared attributes. What an aggregate comes to is
computed elsewhere, from what was released (``pmw.public.aggregates``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellValues, Line, on_scope, require_finite, union_scope
from queries.cells import GroupValue
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.work import count_cells

Sign: TypeAlias = Literal["+", "-", "*", "/"]


class Expression:
    """What a column, a condition on answers or an order is made of.

    ``parts`` names the fields with the expressions that this one is made of.
    """

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = ()

    def leaves(self) -> tuple[AggregateNode, ...]:
        """Return the aggregates of the expression, each once."""
        found = [leaf for node in inner_nodes(self) for leaf in node.leaves()]
        return tuple({id(leaf): leaf for leaf in found}.values())

    def events(self) -> tuple[Node, ...]:
        """Return what of it has an interval of its own, each once: aggregates, and windows of answers."""
        found = [node for inner in inner_nodes(self) for node in inner.events()]
        return tuple({id(node): node for node in found}.values())

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole by their declaration."""
        rule = _WHOLE.get(type(self))
        return rule is not None and rule(self)


def inner_nodes(owner: Any) -> tuple[Node, ...]:
    """Return the expressions that an expression, or a condition on answers, is made of."""
    return tuple(node for name in owner.parts for node in _nodes_in(getattr(owner, name)))


def _nodes_in(part: Any) -> tuple[Node, ...]:
    if isinstance(part, tuple):
        return tuple(node for one in part for node in _nodes_in(one))
    if isinstance(part, Sorting):
        return (part.node,)
    return inner_nodes(part) if isinstance(part, Compared | Joined) else () if part is None else (part,)


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A number, a text, or None for NULL."""

    value: float | str | bool | None

    @property
    def number(self) -> float:
        """The number."""
        if isinstance(self.value, str) or self.value is None:
            raise QueryError("arithmetic needs numbers", code="wrong_kind")
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class KeyFunction(Expression):
    """A value of a group, or a function of such values as ``UPPER(sex)``.

    Args:
        values: of the function, by the places of the group's values.
        in_order: it is a value itself, of groups that stand in the order of their values.
    """

    places: tuple[int, ...]
    values: Mapping[tuple[int, ...], GroupValue]
    in_order: bool = False

    def value(self, places: Sequence[int]) -> GroupValue:
        """Return what it is in a group, by the places of the group's values."""
        return self.values[tuple(places[one] for one in self.places)]


class Aggregate(Expression):
    """What is answered for each group, of records where a ``condition`` holds beside the statement's."""

    __slots__ = ()

    def leaves(self: Any) -> tuple[AggregateNode, ...]:
        """Return the aggregate itself."""
        return (self,)

    def events(self: Any) -> tuple[Node, ...]:
        """Return the aggregate itself."""
        return (self,)

    @property
    def is_count(self) -> bool:
        """Whether it is the number of all records of a group, COUNT(*)."""
        return False

    @property
    def steps(self) -> int:
        """How many numbers are looked at for it."""
        return 1


class Summed(NamedTuple):
    """The values that a sum is of: a line of an attribute's, in its cells ``held``; else exact weights."""

    line: Line
    held: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Linear(Aggregate):
    """A sum over records of a weight of each record's cell, such as COUNT or SUM.

    Args:
        scope: attribute names in declared order.
        low, middle, high: float64, one axis per attribute: the least and the greatest weight of a record of
            the cell, and the weight that stands for it.
        counting: the weights are those of a condition: a number of records.
        summed: which values the weights are; None where they are no line of one attribute's.
        values: the numbers of values that it is a sum of: it is NULL where there is none of one of them.
    """

    scope: tuple[str, ...]
    low: NDArray[np.float64]
    middle: NDArray[np.float64]
    high: NDArray[np.float64]
    counting: bool = False
    summed: Summed | None = None
    condition: CellCondition | None = None
    values: tuple[Linear, ...] = ()

    @property
    def is_count(self) -> bool:
        """Whether it is the number of all records."""
        of_all = not self.scope and self.condition is None and not self.values
        return self.counting and of_all and bool(self.low == 1)

    def times(self, factor: float) -> Linear:
        """Return the sum of multiplied weights."""
        ends = (self.low * factor, self.high * factor)
        low, high = ends if factor >= 0 else ends[::-1]
        summed = self.summed
        if summed is not None:
            summed = summed._replace(line=summed.line._replace(factor=summed.line.factor * factor))
        counting = self.counting and factor == 1
        return replace(
            self, low=low, middle=self.middle * factor, high=high, counting=counting, summed=summed
        )

    def plus(self, other: Linear, domain: Domain) -> Linear:
        """Return the sum of both sums."""
        together = _is_same(self, other)
        one, two = (form if together else form.of_all_records(domain) for form in (self, other))
        scope = union_scope(domain, (one.scope, two.scope))
        low, middle, high = (
            on_scope(domain, one.scope, left, scope) + on_scope(domain, two.scope, right, scope)
            for left, right in zip(one.arrays, two.arrays, strict=True)
        )
        summed = one.summed if np.array_equal(two.low, two.high) else None
        return Linear(scope, low, middle, high, False, summed, one.condition, self.values + other.values)

    def of_all_records(self, domain: Domain) -> Linear:
        """Return the same sum over all records, of which those that are not meant weigh nothing."""
        if self.condition is None:
            return self
        scope = union_scope(domain, (self.scope, self.condition.scope))
        where = self.condition.placed(domain, scope)
        low, middle, high = (on_scope(domain, self.scope, one, scope) for one in self.arrays)
        low = np.where(where.least, low, np.where(where.most, np.minimum(low, 0.0), 0.0))
        high = np.where(where.least, high, np.where(where.most, np.maximum(high, 0.0), 0.0))
        return Linear(scope, low, middle * where.weights, high, self.counting, values=self.values)

    @property
    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The three weights of each cell."""
        return self.low, self.middle, self.high


@dataclass(frozen=True, slots=True, eq=False)
class Ratio(Aggregate):
    """One sum divided by another over the same scope, such as AVG; there is none where the other is 0."""

    numerator: Linear
    denominator: Linear

    def times(self, factor: float) -> Ratio:
        """Return the ratio times a number."""
        return Ratio(self.numerator.times(factor), self.denominator)


@dataclass(frozen=True, slots=True)
class Sorting:
    """What rows are sorted by: an expression, whether the greatest, and whether empty values come first."""

    node: Node
    greatest_first: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Window(Expression):
    """A function of the rows of the table that is answered, such as ``RANK() OVER (ORDER BY COUNT(*))``.

    Args:
        function: ``rank``, ``dense_rank`` or ``row_number``; or of a frame of rows ``count``, ``sum``,
            ``avg``, ``min``, ``max``, ``first`` or ``last``.
        inner: what the frame holds; None for ranks and ``count``.
        partition: rows with equal values of these stand together.
        order: what rows are in the order of.
        frame: the first and the last row, from the own one; None for no end. Without it the frame ends with
            the rows whose order is that of the own one.
        default: what stands where the frame has no row.
    """

    parts: ClassVar[tuple[str, ...]] = ("inner", "default", "partition", "order")

    function: str
    inner: Node | None
    partition: tuple[Node, ...] = ()
    order: tuple[Sorting, ...] = ()
    frame: tuple[int | None, int | None] | None = None
    default: Node | None = None

    def events(self) -> tuple[Node, ...]:
        """Return the window itself, where it is of answers."""
        return (self,) if self.leaves() else ()

    @property
    def is_rank(self) -> bool:
        """Whether it numbers rows."""
        return self.function in ("rank", "dense_rank", "row_number")

    @property
    def follows_answers(self) -> bool:
        """Whether answers decide what order the rows are in."""
        return any(one.node.events() for one in self.order)


@dataclass(frozen=True, slots=True, eq=False)
class Share(Expression):
    """A sum divided by a window's sum, such as ``COUNT(*) / SUM(COUNT(*)) OVER ()``: one event for both."""

    parts: ClassVar[tuple[str, ...]] = ("above", "window")

    above: Linear
    window: Window
    factor: float = 1.0

    def events(self) -> tuple[Node, ...]:
        """Return the share itself."""
        return (self,)


def joined_nodes(sign: Sign, left: Node, right: Node, domain: Domain) -> Node:
    """Return two expressions joined by an operator: one sum or one ratio of sums where they make one."""
    if sign == "/" and right == Constant(0):
        raise QueryError("a division by 0", code="bad_request")
    for side in (left, right):
        form = side.numerator if isinstance(side, Ratio) else side
        if isinstance(form, Linear):
            count_cells(form.low.size, form.scope)
    with np.errstate(over="ignore", invalid="ignore"):
        node = _as_one(sign, left, right, domain) or Arithmetic(sign, left, right)
    for one in (node.numerator, node.denominator) if isinstance(node, Ratio) else (node,):
        if isinstance(one, Linear):
            require_finite(one.low)
            require_finite(one.high)
        elif isinstance(one, Constant) and isinstance(one.value, float):
            require_finite(np.array(one.value))
    return node


def _as_one(sign: Sign, left: Node, right: Node, domain: Domain) -> Node | None:
    """Return the number, the sum or the ratio that two expressions are together; None where they are none."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(_SIGNS[sign](left.number, right.number))
    if isinstance(left, Constant) and isinstance(right, Linear | Ratio) and sign != "/":
        left, right, sign = (right.times(-1.0), left, "+") if sign == "-" else (right, left, sign)
    if isinstance(left, Linear | Ratio) and isinstance(right, Constant):
        if sign in ("*", "/"):
            return left.times(right.number if sign == "*" else 1 / right.number)
        return _moved(left, right.number if sign == "+" else -right.number, domain)
    if isinstance(left, Linear) and isinstance(right, Linear) and sign != "*":
        other = right.times(-1.0) if sign == "-" else right
        return Ratio(left, right) if sign == "/" else left.plus(other, domain)
    if isinstance(left, Linear) and isinstance(right, Window) and (sign, right.function) == ("/", "sum"):
        return _share(left, right)
    return None


def _moved(node: Linear | Ratio, number: float, domain: Domain) -> Node:
    """Return sums and a number: one ratio, where the divisor's weights are known."""
    if isinstance(node, Ratio) and np.array_equal(node.denominator.low, node.denominator.high):
        return Ratio(node.numerator.plus(node.denominator.times(number), domain), node.denominator)
    return Arithmetic("+", node, Constant(number))


def _share(above: Linear, window: Window) -> Share | None:
    if not isinstance(window.inner, Linear):
        return None
    factor = _multiple(above, window.inner)
    return Share(above, window) if factor is None else Share(window.inner, window, factor)


def _multiple(one: Linear, other: Linear) -> float | None:
    """Return what one sum is times another; None where it is no positive multiple."""
    if one.scope != other.scope or not other.high.max() > 0 or not _is_same(one, other):
        return None
    factor = float(one.high.max() / other.high.max())
    same = all(np.allclose(own, factor * two) for own, two in zip(one.arrays, other.arrays, strict=True))
    return factor if same and factor > 0 else None


def _is_same(one: Linear, other: Linear) -> bool:
    first, second = one.condition, other.condition
    if first is second or first is None or second is None:
        return first is second
    count_cells(first.least.size, first.scope)
    pairs = ((first.least, second.least), (first.share, second.share), (first.most, second.most))
    return first.scope == second.scope and all(np.array_equal(*pair) for pair in pairs)


_SIGNS: dict[Sign, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Quantile(Aggregate):
    """A quantile of a number, whose NULL is left out; MIN and MAX are the ``extreme`` ones, of 0 and 1."""

    values: CellValues
    part: float
    extreme: bool = False
    condition: CellCondition | None = None

    @property
    def steps(self) -> int:
        """How many values it may be."""
        return len(np.unique(self.values.low))


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Aggregate):
    """A variance, or its root, of a number whose NULL is left out; of a ``sample`` divided by n - 1."""

    values: CellValues
    sample: bool
    root: bool
    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Correlation(Aggregate):
    """The correlation of two numbers, of the rows that hold both."""

    one: CellValues
    two: CellValues
    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Persons(Aggregate):
    """The number of persons with a record, where several records of each may be kept: COUNT(DISTINCT id)."""

    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """Two expressions joined by ``+``, ``-``, ``*`` or ``/``."""

    parts: ClassVar[tuple[str, ...]] = ("left", "right")

    operator: Sign
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Rounding(Expression):
    """A growing function of an expression, or its absolute value.

    It is ``round`` to some digits, ``floor``, ``ceil``, ``abs``, ``sign``, ``cast`` to a whole number, or
    ``nullif``: none where it is 0.
    """

    parts: ClassVar[tuple[str, ...]] = ("inner",)

    function: str
    inner: Node
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Coalesced(Expression):
    """An expression, or another one where there is none."""

    parts: ClassVar[tuple[str, ...]] = ("inner", "other")

    inner: Node
    other: Node


@dataclass(frozen=True, slots=True)
class Chosen(Expression):
    """An expression that conditions on answers choose, as CASE does; ``other`` stands where none holds."""

    parts: ClassVar[tuple[str, ...]] = ("tests", "choices")

    branches: tuple[tuple[Test, Node], ...]
    other: Node | None = None

    @property
    def tests(self) -> tuple[Test, ...]:
        """The conditions."""
        return tuple(test for test, _ in self.branches)

    @property
    def choices(self) -> tuple[Node, ...]:
        """What may be chosen."""
        return (*(node for _, node in self.branches), *(() if self.other is None else (self.other,)))


@dataclass(frozen=True, slots=True)
class Truth(Expression):
    """A condition on answers, as a number: 1 where it holds, 0 where it does not, none where it is NULL."""

    parts: ClassVar[tuple[str, ...]] = ("test",)

    test: Test


AggregateNode: TypeAlias = Linear | Ratio | Quantile | Spread | Correlation | Persons
Node: TypeAlias = (
    Constant
    | KeyFunction
    | AggregateNode
    | Arithmetic
    | Rounding
    | Coalesced
    | Chosen
    | Truth
    | Window
    | Share
)

EVERYBODY = Linear((), np.ones(()), np.ones(()), np.ones(()), counting=True)  # COUNT(*)


def counted(values: CellValues, condition: CellCondition | None = None) -> Linear:
    """Return the number of records that hold a number and where a condition holds."""
    count_cells(values.present.size, values.scope)
    ones = values.present.astype(np.float64)
    return Linear(values.scope, ones, ones, ones, counting=True, condition=condition)


def total(values: CellValues, condition: CellCondition | None = None) -> Linear:
    """Return the sum of a number over the records that hold one and where a condition holds."""
    of = (counted(values, condition),)
    low, middle, high = (np.where(values.present, one, 0.0) for one in values.arrays)
    counting = all(bool(np.all((one == 0) | (one == 1))) for one in (low, high))
    summed = None if values.line is None else Summed(values.line, values.present)
    return Linear(values.scope, low, middle, high, counting, summed, condition, of)


def average(values: CellValues, condition: CellCondition | None = None) -> Ratio:
    """Return the mean of a number over the records that hold one and where a condition holds."""
    summed = total(values, condition)
    return Ratio(summed, summed.values[0])


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of answers, or IS NULL where there is no other side."""

    parts: ClassVar[tuple[str, ...]] = ("left", "right")

    function: Callable[[Any, Any], bool]
    left: Node
    right: Node | None


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions on answers that all hold, or one of which holds; or that one of them does not."""

    parts: ClassVar[tuple[str, ...]] = ("children",)

    kind: Literal["and", "or", "not"]
    children: tuple[Test, ...]


Test: TypeAlias = Compared | Joined

# Whether the numbers of an expression are whole, by its kind; of any other they are not.
_WHOLE: dict[type, Callable[[Any], bool]] = {
    Constant: lambda one: not isinstance(one.value, float) or one.value.is_integer(),
    Linear: lambda one: one.counting,
    Quantile: lambda one: one.extreme and one.values.whole,
    Persons: lambda _: True,
    Window: lambda one: one.function != "avg" and all(
        node.is_whole for node in (one.inner, one.default) if node is not None),
    Arithmetic: lambda one: one.operator != "/" and one.left.is_whole and one.right.is_whole,
    Rounding: lambda one: one.function in ("floor", "ceil", "cast", "sign") or one.inner.is_whole or (
        one.function == "round" and one.digits <= 0),
    Coalesced: lambda one: one.inner.is_whole and one.other.is_whole,
    Chosen: lambda one: all(node.is_whole for node in one.choices),
    Truth: lambda _: True,
}  # fmt: skip
