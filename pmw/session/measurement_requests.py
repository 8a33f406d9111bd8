"""Requests to measure: what an analyst wants measured now, and what it costs.

They are apart from asking, for prices take a while to load and most questions need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pmw.errors import BudgetError
from pmw.planning.mean_quotes import quote_persons, quote_sum
from pmw.planning.row_quotes import quote_rows
from pmw.privacy.budget import Number, as_fraction
from pmw.public.charges import CellNumbers, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.codec import dumps
from pmw.public.quotes import Quote, Within, asked_scope, quote_marginal
from pmw.public.state import PublicState
from queries.frozen import dataclass
from queries.linear import LinearQuery


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
    within: Within | float | str | None = None
    queries: tuple[LinearQuery, ...] = ()
    summed: str = ""
    squares: bool = False

    @property
    def text(self) -> str:
        """Its canonical text, which an idempotency key is tied to; the order of attributes says nothing."""
        within = None if self.within is None else tuple(Within.of(self.within))
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
        within = None if self.within is None else Within.of(self.within).form
        return {"scope": list(self.names), "share": share, "within": within, **kinds.get(self.measured, {})}

    def quote(self, state: PublicState) -> Quote:
        """Return its price, as things stand."""
        if self.share is not None and self.within is not None:
            raise BudgetError("expected a share of the budget or a width, got both")
        if self.measured == CellNumbers.measured:
            return quote_marginal(state, self.names)
        within = None if self.within is None else Within.of(self.within)
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


def asked_text(kind: str, by: Sequence[str], *how: object) -> str:
    """Return the canonical text of a request, which a key is tied to; the order of attributes says nothing.

    Args:
        *how: what else it depends on: texts, numbers, or None.
    """
    return dumps([kind, sorted(map(str, by)), *(one if one is None else str(one) for one in how)])


def ceiling_form(at_most: Number | None) -> dict[str, float]:
    """Return how the body of a request says what may be charged at most; nothing where that was not told."""
    return {} if at_most is None else {"at_most": float(as_fraction(at_most, "at_most"))}
