"""Dense cells: the array of a dense distribution, summed and multiplied.

Never a mask per query, and an exponential per cell only where a model is combined again: a box query is a
slice times a number, any other a small table of weights that is exponentiated once and broadcast. The array
is not normalised; the sum of its cells is kept as a number beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmw.model.distribution import MarginalTerm, Term
from pmw.model.factors import project
from queries.domain import Domain
from queries.factors import UNITS
from queries.linear import LinearQuery

_SHORT = 2**12  # cells: below this, loops over the last axes cost more than the numbers in them
_LARGEST_TABLE = 2**20  # cells of a table that is written out along the last axes


@dataclass(frozen=True, slots=True, eq=False)
class DenseCells:
    """The array of a distribution, up to a constant factor; changed in place by who owns it.

    Args:
        domain: the declared attributes.
        values: float64, shape ``domain.shape``; contiguous, not normalised.
        mass: the sum of the values, when it was last taken.
    """

    domain: Domain
    values: NDArray[np.float64]
    mass: float

    def sums(self, scope: Sequence[str]) -> NDArray[np.float64]:
        """Return the sums over a scope in declared order: float64, or the array itself where none goes."""
        return project(self.values, tuple(range(len(self.domain))), positions(self.domain, scope))

    def inside(self, query: LinearQuery) -> NDArray[np.float64]:
        """Return the cells of a query's bounding box: a view."""
        slices = dict(zip(query.scope, query.box, strict=True))
        return self.values[tuple(slices.get(name, slice(None)) for name in self.domain.names)]

    def multiply(self, scope: Sequence[str], duals: NDArray[np.float64]) -> None:
        """Multiply each cell by exp(duals[its cell of the scope]), in place."""
        values = self.values
        values *= spread(self.domain, scope, np.exp(duals), self.domain.shape)

    def multiply_box(self, query: LinearQuery, dual: float) -> None:
        """Multiply the cells of a query's bounding box by exp(dual * weight), in place."""
        part = self.inside(query)
        part *= math.exp(dual) if query.is_box else np.exp(_exponents(query, dual, part.shape))


def combine(values: NDArray[np.float64], domain: Domain, terms: Sequence[Term]) -> DenseCells:
    """Write exp(sum of dual * weights) into an array.

    The duals are added up before they are exponentiated: those of measurements that contradict each other are
    large, and cancel.

    Args:
        values: float64, shape ``domain.shape``, contiguous; overwritten.
        domain: the declared attributes.
        terms: the factors.
    """
    values.fill(0.0)
    cells = DenseCells(domain, values, 0.0)
    for term in terms:
        if isinstance(term, MarginalTerm):
            values += spread(domain, term.scope, term.duals, domain.shape)
        else:
            part = cells.inside(term.query)
            part += term.dual if term.query.is_box else _exponents(term.query, term.dual, part.shape)
    values -= values.max()
    np.exp(values, out=values)
    return DenseCells(domain, values, float(values.sum()))


def positions(domain: Domain, scope: Sequence[str]) -> tuple[int, ...]:
    """Return the places of attributes in the domain."""
    return tuple(domain.names.index(name) for name in scope)


def spread(
    domain: Domain, scope: Sequence[str], table: NDArray[np.float64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return a table over a scope so that it broadcasts over the array, or over a box of it.

    Along the last axes it is repeated where it changes along them, which makes the inner loops long.

    Args:
        domain: the declared attributes.
        scope: attribute names in declared order.
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
