"""Evidence: what released numbers, and tests that were negative, say of a scope, and how far it may be off.

A question, a range among many and a sum of numbers are sums of w_i x_i over the cells of a scope. Evidence
has values for the cells, and bounds such a sum on them by the weights, alone or many at once
(``pmw.public.half_widths``). A question's own number, measured on request, bounds it alone.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.estimate import Estimate, noise_variance
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    combined,
)
from pmw.privacy.tail_bounds import simultaneous_half_width
from pmw.public.answer import Basis
from pmw.public.half_widths import (
    AxisNoise,
    Shares,
    StatsNoise,
    SumNoise,
    TableNoise,
    certified_sums,
    total_error_bound,
)
from pmw.public.plans import marginal_tier
from pmw.public.state import Certificate, PublicState, Total
from queries.cell_sets import BoxSums, sides_of
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.questions import Products, Questions


class OwnNumbers:
    """The questions that have a number of their own; of several that of least noise, then the newest.

    Which one that is depends on scales of noise alone, never on a number.

    Args:
        before: those of an earlier state, which are taken over.
    """

    def __init__(self, state: PublicState, before: OwnNumbers | None = None) -> None:
        self.measured = state.measured
        self._most = min((noise_variance(tier.noise) for tier in state.plan), default=math.inf)
        self._scopes: set[tuple[str, ...]] = set() if before is None else {*before._scopes}
        self._numbers: dict[str, QueryMeasurement] = {} if before is None else {**before._numbers}
        for one in state.measured if before is None else state.measured[len(before.measured) :]:
            for number in one.numbers if isinstance(one, RowsMeasurement) else ():
                text = number.query.to_json()
                known = self._numbers.get(text)
                if known is None or number.variance <= known.variance:
                    self._numbers[text] = number
                self._scopes.add(number.query.scope)

    def of(self, query: LinearQuery) -> QueryMeasurement | None:
        """Return a question's own number; None where it has none."""
        return self._numbers.get(query.to_json()) if query.scope in self._scopes else None

    def serves(self, query: LinearQuery) -> bool:
        """Tell whether a question needs no test: it has a number with no more noise than a positive has."""
        number = self.of(query)
        return number is not None and number.variance <= self._most

    def places(self, questions: Questions, *, serving: bool = False) -> NDArray[np.intp]:
        """Return the places of the questions that have one, growing; or of those that need no test for it."""
        if not self._scopes:
            return np.empty(0, dtype=np.intp)
        kinds, examples = questions.kinds()
        asked = np.flatnonzero(np.array([one.scope in self._scopes for one in examples], dtype=bool)[kinds])
        most, has = self._most if serving else math.inf, np.zeros(len(asked), dtype=bool)
        for places, part in questions.take(asked).parts():
            own = map(self._numbers.get, part.texts())
            has[places] = [one is not None and one.variance <= most for one in own]
        return asked[has]


def own_numbers(state: PublicState) -> OwnNumbers:
    """Return the questions of a state that have numbers of their own; kept with the newest."""
    found = state.found.own
    if not isinstance(found, OwnNumbers) or not state.goes_on_from(found.measured):
        found = state.found.own = OwnNumbers(state)
    elif found.measured is not state.measured:
        found = state.found.own = OwnNumbers(state, found)
    return found


BASES = tuple(Basis)
Known: TypeAlias = Estimate | Certificate
_Weights: TypeAlias = NDArray[np.float64]


class Evidence:
    """What bounds the sums over a scope.

    Args:
        values: float64, one axis per attribute of the scope, records.
        basis: the place in ``BASES`` of what it rests on.
        noise: how far the truth may be from sums on the values, in records.
        sums: of the values, inside boxes; None where there are too many cells, or where every sum is exact
            in any order, since the values are whole units of 2^-20 records.
    """

    def __init__(
        self,
        values: _Weights,
        basis: Basis,
        noise: SumNoise | AxisNoise | StatsNoise,
        *,
        sums: BoxSums | None = None,
    ) -> None:
        self.values = values
        self.basis = BASES.index(basis)
        self.noise = noise
        self.sums = sums
        self._box_sums = sums

    @classmethod
    def of_counts(cls, counts: Estimate, noise: SumNoise | AxisNoise) -> Evidence:
        """Return counts with what bounds their noise."""
        sums = None if counts.drawn else BoxSums.of_few(counts.values)
        if isinstance(noise, SumNoise) and counts.is_alike:
            return cls(counts.values, Basis.RELEASED, StatsNoise(noise.of_stats), sums=sums)
        return cls(counts.values, Basis.RELEASED, noise, sums=sums)

    @property
    def box_sums(self) -> BoxSums:
        """Sums of the values inside boxes."""
        if self._box_sums is None:
            self._box_sums = BoxSums(self.values)
        return self._box_sums


