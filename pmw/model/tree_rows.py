"""Rows drawn along a junction tree, one attribute after the other, each given those of its clique before it.

The values of a new attribute are halved again and again, and each row goes to one half or the other with the
probability that the model gives it. Systematic rounding decides that for all rows together: they stand sorted
by what is known of them, and a row goes left where the running sum of the probabilities passes a whole number
(after a random start). So each row by itself follows the model exactly, while every run of neighbours, such
as the rows of one cell or of all cells that begin alike, splits as expected, rounded up or down.

Source: Madow (1949), On the theory of systematic sampling II, for samples of unequal probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.model.calibration import Beliefs
from pmw.model.factors import project


def draw_rows(
    beliefs: Beliefs, count: int, generator: np.random.Generator, *, independent: bool
) -> list[NDArray[np.int64]]:
    """Return the cell of each row per attribute, in no order.

    Args:
        beliefs: the calibrated tree.
        count: rows.
        generator: draws the starts of the rounding, or the rows.
        independent: draw each row by itself, instead of rounding systematically.

    Returns:
        One int64 array per position, shape (count,).
    """
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
            alike = order[np.argsort(states[order], kind="stable")]
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
        self._below = np.zeros((joint.shape[0], self._cells + 1))  # mass of the cells before each one
        np.cumsum(joint, axis=1, out=self._below[:, 1:])
        self._states = states
        self._order = order

    def run(self, generator: np.random.Generator, *, independent: bool) -> NDArray[np.int64]:
        """Return the new attribute's cell for each row."""
        first = np.zeros(len(self._states), dtype=np.int64)  # each row's cells: from first, before end
        end = np.full(len(self._states), self._cells)
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
        states = self._states[rows]
        before = self._below[states, low]
        mass = self._below[states, high] - before
        lower = self._below[states, middle] - before
        shares: NDArray[np.float64] = np.divide(lower, mass, out=np.ones_like(mass), where=mass > 0)
        return shares


def _short(cells: NDArray[np.int64], size: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return cells in as few bytes as they need, which makes sorting them linear."""
    return cells.astype(np.min_scalar_type(size))
