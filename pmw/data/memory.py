"""Tables of this machine: packed cell numbers per record, counted by ``bincount``.

They are in memory, or in a scratch file where they exceed a limit. Counts are the same.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.data.bins import require_bins
from pmw.data.digests import packed_digest
from pmw.data.intake import Intake
from pmw.data.memory_limit import MemoryLimit
from pmw.data.packed import PackedRecords, pack
from pmw.data.people import Bound
from pmw.errors import DataError
from queries.cells import cell_count
from queries.domain import Domain
from queries.errors import RecordsError
from queries.marginal import Marginal
from queries.person import Person
from queries.records import CodedRecords
from queries.schema import format_schema

if TYPE_CHECKING:
    import pandas as pd

_MOST_CACHED_CELLS = 2**24
_MOST_AT_ONCE = 2**24  # cells of several marginals that are counted in one reading
_LARGEST_SCOPE = 2**28  # cells of one marginal


class MemorySource:
    """A table of cell numbers.

    Marginals that were counted are kept, so that asking again about a scope, or about a part of it, reads no
    record.

    Args:
        records: the cells of each kept record.
        bound: how they were bounded; None where no persons are declared.
        coarsened: a domain whose cells are bins of the declared ones, and the bin of each cell; None counts
            declared cells.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_bound", "_cached", "_cached_cells", "_coarsened", "_records")

    def __init__(
        self,
        records: CodedRecords | PackedRecords,
        bound: Bound | None = None,
        coarsened: tuple[Domain, Sequence[NDArray[np.int64] | None]] | None = None,
    ) -> None:
        if isinstance(records, CodedRecords):
            records = PackedRecords(records.domain, (pack(records.domain, records.columns),))
        self._records = records
        self._bound = bound
        self._coarsened = coarsened
        self._cached: OrderedDict[tuple[str, ...], Marginal] = OrderedDict()
        self._cached_cells = 0

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

    @property
    def domain(self) -> Domain:
        """The declared attributes, or bins of them."""
        return self._records.domain if self._coarsened is None else self._coarsened[0]

    def is_bounded(self, person: Person | None, key: bytes | None) -> bool:
        """Tell whether the records were bounded so: by this declaration, under this key, or not at all."""
        bound = self._bound
        return person is None if bound is None else (bound.person, bound.key) == (person, key)

    def counts(self, scope: Sequence[str]) -> Marginal:
        """Return the exact records per cell over a scope.

        Privacy: exact and secret; see ``CountSource.counts``.

        Raises:
            DataError: the scope has more cells than fit in memory, or the records' file cannot be read.
        """
        wanted = self.domain.scope(scope)
        marginal = self._cached.get(wanted)
        if marginal is None:
            derived = self._derived(wanted)
            self._remember(self._count([wanted])[0] if derived is None else derived)
            return self._cached[wanted]
        self._cached.move_to_end(wanted)
        return marginal

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Count several scopes in one reading, where the records are in a file; else each when asked for.

        Privacy: exact and secret; nothing is returned.

        Raises:
            DataError: the file cannot be read.
        """
        if self._records.limit is None:
            return
        wanted = [
            scope for scope in dict.fromkeys(map(self.domain.scope, scopes)) if self._derived(scope) is None
        ]
        if len(wanted) > 1 and sum(map(self.domain.scope_size, wanted)) <= _MOST_AT_ONCE:
            for marginal in self._count(wanted):
                self._remember(marginal)

    def coarsened(self, coarse: Domain, bins: Sequence[NDArray[np.int64] | None]) -> MemorySource:
        """Return the source of the same records over a domain whose cells are bins of this one's.

        Records are shared, not copied. Coarse counts are kept like others.

        Args:
            coarse: attributes of the same names in the same order, one cell per bin.
            bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept as
                it is. A function of public numbers.

        Privacy: the new source holds true data as this one does. A record has one cell before and after, so
            one person moves its counts as far; nothing is released here.

        Raises:
            DataError: the bins do not fit the two domains.
        """
        require_bins(self.domain, coarse, bins)
        if self._coarsened is not None:
            raise DataError("expected a table over its declared cells, got one over bins of them")
        return MemorySource(self._records, coarsened=(coarse, tuple(bins)))

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

    def _derived(self, scope: tuple[str, ...]) -> Marginal | None:
        """Return the counts as sums of the fewest counts that are kept; None where there are none."""
        wider = [known for known in self._cached.values() if set(scope) <= set(known.scope)]
        return min(wider, key=lambda known: known.counts.size).project(scope) if wider else None

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> list[Marginal]:
        """Return the counts over scopes, of one reading of the records."""
        for scope in scopes:
            size = self.domain.scope_size(scope)
            if size > _LARGEST_SCOPE:
                raise DataError(
                    f"a question over {', '.join(scope)} spans {cell_count(size)} cells; "
                    f"at most {_LARGEST_SCOPE:,} fit"
                )
        counted = [np.zeros(self.domain.scope_size(scope), dtype=np.int64) for scope in scopes]
        looked_up = [(scope, counts) for scope, counts in zip(scopes, counted, strict=True) if scope]
        if looked_up:
            for found in self._records.several_sums([self._strides(scope) for scope, _ in looked_up]):
                for (_, counts), cells in zip(looked_up, found, strict=True):
                    _add_up(counts, cells)
        marginals = []
        for scope, counts in zip(scopes, counted, strict=True):
            if not scope:
                counts[0] = len(self._records)
            marginals.append(Marginal(self.domain, scope, counts.reshape(self.domain.scope_shape(scope))))
        return marginals

    def _strides(self, scope: tuple[str, ...]) -> list[NDArray[np.int64] | None]:
        """Return what each cell of an attribute adds to the number of a cell of the scope."""
        bins = [None] * len(self.domain) if self._coarsened is None else self._coarsened[1]
        tables: list[NDArray[np.int64] | None] = []
        for attribute, bin_, declared in zip(self.domain, bins, self._records.domain.shape, strict=True):
            if attribute.name not in scope:
                tables.append(None)
                continue
            later = scope[scope.index(attribute.name) + 1 :]
            cells = np.arange(declared, dtype=np.int64) if bin_ is None else bin_.astype(np.int64)
            tables.append(cells * self.domain.scope_size(later))
        return tables

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


def _add_up(counts: NDArray[np.int64], cells: NDArray[np.int64]) -> None:
    """Add the number of records in each cell to counts."""
    if len(cells) < len(counts):
        np.add.at(counts, cells, 1)  # else an array of all cells would be made for each block
    else:
        counts += np.bincount(cells, minlength=len(counts))
