"""Comparisons: the model beside the noisy numbers that it was fitted to. All of it is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    CoarsenedDistribution,
    MarginalMeasurement,
    OneWayMeasurement,
    QueryMeasurement,
    RangeTreeMeasurement,
    half_width,
)
from pmw.noise_bounds import sum_half_width
from pmw.state import PublicState
from queries.domain import Attribute

__all__ = [
    "bought_deviations",
    "compare_marginals",
    "farthest",
    "MarginalComparison",
    "paid_deviations",
]

_MOST_PAID = 200  # paid answers that are compared: each may cost a pass over the whole model
_MOST_BOUGHT = 12  # bought marginals that are compared


@dataclass(frozen=True, slots=True, eq=False)
class MarginalComparison:
    """One attribute in the model, and as it was measured.

    Args:
        attribute: the attribute.
        model: float64, shape (cells,), the model's records per cell.
        measured: float64, shape (cells,), released noisy records per cell, or what least squares makes of a
            tree of ranges; None where none were bought.
        deviation: standard deviation of each cell's noise, of a tree's noisiest cell, in records; NaN
            likewise.
        half_width: what each cell's noise stays within at the session's confidence, in records; NaN likewise.
    """

    attribute: Attribute
    model: NDArray[np.float64]
    measured: NDArray[np.float64] | None
    deviation: float = math.nan
    half_width: float = math.nan

    @property
    def distances(self) -> NDArray[np.float64]:
        """(model - measured) / deviation: float64, shape (cells,), or empty where nothing was bought."""
        if self.measured is None:
            return np.empty(0)
        return (self.model - self.measured) / self.deviation


def compare_marginals(state: PublicState) -> tuple[MarginalComparison, ...]:
    """Return one comparison per attribute, in declared order.

    Privacy: post-processing of released numbers; free.
    """
    return tuple(_compare(state, attribute, _opening_of(state, attribute)) for attribute in state.domain)


def _opening_of(state: PublicState, attribute: Attribute) -> OneWayMeasurement | None:
    """Return what opening bought that tells of an attribute: its marginal, its tree, or the whole table."""
    return next((one for one in state.opening if attribute.name in one.scope), None)


def _compare(
    state: PublicState, attribute: Attribute, measurement: OneWayMeasurement | None
) -> MarginalComparison:
    model = state.model.marginal((attribute.name,))
    if measurement is None:
        return MarginalComparison(attribute, model, None)
    confidence = state.contract.options.confidence
    if isinstance(measurement, RangeTreeMeasurement):
        variance = float(measurement.cell_variances.max())
        width = sum_half_width(measurement.noise, variance / measurement.variance, confidence, peak=1.0)
        deviation = math.sqrt(variance)
        return MarginalComparison(attribute, model, measurement.values, deviation, width)
    axes = tuple(axis for axis, name in enumerate(measurement.scope) if name != attribute.name)
    if not axes:
        width = half_width(measurement.noise, confidence)
        return MarginalComparison(
            attribute, model, measurement.values, math.sqrt(measurement.variance), width
        )
    summed = measurement.values.sum(axis=axes)
    cells = measurement.values.size // summed.size  # of the whole table, in each cell of the attribute
    width = sum_half_width(measurement.noise, cells, confidence, peak=1.0)
    return MarginalComparison(attribute, model, summed, math.sqrt(cells * measurement.variance), width)


def farthest(comparisons: Sequence[MarginalComparison], most: int) -> tuple[MarginalComparison, ...]:
    """Return at most so many comparisons, in their order: those whose distances have the largest mean square.

    Attributes that were not measured come last, the first of them first.
    """
    sizes = [float(np.mean(one.distances**2)) if one.distances.size else -1.0 for one in comparisons]
    chosen = sorted(range(len(comparisons)), key=lambda place: -sizes[place])[:most]
    return tuple(comparisons[place] for place in sorted(chosen))


def paid_deviations(state: PublicState) -> NDArray[np.float64]:
    """Return how far the model now is from the answers that were paid for.

    (model's answer - noisy answer) / standard deviation of its noise, float64, for the newest 200 at most.

    Privacy: post-processing of released numbers; free.
    """
    answers = [one for one in state.measured if isinstance(one, QueryMeasurement)]
    return np.array(
        [
            (state.model.answer(paid.query) - paid.value) / math.sqrt(paid.variance)
            for paid in answers[-_MOST_PAID:]
        ]
    )


def bought_deviations(state: PublicState) -> list[tuple[tuple[str, ...], NDArray[np.float64]]]:
    """Return how far the model now is from the marginals that were bought since opening, newest first.

    (model's cells - noisy cells) / standard deviation of their noise: float64, flat, for each scope; the
    newest 12 at most. Marginals are over groups where attributes are grouped.

    Privacy: post-processing of released numbers; free.
    """
    model = state.model.model if isinstance(state.model, CoarsenedDistribution) else state.model
    newest = [one for one in reversed(state.measured) if isinstance(one, MarginalMeasurement)]
    return [
        (one.scope, ((model.marginal(one.scope) - one.values) / math.sqrt(one.variance)).reshape(-1))
        for one in newest[:_MOST_BOUGHT]
    ]
