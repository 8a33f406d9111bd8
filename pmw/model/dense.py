"""The dense distribution: one array over the whole domain.

Never a mask per query, and an exponential per cell only where a model is combined anew: a box query is a
slice times a number, any other a small table of weights that is exponentiated once and broadcast. The array
is not normalised; the sum of its cells is kept as a number beside it.

A distribution is defined by its factors, and its array is a way to compute with it: it is made when it is
first asked for, and kept. An update changes a copy of it in place, so that the distribution before it stays
as it was.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.distribution import MarginalTerm, Term, WeightedFactor, exponents_at
from pmw.model.layout import Layout, choose_layout
from queries.domain import Domain
from queries.errors import ScopeError
from queries.linear import UNITS, LinearQuery
from queries.records import CodedRecords

__all__ = [
    "check_dense_size",
    "DenseDistribution",
    "DenseWorkspace",
    "LARGEST_DENSE_DOMAIN",
]

LARGEST_DENSE_DOMAIN = 10**8  # cells: 800 MB in float64
_MOST_CACHED_CELLS = 2**22
_SAMPLED_AT_ONCE = 2**18  # cells


def check_dense_size(domain: Domain) -> None:
    """Refuse a domain that a dense array cannot hold, before anything is allocated or spent.

    Raises:
        BudgetError: the domain has more cells than LARGEST_DENSE_DOMAIN.
    """
    if domain.size > LARGEST_DENSE_DOMAIN:
        size = f"{domain.size:,}" if domain.size < 10**15 else f"{domain.size:.3g}"
        raise BudgetError(
            f"the domain has {size} cells; a dense model holds at most "
            f"{LARGEST_DENSE_DOMAIN:,}: test whole marginals on a graphical one, or declare fewer attributes "
            "or wider cells"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The array of a distribution, up to a constant factor.

    Args:
        layout: the order of its axes.
        values: float64, shape ``layout.shape``; contiguous, not normalised.
        mass: the sum of the values.
    """

    layout: Layout
    values: NDArray[np.float64]
    mass: float


