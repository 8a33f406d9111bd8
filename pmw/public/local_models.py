"""Local models: what is expected in the cells of a few attributes, with all that was measured of them.

The model's tree holds some of what was measured, and knows of the rest by what it implies. A question is
about few attributes. So its answer comes from the tree's marginal of these, fitted to every measurement
inside them (``local_fit``). Of more attributes, or long ones, it comes from a chain of such tables.
Each is a function of the model, the measurements and the scope alone: not of what was asked before. All of
this is post-processing, and free; no bar rests on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.bins import coarse_target
from pmw.model.graphical import LARGEST_TREE, GraphicalDistribution
from pmw.model.measurement import (
    MarginalMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    Target,
)
from pmw.model.mirror_descent import Aim, local_fit
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState, coarse_model, singly
from queries.cell_sets import MOST_SIDES, MOST_SUMS, BoxSums
from queries.linear import LinearQuery
from queries.memory import Memory
from queries.questions import Products

_ATTRIBUTES, _BINS = 4, 20_000  # at most, of a table
_MASKS = 2**19  # weights that are spread out at a time
_CHAINED = 6  # attributes of a chain, at most
_MOST_BYTES = 2**24  # of the tables that are kept, and of sums of them
_Scope: TypeAlias = tuple[str, ...]
_Table: TypeAlias = NDArray[np.float64]


class LocalModels:
    """The local models of one model and what was measured."""

    def __init__(self, state: PublicState) -> None:
        self._state = state
        self._coarse = coarse_model(state)
        self._tables = Memory[_Table](most=2**20, most_bytes=_MOST_BYTES)
        self._sums = Memory[BoxSums](most=2**20, most_bytes=_MOST_BYTES)
        self._chains = Memory[tuple[_Scope, ...]](most=2**12, most_bytes=_MOST_BYTES)
        self._targets = dict[int, Target]()
        self._queries = dict[int, LinearQuery | None]()
        plan = marginal_tier(state.plan)
        self._has_rows = plan is not None and plan.order > 1
        beside = [state.measured[place] for place in state.beside]
        self._beside = [
            set(one.scope) for one in beside if isinstance(one, MarginalMeasurement | RowsMeasurement)
        ]

    def take_over(self, before: LocalModels) -> None:
        """Keep the tables of an earlier state that would be the same: nothing newer is inside them."""
        old, new = before._state, self._state
        later = new.measured[len(old.measured) :]
        is_same = old.model is new.model and old.opening is new.opening and self._has_rows
        is_same = is_same and new.goes_on_from(old.measured)
        if not is_same or not all(isinstance(one, RowsMeasurement) for one in later):
            return
        rows = [frozenset(number.query.scope) for number in singly(later)]  # type: ignore[union-attr]

        def is_kept(scope: _Scope) -> bool:
            return not any(names.issubset(scope) for names in rows)

        self._targets, self._queries = before._targets, before._queries
        self._tables.take_over(before._tables, is_kept)
        self._sums.take_over(before._sums, is_kept)
        self._chains.take_over(before._chains, is_kept)

    def is_of(self, state: PublicState) -> bool:
        """Tell whether a state has the same model and measurements."""
        own = self._state
        return own.model is state.model and own.measured is state.measured and own.opening is state.opening

    def marginal(self, scope: _Scope) -> _Table:
        """Return expected records per declared cell: float64, one axis per attribute, read-only."""
        table = self._table(scope)
        if table is None and self._state.coarsening.coarse.scope_size(scope) <= LARGEST_TREE:
            table = self._joined(scope)
        if table is None:
            return self._state.model.marginal(scope)
        values = self._state.coarsening.expand(scope, table)
        values.flags.writeable = False
        return values

    def sums(self, scope: _Scope) -> BoxSums | None:
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
        factors = self._state.coarsening.weights(query)
        table, names = self._table(query.scope), list(query.scope)
        if table is not None:
            for scope, weights in factors:
                axes = [names.index(name) for name in scope]
                table = np.tensordot(table, weights, (axes, range(len(axes))))
                names = [name for name in names if name not in scope]
            return float(table.sum())
        if all(len(scope) == 1 for scope, _ in factors):
            found = self._along_chain(query.scope, {scope[0]: weights for scope, weights in factors})
            if found is not None:
                return found
        return self._state.model.answer(query)

    def answers(self, products: Products) -> list[float]:
        """Return the expected answers to products, in records: ``answer`` of each."""
        table = self._table(products.scope)
        if table is None:
            return [*map(self.answer, products)]
        size = max(1, _MASKS // max(self._state.coarsening.fine[name].size for name in products.scope))
        places = np.arange(len(products))
        parts = (products.take(places[start : start + size]) for start in range(0, len(places), size))
        return [count for part in parts for count in self._products(table, part)]

    def _products(self, table: _Table, products: Products) -> Iterator[float]:
        columns, coarsening = [], self._state.coarsening
        for name, side in zip(products.scope, products.sides, strict=True):
            cells = side.masks(coarsening.fine[name].size).T.astype(np.float64)
            columns.append(np.ascontiguousarray(coarsening.averaged((name,), cells).T)[:, :, None])
        shapes = [table.shape[axis + 1 :] for axis in range(table.ndim)]
        first = _turned(table)
        for rows in zip(*columns, strict=True):
            left = first
            for shape, own in zip(shapes, rows, strict=True):  # as ``tensordot``, to the bit
                left = np.dot(left, own).reshape(shape)
                left = _turned(left) if shape else left
            yield float(left)

    def holds(self, query: LinearQuery) -> bool:
        """Tell whether what was measured of a question itself is a part of its table."""
        return self._state.coarsening.is_aligned(query) and self._table(query.scope) is not None

    # --- tables ---------------------------------------------------------------------------------------------

    def _table(self, scope: _Scope) -> _Table | None:
        """Return a scope's own table, on bins; None where it is too large, or the model's own serves.

        A model that nothing lies beside holds everything that was measured; but where all pairs are measured,
        their noise may be too small for its descent to reach.
        """
        is_local = self._has_rows or any(len(names & set(scope)) > 1 for names in self._beside)
        if not (scope and is_local) or self._state.coarsening.coarse.scope_size(scope) > _BINS:
            return None
        found = self._tables.get(scope)
        if found is None:
            if len(scope) > _ATTRIBUTES:
                found = self._joined(scope)
            else:
                found = local_fit(self._coarse.marginal(scope), scope, list(self._aims(scope))).table
            if found is not None:
                self._tables.keep(scope, found, found.nbytes)
        return found

    def _aims(self, scope: _Scope) -> Iterator[Aim]:
        """Yield what was measured inside a scope, each once: of the same cells or rows one mean."""
        same: dict[tuple[object, ...], list[Target]] = {}
        for one in singly((*self._state.opening, *self._state.measured)):
            if isinstance(one, QueryMeasurement):
                on_bins = self._on_bins(one.query) if set(one.query.scope) <= set(scope) else None
                if on_bins is not None:
                    yield replace(one, query=on_bins)
                continue
            inside = tuple(name for name in one.scope if name in scope)
            rows = one.strategy if isinstance(one, ResidualMeasurement) else None
            by_cells = isinstance(one, MarginalMeasurement) and rows is None
            if inside == one.scope or (by_cells and len(inside) > 1):
                key = id(one)  # the state holds it as long as this lives
                if key not in self._targets:
                    total = self._state.total.value
                    self._targets[key] = coarse_target(self._state.coarsening, one, total)
                same.setdefault((inside, rows), []).append(_summed(self._targets[key], inside))
        yield from map(_mean, same.values())

    def _on_bins(self, query: LinearQuery) -> LinearQuery | None:
        """Return a measured question on bins; None where it cuts one."""
        key = id(query)  # as long-lived as the measurement
        if key not in self._queries:
            inner, outer = self._state.coarsening.bounds(query)
            self._queries[key] = inner if inner is outer else None
        return self._queries[key]

    # --- chains ---------------------------------------------------------------------------------------------

    def _windows(self, scope: _Scope) -> tuple[_Scope, ...]:
        """Return the attributes of each table of a chain; none where the model's own answer serves.

        An attribute is independent of those before its table, given the others in it. So the order is the one
        that parts attributes which depend least on each other.
        """
        found = self._chains.get(scope)
        if found is None:
            found = self._best_windows(scope)
            self._chains.keep(scope, found, 64 * len(scope))
        return found

    def _best_windows(self, scope: _Scope) -> tuple[_Scope, ...]:
        model, size = self._coarse, self._state.coarsening.coarse.scope_size
        if (
            not self._has_rows
            or not 3 <= len(scope) <= _CHAINED
            or not isinstance(model, GraphicalDistribution)
        ):
            return ()
        if any(set(scope) <= set(clique) for clique in model.cliques):
            return ()
        pairs = itertools.combinations(scope, 2)
        shared = {frozenset(pair): self._mutual_information(pair) for pair in pairs}
        for width in range(min(_ATTRIBUTES, len(scope) - 1), 1, -1):
            orders = (order for order in itertools.permutations(scope) if order[0] < order[-1])
            chains = (
                tuple(zip(*(order[place:] for place in range(width)), strict=False)) for order in orders
            )
            fitting = [one for one in chains if max(map(size, one)) <= _BINS]
            if fitting:
                return min(fitting, key=lambda one: _parted(one, shared))
        return ()

    def _mutual_information(self, pair: Sequence[str]) -> float:
        table = self._table(tuple(pair))
        joint = self._coarse.marginal(tuple(pair)) if table is None else table
        joint = joint / joint.sum()
        alone = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        there = joint > 0
        return float(np.sum(joint[there] * np.log(joint[there] / alone[there])))

    def _steps(self, windows: Sequence[_Scope]) -> Iterator[_Table]:
        """Yield the table of the first window, then the shares of each further attribute, axes in order."""
        for number, names in enumerate(windows):
            ordered = tuple(sorted(names, key=self._state.domain.index))
            table = self._table(ordered)
            if table is None:
                table = self._coarse.marginal(ordered)
            table = table.transpose([ordered.index(name) for name in names])
            if number:
                sums = table.sum(axis=-1, keepdims=True)
                table = np.divide(table, sums, out=np.zeros_like(table), where=sums > 0)
            yield table

    def _along_chain(self, scope: _Scope, weights: Mapping[str, _Table]) -> float | None:
        windows = self._windows(scope)
        if not windows:
            return None
        passed, after = np.ones(()), [names[0] for names in windows[1:]]
        for names, table in zip(windows, self._steps(windows), strict=True):
            passed = table if names is windows[0] else passed[..., None] * table
            for name in names[:1] if after else names:
                passed = np.tensordot(weights[name], passed, 1) if name in weights else passed.sum(axis=0)
            after = after[1:]
        return float(passed)

    def _joined(self, scope: _Scope) -> _Table | None:
        windows = self._windows(scope)
        if not windows:
            return None
        joint, names = np.ones(()), list[str]()
        for window, table in zip(windows, self._steps(windows), strict=True):
            before = len(names) - (len(window) - 1)  # attributes that were left behind
            joint = joint[..., None] * table if not names else joint[..., None] * table[(None,) * before]
            names = [*names, window[-1]] if names else list(window)
        return np.ascontiguousarray(joint.transpose([names.index(name) for name in scope]))


def local_models(state: PublicState) -> LocalModels:
    """Return the local models of a state: found once for each model, and kept with the newest."""
    found = state.found.local
    if not isinstance(found, LocalModels) or not found.is_of(state):
        before = found if isinstance(found, LocalModels) else None
        found = state.found.local = LocalModels(state)
        if before is not None:
            found.take_over(before)
    return found


def _turned(table: _Table) -> _Table:
    """Return a table as a matrix whose columns are the cells of its first axis."""
    if table.ndim == 2:
        return table.T  # the same, sooner
    return table.transpose(*range(1, table.ndim), 0).reshape(-1, table.shape[0])


def _parted(windows: Sequence[_Scope], shared: Mapping[frozenset[str], float]) -> float:
    held = {frozenset(pair) for names in windows for pair in itertools.combinations(names, 2)}
    return sum(information for pair, information in shared.items() if pair not in held)


def _summed(target: Target, scope: _Scope) -> Target:
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
