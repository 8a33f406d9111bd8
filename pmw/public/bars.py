"""Bars: what lies around a question, ranges of attributes, or a sum of numbers, from public numbers alone.

``Bars`` is the one calculator of a state: ``of_query``, ``of_boxes`` and ``of_sum`` give the ends of a bar,
``half_width`` its half-width where both ends are one number's, and ``of_family`` what bounds many sums by one
event.

A sum over a scope is held by evidence of several kinds (``pmw.public.evidence``). A question that cuts a
bin lies, cell by cell, between its inner and its outer query on the bins: the low end is the inner one's, the
high end the outer one's. So does a question that the declared cells cannot decide lie between its two
readings, and a sum of numbers that are known to their cell between those of the least and of the greatest.
Where ends may rest on different noises, what may fail is shared among them (``Share``). All choices are by
half-widths, which depend on no noise. Proofs are in ``docs/intervals.md``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model import Coarsening
from pmw.public.answer import Basis
from pmw.public.evidence import BASES, Evidence, KnownOfScope, ScopeKnowledge, evidence_of
from pmw.public.half_widths import Confidences, total_error_bound
from pmw.public.state import Certificate, PublicState
from queries.boxes import Boxes
from queries.factors import UNITS
from queries.linear import LinearQuery

_Array: TypeAlias = NDArray[np.float64]
_Number: TypeAlias = float | _Array  # of one sum, or of n
_RELEASED, _BINS = BASES.index(Basis.RELEASED), BASES.index(Basis.BINS)


class Bound(NamedTuple):
    """Values, how far the truth may be from them, in records, and places in ``BASES`` of what they rest on.

    The value is NaN, and the half-width infinite, where nothing is known.
    """

    value: _Number
    half_width: _Number
    basis: _Number


class Bar(NamedTuple):
    """The ends of intervals, in records, NaN where they are not known, and what they rest on."""

    low: _Number
    high: _Number
    basis: _Number


class Share(enum.Enum):
    """Which events the ends of an interval may rest on. In each case both hold with the stated confidence.

    ``ONE``: one piece of evidence gives both ends.
    ``CERTIFIED``: threshold noise and the number of records, each as sure as a certificate takes it. They are
        one event, whichever certificates give the ends, so the ends fail together.
    ``HALF``: any evidence. An end that rests on a symmetric noise, of a measurement or of the number of
        records, fails with half of what may fail; both ends of a certificate fail together, so it is taken
        at half of what may fail. The two halves are added.
    """

    ONE = "one"
    CERTIFIED = "certified"
    HALF = "half"


class _Sums(Protocol):
    """What is bounded: one sum over a scope, or ranges that all cut bins, or of which none does."""

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order."""

    def reduced(self, coarsening: Coarsening) -> tuple[_Sums, _Sums]:
        """Return what bounds it below and above on bins; one object where it is the same."""

    def bound(self, bars: Bars, known: Sequence[KnownOfScope], share: Share) -> Bound:
        """Return the evidence with the smallest half-width, the first of equal ones; see ``Bars``."""

    def either(self, chosen: bool | NDArray[np.bool_], one: Bound, other: Bound) -> Bound:
        """Return one bound where it is chosen, and else the other."""


_Pieces: TypeAlias = Sequence[tuple[_Sums, Sequence[KnownOfScope]]]  # what bounds which sum
_NOTHING = Bound(math.nan, math.inf, _RELEASED)


