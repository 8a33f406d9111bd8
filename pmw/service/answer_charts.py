"""Charts of answers: bars with intervals, or lines with bands; each says how many of how many it draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from pmw.display.charts import Bar, Bars, Line, Lines, Picture, bar_chart, line_chart, standalone
from pmw.display.elements import markup
from pmw.display.templates import style_sheet
from pmw.display.texts import counted, shortened
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable, Key, key_text, number_texts
from queries.frozen import dataclass

CHART_WIDTH = 360  # of a phone: a unit is a pixel there
_MOST_BARS, _MOST_KINDS, _MOST_POINTS = 40, 6, 400
_FEWEST_POINTS = 3  # of a line
_LABEL, _NAME = 12, 40  # characters beside a bar, and of a name below a chart
_NONE = "\N{EN DASH}"

Orders: TypeAlias = Sequence[Sequence[Key | None]]  # of each key its values in order; nothing for one without
_Keys: TypeAlias = tuple[Key | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of an answer; the caption says how much of how much that is, and what the marks mean."""

    picture: Picture
    panel: Bars | Lines
    caption: str

    def drawing(self) -> str:
        """Return it as a part of a page."""
        if isinstance(self.panel, Bars):
            return bar_chart(self.picture, self.panel)
        return line_chart(self.picture, self.panel)

    def file(self) -> str:
        """Return it as an SVG file."""
        return standalone(markup(self.drawing()), style_sheet("pmw.display", "display.css"))


@dataclass(frozen=True, slots=True)
class _Point:
    row: int
    keys: _Keys
    label: str
    value: float
    text: str
    interval: tuple[float, float] | None


def chart_of_count(label: str, value: float, text: str, interval: tuple[float, float] | None) -> list[Chart]:
    """Return the chart of one count; none where it has no number."""
    point = _Point(0, (), label, value, text, _finite(interval))
    return _bars_of("count", [point], 1) if math.isfinite(value) else []


def charts_of_table(table: AnswerTable) -> list[Chart]:
    """Return a chart for each aggregate of a table; none where nothing can be drawn."""
    orders = [table.ordered.get(name, ()) for name in table.keys]
    found: list[Chart] = []
    for place, title in enumerate(table.titles):
        points = [
            point
            for row in range(len(table))
            if not (table.totals and table.totals[row])
            and (point := _point(table, row, table.rows[row][1][place], title)) is not None
        ]
        axis = _axis(points, orders)
        found += (
            _bars_of(title, points, len(table))
            if axis is None
            else _lines_of(table, title, points, axis, orders)
        )
    return found


def _point(table: AnswerTable, row: int, one: Estimate, title: str) -> _Point | None:
    if one.value is None or not math.isfinite(one.value):
        return None
    text, _, _ = number_texts(one, _NONE, whole=title in table.whole)
    label = " · ".join(table.labels(row)) or title
    return _Point(row, table.rows[row][0], label, one.value, text, _finite(one.interval))


def _finite(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return interval if interval is not None and all(map(math.isfinite, interval)) else None


def _axis(points: Sequence[_Point], orders: Orders) -> int | None:
    """Return which key goes from left to right: of those in order that has most values; None for bars."""
    if not 1 <= len(orders) <= 2:
        return None
    sizes = {
        place: len({point.keys[place] for point in points} & set(order))
        for place, order in enumerate(orders)
        if order
    }
    best = max(sizes, key=lambda place: sizes[place], default=None)
    return best if best is not None and sizes[best] >= _FEWEST_POINTS else None


# --- bars -----------------------------------------------------------------------------------------------


def _bars_of(title: str, points: Sequence[_Point], rows: int) -> list[Chart]:
    drawn = points[:_MOST_BARS]
    names = list(dict.fromkeys(key_text(point.keys[1]) for point in drawn if len(point.keys) == 2))
    coloured = 1 < len(names) <= _MOST_KINDS
    kinds = {name: f"group-{place}" for place, name in enumerate(names)} if coloured else {}
    bars = Bars(
        tuple(
            Bar(
                shortened(key_text(point.keys[0]) if kinds else point.label, _LABEL),
                point.value,
                point.text,
                interval=point.interval,
                kind=kinds[key_text(point.keys[1])] if kinds else "model",
            )
            for point in drawn
        ),
        groups=tuple((kind, shortened(name, _NAME)) for name, kind in kinds.items()),
    )
    if bars.reach == (0.0, 0.0):
        return []
    told = "; ".join(_told(point) for point in drawn)
    picture = Picture("", f"{title} with its intervals", told, width=CHART_WIDTH)
    return [Chart(picture, bars, _caption(len(drawn), rows, "bar"))]


def _told(point: _Point) -> str:
    ends = "" if point.interval is None else f", {point.interval[0]:,.6g} to {point.interval[1]:,.6g}"
    return f"{point.label}: {point.text}{ends}"


def _caption(drawn: int, rows: int, noun: str) -> str:
    marks = {"bar": "Lines across bars are intervals.", "point": "Bands are intervals."}[noun]
    if drawn == rows:
        return f"{'All ' if rows > 1 else ''}{counted(rows, noun)}. {marks}"
    return f"{drawn:,} of {counted(rows, noun)}. {marks}"


# --- lines ----------------------------------------------------------------------------------------------


def _lines_of(
    table: AnswerTable, title: str, points: Sequence[_Point], axis: int, orders: Orders
) -> list[Chart]:
    """Return lines over the values of a key in order, one for each value of the other key."""
    places = {value: place for place, value in enumerate(orders[axis])}
    on_axis = [point for point in points if point.keys[axis] in places]
    first = min(places[point.keys[axis]] for point in on_axis)
    last = max(places[point.keys[axis]] for point in on_axis)
    lines: dict[str, list[_Point]] = {}
    for point in on_axis:
        name = " ".join(key_text(key) for place, key in enumerate(point.keys) if place != axis)
        lines.setdefault(name, []).append(point)
    most = sorted(lines, key=lambda name: -max(abs(point.value) for point in lines[name]))[:_MOST_KINDS]
    chosen = {name: _thinned(lines[name], places, axis) for name in lines if name in most}
    panel = Lines(
        tuple(
            Line(
                shortened(name, _NAME),
                f"line-{place}",
                [(float(places[one.keys[axis]] - first), one.value) for one in own],
                band=[
                    (float(places[one.keys[axis]] - first), *one.interval)
                    for one in own
                    if one.interval is not None
                ],
            )
            for place, (name, own) in enumerate(chosen.items())
        ),
        table.keys[axis],
        unit="",
        places=tuple(shortened(key_text(value), _LABEL) for value in orders[axis][first : last + 1]),
    )
    told = "; ".join(_told(own[end]) for own in chosen.values() for end in (0, -1))
    picture = Picture("", f"{title} by {shortened(table.keys[axis], 20)}", told, width=CHART_WIDTH)
    caption = _caption(sum(map(len, chosen.values())), len(table), "point")
    few = "" if len(chosen) == len(lines) else f"{len(chosen)} of {len(lines):,} lines. "
    return [Chart(picture, panel, few + caption)]


def _thinned(own: Sequence[_Point], places: dict[Key | None, int], axis: int) -> list[_Point]:
    """Return points in order, the last one among them; of very many some are left out."""
    ordered = sorted(own, key=lambda point: places[point.keys[axis]])
    every = max(1, -(-len(ordered) // _MOST_POINTS))
    return [*ordered[:-1:every], ordered[-1]]
