"""Dialogues: what is asked, measured and told on behalf of one account of a session.

Prices, statements and explanations are imported where they are asked for; see ``pmw.session.session``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.loop.fit import refined
from pmw.loop.untested import Requested
from pmw.public.answer import Answer
from pmw.public.answers import Answers, concatenated
from pmw.public.state import PublicState
from pmw.session.accounts import SESSION, Account, Activity, Booked, load_activity
from pmw.session.asking import Questions
from pmw.session.engine import Engine
from pmw.session.loading import load_ledger, load_texts, newest_released, read_question
from pmw.session.local import LocalAsking
from pmw.session.requests import Answering, Asked, Deliver, Part, Request, Requests, key_of
from pmw.session.session_requests import MeasurementRequest, SessionRequest, asked_text, width_of
from pmw.session.store.store import SessionStore
from pmw.session.turns import TURN_WORK, Turns
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import require_key
from queries.reader import QuestionReader
from queries.workloads import Workload

if TYPE_CHECKING:
    from pmw.loop.loop import Forecast
    from pmw.public.ledger import Ledger
    from pmw.public.quotes import Quote
    from pmw.public.status import Status
    from pmw.public.tables import AnswerTable
    from pmw.session.journal import Tie
    from pmw.session.public_model import PublicModel
    from queries.statements import Statement


class Dialogue(LocalAsking):
    """What is asked, measured and told on behalf of one account."""

    _account: Account = SESSION
    _turn: Turns  # of the threads that share the session
    _stop: Callable[[], None] | None = None  # is called at the beginning of each turn, and within it

    @abstractmethod
    def _engaged(self) -> AbstractContextManager[Engine]:
        """Return the engine, while nobody else uses it; what was interrupted is finished."""

    @abstractmethod
    def _open_store(self) -> SessionStore:
        """Return the session's file, in a turn."""

    @contextmanager
    def _asking(self, at_most: Part = None, statement: Statement | None = None) -> Iterator[Answering]:
        account = self._account.paying(at_most, statement)
        with self._engaged() as engine:
            yield self._shown(partial(self._answer, engine, account), statement)

    def look(self) -> None:
        """Raise what ends the work, where nobody waits for it any more."""
        if self._stop is not None:
            self._stop()

    def require_keys(self, questions: Iterable[Asked]) -> None:
        """Refuse idempotency keys that were used for other questions; free.

        Raises:
            QueryError: one was.
        """
        with self._engaged() as engine:
            for question in questions:
                engine.require_keys(Requests.of([self._request(question)]), self._account)
                self._pause(1)

    def _answer(
        self, engine: Engine, account: Account, requests: Requests, deliver: Deliver | None
    ) -> Answers:
        """Answer questions in order, where threads share the session some in each turn: others go between."""
        is_shared = self._turn.is_shared or self._stop is not None
        size = TURN_WORK if is_shared else max(1, len(requests))
        for start in range(0, len(requests), size) if len(requests) > size else ():
            some = requests.between(start, start + size)
            if some.request_ids:  # before anything is asked
                engine.require_keys(some, self._account)
                self._pause()
        room = engine.price(requests, account) if len(requests) > size else None
        if account.is_whole and len(requests) > size:
            room, account = engine.draw_for(requests, account, room), replace(account, draws=False)
        parts, done = list[Answers](), 0
        while done < len(requests) or not parts:
            some = requests.between(done, done + size)
            parts.append(engine.answer(some, deliver, account, lambda: self._turn.awaited, room))
            done, room = done + len(parts[-1]), engine.room
            if done < len(requests):
                self._pause()
        return concatenated(parts, requests.questions)

    def ask_all(
        self,
        questions: Questions,
        *,
        fresh: bool = False,
        deliver: Deliver | None = None,
        at_most: Part = None,
    ) -> Answers:
        """Answer questions in order; see ``Asking``.

        A workload of ranges makes no question by itself. It is looked at table by table: what is refused for
        its price ends it, and the tables before it stand.
        """
        if not isinstance(questions, Workload) or questions.boxes is None:
            return super().ask_all(questions, fresh=fresh, deliver=deliver, at_most=at_most)
        with self._asking(at_most) as answer, self._watched(len(questions), deliver) as told:
            parts = list[Answers]()
            for boxes in questions.boxes():
                self._require_own(boxes.domain)
                parts.append(answer(Requests.of_questions(boxes, fresh=fresh), told))
        return concatenated(parts, questions)

    def _in_two_steps(self, statement: Statement, request: SessionRequest[Any]) -> AnswerTable:
        told = self._account.paying(request.at_most).told_ceiling  # for all steps together
        return super()._in_two_steps(statement, replace(request, at_most=told))

    def _do_status(self, _: SessionRequest[Any]) -> Status:
        from pmw.public.status import status_of

        with self._turn:
            return status_of(self.state, self._open_store().asked())

    def _do_budget(self, _: SessionRequest[Any]) -> Booked:
        account = self._account
        with self._engaged() as engine:
            ledger = engine.state.ledger
            found = {one.name: one for one in engine.bookings.listed(ledger)}
            one = found.get(account.name, Booked(account.name, Fraction(0), 0))
            left = engine.bookings.left(account, ledger) / ledger.cap
            return replace(one, share=account.share, left=Fraction(0) if engine.state.closed else left)

    def _do_ledger(self, _: SessionRequest[Any]) -> Ledger:
        with self._turn:
            return load_ledger(self._open_store())

    def _published(self, refine: bool) -> PublicState:
        with self._turn:  # a dense model's array is taken over where another thread corrects it
            return refined(self.state) if refine else self.state

    def _write_model(self, target: Path, *, force: bool) -> dict[str, Any]:
        from pmw.session.model_file import export_model

        with self._engaged():
            return export_model(newest_released(self._open_store(), self.state), target, force=force)

    def model(self) -> PublicModel:
        from pmw.session.model_file import made_model
        from pmw.session.public_model import PublicModel

        with self._engaged():
            return PublicModel(*made_model(newest_released(self._open_store(), self.state)))

    def _do_history(self, request: SessionRequest[Any]) -> tuple[Activity, ...]:
        with self._turn:
            return load_activity(self._open_store(), self.contract, self._account.name or None, request.most)

    def asked(self) -> tuple[LinearQuery, ...]:
        return tuple(read_question(text, self.domain) for text in self.asked_texts())

    def asked_texts(self) -> tuple[str, ...]:
        """Return the canonical texts of the questions of ``asked``; free."""
        with self._turn:
            return load_texts(self._open_store(), self._account.name)

    def charged(self) -> Fraction:
        """Return what was charged for whoever asks, as a part of the cap, exactly; free."""
        with self._engaged() as engine:
            ledger = engine.state.ledger
            return engine.bookings.of(self._account.name, ledger) / ledger.cap

    def _limited(self) -> PublicState:
        with self._engaged() as engine:
            return engine.limited(self._account)

    def _do_measure(self, request: SessionRequest[Any]) -> Quote:
        what: MeasurementRequest = request.what
        asked, key = what.text, self._key(request.request_id)
        with self._engaged() as engine:

            def quoted() -> Quote:
                return what.quote(engine.limited(self._account))

            if request.dry_run:
                return quoted()
            # A share that was told is its own price.
            most = what.share if request.at_most is None else request.at_most
            return self._bought(engine, (key, asked, what.measured), quoted, most)

    def _key(self, request_id: str | None) -> str | None:
        if request_id is None:
            return None
        require_key(request_id)
        return key_of(self._account.name, request_id)

    def _do_sql_within(self, request: SessionRequest[Any]) -> AnswerTable:
        from pmw.planning.mean_quotes import notes_of
        from pmw.planning.row_quotes import is_of_counts
        from pmw.public.tabulation import Tabulation

        read = self._statement(request.question)
        if read.single_count is not None:
            answer = self._asked_within(replace(request, question=read.single_count))
            return Tabulation(self.state, read).table(self.state, [answer], place=self.place)
        key = self._key(request.request_id)
        width = width_of(request.within)
        counts = is_of_counts(read)
        asked = asked_text("counts within" if counts else "sums within", (), _text_of(key, read), *width)
        with self._engaged() as engine:
            quote = self._bought(engine, (key, asked, None), lambda: self.quote(read, width), request.at_most)
            found = self.tabulate(read, fresh=counts, at_most=0)
            told = () if quote.estimated is None else notes_of(quote, width, found.estimates())
            charged = replace(found.spent, charged=quote.share)
            return replace(found, notes=(*found.notes, *told), spent=charged)

    def _do_ask_within(self, request: SessionRequest[Any]) -> Answer:
        return Answers.of(self.state, [self._asked_within(request)]).shown()[0]

    def _asked_within(self, request: SessionRequest[Any]) -> Answer:
        with self._engaged() as engine:
            read = self._request(request.question, fresh=True, request_id=request.request_id)
            key, width = self._key(read.request_id), width_of(request.within)
            how = tuple(width) if width.relative else width.amount  # as keys of before were tied
            asked = asked_text("counts within", (), read.text, how)

            def quoted() -> Quote:
                return self.quote(read.query, width)

            quote = self._bought(engine, (key, asked, None), quoted, request.at_most)
            answer = engine.answer_untested(read, self._account)
            return replace(answer, spent=replace(answer.spent, charged=quote.share))

    def _bought(
        self,
        engine: Engine,
        tied: tuple[str | None, str, str | None],
        quoted: Callable[[], Quote],
        at_most: Part,
    ) -> Quote:
        """Return a price, once it is paid; ``tied`` is the key, the request's text and what it measures."""
        from pmw.session.ties import tie_of

        key, asked, measured = tied
        quote = engine.tied(measured, key, asked)
        if quote is None:
            quote = quoted()
            if quote.affordable:  # else it is refused for that
                self._account.paying(at_most).require_price(quote.share, self.state.ledger)
            self._pay(engine, quote, tie_of(key, asked, quote))
        return quote

    def _pay(self, engine: Engine, quote: Quote, tie: Tie | None = None) -> None:
        if quote.what is not None and quote.noise is not None:
            engine.measure(Requested(quote.what, quote.noise), self._account, tie)

    def stored(self, question: LinearQuery | Statement) -> Answer | AnswerTable | None:
        """Return the answer to a question that was answered before; None for another one. Nothing is asked.

        Of a statement the counting questions are looked up; the rest is computed from the model, as always.

        Args:
            question: as the parsers of ``queries`` read it.

        Privacy: a function of public state, stored answers and the question. It is not recorded who looked.
        """
        from pmw.public.tabulation import Tabulation
        from queries.statements import Statement

        with self._engaged() as engine:
            if not isinstance(question, Statement):
                found = engine.stored(Requests.of([self._request(question)]))
                return None if found is None else found.shown()[0]
            work = Tabulation(self.state, question, self._pause)
            parts = [self._part(query, False, None) for query, _ in work.questions()]
            answers = engine.stored(Requests.of(parts))
            return None if answers is None else work.table(self.state, answers, self._pause, self.place)

    def _charged_for_values(self) -> float:
        with self._engaged() as engine:
            return engine.charged_for_values(self._account)

    def _forecast(self, asked: Sequence[Asked], statement: Statement | None = None) -> Forecast:
        with self._engaged() as engine:
            requests = list[Request]()
            for query in asked:
                requests.append(self._request(query))
                self._pause(1)
            return engine.forecast(Requests.of(requests), self._account.paying(None, statement))


