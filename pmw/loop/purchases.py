"""Purchases: the numbers that are drawn for questions whose bars are wide, and what each costs.

The reserve of a session is spent on what is asked. A question is clear where its bar, by scales of noise
alone, is hardly wider than that of a number of its own; the others pay for one, and are answered within its
noise. What a number costs falls, to a quarter, with the numbers that the same analyst bought.

Everything here follows from public numbers: scales, prices, the questions and the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.loop.untested import Requested
from pmw.model.measurement import half_width
from pmw.planning.calibration import marginal_noise, noise_of_price
from pmw.planning.error_quantiles import quantiles_left
from pmw.planning.row_quotes import MOST_ROWS, are_counted, is_counted
from pmw.privacy.budget import floor_price
from pmw.privacy.noise import NoiseDistribution
from pmw.public.bars import Bars
from pmw.public.charges import CellNumbers, QuestionNumbers, query_sensitivity
from pmw.public.clear import FULL, GAIN, clear_half_width, full_price
from pmw.public.evidence import own_numbers
from pmw.public.foundations import strategy_of
from pmw.public.half_widths import Confidences
from pmw.public.quotes import affordable_price, bars_after
from pmw.public.row_sensitivity import Moved
from pmw.public.state import PublicState
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.questions import Questions

_GRID = 2**30  # of parts of what is left
# Of the full price: a number more than twice as wide as one at that says less than the model does.
_LEAST = Fraction(1, 4)
MARGINAL = 2  # prices of a number, for a marginal that makes questions about its attributes clear
_TOGETHER = 3  # attributes of such a marginal: pairs were measured at opening


def next_part(bought: int, full: int = FULL) -> Fraction:
    """Return the part of what is left that the next number costs, after so many.

    The first m = ``FULL`` numbers cost alike, the k-th after them in proportion to m/(k (1 + ln(k/m))^2), a
    sum that converges. The part is the number's weight over the sum of all weights from it on, which is
    m - k + 1 + m, or at most s_k + m/(1 + ln(k/m)). ``offered`` lets no price fall below a quarter.
    """
    number = bought + 1
    if number <= full:
        return Fraction(1, 2 * full - bought)
    slow = 1 + math.log(number / full)
    part = 1 / (1 + number * slow)
    return Fraction(math.floor(part * _GRID), _GRID)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a number costs now, and the bar that it gives.

    Args:
        price: in the filter's own measure.
        noise: of the number of one question, in units.
        half_width: of its bar, in records.
    """

    price: Fraction
    noise: NoiseDistribution
    half_width: float


def offered(
    state: PublicState, left: Fraction, bought: int, part: float = 1.0, most: Fraction | None = None
) -> Offer | None:
    """Return what the next number costs; None where the session buys none, or too little is left.

    Args:
        left: what may be charged for the analyst, in the filter's own measure.
        part: the analyst's share of the reserve: of the numbers at the full price as many belong to it.
        most: what may be charged for one question unless it is told; a number costs no more.
    """
    options = state.contract.options
    if not options.reserved or state.closed:
        return None
    left = max(min(left, affordable_price(state) - quantiles_left(state)), Fraction(0))
    full, falling = full_price(state), left * next_part(bought, max(1, round(part * FULL)))
    least = full * _LEAST
    price = floor_price(min(full, max(falling, least), left if most is None else most))
    if not floor_price(least) <= price <= left:
        return None
    moved = query_sensitivity(options)
    try:
        noise = noise_of_price(state.ledger.composition, price, Moved(moved, moved**2))
    except NoiseError:
        return None
    return Offer(price, noise, half_width(noise, Confidences.in_state(state).number))


