"""Residuals: attributes measured together by hand, as a session does it, from any noise a test likes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.model.estimate import Estimate
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    ResidualMeasurement,
    combined,
)
from pmw.model.prices import axis_rows
from pmw.model.strategy import AxisRows, Strategy
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.foundations import attributes_alone, on_everybody
from pmw.public.state import Total
from queries import UNITS, CategoricalAttribute, IntegerAttribute

Bins = tuple[int, ...]


def ordered_rows(cells: int) -> AxisRows:
    """Return the rows of an ordered attribute."""
    found = axis_rows(IntegerAttribute("a", 0, cells - 1))
    assert found is not None
    return found


def value_rows(cells: int) -> AxisRows:
    """Return the rows of an attribute of values."""
    found = axis_rows(CategoricalAttribute("a", tuple(range(cells))))
    assert found is not None
    return found


def gaussian(records: float) -> DiscreteGaussian:
    """Return noise of a standard deviation in records."""
    return DiscreteGaussian(Fraction(records) * UNITS)


@dataclass(frozen=True)
class Side:
    """How one attribute is measured: by rows, by a tree or, with neither, cell by cell.

    Args:
        cells: declared cells.
        rows: alone.
        noise: alone, on cells of the same price, in records.
        tree: alone.
        bins: of each declared cell, where it is measured with another; empty for the cells themselves.
        paired: the rows with another.
    """

    cells: int
    rows: AxisRows | None
    noise: float
    paired: AxisRows
    tree: HierarchicalHistogram | None = None
    bins: Bins = ()

    @property
    def sums(self) -> NDArray[np.int64]:
        """Which cells each bin is the sum of: int64, shape (bins, cells)."""
        bins = self.bins or tuple(range(self.cells))
        return np.array([[one == bin_ for one in bins] for bin_ in range(max(bins) + 1)], dtype=np.int64)

    def numbers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what is measured of the attribute alone, without noise."""
        if self.rows is not None:
            return Strategy((self.rows,), False).applied(counts)
        return (counts if self.tree is None else self.tree.node_counts(counts)) * UNITS

    def deviation(self) -> float:
        """Return the standard deviation of each number's noise, on its own grid."""
        noise = gaussian(self.noise)
        return float((noise if self.rows is None else Strategy((self.rows,), False).noise(noise)).sigma)

    def measured(self, numbers: NDArray[np.int64], total: Total) -> OneWayMeasurement:
        """Return the measurement of noisy numbers."""
        noise = gaussian(self.noise)
        if self.tree is not None:
            return HierarchicalMeasurement(("a",), self.tree, numbers, noise)
        if self.rows is None:
            return MarginalMeasurement(("a",), numbers, noise)
        rows = Strategy((self.rows,), False)
        (found,) = on_everybody(total, [ResidualMeasurement(("a",), numbers, noise, strategy=rows)])
        return found


