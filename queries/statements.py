"""Statements: columns that are keys of groups and expressions of aggregates, COUNT among them.

All of it is a function of the statement and of the declared attributes. What an aggregate comes to is
computed elsewhere, from what was released (``pmw.public.aggregates``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellValues, on_scope, union_scope
from queries.cells import GroupValue
from queries.comparisons import meaning_of, resolve_attribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery

MOST_BINS = 10_000  # answers that one question may ask for
BAR_COLUMNS = ("low", "high", "source")  # what a table has of an aggregate ``n`` beside ``n``: ``n_low``, …
_LARGEST = 1e100  # numbers whose squares are still numbers

Sign: TypeAlias = Literal["+", "-", "*", "/"]


class Expression:
    """What a column, a condition on answers or an order is made of."""

    __slots__ = ()

    @property
    def inner_nodes(self) -> tuple[Node, ...]:
        """The expressions that this one is made of."""
        return ()

    def leaves(self) -> tuple[AggregateNode, ...]:
        """Return the aggregates of the expression, each once."""
        found = [leaf for node in self.inner_nodes for leaf in node.leaves()]
        return tuple({id(leaf): leaf for leaf in found}.values())

    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """Return the weights and constants that have to be finite."""
        return ()

    @property
    def is_zero(self) -> bool:
        """Whether it is the number 0."""
        return False

    # How two expressions make one, by the kind of the left and then of the right one.

    def joined(self: Any, sign: Sign, right: Node, domain: Domain) -> Node:
        """Return this expression and one to its right, joined by an operator."""
        del domain
        return Arithmetic(sign, self, right)

    def joined_to_number(self: Any, sign: Sign, left: Constant, domain: Domain) -> Node:
        """Return a constant and this expression to its right, joined by an operator."""
        del domain
        return Arithmetic(sign, left, self)

    def joined_to_sums(self: Any, sign: Sign, left: Linear | Ratio, domain: Domain) -> Node:
        """Return sums and this expression to their right, joined by an operator."""
        del domain
        return Arithmetic(sign, left, self)


def joined_nodes(sign: Sign, left: Node, right: Node, domain: Domain) -> Node:
    """Return two expressions joined by an operator: one sum or one ratio of sums where they make one.

    Raises:
        QueryError: a division by 0, or numbers that are too large.
    """
    if sign == "/" and right.is_zero:
        raise QueryError("a division by 0", code="bad_request")
    with np.errstate(over="ignore", invalid="ignore"):
        node = left.joined(sign, right, domain)
    for numbers in node.numbers():
        require_finite(numbers)
    return node


def require_finite(numbers: NDArray[np.float64]) -> None:
    """Refuse numbers whose squares may be none.

    Raises:
        QueryError: one of them is too large.
    """
    if not np.all(np.abs(numbers) <= _LARGEST):
        raise QueryError(f"expected numbers of at most {_LARGEST:g} here", code="bad_request")


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A number, a text, or None for NULL."""

    value: float | str | bool | None

    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """Return the number, where it is a fraction."""
        return (np.array(self.value),) if isinstance(self.value, float) else ()

    @property
    def is_zero(self) -> bool:
        """Whether it is the number 0."""
        return self.value == 0

    @property
    def number(self) -> float:
        """The number.

        Raises:
            QueryError: it is a text, or NULL.
        """
        if isinstance(self.value, str) or self.value is None:
            raise QueryError("arithmetic needs numbers", code="wrong_kind")
        return self.value

    def joined(self, sign: Sign, right: Node, domain: Domain) -> Node:
        """Return the constant and an expression to its right, joined by an operator."""
        return right.joined_to_number(sign, self, domain)

    def joined_to_number(self, sign: Sign, left: Constant, domain: Domain) -> Node:
        """Return the number of both."""
        del domain
        one, two = left.number, self.number
        results = {"+": one + two, "-": one - two, "*": one * two, "/": one / two if two else 0.0}
        return Constant(results[sign])

    def joined_to_sums(self, sign: Sign, left: Linear | Ratio, domain: Domain) -> Node:
        """Return sums times the number, divided by it, or moved by it."""
        if sign in ("*", "/"):
            return left.times(self.number if sign == "*" else 1 / self.number)
        return left.moved(self.number if sign == "+" else -self.number, domain)


