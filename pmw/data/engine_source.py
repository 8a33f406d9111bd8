"""Tables that their database counts: cells are made and counted there, and only grouped counts leave it.

All counts of a process are of one snapshot: one transaction is held open, read-only and repeatable. Where it
is lost, a count fails, and the table is compared again when the session is resumed.

Privacy: what leaves the database is counts over declared cells, or bins of them, and the sums of products of
    cell numbers that the fingerprint is made of. The statements hold declarations alone, and no secret.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data.bins import require_bins
from pmw.data.engine_cells import SqlWords
from pmw.errors import DataError
from queries.cells import cell_count
from queries.domain import Domain
from queries.marginal import Marginal
from queries.person import Person
from queries.schema import format_schema

_LARGEST_SCOPE = 2**24  # cells of one marginal
_MOST_AT_ONCE = 2**22  # cells of several marginals that are counted in one scan
_MOST_CACHED_CELLS = 2**24

_Bins: TypeAlias = Sequence[NDArray[np.int64] | None]
_Rows: TypeAlias = list[tuple[Any, ...]]


class Snapshot(Protocol):
    """One snapshot of a table in an engine."""

    @property
    def words(self) -> SqlWords:
        """How the engine writes expressions."""

    @property
    def table(self) -> str:
        """What stands behind FROM."""

    def rows(self, statement: str) -> _Rows:
        """Return the rows of a statement.

        Raises:
            DataError: the engine fails, or was restarted.
        """


class EngineSource:
    """A table whose records stay in a database.

    Marginals that were counted are kept.

    Args:
        snapshot: what is counted.
        cells: an expression per attribute, of a record's cell, -1 where its value drops the record.
        domain: the declared attributes.
        coarsened: a domain whose cells are bins of the declared ones, and the bin of each cell; None counts
            declared cells.

    Privacy: stands for true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_cached", "_cells", "_coarsened", "_declared", "_snapshot")

    def __init__(
        self,
        snapshot: Snapshot,
        cells: Sequence[str],
        domain: Domain,
        coarsened: tuple[Domain, _Bins] | None = None,
    ) -> None:
        self._snapshot, self._cells, self._declared = snapshot, tuple(cells), domain
        self._coarsened = coarsened
        self._cached: dict[tuple[str, ...], Marginal] = {}

    @property
    def domain(self) -> Domain:
        """The declared attributes, or bins of them."""
        return self._declared if self._coarsened is None else self._coarsened[0]

    def is_bounded(self, person: Person | None, key: bytes | None) -> bool:
        """Tell whether the records were bounded so: no person's are."""
        return person is None

    def counts(self, scope: Sequence[str]) -> Marginal:
        """Return the exact records per cell over a scope.

        Privacy: exact and secret; see ``CountSource.counts``.

        Raises:
            DataError: the scope has too many cells, or the engine fails.
        """
        wanted = self.domain.scope(scope)
        found = self._known(wanted)
        if found is None:
            size = self.domain.scope_size(wanted)
            if size > _LARGEST_SCOPE:
                raise DataError(
                    f"a question over {', '.join(wanted)} spans {cell_count(size)} cells; a database counts "
                    f"at most {_LARGEST_SCOPE:,} for us"
                )
            self._count([wanted])
            found = self._cached[wanted]
        return found

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Count several scopes in one scan.

        Privacy: exact and secret; nothing is returned.

        Raises:
            DataError: the engine fails.
        """
        wanted = [
            scope for scope in dict.fromkeys(map(self.domain.scope, scopes)) if self._known(scope) is None
        ]
        if len(wanted) > 1 and sum(map(self.domain.scope_size, wanted)) <= _MOST_AT_ONCE:
            self._count(wanted)

    def coarsened(self, coarse: Domain, bins: _Bins) -> EngineSource:
        """Return the source of the same records over a domain whose cells are bins of this one's.

        Args:
            coarse: attributes of the same names in the same order, one cell per bin.
            bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept as
                it is. A function of public numbers.

        Privacy: as ``CountSource.coarsened``.

        Raises:
            DataError: the bins do not fit the two domains.
        """
        if self._coarsened is not None:
            raise DataError("expected a table over its declared cells, got one over bins of them")
        require_bins(self.domain, coarse, bins)
        return EngineSource(self._snapshot, self._cells, self._declared, (coarse, tuple(bins)))

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain, the counts over each attribute, and for each two attributes the
        sum of the products of their cells' numbers. Tables that agree in all of these are not told apart. It
        is another than a table that was read has.

        Raises:
            DataError: the engine fails.
        """
        digest = hmac.new(key, format_schema(self.domain).encode() + b" counted inside", hashlib.sha256)
        names = self.domain.names
        alone = [(name,) for name in names]
        if unknown := [scope for scope in alone if scope not in self._cached]:
            self._count(unknown)
        for scope in alone:
            digest.update(self._cached[scope].counts.astype("<i8").tobytes())
        pairs = list(combinations(range(len(names)), 2))
        sums = [f"CAST(sum(c{one} * c{other}) AS text)" for one, other in pairs]
        if sums:
            (found,) = self._snapshot.rows(f"SELECT {', '.join(sums)} FROM {self._kept()} AS kept")  # noqa: S608
            digest.update(" ".join(str(total or 0) for total in found).encode())
        return digest.digest()

    def _kept(self) -> str:
        """Return the records that are not dropped, as a table of cells c0, c1, ..."""
        made = ", ".join(f"CAST({cell} AS bigint) AS c{place}" for place, cell in enumerate(self._cells))
        kept = " AND ".join(f"c{place} >= 0" for place in range(len(self._cells)))
        return f"(SELECT * FROM (SELECT {made} FROM {self._snapshot.table}) AS made WHERE {kept})"  # noqa: S608

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> None:
        numbers = ", ".join(f"{self._number(scope)} AS n{place}" for place, scope in enumerate(scopes))
        sets = ", ".join(f"(n{place})" for place in range(len(scopes)))
        columns = ", ".join(f"n{place}" for place in range(len(scopes)))
        rows = self._snapshot.rows(
            f"SELECT {columns}, count(*) FROM (SELECT {numbers} FROM {self._kept()} AS kept) AS numbered "  # noqa: S608
            f"GROUP BY GROUPING SETS ({sets})"
        )
        counted = [np.zeros(self.domain.scope_size(scope), dtype=np.int64) for scope in scopes]
        for *cells, count in rows:
            (place,) = (place for place, cell in enumerate(cells) if cell is not None)
            counted[place][cells[place]] = count
        for scope, counts in zip(scopes, counted, strict=True):
            self._cached[scope] = Marginal(self.domain, scope, counts.reshape(self.domain.scope_shape(scope)))
        while sum(known.counts.size for known in self._cached.values()) > _MOST_CACHED_CELLS:
            oldest = next(iter(self._cached))
            if oldest in scopes:
                break
            del self._cached[oldest]

    def _number(self, scope: Sequence[str]) -> str:
        """Return the expression for the number of a record's cell; it is made of whole numbers of ours."""
        terms, stride = ["CAST(0 AS bigint)"], 1
        for name in reversed(scope):
            place = self.domain.index(name)
            bin_ = None if self._coarsened is None else self._coarsened[1][place]
            cell = f"c{place}" if bin_ is None else self._snapshot.words.chosen(bin_.tolist(), f"c{place}")
            terms.append(f"{cell} * {stride}")
            stride *= self.domain.shape[place]
        return " + ".join(terms)

    def _known(self, scope: tuple[str, ...]) -> Marginal | None:
        """Return the counts as they, or the fewest wider ones, are kept; None where there are none."""
        if scope in self._cached:
            return self._cached[scope]
        wider = [known for known in self._cached.values() if set(scope) <= set(known.scope)]
        return min(wider, key=lambda known: known.counts.size).project(scope) if wider else None

    def __repr__(self) -> str:
        return f"EngineSource({self.domain.name!r}, records not shown)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DataError("a sensitive table cannot be copied or pickled")
