"""Verification: every check, in order.

Stored answers are compared with the ledger, the contract and the measurements; no value is computed again.
Measurements are compared with the plans, and models with the measurements: each version is fitted again,
free.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import budget_words, counted
from pmw.loop.tiers import Proposal, marginal_units
from pmw.loop.untested import apply, released_total, settle_opening
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import DEFAULT_BINS, QueryMeasurement, ResidualMeasurement, RowsMeasurement
from pmw.model.strategy import Strategy
from pmw.planning.opening import opening_persons, plan_opening
from pmw.planning.tiers import added_prices, affordable_bins, residual_prices
from pmw.privacy.budget import Charge, Composition
from pmw.privacy.noise import NoiseDistribution
from pmw.public.answer import Source
from pmw.public.answers import KINDS, SOURCES
from pmw.public.charges import CellNumbers, LedgerEntry
from pmw.public.codec import loads, read
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.free_answers import BAR_SLACK
from pmw.public.local_models import local_models
from pmw.public.options import Opening, Options
from pmw.public.plans import (
    MOST_RESIDUAL_CELLS,
    MarginalTestPlan,
    OpeningPlan,
    TierPlan,
    marginal_tier,
    question_tier,
)
from pmw.public.state import ApartMeasurement, Certificate, PublicState, requested
from pmw.session.accounts import ARE_HELD, require_named
from pmw.session.events import KINDS as EVENT_KINDS
from pmw.session.events import Contents, read_certificate
from pmw.session.journal import PERSON_KEY, read_recorded, read_reserved
from pmw.session.loading import duals_of
from pmw.session.requests import analyst_of
from pmw.session.store.columns import AnswerColumns, StoredAnswer
from pmw.session.store.rows import OPENING, IntentRow
from pmw.session.store.store import SessionStore
from pmw.session.verification.anchor import Anchor
from pmw.session.verification.charges import (
    Vector,
    charges_fit,
    kind_of_noise,
    moved_by_person,
    payments_fit,
    price_of,
    quantiles_fit,
    rounds_follow,
    was_tested,
)
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
from queries.cells import cell_count
from queries.factors import UNITS
from queries.linear import LinearQuery

# A model that went through a snapshot differs in the last digits from one that never stopped. Its numbers are
# compared to within this part of them.
_CLOSE = 1e-6
_Measured: TypeAlias = tuple[
    tuple[str, ...], NoiseDistribution | None, HierarchicalHistogram | Strategy | None
]  # at opening


def measurements_fit(contents: Contents) -> str:
    """Check noise and cells of the measurements, and return how many there are."""
    draws, plan = contents.draws, contents.opening
    wanted: list[_Measured] = [((), plan.total_noise, None)]
    wanted += [
        ((name,), noise, plan.trees.get(name) or plan.strategies.get(name))
        for name, noise in plan.marginal_noise.items()
    ]
    if plan.table_noise is not None:
        wanted.append((contents.contract.domain.names, plan.table_noise, None))
    kinds = {row.kind for row in contents.chained.measurements}
    require(kinds <= EVENT_KINDS, "there is a measurement of an unknown kind")
    (total,) = (row.noise for row in contents.chained.measurements if row.kind == "total")
    found: _Measured = ((), read(NoiseDistribution | None, loads(total)), None)
    marginals = [(one.scope, one.noise, one.rows) for one in draws.marginals]
    same("noise of the opening", wanted, [found, *marginals])
    same("sums of opening", list(plan.sums), [(one.summed, one.noise) for one in draws.sums])
    _opening_persons(contents)
    kind = kind_of_noise(contents)
    apart = [type(one.noise) for one in contents.released if isinstance(one, ApartMeasurement)]
    for number, found_kind in enumerate(apart, start=1):
        same(f"noise of measurement {number} apart", kind, found_kind)
    for number, one in enumerate(contents.measured, start=1):
        if requested(one) is not None:  # whatever its scale, the charge is compared with it
            same(f"noise of measurement {number}", kind, type(one.noise))
            continue
        is_single = isinstance(one, QueryMeasurement)
        tier = question_tier(contents.test) if is_single else marginal_tier(contents.test)
        same(f"noise of measurement {number}", None if tier is None else tier.noise, one.noise)
    _bins(contents)
    _scopes(contents)
    since = len(contents.measured)
    return f"the number of records and {counted(len(wanted) - 1, 'marginal')} at opening, {since} since"


def _opening_persons(contents: Contents) -> None:
    """Check that opening measured the number of persons, if at all, as follows from what is public."""
    # Only tables that tell persons apart have it, and the file does not say what the table was.
    first = contents.chained.measurement_intents[0]
    events = (event for event in contents.events if event.batch == first)
    found = [one for event in events for one in event.released if isinstance(one, ApartMeasurement)]
    total = released_total(contents.opening, contents.draws).value
    contract = contents.contract
    noise = opening_persons(contract.domain, contents.cap, contract.options, total)
    for one in found:
        same("scope of the persons of opening", (), one.scope)
        same("noise of the number of persons", noise, one.noise)
    require(len(found) <= 1, "opening measured the number of persons twice")


def _bins(contents: Contents) -> None:
    """Check that the bins follow from the released number of records."""
    # Sessions opened before bins grew with the table have the fewest, whatever the table.
    tier = marginal_tier(contents.test)
    if tier is None or tier.bins == DEFAULT_BINS:
        return
    total = released_total(contents.opening, contents.draws).value
    wanted = affordable_bins(contents.contract, contents.opening, total, tier.fine_cells)
    same("bins of a long attribute", wanted, tier.bins)


def _scopes(contents: Contents) -> None:
    plan, domain, coarse = marginal_tier(contents.test), contents.contract.domain, contents.coarsening.coarse
    if plan is None:
        return
    most = max(plan.most_cells, plan.free_cells, MOST_RESIDUAL_CELLS if plan.order > 1 else 0)
    for number, one in enumerate(contents.measured, start=1):
        if not isinstance(one, QueryMeasurement | RowsMeasurement):
            same(f"scope of measurement {number}", domain.scope(one.scope), one.scope)
            by_rows = len(one.scope) == 1 and one.scope[0] in contents.opening.strategies
            grid = domain if by_rows or plan.is_fine(domain.scope_size(one.scope)) else coarse
            same(f"cells of measurement {number}", grid.scope_shape(one.scope), one.units.shape)
            cells = one.units.size
            told = f"measurement {number} has {cell_count(cells)} cells"
            require(cells <= most, f"{told}; at most {cell_count(most)} were planned")
        if isinstance(one, ResidualMeasurement):
            require(plan.order > 1, f"measurement {number} is by rows, and none were planned")
            replaced = contents.contract.options.replaces
            same(f"relation of the rows of measurement {number}", replaced, one.strategy.replaced)


def models_follow(contents: Contents, store: SessionStore, told: Told = untold) -> str:
    """Check what the file holds of the models, and return how many versions there are."""
    measured = contents.measured
    coarsening = contents.coarsening
    certificates = [read_certificate(coarsening, row) for row in store.certificates()]
    versions = [one.version for one in certificates]
    follow = versions == sorted(versions) and set(versions) <= set(range(len(measured) + 1))
    require(follow, "there are certificates of versions that do not follow one another")
    snapshot = _snapshot(store, len(measured))
    for state in _versions(contents):
        if snapshot is not None and snapshot[0] == state.version:
            expected, kept = duals_of(state), snapshot[1]
            close = expected.shape == kept.shape and np.allclose(kept, expected, rtol=_CLOSE, atol=_CLOSE)
            require(close, f"the snapshot of version {state.version} is not the model of its measurements")
        for certificate in certificates:
            if certificate.version == state.version:
                _check_certificate(state, certificate, contents, store.answers.count())
        told(1, len(measured) + 1)
    words = counted(len(measured) + 1, "version")
    return f"{words}, {counted(len(certificates), 'certificate')}" if certificates else words


def _snapshot(store: SessionStore, newest: int) -> tuple[int, NDArray[np.float64]] | None:
    found = store.snapshot()
    if found is None:
        require(not store.has_snapshot(), "the checksum of the snapshot does not hold")
    else:
        fault = f"there is a snapshot of version {found[0]}, but no such version"
        require(0 <= found[0] <= newest, fault)
    return found


def _versions(contents: Contents) -> Iterator[PublicState]:
    """Yield the state of each version of the model: what was released is applied, one after another."""
    state = settle_opening(contents.contract, contents.opening, contents.draws, contents.cap, contents.test)
    yield state
    for one in contents.released:
        version = state.version
        if isinstance(one, QueryMeasurement):
            off = abs(round(local_models(state).answer(one.query) * UNITS) - one.model_units)
            fault = f"measurement {version + 1} corrects an answer that the model did not give"
            require(off <= 4 + _CLOSE * abs(one.model_units), fault)
        state = apply(state, one, contents.cap)
        if state.version > version:
            yield state


def _check_certificate(
    state: PublicState, certificate: Certificate, contents: Contents, answers: int
) -> None:
    """Check that a certificate is of its version's model, against a threshold of the plan."""
    plan, what = marginal_tier(state.plan), f"the certificate of {', '.join(certificate.scope)}"
    require(plan is not None, f"{what} stands in a session that tests no marginals")
    if plan is None:
        return
    grid, cells = state.grid(certificate.scope), certificate.units.size
    require(grid.scope(certificate.scope) == certificate.scope, f"{what} is not over attributes in order")
    planned = certificate.units.shape == grid.scope_shape(certificate.scope)
    require(planned, f"{what} is not on the cells that are tested")
    require(cells <= plan.most_cells, f"{what} has more cells than are tested")
    require(was_tested(contents, state.positives(0)), f"{what} was tested in a round that was not paid for")
    expected = marginal_units(state, certificate.scope)
    off = np.abs(certificate.units - expected).max(initial=0)
    close = bool(off <= 4 + _CLOSE * np.abs(expected).max(initial=0))
    require(close, f"{what} is not of the model of version {certificate.version}")
    # Thresholds fall with the number of answers, and the file does not say how many stood before a test.
    planned = plan.threshold(cells, answers) <= certificate.threshold <= plan.threshold(cells, 0)
    require(planned, f"{what} has a threshold that was never planned")


