"""Canvases: how every picture of this package is made, styled and written."""

from __future__ import annotations

import io
import os
import re
import unicodedata
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.errors import ReleaseError
from pmw.markup import installed_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "check_kind",
    "check_target",
    "INK",
    "MEASURED",
    "MissingLettersWarning",
    "MODEL",
    "new_figure",
    "tidy",
    "write_figure",
]

# A blue and an orange red that stay apart for every kind of colour vision and in grey.
MODEL, MEASURED, INK = "#1b6ca8", "#c8553d", "#333333"

_SUFFIXES = (".png", ".pdf", ".svg")
_LETTERS = re.compile(r"Glyph (\d+) .*missing from font|does not support (.+) natively")


class MissingLettersWarning(UserWarning):
    """A picture has boxes in place of letters that its font lacks, or letters that are not joined."""


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
        raise ReleaseError(f"pictures need matplotlib: {installed_by('plots')}") from None
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
        MissingLettersWarning: letters are missing or not joined; the picture is written all the same.
    """
    check_target(path, force=force)
    picture = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(picture, format=path.suffix.lower()[1:], dpi=130)
    temporary = path.with_name(path.name + ".partial")
    try:
        temporary.write_bytes(picture.getvalue())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReleaseError(f"{path}: the file cannot be written: {error.strerror}") from None
    _tell(caught)


def _tell(caught: list[warnings.WarningMessage]) -> None:
    """Tell of letters in one warning, and of everything else as it was written."""
    scripts = set()
    for one in caught:
        if found := _LETTERS.search(str(one.message)):
            scripts.add(found[2] or _script(chr(int(found[1]))))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if scripts:
        missing = f"the picture does not show {' and '.join(sorted(scripts))} letters as they are written"
        advice = "where they are boxes, add a font that has them to font.family in the file matplotlibrc"
        warnings.warn(f"{missing}; {advice}", MissingLettersWarning, stacklevel=3)


def _script(letter: str) -> str:
    """Return the script of a letter, such as ``CJK`` or ``Arabic``."""
    word = unicodedata.name(letter, "other").split()[0].split("-")[0]
    return word if word == "CJK" else word.capitalize()
