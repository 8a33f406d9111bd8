"""The count source: the only holder of true counts and sums, and the methods by which they leave it.

Tables in memory, in a database and in Spark differ in how they count. What was counted is kept here for all
of them, and so is how cells lie in bins.
"""

from __future__ import annotations

import abc
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data.people import Bound
from pmw.errors import DataError
from queries.cells import cell_count
from queries.domain import Domain
from queries.marginal import Marginal
from queries.numbers import ValueGrid
from queries.person import Person

Bins: TypeAlias = Sequence[NDArray[np.int64] | None]  # per attribute, the bin of each cell; None keeps it

_MOST_CACHED_CELLS = 2**24


class CountSource(abc.ABC):
    """A sensitive table. ``.counts(``, ``.place_sums(`` and ``.persons(`` are what costs privacy.

    Marginals that were counted are kept, so that asking again about a scope, or about a part of it, reads no
    record.

    Args:
        bound: how the records of persons were bounded; None where no persons are declared.
        binned: a domain whose cells are bins of the declared ones, and the bin of each cell; None counts
            declared cells.

    Privacy: stands for true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_binned", "_bound", "_cached", "_cached_cells", "_declared")

    largest_scope: ClassVar[int] = 2**28  # cells of one marginal
    most_at_once: ClassVar[int] = 2**24  # cells of several marginals that are counted in one reading
    too_large: ClassVar[str] = "at most {:,} fit"

    def __init__(
        self,
        declared: Domain,
        bound: Bound | None = None,
        binned: tuple[Domain, Bins] | None = None,
    ) -> None:
        self._declared, self._bound, self._binned = declared, bound, binned
        self._cached: OrderedDict[tuple[str, ...], Marginal] = OrderedDict()  # newest last
        self._cached_cells = 0

    @property
    def domain(self) -> Domain:
        """The declared attributes, or bins of them."""
        return self._declared if self._binned is None else self._binned[0]

    def is_bounded(self, person: Person | None, key: bytes | None) -> bool:
        """Tell whether the records were bounded so: by this declaration, under this key, or not at all."""
        bound = self._bound
        return person is None if bound is None else (bound.person, bound.key) == (person, key)

    def counts(self, scope: Sequence[str]) -> Marginal:
        """Return the exact records per cell over a scope, in declared order.

        Privacy: exact and secret. One person's records change the counts by at most
            ``records_per_person`` in L1 under add/remove, by twice that under replace-one.
        """
        return self._marginal(self.domain.scope(scope))

    def place_sums(self, scope: Sequence[str], name: str, *, squared: bool = False) -> Marginal:
        """Return the exact sums of the places of an attribute's values on its grid, by the cells of a scope.

        An empty or undeclared value adds nothing.

        Args:
            squared: of each value the square of its distance from the middle of the places is summed instead:
                2^20 at either end, rounded down.

        Returns:
            int64, one axis per attribute of the scope, in declared order.

        Privacy: exact and secret. One record changes one of the sums, by a place of its cell, or by such a
            square.
        """
        wanted = self.domain.scope(scope)
        self._require_few_cells(wanted)
        sums = self._sum(wanted, self._grid(name), squared)
        return Marginal(self.domain, wanted, sums.reshape(self.domain.scope_shape(wanted)))

    @property
    def counts_persons(self) -> bool:
        """Whether it tells persons apart; so much is public."""
        return False

    def persons(self, scope: Sequence[str]) -> Marginal:
        """Return the exact number of persons with a kept record in each cell of a scope, in declared order.

        Privacy: exact and secret. One person is in at most ``records_per_person`` cells, and in one of a
            scope without attributes; so many numbers change by 1 under add/remove, and no more than twice as
            many under replace-one.
        """
        wanted = self.domain.scope(scope)
        self._require_few_cells(wanted)
        return Marginal(self.domain, wanted, self._persons(wanted).reshape(self.domain.scope_shape(wanted)))

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Make ready to count these scopes, which are then counted in one reading.

        Privacy: exact and secret; nothing is returned.
        """
        wanted = [
            scope
            for scope in dict.fromkeys(map(self.domain.scope, scopes))
            if scope not in self._cached and self._wider(scope) is None
        ]
        if len(wanted) > 1 and sum(map(self.domain.scope_size, wanted)) <= self.most_at_once:
            self._read(wanted)

    def coarsened(self, coarse: Domain, bins: Bins) -> CountSource:
        """Return the source of the same records over a domain whose cells are bins of this one's.

        Records are shared, not copied. Coarse counts are kept like others.

        Args:
            bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept as
                it is. A function of public numbers.

        Privacy: the new source holds true data as this one does. A record has one cell before and after, so
            one person moves its counts as far; nothing is released here.
        """
        if self._binned is not None:
            raise DataError("expected a table over its declared cells, got one over bins of them")
        _require_bins(self.domain, coarse, bins)
        return self._over(coarse, tuple(bins))

    @abc.abstractmethod
    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret)."""

    @abc.abstractmethod
    def _count(self, scopes: Sequence[tuple[str, ...]]) -> Iterable[NDArray[np.int64]]:
        """Return the records per cell of each scope, of one reading: int64, shape (cells,) each."""

    @abc.abstractmethod
    def _sum(self, scope: tuple[str, ...], grid: ValueGrid, squared: bool) -> NDArray[np.int64]:
        """Return the sums of the places on a grid per cell of a scope with its attribute: int64, (cells,).

        Or of their ``ValueGrid.squares``.
        """

    def _persons(self, scope: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the persons per cell of a scope: int64, shape (cells,)."""
        del scope
        raise DataError(
            "persons are counted only in tables that are read into this program, of which several records of "
            "each are kept; open the session on a file of the table"
        )

    @abc.abstractmethod
    def _over(self, coarse: Domain, bins: Bins) -> CountSource:
        """Return the source of the same records over bins that fit."""

    def _grid(self, name: str) -> ValueGrid:
        """Return the grid on which an attribute's values are summed; see ``place_sums``."""
        for grid in self._declared.grids:
            if grid.attribute == name:
                return grid
        raise no_values(name)

    def _strides(self, scope: Sequence[str]) -> Iterator[tuple[int, NDArray[np.int64] | None, int]]:
        """Yield how the cells of a scope are numbered: of each of its attributes, the last first, its place,
        the bin of each declared cell (None where it is kept), and what one cell, or bin, adds.
        """
        stride = 1
        for name in reversed(scope):
            place = self.domain.index(name)
            yield place, None if self._binned is None else self._binned[1][place], stride
            stride *= self.domain.shape[place]

    def _marginal(self, scope: tuple[str, ...]) -> Marginal:
        """Return the counts over a scope: as they are kept, as sums of wider ones, or of the records."""
        if scope in self._cached:
            self._cached.move_to_end(scope)
            return self._cached[scope]
        wider = self._wider(scope)
        if wider is not None:
            self._cached.move_to_end(wider.scope)
            marginal = wider.project(scope)
            if self._cached_cells + marginal.counts.size <= _MOST_CACHED_CELLS:  # it pushes no other out
                self._keep(marginal)
            return marginal
        self._require_few_cells(scope)
        self._read([scope])
        return self._cached[scope]

    def _require_few_cells(self, scope: tuple[str, ...]) -> None:
        size = self.domain.scope_size(scope)
        if size > self.largest_scope:
            raise DataError(
                f"a question over {', '.join(scope)} spans {cell_count(size)} cells; "
                f"{self.too_large.format(self.largest_scope)}"
            )

    def _wider(self, scope: tuple[str, ...]) -> Marginal | None:
        """Return the fewest counts that are kept and contain those over a scope, or None."""
        wider = [known for known in self._cached.values() if set(scope) <= set(known.scope)]
        return min(wider, key=lambda known: known.counts.size) if wider else None

    def _read(self, scopes: Sequence[tuple[str, ...]]) -> None:
        for scope, counts in zip(scopes, self._count(scopes), strict=True):
            self._keep(Marginal(self.domain, scope, counts.reshape(self.domain.scope_shape(scope))))

    def _keep(self, marginal: Marginal) -> None:
        self._cached[marginal.scope] = marginal
        self._cached_cells += marginal.counts.size
        while self._cached_cells > _MOST_CACHED_CELLS and len(self._cached) > 1:
            _, oldest = self._cached.popitem(last=False)
            self._cached_cells -= oldest.counts.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain.name!r}, records not shown)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DataError("a sensitive table cannot be copied or pickled")


def no_values(name: str) -> DataError:
    """Return the error of a sum of values that are not kept."""
    return DataError(f"the values of {name!r} are not summed: the schema gives them no resolution")


def _require_bins(domain: Domain, coarse: Domain, bins: Bins) -> None:
    """Refuse bins that do not lead from the cells of one domain to those of another."""
    if coarse.names != domain.names or len(bins) != len(domain):
        raise DataError("expected a coarse domain and bins of the same attributes")
    for name, bin_, size, coarse_size in zip(coarse.names, bins, domain.shape, coarse.shape, strict=True):
        if bin_ is None:
            fits = size == coarse_size
        else:
            fits = bin_.shape == (size,) and int(bin_.min()) >= 0 and int(bin_.max()) < coarse_size
        if not fits:
            raise DataError(f"expected bins that fit attribute {name!r}")
