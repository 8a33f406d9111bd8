"""Requests of a session, as data, and the methods that make those about the session as a whole.

These tell where it stands, publish what may be published, or are for its custodian alone. A method that is
refused to whoever asks says who may use it.

Prices are imported where they are asked for: they take a while to load, and most questions need none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from pmw.errors import BudgetError, SessionError
from pmw.privacy.budget import Number, as_fraction
from pmw.public.charges import CellNumbers, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.codec import dumps
from pmw.public.contract import Contract, guarantee
from pmw.session.requests import Key, Part, Width
from queries.domain import Domain
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pmw.loop.loop import Forecast
    from pmw.public.answer import Answer
    from pmw.public.export import ExportFormat, RowPlan
    from pmw.public.ledger import Ledger
    from pmw.public.quotes import Quote, Within
    from pmw.public.state import PublicState
    from pmw.public.status import Status
    from pmw.public.tables import AnswerTable
    from pmw.session.accounts import Activity, Booked
    from pmw.session.explaining import Explanation
    from pmw.session.verification.report import Verification

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Kind(Generic[Result]):
    """What is wanted of a session, and of which type the result is.

    Args:
        name: of the method that asks for it.
    """

    name: str


class Kinds:
    """All that is wanted of sessions."""

    ASK: ClassVar[Kind[Answer]] = Kind("ask")
    ASK_WITHIN: ClassVar[Kind[Answer]] = Kind("ask_within")
    BUDGET: ClassVar[Kind[Booked]] = Kind("budget")
    EXPLAIN: ClassVar[Kind[Explanation]] = Kind("explain")
    FORECAST: ClassVar[Kind[Forecast]] = Kind("forecast")
    HISTORY: ClassVar[Kind[tuple[Activity, ...]]] = Kind("history")
    LEDGER: ClassVar[Kind[Ledger]] = Kind("ledger")
    MEASURE: ClassVar[Kind[Quote]] = Kind("measure")
    QUOTE: ClassVar[Kind[Quote]] = Kind("quote")
    SQL: ClassVar[Kind[AnswerTable]] = Kind("sql")
    SQL_WITHIN: ClassVar[Kind[AnswerTable]] = Kind("sql_within")
    STATUS: ClassVar[Kind[Status]] = Kind("status")


@dataclass(frozen=True, slots=True)
class MeasurementRequest:
    """What is to be measured, as it was asked for; nothing of it is checked before it is used.

    Args:
        measured: what is measured, in the words of quotes.
        names: of attributes: those of a table of counts, or by whose values sums or persons are measured.
        share: the part of the budget that is paid; None for the usual one.
        within: how far each question, or a mean, may be off, in place of a share.
        queries: the questions that are measured themselves, each once.
        summed: the attribute whose values are summed.
    """

    measured: str
    names: tuple[str, ...] = ()
    share: Number | None = None
    within: Width | None = None
    queries: tuple[LinearQuery, ...] = ()
    summed: str = ""
    squares: bool = False

    @property
    def text(self) -> str:
        """Its canonical text, which an idempotency key is tied to; the order of attributes says nothing."""
        within = None if self._width is None else tuple(self._width)
        how: dict[str, tuple[object, ...]] = {
            CellNumbers.measured: (),
            QuestionNumbers.measured: (self._part, within),
            SumNumbers.measured: (self.summed, self._part, within, self.squares),
            PersonNumbers.measured: (self._part,),
        }
        about = [*self.names, *(query.to_json() for query in self.queries)]
        return asked_text(self.measured, about, *how[self.measured])

    def form(self) -> dict[str, Any]:
        """Return the body by which a service is asked for it."""
        kinds: dict[str, dict[str, Any]] = {
            QuestionNumbers.measured: {"questions": [query.to_dict() for query in self.queries]},
            SumNumbers.measured: {"sum": self.summed, "squares": self.squares},
            PersonNumbers.measured: {"heads": True},
        }
        share = None if self._part is None else float(self._part)
        within = None if self._width is None else self._width.form
        return {"scope": list(self.names), "share": share, "within": within, **kinds.get(self.measured, {})}

    def quote(self, state: PublicState) -> Quote:
        """Return its price, as things stand."""
        from pmw.planning.mean_quotes import quote_persons, quote_sum
        from pmw.planning.row_quotes import quote_rows
        from pmw.public.quotes import asked_scope, quote_marginal

        if self.share is not None and self.within is not None:
            raise BudgetError("expected a share of the budget or a width, got both")
        if self.measured == CellNumbers.measured:
            return quote_marginal(state, self.names)
        within = self._width
        if self.measured == QuestionNumbers.measured:
            wanted = None if within is None else within.in_records(state.total.value)
            return quote_rows(state, self.queries, share=self._part, within=wanted)
        scope = asked_scope(state.domain, self.names)
        if self.measured == PersonNumbers.measured:
            return quote_persons(state, scope, share=self._part)
        what = (self.summed, scope)
        return quote_sum(state, what, squares=self.squares, share=self._part, within=within)

    @property
    def _part(self) -> Fraction | None:
        return None if self.share is None else as_fraction(self.share, "share")

    @property
    def _width(self) -> Within | None:
        return None if self.within is None else width_of(self.within)


def width_of(given: Width) -> Within:
    """Return the half-width of a bar as it was given: a number, or a part such as 2%."""
    from pmw.public.quotes import Within

    return Within.of(given)


def asked_text(kind: str, by: Sequence[str], *how: object) -> str:
    """Return the canonical text of a request, which a key is tied to; the order of attributes says nothing.

    Args:
        *how: what else it depends on: texts, numbers, or None.
    """
    return dumps([kind, sorted(map(str, by)), *(one if one is None else str(one) for one in how)])


def ceiling_form(at_most: Part) -> dict[str, float]:
    """Return how the body of a request says what may be charged at most; nothing where that was not told."""
    return {} if at_most is None else {"at_most": float(as_fraction(at_most, "at_most"))}


_OF_BARS = (Kinds.ASK_WITHIN, Kinds.QUOTE, Kinds.SQL_WITHIN)


@dataclass(frozen=True, slots=True)
class SessionRequest(Generic[Result]):
    """What is wanted of a session; ``do`` does it.

    Args:
        kind: the method that makes it. It has the fields that this method has.
        question: ``Asked``, or a statement.
        what: a ``MeasurementRequest``.
        within: ``Width``: half of the bar that is wanted.
        fresh, request_id, at_most: see ``Asking.ask``.
        dry_run: tell the price of what is measured alone.
        most: of a history, how many questions.
    """

    kind: Kind[Result]
    question: Any = None
    what: Any = None
    within: Any = None
    fresh: bool = False
    request_id: Key = None
    at_most: Part = None
    dry_run: bool = False
    most: int = 100

    def __post_init__(self) -> None:
        if self.kind in _OF_BARS:
            width_of(self.within)
        if self.at_most is not None:
            as_fraction(self.at_most, "at_most")


class Publishing(ABC):
    """What a session tells and gives away besides its answers, and what is done with the whole of it.

    Used with ``with``, it closes at the end. What the custodian alone may do raises ``SessionError`` for
    everybody else: on an analyst, a session of a service and a model.
    """

    _role: ClassVar[str] = "a session"  # of whoever asks, in refusals
    _who_may: ClassVar[str] = "the custodian may, on the session itself or by the pmw command"

    def _refuse(self, what: str, who_may: str = "") -> NoReturn:
        """Refuse what is not for this role, and tell who may do it."""
        raise SessionError(f"{self._role} may not {what}: {who_may or self._who_may}")

    @property
    @abstractmethod
    def contract(self) -> Contract:
        """What was fixed at opening."""

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.contract.domain

    @property
    def guarantee(self) -> str:
        """What the session promises, in words."""
        return guarantee(self.contract)

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the declared attributes, the number of records and the guarantee, ready for JSON; free."""

    @abstractmethod
    def do(self, request: SessionRequest[Result]) -> Result:
        """Return the result of a request: what the method of its kind returns, which makes such a request.

        Raises:
            PMWError: see that method.
        """

    def status(self) -> Status:
        """Return where the session stands; free."""
        return self.do(SessionRequest(Kinds.STATUS))

    def budget(self) -> Booked:
        """Return what was charged for whoever asks, what is left, and how many questions were asked; free.

        For a session that is what no analyst was charged: opening, and what was asked without a name.
        """
        return self.do(SessionRequest(Kinds.BUDGET))

    def ledger(self) -> Ledger:
        """Return every charge so far, in order; free.

        An analyst sees the price of every charge, but neither the questions nor the names of other analysts.

        Raises:
            SessionError: a model file holds the sum of the charges alone.
        """
        return self.do(SessionRequest(Kinds.LEDGER))

    def synthetic_records(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        independent: bool = False,
        refine: bool = False,
        where: str | None = None,
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the session's total, or the model's count of ``where``, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.
            refine: first fit the model to everything released more closely, where noise allows; not kept.
            where: a condition on whole cells that every row satisfies: rows of the model given it.

        Raises:
            QueryError: the condition is refused.
            ReleaseError: the number of rows is out of range, or no record of the model satisfies ``where``.
            SessionError: a service refines no model.
        """
        from pmw.public.export import RowPlan

        return self._drawn(RowPlan(rows, independent, seed, where), refine=refine)

    @abstractmethod
    def _drawn(self, plan: RowPlan, *, refine: bool) -> pd.DataFrame:
        """Return rows as they are planned."""

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

        A model is one file, for ``load_model``, with nothing beside it.

        Args:
            path: the file to write.
            plan: how rows are drawn; measurements and models have none.
            format: csv, parquet, measurements or model; None goes by the file's name (.csv, .parquet,
                .model).
            force: overwrite existing files.
            refine: first fit the model to everything released more closely, where noise allows; not kept.

        Raises:
            ReleaseError: the format is unknown or has no rows to plan, a file exists and ``force`` is not
                given, or a file cannot be written.
            SessionError: a service refines no model, and exports no measurements.
        """
        from pmw.public.export import ExportFormat

        target = Path(path)
        return self._written(target, ExportFormat.chosen(format, target), plan, force=force, refine=refine)

    @abstractmethod
    def _written(
        self, target: Path, form: ExportFormat, plan: RowPlan | None, *, force: bool, refine: bool
    ) -> dict[str, Any]:
        """Write a file of a format, and return what it is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held: a file, or a connection. An analyst and a model hold nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what the custodian alone does ----------------------------------------------------------------------

    def bookings(self) -> tuple[Booked, ...]:
        """Return what was charged for each analyst; the session itself comes first, with an empty name."""
        self._refuse("see what others were charged")

    def read_table(self) -> None:
        """Read the table now, where a test may need it: else the first one does, while other threads wait.

        Raises:
            DataError: it cannot be read, or differs from the one that the session was opened on.
        """
        self._refuse("have the table read")

    def verify(self) -> Verification:
        """Check the session's ledger, measurements and answers, and return what holds; free.

        Raises:
            StoreError: the session file cannot be read.
        """
        self._refuse("verify the session's file")

    def plot(self, path: str | Path | None = None, *, force: bool = False) -> Figure:
        """Return a picture of the session, made of public state alone; free.

        It shows the first six attributes' released marginals beside the model's, and the budget over time.

        Args:
            path: where to write it too: a PNG, PDF or SVG file.
            force: overwrite an existing file.

        Raises:
            ReleaseError: matplotlib is not installed, or the file cannot be written.
        """
        self._refuse("see the budget over time")

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write a report on the session, made of what may be published alone, as one HTML file; free.

        It tells in plain words what is promised, how accurate answers are, which tables may be quoted, what
        was asked most and what was charged. It opens offline and prints on A4.

        Args:
            force: overwrite an existing file.

        Raises:
            ReleaseError: the file exists and ``force`` is not given, or it cannot be written.
        """
        self._refuse("write a report on everybody's questions")

    def finish(self, *, dry_run: bool = False) -> tuple[Quote, ...]:
        """Spend what is left on the marginals that the asked questions rest on, then close permanently.

        All that is left is shared among them, under the session's own ledger and cap; what open rounds have
        reserved is not spent. Stopped in the middle, it is called again on the resumed session.
        The session is closed as by ``finalize``.

        Args:
            dry_run: tell what would be measured, and at which price; free, and nothing is closed.

        Returns:
            What was measured, in this order.

        Raises:
            DataError: the table cannot be read or differs.
            SessionError: the session measures nothing on request, or is closed.
            StoreError: it could not be made durable.

        Privacy: what is measured is a function of public state and of the questions.
        """
        self._refuse("spend what is left and close the session")

    def finalize(self) -> None:
        """Close the session permanently: nothing is spent any more, and its secrets are wiped.

        The fingerprint of the table, its key, the threshold noise and the bytes of an unfinished batch are
        wiped from the file; copies of it that were made earlier keep theirs. Questions and exports go on
        from the model, without the table: a repeated question gets its stored answer, one that released
        numbers cover its interval, any other the source ``exhausted`` and no interval. What is left of the
        budget is given up: ``finish`` spends it first. ``close`` is another thing: it lets go of the file.

        Raises:
            DataError: an interrupted batch needs the table, and it cannot be read or differs.
            StoreError: the session could not be closed; or it is closed, and its file holds old copies yet.
        """
        self._refuse("close the session for good")
