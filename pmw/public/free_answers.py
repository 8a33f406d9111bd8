"""Free answers: those of a state's model, whose bounds are kept while nothing but questions comes in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Answer, Basis, QuestionKind, Source, Spent
from pmw.public.answers import KINDS, SOURCES, Answers, placed
from pmw.public.bars import BoxBounds, MarginalBars, answers_untested
from pmw.public.error_quantiles import MOST_CELLS, QUESTION_ATTRIBUTES, typical_half_width
from pmw.public.evidence import BASES
from pmw.public.state import PublicState
from queries.boxes import Boxes
from queries.linear import LinearQuery
from queries.questions import Places, QuestionList, Questions

_MANY = 16  # questions about the same attributes, from which on arrays are faster than one by one
_EXHAUSTED, _UNVERIFIED = (np.uint8(SOURCES.index(one)) for one in (Source.EXHAUSTED, Source.UNVERIFIED))


class FreeAnswers:
    """Answers that no test decides, of one state after another."""

    def __init__(self) -> None:
        self._state: PublicState | None = None
        self._bars: MarginalBars | None = None
        self._answer: Callable[[LinearQuery], Answer] | None = None

    def bars(self, state: PublicState) -> MarginalBars | None:
        """Return what bounds questions in a state; None where no marginals are tested."""
        self.of(state)
        return self._bars

    def of(self, state: PublicState) -> Callable[[LinearQuery], Answer]:
        """Return what answers questions in a state; see ``answers_untested``."""
        if self._answer is None or self._state is None or not _is_alike(self._state, state):
            spent = spent_in(state)
            tests_marginals = state.contract.options.tests_marginals
            self._bars = MarginalBars(state, spent) if tests_marginals else None
            self._answer = self._bars.answer if self._bars else answers_untested(state, spent)
            self._state = state
        return self._answer

    def answers(self, state: PublicState, questions: Questions) -> Answers:
        """Return the answers to questions in a state, in order; many about ranges of a scope at once."""
        answer = self.of(state)
        if isinstance(questions, QuestionList) and (len(questions) < _MANY or self._bars is None):
            return Answers.of(state, list(map(answer, questions.queries(0, len(questions)))))
        found, alone = list[tuple[Places, Answers]](), np.ones(len(questions), dtype=np.bool_)
        for places, boxes in _ranges(questions):
            bounds = None if self._bars is None else self._bars.of_boxes(boxes)
            if bounds is not None:
                found.append((places, answer_boxes(state, bounds, boxes)))
                alone[places] = False
        left = np.flatnonzero(alone)
        if left.size or not found:
            queries = [questions.query(place) for place in left.tolist()]
            found.append((left, Answers.of(state, list(map(answer, queries)))))
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
        kind = _kind(boxes, basis)
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


def _kind(boxes: Boxes, basis: Basis) -> QuestionKind | None:
    """Return the kind of boxes; None where their errors are never looked at. See ``kind_of``."""
    if basis is Basis.RELEASED or boxes.domain.scope_size(boxes.scope) > MOST_CELLS:
        return None
    return QuestionKind(min(len(boxes.scope), QUESTION_ATTRIBUTES), basis)


def _typical(state: PublicState, counts: NDArray[np.float64], kind: QuestionKind) -> NDArray[np.float64]:
    """Return the ends of typical errors of a kind: float64, shape (n, 2); NaN where none were looked at."""
    width = typical_half_width(state.quantiles, kind, state.contract.options.confidence)
    if width is None:
        return np.full((counts.size, 2), np.nan)
    return np.stack([np.maximum(0.0, counts - width) + 0.0, counts + width], axis=1)
