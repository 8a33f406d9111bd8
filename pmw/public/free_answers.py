"""Free answers: those of a state's model, whose bounds are kept while nothing but questions comes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from pmw.public.answer import Answer, Spent
from pmw.public.marginal_intervals import MarginalBars, answers_untested
from pmw.public.state import PublicState
from queries.linear import LinearQuery

__all__ = [
    "FreeAnswers",
]


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
            budget = state.contract.budget
            spent = Spent(state.ledger.share, float(budget.epsilon), float(budget.delta))
            tests_marginals = state.contract.options.tests_marginals
            self._bars = MarginalBars(state, spent) if tests_marginals else None
            self._answer = self._bars.answer if self._bars else answers_untested(state, spent)
            self._state = state
        return self._answer


def _is_alike(one: PublicState, other: PublicState) -> bool:
    """Tell whether two states differ in the number of questions alone."""
    names = (each.name for each in fields(PublicState) if each.name != "asked")
    return all(getattr(one, name) is getattr(other, name) for name in names)
