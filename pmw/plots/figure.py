"""The figure of a status: marginals, the budget, and the model's distance from what was measured."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.markup import counted
from pmw.plots.canvas import INK, MEASURED, MODEL, new_figure, tidy
from pmw.plots.comparison import (
    MarginalComparison,
    bought_deviations,
    compare_marginals,
    farthest,
    paid_deviations,
)
from pmw.plots.marginals import draw_marginal, shortened
from pmw.release import guarantee
from pmw.state import PublicState
from pmw.status import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "status_figure",
]

_MOST_MARGINALS = 6
_COLUMNS = 3
_WIDTH = 12.0  # inches, as are the heights below
_HEADER, _MARGINAL, _LEGEND = 0.95, 2.5, 0.75
_LOWER, _PER_ROW = 3.3, 0.27
_MANY_POINTS = 5000  # beyond it, a row of points is an image within a PDF or SVG


def status_figure(state: PublicState, history: History) -> Figure:
    """Return a figure of where a session stands.

    Above, released one-attribute marginals with their error bars beside the model's; of more than six
    attributes, the six whose model lies farthest from its measurement. Below, the budget over time, and how
    far the model lies from everything that was measured, of bought marginals the newest twelve, in standard
    deviations of its noise.

    Args:
        state: what may be published of the session.
        history: how its budget was spent.

    Raises:
        ReleaseError: matplotlib is not installed.

    Privacy: post-processing of released numbers; free.
    """
    comparisons = compare_marginals(state)
    shown = farthest(comparisons, _MOST_MARGINALS)
    columns = 2 if len(shown) in (2, 4) else min(len(shown), _COLUMNS)
    rows = -(-len(shown) // columns)
    heights = [
        _HEADER,
        _MARGINAL * rows + _LEGEND,
        max(_LOWER, _PER_ROW * (len(comparisons) + len(bought_deviations(state))) + 1.5),
    ]
    figure = new_figure(_WIDTH, sum(heights))
    parts: Any = figure.subfigures(3, 1, height_ratios=heights)
    header, upper, lower = parts
    _draw_header(header, state)
    _draw_marginals(upper, state, shown, (rows, columns))
    budget, distances = lower.subplots(1, 2, width_ratios=(1, 1.15))
    _draw_budget(budget, state, history)
    _draw_distances(distances, state, comparisons)
    return figure


def _draw_header(header: Any, state: PublicState) -> None:
    domain = state.domain
    attributes, records = counted(len(domain), "attribute"), counted(state.total.value, "record")
    title = f"{shortened(domain.name, 50)}: {attributes}, about {records}"
    header.text(0.01, 0.88, title, fontsize=15, va="top", color=INK, parse_math=False)
    words = guarantee(state.contract)
    if state.contract.seeded:
        header.text(0.99, 0.86, "SEEDED NOISE: no privacy", ha="right", va="top", fontsize=13,
                    fontweight="bold", color=MEASURED)  # fmt: skip
    lines = textwrap.fill(f"Guarantee: {words}.", 170)
    header.text(0.01, 0.5, lines, fontsize=9, va="top", color=INK, parse_math=False)


def _draw_marginals(
    upper: Any, state: PublicState, shown: tuple[MarginalComparison, ...], grid: tuple[int, int]
) -> None:
    """Draw one panel per attribute, with one legend below them all."""
    panels = upper.subplots(*grid, squeeze=False).ravel()
    for axes, comparison in zip(panels, shown, strict=False):
        draw_marginal(axes, comparison, state.total.value)
        tidy(axes)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    upper.suptitle(_marginals_title(state, shown), x=0.01, ha="left", fontsize=12, color=INK)
    confidence = f"{100 * state.contract.options.confidence:g} %"
    drawn: dict[str, Any] = {}
    for axes in panels[: len(shown)]:
        handles, labels = axes.get_legend_handles_labels()
        drawn = {**drawn, **dict(zip(labels, handles, strict=True))}
    names = {
        "model": "synthetic: the model",
        "measured": f"measured, with the {confidence} range of its noise",
    }
    upper.legend(
        [drawn[name] for name in names if name in drawn],
        [text for name, text in names.items() if name in drawn],
        loc="outside lower center", ncols=2, frameon=False, fontsize=9,
    )  # fmt: skip


def _marginals_title(state: PublicState, shown: tuple[MarginalComparison, ...]) -> str:
    count = len(state.domain)
    if not any(one.measured is not None for one in shown):
        which = f" of the first {len(shown)} of {count} attributes" if len(shown) < count else ""
        return f"Synthetic marginals{which}; no one-attribute marginal was measured"
    title = "Measured and synthetic marginals"
    if len(shown) == count:
        return title
    return (
        f"{title} of {len(shown)} of {count} attributes: where the model lies farthest from its measurement"
    )


def _draw_budget(axes: Any, state: PublicState, history: History) -> None:
    """Draw the share that was spent against the number of answers."""
    from matplotlib.ticker import MaxNLocator

    answers, shares = history.answers, 100 * history.shares
    axes.axhline(100, color=INK, linestyle="--", linewidth=1)
    axes.plot(answers, shares, drawstyle="steps-post", color=MODEL, linewidth=1.6)
    axes.fill_between(answers, shares, step="post", color=MODEL, alpha=0.15, linewidth=0)
    axes.plot(answers[-1:], shares[-1:], "o", color=MODEL, markersize=5, clip_on=False, zorder=3)
    axes.set_xlim(0, max(1, answers[-1] * 1.02))
    axes.set_ylim(0, 109)
    axes.set_yticks(range(0, 101, 20))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("questions answered, repeated ones not counted")
    axes.set_ylabel("% of the budget spent")
    axes.text(
        0.01, 101, _cap(state), transform=axes.get_yaxis_transform(), va="bottom", fontsize=8, color=INK
    )
    opening = f"{shares[0]:.1f} %" if answers[-1] else "all of it"
    title = f"Budget: {shares[-1]:.1f} % spent, {opening} at opening"
    axes.set_title(title, loc="left", fontsize=12, color=INK)
    tidy(axes)


def _cap(state: PublicState) -> str:
    budget = state.contract.budget
    delta = f", delta = {float(budget.delta):g}" if budget.delta else ""
    return f"the cap: epsilon = {float(budget.epsilon):g}{delta}"


def _draw_distances(axes: Any, state: PublicState, comparisons: tuple[MarginalComparison, ...]) -> None:
    """Draw a row per attribute and per bought marginal with a point per cell, and one of paid answers."""
    rows = [(shortened(one.attribute.name, 24), one.distances, MODEL) for one in comparisons]
    rows = [row for row in rows if row[1].size]
    bought = bought_deviations(state)
    rows += [(shortened(" x ".join(scope), 24), distances, MEASURED) for scope, distances in bought]
    distances = paid_deviations(state)
    if distances.size:
        newest = len(distances) < state.query_positives
        name = f"newest {len(distances)} paid answers" if newest else "paid answers"
        rows.append((name, distances, MEASURED))
    axes.set_title("Model against measurements", loc="left", fontsize=12, color=INK)
    if not rows:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "only the number of records was measured", ha="center", color=INK)
        return
    axes.axvspan(-2, 2, color="#eeeeee", linewidth=0)
    axes.axvline(0, color=INK, linewidth=0.8)
    for place, (_, distances, color) in enumerate(rows):
        _draw_row(axes, place, distances, color)
    beside = {"fontsize": 8, "color": INK, "transform": axes.transAxes}
    axes.text(1.01, 1.02, "root mean\nsquare", va="bottom", **beside)
    reach = max(3.0, 1.08 * max(float(np.abs(distances).max()) for _, distances, _ in rows))
    axes.set_xlim(-reach, reach)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], parse_math=False)
    axes.set_xlabel("(model - measured) / standard deviation of the noise; grey: up to 2")
    tidy(axes)
    axes.grid(False, axis="y")


def _draw_row(axes: Any, place: int, distances: NDArray[np.float64], color: str) -> None:
    """Draw the cells of one measurement below each other, and their root mean square on the right."""
    spread = np.linspace(-0.28, 0.28, len(distances)) if len(distances) > 1 else np.zeros(1)
    axes.plot(distances, place + spread, "o", color=color, markersize=3.5, alpha=0.75, markeredgewidth=0,
              rasterized=len(distances) > _MANY_POINTS)  # fmt: skip
    size = float(np.sqrt(np.mean(distances**2)))
    right = axes.get_yaxis_transform()
    axes.text(1.01, place, f"{size:.2f}", transform=right, va="center", fontsize=8, color=INK)
