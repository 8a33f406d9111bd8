"""Verification: every check, in order; those of plans, charges, what waits and secrets are made here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

from pmw.display.texts import budget_words, counted
from pmw.loop import Proposal
from pmw.planning.calibration import noise_of_price
from pmw.planning.error_quantiles import SHARE
from pmw.planning.opening import plan_opening
from pmw.planning.tiers import added_prices, residual_prices
from pmw.privacy.budget import Charge, Composition
from pmw.public.charges import (
    MEASURABLE,
    WHOLE,
    CellNumbers,
    Event,
    LedgerEntry,
    abandoned_entry,
    charge_of,
    l1_sensitivity,
    query_sensitivity,
)
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.options import Opening, Options
from pmw.public.plans import MarginalTestPlan, OpeningPlan, TierPlan, marginal_tier
from pmw.public.state import paid_for, requested
from pmw.session.accounts import require_named
from pmw.session.journal import PERSON_KEY, read_recorded, read_reserved, read_tie
from pmw.session.requests import analyst_of
from pmw.session.store import PARTS, QUANTILES, SessionStore
from pmw.session.ties import read_price
from pmw.session.verification.anchor import Anchor
from pmw.session.verification.answers import answer_checks
from pmw.session.verification.contents import Contents, VectorLedger, read_contents
from pmw.session.verification.measurements import measurements_fit, models_follow, quantiles_fit
from pmw.session.verification.report import (
    FAULTS,
    Check,
    Told,
    Verification,
    check,
    require,
    same,
    untold,
    words,
)
from pmw.sparse_vector import NoiseKind, Sech2Test, Sides, Sparse

# One measurement each, untested.
_ON_REQUEST = (Event.OPENING, Event.PART, *(one.event for one in MEASURABLE))
_UNTESTED = (*_ON_REQUEST, Event.QUANTILE)  # no sparse vector charges them


def verify(store: SessionStore, anchor: Anchor | None = None, told: Told = untold) -> Verification:
    """Check a session's contents against each other and return what holds.

    It reads one state of the file and writes nothing to it. An anchor is compared with it too, and goes on to
    that state where everything holds.

    Args:
        store: of the session.
        anchor: how far the session had come.
        told: called after each model that was fitted again, with 1 and the number of all.

    Raises:
        StoreError: the file cannot be read, or the anchor cannot be written.
    """
    with store.reading():
        checks = tuple(_checks(store, told))
        if anchor is not None:
            checks = (*checks, check("the session goes on from its anchor", lambda: anchor.compare(store)))
        closed = store.meta("closed") is not None
        found = Verification(checks, store.pending() is not None, closed, anchor is not None)
    if anchor is not None and found.holds:
        anchor.update()
    return found


def _checks(store: SessionStore, told: Told) -> Iterator[Check]:
    yield check("the file is whole", lambda: _whole(store))
    try:
        contents = read_contents(store)
    except FAULTS as error:
        yield Check("contract, plans and charges can be read", False, words(error))
        return
    yield check("the plans fit the contract", lambda: _plans(contents))
    if contents.unborn:
        yield check("an opening that waits has measured nothing", lambda: _nothing_measured(contents, store))
        return
    yield check("every charge is what its event costs", lambda: _charges(contents))
    yield check("rounds and positives follow one another", lambda: _rounds(contents))
    name = "every measurement was paid for, and every payment has its measurement"
    yield check(name, lambda: _payments(contents, store))
    yield check("the error quantiles are those that were due", lambda: quantiles_fit(contents, store))
    yield check("the charges stay under the cap", lambda: _under_cap(contents))
    yield check("the measurements are the planned ones", lambda: measurements_fit(contents))
    yield check("the charge of a batch that waits is reserved", lambda: _pending(contents, store))
    yield check("secrets are kept while they are needed, and no longer", lambda: _secrets(contents, store))
    marginal = contents.contract.options.tests_marginals
    followers = "the models, the snapshot and the certificates" if marginal else "the models and the snapshot"
    yield check(f"{followers} follow from the measurements", lambda: models_follow(contents, store, told))
    yield from answer_checks(contents, store)


def _whole(store: SessionStore) -> str:
    require(store.is_whole(), "the database is damaged")
    return "its tables and indexes hold together"


def _plans(contents: Contents) -> str:
    """Check that plans are such as the contract asks for, and return its guarantee."""
    contract, opening, test = contents.contract, contents.opening, contents.test
    options = contract.options
    _opening_fits(contract, opening)
    if test:
        same("what is tested", "marginals" if options.tests_marginals else "questions", test[0].tested)
        if options.update_limit is not None:
            same("positives", options.update_limit, test[0].update_limit)
    for tier in test:
        _tier_fits(tier, options)
    marginals = marginal_tier(test)
    if marginals is not None:
        same("attributes of the widest residuals", opening.order, marginals.order)
    if options.expected is not None:  # what a session without them opened with may be an older rule's
        planned = plan_opening(contract.domain, contents.cap, options)
        require(opening == planned, "the opening is not shared as the expected questions ask for")
        prices = residual_prices(contract.domain, opening.order)
        added = added_prices(contract.domain, prices, options.expected, opening.expected)
        wrong = marginals is not None and marginals.added != added
        require(not wrong, "residuals are not paid as the expected questions ask for")
    return budget_words(contract.whole.epsilon, contract.whole.delta)


def _opening_fits(contract: Contract, opening: OpeningPlan) -> None:
    options = contract.options
    measured = list(contract.domain.names) if options.opening is not Opening.NONE else []
    if opening.table_noise is not None:
        require(
            bool(measured) and options.tests_marginals,
            "the whole table is measured only where one-way marginals would be, and marginals are tested",
        )
        measured = []
    same("marginals planned", measured, list(opening.marginal_noise))
    for name, tree in opening.trees.items():
        attribute = contract.domain[name]
        same(f"cells of the tree of {name}", (attribute.base_size, attribute.size), (tree.cells, tree.size))
    for name, strategy in opening.strategies.items():
        sizes = tuple(axis.size for axis in strategy.axes)
        same(f"cells of the rows of {name}", (contract.domain[name].size,), sizes)
        same(f"relation of the rows of {name}", options.replaces, strategy.replaced)
    require(opening.order > 1 or not opening.strategies, "rows are planned, but no residuals")
    orders = {Opening.PAIRS: (1, 2), Opening.TRIPLES: (3,)}.get(options.opening, (1,))
    require(
        opening.order in orders or opening.table_noise is not None,
        f"opening measures marginals of {opening.order} attributes, which the options do not ask for",
    )
    require(
        (opening.total_noise is None) == options.public_count,
        "the number of records is public under replace-one without a column of ids, and only there",
    )


def _tier_fits(tier: TierPlan, options: Options) -> None:
    monotone = tier.sparse.test.monotone
    if isinstance(tier, MarginalTestPlan):
        _tests_fit(tier.sparse, options, l1_sensitivity(options), Sides.ONE_SIDED)
        require(not monotone, "distances of marginals move both ways between neighbours")
    else:
        _tests_fit(tier.sparse, options, query_sensitivity(options), options.chosen_sides)
        require(not monotone or options.signs_agree, "tests count on all counts moving the same way")


def _tests_fit(sparse: Sparse, options: Options, sensitivity: int, sides: Sides) -> None:
    test, kind = sparse.test, options.chosen_sparse_vector(options.composition or Composition.PURE)
    same("sensitivity of tests", sensitivity, test.sensitivity)
    same("sides of tests", sides, test.sides)
    same("whether tests are of sech^2", kind.is_sech2, isinstance(test, Sech2Test))
    same("whether their noise is Laplace noise", kind.is_laplace, test.noise is NoiseKind.LAPLACE)
    same("rounds of tests", kind.redraw, sparse.redraw)


def _nothing_measured(contents: Contents, store: SessionStore) -> str:
    require(not contents.entries and not contents.chained.measurements, "there are charges or measurements")
    require(next(store.answers.blocks(), None) is None, "there are answers")
    return "no charge, no measurement, no answer"


def _charges(contents: Contents) -> str:
    expected, vectors = contents.opening_charges, contents.vectors
    untested = {intent: iter(entries) for intent, entries in contents.untested.items()}
    require(len(contents.entries) >= len(expected), "a charge of the opening is not there")
    for number, entry in enumerate(contents.entries, start=1):
        if number <= len(expected):
            _same_entry(number, expected[number - 1], entry)
        elif entry.event in _UNTESTED:
            wanted = next(untested.get(contents.chained.ledger_intents[number - 1], iter(())), None)
            require(wanted is not None, f"charge {number} ({entry.event}) has no measurement")
            _same_entry(number, wanted or entry, entry)
        elif not _is_abandoned(entry):  # which has a price of its own
            _same_entry(number, _planned_entry(vectors, number, entry), entry)
    return f"{counted(len(contents.entries), 'charge')}, each recomputed as an exact fraction"


def _planned_entry(vectors: Sequence[VectorLedger], number: int, found: LedgerEntry) -> LedgerEntry:
    """Return what the tests charge for an event."""
    require(bool(vectors), f"charge {number} ({found.event}) is for a test, but none was planned")
    for vector in vectors:
        if vector.measures(found):
            return replace(vector.positive, label=found.label)
        if vector.draws(found):
            return vector.threshold
    return vectors[0].threshold


def _same_entry(number: int, expected: LedgerEntry, found: LedgerEntry) -> None:
    what = f"charge {number} ({found.event})"
    same(what, f"{expected.event}, {expected.label}", f"{found.event}, {found.label}")
    same(f"epsilon of {what}", expected.charge.epsilon, found.charge.epsilon)
    same(f"rho of {what}", expected.charge.rho, found.charge.rho)
    same(f"mu^2 of {what}", expected.charge.mu_squared, found.charge.mu_squared)


def _rounds(contents: Contents) -> str:
    """Follow the sparse vectors through their charges; return how many positives they had."""
    last, start, vectors = 0, len(contents.opening_charges), contents.vectors
    rounds, positives = [0] * len(vectors), [0] * len(vectors)
    for place, entry in enumerate(contents.later, start=start):
        what, intent = f"charge {place + 1} ({entry.event})", contents.chained.ledger_intents[place]
        require(intent >= last, f"{what} belongs to an earlier batch than the one before it")
        last = intent
        is_open = [vector.is_open(*of) for vector, *of in zip(vectors, rounds, positives, strict=True)]
        for number, vector in enumerate(vectors):
            draws, measures = vector.draws(entry), vector.measures(entry)
            require(is_open[number] or not measures, f"{what} has no open round")
            require(not (is_open[number] and draws), f"{what} opens a round while one is open")
            rounds[number] += draws
            positives[number] += measures
        if entry.event in _ON_REQUEST:
            _leaves_reserved(contents, place, is_open)
        if _is_abandoned(entry):
            require(contents.closed and place + 1 == len(contents.entries), f"{what} is not the last of all")
            if any(fits(contents, entry) for fits in _UNTESTED_PRICES):
                continue
            prices = [vector.reserved(is_open=one) for vector, one in zip(vectors, is_open, strict=True)]
            require(bool(prices), f"{what} is for a test, but none was planned")
            wanted = entry.charge if entry.charge in prices else prices[0]
            _same_entry(place + 1, abandoned_entry(wanted), entry)
    counts = []
    for vector, count in zip(vectors, positives, strict=True):
        limit = vector.sparse.update_limit
        of = "" if len(vectors) == 1 else f" of {vector.tested}"
        counts.append(f"{count} of {counted(limit, 'positive')}{of}")
    return ", ".join(counts) or "no positives"


def _leaves_reserved(contents: Contents, place: int, is_open: Sequence[bool]) -> None:
    """Check that a marginal or a sum that no test decides left each open round the price of its positive."""
    prices = [contents.cap.price(entry.charge) for entry in contents.entries[: place + 1]]
    for vector, one in zip(contents.vectors, is_open, strict=True):
        prices += [contents.cap.price(vector.reserved(is_open=True))] * one
    what = f"charge {place + 1} ({contents.entries[place].event})"
    require(sum(prices) <= contents.cap.cap, f"{what} took what an open round had reserved")


def _payments(contents: Contents, store: SessionStore) -> str:
    opening, vectors = len(contents.opening_charges), contents.vectors
    paid = [
        (intent, entry.event, entry.label)
        for intent, entry in zip(contents.chained.ledger_intents[opening:], contents.later, strict=True)
        if entry.event in _ON_REQUEST or any(vector.measures(entry) for vector in vectors)
    ]
    untested = {intent: entries[0].event for intent, entries in contents.untested.items()}
    found = ((intent, *paid_for(one)) for intent, one in contents.since if not isinstance(one, ErrorQuantile))
    measured = [(intent, untested.get(intent, event), label) for intent, event, label in found]
    measured.sort(key=lambda one: one[0])
    for intent, event, label in measured:
        require((intent, event, label) in paid, f"the {event} of {label!r} (batch {intent}) has no charge")
    for intent, event, label in paid:
        fault = f"the charge for {label!r} (batch {intent}) has no measurement"
        require((intent, event, label) in measured, fault)
    require(paid == measured, "charges and measurements are not in the same order, or one is there twice")
    alone = [intent for intent, event, _ in paid if event != Event.PART]
    require(len(set(alone)) == len(alone), "a batch has two measurements")
    _keys_tied(contents, store)
    return f"{counted(len(measured), 'measurement')} since opening"


def _keys_tied(contents: Contents, store: SessionStore) -> None:
    """Check that each idempotency key of a measurement names one that its analyst paid for."""
    scopes = {
        intent: (asked.scope, one.noise)
        for intent, one in contents.since
        if not isinstance(one, ErrorQuantile) and intent != contents.opening_intent
        if (asked := requested(one)) is not None
    }
    payers = {
        intent: entry.booked[0][0]
        for intent, entry in zip(contents.chained.ledger_intents, contents.entries, strict=True)
    }
    for intent, text in store.ties().items():
        tie, what = read_tie(text), f"the key of batch {intent}"
        require(intent in scopes, f"{what} names no measurement")
        scope, noise = scopes[intent]
        quote = read_price(tie.quote)
        same(f"scope of {what}", list(scope), quote.to_dict()["scope"])
        same(f"noise of {what}", noise, quote.noise)
        require(payers[intent] == analyst_of(tie.key), f"{what} is not its payer's")


def _under_cap(contents: Contents) -> str:
    ledger = contents.ledger
    require(all(line.price >= 0 for line in ledger.lines), "a charge is negative")
    require(ledger.spent <= ledger.cap, f"{ledger.share:.1%} of the cap was charged")
    return f"{ledger.share:.1%} of the cap"


def _pending(contents: Contents, store: SessionStore) -> str:
    if contents.pending is None:
        return "none waits"
    require(not contents.closed, "a batch waits in a session that was closed")
    reserved, booked = read_reserved(contents.pending)
    require_named(booked)
    LedgerEntry(contents.pending.kind, "", reserved, booked)  # all of it
    recorded = read_recorded(contents.coarsening, contents.pending)
    batch, tie = recorded.batch, recorded.tie
    if tie is not None:
        is_used = bool(store.answers.by_request_ids([tie.key]).any())
        require(not is_used, "the key of the batch that waits was used before")
        require(booked[0][0] == analyst_of(tie.key), "the key of the batch that waits is not its payer's")
    if not isinstance(batch, Proposal):
        requests = batch if isinstance(batch, tuple) else (batch,)
        charges = [one.entry(contents.contract.options).charge for one in requests]
        same("reserved charge", reduce(add, charges), reserved)
        return _fitting(contents, reserved)
    planned = batch.tier in range(len(contents.vectors))
    require(planned, "a batch waits, but there was no plan to test what it tests")
    vector = contents.vectors[batch.tier]
    rounds, positives = vector.paid(contents.later)
    is_open = vector.is_open(rounds, positives)
    wanted = vector.reserved(is_open=is_open)
    same("reserved charge", wanted, reserved)
    same("whether the batch opens a round", not is_open, batch.opens_round)
    same("positives before the batch", positives, batch.positives)
    return _fitting(contents, reserved)


def _fitting(contents: Contents, reserved: Charge) -> str:
    require(
        contents.ledger.spent + contents.cap.price(reserved) <= contents.cap.cap,
        "the reserved charge is not under the cap",
    )
    return "one waits; its charge fits under the cap"


def _is_price_of_a_request(contents: Contents, entry: LedgerEntry) -> bool:
    """Tell whether an abandoned batch is charged what something requested costs, under some noise."""
    options, cap = contents.contract.options, contents.cap
    for kind in MEASURABLE:
        if replace(entry, booked=WHOLE) == abandoned_entry(entry.charge, kind.abandoned):
            break
    else:
        return False
    price = cap.price(entry.charge)
    if kind is not CellNumbers:
        return True  # any noise on the others has a price
    moved = CellNumbers(()).sensitivity(options)
    return cap.price(charge_of(moved, noise_of_price(cap.composition, price, moved))) == price


def _is_price_of_a_part(contents: Contents, entry: LedgerEntry) -> bool:
    """Tell whether an abandoned batch is a part of a reserve; any sum of noises has a price."""
    reserved = contents.contract.options.reserved > 0
    return reserved and replace(entry, booked=WHOLE) == abandoned_entry(entry.charge, PARTS)


def _is_price_of_quantiles(contents: Contents, entry: LedgerEntry) -> bool:
    """Tell whether an abandoned batch is charged no more than error quantiles may cost."""
    within = contents.cap.price(entry.charge) <= contents.cap.cap * SHARE
    return within and replace(entry, booked=WHOLE) == abandoned_entry(entry.charge, QUANTILES)


# Of an abandoned batch.
_UNTESTED_PRICES = (_is_price_of_a_request, _is_price_of_a_part, _is_price_of_quantiles)


def _secrets(contents: Contents, store: SessionStore) -> str:
    found = store.secret_names()
    if contents.closed:
        require(not found, "a closed session still holds secrets")
        return "closed: none is left"
    wanted = {"fingerprint_key", "fingerprint"}
    if contents.contract.domain.person is not None:
        wanted.add(PERSON_KEY)
    wanted |= {vector.secret for vector in contents.vectors if vector.is_open(*vector.paid(contents.later))}
    same("secrets kept", sorted(wanted), sorted(found))
    return "as many as the open session needs"


def _is_abandoned(entry: LedgerEntry) -> bool:
    """Tell whether a charge is that of a batch that was never finished."""
    return entry.event == Event.ABANDONED
