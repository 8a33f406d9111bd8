"""Windows over a table's rows: ranks, running sums, shares and neighbours, and what the bars leave of them.

A rank lies between those that the rows' intervals allow, which hold together with the stated confidence. A
sum over rows that are certain is one sum over their records together. Where the bars leave open which rows a
frame holds, or which one is its first, nothing is promised of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.public.aggregates import Aggregates
from pmw.public.sums import Estimate, joined
from queries.expressions import Linear, Node, Share, Sorting, Window
from queries.frozen import dataclass
from queries.statements import Group, Statement

_Places = NDArray[np.int64]
_Array = NDArray[np.float64]
_Order = Sequence[Sorting]
_ANYWHERE = (-math.inf, math.inf)


class Rows(Protocol):
    """What windows are over: the rows of a table."""

    def estimate_of(self, node: Node, group: Group, events: int) -> Estimate:
        """Return what an expression comes to, with an interval that holds together with others."""
        ...

    def plain(self, node: Node, group: Group) -> Any:
        """Return the value of a group, a constant, or the number of an answer."""
        ...

    def ordered(self, groups: Iterable[Group], order: _Order) -> list[Group]:
        """Return the groups in the order of their answers."""
        ...


# --- the order of rows --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Where each of some rows stands in an order: int64, shape (rows,); what is less stands ahead.

    Args:
        first, last: its first and its last position that the intervals allow.
    """

    first: _Places
    last: _Places

    @property
    def are_exact(self) -> bool:
        """The intervals allow one order alone."""
        return np.array_equal(self.first, self.last)

    @property
    def ahead(self) -> tuple[_Places, _Places]:
        """How many rows stand ahead of each: at least, and at most."""
        surely = np.searchsorted(np.sort(self.last), self.first, side="left")
        maybe = np.searchsorted(np.sort(self.first), self.last, side="left") - (self.first < self.last)
        return surely, maybe

    @property
    def beside(self) -> _Places:
        """How many other rows may stand ahead of each, or in its position."""
        return np.searchsorted(np.sort(self.first), self.last, side="right") - 1

    @property
    def different(self) -> tuple[_Places, _Places]:
        """How many different positions are ahead of each row: at least, and at most."""
        apart: list[int] = []  # rows that cannot stand in one position, as many as there are
        for place in np.lexsort((self.first, self.last)).tolist():
            if not apart or self.first[place] > apart[-1]:
                apart.append(int(self.last[place]))
        known = self.first == self.last
        kept = np.sort(np.concatenate([np.unique(self.first[known]), self.first[~known]]))
        most = np.searchsorted(kept, self.last, side="left") - (~known)
        return np.searchsorted(np.array(apart, dtype=np.int64), self.first, side="left"), most


def positions(columns: Sequence[NDArray[np.float64]]) -> Positions:
    """Return where rows stand whose order is that of several columns of intervals.

    Behind a column that leaves rows open, further columns are not looked at: rows that may be equal in it may
    stand in either order.

    Args:
        columns: float64, shape (rows, 2): the ends of what decides the order, the first column first.
    """
    count = len(columns[0]) if columns else 0
    own: NDArray[np.float64] = np.zeros(count)
    for place, ends in enumerate(columns, 1):
        both = [np.stack([own, end], axis=1) for end in ends.T]
        numbers = np.unique(np.concatenate(both), axis=0, return_inverse=True)[1].reshape(2, -1)
        if np.any(numbers[0] != numbers[1]):
            first, last = 2 * numbers[0], 2 * numbers[1] + (place < len(columns))
            order = np.argsort(first, kind="stable")
            if np.all(last[order][:-1] < first[order][1:]):  # none may be that of two rows
                first = last = np.argsort(order)
            return Positions(first, last)
        own = numbers[0].astype(np.float64)
    return Positions(own.astype(np.int64), own.astype(np.int64))


def order_columns(
    rows: Rows, groups: Sequence[Group], order: _Order, together: int = 1
) -> list[NDArray[np.float64]]:
    """Return what orders rows, as ``positions`` takes it; a row without a bar may stand anywhere."""
    columns = []
    for one in order:
        node = one.node
        if node.events():
            found = [rows.estimate_of(node, group, together * len(node.events())) for group in groups]
            told = [one.interval if one.is_promised else None for one in found]  # else it may be NULL
            ends = np.array([one or _ANYWHERE for one in told]).reshape(-1, 2)
            columns.append(-ends[:, ::-1] if one.greatest_first else ends)
        else:
            listed = rows.ordered(groups, [one])
            numbers = {value: place for place, value in enumerate(dict.fromkeys(
                rows.plain(node, group) for group in listed))}  # fmt: skip
            exact = np.array([float(numbers[rows.plain(node, group)]) for group in groups])
            columns.append(np.stack([exact, exact], axis=1))
    return columns


