"""Quality: how near counts of a synthetic table are, and what a model that is trained on it lacks.

It is made of half-widths of error bars, which follow from the noise, and of which tables were measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pmw.display.texts import counted, isolated, number, percent
from pmw.model import MarginalMeasurement
from pmw.public.bars import Bars
from pmw.public.pairs import HeldPairs, held_pairs
from pmw.public.quotes import cell_question
from pmw.public.state import PublicState

Scope: TypeAlias = tuple[str, ...]

_MOST_PAIRS = 200  # lines of a table
_MOST_NAMES = 10  # of a sentence


def quality(state: PublicState) -> dict[str, Any]:
    """Return the half-widths of counts by attribute and by pair, and in words what is lacking.

    Returns:
        ``by_attribute`` and ``by_pair``, cells of tables, the widest pair first; ``more_pairs``, in words;
        ``lacks``, sentences.

    Privacy: post-processing of released numbers; free.
    """
    pairs, bars = held_pairs(state), Bars(state)
    held = sorted(pairs.held)
    alone: list[Scope] = [(name,) for name in state.domain.names]
    widths = {scope: _half_width(state, bars, scope) for scope in (*alone, *held[:_MOST_PAIRS])}
    together = sorted(held[:_MOST_PAIRS], key=lambda pair: -widths[pair])
    rows: dict[int, list[tuple[str, ...]]] = {1: [], 2: []}
    for scope in (*alone, *together):
        cells, part = f"{state.grid(scope).scope_size(scope):,}", percent(widths[scope] / state.total.value)
        row = _named(scope), cells, number(widths[scope]), part
        partners = (f"{sum(scope[0] in pair for pair in held):,}",) if len(scope) == 1 else ()
        rows[len(scope)].append((*row, *partners))
    return {
        "by_attribute": rows[1],
        "by_pair": rows[2],
        "more_pairs": counted(len(held) - _MOST_PAIRS, "more pair") if held[_MOST_PAIRS:] else "",
        "lacks": list(_lacks(state, pairs, widths)),
    }


def _half_width(state: PublicState, bars: Bars, scope: Scope) -> float:
    """Return the half-width of the bar of a count in the middle of a table, in records; NaN for none."""
    grid = state.grid(scope)
    middle = [size // 2 for size in grid.scope_shape(scope)]
    width = bars.half_width(cell_question(state, scope, middle, grid))
    return math.nan if width is None else width


def _named(scope: Scope) -> str:
    return " and ".join(map(isolated, scope))


def _some(scopes: Sequence[Scope]) -> str:
    more = f" and {len(scopes) - _MOST_NAMES:,} more" if scopes[_MOST_NAMES:] else ""
    return ", ".join(map(_named, scopes[:_MOST_NAMES])) + more


def _lacks(state: PublicState, pairs: HeldPairs, widths: dict[Scope, float]) -> Iterator[str]:
    """Yield what a model that is trained on the rows does not learn of the table, a sentence each."""
    if missing := pairs.missing:
        yield (
            f"It does not learn how attributes of {counted(len(missing), 'pair')} go together, which were "
            f"not measured: {_some(missing)}."
        )
    orders = (len(one.scope) for one in state.measurements if isinstance(one, MarginalMeasurement))
    order = max(orders, default=1)
    if order < len(state.domain):
        known = "counts of single attributes" if order == 1 else f"counts of {order} attributes together"
        yield f"It finds nothing of more attributes together than {known} tell: that was not measured."
    mean = {scope: state.total.value / state.grid(scope).scope_size(scope) for scope in widths}
    noisy = [scope for scope, width in widths.items() if not width < mean[scope]]
    if noisy:
        yield f"It learns noise of most groups by {_some(noisy)}: an error is as large as a mean count there."
    elif widths:
        yield f"Groups of fewer than {number(max(widths.values()))} records are noise: it learns chance."
    pooled = zip(state.domain, state.coarsening.bins, strict=True)
    if binned := [(one.name,) for one, bin_ in pooled if bin_ is not None]:
        yield f"Values inside a group of neighbouring values go with no other attribute: {_some(binned)}."
