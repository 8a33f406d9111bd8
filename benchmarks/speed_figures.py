"""Figures of the speed curves, one file for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_curves"]

# For each curve its title, what it goes over, and its panels: a label, and the lines in it.
_PANELS: dict[str, tuple[str, str, str, tuple[tuple[str, dict[str, str]], ...]]] = {
    "domain": (
        "What grows with the domain: 100,000 made-up records, attributes of ten cells",
        "cells",
        "cells of the domain",
        (
            ("CPU seconds", {"open_s": "opening", "first_s": "1,000 first questions"}),
            (
                "new answers per CPU second",
                {"arrays_per_s": "as arrays", "queries_per_s": "as queries"},
            ),
        ),
    ),
    "records": (
        "What grows with the records: a made-up table of four attributes of ten cells",
        "records",
        "records",
        (
            ("CPU seconds", {"open_s": "opening", "first_s": "200 first questions"}),
            (
                "new answers per CPU second",
                {"arrays_per_s": "as arrays", "queries_per_s": "as queries"},
            ),
        ),
    ),
    "questions": (
        "What grows with the questions: one session file, every answer durable",
        "questions",
        "different questions so far",
        (
            ("CPU seconds", {"cpu_s": "answering", "reopen_s": "reopening"}),
            ("MB", {"file_mb": "file", "peak_mb": "memory"}),
        ),
    ),
    "positives": (
        "What grows with the positives: 14 attributes of ten cells, 100,000 made-up records",
        "positives",
        "positives so far",
        (("CPU seconds of each", {"cpu_s": ""}), ("cells of the model", {"model_cells": ""})),
    ),
}
_WIDE = 30  # largest number over smallest, from where on an axis is logarithmic
_COLOURS = ("#0b3d91", "#c1440e", "#1b7f5c", "#8f6bb3")


def draw_curves(points: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write a figure for each curve that has points."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    for curve, (title, over, label, panels) in _PANELS.items():
        own = [point for point in points if point["curve"] == curve]
        if not own:
            continue
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        figure.suptitle(title)
        for axes, (what, lines) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            _draw(axes, own, over, lines)
            axes.set(xlabel=label, ylabel=what)
        figure.savefig(folder / f"{curve}.png", dpi=130)


def _draw(axes: Axes, points: Sequence[dict[str, Any]], over: str, lines: dict[str, str]) -> None:
    """Draw some columns; where questions came in two ways, both."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    ways = list(dict.fromkeys(point.get("asked_as") for point in points))
    for place, (column, name) in enumerate(lines.items()):
        for way, style in zip(ways, ("o-", "^--"), strict=False):
            own = [point for point in points if point.get("asked_as") == way]
            label = name if way is None else f"{name}, {way}"
            x, y = [point[over] for point in own], [point[column] for point in own]
            axes.plot(x, y, style, color=_COLOURS[place], label=label, markersize=4)
    if over != "positives":
        axes.set_xscale("log")
    values = [point[column] for point in points for column in lines]
    if max(values) > _WIDE * min(values):
        axes.set_yscale("log")
    else:  # a logarithm would show a tick or two
        axes.set_ylim(0, 1.3 * max(values))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    if any(lines.values()):
        axes.legend(frameon=False, fontsize=9)
