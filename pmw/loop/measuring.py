"""Measuring: the tables that are counted, and a marginal's numbers under fresh noise, of cells or of rows.

Such numbers are drawn here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.model.strategy import Strategy
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource
from queries.factors import UNITS
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.data import CountSource


@dataclass(frozen=True, slots=True)
class Tables:
    """What true numbers are counted in.

    Args:
        fine: the table over the declared cells.
        coarse: the same table over bins; None where nothing is binned.
        is_fine: tells whether a scope is counted on declared cells.
    """

    fine: CountSource
    coarse: CountSource | None = None
    is_fine: Callable[[Sequence[str]], bool] | None = None

    def over(self, scope: Sequence[str]) -> CountSource:
        """Return the table over the cells that a scope is measured on."""
        if self.coarse is None or self.is_fine is None or self.is_fine(scope):
            return self.fine
        return self.coarse


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
        much wider (``noise_on``).
    """
    return with_noise(numbers_of(counts, strategy), noise_on(strategy, noise), bits)


def numbers_of(counts: NDArray[np.int64], strategy: Strategy | None) -> NDArray[np.int64]:
    """Return the true numbers of a marginal, in units: of its cells, or of rows. Secret."""
    return counts * UNITS if strategy is None else strategy.applied(counts)


def noise_on(strategy: Strategy | None, noise: NoiseDistribution) -> NoiseDistribution:
    """Return the noise on each number, of that on cells of the same price."""
    return noise if strategy is None else strategy.noise(noise)


def with_noise(numbers: NDArray[np.int64], noise: NoiseDistribution, bits: BitSource) -> NDArray[np.int64]:
    """Return true numbers, each with fresh independent noise: int64, of their shape."""
    return numbers + noise.sample_array(bits, numbers.size).reshape(numbers.shape)
