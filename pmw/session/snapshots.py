"""Snapshots: a model as its dual numbers, and back. A cache: measurements give the same model again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.loop import model_of_terms
from pmw.model import (
    Coarsening,
    MarginalTerm,
    OneWayMeasurement,
    QueryMeasurement,
    QueryTerm,
    SyntheticDistribution,
    Term,
    dual_numbers,
)
from pmw.public.contract import Contract
from pmw.public.state import LaterMeasurement, PublicState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model that was kept.

    Args:
        model: the model.
        step_size: of the descent that fitted it.
        version: how many measurements after opening it has seen.
        beside: positions, among these, of those that it does not take in.
    """

    model: SyntheticDistribution
    step_size: float
    version: int
    beside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotTerms:
    """What the dual numbers of a snapshot belong to.

    Args:
        coarsening: the bins that the model is over.
        opening: the marginals measured at opening.
        measured: what was measured since, in order.
        total: records that the model spreads.
    """

    coarsening: Coarsening
    opening: Sequence[OneWayMeasurement]
    measured: Sequence[LaterMeasurement]
    total: float


def duals_of(state: PublicState) -> NDArray[np.float64]:
    """Return the model's dual numbers in the order of its terms, for a snapshot: float64, shape (k,).

    The positions of what is kept beside the model follow, their number and the step size of the descent.
    """
    return np.concatenate(
        [dual_numbers(state.model.terms), [*state.beside, len(state.beside), state.step_size]]
    )


def read_snapshot(
    version: int, duals: NDArray[np.float64], contract: Contract, terms: SnapshotTerms
) -> Snapshot | None:
    """Return the model of dual numbers, or None where they are not those of these measurements.

    Args:
        version: of the model.
        duals: float64, shape (k,), as ``duals_of`` gives them.
        contract: what was fixed at opening.
        terms: what the duals belong to.
    """
    if not 0 <= version <= len(terms.measured):
        return None
    tail = _read_tail(duals, version)
    if tail is None:
        return None
    beside, step_size = tail
    duals = duals[: len(duals) - 2 - len(beside)]
    fitted = [one for place, one in enumerate(terms.measured[:version]) if place not in beside]
    found = _terms(terms.coarsening, (*terms.opening, *fitted), duals)
    if found is None:
        return None
    model = model_of_terms(contract, terms.coarsening, terms.total, found)
    return Snapshot(model, step_size, version, beside)


def _read_tail(duals: NDArray[np.float64], version: int) -> tuple[tuple[int, ...], float] | None:
    """Return the positions of what is kept beside the model, and the step size; None where they are none."""
    if len(duals) < 2 or not 0 <= duals[-2] <= min(version, len(duals) - 2):
        return None
    kept, step_size = int(duals[-2]), float(duals[-1])
    places = duals[len(duals) - 2 - kept : -2]
    known = set(range(version))  # numpy's own test loads its masked arrays first
    if not (0 < step_size < math.inf and known.issuperset(places.tolist())):
        return None
    return tuple(int(place) for place in places), step_size


def _terms(
    coarsening: Coarsening, fitted: Sequence[OneWayMeasurement | LaterMeasurement], duals: NDArray[np.float64]
) -> list[Term] | None:
    """Return the terms of dual numbers, or None where there are too few or too many."""
    terms: list[Term] = []
    for one in fitted:
        if isinstance(one, QueryMeasurement):
            if len(duals) < 1:
                return None
            query = one.query if coarsening.is_identity else coarsening.inner(one.query)
            terms.append(QueryTerm(query, float(duals[0])))
            duals = duals[1:]
            continue
        shape = coarsening.coarse.scope_shape(one.scope)
        size = math.prod(shape)
        if len(duals) < size:
            return None
        terms.append(MarginalTerm(one.scope, duals[:size].reshape(shape)))
        duals = duals[size:]
    return None if len(duals) else terms
