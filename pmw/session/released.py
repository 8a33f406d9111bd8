"""What a session has released, and the public state that it adds up to.

A model is kept as its dual numbers, a cache: measurements give the same model again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.loop.fit import model_of_terms
from pmw.loop.priors import elected
from pmw.loop.untested import OpeningDraws, apply, released_total, settle_opening
from pmw.model.bins import Coarsening
from pmw.model.distribution import MarginalTerm, QueryTerm, SyntheticDistribution, Term, dual_numbers
from pmw.model.measurement import OneWayMeasurement, QueryMeasurement
from pmw.public.codec import register
from pmw.public.contract import Contract
from pmw.public.foundations import with_founded
from pmw.public.options import UpdateRule
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import Certificate, LaterMeasurement, PublicState, singly
from pmw.session.events import Measured, empty_ledger
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class KeptModel:
    """A model that was kept.

    Args:
        version: how many measurements since opening it has seen.
        duals: its dual numbers, float64, shape (k,), as ``duals_of`` gives them.
    """

    version: int
    duals: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What a session has released, and what was fixed at its opening. Nothing in it is secret.

    Args:
        opening_plan: the noise of the opening measurements.
        spent: what was charged, in the measure of the contract's filter.
        since: what was measured since, and error quantiles, in order.
        certificates: the newest negative test of each marginal.
        distribution: a model; None where there is none.
        asked: how many questions were answered, repeated ones left out.
        settled: how many of them settled a question first.
        coarsening: the bins that the draws give.
    """

    contract: Contract
    opening_plan: OpeningPlan
    test_plan: TestPlan
    spent: Fraction
    draws: OpeningDraws
    since: tuple[Measured, ...]
    certificates: tuple[Certificate, ...]
    distribution: KeptModel | None
    closed: bool
    asked: int
    settled: int
    coarsening: Coarsening

    @property
    def measured(self) -> tuple[LaterMeasurement, ...]:
        """What the model is fitted to since opening, in order."""
        return tuple(one for one in self.since if isinstance(one, LaterMeasurement))


register({OpeningDraws: {}, KeptModel: {}, Released: {}})


def state_of(released: Released, found: Snapshot | None) -> PublicState:
    """Return the public state of what was released; no round is open in it.

    The model comes from the snapshot, corrected by the measurements after it; without a snapshot, from the
    first measurement on.
    """
    contract, plan, draws = released.contract, released.opening_plan, released.draws
    ledger = replace(empty_ledger(contract), spent=released.spent)
    fitted = None if found is None else (found.model, found.step_size)
    state = settle_opening(contract, plan, draws, ledger, released.test_plan, fitted)
    if found is not None:
        state = with_founded(state, released.measured[: found.version])
        state = elected(replace(state, beside=found.beside))
    seen = len(state.measured)  # by the model that was kept
    for one in released.since:
        seen -= isinstance(one, LaterMeasurement)
        if seen < 0 or not isinstance(one, LaterMeasurement):
            state = apply(state, one, ledger)
    return replace(
        state,
        closed=released.closed,
        certificates={one.scope: one for one in released.certificates},
        asked=released.asked,
        settled=released.settled,
    )


# --- snapshots -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A model that was kept, made again.

    Args:
        step_size: of the descent that fitted it.
        version: how many measurements after opening it has seen.
        beside: positions, among these, of those that it does not take in.
    """

    model: SyntheticDistribution
    step_size: float
    version: int
    beside: tuple[int, ...]


def duals_of(state: PublicState) -> NDArray[np.float64]:
    """Return the model's dual numbers in the order of its terms, for a snapshot: float64, shape (k,).

    The positions of what is kept beside the model follow, their number and the step size of the descent.
    """
    return np.concatenate(
        [dual_numbers(state.model.terms), [*state.beside, len(state.beside), state.step_size]]
    )


def found_snapshot(released: Released) -> Snapshot | None:
    """Return the model that was kept; None where there is none, or it is not of these numbers.

    Single steps are taken again: to the last bit, their model depends on their order.
    """
    kept, contract, coarsening = released.distribution, released.contract, released.coarsening
    if kept is None or contract.options.update is UpdateRule.STEP:
        return None
    version, measured = kept.version, released.measured
    tail = _read_tail(kept.duals, version) if 0 <= version <= len(measured) else None
    if tail is None:
        return None
    beside, step_size = tail
    fitted = [one for place, one in enumerate(measured[:version]) if place not in beside]
    duals = kept.duals[: len(kept.duals) - 2 - len(beside)]
    terms = _terms(coarsening, (*released.draws.marginals, *fitted), duals)
    if terms is None:
        return None
    total = released_total(released.opening_plan, released.draws).value
    return Snapshot(model_of_terms(contract, coarsening, total, terms), step_size, version, beside)


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
    terms: list[Term] = []
    for one in singly(fitted):
        shape = () if isinstance(one, QueryMeasurement) else coarsening.coarse.scope_shape(one.scope)
        size = math.prod(shape)
        if len(duals) < size:
            return None
        own, duals = duals[:size], duals[size:]
        if isinstance(one, QueryMeasurement):
            query = one.query if coarsening.is_identity else coarsening.inner(one.query)
            terms.append(QueryTerm(query, float(own[0])))
        else:
            terms.append(MarginalTerm(one.scope, own.reshape(shape)))
    return None if len(duals) else terms
