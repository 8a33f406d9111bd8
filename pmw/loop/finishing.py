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
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Protocol

from pmw.loop.fit import model_holds
from pmw.model import NoiseDistribution
from pmw.planning.calibration import marginal_noise
from pmw.planning.error_quantiles import is_due, kept_for_tests, quantiles_left
from pmw.privacy.budget import floor_price
from pmw.public.charges import marginal_charge, requested_entry, reservation
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.quotes import Quote, affordable_price, measuring_plan, quote_noise
from pmw.public.state import PublicState, is_requested
from queries.linear import LinearQuery

__all__ = [
    "Answered",
    "plan_finish",
    "plan_spare",
]

# Prices of a positive that a first measurement takes where a test found the model right: a negative says that
# it errs about as little as such a measurement would, so that one of more noise would make it worse.
_CERTIFIED = 4
_SETTLED = 4  # lengths of the thresholds' decay, before which positives come late
_AGAIN = 4  # times as many positives are kept as there were since half as many answers


def plan_finish(state: PublicState, asked: Iterable[LinearQuery]) -> tuple[Quote, ...]:
    """Return the marginals that are measured to finish a session.

    Those that the most questions rest on come first, and none has more noise than what a positive measures,
    or half of that where a test found the model right: on small tables noisier ones made the errors of what
    was asked larger (docs/algorithm.md). All that is left is shared among them.

    Args:
        state: the public state.
        asked: the distinct questions that were asked.

    Raises:
        SessionError: the session measures nothing on request.
    """
    plan, options, ledger = measuring_plan(state), state.contract.options, state.ledger
    uses = _uses(state, Counter(query.scope for query in asked), plan.most_cells)
    left = affordable_price(state)
    least = ledger.price(requested_entry((), plan.noise, options).charge)
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


class Answered(Protocol):
    """What a session knows of the questions that it answered."""

    def scopes(self) -> Mapping[tuple[str, ...], int]:
        """Return how many distinct ones each scope has."""

    def version(self, number: int) -> int:
        """Return the version of the model that the answer of a number came from."""


def plan_spare(state: PublicState, answered: Answered) -> tuple[tuple[str, ...], NoiseDistribution] | None:
    """Return which marginal is measured next, and with which noise, because tests do not need its price.

    It is due where error quantiles are, once the thresholds of tests have come down, until no more is left
    than is kept for tests. It is the one whose noise the price lowers most, times the questions that rest on
    it; the price is that of a positive's, or four of them where a test found the model right.

    Args:
        state: the public state.
        answered: what is known of the questions.

    Returns:
        The scope, and the noise on each of its cells; None where nothing is due or spare.

    Privacy: a function of public state and of the questions.
    """
    plan, kept = marginal_tier(state.plan), kept_for_tests(state)
    if not is_due(state.asked) or state.closed or plan is None or kept is None:
        return None
    left = affordable_price(state) - quantiles_left(state)
    least = state.ledger.price(requested_entry((), plan.noise, state.contract.options).charge)
    if state.asked < _SETTLED * plan.decay[1] or left - kept < least:
        return None
    uses = answered.scopes()
    new = sum(not is_requested(one) for one in state.measured[answered.version(state.asked // 2) :])
    wanted = _AGAIN * new + _unasked(state, uses) * plan.update_limit
    spare = left - max(kept, _positives(state, plan, wanted))
    return _most_gained(state, _uses(state, uses, plan.most_cells), least, spare)


def _most_gained(
    state: PublicState, uses: Mapping[tuple[str, ...], int], least: Fraction, spare: Fraction
) -> tuple[tuple[str, ...], NoiseDistribution] | None:
    """Return which scope's noise a price lowers most, times its uses, and the noise; None for none.

    Args:
        state: the public state.
        uses: how many questions rest on each scope.
        least: price of a positive's measurement.
        spare: the most that may be spent.
    """
    best = None
    for scope, count in sorted(uses.items()):
        certified = scope in state.certificates
        parts, paid = _CERTIFIED if certified else 1, _paid(state, scope) / least + certified
        gain = Fraction(count) / (paid * (paid + parts)) if paid else math.inf
        if parts * least <= spare and (best is None or (gain, count) > best[:2]):
            best = gain, count, scope, parts * least
    if best is None:
        return None
    noise = marginal_noise(state.ledger.composition, floor_price(best[3]), state.contract.options)
    return best[2], noise


def _paid(state: PublicState, scope: tuple[str, ...]) -> Fraction:
    """Return what the measurements that hold a scope cost, in the filter's own measure."""
    options, ledger = state.contract.options, state.ledger
    found = (one for one in (*state.opening, *state.marginals) if set(scope) <= set(one.scope))
    return sum((ledger.price(marginal_charge(one.noise, options)) for one in found), Fraction(0))


def _positives(state: PublicState, plan: MarginalTestPlan, number: Fraction) -> Fraction:
    """Return what a number of positives cost with their rounds."""
    charge = reservation(plan, state.contract.options, state.ledger.composition, round_open=False)
    return number * state.ledger.price(charge)


def _unasked(state: PublicState, scopes: Iterable[tuple[str, ...]]) -> Fraction:
    """Return the part of the pairs of attributes that no question was about."""
    asked = {pair for scope in scopes for pair in itertools.combinations(scope, 2)}
    return 1 - Fraction(len(asked), max(1, math.comb(len(state.domain.names), 2)))


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
