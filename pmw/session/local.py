"""Local asking: what is answered and given away where the public state is at hand."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.display.elements import table
from pmw.errors import ReleaseError
from pmw.privacy.budget import as_fraction
from pmw.public.answers import Answers
from pmw.public.contract import Contract
from pmw.public.state import PublicState
from pmw.session.asking import Asking, Questions
from pmw.session.requests import Answering, Asked, Deliver, Part, Request, Requests
from pmw.session.session_requests import Result, SessionRequest, width_of
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import parse_sql, part_key

if TYPE_CHECKING:
    import pandas as pd

    from pmw.loop.loop import Forecast
    from pmw.public.export import ExportFormat, RowPlan
    from pmw.public.population import PopulationInterval
    from pmw.public.quotes import Quote
    from pmw.public.tables import AnswerTable
    from pmw.session.explaining import Explanation
    from queries.statements import Statement


class LocalAsking(Asking):
    """The questions of an analyst, where the public state is at hand."""

    place: str | None = None  # as commands name the session: its file or address; None where it has none

    @property
    @abstractmethod
    def state(self) -> PublicState:
        """Everything about the session that may be published."""

    @abstractmethod
    def _limited(self) -> PublicState:
        """Return the state, with as much of the budget left as the analyst may spend."""

    @property
    def contract(self) -> Contract:
        return self.state.contract

    def _shown(self, answering: Answering, statement: Statement | None) -> Answering:
        """Return what answers questions as they are shown; a statement's table withholds its own numbers."""
        if statement is not None:
            return answering

        def answer(requests: Requests, deliver: Deliver | None) -> Answers:
            told = None if deliver is None else lambda found: deliver(found.shown())
            return answering(requests, told).shown()

        return answer

    def schema(self) -> dict[str, Any]:
        from pmw.session.exact import Described

        return Described.of(self.state).to_dict()

    def population_intervals(self, questions: Questions) -> tuple[PopulationInterval | None, ...]:
        from pmw.public.population import PopulationIntervals

        with self._asking():
            intervals = PopulationIntervals(self.state)
            found: list[PopulationInterval | None] = []
            for question in self._listed(questions):
                intervals = intervals.now(self.state)
                found.append(intervals.of(self._request(question).query))
                self._pause(1)
            return tuple(found)

    def do(self, request: SessionRequest[Result]) -> Result:
        found: Result = getattr(self, f"_do_{request.kind.name}")(request)
        return found

    def _do_sql(self, request: SessionRequest[Any]) -> AnswerTable:
        from pmw.public.tabulation import Tabulation

        statement = self._statement(request.question)
        if statement.given:
            return self._in_two_steps(statement, request)
        with self._asking(request.at_most, statement) as answer:
            work = Tabulation(self.state, statement, self._pause)
            asked = work.questions(request.request_id)
            parts = [self._part(query, request.fresh, key) for query, key in asked]
            with self._watched(len(parts)) as told:
                answers = answer(Requests.of(parts), told)
            table = work.table(self.state, answers, self._pause, self.place)  # the state after them
            charged = table.spent.charged + self._charged_for_values()
            return replace(table, spent=replace(table.spent, charged=charged))

    def _in_two_steps(self, statement: Statement, request: SessionRequest[Any]) -> AnswerTable:
        """Answer a statement whose condition has the answers of others."""
        numbers, notes, charged = [], list[str](), Fraction(0)
        for place, one in enumerate(statement.given, 1):
            key, left = part_key(request.request_id, -place), _left_of(request.at_most, charged)
            table = self._do_sql(replace(request, question=one, request_id=key, at_most=left))
            (found,) = table.estimates()
            charged += Fraction(table.spent.charged)
            low, high = found.interval or (-math.inf, math.inf)
            if found.value is None or not found.is_promised or not math.isfinite(high - low):
                paid = f" (asking it charged {float(charged):.2%} of the budget)" if charged else ""
                way = "ask it by itself, and measure what it rests on"
                message = f"nothing is promised of the number that a sub-query gives{paid}; {way}"
                raise QueryError(message, code="unsupported")
            numbers.append((low, found.value, high))
            told = f"the sub-query's answer {found.value:,.6g} is between {low:,.6g} and {high:,.6g}"
            if table.withholds:  # it may tell what this table withholds
                told = "the sub-query's answer is within its bar"
            notes.append(f"{told} with {table.confidence:.0%} confidence; the bars hold where that is so")
        read = parse_sql(statement.text, self.domain, numbers)
        left = _left_of(request.at_most, charged)
        table = self._do_sql(replace(request, question=read, at_most=left))
        spent = replace(table.spent, charged=table.spent.charged + float(charged))
        return replace(table, notes=(*notes, *table.notes), spent=spent)

    def _charged_for_values(self) -> float:
        """Return what was charged for the values of a statement that was just answered."""
        return 0.0

    def _do_explain(self, request: SessionRequest[Any]) -> Explanation:
        from pmw.public.tabulation import Tabulation
        from pmw.session.explaining import explained
        from queries.statements import Statement

        read = self._read(request.question)
        is_whole = isinstance(read, Statement)
        statement = read if isinstance(read, Statement) else Statement.count_by(self._request(read).query)
        with self._asking():
            work = Tabulation(self.state, statement, self._pause)
            asked = [query for query, _ in work.questions()]
            self._pause(len(asked))
            return explained(
                self._limited(), asked, work.left_out, self._forecast(asked, statement if is_whole else None)
            )

    def _do_forecast(self, request: SessionRequest[Any]) -> Forecast:
        from pmw.public.tabulation import Tabulation
        from queries.statements import Statement

        read = self._read(request.question)
        with self._asking():
            if not isinstance(read, Statement):
                return self._forecast([read])
            work = Tabulation(self.state, read, self._pause)
            return self._forecast([query for query, _ in work.questions()], read)

    @abstractmethod
    def _forecast(self, asked: Sequence[Asked], statement: Statement | None = None) -> Forecast:
        """Return what counting questions, those of a statement or single ones, could charge at most."""

    def _do_quote(self, request: SessionRequest[Any]) -> Quote:
        from pmw.planning.mean_quotes import quote_aggregate
        from pmw.planning.row_quotes import is_of_counts, quote_statement, quote_within
        from queries.statements import Statement

        read = self._read(request.question)
        if isinstance(read, Statement) and read.single_count is not None:
            read = read.single_count
        with self._asking():
            if not isinstance(read, Statement):
                return quote_within(self._limited(), self._request(read).query, request.within)
            quote = quote_statement if is_of_counts(read) else quote_aggregate
            return quote(self._limited(), read, width_of(request.within))

    def _part(self, query: LinearQuery, fresh: bool, request_id: str | None) -> Request:
        self._pause(1)
        self._require_own(query.domain)
        return Request(query, query.to_json(), request_id, fresh)

    @abstractmethod
    def _published(self, refine: bool) -> PublicState:
        """Return the public state, its model fitted further if that is asked for."""

    @abstractmethod
    def _write_model(self, target: Path, *, force: bool) -> dict[str, Any]:
        """Write a model file, and return what it is."""

    def csv_parts(self, plan: RowPlan) -> Iterator[bytes]:
        """Return the CSV file that ``export`` writes, in parts; free. Others use the session between them."""
        from pmw.public.export import draw_rows

        return draw_rows(self._published(refine=False), plan).csv_parts()

    def _drawn(self, plan: RowPlan, *, refine: bool) -> pd.DataFrame:
        from pmw.public.export import draw_rows

        return draw_rows(self._published(refine), plan).frame()

    def _written(
        self, target: Path, form: ExportFormat, plan: RowPlan | None, *, force: bool, refine: bool
    ) -> dict[str, Any]:
        from pmw.public.export import ExportFormat, export

        if form is not ExportFormat.MODEL:
            state = self._published(refine)
            return export(state, target, plan, format=form.value, force=force, refined=refine)
        if refine or plan is not None:
            raise ReleaseError("a model is written as it is; leave out refine, and how rows are drawn")
        return self._write_model(target, force=force)

    def _repr_html_(self) -> str:
        from pmw.public.status import budget_meter, status_rows

        status = self.status()
        return str(budget_meter(status) + table(self._caption, (), status_rows(self.contract, status)))

    @property
    def _caption(self) -> str:
        return f"{type(self).__name__} over {self.domain.name}"


def _left_of(at_most: Part, charged: Fraction) -> Part:
    return at_most if at_most is None else max(as_fraction(at_most, "at_most") - charged, Fraction(0))
