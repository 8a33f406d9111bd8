"""Clear: how wide a bar may be before a number of the question itself is drawn, and what such numbers cost.

A reserve has two pots, fixed at opening: one of numbers and of whatever is asked for, one of parts. Parts are
marginals that many questions rest on. Nothing is paid from the other pot.

In a session with a reserve a question is paid for where its bar is wide. A bar that may be kept for being
narrow, and the number that is drawn where it is not, share what may fail: a fifth and four fifths. So the bar
that is shown misses no more often than stated, whichever it is (``docs/intervals.md``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from pmw.errors import NoiseError
from pmw.model import MarginalMeasurement, half_width
from pmw.privacy.budget import Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteGaussian, NoiseDistribution
from pmw.public.charges import (
    PersonNumbers,
    marginal_charge,
    opening_entries,
    quantile_entry,
    query_sensitivity,
)
from pmw.public.error_quantiles import SHARE
from pmw.public.foundations import founding_scopes
from pmw.public.half_widths import Confidences
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, marginal_tier
from pmw.public.state import LaterMeasurement, PublicState

FULL = 180  # numbers of each analyst at the full price
GAIN = 1.1  # times the bar of a number: what is wider is paid for
PARTS = Fraction(15, 100)  # of the reserve, for parts


def left_by_opening(state: PublicState, plan: OpeningPlan, persons: NoiseDistribution | None) -> Fraction:
    """Return what opening leaves for what is asked, as a part of the cap: it never changes.

    Opening is all that is charged before any question, whether it is measured yet or not.
    """
    options, ledger, tier = state.contract.options, state.ledger, marginal_tier(state.plan)
    charges = [entry.charge for entry in opening_entries(plan, options)]
    if persons is not None:
        charges.append(PersonNumbers((), 1).charge(persons, options))
    if tier is not None:
        charges += [marginal_charge(tier.noise_of(scope), options) for scope in founding_scopes(state)]
    return max(1 - sum(map(ledger.price, charges), Fraction(0)) / ledger.cap, Fraction(0))


def full_price(state: PublicState) -> Fraction:
    """Return the most that a number costs, in the filter's own measure: a part of the pot of numbers.

    No number is drawn more precisely than so many others could be.
    """
    return state.ledger.cap * state.contract.options.reserved * (1 - PARTS) / (2 * FULL)


def pot_of_parts(state: PublicState) -> Fraction:
    """Return what opening left for parts, in the filter's own measure; 0 where there are none."""
    return state.ledger.cap * state.contract.options.reserved * PARTS * bool(state.plan)


def left_for_parts(state: PublicState) -> Fraction:
    """Return what parts have not spent of their pot, in the filter's own measure; 0 where there are none."""
    pot = pot_of_parts(state)
    if not pot:
        return pot
    empty = replace(state.ledger, spent=Fraction(0))
    return max(pot - _spent_on_parts(state.measured, empty, state.contract.options), Fraction(0))


def left_for_quantiles(state: PublicState) -> Fraction:
    """Return what error quantiles have not spent of their share, in the filter's own measure."""
    options, ledger = state.contract.options, state.ledger
    entries = (quantile_entry(one.kind.describe(), one.noise, options) for one in state.quantiles)
    return ledger.cap * SHARE - sum((ledger.price(entry.charge) for entry in entries), Fraction(0))


def left_of_reserve(state: PublicState) -> Fraction:
    """Return what is left of a reserve and its parts, as a part of the cap: what quantiles do not keep."""
    parts, left = left_for_parts(state), state.ledger.remaining
    return max(left - max(left_for_quantiles(state), Fraction(0)), min(parts, left)) / state.ledger.cap


def may_draw(state: PublicState) -> bool:
    """Tell whether noise may still be drawn for a question: a number of the reserve, or that of a test."""
    if state.contract.options.reserved and not state.closed:
        return state.ledger.remaining > left_for_parts(state)
    return not state.closed and state.positives_used < state.positives_limit


@functools.lru_cache(maxsize=16)  # each question asks for it several times
def _spent_on_parts(
    measured: Sequence[LaterMeasurement], ledger: PrivacyFilter, options: Options
) -> Fraction:
    parts = (one for one in measured if isinstance(one, MarginalMeasurement) and one.part)
    return sum((ledger.price(marginal_charge(one.noise, options)) for one in parts), Fraction(0))


def clear_half_width(state: PublicState) -> float:
    """Return the half-width, in records, up to which a bar is clear whoever asks; infinite without a reserve.

    It is that of a number at the full price, and a tenth.
    """
    return GAIN * number_half_width(state)


def number_half_width(state: PublicState) -> float:
    """Return the half-width of a number at the full price, in records; infinite where none is drawn.

    It depends on the contract, and on whether the number of records is public.
    """
    options, price = state.contract.options, full_price(state)
    if not price or state.ledger.composition is Composition.PURE:
        return math.inf
    squares = query_sensitivity(options) ** 2 / (price * (1 + (state.ledger.composition is Composition.ZCDP)))
    try:
        noise = DiscreteGaussian(Fraction(max(1, math.isqrt(math.ceil(squares)))))
    except NoiseError:  # beyond every scale
        return math.inf
    return half_width(noise, Confidences.in_state(state).number)
