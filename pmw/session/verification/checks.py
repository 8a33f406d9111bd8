"""Verification: every check, in order; those of plans, what waits and secrets are made here."""

from __future__ import annotations

from collections.abc import Iterator

from pmw.display.texts import budget_words
from pmw.loop import Proposal
from pmw.planning.opening import plan_opening
from pmw.planning.tiers import added_prices, residual_prices
from pmw.privacy.budget import Charge, Composition
from pmw.public.charges import CellNumbers, LedgerEntry
from pmw.public.contract import Contract
from pmw.public.options import Opening, Options
from pmw.public.plans import MarginalTestPlan, OpeningPlan, TierPlan, marginal_tier
from pmw.session.accounts import require_named
from pmw.session.events import Contents
from pmw.session.journal import PERSON_KEY, read_recorded, read_reserved
from pmw.session.requests import analyst_of
from pmw.session.store import OPENING, IntentRow, SessionStore
from pmw.session.verification.anchor import Anchor
from pmw.session.verification.answers import answer_checks
from pmw.session.verification.charges import (
    Vector,
    charges_fit,
    moved_by_person,
    payments_fit,
    price_of,
    quantiles_fit,
    rounds_follow,
)
from pmw.session.verification.measurements import measurements_fit, models_follow
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
        contents, pending = Contents(store), store.pending()
    except FAULTS as error:
        yield Check("contract, plans and charges can be read", False, words(error))
        return
    yield check("the plans fit the contract", lambda: _plans(contents))
    if pending is not None and pending.kind == OPENING:
        yield check("an opening that waits has measured nothing", lambda: _nothing_measured(contents, store))
        return
    yield check("every charge is what its event costs", lambda: charges_fit(contents))
    yield check("rounds and positives follow one another", lambda: rounds_follow(contents))
    name = "every measurement was paid for, and every payment has its measurement"
    yield check(name, lambda: payments_fit(contents, store))
    yield check("the error quantiles are those that were due", lambda: quantiles_fit(contents, store))
    yield check("the charges stay under the cap", lambda: _under_cap(contents))
    yield check("the measurements are the planned ones", lambda: measurements_fit(contents))
    yield check("the charge of a batch that waits is reserved", lambda: _pending(contents, pending, store))
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
        _tests_fit(tier.sparse, options, moved_by_person(CellNumbers(()), options).l1, Sides.ONE_SIDED)
        require(not monotone, "distances of marginals move both ways between neighbours")
    else:
        _tests_fit(tier.sparse, options, moved_by_person(None, options).l1, options.chosen_sides)
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


def _under_cap(contents: Contents) -> str:
    ledger = contents.ledger
    require(all(line.price >= 0 for line in ledger.lines), "a charge is negative")
    require(ledger.spent <= ledger.cap, f"{ledger.share:.1%} of the cap was charged")
    return f"{ledger.share:.1%} of the cap"


def _pending(contents: Contents, pending: IntentRow | None, store: SessionStore) -> str:
    if pending is None:
        return "none waits"
    require(not contents.closed, "a batch waits in a session that was closed")
    recorded = read_recorded(contents.coarsening, pending)
    reserved, booked = read_reserved(pending)
    require_named(booked)
    LedgerEntry(pending.kind, "", reserved, booked)  # all of it
    batch, tie = recorded.batch, recorded.tie
    if tie is not None:
        is_used = bool(store.answers.by_request_ids([tie.key]).any())
        require(not is_used, "the key of the batch that waits was used before")
        require(booked[0][0] == analyst_of(tie.key), "the key of the batch that waits is not its payer's")
    if isinstance(batch, Proposal):
        wanted = _reserved_for(contents, batch)
    else:
        asked = [
            (getattr(one, "what", None), one.noise)
            for one in (batch if isinstance(batch, tuple) else (batch,))
        ]
        wanted = price_of(asked, contents.contract.options)
    same("reserved charge", wanted, reserved)
    fits = contents.ledger.spent + contents.cap.price(reserved) <= contents.cap.cap
    require(fits, "the reserved charge is not under the cap")
    return "one waits; its charge fits under the cap"


def _reserved_for(contents: Contents, batch: Proposal) -> Charge:
    """Return the most that a batch of tests can charge, which goes on from where its tier stands."""
    vectors = Vector.planned(contents)
    planned = batch.tier in range(len(vectors))
    require(planned, "a batch waits, but there was no plan to test what it tests")
    vector = vectors[batch.tier]
    rounds, positives = vector.paid(contents)
    is_open = vector.is_open(rounds, positives)
    same("whether the batch opens a round", not is_open, batch.opens_round)
    same("positives before the batch", positives, batch.positives)
    return vector.reserved(is_open=is_open)


def _secrets(contents: Contents, store: SessionStore) -> str:
    found = store.secret_names()
    if contents.closed:
        require(not found, "a closed session still holds secrets")
        return "closed: none is left"
    wanted = {"fingerprint_key", "fingerprint"}
    if contents.contract.domain.person is not None:
        wanted.add(PERSON_KEY)
    vectors = Vector.planned(contents)
    wanted |= {vector.secret for vector in vectors if vector.is_open(*vector.paid(contents))}
    same("secrets kept", sorted(wanted), sorted(found))
    return "as many as the open session needs"
