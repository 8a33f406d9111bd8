"""Charges against events: each price by a formula of its own, rounds, payments, and error quantiles.

No price of ``pmw.public.charges`` is used here: a fault of its prices is found where a file is verified. What
one person changes in a list of questions is ``pmw.public.row_sensitivity`` for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from pmw.display.texts import counted
from pmw.planning.calibration import noise_of_price
from pmw.planning.error_quantiles import is_due
from pmw.privacy.budget import Charge, Composition, gaussian_charge, pure_charge
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.public.charges import (
    MEASURABLE,
    WHOLE,
    CellNumbers,
    Event,
    LedgerEntry,
    Measurable,
    PersonNumbers,
    QuestionNumbers,
    SumNumbers,
    abandoned_entry,
)
from pmw.public.error_quantiles import SHARE, ErrorQuantile
from pmw.public.options import Options
from pmw.public.plans import MarginalTestPlan, QueryTestPlan, marginal_tier
from pmw.public.row_sensitivity import Moved, most_together, rows_sensitivity
from pmw.public.state import paid_for, requested
from pmw.session.events import Contents, SessionEvent
from pmw.session.journal import read_tie, threshold_name
from pmw.session.requests import analyst_of
from pmw.session.store.rows import PARTS, QUANTILES
from pmw.session.store.store import SessionStore
from pmw.session.ties import read_price
from pmw.session.verification.report import require, same
from pmw.sparse_vector import Sparse
from queries.factors import UNITS
from queries.frozen import dataclass

# One measurement each, untested.
_ON_REQUEST = (Event.OPENING, Event.PART, *(one.event for one in MEASURABLE))
_UNTESTED = (*_ON_REQUEST, Event.QUANTILE)  # no sparse vector charges them


# --- prices ------------------------------------------------------------------------------------------------


def moved_by_person(what: Measurable | None, options: Options) -> Moved:
    """Return how much one person changes what is measured, in units; None for one answer.

    A person's records change a number by at most the sum of their steps. Replaced records step out of one
    cell and into another, whose squares add; in one and the same cell a sum moves from end to end, twice its
    step. ``SumNumbers.sensitivity`` has the proof of the sums.
    """
    records, times = options.records_per_person, 1 + options.replaces
    step = records * UNITS
    if what is None:
        return Moved(step, step**2)
    if isinstance(what, CellNumbers):
        return Moved(times * step, times * step**2)
    if isinstance(what, QuestionNumbers):
        persons = what.queries[0].domain.person is not None
        return rows_sensitivity(what.queries, options, persons=persons)
    if isinstance(what, PersonNumbers):
        groups = min(times * min(records, what.cells), what.cells)
        return Moved(groups * UNITS, groups * UNITS**2)
    summed, most = what.summed, most_together(what.summed.rows) if what.summed.rows else 1
    alone, counts = UNITS if summed.clipped else step, records * summed.count_units
    squares = step * summed.squared
    apart = times * (alone**2 + counts**2 + squares**2)
    if options.replaces:
        same_cell = 4 * alone**2
        apart = same_cell + 2 * counts**2 if summed.clipped else max(same_cell, apart)
    return Moved(times * most * (alone + counts + squares), most * apart)


def price(moved: Moved, noise: NoiseDistribution, levels: int = 1) -> Charge:
    """Return what numbers cost under noise that one person moves by so much, on each of so many levels."""
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(Fraction(levels * moved.l1) / noise.scale)
    return gaussian_charge(Fraction(levels * moved.l2_squared), noise.sigma)


def price_of(requests: Iterable[tuple[Measurable | None, NoiseDistribution]], options: Options) -> Charge:
    """Return what requests cost together, each under its noise; None for an error quantile."""
    first, *others = (price(moved_by_person(what, options), noise) for what, noise in requests)
    return sum(others, first)


def _opening(contents: Contents) -> list[LedgerEntry]:
    plan, options = contents.opening, contents.contract.options
    cells, entries = moved_by_person(CellNumbers(()), options), []
    if plan.total_noise is not None:
        total = price(moved_by_person(None, options), plan.total_noise)
        entries.append(LedgerEntry(Event.TOTAL, "number of records", total))
    for name, noise in plan.marginal_noise.items():
        tree = plan.trees.get(name)  # a record is in one node of each level
        event, levels = (Event.MARGINAL, 1) if tree is None else (Event.RANGE_TREE, tree.height)
        entries.append(LedgerEntry(event, name, price(cells, noise, levels)))
    if plan.table_noise is not None:
        entries.append(LedgerEntry(Event.MARGINAL, "the whole table", price(cells, plan.table_noise)))
    sums = ((SumNumbers(summed), noise) for summed, noise in plan.sums)
    entries += [LedgerEntry(Event.SUM, one.label, price_of([(one, noise)], options)) for one, noise in sums]
    return entries


def _untested(contents: Contents) -> Iterator[tuple[SessionEvent, list[LedgerEntry]]]:
    """Yield each event with what it should charge that no test decides, recomputed from its noises."""
    # Sessions of before there was the event ``opening`` charged what it charges as requested.
    options, tier = contents.contract.options, marginal_tier(contents.test)
    opened = set[Measurable]()
    for event in contents.events:
        opens = any(entry.event == Event.OPENING for _, entry in event.charges)
        opens = opens and tier is not None and tier.order > 1
        wanted = []
        for one in event.released:
            if isinstance(one, ErrorQuantile):
                cost = price_of([(None, one.noise)], options)
                wanted.append(LedgerEntry(Event.QUANTILE, one.kind.describe(), cost))
            elif (what := requested(one)) is not None:
                name = Event.OPENING if opens and what not in opened else paid_for(one)[0]
                wanted.append(LedgerEntry(name, what.label, price_of([(what, one.noise)], options)))
                opened |= {what} if isinstance(what, CellNumbers) else set()
        yield event, wanted


@dataclass(frozen=True, slots=True)
class Vector:
    """What one sparse vector charges.

    Args:
        tested: what it tests, in a word.
        threshold: what drawing threshold noise charges.
        positive: what a positive charges with what it measures; its label is that of any.
        secret: the name under which its threshold noise is kept.
    """

    tested: str
    threshold: LedgerEntry
    positive: LedgerEntry
    secret: str
    sparse: Sparse

    @classmethod
    def planned(cls, contents: Contents) -> tuple[Vector, ...]:
        """Return the sparse vectors that were planned, one of each tier."""
        composition = contents.cap.composition
        cells, found = moved_by_person(CellNumbers(()), contents.contract.options), list[Vector]()
        for place, tier in enumerate(contents.test):
            drawn, positive = tier.sparse.charges(composition)
            event = Event.ROUND if tier.sparse.redraw else Event.VECTOR
            label = "threshold noise drawn" + (f" for single {tier.tested}" if place else "")
            if isinstance(tier, QueryTestPlan):
                bought = LedgerEntry(Event.MEASUREMENT, "", positive + tier.vector.value_charge)
            else:
                bought = LedgerEntry(Event.MARGINAL, "", positive + price(cells, tier.noise))
            threshold = LedgerEntry(event, label, drawn)
            found.append(cls(tier.tested, threshold, bought, threshold_name(place), tier.sparse))
        return tuple(found)

    def draws(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for threshold noise of this vector."""
        return (entry.event, entry.label) == (self.threshold.event, self.threshold.label)

    def measures(self, entry: LedgerEntry) -> bool:
        """Tell whether a charge is for a positive of this vector."""
        return entry.event == self.positive.event

    def paid(self, contents: Contents) -> tuple[int, int]:
        """Return how often threshold noise was paid for, and how many positives were."""
        charged = contents.entries[contents.opened :]
        return sum(map(self.draws, charged)), sum(map(self.measures, charged))

    def is_open(self, rounds: int, positives: int) -> bool:
        """Tell whether so many rounds and positives leave a round open."""
        return rounds > (positives if self.sparse.redraw else 0) and positives < self.sparse.update_limit

    def reserved(self, *, is_open: bool) -> Charge:
        """Return the most that a batch of its tests can charge."""
        return self.positive.charge if is_open else self.threshold.charge + self.positive.charge


