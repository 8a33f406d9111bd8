"""Charts: bars and lines as inline SVG, each with a headline and a text alternative."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pmw.public.report.elements import escaped

__all__ = [
    "bar_chart",
    "Bars",
    "column_chart",
    "Line",
    "line_chart",
    "Picture",
]

_WIDTH = 640  # units of the picture; a unit is a pixel where the page is wide enough
_TOP, _RIGHT = 68, 26  # below the headline; beside the drawing
_ROW, _HEIGHT = 24, 220
_LEFT = 58  # numbers beside an axis
_LABEL = 190  # names beside bars
_LINE = '<line class="{kind}" x1="{{x}}" x2="{{end}}" y1="{{y}}" y2="{{y}}"/>'
_DOT = '<circle class="measured" cx="{middle}" cy="{y}" r="3"/>'
_SAMPLES = {  # of the styles in a legend
    "bar": '<rect class="model" x="{x}" y="{top}" width="22" height="12"/>',
    "dot": _DOT,
    "range": _LINE.format(kind="measured") + _DOT,
    "model": _LINE.format(kind="model-line"),
    "measured": _LINE.format(kind="measured dashed"),
}


@dataclass(frozen=True, slots=True)
class Picture:
    """What every picture says of itself.

    Args:
        headline: the table and its epsilon.
        title: what the picture shows.
        description: what is to be seen in it, in words.
    """

    headline: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of the model, and what was measured.

    Args:
        labels: a text per bar; of columns, at both ends and in the middle.
        model: how long each bar is, in percent.
        measured: the number that was measured; None where none was.
        half_width: what its noise stays within, in percent; NaN where no range is drawn.
        range: what dots and the lines through them are, in words.
    """

    labels: Sequence[str]
    model: Sequence[float]
    measured: Sequence[float] | None
    half_width: float
    range: str = "measured"

    @property
    def ends(self) -> list[tuple[float, float, float]]:
        """Of each measured number where its range begins, where it lies and where it ends, from 0 on."""
        width = 0.0 if math.isnan(self.half_width) else self.half_width
        return [(max(0.0, one - width), max(0.0, one), max(0.0, one + width)) for one in self.measured or ()]

    @property
    def most(self) -> float:
        """The farthest that anything reaches."""
        return max((*self.model, *(high for _, _, high in self.ends)), default=0.0)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart.

    Args:
        name: what it shows.
        kind: the class of its style: model or measured.
        points: its corners, as (x, y), the first coordinate never decreasing.
    """

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


def bar_chart(picture: Picture, bars: Bars) -> str:
    """Return bars from left to right, one for each name."""
    height = _TOP + _ROW * len(bars.labels) + 34
    ticks = _ticks(bars.most)
    scale = (_WIDTH - _LABEL - _RIGHT) / ticks[-1]
    foot = height - 30
    parts = [
        f'<line class="grid" x1="{_LABEL + scale * tick:.1f}" x2="{_LABEL + scale * tick:.1f}" y1="{_TOP}" '
        f'y2="{foot}"/>' + _text(_LABEL + scale * tick, foot + 16, f"{tick:g}%", "middle")
        for tick in ticks
    ]
    for place, (label, value) in enumerate(zip(bars.labels, bars.model, strict=True)):
        y = _TOP + _ROW * place
        parts.append(_text(_LABEL - 8, y + 16, label, "end"))
        parts.append(
            f'<rect class="model" x="{_LABEL}" y="{y + 4}" width="{scale * value:.1f}" height="{_ROW - 8}"/>'
        )
    for place, (low, middle, high) in enumerate(bars.ends):
        across = f'y1="{_TOP + _ROW * (place + 0.5)}" y2="{_TOP + _ROW * (place + 0.5)}"'
        x = [round(_LABEL + scale * value, 1) for value in (low, middle, high)]
        parts.append(
            f'<line class="measured" x1="{x[0]}" x2="{x[2]}" {across}/>'
            f'<circle class="measured" cx="{x[1]}" cy="{_TOP + _ROW * (place + 0.5)}" r="3"/>'
        )
    return _svg(picture, height, [*_legend(_keys(bars)), *parts])


def column_chart(picture: Picture, bars: Bars) -> str:
    """Return columns beside each other, in their order, with texts below both ends and the middle."""
    height, ticks = _TOP + _HEIGHT + 34, _ticks(bars.most)
    scale, step = _HEIGHT / ticks[-1], (_WIDTH - _LEFT - _RIGHT) / len(bars.model)
    foot = _TOP + _HEIGHT
    parts = [*_grid(ticks, scale, foot)]
    parts += [
        f'<rect class="model" x="{_LEFT + step * place:.1f}" y="{foot - scale * value:.1f}" '
        f'width="{step * 0.9:.2f}" height="{scale * value:.1f}"/>'
        for place, value in enumerate(bars.model)
    ]
    for place, (low, middle, high) in enumerate(bars.ends):
        x = _LEFT + step * (place + 0.45)
        parts.append(
            f'<line class="measured" x1="{x:.1f}" x2="{x:.1f}" y1="{foot - scale * low:.1f}" '
            f'y2="{foot - scale * high:.1f}"/><circle class="measured" cx="{x:.1f}" '
            f'cy="{foot - scale * middle:.1f}" r="{2 if step < 8 else 3}"/>'
        )
    parts += [
        _text(_LEFT + step * (place + 0.45), foot + 18, bars.labels[place], anchor)
        for place, anchor in _named(len(bars.labels))
    ]
    return _svg(picture, height, [*_legend(_keys(bars)), *parts])


def line_chart(picture: Picture, lines: Sequence[Line], axis: str, cap: float | None = None) -> str:
    """Return lines over the number of questions.

    Args:
        picture: of it.
        lines: in percent; none has no point.
        axis: what is counted from left to right.
        cap: a level that is marked, in percent; None for none.
    """
    height, last = _TOP + _HEIGHT + 44, max((x for line in lines for x, _ in line.points), default=0.0)
    ticks = _ticks(max((cap or 0.0, *(y for line in lines for _, y in line.points))))
    across, scale = (_WIDTH - _LEFT - _RIGHT) / max(1.0, last), _HEIGHT / ticks[-1]
    foot = _TOP + _HEIGHT
    parts = [*_legend([(line.name, line.kind) for line in lines]), *_grid(ticks, scale, foot)]
    if cap is not None:
        y = foot - scale * cap
        parts.append(f'<line class="cap" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for line in lines:
        corners = [f"{_LEFT + across * x:.1f},{foot - scale * y:.1f}" for x, y in line.points]
        end_x, end_y = corners[-1].split(",")
        parts.append(f'<polyline class="{line.kind}" points="{" ".join(corners)}"/>')
        parts.append(f'<circle class="{line.kind}" cx="{end_x}" cy="{end_y}" r="4"/>')
    for place in (0.0, last) if last > 0 else (0.0,):
        parts.append(_text(_LEFT + across * place, foot + 18, f"{place:,.0f}", "middle"))
    parts.append(_text((_LEFT + _WIDTH) / 2, foot + 36, axis, "middle"))
    return _svg(picture, height, parts)


def _keys(bars: Bars) -> list[tuple[str, str]]:
    """Return what is drawn, and in which style."""
    if bars.measured is None:
        return [("the model", "bar")]
    alone = math.isnan(bars.half_width)
    return [("the model", "bar"), ("measured", "dot") if alone else (bars.range, "range")]


def _legend(keys: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a sample of each style, and its name."""
    x, y = 4.0, 50
    for name, style in keys:
        yield _SAMPLES[style].format(x=x, end=x + 22, middle=x + 11, y=y, top=y - 6)
        yield _text(x + 28, y + 4, name, "start")
        x += 50 + 7 * len(name)


