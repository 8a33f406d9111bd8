"""Measuring: a marginal's numbers under fresh noise, cell by cell or by rows. They are drawn here alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pmw.model import Strategy
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource
from queries.factors import UNITS


def draw_numbers(
    counts: NDArray[np.int64], noise: NoiseDistribution, strategy: Strategy | None, bits: BitSource
) -> NDArray[np.int64]:
    """Return the numbers of a marginal, each with fresh noise: int64, of the shape of the counts.

    Args:
        counts: int64, records per cell.
        noise: on each cell, in units of 2^-20 records; by rows, that of cells of the same price.
        strategy: the rows that are measured; None for the cells.
        bits: source of the noise.

    Privacy: costs what ``marginal_charge`` says of the noise. Cells move by ``l2_squared_sensitivity`` at
        most; rows by ``Strategy.squared_sensitivity`` for each of a person's records, and their noise is as
        much wider (``Strategy.noise``).
    """
    if strategy is None:
        return counts * UNITS + noise.sample_array(bits, counts.size).reshape(counts.shape)
    drawn = strategy.noise(noise).sample_array(bits, counts.size)
    return strategy.applied(counts) + drawn.reshape(counts.shape)
