"""Finishing: what is left of a budget, spent on the marginals that the asked questions rest on.

A session that will be asked nothing more needs no tests. What they were planned for is then measured: again
where a marginal was measured, so that its noise becomes less, else for the first time. A function of public
state and of the questions; no test decides it, so it is no more than a list of requested marginals.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

from pmw.loop.fit import model_holds
from pmw.planning.calibration import marginal_noise
from pmw.privacy.budget import floor_price
from pmw.public.charges import requested_entry
from pmw.public.quotes import Quote, affordable_price, measuring_plan, quote_noise
from pmw.public.state import PublicState
from queries.linear import LinearQuery

__all__ = [
    "plan_finish",
]

# Prices of a positive that a first measurement takes where a test found the model right: a negative says that
# it errs about as little as such a measurement would, so that one of more noise would make it worse.
_CERTIFIED = 4


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
