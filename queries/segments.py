"""Segments: the pieces into which comparisons cut cells, and the linear query of a predicate.

A predicate is constant on a segment, so a cell's weight is the share of the cell where it holds, with
values taken as evenly spread inside a cell and, across attributes, independently. A cell where it holds for
every value, or for none, gets a weight of exactly 1 or 0. Any other cell is not decided, be its share as
small as that of a single number: the query then lies between two readings, without such cells and with them.

Empty values follow SQL: a comparison with one is neither true nor false, and only what is true is counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from queries.cells import cell_count
from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.errors import QueryError
from queries.factors import UNITS, Factor
from queries.intervals import (
    categorical_cells,
    intervals,
    names_other,
    resolve_attribute,
    special_cell,
    value_ends,
    without_atoms,
)
from queries.linear import LinearQuery, Readings
from queries.predicates import (
    And,
    Atom,
    Comparison,
    IsMissing,
    IsOther,
    Not,
    Or,
    Predicate,
    atoms_of,
    connected_terms,
    push_negations,
)

_ROUNDING = 1e-12  # of a sum of shares
_LARGEST_FACTOR = 2**22  # cells of the weights of one condition that joins several attributes


def count_where(predicate: Predicate, domain: Domain) -> LinearQuery:
    """Return the query that counts the records where the predicate holds.

    Raises:
        QueryError: a name or value is not declared, a value is of the wrong kind, a range is empty, or a
            condition joins so many attributes that its weights would not fit.
    """
    literal = push_negations(predicate, negated=False)
    terms = literal.children if isinstance(literal, And) else (literal,)
    groups = [_evaluate(members, domain) for members in connected_terms(terms)]
    cut = [group for group in groups if not group.is_indicator]
    single = groups if len(cut) < 2 else [group for group in groups if group.is_indicator]
    factors = [Factor(group.scope, group.units()) for group in single]
    if len(cut) > 1:
        factors.append(_product(cut, domain))
    if all(group.is_decided for group in groups):
        return LinearQuery(domain, tuple(factors))
    # Groups share no attribute and their weights are not negative: the least product is that of the least.
    least = LinearQuery(domain, tuple([Factor(group.scope, group.least * UNITS) for group in groups]))
    most = LinearQuery(domain, tuple([Factor(group.scope, group.most * UNITS) for group in groups]))
    if most.constant == 0:
        return most  # nobody, whatever other groups leave open
    return LinearQuery(domain, tuple(factors), readings=Readings(least, most))


@dataclass(frozen=True, slots=True)
class _Weighted:
    """The share of each cell of a scope where a condition holds, in [0, 1]."""

    scope: tuple[str, ...]
    weights: NDArray[np.float64]
    is_indicator: bool  # every weight is exactly 0 or 1
    least: NDArray[np.bool_]  # where it holds for every value of the cell
    most: NDArray[np.bool_]  # where it holds for some

    @property
    def is_decided(self) -> bool:
        """No cell is left open."""
        return self.least is self.most or np.array_equal(self.least, self.most)

    def units(self) -> NDArray[np.int64]:
        """Return the weights, rounded to the grid."""
        if self.is_indicator:
            return self.weights.astype(np.int64) * UNITS
        return np.rint(self.weights * UNITS).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Segments:
    """The pieces of one attribute's cells; the ``missing`` and ``other`` cells come last."""

    attribute: Attribute
    starts: NDArray[np.float64]  # of the pieces of ordered cells; empty for categorical attributes
    cells: NDArray[np.int64]  # first piece of each cell
    shares: NDArray[np.float64]  # the piece's share of its cell
    boundaries: frozenset[float]  # of the cells

    @property
    def count(self) -> int:
        return len(self.shares)

    @property
    def is_whole(self) -> bool:
        return len(self.shares) == len(self.cells)


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a condition is true and where it is false; where neither, it is unknown."""

    true: NDArray[np.bool_]
    false: NDArray[np.bool_]


def _evaluate(terms: Sequence[Predicate], domain: Domain) -> _Weighted:
    if len(terms) == 1 and not isinstance(terms[0], And | Or):
        return _evaluate_one(terms[0], domain)
    atoms = [atom for term in terms for atom in atoms_of(term)]
    for atom in atoms:
        resolve_attribute(atom.attribute, domain, atom.position)
    scope = domain.scope(sorted({atom.attribute for atom in atoms}))
    _check_size(domain.scope_size(scope), scope)
    segments = [_cut(domain[name], [atom for atom in atoms if atom.attribute == name]) for name in scope]
    _check_size(math.prod(piece.count for piece in segments), scope)
    axes = {name: axis for axis, name in enumerate(scope)}
    holds = _holds(And(tuple(terms)), segments, axes).true
    holds = np.broadcast_to(holds, tuple(piece.count for piece in segments))
    return _weighted(scope, segments, holds)


def _evaluate_one(term: Predicate, domain: Domain) -> _Weighted:
    """Evaluate one comparison, or NOT of one, as most terms are: nothing is joined."""
    (atom,) = atoms_of(term)
    attribute = domain[resolve_attribute(atom.attribute, domain, atom.position)]
    scope = (attribute.name,)
    _check_size(attribute.size, scope)
    piece = _cut(attribute, (atom,))
    _check_size(piece.count, scope)
    truth = _atom_truth(atom, piece)
    return _weighted(scope, (piece,), truth.false if isinstance(term, Not) else truth.true)


def _weighted(scope: tuple[str, ...], segments: Sequence[_Segments], holds: NDArray[np.bool_]) -> _Weighted:
    """Return the share of each cell that the segments where a condition holds make up."""
    weights, least, most = holds.astype(np.float64), holds, holds
    if all(piece.is_whole for piece in segments):
        return _Weighted(scope, weights, is_indicator=True, least=least, most=most)
    for axis, piece in enumerate(segments):
        if not piece.is_whole:
            shape = [-1 if other == axis else 1 for other in range(len(segments))]
            weights = np.add.reduceat(weights * piece.shares.reshape(shape), piece.cells, axis=axis)
            least = np.logical_and.reduceat(least, piece.cells, axis=axis)
            most = np.logical_or.reduceat(most, piece.cells, axis=axis)
    # Shares of one cell sum to 1 but for rounding; those of single numbers are nothing.
    weights[least | (weights > 1 - _ROUNDING)] = 1.0
    weights[~most | (weights < _ROUNDING)] = 0.0
    return _Weighted(scope, weights, bool(np.all((weights == 0.0) | (weights == 1.0))), least, most)


def _product(groups: Sequence[_Weighted], domain: Domain) -> Factor:
    """Multiply the shares of groups before they are rounded, so that a cell's weight is rounded once."""
    scope = domain.scope([name for group in groups for name in group.scope])
    _check_size(domain.scope_size(scope), scope)
    weights = np.ones((1,) * len(scope))
    for group in groups:
        lengths = dict(zip(group.scope, group.weights.shape, strict=True))
        weights = weights * group.weights.reshape([lengths.get(name, 1) for name in scope])
    return Factor(scope, np.rint(weights * UNITS).astype(np.int64))


