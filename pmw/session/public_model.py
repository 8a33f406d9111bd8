"""Models to hand out: what anybody may ask without the session, its table or its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.display.elements import table
from pmw.errors import SessionError
from pmw.loop import Forecast, refined
from pmw.public.answer import Answer
from pmw.public.answers import Answers, concatenated
from pmw.public.contract import guarantee
from pmw.public.free_answers import FreeAnswers, unverified
from pmw.public.ledger import Ledger
from pmw.public.state import PublicState
from pmw.public.status import Status, budget_meter, status_of, status_rows
from pmw.public.tables import AnswerTable
from pmw.session.accounts import Activity
from pmw.session.asking import Asked, Key, LocalAsking, Part, Width
from pmw.session.model_file import model_state, read_model, write_model
from pmw.session.publishing import LocalPublishing
from pmw.session.requests import Answering, Deliver, Requests
from queries.cells import cell_count
from queries.linear import LinearQuery
from queries.statements import Statement

if TYPE_CHECKING:
    from pmw.public.quotes import Quote
    from pmw.session.measurement_requests import MeasurementRequest

_BATCH = 1024  # answers that are delivered together


class PublicModel(LocalAsking, LocalPublishing):
    """A session's released numbers and its model. Made by ``load_model``.

    It answers as the session does where that tests nothing: from the model, within what released numbers and
    tests promise. A question that nothing covers has no interval, and comes as ``unverified``, or as
    ``exhausted`` where the session can test nothing more. Nothing is stored and nothing is spent, so
    ``fresh`` and idempotency keys change nothing.

    It has the methods of a session. What would measure anything tells its price, as it was when the model was
    written, and raises ``SessionError`` where it is to be paid.

    Args:
        state: what was released.
        content: of the model file; empty where there is none.
    """

    def __init__(self, state: PublicState, content: bytes = b"") -> None:
        self._state = state
        self._content = content

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

    def ledger(self) -> Ledger:
        """Refuse: a model holds the sum of the charges alone, and ``status`` tells it.

        Raises:
            SessionError: always.
        """
        raise SessionError("a model file holds the sum of the charges alone; ask the session itself")

    def history(self, most: int = 100) -> tuple[Activity, ...]:
        """Return no question: a model keeps none, and tells none of the session's."""
        return ()

    def asked(self) -> tuple[LinearQuery, ...]:
        """Return no question: a model keeps none, and tells none of the session's."""
        return ()

    def _forecast(self, asked: Sequence[Asked], statement: Statement | None = None) -> Forecast:
        return Forecast(len([self._request(one) for one in asked]), 0, 0.0, 0.0)  # asking is free

    def ask_within(
        self, question: Asked, within: Width, *, request_id: Key = None, at_most: Part = None
    ) -> Answer:
        if self.quote(question, within).needed:
            raise _refusal()
        return self.ask(question)

    def sql_within(
        self, statement: str | Statement, within: Width, *, request_id: Key = None, at_most: Part = None
    ) -> AnswerTable:
        read = self._statement(statement)
        if self.quote(read, within).needed:
            raise _refusal()
        return self.tabulate(read)

    def _limited(self) -> PublicState:
        return self._state

    def _measured(
        self, request: MeasurementRequest, request_id: Key, at_most: Part, *, dry_run: bool
    ) -> Quote:
        quote = request.quote(self._state)
        if not dry_run:
            raise _refusal()
        return quote

    def _published(self, refine: bool) -> PublicState:
        return refined(self._state) if refine else self._state

    def _write_model(self, target: Path, *, force: bool) -> dict[str, Any]:
        return write_model(self._content, target, force=force)

    def close(self) -> None:
        """Do nothing: a model holds no file and no connection."""

    @contextmanager
    def _asking(self, at_most: Part = None, statement: Statement | None = None) -> Iterator[Answering]:
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
        return str(budget_meter(status) + table(caption, (), status_rows(self.contract, status)))

    def __repr__(self) -> str:
        state, budget = self._state, self._state.contract.whole
        return (
            f"PublicModel({state.domain.name!r}, {cell_count(state.domain.size)} cells, "
            f"epsilon={float(budget.epsilon):g}, delta={float(budget.delta):g}, version {state.version})"
        )


def _refusal() -> SessionError:
    return SessionError(
        "a model file answers from what was released, and measures nothing: ask the session itself"
    )


def load_model(path: str | Path) -> PublicModel:
    """Return the model of a file that ``Session.export`` or ``pmw export --format model`` wrote.

    The file may be anybody's: nothing in it is run, and what is made of it is bounded.

    Raises:
        ModelFileError: the file is no model, damaged, too large or of a later format.
    """
    return PublicModel(*read_model(Path(path)))


def model_of(content: bytes) -> PublicModel:
    """Return the model of a file's content; see ``load_model``.

    Raises:
        ModelFileError: it is no model, damaged, too large or of a later format.
    """
    return PublicModel(model_state(content), content)
