"""Residuals: two attributes measured by hand, as a session does it, from any noise that a test likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    AxisRows,
    Foundation,
    HierarchicalHistogram,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    ResidualCounts,
    ResidualMeasurement,
    Strategy,
    axis_rows,
)
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.foundations import everybody, finest_deviation, main_effect
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
        return ResidualMeasurement(("a",), numbers, noise, strategy=rows, foundation=everybody(total))


@dataclass(frozen=True)
class Pair:
    """Two attributes, the number of records, and their pair measured once or more.

    Args:
        sides: the attributes.
        total_noise: on the number of records, in records; 0 for none.
        noises: of each measurement of the pair, on cells of the same price, in records.
    """

    sides: tuple[Side, Side]
    total_noise: float
    noises: tuple[float, ...]

    @property
    def strategy(self) -> Strategy:
        """The rows of the pair."""
        return Strategy(tuple(side.paired for side in self.sides), False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of the pair."""
        return tuple(len(side.sums) for side in self.sides)

    def truth(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of the pair's cells, of those of the declared cells."""
        first, second = self.sides
        return np.asarray(first.sums @ table @ second.sums.T)

    def numbers(self, table: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return all that is measured of the counts of declared cells, without noise."""
        alone = [side.numbers(table.sum(axis=1 - axis)) for axis, side in enumerate(self.sides)]
        pair = self.strategy.applied(self.truth(table))
        return [np.array([table.sum() * UNITS]), *alone, *[pair] * len(self.noises)]

    def deviations(self) -> list[float]:
        """Return the standard deviation of each of these numbers, each on its own grid."""
        pairs = [float(self.strategy.noise(gaussian(noise)).sigma) for noise in self.noises]
        return [self.total_noise * UNITS, *(side.deviation() for side in self.sides), *pairs]

    def counts(self, numbers: Sequence[NDArray[np.int64]]) -> ResidualCounts:
        """Return the counts that such numbers say, with noise or without."""
        everybodys, first, second, *pairs = numbers
        total = Total(1.0, float(everybodys[0]) / UNITS, self.total_noise)
        alone = [side.measured(own, total) for side, own in zip(self.sides, (first, second), strict=True)]
        below = everybody(total)
        finest = min(below.finest, *map(finest_deviation, alone))
        bins = [np.array(side.bins) if side.bins else None for side in self.sides]
        effects = tuple(main_effect(one, bin_) for one, bin_ in zip(alone, bins, strict=True))
        found: Foundation = replace(below, effects=effects, finest=finest)
        return ResidualCounts(
            tuple(
                ResidualMeasurement(
                    ("a", "b"), own, gaussian(noise), strategy=self.strategy, foundation=found
                )
                for own, noise in zip(pairs, self.noises, strict=True)
            )
        )


SHORT = Side(3, ordered_rows(3), 4.0, ordered_rows(3))
VALUES = Side(2, value_rows(2), 7.0, value_rows(2))
CELLS = Side(3, None, 5.0, value_rows(3))
# Bins of one, three, two and one cells, and of four, two and three.
BINNED = Side(7, ordered_rows(7), 6.0, ordered_rows(4), bins=(0, 1, 1, 1, 2, 2, 3))
TREE = Side(9, None, 5.0, ordered_rows(3), HierarchicalHistogram(9, 0, 3, 2), (0, 0, 0, 0, 1, 1, 2, 2, 2))
PAIRS = {
    "short": Pair((SHORT, VALUES), 9.0, (3.0,)),
    "public number": Pair((VALUES, SHORT), 0.0, (3.0,)),
    "cells": Pair((CELLS, SHORT), 9.0, (3.0,)),
    "bins": Pair((BINNED, VALUES), 30.0, (3.0,)),
    "tree": Pair((SHORT, TREE), 9.0, (3.0,)),
    "tree and bins": Pair((TREE, BINNED), 30.0, (3.0,)),
    "twice": Pair((BINNED, SHORT), 9.0, (3.0, 5.0)),
}
