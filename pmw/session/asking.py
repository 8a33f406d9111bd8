"""Asking: every form of a question, as counting questions with one answer each, and what one may cost.

A session, one analyst of it, a session of a service and a model have the methods of ``Asking``, and no others
that users need. What answers counting questions and statements, here or far away, gets all other forms from
here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from numpy.typing import ArrayLike

from pmw.display.progress import Progress
from pmw.errors import BudgetError
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.session.requests import Answering, Asked, Deliver, Key, Part, Request, Requests, Width
from pmw.session.session_requests import Kinds, MeasurementRequest, Publishing, SessionRequest
from pmw.session.turns import TURN_WORK
from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import Question, is_statement, parse_sql, parse_where
from queries.questions import Products
from queries.reader import QuestionReader, conditions_in_rows, questions_in_text

if TYPE_CHECKING:
    import pandas as pd

    from pmw.loop.loop import Forecast
    from pmw.privacy.budget import Number
    from pmw.public.population import PopulationInterval
    from pmw.public.quotes import Quote
    from pmw.public.tables import AnswerTable
    from pmw.session.accounts import Activity
    from pmw.session.explaining import Explanation
    from queries.statements import Statement

Questions: TypeAlias = "Iterable[Asked] | pd.DataFrame | PathLike[str]"
Where: TypeAlias = str | Mapping[str, Any]

_READ = 64  # questions that are read before other threads' work is looked at


class Asking(Publishing):
    """The questions of an analyst.

    What asks or measures raises ``QueryError`` for what is refused, ``PriceError`` for what could charge more
    than it may, ``BudgetExhaustedError`` for a price that is not left, ``SessionError`` where the session
    measures nothing on request, ``SessionLockedError`` where another process has taken it over, and
    ``StoreError`` where something could not be made durable. Nothing is asked, released or spent then. Of
    several questions, those before a ``StoreError`` are answered, and stay valid.

    Where many take longer than a second, a line on standard error tells how many were answered: in a terminal
    or a notebook, in the main thread. ``progress = False`` switches it off.
    """

    progress: bool = True
    _reader: QuestionReader | None = None
    _alike: Domain | None = None  # what questions were last found to be made for

    answers_whole_statements = False  # one by one, for what they come to is not known here

    @abstractmethod
    def _asking(
        self, at_most: Part = None, statement: Statement | None = None
    ) -> AbstractContextManager[Answering]:
        """Return what answers counting questions in order, or a whole statement's, while nobody else asks."""

    def _pause(self, work: int = TURN_WORK) -> None:  # a model in memory has no turns
        """Count work of this turn, in questions; after enough of it other threads go first."""

    @property
    def reader(self) -> QuestionReader:
        """What reads questions over the declared attributes, and remembers their comparisons."""
        if self._reader is None:
            self._reader = QuestionReader(self.domain)
        return self._reader

    def ask(
        self, question: Asked, *, fresh: bool = False, request_id: Key = None, at_most: Part = None
    ) -> Answer:
        """Answer one question.

        Args:
            question: a where-text, a structured condition, or a query.
            fresh: ask a newer model, or for a test that was not made, where there is a stored answer.
            request_id: idempotency key, for safe retries; the same key gets the same answer.
            at_most: the part of the whole budget that it may charge, in [0, 1]. It is held against the most
                that it could, before anything is drawn. 0 takes the free answer. Unless told it is a tenth of
                the share, or of what is left for all where that is less; without a share it is all of it.

        Raises:
            PriceError: it could charge more; nothing is asked or spent.
            QueryError: the question is refused; nothing is spent.
            SessionLockedError: another process has taken over the session; nothing was released.
            StoreError: the answer could not be made durable; nothing was released.
        """
        how: dict[str, Any] = {"fresh": fresh, "request_id": request_id, "at_most": at_most}
        return self.do(SessionRequest(Kinds.ASK, question, **how))

    def _do_ask(self, request: SessionRequest[Any]) -> Answer:
        with self._asking(request.at_most) as answer:
            read = self._request(request.question, fresh=request.fresh, request_id=request.request_id)
            return answer(Requests.of([read]), None)[0]

    def ask_all(
        self,
        questions: Questions,
        *,
        fresh: bool = False,
        deliver: Deliver | None = None,
        at_most: Part = None,
    ) -> Answers:
        """Answer questions in order.

        Args:
            questions: where-texts, structured conditions, queries, or a workload; a pandas table with a
                column ``where`` of texts, or one with a column for each attribute asked about, whose values
                records must have; or the path of a file of conditions, statements and JSON Lines.
            fresh: ask a newer model, or for tests that were not made, where there are stored answers.
            deliver: called with the next answers, in order, as soon as they are durable.
            at_most: what each question may charge; see ``ask``.

        Raises:
            OSError: a file of questions cannot be read; nothing is spent.
            PriceError, QueryError: of one question; none is answered then, and nothing is spent.
        """
        with self._asking(at_most) as answer:
            requests, texts = [], dict[int, str]()
            for number, question in enumerate(self._listed(questions), start=1):
                requests.append(self._request(question, fresh=fresh, texts=texts))
                if number % _READ == 0:
                    self._pause(_READ)
            with self._watched(len(requests), deliver) as told:
                return answer(Requests.of(requests), told)

    def answer_arrays(
        self,
        attributes: str | Sequence[str],
        first: ArrayLike,
        last: ArrayLike,
        *,
        fresh: bool = False,
        at_most: Part = None,
    ) -> Answers:
        """Answer many questions about ranges of the same attributes, as arrays.

        Each counts the records whose cells lie in a range of every attribute. They get what ``ask_all`` of
        the same questions in the same order gives. The cell of a value is
        ``domain[name].encode([value])[0]``.

        Args:
            attributes: one attribute, or several.
            first: int, shape (n, attributes), or (n,) of one attribute: the first cell of each range.
            last: int, the same of the last cells, inclusive.
            fresh: ask a newer model, or for tests that were not made, where there are stored answers.
            at_most: see ``ask_all``.

        Raises:
            ScopeError: an attribute is unknown, shapes differ, or a range is empty or outside; nothing is
                answered then.
            DataError: a test needs the table, and it cannot be read or differs.
        """
        named = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        ranges = Products.of_ranges(self.domain, named, first, last)
        with self._asking(at_most) as answer, self._watched(len(ranges)) as told:
            return answer(Requests.of_questions(ranges, fresh=fresh), told)

    def population_interval(self, question: Asked) -> PopulationInterval | None:
        """Return the interval of one question for a population; see ``population_intervals``."""
        return self.population_intervals([question])[0]

    @abstractmethod
    def population_intervals(self, questions: Questions) -> tuple[PopulationInterval | None, ...]:
        """Return intervals for the population that the table is a simple random sample of; free.

        Each holds the fraction of the population that the condition holds for, with the session's confidence,
        for a question that was chosen without looking at anything about the sample. It rests on what is known
        now: ask the question first. It is None where an accuracy contract refuses the count.

        Args:
            questions: conditions, as of ``ask_all``.

        Raises:
            OSError: a file of questions cannot be read.
            QueryError: a question is refused, or has other weights than 0 and 1.

        Privacy: a function of public state and of the questions.
        """

    def sql(self, statement: str, *, fresh: bool = False, at_most: Part = None) -> AnswerTable:
        """Answer a statement such as ``SELECT sex, AVG(age) FROM people WHERE member GROUP BY sex``.

        Every declared value has its group. Each COUNT(*) of a group is one question and has its own interval;
        other aggregates come from the model, after counting questions were asked.

        Args:
            statement: the text.
            fresh: ask a newer model, or for tests that were not made, where there are stored answers.
            at_most: what the statement as a whole may charge; see ``ask``.

        Raises:
            QueryError: the statement is refused; nothing is spent, but for a number in its condition of which
                nothing is promised then.
        """
        return self.do(SessionRequest(Kinds.SQL, statement, fresh=fresh, at_most=at_most))

    def tabulate(
        self, statement: Statement, *, fresh: bool = False, request_id: Key = None, at_most: Part = None
    ) -> AnswerTable:
        """Answer a statement that was read before.

        Its counting questions are asked like any others. What its aggregates come to is then a function of
        the public state: nothing else touches the table, and nothing else is spent.

        Args:
            statement: as ``parse_sql`` reads it.
            fresh: ask a newer model, or for tests that were not made, where there are stored answers.
            request_id: idempotency key of the counting questions.
            at_most: see ``sql``.
        """
        how: dict[str, Any] = {"fresh": fresh, "request_id": request_id, "at_most": at_most}
        return self.do(SessionRequest(Kinds.SQL, statement, **how))

    def mean(
        self, name: str, where: Where = "", by: str | Sequence[str] = (), *, at_most: Part = None
    ) -> AnswerTable:
        """Answer the mean of an attribute's numbers, for each combination of declared values of others.

        Args:
            name: an attribute that holds numbers.
            where: a where-text or a structured condition; an empty one means everybody.
            by: one attribute, or several.
            at_most: see ``sql``.
        """
        return self._tabulate("mean", name, where, _listed(by), at_most=at_most)

    def sum(
        self, name: str, where: Where = "", by: str | Sequence[str] = (), *, at_most: Part = None
    ) -> AnswerTable:
        """Answer the sum of an attribute's numbers; see ``mean``."""
        return self._tabulate("sum", name, where, _listed(by), at_most=at_most)

    def quantile(
        self,
        name: str,
        part: float = 0.5,
        where: Where = "",
        by: str | Sequence[str] = (),
        *,
        at_most: Part = None,
    ) -> AnswerTable:
        """Answer a quantile of an attribute's numbers, ``part`` in [0, 1]; see ``mean``."""
        return self._tabulate("quantile", name, where, _listed(by), part=part, at_most=at_most)

    def _tabulate(
        self, kind: str, name: str, where: Where, by: Sequence[str], *, part: float = 0.5, **options: Any
    ) -> AnswerTable:
        """Answer one aggregate by groups: ``count``, ``mean``, ``sum`` or ``quantile``; see ``tabulate``."""
        query = parse_where(where, self.domain)
        return self.tabulate(aggregate_statement(kind, name, query, by, part), **options)

    def group_by(
        self, names: str | Sequence[str], where: Where = "", *, fresh: bool = False, at_most: Part = None
    ) -> AnswerTable:
        """Answer how many records satisfy a condition, for each combination of declared values it leaves.

        Args:
            names: one attribute, or several.
            where: a where-text or a structured condition; an empty one counts everybody.
            fresh: ask a newer model, or for tests that were not made, where there are stored answers.
            at_most: see ``sql``.
        """
        return self._tabulate("count", "", where, _listed(names), fresh=fresh, at_most=at_most)

    def forecast(self, question: Asked | Statement) -> Forecast:
        """Return what answering a question could charge at most, as things stand; free.

        Args:
            question: a where-text, a structured condition, a query, or a statement as a text or read before.

        Privacy: a function of public state, stored answers and the question.
        """
        return self.do(SessionRequest(Kinds.FORECAST, question))

    def explain(self, question: Asked | Statement) -> Explanation:
        """Return which counts a question becomes, what is held of them, and what they may charge; free.

        Args:
            question: a statement or a condition, as a text or as the parsers of ``queries`` read it.

        Privacy: a function of public state, stored answers and the question.
        """
        return self.do(SessionRequest(Kinds.EXPLAIN, question))

    def quote(self, question: Asked | Statement, within: Width) -> Quote:
        """Return the smallest price at which the bars of a question, or of a statement, are so wide; free.

        Of a question it is that of its own number, or of the whole marginal of its attributes where that
        costs at most twice as much; a statement of one COUNT(*) has the price of its question.

        Args:
            question: a where-text, a structured condition, or a query. Or a statement with counts alone, or
                with one AVG or SUM of an attribute's numbers, and no other aggregate.
            within: half-width of the bar that is wanted, of a statement in every group: of counts a number of
                records, or a part of all records such as ``1%``; else a number, or such a part of each
                answer. That is a drawn number, so that a little more may miss.

        Raises:
            BudgetError: the width is not positive and finite.
            QueryError: cells do not decide the question, it is no such statement, or no price gives such
                bars.
        """
        return self.do(SessionRequest(Kinds.QUOTE, question, within=within))

    def quote_aggregate(self, statement: str | Statement, within: Width) -> Quote:
        """Return the price of the bars of a statement; see ``quote``."""
        return self.quote(self._statement(statement), within)

    def ask_within(
        self, question: Asked, within: Width, *, request_id: Key = None, at_most: Part = None
    ) -> Answer:
        """Answer one question within a bar of so many records, and pay its price where there is one.

        No test is made. Where the present bar suffices, the answer is free, and a key is tied to nothing.

        Args:
            within: half-width of the bar that is wanted: records, or a part of all records such as ``1%``.
            request_id: idempotency key of what is paid; see ``sql_within``. A question's own counts as one.
            at_most: the highest price that is paid; see ``ask``. At 0 a bar that costs anything is refused.

        Raises:
            BudgetError: the width is not positive and finite.
            QueryError: cells do not decide the question, or no noise is so narrow; or the key was used for
                something else.
        """
        return self.do(
            SessionRequest(Kinds.ASK_WITHIN, question, within=within, request_id=request_id, at_most=at_most)
        )

    def sql_within(
        self, statement: str | Statement, within: Width, *, request_id: Key = None, at_most: Part = None
    ) -> AnswerTable:
        """Answer a statement within bars of a width, and pay their price, if any.

        The counts of all groups are measured together, or the values of their records; no test is made. The
        bar of a mean depends on a number that is drawn: a note tells the widest. It is not bought again.

        Args:
            statement: see ``quote``.
            within: likewise.
            request_id: idempotency key of what is paid, for safe retries: the same key pays once, and gets
                the answer as it is known by then.
            at_most: the highest price that is paid; see ``ask_within``.

        Raises:
            QueryError: it is no such statement, or no price gives such bars; or the key was used for
                something else.
        """
        return self.do(
            SessionRequest(Kinds.SQL_WITHIN, statement, within=within, request_id=request_id, at_most=at_most)
        )

    def measure(
        self,
        what: Asked | Statement | Sequence[Asked | Statement],
        *,
        share: Number | None = None,
        within: Width | None = None,
        dry_run: bool = False,
        request_id: Key = None,
        at_most: Part = None,
    ) -> Quote:
        """Measure counts now, under the session's cap: of attributes, or of questions.

        Of attributes it is the counts of every combination of their values; the noise is that of a marginal
        that a test measures. Of questions, or of a statement of keys and COUNT(*), it is their own numbers,
        together: disjoint ones cost what one does, twice that where records are replaced. What open rounds
        have reserved stays reserved.

        Args:
            what: one attribute, or several; else one question, several, or a statement.
            share: of questions, the part of the budget that is paid; 2 % where neither this nor ``within`` is
                given.
            within: of questions, half-width of each bar; see ``quote``.
            dry_run: tell the price alone; free, and of no key.
            request_id: idempotency key, for safe retries: the same key measures and charges once, and gets
                the same quote again, in a closed session too.
            at_most: the highest price that is paid; see ``ask_within``.

        Returns:
            What was measured, its price and its bar.

        Raises:
            BudgetError: a share or a width is out of range, or both are given.
            QueryError: there is no such marginal, or it has too many cells; or the key was used for something
                else.
        """
        how: dict[str, Any] = {"dry_run": dry_run, "request_id": request_id, "at_most": at_most}
        several = tuple(what) if isinstance(what, Sequence) and not isinstance(what, str) else (what,)
        names = tuple(one for one in several if isinstance(one, str) and self._is_name(one))
        if len(names) == len(several):
            if share is not None or within is not None:
                raise BudgetError("a table of counts has a noise of its own: leave share and within out")
            return self._measured(how, "counts", names)
        return self._measured(how, "questions", (), share, within, self._rows(several))

    def _is_name(self, text: str) -> bool:
        return text in self.domain.names or text.isidentifier() or not text.strip()

    def _rows(self, questions: Iterable[Asked | Statement]) -> tuple[LinearQuery, ...]:
        from pmw.planning.row_quotes import is_of_counts, require_few_rows
        from queries.statements import Statement

        found, groups = dict[str, LinearQuery](), 0
        for question in questions:
            read = self._read(question)
            groups += read.size if isinstance(read, Statement) else 1
            require_few_rows(groups)  # before they are made
            if not isinstance(read, Statement):
                queries = [self._request(read).query]
            elif is_of_counts(read) and read.choices == 1 and all(leaf.is_count for leaf in read.leaves):
                queries = [query for *_, query in read.questions()]
            else:
                raise QueryError(
                    "a statement is measured where its columns are keys and COUNT(*), and all of its groups "
                    "are shown; ask any other within a bar",
                    code="bad_request",
                )
            found |= {query.to_json(): query for query in queries if query.constant}
        return tuple(found.values())

    def measure_sum(  # noqa: PLR0913 - each is a choice of its own
        self,
        name: str,
        by: str | Sequence[str] = (),
        *,
        share: Number | None = None,
        within: Width | None = None,
        squares: bool = False,
        dry_run: bool = False,
        request_id: str | None = None,
        at_most: Part = None,
    ) -> Quote:
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
            dry_run: see ``measure``.
            request_id: see ``measure``.
            at_most: see ``measure``; a share that is told is paid in any case.

        Raises:
            QueryError: the values are not summed, or there are too many groups; see ``measure``.
        """
        how: dict[str, Any] = {"dry_run": dry_run, "request_id": request_id, "at_most": at_most}
        return self._measured(how, "sums", _listed(by), share, within, (), name, squares)

    def measure_heads(
        self,
        by: str | Sequence[str] = (),
        *,
        share: Number | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
        at_most: Part = None,
    ) -> Quote:
        """Measure how many persons have a kept record with each value of some attributes, now.

        ``COUNT(DISTINCT id)`` of these groups is bounded by it from then on.

        Args:
            by: one attribute, or several; none for one number of all persons.
            share: the part of the budget that is paid; 2 % unless told.
            dry_run: see ``measure``.
            request_id: see ``measure``.
            at_most: see ``measure_sum``.

        Raises:
            DataError: the table does not tell persons apart; nothing is spent.
            QueryError: persons are not counted apart from records, or there are too many groups; see
                ``measure``.
        """
        how: dict[str, Any] = {"dry_run": dry_run, "request_id": request_id, "at_most": at_most}
        return self._measured(how, "persons", _listed(by), share)

    def _measured(self, how: Mapping[str, Any], *what: Any) -> Quote:
        """Measure something, or tell its price alone; ``what`` is that of a ``MeasurementRequest``."""
        return self.do(SessionRequest(Kinds.MEASURE, what=MeasurementRequest(*what), **how))

    def history(self, most: int = 100) -> tuple[Activity, ...]:
        """Return the newest answered questions, the newest first: an analyst's own, or a session's all; free.

        Args:
            most: how many at most.
        """
        return self.do(SessionRequest(Kinds.HISTORY, most=most))

    @abstractmethod
    def asked(self) -> tuple[LinearQuery, ...]:
        """Return the distinct questions that were answered, in the order of their first answers; free.

        They are an analyst's own, or a session's all.
        """

    @abstractmethod
    def model(self) -> Asking:
        """Return the session's model as it is now, which answers without the session and is free.

        Raises:
            ReleaseError: the model is too large to be handed out.
        """

    def analyst(
        self,
        name: str,
        share: Fraction | float | None = None,
        *,
        at_most: Part = None,
        stop: Callable[[], None] | None = None,
    ) -> Asking:
        """Return the session as one analyst asks it: charges are booked to the name, up to a share.

        Args:
            name: of the analyst.
            share: the part of what opening leaves of the budget that may be charged for this analyst, in
                [0, 1]; 0 gives free answers alone, None leaves it to the cap. Shares may add up to more
                than 1.
            at_most: what each question may charge in place of a tenth, in [0, 1]; a question may allow
                less, and no more.
            stop: called at the beginning of each turn and within it; what it raises ends the work,
                and what was answered stands.

        Raises:
            BudgetError: the share is not in [0, 1].
            SessionError: the name is empty, or is none.
        """
        self._refuse("ask as somebody else")

    @contextmanager
    def _watched(self, total: int, deliver: Deliver | None = None) -> Iterator[Deliver | None]:
        """Return what is called with the next answers: it tells whoever waits how many there were.

        Privacy: it shows how many answers were delivered, which whoever asks gets at the same moment.
        """
        with Progress("answered", total, wanted=self.progress) as line:

            def told(answers: Answers) -> None:
                if deliver is not None:
                    deliver(answers)
                line.add(len(answers))

            yield told if line.is_watched else deliver

    def _read(self, question: Asked | Statement) -> Asked | Statement:
        return parse_sql(str(question), self.domain) if is_statement(question) else question

    def _statement(self, statement: str | Statement) -> Statement:
        return parse_sql(statement, self.domain) if isinstance(statement, str) else statement

    def _listed(self, questions: Questions) -> Iterable[Asked]:
        if isinstance(questions, str | Mapping):
            raise QueryError(
                "expected several questions, got one; use ask(), or give a list, or a Path of a file",
                code="bad_request",
            )
        if isinstance(questions, PathLike):
            return questions_in_text(questions, self.reader, counts_alone=True)
        if hasattr(questions, "to_dict") and hasattr(questions, "columns"):  # a table of pandas
            return conditions_in_rows(cast("pd.DataFrame", questions))
        return questions

    def _request(
        self,
        question: Asked,
        *,
        fresh: bool = False,
        request_id: str | None = None,
        texts: dict[int, str] | None = None,
    ) -> Request:
        """Return a question as the session takes it.

        Args:
            texts: of questions that were listed before, by their objects, which are often the same.
        """
        if isinstance(question, Request):
            self._require_own(question.query.domain)
            return question
        if isinstance(question, Question):
            request_id = question.request_id or request_id
            if not isinstance(question.query, LinearQuery):
                raise QueryError(
                    "a question with GROUP BY or aggregates has many answers; ask its parts(), or use sql()",
                    code="bad_request",
                )
            query = question.query
        elif isinstance(question, LinearQuery):
            query = question
        else:
            query = self.reader.where(question)
        self._require_own(query.domain)
        text = None if texts is None else texts.get(id(query))
        if text is None:
            text = query.to_json()
            if texts is not None:
                texts[id(query)] = text
        return Request(query, text, request_id, fresh)

    def _require_own(self, domain: Domain) -> None:
        if domain is not self._alike:  # to compare them takes as long as an answer
            if domain.counted != self.domain.counted or domain.person != self.domain.person:
                raise QueryError("the query was made for another domain", code="bad_request")
            self._alike = domain


def aggregate_statement(
    kind: str, name: str, where: LinearQuery, by: Sequence[str], part: float
) -> Statement:
    """Return the statement of one aggregate by groups: ``count``, ``mean``, ``sum`` or ``quantile``."""
    from queries.statements import Statement, statement_of

    return (
        Statement.count_by(where, by) if kind == "count" else statement_of(kind, name, where, by, part=part)
    )


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
