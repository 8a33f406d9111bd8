"""Free answers: those of a state's model, one by one or many at once, each within its error bar.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the kept records that the condition holds for; of a question given
as weights, their sum over the kept records. Questions of one scope are bounded together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from pmw.model.measurement import QueryMeasurement, half_width
from pmw.privacy.noise import NoiseDistribution
from pmw.public.answer import Answer, Basis, Source, Spent
from pmw.public.answers import KINDS, SOURCES, Answers
from pmw.public.bars import Bars, ends_in_order, hard_ends_of
from pmw.public.bounded import Array
from pmw.public.clear import may_draw
from pmw.public.error_quantiles import kind_of, kind_over, typical_half_width
from pmw.public.evidence import BASES, own_numbers
from pmw.public.half_widths import Confidences, certified_half_width
from pmw.public.local_models import local_models
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from queries.cell_sets import BoxSums
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.questions import Places, Products, QuestionList, Questions

BAR_SLACK = 1e-6  # records: what rounding may add to a bar that is as wide as an accuracy contract allows
_EXHAUSTED, _UNVERIFIED = (np.uint8(SOURCES.index(one)) for one in (Source.EXHAUSTED, Source.UNVERIFIED))
_TESTED = BASES.index(Basis.TESTED)


class ModelAnswers:
    """Answers questions from one state's model, within what was released and what tests promise."""

    def __init__(self, state: PublicState) -> None:
        self.state = state
        self.bars = Bars(state)
        self._local = local_models(state)

    def answers(self, questions: Questions) -> Answers:
        """Return the model's answers to questions, in order; those about the same attributes together."""
        numbers = own_numbers(self.state)
        own = {place: numbers.of(questions.query(place)) for place in numbers.places(questions).tolist()}
        bounds, left = np.empty((6, len(questions))), np.ones(len(questions), dtype=np.bool_)
        for places, found in together(self.bars, questions, self.of_products, own):
            bounds[:, places], left[places] = found, False
        for place in np.flatnonzero(left).tolist():
            bounds[:, place] = self._bounds(questions.query(place))
        return self._within(bounds, questions.aligned())

    def answer(self, query: LinearQuery, *, measured: bool = False) -> Answer:
        """Return the model's answer to a question.

        Args:
            measured: a marginal was measured for it. The answer is called measured where the noise makes
                most of its interval: not where that comes from the bins that the question cuts.
        """
        bounds = np.array([self._bounds(query, measured=measured)]).T
        return self._within(bounds, np.array([query.aligned]))[0]

    def certified(self, questions: Questions, units: NDArray[np.int64], plan: QueryTestPlan) -> Answers:
        """Return the answers to questions whose own tests were negative, by units of 2^-20 records."""
        width = certified_half_width(plan, plan.threshold, self.bars.confidences.alone)
        return self._tested(questions, units, width, Source.SYNTHETIC)

    def measured(self, query: LinearQuery, units: int, noise: NoiseDistribution) -> Answer:
        """Return the answer to a question that was measured, in units, within a quantile of its noise."""
        width = half_width(noise, self.bars.confidences.alone)
        (answer,) = self._tested(QuestionList([query]), np.array([units]), width, Source.MEASURED)
        return replace(answer, version=self.state.version + 1)

    def _tested(
        self, questions: Questions, units: NDArray[np.int64], width: float, source: Source
    ) -> Answers:
        """Return answers that tests or measurements of the questions themselves bound, and their parts.

        What was tested or measured is the number of records if cells were evenly filled: of a condition that
        cells cannot decide it bounds nothing, and the interval is that of both readings.
        """
        counts, is_measured = units / UNITS, source is Source.MEASURED
        ends, widths = np.empty((2, len(questions))), np.full(len(questions), width)
        left = np.ones(len(questions), dtype=np.bool_)
        for places, found in together(
            self.bars, questions, lambda some, _: self.bars.parts_of_products(some), {}
        ):
            ends[:, places], left[places] = found, False
        for place in np.flatnonzero(left).tolist():
            query = questions.query(place)
            if query.readings is None:
                ends[:, place] = self.bars.of_parts(query)
            else:
                ends[:, place], widths[place] = self.bars.of_query(query)[:2], math.inf
        kinds = [KINDS.index(None if is_measured else kind_of(query, Basis.TESTED)) for query in questions]
        low, high = np.maximum(ends[0], counts - widths), np.minimum(ends[1], counts + widths)
        alike = np.full((2, len(questions)), [[_TESTED], [is_measured]])
        return self._within(np.vstack([counts, low, high, alike, kinds]), questions.aligned())

    def _bounds(self, query: LinearQuery, *, measured: bool = False) -> tuple[float, ...]:
        """Return the model's answer to one question and what bounds it; see ``of_products``."""
        count, bar = self._count(query), self.bars.of_query(query)
        basis = BASES[int(bar.basis)]
        is_measured = self.bars.own(query) is not None
        if measured and not is_measured and basis is not Basis.PARTS:
            is_measured = not self.bars.cuts_more_than_noise(query)
        kind = KINDS.index(kind_of(query, basis))
        return count, float(bar.low), float(bar.high), int(bar.basis), is_measured, kind

    def _count(self, query: LinearQuery) -> float:
        """Return the model's answer.

        Where a marginal was measured on declared cells of a bin that the question cuts, the answer is moved
        to within one standard deviation of what the marginal says. That of a residual is what it says.
        """
        if not query.scope:
            return float(self.bars.everybody(query.constant / UNITS).value)
        sums = self.model_sums(query.scope)
        found = None if sums is None else sums.one(query)
        count = self._local.answer(query) if found is None else found
        for one in self.bars.known(query.scope).measured:
            if not self.state.coarsening.is_aligned(query):
                told, weights = one.over(query.scope), query.weights() / UNITS
                value = float(np.sum(weights * told.values))
                if not one.is_alike:
                    return value
                deviation = math.sqrt(told.weighted_variance(weights))
                return min(max(count, value - deviation), value + deviation)
        return count

    def of_products(self, products: Products, own: Array | None = None) -> Array | None:
        """Return the model's answers to products, and what bounds them.

        None where they have to be looked at one by one: single questions are tested, or a marginal was
        measured on declared cells of bins that products cut.

        Args:
            own: the questions' own numbers; see ``Bars.of_products``.

        Returns:
            float64, shape (6, n): records, the ends of their intervals, places in ``BASES`` of what these
            rest on, 1 where that was measured for the question, and places in ``KINDS``.
        """
        if not self.state.contract.options.tests_marginals:
            return None
        _, _, cuts = self.state.coarsening.product_bounds(products)
        if self.bars.known(products.scope).measured and bool(cuts.any()):
            return None
        bar = self.bars.of_products(products, own)
        kinds = np.array([KINDS.index(kind_over(products.domain, products.scope, basis)) for basis in BASES])
        sums = self.model_sums(products.scope)
        counts = self._local.answers(products) if sums is None else sums.many(products.sides)
        return np.vstack([counts, bar, kinds[bar[2].astype(np.intp)]])

    def model_sums(self, scope: tuple[str, ...]) -> BoxSums | None:
        """Return the model's sums inside boxes of a scope; None where there is no table of them.

        That is where it would have too many cells, or single questions are tested, each of which the model
        answers by itself.
        """
        return self._local.sums(scope) if self.state.contract.options.tests_marginals else None

    def _within(self, bounds: Array, aligned: NDArray[np.bool_]) -> Answers:
        """Return answers, moved into what bounds them; no number of records is below zero.

        Under an accuracy contract they are moved to where their error bar reaches no farther than the
        contract allows either way; where there is no such place, the question is refused. Both depend on
        public numbers alone.

        Args:
            bounds: see ``of_products``.
            aligned: bool, shape (n,): False where the cells cannot decide the condition.
        """
        state, options = self.state, self.state.contract.options
        counts, low, high, basis, is_measured, places = bounds
        kinds = places.astype(np.uint8)
        low, high = map(np.asarray, ends_in_order(low, high, hard_ends_of(state)))
        shown = np.minimum(np.maximum(counts, low), high)
        source = np.full(counts.size, SOURCES.index(Source.SYNTHETIC), dtype=np.uint8)
        if (untested := basis == BASES.index(Basis.PARTS)).any():
            source[untested] = SOURCES.index(_untested_source(state))
        source[is_measured > 0] = SOURCES.index(Source.MEASURED)
        if (limit := options.bar_limit) is not None:
            is_far = np.maximum(high - shown, shown - low) > limit + BAR_SLACK
            shown = np.where(is_far, np.minimum(np.maximum(shown, high - limit), low + limit), shown)
            is_refused = high - low > 2 * limit + BAR_SLACK
            shown[is_refused] = low[is_refused] = high[is_refused] = math.nan
            source[is_refused], kinds[is_refused] = SOURCES.index(Source.REFUSED), KINDS.index(None)
        typical = np.full((counts.size, 2), math.nan)
        for code in sorted({*kinds.tolist()}):  # np.unique imports as long as an answer takes
            width = typical_half_width(state.quantiles, KINDS[code], options.confidence)
            if KINDS[code] is not None and width is not None:
                alike = kinds == code
                least = np.maximum(0.0, shown[alike] - width) + 0.0
                typical[alike] = np.stack([least, shown[alike] + width], axis=1)
        columns = {
            "count": shown,
            "interval": np.stack([low, high], axis=1),
            "typical": typical,
            "source": source,
            "version": np.full(counts.size, state.version),
            "share": np.full(counts.size, state.ledger.share),
            "kind": kinds,
            "aligned": aligned,
        }
        return Answers.of_columns(state, columns)


