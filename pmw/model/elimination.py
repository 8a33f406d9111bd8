"""Variable elimination: marginals and expectations over attributes that no clique holds together.

The cliques between the attributes asked about are cut down to what is asked of them and their separators, and
divided by the separator, which makes them conditional probabilities. Then tables are multiplied two by two,
and an attribute is summed out as soon as no other table needs it. A question's weights take part as tables
themselves, so that a product over many attributes never becomes one table over all of them.

Source: Koller and Friedman (2009), Probabilistic Graphical Models, sections 9.3 and 10.3.3.3.
"""

from __future__ import annotations

import math
import string
from collections.abc import Hashable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from pmw.model.calibration import Beliefs
from pmw.model.factors import KeptTables, Positions, contraction_order, project, spread, weighted_sum
from pmw.model.junction_tree import JunctionTree
from queries.frozen import dataclass

ScopedTable = tuple[Positions, NDArray[np.float64]]

_MOST_AXES = 26  # of two tables that one loop goes over; numpy's own limit is 32 before version 2


def joint(beliefs: Beliefs, scope: Positions, kept: KeptTables) -> NDArray[np.float64]:
    """Return the distribution over a scope: float64, C-contiguous, maybe a table that is kept.

    Args:
        beliefs: the calibrated tree.
        scope: positions of attributes.
        kept: of this tree.
    """
    return _eliminated(beliefs.tree.shape, _conditionals(beliefs, scope, kept), scope, kept)


def _conditionals(beliefs: Beliefs, scope: Positions, kept: KeptTables) -> list[tuple[Hashable, ScopedTable]]:
    """Return tables, each with its key, whose product, summed down to a scope, is its distribution."""
    tables: list[tuple[Hashable, ScopedTable]] = []
    for place, (clique, positions) in enumerate(_needed(beliefs.tree, scope).items()):
        separator = beliefs.tree.separator(clique) if place else ()
        key = (clique, positions, separator)
        table = kept.get(key, partial(_conditional, beliefs, clique, positions, separator))
        tables.append((key, (positions, table)))
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
    # The inverse of a subnormal mass is infinite, and nothing is expected there.
    inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > np.finfo(np.float64).tiny)
    return table * spread(inverse, separator, positions)


@dataclass(frozen=True, slots=True)
class _Absorption:
    """What one clique does to an expectation.

    Args:
        clique: its number.
        scope: its positions that weights or the separator have.
        separator: the positions that it shares with its parent.
        factors: what it is multiplied with: the place of each among the weights and messages, where messages
            follow the weights in the order they are made; its positions; and those left when it is summed.
    """

    clique: int
    scope: Positions
    separator: Positions
    factors: tuple[tuple[int, Positions, Positions], ...]


def expect(beliefs: Beliefs, weights: Sequence[ScopedTable], kept: KeptTables) -> float:
    """Return the expectation of a product of weights.

    Where each factor lies inside a clique, messages go from the leaves of the cliques that are touched to one
    of them: no table grows beyond a clique.

    Args:
        beliefs: the calibrated tree.
        weights: positions and float64 weights of their cells; no position in two of them.
        kept: of this tree.
    """
    route = _route(beliefs.tree, tuple([positions for positions, _ in weights]))
    if route is None:
        scope = tuple(sorted(position for positions, _ in weights for position in positions))
        tables = [*_conditionals(beliefs, scope, kept), *enumerate(weights)]
        return float(_eliminated(beliefs.tree.shape, tables, (), KeptTables(0)))  # weights are met once
    held = [table for _, table in weights]
    for step in route:
        table, mass = _sums(beliefs, step, kept)
        scope = step.scope
        for place, positions, result in step.factors:
            table, scope = _contracted((scope, table), (positions, held[place]), result), result
        if step is route[-1]:
            return float(table)
        message = np.array(table, order="C")
        np.divide(message, mass, out=message, where=mass > 0)
        held.append(message)
    raise ValueError("expected at least one clique")


