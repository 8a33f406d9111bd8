"""Evidence: what released numbers, and tests that were negative, say of a scope, and how far it may be off.

A question, a range among many and a sum of numbers are sums of w_i x_i over the cells of a scope. Evidence
has values for the cells, and bounds such a sum on them by the weights, alone or many at once
(``pmw.public.half_widths``).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    CombinedMarginal,
    HierarchicalMeasurement,
    MarginalMeasurement,
    MarginalValues,
    OneWayMeasurement,
    ResidualCounts,
    ResidualMeasurement,
    combined,
)
from pmw.public.answer import Basis
from pmw.public.half_widths import (
    CellNoise,
    Certified,
    ResidualNoise,
    Shares,
    TableNoise,
    TreeNoise,
    WeightStats,
    measured_noise,
    total_error_bound,
)
from pmw.public.own_numbers import own_numbers
from pmw.public.plans import marginal_tier
from pmw.public.state import Certificate, PublicState
from queries.boxes import BoxSums, Counted
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.places import as_index
from queries.products import CellSets, Products

BASES = tuple(Basis)
Known: TypeAlias = MarginalValues | Certificate  # than the opening
KnownOfScope: TypeAlias = OneWayMeasurement | Known
_Weights: TypeAlias = NDArray[np.float64]


class Evidence:
    """What bounds the sums over a scope.

    Args:
        values: float64, one axis per attribute of the scope, records.
        basis: the place in ``BASES`` of what it rests on.
        by_stats: how far the truth may be from a sum on the values, in records, by its weights' numbers;
            None where it depends on which cells they are of.
        noise: the noise that it depends on then.
        sums: of the values, inside boxes; None where there are too many cells, or where every sum is exact
            in any order, since the values are whole units of 2^-20 records.
    """

    def __init__(
        self,
        values: _Weights,
        basis: Basis,
        by_stats: Callable[[WeightStats], float] | None,
        *,
        noise: TreeNoise | ResidualNoise | None = None,
        sums: BoxSums | None = None,
    ) -> None:
        self.values = values
        self.basis = BASES.index(basis)
        self.by_stats = by_stats
        self.sums = sums
        self._noise = noise
        self._by_cells = dict[int, float]()
        self._box_sums = sums

    @property
    def box_sums(self) -> BoxSums:
        """Sums of the values inside boxes."""
        if self._box_sums is None:
            self._box_sums = BoxSums(self.values)
        return self._box_sums

    def value(self, query: LinearQuery) -> float:
        """Return a question's answer on the values, in records."""
        if self.sums is not None and query.is_box:
            return self.sums.one(query.box)
        if self.sums is not None and Products.is_one(query):
            return float(self.sums.many(Products.of_queries([query]))[0])
        return query.evaluate(self.values)

    def box_half_width(self, box: Sequence[slice]) -> float:
        """Return how far the truth may be from the count of the cells in a box, in records."""
        if self._noise is None:
            return self.of_cells(math.prod([side.stop - side.start for side in box]))
        sides = [CellSets(np.array([side.start]), np.array([side.stop - 1])) for side in box]
        return self._noise.product_half_widths(sides).item()

    def sum_half_width(self, weights: _Weights) -> float:
        """Return how far the truth may be from a sum with real weights on the values, in records.

        Args:
            weights: float64, one axis per attribute of the scope.
        """
        if self.by_stats is not None:
            return self.by_stats(WeightStats.of(weights))
        return math.inf if self._noise is None else self._noise.half_width(weights)

    def half_widths(self, boxes: Counted) -> _Weights:
        """Return how far the truth may be from counts of boxes or products, in records: float64, (n,)."""
        if self.by_stats is None:
            if self._noise is None:
                return np.full(len(boxes), math.inf)
            return self._noise.product_half_widths(boxes.sides)
        cells = boxes.cells()
        widths = np.zeros(int(cells.max(initial=0)) + 1)  # few: the marginal has a table of sums
        for size in np.flatnonzero(np.bincount(as_index(cells))).tolist():
            widths[size] = self.of_cells(size)
        return widths[cells]

    def of_cells(self, cells: int) -> float:
        """Return how far the truth may be from the count of so many cells, in records.

        Infinite where that depends on which they are.
        """
        if self.by_stats is None:
            return math.inf
        width = self._by_cells.get(cells)
        if width is None:
            width = self._by_cells[cells] = self.by_stats(WeightStats.of_cells(cells))
        return width


