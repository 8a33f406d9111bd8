"""Figures of the stream benchmark: errors over the stream, and over epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.methods import METHODS
from benchmarks.runner import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["epsilon_figure", "running_figure"]

# One colour and mark for a method in every figure; methods that are told something of the stream are dashed.
_COLOURS = ("#0b3d91", "#c1440e", "#1b7f5c", "#8f6bb3", "#b8860b", "#555555", "#d36ba6", "#4aa3df", "#7a9a01")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_TOLD = (
    "offline-scopes",
    "offline-questions",
    "all-pairs-max-entropy",
    "gaussian-per-query",
    "laplace-per-query",
)
_POINTS = 60


def running_figure(measured: Sequence[Measured], path: Path) -> None:
    """Draw the mean error of the first k questions against k, a line for each method."""
    axes = _axes(measured, "questions answered")
    for one in measured:
        running = np.cumsum(one.errors) / np.arange(1, len(one.errors) + 1)
        places = np.unique(np.geomspace(10, len(running), _POINTS).astype(int)) - 1
        marks = max(1, len(places) // 8)
        axes.plot(places + 1, running[places], markevery=marks, **_style(one.job.method))
    budget = measured[0].job.settings
    axes.set_title(
        f"{measured[0].job.table}: mean error so far, epsilon {budget.epsilon}, delta {budget.delta}"
    )
    _write(axes, path)


def epsilon_figure(measured: Sequence[Measured], path: Path) -> None:
    """Draw the mean error over the whole stream against epsilon, a line for each method."""
    axes = _axes(measured, "epsilon")
    for method in dict.fromkeys(one.job.method for one in measured):
        points = sorted(
            (float(one.job.settings.epsilon), float(one.errors.mean()))
            for one in measured
            if one.job.method == method
        )
        axes.plot(*zip(*points, strict=True), **_style(method))
    ticks = sorted({float(one.job.settings.epsilon) for one in measured})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    count, delta = len(measured[0].errors), measured[0].job.settings.delta
    axes.set_title(f"{measured[0].job.table}: mean error over {count:,} questions, delta {delta}")
    _write(axes, path)


def _axes(measured: Sequence[Measured], label: str) -> Axes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("mean |answer - truth| / records")
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _style(method: str) -> dict[str, Any]:
    place = list(METHODS).index(method)
    return {
        "label": method,
        "color": _COLOURS[place % len(_COLOURS)],
        "marker": _MARKS[place % len(_MARKS)],
        "markersize": 5,
        "linewidth": 2.6 if method == "session" else 1.5,
        "linestyle": "--" if method in _TOLD else "-",
    }


def _write(axes: Axes, path: Path) -> None:
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize=9,
        title="dashed: told the questions,\ntheir scopes or their number",
        title_fontsize=9,
    )
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.savefig(path, dpi=130)