def _text_of(key: str | None, statement: Statement) -> str:
    if key is not None and not statement.text:
        raise QueryError(
            "request_id is for a statement that has a text; write it in SQL, or leave the key out",
            code="bad_request",
            position="request_id",
        )
    return statement.text


class Analyst(Dialogue):
    """One analyst of a session. Made by ``Session.analyst``.

    Whatever charges the session for this analyst's questions is booked to the name. A test is made only if
    all that it may charge is left both of the session's cap and of the analyst's share. Otherwise the answer
    comes from the model. A round that somebody else's question opened is used without a charge.

    Args:
        session: the session.
        account: the name, and the share of what opening leaves.
        stop: called at the beginning of each turn and within it; what it raises ends the work, and what was
            answered stands.

    Privacy: a share is fairness, and no part of the guarantee: analysts who put their answers together hold
        what the whole cap allows.
    """

    _role = "an analyst"

    def __init__(self, session: Dialogue, account: Account, stop: Callable[[], None] | None = None) -> None:
        self._session, self._turn, self.place = session, session._turn, session.place
        self._account = account
        self._stop = stop

    @property
    def name(self) -> str:
        """The name that charges are booked to."""
        return self._account.name

    @property
    def share(self) -> Fraction | None:
        """The part of what opening leaves that may be charged; None where the cap alone binds."""
        return None if self._account.share is None else self._account.part

    @property
    def most(self) -> Fraction:
        """The part of the session's cap that may be charged."""
        return Fraction(1) if self._account.share is None else self._account.share

    @property
    def state(self) -> PublicState:
        return self._session.state

    @property
    def reader(self) -> QuestionReader:
        """What reads questions, for all analysts of the session."""
        return self._session.reader

    @contextmanager
    def _engaged(self) -> Iterator[Engine]:
        with self._session._engaged() as engine:
            self.look()
            yield engine

    def _open_store(self) -> SessionStore:
        return self._session._open_store()

    def _pause(self, work: int = TURN_WORK) -> None:
        self._session._pause(work)
        self.look()

    def _do_ledger(self, request: SessionRequest[Any]) -> Ledger:
        found = super()._do_ledger(request)
        return replace(found, lines=tuple(line.told_to(self.name) for line in found.lines))

    def _do_history(self, request: SessionRequest[Any]) -> tuple[Activity, ...]:
        found = super()._do_history(request)
        return tuple(replace(one, name=self.name) for one in found)  # who asked it first is not shown

    def close(self) -> None:
        """Do nothing: the session stays open."""

    def __repr__(self) -> str:
        return f"Analyst({self.name!r}, {self._session!r})"
