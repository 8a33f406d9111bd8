"""Statements: columns that are expressions of aggregates, for each group, in any order and number.

All of it is a function of the statement and of the declared attributes. What an aggregate comes to is
computed elsewhere, from what was released (``pmw.public.aggregates``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellValues, on_scope, union_scope
from queries.domain import Domain
from queries.errors import QueryError
from queries.grouping import MOST_BINS, GroupValue


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, or None for NULL."""

    value: float | str | bool | None


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The value of a group, by the number of its grouping."""

    place: int


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
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

    def times(self, factor: float) -> Linear:
        """Return the sum of multiplied weights."""
        ends = (self.low * factor, self.high * factor)
        low, high = ends if factor >= 0 else ends[::-1]
        return Linear(
            self.scope, low, self.middle * factor, high, self.grouped, self.counting and factor == 1
        )

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
class Ratio:
    """One sum divided by another over the same scope, such as AVG; undefined where the other may be 0."""

    numerator: Linear
    denominator: Linear


@dataclass(frozen=True, slots=True, eq=False)
class Quantile:
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
class Spread:
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
class Correlation:
    """The correlation of two numbers, of the rows that hold both.

    Args:
        one, two: the numbers.
        condition: which records are meant beside the statement's; None for all.
    """

    one: CellValues
    two: CellValues
    condition: CellCondition | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two expressions joined by ``+``, ``-``, ``*`` or ``/``."""

    operator: Literal["+", "-", "*", "/"]
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Rounding:
    """A growing function of an expression, or its absolute value.

    Args:
        function: ``round``, ``floor``, ``ceil``, ``abs``, or ``nullif``: undefined where it may be 0.
        inner: the expression.
        digits: of ``round``.
    """

    function: str
    inner: Node
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Coalesced:
    """An expression, or another one where it is undefined."""

    inner: Node
    other: Node


AggregateNode: TypeAlias = Linear | Ratio | Quantile | Spread | Correlation
Node: TypeAlias = Constant | KeyColumn | AggregateNode | Arithmetic | Rounding | Coalesced


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of answers, or IS NULL where there is no other side."""

    function: Callable[[Any, Any], bool]
    left: Node
    right: Node | None


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions on answers that all hold, or one of which holds; or that one of them does not."""

    kind: Literal["and", "or", "not"]
    children: tuple[Test, ...]


Test: TypeAlias = Compared | Joined


def leaves_of(node: Node) -> list[AggregateNode]:
    """Return the aggregates of an expression, each once."""
    if isinstance(node, Arithmetic):
        found = [*leaves_of(node.left), *leaves_of(node.right)]
        return list({id(leaf): leaf for leaf in found}.values())
    if isinstance(node, Coalesced):
        return leaves_of(Arithmetic("+", node.inner, node.other))
    if isinstance(node, Rounding):
        return leaves_of(node.inner)
    return [] if isinstance(node, Constant | KeyColumn) else [node]


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """What groups records: a value of each cell of a scope.

    Args:
        scope: attribute names in declared order.
        groups: every value, with the cells that hold it: bool, one axis per attribute.
        in_order: the groups stand in the order of their values.
    """

    scope: tuple[str, ...]
    groups: tuple[tuple[GroupValue, NDArray[np.bool_]], ...]
    in_order: bool


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One group: its values, the places of these among the values of each grouping, and its cells."""

    labels: tuple[GroupValue, ...]
    places: tuple[int, ...]
    scope: tuple[str, ...]
    cells: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the SELECT list."""

    title: str
    node: Node


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement whose columns are expressions of aggregates.

    Args:
        domain: the declared attributes.
        where: which records are asked about.
        groupings: what groups them; none for one group that holds all of them.
        columns: what is answered for each group.
        having: which groups are shown, by their answers.
        order: expressions that groups are sorted by, and whether the greatest come first.
        limit: how many groups are shown; None for all.
        offset: how many are left out before them.
        distinct: values alone are asked for: those that no record can have under ``where`` are left out.
        notes: what an analyst has to know about every answer.

    Raises:
        QueryError: there are more groups than MOST_BINS.
    """

    domain: Domain
    where: CellCondition
    groupings: tuple[Grouping, ...]
    columns: tuple[OutputColumn, ...]
    having: Test | None = None
    order: tuple[tuple[Node, bool], ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    notes: tuple[str, ...] = ()
    scope: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        count = math.prod(len(one.groups) for one in self.groupings)
        if count > MOST_BINS:
            raise QueryError(
                f"expected at most {MOST_BINS:,} groups, got {count:,}; group by fewer attributes",
                code="too_large",
            )
        scope = union_scope(self.domain, [self.where.scope, *(one.scope for one in self.groupings)])
        object.__setattr__(self, "scope", scope)

    def groups(self) -> Iterator[Group]:
        """Yield the groups that some record may fall into by the declaration; of none it is said nothing."""
        key_scope = union_scope(self.domain, [one.scope for one in self.groupings])
        shape = self.domain.scope_shape(key_scope)
        numbered = [list(enumerate(one.groups)) for one in self.groupings]
        for chosen in itertools.product(*numbered):
            cells = np.ones(shape, dtype=bool)
            for grouping, (_, (_, mask)) in zip(self.groupings, chosen, strict=True):
                cells = cells & on_scope(self.domain, grouping.scope, mask, key_scope)
            if not cells.any() or (self.distinct and not self._possible(key_scope, cells)):
                continue
            labels = tuple(label for _, (label, _) in chosen)
            yield Group(labels, tuple(place for place, _ in chosen), key_scope, cells)

    def _possible(self, scope: tuple[str, ...], cells: NDArray[np.bool_]) -> bool:
        wide = on_scope(self.domain, scope, cells, self.scope)
        return bool(np.any(wide & on_scope(self.domain, self.where.scope, self.where.most, self.scope)))

    def nodes(self) -> list[Node]:
        """Return every expression that has to be answered for a group."""
        tests = [] if self.having is None else _nodes_of(self.having)
        return [*(column.node for column in self.columns), *tests, *(node for node, _ in self.order)]


def _nodes_of(test: Test) -> Sequence[Node]:
    if isinstance(test, Joined):
        return [node for child in test.children for node in _nodes_of(child)]
    return [test.left] if test.right is None else [test.left, test.right]
