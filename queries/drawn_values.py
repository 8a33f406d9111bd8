"""Values inside cells: what a synthetic record says of an attribute whose cells hold several values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from queries.calendar import DAY, EPOCH
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import OrderedAttribute


def drawn_values(
    attribute: OrderedAttribute, codes: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[Any]:
    """Return a value for each cell number, evenly drawn among those that the cell may hold.

    Args:
        attribute: an attribute with an order.
        codes: int64, shape (records,); empty and undeclared values get any value.
        generator: draws the place inside a cell; nothing private depends on it.

    Returns:
        Shape (records,): int64 where values are whole numbers, datetime64[s] for dates and times, else
        float64.
    """
    cells = np.minimum(codes, attribute.base_size - 1)
    edges = np.array(attribute.boundaries)
    if not attribute.is_whole:
        values: NDArray[Any] = _real_numbers(attribute, edges[cells], edges[cells + 1], generator)
    else:
        values = _whole_numbers(attribute, cells, edges.astype(np.int64), generator)
    for place, atom in enumerate(attribute.atoms):
        values[codes == attribute.base_size + place] = atom
    if isinstance(attribute, DateAttribute | DatetimeAttribute):
        unit = DAY if isinstance(attribute, DateAttribute) else 1
        return (values * unit - EPOCH).astype("datetime64[s]")
    return values


def _whole_numbers(
    attribute: OrderedAttribute,
    cells: NDArray[np.int64],
    edges: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw among the whole numbers of each cell that have no cell of their own."""
    atoms = np.array(attribute.atoms, dtype=np.int64)
    owners = np.minimum(edges.searchsorted(atoms, side="right") - 1, attribute.base_size - 1)
    left = np.diff(edges) - np.bincount(owners, minlength=attribute.base_size)
    drawn: NDArray[np.int64] = edges[cells] + generator.integers(0, left[cells])
    for atom, owner in zip(atoms, owners, strict=True):  # growing, so that each moves what is above it
        drawn += (cells == owner) & (drawn >= atom)
    return drawn


def _real_numbers(
    attribute: OrderedAttribute,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw real numbers, rounded where the rounded one lies in the cell too and has no cell of its own."""
    drawn = low + (high - low) * generator.random(len(low))
    rounded = _rounded(drawn, low, high)
    for values in (drawn, (low + high) / 2, low + (high - low) / 3):
        taken = np.isin(rounded, attribute.atoms)
        if not taken.any():
            break
        rounded = np.where(taken & (values < high), values, rounded)
    return rounded


def _rounded(
    values: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Round each number to a thousandth of its cell's width, keeping it inside its half-open cell."""
    digits = 3 - np.floor(np.log10(high - low))
    scale = 10.0 ** np.clip(digits, -300, 300)
    rounded = np.floor(values * scale) / scale
    return np.where((rounded >= low) & (rounded < high), rounded, low)
