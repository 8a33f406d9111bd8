"""Error bars where whole marginals are tested and measured, from public numbers alone.

A question over a scope is held by evidence of two kinds: the noise of a measured marginal that contains the
scope, or a certificate of a marginal that does. A question that cuts a bin lies, cell by cell,
between its inner and its outer query on the bins: the low end is the inner one's, the high end the outer
one's. So does a question that the declared cells cannot decide lie between its two readings. Where ends may
rest on different noises, what may fail is shared among them (``_Share``). Proofs are in
``docs/marginal-test.md``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    CombinedMarginal,
    HierarchicalMeasurement,
    MarginalMeasurement,
    MarginalValues,
    OneWayMeasurement,
)
from pmw.privacy.tail_bounds import (
    certificate_half_width,
    simultaneous_half_width,
    sum_half_width,
)
from pmw.public.answer import Answer, Source, Spent
from pmw.public.evidence import Known, is_fine, is_whole_table, known_of, marginals_over, opened_over
from pmw.public.intervals import (
    Confidences,
    answer_within,
    negative_margin,
    total_error_bound,
    untested_answer,
)
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.state import Certificate, PublicState
from pmw.public.table_noise import TableNoise, moved_cells
from queries.linear import UNITS, LinearQuery

__all__ = [
    "answers_untested",
    "certificate_bound",
    "MarginalBars",
    "negative_half_width",
]


_Known: TypeAlias = OneWayMeasurement | Known
_Pieces: TypeAlias = Sequence[tuple[LinearQuery, Sequence[_Known]]]  # what bounds which query
_Bound: TypeAlias = tuple[float, float]  # a value, and how far the truth may be from it, in records


class _Share(enum.Enum):
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


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known of a scope, whatever is asked about it.

    Args:
        opened: what opening measured over it, and what was requested of that, on the declared cells.
        opened_bins: what was requested of it on bins.
        fine: what else is known on declared cells.
        coarse: what is known on bins of them.
        measured: marginals that contain the scope, the newest first; whether each lies beside the model, and
            whether it is on declared cells.
    """

    opened: Sequence[_Known]
    opened_bins: Sequence[_Known]
    fine: Sequence[_Known]
    coarse: Sequence[_Known]
    measured: Sequence[tuple[MarginalValues, bool, bool]]

    @classmethod
    def of(cls, state: PublicState, scope: tuple[str, ...], asked: tuple[str, ...]) -> _Scope:
        """Return what is known of a scope, with the certificates of what was asked: it contains the scope."""
        left_out = [state.measured[place] for place in state.beside]
        beside = {one.scope for one in left_out if isinstance(one, MarginalMeasurement)}
        measured = [(one, one.scope in beside, is_fine(state, one)) for one in marginals_over(state, scope)]
        return cls(*opened_over(state, scope), *known_of(state, scope, asked), measured[::-1])


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What bounds the queries over a scope.

    Args:
        values: float64, one axis per attribute of the scope, records.
        half_width: how far the truth may be from a query's answer on the values, in records.
    """

    values: NDArray[np.float64]
    half_width: Callable[[LinearQuery], float]


def answers_untested(state: PublicState, spent: Spent) -> Callable[[LinearQuery], Answer]:
    """Return what answers questions from one state's model, within what was released and tests promise."""
    if not state.contract.options.tests_marginals:
        return partial(untested_answer, state, spent=spent)
    return MarginalBars(state, spent).answer


