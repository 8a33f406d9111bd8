"""The session that the tests of a service share."""

from __future__ import annotations

from pathlib import Path

import pmw
from pmw.data import TableFile
from queries import Domain
from tests import worlds


def opened_study(folder: Path, domain: Domain) -> Path:
    """Return the file of a new session over the people in a file."""
    worlds.PEOPLE.frame.to_csv(folder / "people.csv", index=False)
    path = folder / "study.pmw"
    pmw.open_session(TableFile(folder / "people.csv"), domain, epsilon=1, delta=1e-9, path=path).close()
    return path
