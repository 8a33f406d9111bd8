"""Requests of a session: what is wanted of it, and what is to be measured, as data.

Prices are imported where they are asked for: they take a while to load, and most questions need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction
from pmw.public.charges import CellNumbers, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.codec import dumps
from pmw.session.requests import Key, Part, Width
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    from pmw.loop.loop import Forecast
    from pmw.public.answer import Answer
    from pmw.public.ledger import Ledger
    from pmw.public.quotes import Quote, Within
    from pmw.public.state import PublicState
    from pmw.public.status import Status
    from pmw.public.tables import AnswerTable
    from pmw.session.accounts import Activity, Booked
    from pmw.session.explaining import Explanation

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
