"""Linear (counting) queries: a weight in [0, 1] for each cell of a scope.

The answer on a table is the sum over its records of the weight of the record's cell. Weights are whole
multiples of 2^-20, so that an answer on integer counts is an exact integer in units of 2^-20 records.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queries.domain import Attribute, CategoricalAttribute, Domain, IntegerAttribute
from queries.errors import ScopeError
from queries.marginal import Marginal

__all__ = [
    "Factor",
    "LinearQuery",
    "UNITS",
]

UNITS = 2**20  # units per record: the grid of weights and answers

_compact = json.JSONEncoder(separators=(",", ":")).encode  # one for all: making one takes as long as its use


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Weights over some attributes of a query's scope.

    Args:
        scope: attribute names in declared order; empty for a constant.
        weights: int64, one axis per attribute of ``scope``, units of 2^-20, each in 0..2^20;
            kept as a read-only copy.

    Attributes:
        is_indicator: every weight is 0 or one record.
        constant: the weight of every cell, where they are all the same; else None.
        box: the smallest box that holds all non-zero weights; empty where the factor is constant.
        is_box: every weight inside the box is one record.

    Raises:
        ScopeError: the weights are not integers in 0..2^20.
    """

    scope: tuple[str, ...]
    weights: NDArray[np.int64]
    is_indicator: bool = field(init=False, repr=False)
    constant: int | None = field(init=False, repr=False)
    box: tuple[slice, ...] = field(init=False, repr=False)
    is_box: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = np.asarray(self.weights)
        whole = given.dtype == np.int64 or np.issubdtype(given.dtype, np.integer)
        if not whole or given.ndim != len(self.scope):
            raise ScopeError(
                f"expected integer weights with {len(self.scope)} axes, got {given.ndim} of {given.dtype}"
            )
        weights = np.array(given, dtype=np.int64)
        weights.flags.writeable = False
        # Counting is several times faster than comparing with ends: most factors are 0 or one record.
        positive, full = int(np.count_nonzero(weights)), int(np.count_nonzero(weights == UNITS))
        if positive != full and (int(weights.min()) < 0 or int(weights.max()) > UNITS):
            raise ScopeError(f"expected weights in 0..{UNITS}, got {weights.min()}..{weights.max()}")
        constant = _constant(weights, positive, full)
        box = () if constant is not None else _box(weights)
        cells = math.prod([side.stop - side.start for side in box])
        object.__setattr__(self, "scope", tuple(self.scope))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "is_indicator", positive == full)
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "box", box)
        object.__setattr__(self, "is_box", constant is None and full == cells)


@dataclass(frozen=True, slots=True)
class _Part:
    """One factor inside the query's bounding box, where it is not constantly one record."""

    shape: tuple[int, ...]  # ready to broadcast over the box
    weights: NDArray[np.int64]
    fractional: bool


