"""Models to hand out: what anybody may ask without the session, its table or its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.public.answer import Answer, unverified
from pmw.public.contract import guarantee
from pmw.public.export import RowPlan, synthetic_frame
from pmw.public.free_answers import FreeAnswers
from pmw.public.state import PublicState
from pmw.public.status import Status, status_of
from pmw.session.asking import Asking
from pmw.session.asks import Answering, Ask, Deliver
from pmw.session.model_file import read_model
from queries.cells import cell_count

if TYPE_CHECKING:
    import pandas as pd

_BATCH = 1024  # answers that are delivered together


class PublicModel(Asking):
    """A session's released numbers and its model. Made by ``load_model``.

    It answers as the session does where that tests nothing: from the model, within what released numbers and
    tests promise. A question that nothing covers has no interval, and comes as ``unverified``, or as
    ``exhausted`` where the session can test nothing more. Nothing is stored and nothing is spent, so
    ``fresh`` and idempotency keys change nothing.

    Args:
        state: what was released.
    """

    def __init__(self, state: PublicState) -> None:
        self._state = state

    @property
    def state(self) -> PublicState:
        """Everything that was published."""
        return self._state

    @property
    def guarantee(self) -> str:
        """What the session promises, in words."""
        return guarantee(self._state.contract)

    def status(self) -> Status:
        """Return where the session stood; of its questions, repeated ones are not counted."""
        return status_of(self._state, self._state.asked)

    def synthetic_records(
        self, rows: int | None = None, *, seed: int | None = None, independent: bool = False
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model.

        Args:
            rows: number of rows; None for the session's total, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.

        Raises:
            ReleaseError: the number of rows is out of range.
        """
        return synthetic_frame(self._state, RowPlan(rows, independent, seed))

    @contextmanager
    def _asking(self) -> Iterator[Answering]:
        yield self._answer

    def _answer(self, asks: Sequence[Ask], deliver: Deliver | None) -> list[Answer]:
        free, answers = FreeAnswers(), list[Answer]()
        for start in range(0, len(asks), _BATCH):
            queries = [ask.query for ask in asks[start : start + _BATCH]]
            batch = list(map(self._told, free.answers(self._state, queries)))
            answers += batch
            if deliver is not None:
                deliver(batch)
        return answers

    def _told(self, answer: Answer) -> Answer:
        """Return an answer that says whether the session could still test its question."""
        state = self._state
        tests = not state.closed and state.positives_used < state.positives_limit
        return unverified(answer) if tests else answer

    def __repr__(self) -> str:
        state, budget = self._state, self._state.contract.budget
        return (
            f"PublicModel({state.domain.name!r}, {cell_count(state.domain.size)} cells, "
            f"epsilon={float(budget.epsilon):g}, delta={float(budget.delta):g}, version {state.version})"
        )


def load_model(path: str | Path) -> PublicModel:
    """Return the model of a file that ``Session.export`` or ``pmw export --format model`` wrote.

    The file may be anybody's: nothing in it is run, and what is made of it is bounded.

    Raises:
        ModelFileError: the file is no model, damaged, too large or of a later format.
    """
    return PublicModel(read_model(Path(path)))
