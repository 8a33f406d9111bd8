"""Evidence: what released numbers, and tests that were negative, say of a scope, and how far it may be off.

A question, a range among many and a sum of numbers are sums of w_i x_i over the cells of a scope. Each kind
of evidence bounds such a sum by a few numbers of its weights (``WeightStats``), alone or many at once:

* noise of a measured marginal: a quantile of sum w_i X_i, by sum w_i^2 and the largest |w_i|;
* a table measured whole, with the number of records: by sum w_i^2 and sum w_i (``pmw.public.table_noise``);
* a certificate: (max w - min w)/2 S + |max w + min w|/2 |delta| (``certificate_half_width``);
* noise that is bounded for all weights at once: (max(w, 0) - min(w, 0)) W;
* the number of records, for one weight: |w| times its own half-width;
* a tree's noise, which depends on where the weights are: by the weights themselves.

Proofs are in ``docs/intervals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    CombinedMarginal,
    HierarchicalMeasurement,
    MarginalMeasurement,
    MarginalValues,
    NoiseDistribution,
    OneWayMeasurement,
    combined,
)
from pmw.privacy.tail_bounds import simultaneous_half_width, sum_half_width
from pmw.public.answer import Basis
from pmw.public.confidences import Confidences, negative_half_width, total_error_bound
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.public.state import Certificate, PublicState
from pmw.public.table_noise import TableNoise, moved_cells
from queries.boxes import BoxSums
from queries.factors import UNITS
from queries.linear import LinearQuery

BASES = tuple(Basis)
Known: TypeAlias = MarginalValues | Certificate  # than the opening
KnownOfScope: TypeAlias = OneWayMeasurement | Known
_Weights: TypeAlias = NDArray[np.float64]
_ROUNDING = 2.0**-44  # of squares: more than sums of numbers lose that are far from 0 and near each other


class WeightStats(NamedTuple):
    """What bounds of a sum of w_i x_i depend on, whichever cells the weights are of.

    Args:
        total: sum of w_i.
        squares: sum of w_i^2.
        least: the least weight, or less.
        greatest: the greatest weight, or more.
    """

    total: float
    squares: float
    least: float
    greatest: float

    @classmethod
    def of(cls, weights: _Weights) -> WeightStats:
        """Return those of weights, of records: float64, one axis per attribute."""
        squares = float(np.sum(weights**2))
        return cls(float(np.sum(weights)), squares, float(weights.min()), float(weights.max()))

    @classmethod
    def of_cells(cls, cells: int) -> WeightStats:
        """Return those of a question that counts so many cells, and leaves out others."""
        return cls(cells, cells, 0.0, 1.0)  # sums of ones are exact, in whatever order

    @property
    def reach(self) -> float:
        """From the least of 0 and the weights to the greatest of 0 and the weights."""
        return max(self.greatest, 0.0) - min(self.least, 0.0)

    @property
    def largest(self) -> float:
        """The largest |w_i|."""
        return max(self.greatest, -self.least)


class Evidence:
    """What bounds the sums over a scope.

    Args:
        values: float64, one axis per attribute of the scope, records.
        basis: the place in ``BASES`` of what it rests on.
        by_stats: how far the truth may be from a sum on the values, in records, by its weights' numbers;
            None where it depends on which cells they are of.
        by_weights: the same by the weights themselves, where that is so.
        sums: of the values, inside boxes; None where there are too many cells, or where every sum is exact
            in any order, since the values are whole units of 2^-20 records.
    """

    def __init__(
        self,
        values: _Weights,
        basis: Basis,
        by_stats: Callable[[WeightStats], float] | None,
        *,
        by_weights: Callable[[_Weights], float] | None = None,
        sums: BoxSums | None = None,
    ) -> None:
        self.values = values
        self.basis = BASES.index(basis)
        self.by_stats = by_stats
        self.sums = sums
        self._by_weights = by_weights
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
        sums = self.sums if query.is_box else None
        return query.evaluate(self.values) if sums is None else sums.one(query.box)

    def half_width(self, query: LinearQuery) -> float:
        """Return how far the truth may be from a question's answer on the values, in records."""
        if query.is_box and self.by_stats is not None:
            cells = math.prod([side.stop - side.start for side in query.box])
            width = self._by_cells.get(cells)
            return self._box_half_width(self.by_stats, cells) if width is None else width
        return self.sum_half_width(query.weights() / UNITS)

    def sum_half_width(self, weights: _Weights) -> float:
        """Return how far the truth may be from a sum with real weights on the values, in records.

        Args:
            weights: float64, one axis per attribute of the scope.
        """
        if self.by_stats is not None:
            return self.by_stats(WeightStats.of(weights))
        return math.inf if self._by_weights is None else self._by_weights(weights)

    def half_widths(self, cells: NDArray[np.int64]) -> _Weights | None:
        """Return the half-widths of boxes: float64, shape (n,); None where they are not alike by cells.

        Args:
            cells: int64, shape (n,): how many cells each box has.
        """
        if self.by_stats is None:
            return None
        widths = np.zeros(int(cells.max(initial=0)) + 1)  # few: the marginal has a table of sums
        for size in np.flatnonzero(np.bincount(cells)).tolist():
            widths[size] = self._box_half_width(self.by_stats, size)
        return widths[cells]

    def _box_half_width(self, by_stats: Callable[[WeightStats], float], cells: int) -> float:
        width = self._by_cells.get(cells)
        if width is None:
            width = self._by_cells[cells] = by_stats(WeightStats.of_cells(cells))
        return width


