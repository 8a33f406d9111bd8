"""Foundations: what residuals stand on in a state, and by which rows a marginal is measured in it.

All of it follows from public numbers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model.estimate import Block, Covariance
from pmw.model.measurement import Measurement, OneWayMeasurement, ResidualMeasurement
from pmw.model.prices import rows_of
from pmw.model.strategy import Strategy
from pmw.public.plans import MOST_RESIDUAL_CELLS, marginal_tier
from pmw.public.state import LaterMeasurement, PublicState, Total
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.places import as_index

Measured = TypeVar("Measured", bound=Measurement)
_MOST_TRIPLE_CELLS = 4096  # of a triple by rows that is measured after opening


def strategy_of(state: PublicState, scope: tuple[str, ...]) -> Strategy | None:
    """Return the rows that a marginal is measured by, or None where its cells are measured.

    Pairs, and wider marginals of which all are measured before any question, are measured by rows where those
    that they stand on are, and attributes that opening measured by rows. Where a reserve is kept for what is
    asked, so are triples of few cells, on which their pairs were measured. Wider ones, and those of an
    attribute with too many cells for rows, are measured cell by cell.
    """
    tier = marginal_tier(state.plan)
    if tier is None or tier.order == 1:
        return None
    if len(scope) == 1:
        opened = next((one for one in state.opening if one.scope == scope), None)
        return opened.strategy if isinstance(opened, ResidualMeasurement) else None
    if not 2 <= len(scope) <= max(tier.order, 3 * bool(state.contract.options.reserved)):
        return None
    below, grid = _below(state, scope), state.grid(scope)
    alike = all(one is not None and one.units.shape == grid.scope_shape(one.scope) for one in below)
    if not alike or (len(scope) > tier.order and grid.scope_size(scope) > _MOST_TRIPLE_CELLS):
        return None
    return rows_of([grid[name] for name in scope], replaced=state.contract.options.replaces)


def _below(state: PublicState, scope: tuple[str, ...]) -> list[ResidualMeasurement | None]:
    """Return the residuals that one stands on, each as it was measured first; None for one that is not."""
    wanted = [one for order in range(2, len(scope)) for one in itertools.combinations(scope, order)]
    if not wanted:
        return []
    first = {one.scope: one for one in reversed(state.marginals) if isinstance(one, ResidualMeasurement)}
    return [first.get(one) for one in wanted]


def due_scopes(state: PublicState) -> list[tuple[str, ...]]:
    """Return the marginals that still have to be measured before any question, in order."""
    measured = {one.scope for one in state.marginals}
    return [scope for scope in founding_scopes(state) if scope not in measured] if not state.closed else []


def founding_scopes(state: PublicState) -> tuple[tuple[str, ...], ...]:
    """Return all marginals that are measured before any question, in order: pairs, then wider ones.

    Left out is one of more cells than ``MOST_RESIDUAL_CELLS``, and one with an attribute of a single cell: it
    says nothing that the other attributes do not say.
    """
    tier = marginal_tier(state.plan)
    if tier is None or tier.order == 1:
        return ()
    fine, coarse = state.domain, state.coarsening.coarse
    limits = tier.order, tier.most_fine, MOST_RESIDUAL_CELLS
    return _founding_scopes(fine.names, fine.shape, coarse.shape, limits)


@functools.lru_cache(maxsize=8)  # each of very many measurements asks for it
def _founding_scopes(
    names: tuple[str, ...], fine: tuple[int, ...], coarse: tuple[int, ...], limits: tuple[int, int, int]
) -> tuple[tuple[str, ...], ...]:
    """Return all marginals that are measured before any question, in order."""
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
    """Return a measurement with what it stands on in a state, where it is a residual."""
    if not isinstance(measurement, ResidualMeasurement):
        return measurement
    if len(measurement.scope) == 1:
        return replace(measurement, foundation=(_everybody(state.total),))
    opened = {one.scope[0]: one for one in state.opening}
    fine = state.grid(measurement.scope) is state.domain
    bins = [None if fine else state.coarsening.bins[state.domain.index(name)] for name in measurement.scope]
    residuals = tuple(one for one in _below(state, measurement.scope) if one is not None)
    if len(residuals) != 2 ** len(measurement.scope) - len(measurement.scope) - 2:
        raise ScopeError(f"the residual of {list(measurement.scope)} stands on one that was not measured")
    alone = attributes_alone(state.total, [opened[name] for name in measurement.scope], bins)
    return replace(measurement, foundation=(*alone, *residuals))


def with_founded(state: PublicState, measured: Sequence[LaterMeasurement]) -> PublicState:
    """Return a state with more that was measured, each with what it stands on; its model is left as it is."""
    for one in measured:
        state = replace(state, measured=(*state.measured, founded(state, one)))
    return state


def _everybody(total: Total, slopes: Sequence[tuple[int, NDArray[np.float64]]] = ()) -> Block:
    """Return what the residual of a single attribute stands on: the number of records."""
    grid = total.deviation * UNITS if total.deviation > 0 else math.inf
    return Block((), np.array(total.estimate), total.deviation**2, (), grid, tuple(slopes))


def on_everybody(total: Total, opening: Iterable[OneWayMeasurement]) -> tuple[OneWayMeasurement, ...]:
    """Return what opening measured of attributes, residuals with the number of records."""
    below = (_everybody(total),)
    return tuple(
        replace(one, foundation=below) if isinstance(one, ResidualMeasurement) else one for one in opening
    )


def attributes_alone(
    total: Total, measured: Sequence[OneWayMeasurement], bins: Sequence[NDArray[np.int64] | None]
) -> list[Block]:
    """Return what a marginal's residual stands on: the number of records, and what opening said beside it."""
    pairs = zip(measured, bins, strict=True)
    keys = ((one, None if bin_ is None else bin_.astype(np.int64).tobytes()) for one, bin_ in pairs)
    effects = [_main_effect(*key) for key in keys]
    slopes = [(axis, slope) for axis, (_, slope) in enumerate(effects) if slope is not None]
    alone = [replace(effect, axes=(axis,)) for axis, (effect, _) in enumerate(effects)]
    return [_everybody(total, slopes), *alone]


# Every marginal of an attribute asks for it. Measurements are told apart by identity.
@functools.lru_cache(maxsize=256)
def _main_effect(measured: OneWayMeasurement, bins: bytes | None) -> tuple[Block, NDArray[np.float64] | None]:
    """Return what is known of an attribute beside the number of records, on the cells of a marginal.

    Also what these cells move by with the number of records, which the counts of declared cells take in where
    these are summed to bins of several sizes.
    """
    told = measured.estimate
    block, values = told.blocks[0], told.values
    bin_ = np.arange(values.size) if bins is None else np.frombuffer(bins, dtype=np.int64)
    cells = np.bincount(as_index(bin_))
    centre = np.eye(cells.size) - 1 / cells.size
    covariance = block.factors[0].summed(bin_) * (block.variance * told.unit)
    takes_in = bins is not None and len(told.blocks) > 1  # residuals stand on the number of records
    slope = centre @ cells / values.size if takes_in else None
    summed = np.bincount(as_index(bin_), weights=values)
    factors = (Covariance(centre @ covariance @ centre),)
    return Block((0,), summed - summed.mean(), 1.0, factors, block.grid), slope
