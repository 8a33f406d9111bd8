"""Tables over scopes: multiplied together and summed, by plans that touch few large arrays.

Here a scope is the ascending positions of its attributes in the domain, and a table has one axis for each of
them in that order, so no table is ever transposed to meet another. A shape is the cells per attribute of the
domain. A plan depends on scopes and sizes alone, is made once, and runs whenever the numbers change.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import combinations, pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.errors import ScopeError
from queries.frozen import dataclass

Positions = tuple[int, ...]  # attributes by their places in the domain, ascending


def table_cells(shape: Sequence[int], scope: Iterable[int]) -> int:
    """Return the cells of a table over a scope, an exact Python integer."""
    return math.prod([shape[position] for position in scope])


def spread(table: NDArray[np.float64], scope: Positions, axes: Positions) -> NDArray[np.float64]:
    """Return a view of a table that broadcasts over more axes."""
    if scope == axes:
        return table
    lengths = dict(zip(scope, table.shape, strict=True))
    return table.reshape([lengths.get(axis, 1) for axis in axes])


def project(table: NDArray[np.float64], scope: Positions, kept: Positions) -> NDArray[np.float64]:
    """Return the sums of a table over some of its positions: float64, the table itself where it keeps all.

    Runs of axes are merged and summed as products with a vector of ones, the longest run first. That reads
    memory at full speed whichever axes go, where ``sum`` over short inner axes is up to 30 times slower.

    Args:
        table: float64, C-contiguous, one axis per position of the scope.
    """
    steps, shape = plan_sums(table.shape, scope, kept)
    result = table
    for lead, length, tail in steps:
        ones = _ONES[:length] if length <= _ONES.size else np.ones(length)
        result = (
            result.reshape(lead, length) @ ones if tail == 1 else ones @ result.reshape(lead, length, tail)
        )
    return result.reshape(shape)


def weighted_sum(
    table: NDArray[np.float64],
    scope: Positions,
    weights: tuple[Positions, NDArray[np.float64]],
    kept: Positions,
) -> NDArray[np.float64]:
    """Return the sums of a table times weights over some of its positions: float64, C-contiguous.

    Args:
        weights: positions inside the scope, and float64 weights of their cells.
    """
    places, factor = weights
    if len(places) != 1 or places[0] in kept:
        return project(table * spread(factor, places, scope), scope, kept)
    # The weights of one attribute that goes take the place of the ones that would sum it.
    axis = scope.index(places[0])
    lead, tail = table.shape[:axis], table.shape[axis + 1 :]
    sums = factor @ table.reshape(math.prod(lead), factor.size, math.prod(tail))
    rest = tuple(position for position in scope if position != places[0])
    return project(sums.reshape(lead + tail), rest, kept)


_ONES = np.ones(2**10)


@lru_cache(maxsize=2**14)
def plan_sums(
    shape: tuple[int, ...], scope: Positions, kept: Positions
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Return the runs to sum as (cells before, length, cells after), and the shape of the result.

    Args:
        shape: lengths of the table's axes.
    """
    runs: list[tuple[bool, int]] = []
    for position, length in zip(scope, shape, strict=True):
        stays = position in kept
        if runs and runs[-1][0] == stays:
            runs[-1] = (stays, runs[-1][1] * length)
        else:
            runs.append((stays, length))
    steps = []
    while any(not stays for stays, _ in runs):
        longest = max((place for place, run in enumerate(runs) if not run[0]), key=lambda at: runs[at][1])
        before, after = runs[:longest], runs[longest + 1 :]
        steps.append((_cells(before), runs[longest][1], _cells(after)))
        runs = before + after
    return tuple(steps), tuple(shape[scope.index(position)] for position in kept)


