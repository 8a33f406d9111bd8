"""Requests to measure: what an analyst wants measured now, and what it costs.

They are apart from asking, for prices take a while to load and most questions need none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pmw.planning.heads import HeadsQuote, quote_heads
from pmw.planning.sum_quotes import SumQuote, quote_sums
from pmw.privacy.budget import Number, as_fraction
from pmw.public.codec import dumps
from pmw.public.quotes import Quote, Within, asked_scope, quote_marginal
from pmw.public.state import PublicState
from pmw.session.ties import PRICES, Price
from queries.frozen import dataclass

if TYPE_CHECKING:
    from pmw.session.accounts import Account
    from pmw.session.engine import Engine
    from pmw.session.journal import Tie

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
    def measure(self, engine: Engine, quote: PriceT, account: Account, tie: Tie | None) -> None:
        """Measure it at its price; see ``Engine.measure``."""


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

    def measure(self, engine: Engine, quote: Quote, account: Account, tie: Tie | None) -> None:
        if quote.noise is not None:
            engine.measure(quote.scope, quote.noise, account, tie)


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

    def measure(self, engine: Engine, quote: SumQuote, account: Account, tie: Tie | None) -> None:
        engine.measure_sum(quote, account, tie)


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

    def measure(self, engine: Engine, quote: HeadsQuote, account: Account, tie: Tie | None) -> None:
        engine.measure_heads(quote, account, tie)

    @property
    def _part(self) -> Fraction | None:
        return None if self.share is None else as_fraction(self.share, "share")


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
