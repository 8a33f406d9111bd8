"""Error bars where whole marginals are tested and measured, from public numbers alone.

A question over a scope is held by evidence of two kinds: the noise of a measured marginal that contains the
scope, or a certificate of a marginal that does. A question that cuts a bin lies, cell by cell,
between its inner and its outer query on the bins: the low end is the inner one's, the high end the outer
one's. So does a question that the declared cells cannot decide lie between its two readings. Where ends may
rest on different noises, what may fail is shared among them (``Share``). Proofs are in
``docs/marginal-test.md``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from pmw.model import (
    MarginalMeasurement,
    MarginalValues,
    OneWayMeasurement,
)
from pmw.public.answer import Answer, Basis, Source, Spent
from pmw.public.evidence import Known, is_fine, known_of, marginals_over, opened_over, weighed
from pmw.public.evidence_bounds import Evidence, evidence_of
from pmw.public.intervals import (
    Confidences,
    answer_within,
    total_error_bound,
    untested_answer,
    with_typical,
)
from pmw.public.state import Certificate, PublicState
from queries.boxes import MOST_SUMS, BoxSums
from queries.linear import UNITS, LinearQuery

__all__ = [
    "answers_untested",
    "Bound",
    "KnownOfScope",
    "MarginalBars",
    "ScopeKnowledge",
    "Share",
]


KnownOfScope: TypeAlias = OneWayMeasurement | Known
_Pieces: TypeAlias = Sequence[tuple[LinearQuery, Sequence[KnownOfScope]]]  # what bounds which query


class Bound(NamedTuple):
    """A value, how far the truth may be from it, in records, and what it rests on."""

    value: float
    half_width: float
    basis: Basis


class _Ends(NamedTuple):
    """The ends of an interval, in records, where they are known, and what they rest on."""

    low: float | None
    high: float | None
    basis: Basis


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


@dataclass(frozen=True, slots=True)
class ScopeKnowledge:
    """What is known of a scope, whatever is asked about it.

    Args:
        opened: what opening measured over it, and what was requested of that, on the declared cells.
        opened_bins: what was requested of it on bins.
        fine: what else is known on declared cells.
        coarse: what is known on bins of them.
        measured: marginals that contain the scope, the newest first; whether each lies beside the model, and
            whether it is on declared cells.
    """

    opened: Sequence[KnownOfScope]
    opened_bins: Sequence[KnownOfScope]
    fine: Sequence[KnownOfScope]
    coarse: Sequence[KnownOfScope]
    measured: Sequence[tuple[MarginalValues, bool, bool]]

    @classmethod
    def of(cls, state: PublicState, scope: tuple[str, ...], asked: tuple[str, ...]) -> ScopeKnowledge:
        """Return what is known of a scope, with the certificates of what was asked: it contains the scope."""
        left_out = [state.measured[place] for place in state.beside]
        beside = {one.scope for one in left_out if isinstance(one, MarginalMeasurement)}
        measured = [(one, one.scope in beside, is_fine(state, one)) for one in marginals_over(state, scope)]
        return cls(*opened_over(state, scope), *known_of(state, scope, asked), measured[::-1])


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
        self.state = state
        self.spent = spent
        confidences = Confidences.in_state(state)
        self._confidence = confidences.alone
        self._total_error = total_error_bound(state, confidences.alone)
        self._certified_total_error = total_error_bound(state, confidences.total)
        self._scopes: dict[tuple[tuple[str, ...], ...], ScopeKnowledge] = {}
        self._sums: dict[tuple[str, ...], BoxSums | None] = {}
        self._evidence_sums: dict[int, BoxSums] = {}
        self._held: dict[tuple[KnownOfScope, tuple[str, ...], bool], Evidence] = {}

    def answer(self, query: LinearQuery, *, measured: bool = False) -> Answer:
        """Return the model's answer to a question.

        Args:
            query: the question.
            measured: a marginal was measured for it. The answer is called measured where the noise makes
                most of its interval: not where that comes from the bins that the question cuts.
        """
        state = self.state
        if not query.scope and query.readings is None:
            count, width, _ = self.everybody(query.constant / UNITS)
            interval = count - width, count + width
            return answer_within(state, query, count, interval, Source.SYNTHETIC, self.spent)
        count = self._count(query) if query.scope else self.everybody(query.constant / UNITS)[0]
        low, high, basis = self._interval(query)
        if low is None or high is None:
            spendable = not state.closed and state.positives_used < state.positives_limit
            source = Source.UNVERIFIED if spendable else Source.EXHAUSTED
            return answer_within(state, query, count, None, source, self.spent)
        is_measured = measured and not self._is_mostly_cut(query)
        source = Source.MEASURED if is_measured else Source.SYNTHETIC
        if state.contract.options.bar_limit is None:  # the answer lies within its interval
            low, high = min(low, count), max(high, count)
        else:  # what is promised is the width of the interval
            count = min(max(count, low), high)
        answer = answer_within(state, query, count, (low, high), source, self.spent)
        return with_typical(state, query, answer, basis)

    def half_width(self, query: LinearQuery) -> float | None:
        """Return how far the truth may be from what is known of a question; it does not depend on noise.

        None where nothing is known of it, or where its two ends rest on different numbers, since it cuts a
        bin or the declared cells cannot decide it.
        """
        if query.readings is not None:
            return None
        below, above = self._pieces(query, query.scope)
        found = self._bound(below, Share.ONE) if below is above else None
        return None if found is None else found.half_width

    def _count(self, query: LinearQuery) -> float:
        """Return the model's answer.

        Where a marginal says more of the scope than the model can know, since it is kept beside the model, or
        is on declared cells of a bin that the question cuts, the answer is moved to within one standard
        deviation of what the marginal says.
        """
        sums = self.model_sums(query.scope) if query.is_box else None
        count = self.state.model.answer(query) if sums is None else sums.one(query.box)
        for one, beside, fine in self.known(query.scope).measured:
            if not beside and not (fine and not self.state.coarsening.is_aligned(query)):
                continue
            value, deviation = weighed(self.state, one, query)
            return min(max(count, value - deviation), value + deviation)
        return count

    def _interval(self, query: LinearQuery) -> _Ends:
        if query.readings is None:
            below, above = self._pieces(query, query.scope)
        else:
            below, above = (self._pieces(one, query.scope)[end] for end, one in enumerate(query.readings))
        low, high, basis = self._around(below) if below is above else _outer_ends(self._between(below, above))
        if query.readings is not None and not query.factors:
            # No test says more of a question whose weights are the same for everybody; some ends are known.
            count, width, _ = self.everybody(1.0)
            low, high = 0.0 if low is None else low, count + width if high is None else high
        return _Ends(low, high, basis)

    def _pieces(self, query: LinearQuery, asked: tuple[str, ...]) -> tuple[_Pieces, _Pieces]:
        """Return what is known below and above a question on whole cells; one object where it is the same.

        Args:
            query: the question, or the reading of one over a wider scope.
            asked: the scope of the question.
        """
        scope = self.known(query.scope, asked)
        both: _Pieces
        if scope.opened and not scope.opened_bins:
            both = ((query, scope.opened),)
            return both, both
        inner, outer = self.state.coarsening.bounds(query)
        if scope.opened:
            both = ((query, scope.opened),)
            both = (*both, (inner, scope.opened_bins)) if inner is outer else both
            return both, both
        if inner is not outer and not scope.fine:
            return ((inner, scope.coarse),), ((outer, scope.coarse),)
        # Of a question that cuts bins, those have been looked into.
        both = ((query, scope.fine), (inner, scope.coarse)) if inner is outer else ((query, scope.fine),)
        return both, both

    def _around(self, known: _Pieces) -> _Ends:
        """Return the ends of an interval that one piece of evidence gives: one event."""
        found = self._bound(known, Share.ONE)
        if found is None:
            return _Ends(None, None, Basis.RELEASED)
        return _Ends(found.value - found.half_width, found.value + found.half_width, found.basis)

    def _is_mostly_cut(self, query: LinearQuery) -> bool:
        """Tell whether most of an interval comes from the bins that a question cuts, not from noise."""
        if query.readings is not None:
            return False
        below, above = self._pieces(query, query.scope)
        low, high = (None, None) if below is above else self._between(below, above)
        return (
            low is not None
            and high is not None
            and (high.value - low.value > low.half_width + high.half_width)
        )

    def _between(self, below: _Pieces, above: _Pieces) -> tuple[Bound | None, Bound | None]:
        """Return what bounds the low end, of what is known below, and the high end, of what is known above.

        Of the two ways in which both hold as stated, the one whose widths have the smaller sum is taken: it
        depends on scales and thresholds, not on the noise that the ends rest on.
        """
        ends = self._bound(below, Share.HALF), self._bound(above, Share.HALF)
        certified = self._bound(below, Share.CERTIFIED), self._bound(above, Share.CERTIFIED)
        if _width(certified) < _width(ends):
            ends = certified
        return ends

    def _bound(self, known: _Pieces, share: Share) -> Bound | None:
        """Return the evidence with the smallest half-width; it does not depend on noise.

        Args:
            known: a question, and what is known of a scope that contains its own, on the same cells.
            share: which events it may rest on.
        """
        widths = []
        for query, pieces in known:
            if not query.scope:  # one weight, or none where a bin was cut: everybody, or nobody
                return self.everybody(query.constant / UNITS, share)
            for one in pieces:
                if share is Share.CERTIFIED and not isinstance(one, Certificate):
                    continue
                evidence = self.evidence(one, query.scope, one_end=share is Share.HALF)
                widths.append((evidence.half_width(query), evidence, query))
        if not widths:
            return None
        width, evidence, query = min(widths, key=itemgetter(0))
        return Bound(evidence.value(query), width, evidence.basis)

    def everybody(self, weight: float, share: Share = Share.ONE) -> Bound:
        """Return the answer to a question of one weight for everybody, and its half-width."""
        total_error = self._certified_total_error if share is Share.CERTIFIED else self._total_error
        return Bound(weight * self.state.total.value, weight * total_error, Basis.RELEASED)

    def model_sums(self, scope: tuple[str, ...]) -> BoxSums | None:
        """Return the model's sums inside boxes of a scope; None where it has too many cells for a table."""
        if scope not in self._sums:
            few = self.state.domain.scope_size(scope) <= MOST_SUMS
            self._sums[scope] = BoxSums.of_few(self.state.model.marginal(scope)) if few else None
        return self._sums[scope]

    def known(self, scope: tuple[str, ...], asked: tuple[str, ...] | None = None) -> ScopeKnowledge:
        """Return what is known of a scope; ``asked`` is that of a question which has a reading over it."""
        key = scope, scope if asked is None else asked
        if key not in self._scopes:
            self._scopes[key] = ScopeKnowledge.of(self.state, *key)
        return self._scopes[key]

    def evidence(self, known: KnownOfScope, scope: tuple[str, ...], *, one_end: bool) -> Evidence:
        """Return what something known bounds over a scope that it contains; see ``evidence_of``."""
        if (known, scope, one_end) not in self._held:
            found = evidence_of(self.state, known, scope, self._confidence, one_end=one_end)
            self._held[known, scope, one_end] = found
        return self._held[known, scope, one_end]

    def evidence_sums(self, evidence: Evidence) -> BoxSums:
        """Return sums of an evidence's values inside boxes."""
        if evidence.sums is not None:
            return evidence.sums
        if id(evidence) not in self._evidence_sums:  # all of ``_held`` live as long
            self._evidence_sums[id(evidence)] = BoxSums(evidence.values)
        return self._evidence_sums[id(evidence)]


def _outer_ends(ends: tuple[Bound | None, Bound | None]) -> _Ends:
    """Return the ends of an interval that reaches from one bound to the other."""
    low, high = ends
    return _Ends(
        None if low is None else low.value - low.half_width,
        None if high is None else high.value + high.half_width,
        Basis.BINS,
    )


def _width(ends: tuple[Bound | None, Bound | None]) -> float:
    """Return the sum of the half-widths of two ends; infinite where one of them is not known."""
    return sum(math.inf if end is None else end.half_width for end in ends)