class MarginalBars:
    """Answers questions in one state; what questions over a scope have in common is looked up once.

    Args:
        state: the state after the tests that the questions asked for.
        spent: what the session had spent.
    """

    def __init__(self, state: PublicState, spent: Spent) -> None:
        self._state = state
        self._spent = spent
        confidences = Confidences.in_state(state)
        self._confidence = confidences.alone
        self._total_error = total_error_bound(state, confidences.alone)
        self._certified_total_error = total_error_bound(state, confidences.total)
        self._scopes: dict[tuple[tuple[str, ...], ...], _Scope] = {}
        self._held: dict[tuple[_Known, tuple[str, ...], bool], _Evidence] = {}

    def answer(self, query: LinearQuery, *, measured: bool = False) -> Answer:
        """Return the model's answer to a question; ``measured``: a marginal was measured for it."""
        state = self._state
        if not query.scope and query.readings is None:
            count, width = self._everybody(query)
            interval = count - width, count + width
            return answer_within(state, query, count, interval, Source.SYNTHETIC, self._spent)
        count = self._count(query) if query.scope else self._everybody(query)[0]
        found = self._interval(query)
        source = Source.MEASURED if measured and found is not None else Source.SYNTHETIC
        if found is None:
            spendable = not state.closed and state.positives_used < state.positives_limit
            source = Source.UNVERIFIED if spendable else Source.EXHAUSTED
        elif state.contract.options.bar_limit is not None:
            count = min(max(count, found[0]), found[1])  # what is promised is the width of the interval
        else:  # the answer lies within its interval
            found = (min(found[0], count), max(found[1], count))
        return answer_within(state, query, count, found, source, self._spent)

    def half_width(self, query: LinearQuery) -> float | None:
        """Return how far the truth may be from what is known of a question; it does not depend on noise.

        None where nothing is known of it, or where its two ends rest on different numbers, since it cuts a
        bin or the declared cells cannot decide it.
        """
        if query.readings is not None:
            return None
        below, above = self._pieces(query, query.scope)
        found = self._bound(below, _Share.ONE) if below is above else None
        return None if found is None else found[1]

    def _count(self, query: LinearQuery) -> float:
        """Return the model's answer.

        Where a marginal says more of the scope than the model can know, since it is kept beside the model, or
        is on declared cells of a bin that the question cuts, the answer is moved to within one standard
        deviation of what the marginal says.
        """
        count = self._state.model.answer(query)
        for one, beside, fine in self._scope(query.scope, query.scope).measured:
            if not beside and not (fine and not self._state.coarsening.is_aligned(query)):
                continue
            value, deviation = _weighed(self._state, one, query)
            return min(max(count, value - deviation), value + deviation)
        return count

    def _interval(self, query: LinearQuery) -> tuple[float, float] | None:
        if query.readings is None:
            below, above = self._pieces(query, query.scope)
        else:
            below, above = (self._pieces(one, query.scope)[end] for end, one in enumerate(query.readings))
        low, high = self._around(below) if below is above else self._between(below, above)
        if query.readings is not None and not query.factors:
            # No test says more of a question whose weights are the same for everybody; some ends are known.
            count, width = self._everybody(LinearQuery.everything(query.domain))
            low, high = 0.0 if low is None else low, count + width if high is None else high
        return None if low is None or high is None else (low, high)

    def _pieces(self, query: LinearQuery, asked: tuple[str, ...]) -> tuple[_Pieces, _Pieces]:
        """Return what is known below and above a question on whole cells; one object where it is the same.

        Args:
            query: the question, or the reading of one over a wider scope.
            asked: the scope of the question.
        """
        scope = self._scope(query.scope, asked)
        both: _Pieces
        if scope.opened and not scope.opened_bins:
            both = ((query, scope.opened),)
            return both, both
        inner, outer = self._state.coarsening.bounds(query)
        if scope.opened:
            both = ((query, scope.opened),)
            both = (*both, (inner, scope.opened_bins)) if inner is outer else both
            return both, both
        if inner is not outer and not scope.fine:
            return ((inner, scope.coarse),), ((outer, scope.coarse),)
        # Of a question that cuts bins, those have been looked into.
        both = ((query, scope.fine), (inner, scope.coarse)) if inner is outer else ((query, scope.fine),)
        return both, both

    def _around(self, known: _Pieces) -> tuple[float | None, float | None]:
        """Return the ends of an interval that one piece of evidence gives: one event."""
        found = self._bound(known, _Share.ONE)
        return (None, None) if found is None else (found[0] - found[1], found[0] + found[1])

    def _between(self, below: _Pieces, above: _Pieces) -> tuple[float | None, float | None]:
        """Return the low end of what is known below and the high end of what is known above.

        Of the two ways in which both hold as stated, the one whose widths have the smaller sum is taken: it
        depends on scales and thresholds, not on the noise that the ends rest on.
        """
        ends = self._bound(below, _Share.HALF), self._bound(above, _Share.HALF)
        certified = self._bound(below, _Share.CERTIFIED), self._bound(above, _Share.CERTIFIED)
        if _width(certified) < _width(ends):
            ends = certified
        low, high = ends
        return None if low is None else low[0] - low[1], None if high is None else high[0] + high[1]

    def _bound(self, known: _Pieces, share: _Share) -> _Bound | None:
        """Return the evidence with the smallest half-width; it does not depend on noise.

        Args:
            known: a question, and what is known of a scope that contains its own, on the same cells.
            share: which events it may rest on.
        """
        widths = []
        for query, pieces in known:
            if not query.scope:  # one weight, or none where a bin was cut: everybody, or nobody
                return self._everybody(query, share)
            for one in pieces:
                if share is _Share.CERTIFIED and not isinstance(one, Certificate):
                    continue
                evidence = self._evidence(one, query.scope, one_end=share is _Share.HALF)
                widths.append((evidence.half_width(query), evidence.values, query))
        if not widths:
            return None
        width, values, query = min(widths, key=itemgetter(0))
        return query.evaluate(values), width

    def _everybody(self, query: LinearQuery, share: _Share = _Share.ONE) -> _Bound:
        """Return the answer to a question of one weight for everybody, and its half-width."""
        weight = query.constant / UNITS
        total_error = self._certified_total_error if share is _Share.CERTIFIED else self._total_error
        return weight * self._state.total.value, weight * total_error

    def _scope(self, scope: tuple[str, ...], asked: tuple[str, ...]) -> _Scope:
        if (scope, asked) not in self._scopes:
            self._scopes[scope, asked] = _Scope.of(self._state, scope, asked)
        return self._scopes[scope, asked]

    def _evidence(self, known: _Known, scope: tuple[str, ...], *, one_end: bool) -> _Evidence:
        if (known, scope, one_end) not in self._held:
            if isinstance(known, Certificate):
                found = _of_certificate(self._state, known, scope, one_end=one_end)
            elif is_whole_table(known, self._state):
                found = _of_table(self._state, known, scope, self._confidence)
            else:
                simultaneous = self._state.contract.options.simultaneous
                found = _of_noise(known, scope, self._confidence, simultaneous=simultaneous)
            self._held[known, scope, one_end] = found
        return self._held[known, scope, one_end]


