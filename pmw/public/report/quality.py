"""Quality: how near counts of a synthetic table are, and what a model that is trained on it lacks.

It is made of half-widths of error bars, which follow from the noise, and of which tables were measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pmw.display.texts import counted, isolated, listed, number, percent
from pmw.model import MarginalMeasurement
from pmw.public.bars import Bars
from pmw.public.pairs import HeldPairs, held_pairs
from pmw.public.quotes import cell_question
from pmw.public.state import PublicState

_MOST_PAIRS = 200  # lines of a table
_MOST_NAMES = 10  # of a sentence


def quality(state: PublicState) -> dict[str, Any]:
    """Return the half-widths of counts by attribute and by pair, and in words what is lacking.

    Args:
        state: of the session.

    Returns:
        ``by_attribute`` and ``by_pair``, cells of tables; ``more_pairs``, in words; ``lacks``, sentences.

    Privacy: post-processing of released numbers; free.
    """
    pairs, bars = held_pairs(state), Bars(state)
    alone: dict[tuple[str, ...], float] = {
        (name,): _half_width(state, bars, (name,)) for name in state.domain.names
    }
    held = sorted(pairs.held)
    together: dict[tuple[str, ...], float] = {
        pair: _half_width(state, bars, pair) for pair in held[:_MOST_PAIRS]
    }
    partners = {name: sum(name in pair for pair in held) for name in state.domain.names}
    others = {name: len(pairs.names) - 1 if name in pairs.names else 0 for name in state.domain.names}
    more = len(held) - _MOST_PAIRS
    widths = sorted(together.items(), key=lambda item: -item[1])
    return {
        "by_attribute": [
            (*_row(state, scope, width), f"{partners[scope[0]]:,} of {others[scope[0]]:,}")
            for scope, width in alone.items()
        ],
        "by_pair": [_row(state, scope, width) for scope, width in widths],
        "more_pairs": counted(more, "more pair") if more > 0 else "",
        "lacks": list(_lacks(state, pairs, {**alone, **together})),
    }


def _half_width(state: PublicState, bars: Bars, scope: tuple[str, ...]) -> float:
    """Return the half-width of the bar of a count in the middle of a table, in records; NaN for none."""
    grid = state.grid(scope)
    middle = [size // 2 for size in grid.scope_shape(scope)]
    width = bars.half_width(cell_question(state, scope, middle, grid))
    return math.nan if width is None else width


def _mean_count(state: PublicState, scope: tuple[str, ...]) -> float:
    return state.total.value / state.grid(scope).scope_size(scope)


def _row(state: PublicState, scope: tuple[str, ...], width: float) -> tuple[str, ...]:
    cells = f"{state.grid(scope).scope_size(scope):,}"
    return _named(scope), cells, number(width), percent(width / state.total.value)


def _named(scope: tuple[str, ...]) -> str:
    return " and ".join(map(isolated, scope))


def _lacks(state: PublicState, pairs: HeldPairs, widths: dict[tuple[str, ...], float]) -> Iterator[str]:
    """Yield what a model that is trained on the rows does not learn of the table, a sentence each."""
    if missing := pairs.missing:
        names = listed([_named(pair) for pair in missing[:_MOST_NAMES]])
        more = f" and {len(missing) - _MOST_NAMES:,} more pairs" if missing[_MOST_NAMES:] else ""
        yield (
            f"It does not learn how attributes of {counted(len(missing), 'pair')} go together, which were "
            f"not measured: {names}{more}."
        )
    orders = (len(one.scope) for one in state.measurements if isinstance(one, MarginalMeasurement))
    order = max(orders, default=1)
    if order < len(state.domain):
        known = "counts of single attributes" if order == 1 else f"counts of {order} attributes together"
        yield f"It finds nothing of more attributes together than {known} tell: that was not measured."
    if noisy := [scope for scope, width in widths.items() if not width < _mean_count(state, scope)]:
        names = listed([_named(scope) for scope in noisy[:_MOST_NAMES]])
        more = f" and {len(noisy) - _MOST_NAMES:,} more" if noisy[_MOST_NAMES:] else ""
        yield (
            "Most of what it learns of small groups is noise, where an error is as large as a mean count: "
            f"{names}{more}."
        )
    elif widths:
        yield f"Groups of fewer than {number(max(widths.values()))} records are noise: it learns chance."
    pooled = zip(state.domain, state.coarsening.bins, strict=True)
    if binned := [one.name for one, bin_ in pooled if bin_ is not None]:
        yield (
            "Values inside a group of neighbouring values go with no other attribute: such groups were "
            f"measured of {listed([isolated(name) for name in binned[:_MOST_NAMES]])}."
        )
