"""Evidence bounds: what one released number, or one test, says of the questions over a scope."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pmw.model import CombinedMarginal, HierarchicalMeasurement, MarginalMeasurement, OneWayMeasurement
from pmw.privacy.tail_bounds import simultaneous_half_width, sum_half_width
from pmw.public.answer import Basis
from pmw.public.certificate_bounds import certificate_bound
from pmw.public.evidence import Known, is_whole_table
from pmw.public.state import Certificate, PublicState
from pmw.public.table_noise import TableNoise, moved_cells
from queries.boxes import BoxSums
from queries.linear import UNITS, LinearQuery

__all__ = [
    "Evidence",
    "evidence_of",
]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What bounds the queries over a scope.

    Args:
        values: float64, one axis per attribute of the scope, records.
        half_width: how far the truth may be from a query's answer on the values, in records.
        basis: what it rests on.
        of_cells: the same half-width of a box of so many cells, each of weight one; None where it depends on
            which they are.
        sums: of the values, inside boxes; None where there are too many cells, or where every sum is exact
            in any order, since the values are whole units of 2^-20 records.
    """

    values: NDArray[np.float64]
    half_width: Callable[[LinearQuery], float]
    basis: Basis
    of_cells: Callable[[float], float] | None = None
    sums: BoxSums | None = None

    def value(self, query: LinearQuery) -> float:
        """Return a query's answer on the values, in records."""
        sums = self.sums if query.is_box else None
        return query.evaluate(self.values) if sums is None else sums.one(query.box)


def evidence_of(
    state: PublicState,
    known: OneWayMeasurement | Known,
    scope: tuple[str, ...],
    confidence: float,
    *,
    one_end: bool,
) -> Evidence:
    """Return what something that was released says of a scope that it contains.

    Args:
        state: the state.
        known: a measurement or a certificate.
        scope: of questions.
        confidence: of noise that an interval rests on alone.
        one_end: the two ends of an interval may rest on different numbers.
    """
    if isinstance(known, Certificate):
        return _of_certificate(state, known, scope, one_end=one_end)
    if is_whole_table(known, state):
        return _of_table(state, known, scope, confidence)
    return _of_noise(known, scope, confidence, simultaneous=state.contract.options.simultaneous)


def _of_noise(
    measurement: OneWayMeasurement | CombinedMarginal,
    scope: tuple[str, ...],
    confidence: float,
    *,
    simultaneous: bool,
) -> Evidence:
    axes, noise, values = _others(measurement.scope, scope), measurement.noise, measurement.values
    part, peak = 1.0, 1.0
    if isinstance(measurement, CombinedMarginal):
        part, peak = measurement.squares, measurement.peak
    elif simultaneous:
        # A tree's cells are taken as they were drawn, for the noise of least squares is not independent.
        drawn = values if isinstance(measurement, MarginalMeasurement) else measurement.cell_values
        half_width = simultaneous_half_width(noise, drawn.size, confidence)
        return _constant(drawn.sum(axis=axes), half_width, Basis.RELEASED)
    elif isinstance(measurement, HierarchicalMeasurement):
        return _of_tree(measurement, axes, confidence)
    repeated = math.prod([int(values.shape[axis]) for axis in axes])

    @lru_cache(maxsize=4096)
    def of_cells(cells: float) -> float:
        return sum_half_width(noise, float(cells) * repeated * part, confidence, peak=peak)

    def of_query(query: LinearQuery) -> float:
        if query.is_box:  # a sum of ones is exact, in whatever order
            return of_cells(math.prod([side.stop - side.start for side in query.box]))
        return of_cells(float(np.sum((query.weights() / UNITS) ** 2)))

    values = values.sum(axis=axes)
    sums = None if isinstance(measurement, MarginalMeasurement) else BoxSums.of_few(values)
    return Evidence(values, of_query, Basis.RELEASED, of_cells, sums)


def _of_tree(tree: HierarchicalMeasurement, axes: tuple[int, ...], confidence: float) -> Evidence:
    def of_query(query: LinearQuery) -> float:
        squares = tree.weighted_variance(query.weights() / UNITS) / tree.variance
        # Least squares too gives no number a weight beyond 1.
        return sum_half_width(tree.noise, squares, confidence, peak=1.0)

    values = tree.values.sum(axis=axes)
    return Evidence(values, of_query, Basis.RELEASED, sums=BoxSums.of_few(values))


def _of_table(
    state: PublicState, table: MarginalMeasurement, scope: tuple[str, ...], confidence: float
) -> Evidence:
    """Return what a table that opening measured whole says of a scope, with the number of records."""
    noise = TableNoise.of(table.noise, table.units.size, state.total.deviation)
    values = moved_cells(table, state.total.estimate).sum(axis=_others(table.scope, scope))

    def of_query(query: LinearQuery) -> float:
        return noise.question_half_width(query, confidence)

    @lru_cache(maxsize=4096)
    def of_cells(cells: float) -> float:
        return noise.box_half_width(cells, values.size, confidence)

    return Evidence(values, of_query, Basis.RELEASED, of_cells, BoxSums.of_few(values))


def _of_certificate(
    state: PublicState, certificate: Certificate, scope: tuple[str, ...], *, one_end: bool
) -> Evidence:
    bound = certificate_bound(state, certificate, one_end=one_end)
    values = (certificate.units / UNITS).sum(axis=_others(certificate.scope, scope))
    return _constant(values, bound, Basis.TESTED)


def _constant(values: NDArray[np.float64], half_width: float, basis: Basis) -> Evidence:
    return Evidence(values, lambda _: half_width, basis, lambda _: half_width)


def _others(scope: tuple[str, ...], kept: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(scope) if name not in kept)