def uncertain_places(rows: Rows, groups: Sequence[Group], order: _Order, shown: range) -> tuple[str, ...]:
    """Return notes on the places of a sorted table that the bars of its answers do not decide."""
    columns = order_columns(rows, groups, order)
    barred = np.all([np.isfinite(ends).all(axis=1) for ends in columns], axis=0)
    listed = np.flatnonzero(barred)
    true = positions([ends[barred] for ends in columns])
    ahead, beside = true.ahead[0], true.beside
    places = [number for number in range(len(listed)) if listed[number] in shown]
    open_ = [number for number in places if ahead[number] != number or beside[number] != number]
    notes = []
    if open_:
        meant = (ahead != beside) & (ahead <= open_[-1]) & (beside >= open_[0])
        which = [int(listed[number]) + 1 for number in open_]
        verb, noun = ("is", "place") if len(which) == 1 else ("are", "places")
        notes.append(
            f"{noun} {_in_words(which)} {verb} not certain: the bars of {counted(int(meant.sum()), 'group')} "
            "overlap there"
        )
    if not barred.all():
        without = counted(int((~barred).sum()), "group")
        notes.append(f"{without} without a bar that surely holds may belong to any place")
    return tuple(notes)


def _in_words(numbers: Sequence[int]) -> str:
    """Return growing numbers as people write them: ``1, 3 to 5``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


# --- windows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Partition:
    """Rows of one partition in order.

    Args:
        at: int64, shape (rows,): their positions by the answers.
        true: where they may stand in truth.
        ranks: of a rank, the least and the greatest of each row.
    """

    groups: list[Group]
    at: _Places
    true: Positions
    ranks: tuple[_Places, _Places]

    def frame(self, node: Window, place: int) -> tuple[_Places, bool]:
        """Return which rows the frame of a row holds, and whether the true numbers give the same.

        Returns:
            int64, shape (rows,): places in the partition. What stands first in it, or last, is not certain
            unless the order is.
        """
        rows, true = np.arange(len(self.at)), self.true
        if node.frame is None:
            surely, maybe = true.last <= true.first[place], true.first <= true.last[place]
            surely[place] = True
            return rows[self.at <= self.at[place]], np.array_equal(surely, maybe)
        start, end = node.frame
        first, last = 0 if start is None else place + start, len(rows) if end is None else place + end + 1
        return rows[max(0, first) : max(0, last)], node.frame == (None, None) or true.are_exact


class Windows:
    """What windows come to in each row of a table.

    Rows that are chosen by their answers are no fixed ones: the intervals of all that they are chosen from
    hold together then, and so whichever they are.
    """

    def __init__(
        self, rows: Rows, groups: Sequence[Group], aggregates: Aggregates, statement: Statement
    ) -> None:
        self._rows, self._groups, self._aggregates = rows, groups, aggregates
        self._domain, self._are_chosen = statement.domain, statement.is_filtered
        self._hold_together = statement.choices > 1
        self._parted: dict[tuple[int, int], dict[int, tuple[_Partition, int]]] = {}
        self._of_all: dict[tuple[int, int, int], Estimate] = {}
        self._answers: dict[tuple[int, int], _Array] = {}
        self._all_ends: dict[tuple[int, int, int], tuple[_Array, NDArray[np.bool_]]] = {}
        self._owners: dict[int, _Places] = {}

    def estimate(self, node: Window | Share, group: Group, events: int) -> Estimate:
        """Return what a window, or a share of one, comes to in a row."""
        return (
            self._share(node, group, events) if isinstance(node, Share) else self._window(node, group, events)
        )

    def neighbour(self, node: Window, group: Group) -> Any:
        """Return the key of the first or the last row of a frame, in the order of keys."""
        partition, place = self._partition(node, group, 1)
        held, _ = partition.frame(node, place)
        if not held.size:
            return None if node.default is None else self._rows.plain(node.default, group)
        chosen = partition.groups[held[0 if node.function == "first" else -1]]
        return None if node.inner is None else self._rows.plain(node.inner, chosen)

    def _window(self, node: Window, group: Group, events: int) -> Estimate:
        events *= _claims(node)
        partition, place = self._partition(node, group, events)
        if node.is_rank:
            at, value = partition.at, place + 1.0
            if node.function != "row_number":
                ahead = at[place] if node.function == "dense_rank" else np.count_nonzero(at < at[place])
                value = 1.0 + float(ahead)
            least, most = (float(ranks[place]) for ranks in partition.ranks)
            return Estimate(value, _with(value, least, most))
        held, is_certain = partition.frame(node, place)
        if node.function == "count":
            found = Estimate(float(held.size), (float(held.size), float(held.size)))
        elif not held.size:
            found = self._answered(node.default, group, events)
        elif node.function in ("first", "last"):
            chosen = partition.groups[held[0 if node.function == "first" else -1]]
            found = self._answered(node.inner, chosen, events)
            is_certain = partition.true.are_exact
        else:
            found = self._of_frame(node, partition, held, events)
        return found if is_certain else Estimate(found.value)

    def _share(self, node: Share, group: Group, events: int) -> Estimate:
        """Return a sum divided by a window's: a ratio of two sums, or one of two intervals."""
        each = 2 * events
        partition, place = self._partition(node.window, group, each * _claims(node.window))
        above, below = self._answered(node.above, group, each), self._window(node.window, group, each)
        if above.value is None or not below.value:
            return Estimate(None)
        held, is_certain = partition.frame(node.window, place)
        union, inner = self._union(partition, held) if is_certain else None, node.window.inner
        if union is not None and isinstance(inner, Linear):
            one = events * _claims(node.window)
            found = self._aggregates.quotient((node.above, group), (inner, union), one)
        else:
            found = joined("/", above, below)
        value = node.factor * above.value / below.value
        ends = found.interval and _with(value, *(node.factor * end for end in found.interval))
        return Estimate(value, ends, conditional=found.conditional)

    def _partition(self, node: Window, group: Group, events: int) -> tuple[_Partition, int]:
        key = id(node), events
        if key not in self._parted:
            parts: dict[tuple[Any, ...], list[Group]] = {}
            for one in self._groups:
                parts.setdefault(tuple(self._rows.plain(by, one) for by in node.partition), []).append(one)
            self._parted[key] = {}
            for groups in parts.values():
                found = self._placed(node, self._rows.ordered(groups, node.order), events)
                for place, one in enumerate(found.groups):
                    self._parted[key][one.number] = found, place
        return self._parted[key][group.number]

    def _placed(self, node: Window, groups: list[Group], events: int) -> _Partition:
        values = [tuple(self._rows.plain(by.node, one) for by in node.order) for one in groups]
        changes = [before != after for before, after in itertools.pairwise(values)]
        at = np.concatenate([[0], np.cumsum(changes)]).astype(np.int64)
        uncertain = sum(1 for by in node.order if by.node.events())
        together = events * max(1, uncertain) * (1 if self._hold_together else len(groups))
        columns = order_columns(self._rows, groups, node.order, together)
        true = positions(columns) if columns else Positions(at, at)
        least, most = true.different if node.function == "dense_rank" else true.ahead
        most = true.beside if node.function == "row_number" else most
        return _Partition(groups, at, true, (least + 1, most + 1))

    def _answered(self, node: Node | None, group: Group, events: int) -> Estimate:
        """Return the number that is answered for a row, and an interval that holds with others."""
        if node is None:
            return Estimate(None)
        value = self._rows.plain(node, group)
        found = self._rows.estimate_of(node, group, events * max(1, len(node.events())))
        if value is None or isinstance(value, str):
            return Estimate(None, is_null=found.is_null)
        ends = None if found.interval is None else _with(float(value), *found.interval)
        return Estimate(float(value), ends, conditional=found.conditional)

    def _of_frame(self, node: Window, partition: _Partition, held: _Places, events: int) -> Estimate:
        """Return the sum, the mean, the least or the greatest of the rows of a frame, taken as certain."""
        key, whole = (id(node), id(partition), events), held.size == len(partition.groups)
        if whole and key in self._of_all:
            return self._of_all[key]
        held = held[self._values(node, partition)[1, held] == 0]  # SQL passes over NULL
        found = self._fold(node, partition, held, events) if held.size else Estimate(None)
        if whole:
            self._of_all[key] = found
        return found

    def _fold(self, node: Window, partition: _Partition, held: _Places, events: int) -> Estimate:
        values = self._values(node, partition)[0, held]
        if np.isnan(values).any():
            return Estimate(None)
        if node.function in ("min", "max"):
            return self._extreme(node, partition, held, events)
        value = math.fsum(values.tolist())
        interval = self._sum_ends(node, partition, held, events)
        total = Estimate(value, None if interval is None else _with(value, *interval))
        if node.function == "sum":
            return total
        interval = None if self._ends(node, partition, events)[1][held].any() else total.interval
        return Estimate(
            value / held.size,
            None if interval is None else (interval[0] / held.size, interval[1] / held.size),
        )

    def _extreme(self, node: Window, partition: _Partition, held: _Places, events: int) -> Estimate:
        """Return the least or the greatest of some rows; one that may be NULL bounds one end alone."""
        least = node.function == "min"
        fold, near, far = (np.min, 0, 1) if least else (np.max, 1, 0)
        value = float(fold(self._values(node, partition)[0, held]))
        ends, lacking = self._ends(node, partition, events)
        ends = ends[:, held]
        sure = ends[far, ~lacking[held]]
        if not sure.size or not np.isfinite(ends).all():
            return Estimate(value)
        found = float(fold(ends[near])), float(fold(sure))
        return Estimate(value, _with(value, *(found if least else found[::-1])))

    def _sum_ends(
        self, node: Window, partition: _Partition, held: _Places, events: int
    ) -> tuple[float, float] | None:
        """Return what the sum of some rows lies between: one sum, or ends that are added."""
        union = self._union(partition, held)
        if union is not None and isinstance(node.inner, Linear):
            return self._aggregates.estimate(node.inner, union, events=events).interval
        ends, lacking = self._ends(node, partition, events)
        if not np.isfinite(ends[:, held]).all():
            return None
        sure, maybe = held[~lacking[held]], held[lacking[held]]  # NULL adds nothing
        low = ends[0, sure].sum() + np.minimum(ends[0, maybe], 0).sum()
        high = ends[1, sure].sum() + np.maximum(ends[1, maybe], 0).sum()
        return float(low), float(high)

    def _values(self, node: Window, partition: _Partition) -> _Array:
        """Return what is answered for the rows of a partition, and 1 where that is NULL on any table.

        Returns:
            float64, shape (2, rows); NaN where there is no number.
        """
        key = id(node), id(partition)
        if key not in self._answers:
            told = [self._answered(node.inner, group, 1) for group in partition.groups]
            numbers = [(math.nan if one.value is None else one.value, one.is_null) for one in told]
            self._answers[key] = np.array(numbers, dtype=np.float64).T
        return self._answers[key]

    def _ends(self, node: Window, partition: _Partition, events: int) -> tuple[_Array, NDArray[np.bool_]]:
        """Return ends that hold in all rows of a partition together, and which rows may be NULL in truth.

        Returns:
            float64, shape (2, rows); and bool, shape (rows,): nothing says that there are records.
        """
        key = id(node), id(partition), events
        if key not in self._all_ends:
            together = events * (1 if self._hold_together else len(partition.groups))
            told = [self._answered(node.inner, group, together) for group in partition.groups]
            ends = np.array([one.interval or _ANYWHERE for one in told]).T
            self._all_ends[key] = ends, np.array([one.conditional for one in told], dtype=bool)
        return self._all_ends[key]

    def _union(self, partition: _Partition, rows: _Places) -> Group | None:
        """Return the group of all records of some rows; None where they are uncertain, or overlap.

        Rows that are chosen by their answers are not fixed. Totals overlap what they are of, and a grouping
        set that stands twice overlaps itself.
        """
        groups = partition.groups
        if self._are_chosen:
            return None
        if len({group.held for group in groups}) > 1 or len({one.places for one in groups}) < len(groups):
            return None
        scope = groups[0].scope
        if id(partition) not in self._owners:  # the row of each cell, the last one for those of no row
            owners = np.full(self._domain.scope_shape(scope), len(groups))
            for place, group in enumerate(groups):
                owners[np.broadcast_to(group.inside(self._domain, scope), owners.shape)] = place
            self._owners[id(partition)] = owners.reshape(-1)
        held = np.zeros(len(groups) + 1, dtype=bool)
        held[rows] = True
        cells = np.flatnonzero(held[self._owners[id(partition)]])
        return Group((), (), ((scope, cells),) if scope else (), scope)


def _claims(node: Window) -> int:
    """Return how many intervals a window rests on: where answers decide which rows it reads, that is one."""
    reads = node.inner is not None and (node.frame != (None, None) or node.function in ("first", "last"))
    return 2 if reads and node.follows_answers else 1


def _with(value: float, low: float, high: float) -> tuple[float, float]:
    return min(value, low), max(value, high)
