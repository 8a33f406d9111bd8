"""Letters: names may be in any script, and a picture shows those that some installed font has."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "draw_letters",
    "MissingLettersWarning",
]

_MISSING = re.compile(r"Glyph (\d+) .*missing from font")
_UNJOINED = re.compile(r"Matplotlib currently does not support (.+) natively")


class MissingLettersWarning(UserWarning):
    """A picture has boxes in place of letters that no installed font has, or letters that are not joined."""


def draw_letters(figure: Figure, draw: Callable[[], object]) -> str | None:
    """Draw a figure; where its font lacks letters, draw it again with installed fonts that have them.

    Args:
        figure: its texts get the further fonts.
        draw: draws it, and may be called twice.

    Returns:
        Which letters are missing still, or not joined as their script is written; None where all is well.
    """
    letters, unjoined = _drawn(draw)
    if letters:
        fonts = _fonts_with(letters)
        if fonts:
            _add_fonts(figure, fonts)
            letters, unjoined = _drawn(draw)
    told = []
    if letters:
        told.append(f"boxes stand for {_scripts(letters)} letters, which no installed font has; install one")
    if unjoined:
        told.append(
            f"{' and '.join(sorted(unjoined))} letters stand side by side, not joined as they are written"
        )
    return f"in the picture {'; '.join(told)}" if told else None


def _drawn(draw: Callable[[], object]) -> tuple[set[int], set[str]]:
    """Draw; return the letters that no font had, and the scripts that were not joined."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw()
    letters: set[int] = set()
    unjoined: set[str] = set()
    others = []
    for one in caught:
        text = str(one.message)
        if found := _MISSING.search(text):
            letters.add(int(found[1]))
        elif found := _UNJOINED.search(text):
            unjoined.add(found[1])
        else:
            others.append(one)
    for one in others:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return letters, unjoined


def _fonts_with(letters: set[int]) -> list[str]:
    """Return the names of installed fonts that together have as many of the letters as any have."""
    wanted, chosen = set(letters), []
    for name, known in _installed_fonts():
        if wanted & known:
            chosen.append(name)
            wanted -= known
        if not wanted:
            break
    return chosen


def _installed_fonts() -> Iterator[tuple[str, set[int]]]:
    """Yield each installed font's name and its letters; fonts that cannot be read are left out."""
    from matplotlib.font_manager import fontManager, get_font

    seen = set()
    for entry in fontManager.ttflist:
        if entry.name in seen or "last" in entry.name.lower():  # a font of last resort has boxes alone
            continue
        seen.add(entry.name)
        try:
            yield entry.name, set(get_font(entry.fname).get_charmap())
        except (OSError, RuntimeError):
            continue


def _add_fonts(figure: Figure, names: Sequence[str]) -> None:
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_fontfamily([*text.get_fontfamily(), *names])


def _scripts(letters: set[int]) -> str:
    """Return the scripts of letters, such as ``CJK and Arabic``."""
    words = {unicodedata.name(chr(letter), "other").split()[0].split("-")[0] for letter in letters}
    return " and ".join(sorted(word if word == "CJK" else word.capitalize() for word in words))
