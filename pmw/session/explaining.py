"""Explanations: which counts a question becomes, what is held of them, and what they may charge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pmw.display.texts import counted, shortened, text_table
from pmw.errors import SessionError
from pmw.loop.loop import Forecast
from pmw.public.evidence import Holding, holding_of
from pmw.public.quotes import Quote, quote_marginal
from pmw.public.state import PublicState
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery

_SHOWN = 3  # counts of a scope that are told in words
_LONGEST = 80  # characters of them in a table
_HELD = {
    Holding.OPENING: "by opening",
    Holding.MEASURED: "measured",
    Holding.TESTED: "by a test",
    Holding.PARTS: "parts alone",
    Holding.NOTHING: "nothing",
}


@dataclass(frozen=True, slots=True)
class ExplainedScope:
    """The counting questions over one scope.

    Args:
        scope: attribute names in declared order; none of them are everybody's.
        left_out: how many more would test nothing, and say nothing of sums: they are not asked.
        examples: a few of them in words.
        quote: the price of measuring it; None where it cannot be measured.
    """

    scope: tuple[str, ...]
    asked: int
    left_out: int
    examples: tuple[str, ...]
    held: Holding
    quote: Quote | None

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "scope": list(self.scope),
            "questions": self.asked,
            "left_out": self.left_out,
            "examples": list(self.examples),
            "held": self.held.value,
            "quote": None if self.quote is None else self.quote.to_dict(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What answering a question would do; to explain it is free.

    Args:
        scopes: the counting questions, by scope, in the order in which these come.
    """

    scopes: tuple[ExplainedScope, ...]
    forecast: Forecast

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {**self.forecast.to_dict(), "scopes": [one.to_dict() for one in self.scopes]}

    def to_text(self, width: int | None = None) -> str:
        """Return the explanation in words and a table."""
        cost = self.forecast
        header = ["about", "held", "for example", "counts", "measuring it"]
        rows = [[*_words(one), _price(one.quote)] for one in self.scopes]
        lines = [text_table(header, rows, left=3, width=width)] if rows else []
        left_out = sum(one.left_out for one in self.scopes)
        if left_out:
            lines.append(f"Not asked, for nothing would be tested for them: {counted(left_out, 'count')}.")
        stored = f", {cost.stored:,} of them answered before" if cost.stored else ""
        lines.append(f"{counted(cost.questions, 'counting question')}{stored}.")
        told = cost.sentence() if cost.questions else "is free: the model answers"
        lines.append(f"To ask {told}. Nothing was asked or spent.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.to_text()


def _words(one: ExplainedScope) -> tuple[str, str, str, str]:
    more = one.asked + one.left_out > len(one.examples)
    examples = shortened("; ".join(one.examples) + ("; …" if more else ""), _LONGEST)
    return ", ".join(one.scope) or "everybody", _HELD[one.held], examples, f"{one.asked:,}"


def _price(quote: Quote | None) -> str:
    if quote is None:
        return "-"
    return f"{quote.share:.1%}" if quote.affordable else f"{quote.share:.1%}, not left"


def explained(
    state: PublicState, asked: Sequence[LinearQuery], left_out: Sequence[LinearQuery], forecast: Forecast
) -> Explanation:
    """Return what asking some questions would do.

    Privacy: a function of public state and the questions; free.
    """
    by_scope: dict[tuple[str, ...], tuple[list[LinearQuery], list[LinearQuery]]] = {}
    for which, queries in enumerate((asked, left_out)):
        for query in queries:
            by_scope.setdefault(query.scope, ([], []))[which].append(query)
    scopes = []
    for scope, (own, others) in by_scope.items():
        examples = tuple(query.describe() for query in (*own, *others)[:_SHOWN])
        quote = _quoted(state, scope)
        scopes.append(ExplainedScope(scope, len(own), len(others), examples, holding_of(state, scope), quote))
    return Explanation(tuple(scopes), forecast)


def _quoted(state: PublicState, scope: tuple[str, ...]) -> Quote | None:
    try:
        return quote_marginal(state, scope) if scope else None
    except (QueryError, SessionError):  # a table that is not measured has no price
        return None
