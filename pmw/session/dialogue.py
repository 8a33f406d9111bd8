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
from typing import TYPE_CHECKING

from pmw.privacy.budget import Number, as_fraction
from pmw.public.answer import Answer
from pmw.public.answers import Answers, concatenated
from pmw.public.codec import dumps
from pmw.public.state import PublicState
from pmw.session.accounts import SESSION, Account, Activity, Booked, load_activity
from pmw.session.asking import Asked, LocalAsking, Questions
from pmw.session.engine import Engine
from pmw.session.loading import load_texts, read_question
from pmw.session.requests import Answering, Deliver, Request, Requests, key_of
from pmw.session.store import SessionStore
from pmw.session.turns import TURN_WORK, Turns
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import parse_sql, require_key
from queries.reader import QuestionReader
from queries.workloads import Workload

if TYPE_CHECKING:
    from pmw.loop import Forecast
    from pmw.planning.heads import HeadsQuote
    from pmw.planning.sum_quotes import SumQuote
    from pmw.public.quotes import Quote, Within
    from pmw.public.tables import AnswerTable
    from pmw.session.explaining import Explanation
    from pmw.session.journal import Tie
    from pmw.session.ties import Price
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
    def _asking(self) -> Iterator[Answering]:
        with self._engaged() as engine:
            yield partial(self._answer, engine)

    @contextmanager
    def turn(self) -> Iterator[Callable[[int], None]]:
        """Hold the session for other work, and return what counts this in questions, and gives way."""
        with self._engaged():
            yield self._pause

    def require_keys(self, questions: Iterable[Asked]) -> None:
        """Refuse idempotency keys that were used for other questions; free.

        Raises:
            QueryError: one was.
        """
        with self._engaged() as engine:
            for question in questions:
                engine.require_keys(Requests.of([self._request(question)]), self._account)
                self._pause(1)

    def _answer(self, engine: Engine, requests: Requests, deliver: Deliver | None) -> Answers:
        """Answer questions in order, where threads share the session some in each turn: others go between."""
        is_shared = self._turn.is_shared or self._stop is not None
        size = TURN_WORK if is_shared else max(1, len(requests))
        for start in range(0, len(requests), size) if len(requests) > size else ():
            some = requests.between(start, start + size)
            if some.request_ids:  # before anything is asked
                engine.require_keys(some, self._account)
                self._pause()
        parts, done = list[Answers](), 0
        while done < len(requests) or not parts:
            some = requests.between(done, done + size)
            parts.append(engine.answer(some, deliver, self._account, lambda: self._turn.awaited))
            done += len(parts[-1])
            if done < len(requests):
                self._pause()
        return concatenated(parts, requests.questions)

    def ask_all(
        self, questions: Questions, *, fresh: bool = False, deliver: Deliver | None = None
    ) -> Answers:
        """Answer questions in order; see ``Asking``. A workload of ranges makes no question by itself."""
        if not isinstance(questions, Workload) or questions.boxes is None:
            return super().ask_all(questions, fresh=fresh, deliver=deliver)
        with self._asking() as answer, self._watched(len(questions), deliver) as told:
            parts = list[Answers]()
            for boxes in questions.boxes():
                self._require_own(boxes.domain)
                parts.append(answer(Requests.of_questions(boxes, fresh=fresh), told))
        return concatenated(parts, questions)

    def history(self, most: int = 100) -> tuple[Activity, ...]:
        """Return the newest answered questions, the newest first: an analyst's own, or a session's all; free.

        Args:
            most: how many at most.
        """
        with self._turn:
            return load_activity(self._open_store(), self.domain, self._account.name or None, most)

    def asked(self) -> tuple[LinearQuery, ...]:
        """Return the distinct questions that were answered, in the order of their first answers; free.

        They are an analyst's own, or a session's all.
        """
        with self._turn:
            texts, domain = load_texts(self._open_store(), self._account.name), self.domain
            return tuple(read_question(text, domain) for text in texts)

    def asked_texts(self) -> tuple[str, ...]:
        """Return the canonical texts of the questions of ``asked``; free."""
        with self._turn:
            return load_texts(self._open_store(), self._account.name)

    def measure(
        self, names: str | Sequence[str], *, dry_run: bool = False, request_id: str | None = None
    ) -> Quote:
        """Measure the counts of every combination of some attributes' values now, under the session's cap.

        The noise is that of a marginal that a test measures. What open rounds have reserved stays reserved.

        Args:
            names: one attribute, or several.
            dry_run: tell the price alone; free, and of no key.
            request_id: idempotency key, for safe retries: the same key measures and charges once, and gets
                the same quote again, in a closed session too.

        Returns:
            What was measured, its price and its bar.

        Raises:
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: there is no such marginal, or it has too many cells; or the key was used for something
                else. Nothing is spent.
            SessionError: the session measures nothing on request.
            StoreError: it could not be made durable; nothing was released.
        """
        from pmw.public import quotes

        scope = (names,) if isinstance(names, str) else tuple(names)
        key, asked = self._key(request_id, dry_run=dry_run), _asked("counts", scope)
        with self._engaged() as engine:
            earlier: Quote | None = engine.tied("counts", key, asked)
            if earlier is not None:
                return earlier
            quote = quotes.quote_marginal(engine.limited(self._account), scope)
            if not dry_run:
                self._pay(quote, _tied(key, asked, quote))
            return quote

    def measure_sum(  # noqa: PLR0913 - each is a choice of its own
        self,
        name: str,
        by: str | Sequence[str] = (),
        *,
        share: Number | None = None,
        within: Within | float | str | None = None,
        squares: bool = False,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> SumQuote:
        """Measure the sums of an attribute's values now, by the values of others, under the session's cap.

        Means and sums of these groups are bounded by it from then on. Values beyond the declared ends count
        as the ends.

        Args:
            name: an attribute that the schema gives a resolution.
            by: one attribute, or several; none for one sum of everybody.
            share: the part of the budget that is paid; 2 % where neither this nor ``within`` is given.
            within: how far the mean of a group of average size may be off: a number, or a part of the least
                that the mean of everybody may be.
            squares: the sums of squares are measured too, for variances and standard deviations.
            dry_run: tell the price alone; free, and of no key.
            request_id: idempotency key; see ``measure``.

        Returns:
            What was measured, its price and its bar.

        Raises:
            BudgetError: the share or the width is out of range.
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: the values are not summed, or there are too many groups; or the key was used for
                something else. Nothing is spent.
            SessionError: the session measures nothing on request.
            StoreError: it could not be made durable; nothing was released.
        """
        from pmw.planning.sum_quotes import quote_sums
        from pmw.public.quotes import Within

        names = (by,) if isinstance(by, str) else tuple(by)
        part = None if share is None else as_fraction(share, "share")
        width = None if within is None else tuple(Within.of(within))
        key, asked = self._key(request_id, dry_run=dry_run), _asked("sums", names, name, part, width, squares)
        with self._engaged() as engine:
            earlier: SumQuote | None = engine.tied("sums", key, asked)
            if earlier is not None:
                return earlier
            state = engine.limited(self._account)
            quote = quote_sums(state, name, by, share=share, within=within, squares=squares)
            if not dry_run:
                engine.measure_sum(quote, self._account, _tied(key, asked, quote))
            return quote

    def measure_heads(
        self,
        by: str | Sequence[str] = (),
        *,
        share: Number | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> HeadsQuote:
        """Measure how many persons have a kept record with each value of some attributes, now.

        ``COUNT(DISTINCT id)`` of these groups is bounded by it from then on.

        Args:
            by: one attribute, or several; none for one number of all persons.
            share: the part of the budget that is paid; 2 % unless told.
            dry_run: tell the price alone; free, and of no key.
            request_id: idempotency key; see ``measure``.

        Returns:
            What was measured, its price and its bar.

        Raises:
            BudgetError: the share is out of range.
            BudgetExhaustedError: the price is not left; nothing is spent.
            DataError: the table does not tell persons apart; nothing is spent.
            QueryError: persons are not counted apart from records, or there are too many groups; or the key
                was used for something else. Nothing is spent.
            SessionError: the session measures nothing on request.
            StoreError: it could not be made durable; nothing was released.
        """
        from pmw.planning import heads

        names = (by,) if isinstance(by, str) else tuple(by)
        part = None if share is None else as_fraction(share, "share")
        key, asked = self._key(request_id, dry_run=dry_run), _asked("persons", names, part)
        with self._engaged() as engine:
            earlier: HeadsQuote | None = engine.tied("persons", key, asked)
            if earlier is not None:
                return earlier
            state = engine.limited(self._account)
            quote = heads.quote_heads(state, state.domain.scope(names), share=part)
            if not dry_run:
                engine.measure_heads(quote, self._account, _tied(key, asked, quote))
            return quote

    def _key(self, request_id: str | None, *, dry_run: bool) -> str | None:
        """Return the key that a measurement is tied to; None for none.

        Raises:
            QueryError: it is no key.
        """
        if request_id is None or dry_run:
            return None
        require_key(request_id)
        return key_of(self._account.name, request_id)

    def quote_aggregate(self, statement: str | Statement, within: Within | float | str) -> SumQuote:
        """Return the smallest price at which the bars of a mean or a sum are at most so wide; free.

        Args:
            statement: with one AVG or SUM of an attribute's numbers, and no other aggregate.
            within: half-width of every group's bar: a number, or a part of the least that each may be.

        Raises:
            QueryError: it is no such statement, or no price gives such bars.
            SessionError: the session measures nothing on request.
        """
        from pmw.planning.sum_quotes import quote_aggregate
        from pmw.public.quotes import Within

        read = parse_sql(statement, self.domain) if isinstance(statement, str) else statement
        with self._engaged() as engine:
            return quote_aggregate(engine.limited(self._account), read, Within.of(within))

    def sql_within(
        self,
        statement: str | Statement,
        within: Within | float | str,
        *,
        request_id: str | None = None,
    ) -> AnswerTable:
        """Answer a statement with a mean or a sum within bars of a width, and pay their price, if any.

        Its counting questions are asked as those of any statement are; then its bars are looked at. What was
        paid for may still be wider than was foreseen: then repeating pays again, but not under a key.

        Args:
            statement: see ``quote_aggregate``.
            within: likewise.
            request_id: idempotency key of what is paid, for safe retries: the same key pays once, and gets
                the answer as it is known by then.

        Raises:
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: it is no such statement, or no price gives such bars; or the key was used for
                something else. Nothing is spent.
            SessionError: the session measures nothing on request.
            StoreError: it could not be made durable; nothing was released.
        """
        from pmw.public.quotes import Within

        read = parse_sql(statement, self.domain) if isinstance(statement, str) else statement
        key = self._key(request_id, dry_run=False)
        asked = _asked("sums within", (), _text_of(key, read), *Within.of(within))
        with self._engaged() as engine:
            engine.tied("sums", key, asked)  # of something else it is refused before anything is asked
            found = self.tabulate(read)  # its counts may be asked for first, as of any statement
            if engine.tied("sums", key, asked) is not None:  # perhaps meanwhile, by another thread
                return found
            quote = self.quote_aggregate(read, within)
            if not quote.needed:
                return found
            engine.measure_sum(quote, self._account, _tied(key, asked, quote))
            return self.tabulate(read)

    def quote(self, question: Asked, within: float) -> Quote:
        """Return the smallest price at which the bar of a question is at most so many records; free.

        Args:
            question: a where-text, a structured condition, or a query.
            within: half-width of the bar that is wanted, in records.

        Raises:
            BudgetError: the width is not positive and finite.
            QueryError: no measurement gives the question such a bar.
            SessionError: the session measures nothing on request.
        """
        from pmw.public import quotes

        with self._engaged() as engine:
            query = self._request(question).query
            return quotes.quote_question(engine.limited(self._account), query, within)

    def ask_within(self, question: Asked, within: float, *, request_id: str | None = None) -> Answer:
        """Answer one question within a bar of so many records, and pay its price where there is one.

        No test is made. Where the present bar suffices, the answer is free, and a key is tied to nothing.

        Args:
            question: a where-text, a structured condition, or a query.
            within: half-width of the bar that is wanted, in records.
            request_id: idempotency key of what is paid; see ``sql_within``. A question's own counts as one.

        Raises:
            BudgetError: the width is not positive and finite.
            BudgetExhaustedError: the price is not left; nothing is spent.
            QueryError: no measurement gives the question such a bar; or the key was used for something else.
                Nothing is spent.
            SessionError: the session measures nothing on request.
            StoreError: it could not be made durable; nothing was released.
        """
        from pmw.public.quotes import Within

        with self._engaged() as engine:
            request = self._request(question, fresh=True, request_id=request_id)
            key = self._key(request.request_id, dry_run=False)
            asked = _asked("counts within", (), request.text, Within.records(within))
            if engine.tied("counts", key, asked) is None:
                quote = self.quote(request.query, within)
                self._pay(quote, _tied(key, asked, quote))
            return engine.answer_untested(request, self._account)

    def _pay(self, quote: Quote, tie: Tie | None = None) -> None:
        if quote.noise is not None:
            with self._engaged() as engine:
                engine.measure(quote.scope, quote.noise, self._account, tie)

    def stored(self, question: LinearQuery | Statement) -> Answer | AnswerTable | None:
        """Return the answer to a question that was answered before; None for another one. Nothing is asked.

        Of a statement the counting questions are looked up; the rest is computed from the model, as always.

        Args:
            question: as the parsers of ``queries`` read it.

        Privacy: a function of public state, stored answers and the question. It is not recorded who looked.
        """
        from pmw.public.tables import Tabulation
        from queries.statements import Statement

        with self._engaged() as engine:
            if not isinstance(question, Statement):
                found = engine.stored(Requests.of([self._request(question)]))
                return None if found is None else found[0]
            work = Tabulation(self.state, question, self._pause)
            parts = [self._part(query, False, None) for query, _ in work.questions()]
            answers = engine.stored(Requests.of(parts))
            return None if answers is None else work.table(self.state, answers, self._pause)

    def forecast(self, question: Asked | Statement) -> Forecast:
        """Return what answering a question could charge at most, as things stand; free.

        Args:
            question: a where-text, a structured condition, a query, or a statement as a text or read before.

        Privacy: a function of public state, stored answers and the question.
        """
        from pmw.public.tables import Tabulation
        from queries.statements import Statement

        read = self._read(question)
        with self._engaged() as engine:
            queries: list[Asked] = [] if isinstance(read, Statement) else [read]
            if isinstance(read, Statement):
                queries += [query for query, _ in Tabulation(self.state, read, self._pause).questions()]
            requests = list[Request]()
            for query in queries:
                requests.append(self._request(query))
                self._pause(1)
            return engine.forecast(Requests.of(requests), self._account)

    def explain(self, question: Asked | Statement) -> Explanation:
        """Return which counts a question becomes, what is held of them, and what they may charge; free.

        Args:
            question: a statement or a condition, as a text or as the parsers of ``queries`` read it.

        Raises:
            QueryError: the statement is refused.

        Privacy: a function of public state, stored answers and the question.
        """
        from pmw.public.tables import Tabulation
        from pmw.session.explaining import explained
        from queries.statements import Statement

        read = self._read(question)
        statement = read if isinstance(read, Statement) else Statement.count_by(self._request(read).query)
        with self._engaged() as engine:
            work = Tabulation(self.state, statement, self._pause)
            asked = [query for query, _ in work.questions()]
            self._pause(len(asked))
            return explained(engine.limited(self._account), asked, work.left_out, self.forecast(statement))


def _tied(key: str | None, asked: str, quote: Price) -> Tie | None:
    from pmw.session.ties import tie_of

    return tie_of(key, asked, quote)


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


def _asked(what: str, by: Sequence[str], *how: object) -> str:
    """Return the canonical text of a request to measure; the order of its attributes says nothing."""
    return dumps([what, sorted(map(str, by)), *(one if one is None else str(one) for one in how)])


class Analyst(Dialogue):
    """One analyst of a session. Made by ``Session.analyst``.

    Whatever charges the session for this analyst's questions is booked to the name. A test is made only if
    all that it may charge is left both of the session's cap and of the analyst's share. Otherwise the answer
    comes from the model. A round that somebody else's question opened is used without a charge.

    Args:
        session: the session.
        account: the name, and the share of the session's whole cap.
        stop: called at the beginning of each turn and within it; what it raises ends the work, and what was
            answered stands.

    Privacy: a share is fairness, and no part of the guarantee: analysts who put their answers together hold
        what the whole cap allows.
    """

    def __init__(self, session: Dialogue, account: Account, stop: Callable[[], None] | None = None) -> None:
        self._session, self._turn = session, session._turn
        self._account = account
        self._stop = stop

    @property
    def name(self) -> str:
        """The name that charges are booked to."""
        return self._account.name

    @property
    def share(self) -> Fraction | None:
        """The part of the session's cap that may be charged; None where the cap alone binds."""
        return self._account.share

    @property
    def state(self) -> PublicState:
        """Everything about the session that may be published."""
        return self._session.state

    @property
    def reader(self) -> QuestionReader:
        """What reads questions, for all analysts of the session."""
        return self._session.reader

    def budget(self) -> Booked:
        """Return what was charged for this analyst, and how many questions were asked."""
        with self._engaged() as engine:
            found = {one.name: one for one in engine.bookings.listed(engine.state.ledger)}
            one = found.get(self.name, Booked(self.name, Fraction(0), 0))
            return replace(one, share=self.share)

    @contextmanager
    def _engaged(self) -> Iterator[Engine]:
        with self._session._engaged() as engine:
            self._look()
            yield engine

    def _open_store(self) -> SessionStore:
        return self._session._open_store()

    def _pause(self, work: int = TURN_WORK) -> None:
        self._session._pause(work)
        self._look()

    def _look(self) -> None:
        if self._stop is not None:
            self._stop()

    def __repr__(self) -> str:
        return f"Analyst({self.name!r}, {self._session!r})"
