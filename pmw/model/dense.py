"""The dense distribution: one array over the whole domain.

Never a mask per query and never an exponential per cell: a box query is a slice times a number, any other a
small table of weights that is exponentiated once and broadcast. The normaliser is kept as a number and
brought up to date with the mass that an update touched.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.distribution import MarginalTerm, Term
from queries.domain import Domain
from queries.errors import ScopeError
from queries.linear import UNITS, LinearQuery
from queries.records import CodedRecords

__all__ = [
    "check_dense_size",
    "DenseDistribution",
    "DenseWorkspace",
    "LARGEST_DENSE_DOMAIN",
    "project",
]

LARGEST_DENSE_DOMAIN = 10**8  # cells: 800 MB in float64
_MOST_CACHED_CELLS = 2**22


def check_dense_size(domain: Domain) -> None:
    """Refuse a domain that a dense array cannot hold, before anything is allocated or spent.

    Raises:
        BudgetError: the domain has more cells than LARGEST_DENSE_DOMAIN.
    """
    if domain.size > LARGEST_DENSE_DOMAIN:
        raise BudgetError(
            f"the domain has {domain.size:.3g} cells; a dense model holds at most "
            f"{LARGEST_DENSE_DOMAIN:,}: declare fewer attributes or wider cells"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DenseDistribution:
    """Expected records per cell of the whole domain.

    Args:
        domain: the declared attributes.
        total: records that the cells sum to.
        terms: the factors that define it.
        values: float64, shape ``domain.shape``, records per cell; made read-only, not copied.
    """

    domain: Domain
    total: float
    terms: tuple[Term, ...]
    values: NDArray[np.float64]
    # A memo of ``marginal``, newest last; it never changes an answer.
    _marginals: OrderedDict[tuple[str, ...], NDArray[np.float64]] = field(
        init=False, default_factory=OrderedDict
    )

    def __post_init__(self) -> None:
        if self.values.shape != self.domain.shape:
            raise ScopeError(f"expected values of shape {self.domain.shape}, got {self.values.shape}")
        self.values.flags.writeable = False

    @classmethod
    def uniform(cls, domain: Domain, total: float) -> DenseDistribution:
        """Return the distribution that spreads ``total`` records evenly.

        Raises:
            BudgetError: the domain is too large, or the total is not positive.
        """
        check_dense_size(domain)
        if not total > 0:
            raise BudgetError(f"expected a positive total, got {total}")
        return cls(domain, total, (), np.full(domain.shape, total / domain.size))

    @classmethod
    def of_terms(cls, domain: Domain, total: float, terms: Sequence[Term]) -> DenseDistribution:
        """Return the distribution that the factors define."""
        workspace = cls.uniform(domain, total).workspace()
        for term in terms:
            if isinstance(term, MarginalTerm):
                workspace.tilt_marginal(term.scope, term.duals)
            else:
                workspace.tilt_query(term.query, term.dual)
        return workspace.freeze(tuple(terms))

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return expected records per cell over a scope in declared order: float64, read-only."""
        key = tuple(scope)
        if key in self._marginals:
            return self._marginals[key]
        if self.domain.scope(key) != key:
            raise ScopeError(f"expected a scope in declared order, got {list(key)}")
        axes = [self.domain.index(name) for name in key]
        values = project(self.values, axes)
        values.flags.writeable = False
        self._marginals[key] = values
        while sum(kept.size for kept in self._marginals.values()) > _MOST_CACHED_CELLS:
            self._marginals.popitem(last=False)
        return values

    def answer(self, query: LinearQuery) -> float:
        """Return the expected answer, in records."""
        return query.evaluate(self.marginal(query.scope))

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records.

        Systematic rounding gives each cell its expected number rounded up or down; independent draws give
        it a random number with that expectation.

        Raises:
            BudgetError: the count is negative.
        """
        if count < 0:
            raise BudgetError(f"expected a number of rows of at least 0, got {count}")
        heights = np.cumsum(self.values, axis=None)
        places = generator.random(count) if independent else (np.arange(count) + generator.random()) / count
        cells = np.searchsorted(heights, np.sort(places) * heights[-1], side="right")
        cells = generator.permutation(np.minimum(cells, self.domain.size - 1))
        codes = np.unravel_index(cells, self.domain.shape)
        return CodedRecords(
            self.domain,
            tuple(
                code.astype(np.min_scalar_type(size - 1))
                for code, size in zip(codes, self.domain.shape, strict=True)
            ),
        )

    def workspace(self) -> DenseWorkspace:
        """Return a copy to update in place."""
        return DenseWorkspace(self.domain, self.total, self.values.copy())

    def __repr__(self) -> str:
        return f"DenseDistribution({self.domain.name!r}, {self.domain.size:,} cells, total {self.total:,.0f})"


class DenseWorkspace:
    """A dense array under update: multiplied in place, normalised lazily, frozen at the end.

    Args:
        domain: the declared attributes.
        total: records that the cells sum to when frozen.
        values: float64, shape ``domain.shape``; owned and changed.
    """

    def __init__(self, domain: Domain, total: float, values: NDArray[np.float64]) -> None:
        self.domain = domain
        self.total = total
        self._values = values
        self._mass = float(values.sum())

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return records per cell over a scope, normalised to the total: float64."""
        axes = [self.domain.index(name) for name in scope]
        return project(self._values, axes) * (self.total / self._mass)

    def mass(self, query: LinearQuery) -> float:
        """Return the answer to a box query, in records, normalised to the total."""
        return float(self._values[self._index(query)].sum()) * (self.total / self._mass)

    def weight_classes(self, query: LinearQuery) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the distinct weights of a query and the records of each: float64, shape (k,) both."""
        records = self.marginal(query.scope).reshape(-1)
        weights, classes = np.unique(query.weights().reshape(-1), return_inverse=True)
        sums = np.bincount(classes.reshape(-1), weights=records, minlength=len(weights))
        return weights / UNITS, sums.astype(np.float64)

    def tilt_query(self, query: LinearQuery, dual: float) -> None:
        """Multiply every cell by exp(dual * weight)."""
        index = self._index(query)
        part = self._values[index]
        before = float(part.sum())
        if query.is_box:
            part *= math.exp(dual)
        else:
            weights = query.weights()[query.box] / UNITS
            part *= np.exp(dual * weights).reshape(self._broadcast(query.scope, weights.shape))
        self._mass += float(part.sum()) - before if not query.is_box else before * math.expm1(dual)

    def tilt_marginal(self, scope: Sequence[str], duals: NDArray[np.float64]) -> None:
        """Multiply every cell by exp(duals[its cell of the scope])."""
        self._values *= np.exp(duals).reshape(self._broadcast(scope, duals.shape))
        self._mass = float(self._values.sum())

    def freeze(self, terms: tuple[Term, ...]) -> DenseDistribution:
        """Return the normalised distribution; the workspace must not be used afterwards."""
        self._values *= self.total / float(self._values.sum())
        return DenseDistribution(self.domain, self.total, terms, self._values)

    def _index(self, query: LinearQuery) -> tuple[slice, ...]:
        slices = dict(zip(query.scope, query.box, strict=True))
        return tuple(slices.get(name, slice(None)) for name in self.domain.names)

    def _broadcast(self, scope: Sequence[str], shape: tuple[int, ...]) -> tuple[int, ...]:
        lengths = dict(zip(scope, shape, strict=True))
        return tuple(lengths.get(name, 1) for name in self.domain.names)


def project(values: NDArray[np.float64], axes: Sequence[int]) -> NDArray[np.float64]:
    """Sum out all axes but the given ones, leading axes first (3 to 5 times faster than one call).

    Args:
        values: float64, contiguous.
        axes: axes to keep, ascending.

    Returns:
        float64, one axis per kept axis; the array itself where every axis is kept.
    """
    shape = values.shape
    kept = set(axes)
    result = values
    axis = 0
    position = 0
    while axis < len(shape):
        end = axis
        while end < len(shape) and (end in kept) == (axis in kept):
            end += 1
        if axis in kept:
            position += end - axis
        else:
            # Merge the run of axes to be summed, then sum it; what lies before it is already small.
            lead, tail = result.shape[:position], result.shape[position + end - axis :]
            merged = result.reshape(*lead, math.prod(shape[axis:end]), *tail)
            result = np.add.reduce(merged, axis=position)
        axis = end
    return np.asarray(result, dtype=np.float64)