@dataclass(frozen=True, slots=True, eq=False)
class LinearQuery:
    """A counting query as a product of factors over disjoint sets of attributes.

    One factor per attribute is the product form; one factor over everything is the dense form. Factors
    that are constantly one record leave the scope; a query that is zero everywhere has an empty scope.

    Args:
        domain: the table's domain.
        factors: at most one of them may hold weights other than 0 and one record, so that a cell's
            weight is never the product of two rounded numbers.
        aligned: False when a range cut a cell and took its fraction.

    Attributes:
        scope: the attributes that the answer depends on, in declared order.

    Raises:
        ScopeError: factors overlap, do not fit the domain, or two of them hold fractions.
    """

    domain: Domain
    factors: tuple[Factor, ...]
    aligned: bool = True
    scope: tuple[str, ...] = field(init=False)
    box: tuple[slice, ...] = field(init=False, repr=False)
    _parts: tuple[_Part, ...] = field(init=False, repr=False)
    _constant: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        named = [name for factor in self.factors for name in factor.scope]
        self.domain.scope(named)
        for factor in self.factors:
            shape = self.domain.scope_shape(factor.scope)
            in_order = len(factor.scope) < 2 or self.domain.scope(factor.scope) == factor.scope
            if factor.weights.shape != shape or not in_order:
                raise ScopeError(
                    f"expected weights of shape {shape} over {list(factor.scope)} in declared order, "
                    f"got {factor.weights.shape}"
                )
        if sum(not factor.is_indicator for factor in self.factors) > 1:
            raise ScopeError("expected fractions in one factor at most; multiply the factors before rounding")
        constant, factors = _normalise(self.factors)
        factors = tuple(sorted(factors, key=lambda factor: self.domain.index(factor.scope[0])))
        scope = self.domain.scope([name for factor in factors for name in factor.scope])
        sides = {
            name: side for factor in factors for name, side in zip(factor.scope, factor.box, strict=True)
        }
        parts = tuple([_part(scope, factor) for factor in factors if not factor.is_box])
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "box", tuple([sides[name] for name in scope]))
        object.__setattr__(self, "_parts", parts)
        object.__setattr__(self, "_constant", constant)

    @classmethod
    def everything(cls, domain: Domain) -> LinearQuery:
        """Return the query that counts every record."""
        return cls(domain, ())

    @classmethod
    def cells(cls, domain: Domain, ranges: Mapping[str, tuple[int, int]]) -> LinearQuery:
        """Return the query that counts the records inside a box.

        Args:
            domain: the table's domain.
            ranges: first and last cell (inclusive) per attribute.

        Raises:
            ScopeError: an attribute is unknown or a range is empty or outside the attribute.
        """
        factors = []
        for name, (low, high) in ranges.items():
            size = domain[name].size
            if not 0 <= low <= high < size:
                raise ScopeError(f"attribute {name!r} has cells 0..{size - 1}, got the range {low}..{high}")
            weights = np.zeros(size, dtype=np.int64)
            weights[low : high + 1] = UNITS
            factors.append(Factor((name,), weights))
        return cls(domain, tuple(factors))

    def within(self, cells: Mapping[str, int]) -> LinearQuery:
        """Return the query that counts the same records, but only those in one cell of some attributes.

        Args:
            cells: one cell per attribute.

        Raises:
            ScopeError: an attribute is unknown or has no such cell.
        """
        inside = LinearQuery.cells(self.domain, {name: (cell, cell) for name, cell in cells.items()})
        kept = [factor for factor in inside.factors if factor.scope[0] not in self.scope]
        for factor in self.factors:
            weights = factor.weights
            for axis, name in enumerate(factor.scope):
                if name in cells:
                    only = np.zeros(weights.shape[axis], dtype=np.int64)
                    only[cells[name]] = 1
                    weights = weights * only.reshape(
                        [-1 if other == axis else 1 for other in range(weights.ndim)]
                    )
            kept.append(Factor(factor.scope, weights))
        kept.append(Factor((), np.array(self._constant, dtype=np.int64)))
        narrowed = LinearQuery(self.domain, tuple(kept), aligned=self.aligned)
        if self.aligned or not narrowed._is_whole:
            return narrowed
        return LinearQuery(self.domain, tuple(kept))  # the cut cells lie outside

    @property
    def _is_whole(self) -> bool:
        """Every weight is 0 or one record."""
        return self._constant in (0, UNITS) and all(factor.is_indicator for factor in self.factors)

    @property
    def constant(self) -> int:
        """The weight that multiplies all factors, in units of 2^-20; 0 for the query that counts nobody."""
        return self._constant

    @property
    def is_box(self) -> bool:
        """True when the weights are one record inside ``box`` and zero outside."""
        return not self._parts and self._constant == UNITS

    def answer(self, marginal: Marginal) -> int:
        """Return the exact answer on integer counts.

        Args:
            marginal: records per cell over a scope that contains this query's.

        Returns:
            The answer in units of 2^-20 records.
        """
        counts = marginal if marginal.scope == self.scope else marginal.project(self.scope)
        total = counts.counts[self.box]
        scale = self._constant
        for part in self._parts:
            weights = part.weights if part.fractional else part.weights // UNITS
            scale = 1 if part.fractional else scale
            total = total * weights.reshape(part.shape)
        return int(total.sum(dtype=np.int64)) * scale

    def evaluate(self, values: NDArray[np.float64]) -> float:
        """Return the answer on real-valued counts.

        Args:
            values: float64, records per cell over exactly this query's scope.

        Returns:
            The answer in records.
        """
        total = values[self.box]
        for number, part in enumerate(self._parts):
            weights = part.weights.reshape(part.shape) / UNITS
            total = np.multiply(total, weights, out=total if number else None)  # the first makes a copy
        return float(total.sum()) * (self._constant / UNITS)

    def weights(self) -> NDArray[np.int64]:
        """Return the weights over the whole scope: int64, units of 2^-20 records per cell."""
        shape = self.domain.scope_shape(self.scope)
        weights = np.zeros(shape, dtype=np.int64)
        inside = np.full(weights[self.box].shape, self._constant, dtype=np.int64)
        for part in self._parts:
            inside = inside * part.weights.reshape(part.shape) // UNITS
        weights[self.box] = inside
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical form: runs ``[start, stop, weight]`` of non-zero weights per factor."""
        factors = [[list(factor.scope), _runs(factor)] for factor in self.factors]
        form: dict[str, Any] = {"factors": factors}
        if self._constant != UNITS:
            form["constant"] = self._constant
        if not self.aligned:
            form["aligned"] = False
        return form

    @classmethod
    def from_dict(cls, domain: Domain, form: Mapping[str, Any]) -> LinearQuery:
        """Return the query of a canonical form."""
        factors = []
        for scope, runs in form["factors"]:
            weights = np.zeros(domain.scope_size(scope), dtype=np.int64)
            for start, stop, weight in runs:
                weights[start:stop] = weight
            factors.append(Factor(tuple(scope), weights.reshape(domain.scope_shape(scope))))
        if "constant" in form:
            factors.append(Factor((), np.array(form["constant"], dtype=np.int64)))
        return cls(domain, tuple(factors), aligned=bool(form.get("aligned", True)))

    def to_json(self) -> str:
        """Return the canonical form as text; queries with equal texts have equal weights."""
        return _compact(self.to_dict())

    def key(self) -> bytes:
        """Return the SHA-256 of the canonical text; queries with equal keys have equal weights."""
        return hashlib.sha256(self.to_json().encode()).digest()

    def describe(self) -> str:
        """Return the query in words, such as ``age 30 to 39 and sex Female``."""
        if self._constant == 0:
            return "nobody"
        words = " and ".join(_describe(self.domain, factor) for factor in self.factors) or "everybody"
        return words if self._constant == UNITS else f"{words} (x {self._constant / UNITS:.3g})"


def _constant(weights: NDArray[np.int64], positive: int, full: int) -> int | None:
    """Return the weight of every cell, or None where they differ.

    Args:
        weights: of the cells.
        positive: how many are not 0.
        full: how many are one record.
    """
    if not positive:
        return 0
    if full:
        return UNITS if full == weights.size else None
    first = int(weights.flat[0])
    return None if np.any(weights != first) else first


def _box(weights: NDArray[np.int64]) -> tuple[slice, ...]:
    """Return the smallest box that holds all non-zero weights, of which there are some."""
    places = weights.nonzero()
    if len(places) == 1:  # they are in order
        return (slice(int(places[0][0]), int(places[0][-1]) + 1),)
    return tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in places)


def _normalise(factors: Sequence[Factor]) -> tuple[int, tuple[Factor, ...]]:
    """Return a constant weight and the factors that are not constant."""
    constant = UNITS
    kept = []
    for factor in itertools.chain.from_iterable(map(_split, factors)):
        if factor.constant is None:
            kept.append(factor)
        elif factor.constant != UNITS:
            # At most one factor is fractional, so this is exact.
            constant = constant * factor.constant // UNITS
    if constant == 0:
        return 0, ()
    return constant, tuple(kept)


def _split(factor: Factor) -> list[Factor]:
    """Split off a common share and every attribute that the others do not depend on.

    So a question has one form however it was written, but for groups of several attributes inside one
    condition, which stay together.
    """
    if factor.is_indicator and len(factor.scope) <= 1:
        return [factor]
    weights, scope = factor.weights, list(factor.scope)
    pieces: list[Factor] = []
    share = int(weights.max())
    if 0 < share < UNITS and np.all((weights == 0) | (weights == share)):
        pieces.append(Factor((), np.array(share)))
        weights = np.where(weights > 0, UNITS, 0)
    axis = 0
    while len(scope) > 1 and axis < len(scope):
        rest_shape = weights.shape[:axis] + weights.shape[axis + 1 :]
        table = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
        rows, columns = np.any(table != 0, axis=1), np.any(table != 0, axis=0)
        one_row, one_column = table[int(rows.argmax())], table[:, int(columns.argmax())]
        if np.array_equal(table, np.outer(rows, one_row)):
            pieces.append(Factor((scope.pop(axis),), np.where(rows, UNITS, 0)))
            weights = one_row.reshape(rest_shape)
        elif np.array_equal(table, np.outer(one_column, columns)):
            pieces.append(Factor((scope.pop(axis),), one_column))
            weights = np.where(columns, UNITS, 0).reshape(rest_shape)
        else:
            axis += 1
    return [*pieces, Factor(tuple(scope), weights)]


def _part(scope: tuple[str, ...], factor: Factor) -> _Part:
    """Return what a factor is inside its box, over a query's scope."""
    weights = factor.weights[factor.box]
    lengths = dict(zip(factor.scope, weights.shape, strict=True))
    return _Part(tuple(lengths.get(name, 1) for name in scope), weights, fractional=not factor.is_indicator)


