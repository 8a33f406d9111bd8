"""Bars: what lies around a question, products of sets, or a sum of numbers, from public numbers alone.

``Bars`` is the one calculator of a state: ``of_query``, ``of_products`` and ``of_sum`` give the ends of bars,
``half_width`` that of one where both ends are one number's, and ``of_family`` what bounds many sums by one
event.

A sum over a scope is held by evidence of several kinds (``pmw.public.evidence``). A question that cuts a
bin lies, cell by cell, between its inner and its outer query on the bins: the low end is the inner one's, the
high end the outer one's. So does a question that the declared cells cannot decide lie between its two
readings, and a sum of numbers that are known to their cell between those of the least and of the greatest.

What is known of fewer attributes bounds a sum too, through its parts (``pmw.public.bounded``): a conjunction
counts at most what each of its k conditions counts, and at least the sum of these less k - 1 times everybody.
Every end that is looked at holds with its share of what may fail (``Rests``), so the greatest low end and the
least high end are those of the interval. Which are looked at depends on scopes, weights, scales and
thresholds, not on noise. Proofs are in ``docs/intervals.md``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.bins import Coarsening
from pmw.model.measurement import QueryMeasurement, half_width
from pmw.public.answer import Basis
from pmw.public.bounded import (
    NOTHING,
    RELEASED,
    Array,
    Bound,
    Bounded,
    Counts,
    Number,
    OneSum,
    Question,
    Split,
)
from pmw.public.clear import clear_half_width
from pmw.public.evidence import BASES, Candidates, Evidence, Known, ScopeKnowledge, evidence_of, own_numbers
from pmw.public.half_widths import (
    KEPT,
    AxisNoise,
    Confidences,
    Rests,
    Shares,
    StatsNoise,
    total_noise_bound,
)
from pmw.public.state import Certificate, PublicState
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index
from queries.questions import Products

_BINS, _PARTS = BASES.index(Basis.BINS), BASES.index(Basis.PARTS)
_MOST_PARTS = 8  # of several attributes that are looked at for one question
_Are: TypeAlias = NDArray[np.bool_]  # of questions
_Known: TypeAlias = tuple[Known, ...]
_Pieces: TypeAlias = Sequence[tuple[Bounded, _Known]]  # what bounds which sum
_Way: TypeAlias = tuple[Rests, Bound, Bound]  # what ends rest on, a low one and a high one


class Bar(NamedTuple):
    """The ends of intervals, in records, and places in ``BASES`` of what they rest on."""

    low: Number
    high: Number
    basis: Number


class _Ends(NamedTuple):
    """Two ends, in records; infinite where they are not known."""

    low: Number
    high: Number

    def within(self, other: _Ends) -> _Ends:
        """Return the greater low end and the lesser high end."""
        if isinstance(self.low, float) and isinstance(other.low, float):  # quicker for single sums
            return _Ends(max(self.low, other.low), min(self.high, other.high))
        return _Ends(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


_UNKNOWN = _Ends(-math.inf, math.inf)


def ends_in_order(low: Number, high: Number, hard: tuple[float, float]) -> _Ends:
    """Return two ends in order, within what every table allows.

    Ends cross by rounding, and where what may fail has failed: they are exchanged. Either may be a hard end,
    so that both are cut afterwards.
    """
    ends = np.clip((np.minimum(low, high), np.maximum(low, high)), *hard)
    return _Ends(*(ends + 0.0))  # no minus of a zero


def hard_ends_of(state: PublicState, least: float = 0.0, greatest: float = 1.0) -> tuple[float, float]:
    """Return what a sum over records, each of a weight between two, lies between on every table."""
    fewest, most = (state.total.records,) * 2 if state.total.deviation == 0 else (0.0, math.inf)
    return least * (fewest if least >= 0 else most), greatest * (most if greatest > 0 else fewest)


class Bars:
    """Bounds sums in one state; what those over a scope have in common is looked up once.

    Args:
        state: the state after the tests that questions asked for.
        events: how many intervals have to hold together, each with its part of what may fail.
        beside: other events that have to hold with all of these, each with as much as all of these.
        groups: how many intervals answers choose from.
        paid: numbers of questions themselves are looked at.
    """

    def __init__(
        self, state: PublicState, events: int = 1, beside: int = 0, groups: int = 1, *, paid: bool = True
    ) -> None:
        self.state = state
        self._asked = KEPT * events, beside, groups
        self._paid = paid
        self.confidences = Confidences.in_state(state, events, beside, groups)
        self._total_error = total_noise_bound(state, self.confidences.everybody)
        self._scopes: dict[tuple[tuple[str, ...], ...], ScopeKnowledge] = {}
        self._held: dict[tuple[_Known, tuple[str, ...], Shares], Candidates] = {}
        self._shares: dict[tuple[Rests, int], Shares] = {}
        self._axes: dict[tuple[Known, Shares], Candidates] = {}
        self._runs: dict[tuple[str, int, int, Shares], _Ends] = {}
        self._wider: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        self._alone: dict[tuple[str, ...], Rests] = {}

    # --- what is known --------------------------------------------------------------------------------------

    def known(self, scope: tuple[str, ...], asked: tuple[str, ...] | None = None) -> ScopeKnowledge:
        """Return what is known of a scope; ``asked`` is that of a question which has a reading over it."""
        key = scope, scope if asked is None else asked
        if key not in self._scopes:
            self._scopes[key] = ScopeKnowledge.of(self.state, *key)
        return self._scopes[key]

    def held(self, known: _Known, scope: tuple[str, ...], shares: Shares) -> Candidates:
        """Return what something known bounds over a scope that it contains; see ``evidence_of``."""
        key = known, scope, shares
        found = self._held.get(key)
        if found is None:
            allowed = [one for one in known if shares.rests in (Rests.MIXED, _rests_of(one))]
            evidences = [evidence_of(self.state, one, scope, shares) for one in allowed]
            found = self._held[key] = Candidates(evidences)
        return found

    def shares(self, rests: Rests, ends: int = 0) -> Shares:
        """Return how surely each noise holds; of parts, by how many ends are looked at in all."""
        key = rests, ends
        if key not in self._shares:
            alone = self.confidences.shares(rests)
            self._shares[key] = self.confidences.of_parts(rests, ends) if ends else alone
        return self._shares[key]

    def everybody(self, weight: float) -> Bound:
        """Return the sum of one weight for everybody, and its half-width."""
        return Bound(weight * self.state.total.estimate, abs(weight) * self._total_error, RELEASED)

    def _pieces(
        self, low: Bounded, high: Bounded, asked: tuple[str, ...] | None = None
    ) -> tuple[_Pieces, _Pieces]:
        """Return what is known below one sum and above another on whole cells; one object where it is one."""
        below, above = self._pieces_of(low, asked or low.scope)
        return below, above if low is high else self._pieces_of(high, asked or high.scope)[1]

    def _pieces_of(self, sums: Bounded, asked: tuple[str, ...]) -> tuple[_Pieces, _Pieces]:
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

    # --- bars -----------------------------------------------------------------------------------------------

    def of_query(self, query: LinearQuery) -> Bar:
        """Return the interval of a question.

        In a session that pays for wide bars, one that is not narrow by scales is that of bars which may be
        kept, within the number of the question itself where it has one.
        """
        if query.readings is None:
            one = Question(query)
            way, is_cut = self._way_of(query, one)
            if self.pays and self._is_shared(query, way):
                number, kept = own_numbers(self.state).of(query), self._kept.of_query(query)
                if number is None:
                    return kept
                width = self._own_width(number)
                own = _Ends(number.value - width, number.value + width)
                return Bar(*own.within(_Ends(kept.low, kept.high)), RELEASED)
            return self._of_way(one, one, way, beside=is_cut)
        return self._bar(Question(query.readings.least), Question(query.readings.most), query.scope)

    @property
    def pays(self) -> bool:
        """Whether questions are paid for with numbers of their own."""
        return self._paid and self.confidences.pays

    @functools.cached_property
    def _kept(self) -> Bars:
        """What bounds questions whose bars may be kept for being narrow."""
        return Bars(self.state, *self._asked, paid=False)

    @functools.cached_property
    def _clear(self) -> float:
        return clear_half_width(self.state)

    def _is_shared(self, query: LinearQuery, way: _Way) -> bool:
        """Tell whether a bar that may be kept and the question's own number share what may fail.

        That is where what bounds the question by all of its attributes is not clear by scales, or cuts a bin,
        or where the number is narrower by scales.
        """
        _, low, high = way
        if not (low is high and bool(low.half_width <= self._clear)):
            return True
        number = own_numbers(self.state).of(query)
        return number is not None and bool(self._own_width(number) < low.half_width)

    def own(self, query: LinearQuery) -> QueryMeasurement | None:
        """Return the number that was measured of a question itself, where it bounds the question best.

        That is where its half-width is at most that of all else that bounds the question by all of its
        attributes, and where the question cuts bins. It depends on scales of noise and on bins alone.
        """
        number = None if query.readings is not None else own_numbers(self.state).of(query)
        if number is None:
            return None
        one = Question(query)
        if self.pays:
            return number if self._is_shared(query, self._way_of(query, one)[0]) else None
        return number if self._way_of(query, one)[0][1].half_width == self._own_width(number) else None

    def own_widths(self, numbers: Sequence[QueryMeasurement]) -> Array:
        """Return questions' own numbers and how far the truth may be from them: float64, shape (2, n)."""
        return np.array([(one.value, self._own_width(one)) for one in numbers]).reshape(-1, 2).T

    def _own_width(self, number: QueryMeasurement) -> float:
        return half_width(number.noise, self.confidences.number)

    def _way_of(self, query: LinearQuery, one: Question) -> tuple[_Way, bool]:
        """Return what bounds a question that cells decide, by all of its attributes: by scales alone.

        How wide the ends of a question that cuts bins are apart depends on noise. So its own number bounds it
        in any case, and what is known on the bins is looked at beside it: the second value tells that.
        """
        (way,) = self._main(*self._pieces(one, one), query.scope)
        number = None if self.confidences.pays else own_numbers(self.state).of(query)
        if number is None or self.confidences.together:
            return way, False
        width, is_cut = self._own_width(number), way[1] is not way[2]
        if not is_cut and width > way[1].half_width:
            return way, False
        own = Bound(number.value, width, RELEASED)
        return (Rests.MEASURED, own, own), is_cut

    def of_products(self, products: Products, own: Array | None = None) -> Array:
        """Return the intervals of products that bins bound, and what they rest on: float64, shape (4, n).

        Args:
            own: float64, shape (2, n): the questions' own numbers, and how far the truth may be from each, in
                a session that pays for them.

        Returns:
            The ends, places in ``BASES``, and 1 where a question's own number bounds it best.
        """
        found = np.zeros((4, len(products)))
        if not self.pays:
            found[:3] = self._alike(products)
            return found
        is_alone, _, _ = self._kinds_of(products, own)
        for bars, are_meant in ((self, is_alone), (self._kept, ~is_alone)):
            places = np.flatnonzero(are_meant)
            if places.size:
                found[:3, places] = bars._alike(products.take(places))
        if own is None:
            return found
        values, widths = own
        inside = np.maximum(values - widths, found[0]), np.minimum(values + widths, found[1])
        return np.where(is_alone, found, (*inside, *np.full((2, len(products)), [[RELEASED], [1]])))

    def _kinds_of(self, products: Products, own: Array | None) -> tuple[_Are, _Are, Array]:
        """Return which bars hold by themselves, as ``_is_shared`` tells, which are cut, and all widths."""
        widths, known = self.widths_of_products(products), self.known(products.scope)
        _, _, cuts = self.state.coarsening.product_bounds(products)
        is_cut = cuts & (not known.opened and not known.fine)
        is_alone = ~is_cut & (widths <= 2 * self._clear)
        if own is not None:
            is_alone &= widths <= 2 * own[1]
        return is_alone, is_cut, widths

    def widths_told(self, products: Products, own: Array | None = None) -> Array:
        """Return ``width_of_query`` of products: float64, shape (n,); see ``of_products``."""
        if not self.pays:
            return self.widths_of_products(products)
        is_alone, is_cut, widths = self._kinds_of(products, own)
        kept = np.where(is_cut, math.inf, self._kept.widths_of_products(products))
        shared = np.where(np.isfinite(kept), kept, widths) if own is None else np.minimum(2 * own[1], kept)
        return np.where(is_alone, widths, shared)

    def _alike(self, products: Products) -> Array:
        return self._in_arrays(products, 3, lambda one: self._bar(one, one, products.scope))

    def _in_arrays(self, products: Products, numbers: int, of: Callable[[Counts], Sequence[Number]]) -> Array:
        """Return numbers of products: float64, shape (numbers, n)."""
        found = np.empty((numbers, len(products)))
        for places, group in Counts(products).groups(self.state.coarsening):
            for row, values in enumerate(of(group)):
                found[row, places] = values
        return found

    def width_of_query(self, query: LinearQuery) -> float:
        """Return how wide the interval of a question is by all of its attributes, or infinity.

        Unlike the interval, which parts may narrow, it does not depend on noise.
        """
        if query.readings is None:
            width = self.half_width(query) if self.pays else None
            if width is not None:
                return 2 * width
            (_, below, above), _ = self._way_of(query, Question(query))
            return float(below.half_width + above.half_width)
        low, high = map(Question, query.readings)
        return float(self._width(low, high, query.scope))

    def widths_of_products(self, products: Products) -> Array:
        """Return the same of products by all that bounds them but their own numbers: float64, shape (n,)."""
        widths: Array = self._in_arrays(products, 1, lambda one: [self._width(one, one, products.scope)])[0]
        return widths

    def _width(self, low: Bounded, high: Bounded, asked: tuple[str, ...]) -> Number:
        ways = self._main(*self._pieces(low, high, asked), asked)
        return functools.reduce(np.minimum, [least.half_width + most.half_width for _, least, most in ways])

    def of_sum(self, scope: tuple[str, ...], low: Array, high: Array) -> tuple[float, float]:
        """Return what a sum lies between whose weights do."""
        if high.max() <= 0 and low.min() < 0:  # the parts of a sum are those of its negative
            most, least = self.of_sum(scope, -high, -high if low is high else -low)
            return -least, -most
        below = above = OneSum.of_varying(scope, low)
        if low is not high and not np.array_equal(low, high):
            above = OneSum.of_varying(scope, high)
        asked = tuple(name for name in scope if name in below.scope or name in above.scope)
        bar = self._bar(below, above, asked)
        return float(bar.low), float(bar.high)

    def of_parts(self, query: LinearQuery) -> tuple[float, float]:
        """Return what a question lies between by its parts, beside a measurement of the question itself."""
        least, most = (query, query) if query.readings is None else query.readings
        below = above = Question(least)
        if most is not least:
            above = Question(most)
        ends = self._by_parts(below, above, Rests.MEASURED).within(self._in_reach(below, above))
        return float(ends.low), float(ends.high)

    def parts_of_products(self, products: Products) -> Array:
        """Return ``of_parts`` of products: float64, shape (2, n)."""

        def of(group: Counts) -> _Ends:
            return self._by_parts(group, group, Rests.MEASURED).within(self._in_reach(group, group))

        return self._in_arrays(products, 2, of)

    def half_width(self, query: LinearQuery) -> float | None:
        """Return how far the truth may be from what is known of a question; it does not depend on noise.

        None where nothing is known of it, or where its two ends rest on different numbers, since it cuts a
        bin or the declared cells cannot decide it.
        """
        if query.readings is not None:
            return None
        way, _ = self._way_of(query, Question(query))
        if self.pays and self._is_shared(query, way):
            number, width = own_numbers(self.state).of(query), self._kept.half_width(query)
            return width if number is None else min(self._own_width(number), width or math.inf)
        _, low, high = way
        return float(low.half_width) if low is high and math.isfinite(low.half_width) else None

    def cuts_more_than_noise(self, query: LinearQuery) -> bool:
        """Tell whether most of an interval comes from the bins that a question cuts, not from noise."""
        if query.readings is not None:
            return False
        (_, low, high), _ = self._way_of(query, Question(query))
        return low is not high and bool(high.value - low.value > low.half_width + high.half_width)

    def of_family(self, scope: tuple[str, ...], example: Array) -> SumBounds | None:
        """Return what bounds all sums over a scope by one event, or None where nothing released holds it."""
        if not scope:
            total, error = np.array(self.state.total.estimate), self._total_error
            noise = StatsNoise(lambda stats: stats.largest * error)
            return SumBounds(scope, Evidence(total, Basis.RELEASED, noise))
        known = self.known(scope)
        coarsening = None if known.opened or known.fine else self.state.coarsening
        found = [
            SumBounds(scope, evidence, coarsening)
            for one in known.opened or known.fine or known.coarse
            for evidence in self.held((one,), scope, self.shares(_rests_of(one))).evidences
        ]
        return min(found, key=lambda one: one.half_width(example), default=None)

    # --- ends -----------------------------------------------------------------------------------------------

    def _bar(self, low: Bounded, high: Bounded, asked: tuple[str, ...]) -> Bar:
        """Return the intervals between a low end of one sum and a high end of another, or of the same."""
        ways = self._main(*self._pieces(low, high, asked), asked)
        if len(ways) == 1 or not isinstance(low, Counts):
            return self._of_way(low, high, ways[0])
        widths = [np.asarray(least.half_width + most.half_width) for _, least, most in ways]
        chosen = np.argmin(np.stack(widths), axis=0)
        found = np.empty((3, chosen.size))
        for number, (rests, *both) in enumerate(ways):
            places = np.flatnonzero(chosen == number)
            if places.size:
                some = low.take(places)
                least, most = (Bound(*(np.take(each, as_index(places)) for each in end)) for end in both)
                found[:, places] = self._of_way(
                    some, some, (rests, least, least if both[0] is both[1] else most)
                )
        return Bar(*found)

    def _of_way(self, low: Bounded, high: Bounded, way: _Way, *, beside: bool = False) -> Bar:
        rests, least, most = way
        width = least.half_width + most.half_width
        ends = _Ends(least.value - least.half_width, most.value + most.half_width)
        parts = self._by_parts(low, high, rests, beside=beside)
        ends = ends.within(self._in_reach(low, high)).within(parts)
        basis = least.basis if least is most else _BINS
        return Bar(*ends, low.either(np.isinf(width), _PARTS, basis))

    def _main(self, below: _Pieces, above: _Pieces, asked: tuple[str, ...]) -> list[_Way]:
        """Return what bounds sums by all of their attributes: what ends rest on, a low one and a high one.

        Of one sum it is the way with the smallest sum of half-widths, which depends on scales and thresholds
        alone; of several sums all ways, of which each takes its own.
        """
        held = {_rests_of(one) for pieces in (below, above) for _, known in pieces for one in known}
        ways = [one for one in Rests if one in held] or [self._without(asked)]
        if len(ways) > 1 and below is not above:
            ways.append(Rests.MIXED)
        found = list[_Way]()
        for rests in ways:
            shares = self.shares(rests)
            low = self._bound(below, shares)
            found.append((rests, low, low if below is above else self._bound(above, shares)))
        if len(found) > 1 and isinstance(below[0][0], OneSum):
            return [min(found, key=lambda one: one[1].half_width + one[2].half_width)]
        return found

    def _bound(self, pieces: _Pieces, shares: Shares) -> Bound:
        """Return the evidence with the smallest half-width; it does not depend on noise."""
        found = NOTHING
        for number, (sums, known) in enumerate(pieces):
            one = sums.bound(functools.partial(self.held, known, shares=shares), self.everybody)
            if number:
                narrower = one.half_width < found.half_width
                one = Bound(*(sums.either(narrower, *both) for both in zip(one, found, strict=True)))
            found = one
        return found

    def _in_reach(self, low: Bounded, high: Bounded) -> _Ends:
        """Return the sums of the least weight, and of the greatest, for everybody."""
        total, error = self.state.total.estimate, self._total_error
        fewest, most = max(0.0, total - error), max(0.0, total + error)
        least, greatest = low.reach[0], high.reach[1]
        return _Ends(least * (fewest if least > 0 else most), greatest * (most if greatest > 0 else fewest))

    def _without(self, scope: tuple[str, ...]) -> Rests:
        """Return what intervals over a scope rest on that nothing known holds."""
        if scope not in self._alone:
            inside = self._scopes_inside(scope)
            certified = any({*one} <= {*other} for one in inside for other in self.state.certificates)
            self._alone[scope] = Rests.CERTIFIED if certified else Rests.PARTS
        return self._alone[scope]

    # --- parts ----------------------------------------------------------------------------------------------

    def _by_parts(self, low: Bounded, high: Bounded, rests: Rests, *, beside: bool = False) -> _Ends:
        """Return the ends that the parts of sums give: a low one of the one, a high one of the other."""
        if self.state.contract.options.bar_limit is not None:
            return _UNKNOWN  # what is refused must not depend on noise
        sums = (low,) if low is high else (low, high)
        if not beside and all(len(one.scope) < 2 or self.known(one.scope).opened for one in sums):
            return _UNKNOWN
        splits = [one.split() if len(one.scope) > 1 else None for one in sums]
        ends = 2 * beside
        for one, split, is_low in ((low, splits[0], True), (high, splits[-1], False)):
            blocks = () if split is None else split.below if is_low else split.above
            # Of each block, of one of several attributes also of each of these, and of ``_scopes_inside``.
            several = sum(len(block.scope) for block in blocks if len(block.scope) > 1)
            ends += len(blocks) + several + len(self._scopes_inside(one.scope)) if split else 1
        shares = self.shares(rests, ends)
        found = [
            self._along(one, shares) if split is None else self._inside(one, split, shares)
            for one, split in zip(sums, splits, strict=True)
        ]
        both = _Ends(found[0].low, found[-1].high)
        return both.within(self._direct(low, high, shares)) if beside else both

    def _scopes_inside(self, scope: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the sets of at least two of some attributes, but not all, that something known is about."""
        if scope not in self._wider:
            held = [one.scope for one in self.state.marginals]
            common = {
                tuple(name for name in scope if name in one) for one in (*held, *self.state.certificates)
            }
            found = [one for one in common if 2 <= len(one) < len(scope)]
            found.sort(key=lambda one: (self.state.domain.scope_size(one), one))
            self._wider[scope] = found[:_MOST_PARTS]
        return self._wider[scope]

    def _inside(self, sums: Bounded, split: Split, shares: Shares) -> _Ends:
        lows, ends = self._of_blocks(split, shares)
        for scope in self._scopes_inside(sums.scope):
            part = sums.onto(scope)
            if part is None:
                continue
            wider = self._direct(part[0], part[1], shares)
            if part[0] is part[1]:  # factors of a product: it counts at most that, and at least what is left
                blocks = zip(lows, split.below, strict=True)
                rest = [end for end, one in blocks if not {*one.scope} <= {*scope}]
                wider = wider._replace(low=wider.low + self._bonferroni(rest, split.scale, beside=1))
            ends = ends.within(wider)
        return ends

    def _of_blocks(self, split: Split, shares: Shares) -> tuple[list[Number], _Ends]:
        """Return the low ends of the parts that make a sum, and the ends that all of them give it."""
        below = [self._block(one, shares) for one in split.below]
        above = below if split.above is split.below else [self._block(one, shares) for one in split.above]
        lows, highs = [one.low for one in below], [one.high for one in above]
        low, high = functools.reduce(np.maximum, lows), functools.reduce(np.minimum, highs)
        if split.form == "product":
            low = self._bonferroni(lows, 1.0)
        elif split.form == "union":
            high = sum(highs)
        return lows, _Ends(split.scale * low, split.scale * high)

    def _bonferroni(self, lows: Sequence[Number], scale: float, *, beside: int = 0) -> Number:
        """Return what a product is at least: the sum of its factors less all but one times everybody."""
        everybody = self.state.total.estimate + self._total_error
        return scale * (sum(lows) - (len(lows) + beside - 1) * everybody)

    def _block(self, sums: Bounded, shares: Shares) -> _Ends:
        """Return the ends of one part: of several attributes, by all of them and by each."""
        if len(sums.scope) < 2:
            return self._along(sums, shares)
        _, ends = self._of_blocks(sums.split(), shares)
        return self._direct(sums, sums, shares).within(ends)

    def _along(self, sums: Bounded, shares: Shares) -> _Ends:
        """Return the ends of a sum over one attribute, whichever it is; of everybody, none."""
        if not sums.scope:
            return _UNKNOWN
        known = self.known(sums.scope)
        if not known.opened or self.confidences.together:
            return self._direct(sums, sums, shares)
        box = sums.box if isinstance(sums, Question) else None
        key = None if box is None else (sums.scope[0], box[0].start, box[0].stop, shares)
        if key is not None and key in self._runs:
            return self._runs[key]
        counts = known.opened[0]
        if isinstance(counts, Certificate):  # opening tests nothing
            return _UNKNOWN
        if (counts, shares) not in self._axes:
            noise = AxisNoise(counts, shares.measured)
            self._axes[counts, shares] = Candidates([Evidence.of_counts(counts, noise)])
        held = self._axes[counts, shares]
        value, width, _ = sums.bound(lambda _: held, self.everybody)
        ends = _Ends(value - width, value + width)
        if key is not None:
            self._runs[key] = ends
        return ends

    def _direct(self, low: Bounded, high: Bounded, shares: Shares) -> _Ends:
        """Return the ends of sums by what is known of all of their attributes."""
        if isinstance(low, Counts):
            found = np.empty((2, len(low.products)))
            for places, group in low.groups(self.state.coarsening):
                found[:, places] = self._known_ends(group, group, shares)
            return _Ends(*found)
        return self._known_ends(low, high, shares)

    def _known_ends(self, low: Bounded, high: Bounded, shares: Shares) -> _Ends:
        below, above = self._pieces(low, high)
        least = self._bound(below, shares)
        most = least if below is above else self._bound(above, shares)
        return _Ends(least.value - least.half_width, most.value + most.half_width)


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

    def low(self, weights: Array) -> float:
        """Return a number that the sum with these weights, or greater ones, is at least."""
        if self.coarsening is not None:
            weights = self.coarsening.least(self.scope, weights)
        return float(np.sum(weights * self.evidence.values)) - self.evidence.noise.half_width(weights)

    def high(self, weights: Array) -> float:
        """Return a number that the sum with these weights, or smaller ones, is at most."""
        if self.coarsening is not None:
            weights = self.coarsening.greatest(self.scope, weights)
        return float(np.sum(weights * self.evidence.values)) + self.evidence.noise.half_width(weights)

    def half_width(self, weights: Array) -> float:
        """Return how far ``high`` is above the sum on what is known."""
        return self.evidence.noise.half_width(
            weights if self.coarsening is None else self.coarsening.greatest(self.scope, weights)
        )


def _rests_of(known: Known) -> Rests:
    """Return what an interval rests on that one piece of evidence gives."""
    return Rests.CERTIFIED if isinstance(known, Certificate) else Rests.MEASURED
