"""History: where the questions of a terminal are kept."""

from __future__ import annotations

import os
from pathlib import Path


def history_path() -> Path | None:
    """Return the file of the user's state directory; None where the user has no home.

    Source: XDG Base Directory Specification 0.8: a relative ``XDG_STATE_HOME`` is ignored.
    """
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        state = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "pmw" / "history"
