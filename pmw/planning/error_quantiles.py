"""When error quantiles are released, of which questions, and at which price: a function of public state.

All of them together cost at most ``SHARE`` of the budget. They come due at doubling numbers of settled
questions: distinct ones, answered to somebody who could have paid for a test. Then each kind of questions
that enough were asked of gets an equal part of what is left of their share, and two parts stay for later. A
kind is left out where its margin would not be well below half of the intervals that its questions have, or
below the quantile that is known already: it would tell nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Mapping
from fractions import Fraction
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.planning.calibration import value_noise
from pmw.privacy.budget import floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.public.answer import QuestionKind
from pmw.public.charges import LedgerEntry, price_of_positives, quantile_entry
from pmw.public.clear import left_for_parts, left_for_quantiles
from pmw.public.error_quantiles import SHARE, quantile_margin, rank_of
from pmw.public.options import Options
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from queries.factors import UNITS
from queries.frozen import dataclass

_FIRST_DUE = 256  # settled questions
_FEWEST = 40  # questions of a kind
_MOST = 500  # questions of a kind whose errors are looked at, so that few marginals are counted
_KEPT = 1  # part of what is left that stays for later
# Of the budget, 32/n is kept for tests after n settled questions: an eighth after 256, under 1 % after 4,096.
_TESTED = 32


class AnsweredQuestions(NamedTuple):
    """Distinct questions that were settled.

    Attributes:
        places: int64, shape (n,), ascending: numbers of the answers that settled them, from 1.
        widths: float64, shape (n,): of those answers' intervals, above the answers, in records.
    """

    places: NDArray[np.int64]
    widths: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QuantileRequest:
    """An error quantile that will be released.

    Args:
        places: numbers of the answers that settled the questions whose errors are looked at.
        rank: which of the errors is released, the smallest first; from 1.
    """

    kind: QuestionKind
    asked: int
    places: tuple[int, ...]
    rank: int
    noise: NoiseDistribution

    def entry(self, options: Options) -> LedgerEntry:
        """Return what it charges, all of which is reserved for it."""
        return quantile_entry(self.kind.describe(), self.noise, options)


def is_due(settled: int) -> bool:
    """Tell whether error quantiles come due after so many settled questions."""
    return settled >= _FIRST_DUE and next_due(settled - 1) == settled


def next_due(settled: int) -> int:
    """Return the next number of settled questions, above this one, at which error quantiles come due."""
    due = _FIRST_DUE
    while due <= settled:
        due *= 2
    return due


def reserved_share(ledger: PrivacyFilter) -> Fraction:
    """Return what a plan leaves for error quantiles, in the filter's own measure.

    Nothing, where it would be more than a tenth of what opening left.
    """
    share = ledger.cap * SHARE
    return share if share <= ledger.remaining / 10 else Fraction(0)


def planned_margin(ledger: PrivacyFilter, options: Options) -> float | None:
    """Return the margin of the first error quantile of one kind, in records; None where none is planned."""
    price = floor_price(reserved_share(ledger) / (1 + _KEPT))
    try:
        return quantile_margin(value_noise(ledger.composition, price, options), options.confidence)
    except NoiseError:
        return None


def plan_quantiles(
    state: PublicState, asked: Mapping[QuestionKind, AnsweredQuestions]
) -> tuple[QuantileRequest, ...]:
    """Return the error quantiles that are due; none where none is, or none would tell anything."""
    options = state.contract.options
    if state.closed or marginal_tier(state.plan) is None or not is_due(state.settled):
        return ()
    if any(one.asked == state.asked for one in state.quantiles):
        return ()
    kinds = sorted(
        (kind for kind, found in asked.items() if len(found.places) >= _FEWEST),
        key=lambda kind: (kind.attributes, kind.basis.value),
    )
    price = floor_price(quantiles_left(state) / (len(kinds) + _KEPT))
    try:
        noise = value_noise(state.ledger.composition, price, options)
    except NoiseError:
        return ()
    margin, requests = quantile_margin(noise, options.confidence), []
    for kind in kinds:
        questions = _sample(asked[kind], state.asked)
        rank = rank_of(len(questions.places), options.confidence)
        wide = 2 * margin < min(state.total.value, median(questions.widths.tolist()))
        newest = (one.units / UNITS for one in reversed(state.quantiles) if one.kind == kind)
        if rank is not None and wide and 2 * margin < next(newest, math.inf):
            places = tuple(questions.places.tolist())
            requests.append(QuantileRequest(kind, state.asked, places, rank, noise))
    return tuple(requests)


def kept_for_tests(state: PublicState) -> Fraction | None:
    """Return what a session keeps for tests when releases are due; None where it is all that was planned.

    What is beyond that is measured (``pmw.loop.finishing.plan_spare``); but under an accuracy contract, or
    where error bars hold for all questions at once, nothing is that no test asks for.
    """
    options = state.contract.options
    if not options.tests_marginals or options.simultaneous or options.accuracy is not None:
        return None
    return state.ledger.cap * _TESTED / max(1, state.settled)


def quantiles_left(state: PublicState) -> Fraction:
    """Return what error quantiles may still cost, besides all that tests may still charge."""
    ledger = state.ledger
    planned = sum((_planned(state, place) for place in range(len(state.plan))), Fraction(0))
    kept = kept_for_tests(state)
    tests = planned if kept is None else min(planned, kept)
    return max(min(left_for_quantiles(state), ledger.remaining - tests - left_for_parts(state)), Fraction(0))


def _planned(state: PublicState, place: int) -> Fraction:
    """Return what a tier may still charge: its positives, and the threshold noise that it has not drawn."""
    tier, ledger = state.plan[place], state.ledger
    positives = tier.update_limit - state.positives(place)
    if positives <= 0:
        return Fraction(0)
    options, is_open = state.contract.options, state.rounds[place]
    return price_of_positives(tier, positives, options, ledger, round_open=is_open)


def _sample(questions: AnsweredQuestions, asked: int) -> AnsweredQuestions:
    """Return at most so many of the questions; anybody can repeat the choice, and no noise decides it."""
    numbers = questions.places.tolist()
    order = [hashlib.sha256(b"%d %d" % (asked, number)).digest() for number in numbers]
    chosen = sorted(heapq.nsmallest(_MOST, range(len(order)), key=order.__getitem__))
    return AnsweredQuestions(questions.places[chosen], questions.widths[chosen])
