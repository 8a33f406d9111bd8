"""Requests to measure: what an analyst wants measured now, and what it costs.

They are apart from asking, for prices take a while to load and most questions need none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pmw.errors import BudgetError
from pmw.loop import RequestedHeads, RequestedMarginal, RequestedRows, RequestedSum
from pmw.planning.heads import HeadsQuote, quote_heads
from pmw.planning.mean_quotes import MeanQuote, summed_rows
from pmw.planning.row_quotes import RowsQuote, quote_rows, rows_of
from pmw.planning.sum_quotes import SumQuote, quote_sums
from pmw.privacy.budget import Number, as_fraction
from pmw.public.codec import dumps
from pmw.public.foundations import strategy_of
from pmw.public.quotes import Quote, Within, asked_scope, quote_marginal
from pmw.public.state import PublicState
from pmw.session.ties import PRICES, Price
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    from pmw.session.journal import RequestedMeasurement
    from queries.statements import Statement

PriceT = TypeVar("PriceT", bound=Price)


class MeasurementRequest(ABC, Generic[PriceT]):
    """What is to be measured, as it was asked for; nothing of it is checked before it is used."""

    price: type[PriceT]  # what tells its price and its bar

    @property
    def kind(self) -> str:
        """What is measured: counts, sums or persons."""
        return PRICES[self.price]["measured"]

    @property
    @abstractmethod
    def text(self) -> str:
        """Its canonical text, which an idempotency key is tied to; the order of attributes says nothing.

        Raises:
            BudgetError: a share or a width is none.
        """

    @abstractmethod
    def form(self) -> dict[str, Any]:
        """Return the body by which a service is asked for it.

        Raises:
            BudgetError: a share or a width is none.
        """

    @abstractmethod
    def quote(self, state: PublicState) -> PriceT:
        """Return its price, as things stand.

        Raises:
            BudgetError: a share or a width is out of range.
            QueryError: it cannot be measured.
            SessionError: the session measures nothing on request.
        """

    @abstractmethod
    def measured(self, state: PublicState, quote: PriceT) -> RequestedMeasurement | None:
        """Return what is measured at its price; None where nothing need be."""


@dataclass(frozen=True, slots=True)
class CountsRequest(MeasurementRequest[Quote]):
    """A request for the counts of every combination of some attributes' values.

    Args:
        names: of the attributes.
    """

    names: tuple[str, ...]
    price = Quote

    @property
    def text(self) -> str:
        return asked_text(self.kind, self.names)

    def form(self) -> dict[str, Any]:
        return {"scope": list(self.names)}

    def quote(self, state: PublicState) -> Quote:
        return quote_marginal(state, self.names)

    def measured(self, state: PublicState, quote: Quote) -> RequestedMarginal | None:
        return requested_marginal(state, quote)


@dataclass(frozen=True, slots=True)
class QuestionsRequest(MeasurementRequest[RowsQuote]):
    """A request for the numbers of questions themselves.

    Args:
        queries: each once.
        share: the part of the budget that is paid.
        within: half-width of each bar, in place of a share.
    """

    queries: tuple[LinearQuery, ...]
    share: Number | None
    within: Within | float | str | None
    price = RowsQuote

    @property
    def text(self) -> str:
        asked = sorted(query.to_json() for query in self.queries)
        within = None if self.within is None else tuple(Within.of(self.within))
        return asked_text(self.kind, asked, self._part, within)

    def form(self) -> dict[str, Any]:
        given: dict[str, Any] = {"questions": [query.to_dict() for query in self.queries]}
        given |= {} if self._part is None else {"share": float(self._part)}
        return given | ({} if self.within is None else {"within": Within.of(self.within).form})

    def quote(self, state: PublicState) -> RowsQuote:
        if self.share is not None and self.within is not None:
            raise BudgetError("expected a share of the budget or a width, got both")
        wanted = None if self.within is None else Within.of(self.within).in_records(state.total.value)
        return quote_rows(state, self.queries, share=self._part, within=wanted)

    def measured(self, state: PublicState, quote: RowsQuote) -> RequestedMeasurement | None:
        return requested_rows(state, quote, self.queries)

    @property
    def _part(self) -> Fraction | None:
        return None if self.share is None else as_fraction(self.share, "share")


@dataclass(frozen=True, slots=True)
class SumsRequest(MeasurementRequest[SumQuote]):
    """A request for the sums of an attribute's values, by the values of others.

    Args:
        name: the attribute whose values are summed.
        by: the others.
        share: the part of the budget that is paid.
        within: how far a mean may be off, in place of a share.
        squares: the squares are summed too.
    """

    name: str
    by: tuple[str, ...]
    share: Number | None
    within: Within | float | str | None
    squares: bool
    price = SumQuote

    @property
    def text(self) -> str:
        share = None if self.share is None else as_fraction(self.share, "share")
        within = None if self.within is None else tuple(Within.of(self.within))
        return asked_text(self.kind, self.by, self.name, share, within, self.squares)

    def form(self) -> dict[str, Any]:
        given: dict[str, Any] = {"sum": self.name, "scope": list(self.by), "squares": self.squares}
        given |= {} if self.share is None else {"share": float(as_fraction(self.share, "share"))}
        return given | ({} if self.within is None else {"within": Within.of(self.within).form})

    def quote(self, state: PublicState) -> SumQuote:
        share, within, squares = self.share, self.within, self.squares
        return quote_sums(state, self.name, self.by, share=share, within=within, squares=squares)

    def measured(self, state: PublicState, quote: SumQuote) -> RequestedSum | None:
        del state
        return requested_sum(quote)


@dataclass(frozen=True, slots=True)
class PersonsRequest(MeasurementRequest[HeadsQuote]):
    """A request for how many persons have a record with each combination of some attributes' values.

    Args:
        by: names of the attributes.
        share: the part of the budget that is paid.
    """

    by: tuple[str, ...]
    share: Number | None
    price = HeadsQuote

    @property
    def text(self) -> str:
        return asked_text(self.kind, self.by, self._part)

    def form(self) -> dict[str, Any]:
        part = None if self.share is None else float(as_fraction(self.share, "share"))
        return {"scope": list(self.by), "heads": True, "share": part}

    def quote(self, state: PublicState) -> HeadsQuote:
        return quote_heads(state, asked_scope(state.domain, self.by), share=self._part)

    def measured(self, state: PublicState, quote: HeadsQuote) -> RequestedHeads:
        del state
        return RequestedHeads(quote.scope, quote.cells, quote.noise)

    @property
    def _part(self) -> Fraction | None:
        return None if self.share is None else as_fraction(self.share, "share")


def requested_marginal(state: PublicState, quote: Quote) -> RequestedMarginal | None:
    """Return the marginal of a price; None where nothing need be measured."""
    if quote.noise is None:
        return None
    return RequestedMarginal(quote.scope, quote.noise, strategy_of(state, quote.scope))


def requested_rows(
    state: PublicState, quote: Price, queries: Sequence[LinearQuery]
) -> RequestedRows | RequestedMarginal | None:
    """Return what is measured for questions at a price: their own numbers, or a marginal that holds them."""
    if isinstance(quote, RowsQuote) and quote.noise is not None:
        return RequestedRows(tuple(queries), quote.noise)
    return requested_marginal(state, quote) if isinstance(quote, Quote) else None


def requested_sum(quote: SumQuote) -> RequestedSum | None:
    """Return the sums of a price; None where nothing need be measured."""
    return None if quote.summed is None or quote.noise is None else RequestedSum(quote.summed, quote.noise)


def requested_statement(
    state: PublicState, quote: Price, statement: Statement
) -> RequestedMeasurement | None:
    """Return what is measured for a statement at a price: all of its groups; None where nothing need be."""
    if not isinstance(quote, MeanQuote):
        return requested_rows(state, quote, rows_of(statement))
    if quote.summed is None or quote.noise is None or not quote.questions:
        return requested_sum(quote)
    rows = replace(summed_rows(state, statement), count_units=quote.summed.count_units)
    return RequestedSum(rows, quote.noise)


def asked_text(kind: str, by: Sequence[str], *how: object) -> str:
    """Return the canonical text of a request, which a key is tied to; the order of attributes says nothing.

    Args:
        kind: what is asked for.
        by: names of attributes.
        how: what else it depends on: texts, numbers, or None.
    """
    return dumps([kind, sorted(map(str, by)), *(one if one is None else str(one) for one in how)])


def ceiling_form(at_most: Number | None) -> dict[str, float]:
    """Return how the body of a request says what may be charged at most; nothing where that was not told."""
    return {} if at_most is None else {"at_most": float(as_fraction(at_most, "at_most"))}