@dataclass(frozen=True, slots=True)
class KeyColumn(Expression):
    """The value of a group, by the number of its grouping."""

    place: int


class Aggregate(Expression):
    """What is answered for each group."""

    __slots__ = ()

    def leaves(self: Any) -> tuple[AggregateNode, ...]:
        """Return the aggregate itself."""
        return (self,)

    @property
    def is_count(self) -> bool:
        """Whether it is the number of all records of a group, COUNT(*)."""
        return False

    @property
    def grouped(self) -> bool:
        """Whether it is over the group's records; else it is over those of all groups together."""
        return True


class SumsOfRecords(Aggregate):
    """A sum over records, or a ratio of sums: arithmetic with numbers makes another one of it."""

    __slots__ = ()

    def joined(self: Any, sign: Sign, right: Node, domain: Domain) -> Node:
        """Return the sums and an expression to their right, joined by an operator."""
        return right.joined_to_sums(sign, self, domain)

    def joined_to_number(self: Any, sign: Sign, left: Constant, domain: Domain) -> Node:
        """Return a number times the sums, or moved by them."""
        if sign == "/":
            return Arithmetic(sign, left, self)
        if sign == "*":
            scaled: Linear | Ratio = self.times(left.number)
            return scaled
        node: Linear | Ratio = self if sign == "+" else self.times(-1.0)
        return node.moved(left.number, domain)


@dataclass(frozen=True, slots=True, eq=False)
class Linear(SumsOfRecords):
    """A sum over records of a weight of each record's cell, such as COUNT or SUM.

    Args:
        scope: attribute names in declared order.
        low, middle, high: float64, one axis per attribute: the least and the greatest weight of a record of
            the cell, and the weight that stands for it.
        grouped: over the group's records; else over those of all groups together.
        counting: the weights are those of a condition: a number of records.
    """

    scope: tuple[str, ...]
    low: NDArray[np.float64]
    middle: NDArray[np.float64]
    high: NDArray[np.float64]
    grouped: bool = True
    counting: bool = False

    @property
    def is_count(self) -> bool:
        """Whether it is the number of all records."""
        return self.counting and not self.scope and bool(self.low == 1)

    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """Return the least and the greatest weights."""
        return self.low, self.high

    def times(self, factor: float) -> Linear:
        """Return the sum of multiplied weights."""
        ends = (self.low * factor, self.high * factor)
        low, high = ends if factor >= 0 else ends[::-1]
        return Linear(
            self.scope, low, self.middle * factor, high, self.grouped, self.counting and factor == 1
        )

    def moved(self, number: float, domain: Domain) -> Node:
        """Return the sum and a number."""
        del domain
        return Arithmetic("+", self, Constant(number))

    def joined_to_sums(self, sign: Sign, left: Linear | Ratio, domain: Domain) -> Node:
        """Return sums and this one to their right, joined by an operator."""
        return left.joined_by_sum(sign, self, domain)

    def joined_by_sum(self, sign: Sign, right: Linear, domain: Domain) -> Node:
        """Return this sum and another one to its right: one sum, or their ratio."""
        if sign == "/":
            return Ratio(self, right)
        if sign == "*" or self.grouped != right.grouped:
            return Arithmetic(sign, self, right)
        return self.plus(right if sign == "+" else right.times(-1.0), domain)

    def plus(self, other: Linear, domain: Domain) -> Linear:
        """Return the sum of both sums, which are over the same records."""
        scope = union_scope(domain, (self.scope, other.scope))
        arrays = [
            on_scope(domain, self.scope, one, scope) + on_scope(domain, other.scope, two, scope)
            for one, two in zip(self.arrays, other.arrays, strict=True)
        ]
        return Linear(scope, arrays[0], arrays[1], arrays[2], self.grouped)

    @property
    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The three weights of each cell."""
        return self.low, self.middle, self.high


@dataclass(frozen=True, slots=True, eq=False)
class Ratio(SumsOfRecords):
    """One sum divided by another over the same scope, such as AVG; undefined where the other may be 0."""

    numerator: Linear
    denominator: Linear

    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """Return the least and the greatest weights of both sums."""
        return self.numerator.numbers() + self.denominator.numbers()

    def times(self, factor: float) -> Ratio:
        """Return the ratio times a number."""
        return Ratio(self.numerator.times(factor), self.denominator)

    def moved(self, number: float, domain: Domain) -> Node:
        """Return the ratio and a number: one ratio, where the divisor's weights are known."""
        above, below = self.numerator, self.denominator
        if np.array_equal(below.low, below.high) and above.grouped == below.grouped:
            return Ratio(above.plus(below.times(number), domain), below)
        return Arithmetic("+", self, Constant(number))

    def joined_by_sum(self, sign: Sign, right: Linear, domain: Domain) -> Node:
        """Return the ratio and a sum to its right, joined by an operator."""
        del domain
        return Arithmetic(sign, self, right)


