"""Heads in answers: how many persons have a kept record in a group.

Of n kept records in a group there are at most n persons, and at least n/K. What was measured of persons by
the cells of a scope says more, where one of these cells is the group, or holds it. Which measurement is taken
is decided by the scale of its noise, not by what was drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmw.model import HeadMeasurement, noise_variance
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.state import PublicState
from pmw.public.sums import Estimate, GroupWeights, Sums, within
from queries.cell_values import on_scope
from queries.factors import UNITS


class MeasuredHeads(NamedTuple):
    """What was measured of persons in a group.

    Attributes:
        value: the measured number.
        variance: of its noise.
        half_width: how far the truth may be from it.
        exact: it is of the group; else of more records, so that it bounds the number from above alone.
    """

    value: float
    variance: float
    half_width: float
    exact: bool


def estimated_heads(state: PublicState, sums: Sums, group: GroupWeights, events: int) -> Estimate:
    """Return how many persons have a kept record in a group.

    The number of the group's records, and what was measured of persons, have half each of what may fail,
    where any persons were measured.

    Args:
        state: the state.
        sums: of a statement in this state.
        group: the weights of its records.
        events: how many intervals have to hold together.
    """
    most = state.contract.options.records_per_person
    events = 2 * events if state.heads else events
    low, high = sums.ends(group, events)
    low, high, hard = max(low, 0.0) / most, max(high, 0.0), sums.hard_ends(group)
    measured = (_measured(state, one, group, sums.alone(events)) for one in state.heads)
    found = [known for known in measured if known is not None]
    known = min(found, key=lambda one: (not one.exact, one.variance), default=None)
    if known is None:
        return within(sums.model(group) * _per_record(state), (low, high), hard)
    high = min(high, known.value + known.half_width)
    if not known.exact:
        return within(sums.model(group) * _per_record(state), (low, high), hard)
    return within(known.value, (max(low, known.value - known.half_width), high), hard)


def _measured(
    state: PublicState, one: HeadMeasurement, group: GroupWeights, confidence: float
) -> MeasuredHeads | None:
    """Return the measured cell that holds a group; None where records of several cells may be in it."""
    beside = tuple(place for place, name in enumerate(group.scope) if name not in one.scope)
    common = tuple(name for name in group.scope if name in one.scope)
    shape = [state.domain[name].size for name in common]
    least = on_scope(state.domain, common, np.asarray(group.least.all(axis=beside)).reshape(shape), one.scope)
    most = on_scope(state.domain, common, np.asarray(group.most.any(axis=beside)).reshape(shape), one.scope)
    (cells,) = np.broadcast_to(most, one.units.shape).reshape(-1).nonzero()
    if len(cells) != 1:
        return None
    exact = bool(np.broadcast_to(least, one.units.shape).reshape(-1)[cells[0]])
    value = float(one.units.reshape(-1)[cells[0]]) / UNITS
    width = sum_half_width(one.noise, 1.0, confidence)
    return MeasuredHeads(value, noise_variance(one.noise), width, exact)


def _per_record(state: PublicState) -> float:
    """Return how many persons there are for each record, over all: measured, or the middle of what may be."""
    least = 1 / state.contract.options.records_per_person
    whole = [one for one in state.heads if not one.scope]
    best = min(whole, key=lambda one: noise_variance(one.noise), default=None)
    if best is None or state.total.value <= 0:
        return (1 + least) / 2
    return min(max(float(best.units) / UNITS / state.total.value, least), 1.0)
