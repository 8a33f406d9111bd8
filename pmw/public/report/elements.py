"""Elements: the few pieces of HTML that a report is made of; every text in them is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

__all__ = [
    "escaped",
    "heading",
    "isolated",
    "number",
    "paragraph",
    "percent",
    "points",
    "section",
    "table",
]

_FEW_ROWS = 12  # of a table that is printed on one page
_MOST_LETTERS = 200  # of a text that somebody else wrote


def escaped(text: str) -> str:
    """Return a text as HTML and as XML take it, also inside quotes: what neither may hold is replaced."""
    return html.escape("".join(map(_allowed, text)), quote=True)


def _allowed(letter: str) -> str:
    code = ord(letter)
    plain = letter in "\t\n" or 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code <= 0xFFFD
    return letter if plain or code >= 0x10000 else "\N{REPLACEMENT CHARACTER}"


def isolated(text: str) -> str:
    """Return a name that somebody chose, so that its direction of writing changes nothing around it."""
    shown = text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"
    return f"\N{FIRST STRONG ISOLATE}{shown}\N{POP DIRECTIONAL ISOLATE}"


def number(value: float) -> str:
    """Return a number of records: whole from 10 on, else two digits; “none” where there is none."""
    if math.isnan(value):
        return "none"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def percent(fraction: float) -> str:
    """Return a fraction as a percentage of about three digits; “none” where there is none."""
    if math.isnan(fraction):
        return "none"
    share = 100 * fraction
    digits = 0 if share >= 100 else 1 if share >= 1 or share == 0 else 1 - math.floor(math.log10(share))
    return f"{share:.{min(digits, 6)}f}%"


def heading(level: int, text: str) -> str:
    """Return a heading of a level."""
    return f"<h{level}>{escaped(text)}</h{level}>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph.

    Args:
        text: of it.
        kind: the class of its style; none where it is empty.
    """
    return f'<p class="{kind}">{escaped(text)}</p>' if kind else f"<p>{escaped(text)}</p>"


def points(texts: Iterable[str]) -> str:
    """Return a list of texts."""
    return "<ul>" + "".join(f"<li>{escaped(text)}</li>" for text in texts) + "</ul>"


def section(parts: Iterable[str]) -> str:
    """Return pieces that belong together."""
    return f"<section>{''.join(parts)}</section>"


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return a table; the first cell of a row is its heading.

    Args:
        caption: what it shows.
        header: a title per column.
        rows: a text per column each.
        left: how many columns hold texts; the others hold numbers.
    """
    kinds = [' class="text"' if place < left else "" for place in range(len(header))]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(title)}</th>' for title, kind in zip(header, kinds, strict=True)
    )
    body = "".join(f"<tr>{_row(row, kinds)}</tr>" for row in rows)
    kind = "wide whole" if len(rows) <= _FEW_ROWS else "wide"
    return (
        f'<div class="{kind}" role="region" tabindex="0" aria-label="{escaped(caption)}">'
        f"<table><caption>{escaped(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[str], kinds: Sequence[str]) -> str:
    first, *others = (f"{kind}>{escaped(text)}" for text, kind in zip(row, kinds, strict=True))
    return f'<th scope="row"{first}</th>' + "".join(f"<td{other}</td>" for other in others)
