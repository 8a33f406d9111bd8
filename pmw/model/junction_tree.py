"""Junction trees: the cliques on which a model with terms over given scopes is computed exactly.

Two attributes that share a scope interact. Eliminating the attributes one after the other, each time joining
those that the eliminated one interacts with, makes the graph of interactions chordal; its cliques, joined in
a spanning tree of the widest separators, carry every potential and all messages. The order decides how large
the cliques become; finding the best is hard, so a few greedy orders compete.

Source: Koller and Friedman (2009), Probabilistic Graphical Models, sections 9.4.3 (greedy orders) and 10.4
    (clique trees from chordal graphs).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

from pmw.model.factors import Positions, table_cells
from queries.frozen import dataclass

DEFAULT_MAX_CELLS = 2**21  # sum of clique tables, 16 MB in float64; what positives cost: docs/performance.md


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """Cliques in a tree, the root first and every other one after its parent.

    Every attribute of the domain is in a clique. The cliques that hold an attribute are connected. Parts
    that share no attribute are joined by empty separators.

    Args:
        cliques: positions of attributes; the largest table is the root.
        parents: number of each clique's parent; -1 for the root.
        masks: each clique as a number with a bit per position.
    """

    shape: tuple[int, ...]
    cliques: tuple[Positions, ...]
    parents: tuple[int, ...]
    masks: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Sum of the cells of all clique tables."""
        return sum(table_cells(self.shape, clique) for clique in self.cliques)

    def separator(self, clique: int) -> Positions:
        """Return the positions that a clique shares with its parent; none for the root."""
        parent = self.parents[clique]
        return () if parent < 0 else _positions(self.masks[clique] & self.masks[parent])

    def covering(self, scope: Positions) -> int | None:
        """Return the number of the smallest clique table that contains a scope, or None."""
        wanted = _mask(scope)
        found = [number for number, mask in enumerate(self.masks) if wanted & ~mask == 0]
        return min(found, key=lambda number: table_cells(self.shape, self.cliques[number]), default=None)

    def subtree(self, scope: Positions) -> list[int]:
        """Return the fewest connected cliques that determine the distribution over a scope, parents first."""
        wanted = _mask(scope)
        neighbours: list[set[int]] = [set() for _ in self.cliques]
        for clique, parent in enumerate(self.parents[1:], 1):
            neighbours[clique].add(parent)
            neighbours[parent].add(clique)
        waiting = list(range(len(self.cliques)))
        kept = set(waiting)
        while waiting:
            leaf = waiting.pop()
            if leaf not in kept or len(neighbours[leaf]) != 1:
                continue
            (inner,) = neighbours[leaf]
            if wanted & self.masks[leaf] & ~self.masks[inner] == 0:
                kept.discard(leaf)
                neighbours[inner].discard(leaf)
                neighbours[leaf].clear()
                waiting.append(inner)
        return sorted(kept)


def junction_tree(shape: tuple[int, ...], scopes: Sequence[Positions]) -> JunctionTree:
    """Return the tree of a model whose terms live on scopes.

    It is grown: a scope inside a clique of the tree of those before it keeps that tree. So the tree depends
    on the scopes and their order alone, and is the same when a model is made again as when it grew.
    """
    return _grown(shape, tuple(dict.fromkeys(scopes)))


def fits_tree(tree: JunctionTree, scopes: tuple[Positions, ...], scope: Positions, max_cells: int) -> bool:
    """Tell whether the tree of scopes, grown by one more, has clique tables of at most so many cells.

    A scope inside a clique of a tree that fits always fits. The tree is not made.
    """
    if table_cells(tree.shape, scope) > max_cells:
        return False
    if tree.covering(scope) is not None:
        return tree.cells <= max_cells
    return _fits_anew(tree.shape, (*scopes, scope), max_cells)


@lru_cache(maxsize=64)
def _grown(shape: tuple[int, ...], scopes: tuple[Positions, ...]) -> JunctionTree:
    """Return the tree of distinct scopes, grown by one after the other."""
    tree = _built(shape, ())
    for count, scope in enumerate(scopes, 1):
        if tree.covering(scope) is None:
            tree = _built(shape, scopes[:count])
    return tree


@lru_cache(maxsize=512)
def _built(shape: tuple[int, ...], scopes: tuple[Positions, ...]) -> JunctionTree:
    """Return the best tree of a few elimination orders."""
    adjacent = _adjacent(shape, scopes)
    candidates = [_eliminated(shape, adjacent, order) for order in range(_ORDERS)]

    def cells(masks: Sequence[int]) -> int:
        return sum([table_cells(shape, _positions(mask)) for mask in masks])

    return _joined(shape, min([found for found in candidates if found is not None], key=cells))


@lru_cache(maxsize=4096)
def _fits_anew(shape: tuple[int, ...], scopes: tuple[Positions, ...], max_cells: int) -> bool:
    """Tell whether the best tree of a few elimination orders has at most so many cells, without making it."""
    adjacent = _adjacent(shape, scopes)
    return any(_eliminated(shape, adjacent, order, max_cells) is not None for order in range(_ORDERS))