def evidence_of(
    state: PublicState,
    known: KnownOfScope,
    scope: tuple[str, ...],
    confidences: Confidences,
    *,
    one_end: bool = False,
) -> Evidence:
    """Return what something that was released says of a scope that it contains.

    Args:
        state: the state.
        known: a measurement or a certificate.
        scope: of questions.
        confidences: of the noises that an interval rests on.
        one_end: another noise may give the other end of an interval, so a certificate has half of what may
            fail. Where intervals hold for all questions at once, every noise has its own part already.
    """
    axes = tuple(axis for axis, name in enumerate(known.scope) if name not in scope)
    if isinstance(known, Certificate):
        values = (known.units / UNITS).sum(axis=axes)
        if one_end and not state.contract.options.simultaneous:
            confidences = confidences.of_one_end()
        return Evidence(values, Basis.TESTED, _Certified.of(state, known, confidences).half_width)
    if state.contract.options.simultaneous:
        # A tree's cells are taken as they were drawn, for the noise of least squares is not independent.
        drawn = known.cell_values if isinstance(known, HierarchicalMeasurement) else known.values
        width = simultaneous_half_width(known.noise, drawn.size, confidences.alone)
        return Evidence(drawn.sum(axis=axes), Basis.RELEASED, lambda stats: stats.reach * width)
    if isinstance(known, HierarchicalMeasurement):
        tree, sums = _Tree(known, confidences.alone), BoxSums.of_few(known.values)
        return Evidence(known.values, Basis.RELEASED, None, by_weights=tree.half_width, sums=sums)
    values = known.values.sum(axis=axes)
    repeated = known.values.size // values.size
    if is_whole_table(known, state):
        noise = TableNoise.of(known.noise, known.units.size, state.total.deviation)
        table = _Table(noise, repeated, confidences.alone)
        values = moved_cells(known, state.total.estimate).sum(axis=axes)
        return Evidence(values, Basis.RELEASED, table.half_width, sums=BoxSums.of_few(values))
    measured = _Noise(known.noise, repeated, 1.0, 1.0, confidences.alone)
    sums = None
    if isinstance(known, CombinedMarginal):
        measured = _Noise(known.noise, repeated, known.squares, known.peak, confidences.alone)
        sums = BoxSums.of_few(values)
    return Evidence(values, Basis.RELEASED, measured.half_width, sums=sums)


@dataclass(frozen=True, slots=True)
class _Noise:
    """Independent noise on each cell: X_i of a measured one, or what several measurements come to.

    Args:
        noise: the quietest noise.
        repeated: measured cells to each of the scope.
        part: the squared weight that a cell's value has in scales of it.
        peak: the largest square of the parts of that.
        confidence: of one noise that an interval rests on alone.
    """

    noise: NoiseDistribution
    repeated: int
    part: float
    peak: float
    confidence: float

    def half_width(self, stats: WeightStats) -> float:
        squares, peak = stats.squares * self.repeated * self.part, stats.largest**2 * self.peak
        return sum_half_width(self.noise, squares, self.confidence, peak=peak or None)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The noise that least squares leave on a tree: no measured number gets a weight beyond 1 in a question.

    That is for weights in [0, 1]. Others are b u - a v for two such u and v, with b and a the greatest of
    their positive and negative parts: so the weight of a measured number is at most a + b.
    """

    tree: HierarchicalMeasurement
    confidence: float

    def half_width(self, weights: _Weights) -> float:
        squares = self.tree.weighted_variance(weights) / self.tree.variance
        peak = WeightStats.of(weights).reach ** 2
        return sum_half_width(self.tree.noise, squares, self.confidence, peak=peak or None)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that opening measured whole, with the number of records."""

    noise: TableNoise
    repeated: int
    confidence: float

    def half_width(self, stats: WeightStats) -> float:
        squares, weight = stats.squares * self.repeated, stats.total * self.repeated
        if not 0 <= stats.least <= stats.greatest <= 1:
            squares *= 1 + _ROUNDING  # for the difference to W^2/(m + r) may be a small part of them
        return self.noise.half_width(squares, weight, self.confidence, (stats.least, stats.greatest))


