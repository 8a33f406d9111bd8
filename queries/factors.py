"""Factors: the weights of a linear query over some of its attributes.

Weights are whole multiples of 2^-20, so that an answer on integer counts is an exact integer in units of
2^-20 records.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.errors import ScopeError
from queries.frozen import dataclass
from queries.places import as_index

UNITS = 2**20  # units per record: the grid of weights and answers
_SHORT = 1024  # cells up to which weights are kept as they are

_Weights: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Dense:
    values: _Weights

    @property
    def size_in_bytes(self) -> int:
        return self.values.nbytes

    def weights(self, shape: tuple[int, ...]) -> _Weights:
        return self.values


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One record in each of consecutive cells of one attribute, but for both ends.

    Args:
        inside: the cells; none of them for the weight 0 everywhere.
        ends: the weights of the first and of the last of them, above 0; of a single one, the lesser.
    """

    size: int
    inside: slice
    ends: tuple[int, int] = (UNITS, UNITS)

    @property
    def size_in_bytes(self) -> int:
        """Bytes that the cells and both ends are kept in."""
        return 32

    def weights(self, shape: tuple[int, ...]) -> _Weights:
        """Return the weights: int64, read-only."""
        weights = np.zeros(shape, dtype=np.int64)
        weights[self.inside] = UNITS
        if self.ends != (UNITS, UNITS) and self.inside.start < self.inside.stop:
            weights[self.inside.start] = self.ends[0]
            weights[self.inside.stop - 1] = min(self.ends[1], int(weights[self.inside.stop - 1]))
        return _frozen(weights)

    def found(self) -> tuple[object, ...]:
        """Return the values of a factor's fields, from its shape on."""
        cells, (first, last) = self.inside.stop - self.inside.start, self.ends
        if not 0 < min(first, last) <= max(first, last) <= UNITS:
            raise ScopeError(f"expected weights in 1..{UNITS} at both ends, got {first}, {last}")
        first, last = (min(first, last),) * 2 if cells == 1 else (first, last)
        full, constant = first == last == UNITS or cells <= 0, None
        if cells <= 0 or (cells == self.size and first == last and (full or cells <= 2)):
            constant = first if cells > 0 else 0
        box = (self.inside,) if constant is None else ()
        return (self.size,), full, constant, box, full and constant is None, self


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Cells in order, as runs of equal weights: where each begins, and its weight; the first begins at 0."""

    starts: NDArray[np.uint32]
    values: NDArray[np.int32]

    @property
    def size_in_bytes(self) -> int:
        return self.starts.nbytes + self.values.nbytes

    def weights(self, shape: tuple[int, ...]) -> _Weights:
        starts = self.starts.astype(np.int64)
        lengths = np.append(starts[1:], math.prod(shape)) - starts
        return _frozen(np.repeat(self.values.astype(np.int64), as_index(lengths)).reshape(shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Bits:
    """Cells in order, a bit for each: one record or none."""

    bits: NDArray[np.uint8]

    @property
    def size_in_bytes(self) -> int:
        return self.bits.nbytes

    def weights(self, shape: tuple[int, ...]) -> _Weights:
        ones = np.unpackbits(self.bits, count=math.prod(shape))
        return _frozen(ones.astype(np.int64).reshape(shape) * UNITS)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Weights over some attributes of a query's scope.

    Those of many cells are kept in as few bytes as they need: a range as its ends, a list of cells as runs,
    or as a bit for each cell. So what is remembered of a question does not grow with the cells of its
    attributes.

    Args:
        scope: attribute names in declared order; empty for a constant.
        given: integers, one axis per attribute of ``scope``, units of 2^-20, each in 0..2^20; or a span.

    Attributes:
        shape: cells of each attribute.
        is_indicator: every weight is 0 or one record.
        constant: the weight of every cell, where they are all the same; else None.
        box: the smallest box that holds all non-zero weights; empty where the factor is constant.
        is_box: every weight inside the box is one record.

    Raises:
        ScopeError: the weights are not integers in 0..2^20.
    """

    scope: tuple[str, ...]
    given: InitVar[NDArray[np.integer[Any]] | Span]
    shape: tuple[int, ...] = field(init=False)
    is_indicator: bool = field(init=False, repr=False)
    constant: int | None = field(init=False, repr=False)
    box: tuple[slice, ...] = field(init=False, repr=False)
    is_box: bool = field(init=False, repr=False)
    _kept: _Dense | Span | _Runs | _Bits = field(init=False, repr=False)

    def __post_init__(self, given: NDArray[np.integer[Any]] | Span) -> None:
        found = given.found() if isinstance(given, Span) else self._looked_at(np.asarray(given))
        put = object.__setattr__
        put(self, "scope", tuple(self.scope))
        put(self, "shape", found[0])
        put(self, "is_indicator", found[1])
        put(self, "constant", found[2])
        put(self, "box", found[3])
        put(self, "is_box", found[4])
        put(self, "_kept", found[5])

    def _looked_at(self, given: NDArray[np.integer[Any]]) -> tuple[object, ...]:
        """Return the values of the fields, from the shape on, once weights are found to be such."""
        whole = given.dtype == np.int64 or np.issubdtype(given.dtype, np.integer)
        if not whole or given.ndim != len(self.scope):
            raise ScopeError(
                f"expected integer weights with {len(self.scope)} axes, got {given.ndim} of {given.dtype}"
            )
        kept: _Dense | _Runs | _Bits
        if given.size <= _SHORT:
            weights = _in_units(given)
            kept, counts = _Dense(weights), _counted(weights)
        else:
            kept, counts = _compact(given)
        box = () if counts.constant is not None else _box(given, kept)
        cells = math.prod([side.stop - side.start for side in box])
        is_box, whole = counts.constant is None and counts.full == cells, counts.positive == counts.full
        return given.shape, whole, counts.constant, box, is_box, kept

    @classmethod
    def where(cls, scope: tuple[str, ...], holds: NDArray[np.bool_]) -> Factor:
        """Return one record in each cell where a condition holds: bool, one axis per attribute."""
        return cls(scope, np.multiply(holds, UNITS, dtype=np.int32))

    @property
    def weights(self) -> _Weights:
        """The weights: int64, one axis per attribute of ``scope``, units of 2^-20; read-only."""
        return self._kept.weights(self.shape)

    @property
    def size_in_bytes(self) -> int:
        """Bytes that the weights are kept in."""
        return self._kept.size_in_bytes

    def cut(self, cells: Mapping[str, NDArray[np.int64]]) -> Factor:
        """Return the factor with the weights of some cells alone.

        Args:
            cells: per attribute 1 in each of them and 0 in the others: int64, shape (cells,).
        """
        weights = self.weights
        for axis, name in enumerate(self.scope):
            if name in cells:
                shape = [-1 if other == axis else 1 for other in range(weights.ndim)]
                weights = weights * cells[name].reshape(shape)
        return Factor(self.scope, weights)