def are_unclear(
    state: PublicState, questions: Questions, intervals: NDArray[np.float64], width: float
) -> NDArray[np.bool_]:
    """Tell which questions have bars so wide that a number of their own narrows them: bool, shape (n,).

    Bars that are clear by scales alone are no wider than what is clear at the full price, so none of these is
    paid for. The others may be kept, and drawn widths decide whether they are: what may fail is shared with
    the number (``pmw.public.clear``). A question that has a number of its own is paid for again where the
    next one would be narrower, by scales alone.

    Args:
        intervals: float64, shape (n, 2), of their answers.
        width: half-width of the bar that a number gives, in records.
    """
    widest, numbers = GAIN * width, own_numbers(state)
    found = ~((intervals[:, 1] - intervals[:, 0]) / 2 <= widest)
    confidence = Confidences.in_state(state).number
    for place in numbers.places(questions).tolist():
        own = numbers.of(questions.query(place))
        found[place] = own is not None and half_width(own.noise, confidence) > widest
    for place in np.flatnonzero(found).tolist():
        found[place] = is_counted(questions.query(place))
    return np.asarray(found)


def drawn_together(
    state: PublicState, questions: Questions, intervals: NDArray[np.float64], offer: Offer
) -> Requested | None:
    """Return the numbers that are drawn for a statement's questions; None where no bar is wide beside them.

    Where questions overlap, their numbers have more noise than that of one question alone.

    Args:
        intervals: float64, shape (n, 2), of their answers.
    """
    if not are_unclear(state, questions, intervals, offer.half_width).any():
        return None
    rows = numbers_at(state, list(questions), offer.price)
    if rows is None:
        return None
    width = half_width(rows.noise, Confidences.in_state(state).number)
    return rows if are_unclear(state, questions, intervals, width).any() else None


class MarginalOffer(NamedTuple):
    """A marginal of three attributes that may be measured in place of numbers.

    Attributes:
        requested: what is measured.
        after: what bounds questions with it, as scales tell; the numbers of questions themselves say nothing.
    """

    requested: Requested
    after: Bars

    def serves(self, state: PublicState, queries: Sequence[LinearQuery]) -> bool:
        """Tell whether all questions are clear by scales with it, and one is not without it.

        What was drawn of the questions does not decide it: so its bars fail as often as others.
        """
        widest, now = clear_half_width(state), Bars(state, paid=False)

        def are_clear(bars: Bars) -> bool:
            widths = map(bars.half_width, queries)
            return all(width is not None and width <= widest for width in widths)

        return all(map(is_counted, queries)) and are_clear(self.after) and not are_clear(now)


def offered_marginal(state: PublicState, scope: tuple[str, ...], price: Fraction) -> MarginalOffer | None:
    """Return the marginal of three attributes that may be measured in place of numbers; None where none may.

    It costs two prices.

    Args:
        scope: attribute names in declared order.
        price: of a number, in the filter's own measure.
    """
    grid = state.grid(scope)
    if len(scope) != _TOGETHER or grid.scope_shape(scope) != state.domain.scope_shape(scope):
        return None
    rows = strategy_of(state, scope)
    if rows is None or any(one.scope == scope for one in state.marginals):
        return None
    try:
        noise = marginal_noise(
            state.ledger.composition, floor_price(MARGINAL * price), state.contract.options
        )
        rows.noise(noise)
    except NoiseError:
        return None
    return MarginalOffer(
        Requested(CellNumbers(scope, rows), noise), bars_after(state, scope, noise, paid=False)
    )


def numbers_at(state: PublicState, queries: Sequence[LinearQuery], price: Fraction) -> Requested | None:
    """Return the numbers of questions, drawn together for a price; None where none is drawn.

    Disjoint questions, such as the groups of a statement, cost what one does; where they overlap, or weigh
    records, the noise is such that all of them together cost no more.

    Args:
        price: of all of them, in the filter's own measure.
    """
    found = {query.to_json(): query for query in queries if is_counted(query)}
    rows = tuple(found.values())
    if not 0 < len(rows) <= MOST_ROWS or not are_counted(rows):
        return None
    what = QuestionNumbers(rows)
    moved = what.sensitivity(state.contract.options)
    if not moved.l1:  # public numbers tell the answers
        return None
    try:
        return Requested(what, noise_of_price(state.ledger.composition, price, moved))
    except NoiseError:  # beyond every scale
        return None
