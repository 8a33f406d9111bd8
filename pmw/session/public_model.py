"""Models to hand out: what anybody may ask without the session, its table or its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pmw.display.elements import table
from pmw.errors import ReleaseError, SessionError
from pmw.loop import Forecast, refined
from pmw.planning.heads import HeadsQuote, quote_heads
from pmw.planning.sum_quotes import SumQuote, quote_aggregate, quote_sums
from pmw.privacy.budget import Number, as_fraction
from pmw.public.answer import Answer
from pmw.public.answers import Answers, concatenated
from pmw.public.contract import guarantee
from pmw.public.export import ExportFormat, RowPlan, export, synthetic_frame
from pmw.public.free_answers import FreeAnswers, unverified
from pmw.public.ledger import Ledger
from pmw.public.quotes import Quote, Within, quote_marginal, quote_question
from pmw.public.state import PublicState
from pmw.public.status import Status, budget_meter, status_of, status_rows
from pmw.public.tables import AnswerTable, Tabulation
from pmw.session.accounts import Activity
from pmw.session.asking import Asked, LocalAsking
from pmw.session.explaining import Explanation, explained
from pmw.session.model_file import model_state, read_model, write_model
from pmw.session.requests import Answering, Deliver, Requests
from queries.cells import cell_count
from queries.linear import LinearQuery
from queries.parsing import parse_sql
from queries.statements import Statement

if TYPE_CHECKING:
    import pandas as pd

Priced = TypeVar("Priced", Quote, SumQuote, HeadsQuote)
_BATCH = 1024  # answers that are delivered together


class PublicModel(LocalAsking):
    """A session's released numbers and its model. Made by ``load_model``.

    It answers as the session does where that tests nothing: from the model, within what released numbers and
    tests promise. A question that nothing covers has no interval, and comes as ``unverified``, or as
    ``exhausted`` where the session can test nothing more. Nothing is stored and nothing is spent, so
    ``fresh`` and idempotency keys change nothing.

    It has the methods of a session. What would measure anything tells its price, as it was when the model was
    written, and refuses to pay it.

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

    def forecast(self, question: Asked | Statement) -> Forecast:
        """Return that asking is free.

        Raises:
            QueryError: the question is refused.
        """
        read = self._read(question)
        if isinstance(read, Statement):
            return Forecast(len(Tabulation(self._state, read)), 0, 0.0, 0.0)
        self._request(read)
        return Forecast(1, 0, 0.0, 0.0)

    def explain(self, question: Asked | Statement) -> Explanation:
        """Return which counts a question becomes, and what is held of them; see ``Dialogue.explain``.

        Raises:
            QueryError: the statement is refused.
        """
        read = self._read(question)
        statement = read if isinstance(read, Statement) else Statement.count_by(self._request(read).query)
        work = Tabulation(self._state, statement)
        asked = [query for query, _ in work.questions()]
        return explained(self._state, asked, work.left_out, self.forecast(statement))

    def quote(self, question: Asked, within: float) -> Quote:
        """Return the price of a bar, as it was when the model was written; see ``Dialogue.quote``."""
        return quote_question(self._state, self._request(question).query, within)

    def quote_aggregate(self, statement: str | Statement, within: Within | float | str) -> SumQuote:
        """Return the price of bars, as it was when the model was written; see ``Dialogue``."""
        read = parse_sql(statement, self.domain) if isinstance(statement, str) else statement
        return quote_aggregate(self._state, read, Within.of(within))

    def ask_within(self, question: Asked, within: float, *, request_id: str | None = None) -> Answer:
        """Answer one question within a bar of so many records, where the model has such a bar.

        Raises:
            QueryError: no measurement gives the question such a bar.
            SessionError: the bar has to be paid for.
        """
        if self.quote(question, within).needed:
            raise _refusal()
        return self.ask(question)

    def sql_within(
        self,
        statement: str | Statement,
        within: Within | float | str,
        *,
        request_id: str | None = None,
    ) -> AnswerTable:
        """Answer a statement with a mean or a sum within bars of a width, where the model has such bars.

        Raises:
            QueryError: it is no such statement, or no price gives such bars.
            SessionError: the bars have to be paid for.
        """
        read = parse_sql(statement, self.domain) if isinstance(statement, str) else statement
        if self.quote_aggregate(read, within).needed:
            raise _refusal()
        return self.tabulate(read)

    def measure(
        self, names: str | Sequence[str], *, dry_run: bool = False, request_id: str | None = None
    ) -> Quote:
        """Tell the price of a table of counts, as it was when the model was written.

        Raises:
            QueryError: there is no such table.
            SessionError: it is not a dry run: a model measures nothing.
        """
        quote = quote_marginal(self._state, (names,) if isinstance(names, str) else tuple(names))
        return _told(quote, dry_run=dry_run)

    def measure_sum(  # noqa: PLR0913  # as a session has it
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
        """Tell the price of sums of values, as it was when the model was written.

        Raises:
            QueryError: there are no such sums.
            SessionError: it is not a dry run: a model measures nothing.
        """
        quote = quote_sums(self._state, name, by, share=share, within=within, squares=squares)
        return _told(quote, dry_run=dry_run)

    def measure_heads(
        self,
        by: str | Sequence[str] = (),
        *,
        share: Number | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> HeadsQuote:
        """Tell the price of numbers of persons, as it was when the model was written.

        Raises:
            QueryError: persons are not counted apart from records, or there are too many groups.
            SessionError: it is not a dry run: a model measures nothing.
        """
        scope = self.domain.scope((by,) if isinstance(by, str) else tuple(by))
        quote = quote_heads(self._state, scope, share=None if share is None else as_fraction(share, "share"))
        return _told(quote, dry_run=dry_run)

    def synthetic_records(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        independent: bool = False,
        refine: bool = False,
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; see ``Session.synthetic_records``.

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
        """Write a synthetic table, the measurements, or the model file again; see ``Session.export``.

        Raises:
            ReleaseError: as ``Session.export`` raises it; or there is no model file to write.
        """
        target = Path(path)
        if ExportFormat.chosen(format, target) is not ExportFormat.MODEL:
            return export(self._published(refine), target, plan, format=format, force=force, refined=refine)
        if refine or plan is not None:
            raise ReleaseError("a model is written as it is; leave out refine, and how rows are drawn")
        return write_model(self._content, target, force=force)

    def _published(self, refine: bool) -> PublicState:
        return refined(self._state) if refine else self._state

    def close(self) -> None:
        """Do nothing: a model holds no file and no connection."""

    def __enter__(self) -> PublicModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        return str(budget_meter(status) + table(caption, (), status_rows(self.contract, status)))

    def __repr__(self) -> str:
        state, budget = self._state, self._state.contract.budget
        return (
            f"PublicModel({state.domain.name!r}, {cell_count(state.domain.size)} cells, "
            f"epsilon={float(budget.epsilon):g}, delta={float(budget.delta):g}, version {state.version})"
        )


def _told(quote: Priced, *, dry_run: bool) -> Priced:
    """Return a price that is asked for alone.

    Raises:
        SessionError: it is to be paid.
    """
    if not dry_run:
        raise _refusal()
    return quote


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
