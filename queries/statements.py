"""Statements: columns that are keys of groups and expressions of aggregates, COUNT among them."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.categories import CategoricalAttribute
from queries.cell_values import CellCondition, attribute_values, counted_where, on_scope, union_scope
from queries.cells import GroupValue
from queries.comparisons import resolve_attribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import (
    EVERYBODY,
    AggregateNode,
    KeyFunction,
    Linear,
    Node,
    Quantile,
    Sorting,
    Test,
    average,
    inner_nodes,
    total,
)
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.memory import held_bytes
from queries.work import require_few_groups, require_fit

_COUNT_BYTES = 2**10  # of a COUNT(*), besides its condition
TOTAL = -1  # the place of a key that a group is a total over
BAR_COLUMNS = ("low", "high", "source")  # what a table has of an aggregate ``n`` beside ``n``: ``n_low``, …
CLIPPED = "numbers beyond the declared ends count as the ends"


Groups: TypeAlias = Sequence[tuple[GroupValue, NDArray[np.int64]]]  # values, and the cells of each


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """What groups records: a value of each cell of a scope.

    Args:
        scope: attribute names in declared order.
        groups: every value, with the cells that hold it: int64, their places in the scope's cells in order.
        in_order: the groups stand in the order of their values.
    """

    scope: tuple[str, ...]
    groups: Groups
    in_order: bool

    def numbers(self, domain: Domain, scope: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the number of each cell's value over a wider scope: int64; past all others for none."""
        found = np.full(domain.scope_size(self.scope), len(self.groups), dtype=np.int64)
        for number, (_, cells) in enumerate(self.groups):
            found[cells] = number
        return np.broadcast_to(on_scope(domain, self.scope, found, scope), domain.scope_shape(scope))

    def column(self, place: int) -> KeyFunction:
        """Return the values of groups as a column, of the grouping that has this number."""
        labels: dict[tuple[int, ...], GroupValue] = {(TOTAL,): None}
        labels |= {(number,): label for number, (label, _) in enumerate(self.groups)}
        return KeyFunction((place,), labels, self.in_order)


def attribute_grouping(
    name: str, level: str | None, domain: Domain, groups: Groups | None = None
) -> Grouping:
    """Return the groups of an attribute's values; those of empty and of undeclared values come last.

    Every declared value has its group, whether records fall into it or not: which values are empty is never
    read off the data. ``level`` or ``groups`` say what groups its declared values, if not they themselves.
    """
    attribute = domain[resolve_attribute(name, domain)]
    base, in_order = attribute.base_size, attribute.is_ordered
    if level is not None:
        coarser = attribute.level(level) if isinstance(attribute, CategoricalAttribute) else None
        parents = np.array([] if coarser is None else coarser.parents, dtype=object)
        groups = [(node, np.flatnonzero(parents == node)) for node in dict.fromkeys(parents.tolist())]
    if groups is None:
        require_few_groups(attribute.size)
        groups = [(attribute.value(code), np.array([code])) for code in range(base)]
    else:
        groups = [(value, cells[cells < base]) for value, cells in groups if cells[0] < base]
        values: list[Any] = [value for value, _ in groups]
        in_order = in_order and values == sorted(values)
    special = [(attribute.value(code), np.array([code])) for code in range(base, attribute.size)]
    return Grouping((name,), (*groups, *special), in_order)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One group.

    Args:
        labels: its values; None also for a key that the group is a total over.
        places: of these among the values of each grouping; TOTAL for a key that it is a total over.
        keys: the attributes of every other grouping, and the cells of the value: int64, as ``Grouping`` has
            them.
        scope: all these attributes, in declared order.
        number: of the group among those of its statement, whatever the condition: idempotency keys hold it.
    """

    labels: tuple[GroupValue, ...]
    places: tuple[int, ...]
    keys: tuple[tuple[tuple[str, ...], NDArray[np.int64]], ...]
    scope: tuple[str, ...]
    number: int = 0

    @property
    def held(self) -> tuple[int, ...]:
        """The numbers of the groupings that it has a value of; of none is the total of all."""
        return tuple(key for key, place in enumerate(self.places) if place != TOTAL)

    def inside(self, domain: Domain, scope: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return which cells the group has, shaped to broadcast over a scope that contains its own."""
        inside: NDArray[np.bool_] = np.ones((), dtype=bool)
        for names, cells in self.keys:
            mask = np.zeros(domain.scope_size(names), dtype=bool)
            mask[cells] = True
            inside = inside & on_scope(domain, names, mask, scope)
        return inside


