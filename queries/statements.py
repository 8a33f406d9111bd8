"""Statements: columns that are keys of groups and expressions of aggregates, COUNT among them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, attribute_values, counted_where, on_scope, union_scope
from queries.cells import GroupValue
from queries.comparisons import meaning_of, resolve_attribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import EVERYBODY, AggregateNode, KeyColumn, Node, Quantile, Test, average, total
from queries.linear import LinearQuery

MOST_BINS = 10_000  # answers that one question may ask for
BAR_COLUMNS = ("low", "high", "source")  # what a table has of an aggregate ``n`` beside ``n``: ``n_low``, …
CLIPPED = "numbers beyond the declared ends count as the ends"


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


@dataclass(frozen=True, slots=True)
class Sorting:
    """What groups are sorted by: an expression, whether the greatest, and whether empty values come first."""

    node: Node
    greatest_first: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement whose columns are the keys of groups, then expressions of aggregates.

    Args:
        where: the question that counts the records that are asked about.
        groupings: what groups them; none for one group that holds all of them.
        columns: what is answered for each group; those without aggregates come first.
        having: which groups are shown, by their answers.
        order: what groups are sorted by.
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
    order: tuple[Sorting, ...] = ()
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
        both = CellCondition.of(query).both(CellCondition.decided(group.scope, inside), self.domain)
        return counted_where([both], self.domain)

    def _nodes(self) -> list[Node]:
        """Return every expression that has to be answered for a group."""
        tests = () if self.having is None else self.having.nodes()
        return [*(column.node for column in self.columns), *tests, *(one.node for one in self.order)]


def _counts_nobody(query: LinearQuery) -> bool:
    return (query if query.readings is None else query.readings.most).constant == 0


def statement_of(
    kind: str, name: str, where: LinearQuery, by: Sequence[str] = (), *, part: float = 0.5
) -> Statement:
    """Return the statement that asks one aggregate of an attribute.

    Args:
        kind: ``mean``, ``sum`` or ``quantile``.
        name: the attribute.
        where: the question that counts the records that are asked about.
        by: attributes that group them.
        part: of a quantile, in [0, 1].

    Raises:
        QueryError: the attribute is not declared or holds no numbers, or the part is not in [0, 1].
    """
    domain, counts = where.domain, Statement.count_by(where, by)
    if name not in domain:
        attribute_grouping(name, None, domain)  # which refuses it
    values = attribute_values(domain[name])
    if values.labels is not None:
        raise QueryError(
            f"{kind} needs numbers, {name!r} holds none; group_by counts its values", code="wrong_kind"
        )
    if not isinstance(part, int | float) or not 0 <= part <= 1:
        raise QueryError(f"expected a quantile in [0, 1], got {part}; the median is 0.5", code="bad_request")
    nodes: Mapping[str, AggregateNode] = {
        "mean": average(values, None, domain),
        "sum": total(values, None, domain),
        "quantile": Quantile(values, part),
    }
    keys = [column for column in counts.columns if column.is_key]
    title = kind if kind not in by else f"{kind} of {name}"
    columns = (*keys, OutputColumn(title, nodes[kind]))
    return Statement(where, counts.groupings, columns, notes=(CLIPPED,))
