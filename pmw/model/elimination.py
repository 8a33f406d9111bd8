"""Variable elimination: marginals and expectations over attributes that no clique holds together.

The cliques between the attributes asked about are cut down to what is asked of them and their separators, and
divided by the separator, which makes them conditional probabilities. Then tables are multiplied two by two,
and an attribute is summed out as soon as no other table needs it. A question's weights take part as tables
themselves, so that a product over many attributes never becomes one table over all of them.

Source: Koller and Friedman (2009), Probabilistic Graphical Models, sections 9.3 and 10.3.3.3.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pmw.model.calibration import Beliefs
from pmw.model.factors import Positions, project, spread, table_cells, weighted_sum
from pmw.model.junction_tree import JunctionTree

__all__ = [
    "conditionals",
    "eliminate",
    "expect",
    "joint",
    "KeptTables",
    "ScopedTable",
]

ScopedTable = tuple[Positions, NDArray[np.float64]]


class KeptTables:
    """Tables that were made on the way to marginals of one calibrated tree, and are met again on others.

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


def joint(beliefs: Beliefs, scope: Positions, kept: KeptTables) -> NDArray[np.float64]:
    """Return the distribution over a scope: float64, C-contiguous, maybe a table that is kept.

    Args:
        beliefs: the calibrated tree.
        scope: positions of attributes.
        kept: of this tree.
    """
    tree = beliefs.tree
    needed = _needed(tree, scope)
    held: list[ScopedTable | None] = []
    keys: list[Hashable] = []
    for place, (clique, positions) in enumerate(needed.items()):
        separator = tree.separator(clique) if place else ()
        keys.append((clique, positions, separator))
        table = kept.get(keys[-1], partial(_conditional, beliefs, clique, positions, separator))
        held.append((positions, table))
    for left, right, result in _plan(tree.shape, tuple(needed.values()), scope):
        first, second = held[left], held[right]
        if first is None or second is None:
            raise ValueError("expected a plan that uses each table once")
        held[left] = held[right] = None
        keys.append((keys[left], keys[right], result))
        held.append((result, kept.get(keys[-1], partial(_contracted, first, second, result))))
    last = held[-1]
    if last is None:
        raise ValueError("expected at least one table")
    return project(last[1], last[0], scope)


def conditionals(beliefs: Beliefs, scope: Positions) -> list[ScopedTable]:
    """Return tables whose product, summed over what is not in the scope, is its distribution.

    Args:
        beliefs: the calibrated tree.
        scope: positions of attributes.
    """
    tables = []
    for place, (clique, positions) in enumerate(_needed(beliefs.tree, scope).items()):
        separator = beliefs.tree.separator(clique) if place else ()
        tables.append((positions, _conditional(beliefs, clique, positions, separator)))
    return tables


def _needed(tree: JunctionTree, scope: Positions) -> dict[int, Positions]:
    """Return the cliques that determine the distribution over a scope, parents first, and what of each."""
    home = tree.covering(scope)
    if home is not None:
        return {home: scope}
    cliques = tree.subtree(scope)
    needed = {clique: set(scope).intersection(tree.cliques[clique]) for clique in cliques}
    for clique in cliques[1:]:
        needed[clique].update(tree.separator(clique))
        needed[tree.parents[clique]].update(tree.separator(clique))
    return {clique: tuple(sorted(positions)) for clique, positions in needed.items()}


def _conditional(
    beliefs: Beliefs, clique: int, positions: Positions, separator: Positions
) -> NDArray[np.float64]:
    """Return the probabilities of some of a clique's positions, given those of a separator among them."""
    table = project(beliefs.tables[clique], beliefs.tree.cliques[clique], positions)
    if not separator:
        return table
    mass = project(table, positions, separator)
    inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
    return table * spread(inverse, separator, positions)


def expect(beliefs: Beliefs, weights: Sequence[ScopedTable]) -> float:
    """Return the expectation of a product of weights.

    Where each factor lies inside a clique, messages go from the leaves of the cliques that are touched to one
    of them: no table grows beyond a clique.

    Args:
        beliefs: the calibrated tree.
        weights: positions and float64 weights of their cells; no position in two of them.
    """
    tree = beliefs.tree
    scope = tuple(sorted(position for positions, _ in weights for position in positions))
    home = tree.covering(scope)
    kept = tree.subtree(scope) if home is None else [home]
    held: dict[int, list[ScopedTable]] = {clique: [] for clique in kept}
    for positions, table in weights:
        inside = [clique for clique in kept if {*positions} <= {*tree.cliques[clique]}]
        if not inside:
            return float(eliminate(tree.shape, [*conditionals(beliefs, scope), *weights], ()))
        held[inside[0]].append((positions, table))
    for clique in reversed(kept[1:]):
        separator = tree.separator(clique)
        message, mass = _absorbed(beliefs, clique, held[clique], separator)
        np.divide(message, mass, out=message, where=mass > 0)
        held[tree.parents[clique]].append((separator, message))
    return float(_absorbed(beliefs, kept[0], held[kept[0]], ())[0])


