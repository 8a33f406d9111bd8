"""Intake: the records of a table, part by part, into the cells that a session counts.

Every source goes through here, so that all of them drop and bound alike: first records are dropped, each by
its own values, then, where the domain declares persons, at most K of each are kept (``pmw.data.people``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.data.people import Bound, PeopleRecords, Roster, keep_bounded
from pmw.errors import DataError
from queries.domain import Domain
from queries.records import CodedRecords, encode_columns, named_column
from queries.values import DROPPED

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "holds_malformed",
    "Intake",
]


class Intake:
    """Takes in a table part by part.

    Args:
        domain: the declared attributes, and persons.
        key: 32 bytes, secret, that choose which records of a person are kept; None where the domain declares
            no persons.

    Raises:
        DataError: there is no key, or no number of records, and persons are declared.
    """

    def __init__(self, domain: Domain, key: bytes | None) -> None:
        self._domain, self._key = domain, key
        self._columns: list[tuple[NDArray[np.unsignedinteger], ...]] = []
        self._roster: Roster | None = None
        if domain.person is not None:
            if key is None or domain.person.records is None:
                raise DataError(
                    f"expected a key and a number of records per person, since {domain.name!r} declares the "
                    f"column {domain.person.column!r} of ids, got none; open a session on the table itself"
                )
            self._roster = Roster(domain.person, key)

    def add(self, frame: pd.DataFrame) -> None:
        """Take in the records of a part.

        Raises:
            RecordsError: it is no pandas table, or a declared column is absent or stands there twice.
        """
        codes = encode_columns(frame, self._domain)
        kept = np.ones(len(frame), dtype=bool)
        for column in codes:
            kept &= column != DROPPED
        if self._roster is not None and self._domain.person is not None:
            ids = named_column(frame, self._domain.person.column)
            kept[kept] = self._roster.add(ids if kept.all() else ids[kept])
        self._columns.append(
            tuple(
                column[kept].astype(np.min_scalar_type(attribute.size - 1))
                for attribute, column in zip(self._domain, codes, strict=True)
            )
        )

    def add_malformed(self, count: int) -> None:
        """Take in so many records that cannot be read: all their values are undeclared."""
        if count and holds_malformed(self._domain):
            self._columns.append(
                tuple(
                    np.full(count, attribute.other_code, dtype=np.min_scalar_type(attribute.size - 1))
                    for attribute in self._domain
                )
            )

    def finish(self) -> tuple[CodedRecords, Bound | None]:
        """Return the records that a session counts, and how they were bounded, if they were."""
        records, person = self._joined(), self._domain.person
        if self._roster is None or person is None or person.records is None or self._key is None:
            return records, None
        found = PeopleRecords(records, *self._roster.finish())
        return keep_bounded(found, person.records), Bound(person, self._key, found.identity())

    def _joined(self) -> CodedRecords:
        columns = []
        for position, attribute in enumerate(self._domain):
            dtype = np.min_scalar_type(attribute.size - 1)
            pieces = [part[position] for part in self._columns]
            columns.append(np.concatenate([np.empty(0, dtype=dtype), *pieces]))
        self._columns = []
        return CodedRecords(self._domain, tuple(columns))


def holds_malformed(domain: Domain) -> bool:
    """Return whether a record that cannot be read has a cell, which it never has where it needs a person."""
    return domain.person is None and all(attribute.other for attribute in domain)