_MEASURED_CODE, _REFUSED_CODE = map(SOURCES.index, (Source.MEASURED, Source.REFUSED))
_MEASURED = "measured answers are the stored measurements"
_FORM = "every answer has the form that its source promises"
_ORDER = "the share in answers never falls and never exceeds 1"

_Rule: TypeAlias = tuple[NDArray[np.bool_], Callable[[StoredAnswer], str]]  # of which answers, and the fault


def answer_checks(contents: Contents, store: SessionStore) -> Iterator[Check]:
    """Yield what holds of the stored answers."""
    try:
        transcript = _Transcript(contents, store)
        for columns in store.answers.blocks():
            transcript.read(columns)
    except FAULTS as error:
        yield Check("measurements and answers can be read", False, words(error))
        return
    yield from transcript.checks(store.asked())


class _Transcript:
    """The stored answers, read in order."""

    def __init__(self, contents: Contents, store: SessionStore) -> None:
        options, domain = contents.contract.options, contents.contract.domain
        self._shares = {line.running_share for line in contents.ledger.lines} | {0.0}
        self._confidence, self._domain = options.confidence, domain
        self._quantiles = [one for one in contents.released if isinstance(one, ErrorQuantile)]
        self._limit = math.inf if options.bar_limit is None else options.bar_limit
        self._later = contents.measured
        self._marginal = options.tests_marginals
        self._numbers = {  # of each question that was measured itself, the first version that knows it
            query.to_json(): version
            for version, one in reversed([*enumerate(self._later, start=1)])
            for query in (one.queries if isinstance(one, RowsMeasurement) else ())
        }
        self._newest = 0  # version of the newest answer marked measured
        runs = [(first, first + run.total()) for first, run in store.answers.newer_runs()]
        self._newer = np.array(runs, dtype=np.int64).reshape(-1, 2)  # took the place of wider answers
        self._asked = 0  # answers so far, those left out
        self._last = (0.0, 0)  # share and version of the answers before
        self._counts = {_MEASURED: 0, _FORM: 0, _ORDER: 0}
        self._faults: dict[str, str] = {}

    def read(self, columns: AnswerColumns) -> None:
        """Take the next answers, and keep the first fault of each kind."""
        first = self._counts[_FORM] + 1
        self._look(_ORDER, first, lambda: self._order(columns))
        self._form(columns, first)
        for own in np.flatnonzero(columns.source == _MEASURED_CODE).tolist():
            row = columns.answer(own)
            if self._numbers.get(row.query, math.inf) <= row.version:  # its own number makes its interval
                continue
            self._counts[_MEASURED] += 1
            self._look(_MEASURED, first + own, lambda row=row: self._measured(row))  # type: ignore[misc]
        for name in (_FORM, _ORDER):
            self._counts[name] += len(columns)

    def _look(self, name: str, number: int, look: Callable[[], object]) -> None:
        try:
            look()
        except FAULTS as error:
            self._faults.setdefault(name, f"answer {number}: {words(error)}")

    def _form(self, columns: AnswerColumns, first: int) -> None:
        numbers = first + np.arange(len(columns))
        which = np.searchsorted(self._newer[:, 0], numbers, side="right") - 1
        is_newer = (which >= 0) & (numbers < self._newer[which, 1]) if len(self._newer) else which >= 0
        asked = self._asked + np.cumsum(~is_newer)
        self._asked = int(asked[-1])
        rules = [*self._interval_rules(columns), *self._typical_rules(columns, asked, is_newer)]
        found = [(int(np.argmax(rule)), fault) for rule, fault in rules if rule.any()]
        if found:
            own, fault = min(found, key=lambda one: one[0])
            self._look(_FORM, first + own, lambda: require(False, fault(columns.answer(own))))

    def _interval_rules(self, columns: AnswerColumns) -> list[_Rule]:
        (low, high), count, held = columns.interval.T, columns.count, ARE_HELD[columns.source]
        has = ~np.isnan(low)
        inside = (low >= 0) & (low <= count) & (count <= high) & (high < math.inf)
        with np.errstate(invalid="ignore"):  # of what is no number another rule tells
            reach = np.maximum(high - count, count - low)
        off = np.full(len(columns), columns.confidence != self._confidence)
        wanted, found = self._confidence, columns.confidence
        return [
            (
                ~(np.isfinite(count) & (count >= 0)),
                lambda row: f"the count {row.count} is no number of records",
            ),
            (off, lambda _: f"confidence: expected {wanted}, found {found}"),
            (held & ~has, lambda _: "it lacks an interval that its source promises"),
            (has & (columns.source == _REFUSED_CODE), lambda _: "it has an interval where it was refused"),
            (has & ~inside, lambda row: f"the interval {_told(row)} does not hold it"),
            (
                has & (reach > self._limit + BAR_SLACK),
                lambda row: f"the interval {_told(row)} is wider than the accuracy contract allows",
            ),
        ]

    def _typical_rules(
        self, columns: AnswerColumns, asked: NDArray[np.int64], is_newer: NDArray[np.bool_]
    ) -> list[_Rule]:
        """Return what is wrong with typical errors that are not those of the newest quantiles before."""
        # An answer that took the place of a wider one may come before or after a quantile that is due.
        kinded = columns.kind != KINDS.index(None)
        fits = self._are_typical(columns, asked) | (is_newer & self._are_typical(columns, asked + 1))
        return [
            (kinded & np.isnan(columns.interval[:, 0]), lambda _: "it has a kind, but no interval"),
            (~fits, lambda row: f"typical error: {row.typical} is not that of the quantiles before it"),
        ]

    def _are_typical(self, columns: AnswerColumns, asked: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which typical errors follow from the quantiles after fewer answers: bool, shape (n,)."""
        widths, count = np.full(len(columns), math.nan), columns.count
        for one in self._quantiles:  # in order: the newest counts
            own = columns.kind == KINDS.index(one.kind)
            widths[own & (one.asked < asked)] = one.half_width(self._confidence)
        wanted = np.stack([np.maximum(0.0, count - widths), count + widths], axis=1)
        same_ends = (wanted == columns.typical) | (np.isnan(wanted) & np.isnan(columns.typical))
        return np.asarray(same_ends.all(axis=1))

    def checks(self, asked: int) -> Iterator[Check]:
        """Yield what came of it, given the number of questions that were answered."""
        measured, later = self._counts[_MEASURED], len(self._later)
        questions = sum(isinstance(one, QueryMeasurement) for one in self._later)
        if not (questions if self._marginal else later) <= measured <= later:
            fault = f"expected {later} answers marked measured, one for each measurement, found {measured}"
            self._faults.setdefault(_MEASURED, fault)
        if asked < self._asked:  # a newer answer is stored before its repeat is counted
            fault = f"{asked} questions were counted, but {self._asked} answers are stored"
            self._faults.setdefault(_ORDER, fault)
        for name, count in self._counts.items():
            yield Check(name, name not in self._faults, self._faults.get(name, counted(count, "answer")))

    def _measured(self, row: StoredAnswer) -> None:
        """Check that a measured answer is the measurement of its version."""
        version, before, self._newest = row.version, self._newest, row.version
        if self._marginal:  # a marginal that was measured for a question need not contain the question
            require(version > before, f"model version {version} is not a new one")
        else:
            same("model version", self._counts[_MEASURED], version)
        require(0 < version <= len(self._later), f"there is no measurement {version}")
        measurement = self._later[version - 1]
        if isinstance(measurement, QueryMeasurement):
            asked = row.query == measurement.query.to_json()
            require(asked, f"measurement {version} is of another question")
            low, high = row.interval or (0.0, math.inf)
            same("count", min(max(low, measurement.units / UNITS), high), row.count)
        else:
            scope = LinearQuery.from_dict(self._domain, json.loads(row.query)).scope
            inside = set(scope) <= set(measurement.scope)
            require(inside, f"measurement {version} does not contain its question")

    def _order(self, columns: AnswerColumns) -> None:
        (share, version), own = self._last, (columns.share, columns.version)
        self._last = own
        require(own[0] <= 1, f"the share {own[0]:g} exceeds 1")
        require(own[0] >= share, f"the share falls from {share:g} to {own[0]:g}")
        require(own[1] >= version, f"the model version falls from {version} to {own[1]}")
        require(own[1] <= len(self._later), f"there is no model version {own[1]}")
        require(own[0] in self._shares, f"the share {own[0]:g} is none that the ledger ever had")


def _told(row: StoredAnswer) -> str:
    low, high = row.interval or (math.nan, math.nan)
    return f"{low} to {high}"


def verify(store: SessionStore, anchor: Anchor | None = None, told: Told = untold) -> Verification:
    """Check a session's contents against each other and return what holds.

    It reads one state of the file and writes nothing to it. An anchor is compared with it too, and goes on to
    that state where everything holds.

    Args:
        told: called after each model that was fitted again, with 1 and the number of all.
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
        each = batch if isinstance(batch, tuple) else (batch,)
        asked = ((getattr(one, "what", None), one.noise) for one in each)
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
