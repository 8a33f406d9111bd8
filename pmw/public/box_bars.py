"""Error bars of many boxes at once: what ``MarginalBars`` gives each of them alone, to the last bit.

The inner and the outer query of a box are boxes of bins. So prefix sums of what is known of a scope give the
value of each, and its half-width depends on how many cells it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.public.answer import Basis
from pmw.public.marginal_intervals import KnownOfScope, MarginalBars, Share
from pmw.public.state import Certificate
from queries.boxes import Boxes

__all__ = [
    "BASES",
    "box_bounds",
    "BoxBounds",
]

BASES = tuple(Basis)


class _NotAlikeError(Exception):
    """What bounds a box depends on more than how many cells it has."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxBounds:
    """What bounds boxes over one scope.

    Args:
        counts: float64, shape (n,), the model's answers, records.
        low: float64, shape (n,), records; NaN where an end is not known.
        high: the same of the other end.
        basis: uint8, shape (n,): places in ``BASES``.
    """

    counts: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    basis: NDArray[np.uint8]


# Values, half-widths in records, and places in BASES, one row each; NaN and infinite where nothing is known.
_Values: TypeAlias = NDArray[np.float64]


def box_bounds(bars: MarginalBars, boxes: Boxes) -> BoxBounds | None:
    """Return what bounds boxes; None where they have to be looked at one by one.

    That is where the model's marginal has too many cells for a table, a marginal lies beside the model or is
    on declared cells of bins that boxes cut, bins are no runs of cells, noise is that of a tree, or a
    contract moves answers.

    Args:
        bars: of the state that answers.
        boxes: the questions; each depends on all attributes of their scope.
    """
    sums = bars.model_sums(boxes.scope) if boxes.scope else None
    bins = bars.state.coarsening.box_bounds(boxes)
    if sums is None or bins is None or bars.state.contract.options.bar_limit is not None:
        return None
    inner, outer = bins
    cuts = np.any((inner.first != outer.first) | (inner.last != outer.last), axis=1)
    if any(beside or (fine and cuts.any()) for _, beside, fine in bars.known(boxes.scope).measured):
        return None
    ends = np.full((3, len(boxes)), math.nan)
    try:
        for cut in (False, True):
            places = np.flatnonzero(cuts == cut)
            if places.size:
                three = [one.take(places) for one in (boxes, inner, outer)]
                ends[:, places] = _ends(bars, *three, cut=cut)
    except _NotAlikeError:
        return None
    return BoxBounds(sums.many(boxes), ends[0], ends[1], ends[2].astype(np.uint8))


def _ends(bars: MarginalBars, boxes: Boxes, inner: Boxes, outer: Boxes, *, cut: bool) -> NDArray[np.float64]:
    """Return the low ends, the high ends, and what they rest on: float64, shape (3, n).

    Args:
        bars: of the state that answers.
        boxes: on declared cells.
        inner: on bins.
        outer: on bins.
        cut: each of them cuts a bin; else none does.
    """
    known = bars.known(boxes.scope)
    fine, coarse = (known.opened, known.opened_bins) if known.opened else (known.fine, known.coarse)
    if cut and not fine:
        low, high = _between(bars, inner, outer, coarse)
        bases = np.full(len(boxes), BASES.index(Basis.BINS))
    else:
        low = high = _narrowed(_unknown(len(boxes)), bars, boxes, fine, Share.ONE)
        if not cut:
            low = high = _narrowed(low, bars, inner, coarse, Share.ONE)
        bases = low[2]
    return np.stack([low[0] - low[1], high[0] + high[1], bases])


def _between(
    bars: MarginalBars, inner: Boxes, outer: Boxes, known: Sequence[KnownOfScope]
) -> tuple[_Values, _Values]:
    """Return what bounds the low ends and the high ends; see ``MarginalBars``, which chooses alike."""
    low, high = (_end(bars, boxes, known, Share.HALF) for boxes in (inner, outer))
    sure_low, sure_high = (_end(bars, boxes, known, Share.CERTIFIED) for boxes in (inner, outer))
    chosen = sure_low[1] + sure_high[1] < low[1] + high[1]
    return np.where(chosen, sure_low, low), np.where(chosen, sure_high, high)


def _end(bars: MarginalBars, boxes: Boxes, known: Sequence[KnownOfScope], share: Share) -> _Values:
    """Return what bounds boxes of bins, some of which may be empty, or all bins of an attribute."""
    found = _unknown(len(boxes))
    empty = np.any(boxes.first > boxes.last, axis=1)
    found[:, empty] = _everybody(bars, 0.0, share)
    rest = np.flatnonzero(~empty)
    for places, part in boxes.take(rest).parts():
        if part.scope:
            found[:, rest[places]] = _narrowed(_unknown(len(part)), bars, part, known, share)
        else:
            found[:, rest[places]] = _everybody(bars, 1.0, share)
    return found


def _unknown(size: int) -> _Values:
    return np.repeat([[math.nan], [math.inf], [0.0]], size, axis=1)


def _everybody(bars: MarginalBars, weight: float, share: Share) -> _Values:
    bound = bars.everybody(weight, share)
    return np.array([[bound.value], [bound.half_width], [BASES.index(bound.basis)]])


def _narrowed(
    found: _Values, bars: MarginalBars, boxes: Boxes, known: Sequence[KnownOfScope], share: Share
) -> _Values:
    """Return what is known where it has a smaller half-width than what was found; the first of equal ones."""
    found = found.copy()
    for one in known:
        if share is Share.CERTIFIED and not isinstance(one, Certificate):
            continue
        evidence = bars.evidence(one, boxes.scope, one_end=share is Share.HALF)
        if evidence.of_cells is None:
            raise _NotAlikeError
        widths = _widths(evidence.of_cells, boxes)
        places = np.flatnonzero((widths < found[1]) | np.isnan(found[0]))
        found[0, places] = bars.evidence_sums(evidence).many(boxes.take(places))
        found[1, places] = widths[places]
        found[2, places] = BASES.index(evidence.basis)
    return found


def _widths(of_cells: Callable[[float], float], boxes: Boxes) -> NDArray[np.float64]:
    cells = boxes.cells()
    widths = np.zeros(int(cells.max(initial=0)) + 1)  # few: the marginal has a table of sums
    for size in np.flatnonzero(np.bincount(cells)).tolist():
        widths[size] = of_cells(size)
    return widths[cells]