def was_tested(contents: Contents, positives: int) -> bool:
    """Tell whether a round was paid for in which a marginal's test could be negative after positives."""
    vectors = Vector.planned(contents)
    (vector,) = (vector for vector in vectors if vector.tested == MarginalTestPlan.tested)
    return vector.paid(contents)[0] > (positives if vector.sparse.redraw else 0)


# --- checks ------------------------------------------------------------------------------------------------


def charges_fit(contents: Contents) -> str:
    """Check that every charge is what its event costs."""
    expected, vectors = _opening(contents), Vector.planned(contents)
    require(len(contents.entries) >= len(expected), "a charge of the opening is not there")
    for number, (wanted, entry) in enumerate(zip(expected, contents.entries, strict=False), start=1):
        _same_entry(number, wanted, entry)
    for event, priced in _untested(contents):
        untested = iter(priced)
        for number, entry in event.charges:
            if entry.event in _UNTESTED:
                due = next(untested, None)
                require(due is not None, f"charge {number} ({entry.event}) has no measurement")
                _same_entry(number, due or entry, entry)
            elif entry.event != Event.ABANDONED:  # which has a price of its own
                _same_entry(number, _planned_entry(vectors, number, entry), entry)
    return f"{counted(len(contents.entries), 'charge')}, each recomputed as an exact fraction"


