"""Error quantiles: counting and drawing them, and the state that follows."""

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


class FirstAnswer(NamedTuple):
    """A question, and the answer that was given first: the newest model is fitted to what was asked.

    Attributes:
        query: the question.
        units: the answer, in units of 2^-20 records, rounded.
    """

    query: LinearQuery
    units: int


def ranked_errors(
    requests: Sequence[QuantileRequest], answers: Callable[[int], FirstAnswer], source: CountSource
) -> tuple[int, ...]:
    """Return the errors that will be released, in units: of each request the one of its rank.

    Only these are held, and no marginal is: the questions are many.

    Args:
        requests: what is released.
        answers: the answer of a number.
        source: the table, over the declared cells.

    Privacy: exact and secret. The answer a is public, so |q(D) - a| moves by at most ``query_sensitivity``
        with one person's records, and so does each order statistic of such numbers.

    Raises:
        DataError: the table cannot be counted.
    """
    return tuple(
        sorted(_error(answers(place), source) for place in request.places)[request.rank - 1]
        for request in requests
    )


def draw_quantiles(
    requests: Sequence[QuantileRequest], errors: Sequence[int], bits: BitSource
) -> tuple[ErrorQuantile, ...]:
    """Return the error quantiles, each with fresh noise.

    Args:
        requests: what is released.
        errors: of each, from ``ranked_errors``.
        bits: source of the noise.

    Privacy: each costs what ``QuantileRequest.entry`` says.
    """
    return tuple(
        ErrorQuantile(
            request.kind,
            request.asked,
            len(request.places),
            error + request.noise.sample(bits),
            request.noise,
        )
        for request, error in zip(requests, errors, strict=True)
    )


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
