"""Models to hand out: what anybody may ask without the session, its table or its budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.display.elements import table
from pmw.public.answers import Answers, concatenated
from pmw.public.contract import guarantee
from pmw.public.export import RowPlan, synthetic_frame
from pmw.public.free_answers import FreeAnswers, unverified
from pmw.public.state import PublicState
from pmw.public.status import Status, budget_meter, status_of, status_rows
from pmw.session.asking import Asking
from pmw.session.model_file import read_model
from pmw.session.requests import Answering, Deliver, Requests
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

    def _answer(self, requests: Requests, deliver: Deliver | None) -> Answers:
        state, free, parts = self._state, FreeAnswers(), list[Answers]()
        tests = not state.closed and state.positives_used < state.positives_limit
        for start in range(0, max(1, len(requests)), _BATCH):
            answers = free.answers(state, requests.between(start, start + _BATCH).questions)
            parts.append(unverified(answers) if tests else answers)  # whether the session could still test
            if deliver is not None:
                deliver(parts[-1])
        return concatenated(parts, requests.questions)

    def _repr_html_(self) -> str:
        status = self.status()
        caption = f"Model of {self.domain.name}"
        return str(budget_meter(status) + table(caption, (), status_rows(self.state, status)))

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
