"""The books of a session: its contract, plans, charges, measurements and batches, checked one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pmw.accounting import PrivacyFilter
from pmw.encoding import dumps, noise_form, read_charge
from pmw.journal import load_contract, load_plan, read_entries, read_measured, read_opening, tree_text
from pmw.ledger import ledger_of
from pmw.markup import counted
from pmw.mechanism import LedgerEntry, abandoned_entry, choose_groups, is_loan, opening_entries
from pmw.model import Coarsening, NoiseLaw, QueryMeasurement
from pmw.planning import choose_filter
from pmw.policy import Contract, MarginalTestPlan, OpeningPlan, TestKind, TestPlan
from pmw.state import Bought
from pmw.store import IntentRow, MeasurementRow, SessionStore
from pmw.verification.plans import VectorBooks, plans_fit, vectors_of
from pmw.verification.report import Check, check, require, same

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
        test: the tests; None where nothing was left for any.
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
    test: TestPlan | None
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
    def vectors(self) -> tuple[VectorBooks, ...]:
        """The sparse vectors that were planned."""
        contract = self.contract
        return vectors_of(self.test, contract.domain, contract.options, self.cap.composition)

    @property
    def opening_charges(self) -> tuple[LedgerEntry, ...]:
        """What opening charges."""
        return opening_entries(self.opening, self.contract.options)

    @property
    def later(self) -> tuple[LedgerEntry, ...]:
        """The charges after those of opening."""
        return self.entries[len(self.opening_charges) :]

    @property
    def coarsening(self) -> Coarsening:
        """The groups that marginals are tested and bought on, from what opening released."""
        return choose_groups(self.contract, self.opening, read_opening(self.contract, self.rows))

    def bought(self) -> list[tuple[int, Bought]]:
        """Return what was bought since opening, each with its intent."""
        coarsening = self.coarsening
        return [
            (intent, read_measured(coarsening, row))
            for intent, row in zip(self.row_intents, self.rows, strict=True)
            if row.kind in ("query", "bought")
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
    yield check("the plans fit the contract", lambda: plans_fit(books.contract, books.opening, books.test))
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


def _nothing_bought(books: Books, store: SessionStore) -> str:
    require(not books.entries and not books.rows, "there are charges or measurements")
    require(next(store.answers(), None) is None, "there are answers")
    return "no charge, no measurement, no answer"


def _charges(books: Books) -> str:
    expected, vectors = books.opening_charges, books.vectors
    require(len(books.entries) >= len(expected), "a charge of the opening is not there")
    for number, entry in enumerate(books.entries, start=1):
        if number <= len(expected):
            _same_entry(number, expected[number - 1], entry)
        elif not (
            _is_abandoned(entry) or is_loan(entry)
        ):  # a round tells the one price, the borrower the other
            _same_entry(number, _planned_entry(vectors, number, entry), entry)
    return f"{counted(len(books.entries), 'charge')}, each recomputed as an exact fraction"


def _planned_entry(vectors: Sequence[VectorBooks], number: int, found: LedgerEntry) -> LedgerEntry:
    """Return what the tests charge for an event."""
    require(bool(vectors), f"charge {number} ({found.event}) is for a test, but none was planned")
    for vector in vectors:
        if vector.buys(found):
            return replace(vector.positive, label=found.label)
        if vector.draws(found):
            return vector.threshold
    return vectors[0].threshold


def _same_entry(number: int, expected: LedgerEntry, found: LedgerEntry) -> None:
    what = f"charge {number} ({found.event})"
    same(what, f"{expected.event}, {expected.label}", f"{found.event}, {found.label}")
    same(f"epsilon of {what}", expected.charge.epsilon, found.charge.epsilon)
    same(f"rho of {what}", expected.charge.rho, found.charge.rho)


def _rounds(books: Books) -> str:
    """Follow the sparse vectors through their charges; return how many positives they had."""
    last, start, vectors = 0, len(books.opening_charges), books.vectors
    rounds, positives = [0] * len(vectors), [0] * len(vectors)
    for place, entry in enumerate(books.later, start=start):
        if is_loan(entry):
            continue
        what, intent = f"charge {place + 1} ({entry.event})", books.intents[place]
        require(intent >= last, f"{what} belongs to an earlier batch than the one before it")
        last = intent
        is_open = [vector.is_open(*of) for vector, *of in zip(vectors, rounds, positives, strict=True)]
        for number, vector in enumerate(vectors):
            draws, buys = vector.draws(entry), vector.buys(entry)
            require(is_open[number] or not buys, f"{what} has no open round")
            require(not (is_open[number] and draws), f"{what} opens a round while one is open")
            rounds[number] += draws
            positives[number] += buys
        if _is_abandoned(entry):
            require(books.closed and place + 1 == len(books.entries), f"{what} is not the last of all")
            prices = [vector.reserved(is_open=one) for vector, one in zip(vectors, is_open, strict=True)]
            require(bool(prices), f"{what} is for a test, but none was planned")
            wanted = entry.charge if entry.charge in prices else prices[0]
            _same_entry(place + 1, abandoned_entry(wanted), entry)
    counts = []
    for vector, count in zip(vectors, positives, strict=True):
        limit = vector.sparse.update_limit
        require(count <= limit, f"{count} positives, but no more than {limit} were planned")
        of = (
            ""
            if len(vectors) == 1
            else f" of {'marginals' if vector.kind is TestKind.MARGINAL else 'questions'}"
        )
        counts.append(f"{count} of {counted(limit, 'positive')}{of}")
    return ", ".join(counts) or "no positives"


def _payments(books: Books) -> str:
    opening, vectors = len(books.opening_charges), books.vectors
    paid = [
        (intent, entry.event, entry.label)
        for intent, entry in zip(books.intents[opening:], books.later, strict=True)
        if any(vector.buys(entry) for vector in vectors)
    ]
    bought = [(intent, *_bought_words(one)) for intent, one in books.bought()]
    for intent, event, label in bought:
        require((intent, event, label) in paid, f"the {event} of {label!r} (batch {intent}) has no charge")
    for intent, event, label in paid:
        fault = f"the charge for {label!r} (batch {intent}) has no measurement"
        require((intent, event, label) in bought, fault)
    require(paid == bought, "charges and measurements are not in the same order, or one is there twice")
    require(len({intent for intent, _, _ in paid}) == len(paid), "a batch has two measurements")
    return f"{counted(len(bought), 'measurement')} since opening"


def _bought_words(measurement: Bought) -> tuple[str, str]:
    """Return event and label of the charge that pays for a measurement."""
    if isinstance(measurement, QueryMeasurement):
        return "measurement", measurement.query.describe()
    return "marginal", ", ".join(measurement.scope)


def _under_cap(books: Books) -> str:
    ledger = ledger_of(books.contract.budget, books.cap, books.entries)
    require(all(line.price >= 0 for line in ledger.lines), "a charge is negative")
    require(ledger.spent <= ledger.cap, f"{ledger.share:.1%} of the cap was charged")
    return f"{ledger.share:.1%} of the cap"


def _measurements(books: Books) -> str:
    draws, plan = read_opening(books.contract, books.rows), books.opening
    wanted = {"[]": plan.total_noise}
    for name, noise in plan.marginal_noise.items():
        wanted[tree_text(name, plan.trees[name]) if name in plan.trees else dumps([name])] = noise
    scopes: list[tuple[str, ...]] = [(name,) for name in plan.marginal_noise]
    if plan.table_noise is not None:
        scopes.append(books.contract.domain.names)
        wanted[dumps(list(books.contract.domain.names))] = plan.table_noise
    kinds = {row.kind for row in books.rows}
    known = kinds <= {"total", "marginal", "range tree", "query", "bought"}
    require(known, "there is a measurement of an unknown kind")
    found = {row.what: row.noise for row in books.rows if row.kind not in ("query", "bought")}
    same("noise of the opening", {what: _noise_text(noise) for what, noise in wanted.items()}, found)
    same("marginals of the opening", scopes, [marginal.scope for marginal in draws.marginals])
    later = [row for row in books.rows if row.kind in ("query", "bought")]
    for number, row in enumerate(later, start=1):
        same(f"noise of measurement {number}", _planned_noise(books.test, row.kind), row.noise)
    _scopes(books)
    return f"the number of records and {counted(len(scopes), 'marginal')} at opening, {len(later)} since"


def _noise_text(noise: NoiseLaw | None) -> str:
    return dumps(None if noise is None else noise_form(noise))


def _planned_noise(plan: TestPlan | None, kind: str) -> str | None:
    """Return the form of the noise of what a kind of test buys; None where there is no such test."""
    if kind == "bought":
        return _noise_text(plan.noise) if isinstance(plan, MarginalTestPlan) else None
    queries = plan.queries if isinstance(plan, MarginalTestPlan) else plan
    return None if queries is None else _noise_text(queries.vector.value_noise)


def _scopes(books: Books) -> None:
    """Check that what was bought is over attributes in their order, and no wider than planned."""
    if not isinstance(books.test, MarginalTestPlan):
        return
    plan, domain, coarse = books.test, books.contract.domain, books.coarsening.coarse
    most = max(plan.most_cells, plan.free_cells)
    for number, (_, one) in enumerate(books.bought(), start=1):
        if not isinstance(one, QueryMeasurement):
            same(f"scope of measurement {number}", domain.scope(one.scope), one.scope)
            grid = domain if plan.is_fine(domain, one.scope) else coarse
            same(f"cells of measurement {number}", grid.scope_shape(one.scope), one.units.shape)
            cells = one.units.size
            require(cells <= most, f"measurement {number} has {cells:,} cells; at most {most:,} were planned")


def _pending(books: Books, store: SessionStore) -> str:
    require(store.intent_count() <= 1, f"{store.intent_count()} batches wait")
    if books.pending is None:
        return "none waits"
    require(not books.closed, "a batch waits in a session that was closed")
    form = json.loads(books.pending.proposal)
    reserved = read_charge(*form["reserved"])
    found = [vector for vector in books.vectors if vector.kind.value == form["kind"]]
    require(bool(found), "a batch waits, but there was no plan to test what it tests")
    (vector,) = found
    rounds, positives = vector.counts(books.later)
    is_open = vector.is_open(rounds, positives)
    wanted = vector.reserved(is_open=is_open)
    same("reserved charge", (wanted.epsilon, wanted.rho), (reserved.epsilon, reserved.rho))
    same("whether the batch opens a round", not is_open, form["opens_round"])
    same("positives before the batch", positives, form["positives"])
    spent = ledger_of(books.contract.budget, books.cap, books.entries).spent
    require(spent + books.cap.price(reserved) <= books.cap.cap, "the reserved charge is not under the cap")
    return "one waits; its charge fits under the cap"


def _secrets(books: Books, store: SessionStore) -> str:
    found = store.secret_names()
    if books.closed:
        require(not found, "a closed session still holds secrets")
        return "closed: none is left"
    wanted = {"fingerprint_key", "fingerprint"}
    wanted |= {vector.secret for vector in books.vectors if vector.is_open(*vector.counts(books.later))}
    same("secrets kept", sorted(wanted), sorted(found))
    return "as many as the open session needs"


def _is_abandoned(entry: LedgerEntry) -> bool:
    """Tell whether a charge is that of a batch that was never finished."""
    return entry.event == abandoned_entry(entry.charge).event
