"""The dense distribution: one array over the whole domain.

A distribution is defined by its factors, and its array is a way to compute with it: it is made when it is
first asked for, and kept. An update changes a copy of it in place, so that the distribution before it stays
as it was.

Never a mask per query, and an exponential per cell only where a model is combined again: a box query is a
slice times a number, any other a small table of weights that is exponentiated once and broadcast. The array
is not normalised; the sum of its cells is kept as a number beside it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.distribution import MarginalTerm, SyntheticDistribution, Term, WeightedFactor
from pmw.model.factors import KeptTables, plan_projections, positions, project, weighted_sum
from queries.cells import cell_count
from queries.domain import Domain
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.places import as_index
from queries.records import CodedRecords

LARGEST_DENSE_DOMAIN = 2**24  # cells: 134 MB in float64
_MOST_CACHED_CELLS = 2**22
_SHORT = 2**12  # cells: below this, loops over the last axes cost more than the numbers in them
_LARGEST_TABLE = 2**20  # cells of a table that is written out along the last axes


class DenseCells:
    """The array of a distribution, up to a constant factor; changed in place by who owns it.

    Its sum is taken when it is needed, so that changes in a row take none.

    Args:
        values: float64, shape ``domain.shape``; contiguous, not normalised.
        mass: their sum, where it is known.
    """

    def __init__(
        self, domain: Domain, total: float, values: NDArray[np.float64], mass: float | None = None
    ) -> None:
        self.domain, self.total, self.values = domain, total, values
        self._mass = mass
        # A memo of the weights of queries, which do not change as the array does, and its cells.
        self._classes: dict[LinearQuery, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        self._kept_cells = 0

    @property
    def scale(self) -> float:
        """Records that a number of the array stands for."""
        if self._mass is None:
            self._mass = float(self.values.sum())
        return self.total / self._mass

    def copy(self) -> DenseCells:
        """Return the same in an array of its own."""
        return DenseCells(self.domain, self.total, self.values.copy(), self._mass)

    def summed(self) -> DenseCells:
        """Return the array as a distribution keeps it: the sum of all of its cells is taken."""
        return DenseCells(self.domain, self.total, self.values, float(self.values.sum()))

    def sums(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return the sums over a scope in declared order: float64, or the array itself where none goes."""
        return project(self.values, tuple(range(len(self.domain))), positions(self.domain, scope))

    def inside(self, query: LinearQuery) -> NDArray[np.float64]:
        """Return the cells of a query's bounding box: a view."""
        slices = dict(zip(query.scope, query.box, strict=True))
        return self.values[tuple(slices.get(name, slice(None)) for name in self.domain.names)]

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return records per cell over a scope, normalised to the total: float64."""
        values = self.sums(scope)
        if self._mass is None:
            self._mass = float(values.sum())
        return np.asarray(values * self.scale)

    def records(self, query: LinearQuery) -> float:
        """Return the answer to a box query, in records, normalised to the total."""
        return float(self.inside(query).sum()) * self.scale

    def weight_classes(self, query: LinearQuery) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the distinct weights of a query and the records of each: float64, shape (k,) both."""
        records = self.marginal(query.scope).reshape(-1)
        weights, classes = self._classes_of(query)
        sums = np.bincount(as_index(classes), weights=records, minlength=len(weights))
        return weights, sums.astype(np.float64)

    def _classes_of(self, query: LinearQuery) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the distinct weights of a query, and of each cell of its scope which of them it has."""
        if query in self._classes:
            return self._classes[query]
        weights, classes = np.unique(query.weights().reshape(-1), return_inverse=True)
        found = weights / UNITS, classes.reshape(-1).astype(np.int64, copy=False)
        if self._kept_cells + classes.size <= _MOST_CACHED_CELLS:
            self._classes[query] = found
            self._kept_cells += classes.size
        return found

    def tilt_query(self, query: LinearQuery, dual: float) -> None:
        """Multiply every cell by exp(dual * weight)."""
        part = self.inside(query)
        before = float(part.sum())
        part *= math.exp(dual) if query.is_box else np.exp(_exponents(query, dual, part.shape))
        if self._mass is not None:
            self._mass += before * math.expm1(dual) if query.is_box else float(part.sum()) - before

    def tilt_marginal(self, scope: Sequence[str], duals: NDArray[np.float64]) -> None:
        """Multiply every cell by exp(duals[its cell of the scope])."""
        values = self.values
        values *= spread(self.domain, scope, np.exp(duals), self.domain.shape)
        self._mass = None

    def combine(self, terms: Sequence[Term]) -> None:
        """Write exp(sum of dual * weights) into the array, whatever it held.

        The same terms give the same bits, by whatever steps their duals were found. The duals are added up
        before they are exponentiated: those of measurements that contradict each other are large, and cancel.
        """
        values = self.values
        values.fill(0.0)
        for term in terms:
            if isinstance(term, MarginalTerm):
                values += spread(self.domain, term.scope, term.duals, self.domain.shape)
            else:
                part = self.inside(term.query)
                part += term.dual if term.query.is_box else _exponents(term.query, term.dual, part.shape)
        values -= values.max()
        np.exp(values, out=values)
        self._mass = None

    def frozen(self, terms: tuple[Term, ...], combined: int) -> DenseDistribution:
        """Return the distribution of the terms, of which those beyond the combined ones were multiplied in.

        The array must not be changed afterwards.
        """
        return DenseDistribution(self.domain, self.total, terms, combined, self.summed())


def spread(
    domain: Domain, scope: Sequence[str], table: NDArray[np.float64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return a table over a scope so that it broadcasts over the array, or over a box of it.

    Along the last axes it is repeated where it changes along them, which makes the inner loops long.

    Args:
        table: float64, one axis per attribute of the scope.
        shape: cells per axis of the array, or of the box.
    """
    lengths = dict(zip(scope, table.shape, strict=True))
    ready = table.reshape([lengths.get(name, 1) for name in domain.names])
    start, run = len(shape), 1
    while start > 0 and run < _SHORT:
        start -= 1
        run *= shape[start]
    lead = ready.shape[:start]
    if math.prod(ready.shape[start:]) == 1 or math.prod(lead) * run > _LARGEST_TABLE:
        return ready
    return np.ascontiguousarray(np.broadcast_to(ready, lead + shape[start:]))