def _check_size(cells: int, scope: Sequence[str]) -> None:
    if cells > _LARGEST_FACTOR:
        raise QueryError(
            f"a condition that joins {', '.join(scope)} would need {cell_count(cells)} weights, at most "
            f"{_LARGEST_FACTOR:,} fit; ask about fewer attributes at once or use whole cells",
            code="too_large",
        )


def _cut(attribute: Attribute, atoms: Sequence[Atom]) -> _Segments:
    """Cut the cells of an attribute wherever one of its comparisons changes."""
    whole = _whole_cells(attribute)
    if isinstance(attribute, CategoricalAttribute):
        return whole
    ranged = [atom for atom in atoms if not names_other(attribute, atom)]
    ends = {
        without_atoms(attribute, end, whole.boundaries)
        for atom in ranged
        for interval in intervals(attribute, atom)
        for end in interval
    }
    if ends <= whole.boundaries:
        return whole
    boundaries = np.array(attribute.boundaries, dtype=np.float64)
    points = np.array(sorted(whole.boundaries | ends), dtype=np.float64)
    starts = points[:-1]
    owner = np.searchsorted(boundaries[:-1], starts, side="right") - 1
    lengths = np.diff(np.minimum(points, boundaries[-1]))  # the closing number of the last cell has none
    if attribute.is_whole:
        pieces = points.searchsorted(np.array(attribute.atoms), side="right") - 1
        lengths -= np.bincount(pieces, minlength=len(starts))  # they are no values of the cells
    sums = np.bincount(owner, weights=lengths)
    special = attribute.size - attribute.base_size
    return _Segments(
        attribute,
        starts,
        np.concatenate([np.searchsorted(points, boundaries[:-1]), len(starts) + np.arange(special)]),
        np.concatenate([lengths / sums[owner], np.ones(special)]),
        whole.boundaries,
    )