@dataclass(frozen=True, slots=True)
class _Certified:
    """A marginal that a test did not find wrong.

    Args:
        certificate: of the marginal.
        plan: the test; None where there is none, which bounds nothing.
        confidences: of the threshold noise, and of the number of records.
        total_error: how far the model's total may be from the number of records, in records.
    """

    certificate: Certificate
    plan: MarginalTestPlan | None
    confidences: Confidences
    total_error: float

    @classmethod
    def of(cls, state: PublicState, certificate: Certificate, confidences: Confidences) -> _Certified:
        total_error = total_error_bound(state, confidences.total)
        return cls(certificate, marginal_tier(state.plan), confidences, total_error)

    def half_width(self, stats: WeightStats) -> float:
        if self.plan is None:
            return math.inf
        threshold, cells = self.certificate.threshold, self.certificate.units.size
        ends = stats.least, stats.greatest
        return negative_half_width(self.plan, threshold, cells, self.confidences, self.total_error, ends)


def is_held(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers or a certificate bound the error of a question."""
    if not query.scope or opening_over(state, query.scope) is not None:
        return True
    wanted = set(query.scope)
    held = [one.scope for one in state.marginals]
    return any(wanted <= set(scope) for scope in (*held, *state.certificates))


def is_whole_table(known: object, state: PublicState) -> TypeGuard[MarginalMeasurement]:
    """Tell whether something is all that opening measured: the whole table, cell by cell."""
    one_event = state.contract.options.simultaneous
    return isinstance(known, MarginalMeasurement) and state.opening == (known,) and not one_event


def known_of(
    state: PublicState, scope: tuple[str, ...], asked: tuple[str, ...] | None = None
) -> tuple[list[Known], list[Known]]:
    """Return what is known of a scope: on declared cells, and on bins of them.

    Args:
        state: the state.
        scope: of a question, or of a reading of one.
        asked: the scope of the question, which contains the other; the same where it is None. Certificates
            are those of this scope: whether they stood at the time of an answer can be told afterwards.
    """
    asked = scope if asked is None else asked
    known: list[Known] = [*marginals_over(state, scope)]
    certificate = state.certificates.get(asked)
    if certificate is not None:
        known.append(certificate)
    else:
        known += [one for wider, one in state.certificates.items() if set(asked) <= set(wider)]
    fine = [one for one in known if is_fine(state, one)]
    return fine, [one for one in known if not is_fine(state, one)]


def is_fine(state: PublicState, known: Known) -> bool:
    """Tell whether something is known on declared cells that are binned elsewhere."""
    return known.units.shape != state.coarsening.coarse.scope_shape(known.scope)


def opening_over(state: PublicState, scope: tuple[str, ...]) -> OneWayMeasurement | None:
    """Return what opening measured over a scope, on the declared cells."""
    wanted = set(scope)
    return next((one for one in state.opening if wanted <= set(one.scope)), None)


def marginals_over(state: PublicState, scope: tuple[str, ...]) -> list[MarginalValues]:
    """Return the marginals measured since opening that contain a scope; those of the same cells as one.

    Intervals that hold for all questions at once have a part for each measurement, so none are combined.
    """
    found = [one for one in state.marginals if set(scope) <= set(one.scope)]
    return list(found) if state.contract.options.simultaneous else combined(found)


def opened_over(
    state: PublicState, scope: tuple[str, ...]
) -> tuple[list[OneWayMeasurement | MarginalValues], list[MarginalValues]]:
    """Return what is known of a scope that opening measured, with what was requested of it since.

    Returns:
        What is on declared cells, none where opening measured nothing over the scope; and what is on bins.
    """
    opening = opening_over(state, scope)
    if opening is None:
        return [], []
    requested = [one for one in state.marginals if one.requested and set(scope) <= set(one.scope)]
    if not isinstance(opening, MarginalMeasurement):
        again = combined(requested)
        return [opening, *(one for one in again if is_fine(state, one))], _binned(state, again)
    again = combined([opening, *requested])
    return [again[0], *(one for one in again[1:] if is_fine(state, one))], _binned(state, again[1:])


def weighed(state: PublicState, measurement: MarginalValues, query: LinearQuery) -> tuple[float, float]:
    """Return what a measured marginal says of a question, and its standard deviation, in records."""
    axes = tuple(axis for axis, name in enumerate(measurement.scope) if name not in query.scope)
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


def _binned(state: PublicState, known: list[MarginalValues]) -> list[MarginalValues]:
    return [one for one in known if not is_fine(state, one)]
