"""Intake: the records of a table, part by part, into the cells that a session counts.

Every source goes through here, so that all of them drop and bound alike: first records are dropped, each by
its own values, then, where the domain declares persons, at most K of each are kept (``pmw.data.people``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.engine_columns import require_ids
from pmw.data.memory_limit import MemoryLimit
from pmw.data.packed import BlockKeeper, PackedRecords, pack
from pmw.data.people import Bound, Roster
from pmw.data.people_intake import PeopleIntake
from pmw.errors import DataError
from queries.domain import Domain
from queries.records import encode_columns, named_column, require_frame
from queries.values import DROPPED

if TYPE_CHECKING:
    import pandas as pd


class Intake:
    """Takes in a table part by part.

    Args:
        domain: the declared attributes, and persons.
        key: 32 bytes, secret, that choose which records of a person are kept; None where the domain declares
            no persons.
        limit: how much memory the records may take; None for the usual.

    Raises:
        DataError: there is no key, or no number of records, and persons are declared.
    """

    def __init__(self, domain: Domain, key: bytes | None, limit: MemoryLimit | None = None) -> None:
        self._domain, person = domain, domain.person
        limit = limit or MemoryLimit()
        self._people: PeopleIntake | None = None
        if person is not None:
            if key is None or person.records is None:
                raise DataError(
                    f"expected a key and a number of records per person, since {domain.name!r} declares the "
                    f"column {person.column!r} of ids, got none; open a session on the table itself"
                )
            self._people = PeopleIntake(domain, person, key, limit)
        self._kept = BlockKeeper(domain, limit)

    def add(self, frame: pd.DataFrame) -> None:
        """Take in the records of a part.

        Raises:
            RecordsError: it is no pandas table, or a declared column is absent or stands there twice.
            DataError: the column of ids is of a type that is refused; or the records exceed the limit, and
                the disk is full, or fails.
        """
        people = self._people
        codes = kept_codes(frame, self._domain, None if people is None else people.roster)
        (self._kept if people is None else people).add(pack(self._domain, codes))

    def add_malformed(self, count: int) -> None:
        """Take in so many records that cannot be read: all their values are undeclared."""
        if count and holds_malformed(self._domain):
            codes = [np.full(count, attribute.other_code) for attribute in self._domain]
            self._kept.add(pack(self._domain, codes))

    def finish(self) -> tuple[PackedRecords, Bound | None]:
        """Return the records that a session counts, and how they were bounded, if they were.

        Raises:
            DataError: the records exceed the limit, and the disk is full, or fails.
        """
        return (self._kept.finish(), None) if self._people is None else self._people.finish()


def kept_codes(frame: pd.DataFrame, domain: Domain, roster: Roster | None) -> tuple[NDArray[np.int64], ...]:
    """Return the cells of the records that are not dropped: one array per attribute, shape (kept records,).

    Args:
        frame: some records.
        domain: the declared attributes, and persons.
        roster: takes in whose the kept records are; None where no persons are declared.

    Raises:
        RecordsError: it is no pandas table, or a declared column is absent or stands there twice.
        DataError: the column of ids is of a type that is refused.
    """
    require_frame(frame)
    person = domain.person
    ids = None if person is None else named_column(frame, person.column)
    if person is not None and ids is not None:
        require_ids("the table", domain, {person.column: _declared_kind(ids.dtype)})
    codes = encode_columns(frame, domain)
    kept = np.ones(len(frame), dtype=bool)
    for column in codes:
        kept &= column != DROPPED
    if roster is not None and ids is not None:
        kept[kept] = roster.add(ids if kept.all() else ids[kept])
    return codes if kept.all() else tuple(column[kept] for column in codes)


def _declared_kind(dtype: Any) -> str:
    """Return the type of a column of pandas; where it lists its values, or leaves empty ones out, theirs."""
    categories = getattr(dtype, "categories", None)
    kind = str(dtype if categories is None else categories.dtype)
    return kind.removeprefix("Sparse[").removeprefix("dictionary<values=")


def holds_malformed(domain: Domain) -> bool:
    """Return whether a record that cannot be read has a cell, which it never has where it needs a person."""
    return domain.person is None and all(attribute.other for attribute in domain)