def _absorbed(
    beliefs: Beliefs, clique: int, factors: Sequence[ScopedTable], kept: Positions
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a clique's probabilities times factors, summed to some positions, and without them."""
    axes = beliefs.tree.cliques[clique]
    wanted = {*kept}.union(*[scope for scope, _ in factors])
    scope = tuple(position for position in axes if position in wanted)
    table = project(beliefs.tables[clique], axes, scope)
    mass = project(table, scope, kept)
    waiting = sorted(factors, key=lambda factor: (len(factor[0]), factor[0]))
    while waiting:
        factor = waiting.pop(0)
        still = {*kept}.union(*[positions for positions, _ in waiting])
        result = tuple(position for position in scope if position in still or position not in factor[0])
        table, scope = _contracted((scope, table), factor, result), result
    return np.array(table, order="C"), mass


def eliminate(shape: tuple[int, ...], tables: Sequence[ScopedTable], kept: Positions) -> NDArray[np.float64]:
    """Return the product of tables, summed over all positions but those kept: float64, C-contiguous.

    Args:
        shape: cells per attribute of the domain.
        tables: positions and float64 values; every kept position is in one of them.
        kept: positions of the result.
    """
    held: list[ScopedTable | None] = list(tables)
    scopes = tuple(scope for scope, _ in tables)
    for left, right, result in _plan(shape, scopes, kept):
        first, second = held[left], held[right]
        if first is None or second is None:
            raise ValueError("expected a plan that uses each table once")
        held[left] = held[right] = None
        held.append((result, _contracted(first, second, result)))
    last = held[-1]
    if last is None:
        raise ValueError("expected at least one table")
    return project(np.asarray(last[1], order="C"), last[0], kept)


@lru_cache(maxsize=4096)
def _plan(
    shape: tuple[int, ...], scopes: tuple[Positions, ...], kept: Positions
) -> tuple[tuple[int, int, Positions], ...]:
    """Return the pairs to contract, with the positions that each leaves.

    Next is the pair whose result is smallest against what it is made of: weights that sum an attribute out
    come first, and tables that share nothing last. Source: Smith and Gray (2018), opt_einsum, greedy paths.
    """
    waiting = dict(enumerate(scopes))
    steps = []
    while len(waiting) > 1:
        _, _, left, right, result = min(
            _pair(shape, kept, waiting, left, right) for left, right in combinations(waiting, 2)
        )
        del waiting[left], waiting[right]
        steps.append((left, right, result))
        waiting[len(scopes) + len(steps) - 1] = result
    return tuple(steps)


def _pair(
    shape: tuple[int, ...], kept: Positions, waiting: dict[int, Positions], left: int, right: int
) -> tuple[int, int, int, int, Positions]:
    """Return whether two tables share nothing, by how much they grow, both, and what they leave."""
    first, second = waiting[left], waiting[right]
    others = [scope for number, scope in waiting.items() if number not in (left, right)]
    together = {*first, *second}
    result = tuple(sorted(together.intersection({*kept}.union(*others))))
    grown = table_cells(shape, result) - table_cells(shape, first) - table_cells(shape, second)
    return int(len(together) == len(first) + len(second)), grown, left, right, result


def _contracted(first: ScopedTable, second: ScopedTable, result: Positions) -> NDArray[np.float64]:
    """Return the product of two tables, summed to the result, as one matrix product: C-contiguous."""
    (left, left_table), (right, right_table) = first, second
    if {*right} <= {*left}:
        return weighted_sum(np.asarray(left_table, order="C"), left, second, result)
    shared = [position for position in left if position in right]
    batch = [position for position in shared if position in result]
    summed = [position for position in shared if position not in result]
    rows = [position for position in left if position in result and position not in right]
    columns = [position for position in right if position in result and position not in left]
    lengths = dict(zip((*left, *right), (*left_table.shape, *right_table.shape), strict=True))

    def arranged(
        scope: Positions, table: NDArray[np.float64], groups: Sequence[list[int]]
    ) -> NDArray[np.float64]:
        wanted = [position for group in groups for position in group]
        reduced = project(np.asarray(table, order="C"), scope, tuple(sorted(wanted)))
        stored = sorted(wanted)
        turned = reduced.transpose([stored.index(position) for position in wanted])
        return turned.reshape([math.prod([lengths[position] for position in group]) for group in groups])

    product = arranged(left, left_table, (batch, rows, summed)) @ arranged(
        right, right_table, (batch, summed, columns)
    )
    order = [*batch, *rows, *columns]
    values = product.reshape([lengths[position] for position in order])
    return np.asarray(values.transpose([order.index(position) for position in result]), order="C")
