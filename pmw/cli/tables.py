"""Tables that are not where a session remembers them."""

from __future__ import annotations

from pathlib import Path

from pmw.books import remembered_table
from pmw.data import TableFile

__all__ = [
    "moved_table",
]


def moved_table(session: Path, data: Path) -> TableFile:
    """Return a session's table at its new place, in the dialect that the session remembers."""
    remembered = remembered_table(session)
    return TableFile(data) if remembered is None else TableFile(data, remembered.dialect)
