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


def plan_finish(state: PublicState, asked: Iterable[LinearQuery]) -> tuple[Quote, ...]:
    """Return the marginals that are measured to finish a session, each at an equal part of what is left.

    Those that the most questions rest on come first, and none has more noise than what a positive measures:
    on small tables noisier ones made the errors of what was asked larger (docs/algorithm.md).

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
    chosen = sorted(uses, key=lambda scope: (-uses[scope], scope))[: int(left / least)]
    if not chosen:
        return ()
    noise = marginal_noise(ledger.composition, floor_price(left / len(chosen)), options)
    return tuple(quote_noise(state, scope, noise) for scope in chosen)


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
