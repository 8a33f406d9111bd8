"""Figures of the sparse vector benchmark: scores, error rates by number selected, and margins.

``PAPER_FIGURES`` are Figures 4 and 5 of Lyu, Su and Li (2017): our methods under the paper's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.sparse_counts import Counts
from benchmarks.sparse_text import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["margin_figure", "PAPER_FIGURES", "rate_figure", "score_figure", "setting_methods"]

# One colour and mark for each line of a figure, in the order in which lines come.
_COLOURS = (
    "#555555", "#b8860b", "#1b7f5c", "#8f6bb3", "#0b3d91", "#d36ba6", "#c1440e", "#4aa3df", "#7a9a01",
    "#8b1a1a", "#00a19b",
)  # fmt: skip
_MARKS = ("P", "s", "^", "D", "o", "X", "v", "<", ">", "p", "h")
_BEST = "exponential mechanism"  # drawn in every panel: what can be done with all scores at hand
_RATES = (
    ("ser", "SER, as the paper\ndefines it: over\nwhat was selected"),
    ("ser_filled", "score error rate,\nempty places as 0\n(filled)"),
    ("fnr", "false negative rate"),
)
PAPER_FIGURES: dict[int, dict[str, str]] = {
    4: {
        "textbook Sparse": "SVT-DPBook",
        **{f"Laplace {ratio}": f"SVT-S-{ratio}" for ratio in ("1:1", "1:3", "1:c", "1:c^(2/3)")},
    },
    5: {
        "retraversal +0D": "SVT-ReTr-1:c^(2/3)",
        **{f"retraversal +{more}D": f"SVT-ReTr-1:c^(2/3)-{more}D" for more in range(1, 6)},
        _BEST: "EM",
    },
}
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


def setting_methods(lines: Sequence[Line], setting: str) -> dict[str, str]:
    """Return the methods of a setting under their own names, and the exponential mechanism beside them.

    A value that is released for free changes no error rate, so that free gap is left out.
    """
    names = dict.fromkeys(str(line["method"]) for line in lines if _belongs(line, setting))
    return {name: name for name in names}


def rate_figure(lines: Sequence[Line], methods: Mapping[str, str], title: str, path: Path) -> None:
    """Draw the error rates against c: a column for each data set at each epsilon, bars of one deviation.

    Args:
        lines: of the selection.
        methods: what is drawn, with the name that it has in the figure.
        title: of the figure.
        path: of the picture.
    """
    chosen = [line for line in lines if line["method"] in methods]
    panels = list(dict.fromkeys((line["data"], line["epsilon"]) for line in chosen))
    figure = _figure(3.2 + 3.1 * len(panels), 8.6)
    grid = figure.subplots(len(_RATES), len(panels), squeeze=False, sharex=True, sharey="row")
    for column, panel in enumerate(panels):
        own = [line for line in chosen if (line["data"], line["epsilon"]) == panel]
        grid[0, column].set_title(_panel_title(own[0]), fontsize=9)
        grid[-1, column].set_xlabel("c")
        limits = sorted({line["c"] for line in own if isinstance(line["c"], int)})
        grid[-1, column].set_xticks(limits[1::2] or limits)
        for row, (rate, _) in enumerate(_RATES):
            for place, (method, label) in enumerate(methods.items()):
                points = [
                    (line["c"], line[rate], line[f"{rate}_sd"]) for line in own if line["method"] == method
                ]
                if not points:
                    continue
                places, means, deviations = np.array(points, dtype=np.float64).T
                beside = 2.0 * (place - (len(methods) - 1) / 2)  # so that bars do not cover each other
                style = _style(place, dashed=method == _BEST)
                grid[row, column].errorbar(
                    places + beside, means, deviations, label=label, elinewidth=0.8, capsize=1.5, **style
                )
            _tidy(grid[row, column])
    for row, (rate, label) in enumerate(_RATES):
        grid[row, 0].set_ylabel(label)
        if rate != "ser":  # which goes below 0 where few but high scores are selected
            grid[row, 0].set_ylim(-0.03, 1.03)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    runs = chosen[0]["runs"]
    figure.suptitle(f"{title}: mean of {runs} runs, bars of one standard deviation to either side")
    figure.savefig(path, dpi=110)


def _panel_title(line: Line) -> str:
    of = "" if line["epsilon_is"] == "as given" else f"\n({line['epsilon_is']})"
    return f"{line['data']} ({line['data_is']})\nepsilon {line['epsilon']}{of}"


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
        "markersize": 4,
        "linewidth": 1.5,
    }


def _tidy(axes: Axes) -> None:
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
