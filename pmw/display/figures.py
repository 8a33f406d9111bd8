"""Figures: pictures by matplotlib, which is optional and imported when one is drawn; how each is written."""

from __future__ import annotations

import io
import math
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pmw.disk import require_file, write_whole
from pmw.display.charts import Bars, Lines, Picture
from pmw.display.texts import installed_by
from pmw.errors import ReleaseError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A blue and an orange red that stay apart for every kind of colour vision and in grey.
MODEL, MEASURED, INK = "#1b6ca8", "#c8553d", "#333333"
_FILL = "#a3c3dc"  # the blue of the model, lighter
# Of groups beside each other: apart for every kind of colour vision, each with a line and a mark of its own.
GROUP_COLORS = (MODEL, MEASURED, "#d19a1c", INK)
_LINES, _MARKS = ("-", "--", ":", "-."), ("o", "s", "^", "D")
_LETTER, _MARGIN = 0.075, 0.9  # inches: of a letter at an axis, and beside its numbers

_ISOLATES = dict.fromkeys(map(ord, "\N{FIRST STRONG ISOLATE}\N{POP DIRECTIONAL ISOLATE}"))  # no font has them
_SHOWN = 100  # dots to an inch in a notebook
_SUFFIXES = (".png", ".pdf", ".svg")
_LETTERS = re.compile(r"Glyph (\d+) .*missing from font|does not support (.+) natively")


class Series(NamedTuple):
    """Numbers along an axis, with their intervals; None where there is none. One alone has no name."""

    name: str
    values: Sequence[float | None]
    ends: Sequence[tuple[float, float] | None]


class Panel(NamedTuple):
    """Series over the same places: so many of the first joined by a line in a band, or bars where none is."""

    title: str
    labels: Sequence[str]
    connected: int
    series: Sequence[Series]  # at most as many as there are colours
    from_zero: bool = False  # numbers are counts, so that a line stands above zero


