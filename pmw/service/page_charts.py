"""Charts of the page, as SVG: bars with their intervals, and what was spent. Each text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pmw.public.ledger import LedgerLine
from pmw.public.report.elements import escaped, percent

__all__ = [
    "Bar",
    "bars_chart",
    "spending_chart",
]

_WIDTH = 480  # narrow enough for texts that can be read on a phone
_TOP, _LABEL, _ROW, _RIGHT = 28, 130, 26, 80  # of bars
_MOST_BARS, _MOST_LETTERS = 40, 18
_LEFT, _END, _FOOT, _HEIGHT = 42, 296, 250, 210  # of lines; their names are beside them
_MOST_LINES = 6  # named ones; the style sheet has a colour and a dash for each
_APART = 16  # between the names of lines


@dataclass(frozen=True, slots=True)
class Bar:
    """One number of a chart.

    Args:
        label: what it is about.
        text: the number as it is written.
        value: the number.
        interval: its ends; None where nothing is promised.
    """

    label: str
    text: str
    value: float
    interval: tuple[float, float] | None

    @property
    def ends(self) -> tuple[float, float]:
        """From where to where it is drawn, zero included."""
        values = (0.0, self.value, *(self.interval or ()))
        return min(values), max(values)


def bars_chart(title: str, bars: Sequence[Bar]) -> Markup:
    """Return bars with their intervals; empty where there is nothing to draw.

    Args:
        title: what is to be seen.
        bars: the first 40 that are finite are drawn.
    """
    finite = [bar for bar in bars if all(map(math.isfinite, (bar.value, *(bar.interval or ()))))]
    drawn = finite[:_MOST_BARS]
    low = min((bar.ends[0] for bar in drawn), default=0.0)
    most = max((bar.ends[1] for bar in drawn), default=0.0) - low
    if not most > 0:
        return Markup("")
    scale = (_WIDTH - _LABEL - _RIGHT) / most
    parts = [_text(0, 16, title, "start")]
    parts += [_bar(bar, _TOP + _ROW * place, low, scale) for place, bar in enumerate(drawn)]
    told = "; ".join(
        f"{bar.label}: {bar.text}"
        + ("" if bar.interval is None else f", {bar.interval[0]:,.6g} to {bar.interval[1]:,.6g}")
        for bar in drawn
    )
    more = f" The first {_MOST_BARS} of {len(finite):,}." if len(finite) > len(drawn) else ""
    return _svg(f"{title}.{more}", told, _TOP + _ROW * len(drawn) + 4, parts)


def _bar(bar: Bar, y: float, low: float, scale: float) -> str:
    def place(value: float) -> float:
        return _LABEL + scale * (value - low)

    first, last = sorted((place(0.0), place(bar.value)))
    parts = [
        _text(_LABEL - 8, y + 16, _short(bar.label), "end"),
        f'<rect class="bar" x="{first:.1f}" y="{y + 3}" width="{last - first:.1f}" height="{_ROW - 9}"/>',
    ]
    if bar.interval is not None:
        left, right = map(place, bar.interval)
        middle = y + _ROW / 2 - 1
        parts.append(f'<path class="range" d="M{left:.1f} {middle - 5}v10M{left:.1f} {middle}H{right:.1f}'
                     f'M{right:.1f} {middle - 5}v10"/>')  # fmt: skip
    return "".join([*parts, _text(place(bar.ends[1]) + 6, y + 16, bar.text, "start")])


def spending_chart(title: str, lines: Sequence[LedgerLine], named: Sequence[Mapping[str, float]]) -> Markup:
    """Return what was spent in all and under each name, over the charges; empty where there is none.

    Args:
        title: what is to be seen.
        lines: of a ledger, in order.
        named: of each line, what its parts are drawn under; the six names that spent most are drawn.
    """
    spent: dict[str, float] = {}
    for line, own in zip(lines, named, strict=True):
        for name, part in own.items():
            spent[name] = spent.get(name, 0.0) + part * line.share
    first = sorted(spent, key=lambda name: -spent[name])[:_MOST_LINES]
    drawn = [(name, f"line-{place}", _running(lines, named, name)) for place, name in enumerate(first)]
    if len(spent) > 1:
        drawn.insert(0, ("in all", "all", [line.running_share for line in lines]))
    if not drawn:
        return Markup("")
    across = (_END - _LEFT) / len(lines)
    parts = [
        _text(0, 16, title, "start"),
        *_grid(),
        _text(_END, _FOOT + 18, f"{len(lines):,} charges", "end"),
    ]
    for _, kind, heights in drawn:
        corners = (f"{_LEFT + across * x:.1f},{_height(y):.1f}" for x, y in enumerate((0.0, *heights)))
        parts.append(f'<polyline class="{kind}" points="{" ".join(corners)}"/>')
    ends = [(_height(heights[-1]), name, kind) for name, kind, heights in drawn]
    told = "; ".join(f"{name}: {percent(heights[-1])}" for name, _, heights in drawn)
    more = f" The {_MOST_LINES} largest of {len(spent):,}." if len(spent) > len(first) else ""
    return _svg(f"{title}.{more}", told, _FOOT + 28, [*parts, *_names_beside(ends)])


def _grid() -> Iterator[str]:
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _height(part)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_END}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 6, y + 4, f"{part:.0%}", "end")


def _names_beside(ends: Sequence[tuple[float, str, str]]) -> Iterator[str]:
    """Yield a sample of each line and its name, beside where it ends: from below, and never too close."""
    below = float(_FOOT + _APART)
    for end, name, kind in sorted(ends, reverse=True):
        below = min(end, below - _APART)
        yield f'<line class="{kind}" x1="{_END + 4}" x2="{_END + 28}" y1="{below:.1f}" y2="{below:.1f}"/>'
        yield _text(_END + 34, below + 4, _short(name), "start")


def _height(part: float) -> float:
    return _FOOT - _HEIGHT * part


def _short(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def _running(lines: Sequence[LedgerLine], named: Sequence[Mapping[str, float]], name: str) -> list[float]:
    total, found = 0.0, []
    for line, own in zip(lines, named, strict=True):
        total += line.share * own.get(name, 0.0)
        found.append(total)
    return found


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _svg(title: str, told: str, height: float, parts: Sequence[str]) -> Markup:
    """Return a picture; its title and its description are what a screen reader says."""
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height:g}"><title>{escaped(title)}</title>'
        f"<desc>{escaped(told)}</desc>{''.join(parts)}</svg>"
    )