class Candidates:
    """Evidence over one scope, of which the one with the smallest half-width bounds a sum.

    Of equal ones it is the first; it does not depend on noise. The place -1 is none, infinitely wide.

    Args:
        evidences: over the scope.
    """

    def __init__(self, evidences: Sequence[Evidence]) -> None:
        self.evidences = evidences
        self._by_cells = dict[int, tuple[int, float]]()
        self._by_stats = all(one.by_stats is not None for one in evidences)

    def of_query(self, query: LinearQuery) -> tuple[int, float]:
        """Return the place of the evidence that bounds a question, and its half-width in records."""
        if query.is_box:
            return self.of_box(query.box)
        if self.evidences and Products.is_one(query):
            one = Products.of_queries([query])
            if self._by_stats:
                return self._of_cells(int(one.cells()[0]))
            place, width = self.of_boxes(one)
            return int(place[0]), float(width[0])
        return _least([one.sum_half_width(query.weights() / UNITS) for one in self.evidences])

    def of_box(self, box: Sequence[slice]) -> tuple[int, float]:
        """Return the same of the count of the cells in a box."""
        if self._by_stats:
            return self._of_cells(math.prod([side.stop - side.start for side in box]))
        return _least([one.box_half_width(box) for one in self.evidences])

    def of_weights(self, weights: _Weights) -> tuple[int, float]:
        """Return the same of a sum with real weights: float64, one axis per attribute of the scope."""
        return _least([one.sum_half_width(weights) for one in self.evidences])

    def of_boxes(self, boxes: Counted) -> tuple[NDArray[np.intp], _Weights]:
        """Return the same of many boxes: intp and float64, shape (n,)."""
        if not self._by_stats:
            widths = np.array([one.half_widths(boxes) for one in self.evidences])
            return np.argmin(widths, axis=0), widths.min(axis=0)
        cells = boxes.cells()
        size = int(cells.max(initial=0)) + 1  # few: the marginal has a table of sums
        places, least = np.zeros(size, dtype=np.intp), np.zeros(size)
        for number in np.flatnonzero(np.bincount(as_index(cells))).tolist():
            places[number], least[number] = self._of_cells(number)
        return places[cells], least[cells]

    def _of_cells(self, cells: int) -> tuple[int, float]:
        found = self._by_cells.get(cells)
        if found is None:
            found = self._by_cells[cells] = _least([one.of_cells(cells) for one in self.evidences])
        return found


def _least(widths: Sequence[float]) -> tuple[int, float]:
    """Return the place of the least of some numbers, the first of equal ones, and that number."""
    place, least = -1, math.inf
    for number, width in enumerate(widths):
        if width < least:
            place, least = number, width
    return place, least


def evidence_of(state: PublicState, known: KnownOfScope, scope: tuple[str, ...], shares: Shares) -> Evidence:
    """Return what something that was released says of a scope that it contains.

    Args:
        state: the state.
        known: a measurement or a certificate.
        scope: of questions.
        shares: how surely each noise holds that an interval rests on.
    """
    axes = tuple(axis for axis, name in enumerate(known.scope) if name not in scope)
    options = state.contract.options
    if isinstance(known, Certificate):
        total_error, cells = total_error_bound(state, shares.everybody), known.units.size
        certified = Certified(
            marginal_tier(state.plan), known.threshold, cells, shares.certificate, total_error
        )
        return Evidence((known.units / UNITS).sum(axis=axes), Basis.TESTED, certified.half_width)
    if options.simultaneous:
        # A tree's cells are taken as they were drawn, for the noise of least squares is not independent.
        drawn = known.cell_values if isinstance(known, HierarchicalMeasurement) else known.values
        noise = measured_noise(options, known.noise, drawn.size, shares.measured)
        return Evidence(drawn.sum(axis=axes), Basis.RELEASED, noise.half_width)
    if isinstance(known, HierarchicalMeasurement):
        tree, sums = TreeNoise(known, shares.measured), BoxSums.of_few(known.values)
        return Evidence(known.values, Basis.RELEASED, None, noise=tree, sums=sums)
    if isinstance(known, ResidualMeasurement):
        known = known.counts
    if isinstance(known, ResidualCounts):
        residual, values = ResidualNoise(known, shares.measured, axes), known.values.sum(axis=axes)
        return Evidence(values, Basis.RELEASED, None, noise=residual, sums=BoxSums.of_few(values))
    return _of_cells(state, known, axes, shares)


