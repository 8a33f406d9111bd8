"""Elements: the pieces of HTML that pages and notebooks share; every text in them is escaped.

Their library is imported when a piece is made, for commands without pages start without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

_FEW_ROWS = 12  # of a table that is printed on one page
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*(e[-+]?[0-9]+)?%?$")
_NO_NUMBER = ("", "\N{EN DASH}", "none", "refused")  # what stands where one is missing


def markup(text: str) -> Markup:
    """Return HTML in which every text is escaped already, as templates take it."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - see above


def escaped(text: str) -> Markup:
    """Return a text as HTML and as XML take it, also inside quotes: what neither may hold is replaced."""
    from markupsafe import escape

    return escape("".join(map(_allowed, text)))


def _allowed(letter: str) -> str:
    code = ord(letter)
    plain = letter in "\t\n" or 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code <= 0xFFFD
    return letter if plain or code >= 0x10000 else "\N{REPLACEMENT CHARACTER}"


def paragraph(text: str) -> Markup:
    """Return one paragraph."""
    return markup(f"<p>{escaped(text)}</p>")


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int | None = None,
    drawn: Sequence[Sequence[Markup]] = (),
) -> Markup:
    """Return a table; the first cell of a row is its heading.

    Args:
        header: a title per column; none where the rows speak for themselves.
        left: how many columns hold texts, the others numbers; None for those in which something does not
            begin as a number.
        drawn: what stands behind the texts of each row; its titles are the last of the header.
    """
    columns = range(len(rows[0]) if rows else len(header))
    kinds = [' class="text"' if _is_text(rows, place, left) else "" for place in columns]
    titles = (
        f'<th scope="col"{kind}>{escaped(title)}</th>'
        for title, kind in zip_longest(header, kinds[: len(header)], fillvalue="")
    )
    head = f"<thead><tr>{''.join(titles)}</tr></thead>" if header else ""
    behind = zip_longest(rows, ("".join(f"<td>{one}</td>" for one in cells) for cells in drawn), fillvalue="")
    body = "".join(f"<tr>{_row(row, kinds)}{cells}</tr>" for row, cells in behind)
    return markup(f"<table><caption>{escaped(caption)}</caption>{head}<tbody>{body}</tbody></table>")


def scrolled_table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int | None = None
) -> Markup:
    """Return a table of a page, which scrolls where it is wider than the screen; see ``table``."""
    kind = "wide whole" if len(rows) <= _FEW_ROWS else "wide"
    region = f'<div class="{kind}" role="region" tabindex="0" aria-label="{escaped(caption)}">'
    return markup(f"{region}{table(caption, header, rows, left)}</div>")


def _is_text(rows: Sequence[Sequence[str]], place: int, left: int | None) -> bool:
    if left is not None or not rows:
        return place < (left or 1)
    return any(row[place] not in _NO_NUMBER and not _NUMBER.match(row[place]) for row in rows)


def _row(row: Sequence[str], kinds: Sequence[str]) -> str:
    first, *others = (f"{kind}>{escaped(text)}" for text, kind in zip(row, kinds, strict=True))
    return f'<th scope="row"{first}</th>' + "".join(f"<td{other}</td>" for other in others)
