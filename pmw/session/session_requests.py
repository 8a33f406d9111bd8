"""Requests of a session: what is wanted of it, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pmw.privacy.budget import as_fraction
from pmw.session.requests import Key, Part
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.loop.loop import Forecast
    from pmw.public.answer import Answer
    from pmw.public.ledger import Ledger
    from pmw.public.quotes import Quote
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
            from pmw.public.quotes import Within  # prices take a while to load

            Within.of(self.within)
        if self.at_most is not None:
            as_fraction(self.at_most, "at_most")
