"""The synthetic distribution: the public model that answers questions.

A distribution gives expected records per cell, with the domain's cells summing to ``total``. It is an
exponential family: the uniform distribution times ``exp(dual * weights)`` for each measured query or
marginal. The terms are its definition; arrays are a way to compute with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.linear import LinearQuery
from queries.records import CodedRecords

__all__ = [
    "MarginalTerm",
    "QueryTerm",
    "SyntheticDistribution",
    "Term",
]


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerm:
    """A factor exp(dual * weights) of the model.

    Args:
        query: its weights.
        dual: the multiplier.
    """

    query: LinearQuery
    dual: float


@dataclass(frozen=True, slots=True, eq=False)
class MarginalTerm:
    """A factor exp(duals[cell]) of the model, for the cells of a scope.

    Args:
        scope: attribute names in declared order.
        duals: float64, one axis per attribute.
    """

    scope: tuple[str, ...]
    duals: NDArray[np.float64]


Term = QueryTerm | MarginalTerm


class SyntheticDistribution(Protocol):
    """What the loop needs of a model. Everything it gives is public."""

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
        """Return expected records per cell over a scope in declared order: float64."""

    def answer(self, query: LinearQuery) -> float:
        """Return the expected answer, in records."""

    def sample(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return ``count`` synthetic records: by systematic rounding, or as independent draws."""
