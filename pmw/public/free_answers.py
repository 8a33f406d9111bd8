"""Free answers: those of a state's model, one by one or many at once, each within its error bar.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the kept records that the condition holds for; of a question given
as weights, their sum over the kept records. Questions of one scope are bounded together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model import Coarsening, half_width
from pmw.privacy.noise import NoiseDistribution
from pmw.public.answer import Answer, Basis, QuestionKind, Source, Spent
from pmw.public.answers import KINDS, SOURCES, Answers, placed
from pmw.public.bars import Bar, Bars, ends_in_order, hard_ends_of
from pmw.public.error_quantiles import kind_of, kind_over, typical_half_width
from pmw.public.evidence import BASES, own_numbers
from pmw.public.half_widths import Confidences, certified_half_width
from pmw.public.local_models import local_models
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from queries.boxes import Boxes, BoxSums, Counted
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index
from queries.products import Products
from queries.questions import Places, QuestionList, Questions

_SOME = 2  # questions about the same attributes, from which on arrays are faster than one by one
_Found = TypeVar("_Found")


class QuestionsByScope:
    """Questions that are products of the same attributes; of attributes with bins they are ranges alone."""

    def __init__(self, coarsening: Coarsening, queries: Sequence[LinearQuery]) -> None:
        self._queries = queries  # they are known by their identity
        self._members = list[list[LinearQuery]]()  # of each group
        self._places = dict[int, tuple[int, int]]()  # of a question: its group, and its place there
        self._are_boxes = list[bool]()
        numbers = dict[tuple[tuple[str, ...], bool], int]()
        for query in queries:
            if not Products.is_one(query):
                continue
            number = numbers.get((query.scope, False))
            if number is None:
                has_bins = not coarsening.keeps(query.scope)
                if has_bins and not query.is_box:
                    continue
                number = numbers.setdefault((query.scope, has_bins), len(self._members))
                if number == len(self._members):
                    self._members.append([])
                    self._are_boxes.append(has_bins)
            self._places[id(query)] = number, len(self._members[number])
            self._members[number].append(query)
        self._known = {id(query) for query in queries}

    def holds(self, queries: Sequence[LinearQuery]) -> bool:
        """Tell whether questions are all among these."""
        return self._known.issuperset(map(id, queries))

    def groups(self, queries: Sequence[LinearQuery]) -> Iterator[tuple[int, Places, Places]]:
        """Yield of some of the questions those of each group: its number, their places, and those in it."""
        found = dict[int, list[tuple[int, int]]]()
        for place, query in enumerate(queries):
            at = self._places.get(id(query))
            if at is not None and len(self._members[at[0]]) >= _SOME:
                found.setdefault(at[0], []).append((place, at[1]))
        for number, pairs in found.items():
            places, own = np.array(pairs, dtype=np.int64).T
            yield number, places, own

    def counted(self, number: int) -> Counted:
        """Return what the questions of a group count."""
        make = Boxes.of_queries if self._are_boxes[number] else Products.of_queries
        return make(self._members[number])


class Bounded(Generic[_Found]):
    """What bounds questions by scope, of each group found once.

    Args:
        find: bounds those of a group; None where they are looked at one by one.
    """

    def __init__(self, asked: QuestionsByScope, find: Callable[[Counted], _Found | None]) -> None:
        self.asked = asked
        self._find = find
        self._found = dict[int, _Found | None]()

    def of(self, number: int) -> _Found | None:
        """Return what bounds a group."""
        if number not in self._found:
            self._found[number] = self._find(self.asked.counted(number))
        return self._found[number]


BAR_SLACK = 1e-6  # records: what rounding may add to a bar that is as wide as an accuracy contract allows
_EXHAUSTED, _UNVERIFIED = (np.uint8(SOURCES.index(one)) for one in (Source.EXHAUSTED, Source.UNVERIFIED))


@dataclass(frozen=True, slots=True, eq=False)
class BoxBounds:
    """What bounds boxes or products.

    Args:
        counts: float64, shape (n,), the model's answers, records.
        bar: the ends of their intervals, and what they rest on, float64, shape (n,) each.
        kinds: uint8, shape (n,), places in ``KINDS``.
    """

    counts: NDArray[np.float64]
    bar: Bar
    kinds: NDArray[np.uint8]

    @classmethod
    def of(cls, boxes: Counted, counts: NDArray[np.float64], bar: Bar) -> BoxBounds:
        """Return what bounds boxes or products over one scope, each of which depends on all of it."""
        kinds = [kind_over(boxes.domain, boxes.scope, basis) for basis in BASES]
        codes = np.array([KINDS.index(kind) for kind in kinds], dtype=np.uint8)
        return cls(counts, bar, codes[np.asarray(bar.basis, dtype=np.intp)])

    @classmethod
    def joined(cls, parts: Sequence[BoxBounds]) -> BoxBounds:
        """Return what bounds the questions of some parts, one part after the other; at least one."""
        if len(parts) == 1:
            return parts[0]
        bar = Bar(*(np.concatenate(ends) for ends in zip(*(one.bar for one in parts), strict=True)))
        counts, kinds = [one.counts for one in parts], [one.kinds for one in parts]
        return cls(np.concatenate(counts), bar, np.concatenate(kinds))

    def take(self, places: Places) -> BoxBounds:
        """Return what bounds some of the questions."""
        bar = Bar(*(np.asarray(end)[places] for end in self.bar))
        return BoxBounds(self.counts[places], bar, self.kinds[places])


@dataclass(frozen=True, slots=True, eq=False)
class PartBounds:
    """What boxes or products over one scope lie between by their parts, beside tests of their own.

    Args:
        ends: float64, shape (2, n), records.
        kind: of a question whose test was negative: its place in ``KINDS``.
    """

    ends: NDArray[np.float64]
    kind: int

    def take(self, places: Places) -> PartBounds:
        """Return what some of the questions lie between."""
        return PartBounds(self.ends[:, places], self.kind)

    def tested(self, counts: NDArray[np.float64], width: float) -> BoxBounds:
        """Return what bounds questions whose tests were negative.

        Args:
            counts: float64, shape (n,), the model's answers in the tests, records.
            width: how far the truth may be from them, in records.
        """
        low, high = np.maximum(self.ends[0], counts - width), np.minimum(self.ends[1], counts + width)
        basis = np.full(len(counts), BASES.index(Basis.TESTED))
        return BoxBounds(counts, Bar(low, high, basis), np.full(len(counts), self.kind, dtype=np.uint8))


_Bounds = TypeVar("_Bounds", BoxBounds, PartBounds, NDArray[np.float64])


class ModelAnswers:
    """Answers questions from one state's model, within what was released and what tests promise.

    Args:
        state: the state after the tests that the questions asked for.
    """

    def __init__(self, state: PublicState) -> None:
        self.state = state
        self.bars = Bars(state)
        self._spent = spent_in(state)
        self._local = local_models(state)

    def answer(self, query: LinearQuery, *, measured: bool = False) -> Answer:
        """Return the model's answer to a question.

        Args:
            measured: a marginal was measured for it. The answer is called measured where the noise makes
                most of its interval: not where that comes from the bins that the question cuts.
        """
        count, bar = self._count(query), self.bars.of_query(query)
        low, high, basis = float(bar.low), float(bar.high), BASES[int(bar.basis)]
        source = Source.SYNTHETIC
        if self.bars.own(query) is not None:
            source = Source.MEASURED
        elif basis is Basis.PARTS:
            source = self._untested_source
        elif measured and not self.bars.cuts_more_than_noise(query):
            source = Source.MEASURED
        return self._with_typical(query, self._within(query, count, (low, high), source), basis)

    def certified(self, query: LinearQuery, units: int, plan: QueryTestPlan, threshold: int) -> Answer:
        """Return the model's answer to a question whose own test was negative.

        Args:
            units: the model's answer in the test, in units of 2^-20 records.
            threshold: T of the test, in units.
        """
        width = certified_half_width(plan, threshold, self.bars.confidences.alone)
        return self._with_typical(query, self._tested(query, units, width, Source.SYNTHETIC), Basis.TESTED)

    def measured(self, query: LinearQuery, units: int, noise: NoiseDistribution) -> Answer:
        """Return the answer to a question that was measured: the number, within a quantile of its noise.

        Args:
            units: the noisy number, in units of 2^-20 records.
            noise: on it, in units.
        """
        width = half_width(noise, self.bars.confidences.alone)
        answer = self._tested(query, units, width, Source.MEASURED)
        return replace(answer, version=self.state.version + 1)

    def _tested(self, query: LinearQuery, units: int, width: float, source: Source) -> Answer:
        """Return an answer that a test or a measurement of the question itself bounds, and its parts.

        What was tested or measured is the number of records if cells were evenly filled: of a condition that
        cells cannot decide it bounds nothing, and the interval is that of both readings.
        """
        count = units / UNITS
        if query.readings is not None:
            bar = self.bars.of_query(query)
            return self._within(query, count, (float(bar.low), float(bar.high)), source)
        low, high = self.bars.of_parts(query)
        return self._within(query, count, (max(low, count - width), min(high, count + width)), source)

    @property
    def _untested_source(self) -> Source:
        """What answers say whose question nothing released holds, and no test."""
        state = self.state
        spendable = not state.closed and state.positives_used < state.positives_limit
        return Source.UNVERIFIED if spendable else Source.EXHAUSTED

    def _count(self, query: LinearQuery) -> float:
        """Return the model's answer.

        Where a marginal was measured on declared cells of a bin that the question cuts, the answer is moved
        to within one standard deviation of what the marginal says. That of a residual is what it says.
        """
        if not query.scope:
            return float(self.bars.everybody(query.constant / UNITS).value)
        sums = self.model_sums(query.scope)
        if sums is not None and query.is_box:
            count = sums.one(query.box)
        elif sums is not None and Products.is_one(query):
            count = float(sums.many(Products.of_queries([query]))[0])
        else:
            count = self._local.answer(query)
        for one in self.bars.known(query.scope).measured:
            if not self.state.coarsening.is_aligned(query):
                told, weights = one.over(query.scope), query.weights() / UNITS
                value = float(np.sum(weights * told.values))
                if not one.is_alike:
                    return value
                deviation = math.sqrt(told.weighted_variance(weights))
                return min(max(count, value - deviation), value + deviation)
        return count

    def _within(
        self, query: LinearQuery, count: float, interval: tuple[float, float], source: Source
    ) -> Answer:
        """Return an answer of the state's model, moved into its interval; no number of records is below zero.

        Under an accuracy contract it is moved to where its error bar reaches no farther than the contract
        allows either way; where there is no such place, the question is refused. Both depend on public
        numbers alone.
        """
        contract = self.state.contract
        low, high = map(float, ends_in_order(*interval, hard_ends_of(self.state)))
        shown, ends = min(max(count, low), high), (low, high)
        limit = contract.options.bar_limit
        refused = limit is not None and high - low > 2 * limit + BAR_SLACK
        if limit is not None and max(high - shown, shown - low) > limit + BAR_SLACK:
            shown = min(max(shown, high - limit), low + limit)
        return Answer(
            count=math.nan if refused else shown,
            fraction=math.nan if refused else shown / self.state.total.value,
            interval=None if refused else ends,
            confidence=contract.options.confidence,
            source=Source.REFUSED if refused else source,
            aligned=query.aligned,
            version=self.state.version,
            spent=self._spent,
            seeded=contract.seeded,
            kept=contract.records_kept,
        )

    def _with_typical(self, query: LinearQuery, answer: Answer, basis: Basis) -> Answer:
        """Return an answer with its kind, and with the typical error of that kind where one was released."""
        kind = kind_of(query, basis)
        if kind is None or answer.interval is None:  # an accuracy contract may have refused it
            return answer
        width = typical_half_width(self.state.quantiles, kind, answer.confidence)
        typical = None if width is None else (max(0.0, answer.count - width), answer.count + width)
        return replace(answer, kind=kind, typical=typical)

    def of_boxes(self, boxes: Counted) -> BoxBounds | None:
        """Return what bounds boxes or products; None where they have to be looked at one by one.

        That is where the model's marginal has too many cells for a table, one was measured on declared cells
        of bins that boxes cut, bins are no runs of cells, or a contract moves answers.
        """
        sums = self.model_sums(boxes.scope) if boxes.scope else None
        bins = self.state.coarsening.box_bounds(boxes)
        if sums is None or bins is None or self.state.contract.options.bar_limit is not None:
            return None
        if self.bars.known(boxes.scope).measured and bool(bins[2].any()):
            return None
        bar = self.bars.of_boxes(boxes)
        return None if bar is None else BoxBounds.of(boxes, sums.many(boxes), bar)

    def parts_of_boxes(self, boxes: Counted) -> PartBounds | None:
        """Return what boxes or products lie between by their parts; None where they go one by one."""
        ends = self.bars.parts_of_boxes(boxes) if self.state.contract.options.bar_limit is None else None
        if ends is None:
            return None
        return PartBounds(ends, KINDS.index(kind_over(boxes.domain, boxes.scope, Basis.TESTED)))

    def model_sums(self, scope: tuple[str, ...]) -> BoxSums | None:
        """Return the model's sums inside boxes of a scope; None where there is no table of them.

        That is where it would have too many cells, or single questions are tested, each of which the model
        answers by itself.
        """
        return self._local.sums(scope) if self.state.contract.options.tests_marginals else None


class FreeAnswers:
    """Answers that no test decides, of one state after another; kept while nothing but questions comes in.

    What bounds questions is found for many of a scope at once, those that come soon among them. In a new
    state it is found for what is answered just then, in case the next answer changes the state again.
    """

    def __init__(self) -> None:
        self._of: ModelAnswers | None = None
        self._soon: QuestionsByScope | None = None
        self._bounds: tuple[Bounded[BoxBounds], Bounded[PartBounds]] | None = None
        self._is_new = True  # no questions were answered in the state

    def of(self, state: PublicState) -> ModelAnswers:
        """Return what answers questions in a state."""
        if self._of is None or not _is_alike(self._of.state, state):
            self._of, self._bounds, self._is_new = ModelAnswers(state), None, True
        return self._of

    def expect(self, state: PublicState, queries: Sequence[LinearQuery]) -> None:
        """Take note of questions that are likely to be answered soon."""
        self._soon, self._bounds = QuestionsByScope(state.coarsening, queries), None

    def expects(self, queries: Sequence[LinearQuery]) -> bool:
        """Tell whether questions are among those that were noted last."""
        return self._soon is not None and self._soon.holds(queries)

    def answers(self, state: PublicState, questions: Questions) -> Answers:
        """Return the answers to questions in a state, in order; many about a scope at once."""
        of = self.of(state)
        if isinstance(questions, Boxes):
            parts = [(places, of.of_boxes(boxes)) for places, boxes in questions.parts()]
            found = [(places, bounds) for places, bounds in parts if bounds is not None]
            found = _without(found, own_numbers(state).places(questions))
            return _joined(of, len(questions), found, lambda place: of.answer(questions.query(place)))
        queries = questions.queries(0, len(questions))
        bounds = self._bounds_of(of, queries)[0]
        found = [(places, one.take(at)) for places, at, one in _of_groups(bounds, queries)]
        found = _without(found, own_numbers(state).places(questions))
        return _joined(of, len(queries), found, lambda place: of.answer(queries[place]))

    def certified(
        self,
        state: PublicState,
        queries: Sequence[LinearQuery],
        units: NDArray[np.int64],
        plan: QueryTestPlan,
    ) -> Answers:
        """Return the answers to questions whose own tests were negative; see ``ModelAnswers.certified``.

        Args:
            units: int64, shape (n,), the model's answers in the tests, in units of 2^-20 records.
        """
        of = self.of(state)
        width = certified_half_width(plan, plan.threshold, of.bars.confidences.alone)
        bounds = self._bounds_of(of, queries)[1]
        own = [
            (places, one.take(at).tested(units[places] / UNITS, width))
            for places, at, one in _of_groups(bounds, queries)
        ]

        def alone(place: int) -> Answer:
            return of.certified(queries[place], int(units[place]), plan, plan.threshold)

        return _joined(of, len(queries), own, alone)

    def _bounds_of(
        self, of: ModelAnswers, queries: Sequence[LinearQuery]
    ) -> tuple[Bounded[BoxBounds], Bounded[PartBounds]]:
        """Return what bounds questions, and what their parts do, found with what is expected besides."""
        is_new, self._is_new = self._is_new, False
        if not is_new and self._soon is not None and self.expects(queries):
            if self._bounds is None:
                self._bounds = Bounded(self._soon, of.of_boxes), Bounded(self._soon, of.parts_of_boxes)
            return self._bounds
        asked = QuestionsByScope(of.state.coarsening, queries)
        return Bounded(asked, of.of_boxes), Bounded(asked, of.parts_of_boxes)


def _of_groups(
    bounds: Bounded[_Bounds], queries: Sequence[LinearQuery]
) -> Iterator[tuple[Places, Places, _Bounds]]:
    """Yield the places of questions that are bounded together, their places there, and what bounds these."""
    for number, places, own in bounds.asked.groups(queries):
        found = bounds.of(number)
        if found is not None:
            yield places, own, found


def _without(found: Sequence[tuple[Places, BoxBounds]], own: Places) -> list[tuple[Places, BoxBounds]]:
    """Return what bounds questions together but for those that are bounded by numbers of their own."""
    if not own.size:
        return list(found)
    kept = ((places, bounds, ~np.isin(places, own)) for places, bounds in found)
    return [(places[left], bounds.take(np.flatnonzero(left))) for places, bounds, left in kept if left.any()]


def _joined(
    of: ModelAnswers, size: int, found: Sequence[tuple[Places, BoxBounds]], one: Callable[[int], Answer]
) -> Answers:
    """Return answers in the order of their questions."""
    alone, parts = np.ones(size, dtype=np.bool_), list[tuple[Places, Answers]]()
    if found:
        places = np.concatenate([own for own, _ in found])
        alone[places] = False
        parts.append((places, answers_within(of.state, BoxBounds.joined([one for _, one in found]))))
    left = np.flatnonzero(alone)
    if left.size or not parts:
        parts.append((left, Answers.of(of.state, list(map(one, left.tolist())))))
    return placed(parts)


def chosen_answer(bars: Bars, query: LinearQuery, answer: Answer) -> Answer:
    """Return the answer of a row that answers choose, within a bar that holds whichever they choose.

    Where a question is held by its own test or measurement alone, the number of that is no farther from
    either end of the answer's own bar than the width that it gave.
    """
    state, plan = bars.state, bars.state.query_plan
    if answer.interval is None:
        return answer
    low, high, _ = bars.of_query(query)
    is_own = answer.source in (Source.MEASURED, Source.SYNTHETIC) and query.readings is None
    if plan is not None and is_own and math.isinf(bars.width_of_query(query)):
        surely = Confidences.in_state(state).alone, bars.confidences.alone
        if answer.source is Source.MEASURED:
            width = sum(half_width(plan.noise, one) for one in surely)
        else:
            width = sum(certified_half_width(plan, plan.threshold, one) for one in surely)
        low, high = bars.of_parts(query)
        low, high = max(low, answer.interval[1] - width), min(high, answer.interval[0] + width)
    bar = ends_in_order(low, high, hard_ends_of(state))
    interval = min(float(bar.low), answer.count), max(float(bar.high), answer.count)
    return replace(answer, interval=interval, typical=None)


def known_widths(bars: Bars, questions: Questions) -> NDArray[np.float64]:
    """Return how wide intervals are by all attributes of their questions: float64, shape (n,), records.

    These do not depend on noise; they are infinite where nothing holds a question.
    """
    found, alone = np.empty(len(questions)), np.ones(len(questions), dtype=np.bool_)
    for places, widths in _widths(bars, questions):
        found[places] = widths
        alone[places] = False
    alone[own_numbers(bars.state).places(questions)] = True
    for place in np.flatnonzero(alone).tolist():
        found[place] = bars.width_of_query(questions.query(place))
    return found


def _widths(bars: Bars, questions: Questions) -> Iterator[tuple[Places, NDArray[np.float64]]]:
    """Yield the places of questions that are bounded together, and their widths; see ``known_widths``."""
    if isinstance(questions, Boxes):
        for places, boxes in questions.parts():
            widths = bars.widths_of_boxes(boxes) if boxes.scope else None
            if widths is not None:
                yield places, widths
        return
    queries = questions.queries(0, len(questions))
    bounds = Bounded(QuestionsByScope(bars.state.coarsening, queries), bars.widths_of_boxes)
    for places, own, found in _of_groups(bounds, queries):
        yield places, found[own]


def answers_within(state: PublicState, bounds: BoxBounds) -> Answers:
    """Return the model's answers to boxes or products, within what bounds them."""
    size, (low, high, basis) = len(bounds.counts), bounds.bar
    low, high = map(np.asarray, ends_in_order(low, high, hard_ends_of(state)))
    shown = np.minimum(np.maximum(bounds.counts, low), high)
    typical = np.full((size, 2), math.nan)
    for code in np.flatnonzero(np.bincount(as_index(bounds.kinds))).tolist():
        kind = KINDS[code]
        if kind is not None:
            places = np.flatnonzero(bounds.kinds == code)
            typical[places] = _typical(state, shown[places], kind)
    spendable = not state.closed and state.positives_used < state.positives_limit
    source = np.full(size, SOURCES.index(Source.SYNTHETIC), dtype=np.uint8)
    source[basis == BASES.index(Basis.PARTS)] = _UNVERIFIED if spendable else _EXHAUSTED
    columns = {
        "count": shown,
        "interval": np.stack([low, high], axis=1),
        "typical": typical,
        "source": source,
        "version": np.full(size, state.version),
        "share": np.full(size, state.ledger.share),
        "kind": bounds.kinds,
        "aligned": np.ones(size, dtype=np.bool_),
    }
    return Answers.of_columns(state, columns)