def _named(columns: int) -> Iterator[tuple[int, str]]:
    """Yield the columns that have a text below them, and where it begins."""
    if columns <= 8:
        yield from ((place, "middle") for place in range(columns))
        return
    yield from ((0, "start"), (columns // 2, "middle"), (columns - 1, "end"))


def _grid(ticks: Sequence[float], scale: float, foot: float) -> Iterator[str]:
    for tick in ticks:
        y = foot - scale * tick
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 6, y + 4, f"{tick:g}%", "end")


def _ticks(most: float) -> list[float]:
    """Return four to six round numbers from 0 to beyond the largest that is drawn."""
    if not most > 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(most / 5))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor * 5 >= most)
    return [round(step * place, 12) for place in range(math.ceil(most / step - 1e-9) + 1)]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _svg(picture: Picture, height: float, parts: Sequence[str]) -> str:
    """Return a picture; its title and its description are what a screen reader says."""
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height:g}">'
        f"<title>{escaped(f'{picture.headline}: {picture.title}')}</title>"
        f"<desc>{escaped(picture.description)}</desc>"
        f'<text class="headline" x="4" y="16">{escaped(picture.headline)}</text>'
        f'<text class="what" x="4" y="34">{escaped(picture.title)}</text>'
        f"{''.join(parts)}</svg>"
    )
