"""The graphical distribution: exact on a junction tree, for domains far beyond what an array can hold.

Its terms define it, as they define the dense one. Attributes that share a term depend on each other through
the tree's cliques; an attribute without a term is uniform and independent. Nothing is computed before it is
asked for, and what was computed is kept as long as the distribution.

Rows are drawn along the tree, one attribute after the other, each given those of its clique before it. The
values of a new attribute are halved again and again, and each row goes to one half or the other with the
probability that the model gives it. Systematic rounding decides that for all rows together: they stand sorted
by what is known of them, and a row goes left where the running sum of the probabilities passes a whole number
(after a random start). So each row by itself follows the model exactly, while every run of neighbours, such
as the rows of one cell or of all cells that begin alike, splits as expected, rounded up or down.

Variable elimination gives marginals and expectations over attributes that no clique holds together. The
cliques between the attributes asked about are cut down to what is asked of them and their separators, and
divided by the separator, which makes them conditional probabilities. Then tables are multiplied two by two,
and an attribute is summed out as soon as no other table needs it. A question's weights take part as tables
themselves, so that a product over many attributes never becomes one table over all of them.

Source: Madow (1949), On the theory of systematic sampling II, for samples of unequal probabilities; Koller
    and Friedman (2009), Probabilistic Graphical Models, sections 9.3 and 10.3.3.3.
"""

from __future__ import annotations

import dataclasses
import math
import string
import threading
from collections.abc import Hashable, Sequence
from dataclasses import field
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.calibration import AxisOrder, Beliefs, CalibrationPlan, by_size, calibrate, plan_calibration
from pmw.model.distribution import QueryTerm, SyntheticDistribution, Term, WeightedFactor
from pmw.model.factors import (
    KeptTables,
    Positions,
    ProjectionPlan,
    contraction_order,
    plan_projections,
    project,
    spread,
    weighted_sum,
)
from pmw.model.factors import positions as positions_in
from pmw.model.gradient import Gradient, plan_gradient
from pmw.model.junction_tree import JunctionTree, fits_tree, junction_tree
from queries.cells import cell_count
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.records import CodedRecords

ScopedTable = tuple[Positions, NDArray[np.float64]]
_Scalar = TypeVar("_Scalar", bound=np.generic)

_MOST_AXES = 26  # of two tables that one loop goes over; numpy's own limit is 32 before version 2


def joint(beliefs: Beliefs, scope: Positions, kept: KeptTables) -> NDArray[np.float64]:
    """Return the distribution over a scope: float64, C-contiguous, maybe a table that is kept."""
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
        weights: positions and float64 weights of their cells; no position in two of them.
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
    shape: tuple[int, ...], tables: Sequence[tuple[Hashable, ScopedTable]], scope: Positions, kept: KeptTables
) -> NDArray[np.float64]:
    """Return the product of tables, summed over all positions but those of a scope: float64, C-contiguous."""
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


LARGEST_TREE = 10**8  # cells of all clique tables: 800 MB in float64
_MOST_CACHED_CELLS = 2**22
_MOST_KEPT_CELLS = 2**23  # of tables on the way to marginals: 64 MB
_LARGEST_JOINT = 2**14  # cells up to which an answer across cliques is read off a joint table


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """The tree of a model and the scopes of its potentials, shared by all models with the same scopes.

    Args:
        scopes: positions per distinct scope of the terms, in order of first appearance.
        tree: over declared positions, as the scopes are.
        axes: the order of the tables' axes.
        plan: how the tree is calibrated, in that order.
    """

    scopes: tuple[Positions, ...]
    tree: JunctionTree
    axes: AxisOrder
    plan: CalibrationPlan


@dataclasses.dataclass(slots=True, eq=False)
class _Memo:
    """What a distribution has computed; it never changes an answer."""

    beliefs: Beliefs | None = None
    marginals: KeptTables = field(default_factory=lambda: KeptTables(_MOST_CACHED_CELLS))
    tables: KeptTables = field(default_factory=lambda: KeptTables(_MOST_KEPT_CELLS))
    lock: threading.RLock = field(default_factory=threading.RLock)