def _exponents(query: LinearQuery, dual: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return dual * weights, to broadcast over the query's bounding box of the given shape: float64."""
    exponents = np.asarray(query.weights()[query.box] * (dual / UNITS))
    return spread(query.domain, query.scope, exponents, shape)


def check_dense_size(domain: Domain) -> None:
    """Refuse a domain that a dense array cannot hold, before anything is allocated or spent."""
    if domain.size > LARGEST_DENSE_DOMAIN:
        raise BudgetError(
            f"the domain has {cell_count(domain.size)} cells; a dense model holds at most "
            f"{LARGEST_DENSE_DOMAIN:,}: test whole marginals on a graphical one, or declare fewer attributes "
            "or wider cells"
        )


class DenseDistribution(SyntheticDistribution):
    """Expected records per cell of the whole domain. Made by ``uniform`` and ``of_terms``, and by updates.

    It answers alike for ever. What it keeps are its array and marginals, once they were asked for; users of
    the array take turns.

    Args:
        combined: how many of the terms were combined at once; the later ones were multiplied in, in order.
    """

    __slots__ = ("_cells", "_lock", "_marginals", "combined", "domain", "terms", "total")

    def __init__(
        self,
        domain: Domain,
        total: float,
        terms: tuple[Term, ...],
        combined: int,
        cells: DenseCells | None = None,
    ) -> None:
        check_dense_size(domain)
        if not total > 0:
            raise BudgetError(f"expected a positive total, got {total}")
        self.domain: Final = domain
        self.total: Final = total
        self.terms: Final = terms
        self.combined: Final = combined
        self._cells = cells
        self._lock = threading.Lock()
        self._marginals: Final = KeptTables(_MOST_CACHED_CELLS)  # a memo; it never changes an answer

    @classmethod
    def uniform(cls, domain: Domain, total: float) -> DenseDistribution:
        """Return the distribution that spreads ``total`` records evenly."""
        return cls.of_terms(domain, total, ())

    @classmethod
    def of_terms(cls, domain: Domain, total: float, terms: Sequence[Term]) -> DenseDistribution:
        """Return the distribution that the factors define."""
        return cls(domain, total, tuple(terms), len(terms))

    @property
    def cells(self) -> int:
        return self.domain.size

    @property
    def values(self) -> NDArray[np.float64]:
        """A copy of the cells: float64, shape ``domain.shape``, records per cell, read-only."""
        with self._lock:
            cells = self._held()
            values = cells.values * cells.scale
        values.flags.writeable = False
        return values

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        key = tuple(scope)
        with self._lock:
            return self._marginals.get(key, partial(self._summed, key))

    def answer(self, query: LinearQuery) -> float:
        if self.domain.scope_size(query.scope) <= _MOST_CACHED_CELLS:
            return query.evaluate(self.marginal(query.scope))
        with self._lock:  # a marginal as long as this would be another array
            cells = self._held()
            if query.is_box:
                return cells.records(query)
            return query.evaluate(cells.sums(query.scope)) * cells.scale

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        wanted = tuple(positions(self.domain, scope) for scope in scopes)
        plan = plan_projections(self.domain.shape, tuple(range(len(self.domain))), wanted)
        with self._lock:
            cells = self._held()
            tables = [np.asarray(table * cells.scale) for table in plan.run(cells.values)]
        for table in tables:
            table.flags.writeable = False
        return tables

    def expectation(self, factors: Sequence[WeightedFactor]) -> float:
        self.domain.scope([name for scope, _ in factors for name in scope])
        with self._lock:
            cells = self._held()
            table, scope = cells.values, tuple(range(len(self.domain)))
            for names, weights in factors:  # one attribute less at a time
                places = positions(self.domain, names)
                kept = tuple(place for place in scope if place not in places)
                table, scope = weighted_sum(table, scope, (places, weights), kept), kept
            return float(table.sum()) * cells.scale

    def with_terms(self, terms: Sequence[Term]) -> DenseDistribution:
        return DenseDistribution.of_terms(self.domain, self.total, terms)

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        if count < 0:
            raise BudgetError(f"expected a number of rows of at least 0, got {count}")
        places = generator.random(count) if independent else (np.arange(count) + generator.random()) / count
        places.sort()
        cells = generator.permutation(self._cells_at(places))
        codes = []
        for size in reversed(self.domain.shape):
            codes.append((cells % size).astype(np.min_scalar_type(size - 1)))
            cells //= size
        return CodedRecords(self.domain, tuple(reversed(codes)))

    def copied(self) -> DenseCells:
        """Return a copy of the cells, to update in place."""
        with self._lock:
            return self._held().copy()

    def __repr__(self) -> str:
        cells = cell_count(self.domain.size)
        return f"DenseDistribution({self.domain.name!r}, {cells} cells, total {self.total:,.0f})"

    def __reduce__(self) -> tuple[object, ...]:
        return DenseDistribution, (self.domain, self.total, self.terms, self.combined)

    def _held(self) -> DenseCells:
        """Return the cells, made of the terms where they are not there; the caller holds the lock."""
        if self._cells is None:
            cells = DenseCells(self.domain, self.total, np.empty(self.domain.shape))
            cells.combine(self.terms[: self.combined])
            for term in self.terms[self.combined :]:
                if isinstance(term, MarginalTerm):
                    cells.tilt_marginal(term.scope, term.duals)
                else:
                    cells.tilt_query(term.query, term.dual)
            self._cells = cells.summed()
        return self._cells

    def _summed(self, scope: tuple[str, ...]) -> NDArray[np.float64]:
        """Return a marginal that is not kept; the caller holds the lock."""
        values = self._held().marginal(scope)
        values.flags.writeable = False
        return values

    def _cells_at(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cells, numbered in declared order, at places in [0, 1) that ascend: int64."""
        with self._lock:
            sums = np.cumsum(self._held().values)
        found = np.searchsorted(sums, places * sums[-1], side="right")
        return np.asarray(np.minimum(found, np.searchsorted(sums, sums[-1])))  # rounding may leave one beyond