class _OneSum:
    """A sum with real weights over a scope, each of records of one cell."""

    __slots__ = ("_weights", "scope")

    def __init__(self, scope: tuple[str, ...], weights: _Array) -> None:
        self.scope = scope
        self._weights = weights

    @property
    def constant(self) -> float:
        """The weight of everybody, where there is no attribute."""
        return self._weights.item()

    def value(self, evidence: Evidence) -> float:
        """Return the sum on the values of an evidence."""
        return float(np.sum(self._weights * evidence.values))

    def half_width(self, evidence: Evidence) -> float:
        """Return how far the truth may be from that."""
        return evidence.sum_half_width(self._weights)

    def reduced(self, coarsening: Coarsening) -> tuple[_OneSum, _OneSum]:
        """Return the sums of the least and of the greatest weight in each bin; see ``_Sums``."""
        least = coarsening.least(self.scope, self._weights)
        greatest = coarsening.greatest(self.scope, self._weights)
        low = _OneSum(*_narrowed(self.scope, least))
        return low, low if np.array_equal(least, greatest) else _OneSum(*_narrowed(self.scope, greatest))

    def bound(self, bars: Bars, known: Sequence[KnownOfScope], share: Share) -> Bound:
        """Return the evidence with the smallest half-width; see ``_Sums``."""
        if not self.scope:  # one weight, or none where a bin was cut: everybody, or nobody
            return bars.everybody(self.constant, share)
        least, found = math.inf, None
        for one in known:
            if share is Share.CERTIFIED and not isinstance(one, Certificate):
                continue
            evidence = bars.evidence(one, self.scope, one_end=share is Share.HALF)
            width = self.half_width(evidence)
            if width < least:
                least, found = width, evidence
        return _NOTHING if found is None else Bound(self.value(found), least, found.basis)

    def either(self, chosen: bool | NDArray[np.bool_], one: Bound, other: Bound) -> Bound:
        """Return one bound if it is chosen, and else the other."""
        return one if chosen else other


class _Question(_OneSum):
    """A question."""

    __slots__ = ("_query",)

    def __init__(self, query: LinearQuery) -> None:
        self.scope = query.scope
        self._query = query

    @property
    def constant(self) -> float:
        """The weight of everybody; see ``_OneSum``."""
        return self._query.constant / UNITS

    def value(self, evidence: Evidence) -> float:
        """Return the answer on the values of an evidence."""
        return evidence.value(self._query)

    def half_width(self, evidence: Evidence) -> float:
        """Return how far the truth may be from that."""
        return evidence.half_width(self._query)

    def reduced(self, coarsening: Coarsening) -> tuple[_OneSum, _OneSum]:
        """Return the inner and the outer query; see ``_Sums``."""
        inner, outer = coarsening.bounds(self._query)
        low = self if inner is self._query else _Question(inner)
        return low, low if inner is outer else _Question(outer)


class _NotAlikeError(Exception):
    """What bounds a box depends on more than how many cells it has."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Questions about ranges of the same attributes.

    Args:
        boxes: the questions.
        bins: their inner and their outer boxes of bins, one object where none cuts a bin; None for these.
        cut: they are inner or outer boxes of others: some may be empty, or all bins of an attribute.
    """

    boxes: Boxes
    bins: tuple[Boxes, Boxes] | None = None
    cut: bool = False

    @property
    def scope(self) -> tuple[str, ...]:
        """Attribute names in declared order."""
        return self.boxes.scope

    def reduced(self, coarsening: Coarsening) -> tuple[_Ranges, _Ranges]:
        """Return the inner and the outer boxes; see ``_Sums``."""
        del coarsening  # looked at already
        if self.bins is None:
            return self, self
        inner, outer = self.bins
        cut = inner is not outer
        low = _Ranges(inner, cut=cut)
        return low, _Ranges(outer, cut=cut) if cut else low

    def bound(self, bars: Bars, known: Sequence[KnownOfScope], share: Share) -> Bound:
        """Return for each the evidence with the smallest half-width; see ``_Sums``."""
        if not self.cut:
            return Bound(*_narrowest(bars, self.boxes, known, share))
        found = np.repeat([[math.nan], [math.inf], [_RELEASED]], len(self.boxes), axis=1)
        empty = np.any(self.boxes.first > self.boxes.last, axis=1)
        if empty.any():
            found[:, empty] = np.array([bars.everybody(0.0, share)]).T
        rest = np.flatnonzero(~empty)
        for places, part in self.boxes.take(rest).parts():
            if part.scope:
                found[:, rest[places]] = _narrowest(bars, part, known, share)
            else:
                found[:, rest[places]] = np.array([bars.everybody(1.0, share)]).T
        return Bound(*found)

    def either(self, chosen: bool | NDArray[np.bool_], one: Bound, other: Bound) -> Bound:
        """Return one bound where it is chosen, and else the other."""
        return Bound(*(np.where(chosen, *pair) for pair in zip(one, other, strict=True)))


