"""What opening leaves: the ledger after its charges, and the tests, for ``open`` and ``plan`` alike."""

from __future__ import annotations

from dataclasses import dataclass

from pmw.planning.marginals import assumed_groups, plan_marginal_test
from pmw.planning.opening import buys_table, choose_filter
from pmw.planning.questions import plan_query_test
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import LedgerEntry, opening_entries
from pmw.public.contract import Contract, Opening, TestKind
from pmw.public.plans import OpeningPlan, TestPlan

__all__ = [
    "Opened",
    "plan_opened",
    "plan_test",
]


def plan_test(
    contract: Contract, opening: OpeningPlan, ledger: PrivacyFilter, total: float
) -> TestPlan | None:
    """Return the tests of a session, or None where nothing is left for any.

    Args:
        contract: what is fixed at opening.
        opening: what is bought at opening.
        ledger: what is left after it.
        total: the number of records, as released or as stated.
    """
    if contract.options.test is TestKind.QUERY:
        return plan_query_test(contract.domain, ledger, total, contract.options)
    domain = contract.domain
    if contract.options.opening is not Opening.NONE and (len(domain) == 1 or buys_table(domain)):
        return None  # what opening bought covers every question
    return plan_marginal_test(assumed_groups(contract, opening, total), ledger, total, contract.options)


@dataclass(frozen=True, slots=True)
class Opened:
    """What follows from an opening's plan and the number of records.

    Args:
        entries: what opening charges.
        ledger: the filter after these charges.
        test: the tests; None where nothing is left for any.
    """

    entries: tuple[LedgerEntry, ...]
    ledger: PrivacyFilter
    test: TestPlan | None


def plan_opened(contract: Contract, plan: OpeningPlan, total: float) -> Opened:
    """Return what a session is left with after opening: for ``open`` and for ``plan`` alike.

    Nothing here depends on a released count but the number of records, so that a session differs from its
    plan only by the noise on that.

    Args:
        contract: what is fixed at opening.
        plan: what is bought at opening.
        total: the number of records, as released or as stated.
    """
    entries = opening_entries(plan, contract.options)
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    return Opened(entries, ledger, plan_test(contract, plan, ledger, total))
