"""Evidence: what released numbers, and tests that were negative, say of a scope."""

from __future__ import annotations

import math
from typing import TypeAlias, TypeGuard

import numpy as np

from pmw.model import MarginalMeasurement, MarginalValues, OneWayMeasurement, combined
from pmw.public.state import Certificate, PublicState
from queries.linear import UNITS, LinearQuery

__all__ = [
    "is_fine",
    "is_held",
    "is_whole_table",
    "Known",
    "known_of",
    "marginals_over",
    "opened_over",
    "opening_over",
    "weighed",
]

Known: TypeAlias = MarginalValues | Certificate  # than the opening


def is_held(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers or a certificate bound the error of a question."""
    if not query.scope or opening_over(state, query.scope) is not None:
        return True
    wanted = set(query.scope)
    held = [one.scope for one in state.marginals]
    return any(wanted <= set(scope) for scope in (*held, *state.certificates))


def is_whole_table(known: object, state: PublicState) -> TypeGuard[MarginalMeasurement]:
    """Tell whether something is all that opening measured: the whole table, cell by cell."""
    one_event = state.contract.options.simultaneous
    return isinstance(known, MarginalMeasurement) and state.opening == (known,) and not one_event


def known_of(
    state: PublicState, scope: tuple[str, ...], asked: tuple[str, ...] | None = None
) -> tuple[list[Known], list[Known]]:
    """Return what is known of a scope: on declared cells, and on bins of them.

    Args:
        state: the state.
        scope: of a question, or of a reading of one.
        asked: the scope of the question, which contains the other; the same where it is None. Certificates
            are those of this scope: whether they stood at the time of an answer can be told afterwards.
    """
    asked = scope if asked is None else asked
    known: list[Known] = [*marginals_over(state, scope)]
    certificate = state.certificates.get(asked)
    if certificate is not None:
        known.append(certificate)
    else:
        known += [one for wider, one in state.certificates.items() if set(asked) <= set(wider)]
    fine = [one for one in known if is_fine(state, one)]
    return fine, [one for one in known if not is_fine(state, one)]


def is_fine(state: PublicState, known: Known) -> bool:
    """Tell whether something is known on declared cells that are binned elsewhere."""
    return known.units.shape != state.coarsening.coarse.scope_shape(known.scope)


def opening_over(state: PublicState, scope: tuple[str, ...]) -> OneWayMeasurement | None:
    """Return what opening measured over a scope, on the declared cells."""
    wanted = set(scope)
    return next((one for one in state.opening if wanted <= set(one.scope)), None)


def marginals_over(state: PublicState, scope: tuple[str, ...]) -> list[MarginalValues]:
    """Return the marginals measured since opening that contain a scope; those of the same cells as one.

    Intervals that hold for all questions at once have a part for each measurement, so none are combined.
    """
    found = [one for one in state.marginals if set(scope) <= set(one.scope)]
    return list(found) if state.contract.options.simultaneous else combined(found)


def opened_over(
    state: PublicState, scope: tuple[str, ...]
) -> tuple[list[OneWayMeasurement | MarginalValues], list[MarginalValues]]:
    """Return what is known of a scope that opening measured, with what was requested of it since.

    Returns:
        What is on declared cells, none where opening measured nothing over the scope; and what is on bins.
    """
    opening = opening_over(state, scope)
    if opening is None:
        return [], []
    requested = [one for one in state.marginals if one.requested and set(scope) <= set(one.scope)]
    if not isinstance(opening, MarginalMeasurement):
        again = combined(requested)
        return [opening, *(one for one in again if is_fine(state, one))], _binned(state, again)
    again = combined([opening, *requested])
    return [again[0], *(one for one in again[1:] if is_fine(state, one))], _binned(state, again[1:])


def weighed(state: PublicState, measurement: MarginalValues, query: LinearQuery) -> tuple[float, float]:
    """Return what a measured marginal says of a question, and its standard deviation, in records."""
    axes = tuple(axis for axis, name in enumerate(measurement.scope) if name not in query.scope)
    values = measurement.values.sum(axis=axes)
    squares = np.full(values.shape, measurement.units.size / values.size)
    factors = state.coarsening.weights(query)
    if is_fine(state, measurement):
        factors = [(query.scope, query.weights() / UNITS)]
    for names, weights in factors:
        shape = [size if name in names else 1 for name, size in zip(query.scope, values.shape, strict=True)]
        values = values * weights.reshape(shape)
        squares = squares * weights.reshape(shape) ** 2
    return float(values.sum()), math.sqrt(float(squares.sum()) * measurement.variance)


def _binned(state: PublicState, known: list[MarginalValues]) -> list[MarginalValues]:
    return [one for one in known if not is_fine(state, one)]
