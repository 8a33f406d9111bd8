"""Figures of the sparse vector benchmark: scores, error rates by number selected, and margins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.sparse_counts import Counts
from benchmarks.sparse_text import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["margin_figure", "rate_figure", "score_figure"]

# One colour and mark for each line of a figure, in the order in which lines come.
_COLOURS = (
    "#555555", "#b8860b", "#1b7f5c", "#8f6bb3", "#0b3d91", "#d36ba6", "#c1440e", "#4aa3df", "#7a9a01",
    "#8b1a1a", "#00a19b",
)  # fmt: skip
_MARKS = ("P", "s", "^", "D", "o", "X", "v", "<", ">", "p", "h")
_BEST = "exponential mechanism"  # drawn in every panel: what can be done with all scores at hand
_RATES = (("ser_filled", "score error rate,\nempty places as 0"), ("fnr", "false negative rate"))
_SHOWN_SCORES = 300


def score_figure(counts: Sequence[Counts], path: Path) -> None:
    """Draw the highest scores by rank, a line for each data set."""
    figure = _figure(7.5, 4.5)
    axes = figure.add_subplot()
    for place, one in enumerate(counts):
        best = one.scores[:_SHOWN_SCORES]
        label = f"{one.name} ({one.data_is})"
        axes.plot(
            np.arange(1, len(best) + 1),
            np.maximum(best, 1),
            color=_COLOURS[place % len(_COLOURS)],
            label=label,
        )
    axes.set_yscale("log")
    axes.set_xlabel("rank")
    axes.set_ylabel("score")
    axes.set_title(f"The {_SHOWN_SCORES} highest scores")
    _tidy(axes)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def rate_figure(lines: Sequence[Line], setting: str, path: Path) -> None:
    """Draw both error rates against c for the methods of a setting: a column for each data set.

    The exponential mechanism stands in both figures. A value that is released for free changes nothing here,
    so that free gap is left out.
    """
    chosen = [line for line in lines if _belongs(line, setting)]
    names = list(dict.fromkeys(str(line["data"]) for line in chosen))
    methods = list(dict.fromkeys(str(line["method"]) for line in chosen))
    figure = _figure(2.2 + 3.3 * len(names), 6.4)
    grid = figure.subplots(2, len(names), squeeze=False, sharex=True, sharey="row")
    for column, name in enumerate(names):
        own = [line for line in chosen if line["data"] == name]
        grid[0, column].set_title(f"{name}\n({own[0]['data_is']})", fontsize=10)
        grid[1, column].set_xlabel("c")
        limits = sorted({line["c"] for line in own if isinstance(line["c"], int)})
        grid[1, column].set_xticks(limits[1::2] or limits)
        for row, (rate, _) in enumerate(_RATES):
            for place, method in enumerate(methods):
                points = [(line["c"], line[rate]) for line in own if line["method"] == method]
                grid[row, column].plot(
                    *zip(*points, strict=True), label=method, **_style(place, dashed=method == _BEST)
                )
            grid[row, column].set_ylim(-0.03, 1.03)
            _tidy(grid[row, column])
    for row, (_, label) in enumerate(_RATES):
        grid[row, 0].set_ylabel(label)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    first = chosen[0]
    figure.suptitle(
        f"Selecting the top c {setting}: epsilon {first['epsilon']:g}, mean of {first['runs']} runs"
    )
    figure.savefig(path, dpi=130)


def margin_figure(lines: Sequence[Line], path: Path) -> None:
    """Draw margins against c for the longest stream: a panel for each budget, a line for each mechanism."""
    longest = max(line["queries"] for line in lines if isinstance(line["queries"], int))
    chosen = [line for line in lines if line["queries"] == longest]
    budgets = list(dict.fromkeys(line["delta"] for line in chosen))
    figure = _figure(7.0 * len(budgets), 4.8)
    grid = figure.subplots(1, len(budgets), squeeze=False, sharey=True)[0]
    for axes, delta in zip(grid, budgets, strict=True):
        own = [line for line in chosen if line["delta"] == delta]
        for place, name in enumerate(dict.fromkeys(str(line["mechanism"]) for line in own)):
            points = [(line["positives"], line["margin"]) for line in own if line["mechanism"] == name]
            axes.plot(*zip(*points, strict=True), label=name, **_style(place))
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = sorted({line["positives"] for line in own if isinstance(line["positives"], int)})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("c, positives")
        axes.set_title(f"epsilon {own[0]['epsilon']:g}, delta {delta:g}".replace("e-0", "e-"))
        _tidy(axes)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    grid[0].set_ylabel(f"margin, k = {longest:,} queries, beta 0.05")
    figure.savefig(path, dpi=130)


def _belongs(line: Line, setting: str) -> bool:
    method = str(line["method"])
    return method == _BEST or (line["setting"] == setting and not method.startswith("free gap"))


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _style(place: int, *, dashed: bool = False) -> dict[str, Any]:
    return {
        "color": "#000000" if dashed else _COLOURS[place % len(_COLOURS)],
        "marker": None if dashed else _MARKS[place % len(_MARKS)],
        "linestyle": "--" if dashed else "-",
        "markersize": 5,
        "linewidth": 1.5,
    }


def _tidy(axes: Axes) -> None:
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
