"""Error quantiles: drawing them, and the state that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pmw.data import CountSource
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.state import PublicState
from queries.linear import LinearQuery

__all__ = [
    "draw_quantiles",
    "FirstAnswer",
    "settle_quantiles",
]


class FirstAnswer(NamedTuple):
    """A question, and the answer that was given first: the newest model is fitted to what was asked.

    Attributes:
        query: the question.
        units: the answer, in units of 2^-20 records, rounded.
    """

    query: LinearQuery
    units: int


def draw_quantiles(
    requests: Sequence[QuantileRequest],
    answers: Callable[[int], FirstAnswer],
    source: CountSource,
    bits: BitSource,
) -> tuple[ErrorQuantile, ...]:
    """Return the error quantiles, each with fresh noise.

    Args:
        requests: what is released.
        answers: the answer of a number.
        source: the table, over the declared cells.
        bits: source of the noise.

    Privacy: the answer a is public, so |q(D) - a| moves by at most ``query_sensitivity`` with one person's
        records, and so does each order statistic of such numbers. Each costs what ``QuantileRequest.entry``
        says.
    """
    released = []
    for request in requests:
        errors = sorted(_error(answers(place), source) for place in request.places)
        units = errors[request.rank - 1] + request.noise.sample(bits)
        released.append(ErrorQuantile(request.kind, request.asked, len(errors), units, request.noise))
    return tuple(released)


def _error(answer: FirstAnswer, source: CountSource) -> int:
    """Return how far an answer is from the truth, in units; secret."""
    return abs(answer.query.answer(source.counts(answer.query.scope)) - answer.units)


def settle_quantiles(
    state: PublicState, released: Sequence[ErrorQuantile], ledger: PrivacyFilter
) -> PublicState:
    """Return the public state after error quantiles: only what it says of answers is changed.

    Args:
        state: the state that they were requested in.
        released: what was drawn.
        ledger: the filter after their charges.
    """
    return replace(state, ledger=ledger, quantiles=(*state.quantiles, *released))
