"""Charts: bars with ranges, and lines with bands, as SVG with a text alternative; figures draw the same.

Tables in notebooks have bars drawn beside their numbers, without style sheet, script or address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pmw.display.elements import escaped, markup, paragraph, table
from queries.frozen import dataclass

if TYPE_CHECKING:
    from markupsafe import Markup

_ROW, _HEIGHT, _LEFT, _RIGHT = 24, 220, 58, 26  # of a bar; of columns and lines; beside the drawing
_NAMES, _APART = 184, 16  # beside the ends of lines; between two of these names
_TEXTS = 80  # beside the ends of bars
_NARROW = 480  # a narrower drawing has names below it
_NAMED = 18  # of a name below a drawing
_MARKS = 4  # texts below an axis, at most
_MOST_POINTS = 400  # of a line


@dataclass(frozen=True, slots=True)
class Picture:
    """What every picture says of itself.

    Args:
        headline: what it belongs to, such as a table and its epsilon; empty where its page says it.
        description: what is to be seen in it, in words.
        scale: what its numbers are, such as “% of all records”; empty where its title says it.
        width: of the drawing; a unit is a pixel where the page is wide enough.
    """

    headline: str
    title: str
    description: str
    scale: str = ""
    width: int = 640

    @property
    def line(self) -> str:
        """What it shows, with its scale."""
        return f"{self.title}, {self.scale}" if self.scale else self.title


@dataclass(frozen=True, slots=True)
class Bar:
    """One number of a chart.

    Args:
        text: the number as it is written beside its bar; empty where it is not.
        measured: what was measured of it, a dot; None where nothing was.
        interval: the ends of the line through its dot, or at its end; None for none.
        kind: of its colour: model, or group-0 to group-5.
    """

    label: str
    value: float
    text: str = ""
    measured: float | None = None
    interval: tuple[float, float] | None = None
    kind: str = "model"

    @property
    def ends(self) -> tuple[float, float]:
        """From where to where anything of it is drawn, zero included."""
        values = (0.0, self.value, self.measured or 0.0, *(self.interval or ()))
        return min(values), max(values)


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars below each other, or columns beside each other.

    Args:
        range: what their dots and lines are, in words; empty where no legend is drawn.
        unit: of the numbers on the axis; empty where there is no axis.
        starts: where each column begins, and where the last one of a number ends; none for bars.
        note: what has to be known of the columns; empty for nothing.
        groups: kinds of bars, each with the name that stands below the drawing.
    """

    bars: tuple[Bar, ...]
    range: str = ""
    unit: str = ""
    starts: tuple[str, ...] = ()
    note: str = ""
    groups: tuple[tuple[str, str], ...] = ()

    @property
    def is_measured(self) -> bool:
        """Something was measured of them."""
        return any(bar.measured is not None for bar in self.bars)

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where anything is drawn, zero included."""
        ends = [bar.ends for bar in self.bars]
        return min((low for low, _ in ends), default=0.0), max((high for _, high in ends), default=0.0)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart.

    Args:
        kind: of its style: line-0 to line-5, or all.
        points: its corners, as (x, y), the first coordinate never decreasing; at least one.
        is_stepped: between two points it stays at the height of the first.
        band: from where to where its range goes at some points, as (x, low, high); none for no ranges.
    """

    name: str
    kind: str
    points: Sequence[tuple[float, float]]
    is_stepped: bool = False
    band: Sequence[tuple[float, float, float]] = ()

    @property
    def corners(self) -> list[tuple[float, float]]:
        """Where a pen that draws it turns; of very many points some are left out, but not the last."""
        every = max(1, -(-len(self.points) // _MOST_POINTS))
        kept = [*self.points[:-1:every], self.points[-1]]
        if not self.is_stepped:
            return kept
        found = kept[:1]
        for x, y in kept[1:]:
            found += [(x, found[-1][1]), (x, y)]
        return found


@dataclass(frozen=True, slots=True)
class Cap:
    """A level that no line goes beyond, and its name."""

    level: float
    name: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a count, or over values in order.

    Args:
        lines: at least one.
        axis: what is counted from left to right.
        cap: a level that is marked; None for none.
        unit: of the heights.
        places: the texts of the places 0, 1, … from left to right; none where these are counts.
    """

    lines: tuple[Line, ...]
    axis: str
    cap: Cap | None = None
    unit: str = "%"
    places: tuple[str, ...] = ()

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where anything is drawn, zero included."""
        heights = [0.0, self.cap.level if self.cap else 0.0]
        for line in self.lines:
            heights += [y for _, y in line.corners]
            heights += [end for _, *ends in line.band for end in ends]
        return min(heights), max(heights)


def bar_chart(picture: Picture, bars: Bars) -> Markup:
    """Return bars from left to right, one for each name; or columns beside each other, in their order."""
    return (_columns if bars.starts else _rows)(picture, bars)


def _rows(picture: Picture, bars: Bars) -> Markup:
    top, left = _top(picture, bars), 0.28 * picture.width
    right = picture.width - (_TEXTS if any(bar.text for bar in bars.bars) else _RIGHT)
    foot = top + _ROW * len(bars.bars)
    low, high = bars.reach
    ticks = _ticks(0.0, high) if bars.unit else [low, high if high > low else low + 1]
    scale = (right - left) / (ticks[-1] - ticks[0])

    def place(value: float) -> float:
        return left + scale * (value - ticks[0])

    parts = [*_legend(picture, bars)]
    for tick in ticks if bars.unit else ():
        parts += [_rule("grid", (place(tick), top), (place(tick), foot))]
        parts += [_text(place(tick), foot + 16, f"{tick:g}{bars.unit}", "middle")]
    for row, bar in enumerate(bars.bars):
        y = top + _ROW * row
        first, last = sorted((place(0.0), place(bar.value)))
        parts += [
            _text(left - 8, y + 16, bar.label, "end"),
            _rect(first, y + 4, last - first, _ROW - 8, bar.kind),
        ]
        if bar.interval is not None:
            (start, end), middle = map(place, bar.interval), y + _ROW / 2
            parts += [_rule("range", (x, middle - 4), (x, middle + 4)) for x in (start, end)]
            parts.append(_rule("range", (start, middle), (end, middle)))
        if bar.measured is not None:
            parts.append(_dot("range", place(bar.measured), y + _ROW / 2))
        if bar.text:
            parts.append(_text(place(bar.ends[1]) + 6, y + 16, bar.text, "start"))
    foot += 34 if bars.unit else 4
    for kind, name in bars.groups:
        parts += [_rect(4, foot + 4, 22, 12, kind), _text(32, foot + 15, name, "start")]
        foot += _NAMED
    return _svg(picture, foot + 4 * bool(bars.groups), parts)


def _columns(picture: Picture, bars: Bars) -> Markup:
    top, ticks = _top(picture, bars), _ticks(0.0, bars.reach[1])
    foot, right = top + _HEIGHT, picture.width - _RIGHT
    scale, step = _HEIGHT / ticks[-1], (right - _LEFT) / len(bars.bars)
    parts = [*_legend(picture, bars), *_grid([(foot - scale * tick, f"{tick:g}%") for tick in ticks], right)]
    for column, bar in enumerate(bars.bars):
        height, x = scale * bar.value, _LEFT + step * (column + 0.45)
        parts.append(_rect(_LEFT + step * column, foot - height, step * 0.9, height))
        if bar.interval is not None:
            low, high = (foot - scale * end for end in bar.interval)
            parts.append(_rule("range", (x, low), (x, high)))
        if bar.measured is not None:
            parts.append(_dot("range", x, foot - scale * bar.measured, 2 if step < 8 else 3))
    count = len(bars.bars)
    named = [(0, "start"), (count // 2, "middle"), (count - 1, "end")]
    for column, anchor in named if count > 8 else [(place, "middle") for place in range(count)]:
        parts.append(_text(_LEFT + step * (column + 0.45), foot + 18, bars.bars[column].label, anchor))
    return _svg(picture, foot + 34, parts)


def line_chart(picture: Picture, lines: Lines) -> Markup:
    """Return lines with their bands, each with its name beside its end, or below a narrow drawing."""
    is_narrow = picture.width < _NARROW
    top = _top(picture) + (14 if lines.cap else 0)  # for the name of the cap
    foot, right = top + _HEIGHT, picture.width - (_RIGHT if is_narrow else _NAMES)
    low, high = lines.reach
    ticks = _ticks(low, high)
    last = max(1.0, *(line.points[-1][0] for line in lines.lines), len(lines.places) - 1.0)
    across, scale = (right - _LEFT) / last, _HEIGHT / (ticks[-1] - ticks[0])

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + across * x, foot - scale * (y - ticks[0])

    parts = [*_grid([(place(0, tick)[1], _tick_text(tick, lines.unit)) for tick in ticks], right)]
    if lines.cap is not None:
        y = place(0, lines.cap.level)[1]
        parts += [_rule("cap", (_LEFT, y), (right, y)), _text(_LEFT + 4, y - 4, lines.cap.name, "start")]
    names = []
    for line in lines.lines:
        placed = [place(x, y) for x, y in line.corners]
        parts += [*_band(line, place), f'<polyline class="{line.kind}" points="{_points(placed)}"/>']
        parts.append(_dot(line.kind, *placed[-1], 4))
        names.append((placed[-1][1], line))
    if not is_narrow:
        parts += _names_beside(names, right, foot)
    for x, text, anchor in _marks(lines, last if any(len(line.points) > 1 for line in lines.lines) else 0.0):
        parts.append(_text(_LEFT + across * x, foot + 18, text, anchor))
    parts.append(_text((_LEFT + right) / 2, foot + 36, lines.axis, "middle"))
    foot += 44
    named = [line for line in lines.lines if line.name and is_narrow]
    return _svg(picture, foot + _NAMED * len(named), [*parts, *_names_below(named, foot)])


def _band(line: Line, place: Callable[[float, float], tuple[float, float]]) -> Iterator[str]:
    """Yield the area of a line's ranges, over the points that have one; nothing where none has."""
    every = max(1, -(-len(line.band) // _MOST_POINTS))
    kept = [*line.band[:-1:every], *line.band[-1:]]
    if kept:
        edge = [place(x, high) for x, _, high in kept] + [place(x, low) for x, low, _ in reversed(kept)]
        yield f'<polygon class="band {line.kind}" points="{_points(edge)}"/>'


def _points(placed: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)


def _marks(lines: Lines, last: float) -> Iterator[tuple[float, str, str]]:
    """Yield where texts stand below the axis, what they are, and how they are placed."""
    if not lines.places:
        yield from ((x, f"{x:,.0f}", "middle") for x in ((0.0, last) if last > 0 else (0.0,)))
        return
    most = len(lines.places) - 1
    chosen = sorted({round(most * part / (_MARKS - 1)) for part in range(_MARKS)})
    if max(len(lines.places[x]) for x in chosen) > 10:  # long ones at both ends alone
        chosen = sorted({0, most})
    for x in chosen:
        yield x, lines.places[x], "end" if 0 < x == most else "start" if x == 0 < most else "middle"


def _names_below(lines: Sequence[Line], foot: float) -> Iterator[str]:
    """Yield a sample of each line and its name, below each other."""
    for row, line in enumerate(lines):
        y = foot + _NAMED * row + 8
        yield _rule(line.kind, (4, y), (26, y))
        yield _text(32, y + 4, line.name, "start")


def _names_beside(ends: Sequence[tuple[float, Line]], right: float, foot: float) -> Iterator[str]:
    """Yield a sample of each line and its name, beside where it ends: from below, and never too close."""
    below = foot + _APART
    for end, line in sorted(ends, key=lambda one: (one[0], one[1].name), reverse=True):
        below = min(end, below - _APART)
        yield _rule(line.kind, (right + 8, below), (right + 30, below))
        yield _text(right + 36, below + 4, line.name, "start")


def _legend(picture: Picture, bars: Bars) -> Iterator[str]:
    if not bars.range:
        return
    y = _top(picture, bars) - 18
    yield _rect(4, y - 6, 22, 12)
    yield _text(32, y + 4, "the model", "start")
    if bars.is_measured:
        ranged = any(bar.interval is not None for bar in bars.bars)
        if ranged:
            yield _rule("range", (117, y), (139, y))
        yield _dot("range", 128, y)
        yield _text(145, y + 4, bars.range if ranged else "measured", "start")


def _grid(marks: Sequence[tuple[float, str]], right: float) -> Iterator[str]:
    for y, text in marks:
        yield _rule("grid", (_LEFT, y), (right, y))
        yield _text(_LEFT - 6, y + 4, text, "end")


def _tick_text(tick: float, unit: str) -> str:
    """Return the number of a line of the grid; long ones are told in thousands and millions."""
    if unit == "%" or abs(tick) < 10_000:
        return f"{tick:g}{unit}"
    return f"{tick / 1e6:g}M{unit}" if abs(tick) >= 1e6 else f"{tick / 1e3:g}k{unit}"


def _ticks(low: float, high: float) -> list[float]:
    """Return four to seven round numbers, from below the least that is drawn to beyond the largest."""
    most = high - low
    if not most > 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(most / 5))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor * 5 >= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * place, 12) for place in range(first, last + 1)]


def _rule(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    return (
        f'<line class="{kind}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'
    )


def _rect(x: float, y: float, width: float, height: float, kind: str = "model") -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _dot(kind: str, x: float, y: float, radius: int = 3) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _top(picture: Picture, bars: Bars | None = None) -> float:
    """Return where the drawing begins, below the texts and the legend."""
    return 32 + (18 if picture.headline else 0) + (22 if bars is not None and bars.range else 0)


def standalone(drawing: Markup, style: str) -> str:
    """Return a drawing as a file of its own."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" '
    return str(drawing).replace("<svg ", head, 1).replace(">", f"><style>{style}</style>", 1)


def _svg(picture: Picture, height: float, parts: Sequence[str]) -> Markup:
    """Return a picture; its title and its description are what a screen reader says."""
    head = [("headline", picture.headline)] if picture.headline else []
    lines = [*head, ("what", picture.line)]
    texts = (
        f'<text class="{kind}" x="4" y="{16 + 18 * row}">{escaped(text)}</text>'
        for row, (kind, text) in enumerate(lines)
    )
    return markup(
        f'<svg role="img" viewBox="0 0 {picture.width} {height:g}">'
        f"<title>{escaped(': '.join(text for _, text in lines))}</title>"
        f"<desc>{escaped(picture.description)}</desc>{''.join(texts)}{''.join(parts)}</svg>"
    )


_CELL, _LOW, _EDGE = 180, 16, 3  # pixels: of a drawing in a cell of a table; beside it
# Seen on white and on black: those of pages, in the middle between light and dark.
_FILL, _RANGE, _FULL = "#6fa6cd", "#c8553d", "#9aa4ae"


def drawn_table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: Sequence[tuple[str, Sequence[Bar | None]]],
    more: str = "",
) -> Markup:
    """Return a table with a column of bars for each of its columns of numbers, each on its own scale."""
    reaches = [_reach(bars) for _, bars in columns]
    drawn = [
        [_bar(bars[row], reach) for (_, bars), reach in zip(columns, reaches, strict=True)]
        for row in range(len(rows))
    ]
    titles = [
        f"{title}, {_short(low)} to {_short(high)}"
        for (title, _), (low, high) in zip(columns, reaches, strict=True)
    ]
    below = paragraph(more) if more else markup("")
    return table(caption, [*header, *titles], rows, drawn=drawn) + below


def meter(share: float, text: str) -> Markup:
    """Return how much of a whole is used, as a bar with words beside it.

    Args:
        share: the part that is used, in [0, 1].
    """
    inner = _CELL - 2 * _EDGE
    used = inner * min(1.0, max(0.0, share))
    parts = [
        f'<rect x="{_EDGE}" y="2" width="{inner}" height="{_LOW - 4}" fill="none" stroke="{_FULL}"/>',
        f'<rect x="{_EDGE}" y="2" width="{used:.1f}" height="{_LOW - 4}" fill="{_FILL}"/>',
    ]
    return markup(f"<p>{_drawing(parts)} {escaped(text)}</p>")


def _reach(bars: Sequence[Bar | None]) -> tuple[float, float]:
    """Return from where to where finite numbers and ends go, zero included."""
    numbers = [0.0]
    for bar in bars:
        if bar is not None:
            numbers += [one for one in (bar.value, *(bar.interval or ())) if math.isfinite(one)]
    return min(numbers), max(numbers)


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _bar(bar: Bar | None, reach: tuple[float, float]) -> Markup:
    if bar is None or not math.isfinite(bar.value):
        return markup("")
    low, high = reach
    scale = (_CELL - 2 * _EDGE) / (high - low or 1.0)

    def place(value: float) -> float:
        return _EDGE + scale * (min(max(value, low), high) - low)

    first, last = sorted((place(0.0), place(bar.value)))
    width, middle = max(1.0, last - first), _LOW / 2
    parts = [f'<rect x="{first:.1f}" y="3" width="{width:.1f}" height="{_LOW - 6}" fill="{_FILL}"/>']
    if bar.interval is not None:
        start, end = map(place, bar.interval)
        strokes = [f"M{start:.1f} {middle:g}H{end:.1f}"]
        ends = zip((start, end), bar.interval, strict=True)  # one without an end has no stroke there
        strokes += [f"M{x:.1f} {middle - 4:g}v8" for x, number in ends if math.isfinite(number)]
        parts.append(f'<path d="{"".join(strokes)}" stroke="{_RANGE}" stroke-width="1.5" fill="none"/>')
    return _drawing(parts)


def _drawing(parts: Sequence[str]) -> Markup:
    """Return a drawing that screen readers leave out, since its numbers stand beside it."""
    size = f'width="{_CELL}" height="{_LOW}" viewBox="0 0 {_CELL} {_LOW}"'
    return markup(f'<svg aria-hidden="true" {size} style="vertical-align:middle">{"".join(parts)}</svg>')