class _Counts(NamedTuple):
    """How many weights are not 0, how many are one record, and the one that all have, if they do."""

    positive: int
    full: int
    constant: int | None


def _frozen(weights: _Weights) -> _Weights:
    weights.flags.writeable = False
    return weights


def _in_units(given: NDArray[np.integer[Any]]) -> _Weights:
    return _frozen(np.array(given, dtype=np.int64))


def _counted(weights: _Weights) -> _Counts:
    # Counting is several times faster than comparing with ends: most factors are 0 or one record.
    positive, full = int(np.count_nonzero(weights)), int(np.count_nonzero(weights == UNITS))
    if positive != full:
        _require_units(weights)
    constant = int(weights.flat[0]) if weights.size else 0
    if 0 < positive < weights.size or (positive and full != positive and np.any(weights != constant)):
        return _Counts(positive, full, None)
    return _Counts(positive, full, constant if positive else 0)


def _require_units(weights: NDArray[np.integer[Any]]) -> None:
    if int(weights.min()) < 0 or int(weights.max()) > UNITS:
        raise ScopeError(f"expected weights in 0..{UNITS}, got {weights.min()}..{weights.max()}")


def _compact(given: NDArray[np.integer[Any]]) -> tuple[_Dense | _Runs | _Bits, _Counts]:
    flat = given.reshape(-1)
    starts = np.append(0, np.flatnonzero(flat[1:] != flat[:-1]) + 1)
    values = _in_units(flat[starts])
    _require_units(values)
    lengths = np.append(starts[1:], flat.size) - starts
    positive, full = int(lengths[values > 0].sum()), int(lengths[values == UNITS].sum())
    counts = _Counts(positive, full, int(values[0]) if values.size == 1 else None)
    runs = _Runs(starts.astype(np.uint32), values.astype(np.int32))
    if positive == full:
        return (runs if 8 * runs.size_in_bytes <= flat.size else _Bits(np.packbits(flat > 0))), counts
    return (runs if runs.size_in_bytes <= 8 * flat.size else _Dense(_in_units(given))), counts


def _box(given: NDArray[np.integer[Any]], kept: _Dense | _Runs | _Bits) -> tuple[slice, ...]:
    if given.ndim == 1 and isinstance(kept, _Runs):
        (inside,) = kept.values.nonzero()
        ends = np.append(kept.starts[1:], given.size)
        return (slice(int(kept.starts[inside[0]]), int(ends[inside[-1]])),)
    places = given.nonzero()
    if len(places) == 1:  # they are in order
        return (slice(int(places[0][0]), int(places[0][-1]) + 1),)
    return tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in places)


def normalised(factors: Sequence[Factor]) -> tuple[int, tuple[Factor, ...]]:
    """Return a constant weight, in units of 2^-20, and the factors that are not constant."""
    constant, kept = UNITS, list[Factor]()
    for given in factors:
        for factor in [given] if given.is_indicator and len(given.scope) < 2 else _split(given):
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
    if len(factor.scope) < 2 and factor.weights.max() == UNITS:
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


def weight_runs(factor: Factor) -> list[list[int]]:
    """Return the runs ``[start, stop, weight]`` of non-zero weights, of the cells in order."""
    if factor.is_box and len(factor.box) == 1:
        return [[factor.box[0].start, factor.box[0].stop, UNITS]]
    flat = factor.weights.reshape(-1)
    changes = (np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist()
    ends = [0, *changes, flat.size]
    return [[start, stop, int(flat[start])] for start, stop in itertools.pairwise(ends) if flat[start]]


def told_apart(factors: Iterable[Factor]) -> dict[str, NDArray[np.intp]]:
    """Return, by attribute, the first cells of the longest runs of alike cells: int64, growing, from 0."""
    begins: dict[str, NDArray[np.bool_]] = {}
    for factor in factors:
        for axis, (name, side) in enumerate(zip(factor.scope, factor.box, strict=True)):
            if name not in begins:
                begins[name] = np.zeros(factor.shape[axis] + 1, dtype=np.bool_)
            begins[name][[0, side.start, side.stop]] = True
            if not factor.is_box:
                table = np.moveaxis(factor.weights, axis, 0).reshape(factor.shape[axis], -1)
                begins[name][1:-1] |= (table[1:] != table[:-1]).any(axis=1)
    return {name: np.flatnonzero(marks[:-1]) for name, marks in begins.items()}
