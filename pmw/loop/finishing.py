"""What tests do not need, spent on the marginals that the asked questions rest on.

A session that will be asked nothing more needs no tests. What they were planned for is then measured: again
where a marginal was measured, so that its noise becomes less, else for the first time. A long stream shows
that it needs fewer tests than were planned for, and what they would have cost is measured alike, in parts. A
function of public state and of the questions; no test decides it, so it is no more than requested marginals.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple, TypeAlias

from pmw.loop.fit import model_holds
from pmw.loop.purchases import numbers_at
from pmw.model.measurement import half_width
from pmw.planning.calibration import marginal_noise
from pmw.planning.error_quantiles import is_due, kept_for_tests, quantiles_left
from pmw.planning.opening import kept_for_later
from pmw.planning.parts import plan_part
from pmw.planning.row_quotes import MOST_ROWS, are_counted, is_counted
from pmw.privacy.budget import floor_price
from pmw.privacy.noise import NoiseDistribution
from pmw.public.bars import Bars
from pmw.public.charges import Parts, marginal_charge, reservation
from pmw.public.clear import GAIN, left_for_parts
from pmw.public.half_widths import Confidences
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.quotes import Quote, affordable_price, measuring_plan, quote_noise, quote_of
from pmw.public.state import PublicState, requested
from queries.frozen import dataclass
from queries.linear import LinearQuery

# Prices of a positive that a first measurement takes where a test found the model right: a negative says that
# it errs about as little as such a measurement would, so that one of more noise would make it worse.
_CERTIFIED = 4
_SETTLED = 4  # lengths of the thresholds' decay, before which positives come late
_AGAIN = 4  # times as many positives are kept as there were since half as many answers


def plan_finish(state: PublicState, asked: Sequence[LinearQuery]) -> tuple[Quote, ...]:
    """Return the marginals that are measured to finish a session.

    Those that the most questions rest on come first, and none has more noise than what a positive measures,
    or half of that where a test found the model right: on a table of 3,000 people noisier ones made the
    errors of what was asked 12 % larger, these up to 14 % smaller. All that is left is shared among them.
    With a reserve, half of what numbers have left is for those of the asked questions whose bars are wider
    than such numbers' would be, all drawn together; the rest, and the pot of parts, is the last part.
    """
    plan, options, ledger = measuring_plan(state), state.contract.options, state.ledger
    scopes, left = Counter(query.scope for query in asked), affordable_price(state)
    if options.reserved:
        numbers = _wide_numbers(state, asked, left / 2)
        left += left_for_parts(state) - sum(map(partial(_price, state), numbers), Fraction(0))
        scoped = [quote_noise(state, *one) for one in plan_part(state, scopes, left)]
        return tuple(replace(one, affordable=True) for one in (*scoped, *numbers))
    uses = _uses(state, scopes, plan.most_cells)
    least = ledger.price(marginal_charge(plan.noise, options))
    chosen: dict[tuple[str, ...], int] = {}
    for scope in sorted(uses, key=lambda scope: (-uses[scope], scope)):
        parts = _CERTIFIED if scope in state.certificates else 1
        if least * (sum(chosen.values()) + parts) <= left:
            chosen[scope] = parts
    part = left / max(1, sum(chosen.values()))
    return tuple(
        quote_noise(state, scope, marginal_noise(ledger.composition, floor_price(part * parts), options))
        for scope, parts in chosen.items()
    )


def _price(state: PublicState, quote: Quote) -> Fraction:
    if quote.what is None or quote.noise is None:
        return Fraction(0)
    return state.ledger.price(quote.what.charge(quote.noise, state.contract.options))


def _wide_numbers(state: PublicState, asked: Sequence[LinearQuery], most: Fraction) -> tuple[Quote, ...]:
    """Return the quote of numbers of the asked questions whose bars are wide; none where all are narrow."""
    bars, price, confidence = Bars(state), floor_price(most), Confidences.in_state(state).number
    known = ((bars.half_width(query), query) for query in asked if is_counted(query))
    widths = [(math.inf if width is None else width, query) for width, query in known]
    widest = sorted(widths, key=lambda one: -one[0])[:MOST_ROWS]
    while widest and not are_counted([query for _, query in widest]):  # over too many cells together
        widest = widest[: len(widest) // 2]
    rows = numbers_at(state, [query for _, query in widest], price)
    if rows is not None:
        narrow = GAIN * half_width(rows.noise, confidence)
        wide = [query for width, query in widest if width > narrow]
        rows = numbers_at(state, wide, price)
        if rows is not None:
            width = half_width(rows.noise, confidence)
            return (quote_of(state, rows.what, len(wide), rows.noise, width),)
    return ()


Scopes: TypeAlias = Mapping[str, Mapping[tuple[str, ...], int]]  # of each analyst, its questions by scope


@dataclass(frozen=True, slots=True)
class Payer:
    """What an analyst may still be booked.

    Args:
        share: the part of the cap.
        left: what is left of it, in the filter's own measure.
    """

    share: Fraction
    left: Fraction


class Spare(NamedTuple):
    """A marginal that is measured unasked.

    Attributes:
        scope: attribute names in declared order.
        noise: on each of its cells, in units.
        booked: who pays for it, and which part.
    """

    scope: tuple[str, ...]
    noise: NoiseDistribution
    booked: Parts


def plan_spare(
    state: PublicState,
    scopes: Callable[[], Scopes],
    version: Callable[[int], int],
    payers: Mapping[str, Payer | None],
) -> Spare | None:
    """Return which marginal is measured next, and with which noise, because tests do not need its price.

    It is due where error quantiles are, once the thresholds of tests have come down, until no more is left
    than is kept for tests. It is the one whose noise the price lowers most, times the questions that rest on
    it; the price is that of a positive's, or four of them where a test found the model right. Analysts pay in
    proportion to those questions, and keep of their shares what the session keeps of the cap, or the price of
    a test. The questions of whoever has not so much left, or is not known, count for nothing.

    Args:
        scopes: returns how many settled questions each scope has.
        version: returns the version of the model that settled a question, by its place among all, from 1.
        payers: what analysts may still be booked; None where the cap alone binds.

    Returns:
        What is measured; None where nothing is due or spare.

    Privacy: a function of public state and of the questions.
    """
    plan, kept = marginal_tier(state.plan), kept_for_tests(state)
    is_over = state.closed or bool(state.contract.options.reserved)  # or kept for what is asked
    if not is_due(state.settled) or is_over or plan is None or kept is None:
        return None
    left = affordable_price(state) - quantiles_left(state) - kept_for_later(state)
    least = state.ledger.price(marginal_charge(plan.noise, state.contract.options))
    if state.settled < _SETTLED * plan.decay[1] or left - kept < least:
        return None
    asked = scopes()
    new = sum(requested(one) is None for one in state.measured[version(state.settled // 2) :])
    pairs = {pair for scope in set().union(*asked.values()) for pair in itertools.combinations(scope, 2)}
    unasked = 1 - Fraction(len(pairs), max(1, math.comb(len(state.domain.names), 2)))
    wanted = _AGAIN * new + unasked * plan.update_limit
    reserve, test = max(kept, _positives(state, plan, wanted)), _positives(state, plan, Fraction(1))
    room = {
        name: left - reserve
        if one is None
        else min(left - reserve, one.left - max(one.share * reserve, test))
        for name, one in payers.items()
    }
    uses = {name: _uses(state, asked[name], plan.most_cells) for name in sorted(asked.keys() & payers.keys())}
    return _most_gained(state, uses, least, room)


def _most_gained(
    state: PublicState,
    uses: Mapping[str, Mapping[tuple[str, ...], int]],
    least: Fraction,
    room: Mapping[str, Fraction],
) -> Spare | None:
    """Return the scope whose noise a price lowers most, times its uses, with noise and payers, or None."""
    best = None
    for scope in sorted(set().union(*uses.values())):
        certified = scope in state.certificates
        parts, paid = _CERTIFIED if certified else 1, _paid(state, scope) / least + certified
        paying = _paying({name: one.get(scope, 0) for name, one in uses.items()}, parts * least, room)
        count = sum(paying.values())
        gain = Fraction(count) / (paid * (paid + parts)) if paid else math.inf
        if count and (best is None or (gain, count) > best[:2]):
            best = gain, count, scope, parts * least, paying
    if best is None:
        return None
    _, count, scope, price, paying = best
    noise = marginal_noise(state.ledger.composition, floor_price(price), state.contract.options)
    return Spare(scope, noise, tuple((name, Fraction(own, count)) for name, own in sorted(paying.items())))


def _paying(uses: Mapping[str, int], price: Fraction, room: Mapping[str, Fraction]) -> Mapping[str, int]:
    """Return the uses of those who pay a price in proportion to them; who has no room for it is left out."""
    # Then the parts of the others grow: whoever was left out has no room for the larger part either.
    paying = {name: own for name, own in uses.items() if own}
    while True:
        count = sum(paying.values())
        able = {name: own for name, own in paying.items() if price * own <= room[name] * count}
        if len(able) == len(paying):
            return paying
        paying = able


def _paid(state: PublicState, scope: tuple[str, ...]) -> Fraction:
    options, ledger = state.contract.options, state.ledger
    found = (one for one in (*state.opening, *state.marginals) if set(scope) <= set(one.scope))
    return sum((ledger.price(marginal_charge(one.noise, options)) for one in found), Fraction(0))


def _positives(state: PublicState, plan: MarginalTestPlan, number: Fraction) -> Fraction:
    charge = reservation(plan, state.contract.options, state.ledger.composition, round_open=False)
    return number * state.ledger.price(charge)


def _uses(
    state: PublicState, asked: Mapping[tuple[str, ...], int], most_cells: int
) -> Mapping[tuple[str, ...], int]:
    """Return how many questions rest on each marginal: those measured that hold their pairs, or the pairs."""
    uses = Counter[tuple[str, ...]]()
    measured = sorted({one.scope for one in state.marginals}, key=lambda scope: (len(scope), scope))
    for scope, count in asked.items():
        for pair in itertools.combinations(scope, min(2, len(scope))):
            found = next((wider for wider in measured if set(pair) <= set(wider)), pair)
            if found and state.grid(found).scope_size(found) <= most_cells and model_holds(state, found):
                uses[found] += count
    return uses