def _of_cells(
    state: PublicState, known: MarginalMeasurement | CombinedMarginal, axes: tuple[int, ...], shares: Shares
) -> Evidence:
    """Return what a marginal that was measured cell by cell says where some of its axes are summed out."""
    values = known.values.sum(axis=axes)
    repeated = known.values.size // values.size
    if is_whole_table(known, state):
        deviation = state.total.deviation
        table = TableNoise.of(known.noise, known.units.size, deviation, shares.measured, repeated)
        values = moved_cells(known, state.total.estimate).sum(axis=axes)
        return Evidence(values, Basis.RELEASED, table.half_width, sums=BoxSums.of_few(values))
    if isinstance(known, CombinedMarginal):
        mean = CellNoise(known.noise, shares.measured, repeated, known.squares, known.peak)
        return Evidence(values, Basis.RELEASED, mean.half_width, sums=BoxSums.of_few(values))
    return Evidence(values, Basis.RELEASED, CellNoise(known.noise, shares.measured, repeated).half_width)


def moved_cells(table: MarginalMeasurement, estimate: float) -> NDArray[np.float64]:
    """Return the cells of a table, moved alike so that they sum to the number of records: float64, records.

    Args:
        table: the noisy cells.
        estimate: the number of records that takes in their sum by inverse variance, or the public one.
    """
    values = table.values
    return values + (estimate - float(values.sum())) / values.size


# --- what is known of a scope ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScopeKnowledge:
    """What is known of a scope, whatever is asked about it.

    Args:
        opened: what opening measured over it, and what was requested of that, on the declared cells.
        opened_bins: what was requested of it on bins.
        fine: what else is known on declared cells.
        coarse: what is known on bins of them.
        measured: marginals that contain the scope, the newest first, and whether each is on declared cells.
    """

    opened: tuple[KnownOfScope, ...]
    opened_bins: tuple[KnownOfScope, ...]
    fine: tuple[KnownOfScope, ...]
    coarse: tuple[KnownOfScope, ...]
    measured: Sequence[tuple[MarginalValues, bool]]

    @classmethod
    def of(cls, state: PublicState, scope: tuple[str, ...], asked: tuple[str, ...]) -> ScopeKnowledge:
        """Return what is known of a scope.

        Args:
            state: the state.
            scope: of a question, or of a reading of one.
            asked: the scope of the question, which contains the other. Certificates are those of this scope:
                whether they stood at the time of an answer can be told afterwards.
        """
        known = _marginals_over(state, scope)
        measured = [(one, _is_fine(state, one)) for one in known]
        certificate = state.certificates.get(asked)
        wider = (one for names, one in state.certificates.items() if set(asked) <= set(names))
        certificates = wider if certificate is None else (certificate,)
        opened, opened_bins = _opened_over(state, scope)
        fine, coarse = _fine_and_coarse(state, (*known, *certificates))
        return cls(tuple(opened), tuple(opened_bins), tuple(fine), tuple(coarse), measured[::-1])


def _marginals_over(state: PublicState, scope: tuple[str, ...]) -> list[MarginalValues]:
    """Return the marginals measured since opening that contain a scope; those of the same cells as one.

    Intervals that hold for all questions at once have a part for each measurement, so none are combined.
    """
    found = [one for one in state.marginals if _tells_of(one, scope)]
    return list(found) if state.contract.options.simultaneous else combined(found)


