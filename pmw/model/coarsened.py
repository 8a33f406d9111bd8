"""The distribution over declared cells that a model of their bins stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.model.coarsening import Coarsening
from pmw.model.distribution import SyntheticDistribution, Term, WeightedFactor
from queries.domain import Domain
from queries.errors import ScopeError
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.records import CodedRecords


@dataclass(frozen=True, slots=True, eq=False)
class CoarsenedDistribution:
    """A distribution over the fine domain: a model of the bins, and the shares inside them.

    The cell of a record inside its bin is independent of the record's other attributes.

    Args:
        coarsening: the bins and the shares.
        model: a distribution over the coarse domain.

    Raises:
        ScopeError: the model is not over the coarse domain.
    """

    coarsening: Coarsening
    model: SyntheticDistribution

    def __post_init__(self) -> None:
        if self.model.domain != self.coarsening.coarse:
            raise ScopeError("expected a model over the coarse domain")

    @property
    def domain(self) -> Domain:
        """The declared attributes, with their fine cells."""
        return self.coarsening.fine

    @property
    def total(self) -> float:
        """Records that the cells sum to."""
        return self.model.total

    @property
    def terms(self) -> tuple[Term, ...]:
        """The factors of the model, over the coarse domain."""
        return self.model.terms

    @property
    def cells(self) -> int:
        """Numbers that the model holds."""
        return self.model.cells

    def with_terms(self, terms: Sequence[Term]) -> CoarsenedDistribution:
        """Return the distribution with other factors, which are over the coarse domain."""
        return CoarsenedDistribution(self.coarsening, self.model.with_terms(terms))

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return expected records per fine cell over a scope in declared order: float64, read-only."""
        values = self.coarsening.expand(scope, self.model.marginal(scope))
        values.flags.writeable = False
        return values

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Return the marginals of many scopes at once: float64, records per fine cell, read-only."""
        found = []
        for scope, coarse in zip(scopes, self.model.marginals(scopes), strict=True):
            values = self.coarsening.expand(scope, coarse)
            values.flags.writeable = False
            found.append(values)
        return found

    def answer(self, query: LinearQuery) -> float:
        """Return the expected answer, in records."""
        if not query.scope:
            return self.total * (query.constant / UNITS)
        return self.model.expectation(self.coarsening.weights(query))

    def expectation(self, factors: Sequence[WeightedFactor]) -> float:
        """Return the expected sum over records of the product of the factors' weights, in records.

        Args:
            factors: pairs of a scope and float64 weights over its fine cells; the scopes are disjoint.
        """
        coarse = [(scope, self.coarsening.averaged(scope, weights)) for scope, weights in factors]
        return self.model.expectation(coarse)

    def log_density(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the natural logarithm of the probability of each full cell: float64, shape (n,).

        Args:
            cells: int64, shape (n, attributes), fine cells in declared order; minus infinity where a share
                is zero.
        """
        columns = [cells[:, position] for position in range(cells.shape[1])]
        coarse = np.stack(self.coarsening.cells_of(columns), axis=1).astype(np.int64)
        density = np.array(self.model.log_density(coarse), dtype=np.float64)
        with np.errstate(divide="ignore"):
            for column, share in zip(columns, self.coarsening.shares, strict=True):
                if share is not None:
                    density += np.log(share[column])
        return density

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records.

        The model's records, each of whose binned cells is drawn inside its bin: in systematic proportion,
        so that every cell gets its share of the bin's records rounded up or down and one-way shapes are
        kept, or as independent draws.

        Raises:
            BudgetError: the count is negative.
        """
        records = self.model.sample(count, generator, independent=independent)
        columns = []
        for position, column in enumerate(records.columns):
            bin_, share = self.coarsening.bins[position], self.coarsening.shares[position]
            if bin_ is not None and share is not None:
                cells = _drawn_inside(column.astype(np.int64), (bin_, share), generator, independent)
                columns.append(cells.astype(np.min_scalar_type(len(bin_) - 1)))
            else:
                columns.append(column)
        return CodedRecords(self.domain, tuple(columns))


def _drawn_inside(
    column: NDArray[np.int64],
    parts: tuple[NDArray[np.int64], NDArray[np.float64]],
    generator: np.random.Generator,
    independent: bool,
) -> NDArray[np.int64]:
    """Return a fine cell for each record's bin: int64, shape (records,)."""
    bin_, share = parts
    drawn = np.empty(len(column), dtype=np.int64)
    for number in range(int(bin_.max()) + 1):
        rows = np.flatnonzero(column == number)
        if not len(rows):
            continue
        cells = np.flatnonzero(bin_ == number)
        ends = np.cumsum(share[cells])
        if independent:
            places = generator.random(len(rows))
        else:
            places = generator.permutation((np.arange(len(rows)) + generator.random()) / len(rows))
        found = np.searchsorted(ends, places * ends[-1], side="right")
        drawn[rows] = cells[np.minimum(found, np.flatnonzero(share[cells])[-1])]
    return drawn
