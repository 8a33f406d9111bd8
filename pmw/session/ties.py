"""Ties: what a request to measure was given, kept with its idempotency key.

It is apart from the journal, for prices take a while to load and most sessions keep none.
"""

from __future__ import annotations

from typing import TypeAlias

from pmw.errors import SessionCorruptError
from pmw.planning.heads import HeadsQuote
from pmw.planning.mean_quotes import MeanQuote
from pmw.planning.row_quotes import RowsQuote
from pmw.planning.sum_quotes import SumQuote
from pmw.public.codec import dumps, form_of, loads, read, register
from pmw.public.quotes import Quote
from pmw.session.journal import Tie, damage_is_one_error

Price: TypeAlias = Quote | RowsQuote | SumQuote | MeanQuote | HeadsQuote

# What tells prices apart.
PRICES: dict[type, dict[str, str]] = {
    Quote: {"measured": "counts"},
    RowsQuote: {"measured": "questions"},
    SumQuote: {"measured": "sums"},
    MeanQuote: {"measured": "sums", "of": "a statement"},
    HeadsQuote: {"measured": "persons"},
}
register(PRICES)


def tie_of(key: str | None, asked: str, quote: Price) -> Tie | None:
    """Return what a request's key will be tied to; None where it has none."""
    return None if key is None else Tie(key, asked, dumps(form_of(quote)))


def read_price(text: str, kind: str | None = None) -> Price:
    """Return what a request was given.

    Args:
        text: as a tie keeps it.
        kind: of what was measured: counts, sums or persons; None for any.

    Raises:
        SessionCorruptError: it cannot be read, or is of another kind.
    """
    with damage_is_one_error():
        quote: Price = read(Price, loads(text))
    if kind is not None and PRICES[type(quote)]["measured"] != kind:
        raise SessionCorruptError("the session file is damaged: a key is tied to another measurement")
    return quote
