"""Parts of the reserve: which marginals are measured again, or for the first time, for what was asked.

At growing numbers of an analyst's questions, half of what the analyst's pot of parts holds goes to the
attributes, pairs and triples that these questions rest on. A set A of attributes has the price p_A that
lowers the questions' expected variance most: in proportion to the root of c_A, the sum over the questions
with A in their scope of prod_{i in A} v_i prod_{i not in A} m_i (``shared_prices``). What was paid for A
before counts, so that nothing is bought again that has its price. A triple begins with the price at which its
noise is as large as the interaction that is expected.

All of it follows from prices, scales and questions, never from what was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from pmw.errors import NoiseError
from pmw.model.measurement import ResidualMeasurement
from pmw.model.prices import AxisPrice, asked_prices
from pmw.planning.calibration import marginal_noise
from pmw.privacy.noise import DiscreteGaussian, NoiseDistribution
from pmw.public.charges import marginal_charge
from pmw.public.foundations import strategy_of
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from queries.factors import UNITS

_FIRST, _GROWTH = 64, 4  # questions of the first part, and how many times as many the next one has
_PSEUDO = 64  # questions that opening's own prices count as
# Part of what independence makes of it by which a triple is expected to move a question: .003 to .027 on the
# tables of the benchmarks.
_INTERACTION = 0.015
_LEAST = 1.1  # times the price that was paid: nothing is bought for less
_GRID = 2**40  # of parts of what is spent

Scope: TypeAlias = tuple[str, ...]


class Level(NamedTuple):
    """How a set of attributes is paid.

    Attributes:
        weight: the root of c_A, in proportion.
        held: what was paid; for a triple, also what the interaction that is expected is worth.
    """

    weight: float
    held: float


def next_due(questions: int) -> int:
    """Return the next number of an analyst's questions, above this one, at which a part comes due."""
    due = _FIRST
    while due <= questions:
        due *= _GROWTH
    return due


def newest_due(questions: int) -> int:
    """Return the newest such number, up to this one; 0 where no part came due."""
    return next_due(questions) // _GROWTH if questions >= _FIRST else 0


def plan_part(
    state: PublicState, asked: Mapping[Scope, int], spent: Fraction
) -> tuple[tuple[Scope, NoiseDistribution], ...]:
    """Return the marginals of a part, with the noise of each, the dearest first.

    Args:
        spent: what they cost together at most, in the filter's own measure.
    """
    added, found = water_filled(_levels(state, asked), float(spent)), list[tuple[Scope, NoiseDistribution]]()
    whole = sum(added.values())
    for scope in sorted(added, key=lambda scope: (-added[scope], scope)):
        price = spent * Fraction(math.floor(added[scope] / whole * _GRID), _GRID)
        rows = strategy_of(state, scope)
        try:
            noise = marginal_noise(state.ledger.composition, price, state.contract.options)
            if rows is not None:
                rows.noise(noise)
                found.append((scope, noise))
        except NoiseError:  # it has no scale
            continue
    return tuple(found)


def water_filled(levels: Mapping[Scope, Level], spent: float) -> dict[Scope, float]:
    """Return what is added to prices, so that they come up to one multiple of their weights.

    The price of A becomes max(held, lambda weight), with such a lambda that all is spent. What would grow by
    less than a tenth is left out, the least first.
    """
    filled, weight, held = list[Scope](), 0.0, spent
    for scope in sorted(levels, key=lambda scope: (levels[scope].held / levels[scope].weight, scope)):
        one = levels[scope]
        if filled and one.held * weight >= held * one.weight:
            break
        filled, weight, held = [*filled, scope], weight + one.weight, held + one.held
    while filled and spent > 0:
        last = levels[filled[-1]]  # which grows least
        if held * last.weight >= _LEAST * last.held * weight:
            return {scope: held * levels[scope].weight / weight - levels[scope].held for scope in filled}
        filled, weight, held = filled[:-1], weight - last.weight, held - last.held
    return {}


def _levels(state: PublicState, asked: Mapping[Scope, int]) -> dict[Scope, Level]:
    """Return what may be bought: what opening measured by rows, and triples of it that were asked for."""
    tier, opened, paid = marginal_tier(state.plan), dict[Scope, float](), dict[Scope, float]()
    for one in (*state.opening, *state.marginals):
        if tier is not None and isinstance(one, ResidualMeasurement):
            price = float(state.ledger.price(marginal_charge(one.noise, state.contract.options)))
            paid[one.scope] = paid.get(one.scope, 0.0) + price
            if len(one.scope) <= tier.order:  # the first is opening's
                opened.setdefault(one.scope, price)
    alone, together = (
        {one.name: AxisPrice.of(one) for one in domain} for domain in (state.domain, state.coarsening.coarse)
    )
    need = asked_prices(asked, alone, together, (1, 2, 3))
    first, questions = sum(opened.values()), sum(asked.values())
    every = sum(need.get(scope, 0.0) for scope in opened)
    if not every:
        return {}
    known = questions / (questions + _PSEUDO)
    unit = marginal_charge(DiscreteGaussian(Fraction(UNITS)), state.contract.options)
    record = float(state.ledger.price(unit))
    found = dict[Scope, Level]()
    for scope in sorted(opened.keys() | need.keys()):
        own, usual = (
            known**0.5 * need.get(scope, 0.0) / every,
            (1 - known) ** 0.5 * opened.get(scope, 0.0) / first,
        )
        if scope in opened:
            found[scope] = Level(math.hypot(own, usual), paid[scope])
        elif own and len(scope) == 3 and strategy_of(state, scope) is not None:
            # Worth the price at which noise is as large as the interaction of a triple that is expected.
            axes = [together[name] for name in scope]
            spread, mean = math.prod(one.spread for one in axes), math.prod(one.mean for one in axes)
            worth = record * spread / (mean * (_INTERACTION * state.total.value) ** 2)
            found[scope] = Level(own, paid.get(scope, 0.0) + worth)
    return found
