"""Models to hand out: what anybody may ask without the session, its table or its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.loop.fit import refined
from pmw.loop.loop import Forecast
from pmw.public.answer import Answer
from pmw.public.answers import Answers, concatenated
from pmw.public.free_answers import ModelAnswers
from pmw.public.ledger import Ledger
from pmw.public.state import PublicState
from pmw.public.status import Status, status_of
from pmw.public.tables import AnswerTable
from pmw.session.accounts import Activity, Booked
from pmw.session.local import LocalAsking
from pmw.session.model_file import model_state, read_model, write_model
from pmw.session.requests import Answering, Asked, Deliver, Part, Requests
from pmw.session.session_requests import SessionRequest
from queries.cells import cell_count
from queries.linear import LinearQuery
from queries.statements import Statement

if TYPE_CHECKING:
    from pmw.public.quotes import Quote

_BATCH = 1024  # answers that are delivered together


class PublicModel(LocalAsking):
    """A session's released numbers and its model. Made by ``load_model``.

    It answers as the session does where that tests nothing: from the model, within what released numbers and
    tests promise. A question that nothing covers has no interval, and comes as ``unverified``, or as
    ``exhausted`` where the session can test nothing more. Nothing is stored and nothing is spent, so
    ``fresh`` and idempotency keys change nothing.

    It has the methods of a session. What would measure anything tells its price, as it was when the model was
    written, and is refused where it is to be paid.

    Args:
        state: what was released.
        content: of the model file; empty where there is none.
    """

    _role, _who_may = "a model file", "the session itself may"

    def __init__(self, state: PublicState, content: bytes = b"") -> None:
        self._state = state
        self._content = content

    @property
    def state(self) -> PublicState:
        return self._state

    def _do_status(self, _: SessionRequest[Any]) -> Status:
        return status_of(self._state, self._state.asked)

    def _do_budget(self, _: SessionRequest[Any]) -> Booked:
        """Return what the session was charged in all, and how many questions were asked; nothing is left."""
        ledger = self._state.ledger
        return Booked("", ledger.spent / ledger.cap, self._state.asked, left=Fraction(0))

    def _do_ledger(self, _: SessionRequest[Any]) -> Ledger:
        self._refuse(
            "list the charges", "it holds their sum alone, which status() tells; ask the session itself"
        )

    def _do_history(self, _: SessionRequest[Any]) -> tuple[Activity, ...]:
        return ()

    def asked(self) -> tuple[LinearQuery, ...]:
        return ()

    def _forecast(self, asked: Sequence[Asked], statement: Statement | None = None) -> Forecast:
        return Forecast(len([self._request(one) for one in asked]), 0, 0.0, 0.0)  # asking is free

    def _do_ask_within(self, request: SessionRequest[Any]) -> Answer:
        self._require_free(self._do_quote(request))
        return self._do_ask(request)

    def _do_sql_within(self, request: SessionRequest[Any]) -> AnswerTable:
        read = replace(request, question=self._statement(request.question))
        self._require_free(self._do_quote(read))
        return self._do_sql(read)

    def _require_free(self, quote: Quote) -> None:
        if quote.needed:
            self._refuse("measure anything")

    def _limited(self) -> PublicState:
        return self._state

    def _do_measure(self, request: SessionRequest[Any]) -> Quote:
        quote: Quote = request.what.quote(self._state)
        if not request.dry_run:
            self._refuse("measure anything")
        return quote

    def _published(self, refine: bool) -> PublicState:
        return refined(self._state) if refine else self._state

    def _write_model(self, target: Path, *, force: bool) -> dict[str, Any]:
        return write_model(self._state, self._content, target, force=force)

    def model(self) -> PublicModel:
        return self

    def close(self) -> None:
        """Do nothing: a model holds no file and no connection."""

    @contextmanager
    def _asking(self, at_most: Part = None, statement: Statement | None = None) -> Iterator[Answering]:
        yield self._shown(self._free_answers, statement)

    def _free_answers(self, requests: Requests, deliver: Deliver | None) -> Answers:
        of, parts = ModelAnswers(self._state), list[Answers]()
        for start in range(0, max(1, len(requests)), _BATCH):
            parts.append(of.answers(requests.between(start, start + _BATCH).questions))
            if deliver is not None:
                deliver(parts[-1])
            self._pause(len(parts[-1]))
        return concatenated(parts, requests.questions)

    @property
    def _caption(self) -> str:
        return f"Model of {self.domain.name}"

    def __repr__(self) -> str:
        state, budget = self._state, self._state.contract.whole
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
    return PublicModel(*read_model(Path(path)))


def model_of(content: bytes) -> PublicModel:
    """Return the model of a file's content; see ``load_model``."""
    return PublicModel(model_state(content), content)
