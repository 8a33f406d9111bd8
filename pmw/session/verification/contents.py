"""What a session file holds: its contract, plans, charges, measurements and batches."""

from __future__ import annotations

from dataclasses import dataclass

from pmw.loop import OpeningDraws, choose_bins
from pmw.model import Coarsening, MarginalMeasurement
from pmw.planning.opening import choose_filter
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import LedgerEntry, opening_entries, quantile_entry, requested_entry
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.ledger import Ledger, ledger_of
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import LaterMeasurement
from pmw.session.loading import load_contract, load_plan, read_entries
from pmw.session.measurement_rows import read_measured, read_opening, read_quantile
from pmw.session.store import LATER, QUANTILES, IntentRow, MeasurementRow, SessionStore
from pmw.session.verification.plans import VectorLedger, vectors_of


@dataclass(frozen=True, slots=True)
class Contents:
    """What a session file holds besides answers and snapshots.

    Args:
        contract: what was fixed at opening.
        opening: the noise of the opening measurements.
        test: the tiers of tests; none where nothing was left for any.
        cap: the session's filter with nothing spent.
        entries: the charges, in order.
        intents: the batch that each charge belongs to.
        rows: the measurements, in order.
        row_intents: the batch that each measurement belongs to.
        pending: the batch that waits to be finished, or None.
        closed: the session was closed permanently.
    """

    contract: Contract
    opening: OpeningPlan
    test: TestPlan
    cap: PrivacyFilter
    entries: tuple[LedgerEntry, ...]
    intents: tuple[int, ...]
    rows: tuple[MeasurementRow, ...]
    row_intents: tuple[int, ...]
    pending: IntentRow | None
    closed: bool

    @property
    def unborn(self) -> bool:
        """Whether the opening was never finished."""
        return self.pending is not None and self.pending.kind == "opening"

    @property
    def vectors(self) -> tuple[VectorLedger, ...]:
        """The sparse vectors that were planned."""
        return vectors_of(self.test, self.contract.options, self.cap.composition)

    @property
    def opening_charges(self) -> tuple[LedgerEntry, ...]:
        """What opening charges."""
        return opening_entries(self.opening, self.contract.options)

    @property
    def later(self) -> tuple[LedgerEntry, ...]:
        """The charges after those of opening."""
        return self.entries[len(self.opening_charges) :]

    @property
    def ledger(self) -> Ledger:
        """The charges with their shares of the cap, whether or not they fit under it."""
        return ledger_of(self.contract.budget, self.cap, self.entries)

    @property
    def coarsening(self) -> Coarsening:
        """The bins that marginals are tested and measured on, from what opening released."""
        return choose_bins(self.contract, self.opening, self.draws, self.test)

    @property
    def draws(self) -> OpeningDraws:
        """What opening released."""
        return read_opening(self.contract, self.rows)

    @property
    def untested(self) -> dict[int, list[LedgerEntry]]:
        """What each batch charges that no test decides, recomputed from its noises."""
        options = self.contract.options
        found: dict[int, list[LedgerEntry]] = {}
        for intent, one in self.measured():
            if isinstance(one, MarginalMeasurement) and one.requested:
                found[intent] = [requested_entry(one.scope, one.noise, options)]
        for intent, quantile in self.quantiles():
            found.setdefault(intent, []).append(
                quantile_entry(quantile.kind.describe(), quantile.noise, options)
            )
        return found

    def quantiles(self) -> list[tuple[int, ErrorQuantile]]:
        """Return the error quantiles, each with its batch."""
        pairs = zip(self.row_intents, self.rows, strict=True)
        return [(intent, read_quantile(row)) for intent, row in pairs if row.kind == QUANTILES]

    def measured(self) -> list[tuple[int, LaterMeasurement]]:
        """Return what was measured since opening, each with its intent."""
        coarsening = self.coarsening
        return [
            (intent, read_measured(coarsening, row))
            for intent, row in zip(self.row_intents, self.rows, strict=True)
            if row.kind in LATER
        ]


def read_contents(store: SessionStore) -> Contents:
    """Return the contents of a session file.

    Raises:
        SessionCorruptError: a part of them is not there.
        ValueError: a part of them cannot be read; KeyError, TypeError and the like too.
    """
    contract, opening = load_contract(store)
    pending, chained = store.pending(), store.chained()
    unborn = pending is not None and pending.kind == "opening"
    return Contents(
        contract=contract,
        opening=opening,
        test=() if unborn else load_plan(store),
        cap=choose_filter(contract.domain, contract.budget, contract.options),
        entries=tuple(read_entries(chained.ledger)),
        intents=chained.ledger_intents,
        rows=chained.measurements,
        row_intents=chained.measurement_intents,
        pending=pending,
        closed=store.meta("closed") is not None,
    )