@dataclass(frozen=True, slots=True, eq=False)
class Quantile(Aggregate):
    """A quantile of a number; the least and the greatest number are those of 0 and 1.

    Args:
        values: the number; NULL is left out.
        part: in [0, 1].
        extreme: MIN or MAX, not PERCENTILE_CONT(0 or 1).
        condition: which records are meant beside the statement's; None for all.
    """

    values: CellValues
    part: float
    extreme: bool = False
    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Aggregate):
    """A variance or a standard deviation of a number; NULL is left out.

    Args:
        values: the number.
        sample: divided by n - 1, not by n.
        root: its square root.
        condition: which records are meant beside the statement's; None for all.
    """

    values: CellValues
    sample: bool
    root: bool
    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Correlation(Aggregate):
    """The correlation of two numbers, of the rows that hold both.

    Args:
        one, two: the numbers.
        condition: which records are meant beside the statement's; None for all.
    """

    one: CellValues
    two: CellValues
    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """Two expressions joined by ``+``, ``-``, ``*`` or ``/``."""

    operator: Sign
    left: Node
    right: Node

    @property
    def inner_nodes(self) -> tuple[Node, ...]:
        """Both sides."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Rounding(Expression):
    """A growing function of an expression, or its absolute value.

    Args:
        function: ``round``, ``floor``, ``ceil``, ``abs``, or ``nullif``: undefined where it may be 0.
        inner: the expression.
        digits: of ``round``.
    """

    function: str
    inner: Node
    digits: int = 0

    @property
    def inner_nodes(self) -> tuple[Node, ...]:
        """The expression."""
        return (self.inner,)


@dataclass(frozen=True, slots=True)
class Coalesced(Expression):
    """An expression, or another one where it is undefined."""

    inner: Node
    other: Node

    @property
    def inner_nodes(self) -> tuple[Node, ...]:
        """Both expressions."""
        return self.inner, self.other


AggregateNode: TypeAlias = Linear | Ratio | Quantile | Spread | Correlation
Node: TypeAlias = Constant | KeyColumn | AggregateNode | Arithmetic | Rounding | Coalesced

EVERYBODY = Linear((), np.ones(()), np.ones(()), np.ones(()), counting=True)  # COUNT(*)


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of answers, or IS NULL where there is no other side."""

    function: Callable[[Any, Any], bool]
    left: Node
    right: Node | None

    def nodes(self) -> tuple[Node, ...]:
        """Return the expressions that are compared."""
        return (self.left,) if self.right is None else (self.left, self.right)


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions on answers that all hold, or one of which holds; or that one of them does not."""

    kind: Literal["and", "or", "not"]
    children: tuple[Test, ...]

    def nodes(self) -> tuple[Node, ...]:
        """Return the expressions that are compared."""
        return tuple(node for child in self.children for node in child.nodes())


Test: TypeAlias = Compared | Joined


# --- groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """What groups records: a value of each cell of a scope.

    Args:
        scope: attribute names in declared order.
        groups: every value, with the cells that hold it: int64, their places in the scope's cells in order.
        in_order: the groups stand in the order of their values.
    """

    scope: tuple[str, ...]
    groups: tuple[tuple[GroupValue, NDArray[np.int64]], ...]
    in_order: bool


def attribute_grouping(name: str, part: str | None, domain: Domain) -> Grouping:
    """Return the groups of an attribute's values; those of empty and of undeclared values come last.

    Every declared value has its group, whether records fall into it or not: which values are empty is never
    read off the data.

    Args:
        name: the attribute.
        part: what of its values groups them (``queries.dates``); None for the values themselves.
        domain: the declared attributes.

    Raises:
        QueryError: the attribute is not declared, it has no such part or its cells are wider, or it has more
            values than MOST_BINS.
    """
    attribute = domain[resolve_attribute(name, domain)]
    if part is None:
        _require_few_groups(attribute.size)
        groups = [(attribute.value(code), np.array([code])) for code in range(attribute.size)]
    else:
        special = (code for code in (attribute.missing_code, attribute.other_code) if code is not None)
        groups = [
            *meaning_of(attribute).part_groups(part),
            *((attribute.value(code), np.array([code])) for code in special),
        ]
    return Grouping((name,), tuple(groups), attribute.is_ordered)


def _require_few_groups(count: int) -> None:
    if count > MOST_BINS:
        raise QueryError(
            f"expected at most {MOST_BINS:,} groups, got {count:,}; group by fewer attributes",
            code="too_large",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One group.

    Args:
        labels: its values.
        places: of these among the values of each grouping.
        keys: the attributes of each grouping, and the cells of the value: int64, as ``Grouping`` has them.
        scope: all these attributes, in declared order.
    """

    labels: tuple[GroupValue, ...]
    places: tuple[int, ...]
    keys: tuple[tuple[tuple[str, ...], NDArray[np.int64]], ...]
    scope: tuple[str, ...]

    def inside(self, domain: Domain, scope: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return which cells the group has, shaped to broadcast over a scope that contains its own."""
        inside: NDArray[np.bool_] = np.ones((), dtype=bool)
        for names, cells in self.keys:
            mask = np.zeros(domain.scope_size(names), dtype=bool)
            mask[cells] = True
            inside = inside & on_scope(domain, names, mask, scope)
        return inside


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the SELECT list."""

    title: str
    node: Node

    @property
    def is_key(self) -> bool:
        """Whether it holds values of the groups, or constants, and no answers."""
        return not self.node.leaves()

    @property
    def names(self) -> tuple[str, ...]:
        """What a table calls the column, and the ends and source of its answers."""
        more = () if self.is_key else tuple(f"{self.title}_{name}" for name in BAR_COLUMNS)
        return (self.title, *more)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement whose columns are the keys of groups, then expressions of aggregates.

    Args:
        where: the question that counts the records that are asked about.
        groupings: what groups them; none for one group that holds all of them.
        columns: what is answered for each group; those without aggregates come first.
        having: which groups are shown, by their answers.
        order: expressions that groups are sorted by, and whether the greatest come first.
        limit: how many groups are shown; None for all.
        offset: how many are left out before them.
        distinct: values alone are asked for: those that no record can have under ``where`` are left out.
        notes: what an analyst has to know about every answer.
        condition: where the condition holds, cell by cell; made of ``where`` if it is not given, and None
            where no aggregate but COUNT(*) needs it.

    Attributes:
        leaves: the aggregates, each once.

    Raises:
        QueryError: there are more groups than MOST_BINS, two columns would be called alike, or the
            attributes of the condition have too many cells together for an aggregate other than COUNT(*).
    """

    where: LinearQuery
    groupings: tuple[Grouping, ...]
    columns: tuple[OutputColumn, ...]
    having: Test | None = None
    order: tuple[tuple[Node, bool], ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    notes: tuple[str, ...] = ()
    condition: CellCondition | None = None
    leaves: tuple[AggregateNode, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _require_few_groups(math.prod(len(one.groups) for one in self.groupings))
        columns = sorted(self.columns, key=lambda column: not column.is_key)
        taken = [name for column in columns for name in column.names]
        for place, name in enumerate(taken):
            if name in taken[:place]:
                raise QueryError(
                    f"two columns would be called {name!r}; give one another name with AS", code="bad_request"
                )
        object.__setattr__(self, "columns", tuple(columns))
        leaves = {id(leaf): leaf for node in self._nodes() for leaf in node.leaves()}
        object.__setattr__(self, "leaves", tuple(leaves.values()))
        if self.condition is None and not self.counts_alone:
            object.__setattr__(self, "condition", CellCondition.of(self.where))
        if self.condition is not None:
            union_scope(self.domain, [self.condition.scope, *(one.scope for one in self.groupings)])

    @classmethod
    def count_by(cls, where: LinearQuery, names: Sequence[str] = ()) -> Statement:
        """Return the statement that counts records, for each combination of declared values of attributes.

        Args:
            where: which records.
            names: the attributes; none for one group that holds everybody.

        Raises:
            QueryError: an attribute stands twice or is not declared, or there are too many groups.
        """
        for name in names:
            if list(names).count(name) > 1:
                raise QueryError(f"GROUP BY names an attribute twice: {name!r}", code="bad_request")
        groupings = tuple(attribute_grouping(name, None, where.domain) for name in names)
        keys = [OutputColumn(name, KeyColumn(place)) for place, name in enumerate(names)]
        title = "count" if "count" not in names else "records"
        return cls(where, groupings, (*keys, OutputColumn(title, EVERYBODY)))

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.where.domain

    @property
    def counts_alone(self) -> bool:
        """Whether it has no aggregate but COUNT(*), one in an expression: counting questions answer it."""
        single = all(len(node.leaves()) <= 1 for node in self._nodes())
        return single and all(leaf.is_count for leaf in self.leaves)

    @property
    def size(self) -> int:
        """How many numbers it asks for: its groups, times their aggregates; one without any."""
        return math.prod(len(one.groups) for one in self.groupings) * max(1, len(self.leaves))

    @property
    def single_count(self) -> LinearQuery | None:
        """The question of one COUNT(*) without groups; None where there is anything else."""
        plain = self.counts_alone and len(self.leaves) == 1 and not self.groupings and self.having is None
        return self.where if plain and self.limit is None and not self.offset else None

    def narrowed(self, condition: CellCondition) -> Statement:
        """Return the same of the records where a further condition holds; for what is no COUNT(*)."""
        both = condition if self.condition is None else self.condition.both(condition, self.domain)
        return replace(self, condition=both)

    def groups(self) -> Iterator[Group]:
        """Yield the groups that some record may fall into by the declaration; of none it is said nothing."""
        scope = self.domain.scope(sorted({name for one in self.groupings for name in one.scope}))
        overlap = len(scope) < sum(len(one.scope) for one in self.groupings)
        numbered = [list(enumerate(one.groups)) for one in self.groupings]
        for chosen in itertools.product(*numbered):
            values = [value for _, value in chosen]
            group = Group(
                tuple(label for label, _ in values),
                tuple(place for place, _ in chosen),
                tuple((one.scope, cells) for one, (_, cells) in zip(self.groupings, values, strict=True)),
                scope,
            )
            if overlap and not group.inside(self.domain, scope).any():
                continue
            if self.distinct and _counts_nobody(self.counted(group)):
                continue
            yield group

    def questions(self) -> Iterator[tuple[AggregateNode, Group, LinearQuery]]:
        """Yield the question of each COUNT(*) in each group, group by group."""
        counts = [leaf for leaf in self.leaves if leaf.is_count]
        for group in self.groups():
            for leaf in counts:
                yield leaf, group, self.counted(group) if leaf.grouped else self.where

    def counted(self, group: Group) -> LinearQuery:
        """Return the question that counts the records of a group: a COUNT(*) of it."""
        chosen: dict[str, NDArray[np.int64]] = {}
        wide = []
        for scope, cells in group.keys:
            if len(scope) == 1:  # YEAR(hired) and MONTH(hired) are both of one attribute
                before = chosen.get(scope[0])
                chosen[scope[0]] = cells if before is None else np.intersect1d(before, cells)
            elif scope:
                wide.append((scope, cells))
        query = self.where.within(chosen) if chosen else self.where
        if not wide:
            return query
        inside = Group(group.labels, group.places, tuple(wide), group.scope).inside(self.domain, group.scope)
        inside = np.broadcast_to(inside, self.domain.scope_shape(group.scope))
        cells_of = CellCondition(group.scope, inside, inside.astype(np.float64), inside)
        return CellCondition.of(query).both(cells_of, self.domain).query(self.domain)

    def _nodes(self) -> list[Node]:
        """Return every expression that has to be answered for a group."""
        tests = () if self.having is None else self.having.nodes()
        return [*(column.node for column in self.columns), *tests, *(node for node, _ in self.order)]


def _counts_nobody(query: LinearQuery) -> bool:
    return (query if query.readings is None else query.readings.most).constant == 0
