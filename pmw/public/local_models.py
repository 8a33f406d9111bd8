"""Local models: what is expected in the cells of a few attributes, with all that was measured of them.

The model's tree holds some of what was measured, and knows of the rest by what it implies. A question is
about few attributes. So its answer comes from the tree's marginal of these, fitted to every measurement
inside them (``pmw.model.local_fit``). Each table is a function of the model, the measurements and the scope
alone: not of what was asked before. All of this is post-processing, and free; no bar rests on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model import (
    Aim,
    MarginalMeasurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    Target,
    coarse_target,
    local_fit,
)
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState, coarse_model
from queries.boxes import MOST_SIDES, MOST_SUMS, BoxSums
from queries.linear import LinearQuery
from queries.memory import Memory

MOST_ATTRIBUTES = 4
MOST_BINS = 20_000  # of a table
_MOST_BYTES = 2**25  # of the tables that are kept
_Table: TypeAlias = NDArray[np.float64]


class LocalModels:
    """The local models of one model and what was measured.

    Args:
        state: the state.
    """

    def __init__(self, state: PublicState) -> None:
        self._state = state
        self._tables = Memory[_Table](most=2**20, most_bytes=_MOST_BYTES)
        self._sums = Memory[BoxSums](most=2**20, most_bytes=_MOST_BYTES)
        self._targets = dict[int, Target]()
        plan = marginal_tier(state.plan)
        self._has_rows = plan is not None and plan.order > 1
        beside = [state.measured[place] for place in state.beside]
        self._beside = [set(one.scope) for one in beside if isinstance(one, MarginalMeasurement)]

    def is_of(self, state: PublicState) -> bool:
        """Tell whether a state has the same model and measurements."""
        own = self._state
        return own.model is state.model and own.measured is state.measured and own.opening is state.opening

    def marginal(self, scope: tuple[str, ...]) -> _Table:
        """Return expected records per declared cell: float64, one axis per attribute, read-only."""
        table = self._table(scope)
        if table is None:
            return self._state.model.marginal(scope)
        values = self._state.coarsening.expand(scope, table)
        values.flags.writeable = False
        return values

    def sums(self, scope: tuple[str, ...]) -> BoxSums | None:
        """Return sums inside boxes of a scope; None where it has too many cells for a table of them."""
        cells = self._state.domain.scope_size(scope)
        if cells > MOST_SUMS or len(scope) > MOST_SIDES:
            return None
        found = self._sums.get(scope)
        if found is None:
            found = BoxSums(self.marginal(scope))
            self._sums.keep(scope, found, 8 * cells)
        return found

    def answer(self, query: LinearQuery) -> float:
        """Return the expected answer, in records."""
        table = self._table(query.scope) if query.scope else None
        if table is None:
            return self._state.model.answer(query)
        names = list(query.scope)
        for scope, weights in self._state.coarsening.weights(query):
            axes = [names.index(name) for name in scope]
            table = np.tensordot(table, weights, (axes, range(len(axes))))
            names = [name for name in names if name not in scope]
        return float(table)

    def _table(self, scope: tuple[str, ...]) -> _Table | None:
        """Return the fitted table of a scope, on bins; None where the model's own marginal serves."""
        if not self._is_local(scope):
            return None
        found = self._tables.get(scope)
        if found is None:
            base = coarse_model(self._state).marginal(scope)
            found = local_fit(base, scope, list(self._aims(scope))).table
            self._tables.keep(scope, found, found.nbytes)
        return found

    def _is_local(self, scope: tuple[str, ...]) -> bool:
        """Tell whether a scope has a local model.

        A model that nothing lies beside holds everything that was measured; but where all pairs are measured,
        their noise may be too small for its descent to reach.
        """
        if len(scope) > MOST_ATTRIBUTES:
            return False
        if not self._has_rows and not any(len(names & set(scope)) > 1 for names in self._beside):
            return False
        return self._state.coarsening.coarse.scope_size(scope) <= MOST_BINS

    def _aims(self, scope: tuple[str, ...]) -> Iterator[Aim]:
        """Yield what was measured inside a scope, each once: of the same cells or rows one mean."""
        same: dict[tuple[object, ...], list[Target]] = {}
        for one in (*self._state.opening, *self._state.measured):
            if isinstance(one, QueryMeasurement):
                inner, outer = self._state.coarsening.bounds(one.query)
                if inner is outer and set(inner.scope) <= set(scope):
                    yield replace(one, query=inner)
                continue
            inside = tuple(name for name in one.scope if name in scope)
            by_cells = isinstance(one, MarginalMeasurement) and not isinstance(one, ResidualMeasurement)
            if inside == one.scope or (by_cells and len(inside) > 1):
                rows = one.strategy if isinstance(one, ResidualMeasurement) else None
                same.setdefault((inside, rows), []).append(_summed(self._target(one), inside))
        yield from map(_mean, same.values())

    def _target(self, measured: OneWayMeasurement) -> Target:
        key = id(measured)  # the state holds it as long as this lives
        if key not in self._targets:
            self._targets[key] = coarse_target(self._state.coarsening, measured, self._state.total.value)
        return self._targets[key]


def _summed(target: Target, scope: tuple[str, ...]) -> Target:
    """Return what cells that were measured say of some of their attributes."""
    axes = tuple(axis for axis, name in enumerate(target.scope) if name not in scope)
    if not axes:
        return target
    return Target(scope, target.values.sum(axis=axes), target.variance.sum(axis=axes))


def _mean(same: Sequence[Target]) -> Target:
    """Return several targets of the same numbers as one, by the inverse of their variances."""
    if len(same) == 1:
        return same[0]
    precision = sum((1 / one.variance for one in same), start=np.zeros(same[0].values.shape))
    values = sum((one.values / one.variance for one in same), start=np.zeros(same[0].values.shape))
    return replace(same[0], values=values / precision, variance=1 / precision)


def local_models(state: PublicState) -> LocalModels:
    """Return the local models of a state: found once for each model, and kept with the newest."""
    found = state.found.local
    if found is None or not found.is_of(state):
        found = state.found.local = LocalModels(state)
    return found
