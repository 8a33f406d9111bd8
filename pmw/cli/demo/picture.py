"""Pictures of a demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.cli.demo.scores import Baseline, Scores
from pmw.display.figures import MEASURED, MODEL, new_figure, tidy, write_figure
from pmw.public.answer import Answer
from pmw.public.state import PublicState

_OURS, _THEIRS = MODEL, MEASURED
_WIDTH, _HEIGHT = 11, 4.2  # inches


def draw_errors(path: Path, scores: Scores, baseline: Baseline) -> None:
    """Draw true errors against the number of questions and against each other.

    Raises:
        ReleaseError: matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(_WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2)
    lines = (
        ("this session", scores.errors, _OURS),
        (f"{baseline.distribution} per question", baseline.errors, _THEIRS),
    )
    for label, errors, color in lines:
        centers, middle, upper = _windows(errors)
        left.plot(centers, 100 * middle, color=color, label=f"{label}: mean")
        left.plot(centers, 100 * upper, color=color, linestyle=":", label=f"{label}: 95 % of questions below")
        shares = np.arange(1, len(errors) + 1) / len(errors)
        right.plot(100 * np.sort(errors), 100 * shares, color=color, label=label)
    left.set(xlabel="questions asked", ylabel="error, % of all records", yscale="log")
    left.set_title("Error while the stream goes on", loc="left")
    right.set(xlabel="error, % of all records", ylabel="% of questions with a smaller error", xscale="log")
    right.set_xlim(left=1e-3)
    right.set_title("Error over all questions", loc="left")
    left.set_yticks(
        [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if _inside(left, tick)]
    )
    for axes, axis in ((left, left.yaxis), (right, right.xaxis)):
        tidy(axes)
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: "")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    write_figure(figure, path, force=True)


def _inside(axes: Any, tick: float) -> bool:
    low, high = axes.get_ylim()
    return bool(low <= tick <= high)


def draw_promises(path: Path, answers: Sequence[Answer], state: PublicState) -> None:
    """Draw the promised error bars and the budget against the number of questions: public numbers only.

    Raises:
        ReleaseError: matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(_WIDTH, _HEIGHT)
    left, right = figure.subplots(1, 2)
    numbers = np.arange(1, len(answers) + 1)
    ends = np.array([answer.interval or (np.nan, np.nan) for answer in answers]).reshape(-1, 2)
    left.plot(numbers, 50 * (ends[:, 1] - ends[:, 0]) / state.total.value, ".", color=_OURS, markersize=2)
    left.set(xlabel="questions asked", ylabel="half the error bar, % of all records")
    left.set_title(f"Promised error at {state.contract.options.confidence:.0%} confidence", loc="left")
    right.plot(numbers, [100 * answer.spent.share for answer in answers], color=_OURS)
    right.set(xlabel="questions asked", ylabel="% of the budget spent", ylim=(0, 102))
    right.set_title("Budget", loc="left")
    for axes in (left, right):
        tidy(axes)
    write_figure(figure, path, force=True)


def _windows(
    errors: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return window centers, means and 95th percentiles, in about 40 windows."""
    width = max(1, len(errors) // 40)
    count = len(errors) // width
    windows = errors[: count * width].reshape(count, width)
    centers = (np.arange(count, dtype=np.float64) + 0.5) * width
    upper: NDArray[np.float64] = np.quantile(windows, 0.95, axis=1)
    return centers, windows.mean(axis=1, dtype=np.float64), upper