_ALL = Group((), (), (), ())  # the one group of a statement without groupings


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
        sets: which groupings are taken together, by their places: GROUPING SETS; None for all of them, once.
        columns: what is answered for each group; those without aggregates come first.
        having: which groups are shown, by their answers.
        qualify: which of them are shown, by windows over them.
        order: what groups are sorted by.
        limit: how many groups are shown; None for all.
        offset: how many are left out before them.
        notes: what an analyst has to know about every answer.
        condition: where the condition holds, cell by cell; made of ``where`` if it is not given, and None
            where no aggregate but COUNT(*) needs it.
        one_each: keys; of rows where these are equal the first one alone is shown, whose windows are over all
            of them. None where all rows are.
        arms: statements whose rows stand below each other, where it is UNION ALL of several; the columns are
            called as those of the first, and ``order`` has their places.
        given: statements of one number each, that are asked first. Its condition has their answers, and is
            read again then (``parse_sql``); until then it has 0 for each.
        text: that was read; empty where it was made without one.
        written: the places of ``columns`` as they were written; made of these where it is not given.

    Attributes:
        leaves: the aggregates, each once.
        counts_alone: it has no aggregate but COUNT(*), one in an expression: counting questions answer it.
        choices: from how many groups answers choose the rows that are shown, by HAVING, by QUALIFY, or by
            LIMIT and OFFSET in an order of answers; 1 where they choose none.

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
    notes: tuple[str, ...] = ()
    condition: CellCondition | None = None
    sets: tuple[tuple[int, ...], ...] | None = None
    qualify: Test | None = None
    one_each: tuple[Node, ...] | None = None
    arms: tuple[Statement, ...] = ()
    given: tuple[Statement, ...] = ()
    text: str = field(default="", compare=False)
    written: tuple[int, ...] = ()
    leaves: tuple[AggregateNode, ...] = field(init=False, repr=False)
    counts_alone: bool = field(init=False, repr=False)
    choices: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.arms:
            require_few_groups(sum(arm.count_groups(arm.groupings, arm.sets or ()) for arm in self.arms))
            for name, value in (
                ("leaves", tuple(leaf for arm in self.arms for leaf in arm.leaves)),
                ("counts_alone", all(arm.counts_alone for arm in self.arms)),
                ("choices", 1),
            ):
                object.__setattr__(self, name, value)
            return
        if self.sets is None:
            object.__setattr__(self, "sets", (tuple(range(len(self.groupings))),))
        self.count_groups(self.groupings, self.sets or ())
        places = sorted(range(len(self.columns)), key=lambda place: not self.columns[place].is_key)
        columns = [self.columns[place] for place in places]
        written = self.written or tuple(map(places.index, range(len(places))))
        taken = [name for column in columns for name in column.names]
        for place, name in enumerate(taken):
            if name in taken[:place]:
                raise QueryError(
                    f"two columns would be called {name!r}; give one another name with AS", code="bad_request"
                )
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "written", written)
        leaves = {id(leaf): leaf for node in self._nodes() for leaf in node.leaves()}
        object.__setattr__(self, "leaves", tuple(leaves.values()))
        single = all(node.events() == node.leaves()[:1] for node in self._nodes())
        counts = single and not self.given and all(leaf.is_count for leaf in self.leaves)
        object.__setattr__(self, "counts_alone", counts)
        if self.condition is None and not self.counts_alone:
            object.__setattr__(self, "condition", CellCondition.of(self.where))
        if self.condition is not None:
            names = [*self.condition.scope, *(name for one in self.groupings for name in one.scope)]
            require_fit(self.domain.scope_size(list(dict.fromkeys(names))), names)
        object.__setattr__(self, "choices", self._choices())

    def require_one_step(self) -> None:
        """Refuse a statement whose condition waits for the answers of others.

        Raises:
            QueryError: what to ask instead.
        """
        if self.given:
            raise QueryError(
                "the statement is asked in two steps; ask the sub-query in its condition by itself, and "
                "write its answer there",
                code="unsupported",
            )

    @property
    def alone(self) -> tuple[Statement, ...]:
        """The statements that it consists of: itself, or its arms."""
        return self.arms or (self,)

    @classmethod
    def count_by(cls, where: LinearQuery, names: Sequence[str] = (), text: str = "") -> Statement:
        """Return the statement that counts records, for each combination of declared values of attributes.

        Args:
            where: which records.
            names: the attributes; none for one group that holds everybody.
            text: that was read, if any.

        Raises:
            QueryError: an attribute stands twice or is not declared, or there are too many groups.
        """
        for name in names:
            if list(names).count(name) > 1:
                raise QueryError(f"GROUP BY names an attribute twice: {name!r}", code="bad_request")
        groupings = tuple(attribute_grouping(name, None, where.domain) for name in names)
        keys = [OutputColumn(name, groupings[place].column(place)) for place, name in enumerate(names)]
        title = "count" if "count" not in names else "records"
        return cls(where, groupings, (*keys, OutputColumn(title, EVERYBODY)), text=text)

    @staticmethod
    def count_groups(groupings: Sequence[Grouping], sets: Sequence[tuple[int, ...]]) -> int:
        """Return how many groups there are at most, of groupings that are taken together.

        Raises:
            QueryError: they are more than MOST_BINS.
        """
        count = sum(math.prod(len(groupings[key].groups) for key in keys) for keys in sets)
        require_few_groups(count)
        return count

    @property
    def size_in_bytes(self) -> int:
        """About how many bytes its condition, groups and aggregates are kept in, at most."""
        if self.single_count is not None:  # often asked, and quickly told
            return self.where.size_in_bytes + _COUNT_BYTES
        return held_bytes(self)

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.where.domain

    @property
    def clip_notes(self) -> tuple[str, ...]:
        """What has to be known of sums of values of which one person's count only up to a number."""
        clips = {} if self.domain.person is None else self.domain.person.clip
        return tuple(
            f"values of {name} of one person count {clips[name]:g} together at most, over all of the "
            "person's records, and are scaled down beyond"
            for name in self.summed
            if name in clips
        )

    @property
    def summed(self) -> tuple[str, ...]:
        """The attributes whose values its means and sums take, each once."""
        forms = [form for leaf in self.leaves for form in (leaf, getattr(leaf, "numerator", None))]
        found = [form.summed.line.attribute for form in forms if isinstance(form, Linear) and form.summed]
        return tuple(dict.fromkeys(found))

    @property
    def size(self) -> int:
        """How many numbers it asks for: its groups, times the steps of their aggregates; one without any."""
        if self.arms:
            return sum(arm.size for arm in self.arms)
        steps = sum(leaf.steps for leaf in self.leaves)
        return self.count_groups(self.groupings, self.sets or ()) * max(1, steps)

    @property
    def is_filtered(self) -> bool:
        """Whether HAVING is about answers."""
        return _is_about_answers(self.having)

    def _choices(self) -> int:
        filtered = self.is_filtered or _is_about_answers(self.qualify)
        if not filtered and not any(one.node.leaves() for one in self.order):
            return 1
        groups = sum(1 for _ in self.groups())
        drops = self.offset > 0 or (self.limit is not None and self.limit < groups)
        return max(1, groups) if filtered or drops else 1

    @property
    def single_count(self) -> LinearQuery | None:
        """The question of one COUNT(*) without groups; None where there is anything else."""
        plain = self.counts_alone and len(self.leaves) == 1 and not self.groupings and self.having is None
        plain = plain and not self.arms
        return self.where if plain and self.limit is None and not self.offset else None

    def groups(self) -> Iterator[Group]:
        """Yield the groups that some record may fall into by the declaration; of none it is said nothing.

        A group that the condition excludes is left out, whatever is known of its count. A total of all stays,
        as does the one group of a statement without groupings.
        """
        if self.arms:
            yield from itertools.chain.from_iterable(arm.groups() for arm in self.arms)
            return
        if self.sets == ((),):
            yield _ALL
            return
        number = 0
        for keys in self.sets or ():
            reached = [] if not keys or self.one_each == () else self._reached(keys)  # of no key one row
            for group in self._set_groups(keys, number):
                number = group.number + 1
                if all(holds[tuple(group.places[key] for key in own)] for own, holds in reached):
                    yield group

    def _reached(self, keys: Sequence[int]) -> list[tuple[list[int], NDArray[np.bool_]]]:
        """Return which values of some groupings a record that is asked about may have, by the declaration.

        Parts of the condition are tried together where a key of several attributes ties them to one another.

        Returns:
            For each part the groupings that it is about, and whether a record may have a value of each: bool,
            one axis per grouping.
        """
        most = self.where if self.where.readings is None else self.where.readings.most
        if most.constant == 0:
            return [([], np.array(False))]
        scopes = [self.groupings[key].scope for key in keys]
        grouped = {name for scope in scopes for name in scope}
        held: dict[tuple[str, ...], NDArray[np.bool_]] = {}
        for factor in most.factors:
            others = tuple(axis for axis, name in enumerate(factor.scope) if name not in grouped)
            if len(others) < len(factor.scope):
                scope = tuple(name for name in factor.scope if name in grouped)
                held[scope] = np.asarray((factor.weights > 0).any(axis=others))
        tied: list[set[str]] = []
        for names in map(set[str], (*held, *(scope for scope in scopes if len(scope) > 1))):
            touched = [one for one in tied if one & names]
            tied = [*(one for one in tied if one not in touched), names.union(*touched)]
        parts = ({scope: holds for scope, holds in held.items() if names >= {*scope}} for names in tied)
        return [self._reached_by(part, names, keys) for part, names in zip(parts, tied, strict=True) if part]

    def _reached_by(
        self, part: Mapping[tuple[str, ...], NDArray[np.bool_]], names: set[str], keys: Sequence[int]
    ) -> tuple[list[int], NDArray[np.bool_]]:
        """Return the groupings that one part of the condition is about, and the values that it leaves."""
        own = [key for key in keys if names & {*self.groupings[key].scope}]
        scope = next(iter(part)) if len(part) == 1 else ()
        scope = scope if names == {*scope} else union_scope(self.domain, [tuple(names)])
        holds = functools.reduce(operator.and_, (on_scope(self.domain, *one, scope) for one in part.items()))
        holds = np.broadcast_to(holds, self.domain.scope_shape(scope))
        values = (self.groupings[key].numbers(self.domain, scope)[holds] for key in own)
        reached = np.zeros([len(self.groupings[key].groups) + 1 for key in own], dtype=bool)
        reached[tuple(values)] = True
        return own, reached

    def _set_groups(self, keys: tuple[int, ...], number: int) -> Iterator[Group]:
        groupings = [self.groupings[key] for key in keys]
        scope = self.domain.scope(sorted({name for one in groupings for name in one.scope}))
        overlap = len(scope) < sum(len(one.scope) for one in groupings)
        scopes, count = [one.scope for one in groupings], len(self.groupings)
        for chosen in itertools.product(*(list(enumerate(one.groups)) for one in groupings)):
            labels, places, held = list[GroupValue]([None] * count), [TOTAL] * count, []
            for key, names, (place, (label, cells)) in zip(keys, scopes, chosen, strict=True):
                labels[key], places[key] = label, place
                held.append((names, cells))
            group = Group(tuple(labels), tuple(places), tuple(held), scope, number)
            if not overlap or group.inside(self.domain, scope).any():
                yield group
                number += 1

    def questions(self) -> Iterator[tuple[AggregateNode, Group, LinearQuery]]:
        """Yield the question of each COUNT(*) in each group, group by group.

        Raises:
            QueryError: the condition waits for the answers of others.
        """
        self.require_one_step()
        for arm in self.alone:
            counts = [leaf for leaf in arm.leaves if leaf.is_count]
            for group in arm.groups():
                for leaf in counts:
                    yield leaf, group, arm.counted(group)

    def question_number(self, leaf: AggregateNode, group: Group) -> int:
        """Return the number of an aggregate's question in a group, which idempotency keys hold.

        It is the same whatever the condition excludes, and whatever else is asked.
        """
        place = next(place for place, one in enumerate(self.leaves) if one is leaf)
        return group.number * len(self.leaves) + place

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
        tests = [test for test in (self.having, self.qualify) if test is not None]
        return [
            *(column.node for column in self.columns),
            *(node for test in tests for node in inner_nodes(test)),
            *(one.node for one in self.order),
        ]


def _is_about_answers(test: Test | None) -> bool:
    return test is not None and any(node.leaves() for node in inner_nodes(test))


def statement_of(
    kind: str, name: str, where: LinearQuery, by: Sequence[str] = (), *, part: float = 0.5
) -> Statement:
    """Return the statement that asks one ``mean``, ``sum`` or ``quantile`` of an attribute."""
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
        "mean": average(values),
        "sum": total(values),
        "quantile": Quantile(values, part),
    }
    keys = [column for column in counts.columns if column.is_key]
    title = kind if kind not in by else f"{kind} of {name}"
    columns = (*keys, OutputColumn(title, nodes[kind]))
    return Statement(where, counts.groupings, columns, notes=(CLIPPED,))
