"""The sparse vectors of a session, followed through its charges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pmw.mechanism import (
    LedgerEntry,
    abandoned_entry,
    bought_entry,
    marginal_threshold_entry,
    measurement_entry,
    threshold_entry,
)
from pmw.policy import MarginalTestPlan, Options, QueryTestPlan, TestKind, TestPlan
from pmw.privacy import Charge, Composition
from queries.domain import Domain
from queries.linear import LinearQuery

__all__ = [
    "is_abandoned",
    "VectorBooks",
    "vectors_of",
]


@dataclass(frozen=True, slots=True)
class VectorBooks:
    """What one sparse vector charges.

    Args:
        kind: what it tests.
        threshold: what drawing threshold noise charges.
        positive: what a positive charges with what it buys; its label is that of any.
        row_kind: of the measurements that its positives buy.
        secret: the name under which its threshold noise is kept.
        limit: positives that it may have.
        redraw: threshold noise is drawn anew after each positive.
    """

    kind: TestKind
    threshold: LedgerEntry
    positive: LedgerEntry
    row_kind: str
    secret: str
    limit: int
    redraw: bool

    def draws(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for threshold noise of this vector."""
        return (entry.event, entry.label) == (self.threshold.event, self.threshold.label)

    def buys(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for a positive of this vector."""
        return entry.event == self.positive.event

    def round_count(self, entries: Iterable[LedgerEntry]) -> int:
        """Return how often threshold noise was paid for."""
        return sum(self.draws(entry) for entry in entries)

    def positive_count(self, entries: Iterable[LedgerEntry]) -> int:
        """Return how many positives were paid for."""
        return sum(self.buys(entry) for entry in entries)

    def is_open(self, entries: Iterable[LedgerEntry]) -> bool:
        """Tell whether charges leave a round open."""
        charged = tuple(entries)
        return self.is_open_after(self.round_count(charged), self.positive_count(charged))

    def is_open_after(self, rounds: int, positives: int) -> bool:
        """Tell whether so many rounds and positives leave a round open."""
        if rounds == 0 or positives >= self.limit:
            return False
        return rounds > positives if self.redraw else True

    def reserved(self, *, is_open: bool) -> Charge:
        """Return the most that a batch of its tests can charge."""
        return self.positive.charge if is_open else self.threshold.charge + self.positive.charge


def vectors_of(
    plan: TestPlan | None, domain: Domain, options: Options, composition: Composition
) -> tuple[VectorBooks, ...]:
    """Return the sparse vectors of a plan: one, or one of marginals and one of single questions."""
    if plan is None:
        return ()
    if isinstance(plan, QueryTestPlan):
        return (_query_vector(plan, domain, composition, second=False),)
    marginals = VectorBooks(
        TestKind.MARGINAL,
        marginal_threshold_entry(plan, composition),
        bought_entry(plan, options, composition, ()),
        "bought",
        "threshold",
        plan.update_limit,
        plan.sparse.redraw,
    )
    return (marginals, *_second(plan, domain, composition))


def _second(plan: MarginalTestPlan, domain: Domain, composition: Composition) -> tuple[VectorBooks, ...]:
    return () if plan.queries is None else (_query_vector(plan.queries, domain, composition, second=True),)


def _query_vector(
    plan: QueryTestPlan, domain: Domain, composition: Composition, *, second: bool
) -> VectorBooks:
    everything = LinearQuery.everything(domain)  # any: the price is the same
    return VectorBooks(
        TestKind.QUERY,
        threshold_entry(plan.vector, composition, second=second),
        measurement_entry(plan.vector, composition, everything),
        "query",
        "query_threshold" if second else "threshold",
        plan.update_limit,
        plan.vector.sparse.redraw,
    )


def is_abandoned(entry: LedgerEntry) -> bool:
    """Tell whether a charge is that of a batch that was never finished."""
    return entry.event == abandoned_entry(entry.charge).event
