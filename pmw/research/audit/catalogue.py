"""The catalogue: every mechanism of the audit by name, the sound ones first."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pmw.errors import BudgetError
from pmw.research.audit.broken import flawed_entries
from pmw.research.audit.entries import Entry
from pmw.research.audit.family import family_entries
from pmw.research.audit.sound import sound_entries


def catalogue() -> Mapping[str, Entry]:
    """Return every mechanism by name."""
    entries = [*sound_entries(), *family_entries(), *flawed_entries()]
    return {entry.name: entry for entry in entries}


def chosen(names: Sequence[str], *, runs_only: bool = False) -> tuple[Entry, ...]:
    """Return the mechanisms of these names, all of them where none is given.

    Args:
        names: as in the catalogue.
        runs_only: only mechanisms that the statistical audit runs.

    Raises:
        BudgetError: a name is not in the catalogue, or its mechanism is never run.
    """
    known = catalogue()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise BudgetError(f"expected the name of a mechanism, got {name!r}{hint}")
        if runs_only and known[name].draw is None:
            raise BudgetError(f"expected mechanisms that are run, got {name!r}, which is only enumerated")
    if names:
        return tuple(known[name] for name in dict.fromkeys(names))
    return tuple(entry for entry in known.values() if entry.draw is not None or not runs_only)