def _planned_entry(vectors: Sequence[Vector], number: int, found: LedgerEntry) -> LedgerEntry:
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


def rounds_follow(contents: Contents) -> str:
    """Follow the sparse vectors through their charges; return how many positives they had."""
    last, vectors, cap = 0, Vector.planned(contents), contents.cap
    counts = [(0, 0)] * len(vectors)
    spent = sum((cap.price(entry.charge) for entry in contents.entries[: contents.opened]), Fraction(0))
    for number, entry in enumerate(contents.entries[contents.opened :], start=contents.opened + 1):
        what, intent = f"charge {number} ({entry.event})", contents.chained.ledger_intents[number - 1]
        require(intent >= last, f"{what} belongs to an earlier batch than the one before it")
        last, spent = intent, spent + cap.price(entry.charge)
        is_open = [vector.is_open(*of) for vector, of in zip(vectors, counts, strict=True)]
        for place, vector in enumerate(vectors):
            draws, measures = vector.draws(entry), vector.measures(entry)
            require(is_open[place] or not measures, f"{what} has no open round")
            require(not (is_open[place] and draws), f"{what} opens a round while one is open")
            counts[place] = counts[place][0] + draws, counts[place][1] + measures
        if entry.event in _ON_REQUEST:
            held = (
                vector.reserved(is_open=True) for vector, one in zip(vectors, is_open, strict=True) if one
            )
            fault = f"{what} took what an open round had reserved"
            require(spent + sum(map(cap.price, held)) <= cap.cap, fault)
        if entry.event == Event.ABANDONED:
            require(contents.closed and number == len(contents.entries), f"{what} is not the last of all")
            _abandoned_fits(contents, number, is_open)
    several, found = len(vectors) > 1, []
    for vector, (_, positives) in zip(vectors, counts, strict=True):
        of = f" of {vector.tested}" if several else ""
        found.append(f"{positives} of {counted(vector.sparse.update_limit, 'positive')}{of}")
    return ", ".join(found) or "no positives"


def _abandoned_fits(contents: Contents, number: int, is_open: Sequence[bool]) -> None:
    """Check that a batch that was never finished is charged what one of its kind may have reserved."""
    entry, cap, vectors = contents.entries[number - 1], contents.cap, Vector.planned(contents)
    options, cost = contents.contract.options, cap.price(entry.charge)
    kinds = (*(one.abandoned for one in MEASURABLE), PARTS, QUANTILES)
    found = [one for one in kinds if replace(entry, booked=WHOLE) == abandoned_entry(entry.charge, one)]
    fits = bool(found)  # any noise on most of them has a price
    if found == [CellNumbers.abandoned]:
        cells = moved_by_person(CellNumbers(()), options)
        fits = cap.price(price(cells, noise_of_price(cap.composition, cost, cells))) == cost
    elif found == [PARTS]:
        fits = options.reserved > 0
    elif found == [QUANTILES]:
        fits = cost <= cap.cap * SHARE
    if fits:
        return
    prices = [vector.reserved(is_open=one) for vector, one in zip(vectors, is_open, strict=True)]
    require(bool(prices), f"charge {number} ({entry.event}) is for a test, but none was planned")
    wanted = entry.charge if entry.charge in prices else prices[0]
    _same_entry(number, abandoned_entry(wanted), entry)


