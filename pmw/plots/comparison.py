"""Comparisons: the model beside the noisy numbers that it was fitted to. All of it is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.model import MarginalMeasurement, half_width
from pmw.state import PublicState
from queries.domain import Attribute

__all__ = [
    "compare_marginals",
    "farthest",
    "MarginalComparison",
    "paid_deviations",
]

_MOST_PAID = 200  # paid answers that are compared: each may cost a pass over the whole model


@dataclass(frozen=True, slots=True, eq=False)
class MarginalComparison:
    """One attribute in the model, and as it was measured.

    Args:
        attribute: the attribute.
        model: float64, shape (cells,), the model's records per cell.
        measured: float64, shape (cells,), released noisy records per cell; None where none were bought.
        deviation: standard deviation of each cell's noise, in records; NaN likewise.
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
    bought = {measurement.scope: measurement for measurement in state.opening}
    return tuple(_compare(state, attribute, bought.get((attribute.name,))) for attribute in state.domain)


def _compare(
    state: PublicState, attribute: Attribute, measurement: MarginalMeasurement | None
) -> MarginalComparison:
    model = state.model.marginal((attribute.name,))
    if measurement is None:
        return MarginalComparison(attribute, model, None)
    width = half_width(measurement.noise, state.contract.options.confidence)
    return MarginalComparison(attribute, model, measurement.values, math.sqrt(measurement.variance), width)


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
    newest = state.measured[-_MOST_PAID:]
    return np.array(
        [(state.model.answer(paid.query) - paid.value) / math.sqrt(paid.variance) for paid in newest]
    )