def _tells_of(measured: MarginalMeasurement, scope: tuple[str, ...]) -> bool:
    """Tell whether a marginal says something new of a scope: a residual does of its own alone."""
    if isinstance(measured, ResidualMeasurement):
        return scope == measured.scope
    return set(scope) <= set(measured.scope)


def _opened_over(state: PublicState, scope: tuple[str, ...]) -> tuple[list[KnownOfScope], list[KnownOfScope]]:
    """Return what opening measured over a scope, with what was requested of it since, on cells and on bins.

    Nothing where opening measured nothing over it.
    """
    opening = opening_over(state, scope)
    if opening is None:
        return [], []
    requested = [one for one in state.marginals if one.requested and _tells_of(one, scope)]
    first: KnownOfScope
    if isinstance(opening, MarginalMeasurement):
        first, *again = combined([opening, *requested])
    else:
        first, again = opening, combined(requested)
    fine, coarse = _fine_and_coarse(state, again)
    return [first, *fine], coarse


def _fine_and_coarse(
    state: PublicState, known: Iterable[Known]
) -> tuple[list[KnownOfScope], list[KnownOfScope]]:
    """Return what is known on declared cells, and what on bins of them."""
    both: tuple[list[KnownOfScope], list[KnownOfScope]] = [], []
    for one in known:
        both[not _is_fine(state, one)].append(one)
    return both


def _is_fine(state: PublicState, known: Known) -> bool:
    """Tell whether something is known on declared cells that are binned elsewhere."""
    return known.units.shape != state.coarsening.coarse.scope_shape(known.scope)


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


def is_whole_table(known: object, state: PublicState) -> TypeGuard[MarginalMeasurement]:
    """Tell whether something is all that opening measured: the whole table, cell by cell."""
    one_event = state.contract.options.simultaneous
    return isinstance(known, MarginalMeasurement) and state.opening == (known,) and not one_event


def opening_over(state: PublicState, scope: tuple[str, ...]) -> OneWayMeasurement | None:
    """Return what opening measured over a scope, on the declared cells."""
    wanted = set(scope)
    return next((one for one in state.opening if wanted <= set(one.scope)), None)


def _cell_weights(
    state: PublicState, measurement: ResidualMeasurement | ResidualCounts, query: LinearQuery
) -> _Weights:
    """Return the weights of a question on the cells of a residual of the same scope: float64."""
    if _is_fine(state, measurement):
        return query.weights() / UNITS
    cells: _Weights = np.ones(measurement.units.shape)
    for names, weights in state.coarsening.weights(query):
        sizes = zip(query.scope, measurement.units.shape, strict=True)
        shape = [size if name in names else 1 for name, size in sizes]
        cells = cells * weights.reshape(shape)
    return cells


def weighed(state: PublicState, measurement: MarginalValues, query: LinearQuery) -> tuple[float, float]:
    """Return what a measured marginal says of a question, and its standard deviation, in records."""
    if isinstance(measurement, ResidualMeasurement | ResidualCounts):
        cells = _cell_weights(state, measurement, query)
        value = float(np.sum(cells * measurement.values))
        return value, math.sqrt(measurement.weighted_variance(cells))
    axes = tuple(axis for axis, name in enumerate(measurement.scope) if name not in query.scope)
    values = measurement.values.sum(axis=axes)
    squares = np.full(values.shape, measurement.units.size / values.size)
    factors = state.coarsening.weights(query)
    if _is_fine(state, measurement):
        factors = [(query.scope, query.weights() / UNITS)]
    for names, weights in factors:
        shape = [size if name in names else 1 for name, size in zip(query.scope, values.shape, strict=True)]
        values = values * weights.reshape(shape)
        squares = squares * weights.reshape(shape) ** 2
    return float(values.sum()), math.sqrt(float(squares.sum()) * measurement.variance)