def _cells(runs: Sequence[tuple[bool, int]]) -> int:
    return math.prod([length for _, length in runs])


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """In which order tables over parts of some axes are combined into one over all of them.

    Args:
        steps: pairs of tables, by number, each with the two shapes in which they broadcast; the result of a
            step takes the next number.
        last: the shape in which the one table that is left broadcasts, None where there was none.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]
    last: tuple[int, ...] | None

    def run(
        self, tables: Sequence[NDArray[np.float64]], combine: np.ufunc, result: NDArray[np.float64]
    ) -> None:
        """Write the combination over all axes.

        Args:
            combine: ``np.multiply``, or ``np.add`` for logarithms.
        """
        held = list(tables)
        if self.last is None:
            result.fill(combine.identity)
            return
        for place, (left, right, left_shape, right_shape) in enumerate(self.steps):
            pair = held[left].reshape(left_shape), held[right].reshape(right_shape)
            final = place == len(self.steps) - 1
            held.append(combine(*pair, out=result) if final else combine(*pair))
        if held[-1] is not result:
            np.copyto(result, held[-1].reshape(self.last))


@lru_cache(maxsize=4096)
def plan_product(shape: tuple[int, ...], axes: Positions, scopes: tuple[Positions, ...]) -> ProductPlan:
    """Return a plan that combines tables, always the two with the smallest union next.

    So the tables inside a clique meet in small ones first, and only the last step or two are as large as it.
    """
    order = contraction_order(shape, scopes, axes, by_union=True, are_apart=True)
    held, steps = list(scopes), []
    for place, (left, right, union) in enumerate(order):
        # The last step writes over all axes, whether or not the two tables reach them.
        over = axes if place == len(order) - 1 else union
        first, second = (spread_shape(shape, held[number], over) for number in (left, right))
        steps.append((left, right, first, second))
        held.append(over)
    last = spread_shape(shape, held[-1], axes) if scopes else None
    return ProductPlan(tuple(shape[axis] for axis in axes), tuple(steps), last)


@dataclass(frozen=True, slots=True)
class ProjectionPlan:
    """By way of which tables one table is summed to several scopes.

    Args:
        steps: each table to make: its positions, and the number of the one that it is made of; number 0 is
            the given table, the first step makes number 1.
        places: per wanted scope, the number of its table.
    """

    scope: Positions
    steps: tuple[tuple[Positions, int], ...]
    places: tuple[int, ...]

    def run(self, table: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the sums of a table over each wanted scope: float64, maybe views of each other."""
        held = [(self.scope, table)]
        for scope, source in self.steps:
            held.append((scope, project(held[source][1], held[source][0], scope)))
        return [held[place][1] for place in self.places]


@lru_cache(maxsize=4096)
def plan_projections(
    shape: tuple[int, ...], axes: Positions, scopes: tuple[Positions, ...]
) -> ProjectionPlan:
    """Return a plan that sums a table over some axes to several scopes by way of smaller tables.

    Scopes whose union is much smaller than the table are made of the table over the union: the two with the
    smallest union are joined as long as that saves work.
    """
    whole = table_cells(shape, axes)
    parents: dict[Positions, Positions] = {}
    roots = sorted({scope for scope in scopes if scope != axes}, key=lambda scope: (len(scope), scope))
    left = dict(enumerate(roots))

    def joined(first: int, second: int) -> tuple[int, Positions, Positions, Positions, int, int]:
        union = _union(roots[first], roots[second])
        return table_cells(shape, union), union, roots[first], roots[second], first, second

    waiting = list(starmap(joined, combinations(left, 2)))  # the next one first, some of roots that are gone
    heapify(waiting)
    while waiting:
        cells, union, *_, first, second = heappop(waiting)
        if first not in left or second not in left:
            continue
        made = [scope for scope in (roots[first], roots[second]) if scope != union]
        if (len(made) + (len(made) == 2)) * cells >= len(made) * whole:
            break
        parents.update(dict.fromkeys(made, union))
        gone = (roots[first], roots[second])
        left = {number: scope for number, scope in left.items() if scope not in gone}
        roots.append(union)
        for other in left:
            heappush(waiting, joined(other, len(roots) - 1))
        left[len(roots) - 1] = union
    parents.update(dict.fromkeys(left.values(), axes))
    ordered = sorted(parents, key=lambda scope: (-len(scope), scope))
    numbers = {axes: 0} | {scope: number for number, scope in enumerate(ordered, 1)}
    steps = tuple((scope, numbers[parents[scope]]) for scope in ordered)
    return ProjectionPlan(axes, steps, tuple(numbers[scope] for scope in scopes))


@lru_cache(maxsize=4096)
def contraction_order(
    shape: tuple[int, ...],
    scopes: tuple[Positions, ...],
    kept: Positions,
    *,
    by_union: bool = False,
    are_apart: bool = False,
) -> tuple[tuple[int, int, Positions], ...]:
    """Return the pairs of tables to contract, by number, with the positions that each leaves.

    Next is the pair whose result is smallest against what it is made of: weights that sum an attribute out
    come first, and tables that share nothing last.

    Args:
        by_union: next is the pair of which all positions together have the fewest cells.
        are_apart: tables that share nothing are not last.

    Source: Smith and Gray (2018), opt_einsum, greedy paths.
    """
    waiting = _Waiting(shape, scopes, kept, by_union=by_union, are_apart=are_apart)
    steps: list[tuple[int, int, Positions]] = []
    while len(waiting) > 1:
        left, right = waiting.next_pair()
        result = waiting.contracted(left, right)
        waiting.add(len(scopes) + len(steps), result)
        steps.append((left, right, result))
    return tuple(steps)