def _width(ends: tuple[_Bound | None, _Bound | None]) -> float:
    """Return the sum of the half-widths of two ends; infinite where one of them is not known."""
    return sum(math.inf if end is None else end[1] for end in ends)


def _weighed(state: PublicState, measurement: MarginalValues, query: LinearQuery) -> tuple[float, float]:
    """Return what a measured marginal says of a question, and its standard deviation, in records."""
    axes = _others(measurement.scope, query.scope)
    values = measurement.values.sum(axis=axes)
    squares = np.full(values.shape, measurement.units.size / values.size)
    factors = state.coarsening.weights(query)
    if is_fine(state, measurement):
        factors = [(query.scope, query.weights() / UNITS)]
    for names, weights in factors:
        shape = [size if name in names else 1 for name, size in zip(query.scope, values.shape, strict=True)]
        values = values * weights.reshape(shape)
        squares = squares * weights.reshape(shape) ** 2
    return float(values.sum()), math.sqrt(float(squares.sum()) * measurement.variance)


def _of_noise(
    measurement: OneWayMeasurement | CombinedMarginal,
    scope: tuple[str, ...],
    confidence: float,
    *,
    simultaneous: bool,
) -> _Evidence:
    axes, noise, values = _others(measurement.scope, scope), measurement.noise, measurement.values
    part, peak = 1.0, 1.0
    if isinstance(measurement, CombinedMarginal):
        part, peak = measurement.squares, measurement.peak
    elif simultaneous:
        # A tree's cells are taken as they were drawn, for the noise of least squares is not independent.
        drawn = values if isinstance(measurement, MarginalMeasurement) else measurement.cell_values
        half_width = simultaneous_half_width(noise, drawn.size, confidence)
        return _Evidence(drawn.sum(axis=axes), lambda _: half_width)
    repeated = math.prod([int(values.shape[axis]) for axis in axes])

    def squares(query: LinearQuery) -> float:
        if isinstance(measurement, HierarchicalMeasurement):
            return measurement.weighted_variance(query.weights() / UNITS) / measurement.variance
        if query.is_box:  # a sum of ones is exact, in whatever order
            return float(math.prod(side.stop - side.start for side in query.box)) * repeated * part
        return float(np.sum((query.weights() / UNITS) ** 2)) * repeated * part

    # Least squares too gives no number a weight beyond 1.
    return _Evidence(
        values.sum(axis=axes), lambda query: sum_half_width(noise, squares(query), confidence, peak=peak)
    )


def _of_table(
    state: PublicState, table: MarginalMeasurement, scope: tuple[str, ...], confidence: float
) -> _Evidence:
    """Return what a table that opening measured whole says of a scope, with the number of records."""
    noise = TableNoise.of(table.noise, table.units.size, state.total.deviation)
    values = moved_cells(table, state.total.estimate).sum(axis=_others(table.scope, scope))
    return _Evidence(values, lambda query: noise.question_half_width(query, confidence))


def _of_certificate(
    state: PublicState, certificate: Certificate, scope: tuple[str, ...], *, one_end: bool
) -> _Evidence:
    bound = certificate_bound(state, certificate, one_end=one_end)
    axes = _others(certificate.scope, scope)
    return _Evidence((certificate.units / UNITS).sum(axis=axes), lambda _: bound)


def certificate_bound(state: PublicState, certificate: Certificate, *, one_end: bool = False) -> float:
    """Return how far any question on the tested cells may be from the tested marginal, in records.

    Args:
        state: the state.
        certificate: of the marginal.
        one_end: another noise may give the other end of an interval, so this one has half of what may fail.
            Where intervals hold for all questions at once, every noise has its own part already.
    """
    plan = marginal_tier(state.plan)
    if plan is None:
        return math.inf
    confidences = Confidences.in_state(state)
    if one_end and not state.contract.options.simultaneous:
        confidences = confidences.of_one_end()
    total_error = total_error_bound(state, confidences.total)
    return negative_half_width(plan, certificate.threshold, certificate.units.size, confidences, total_error)


def negative_half_width(
    plan: MarginalTestPlan, threshold: int, cells: int, confidences: Confidences, total_error: float
) -> float:
    """Return how far any question may be from a marginal whose test was negative, in records.

    Args:
        plan: the test.
        threshold: T of the test, in units.
        cells: of the marginal.
        confidences: of the threshold noise, and of the number of records.
        total_error: how far the model's total may be from the number of records, in records.
    """
    margin = negative_margin(plan, confidences.certificate)
    return certificate_half_width((threshold + margin) / UNITS, total_error, cells)


def _others(scope: tuple[str, ...], kept: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(scope) if name not in kept)
