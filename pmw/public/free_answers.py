"""Free answers: those of a state's model, whose bounds are kept while nothing but questions comes in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

from pmw.public.answer import Answer, Spent
from pmw.public.bars import MarginalBars, answers_untested
from pmw.public.range_answers import answer_boxes
from pmw.public.state import PublicState
from queries.boxes import Boxes
from queries.linear import LinearQuery

_MANY = 16  # questions about the same attributes, from which on arrays are faster than one by one


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

    def answers(self, state: PublicState, queries: Sequence[LinearQuery]) -> list[Answer]:
        """Return the answers to questions in a state, in order; many about ranges of a scope at once."""
        answer, found = self.of(state), dict[int, Answer]()
        if self._bars is not None and len(queries) >= _MANY:
            scopes: dict[tuple[str, ...], list[int]] = {}
            for place, query in enumerate(queries):
                if query.is_box and query.aligned and query.scope:
                    scopes.setdefault(query.scope, []).append(place)
            for places in scopes.values():
                if len(places) >= _MANY:
                    found.update(_of_boxes(self._bars, state, queries, places))
        return [found[place] if place in found else answer(query) for place, query in enumerate(queries)]


def _of_boxes(
    bars: MarginalBars, state: PublicState, queries: Sequence[LinearQuery], places: list[int]
) -> Iterable[tuple[int, Answer]]:
    """Return the answers to questions about ranges of the same attributes, by place; none if one by one."""
    boxes = Boxes.of_queries([queries[place] for place in places])
    bounds = bars.of_boxes(boxes)
    if bounds is None:
        return ()
    return zip(places, answer_boxes(state, bounds, boxes, bars.spent.share).each(), strict=True)


def half_widths(state: PublicState, queries: Sequence[LinearQuery]) -> list[float]:
    """Return half of each question's error bar in a state, in records; infinite where there is no bar."""
    intervals = (answer.interval for answer in FreeAnswers().answers(state, queries))
    return [math.inf if one is None else (one[1] - one[0]) / 2 for one in intervals]


def spent_in(state: PublicState) -> Spent:
    """Return what a session has spent in a state."""
    budget = state.contract.budget
    return Spent(state.ledger.share, float(budget.epsilon), float(budget.delta))


def _is_alike(one: PublicState, other: PublicState) -> bool:
    """Tell whether two states differ in the numbers of questions alone."""
    names = (each.name for each in fields(PublicState) if each.name not in ("asked", "settled"))
    return all(getattr(one, name) is getattr(other, name) for name in names)
