"""Free answers: those of a state's model, one by one or many at once, each within its error bar.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the kept records that the condition holds for; of a question given
as weights, their sum over the kept records. Questions of one scope are bounded together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.bins import Coarsening
from pmw.model.measurement import QueryMeasurement, half_width
from pmw.privacy.noise import NoiseDistribution
from pmw.public.answer import Answer, Basis, Source, Spent
from pmw.public.answers import KINDS, SOURCES, Answers, placed
from pmw.public.bars import Bars, ends_in_order, hard_ends_of
from pmw.public.bounded import Array
from pmw.public.clear import may_draw
from pmw.public.error_quantiles import kind_of, kind_over, typical_half_width
from pmw.public.evidence import BASES, own_numbers
from pmw.public.half_widths import Confidences, certified_half_width
from pmw.public.local_models import local_models
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from queries.boxes import Boxes, BoxSums, Counted
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.products import Products
from queries.questions import Places, QuestionList, Questions

_SOME = 2  # questions about the same attributes, from which on arrays are faster than one by one
_AHEAD = 64  # questions that a state answered, before those that come soon are bounded with the next one


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

    def bounded(self, find: Callable[[Counted], Array | None]) -> _Found:
        """Return these questions with what bounds each group, found once."""
        return self, functools.cache(lambda number: find(self.counted(number)))


# Questions, and what bounds those of a group: an array whose last axis they are along; None for one by one.
_Found: TypeAlias = "tuple[QuestionsByScope, Callable[[int], Array | None]]"
BAR_SLACK = 1e-6  # records: what rounding may add to a bar that is as wide as an accuracy contract allows
_EXHAUSTED, _UNVERIFIED = (np.uint8(SOURCES.index(one)) for one in (Source.EXHAUSTED, Source.UNVERIFIED))


class ModelAnswers:
    """Answers questions from one state's model, within what was released and what tests promise."""

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
            source = _untested_source(self.state)
        elif measured and not self.bars.cuts_more_than_noise(query):
            source = Source.MEASURED
        return self._with_typical(query, self._within(query, count, (low, high), source), basis)

    def certified(self, query: LinearQuery, units: int, plan: QueryTestPlan, threshold: int) -> Answer:
        """Return the answer to a question whose own test was negative, by units of 2^-20 records."""
        width = certified_half_width(plan, threshold, self.bars.confidences.alone)
        return self._with_typical(query, self._tested(query, units, width, Source.SYNTHETIC), Basis.TESTED)

    def measured(self, query: LinearQuery, units: int, noise: NoiseDistribution) -> Answer:
        """Return the answer to a question that was measured, in units, within a quantile of its noise."""
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
        kind = kind_of(query, basis)
        if kind is None or answer.interval is None:  # an accuracy contract may have refused it
            return answer
        width = typical_half_width(self.state.quantiles, kind, answer.confidence)
        typical = None if width is None else (max(0.0, answer.count - width), answer.count + width)
        return replace(answer, kind=kind, typical=typical)

    def of_boxes(self, boxes: Counted, own: Array | None = None) -> Array | None:
        """Return the model's answers to boxes or products, and what bounds them.

        None where they have to be looked at one by one: single questions are tested, a marginal was measured
        on declared cells of bins that boxes cut, bins are no runs of cells, or a contract moves answers.

        Args:
            own: the questions' own numbers; see ``Bars.of_boxes``.

        Returns:
            float64, shape (6, n): records, NaN where the model has no table of sums, the ends of their
            intervals, places in ``BASES`` of what these rest on, 1 where that is the question's own number,
            and places in ``KINDS``.
        """
        options, bins = self.state.contract.options, self.state.coarsening.box_bounds(boxes)
        if not (boxes.scope and options.tests_marginals) or bins is None or options.bar_limit is not None:
            return None
        if self.bars.known(boxes.scope).measured and bool(bins[2].any()):
            return None
        bar = self.bars.of_boxes(boxes, own)
        if bar is None:
            return None
        bar = bar if own is not None else np.vstack([bar, np.zeros(len(boxes))])
        kinds = np.array([KINDS.index(kind_over(boxes.domain, boxes.scope, basis)) for basis in BASES])
        sums = self.model_sums(boxes.scope)
        counts = np.full(len(boxes), math.nan) if sums is None else sums.many(boxes)
        return np.vstack([counts, bar, kinds[bar[2].astype(np.intp)]])

    def with_counts(self, bounds: Array, queries: Iterable[LinearQuery]) -> Array:
        """Return what bounds products of a scope, with the answers of a model that has no table of sums."""
        if not np.isnan(bounds[0]).any():
            return bounds
        return np.vstack([self._local.answers(list(queries)), bounds[1:]])

    def parts_of_boxes(self, boxes: Counted) -> Array | None:
        """Return what boxes or products lie between by their parts, and their kind where a test was negative.

        Returns:
            float64, shape (3, n): records, and places in ``KINDS``; None where they go one by one.
        """
        ends = self.bars.parts_of_boxes(boxes) if self.state.contract.options.bar_limit is None else None
        if ends is None:
            return None
        kind = KINDS.index(kind_over(boxes.domain, boxes.scope, Basis.TESTED))
        return np.vstack([ends, np.full(len(boxes), kind)])

    def model_sums(self, scope: tuple[str, ...]) -> BoxSums | None:
        """Return the model's sums inside boxes of a scope; None where there is no table of them.

        That is where it would have too many cells, or single questions are tested, each of which the model
        answers by itself.
        """
        return self._local.sums(scope) if self.state.contract.options.tests_marginals else None