def unverified(answers: Answers) -> Answers:
    """Return answers that say that their questions could still be tested, where no test decided them."""
    is_open = answers.source == _EXHAUSTED
    if not is_open.any():
        return answers
    return replace(answers, source=np.where(is_open, _UNVERIFIED, answers.source))


def half_widths(state: PublicState, queries: Sequence[LinearQuery]) -> list[float]:
    """Return half of each question's error bar in a state, in records; infinite where there is no bar."""
    widths: list[float] = FreeAnswers().answers(state, QuestionList(queries)).widths.tolist()
    return [math.inf if math.isnan(width) else width / 2 for width in widths]


def spent_in(state: PublicState) -> Spent:
    """Return what a session has spent in a state."""
    whole = state.contract.whole
    return Spent(state.ledger.share, float(whole.epsilon), float(whole.delta))


def _is_alike(one: PublicState, other: PublicState) -> bool:
    """Tell whether two states differ in the numbers of questions alone."""
    names = (each.name for each in fields(PublicState) if each.name not in ("asked", "settled"))
    return all(getattr(one, name) is getattr(other, name) for name in names)


def _typical(state: PublicState, counts: NDArray[np.float64], kind: QuestionKind) -> NDArray[np.float64]:
    """Return the ends of typical errors of a kind: float64, shape (n, 2); NaN where none were looked at."""
    width = typical_half_width(state.quantiles, kind, state.contract.options.confidence)
    if width is None:
        return np.full((counts.size, 2), np.nan)
    return np.stack([np.maximum(0.0, counts - width) + 0.0, counts + width], axis=1)