class GraphicalDistribution(SyntheticDistribution):
    """Expected records per cell of a domain of any size. Made by ``uniform`` and ``of_terms``.

    It answers alike for ever; what it has computed, it keeps.
    """

    __slots__ = ("_memo", "_shape", "domain", "terms", "total")

    def __init__(self, domain: Domain, total: float, terms: tuple[Term, ...], shape: _Shape) -> None:
        if not total > 0:
            raise BudgetError(f"expected a positive total, got {total}")
        self.domain: Final = domain
        self.total: Final = total
        self.terms: Final = terms
        self._shape: Final = shape
        self._memo: Final = _Memo()

    @classmethod
    def uniform(cls, domain: Domain, total: float) -> GraphicalDistribution:
        """Return the distribution that spreads ``total`` records evenly."""
        return cls.of_terms(domain, total, ())

    @classmethod
    def of_terms(cls, domain: Domain, total: float, terms: Sequence[Term]) -> GraphicalDistribution:
        """Return the distribution that the factors define."""
        return cls(domain, total, tuple(terms), _shape_of(domain.shape, _scopes(domain, terms)))

    def with_terms(self, terms: Sequence[Term]) -> GraphicalDistribution:
        """Return the distribution of other factors over the same domain and total.

        The tree is kept where the scopes are the same.
        """
        scopes = _scopes(self.domain, terms)
        same = scopes == self._shape.scopes
        shape = self._shape if same else _shape_of(self.domain.shape, scopes)
        return GraphicalDistribution(self.domain, self.total, tuple(terms), shape)

    @property
    def cells(self) -> int:
        """Numbers that the model holds: the cells of all clique tables."""
        return self._shape.tree.cells

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """The attributes of each clique of the tree, in declared order; the largest table first."""
        names = self.domain.names
        return tuple(tuple(names[place] for place in clique) for clique in self._shape.tree.cliques)

    def holds(self, scope: Sequence[str], max_cells: int) -> bool:
        """Tell whether a model with one more scope has clique tables of at most so many cells.

        It depends on the scopes of the terms and their order alone, and is found without making that model.

        Args:
            max_cells: most cells of all clique tables together, such as DEFAULT_MAX_CELLS.
        """
        return fits_tree(self._shape.tree, self._shape.scopes, positions_in(self.domain, scope), max_cells)

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        key = tuple(scope)
        with self._memo.lock:
            return self._memo.marginals.get(key, partial(self._read, key))

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        beliefs = self._beliefs()
        places = [positions_in(self.domain, scope) for scope in scopes]
        found: list[NDArray[np.float64] | None] = [None] * len(places)
        inner = tuple([self._shape.axes.scope(place) for place in places])
        for clique, numbers, plan in _readings(beliefs.tree, inner):
            for number, table in zip(numbers, plan.run(beliefs.tables[clique]), strict=True):
                found[number] = self._records(table, places[number])
        return [
            self.marginal(scope) if table is None else table
            for scope, table in zip(scopes, found, strict=True)
        ]

    def gradient(self) -> Gradient:
        """Return what finds the marginals of the terms' distinct scopes for other duals than its own."""
        axes = self._shape.axes
        return Gradient(plan_gradient(self._shape.plan.tree, tuple(map(axes.scope, self._shape.scopes))))

    def number(self, scope: Sequence[str]) -> int:
        """Return the place of a scope among the terms' distinct ones."""
        return self._shape.scopes.index(positions_in(self.domain, scope))

    def inward(self, scope: Sequence[str], table: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return a table over a scope, given in declared order, in the order of the gradient's axes."""
        return self._shape.axes.inward(table, positions_in(self.domain, scope))

    def answer(self, query: LinearQuery) -> float:
        places = positions_in(self.domain, query.scope)
        inside = self._shape.tree.covering(places) is not None
        if inside or self.domain.scope_size(query.scope) <= _LARGEST_JOINT:
            return query.evaluate(self.marginal(query.scope))
        factors = [(factor.scope, factor.weights / UNITS) for factor in query.factors]
        return self.expectation(factors) * (query.constant / UNITS)

    def expectation(self, factors: Sequence[WeightedFactor]) -> float:
        self.domain.scope([name for scope, _ in factors for name in scope])
        axes = self._shape.axes
        weights: list[ScopedTable] = []
        for scope, values in factors:
            places = positions_in(self.domain, scope)
            weights.append((axes.scope(places), axes.inward(np.asarray(values, dtype=np.float64), places)))
        with self._memo.lock:
            return expect(self._beliefs(), weights, self._memo.tables) * self.total

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records.

        They are drawn along the tree, one attribute after the other. Systematic rounding halves the rows that
        agree on the attributes before it in its clique as is expected of them, rounded up or down, until each
        has one value; independent draws do so at random. Either way every row by itself follows the model.
        """
        if count < 0:
            raise BudgetError(f"expected a number of rows of at least 0, got {count}")
        beliefs = self._shape.axes.declared(self._beliefs(), self._shape.tree)
        columns = draw_rows(beliefs, count, generator, independent=independent)
        return CodedRecords(
            self.domain,
            tuple(
                column.astype(np.min_scalar_type(size - 1))
                for column, size in zip(columns, self.domain.shape, strict=True)
            ),
        )

    def __repr__(self) -> str:
        cells = cell_count(self.cells)
        return f"GraphicalDistribution({self.domain.name!r}, {cells} cells, total {self.total:,.0f})"

    def __reduce__(self) -> tuple[object, ...]:
        return GraphicalDistribution.of_terms, (self.domain, self.total, self.terms)

    def _read(self, scope: tuple[str, ...]) -> NDArray[np.float64]:
        places = positions_in(self.domain, scope)
        cells = self.domain.scope_size(scope)
        if cells > LARGEST_TREE:
            raise BudgetError(
                f"a table over {len(scope)} attributes would have {cell_count(cells)} cells; "
                f"it may have {LARGEST_TREE:,}: ask for fewer attributes"
            )
        return self._records(
            joint(self._beliefs(), self._shape.axes.scope(places), self._memo.tables), places
        )

    def _beliefs(self) -> Beliefs:
        with self._memo.lock:
            if self._memo.beliefs is None:
                self._memo.beliefs = calibrate(self._shape.plan, self._potentials())
            return self._memo.beliefs

    def _potentials(self) -> list[NDArray[np.float64]]:
        """Return the sum of all terms per distinct scope: float64, natural logarithms."""
        sums: dict[Positions, NDArray[np.float64]] = {}
        for term in self.terms:
            duals, places = term.duals, positions_in(self.domain, term.scope)
            if isinstance(term, QueryTerm):
                duals = np.asarray(term.query.weights() * (term.dual / UNITS))
            sums[places] = sums[places] + duals if places in sums else np.asarray(duals, dtype=np.float64)
        return [self._shape.axes.inward(sums[places], places) for places in self._shape.scopes]

    def _records(self, table: NDArray[np.float64], places: Positions) -> NDArray[np.float64]:
        """Return a table of probabilities in records, with its axes as declared: C-contiguous, read-only."""
        values = np.multiply(self._shape.axes.outward(table, places), self.total, order="C")
        values = np.asarray(values)
        values.flags.writeable = False
        return values


def _scopes(domain: Domain, terms: Sequence[Term]) -> tuple[Positions, ...]:
    """Return the distinct scopes of terms as positions, in order of first appearance."""
    named = dict.fromkeys(term.scope for term in terms)
    return tuple(tuple([domain.index(name) for name in scope]) for scope in named)


@lru_cache(maxsize=16)
def _shape_of(shape: tuple[int, ...], scopes: tuple[Positions, ...]) -> _Shape:
    tree = junction_tree(shape, scopes)
    if tree.cells > LARGEST_TREE:
        raise BudgetError(
            f"the model's cliques have {cell_count(tree.cells)} cells; a graphical model holds at most "
            f"{LARGEST_TREE:,}: measure fewer or smaller scopes"
        )
    axes = by_size(shape)
    return _Shape(scopes, tree, axes, plan_calibration(axes.tree(tree), tuple(map(axes.scope, scopes))))


@lru_cache(maxsize=16)
def _readings(
    tree: JunctionTree, scopes: tuple[Positions, ...]
) -> tuple[tuple[int, tuple[int, ...], ProjectionPlan], ...]:
    """Return per clique the numbers of the scopes that are read off it, and how; others are in no clique."""
    homes: dict[int, list[int]] = {}
    for number, scope in enumerate(scopes):
        home = tree.covering(scope)
        if home is not None:
            homes.setdefault(home, []).append(number)
    return tuple(
        (
            clique,
            tuple(wanted),
            plan_projections(tree.shape, tree.cliques[clique], tuple([scopes[number] for number in wanted])),
        )
        for clique, wanted in sorted(homes.items())
    )


def draw_rows(
    beliefs: Beliefs, count: int, generator: np.random.Generator, *, independent: bool
) -> list[NDArray[np.int64]]:
    """Return the cell of each row per attribute, in no order."""
    shape = beliefs.tree.shape
    columns: dict[int, NDArray[np.int64]] = {}
    order = np.arange(count)  # by the newest attribute, then the one before it, ...
    for clique, table in zip(beliefs.tree.cliques, beliefs.tables, strict=True):
        for position in clique:
            if position in columns:
                continue
            known = tuple(other for other in clique if other in columns)
            axes = tuple(sorted((*known, position)))
            joint = np.moveaxis(project(table, clique, axes), axes.index(position), -1)
            states = np.zeros(count, dtype=np.int64)
            for other in known:
                states = states * shape[other] + columns[other]
            several = math.prod([shape[other] for other in known])
            alike = order[np.argsort(_short(states[order], several), kind="stable")]
            split = _Split(joint.reshape(-1, shape[position]), states, alike)
            columns[position] = split.run(generator, independent=independent)
            order = order[np.argsort(_short(columns[position][order], shape[position]), kind="stable")]
    order = generator.permutation(count)
    return [columns[position][order] for position in range(len(shape))]


class _Split:
    """The cells of a new attribute, halved until each row has one.

    Args:
        joint: float64, shape (states, cells), probabilities up to a factor per state.
        states: int64, the state of each row.
        order: int64, the rows sorted by state.
    """

    def __init__(
        self, joint: NDArray[np.float64], states: NDArray[np.int64], order: NDArray[np.int64]
    ) -> None:
        self._cells = joint.shape[1]
        below = np.zeros((joint.shape[0], self._cells + 1))  # mass of the cells before each one
        np.cumsum(joint, axis=1, out=below[:, 1:])
        self._below = below.reshape(-1)
        self._starts = states * (self._cells + 1)  # where each row's state begins in it
        self._order = order

    def run(self, generator: np.random.Generator, *, independent: bool) -> NDArray[np.int64]:
        """Return the new attribute's cell for each row."""
        first = np.zeros(len(self._starts), dtype=np.int64)  # each row's cells: from first, before end
        end = np.full(len(self._starts), self._cells)
        rows = self._order
        for _ in range((self._cells - 1).bit_length()):
            low, high = first[rows], end[rows]
            middle = (low + high + 1) // 2
            shares = self._shares(rows, low, middle, high)
            if independent:
                left = generator.random(len(rows)) < shares
            else:
                sums = np.floor(np.cumsum(np.append(generator.random(), shares)))
                left = np.diff(sums) > 0
            end[rows] = np.where(left, middle, high)
            first[rows] = np.where(left, low, middle)
            rows = self._order[np.argsort(_short(first[self._order], self._cells), kind="stable")]
        return first

    def _shares(
        self,
        rows: NDArray[np.int64],
        low: NDArray[np.int64],
        middle: NDArray[np.int64],
        high: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return the probability of each row's lower half: exactly 0 or 1 where the other one is all."""
        starts = self._starts[rows]
        before = self._below[starts + low]
        mass = self._below[starts + high] - before
        lower = self._below[starts + middle] - before
        shares: NDArray[np.float64] = np.divide(lower, mass, out=np.ones_like(mass), where=mass > 0)
        return shares


def _short(cells: NDArray[np.int64], size: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return cells in as few bytes as they need, which makes sorting them linear."""
    return cells.astype(np.min_scalar_type(size))
