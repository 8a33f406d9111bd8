"""Rows fitted to measurements: single values of synthetic rows are changed while that pays. Free.

A model's tree cannot hold every marginal that was measured, and drawing rounds each row to whole records.
Both leave rows farther from what was measured than noise alone explains. The distance of rows with counts a
is the loss of the model's fit (``pmw.model.mirror_descent``), over all measurements y,

    D = sum (a - y)' K'K (a - y) / v,

per free number about one where rows are as far from what was measured as the truth is.

Changing one attribute of a row moves D / 2 at the rate g(new) - g(old), where g is the sum of K'K (a - y) / v
over the measurements with that attribute, at the row's other values. One attribute after the other, a part of
the rows is looked at; those that gain most take the value that is best for them, so many of them that the
parabola of D along that direction ends lowest. Rows that gain little stay as they were drawn, with all that
the model says of more attributes.

It is a function of released numbers and of the generator. D falls with every change. What is near enough at
the beginning stays as it is: D as a whole, and the part of each measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.model.measurement import Target
from queries.frozen import dataclass
from queries.places import as_index
from queries.records import CodedRecords

# Chosen on other tables and seeds than those of the benchmark's figures.
ENOUGH = 0.75  # D per free number: closer is fitted to noise
_SWEEPS = 60  # over all attributes, at most
_PARTS = 20  # of the rows: one is looked at in a sweep, for each attribute
_BEST, _MOST = 0.025, 0.25  # of them, those that gain most, are changed: at first, and at most
_FASTER = 1.3  # times as many the next time, at most, where the parabola falls on
_STEP = 0.9  # of the way to the parabola's lowest point
_WHOLE = 0.7  # of these, where the parabola ends: if it is less, only such a part of them is changed
_MARGIN = 3.0  # standard deviations above the mean, where a sum of squares is more than noise makes
_MOST_WORK = 10**10  # numbers that are looked up: some 15 seconds
_JOINT = 12  # a table of several measurements has at most one cell for so many rows that look it up


def fit_rows(
    records: CodedRecords, targets: Sequence[Target], total: float, generator: np.random.Generator
) -> CodedRecords:
    """Return the rows with values changed so that their counts are nearer to what was measured.

    Args:
        records: synthetic rows over the cells that the targets are of; their number stays.

    Privacy: post-processing of released numbers; free.
    """
    if not len(records) or not targets:
        return records
    rows = _Rows(records, targets, total)
    for _ in range(min(_SWEEPS, _MOST_WORK // rows.work)):
        if rows.are_near():
            break
        for place in generator.permutation(len(records.domain)).tolist():
            rows.improve(place, generator)
    return CodedRecords(records.domain, rows.columns)


def most_squares(free: int) -> float:
    """Return what a chi-square number stays below, but for about one in 700.

    Source: Wilson and Hilferty (1931): the cube root of chi-square over its degrees is nearly normal.
    """
    if not free:
        return 0.0
    return free * (1 - 2 / (9 * free) + _MARGIN * math.sqrt(2 / (9 * free))) ** 3


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Measurements with one attribute whose rates are looked up together, by the row's other values.

    Args:
        others: places of the other attributes that one of them has, ascending.
        members: the number of each measurement, the order of its axes in which the attribute comes last, and
            the shape in which it spreads over the other attributes of all.
    """

    others: tuple[int, ...]
    shape: tuple[int, ...]
    members: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]

    def table(self, pulls: Sequence[NDArray[np.float64]], cells: int) -> NDArray[np.float32]:
        """Return the sum of the members' rates: float32, shape (cells of the others, cells)."""
        table = np.zeros((1,) * len(self.shape) + (cells,), dtype=np.float32)
        for number, axes, shape in self.members:  # the table grows by the attributes of each
            table = table + pulls[number].transpose(axes).reshape(shape).astype(np.float32)
        return table.reshape(-1, cells)


