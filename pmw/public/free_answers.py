"""Answers: those of a state's model, one by one or many at once, each within its error bar.

An interval holds the true answer with at least the stated confidence, for a question chosen without looking
at the noise that answers it. True means: the kept records that the condition holds for; of a question given
as weights, their sum over the kept records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from pmw.model import half_width
from pmw.privacy.noise import NoiseDistribution
from pmw.public.answer import Answer, Basis, QuestionKind, Source, Spent
from pmw.public.answers import KINDS, SOURCES, Answers, placed
from pmw.public.bars import Bars
from pmw.public.error_quantiles import kind_of, kind_over, typical_half_width
from pmw.public.evidence import BASES, weighed
from pmw.public.half_widths import certified_half_width
from pmw.public.plans import QueryTestPlan
from pmw.public.state import PublicState
from queries.boxes import MOST_SUMS, Boxes, BoxSums
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.questions import Places, QuestionList, Questions

BAR_SLACK = 1e-6  # records: what rounding may add to a bar that is as wide as an accuracy contract allows
_MANY = 16  # questions about the same attributes, from which on arrays are faster than one by one
_EXHAUSTED, _UNVERIFIED = (np.uint8(SOURCES.index(one)) for one in (Source.EXHAUSTED, Source.UNVERIFIED))


@dataclass(frozen=True, slots=True, eq=False)
class BoxBounds:
    """What bounds boxes over one scope.

    Args:
        counts: float64, shape (n,), the model's answers, records.
        low: float64, shape (n,), records; NaN where an end is not known.
        high: the same of the other end.
        basis: uint8, shape (n,): places in ``BASES``.
    """

    counts: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    basis: NDArray[np.uint8]


class ModelAnswers:
    """Answers questions from one state's model, within what was released and what tests promise.

    Args:
        state: the state after the tests that the questions asked for.
    """

    def __init__(self, state: PublicState) -> None:
        self.state = state
        self.bars = Bars(state)
        self._spent = spent_in(state)
        self._sums: dict[tuple[str, ...], BoxSums | None] = {}

    def answer(self, query: LinearQuery, *, measured: bool = False) -> Answer:
        """Return the model's answer to a question.

        Args:
            query: the question.
            measured: a marginal was measured for it. The answer is called measured where the noise makes
                most of its interval: not where that comes from the bins that the question cuts.
        """
        state, count, options = self.state, self._count(query), self.state.contract.options
        # No test says more of a question whose weights are the same for everybody, and none of marginals
        # stands behind single questions; some ends are known.
        undecided = not (query.factors and options.tests_marginals)
        low, high, basis = self._ends(query, undecided=undecided)
        if math.isnan(low) or math.isnan(high):
            spendable = not state.closed and state.positives_used < state.positives_limit
            return self._within(query, count, None, Source.UNVERIFIED if spendable else Source.EXHAUSTED)
        is_measured = measured and not self.bars.cuts_more_than_noise(query)
        source = Source.MEASURED if is_measured else Source.SYNTHETIC
        if options.bar_limit is not None:  # what is promised is the width of the interval
            count = min(max(count, low), high)
        elif not options.tests_marginals and query.readings is None:  # as far either way, as a test bounds it
            reach = max(high - count, count - low)
            low, high = count - reach, count + reach
        low, high = min(low, count), max(high, count)  # the answer lies within its interval
        return self._with_typical(query, self._within(query, count, (low, high), source), basis)

    def certified(self, query: LinearQuery, units: int, plan: QueryTestPlan, threshold: int) -> Answer:
        """Return the model's answer to a question whose own test was negative.

        Args:
            query: the question.
            units: the model's answer in the test, in units of 2^-20 records.
            plan: the test.
            threshold: T of the test, in units.
        """
        width = certified_half_width(plan, threshold, self.bars.confidences.alone)
        return self._with_typical(query, self._tested(query, units, width, Source.SYNTHETIC), Basis.TESTED)

    def measured(self, query: LinearQuery, units: int, noise: NoiseDistribution) -> Answer:
        """Return the answer to a question that was measured: the number, within a quantile of its noise.

        Args:
            query: the question.
            units: the noisy number, in units of 2^-20 records.
            noise: on it, in units.
        """
        width = half_width(noise, self.bars.confidences.alone)
        answer = self._tested(query, units, width, Source.MEASURED)
        return replace(answer, version=self.state.version + 1)

    def _tested(self, query: LinearQuery, units: int, width: float, source: Source) -> Answer:
        """Return an answer that a test or a measurement of the question itself bounds.

        What was tested or measured is the number of records if cells were evenly filled: of a condition that
        cells cannot decide it bounds nothing, and the interval is that of both readings.
        """
        count = units / UNITS
        low, high = count - width, count + width
        if query.readings is not None:
            below, above, _ = self._ends(query, undecided=True)
            low, high = min(below, count), max(above, count)
        return self._within(query, count, (low, high), source)

    def _count(self, query: LinearQuery) -> float:
        """Return the model's answer.

        Where a marginal says more of the scope than the model can know, since it is kept beside the model, or
        is on declared cells of a bin that the question cuts, the answer is moved to within one standard
        deviation of what the marginal says.
        """
        if not query.scope:
            return float(self.bars.everybody(query.constant / UNITS).value)
        sums = self.model_sums(query.scope) if query.is_box else None
        count = self.state.model.answer(query) if sums is None else sums.one(query.box)
        for one, beside, fine in self.bars.known(query.scope).measured:
            if not beside and not (fine and not self.state.coarsening.is_aligned(query)):
                continue
            value, deviation = weighed(self.state, one, query)
            return min(max(count, value - deviation), value + deviation)
        return count

    def _ends(self, query: LinearQuery, *, undecided: bool) -> tuple[float, float, Basis]:
        """Return the ends of a question's interval, NaN where they are not known, and what they rest on.

        Args:
            query: the question.
            undecided: of a question that cells do not decide, ends that are not known are those of nobody and
                of everybody.
        """
        ends = self.bars.of_query(query)
        low, high = float(ends.low), float(ends.high)
        if undecided and query.readings is not None:
            everybody = self.bars.everybody(1.0)
            low = 0.0 if math.isnan(low) else low
            high = float(everybody.value + everybody.half_width) if math.isnan(high) else high
        return low, high, BASES[int(ends.basis)]

    def _within(
        self, query: LinearQuery, count: float, interval: tuple[float, float] | None, source: Source
    ) -> Answer:
        """Return an answer of the state's model; no number of records is below zero.

        Under an accuracy contract it is moved to where its error bar reaches no farther than the contract
        allows either way; where there is no such place, the question is refused. Both depend on public
        numbers alone.
        """
        contract, shown = self.state.contract, max(0.0, count)
        ends = None if interval is None else (max(0.0, interval[0]), max(0.0, interval[1]))
        limit = contract.options.bar_limit
        if limit is not None:
            if ends is None or ends[1] - ends[0] > 2 * limit + BAR_SLACK:
                shown, ends, source = math.nan, None, Source.REFUSED
            elif max(ends[1] - shown, shown - ends[0]) > limit + BAR_SLACK:
                shown = min(max(shown, ends[1] - limit), ends[0] + limit)
        return Answer(
            count=shown,
            fraction=shown / self.state.total.value,
            interval=ends,
            confidence=contract.options.confidence,
            source=source,
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

    def of_boxes(self, boxes: Boxes) -> BoxBounds | None:
        """Return what bounds boxes; None where they have to be looked at one by one.

        That is where the model's marginal has too many cells for a table, a marginal lies beside the model or
        is on declared cells of bins that boxes cut, bins are no runs of cells, noise is that of a tree, or a
        contract moves answers.

        Args:
            boxes: the questions; each depends on all attributes of their scope.
        """
        sums = self.model_sums(boxes.scope) if boxes.scope else None
        bins = self.state.coarsening.box_bounds(boxes)
        if sums is None or bins is None or self.state.contract.options.bar_limit is not None:
            return None
        inner, outer = bins
        cuts = np.any((inner.first != outer.first) | (inner.last != outer.last), axis=1)
        measured = self.bars.known(boxes.scope).measured
        if any(beside or (fine and cuts.any()) for _, beside, fine in measured):
            return None
        found = np.full((3, len(boxes)), math.nan)
        for cut in (False, True):
            places = np.flatnonzero(cuts == cut)
            if places.size:
                low = inner.take(places)
                both = low, outer.take(places) if cut else low
                ends = self.bars.of_boxes(boxes.take(places), both)
                if ends is None:
                    return None
                for row, end in zip(found, ends, strict=True):
                    row[places] = end
        return BoxBounds(sums.many(boxes), found[0], found[1], found[2].astype(np.uint8))

    def model_sums(self, scope: tuple[str, ...]) -> BoxSums | None:
        """Return the model's sums inside boxes of a scope; None where there is no table of them.

        That is where it would have too many cells, or single questions are tested, each of which the model
        answers by itself.
        """
        if scope not in self._sums:
            tests_marginals = self.state.contract.options.tests_marginals
            few = tests_marginals and self.state.domain.scope_size(scope) <= MOST_SUMS
            self._sums[scope] = BoxSums.of_few(self.state.model.marginal(scope)) if few else None
        return self._sums[scope]


class FreeAnswers:
    """Answers that no test decides, of one state after another; kept while nothing but questions comes in."""

    def __init__(self) -> None:
        self._of: ModelAnswers | None = None

    def of(self, state: PublicState) -> ModelAnswers:
        """Return what answers questions in a state."""
        if self._of is None or not _is_alike(self._of.state, state):
            self._of = ModelAnswers(state)
        return self._of

    def answers(self, state: PublicState, questions: Questions) -> Answers:
        """Return the answers to questions in a state, in order; many about ranges of a scope at once."""
        of = self.of(state)
        if isinstance(questions, QuestionList) and len(questions) < _MANY:
            return Answers.of(state, list(map(of.answer, questions.queries(0, len(questions)))))
        found, alone = list[tuple[Places, Answers]](), np.ones(len(questions), dtype=np.bool_)
        for places, boxes in _ranges(questions):
            bounds = of.of_boxes(boxes)
            if bounds is not None:
                found.append((places, answer_boxes(state, bounds, boxes)))
                alone[places] = False
        left = np.flatnonzero(alone)
        if left.size or not found:
            queries = [questions.query(place) for place in left.tolist()]
            found.append((left, Answers.of(state, list(map(of.answer, queries)))))
        return placed(found)


def _ranges(questions: Questions) -> list[tuple[Places, Boxes]]:
    """Return those of the questions that are ranges of the same attributes, where there are many."""
    if isinstance(questions, Boxes):
        return list(questions.parts())
    scopes: dict[tuple[str, ...], list[int]] = {}
    for place, query in enumerate(questions.queries(0, len(questions))):
        if query.is_box and query.aligned and query.scope:
            scopes.setdefault(query.scope, []).append(place)
    many = (places for places in scopes.values() if len(places) >= _MANY)
    return [
        (np.array(places), Boxes.of_queries([questions.query(place) for place in places])) for places in many
    ]


def answer_boxes(state: PublicState, bounds: BoxBounds, boxes: Boxes) -> Answers:
    """Return the model's answers to boxes.

    Args:
        state: that answers.
        bounds: of the boxes.
        boxes: the questions; each depends on all attributes of their scope.
    """
    size, counts = len(boxes), bounds.counts
    shown = np.maximum(0.0, counts) + 0.0  # no minus of a zero
    ends = np.minimum(bounds.low, counts), np.maximum(bounds.high, counts)
    interval = np.maximum(0.0, np.stack(ends, axis=1)) + 0.0
    unknown = np.isnan(interval).any(axis=1)
    interval[unknown] = math.nan
    kinds, typical = np.zeros(size, dtype=np.uint8), np.full((size, 2), math.nan)
    for number, basis in enumerate(BASES):
        kind = kind_over(boxes.domain, boxes.scope, basis)
        places = np.flatnonzero(~unknown & (bounds.basis == number))
        if kind is not None and places.size:
            kinds[places] = KINDS.index(kind)
            typical[places] = _typical(state, shown[places], kind)
    spendable = not state.closed and state.positives_used < state.positives_limit
    source = np.full(size, SOURCES.index(Source.SYNTHETIC), dtype=np.uint8)
    source[unknown] = _UNVERIFIED if spendable else _EXHAUSTED
    columns = {
        "count": shown,
        "interval": interval,
        "typical": typical,
        "source": source,
        "version": np.full(size, state.version),
        "share": np.full(size, state.ledger.share),
        "kind": kinds,
        "aligned": np.ones(size, dtype=np.bool_),
    }
    return Answers.of_columns(state, columns)


def unverified(answers: Answers) -> Answers:
    """Return answers that say that their questions could still be tested, where nothing is promised."""
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
    budget = state.contract.budget
    return Spent(state.ledger.share, float(budget.epsilon), float(budget.delta))


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