def _adjacent(shape: tuple[int, ...], scopes: Sequence[Positions]) -> list[int]:
    """Return per attribute those that it shares a scope with, a bit for each."""
    adjacent = [0] * len(shape)
    for scope in scopes:
        mask = _mask(scope)
        for position in scope:
            adjacent[position] |= mask & ~(1 << position)
    return adjacent


_ORDERS = 4


def _cost(shape: tuple[int, ...], adjacent: Sequence[int], position: int, order: int) -> tuple[float, ...]:
    """Return what eliminating an attribute costs by one of the greedy criteria, in logarithms of cells.

    0: the clique it makes; 1: what it leaves of that clique; 2: the pairs it joins; 3: their tables.
    """
    around = adjacent[position]
    left = _log_cells(shape, around)
    clique = left + math.log(shape[position])
    if order == 0:
        return clique, left
    if order == 1:
        return left, clique
    joined = 0
    for other in _positions(around):
        new = around & ~adjacent[other] & -2 << other
        if new:
            far = new.bit_count() if order == 2 else shape[other] * sum([shape[at] for at in _bits(new)])
            joined += far
    return joined, clique


def _eliminated(
    shape: tuple[int, ...], adjacent: Sequence[int], order: int, max_cells: int | None = None
) -> list[int] | None:
    """Return the cliques of attributes eliminated cheapest first, none inside another; None beyond a size."""
    links, cliques, cells = list(adjacent), list[int](), 0
    holding: list[list[int]] = [[] for _ in shape]  # per attribute, the cliques so far that it is in
    costs = [_cost(shape, links, position, order) for position in range(len(shape))]
    waiting = [(cost, position) for position, cost in enumerate(costs)]
    heapify(waiting)
    remaining = (1 << len(shape)) - 1
    while remaining:
        cost, position = heappop(waiting)  # the first in declared order of those that tie
        if not remaining >> position & 1 or cost is not costs[position]:
            continue  # it cost that before its neighbours changed
        around = links[position]
        clique = around | 1 << position
        if not any(clique & ~larger == 0 for larger in holding[position]):  # no later one can hold it
            cliques.append(clique)
            for other in _positions(clique):
                holding[other].append(clique)
            cells += table_cells(shape, _positions(clique))
            if max_cells is not None and cells > max_cells:
                return None
        if not remaining & ~clique:
            break  # what is left lies in this one
        remaining &= ~(1 << position)
        for other in _positions(_without(links, position, order)):
            costs[other] = _cost(shape, links, other, order)
            heappush(waiting, (costs[other], other))
    return cliques


def _without(links: list[int], position: int, order: int) -> int:
    """Join what surrounds an attribute, in place, and return those whose cost that changes, a bit for each.

    The number of pairs to join changes also for an attribute that is next to both ends of a new link.
    """
    around = changed = links[position]
    if order > 1:
        for other in _positions(around):
            for far in _bits(around & ~links[other] & -2 << other):
                changed |= links[other] & links[far]
    for other in _positions(around):
        links[other] = (links[other] | around) & ~(1 << other) & ~(1 << position)
    return changed & ~(1 << position)


@lru_cache(maxsize=2**14)
def _log_cells(shape: tuple[int, ...], mask: int) -> float:
    """Return the natural logarithm of the cells of a table, a bit per attribute."""
    return sum([math.log(shape[position]) for position in _positions(mask)])


def _joined(shape: tuple[int, ...], cliques: Sequence[int]) -> JunctionTree:
    """Return the spanning tree of the widest separators, grown from the largest clique."""
    ordered = sorted(cliques, key=lambda mask: (-table_cells(shape, _positions(mask)), mask))
    holding: list[list[int]] = [[] for _ in shape]  # per attribute, the cliques that it is in
    for number, mask in enumerate(ordered):
        for position in _positions(mask):
            holding[position].append(number)
    nearest = [0] * len(ordered)  # the place in the tree of the clique that most is shared with, so far
    widths = [0] * len(ordered)  # how many attributes that is
    waiting = [(0, number) for number in range(len(ordered))]  # a heap; some shared less when they came
    masks, parents = list[int](), list[int]()
    while waiting:
        negative, best = heappop(waiting)
        if widths[best] != -negative:
            continue
        parents.append(nearest[best] if masks else -1)
        masks.append(ordered[best])
        widths[best] = _PLACED
        for number in {number for position in _positions(ordered[best]) for number in holding[position]}:
            shared = (ordered[number] & ordered[best]).bit_count()
            if shared > widths[number]:
                nearest[number], widths[number] = len(masks) - 1, shared
                heappush(waiting, (-shared, number))
    return JunctionTree(shape, tuple(map(_positions, masks)), tuple(parents), tuple(masks))


_PLACED = 10**9  # more than any clique shares


def _mask(scope: Positions) -> int:
    return sum(1 << position for position in scope)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=2**14)
def _positions(mask: int) -> Positions:
    return tuple(_bits(mask))
