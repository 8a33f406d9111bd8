"""What opening leaves: the ledger after its charges, and the tests, for ``open`` and ``plan`` alike."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pmw.planning.marginals import (
    CONTRACT_SCHEDULE,
    DEFAULT_SCHEDULE,
    Schedule,
    affordable_bins,
    assumed_bins,
    plan_marginal_test,
)
from pmw.planning.opening import choose_filter
from pmw.planning.questions import plan_contract_tier, plan_query_test, plan_query_tier
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import LedgerEntry, opening_entries
from pmw.public.confidences import Confidences
from pmw.public.contract import Contract, Opening
from pmw.public.plans import OpeningPlan, QueryTestPlan, TestPlan


def plan_test(
    contract: Contract,
    opening: OpeningPlan,
    ledger: PrivacyFilter,
    total: float,
    schedule: Schedule | None = None,
) -> TestPlan:
    """Return the tiers of a session, in order; none where nothing is left for any.

    Args:
        contract: what is fixed at opening.
        opening: what is measured at opening.
        ledger: what is left after it.
        total: the number of records, as released or as stated.
        schedule: how what is left is spent, where marginals are tested; None for the usual one.
    """
    domain, options = contract.domain, contract.options
    promised = options.bar_limit is not None
    if promised:
        schedule = schedule or CONTRACT_SCHEDULE
    else:
        schedule = (schedule or DEFAULT_SCHEDULE).under(ledger.composition)
    if not options.tests_marginals:
        alone = plan_query_test(domain, ledger, total, options)
        return () if alone is None else (alone,)
    if opening.table_noise is not None or (options.opening is not Opening.NONE and len(domain) == 1):
        return ()  # what opening measured covers every question
    coarse = assumed_bins(contract, opening, total)
    marginals = plan_marginal_test(coarse, ledger, total, options, schedule)
    if marginals is None:
        return ()
    bins = affordable_bins(contract, opening, total, marginals.fine_cells)
    marginals = replace(marginals, bins=bins)
    if not promised:
        questions = plan_query_tier(ledger, schedule.queries, schedule.query_limit, options)
    else:

        def confidence(tier: QueryTestPlan) -> float:
            private, plan = opening.total_noise is not None, (marginals, tier)
            return Confidences.of(options, len(opening.noises), plan, private_total=private).alone

        least = schedule.query_limit
        questions = plan_contract_tier(ledger, schedule.queries, least, options, confidence)
    return (marginals,) if questions is None else (marginals, questions)


@dataclass(frozen=True, slots=True)
class Opened:
    """What follows from an opening's plan and the number of records.

    Args:
        entries: what opening charges.
        ledger: the filter after these charges.
        test: the tiers of tests; none where nothing is left for any.
    """

    entries: tuple[LedgerEntry, ...]
    ledger: PrivacyFilter
    test: TestPlan


def plan_opened(contract: Contract, plan: OpeningPlan, total: float) -> Opened:
    """Return what a session is left with after opening: for ``open`` and for ``plan`` alike.

    Nothing here depends on a released count but the number of records, so that a session differs from its
    plan only by the noise on that.

    Args:
        contract: what is fixed at opening.
        plan: what is measured at opening.
        total: the number of records, as released or as stated.
    """
    entries = opening_entries(plan, contract.options)
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    return Opened(entries, ledger, plan_test(contract, plan, ledger, total))
