"""Markup: small texts and tables for terminals and notebooks, made of public texts."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = [
    "counted",
    "html_paragraph",
    "html_table",
    "installed_by",
    "text_table",
]

_NARROWEST = 8  # characters of a text that is cut


def counted(number: float | str, noun: str) -> str:
    """Return a number with its noun, such as ``1 record`` and ``2,000 records``.

    Args:
        number: rounded to a whole number; or its text.
        noun: of one of them.
    """
    text = number if isinstance(number, str) else f"{number:,.0f}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def installed_by(extra: str) -> str:
    """Return the command that installs what an extra of the package needs; it runs in a checkout."""
    return f"in a checkout, pip install '.[{extra}]'"


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0, width: int | None = None
) -> str:
    """Return an aligned table: the first ``left`` columns to the left, the others to the right.

    Args:
        header: a title per column.
        rows: a text per column each.
        left: how many columns hold texts; the others hold numbers.
        width: characters of a line, where there is a limit. A table that is wider has its texts cut, at an
            ellipsis; where that is not enough, each row becomes a record with a line per column. Numbers
            are never cut.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    fitted = _fitted(widths, left, width)
    if fitted is None:
        records = ("\n".join(map(_named, header, row)) for row in rows)
        return "\n\n".join(records)
    lines = []
    for row in (header, *rows):
        cells = [
            f"{_cut(cell, width):<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, fitted, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _fitted(widths: Sequence[int], left: int, most: int | None) -> list[int] | None:
    """Return the widths of columns that come to so many characters at most; None where texts would vanish."""
    fitted = list(widths)
    excess = 0 if most is None else sum(fitted) + 2 * (len(fitted) - 1) - most
    while excess > 0:
        widest = max(range(left), key=fitted.__getitem__, default=None)
        if widest is None or fitted[widest] <= _NARROWEST:
            return None
        fitted[widest] -= 1
        excess -= 1
    return fitted


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _named(title: str, cell: str) -> str:
    return f"{title}: {cell}"


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """Return a table for a notebook; every text is escaped."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    row = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    return f"<table><caption>{html.escape(caption)}</caption>{row}<tbody>{body}</tbody></table>"


def html_paragraph(text: str) -> str:
    """Return one paragraph for a notebook; the text is escaped."""
    return f"<p>{html.escape(text)}</p>"
