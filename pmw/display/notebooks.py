"""Notebooks: tables with their bars drawn, as HTML that needs no style sheet, script or address."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pmw.display.charts import Bar
from pmw.display.elements import escaped, markup, paragraph, table

if TYPE_CHECKING:
    from markupsafe import Markup

_WIDTH, _HEIGHT, _EDGE = 180, 16, 3  # pixels: of a drawing; beside it
# Seen on white and on black: those of pages, in the middle between light and dark.
_FILL, _RANGE, _FULL = "#6fa6cd", "#c8553d", "#9aa4ae"


def drawn_table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: Sequence[tuple[str, Sequence[Bar | None]]],
    more: str = "",
) -> Markup:
    """Return a table with a column of bars for each of its columns of numbers, each on its own scale.

    Args:
        columns: of bars, each with its title and a bar for each row, None where there is no number.
        more: a line below it, such as how many rows are shown; empty for none.
    """
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
    inner = _WIDTH - 2 * _EDGE
    used = inner * min(1.0, max(0.0, share))
    parts = [
        f'<rect x="{_EDGE}" y="2" width="{inner}" height="{_HEIGHT - 4}" fill="none" stroke="{_FULL}"/>',
        f'<rect x="{_EDGE}" y="2" width="{used:.1f}" height="{_HEIGHT - 4}" fill="{_FILL}"/>',
    ]
    return markup(f"<p>{_svg(parts)} {escaped(text)}</p>")


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
    scale = (_WIDTH - 2 * _EDGE) / (high - low or 1.0)

    def place(value: float) -> float:
        return _EDGE + scale * (min(max(value, low), high) - low)

    first, last = sorted((place(0.0), place(bar.value)))
    width, middle = max(1.0, last - first), _HEIGHT / 2
    parts = [f'<rect x="{first:.1f}" y="3" width="{width:.1f}" height="{_HEIGHT - 6}" fill="{_FILL}"/>']
    if bar.interval is not None:
        start, end = map(place, bar.interval)
        strokes = [f"M{start:.1f} {middle:g}H{end:.1f}"]
        ends = zip((start, end), bar.interval, strict=True)  # one without an end has no stroke there
        strokes += [f"M{x:.1f} {middle - 4:g}v8" for x, number in ends if math.isfinite(number)]
        parts.append(f'<path d="{"".join(strokes)}" stroke="{_RANGE}" stroke-width="1.5" fill="none"/>')
    return _svg(parts)


def _svg(parts: Sequence[str]) -> Markup:
    """Return a drawing that screen readers leave out, since its numbers stand beside it."""
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return markup(f'<svg aria-hidden="true" {size} style="vertical-align:middle">{"".join(parts)}</svg>')