def _narrowest(bars: Bars, boxes: Boxes, known: Sequence[KnownOfScope], share: Share) -> _Array:
    """Return values, half-widths and bases of boxes: float64, shape (3, n)."""
    found = np.repeat([[math.nan], [math.inf], [_RELEASED]], len(boxes), axis=1)
    cells = boxes.cells()
    for one in known:
        if share is Share.CERTIFIED and not isinstance(one, Certificate):
            continue
        evidence = bars.evidence(one, boxes.scope, one_end=share is Share.HALF)
        widths = evidence.half_widths(cells)
        if widths is None:
            raise _NotAlikeError
        places = np.flatnonzero(widths < found[1])
        found[0, places] = evidence.box_sums.many(boxes.take(places))
        found[1, places] = widths[places]
        found[2, places] = evidence.basis
    return found


class Bars:
    """Bounds sums in one state; what those over a scope have in common is looked up once.

    Args:
        state: the state after the tests that questions asked for.
        events: how many intervals have to hold together, each with its part of what may fail.
    """

    def __init__(self, state: PublicState, events: int = 1) -> None:
        self.state = state
        confidences = Confidences.in_state(state)
        if events > 1 and not state.contract.options.simultaneous:
            confidences = confidences.of_part(events)
        self.confidences = confidences
        self._total_error = total_error_bound(state, confidences.alone)
        self._certified_total_error = total_error_bound(state, confidences.total)
        self._scopes: dict[tuple[tuple[str, ...], ...], ScopeKnowledge] = {}
        self._held: dict[tuple[KnownOfScope, tuple[str, ...], bool], Evidence] = {}

    def known(self, scope: tuple[str, ...], asked: tuple[str, ...] | None = None) -> ScopeKnowledge:
        """Return what is known of a scope; ``asked`` is that of a question which has a reading over it."""
        key = scope, scope if asked is None else asked
        if key not in self._scopes:
            self._scopes[key] = ScopeKnowledge.of(self.state, *key)
        return self._scopes[key]

    def evidence(self, known: KnownOfScope, scope: tuple[str, ...], *, one_end: bool) -> Evidence:
        """Return what something known bounds over a scope that it contains; see ``evidence_of``."""
        if (known, scope, one_end) not in self._held:
            found = evidence_of(self.state, known, scope, self.confidences, one_end=one_end)
            self._held[known, scope, one_end] = found
        return self._held[known, scope, one_end]

    def everybody(self, weight: float, share: Share = Share.ONE) -> Bound:
        """Return the sum of one weight for everybody, and its half-width."""
        total_error = self._certified_total_error if share is Share.CERTIFIED else self._total_error
        return Bound(weight * self.state.total.value, abs(weight) * total_error, _RELEASED)

    def half_width(self, query: LinearQuery) -> float | None:
        """Return how far the truth may be from what is known of a question; it does not depend on noise.

        None where nothing is known of it, or where its two ends rest on different numbers, since it cuts a
        bin or the declared cells cannot decide it.
        """
        if query.readings is not None:
            return None
        below, above = self._pieces(_Question(query), query.scope)
        width = float(self._bound(below, Share.ONE).half_width) if below is above else math.inf
        return width if math.isfinite(width) else None

    def of_query(self, query: LinearQuery) -> Bar:
        """Return the ends of a question's interval."""
        if query.readings is None:
            return self._ends(*self._pieces(_Question(query), query.scope))
        below, above = (
            self._pieces(_Question(one), query.scope)[end] for end, one in enumerate(query.readings)
        )
        return self._ends(below, above)

    def of_boxes(self, boxes: Boxes, bins: tuple[Boxes, Boxes]) -> Bar | None:
        """Return the ends of ranges' intervals; None where they have to be looked at one by one.

        Args:
            boxes: of which each depends on all attributes of the scope; all cut bins, or none does.
            bins: their inner and outer boxes; one object where none cuts a bin.
        """
        try:
            return self._ends(*self._pieces(_Ranges(boxes, bins), boxes.scope))
        except _NotAlikeError:
            return None

    def of_sum(self, scope: tuple[str, ...], low: _Array, high: _Array) -> tuple[float, float]:
        """Return what a sum lies between whose weights do; infinite where that is not known.

        What is known of fewer attributes serves where the weights do not vary over the others.

        Args:
            scope: attribute names in declared order.
            low: float64, one axis per attribute of declared cells: the least weights.
            high: the same of the greatest.
        """
        (one, asked), above = self._of_weights(scope, low), None
        if low is high or np.array_equal(low, high):
            above = self._ends(*self._pieces(one, asked))
        else:
            other, others = self._of_weights(scope, high)
            asked = tuple(name for name in scope if name in asked or name in others)
            above = self._ends(self._pieces(one, asked)[0], self._pieces(other, asked)[1])
        bottom, top = float(above.low), float(above.high)
        return -math.inf if math.isnan(bottom) else bottom, math.inf if math.isnan(top) else top

    def least_sum(self, scope: tuple[str, ...], weights: _Array) -> float:
        """Return what a sum with such weights, or greater ones, is at least; see ``of_sum``."""
        one, asked = self._of_weights(scope, weights)
        found = self._bound(self._pieces(one, asked)[0], Share.ONE)
        bottom = float(found.value) - float(found.half_width)
        return -math.inf if math.isnan(bottom) else bottom

    def of_family(self, scope: tuple[str, ...], example: _Array) -> SumBounds | None:
        """Return what bounds all sums over a scope by one event, or None where nothing released holds it.

        Args:
            scope: attribute names in declared order.
            example: float64, weights of such a sum: of several bounds the one with the smallest half-width is
                taken.
        """
        if not scope:
            total, error = np.array(self.state.total.value), self._total_error
            return SumBounds(scope, Evidence(total, Basis.RELEASED, lambda stats: stats.largest * error))
        known = self.known(scope)
        coarsening = None if known.opened or known.fine else self.state.coarsening
        found = [
            SumBounds(scope, self.evidence(one, scope, one_end=False), coarsening)
            for one in known.opened or known.fine or known.coarse
        ]
        return min(found, key=lambda one: one.half_width(example), default=None)

    @staticmethod
    def _of_weights(scope: tuple[str, ...], weights: _Array) -> tuple[_OneSum, tuple[str, ...]]:
        one = _OneSum(*_narrowed(scope, weights))
        return one, one.scope

    def _pieces(self, sums: _Sums, asked: tuple[str, ...]) -> tuple[_Pieces, _Pieces]:
        """Return what is known below and above sums on whole cells; one object where it is the same.

        Args:
            sums: that are asked about, or the reading of a question over a wider scope.
            asked: the scope of the question.
        """
        scope = self.known(sums.scope, asked)
        both: _Pieces
        if scope.opened and not scope.opened_bins:
            both = ((sums, scope.opened),)
            return both, both
        inner, outer = sums.reduced(self.state.coarsening)
        if scope.opened:
            both = ((sums, scope.opened),)
            both = (*both, (inner, scope.opened_bins)) if inner is outer else both
            return both, both
        if inner is not outer and not scope.fine:
            return ((inner, scope.coarse),), ((outer, scope.coarse),)
        # Of a question that cuts bins, those have been looked into.
        both = ((inner, scope.coarse),) if inner is outer else ()
        both = ((sums, scope.fine), *both) if scope.fine else both
        return both, both

    def _ends(self, below: _Pieces, above: _Pieces) -> Bar:
        """Return the ends of intervals: around what one piece of evidence says, one event, or between two."""
        if below is above:
            low = high = self._bound(below, Share.ONE)
        else:
            low, high = self._between(below, above)
        return Bar(
            low.value - low.half_width, high.value + high.half_width, low.basis if low is high else _BINS
        )

    def _between(self, below: _Pieces, above: _Pieces) -> tuple[Bound, Bound]:
        """Return what bounds the low ends, of what is known below, and the high ends, of what is known above.

        Of the two ways in which both hold as stated, the one whose widths have the smaller sum is taken: it
        depends on scales and thresholds, not on the noise that the ends rest on.
        """
        low, high = self._bound(below, Share.HALF), self._bound(above, Share.HALF)
        sure_low, sure_high = self._bound(below, Share.CERTIFIED), self._bound(above, Share.CERTIFIED)
        chosen = sure_low.half_width + sure_high.half_width < low.half_width + high.half_width
        either = below[0][0].either
        return either(chosen, sure_low, low), either(chosen, sure_high, high)

    def _bound(self, known: _Pieces, share: Share) -> Bound:
        """Return the evidence with the smallest half-width; it does not depend on noise.

        Args:
            known: sums, and what is known of a scope that contains theirs, on the same cells.
            share: which events it may rest on.
        """
        sums, pieces = known[0]
        found = sums.bound(self, pieces, share)
        for sums, pieces in known[1:]:
            one = sums.bound(self, pieces, share)
            found = sums.either(one.half_width < found.half_width, one, found)
        return found

    def cuts_more_than_noise(self, query: LinearQuery) -> bool:
        """Tell whether most of an interval comes from the bins that a question cuts, not from noise."""
        if query.readings is not None:
            return False
        below, above = self._pieces(_Question(query), query.scope)
        if below is above:
            return False
        low, high = self._between(below, above)
        return bool(high.value - low.value > low.half_width + high.half_width)


