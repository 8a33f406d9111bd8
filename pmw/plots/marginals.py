"""One marginal: columns along a scale for numbers, bars with names for categories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.plots.canvas import INK, MEASURED, MODEL
from pmw.plots.comparison import MarginalComparison
from queries.domain import CategoricalAttribute, IntegerAttribute, NumericAttribute, number_text

__all__ = [
    "draw_marginal",
    "shortened",
]

_FILL = "#a3c3dc"  # the blue of the model, lighter
_MOST_BARS = 10
_MANY_COLUMNS = 50  # beyond it, finer error bars
_POINTS: dict[str, Any] = {"fmt": "o", "color": MEASURED, "label": "measured"}
_COARSE: dict[str, Any] = {**_POINTS, "markersize": 3, "elinewidth": 1.2, "capsize": 2.5}
_FINE: dict[str, Any] = {**_POINTS, "markersize": 2, "elinewidth": 0.6, "alpha": 0.6, "rasterized": True}


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def draw_marginal(axes: Any, comparison: MarginalComparison, total: float) -> None:
    """Draw a marginal of the model, and on it the measured one with the error bars of its noise.

    A categorical attribute with more than ten cells shows the ten whose intervals lie highest: by their lower
    bounds, which noise does not raise, and in declared order where these are equal.

    Args:
        axes: where to.
        comparison: the marginal.
        total: records that are 100 %.
    """
    attribute = comparison.attribute
    if isinstance(attribute, CategoricalAttribute):
        _draw_bars(axes, comparison, total)
    else:
        _draw_columns(axes, comparison, total, attribute)
    title = shortened(attribute.name, 40)
    if isinstance(attribute, CategoricalAttribute) and attribute.size > _MOST_BARS:
        title = f"{shortened(title, 20)} ({_MOST_BARS} of {attribute.size:,} cells, by lower bound)"
    axes.set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)
    axes.tick_params(labelsize=8)


def _draw_bars(axes: Any, comparison: MarginalComparison, total: float) -> None:
    cells = np.sort(np.argsort(-_lower_bounds(comparison), kind="stable")[:_MOST_BARS])
    places = np.arange(len(cells))
    model = 100 * comparison.model[cells] / total
    axes.barh(places, model, height=0.7, color=_FILL, linewidth=0, label="model")
    if comparison.measured is not None:
        measured = 100 * comparison.measured[cells] / total
        axes.errorbar(measured, places, xerr=100 * comparison.half_width / total, **_COARSE)
    labels = [shortened(comparison.attribute.label(int(cell)), 20) for cell in cells]
    axes.set_yticks(places, labels, parse_math=False)
    space = 0.6 + max(0, 4 - len(cells)) / 2  # two bars do not fill a panel that has room for ten
    axes.set_ylim(len(cells) - 1 + space, -space)
    axes.set_xlabel("% of all records", fontsize=8)


def _lower_bounds(comparison: MarginalComparison) -> NDArray[np.float64]:
    """Return where the interval of each cell begins, at least 0; the model's cells where none were bought."""
    if comparison.measured is None:
        return comparison.model
    return np.maximum(0.0, comparison.measured - comparison.half_width)


def _draw_columns(
    axes: Any, comparison: MarginalComparison, total: float, attribute: IntegerAttribute | NumericAttribute
) -> None:
    places, widths = _columns(attribute)
    model = 100 * comparison.model / total
    axes.bar(places, model, width=widths, color=_FILL, linewidth=0, label="model")
    if attribute.base_size > _MANY_COLUMNS:
        base = attribute.base_size
        axes.stairs(model[:base], np.arange(base + 1) - 0.5, color=MODEL, linewidth=1, zorder=3)
    if comparison.measured is not None:
        measured, width = 100 * comparison.measured / total, 100 * comparison.half_width / total
        style = _COARSE if attribute.base_size <= _MANY_COLUMNS else _FINE
        axes.errorbar(places, measured, yerr=width, **style)
    ticks, labels = _scale(attribute)
    special = list(range(attribute.base_size, attribute.size))
    ticks += [float(places[cell]) for cell in special]
    axes.set_xticks(ticks, [*labels, *(attribute.label(cell) for cell in special)])
    for label in axes.get_xticklabels()[len(labels) :]:
        label.set_rotation(90)
    axes.set_xlim(-1, places[-1] + widths[-1])
    axes.set_ylabel("% of all records", fontsize=8)


def _columns(
    attribute: IntegerAttribute | NumericAttribute,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centers and widths of the columns: cell k is at k.

    The cells of empty and of undeclared values stand apart on the right, wide enough for their names.
    """
    base = attribute.base_size
    special, gap = max(1.0, 0.06 * base), max(1.0, 0.08 * base)
    extra = np.arange(attribute.size - base)
    places = np.concatenate([np.arange(base), base - 0.5 + gap + special * (extra + 0.5)])
    space = 0.9 if base <= _MANY_COLUMNS else 1.0
    return places, np.concatenate([np.full(base, space), np.full(len(extra), 0.9 * special)])


def _scale(attribute: IntegerAttribute | NumericAttribute) -> tuple[list[float], list[str]]:
    """Return ticks and their texts: values at the middle of their cells, or ends of ranges between cells."""
    single = isinstance(attribute, IntegerAttribute) and attribute.width == 1
    count = attribute.base_size + (0 if single else 1)
    longest = max(len(_short(end)) for end in attribute.ends)
    step = _round_step(count / (8 if longest <= 4 else 6))
    shift = 0.0 if single else 0.5
    chosen = range(0, count, step)
    return [cell - shift for cell in chosen], [_short(attribute.boundaries[cell]) for cell in chosen]


def _round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, … that is at least so much."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= least:
                return digit * power
        power *= 10


def _short(number: float) -> str:
    """Return a short text of a number, such as ``2500.5``, ``25k`` or ``1M``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if letter == 'k' else size):.4g}{letter}"
    return number_text(round(number, 4))
