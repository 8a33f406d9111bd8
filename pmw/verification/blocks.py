"""Blocks of stored answers of one version, many recomputed at once.

A question is a product of weights over some attributes, and what is known of it a table over them: questions
over the same attributes are summed as matrix products. It is a shortcut: an answer that is not found right
here may still be, and is looked at by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.answers import Source
from pmw.error_bars import Confidences, certified_half_width
from pmw.marginal_bars import Known, certificate_bound, is_fine, known_of, opening_over
from pmw.mechanism import coarse_model
from pmw.model import MarginalMeasurement, OneWayMeasurement, RangeTreeMeasurement
from pmw.noise_bounds import simultaneous_half_width, sum_half_width
from pmw.policy import MarginalTestPlan, TestKind
from pmw.state import Certificate, PublicState
from pmw.store import StoredAnswer, query_key
from pmw.verification.answers import may_have_been_closed, with_certificates
from pmw.verification.pieces import Piece, Pieces
from pmw.verification.replay import Replay, are_close
from queries.linear import UNITS

__all__ = [
    "are_expected",
]

_LARGEST_TABLE = 2**18  # cells
_MOST_NUMBERS = 2**20  # held at once: 8 MB
_SHORTEST_RUN = 32  # answers

_Numbers: TypeAlias = NDArray[np.float64]
_Flags: TypeAlias = NDArray[np.bool_]
_Member: TypeAlias = tuple[int, StoredAnswer, tuple[Piece, ...]]  # its place in the block, and its factors


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Stored answers to questions whose factors are over the same attributes.

    Args:
        state: of their version, with the certificates of its time.
        scope: of the questions.
        pieces: the factors of each.
        rows: the stored answers.
        is_cut: the questions cut groups of cells.
        exact: the certificates are known exactly.
    """

    state: PublicState
    scope: tuple[str, ...]
    pieces: list[tuple[Piece, ...]]
    rows: list[StoredAnswer]
    is_cut: bool
    exact: bool

    def weights(self, cells: str) -> list[_Numbers]:
        """Return weights on some cells, factor by factor, one row per question."""
        return [
            np.stack([getattr(one[place], cells) for one in self.pieces])
            for place in range(len(self.pieces[0]))
        ]

    def sums(self, table: _Numbers, cells: str) -> _Numbers:
        """Return what a table over the scope gives for each question, on some cells."""
        scopes = [piece.scope for piece in self.pieces[0]]
        axes = [self.scope.index(name) for scope in scopes for name in scope]
        weights = self.weights(cells)
        lengths = [factor.shape[1] for factor in weights]
        table = np.ascontiguousarray(table.transpose(axes)).reshape(lengths)
        order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
        table, weights = table.transpose(order), [weights[place] for place in order]
        step = max(1, _MOST_NUMBERS * lengths[order[0]] // table.size)
        starts = range(0, len(self.rows), step)
        return np.concatenate(
            [_products(table, [factor[start : start + step] for factor in weights]) for start in starts]
        )


def _products(table: _Numbers, weights: Sequence[_Numbers]) -> _Numbers:
    """Return the sums of a table times weights along each axis, one for each row of the weights."""
    first, *others = weights
    found = first @ table.reshape(table.shape[0], -1)
    for factor in others:
        found = np.matmul(factor[:, None, :], found.reshape(*factor.shape, -1))[:, 0, :]
    return found[:, 0]


def are_expected(rows: Sequence[StoredAnswer], replay: Replay, pieces: Pieces) -> list[bool]:
    """Tell which of some stored answers are among those that their questions may have been given.

    Args:
        rows: answers of one version, in order, none of them marked measured.
        replay: at their version or before it, with the number of answers before the first.
        pieces: what was read of questions before.

    Returns:
        One per answer: that it is, or that it has to be looked at by itself.

    Raises:
        SessionCorruptError: there is no such version.
    """
    found = [False] * len(rows)
    state, first = replay.at(rows[0].version), replay.answers
    runs = _steady_runs(state, first, len(rows))
    members: dict[tuple[tuple[tuple[str, ...], ...], bool], list[_Member]] = {}
    for place, row in enumerate(rows):
        read = pieces.of(row.query) if _is_plain(row) else None
        if read is not None:
            key = tuple([piece.scope for piece in read]), any(piece.is_cut for piece in read)
            members.setdefault(key, []).append((place, row, read))
    for (scopes, is_cut), chosen in members.items():
        scope = state.domain.scope([name for names in scopes for name in names])
        for start, stop in runs if _may_change(state, scope, replay) else [(0, len(rows))]:
            replay.answers = first + start
            held, exact = with_certificates(state, scope, replay)
            inside = [one for one in chosen if start <= one[0] < stop]
            for part in _parts(inside):
                group = _Group(held, scope, [one[2] for one in part], [one[1] for one in part], is_cut, exact)
                for one, holds in zip(part, _are_expected(group, replay).tolist(), strict=True):
                    found[one[0]] = holds
    replay.answers = first
    return found


def _parts(members: Sequence[_Member]) -> Iterator[Sequence[_Member]]:
    """Yield members a few at a time, so that their weights take no more than some memory."""
    step = max(
        1, _MOST_NUMBERS // max(1, sum(piece.fine.size for _, _, read in members[:1] for piece in read))
    )
    for start in range(0, len(members), step):
        yield members[start : start + step]


def _may_change(state: PublicState, scope: Sequence[str], replay: Replay) -> bool:
    """Tell whether certificates depend on how many answers stood before."""
    held = with_certificates(state, scope, replay)[0].certificates
    return any(held.get(one.scope, one) is not one for one in replay.records.certificates)


def _steady_runs(state: PublicState, first: int, count: int) -> list[tuple[int, int]]:
    """Return the longer runs of answers in which thresholds are the same; they fall at first."""
    plan, found, start = state.plan, [], 0
    if not isinstance(plan, MarginalTestPlan):
        return [(0, count)]
    while start < count:
        level = plan.threshold(1, first + start)
        # Thresholds never rise: the first that is lower is found by halving.
        low, high = start + 1, count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if plan.threshold(1, first + middle) == level else (low, middle)
        if low - start >= _SHORTEST_RUN:
            found.append((start, low))
        start = low
    return found


def _is_plain(row: StoredAnswer) -> bool:
    """Tell whether an answer is made of finite numbers, and is found under its question's key."""
    numbers = (row.count, row.confidence, *(row.interval or ()))
    whole = all(isinstance(number, float) and math.isfinite(number) for number in numbers)
    return whole and isinstance(row.query, str) and query_key(row.query) == row.query_key


def _are_expected(group: _Group, replay: Replay) -> _Flags:
    state, rows = group.state, group.rows
    if math.prod(coarse_model(state).domain.scope_shape(group.scope)) > _LARGEST_TABLE:
        return np.zeros(len(rows), dtype=bool)
    counts = group.sums(coarse_model(state).marginal(group.scope), "mean")
    stated = np.array([row.confidence for row in rows])
    confident = are_close(stated, np.full(len(rows), state.contract.options.confidence), counts)
    ends = np.array([row.interval or (math.nan, math.nan) for row in rows])
    found = np.stack([np.array([row.count for row in rows]), *ends.T])
    synthetic = np.array([row.source == Source.SYNTHETIC.value for row in rows])
    told = np.array([row.interval is not None for row in rows])
    holds: _Flags = synthetic & told & _by_their_own_test(group, counts, found, replay)
    if not _is_rarer(group):
        bounds = None if state.contract.options.test is TestKind.QUERY else _intervals(group)
        if bounds is None:
            source = _untold(state, replay).value
            untold = np.array([row.source == source for row in rows]) & ~told
            holds = holds | (untold & are_close(found[0], np.maximum(counts, 0), counts))
        else:
            holds = holds | (synthetic & told & _within(group, counts, found, bounds))
    return holds & confident


def _untold(state: PublicState, replay: Replay) -> Source:
    """Return the source of answers that nothing holds."""
    if state.contract.options.test is TestKind.QUERY or state.closed:
        return Source.EXHAUSTED
    closed = replay.records.closed and may_have_been_closed(state, replay)
    return Source.EXHAUSTED if closed or state.positives_used >= state.positives_limit else Source.UNVERIFIED


def _is_rarer(group: _Group) -> bool:
    """Tell whether a marginal says more of the questions than the model does, and moves their answers."""
    state, wanted = group.state, set(group.scope)
    if state.contract.options.test is TestKind.QUERY:
        return opening_over(state, group.scope) is not None
    return any(
        isinstance(one, MarginalMeasurement)
        and wanted <= set(one.scope)
        and (place in state.beside or (group.is_cut and is_fine(state, one)))
        for place, one in enumerate(state.measured)
    )


def _by_their_own_test(group: _Group, counts: _Numbers, found: _Numbers, replay: Replay) -> _Flags:
    """Tell which answers are those to questions that were tested by themselves, and not bought."""
    state, plan = group.state, group.state.query_plan
    if plan is None or not replay.records.was_tested(TestKind.QUERY, state.version):
        return np.zeros(len(counts), dtype=bool)
    width = certified_half_width(plan, plan.threshold, Confidences.in_state(state).alone)
    wanted = np.maximum(np.stack([counts, counts - width, counts + width]), 0)
    return np.asarray(are_close(found, wanted, wanted[0]).all(axis=0))


def _within(group: _Group, counts: _Numbers, found: _Numbers, bounds: tuple[_Numbers, _Numbers]) -> _Flags:
    """Tell which answers are the model's, within intervals that are as they should be."""
    shown = np.maximum(counts, 0)
    low, high = (np.maximum(end, 0) for end in (np.minimum(bounds[0], counts), np.maximum(bounds[1], counts)))
    known = ~np.isnan(bounds[0]) & ~np.isnan(bounds[1])
    near: _Flags = known & are_close(found[0], shown, shown)
    if group.exact:
        return near & are_close(found[1], low, shown) & are_close(found[2], high, shown)
    # What is known is that intervals are no narrower; of those with two questions for ends, not even that.
    wide, least = found[2] - found[1], np.zeros(len(counts)) if group.is_cut else high - low
    inside: _Flags = (found[1] <= found[0]) & (found[0] <= found[2])
    return np.asarray(near & inside & ((found[1] <= 0) | (wide >= least) | are_close(wide, least, found[0])))


# --- intervals ---------------------------------------------------------------------------------------------


def _intervals(group: _Group) -> tuple[_Numbers, _Numbers] | None:
    """Return both ends of the intervals, NaN for those to be looked at by themselves; None for none."""
    state = group.state
    opening = opening_over(state, group.scope)
    if opening is not None:
        value, width = _bounds(group, [("fine", opening)])
        return value - width, value + width
    fine, coarse = known_of(state, group.scope)
    if not (fine or coarse):
        return None
    if fine or not group.is_cut:
        known = [("fine", one) for one in fine]
        known += [] if group.is_cut else [("inner", one) for one in coarse]
        value, width = _bounds(group, known)
        return value - width, value + width
    inner, outer = group.weights("inner"), group.weights("outer")
    nobody = np.any([(factor == 0).all(axis=1) for factor in inner], axis=0)
    below, above = _between(group, coarse, nobody)
    low = np.where(nobody, 0.0, np.where(_are_constant(inner), math.nan, below))
    return low, np.where(_are_constant(outer), math.nan, above)


def _between(group: _Group, coarse: Sequence[Known], nobody: _Flags) -> tuple[_Numbers, _Numbers]:
    """Return the low ends of inner and the high ends of outer questions, both from the narrower of two ways.

    Either both ends are certified, or each may rest on another noise: as ``MarginalBars`` has it.
    """
    certified = [one for one in coarse if isinstance(one, Certificate)]
    ways = [_ends(group, coarse, nobody, one_end=True)]
    if certified:
        ways.append(_ends(group, certified, nobody, one_end=False))
    chosen = np.stack([width for _, _, width in ways]).argmin(axis=0)
    low, high = (np.choose(chosen, [way[end] for way in ways]) for end in (0, 1))
    return low, high


def _ends(
    group: _Group, known: Sequence[Known], nobody: _Flags, *, one_end: bool
) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return both ends and the sum of their half-widths; nobody is counted without an error."""
    below, above = (
        _bounds(group, [(cells, one) for one in known], one_end=one_end) for cells in ("inner", "outer")
    )
    return below[0] - below[1], above[0] + above[1], np.where(nobody, 0.0, below[1]) + above[1]


def _are_constant(weights: Sequence[_Numbers]) -> _Flags:
    """Tell which questions have one weight for everybody."""
    constant: _Flags = np.all([factor.min(axis=1) == factor.max(axis=1) for factor in weights], axis=0)
    return constant


def _bounds(
    group: _Group, known: Sequence[tuple[str, Known | OneWayMeasurement]], *, one_end: bool = False
) -> tuple[_Numbers, _Numbers]:
    """Return the value and the half-width of the evidence with the smallest half-width, for each question."""
    widths = np.stack([_widths(group, *one, one_end=one_end) for one in known])
    chosen, values = widths.argmin(axis=0), np.empty(len(group.rows))
    for number in np.unique(chosen):
        mine = np.flatnonzero(chosen == number)
        picked = replace(
            group, rows=[group.rows[row] for row in mine], pieces=[group.pieces[row] for row in mine]
        )
        cells, one = known[number]
        values[mine] = picked.sums(_table(group, one), cells)
    return values, widths.min(axis=0)


def _table(group: _Group, known: Known | OneWayMeasurement) -> _Numbers:
    """Return what is known, summed to the questions' scope: records per cell."""
    axes = tuple(axis for axis, name in enumerate(known.scope) if name not in group.scope)
    if isinstance(known, Certificate):
        units: NDArray[np.int64] = known.units.sum(axis=axes)
        return units / UNITS
    drawn = group.state.contract.options.simultaneous
    cells = known.cell_values if isinstance(known, RangeTreeMeasurement) and drawn else known.values
    values: _Numbers = cells.sum(axis=axes)
    return values


def _widths(group: _Group, cells: str, known: Known | OneWayMeasurement, *, one_end: bool) -> _Numbers:
    """Return how far each question may be from what is known, in records."""
    state, count = group.state, len(group.rows)
    if isinstance(known, Certificate):
        return np.full(count, certificate_bound(state, known, one_end=one_end))
    noise, confidence = known.noise, Confidences.in_state(state).alone
    if state.contract.options.simultaneous:
        drawn = known.units if isinstance(known, MarginalMeasurement) else known.cell_values
        return np.full(count, simultaneous_half_width(noise, drawn.size, confidence))
    weights = group.weights(cells)
    if isinstance(known, MarginalMeasurement):
        squares = np.prod([np.sum(factor**2, axis=1) for factor in weights], axis=0)
        squares *= known.units.size / math.prod([factor.shape[1] for factor in weights])
    else:
        squares = np.array([known.weighted_variance(row) for row in weights[0]]) / known.variance
    return np.array([sum_half_width(noise, one, confidence, peak=1.0) for one in squares.tolist()])
