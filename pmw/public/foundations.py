"""Foundations: what residuals stand on in a state, and by which rows a marginal is measured in it.

All of it follows from public numbers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    Foundation,
    HierarchicalMeasurement,
    MainEffect,
    Measurement,
    OneWayMeasurement,
    ResidualMeasurement,
    Strategy,
    rows_of,
    sum_covariance,
)
from pmw.public.plans import MOST_RESIDUAL_CELLS, marginal_tier
from pmw.public.state import LaterMeasurement, PublicState, Total
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.places import as_index

Measured = TypeVar("Measured", bound=Measurement)


def strategy_of(state: PublicState, scope: tuple[str, ...]) -> Strategy | None:
    """Return the rows that a marginal is measured by, or None where its cells are measured.

    Pairs, and wider marginals of which all are measured before any question, are measured by rows where those
    that they stand on are, and attributes that opening measured by rows; wider ones, and those of an
    attribute with too many cells for rows, cell by cell.

    Args:
        state: the public state.
        scope: attribute names in declared order.
    """
    tier = marginal_tier(state.plan)
    if tier is None or tier.order == 1:
        return None
    if len(scope) == 1:
        opened = next((one for one in state.opening if one.scope == scope), None)
        return opened.strategy if isinstance(opened, ResidualMeasurement) else None
    if not 2 <= len(scope) <= tier.order or None in _below(state, scope):
        return None
    grid = state.grid(scope)
    return rows_of([grid[name] for name in scope], replaced=state.contract.options.replaces)


def _below(state: PublicState, scope: tuple[str, ...]) -> list[ResidualMeasurement | None]:
    """Return the residuals that one stands on, each as it was measured first; None for one that is not."""
    wanted = [one for order in range(2, len(scope)) for one in itertools.combinations(scope, order)]
    if not wanted:
        return []
    first = {one.scope: one for one in reversed(state.marginals) if isinstance(one, ResidualMeasurement)}
    return [first.get(one) for one in wanted]


def due_scopes(state: PublicState) -> list[tuple[str, ...]]:
    """Return the marginals that have to be measured before any question, in order: pairs, then wider ones.

    Left out is one of more cells than ``MOST_RESIDUAL_CELLS``, and one with an attribute of a single cell: it
    says nothing that the other attributes do not say.
    """
    tier = marginal_tier(state.plan)
    if tier is None or tier.order == 1 or state.closed:
        return []
    measured = {one.scope for one in state.marginals}
    fine, coarse = state.domain, state.coarsening.coarse
    limits = tier.order, tier.most_fine, MOST_RESIDUAL_CELLS
    wanted = _founding_scopes(fine.names, fine.shape, coarse.shape, limits)
    return [scope for scope in wanted if scope not in measured]


@functools.lru_cache(maxsize=8)  # each of very many measurements asks for it
def _founding_scopes(
    names: tuple[str, ...], fine: tuple[int, ...], coarse: tuple[int, ...], limits: tuple[int, int, int]
) -> tuple[tuple[str, ...], ...]:
    """Return all marginals that are measured before any question, in order.

    Args:
        names: of the attributes.
        fine: declared cells of each.
        coarse: bins of each.
        limits: attributes of a marginal, declared cells of one that is not binned, cells of any.
    """
    most, most_fine, most_cells = limits
    found = list[tuple[str, ...]]()
    for order in range(2, most + 1):
        shapes = zip(itertools.combinations(fine, order), itertools.combinations(coarse, order), strict=True)
        for scope, (declared, binned) in zip(itertools.combinations(names, order), shapes, strict=True):
            shape = declared if math.prod(declared) <= most_fine else binned
            if min(shape) > 1 and math.prod(shape) <= most_cells:
                found.append(scope)
    return tuple(found)


def founded(state: PublicState, measurement: Measured) -> Measured:
    """Return a measurement with what it stands on in a state, where it is a residual.

    Raises:
        ScopeError: a residual that it stands on is not there.
    """
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
    residuals = tuple(one for one in _below(state, measurement.scope) if one is not None)
    if len(residuals) != 2 ** len(measurement.scope) - len(measurement.scope) - 2:
        raise ScopeError(f"the residual of {list(measurement.scope)} stands on one that was not measured")
    deviations = [finest_deviation(opened[name]) for name in measurement.scope]
    deviations += [float(one.drawn.sigma) for one in residuals]
    finest = min(below.finest, *deviations)
    below = replace(below, effects=tuple(effects), finest=finest, residuals=residuals)
    return replace(measurement, foundation=below)


def with_founded(state: PublicState, measured: Sequence[LaterMeasurement]) -> PublicState:
    """Return a state with more that was measured, each with what it stands on; its model is left as it is."""
    for one in measured:
        state = replace(state, measured=(*state.measured, founded(state, one)))
    return state


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
    """Return what opening measured of an attribute, on the cells that it is measured on with others.

    Args:
        measured: the attribute.
        bin_: of each declared cell, the bin that it is summed to: int64, shape (cells,); None for none.
    """
    return _main_effect(measured, None if bin_ is None else bin_.astype(np.int64).tobytes())


# Every marginal of an attribute asks for it. Measurements are told apart by identity.
@functools.lru_cache(maxsize=256)
def _main_effect(measured: OneWayMeasurement, bins: bytes | None) -> MainEffect:
    size = measured.values.size
    bin_ = np.arange(size) if bins is None else np.frombuffer(bins, dtype=np.int64)
    cells = np.bincount(as_index(bin_)).astype(np.float64)
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
    values: NDArray[np.float64] = np.bincount(as_index(bin_), weights=measured.values).astype(np.float64)
    return MainEffect(values, covariance, slope)
