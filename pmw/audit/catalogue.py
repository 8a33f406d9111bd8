"""The catalogue: every mechanism of the audit by name, the sound ones first."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pmw.audit.broken import flawed_entries
from pmw.audit.entries import Entry
from pmw.audit.family import family_entries
from pmw.audit.sound import sound_entries
from pmw.errors import BudgetError

__all__ = [
    "catalogue",
    "chosen",
]


def catalogue() -> Mapping[str, Entry]:
    """Return every mechanism by name."""
    entries = [*sound_entries(), *family_entries(), *flawed_entries()]
    return {entry.name: entry for entry in entries}


def chosen(names: Sequence[str]) -> tuple[Entry, ...]:
    """Return the mechanisms of these names, all of them where none is given.

    Raises:
        BudgetError: a name is not in the catalogue.
    """
    known = catalogue()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise BudgetError(f"expected the name of a mechanism, got {name!r}{hint}")
    return tuple(known[name] for name in dict.fromkeys(names)) if names else tuple(known.values())
