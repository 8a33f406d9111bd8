"""The books of a session: its contract, plans, charges, measurements and batches, checked one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pmw.accounting import PrivacyFilter
from pmw.encoding import dumps, noise_form, read_charge
from pmw.errors import SessionCorruptError
from pmw.journal import load_contract, load_plan, read_entries, read_measured, read_opening
from pmw.ledger import ledger_of
from pmw.mechanism import (
    LedgerEntry,
    abandoned_entry,
    measurement_entry,
    opening_entries,
    reservation,
    threshold_entry,
)
from pmw.planning import choose_filter, query_sensitivity
from pmw.policy import Contract, Opening, OpeningPlan, QueryTestPlan
from pmw.privacy import NeighboringRelation
from pmw.sparse_vector import NumericSparse
from pmw.store import IntentRow, MeasurementRow, SessionStore
from pmw.verification.report import Check, check, require, same
from queries.linear import LinearQuery

__all__ = [
    "book_checks",
    "Books",
    "read_books",
]


@dataclass(frozen=True, slots=True)
class Books:
    """What a session file holds besides answers and snapshots.

    Args:
        contract: what was fixed at opening.
        opening: the noise of the opening measurements.
        test: the sparse vector; None where nothing was left for one.
        cap: the session's filter with nothing spent.
        entries: the charges, in order.
        intents: the batch that each charge belongs to.
        rows: the measurements, in order.
        row_intents: the batch that each measurement belongs to.
        pending: the batch that waits to be finished, or None.
        closed: the session was closed for good.
    """

    contract: Contract
    opening: OpeningPlan
    test: QueryTestPlan | None
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
    def vector(self) -> NumericSparse:
        """The sparse vector with its values."""
        if self.test is None:
            raise SessionCorruptError("something was tested, but there was no plan to test anything")
        return self.test.vector

    @property
    def threshold(self) -> LedgerEntry:
        """What drawing threshold noise charges."""
        return threshold_entry(self.vector, self.cap.composition)

    @property
    def opening_charges(self) -> tuple[LedgerEntry, ...]:
        """What opening charges."""
        return opening_entries(self.opening, self.contract.options)

    @property
    def later(self) -> tuple[LedgerEntry, ...]:
        """The charges after those of opening."""
        return self.entries[len(self.opening_charges) :]

    @property
    def round_count(self) -> int:
        """How often threshold noise was paid for."""
        return 0 if self.test is None else sum(entry.event == self.threshold.event for entry in self.later)

    @property
    def round_is_open(self) -> bool:
        """Whether the charges leave a round open."""
        positives = sum(entry.event == "measurement" for entry in self.later)
        rounds = self.round_count
        if self.test is None or rounds == 0 or positives >= self.test.update_limit:
            return False
        return rounds > positives if self.vector.sparse.redraw else True

    def queries(self) -> list[tuple[int, LinearQuery]]:
        """Return each measured question with its intent."""
        return [
            (intent, read_measured(self.contract, row).query)
            for intent, row in zip(self.row_intents, self.rows, strict=True)
            if row.kind == "query"
        ]


def read_books(store: SessionStore) -> Books:
    """Return the books of a session file.

    Raises:
        SessionCorruptError: a part of them is not there.
        ValueError: a part of them cannot be read; KeyError, TypeError and the like too.
    """
    contract, opening = load_contract(store)
    pending = store.pending()
    unborn = pending is not None and pending.kind == "opening"
    return Books(
        contract=contract,
        opening=opening,
        test=None if unborn else load_plan(store),
        cap=choose_filter(contract.domain, contract.budget, contract.options),
        entries=tuple(read_entries(store)),
        intents=tuple(store.ledger_intents()),
        rows=tuple(store.measurements()),
        row_intents=tuple(store.measurement_intents()),
        pending=pending,
        closed=store.meta("closed") is not None,
    )


def book_checks(books: Books, store: SessionStore) -> Iterator[Check]:
    """Yield what holds of the books."""
    yield check("the plans fit the contract", lambda: _plans_fit(books))
    if books.unborn:
        yield check("an opening that waits has bought nothing", lambda: _nothing_bought(books, store))
        return
    yield check("every charge is what its event costs", lambda: _charges(books))
    yield check("rounds and positives follow one another", lambda: _rounds(books))
    yield check("every measurement was paid for, and every payment bought one", lambda: _payments(books))
    yield check("the charges stay under the cap", lambda: _under_cap(books))
    yield check("the measurements are the planned ones", lambda: _measurements(books))
    yield check("at most one batch waits, and its charge is reserved", lambda: _pending(books, store))
    yield check("secrets are kept while they are needed, and no longer", lambda: _secrets(books, store))


def _plans_fit(books: Books) -> str:
    contract, options = books.contract, books.contract.options
    bought = list(contract.domain.names) if options.opening is Opening.ONE_WAY else []
    same("marginals planned", bought, list(books.opening.marginal_noise))
    public_total = options.neighboring_relation is NeighboringRelation.REPLACE_ONE
    require(
        (books.opening.total_noise is None) == public_total,
        "the number of records is public under replace-one, and only there",
    )
    if books.test is not None:
        test = books.vector.sparse.test
        same("sensitivity of tests", query_sensitivity(options), test.sensitivity)
        same("sides of tests", options.chosen_sides, test.sides)
        same("noise of tests", options.test_noise, test.noise)
        require(not test.monotone or options.signs_agree, "tests count on all counts moving the same way")
        if options.update_limit is not None:
            same("positives", options.update_limit, books.test.update_limit)
    return f"epsilon {float(contract.budget.epsilon):g}, delta {float(contract.budget.delta):g}"


def _nothing_bought(books: Books, store: SessionStore) -> str:
    require(not books.entries and not books.rows, "there are charges or measurements")
    require(next(store.answers(), None) is None, "there are answers")
    return "no charge, no measurement, no answer"


def _charges(books: Books) -> str:
    expected = books.opening_charges
    require(len(books.entries) >= len(expected), "a charge of the opening is not there")
    for number, (entry, wanted) in enumerate(zip(books.entries, expected, strict=False), start=1):
        _same_entry(number, wanted, entry)
    for number, entry in enumerate(books.later, start=len(expected) + 1):
        if entry.event == "measurement":
            query = LinearQuery.everything(books.contract.domain)  # any: the price is the same
            wanted = measurement_entry(books.vector, books.cap.composition, query)
            _same_price(number, wanted, entry)
        elif entry.event != abandoned_entry(entry.charge).event:  # those follow from the round
            _same_entry(number, books.threshold, entry)
    return f"{len(books.entries):,} charges, each recomputed as an exact fraction"


def _same_entry(number: int, expected: LedgerEntry, found: LedgerEntry) -> None:
    same(
        f"charge {number} ({found.event})",
        f"{expected.event}, {expected.label}",
        f"{found.event}, {found.label}",
    )
    _same_price(number, expected, found)


def _same_price(number: int, expected: LedgerEntry, found: LedgerEntry) -> None:
    what = f"charge {number} ({found.event})"
    same(f"epsilon of {what}", expected.charge.epsilon, found.charge.epsilon)
    same(f"rho of {what}", expected.charge.rho, found.charge.rho)


def _rounds(books: Books) -> str:
    """Follow the sparse vector through its charges; return how many positives it had."""
    is_open, positives, last = False, 0, 0
    start = len(books.opening_charges)
    for place, entry in enumerate(books.later, start=start):
        what, intent = f"charge {place + 1} ({entry.event})", books.intents[place]
        require(intent >= last, f"{what} belongs to an earlier batch than the one before it")
        if entry.event == "measurement":
            require(is_open, f"{what} has no open round")
            positives += 1
            is_open = not books.vector.sparse.redraw
        elif entry.event == abandoned_entry(entry.charge).event:
            wanted = reservation(books.vector, books.cap, round_open=is_open)
            _same_price(place + 1, abandoned_entry(wanted), entry)
            require(books.closed and place + 1 == len(books.entries), f"{what} is not the last of all")
        else:
            require(not is_open, f"{what} opens a round while one is open")
            is_open = True
        last = intent
    limit = 0 if books.test is None else books.test.update_limit
    require(positives <= limit, f"{positives} positives, but no more than {limit} were planned")
    return f"{positives} of {limit} positives"


def _payments(books: Books) -> str:
    paid = [
        (intent, entry.label)
        for intent, entry in zip(books.intents, books.entries, strict=True)
        if entry.event == "measurement"
    ]
    bought = [(intent, query.describe()) for intent, query in books.queries()]
    for intent, label in bought:
        require((intent, label) in paid, f"the measurement of {label!r} (batch {intent}) has no charge")
    for intent, label in paid:
        require((intent, label) in bought, f"the charge for {label!r} (batch {intent}) has no measurement")
    require(paid == bought, "charges and measurements are not in the same order, or one is there twice")
    require(len({intent for intent, _ in paid}) == len(paid), "a batch has two measurements")
    return f"{len(bought)} measurements since opening"


def _under_cap(books: Books) -> str:
    ledger = ledger_of(books.contract.budget, books.cap, books.entries)
    require(all(line.price >= 0 for line in ledger.lines), "a charge is negative")
    require(ledger.spent <= ledger.cap, f"{ledger.share:.1%} of the cap was charged")
    return f"{ledger.share:.1%} of the cap"


def _measurements(books: Books) -> str:
    draws = read_opening(books.contract, books.rows)
    laws = {row.what: row.noise for row in books.rows if row.kind != "query"}
    total = books.opening.total_noise
    wanted = {"[]": dumps(None if total is None else noise_form(total))}
    wanted |= {
        dumps([name]): dumps(noise_form(noise)) for name, noise in books.opening.marginal_noise.items()
    }
    same("noise of the opening", wanted, laws)
    scopes = [marginal.scope for marginal in draws.marginals]
    same("marginals of the opening", [(name,) for name in books.opening.marginal_noise], scopes)
    for number, row in enumerate((row for row in books.rows if row.kind == "query"), start=1):
        same(f"noise of measurement {number}", dumps(noise_form(books.vector.value_noise)), row.noise)
    kinds = {row.kind for row in books.rows}
    require(kinds <= {"total", "marginal", "query"}, "there is a measurement of an unknown kind")
    return f"the number of records and {len(scopes)} marginals at opening, {len(books.queries())} since"


def _pending(books: Books, store: SessionStore) -> str:
    require(store.intent_count() <= 1, f"{store.intent_count()} batches wait")
    if books.pending is None:
        return "none waits"
    require(not books.closed, "a batch waits in a session that was closed")
    form = json.loads(books.pending.proposal)
    wanted = reservation(books.vector, books.cap, round_open=books.round_is_open)
    reserved = read_charge(*form["reserved"])
    same("reserved charge", (wanted.epsilon, wanted.rho), (reserved.epsilon, reserved.rho))
    spent = ledger_of(books.contract.budget, books.cap, books.entries).spent
    require(spent + books.cap.price(reserved) <= books.cap.cap, "the reserved charge is not under the cap")
    return "one waits; its charge fits under the cap"


def _secrets(books: Books, store: SessionStore) -> str:
    found = store.secret_names()
    if books.closed:
        require(not found, "a closed session still holds secrets")
        return "closed: none is left"
    wanted = {"fingerprint_key", "fingerprint"} | ({"threshold"} if books.round_is_open else set())
    same("secrets kept", sorted(wanted), sorted(found))
    return "as many as the open session needs"
