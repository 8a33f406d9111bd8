"""What a session file holds: its contract, plans, charges, measurements and batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from pmw.loop import OpeningDraws, choose_bins
from pmw.model import Coarsening
from pmw.privacy.budget import Charge
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import (
    CellNumbers,
    Event,
    LedgerEntry,
    Measurable,
    opening_entries,
    positive_entry,
    quantile_entry,
    threshold_entry,
)
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.ledger import Ledger, ledger_of
from pmw.public.plans import OpeningPlan, TestPlan, marginal_tier
from pmw.public.state import ApartMeasurement, LaterMeasurement, paid_for, requested
from pmw.session.journal import threshold_name
from pmw.session.loading import load_contract, load_plan, read_entries
from pmw.session.measurement_rows import Measured, read_opening, read_since
from pmw.session.released import empty_ledger
from pmw.session.store import OPENING, ChainedRows, IntentRow, SessionStore
from pmw.sparse_vector import Sparse
from queries.frozen import dataclass


@dataclass(frozen=True, slots=True)
class VectorLedger:
    """What one sparse vector charges.

    Args:
        tested: what it tests, in a word.
        threshold: what drawing threshold noise charges.
        positive: what a positive charges with what it measures; its label is that of any.
        secret: the name under which its threshold noise is kept.
        sparse: its tests.
    """

    tested: str
    threshold: LedgerEntry
    positive: LedgerEntry
    secret: str
    sparse: Sparse

    def draws(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for threshold noise of this vector."""
        return (entry.event, entry.label) == (self.threshold.event, self.threshold.label)

    def measures(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for a positive of this vector."""
        return entry.event == self.positive.event

    def paid(self, entries: Iterable[LedgerEntry]) -> tuple[int, int]:
        """Return how often threshold noise was paid for, and how many positives were."""
        charged = tuple(entries)
        return sum(map(self.draws, charged)), sum(map(self.measures, charged))

    def is_open(self, rounds: int, positives: int) -> bool:
        """Tell whether so many rounds and positives leave a round open."""
        return rounds > (positives if self.sparse.redraw else 0) and positives < self.sparse.update_limit

    def reserved(self, *, is_open: bool) -> Charge:
        """Return the most that a batch of its tests can charge."""
        return self.positive.charge if is_open else self.threshold.charge + self.positive.charge


@dataclasses.dataclass(eq=False)  # not frozen, without slots: what is read of the rows is kept
class Contents:
    """What a session file holds besides answers and snapshots.

    Args:
        contract: what was fixed at opening.
        opening: the noise of the opening measurements.
        test: the tiers of tests; none where nothing was left for any.
        cap: the session's filter with nothing spent.
        chained: the rows of charges and measurements, with their batches.
        entries: the charges, in order.
        pending: the batch that waits to be finished, or None.
        closed: the session was closed permanently.
    """

    contract: Contract
    opening: OpeningPlan
    test: TestPlan
    cap: PrivacyFilter
    chained: ChainedRows
    entries: tuple[LedgerEntry, ...]
    pending: IntentRow | None
    closed: bool

    @property
    def unborn(self) -> bool:
        """Whether the opening was never finished."""
        return self.pending is not None and self.pending.kind == OPENING

    @cached_property
    def vectors(self) -> tuple[VectorLedger, ...]:
        """The sparse vectors that were planned, one of each tier."""
        composition = self.cap.composition
        return tuple(
            VectorLedger(
                tier.tested,
                threshold_entry(tier, place, composition),
                positive_entry(tier, self.contract.options, composition, ""),
                threshold_name(place),
                tier.sparse,
            )
            for place, tier in enumerate(self.test)
        )

    @cached_property
    def opening_charges(self) -> tuple[LedgerEntry, ...]:
        """What opening charges."""
        return opening_entries(self.opening, self.contract.options)

    @property
    def opening_intent(self) -> int | None:
        """The batch of opening; None where it was never finished."""
        return next(iter(self.chained.measurement_intents), None)

    @cached_property
    def later(self) -> tuple[LedgerEntry, ...]:
        """The charges after those of opening."""
        return self.entries[len(self.opening_charges) :]

    @cached_property
    def ledger(self) -> Ledger:
        """The charges with their shares of the cap, whether or not they fit under it."""
        return ledger_of(self.contract.budget, self.cap, self.entries)

    @cached_property
    def coarsening(self) -> Coarsening:
        """The bins that marginals are tested and measured on, from what opening released."""
        return choose_bins(self.contract, self.opening, self.draws, self.test)

    @cached_property
    def draws(self) -> OpeningDraws:
        """What opening released."""
        return read_opening(self.contract, self.chained.measurements)

    @cached_property
    def untested(self) -> dict[int, list[LedgerEntry]]:
        """What each batch charges that no test decides, recomputed from its noises."""
        options = self.contract.options
        found: dict[int, list[LedgerEntry]] = {}
        opened = set[Measurable]()
        for intent, one in self.since:
            if isinstance(one, ErrorQuantile):
                entry = quantile_entry(one.kind.describe(), one.noise, options)
                found.setdefault(intent, []).append(entry)
                continue
            what = requested(one)
            if what is not None:
                opens = intent in self._opening_intents and what not in opened
                event = Event.OPENING if opens else paid_for(one)[0]
                found.setdefault(intent, []).append(replace(what.entry(one.noise, options), event=event))
                opened |= {what} if isinstance(what, CellNumbers) else set()
        return found

    @cached_property
    def _opening_intents(self) -> frozenset[int]:
        """The batches that were charged as parts of opening, in a session that measures all pairs then.

        Sessions of before there was a word for it charged them as requested.
        """
        tier = marginal_tier(self.test)
        if tier is None or tier.order == 1:
            return frozenset()
        intents = self.chained.ledger_intents[len(self.opening_charges) :]
        charges = zip(intents, self.later, strict=True)
        return frozenset(intent for intent, entry in charges if entry.event == Event.OPENING)

    @cached_property
    def since(self) -> list[tuple[int, Measured]]:
        """All that was measured since opening, and of persons then, each with its batch."""
        return read_since(self.coarsening, self.chained)

    @cached_property
    def measured(self) -> list[tuple[int, LaterMeasurement]]:
        """What the model is fitted to since opening, each with its batch."""
        return [(intent, one) for intent, one in self.since if isinstance(one, LaterMeasurement)]

    @cached_property
    def apart(self) -> list[tuple[int, ApartMeasurement]]:
        """What was measured apart from it, each with its batch, which may be that of opening."""
        return [(intent, one) for intent, one in self.since if isinstance(one, ApartMeasurement)]

    @cached_property
    def quantiles(self) -> list[tuple[int, ErrorQuantile]]:
        """The error quantiles, each with its batch."""
        return [(intent, one) for intent, one in self.since if isinstance(one, ErrorQuantile)]


def read_contents(store: SessionStore) -> Contents:
    """Return the contents of a session file.

    Raises:
        SessionCorruptError: a part of them is not there.
        ValueError: a part of them cannot be read; KeyError, TypeError and the like too.
    """
    contract, opening = load_contract(store)
    pending, chained = store.pending(), store.chained()
    unborn = pending is not None and pending.kind == OPENING
    return Contents(
        contract=contract,
        opening=opening,
        test=() if unborn else load_plan(store),
        cap=empty_ledger(contract),
        chained=chained,
        entries=tuple(read_entries(chained.ledger)),
        pending=pending,
        closed=store.meta("closed") is not None,
    )