class FreeAnswers:
    """Answers that no test decides, of one state after another; kept while nothing but questions comes in.

    What bounds questions is found for many of a scope at once, those that come soon among them. In a new
    state it is found for what is answered just then, in case one of the next answers changes the state.
    """

    def __init__(self) -> None:
        self._of: ModelAnswers | None = None
        self._soon: QuestionsByScope | None = None
        self._bounds: tuple[_Found, _Found] | None = None
        self._answered = 0  # questions, in the state

    def of(self, state: PublicState) -> ModelAnswers:
        """Return what answers questions in a state."""
        names = [one.name for one in fields(PublicState) if one.name not in ("asked", "settled")]
        if self._of is None or any(getattr(self._of.state, one) is not getattr(state, one) for one in names):
            self._of, self._bounds, self._answered = ModelAnswers(state), None, 0
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
        one: Callable[[int], LinearQuery] = questions.query
        if isinstance(questions, Boxes):
            parts = ((places, of.of_boxes(boxes)) for places, boxes in questions.parts())
            found = [(places, bounds) for places, bounds in parts if bounds is not None]
        else:
            queries = questions.queries(0, len(questions))
            found = list(_of_groups(self._bounds_of(of, queries)[0], queries))
            one = queries.__getitem__
        own = own_numbers(state).places(questions)
        if own.size:
            kept = ((places, bounds, ~np.isin(places, own)) for places, bounds in found)
            found = [(places[left], bounds[:, left]) for places, bounds, left in kept if left.any()]
            asked = list(map(one, own.tolist()))
            numbers = list(map(own_numbers(state).of, asked))
            bounded = _with_numbers(of.bars, asked, numbers, of.of_boxes)
            found += [(own[places], bounds) for places, bounds in bounded]
        found = [(places, of.with_counts(bounds, map(one, places.tolist()))) for places, bounds in found]
        return _joined(of, len(questions), found, lambda place: of.answer(one(place)))

    def certified(
        self,
        state: PublicState,
        queries: Sequence[LinearQuery],
        units: NDArray[np.int64],
        plan: QueryTestPlan,
    ) -> Answers:
        """Return the answers to questions whose own tests were negative; see ``ModelAnswers.certified``."""
        of = self.of(state)
        width = certified_half_width(plan, plan.threshold, of.bars.confidences.alone)
        own = list[tuple[Places, Array]]()
        for places, ends in _of_groups(self._bounds_of(of, queries)[1], queries):
            counts, basis = units[places] / UNITS, np.full(len(places), BASES.index(Basis.TESTED))
            low, high = np.maximum(ends[0], counts - width), np.minimum(ends[1], counts + width)
            own.append((places, np.vstack([counts, low, high, basis, np.zeros(len(places)), ends[2]])))

        def alone(place: int) -> Answer:
            return of.certified(queries[place], int(units[place]), plan, plan.threshold)

        return _joined(of, len(queries), own, alone)

    def _bounds_of(self, of: ModelAnswers, queries: Sequence[LinearQuery]) -> tuple[_Found, _Found]:
        """Return what bounds questions, and what their parts do, found with what is expected besides."""
        is_new, self._answered = self._answered < _AHEAD, self._answered + len(queries)
        expected = self._soon if not is_new and self.expects(queries) else None
        if expected is not None and self._bounds is not None:
            return self._bounds
        asked = expected or QuestionsByScope(of.state.coarsening, queries)
        found = asked.bounded(of.of_boxes), asked.bounded(of.parts_of_boxes)
        if expected is not None:
            self._bounds = found
        return found


