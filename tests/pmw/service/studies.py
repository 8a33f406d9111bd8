"""The session that the tests of a service share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pmw
from pmw.data import TableFile
from queries import Domain, IntegerAttribute
from tests import worlds


def opened_study(folder: Path) -> Path:
    """Return the file of a new session over the people in a file, by single years."""
    worlds.PEOPLE.frame.to_csv(folder / "people.csv", index=False)
    table, path = TableFile(folder / "people.csv"), folder / "study.pmw"
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)  # so that something is left to pay for
    age, *others = worlds.WHOLE_YEARS.domain
    assert isinstance(age, IntegerAttribute)
    domain = Domain((replace(age, resolution=1), *others), name="people")  # whose years are summed on request
    pmw.open_session(table, domain, epsilon=1, delta=1e-9, path=path, options=options).close()
    return path
