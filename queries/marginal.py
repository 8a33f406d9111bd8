"""Counts of records per cell over a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain, require_domain
from queries.errors import ScopeError
from queries.frozen import dataclass
from queries.plain_values import type_name


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """Records per cell over a scope; over the full scope it is the table's histogram.

    Args:
        domain: the table's domain.
        scope: attribute names in declared order; empty for the number of records alone.
        counts: int64, shape ``domain.scope_shape(scope)``, records per cell; kept as a read-only copy.

    Raises:
        ScopeError: the scope is not in declared order, or the counts have another shape or type.
    """

    domain: Domain
    scope: tuple[str, ...]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        require_domain(self.domain)
        scope = tuple(self.scope)
        if self.domain.scope(scope) != scope:
            raise ScopeError(f"expected a scope in declared order, got {list(scope)}")
        if not issubclass(type(self.counts), np.ndarray | np.integer | list | tuple):
            raise ScopeError(f"expected an array of counts, got a {type_name(self.counts)}")
        given = np.asarray(self.counts)
        if not np.issubdtype(given.dtype, np.integer):
            raise ScopeError(f"expected integer counts, got dtype={given.dtype.name}")
        if given.size and int(given.max()) > np.iinfo(np.int64).max:
            raise ScopeError("expected counts that fit 64 bits with a sign")
        counts = np.array(given, dtype=np.int64)
        shape = self.domain.scope_shape(scope)
        if counts.shape != shape:
            raise ScopeError(f"expected counts of shape {shape} over {list(scope)}, got {counts.shape}")
        counts.flags.writeable = False
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "counts", counts)

    @property
    def total(self) -> int:
        """Number of records."""
        return int(self.counts.sum())

    def project(self, scope: Sequence[str]) -> Marginal:
        """Sum out every attribute that ``scope`` does not name.

        Raises:
            ScopeError: ``scope`` names an attribute outside this marginal.
        """
        kept = self.domain.scope(scope)
        self._require(kept)
        axes = tuple(axis for axis, name in enumerate(self.scope) if name not in kept)
        return Marginal(self.domain, kept, self.counts.sum(axis=axes, dtype=np.int64))

    def expand(self, scope: Sequence[str]) -> Marginal:
        """Repeat the counts along the attributes that ``scope`` adds.

        Raises:
            ScopeError: ``scope`` does not contain this marginal's scope.
        """
        wider = self.domain.scope(scope)
        if not set(self.scope) <= set(wider):
            raise ScopeError(f"expected a scope that contains {list(self.scope)}, got {list(wider)}")
        shape = [self.domain[name].size if name in self.scope else 1 for name in wider]
        counts = np.broadcast_to(self.counts.reshape(shape), self.domain.scope_shape(wider))
        return Marginal(self.domain, wider, counts)

    def restrict(self, cells: Mapping[str, int]) -> Marginal:
        """Keep the records whose attributes fall into the given cells; these attributes leave the scope.

        Raises:
            ScopeError: an attribute is outside this marginal, or a cell is outside the attribute.
        """
        self._require(tuple(cells))
        index: list[int | slice] = []
        for name in self.scope:
            if name not in cells:
                index.append(slice(None))
            elif 0 <= cells[name] < self.domain[name].size:
                index.append(int(cells[name]))
            else:
                raise self.domain[name].no_cell(cells[name])
        kept = tuple(name for name in self.scope if name not in cells)
        return Marginal(self.domain, kept, self.counts[tuple(index)])

    def _require(self, names: Sequence[str]) -> None:
        outside = [name for name in names if name not in self.scope]
        if outside:
            raise ScopeError(f"expected attributes among {list(self.scope)}, got {outside}")


class Histogram(Marginal):
    """The marginal of the full scope: records per cell of the whole domain.

    Args:
        domain: the table's domain.
        counts: int64, shape ``domain.shape``, records per cell.
    """

    __slots__ = ()

    def __init__(self, domain: Domain, counts: NDArray[np.int64]) -> None:
        require_domain(domain)
        super().__init__(domain, domain.names, counts)