def _with_numbers(
    bars: Bars,
    queries: Sequence[LinearQuery],
    numbers: Sequence[QueryMeasurement | None],
    find: Callable[[Counted, Array], Array | None],
) -> Iterator[tuple[Places, Array]]:
    """Yield the places of questions with own numbers that are bounded together, and what bounds these."""
    asked = QuestionsByScope(bars.state.coarsening, queries)
    for group, places, _ in asked.groups(queries):
        own = [one for place in places.tolist() if (one := numbers[place]) is not None]
        found = find(asked.counted(group), bars.own_widths(own))
        if found is not None:
            yield places, found


def _of_groups(bounds: _Found, queries: Sequence[LinearQuery]) -> Iterator[tuple[Places, Array]]:
    """Yield the places of questions that are bounded together, and what bounds these."""
    asked, bounded = bounds
    for number, places, own in asked.groups(queries):
        found = bounded(number)
        if found is not None:
            yield places, found[..., own]


def _joined(
    of: ModelAnswers, size: int, found: Sequence[tuple[Places, Array]], one: Callable[[int], Answer]
) -> Answers:
    alone, parts = np.ones(size, dtype=np.bool_), list[tuple[Places, Answers]]()
    if found:
        places = np.concatenate([own for own, _ in found])
        alone[places] = False
        parts.append((places, answers_within(of.state, np.hstack([bounds for _, bounds in found]))))
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
    found, numbers = np.full(len(questions), math.nan), own_numbers(bars.state)
    own = {place: numbers.of(questions.query(place)) for place in numbers.places(questions).tolist()}
    for places, widths in widths_together(bars, questions, own):
        found[places] = widths
    for place in np.flatnonzero(np.isnan(found)).tolist():
        found[place] = bars.width_of_query(questions.query(place))
    return found


def widths_together(
    bars: Bars, questions: Questions, own: Mapping[int, QueryMeasurement | None]
) -> Iterator[tuple[Places, NDArray[np.float64]]]:
    """Yield the places of questions whose widths are found together, and the widths; see ``known_widths``.

    Args:
        own: by place, the numbers of questions that have one of their own.
    """
    numbered = np.array(sorted(own), dtype=np.int64)
    others = np.setdiff1d(np.arange(len(questions)), numbered)
    if isinstance(questions, Boxes):
        for places, boxes in questions.take(others).parts():
            widths = bars.widths_told(boxes) if boxes.scope else None
            if widths is not None:
                yield others[places], widths
    else:
        queries = questions.take(others).queries(0, len(others))
        asked = QuestionsByScope(bars.state.coarsening, queries)
        for places, widths in _of_groups(asked.bounded(bars.widths_told), queries):
            yield others[places], widths
    numbers = [own[place] for place in numbered.tolist()]
    queries = [questions.query(place) for place in numbered.tolist()]
    for places, widths in _with_numbers(bars, queries, numbers, bars.widths_told):
        yield numbered[places], widths


def answers_within(state: PublicState, bounds: Array) -> Answers:
    """Return the model's answers to boxes or products, within what bounds them; see ``of_boxes``."""
    counts, low, high, basis, is_own, places = bounds
    size, kinds = counts.size, places.astype(np.uint8)
    low, high = map(np.asarray, ends_in_order(low, high, hard_ends_of(state)))
    shown = np.minimum(np.maximum(counts, low), high)
    typical = np.full((size, 2), math.nan)
    for code in np.unique(kinds).tolist():
        width = typical_half_width(state.quantiles, KINDS[code], state.contract.options.confidence)
        if KINDS[code] is not None and width is not None:
            alike = kinds == code
            least = np.maximum(0.0, shown[alike] - width) + 0.0
            typical[alike] = np.stack([least, shown[alike] + width], axis=1)
    source = np.full(size, SOURCES.index(Source.SYNTHETIC), dtype=np.uint8)
    source[basis == BASES.index(Basis.PARTS)] = SOURCES.index(_untested_source(state))
    source[is_own > 0] = SOURCES.index(Source.MEASURED)
    columns = {
        "count": shown,
        "interval": np.stack([low, high], axis=1),
        "typical": typical,
        "source": source,
        "version": np.full(size, state.version),
        "share": np.full(size, state.ledger.share),
        "kind": kinds,
        "aligned": np.ones(size, dtype=np.bool_),
    }
    return Answers.of_columns(state, columns)


def _untested_source(state: PublicState) -> Source:
    """Return what answers say whose question nothing released holds, and no test."""
    return Source.UNVERIFIED if may_draw(state) else Source.EXHAUSTED


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