class DenseDistribution:
    """Expected records per cell of the whole domain. Made by ``uniform`` and ``of_terms``, and by updates.

    It answers alike for ever. What it keeps are its array and marginals, once they were asked for; users of
    the array take turns.

    Args:
        domain: the declared attributes.
        total: records that the cells sum to.
        terms: the factors that define it.
        combined: how many of the terms were combined at once; the later ones were multiplied in, in order.
        cells: its array, where it is there already; owned.
    """

    __slots__ = ("_cells", "_lock", "_marginals", "combined", "domain", "terms", "total")

    def __init__(
        self,
        domain: Domain,
        total: float,
        terms: tuple[Term, ...],
        combined: int,
        cells: _Cells | None = None,
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
        # A memo of ``marginal``, newest last; it never changes an answer.
        self._marginals: OrderedDict[tuple[str, ...], NDArray[np.float64]] = OrderedDict()

    @classmethod
    def uniform(cls, domain: Domain, total: float) -> DenseDistribution:
        """Return the distribution that spreads ``total`` records evenly.

        Raises:
            BudgetError: the domain is too large, or the total is not positive.
        """
        return cls.of_terms(domain, total, ())

    @classmethod
    def of_terms(cls, domain: Domain, total: float, terms: Sequence[Term]) -> DenseDistribution:
        """Return the distribution that the factors define.

        Raises:
            BudgetError: the domain is too large, or the total is not positive.
        """
        return cls(domain, total, tuple(terms), len(terms))

    @property
    def cells(self) -> int:
        """Numbers that the model holds: the cells of the domain."""
        return self.domain.size

    @property
    def values(self) -> NDArray[np.float64]:
        """A copy of the cells: float64, shape ``domain.shape``, records per cell, read-only."""
        with self._lock:
            cells = self._held()
            values = np.array(cells.layout.declared(cells.values), order="C")
        values *= self.total / cells.mass
        values.flags.writeable = False
        return values

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return expected records per cell over a scope in declared order: float64, read-only."""
        key = tuple(scope)
        known = self._marginals.get(key)
        if known is not None:
            return known
        if self.domain.scope(key) != key:
            raise ScopeError(f"expected a scope in declared order, got {list(key)}")
        with self._lock:
            cells = self._held()
            values = cells.layout.project(cells.values, key)
            values *= self.total / cells.mass
            values.flags.writeable = False
            self._marginals[key] = values
            while sum(kept.size for kept in self._marginals.values()) > _MOST_CACHED_CELLS:
                self._marginals.popitem(last=False)
        return values

    def answer(self, query: LinearQuery) -> float:
        """Return the expected answer, in records."""
        if query.scope in self._marginals or self.domain.scope_size(query.scope) <= _MOST_CACHED_CELLS:
            return query.evaluate(self.marginal(query.scope))
        with self._lock:  # a marginal as long as this would be another array
            cells = self._held()
            scale = self.total / cells.mass
            if query.is_box:
                return float(cells.values[cells.layout.index(query)].sum()) * scale
            if query.scope == self.domain.names:
                return query.evaluate(cells.layout.declared(cells.values)) * scale
            return query.evaluate(cells.layout.project(cells.values, query.scope)) * scale

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Return the marginals of many scopes at once, by way of shared sums: float64, read-only.

        They equal those of ``marginal`` up to the rounding of sums.

        Raises:
            ScopeError: a name is unknown, or a scope is not in declared order.
        """
        for scope in scopes:
            if self.domain.scope(scope) != tuple(scope):
                raise ScopeError(f"expected a scope in declared order, got {list(scope)}")
        with self._lock:
            cells = self._held()
            scale = self.total / cells.mass
            tables = [np.asarray(table * scale) for table in cells.layout.projections(cells.values, scopes)]
        for table in tables:
            table.flags.writeable = False
        return tables

    def expectation(self, factors: Sequence[WeightedFactor]) -> float:
        """Return the expected sum, over records, of the product of the factors' weights, in records.

        Args:
            factors: scopes in declared order, no attribute in two of them, and float64 weights of each cell.

        Raises:
            ScopeError: scopes overlap, or a name is unknown.
        """
        self.domain.scope([name for scope, _ in factors for name in scope])
        with self._lock:
            cells = self._held()
            return cells.layout.weighted_sum(cells.values, factors) * (self.total / cells.mass)

    def log_density(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the natural logarithm of the probability of full cells: float64, shape (n,).

        Args:
            cells: int64, shape (n, attributes), the cell of each attribute in declared order.
        """
        with self._lock:
            held = self._held()
            declared = held.layout.declared(held.values)
            # The likeliest cell gives the normaliser, so that cells too unlikely for the array have theirs.
            peak = np.unravel_index(int(declared.argmax()), declared.shape)
            log_peak = math.log(float(declared[peak]) / held.mass)
        normaliser = exponents_at(self.domain, self.terms, np.array([peak])) - log_peak
        return exponents_at(self.domain, self.terms, cells) - normaliser

    def with_terms(self, terms: Sequence[Term]) -> DenseDistribution:
        """Return the distribution of other factors over the same domain and total.

        Raises:
            BudgetError: the domain is too large.
        """
        return DenseDistribution.of_terms(self.domain, self.total, terms)

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records.

        Systematic rounding gives each cell its expected number rounded up or down; independent draws give
        it a random number with that expectation.

        Raises:
            BudgetError: the count is negative.
        """
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

    def workspace(self) -> DenseWorkspace:
        """Return a copy of the cells, to update in place."""
        with self._lock:
            held = self._held()
            cells = _Cells(held.layout, held.values.copy(), held.mass)
        return DenseWorkspace(self.domain, self.total, cells, self.combined)

    def __repr__(self) -> str:
        return f"DenseDistribution({self.domain.name!r}, {self.domain.size:,} cells, total {self.total:,.0f})"

    def __reduce__(self) -> tuple[object, ...]:
        return DenseDistribution, (self.domain, self.total, self.terms, self.combined)

    def _held(self) -> _Cells:
        """Return the cells, made of the terms where they are not there; the caller holds the lock."""
        if self._cells is None:
            cells = _combine(np.empty(self.domain.size), self.domain, self.terms[: self.combined])
            for term in self.terms[self.combined :]:
                if isinstance(term, MarginalTerm):
                    _multiply_all(cells, term.scope, term.duals)
                else:
                    part = cells.values[cells.layout.index(term.query)]
                    _multiply_box(part, cells.layout, term.query, term.dual)
            mass = float(cells.values.sum())
            self._cells = _Cells(cells.layout, cells.values, mass)
        return self._cells

    def _cells_at(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cells, numbered in declared order, at places in [0, 1) that ascend: int64."""
        found = np.full(len(places), self.domain.size - 1)  # where rounding leaves a place beyond the end
        with self._lock:
            held = self._held()
            flat = held.layout.declared(held.values).flat
            heights = places * held.mass
            base, done = 0.0, 0
            for start in range(0, self.domain.size, _SAMPLED_AT_ONCE):
                sums = np.cumsum(flat[start : start + _SAMPLED_AT_ONCE])
                sums += base
                end = int(np.searchsorted(heights, sums[-1], side="left"))
                found[done:end] = start + np.searchsorted(sums, heights[done:end], side="right")
                base, done = float(sums[-1]), end
        return found


class DenseWorkspace:
    """A dense array under update: changed in place, normalised lazily, frozen at the end.

    Args:
        domain: the declared attributes.
        total: records that the cells sum to when frozen.
        cells: the array; owned and changed.
        combined: how many terms of the model were combined at once.
    """

    def __init__(self, domain: Domain, total: float, cells: _Cells, combined: int) -> None:
        self.domain = domain
        self.total = total
        self._cells = cells
        self._mass: float | None = cells.mass  # None: to be summed when it is needed
        self._combined = combined

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return records per cell over a scope, normalised to the total: float64."""
        values = self._cells.layout.project(self._cells.values, scope)
        if self._mass is None:
            self._mass = float(values.sum())
        values *= self.total / self._mass
        return values

    def mass(self, query: LinearQuery) -> float:
        """Return the answer to a box query, in records, normalised to the total."""
        inside = self._cells.values[self._cells.layout.index(query)]
        if self._mass is None:
            self._mass = float(self._cells.values.sum())
        return float(inside.sum()) * (self.total / self._mass)

    def weight_classes(self, query: LinearQuery) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the distinct weights of a query and the records of each: float64, shape (k,) both."""
        records = self.marginal(query.scope).reshape(-1)
        weights, classes = np.unique(query.weights().reshape(-1), return_inverse=True)
        sums = np.bincount(classes.reshape(-1), weights=records, minlength=len(weights))
        return weights / UNITS, sums.astype(np.float64)

    def tilt_query(self, query: LinearQuery, dual: float) -> None:
        """Multiply every cell by exp(dual * weight)."""
        part = self._cells.values[self._cells.layout.index(query)]
        before = float(part.sum())
        _multiply_box(part, self._cells.layout, query, dual)
        if self._mass is not None:
            self._mass += before * math.expm1(dual) if query.is_box else float(part.sum()) - before

    def tilt_marginal(self, scope: Sequence[str], duals: NDArray[np.float64]) -> None:
        """Multiply every cell by exp(duals[its cell of the scope])."""
        _multiply_all(self._cells, scope, duals)
        self._mass = None

    def freeze(self, terms: tuple[Term, ...]) -> DenseDistribution:
        """Return the distribution of the terms, of which those beyond the combined ones were multiplied in.

        The workspace must not be used afterwards.
        """
        cells = _Cells(self._cells.layout, self._cells.values, float(self._cells.values.sum()))
        return DenseDistribution(self.domain, self.total, terms, self._combined, cells)

    def combine(self, terms: tuple[Term, ...]) -> DenseDistribution:
        """Return the distribution that the terms define, whatever the array held, in the layout they ask for.

        The same terms give the same bits, by whatever steps their duals were found. The workspace must not be
        used afterwards.
        """
        cells = _combine(self._cells.values, self.domain, terms)
        return DenseDistribution(self.domain, self.total, terms, len(terms), cells)


def _combine(values: NDArray[np.float64], domain: Domain, terms: Sequence[Term]) -> _Cells:
    """Write exp(sum of dual * weights) into an array.

    The duals are added up before they are exponentiated: those of measurements that contradict each other are
    large, and cancel.
    """
    layout = choose_layout(domain, terms)
    values = values.reshape(layout.shape)
    values.fill(0.0)
    for term in terms:
        if isinstance(term, MarginalTerm):
            values += layout.spread(term.scope, term.duals, layout.shape)
        else:
            part = values[layout.index(term.query)]
            box = term.query.is_box
            part += term.dual if box else _exponents(layout, term.query, term.dual, part.shape)
    values -= values.max()
    np.exp(values, out=values)
    return _Cells(layout, values, float(values.sum()))


def _multiply_all(cells: _Cells, scope: Sequence[str], duals: NDArray[np.float64]) -> None:
    """Multiply each cell by exp(duals[its cell of the scope]), in place."""
    values = cells.values
    values *= cells.layout.spread(scope, np.exp(duals), cells.layout.shape)


def _multiply_box(part: NDArray[np.float64], layout: Layout, query: LinearQuery, dual: float) -> None:
    """Multiply the cells of a query's bounding box by exp(dual * weight), in place."""
    part *= math.exp(dual) if query.is_box else np.exp(_exponents(layout, query, dual, part.shape))


def _exponents(
    layout: Layout, query: LinearQuery, dual: float, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return dual * weights, to broadcast over the query's bounding box of the given shape: float64."""
    exponents = np.asarray(query.weights()[query.box] * (dual / UNITS))
    return layout.spread(query.scope, exponents, shape)