def _lookups(
    place: int, shape: Sequence[int], scopes: Sequence[tuple[int, ...]], most: int
) -> tuple[_Lookup, ...]:
    """Return how the rates of an attribute are looked up: few tables, none of many cells that are joined."""
    joined: list[tuple[set[int], list[int]]] = []
    own = [number for number, scope in enumerate(scopes) if place in scope]
    for number in sorted(own, key=lambda number: math.prod(shape[other] for other in scopes[number])):
        others = {*scopes[number]} - {place}
        for held, numbers in joined:
            if math.prod(shape[other] for other in held | others) <= most:
                held.update(others)
                numbers.append(number)
                break
        else:
            joined.append((others, [number]))
    found = []
    for held, numbers in joined:
        places, members = tuple(sorted(held)), []
        for number in numbers:
            scope = scopes[number]
            axes = sorted(range(len(scope)), key=lambda axis: scope[axis] == place)
            spread = tuple(shape[other] if other in scope else 1 for other in places)
            members.append((number, tuple(axes), (*spread, shape[place])))
        found.append(_Lookup(places, tuple(shape[other] for other in places), tuple(members)))
    return tuple(found)


class _Rows:
    """Rows that are being fitted: their columns, and how far their counts are from each target.

    They stand in the order of the parts that are looked at, so that a part is one run of each column.
    """

    def __init__(self, records: CodedRecords, targets: Sequence[Target], total: float) -> None:
        count = len(records)
        parts = min(_PARTS, count)
        self._order = np.argsort(np.arange(count) % parts, kind="stable")
        self._starts = np.append(0, np.cumsum([len(range(part, count, parts)) for part in range(parts)]))
        self._columns = [column[self._order] for column in records.columns]
        self.free = sum(target.free_numbers for target in targets)
        self._shape = records.domain.shape
        self._each = total / count  # records that a row stands for
        self._targets = targets
        self._limits = [most_squares(target.free_numbers) for target in targets]
        self._scopes = [tuple(map(records.domain.index, target.scope)) for target in targets]
        self._of = [
            [number for number, scope in enumerate(self._scopes) if place in scope]
            for place in range(len(self._shape))
        ]
        most = count // (parts * _JOINT)
        self._lookups = [
            _lookups(place, self._shape, self._scopes, most) for place in range(len(self._shape))
        ]
        self._most = [_BEST] * len(self._shape)
        self._errors = [
            self._counts(scope, self._columns) - target.values
            for scope, target in zip(self._scopes, targets, strict=True)
        ]
        self._pulls = [target.pull(error) for target, error in zip(targets, self._errors, strict=True)]

    @property
    def columns(self) -> tuple[NDArray[np.unsignedinteger[Any]], ...]:
        """The rows in the order in which they came."""
        found = []
        for column in self._columns:
            came = np.empty_like(column)
            came[self._order] = column
            found.append(came)
        return tuple(found)

    @property
    def work(self) -> int:
        """Numbers that a sweep looks up."""
        sizes = sum(size * len(own) for size, own in zip(self._shape, self._of, strict=True))
        return 1 + len(self._order) * sizes // _PARTS

    def are_near(self) -> bool:
        """Tell whether D, and each measurement's part of it, are what noise makes of them."""
        pairs = zip(self._pulls, self._errors, strict=True)
        parts = [float(np.vdot(pull, error)) for pull, error in pairs]
        is_each = all(part <= limit or not limit for part, limit in zip(parts, self._limits, strict=True))
        return is_each and sum(parts) <= ENOUGH * self.free

    def improve(self, place: int, generator: np.random.Generator) -> None:
        """Change values of one attribute in some of the rows."""
        part = int(generator.integers(len(self._starts) - 1))
        columns = [column[self._starts[part] : self._starts[part + 1]] for column in self._columns]
        rates = self._rates(place, columns)
        old = columns[place].astype(np.intp)
        new = rates.argmin(axis=1)
        everyone = np.arange(0, rates.size, rates.shape[1])
        gains = rates.take(everyone + old) - rates.take(everyone + new)
        best, most = np.flatnonzero(gains > 0), max(1, int(self._most[place] * len(old)))
        if not len(best):
            return
        if len(best) > most:
            best = best[np.argpartition(gains[best], len(best) - most)[len(best) - most :]]
        moves = self._moves(place, [column[best] for column in columns], new[best])
        slope, curve, pulls = self._along(place, moves)
        step = -_STEP * slope / curve if curve > 0 else 1.0
        self._most[place] = min(_MOST, self._most[place] * min(max(step, 0.5), _FASTER))
        if step < _WHOLE:
            best = best[generator.random(len(best)) < step]
            moves = self._moves(place, [column[best] for column in columns], new[best])
            slope, curve, pulls = self._along(place, moves)
        if 2 * slope + curve >= 0:
            return
        columns[place][best] = new[best]
        for number, move, pull in zip(self._of[place], moves, pulls, strict=True):
            self._errors[number] += move
            self._pulls[number] += pull

    def _rates(self, place: int, columns: Sequence[NDArray[np.unsignedinteger[Any]]]) -> NDArray[np.float32]:
        """Return g, the rate of D / 2, for each value of an attribute: float32, shape (rows, cells)."""
        cells, count = self._shape[place], len(columns[place])
        rates = np.zeros((count, cells), dtype=np.float32)
        held = np.empty_like(rates)
        for one in self._lookups[place]:
            at = _places([columns[other] for other in one.others], one.shape, count)
            # Every place is inside, so nothing is clipped; asked for it, numpy needs no copy.
            np.take(one.table(self._pulls, cells), at, axis=0, out=held, mode="clip")
            rates += held
        return rates

    def _moves(
        self, place: int, columns: Sequence[NDArray[np.unsignedinteger[Any]]], values: NDArray[np.intp]
    ) -> list[NDArray[np.float64]]:
        """Return by how much the counts of each target with an attribute move, if rows take other values."""
        moves, both = [], np.stack([values, columns[place]])
        for number in self._of[place]:
            scope = self._scopes[number]
            shape = tuple(self._shape[other] for other in scope)
            strides = [math.prod(shape[axis + 1 :]) for axis in range(len(scope))]
            at = both * strides[scope.index(place)]
            for other, stride in zip(scope, strides, strict=True):
                if other != place:
                    at += np.multiply(columns[other], stride, dtype=np.intp)
            cells = math.prod(shape)
            at[1] += cells
            counts = np.bincount(as_index(at.reshape(-1)), minlength=2 * cells).reshape(2, *shape)
            moves.append((counts[0] - counts[1]) * self._each)
        return moves

    def _along(
        self, place: int, moves: Sequence[NDArray[np.float64]]
    ) -> tuple[float, float, list[NDArray[np.float64]]]:
        """Return slope and curvature of D / 2 along moves of the counts, and how these weigh."""
        slope, curve, pulls = 0.0, 0.0, []
        for number, move in zip(self._of[place], moves, strict=True):
            pulls.append(self._targets[number].pull(move))
            slope += float(np.vdot(self._pulls[number], move))
            curve += float(np.vdot(pulls[-1], move))
        return slope, curve, pulls

    def _counts(
        self, scope: tuple[int, ...], columns: Sequence[NDArray[np.unsignedinteger[Any]]]
    ) -> NDArray[np.float64]:
        """Return the records that rows stand for, by cell of a scope."""
        shape = tuple(self._shape[place] for place in scope)
        at = _places([columns[place] for place in scope], shape, len(columns[0]))
        counts = np.bincount(as_index(at), minlength=math.prod(shape))
        return np.asarray(counts.reshape(shape) * self._each, dtype=np.float64)


def _places(
    columns: Sequence[NDArray[np.unsignedinteger[Any]]], shape: tuple[int, ...], count: int
) -> NDArray[np.intp]:
    """Return the cell of each row in a table over some attributes: intp, shape (count,)."""
    number = np.min_scalar_type(math.prod(shape)).type  # few bytes, until all are added up
    found = np.zeros(count, dtype=number)
    for column, size in zip(columns, shape, strict=True):
        found *= number(size)
        found += column
    return found.astype(np.intp)