class Candidates:
    """Evidence over one scope, of which the one with the smallest half-width bounds a sum.

    Of equal ones it is the first; it does not depend on noise. The place -1 is none, infinitely wide.
    """

    def __init__(self, evidences: Sequence[Evidence]) -> None:
        self.evidences = evidences

    def of_query(self, query: LinearQuery) -> tuple[int, float]:
        """Return the place of the evidence that bounds a question, and its half-width in records."""
        if not (query.is_box or query.is_product):
            return self.of_weights(query.weights() / UNITS)
        sides = sides_of([query])
        return _least([one.noise.product_half_widths(sides).item() for one in self.evidences])

    def of_weights(self, weights: _Weights) -> tuple[int, float]:
        """Return the same of a sum with real weights: float64, one axis per attribute of the scope."""
        return _least([one.noise.half_width(weights) for one in self.evidences])

    def of_products(self, products: Products) -> tuple[NDArray[np.intp], _Weights]:
        """Return the same of many products: intp and float64, shape (n,)."""
        widths = np.array([one.noise.product_half_widths(products.sides) for one in self.evidences])
        return np.argmin(widths, axis=0), widths.min(axis=0)


def _least(widths: Sequence[float]) -> tuple[int, float]:
    """Return the place of the least of some numbers, the first of equal ones, and that number."""
    place, least = -1, math.inf
    for number, width in enumerate(widths):
        if width < least:
            place, least = number, width
    return place, least


def evidence_of(state: PublicState, known: Known, scope: tuple[str, ...], shares: Shares) -> Evidence:
    """Return what something that was released says of a scope that it contains."""
    if isinstance(known, Certificate):
        axes = tuple(axis for axis, name in enumerate(known.scope) if name not in scope)
        total_error, cells = total_error_bound(state, shares.everybody), known.units.size
        plan = marginal_tier(state.plan)
        widths = certified_sums(plan, known.threshold, cells, shares.certificate, total_error)
        return Evidence((known.units / UNITS).sum(axis=axes), Basis.TESTED, StatsNoise(widths))
    found = known.over(scope)
    if state.contract.options.simultaneous:
        width = simultaneous_half_width(known.noise, known.values.size, shares.measured)
        return Evidence(found.values, Basis.RELEASED, StatsNoise(lambda stats: stats.reach * width))
    if known.total_deviation is not None:
        size, repeated = known.values.size, known.values.size // found.values.size
        table = TableNoise.of(known.noise, size, known.total_deviation, shares.measured, repeated)
        noise, sums = StatsNoise(table.half_width), BoxSums.of_few(found.values)
        return Evidence(found.values, Basis.RELEASED, noise, sums=sums)
    return Evidence.of_counts(found, SumNoise(found, shares.measured))


# --- what is known of a scope ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScopeKnowledge:
    """What is known of a scope, whatever is asked about it.

    Args:
        opened: what opening measured over it, and what was requested of that, on the declared cells.
        opened_bins: what was requested of it on bins.
        fine: what else is known on declared cells.
        coarse: what is known on bins of them.
    """

    opened: tuple[Known, ...]
    opened_bins: tuple[Known, ...]
    fine: tuple[Known, ...]
    coarse: tuple[Known, ...]

    @classmethod
    def of(cls, state: PublicState, scope: tuple[str, ...], asked: tuple[str, ...]) -> ScopeKnowledge:
        """Return what is known of a scope.

        Args:
            asked: the scope of the question, which contains the other. Certificates are those of this scope:
                whether they stood at the time of an answer can be told afterwards.
        """
        certificate = state.certificates.get(asked)
        wider = (one for names, one in state.certificates.items() if set(asked) <= set(names))
        certificates = wider if certificate is None else (certificate,)
        # A residual tells of its own scope alone.
        later = [
            one
            for one in state.marginals
            if (scope == one.scope if isinstance(one, ResidualMeasurement) else set(scope) <= set(one.scope))
        ]
        opening = opening_over(state, scope)
        opened = []
        if opening is not None:
            opened = _counts_of(state, [opening, *(one for one in later if one.requested)])
        again, opened_bins = _fine_and_coarse(state, opened[1:])
        fine, coarse = _fine_and_coarse(state, (*_counts_of(state, later), *certificates))
        return cls((*opened[:1], *again), opened_bins, fine, coarse)

    @property
    def measured(self) -> list[Estimate]:
        """What was measured since opening on declared cells, the newest first."""
        return [one for one in reversed(self.fine) if isinstance(one, Estimate)]


