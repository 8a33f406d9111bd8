"""The synthetic distribution: the public model that answers questions.

A distribution gives expected records per cell, with the domain's cells summing to ``total``. It is an
exponential family: the uniform distribution times ``exp(dual * weights)`` for each measured query or
marginal. The terms are its definition; arrays are a way to compute with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.records import CodedRecords

WeightedFactor: TypeAlias = tuple[tuple[str, ...], NDArray[np.float64]]  # a scope and weights of its cells


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerm:
    """A factor exp(dual * weights) of the model."""

    query: LinearQuery
    dual: float

    @property
    def scope(self) -> tuple[str, ...]:
        """The attributes that the query is about."""
        return self.query.scope

    @property
    def duals(self) -> NDArray[np.float64]:
        """The dual as an array: float64, shape ()."""
        return np.array(self.dual)

    def moved(self, duals: NDArray[np.float64]) -> QueryTerm:
        """Return the factor with more on its dual."""
        return QueryTerm(self.query, self.dual + float(duals))


@dataclass(frozen=True, slots=True, eq=False)
class MarginalTerm:
    """A factor exp(duals[cell]) of the model, for the cells of a scope.

    Args:
        duals: float64, one axis per attribute.
    """

    scope: tuple[str, ...]
    duals: NDArray[np.float64]

    def moved(self, duals: NDArray[np.float64]) -> MarginalTerm:
        """Return the factor with more on its duals."""
        return MarginalTerm(self.scope, self.duals + duals)


Term = QueryTerm | MarginalTerm


def dual_numbers(terms: Sequence[Term]) -> NDArray[np.float64]:
    """Return the dual numbers of terms, in their order: float64, shape (k,)."""
    return np.concatenate([np.empty(0), *(one.duals.ravel() for one in terms)])


class SyntheticDistribution(Protocol):
    """What the loop needs of a model. Everything it gives is public."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The declared attributes."""

    @property
    def total(self) -> float:
        """Records that the cells sum to."""

    @property
    def terms(self) -> tuple[Term, ...]:
        """The factors that define it, in the order of the measurements they fit."""

    def marginal(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return expected records per cell over a scope in declared order: float64, read-only."""

    @property
    def cells(self) -> int:
        """Numbers that the model holds."""

    def marginals(self, scopes: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Return the marginals of many scopes at once, by way of shared sums: float64, read-only.

        They equal those of ``marginal`` up to the rounding of sums.
        """

    def answer(self, query: LinearQuery) -> float:
        """Return the expected answer, in records."""

    def expectation(self, factors: Sequence[WeightedFactor]) -> float:
        """Return the expected sum, over records, of the product of the factors' weights, in records.

        Args:
            factors: scopes in declared order, no attribute in two of them, and float64 weights of each cell.
        """

    def with_terms(self, terms: Sequence[Term]) -> Self:
        """Return the distribution of other factors over the same domain and total."""

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records.

        Systematic rounding gives each cell its expected number rounded up or down; independent draws give
        it a random number with that expectation.
        """