@dataclass(frozen=True, slots=True, eq=False)
class SumBounds:
    """What bounds all sums over one scope by one event.

    Args:
        scope: attribute names in declared order.
        evidence: what is known of the scope.
        coarsening: the bins that it is known on; None for declared cells.
    """

    scope: tuple[str, ...]
    evidence: Evidence
    coarsening: Coarsening | None = None

    def low(self, weights: _Array) -> float:
        """Return a number that the sum with these weights, or greater ones, is at least."""
        if self.coarsening is not None:
            weights = self.coarsening.least(self.scope, weights)
        return float(np.sum(weights * self.evidence.values)) - self._width(weights)

    def high(self, weights: _Array) -> float:
        """Return a number that the sum with these weights, or smaller ones, is at most."""
        if self.coarsening is not None:
            weights = self.coarsening.greatest(self.scope, weights)
        return float(np.sum(weights * self.evidence.values)) + self._width(weights)

    def half_width(self, weights: _Array) -> float:
        """Return how far ``high`` is above the sum on what is known."""
        return self._width(
            weights if self.coarsening is None else self.coarsening.greatest(self.scope, weights)
        )

    def _width(self, weights: _Array) -> float:
        return self.evidence.sum_half_width(weights)


def _narrowed(scope: tuple[str, ...], weights: _Array) -> tuple[tuple[str, ...], _Array]:
    """Return the attributes that weights vary over, and the weights over these."""
    kept = []
    for axis, name in reversed(list(enumerate(scope))):
        first = weights.take([0], axis=axis)
        if np.all(weights == first):
            weights = first.reshape([size for place, size in enumerate(weights.shape) if place != axis])
        else:
            kept.append(name)
    return tuple(reversed(kept)), weights