class _Waiting:
    """Tables that wait to be contracted, and which two of them are next.

    What a pair leaves stays the same while others are contracted: a position that one of these shares with
    the pair is in what they leave. So a pair is looked at once, when the later of its tables comes. Pairs
    that share nothing are looked at when no others are left.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        scopes: tuple[Positions, ...],
        kept: Positions,
        *,
        by_union: bool,
        are_apart: bool,
    ) -> None:
        self._shape = shape
        self._kept = frozenset(kept)
        self._by_union = by_union
        self._tables: dict[int, tuple[Positions, int]] = {}  # positions and cells, by number
        self._holders: dict[int, set[int]] = {}  # the numbers of the tables that have a position
        self._pairs: list[tuple[int, int, int]] = []  # a heap; some are of tables that are gone
        self._are_apart = are_apart  # pairs that share nothing are looked at, too
        for number, scope in enumerate(scopes):
            self._hold(number, scope)
        for number in range(len(scopes)):
            self._pairs += [self._entry(other, number) for other in self._beside(number) if other < number]
        heapify(self._pairs)

    def __len__(self) -> int:
        return len(self._tables)

    def add(self, number: int, scope: Positions) -> None:
        """Add a table of a number that is larger than all before it."""
        self._hold(number, scope)
        for other in self._beside(number):
            if other != number:
                heappush(self._pairs, self._entry(other, number))

    def next_pair(self) -> tuple[int, int]:
        """Return the numbers of the two tables to contract next, of which there are two at least."""
        while self._pairs:
            _, left, right = heappop(self._pairs)
            if left in self._tables and right in self._tables:
                return left, right
        self._are_apart = True
        self._pairs = list(starmap(self._entry, combinations(self._tables, 2)))
        heapify(self._pairs)
        return self.next_pair()

    def contracted(self, left: int, right: int) -> Positions:
        """Take two tables away, and return the positions that their contraction leaves."""
        result = self._left_of(left, right)
        for number in (left, right):
            for position in self._tables.pop(number)[0]:
                self._holders[position].discard(number)
        return result

    def _hold(self, number: int, scope: Positions) -> None:
        self._tables[number] = scope, table_cells(self._shape, scope)
        for position in scope:
            self._holders.setdefault(position, set()).add(number)

    def _beside(self, number: int) -> Iterable[int]:
        """Return the tables that make a pair with one, itself among them."""
        if self._are_apart:
            return self._tables
        return {other for position in self._tables[number][0] for other in self._holders[position]}

    def _left_of(self, left: int, right: int) -> Positions:
        union, pair = _union(self._tables[left][0], self._tables[right][0]), {left, right}
        stays = self._kept
        return tuple([at for at in union if at in stays or not self._holders[at] <= pair])

    def _entry(self, left: int, right: int) -> tuple[int, int, int]:
        """Return what orders a pair: the least first; of equal ones, that of the first numbers."""
        (first, first_cells), (second, second_cells) = self._tables[left], self._tables[right]
        if self._by_union:
            return table_cells(self._shape, {*first, *second}), left, right
        cells = table_cells(self._shape, self._left_of(left, right))
        return cells - first_cells - second_cells, left, right


class KeptTables:
    """Tables of one distribution that are asked for again, or met again on the way to others.

    Scopes that share attributes, or only the cliques between them, share contractions. A key says all that a
    table is made of, and in which order; so a table that is kept is, bit for bit, the one made again.

    Args:
        most_cells: those used longest ago go first where there are more.
    """

    def __init__(self, most_cells: int) -> None:
        self._most_cells = most_cells
        self._cells = 0
        self._tables: OrderedDict[Hashable, NDArray[np.float64]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the table of a key, which is made where it is not kept; nobody may write to it."""
        table = self._tables.get(key)
        if table is None:
            table = make()
            self._tables[key] = table
            self._cells += table.size
            while self._cells > self._most_cells:
                self._cells -= self._tables.popitem(last=False)[1].size
        else:
            self._tables.move_to_end(key)
        return table


def positions(domain: Domain, scope: Sequence[str]) -> Positions:
    """Return the places of a scope's attributes in the domain."""
    places = tuple([domain.index(name) for name in scope])
    if any(first >= second for first, second in pairwise(places)):
        raise ScopeError(f"expected a scope in declared order, got {list(scope)}")
    return places


def _union(first: Positions, second: Positions) -> Positions:
    return tuple(sorted({*first, *second}))


def spread_shape(shape: Sequence[int], scope: Positions, axes: Positions) -> tuple[int, ...]:
    """Return the shape in which a table over a scope broadcasts over more axes."""
    return tuple(shape[axis] if axis in scope else 1 for axis in axes)
