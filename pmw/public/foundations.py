"""Foundations: what residuals stand on in a state, and by which rows a marginal is measured in it.

All of it follows from public numbers.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.model import (
    Foundation,
    HierarchicalMeasurement,
    MainEffect,
    Measurement,
    OneWayMeasurement,
    ResidualMeasurement,
    Strategy,
    axis_rows,
    sum_covariance,
)
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState, Total
from queries.factors import UNITS

MOST_PAIR_CELLS = 2**16  # of a pair that is measured before any question: each is a draw
Measured = TypeVar("Measured", bound=Measurement)


def strategy_of(state: PublicState, scope: tuple[str, ...]) -> Strategy | None:
    """Return the rows that a marginal is measured by, or None where its cells are measured.

    Pairs are measured by rows in a session that measures all of them before any question, and attributes that
    opening measured by rows; wider marginals, and those of an attribute with too many cells for rows, cell by
    cell.

    Args:
        state: the public state.
        scope: attribute names in declared order.
    """
    tier = marginal_tier(state.plan)
    if tier is None or not tier.opens_pairs:
        return None
    if len(scope) == 1:
        opened = next((one for one in state.opening if one.scope == scope), None)
        return opened.strategy if isinstance(opened, ResidualMeasurement) else None
    grid = state.grid(scope)
    axes = [axis_rows(grid[name]) for name in scope]
    if len(scope) != 2 or any(axis is None for axis in axes):
        return None
    try:
        return Strategy(tuple(axis for axis in axes if axis is not None), state.contract.options.replaces)
    except NoiseError:  # sums of so many rows could be too large: the cells are measured
        return None


def due_pairs(state: PublicState) -> list[tuple[str, ...]]:
    """Return the pairs of attributes that have to be measured before any question, in order.

    Left out is a pair of more cells than ``MOST_PAIR_CELLS``, and one with an attribute of a single cell: it
    says nothing that the other attribute does not say.
    """
    tier = marginal_tier(state.plan)
    if tier is None or not tier.opens_pairs or state.closed:
        return []
    measured = {one.scope for one in state.marginals}
    pairs = (pair for pair in itertools.combinations(state.domain.names, 2) if pair not in measured)

    def says_something(pair: tuple[str, ...]) -> bool:
        """Tell whether a pair has few enough cells, and none of its attributes a single one."""
        shape = state.grid(pair).scope_shape(pair)
        return min(shape) > 1 and math.prod(shape) <= MOST_PAIR_CELLS

    return [pair for pair in pairs if says_something(pair)]


def founded(state: PublicState, measurement: Measured) -> Measured:
    """Return a measurement with what it stands on in a state, where it is a residual."""
    if not isinstance(measurement, ResidualMeasurement):
        return measurement
    if len(measurement.scope) == 1:
        return replace(measurement, foundation=everybody(state.total))
    opened = {one.scope[0]: one for one in state.opening}
    fine = state.grid(measurement.scope) is state.domain
    below, effects = everybody(state.total), []
    for name in measurement.scope:
        bin_ = None if fine else state.coarsening.bins[state.domain.index(name)]
        effects.append(main_effect(opened[name], bin_))
    finest = min(below.finest, *(finest_deviation(opened[name]) for name in measurement.scope))
    return replace(measurement, foundation=replace(below, effects=tuple(effects), finest=finest))


def everybody(total: Total) -> Foundation:
    """Return what the residual of a single attribute stands on: the number of records."""
    finest = total.deviation * UNITS if total.deviation > 0 else np.inf
    return Foundation(total.estimate, total.deviation**2, (), finest)


def finest_deviation(measured: OneWayMeasurement) -> float:
    """Return the standard deviation of each measured number, on its own grid of numbers."""
    if isinstance(measured, ResidualMeasurement):
        return float(measured.drawn.sigma)
    return math.sqrt(measured.variance) * UNITS


def main_effect(measured: OneWayMeasurement, bin_: NDArray[np.int64] | None) -> MainEffect:
    """Return what opening measured of an attribute, on the cells that a pair is measured on.

    Args:
        measured: the attribute.
        bin_: of each declared cell, the bin that it is summed to: int64, shape (cells,); None for none.
    """
    return _main_effect(measured, None if bin_ is None else bin_.tobytes())


# Every pair of an attribute asks for it. Measurements are told apart by identity.
@functools.lru_cache(maxsize=256)
def _main_effect(measured: OneWayMeasurement, bins: bytes | None) -> MainEffect:
    size = measured.values.size
    bin_ = np.arange(size) if bins is None else np.frombuffer(bins, dtype=np.int64)
    cells = np.bincount(bin_).astype(np.float64)
    slope = np.zeros(cells.size)
    if isinstance(measured, ResidualMeasurement):  # of few cells
        (axis,) = measured.strategy.axes
        sums = np.equal.outer(np.arange(cells.size), bin_) * 1.0
        covariance = sums @ axis.covariance @ sums.T / measured.counts.fineness
        slope = cells / size
    elif isinstance(measured, HierarchicalMeasurement):
        covariance = sum_covariance(measured.tree, bin_) * measured.variance
    else:
        covariance = np.diag(cells) * measured.variance
    values: NDArray[np.float64] = np.bincount(bin_, weights=measured.values).astype(np.float64)
    return MainEffect(values, covariance, slope)
