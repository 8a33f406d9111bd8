"""Local fit: a table of a few attributes, moved to all that was measured of them. Post-processing, and free.

A model of many attributes holds some of what was measured, and its one descent ends before small parts of it
have converged. The table of the attributes that a question is about is small: entropic mirror descent from
the model's own marginal takes in all that was measured inside it. The table stays the model's where nothing
was measured.

The same step mends the model. If p is a distribution and S some of its attributes, the marginal over S of
p(x) exp(theta(x_S)), scaled to sum to 1, is p_S(x_S) exp(theta(x_S)), scaled likewise. So the duals of a
local fit, added to the model's, make the fitted table the model's marginal.

Source: Csiszar (1975), I-divergence geometry of probability distributions, for the table that is nearest in
    entropy; ``mirror_descent`` for the descent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmw.model.distribution import MarginalTerm, QueryTerm
from pmw.model.factors import plan_projections
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import Target
from pmw.model.mirror_descent import FIRST_STEP_SIZE, Aim, DescentRule, Evaluator, Flat, lowered
from queries.factors import UNITS
from queries.frozen import dataclass

# Until chi squared is half of the free numbers, as the session's own fit.
_RULE = DescentRule(steps=150, tolerance=1e-5, enough=0.5, growth=1.02)
_SWEEPS = 3  # over the cliques of a model: the third changes errors by a few percent (docs/algorithm.md)
_LARGEST_CLIQUE = 2**16  # cells of one that is fitted: larger ones take longer and gain as little
_LEAST = 1e-12  # records in a cell, from which a dual of moderate size can raise it


@dataclass(frozen=True, slots=True, eq=False)
class LocalFit:
    """What a local fit came to.

    Args:
        table: float64, one axis per attribute, records; read-only.
        duals: of each aim, what was added to it: float64, shaped like it.
    """

    table: NDArray[np.float64]
    duals: list[NDArray[np.float64]]
    steps: int


class _Cells(Evaluator):
    """What a table says of aims.

    Args:
        base: float64, one axis per attribute, records: the table of no duals.
    """

    def __init__(self, base: NDArray[np.float64], scope: tuple[str, ...], aims: Sequence[Aim]) -> None:
        super().__init__(aims)
        self._base = np.log(np.maximum(base, _LEAST))
        self._total = float(base.sum())
        axes = [tuple([scope.index(name) for name in _names(aim)]) for aim in aims]
        self._spread = [[size if axis in own else 1 for axis, size in enumerate(base.shape)] for own in axes]
        self._weights = [None if isinstance(aim, Target) else aim.query.weights() / UNITS for aim in aims]
        self._sums = plan_projections(base.shape, tuple(range(base.ndim)), tuple(axes))

    def table(self, duals: Flat) -> NDArray[np.float64]:
        """Return the table of these duals: float64, records."""
        cells = self._base.copy()
        for part, shape, weights in zip(self._parts, self._spread, self._weights, strict=True):
            added = duals[part] if weights is None else duals[part] * weights.reshape(-1)
            cells += added.reshape(shape)
        cells -= cells.max()
        np.exp(cells, out=cells)
        cells *= self._total / cells.sum()
        return cells

    def values(self, duals: Flat) -> Flat:
        sums = zip(self._sums.run(self.table(duals)), self._weights, strict=True)
        return self.flat(
            [one if weights is None else np.array(np.vdot(one, weights)) for one, weights in sums]
        )


def local_fit(base: NDArray[np.float64], scope: tuple[str, ...], aims: Sequence[Aim]) -> LocalFit:
    """Return a table fitted to what was measured of its attributes.

    Args:
        base: float64, one axis per attribute, records: the model's marginal.
        aims: what was measured of some or all of them, on the cells of ``base``, each once.
    """
    start = [np.zeros(np.shape(aim.values) if isinstance(aim, Target) else ()) for aim in aims]
    if not aims or base.size == 1:
        return LocalFit(base, start, 0)
    cells = _Cells(base, scope, aims)
    lowest = lowered(cells, aims, start, step_size=FIRST_STEP_SIZE, rule=_RULE)
    table = base if lowest.steps == 1 else cells.table(lowest.duals)
    table.flags.writeable = False
    return LocalFit(table, cells.tables(lowest.duals), lowest.steps)


def with_local_fits(model: GraphicalDistribution, aims: Sequence[Aim]) -> GraphicalDistribution:
    """Return a model on a tree whose smaller cliques were fitted, one after the other, a few times."""
    for _ in range(_SWEEPS):
        before = model
        for clique in model.cliques:
            if model.domain.scope_size(clique) <= _LARGEST_CLIQUE:
                model = _with_local_fit(model, clique, aims)
        if model is before:
            break
    return model


def _with_local_fit(
    model: GraphicalDistribution, scope: tuple[str, ...], aims: Sequence[Aim]
) -> GraphicalDistribution:
    """Return the model whose marginal over a scope is fitted to what was measured inside it."""
    places = [place for place, aim in enumerate(aims) if set(_names(aim)) <= set(scope)]
    fit = local_fit(model.marginal(scope), scope, [aims[place] for place in places])
    if fit.steps <= 1:
        return model
    terms = list(model.terms)
    for place, added in zip(places, fit.duals, strict=True):
        term = terms[place]
        if isinstance(term, MarginalTerm):
            terms[place] = MarginalTerm(term.scope, term.duals + added)
        else:
            terms[place] = QueryTerm(term.query, term.dual + float(added))
    return model.with_terms(terms)


def _names(aim: Aim) -> tuple[str, ...]:
    return aim.scope if isinstance(aim, Target) else aim.query.scope
