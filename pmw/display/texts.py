"""Texts: numbers, names and tables as people read them, in a terminal or on a page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction

_NARROWEST = 8  # characters of a text that is cut
_MOST_LETTERS = 200  # of a text that somebody else wrote


def counted(number: float | str, noun: str) -> str:
    """Return a number with its noun, such as ``1 record`` and ``2,000 records``."""
    text = number if isinstance(number, str) else f"{number:,.0f}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def listed(parts: Sequence[str]) -> str:
    """Return parts with commas, and an "and" before the last."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def installed_by(extra: str) -> str:
    """Return what to do where a package of an extra is missing: its name, and the command in a checkout."""
    return f"install the extra {extra!r} (in a checkout: pip install '.[{extra}]')"


def budget_words(epsilon: float | Fraction, delta: float | Fraction, sign: str = " ", digits: int = 6) -> str:
    """Return the numbers of a guarantee, but for a delta of 0, such as ``epsilon 1, delta 1e-09``."""
    told = (("epsilon", epsilon), ("delta", delta))
    return ", ".join(f"{name}{sign}{float(value):.{digits}g}" for name, value in told if value)


def isolated(text: str) -> str:
    """Return a name that somebody chose, so that its direction of writing changes nothing around it."""
    return f"\N{FIRST STRONG ISOLATE}{shortened(text, _MOST_LETTERS)}\N{POP DIRECTIONAL ISOLATE}"


def shown_name(name: str) -> str:
    """Return a name that the schema has, in quotes where it would not be seen as it is."""
    return name if name.isprintable() and name.strip() == name != "" else repr(name)


def terminal_text(text: str) -> str:
    """Return a text for a terminal: what cannot be seen in it but lines, such as the escapes that a terminal
    acts on and marks of direction, stands there as JSON writes it."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


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


def at_most_percent(fraction: float) -> str:
    """Return a fraction as a percentage, rounded up, with as many digits as tell it from certainty."""
    missing = 100 * (1 - fraction)
    if missing < 1e-6:
        return "100%"
    digits = 1 if missing >= 1 else 1 - math.floor(math.log10(missing))
    return f"{100 - math.floor(missing * 10**digits) / 10**digits:.{digits}f}%"


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 0, width: int | None = None
) -> str:
    """Return an aligned table: the first ``left`` columns to the left, the others to the right.

    Args:
        width: characters of a line, where there is a limit. A table that is wider has its texts cut, at an
            ellipsis; where that is not enough, each row becomes a record with a line per column. Numbers
            are never cut.
    """
    header, *rows = ([terminal_text(one).replace("\n", "\\n") for one in row] for row in (header, *rows))
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    fitted = _fitted(widths, left, width)
    if fitted is None:
        pairs = (zip(header, row, strict=True) for row in rows)
        return "\n\n".join("\n".join(f"{title}: {cell}" for title, cell in record) for record in pairs)
    lines = []
    for row in (header, *rows):
        cells = [
            f"{shortened(cell, width):<{width}}" if place < left else f"{cell:>{width}}"
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


def told_price(price: float) -> float:
    """Return a price as it is told, so that what was told is enough: in hundredths of a per cent, rounded up.

    Args:
        price: a part of the cap.
    """
    return min(1.0, math.ceil(10_000 * price) / 10_000)