def _sums(
    beliefs: Beliefs, step: _Absorption, kept: KeptTables
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a clique's probabilities over what an expectation takes of it, and over its separator."""
    axes, table = beliefs.tree.cliques[step.clique], beliefs.tables[step.clique]
    if step.scope != axes:
        part = (step.clique, step.scope, "part")
        table = kept.get(part, partial(project, table, axes, step.scope))
    if step.separator == step.scope:
        return table, table
    mass = (step.clique, step.scope, step.separator, "mass")
    return table, kept.get(mass, partial(project, table, step.scope, step.separator))


@lru_cache(maxsize=4096)
def _route(tree: JunctionTree, scopes: tuple[Positions, ...]) -> tuple[_Absorption, ...] | None:
    """Return the cliques that an expectation goes through, leaves first; None where none holds a factor."""
    scope = tuple(sorted(position for positions in scopes for position in positions))
    home = tree.covering(scope)
    through = tree.subtree(scope) if home is None else [home]
    held: dict[int, list[tuple[int, Positions]]] = {clique: [] for clique in through}
    for place, positions in enumerate(scopes):
        inside = [clique for clique in through if {*positions} <= {*tree.cliques[clique]}]
        if not inside:
            return None
        held[inside[0]].append((place, positions))
    route = []
    for clique in reversed(through):
        separator = tree.separator(clique) if clique != through[0] else ()
        route.append(_absorption(tree.cliques[clique], clique, separator, held[clique]))
        if clique != through[0]:
            held[tree.parents[clique]].append((len(scopes) + len(route) - 1, separator))
    return tuple(route)


def _absorption(
    axes: Positions, clique: int, separator: Positions, factors: Sequence[tuple[int, Positions]]
) -> _Absorption:
    wanted = {*separator}.union(*[positions for _, positions in factors])
    scope = left = tuple(position for position in axes if position in wanted)
    waiting = sorted(factors, key=lambda factor: (len(factor[1]), factor[1]))
    steps = []
    while waiting:
        place, positions = waiting.pop(0)
        still = {*separator}.union(*[others for _, others in waiting])
        left = tuple(position for position in left if position in still or position not in positions)
        steps.append((place, positions, left))
    return _Absorption(clique, scope, separator, tuple(steps))


def _eliminated(
    shape: tuple[int, ...],
    tables: Sequence[tuple[Hashable, ScopedTable]],
    scope: Positions,
    kept: KeptTables,
) -> NDArray[np.float64]:
    """Return the product of tables, summed over all positions but those of a scope: float64, C-contiguous.

    Args:
        shape: cells per attribute of the domain.
        tables: each with its key among those that are kept; every position of the scope is in one of them.
        scope: positions of the result.
        kept: for the tables on the way.
    """
    held = dict(enumerate(tables))
    order = contraction_order(shape, tuple([positions for _, (positions, _) in tables]), scope)
    for number, (left, right, result) in enumerate(order, len(tables)):
        (first_key, first), (second_key, second) = held.pop(left), held.pop(right)
        key = (first_key, second_key, result)
        held[number] = key, (result, kept.get(key, partial(_contracted, first, second, result)))
    ((_, (positions, table)),) = held.values()
    return project(np.asarray(table, order="C"), positions, scope)


def _contracted(first: ScopedTable, second: ScopedTable, result: Positions) -> NDArray[np.float64]:
    """Return the product of two tables, summed to the result, as one matrix product: C-contiguous."""
    (left, left_table), (right, right_table) = first, second
    if {*right} <= {*left}:
        return weighted_sum(np.asarray(left_table, order="C"), left, second, result)
    if left[-1:] == right[-1:] == result[-1:] and len({*left, *right}) <= _MOST_AXES:
        return _contracted_inside(first, second, result)
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


def _contracted_inside(first: ScopedTable, second: ScopedTable, result: Positions) -> NDArray[np.float64]:
    """Return a contraction whose innermost loop runs over a position that both tables and the result have.

    As matrix products both tables would be copied with that position first, and the result turned back.
    """
    met = []
    for (scope, table), (other, _) in ((first, second), (second, first)):
        kept = tuple([position for position in scope if position in other or position in result])
        met.append((kept, project(np.asarray(table, order="C"), scope, kept)))
    letters = dict(zip(sorted({*met[0][0], *met[1][0]}), string.ascii_lowercase, strict=False))
    named = ["".join([letters[position] for position in scope]) for scope in (met[0][0], met[1][0], result)]
    values = np.einsum(f"{named[0]},{named[1]}->{named[2]}", met[0][1], met[1][1])
    return np.asarray(values, order="C")
