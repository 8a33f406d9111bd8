"""What a session has released, and the public state that it adds up to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.loop import OpeningDraws, correct, released_total, settle_opening
from pmw.model import Coarsening
from pmw.planning.opening import choose_filter
from pmw.privacy.filter import PrivacyFilter
from pmw.public.codec import register
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.options import UpdateRule
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import Certificate, LaterMeasurement, PublicState
from pmw.session.snapshots import Snapshot, SnapshotTerms, read_snapshot


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
        contract: what was fixed at opening.
        opening_plan: the noise of the opening measurements.
        test_plan: the tiers of tests.
        spent: what was charged, in the measure of the contract's filter.
        draws: what opening released.
        measured: what was measured since, in order.
        certificates: the newest negative test of each marginal.
        quantiles: of the errors of answered questions, in order.
        distribution: a model; None where there is none.
        closed: nothing is spent any more.
        asked: how many questions were answered, repeated ones left out.
        settled: how many of them settled a question first.
        coarsening: the bins that the draws give.
    """

    contract: Contract
    opening_plan: OpeningPlan
    test_plan: TestPlan
    spent: Fraction
    draws: OpeningDraws
    measured: tuple[LaterMeasurement, ...]
    certificates: tuple[Certificate, ...]
    quantiles: tuple[ErrorQuantile, ...]
    distribution: KeptModel | None
    closed: bool
    asked: int
    settled: int
    coarsening: Coarsening

    @property
    def ledger(self) -> PrivacyFilter:
        """The filter with what was charged."""
        contract = self.contract
        ledger = choose_filter(contract.domain, contract.budget, contract.options)
        return replace(ledger, spent=self.spent)


register({OpeningDraws: {}, KeptModel: {}, Released: {}})


def found_snapshot(released: Released) -> Snapshot | None:
    """Return the model that was kept; None where there is none, or it is not of these numbers.

    Single steps are taken again: to the last bit, their model depends on their order.
    """
    kept, contract = released.distribution, released.contract
    if kept is None or contract.options.update is UpdateRule.STEP:
        return None
    total = released_total(released.opening_plan, released.draws).value
    terms = SnapshotTerms(released.coarsening, released.draws.marginals, released.measured, total)
    return read_snapshot(kept.version, kept.duals, contract, terms)


def state_of(released: Released, found: Snapshot | None) -> PublicState:
    """Return the public state of what was released; no round is open in it.

    The model comes from the snapshot, corrected by the measurements after it; without a snapshot, from the
    first measurement on.

    Args:
        released: by the session.
        found: the model that was kept.
    """
    measured, contract, plan = released.measured, released.contract, released.opening_plan
    fitted = None if found is None else (found.model, found.step_size)
    state = settle_opening(contract, plan, released.draws, released.ledger, released.test_plan, fitted)
    if found is not None:
        state = replace(state, measured=measured[: found.version], beside=found.beside)
    for measurement in measured[len(state.measured) :]:
        state = correct(state, measurement)
    return replace(
        state,
        closed=released.closed,
        certificates={one.scope: one for one in released.certificates},
        asked=released.asked,
        settled=released.settled,
        quantiles=released.quantiles,
    )