@functools.lru_cache(maxsize=1024)
def _whole_cells(attribute: Attribute) -> _Segments:
    """Return the segments of an attribute that no comparison cuts: its cells."""
    starts: list[float] = []
    ends: tuple[float, ...] = ()
    if not isinstance(attribute, CategoricalAttribute):
        starts, ends = list(map(float, attribute.boundaries[:-1])), value_ends(attribute)
    return _Segments(
        attribute,
        np.array(starts, dtype=np.float64),
        np.arange(attribute.size),
        np.ones(attribute.size),
        frozenset((*starts, *ends)),
    )


def _holds(predicate: Predicate, segments: Sequence[_Segments], axes: dict[str, int]) -> _Truth:
    if isinstance(predicate, And | Or):
        # Kleene's logic: AND is false where some child is false, OR true where some child is true.
        truths = [_holds(child, segments, axes) for child in predicate.children]
        conjunction = isinstance(predicate, And)
        shape = (1,) * len(segments)
        every = np.full(shape, True)
        some = np.full(shape, False)
        for truth in truths:
            positive, negative = (truth.true, truth.false) if conjunction else (truth.false, truth.true)
            every, some = every & positive, some | negative
        return _Truth(every, some) if conjunction else _Truth(some, every)
    if isinstance(predicate, Not):
        inner = _holds(predicate.child, segments, axes)
        return _Truth(inner.false, inner.true)
    axis = axes[predicate.attribute]
    truth = _atom_truth(predicate, segments[axis])
    shape = tuple(-1 if other == axis else 1 for other in range(len(segments)))
    return _Truth(truth.true.reshape(shape), truth.false.reshape(shape))


def _atom_truth(atom: Atom, segments: _Segments) -> _Truth:
    attribute = segments.attribute
    base = segments.count - (attribute.size - attribute.base_size)
    true = np.zeros(segments.count, dtype=bool)
    known = np.zeros(segments.count, dtype=bool)
    if isinstance(atom, IsMissing | IsOther):
        known[:] = True
        true[special_cell(attribute, atom) - attribute.size] = True  # special cells come last
    elif isinstance(attribute, CategoricalAttribute):
        known[:base] = True
        if attribute.other_code is not None:
            known[attribute.other_code] = True  # an undeclared value differs from every declared one
        true[categorical_cells(attribute, atom)] = True
        if isinstance(atom, Comparison) and atom.operator == "ne":
            true = known & ~true
    elif names_other(attribute, atom):
        other = segments.count - attribute.size + (attribute.other_code or 0)
        known[: base + len(attribute.atoms)] = known[other] = true[other] = True
        if isinstance(atom, Comparison) and atom.operator == "ne":
            true = known & ~true
    else:
        known[: base + len(attribute.atoms)] = True
        _mark_intervals(true, segments, intervals(attribute, atom))
    return _Truth(true, known & ~true)


def _mark_intervals(
    true: NDArray[np.bool_], segments: _Segments, pieces: Sequence[tuple[float, float]]
) -> None:
    """Mark the pieces that start inside half-open intervals, and the atoms that lie there."""
    attribute = segments.attribute
    assert not isinstance(attribute, CategoricalAttribute)  # noqa: S101 - values without an order have none
    base = segments.count - (attribute.size - attribute.base_size)
    for interval in pieces:
        ends = [without_atoms(attribute, end, segments.boundaries) for end in interval]
        first, last = segments.starts.searchsorted(ends)
        true[first:last] = True
        for place, number in enumerate(attribute.atoms, base):
            true[place] |= interval[0] <= number < interval[1]