class MissingLettersWarning(UserWarning):
    """A picture has boxes in place of letters that its font lacks, or letters that are not joined."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure that lays itself out; it belongs to nobody else and opens no window."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return _shown(Figure)(figsize=(width, height), layout="constrained")


def require_matplotlib() -> None:
    """Refuse to draw where nothing can; called before work that ends in a picture."""
    try:
        import matplotlib.figure  # noqa: F401 - it is asked for whole, for a part may be missing
    except ImportError:
        raise ReleaseError(f"pictures need matplotlib: {installed_by('plots')}") from None


@cache
def _shown(kind: type[Figure]) -> type[Figure]:
    """Return figures that notebooks show, whether or not anything set matplotlib up for them."""

    class ShownFigure(kind):  # type: ignore[valid-type, misc, unused-ignore]  # matplotlib may be missing
        def _repr_png_(self) -> bytes:
            return _written(self, "png", _SHOWN)

    return ShownFigure


def tidy(axes: Any) -> None:
    """Give axes the look of this package: no box, a light grid, dark grey numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.tick_params(colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def draw_bars(axes: Any, picture: Picture, bars: Bars) -> None:
    """Draw a panel of bars, or of columns from 0 on, each as wide as 1, some with where they begin."""
    from matplotlib.ticker import MaxNLocator

    lengths, names = [bar.value for bar in bars.bars], [bar.label.translate(_ISOLATES) for bar in bars.bars]
    places = [place + (0.5 if bars.starts else 0.0) for place in range(len(lengths))]
    if bars.starts:
        axes.bar(places, lengths, width=1, color=_FILL, label="model")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.xaxis.set_major_formatter(
            lambda place, _: bars.starts[int(place)] if 0 <= place < len(bars.starts) else ""
        )
        axes.set_xlabel(bars.note, fontsize=8)
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


def draw_series(axes: Any, panel: Panel, *, width: float) -> None:
    """Draw bars with ranges, or lines in bands with what has no place on them at the right."""
    if panel.connected:
        for number, series in enumerate(panel.series):
            _draw_band(axes, panel, series, number)
        places = [*_ticks_of(panel, width), *range(panel.connected, len(panel.labels))]
        axes.set_xticks([_beside(panel, place) for place in places])
        axes.set_xticklabels([panel.labels[place] for place in places], parse_math=False)
        axes.margins(x=0.06)
        axes.set_ylim(bottom=0 if panel.from_zero else None)
        axes.yaxis.set_major_formatter(_number_text)
    else:
        _draw_ranges(axes, panel)
        axes.xaxis.set_major_formatter(_number_text)
    if panel.title:
        axes.set_title(panel.title, loc="left", fontsize=9, color=INK, parse_math=False)
    axes.tick_params(labelsize=8)
    tidy(axes)


def _number_text(value: float, _: int | None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _draw_band(axes: Any, panel: Panel, series: Series, number: int) -> None:
    color, style, mark = GROUP_COLORS[number], _LINES[number], _MARKS[number]
    line = slice(0, panel.connected)
    x = range(panel.connected)
    few = 3 if panel.connected <= 60 else 0
    lows, highs = zip(*(one or (math.nan, math.nan) for one in series.ends[line]), strict=True)
    axes.fill_between(x, lows, highs, color=color, alpha=0.2, linewidth=0)
    y = [math.nan if one is None else one for one in series.values[line]]
    axes.plot(x, y, style, marker=mark, markersize=few, color=color, linewidth=1.6, label=series.name)
    for place in range(panel.connected, len(panel.labels)):
        value, ends = series.values[place], series.ends[place]
        if value is not None:
            at = _beside(panel, place) + 0.03 * panel.connected * (number - (len(panel.series) - 1) / 2)
            axes.plot([at], [value], marker=mark, markersize=4, color=color)
            axes.vlines([at], *(ends or (value, value)), color=color, linewidth=1.4)


def _beside(panel: Panel, place: int) -> float:
    """Return where a place is on the axis: those behind the line stand apart from it."""
    behind = place - panel.connected
    return place if behind < 0 else panel.connected - 1 + (1 + behind) * max(1.0, 0.13 * panel.connected)


def _ticks_of(panel: Panel, width: float) -> Iterator[int]:
    """Yield the places of a line that are named: as many as have room beside each other."""
    longest = max(map(len, panel.labels[: panel.connected]))
    room = max(2, int((width - _MARGIN) / (_LETTER * longest + 0.15)))
    last = _beside(panel, len(panel.labels) - 1)
    every = max(1, math.ceil((last + 1) / room))
    for place in range(0, panel.connected, every):
        if last < panel.connected or panel.connected - 1 - place >= every / 2 or every == 1:
            yield place


def _draw_ranges(axes: Any, panel: Panel) -> None:
    from matplotlib.patheffects import withStroke  # the ranges are seen on dark bars, too

    size = 0.72 / len(panel.series)
    halo = [withStroke(linewidth=2.4, foreground="white")]
    for number, series in enumerate(panel.series):
        color = _FILL if len(panel.series) == 1 else GROUP_COLORS[number]
        shift = size * (number - (len(panel.series) - 1) / 2)
        y = [place + shift for place in range(len(panel.labels))]
        axes.barh(
            y, [one or 0.0 for one in series.values], height=0.95 * size, color=color, label=series.name
        )
        for at, ends in zip(y, series.ends, strict=True):
            if ends is not None:
                axes.hlines([at], *ends, color=INK, linewidth=1.2, path_effects=halo)
                axes.vlines(ends, at - 0.22 * size, at + 0.22 * size, color=INK, linewidth=1.2)
    named = [place for place, label in enumerate(panel.labels) if label]
    axes.set_yticks(named, [panel.labels[place] for place in named], parse_math=False)
    axes.set_ylim(len(panel.labels) - 0.5, -0.5)


def check_kind(path: Path) -> None:
    """Refuse a file whose suffix names no kind of picture."""
    if path.suffix.lower() not in _SUFFIXES:
        raise ReleaseError(f"expected a picture file ending in .png, .pdf or .svg, got {path.name!r}")


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a file that a picture cannot be written to, before anything is drawn."""
    check_kind(path)
    require_file(path, force=force)
    require_matplotlib()


def write_figure(figure: Figure, path: Path, *, force: bool = False) -> None:
    """Write a picture whole or not at all: PNG, PDF or SVG, by the file's suffix."""
    check_target(path, force=force)
    picture = _written(figure, path.suffix.lower()[1:], 130)
    write_whole(path, lambda target: target.write_bytes(picture))


def _written(figure: Figure, kind: str, dots: int) -> bytes:
    """Return a picture of a kind, with so many dots to an inch; letters that it lacks are told."""
    picture = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(picture, format=kind, dpi=dots)
    _tell(caught)
    return picture.getvalue()


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
        warnings.warn(f"{missing}; {advice}", MissingLettersWarning, stacklevel=4)


def _script(letter: str) -> str:
    """Return the script of a letter, such as ``CJK`` or ``Arabic``."""
    word = unicodedata.name(letter, "other").split()[0].split("-")[0]
    return word if word == "CJK" else word.capitalize()
