"""Ties: what a request to measure was given, kept with its idempotency key.

It is apart from the journal, for prices take a while to load and most sessions keep none.
"""

from __future__ import annotations

from pmw.errors import SessionCorruptError
from pmw.public.codec import dumps, form_of, loads, read, register
from pmw.public.quotes import Quote
from pmw.session.events import damage_is_one_error
from pmw.session.journal import Tie

register({Quote: {}})
_OF_SUMS = {"summed": None, "mean_half_width": 0.0, "questions": 0, "estimated": None}


def tie_of(key: str | None, asked: str, quote: Quote) -> Tie | None:
    """Return what a request's key will be tied to; None where it has none."""
    return None if key is None else Tie(key, asked, dumps(form_of(quote)))


def read_price(text: str, kind: str | None = None) -> Quote:
    """Return what a request was given.

    Args:
        text: as a tie keeps it; what is of sums alone may be left out, and the scope of sums.
        kind: of what was measured, in the words of quotes; None for any.
    """
    with damage_is_one_error():
        form = {**_OF_SUMS, **loads(text)}
        scope = [] if form["summed"] is None else form["summed"]["scope"]
        quote: Quote = read(Quote, {"scope": scope, **form})
    if kind is not None and quote.measured != kind:
        raise SessionCorruptError("the session file is damaged: a key is tied to another measurement")
    return quote