def _counts_of(state: PublicState, measured: Sequence[OneWayMeasurement]) -> list[Estimate]:
    """Return the counts of measurements in order, those of the same cells as one.

    Intervals that hold for all questions at once have a part for each measurement, so none are combined. They
    take the cells of trees as they were drawn, for the noise of least squares is not independent.
    """
    if state.contract.options.simultaneous:
        return [(one.cells if isinstance(one, HierarchicalMeasurement) else one).estimate for one in measured]
    found = combined(measured)
    if found and found[0].drawn and is_whole_table(measured[0], state):
        found[0] = moved_cells(found[0], state.total)
    return found


def moved_cells(table: Estimate, total: Total) -> Estimate:
    """Return the cells of a whole table, moved alike so that they sum to the number of records.

    Args:
        total: the number of records that takes in their sum by inverse variance, or the public one.
    """
    missing = total.estimate - float(table.values.sum())
    moved = Estimate.of_cells(table.scope, table.noise, table.values + missing / table.values.size)
    return replace(moved, total_deviation=total.deviation)


def _fine_and_coarse(
    state: PublicState, known: Sequence[Known]
) -> tuple[tuple[Known, ...], tuple[Known, ...]]:
    fine = tuple(one for one in known if _is_fine(state, one))
    return fine, tuple(one for one in known if not _is_fine(state, one))


def _is_fine(state: PublicState, known: Known) -> bool:
    """Tell whether something is known on declared cells that are binned elsewhere."""
    shape = known.units.shape if isinstance(known, Certificate) else known.shape
    return shape != state.coarsening.coarse.scope_shape(known.scope)


class Holding(enum.Enum):
    """What holds a scope: all of its attributes together, but for the last two."""

    OPENING = "opening"  # what opening measured
    MEASURED = "measured"  # a marginal that was measured since
    TESTED = "tested"  # a test that was negative
    PARTS = "parts"  # some of its attributes alone
    NOTHING = "nothing"


NOT_HELD = (Holding.PARTS, Holding.NOTHING)


def holding_of(state: PublicState, scope: tuple[str, ...]) -> Holding:
    """Return what holds a scope; a function of which scopes were released, not of their numbers."""
    if not scope or opening_over(state, scope) is not None:
        return Holding.OPENING
    wanted = set(scope)
    if any(wanted <= set(one.scope) for one in state.marginals):
        return Holding.MEASURED
    if any(wanted <= set(names) for names in state.certificates):
        return Holding.TESTED
    known = (*(one.scope for one in (*state.opening, *state.marginals)), *state.certificates)
    return Holding.PARTS if any(wanted & set(names) for names in known) else Holding.NOTHING


def is_held(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers or a certificate bound the error of a question."""
    return holding_of(state, query.scope) not in NOT_HELD or own_numbers(state).serves(query)


def is_whole_table(measured: OneWayMeasurement, state: PublicState) -> bool:
    """Tell whether something is all that opening measured: the whole table, cell by cell."""
    one_event = state.contract.options.simultaneous
    return isinstance(measured, MarginalMeasurement) and state.opening == (measured,) and not one_event


def opening_over(state: PublicState, scope: tuple[str, ...]) -> OneWayMeasurement | None:
    """Return what opening measured over a scope, on the declared cells."""
    wanted = set(scope)
    return next((one for one in state.opening if wanted <= set(one.scope)), None)
