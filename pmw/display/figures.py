"""Figures: pictures by matplotlib, which is optional and imported when one is drawn; how each is written."""

from __future__ import annotations

import io
import re
import unicodedata
import warnings
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.disk import require_file, write_whole
from pmw.display.charts import Bars, Lines, Picture
from pmw.display.texts import installed_by
from pmw.errors import ReleaseError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A blue and an orange red that stay apart for every kind of colour vision and in grey.
MODEL, MEASURED, INK = "#1b6ca8", "#c8553d", "#333333"
_FILL = "#a3c3dc"  # the blue of the model, lighter

_ISOLATES = dict.fromkeys(map(ord, "\N{FIRST STRONG ISOLATE}\N{POP DIRECTIONAL ISOLATE}"))  # no font has them
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


def draw_bars(axes: Any, picture: Picture, bars: Bars) -> None:
    """Draw a panel of bars, or of columns from 0 on, each as wide as 1."""
    lengths, names = [bar.value for bar in bars.bars], [bar.label.translate(_ISOLATES) for bar in bars.bars]
    places = [place + (0.5 if bars.starts else 0.0) for place in range(len(lengths))]
    if bars.starts:
        axes.bar(places, lengths, width=1, color=_FILL, label="model")
        _name_columns(axes, bars)
        axes.set_ylabel(picture.scale, fontsize=8)
    else:
        axes.barh(places, lengths, height=0.7, color=_FILL, label="model")
        axes.set_yticks(places, names, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(picture.scale, fontsize=8)
    if bars.is_measured:
        _draw_measured(axes, places, bars)
    title = picture.title.translate(_ISOLATES)
    axes.set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)
    axes.tick_params(labelsize=8)
    tidy(axes)


def _name_columns(axes: Any, bars: Bars) -> None:
    """Tell where columns begin, at five of them or so."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter(
        lambda place, _: bars.starts[int(place)] if 0 <= place < len(bars.starts) else ""
    )
    axes.set_xlabel(bars.note, fontsize=8)


def _draw_measured(axes: Any, places: list[float], bars: Bars) -> None:
    dots = [bar.measured or 0.0 for bar in bars.bars]
    ends = [bar.interval or (dot, dot) for bar, dot in zip(bars.bars, dots, strict=True)]
    below = [dot - low for dot, (low, _) in zip(dots, ends, strict=True)]
    above = [high - dot for dot, (_, high) in zip(dots, ends, strict=True)]
    style = {"fmt": "o", "color": MEASURED, "label": "measured", "markersize": 3, "elinewidth": 1}
    if bars.starts:
        axes.errorbar(places, dots, yerr=(below, above), **style)
    else:
        axes.errorbar(dots, places, xerr=(below, above), **style)


def draw_lines(axes: Any, picture: Picture, lines: Lines) -> None:
    """Draw a panel of lines over a count, each with a dot at its end."""
    last = max(line.points[-1][0] for line in lines.lines)
    most = max(y for line in lines.lines for _, y in line.points)
    if lines.cap is not None:
        most = max(most, lines.cap.level)
        axes.axhline(lines.cap.level, color=INK, linestyle="--", linewidth=1)
        axes.annotate(lines.cap.name, (0, 1.03 * lines.cap.level), fontsize=8, color=INK)
    for line, color in zip(lines.lines, cycle((MODEL, MEASURED, INK)), strict=False):
        x, y = zip(*line.points, strict=True)
        style = "steps-post" if line.is_stepped else "default"
        axes.plot(x, y, "o-", drawstyle=style, color=color, markevery=[-1], label=line.name)
    axes.set(
        xlim=(0, max(1, last * 1.02)),
        ylim=(0, 1.12 * most or 1),
        xlabel=lines.axis,
        ylabel=picture.scale or "%",
    )
    axes.set_title(picture.title, loc="left", fontsize=12, color=INK)
    tidy(axes)


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
        ReleaseError: the suffix names no kind of picture, the path is a folder, or the file exists and
            ``force`` is not given.
    """
    check_kind(path)
    require_file(path, force=force)


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
    write_whole(path, lambda target: target.write_bytes(picture.getvalue()))
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
