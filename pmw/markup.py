"""Markup: small texts and tables for terminals and notebooks, made of public texts."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = [
    "counted",
    "html_paragraph",
    "html_table",
    "text_table",
]


def counted(number: float | str, noun: str) -> str:
    """Return a number with its noun, such as ``1 record`` and ``2,000 records``.

    Args:
        number: rounded to a whole number; or its text.
        noun: of one of them.
    """
    text = number if isinstance(number, str) else f"{number:,.0f}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0) -> str:
    """Return an aligned table: the first ``left`` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [
            f"{cell:<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


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