@dataclass(frozen=True)
class Several:
    """Some attributes, the number of records, and all their marginals of two or more.

    That of all of them may be measured more than once.

    Args:
        sides: the attributes.
        total_noise: on the number of records, in records; 0 for none.
        noises: of each measurement of all attributes together, on cells of the same price, in records.
        below: the same, of each marginal of two or more, but not all; the next has one more.
    """

    sides: tuple[Side, ...]
    total_noise: float
    noises: tuple[float, ...]
    below: float = 2.0

    @property
    def every(self) -> tuple[int, ...]:
        """The places of all attributes."""
        return tuple(range(len(self.sides)))

    @property
    def narrower(self) -> list[tuple[int, ...]]:
        """The places of two or more attributes, but not of all."""
        orders = range(2, len(self.sides))
        return [some for order in orders for some in itertools.combinations(self.every, order)]

    def rows(self, places: tuple[int, ...]) -> Strategy:
        """Return the rows of some attributes together."""
        return Strategy(tuple(self.sides[place].paired for place in places), False)

    @property
    def strategy(self) -> Strategy:
        """The rows of all."""
        return self.rows(self.every)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of all attributes together."""
        return tuple(len(side.sums) for side in self.sides)

    def truth(self, table: NDArray[np.int64], places: tuple[int, ...] | None = None) -> NDArray[np.int64]:
        """Return the counts of the cells of all attributes, or of some, of those of the declared cells."""
        for axis, side in enumerate(self.sides):
            table = np.moveaxis(np.tensordot(side.sums, table, axes=(1, axis)), 0, axis)
        others = set(self.every).difference(self.every if places is None else places)
        return np.asarray(table.sum(axis=tuple(others)))

    def numbers(self, table: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return all that is measured of the counts of declared cells, without noise."""
        found = [np.array([table.sum() * UNITS])]
        for axis, side in enumerate(self.sides):
            found.append(side.numbers(table.sum(axis=tuple(set(self.every) - {axis}))))
        found += [self.rows(places).applied(self.truth(table, places)) for places in self.narrower]
        return [*found, *[self.strategy.applied(self.truth(table))] * len(self.noises)]

    @property
    def _residuals(self) -> list[tuple[tuple[int, ...], float]]:
        """The places of attributes whose residual is measured, and the noise on cells of the same price."""
        found = [(places, self.below + number) for number, places in enumerate(self.narrower)]
        return [*found, *((self.every, noise) for noise in self.noises)]

    def deviations(self) -> list[float]:
        """Return the standard deviation of each of these numbers, each on its own grid."""
        residuals = [
            float(self.rows(places).noise(gaussian(noise)).sigma) for places, noise in self._residuals
        ]
        return [self.total_noise * UNITS, *(side.deviation() for side in self.sides), *residuals]

    def counts(self, numbers: Sequence[NDArray[np.int64]]) -> Estimate:
        """Return the counts that such numbers say, with noise or without."""
        (found,) = combined(self.measured(numbers))
        return found

    def measured(self, numbers: Sequence[NDArray[np.int64]]) -> list[ResidualMeasurement]:
        """Return what such numbers measure of all attributes together, with what it stands on."""
        everybodys, *others = numbers
        count = len(self.sides)
        total = Total(1.0, float(everybodys[0]) / UNITS, self.total_noise)
        alone = [side.measured(own, total) for side, own in zip(self.sides, others[:count], strict=True)]
        bins = [np.array(side.bins) if side.bins else None for side in self.sides]
        below = attributes_alone(total, alone, bins)
        measured = [
            ResidualMeasurement(
                tuple("abcd"[place] for place in places), own, gaussian(noise), strategy=self.rows(places)
            )
            for own, (places, noise) in zip(others[count:], self._residuals, strict=True)
        ]
        narrower, whole = measured[: len(self.narrower)], measured[len(self.narrower) :]
        return [replace(one, foundation=(*below, *narrower)) for one in whole]


SHORT = Side(3, ordered_rows(3), 4.0, ordered_rows(3))
VALUES = Side(2, value_rows(2), 7.0, value_rows(2))
CELLS = Side(3, None, 5.0, value_rows(3))
# Bins of one, three, two and one cells, and of four, two and three.
BINNED = Side(7, ordered_rows(7), 6.0, ordered_rows(4), bins=(0, 1, 1, 1, 2, 2, 3))
TREE = Side(9, None, 5.0, ordered_rows(3), HierarchicalHistogram(9, 0, 3, 2), (0, 0, 0, 0, 1, 1, 2, 2, 2))
PAIRS = {
    "short": Several((SHORT, VALUES), 9.0, (3.0,)),
    "public number": Several((VALUES, SHORT), 0.0, (3.0,)),
    "cells": Several((CELLS, SHORT), 9.0, (3.0,)),
    "bins": Several((BINNED, VALUES), 30.0, (3.0,)),
    "tree": Several((SHORT, TREE), 9.0, (3.0,)),
    "tree and bins": Several((TREE, BINNED), 30.0, (3.0,)),
    "twice": Several((BINNED, SHORT), 9.0, (3.0, 5.0)),
}
TRIPLES = {
    "three short": Several((VALUES, SHORT, CELLS), 9.0, (3.0,)),
    "three, tree and bins": Several((TREE, VALUES, BINNED), 30.0, (3.0,)),
    "three, public number": Several((SHORT, VALUES, VALUES), 0.0, (4.0, 3.0)),
}
JOINT = {**PAIRS, **TRIPLES}