class FreeAnswers:
    """Answers that no test decides, of one state after another; kept while nothing but questions comes in."""

    def __init__(self) -> None:
        self._of: ModelAnswers | None = None

    def of(self, state: PublicState) -> ModelAnswers:
        """Return what answers questions in a state."""
        names = [one.name for one in fields(PublicState) if one.name not in ("asked", "settled")]
        if self._of is None or any(getattr(self._of.state, one) is not getattr(state, one) for one in names):
            self._of = ModelAnswers(state)
        return self._of


def together(
    bars: Bars,
    questions: Questions,
    find: Callable[[Products, Array | None], Array | None],
    own: Mapping[int, QueryMeasurement | None],
) -> Iterator[tuple[Places, Array]]:
    """Yield the places of products that something is found of together, and what is found.

    Args:
        find: by products that bins bound, and the own numbers of all of them or of none; None where they go
            one by one. Own numbers of a session that does not pay for them always do.
        own: by place, the numbers of questions that have one of their own.
    """
    numbered, coarsening = np.array(sorted(own), dtype=np.int64), bars.state.coarsening
    is_other = np.ones(len(questions), dtype=np.bool_)
    is_other[numbered] = False
    others = np.flatnonzero(is_other)
    for places in (others, numbered) if bars.pays else (others,):
        for group, products in questions.take(places).products(lambda scope: not coarsening.keeps(scope)):
            if not coarsening.has_bounds(products):
                continue
            at = places[group]
            numbers = [one for place in at.tolist() if (one := own.get(place)) is not None]
            found = find(products, bars.own_widths(numbers) if numbers else None)
            if found is not None:
                yield at, found


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
    for places, widths in together(bars, questions, bars.widths_told, own):
        found[places] = widths
    for place in np.flatnonzero(np.isnan(found)).tolist():
        found[place] = bars.width_of_query(questions.query(place))
    return found


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
    widths: list[float] = ModelAnswers(state).answers(QuestionList(queries)).widths.tolist()
    return [math.inf if math.isnan(width) else width / 2 for width in widths]


def spent_in(state: PublicState) -> Spent:
    """Return what a session has spent in a state."""
    whole = state.contract.whole
    return Spent(state.ledger.share, float(whole.epsilon), float(whole.delta))
