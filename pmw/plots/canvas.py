"""Canvases: how every picture of this package is made, styled and written."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.errors import ReleaseError
from pmw.plots.letters import MissingLettersWarning, draw_letters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "check_kind",
    "check_target",
    "INK",
    "MEASURED",
    "MODEL",
    "new_figure",
    "tidy",
    "write_figure",
]

# A blue and an orange red that stay apart for every kind of colour vision and in grey.
MODEL, MEASURED, INK = "#1b6ca8", "#c8553d", "#333333"

_SUFFIXES = (".png", ".pdf", ".svg")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure that lays itself out; it belongs to nobody else and opens no window.

    Args:
        width: in inches.
        height: in inches.

    Raises:
        ReleaseError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ReleaseError("pictures need matplotlib: pip install 'online-pmw[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Any) -> None:
    """Give axes the look of this package: no box, a light grid, dark grey numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.tick_params(colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def check_kind(path: Path) -> None:
    """Refuse a file whose suffix names no kind of picture.

    Raises:
        ReleaseError: it names none.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ReleaseError(f"expected a picture file ending in .png, .pdf or .svg, got {path.name!r}")


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a file that a picture cannot be written to, before anything is drawn.

    Raises:
        ReleaseError: the suffix names no kind of picture, or the file exists and ``force`` is not given.
    """
    check_kind(path)
    if path.exists() and not force:
        raise ReleaseError(f"{path} exists; choose another name, or overwrite it with --force")


def write_figure(figure: Figure, path: Path, *, force: bool = False) -> None:
    """Write a picture whole or not at all: PNG, PDF or SVG, by the file's suffix.

    Raises:
        ReleaseError: the suffix names no kind of picture, the file exists and ``force`` is not given, or it
            cannot be written.

    Warns:
        MissingLettersWarning: no installed font has some of its letters; the picture is written all the same.
    """
    check_target(path, force=force)
    picture = io.BytesIO()

    def draw() -> None:
        picture.seek(0)
        picture.truncate()
        figure.savefig(picture, format=path.suffix.lower()[1:], dpi=130)

    told = draw_letters(figure, draw)
    temporary = path.with_name(path.name + ".partial")
    try:
        temporary.write_bytes(picture.getvalue())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReleaseError(f"{path}: the file cannot be written: {error.strerror}") from None
    if told is not None:
        warnings.warn(told, MissingLettersWarning, stacklevel=2)