def _runs(factor: Factor) -> list[list[int]]:
    if factor.is_box and len(factor.box) == 1:
        return [[factor.box[0].start, factor.box[0].stop, UNITS]]
    flat = factor.weights.reshape(-1)
    changes = (np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist()
    ends = [0, *changes, flat.size]
    return [[start, stop, int(flat[start])] for start, stop in itertools.pairwise(ends) if flat[start]]


def _describe(domain: Domain, factor: Factor) -> str:
    if len(factor.scope) != 1:
        return f"a condition on {', '.join(factor.scope)}"
    attribute = domain[factor.scope[0]]
    pieces = []
    for start, stop, weight in _runs(factor):
        text = _cells_text(attribute, start, stop)
        if weight != UNITS:
            text += f" (x {weight / UNITS:.3g})"
        pieces.append(text)
    shown = pieces if len(pieces) <= 6 else [*pieces[:5], f"{len(pieces) - 5} more"]
    return f"{attribute.name} {', '.join(shown)}"


def _cells_text(attribute: Attribute, start: int, stop: int) -> str:
    """Return consecutive cells in words: ``30 to 39``, ``[0, 25000)``, ``Female to Male``."""
    first, last = attribute.label(start), attribute.label(stop - 1)
    if stop - start == 1:
        return first
    if isinstance(attribute, CategoricalAttribute) or stop > attribute.base_size:
        return f"{first} to {last}"
    if isinstance(attribute, IntegerAttribute):
        return f"{attribute.boundaries[start]} to {attribute.boundaries[stop] - 1}"
    return f"{first.split(',')[0]},{last.split(',')[1]}"
