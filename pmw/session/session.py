"""Sessions: one dialogue between a table and its analysts.

A session opens, asks, resumes and exports; it composes the other folders and decides nothing about privacy
itself. In memory or in a file it behaves alike: both keep their journal in SQLite.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pmw.data import Table
from pmw.errors import SessionError, SessionLockedError
from pmw.loop import refined
from pmw.markup import html_table
from pmw.public import tables
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.export import RowPlan, export, synthetic_frame
from pmw.public.ledger import Ledger
from pmw.public.state import PublicState
from pmw.public.status import Status, status_rows
from pmw.session import loading, verification
from pmw.session.asks import Ask
from pmw.session.engine import Deliver, Engine
from pmw.session.store import SessionStore
from queries.cell_sums import statement_of
from queries.cell_values import CellCondition
from queries.domain import Domain
from queries.errors import QueryError
from queries.grouping import GroupedQuery
from queries.linear import LinearQuery
from queries.parsing import Question, parse_statement, parse_where
from queries.statements import Statement

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "Asked",
    "Session",
]

Asked: TypeAlias = str | Mapping[str, Any] | LinearQuery | Question


class Session:
    """A dialogue over one sensitive table. Made by ``open_session`` and ``resume_session``.

    A live session cannot be copied, pickled or used in a forked process: two of them would spend one budget
    twice. Threads may share it and take turns. Used with ``with``, it closes at the end.
    """

    def __init__(self, store: SessionStore, data: Table | None, held: ExitStack) -> None:
        self._turn = threading.RLock()
        self._process = os.getpid()
        self._store: SessionStore | None = store
        self._engine = Engine(store, data)
        self._held = held.pop_all()  # the store, and the lock of its file

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self._engine.state.domain

    @property
    def state(self) -> PublicState:
        """Everything about the session that may be published."""
        return self._engine.state

    def ask(self, question: Asked, *, fresh: bool = False, request_id: str | None = None) -> Answer:
        """Answer one question.

        Args:
            question: a where-text, a structured condition, or a query.
            fresh: answer again even where the same question was answered before.
            request_id: idempotency key, for safe retries; the same key gets the same answer.

        Raises:
            QueryError: the question is refused; nothing is spent.
            SessionLockedError: another process has taken over the session; nothing was released.
            StoreError: the answer could not be made durable; nothing was released.
        """
        with self._turn:
            self._open_store()
            return self._engine.answer([self._ask(question, fresh, request_id)])[0]

    def ask_all(
        self, questions: Iterable[Asked], *, fresh: bool = False, deliver: Deliver | None = None
    ) -> Answers:
        """Answer questions in order.

        Args:
            questions: where-texts, structured conditions, queries, or a workload.
            fresh: answer again what was answered before.
            deliver: called with the next answers, in order, as soon as they are durable.

        Raises:
            QueryError: a question is refused; none is answered then, and nothing is spent.
            SessionLockedError: another process has taken over the session; nothing was written.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        with self._turn:
            self._open_store()
            asks = [self._ask(question, fresh, None) for question in questions]
            answers = self._engine.answer(asks, deliver)
            return Answers(tuple(answers), tuple(ask.query for ask in asks))

    def sql(self, statement: str, *, fresh: bool = False) -> Answers | tables.AnswerTable:
        """Answer a statement such as ``SELECT sex, AVG(age) FROM people WHERE member GROUP BY sex``.

        Every declared value has its group. Where a statement counts alone, each group is one question and has
        its own interval; other aggregates come from the model, after counting questions were asked.

        Raises:
            QueryError: the statement is refused; nothing is spent.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        parsed = parse_statement(statement, self.domain)
        if isinstance(parsed, Statement):
            return self.tabulate(parsed, fresh=fresh)
        return self.ask_groups(parsed, fresh=fresh)

    def tabulate(
        self, statement: Statement, *, fresh: bool = False, request_id: str | None = None
    ) -> tables.AnswerTable:
        """Answer a statement of aggregates that was read before.

        Its counting questions are asked like any others. What its aggregates come to is then a function of
        the public state: nothing else touches the table, and nothing else is spent.

        Args:
            statement: as ``parse_statement`` reads it.
            fresh: ask the counting questions again that were answered before.
            request_id: idempotency key of the counting questions.

        Raises:
            QueryError: the statement was made for another domain.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        with self._turn:
            self._open_store()
            asked = tables.questions_of(self.state, statement)
            keys = [None if request_id is None else f"{request_id}\n{place}" for place in range(len(asked))]
            asks = [self._ask(one[2], fresh, key) for one, key in zip(asked, keys, strict=True)]
            answers = self._engine.answer(asks)
            return tables.answered(self.state, statement, asked, answers)

    def mean(
        self, name: str, where: str | Mapping[str, Any] = "", by: str | Sequence[str] = ()
    ) -> tables.AnswerTable:
        """Answer the mean of an attribute's numbers, for each combination of declared values of others.

        Args:
            name: an attribute that holds numbers.
            where: a where-text or a structured condition; an empty one means everybody.
            by: one attribute, or several.

        Raises:
            QueryError: the question is refused; nothing is spent.
        """
        return self._tabulate("mean", name, where, by)

    def sum(
        self, name: str, where: str | Mapping[str, Any] = "", by: str | Sequence[str] = ()
    ) -> tables.AnswerTable:
        """Answer the sum of an attribute's numbers; see ``mean``.

        Raises:
            QueryError: the question is refused; nothing is spent.
        """
        return self._tabulate("sum", name, where, by)

    def quantile(
        self,
        name: str,
        part: float = 0.5,
        where: str | Mapping[str, Any] = "",
        by: str | Sequence[str] = (),
    ) -> tables.AnswerTable:
        """Answer a quantile of an attribute's numbers, the median by default; see ``mean``.

        Raises:
            QueryError: the question is refused, or ``part`` is not in [0, 1]; nothing is spent.
        """
        return self._tabulate("quantile", name, where, by, part)

    def _tabulate(
        self,
        kind: str,
        name: str,
        where: str | Mapping[str, Any],
        by: str | Sequence[str],
        part: float = 0.5,
    ) -> tables.AnswerTable:
        condition = CellCondition.of(parse_where(where, self.domain))
        listed = (by,) if isinstance(by, str) else tuple(by)
        return self.tabulate(statement_of(kind, name, self.domain, condition, listed, part=part))

    def group_by(
        self, names: str | Sequence[str], where: str | Mapping[str, Any] = "", *, fresh: bool = False
    ) -> Answers:
        """Answer how many records satisfy a condition, for each combination of declared values.

        Args:
            names: one attribute, or several.
            where: a where-text or a structured condition; an empty one counts everybody.
            fresh: answer again what was answered before.

        Raises:
            QueryError: the question is refused; nothing is spent.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        listed = (names,) if isinstance(names, str) else tuple(names)
        return self.ask_groups(GroupedQuery(parse_where(where, self.domain), listed), fresh=fresh)

    def ask_groups(self, grouped: GroupedQuery, *, fresh: bool = False) -> Answers:
        """Answer a grouped question that was read before.

        Raises:
            QueryError: the question was made for another domain.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        with self._turn:
            self._open_store()
            asks = [self._ask(query, fresh, None) for query in grouped]
            return Answers(tuple(self._engine.answer(asks)), grouped)

    def status(self) -> Status:
        """Return where the session stands."""
        with self._turn:
            return loading.load_status(self._open_store(), self.state)

    def ledger(self) -> Ledger:
        """Return every charge so far, in order."""
        with self._turn:
            return loading.load_ledger(self._open_store())

    def verify(self) -> verification.Verification:
        """Check the session's ledger, measurements and answers, and return what holds; free.

        Raises:
            StoreError: the session file cannot be read.
        """
        with self._turn:
            return verification.verify(self._open_store())

    def finalize(self) -> None:
        """Close the session permanently: nothing is spent any more, and its secrets are wiped.

        The fingerprint of the table, its key, the threshold noise and the bytes of an unfinished batch are
        wiped from the file; copies of it that were made earlier keep theirs. Questions and exports go on
        from the model, without the table: a repeated question gets its stored answer, one that released
        numbers cover its interval, any other the source ``exhausted`` and no interval. ``close`` is another
        thing: it lets go of the file.

        Raises:
            DataError: an interrupted batch needs the table, and it cannot be read or differs.
            StoreError: the session could not be closed; or it is closed, and its file holds old copies yet.
        """
        with self._turn:
            self._open_store()
            self._engine.finalize()

    def plot(self, path: str | Path | None = None, *, force: bool = False) -> Figure:
        """Return a picture of the session, made of public state alone; free.

        It shows the first six attributes' released marginals beside the model's, and the budget over time.

        Args:
            path: where to write it too: a PNG, PDF or SVG file.
            force: overwrite an existing file.

        Raises:
            ReleaseError: matplotlib is not installed, or the file cannot be written.
        """
        from pmw.public.plots import check_target, status_figure, write_figure

        if path is not None:
            check_target(Path(path), force=force)
        with self._turn:
            state, history = self.state, loading.load_history(self._open_store())
        figure = status_figure(state, history)
        if path is not None:
            write_figure(figure, Path(path), force=force)
        return figure

    def synthetic_records(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        independent: bool = False,
        refine: bool = False,
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the session's total, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.
            refine: first fit the model to everything released until nothing changes; it is not kept.

        Raises:
            ReleaseError: the number of rows is out of range.
        """
        return synthetic_frame(self._published(refine), RowPlan(rows, independent, seed))

    def export(
        self,
        path: str | Path,
        plan: RowPlan | None = None,
        *,
        format: str | None = None,
        force: bool = False,
        refine: bool = False,
    ) -> dict[str, Any]:
        """Write a synthetic table or the measurements, with a manifest beside it, and return that; free.

        Args:
            path: the file to write.
            plan: how rows are drawn; measurements have none.
            format: csv, parquet or measurements; None goes by the file's name (.csv, .parquet).
            force: overwrite existing files.
            refine: first fit the model to everything released until nothing changes; it is not kept.

        Raises:
            ReleaseError: the format is unknown or has no rows to plan, a file exists and ``force`` is not
                given, or a file cannot be written.
        """
        state = self._published(refine)
        return export(state, Path(path), plan, format=format, force=force, refined=refine)

    def _published(self, refine: bool) -> PublicState:
        with self._turn:  # a dense model's array is taken over where another thread corrects it
            return refined(self.state) if refine else self.state

    def close(self) -> None:
        """Let go of the session file; ``resume_session`` goes on with it."""
        with self._turn:
            if self._store is None or os.getpid() != self._process:
                return
            try:
                with suppress(SessionLockedError):  # whoever took the session over keeps a model of its own
                    self._engine.save_snapshot()
            finally:
                self._store = None
                self._held.close()

    def _ask(self, question: Asked, fresh: bool, request_id: str | None) -> Ask:
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
            query = parse_where(question, self.domain)
        if query.domain != self.domain:
            raise QueryError("the query was made for another domain", code="bad_request")
        return Ask(query, query.to_json(), request_id, fresh)

    def _open_store(self) -> SessionStore:
        if os.getpid() != self._process:
            raise SessionError("a session cannot be used in a forked process; resume it there instead")
        if self._store is None:
            raise SessionError("the session was closed; resume it to go on")
        return self._store

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.state
        budget = state.contract.budget
        return (
            f"Session({state.domain.name!r}, {state.domain.size:,} cells, epsilon={float(budget.epsilon):g}, "
            f"delta={float(budget.delta):g}, spent {state.ledger.share:.1%}, version {state.version})"
        )

    def _repr_html_(self) -> str:
        with self._turn:
            rows = [("open", "no")] if self._store is None else status_rows(self.state, self.status())
        return html_table((), rows, f"Session over {self.domain.name}")

    def __reduce__(self) -> tuple[object, ...]:
        raise SessionError("a live session cannot be copied or pickled; resume it from its file instead")
