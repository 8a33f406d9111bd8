"""Tables in memory: small cell numbers per record, counted by ``bincount``."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.data.intake import Intake
from pmw.data.people import Bound, cell_words, multiset_digest
from pmw.errors import DataError
from queries.domain import Domain
from queries.errors import RecordsError
from queries.marginal import Marginal
from queries.person import Person
from queries.records import CodedRecords
from queries.schema import format_schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MemorySource",
]

_MOST_CACHED_CELLS = 2**24
_LARGEST_SCOPE = 2**28  # cells of one marginal


class MemorySource:
    """A table of cell numbers in memory.

    Marginals that were counted are kept, so that asking again about a scope reads no record.

    Args:
        records: the cells of each kept record.
        bound: how they were bounded; None where no persons are declared.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_bound", "_cached", "_cached_cells", "_records")

    def __init__(self, records: CodedRecords, bound: Bound | None = None) -> None:
        self._records = records
        self._bound = bound
        self._cached: OrderedDict[tuple[str, ...], Marginal] = OrderedDict()
        self._cached_cells = 0

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, domain: Domain, key: bytes | None = None) -> MemorySource:
        """Return the source of a pandas table.

        Args:
            frame: the table.
            domain: the declared attributes, and persons.
            key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
                declared.

        Raises:
            DataError: a declared column is absent, or persons are declared and there is no key.
        """
        intake = Intake(domain, key)
        try:
            intake.add(frame)
            return cls(*intake.finish())
        except RecordsError as error:
            raise DataError(str(error)) from None

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self._records.domain

    def is_bounded(self, person: Person | None, key: bytes | None) -> bool:
        """Tell whether the records were bounded so: by this declaration, under this key, or not at all."""
        bound = self._bound
        return person is None if bound is None else (bound.person, bound.key) == (person, key)

    def counts(self, scope: Sequence[str]) -> Marginal:
        """Return the exact records per cell over a scope.

        Privacy: exact and secret; see ``CountSource.counts``.

        Raises:
            DataError: the scope has more cells than fit in memory.
        """
        wanted = self.domain.scope(scope)
        marginal = self._cached.get(wanted)
        if marginal is None:
            marginal = self._count(wanted)
            self._remember(marginal)
        else:
            self._cached.move_to_end(wanted)
        return marginal

    def coarsened(self, coarse: Domain, bins: Sequence[NDArray[np.int64] | None]) -> MemorySource:
        """Return the source of the same records over a domain whose cells are bins of this one's.

        Columns that are not binned are shared, not copied. Coarse counts are kept like others.

        Args:
            coarse: attributes of the same names in the same order, one cell per bin.
            bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept as
                it is. A function of public numbers.

        Privacy: the new source holds true data as this one does. A record has one cell before and after, so
            one person moves its counts as far; nothing is released here.

        Raises:
            DataError: the bins do not fit the two domains.
        """
        if coarse.names != self.domain.names or len(bins) != len(self.domain):
            raise DataError("expected a coarse domain and bins of the same attributes")
        columns = []
        for position, (column, bin_) in enumerate(zip(self._records.columns, bins, strict=True)):
            size, coarse_size = self.domain.shape[position], coarse.shape[position]
            if bin_ is None:
                fits = size == coarse_size
                columns.append(column)
            else:
                fits = bin_.shape == (size,) and int(bin_.min()) >= 0 and int(bin_.max()) < coarse_size
                if fits:
                    columns.append(bin_.astype(np.min_scalar_type(coarse_size - 1))[column])
            if not fits:
                raise DataError(f"expected bins that fit attribute {self.domain.names[position]!r}")
        return MemorySource(CodedRecords(coarse, tuple(columns)))

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain and the cells of the records, in any order; where persons are
        declared, of all records before any was left out, and of their ids.
        """
        digest = hmac.new(key, format_schema(self.domain).encode(), hashlib.sha256)
        own = None if self._bound is None else self._bound.identity
        digest.update(multiset_digest(cell_words(self._records)) if own is None else own)
        return digest.digest()

    def _count(self, scope: tuple[str, ...]) -> Marginal:
        size = self.domain.scope_size(scope)
        if size > _LARGEST_SCOPE:
            raise DataError(
                f"a question over {', '.join(scope)} spans {size:,} cells; at most {_LARGEST_SCOPE:,} fit"
            )
        cells = np.zeros(len(self._records), dtype=np.int64)
        for name in scope:
            position = self.domain.index(name)
            cells *= self.domain.shape[position]
            cells += self._records.columns[position]
        counts: NDArray[np.int64] = np.bincount(cells, minlength=size).astype(np.int64)
        return Marginal(self.domain, scope, counts.reshape(self.domain.scope_shape(scope)))

    def _remember(self, marginal: Marginal) -> None:
        self._cached[marginal.scope] = marginal
        self._cached_cells += marginal.counts.size
        while self._cached_cells > _MOST_CACHED_CELLS and len(self._cached) > 1:
            _, oldest = self._cached.popitem(last=False)
            self._cached_cells -= oldest.counts.size

    def __repr__(self) -> str:
        return f"MemorySource({self.domain.name!r}, records not shown)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DataError("a sensitive table cannot be copied or pickled")
