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

import numpy as np
from numpy.typing import NDArray

from pmw.model.measurement import Target
from queries.records import CodedRecords

# Chosen on other tables and seeds than those of the benchmark's figures (docs/algorithm.md).
ENOUGH = 0.75  # D per free number: closer is fitted to noise
_SWEEPS = 60  # over all attributes, at most
_PARTS = 20  # of the rows: one is looked at in a sweep, for each attribute
_BEST, _MOST = 0.025, 0.25  # of them, those that gain most, are changed: at first, and at most
_FASTER = 1.3  # times as many the next time, at most, where the parabola falls on
_STEP = 0.9  # of the way to the parabola's lowest point
_MARGIN = 3.0  # standard deviations above the mean, where a sum of squares is more than noise makes
_MOST_WORK = 10**10  # numbers that are looked up: some 30 seconds


def fit_rows(
    records: CodedRecords, targets: Sequence[Target], total: float, generator: np.random.Generator
) -> CodedRecords:
    """Return the rows with values changed so that their counts are nearer to what was measured.

    Args:
        records: synthetic rows over the cells that the targets are of; their number stays.
        targets: what was measured, each over a scope of one or more attributes.
        total: records that the rows stand for; positive.
        generator: decides which rows are looked at.

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
    return CodedRecords(records.domain, tuple(rows.columns))


def most_squares(free: int) -> float:
    """Return what a chi-square number stays below, but for about one in 700.

    Source: Wilson and Hilferty (1931): the cube root of chi-square over its degrees is nearly normal.

    Args:
        free: its degrees of freedom.
    """
    if not free:
        return 0.0
    return free * (1 - 2 / (9 * free) + _MARGIN * math.sqrt(2 / (9 * free))) ** 3


class _Rows:
    """Rows that are being fitted: their columns, and how far their counts are from each target."""

    def __init__(self, records: CodedRecords, targets: Sequence[Target], total: float) -> None:
        self.columns = [column.copy() for column in records.columns]
        self.free = sum(target.free_numbers for target in targets)
        self._shape = records.domain.shape
        self._each = total / len(records)  # records that a row stands for
        self._targets = targets
        self._scopes = [tuple(map(records.domain.index, target.scope)) for target in targets]
        self._of = [
            [number for number, scope in enumerate(self._scopes) if place in scope]
            for place in range(len(self._shape))
        ]
        self._most = [_BEST] * len(self._shape)
        self._errors = [
            self._counts(scope, {}, slice(None)) - target.values
            for scope, target in zip(self._scopes, targets, strict=True)
        ]

    @property
    def work(self) -> int:
        """Numbers that a sweep looks up."""
        sizes = sum(size * len(own) for size, own in zip(self._shape, self._of, strict=True))
        return 1 + len(self.columns[0]) * sizes // _PARTS

    def are_near(self) -> bool:
        """Tell whether D, and each measurement's part of it, are what noise makes of them."""
        pairs = zip(self._targets, self._errors, strict=True)
        parts = [float(np.vdot(target.pull(error), error)) for target, error in pairs]
        most = [most_squares(target.free_numbers) for target in self._targets]
        is_each = all(part <= limit or not limit for part, limit in zip(parts, most, strict=True))
        return is_each and sum(parts) <= ENOUGH * self.free

    def improve(self, place: int, generator: np.random.Generator) -> None:
        """Change values of one attribute in some of the rows.

        Args:
            place: of the attribute.
            generator: decides which rows are looked at, and which of the best are changed.
        """
        parts = min(_PARTS, len(self.columns[0]))
        looked_at = slice(int(generator.integers(parts)), None, parts)
        rates = self._rates(place, looked_at)
        old = self.columns[place][looked_at].astype(np.intp)
        new = rates.argmin(axis=1)
        everyone = np.arange(len(old))
        gains = rates[everyone, old] - rates[everyone, new]
        best = np.argsort(-gains, kind="stable")[: max(1, int(self._most[place] * len(old)))]
        best = best[gains[best] > 0]
        if not len(best):
            return
        rows, values = np.arange(len(self.columns[0]))[looked_at][best], new[best]
        slope, curve = self._along(place, self._moves(place, rows, values))
        step = -_STEP * slope / curve if curve > 0 else 1.0
        self._most[place] = min(_MOST, self._most[place] * min(max(step, 0.5), _FASTER))
        taken = generator.random(len(rows)) < step
        rows, values = rows[taken], values[taken]
        moves = self._moves(place, rows, values)
        slope, curve = self._along(place, moves)
        if 2 * slope + curve >= 0:
            return
        self.columns[place][rows] = values
        for number, move in zip(self._of[place], moves, strict=True):
            self._errors[number] = self._errors[number] + move

    def _rates(self, place: int, rows: slice) -> NDArray[np.float32]:
        """Return g, the rate of D / 2, for each value of an attribute: float32, shape (rows, cells)."""
        rates = np.zeros((len(self.columns[0][rows]), self._shape[place]), dtype=np.float32)
        for number in self._of[place]:
            scope, target = self._scopes[number], self._targets[number]
            axis = scope.index(place)
            pull = np.moveaxis(target.pull(self._errors[number]), axis, -1)
            others = tuple(self.columns[other][rows] for other in scope if other != place)
            if others:
                table = pull.reshape(-1, self._shape[place]).astype(np.float32)
                rates += table.take(np.ravel_multi_index(others, pull.shape[:-1]), axis=0)
            else:
                rates += pull.astype(np.float32)
        return rates

    def _moves(
        self, place: int, rows: NDArray[np.intp], values: NDArray[np.intp]
    ) -> list[NDArray[np.float64]]:
        """Return by how much the counts of each target with an attribute move, if rows take other values."""
        return [
            self._counts(self._scopes[number], {place: values}, rows)
            - self._counts(self._scopes[number], {}, rows)
            for number in self._of[place]
        ]

    def _along(self, place: int, moves: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
        """Return slope and curvature of D / 2 along moves of the counts."""
        slope = curve = 0.0
        for number, move in zip(self._of[place], moves, strict=True):
            pull = self._targets[number].pull(move)
            slope += float(np.vdot(pull, self._errors[number]))
            curve += float(np.vdot(pull, move))
        return slope, curve

    def _counts(
        self,
        scope: tuple[int, ...],
        instead: dict[int, NDArray[np.intp]],
        rows: NDArray[np.intp] | slice,
    ) -> NDArray[np.float64]:
        """Return the records that some rows stand for, by cell of a scope.

        Args:
            scope: places of its attributes.
            instead: values to take instead of a column's, by place.
            rows: which are counted.
        """
        columns = tuple(instead[place] if place in instead else self.columns[place][rows] for place in scope)
        shape = tuple(self._shape[place] for place in scope)
        counts = np.bincount(np.ravel_multi_index(columns, shape), minlength=math.prod(shape))
        return np.asarray(counts.reshape(shape) * self._each, dtype=np.float64)
