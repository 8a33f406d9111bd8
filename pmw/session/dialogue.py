"""Dialogues: questions and measurements on behalf of one account of a session.

Prices, statements and explanations are imported where they are asked for; see ``pmw.session.session``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from pmw.loop import Requested
from pmw.public.answer import Answer
from pmw.public.answers import Answers, concatenated
from pmw.public.state import PublicState
from pmw.session.accounts import SESSION, Account, Activity, Booked, load_activity
from pmw.session.asking import Asked, Key, LocalAsking, Part, Questions, Width
from pmw.session.engine import Engine
from pmw.session.loading import load_texts, read_question
from pmw.session.requests import Answering, Deliver, Request, Requests, key_of
from pmw.session.store import SessionStore
from pmw.session.turns import TURN_WORK, Turns
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import require_key
from queries.reader import QuestionReader
from queries.workloads import Workload

if TYPE_CHECKING:
    from pmw.loop import Forecast
    from pmw.public.quotes import Quote
    from pmw.public.tables import AnswerTable
    from pmw.session.journal import Tie
    from pmw.session.measurement_requests import MeasurementRequest
    from queries.statements import Statement


class Dialogue(LocalAsking):
    """Questions and measurements on behalf of one account."""

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
            yield partial(self._answer, engine, account)

    @contextmanager
    def turn(self) -> Iterator[Callable[[int], None]]:
        """Hold the session for other work, and return what counts this in questions, and gives way."""
        with self._engaged():
            yield self._pause

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

    def _in_two_steps(self, statement: Statement, *, at_most: Part, **how: Any) -> AnswerTable:
        told = self._account.paying(at_most).told_ceiling  # for all steps together
        return super()._in_two_steps(statement, at_most=told, **how)

    def history(self, most: int = 100) -> tuple[Activity, ...]:
        with self._turn:
            return load_activity(self._open_store(), self.domain, self._account.name or None, most)

    def asked(self) -> tuple[LinearQuery, ...]:
        with self._turn:
            texts, domain = load_texts(self._open_store(), self._account.name), self.domain
            return tuple(read_question(text, domain) for text in texts)

    def asked_texts(self) -> tuple[str, ...]:
        """Return the canonical texts of the questions of ``asked``; free."""
        with self._turn:
            return load_texts(self._open_store(), self._account.name)

    def _limited(self) -> PublicState:
        with self._engaged() as engine:
            return engine.limited(self._account)

    def _measured(
        self, request: MeasurementRequest, request_id: Key, at_most: Part, *, dry_run: bool
    ) -> Quote:
        asked, key = request.text, self._key(request_id, dry_run=dry_run)
        with self._engaged() as engine:

            def quoted() -> Quote:
                return request.quote(engine.limited(self._account))

            if dry_run:
                return quoted()
            most = request.share if at_most is None else at_most  # a share that was told is its own price
            return self._bought(engine, (key, asked, request.measured), quoted, most)

    def _key(self, request_id: str | None, *, dry_run: bool) -> str | None:
        """Return the key that a measurement is tied to; None for none.

        Raises:
            QueryError: it is no key.
        """
        if request_id is None or dry_run:
            return None
        require_key(request_id)
        return key_of(self._account.name, request_id)

    def _require_price(self, quote: Quote, at_most: Part) -> None:
        """Refuse a price that is left, and above what may be charged.

        Raises:
            PriceError: it is.
        """
        if quote.affordable:  # else it is refused for that
            self._account.paying(at_most).require_price(quote.share, self.state.ledger)

    def sql_within(
        self, statement: str | Statement, within: Width, *, request_id: Key = None, at_most: Part = None
    ) -> AnswerTable:
        from pmw.planning.mean_quotes import notes_of
        from pmw.planning.row_quotes import is_of_counts
        from pmw.public.quotes import Within
        from pmw.session.measurement_requests import asked_text

        read, key, width = self._statement(statement), self._key(request_id, dry_run=False), Within.of(within)
        counts = is_of_counts(read)
        asked = asked_text("counts within" if counts else "sums within", (), _text_of(key, read), *width)
        with self._engaged() as engine:
            quote = self._bought(engine, (key, asked, None), lambda: self.quote(read, width), at_most)
            found = self.tabulate(read, fresh=counts, at_most=0)
            told = () if quote.estimated is None else notes_of(quote, width, found.estimates())
            charged = replace(found.spent, charged=quote.share)
            return replace(found, notes=(*found.notes, *told), spent=charged)

    def ask_within(
        self, question: Asked, within: Width, *, request_id: Key = None, at_most: Part = None
    ) -> Answer:
        from pmw.public.quotes import Within
        from pmw.session.measurement_requests import asked_text

        with self._engaged() as engine:
            request = self._request(question, fresh=True, request_id=request_id)
            key = self._key(request.request_id, dry_run=False)
            width = Within.of(within)
            how = tuple(width) if width.relative else width.amount  # as keys of before were tied
            asked = asked_text("counts within", (), request.text, how)

            def quoted() -> Quote:
                return self.quote(request.query, width)

            quote = self._bought(engine, (key, asked, None), quoted, at_most)
            answer = engine.answer_untested(request, self._account)
            return replace(answer, spent=replace(answer.spent, charged=quote.share))

    def _bought(
        self,
        engine: Engine,
        tied: tuple[str | None, str, str | None],
        quoted: Callable[[], Quote],
        at_most: Part,
    ) -> Quote:
        """Return the price of what is measured, or of bars, once it is paid.

        Args:
            engine: in a turn.
            tied: the idempotency key, the canonical text of the request, and what it measures, if one thing.
            quoted: returns the price, as things stand.
            at_most: what may be charged.
        """
        from pmw.session.ties import tie_of

        key, asked, measured = tied
        quote = engine.tied(measured, key, asked)
        if quote is None:
            quote = quoted()
            self._require_price(quote, at_most)
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
                return None if found is None else found[0]
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
    """Return the text of a statement, by which a key knows it.

    Raises:
        QueryError: it was made without one.
    """
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
        """Everything about the session that may be published."""
        return self._session.state

    @property
    def reader(self) -> QuestionReader:
        """What reads questions, for all analysts of the session."""
        return self._session.reader

    def budget(self) -> Booked:
        """Return what was charged for this analyst, what is left, and how many questions were asked."""
        with self._engaged() as engine:
            ledger = engine.state.ledger
            found = {one.name: one for one in engine.bookings.listed(ledger)}
            one = found.get(self.name, Booked(self.name, Fraction(0), 0))
            left = engine.bookings.left(self._account, ledger) / ledger.cap
            return replace(one, share=self._account.share, left=Fraction(0) if engine.state.closed else left)

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

    def __repr__(self) -> str:
        return f"Analyst({self.name!r}, {self._session!r})"
