"""Lending: a session that is charged for all that another one may ever spend.

The lender's charge is durable before the borrower exists, for two files cannot be committed at once: a crash
between the two costs the lender what it lent, and nothing is ever released beyond what was charged. The loan
is final: what the borrower leaves over is not given back.

Privacy: both sessions together, asked in any order, keep the lender's guarantee. Charges of interactive
    mechanisms add up however their questions interleave.

Source: Vadhan and Zhang (2023), "Concurrent composition theorems for differential privacy".
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pmw.accounting import PrivacyFilter
from pmw.errors import BudgetError, BudgetExhaustedError, NoiseError, SessionError
from pmw.journal import ledger_rows, load_contract, read_entries
from pmw.locking import SessionLock
from pmw.mechanism import LedgerEntry, lent_entry
from pmw.planning import choose_filter
from pmw.policy import Contract, Options
from pmw.privacy import Budget, Charge, Composition, pure_charge, zcdp_epsilon
from pmw.store import Outcome, SessionStore, require_unborn

__all__ = [
    "await_lender",
    "borrowing_options",
    "charge_lender",
    "kept_options",
]


def borrowing_options(options: Options, budget: Budget) -> Options:
    """Return the options of a session that shares the budget of another one: charges add up as they do there.

    Args:
        options: the custodian's choices, with the lender in ``budget_from``.
        budget: what the session may spend.

    Raises:
        BudgetError: the two protect different neighbours, count other units or have another delta.
        NoiseError: repeatable noise is asked for, which protects nobody.
        SessionError: the lender's file is no session; the leaves of ``SessionError`` say how.
    """
    if options.budget_from is None:
        return options
    if options.seed is not None:
        raise NoiseError(
            "a session that another one pays for never uses repeatable noise; leave the seed out"
        )
    theirs = _contract(Path(options.budget_from))
    for name in ("neighboring_relation", "records_per_person"):
        ours, other = getattr(options, name), getattr(theirs.options, name)
        if ours != other:
            raise BudgetError(
                f"sessions that share a budget need the same {name}: "
                f"{_word(other)} in {options.budget_from}, {_word(ours)} here"
            )
    if budget.delta != theirs.budget.delta:
        raise BudgetError(
            f"sessions that share a budget need the same delta: {float(theirs.budget.delta):g} in "
            f"{options.budget_from}, {float(budget.delta):g} here"
        )
    if options.composition not in (None, theirs.options.composition):
        raise BudgetError(f"charges add up otherwise in {options.budget_from}; leave the composition out")
    return replace(options, composition=theirs.options.composition)


def kept_options(options: Options, ledger: PrivacyFilter) -> Options:
    """Return the options of a session as its file keeps them: of the lender its name, without its folders.

    A backup leaves the machine, and holds no place on it; once charged, the lender is never looked for.

    Args:
        options: the custodian's choices.
        ledger: the session's filter.
    """
    lender = options.budget_from
    name = None if lender is None else Path(lender).name
    return replace(options, composition=ledger.composition, budget_from=name)


def await_lender(lender: Path, seconds: float) -> None:
    """Wait until no other process uses the session that is to pay, but no longer than so many seconds.

    Raises:
        SessionLockedError: another process used it all that time.
        SessionError: there is no such session.
    """
    SessionStore.open(lender).close()  # says what is wrong before a lock file is made
    SessionLock(lender, seconds).release()


def _word(value: object) -> str:
    return str(getattr(value, "value", value)).replace("_", "-")


def _contract(lender: Path) -> Contract:
    with closing(SessionStore.open(lender)) as store:
        return load_contract(store)[0]


def charge_lender(options: Options, borrower: Path | None, ledger: PrivacyFilter) -> None:
    """Charge the session that is to pay, if there is one, durably for all that another one may spend.

    Args:
        options: of the borrower; ``budget_from`` names the lender's file.
        borrower: its file, which must not be there yet; None for a session in memory.
        ledger: the borrower's filter; its cap is charged.

    Raises:
        BudgetExhaustedError: less is left.
        SessionExistsError: the borrower's file exists.
        SessionLockedError: another process is using the lender.
        SessionError: the lender was closed, or a crash left a batch that must be finished first.
        StoreError: the charge cannot be made durable; then nothing was charged.
    """
    if options.budget_from is None:
        return
    if borrower is not None:
        require_unborn(borrower, str(borrower))
    lender, name = Path(options.budget_from), "a session in memory" if borrower is None else borrower.name
    with closing(SessionStore.open(lender)) as store:  # says what is wrong before a lock file is made
        store.require_companion()
    lock = SessionLock(lender)
    try:
        with closing(SessionStore.open(lender)) as store:
            store.take_over()
            if store.meta("closed") is not None:
                raise SessionError(f"{lender} was closed; nothing can be charged to it any more")
            if store.pending() is not None:
                raise SessionError(f"{lender}: a batch waits to be finished; ask it a question first")
            entry, count = lent_entry(name, _price(ledger)), store.charge_count()
            _require_left(store, lender, entry)
            store.finish(None, Outcome(ledger=ledger_rows([entry]), charged_before=count))
    finally:
        lock.release()


def _price(ledger: PrivacyFilter) -> Charge:
    if ledger.composition is Composition.PURE:
        return pure_charge(ledger.cap)
    return Charge(None, ledger.cap)


def _require_left(store: SessionStore, lender: Path, entry: LedgerEntry) -> None:
    contract, _ = load_contract(store)
    left = choose_filter(contract.domain, contract.budget, contract.options)
    for charged in read_entries(store):
        left = left.charge(charged.charge)
    if not left.allows(entry.charge):
        raise BudgetExhaustedError(
            f"{lender} has less left than was asked for; an epsilon of at most "
            f"{_most(left, contract):.3g} fits"
        )


def _most(left: PrivacyFilter, contract: Contract) -> float:
    """Return the largest epsilon, at the lender's delta, that fits into what is left, to three digits."""
    most = float(left.remaining)
    if left.composition is Composition.ZCDP:
        most = zcdp_epsilon(most, float(contract.budget.delta))
    if most <= 0:
        return 0.0
    grid = 10.0 ** (math.floor(math.log10(most)) - 2)
    return math.floor(most / grid * (1 - 1e-9)) * grid
