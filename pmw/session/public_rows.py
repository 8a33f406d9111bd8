"""Public rows: what was released, as rows, and the public state that they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pmw.loop import OpeningDraws, choose_bins, correct, released_total, settle_opening
from pmw.model import Coarsening
from pmw.privacy.filter import PrivacyFilter
from pmw.public.contract import Contract, UpdateRule
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import Certificate, LaterMeasurement, PublicState
from pmw.session import measurement_rows
from pmw.session.snapshots import Snapshot, SnapshotTerms, read_snapshot
from pmw.session.store import LATER, QUANTILES, CertificateRow, MeasurementRow

__all__ = [
    "found_snapshot",
    "PublicRows",
    "Released",
    "released_of",
    "state_of",
]


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """What a session has released, and what was fixed at its opening. Nothing in it is secret.

    Args:
        contract: what was fixed at opening.
        opening: the noise of the opening measurements.
        test: the tiers of tests.
        ledger: the filter with what was charged.
        measurements: released measurements, in order.
        certificates: the newest negative test of each marginal.
        snapshot: version and dual numbers of a model, float64, shape (k,), as ``duals_of`` gives them; None
            where there is none.
        closed: nothing is spent any more.
        asked: how many questions were answered, repeated ones left out.
        settled: how many of them settled a question first.
    """

    contract: Contract
    opening: OpeningPlan
    test: TestPlan
    ledger: PrivacyFilter
    measurements: Sequence[MeasurementRow]
    certificates: Sequence[CertificateRow]
    snapshot: tuple[int, NDArray[np.float64]] | None
    closed: bool
    asked: int
    settled: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """The numbers of public rows.

    Args:
        draws: what opening released.
        coarsening: the bins that they give.
        measured: what was measured since, in order.
        certificates: what tests of marginals did not find wrong.
        quantiles: of the errors of answered questions, in order.
    """

    draws: OpeningDraws
    coarsening: Coarsening
    measured: Sequence[LaterMeasurement]
    certificates: Sequence[Certificate]
    quantiles: Sequence[ErrorQuantile]


def released_of(rows: PublicRows) -> Released:
    """Return the numbers of rows.

    Raises:
        ValueError: they cannot be read; KeyError and TypeError too.
    """
    draws = measurement_rows.read_opening(rows.contract, rows.measurements)
    coarsening = choose_bins(rows.contract, rows.opening, draws, rows.test)
    later = [row for row in rows.measurements if row.kind in LATER]
    return Released(
        draws,
        coarsening,
        [measurement_rows.read_measured(coarsening, row) for row in later],
        [measurement_rows.read_certificate(coarsening, row) for row in rows.certificates],
        [measurement_rows.read_quantile(row) for row in rows.measurements if row.kind == QUANTILES],
    )


def found_snapshot(rows: PublicRows, released: Released) -> Snapshot | None:
    """Return the model of the rows' snapshot; None where there is none, or it is not of these numbers.

    Single steps are taken again: to the last bit, their model depends on their order.
    """
    if rows.snapshot is None or rows.contract.options.update is UpdateRule.STEP:
        return None
    total = released_total(rows.opening, released.draws).value
    terms = SnapshotTerms(released.coarsening, released.draws.marginals, released.measured, total)
    return read_snapshot(*rows.snapshot, rows.contract, terms)


def state_of(rows: PublicRows, released: Released, found: Snapshot | None) -> PublicState:
    """Return the public state of rows; no round is open in it.

    The model comes from the snapshot, corrected by the measurements after it; without a snapshot, from the
    first measurement on.

    Args:
        rows: what was released.
        released: its numbers.
        found: the rows' snapshot.
    """
    measured = released.measured
    fitted = None if found is None else (found.model, found.step_size)
    state = settle_opening(rows.contract, rows.opening, released.draws, rows.ledger, rows.test, fitted)
    if found is not None:
        state = replace(state, measured=tuple(measured[: found.version]), beside=found.beside)
    for measurement in measured[len(state.measured) :]:
        state = correct(state, measurement)
    certificates = {one.scope: one for one in released.certificates}
    return replace(
        state,
        closed=rows.closed,
        certificates=certificates,
        asked=rows.asked,
        settled=rows.settled,
        quantiles=tuple(released.quantiles),
    )