def payments_fit(contents: Contents, store: SessionStore) -> str:
    """Check that every measurement was paid for, and every payment has its measurement."""
    vectors, count = Vector.planned(contents), 0
    for event, wanted in _untested(contents):
        paid = [
            (entry.event, entry.label)
            for _, entry in event.charges
            if entry.event in _ON_REQUEST or any(vector.measures(entry) for vector in vectors)
        ]
        found = [paid_for(one) for one in event.measured]
        measured = [(wanted[0].event if wanted else name, label) for name, label in found]
        batch, count = f"(batch {event.batch})", count + len(measured)
        for name, label in measured:
            require((name, label) in paid, f"the {name} of {label!r} {batch} has no charge")
        for name, label in paid:
            require((name, label) in measured, f"the charge for {label!r} {batch} has no measurement")
        fault = "charges and measurements are not in the same order, or one is there twice"
        require(paid == measured, fault)
        alone = sum(name != Event.PART for name, _ in paid)
        require(alone <= 1, "a batch has two measurements")
    _keys_tied(contents, store)
    return f"{counted(count, 'measurement')} since opening"


def _keys_tied(contents: Contents, store: SessionStore) -> None:
    """Check that each idempotency key of a measurement names one that its analyst paid for."""
    scopes = {
        event.batch: (asked.scope, one.noise, event.charges[-1][1].booked[0][0])
        for event in contents.events
        for one in event.measured
        if event.batch != contents.chained.measurement_intents[0]
        if (asked := requested(one)) is not None
    }
    for batch, text in store.ties().items():
        tie, what = read_tie(text), f"the key of batch {batch}"
        require(batch in scopes, f"{what} names no measurement")
        (scope, noise, payer), quote = scopes[batch], read_price(tie.quote)
        same(f"scope of {what}", list(scope), quote.to_dict()["scope"])
        same(f"noise of {what}", noise, quote.noise)
        require(payer == analyst_of(tie.key), f"{what} is not its payer's")


def quantiles_fit(contents: Contents, store: SessionStore) -> str:
    """Check that each error quantile was due, was paid for once, and that all of them cost what they may."""
    cap, answers, number, last, cost = contents.cap, store.answers.count(), 0, 0, Fraction(0)
    seen = set[object]()
    for event, wanted in _untested(contents):
        entries = [entry for entry in wanted if entry.event == Event.QUANTILE]
        charged = [entry.label for _, entry in event.charges if entry.event == Event.QUANTILE]
        same("charges for error quantiles", [entry.label for entry in entries], charged)
        cost += sum(cap.price(entry.charge) for entry in entries)
        for one in event.released:
            if not isinstance(one, ErrorQuantile):
                continue
            number += 1
            what, due = f"error quantile {number}", store.answers.settled_count(one.asked)
            require(is_due(due) and last <= one.asked <= answers, f"{what} was not due after {due} questions")
            require((one.kind, due) not in seen, f"{what} is there twice")
            require(0 < one.questions <= due, f"{what} is of {one.questions} of {due} questions")
            same(f"noise of {what}", kind_of_noise(contents), type(one.noise))
            last = one.asked
            seen.add((one.kind, due))
    require(cost <= cap.cap * SHARE, f"error quantiles cost {float(cost / cap.cap):.1%} of the budget")
    return counted(number, "error quantile")


def kind_of_noise(contents: Contents) -> type[NoiseDistribution]:
    """Return the distribution of the noise on what no test decides."""
    return DiscreteLaplace if contents.cap.composition is Composition.PURE else DiscreteGaussian
