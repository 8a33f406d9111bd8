"""Marginals: the model beside the noisy numbers that it was fitted to. All of it is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.model import HierarchicalMeasurement, OneWayMeasurement, half_width
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.plots.canvas import INK, MEASURED
from pmw.public.state import PublicState
from queries.domain import Attribute, CategoricalAttribute, DateAttribute, DatetimeAttribute, number_text

__all__ = [
    "compare_marginals",
    "draw_marginal",
    "highest_cells",
    "MarginalComparison",
    "shortened",
]

_FILL = "#a3c3dc"  # the blue of the model, lighter
_MOST_BARS = 10
_POINTS: dict[str, Any] = {
    "fmt": "o", "color": MEASURED, "label": "measured", "markersize": 3, "elinewidth": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class MarginalComparison:
    """One attribute in the model, and as it was measured.

    Args:
        attribute: the attribute.
        model: float64, shape (cells,), the model's records per cell.
        measured: float64, shape (cells,), released noisy records per cell, or what least squares makes of a
            hierarchical histogram; None where none were measured.
        half_width: what each cell's noise stays within at the session's confidence, in records; NaN
            likewise.
    """

    attribute: Attribute
    model: NDArray[np.float64]
    measured: NDArray[np.float64] | None
    half_width: float = math.nan


def compare_marginals(state: PublicState, most: int) -> tuple[MarginalComparison, ...]:
    """Return one comparison per attribute, of so many at most, in declared order.

    Privacy: post-processing of released numbers; free.
    """
    return tuple(_compare(state, attribute) for attribute in state.domain.attributes[:most])


def _compare(state: PublicState, attribute: Attribute) -> MarginalComparison:
    model = state.model.marginal((attribute.name,))
    # What opening measured that tells of the attribute: its marginal, its tree, or the whole table.
    measured = next((one for one in state.opening if attribute.name in one.scope), None)
    if measured is None:
        return MarginalComparison(attribute, model, None)
    axes = tuple(axis for axis, name in enumerate(measured.scope) if name != attribute.name)
    return MarginalComparison(attribute, model, measured.values.sum(axis=axes), _width(state, measured, axes))


def _width(state: PublicState, measured: OneWayMeasurement, axes: tuple[int, ...]) -> float:
    """Return what the noise of each cell stays within where some axes are summed out, in records."""
    confidence = state.contract.options.confidence
    if isinstance(measured, HierarchicalMeasurement):
        cells = float(measured.cell_variances.max()) / measured.variance
        return sum_half_width(measured.noise, cells, confidence, peak=1.0)
    if not axes:
        return half_width(measured.noise, confidence)
    summed = math.prod(measured.values.shape[axis] for axis in axes)
    return sum_half_width(measured.noise, summed, confidence, peak=1.0)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def draw_marginal(axes: Any, comparison: MarginalComparison, total: float) -> None:
    """Draw a marginal of the model, and on it the measured one with the error bars of its noise.

    Numbers are columns. Categories are bars with names; of more than ten cells those whose intervals lie
    highest: by their lower bounds, which noise does not raise, and in declared order where these are equal.

    Args:
        axes: where to.
        comparison: the marginal.
        total: records that are 100 %.
    """
    attribute, title = comparison.attribute, shortened(comparison.attribute.name, 40)
    if isinstance(attribute, CategoricalAttribute):
        _draw_bars(axes, comparison, 100 / total)
        if attribute.size > _MOST_BARS:
            title = f"{shortened(title, 20)} ({_MOST_BARS} of {attribute.size:,} cells, by lower bound)"
    else:
        _draw_columns(axes, comparison, 100 / total)
    axes.set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)
    axes.tick_params(labelsize=8)


def highest_cells(comparison: MarginalComparison) -> NDArray[np.int64]:
    """Return the ten cells at most whose intervals lie highest, in declared order; see ``draw_marginal``."""
    lower = comparison.model
    if comparison.measured is not None:
        lower = np.maximum(0.0, comparison.measured - comparison.half_width)
    return np.sort(np.argsort(-lower, kind="stable")[:_MOST_BARS])


def _draw_bars(axes: Any, comparison: MarginalComparison, share: float) -> None:
    cells = highest_cells(comparison)
    places = np.arange(len(cells))
    axes.barh(places, share * comparison.model[cells], height=0.7, color=_FILL, label="model")
    if comparison.measured is not None:
        axes.errorbar(
            share * comparison.measured[cells], places, xerr=share * comparison.half_width, **_POINTS
        )
    labels = [shortened(comparison.attribute.label(int(cell)), 20) for cell in cells]
    axes.set_yticks(places, labels, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("% of all records", fontsize=8)


def _draw_columns(axes: Any, comparison: MarginalComparison, share: float) -> None:
    """Draw cell k from k to k + 1; the cells of empty and of undeclared values stand last."""
    from matplotlib.ticker import MaxNLocator

    attribute, places = comparison.attribute, np.arange(comparison.attribute.size) + 0.5
    axes.bar(places, share * comparison.model, width=1, color=_FILL, label="model")
    if comparison.measured is not None:
        axes.errorbar(places, share * comparison.measured, yerr=share * comparison.half_width, **_POINTS)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(lambda place, _: _begin(attribute, place))
    special = [attribute.label(cell) for cell in range(attribute.base_size, attribute.size)]
    if special:
        axes.set_xlabel(f"at the right end: {', '.join(special)}", fontsize=8)
    axes.set_ylabel("% of all records", fontsize=8)


def _begin(attribute: Attribute, place: float) -> str:
    """Return the number at which a cell begins; of the end of the last one, where it ends."""
    if isinstance(attribute, CategoricalAttribute) or not 0 <= place <= attribute.base_size:
        return ""
    begin = attribute.boundaries[int(place)]
    if isinstance(attribute, DateAttribute | DatetimeAttribute):
        return attribute.literal(begin).strip("'")
    return number_text(float(f"{begin:.6g}"))
