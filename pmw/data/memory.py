"""Tables of this machine: packed cell numbers per record, counted by ``bincount``.

They are in memory, or in a scratch file where they exceed a limit. Counts are the same.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.data.intake import Intake
from pmw.data.packed import PackedRecords, pack, packed_digest
from pmw.data.people import Bound
from pmw.data.scratch import MemoryLimit
from pmw.data.source import Bins, CountSource
from pmw.errors import DataError
from queries.domain import Domain
from queries.errors import RecordsError
from queries.person import Person
from queries.records import CodedRecords
from queries.schema import format_schema

if TYPE_CHECKING:
    import pandas as pd


class MemorySource(CountSource):
    """A table of cell numbers.

    Args:
        records: the cells of each kept record.
        bound: how they were bounded; None where no persons are declared.
        binned: a domain whose cells are bins of the declared ones, and the bin of each cell; None counts
            declared cells.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_bound", "_records")

    def __init__(
        self,
        records: CodedRecords | PackedRecords,
        bound: Bound | None = None,
        binned: tuple[Domain, Bins] | None = None,
    ) -> None:
        super().__init__(records.domain, binned)
        if isinstance(records, CodedRecords):
            records = PackedRecords(records.domain, (pack(records.domain, records.columns),))
        self._records = records
        self._bound = bound

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        domain: Domain,
        key: bytes | None = None,
        limit: MemoryLimit | None = None,
    ) -> MemorySource:
        """Return the source of a pandas table.

        Args:
            frame: the table.
            domain: the declared attributes, and persons.
            key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
                declared.
            limit: how much memory the records may take, besides the pandas table; None for the usual.

        Raises:
            DataError: a declared column is absent, or persons are declared and there is no key.
        """
        intake = Intake(domain, key, limit)
        try:
            intake.add(frame)
            return cls(*intake.finish())
        except RecordsError as error:
            raise DataError(str(error)) from None

    def is_bounded(self, person: Person | None, key: bytes | None) -> bool:
        """Tell whether the records were bounded so: by this declaration, under this key, or not at all."""
        bound = self._bound
        return person is None if bound is None else (bound.person, bound.key) == (person, key)

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Count several scopes in one reading, where the records are in a file; else each when asked for.

        Privacy: exact and secret; nothing is returned.

        Raises:
            DataError: the file cannot be read.
        """
        if self._records.limit is not None:
            super().prepare(scopes)

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain and the cells of the records, in any order; where persons are
        declared, of all records before any was left out, and of their ids.

        Raises:
            DataError: the records are in a file, and the disk is full, or fails.
        """
        digest = hmac.new(key, format_schema(self.domain).encode(), hashlib.sha256)
        own = None if self._bound is None else self._bound.identity
        digest.update(packed_digest(self._records) if own is None else own)
        return digest.digest()

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        counted = [np.zeros(self.domain.scope_size(scope), dtype=np.int64) for scope in scopes]
        looked_up = [(scope, counts) for scope, counts in zip(scopes, counted, strict=True) if scope]
        if looked_up:
            for found in self._records.several_sums([self._summands(scope) for scope, _ in looked_up]):
                for (_, counts), cells in zip(looked_up, found, strict=True):
                    _add_up(counts, cells)
        for scope, counts in zip(scopes, counted, strict=True):
            if not scope:
                counts[0] = len(self._records)
        return counted

    def _summands(self, scope: tuple[str, ...]) -> list[NDArray[np.int64] | None]:
        """Return what each cell of an attribute adds to the number of a cell of the scope."""
        tables: list[NDArray[np.int64] | None] = [None] * len(self.domain)
        for place, bin_, stride in self._strides(scope):
            cells = np.arange(self._declared.shape[place]) if bin_ is None else bin_.astype(np.int64)
            tables[place] = cells * stride
        return tables

    def _over(self, coarse: Domain, bins: Bins) -> MemorySource:
        return MemorySource(self._records, binned=(coarse, bins))


def _add_up(counts: NDArray[np.int64], cells: NDArray[np.int64]) -> None:
    """Add the number of records in each cell to counts."""
    if len(cells) < len(counts):
        np.add.at(counts, cells, 1)  # else an array of all cells would be made for each block
    else:
        counts += np.bincount(cells, minlength=len(counts))
