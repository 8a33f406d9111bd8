"""Mirror descent: accelerated multiplicative weights over all measurements. Post-processing, and free.

The loss of a model with answers a_i, where y_i was measured with variance v_i, is

    L = sum_i (a_i - y_i)^2 / (2 v_i).

Of a residual, which was measured by rows K, it is (a - y)' K'K (a - y) / (2 v) over the marginal's cells;
then (a - y) / v becomes K'K (a - y) / v in what follows. K sums to zero along each attribute, so a residual
does not weigh on what marginals of fewer attributes say.

One step of entropic mirror descent lowers the dual of each number by rate * (a_i - y_i) / v_i, which is
multiplicative weights with all measurements in one exponent. Directions that many measurements share
converge first, and noise in small cells last: a descent that is warm-started and stopped early keeps most of
that noise out. A penalty on the duals did worse on the stream benchmark, for it never lets go of the large
effects. Nesterov's momentum does in k steps what takes about k^2/4 plain ones; it starts again whenever the
loss rises.

A descent moves all duals at once, so it holds them in one array, and what the model says in another. Terms
and models are objects to be kept; none is made for an evaluation on a junction tree, which is a gradient in
arrays that are there already.

A model of many attributes holds some of what was measured, and its one descent ends before small parts of it
have converged. So a local fit moves the small table of the attributes that a question is about, from the
model's own marginal, to all that was measured inside it. The same step mends the model. If p is a
distribution and S some of its attributes, the marginal over S of p(x) exp(theta(x_S)), scaled to sum to 1, is
p_S(x_S) exp(theta(x_S)), scaled likewise. So the duals of a local fit, added to the model's, make the fitted
table the model's marginal.

Source: Arora, Hazan and Kale (2012) for multiplicative weights as mirror descent with the entropy; Nesterov
    (1983) for the momentum; O'Donoghue and Candès (2015), Section 3.2, for the restarts.
    Csiszar (1975), I-divergence geometry of probability distributions, for the table of a local fit.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.distribution import SyntheticDistribution
from pmw.model.factors import plan_projections
from pmw.model.gradient import Gradient
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import QueryMeasurement, Target
from pmw.model.strategy import along
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.places import as_index

FIRST_STEP_SIZE = 3.0  # of the first descent; later ones start from where the one before ended
_FASTER, _SLOWER = 1.2, 0.7  # the step size between descents, and where the loss rises
_RISE = 1e-4  # of the loss, from which on it is taken to rise
_LARGEST_DUAL = 300.0  # far from overflow, whatever contradicts itself
Aim: TypeAlias = Target | QueryMeasurement
_Scalar = TypeVar("_Scalar", bound=np.generic)
Flat: TypeAlias = NDArray[np.float64]  # one number per measured one, in the evaluator's order


class Evaluator(abc.ABC):
    """What models say of aims, as a function of their duals; all numbers are in one array."""

    def __init__(self, aims: Sequence[Aim]) -> None:
        self._aims = aims
        self._declared = [aim.values.shape for aim in aims]
        ends = itertools.accumulate(map(math.prod, self._declared), initial=0)
        self._parts = [slice(*pair) for pair in itertools.pairwise(ends)]

    def flat(self, tables: Sequence[NDArray[np.float64]]) -> Flat:
        """Return tables, one per aim and shaped like it, in one array."""
        return np.concatenate([table.reshape(-1) for table in tables])

    def tables(self, flat: NDArray[_Scalar]) -> list[NDArray[_Scalar]]:
        """Return the parts of one array, one per aim and shaped like it."""
        return [part.reshape(shape) for shape, part in zip(self._declared, self._split(flat), strict=True)]

    def _split(self, flat: NDArray[_Scalar]) -> list[NDArray[_Scalar]]:
        return [flat[part] for part in self._parts]

    @abc.abstractmethod
    def values(self, duals: Flat) -> Flat:
        """Return what the model of these duals says: float64, records."""


class _OfModels(Evaluator):
    """What models of one form say.

    Where a model is on a junction tree and every aim is a whole scope, it is the gradient, in arrays that are
    there already; else, and where that leaves float64, the models are made.
    """

    def __init__(self, model: SyntheticDistribution, aims: Sequence[Aim]) -> None:
        super().__init__(aims)
        self._like = model
        self._order = np.arange(self._parts[-1].stop)  # of the numbers, by their places in declared order
        self._gradient: Gradient | None = None
        targets = [aim for aim in aims if isinstance(aim, Target)]
        if not isinstance(model, GraphicalDistribution) or len(targets) < len(aims):
            return
        shaped = model.with_terms([aim.term(np.zeros(aim.values.shape)) for aim in targets])
        self._gradient = shaped.gradient()
        places = zip(targets, super().tables(self._order), strict=True)
        turned = [shaped.inward(aim.scope, part) for aim, part in places]
        self._scopes = [shaped.number(aim.scope) for aim in targets]
        self._shapes = [part.shape for part in turned]
        self._order = np.concatenate([part.reshape(-1) for part in turned])

    def flat(self, tables: Sequence[NDArray[np.float64]]) -> Flat:
        return np.take(super().flat(tables), as_index(self._order))

    def tables(self, flat: NDArray[_Scalar]) -> list[NDArray[_Scalar]]:
        declared = np.empty_like(flat)
        declared[self._order] = flat
        return super().tables(declared)

    def values(self, duals: Flat) -> Flat:
        found = None if self._gradient is None else self._on_tree(self._gradient, duals)
        if found is not None:
            return found
        moved = self.model(duals)
        tables = iter(moved.marginals([aim.scope for aim in self._aims if isinstance(aim, Target)]))
        return self.flat(
            [
                next(tables) if isinstance(aim, Target) else np.array(moved.answer(aim.query))
                for aim in self._aims
            ]
        )

    def model(self, duals: Flat) -> SyntheticDistribution:
        """Return the model of these duals."""
        parts = zip(self._aims, self.tables(duals), strict=True)
        return self._like.with_terms([aim.term(part) for aim, part in parts])

    def _on_tree(self, gradient: Gradient, duals: Flat) -> Flat | None:
        """Return the values by the gradient, or None where ordinary numbers do not hold them."""
        sums: dict[int, NDArray[np.float64]] = {}
        for number, shape, part in zip(self._scopes, self._shapes, self._split(duals), strict=True):
            table = part.reshape(shape)
            sums[number] = sums[number] + table if number in sums else table
        found = gradient.marginals([sums[number] for number in range(len(sums))])
        if found is None:
            return None
        values = np.concatenate([found[number].reshape(-1) for number in self._scopes])
        values *= self._like.total
        return values


@dataclass(frozen=True, slots=True)
class DescentRule:
    """When a descent ends.

    Args:
        tolerance: stop when a step lowers the loss by less than this per measured number.
        enough: stop when the loss is below this, per free number and times two: closer would be fitted to
            noise.
        growth: of the step size with every step that lowers the loss.
    """

    steps: int
    tolerance: float
    enough: float = 0.0
    growth: float = 1.0


@dataclass(frozen=True, slots=True)
class Descent:
    """What a descent came to.

    Args:
        step_size: step length in units of 1 / sum of the measurements' largest curvatures; for the next
            descent.
        loss: L per measured number, times two: about one where residuals are as large as the noise.
    """

    model: SyntheticDistribution
    step_size: float
    loss: float
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """Duals, and how far the model is there from what was measured: all numbers in one array each."""

    duals: NDArray[np.float64]
    residuals: NDArray[np.float64]  # (a - y) / v
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class _Loss:
    """The loss as a function of the duals.

    Args:
        information: of each aim, the matrices K'K through which it is seen; None for numbers by themselves.
    """

    evaluate: Evaluator
    measured: NDArray[np.float64]
    variance: NDArray[np.float64]
    information: tuple[tuple[NDArray[np.float64], ...] | None, ...]

    @classmethod
    def of(cls, evaluate: Evaluator, aims: Sequence[Aim]) -> _Loss:
        """Return the loss of what is evaluated."""
        measured = evaluate.flat([aim.values for aim in aims])
        variance = evaluate.flat([np.broadcast_to(aim.variance, aim.values.shape) for aim in aims])
        return cls(evaluate, measured, variance, tuple(aim.information for aim in aims))

    def at(self, duals: NDArray[np.float64]) -> _Point:
        """Return the point of some duals."""
        error = self.evaluate.values(duals) - self.measured
        seen = error
        if any(one is not None for one in self.information):  # errors of residuals, as their rows see them
            tables = zip(self.information, self.evaluate.tables(error), strict=True)
            seen = self.evaluate.flat([one if axes is None else along(axes, one) for axes, one in tables])
        residuals = seen / self.variance
        return _Point(duals, residuals, float(np.vdot(residuals, error)) / 2)


def descend(
    model: SyntheticDistribution,
    aims: Sequence[Aim],
    *,
    step_size: float,
    rule: DescentRule,
    told: Callable[[int], None] | None = None,
) -> Descent:
    """Return the model after multiplicative weights over all aims, starting from its own duals.

    Args:
        model: its terms belong to the first aims, in order; further aims start with a dual of zero.
        aims: at least as many as the model has terms.
    """
    if len(model.terms) > len(aims):
        raise BudgetError(f"expected at most {len(aims)} terms, got {len(model.terms)}")
    numbers = sum(aim.values.size for aim in aims)
    if numbers == 0:
        return Descent(model, step_size, 0.0, 0)
    start = [term.duals for term in model.terms]
    start += [np.zeros(aim.values.shape) for aim in aims[len(start) :]]
    evaluate = _OfModels(model, aims)
    lowest = lowered(evaluate, aims, start, step_size=step_size, rule=rule, told=told)
    return Descent(evaluate.model(lowest.duals), lowest.step_size, 2 * lowest.loss / numbers, lowest.steps)


class Lowest(NamedTuple):
    """Where a descent ended: duals, the loss there, the step size for the next one, and evaluations."""

    duals: Flat
    loss: float
    step_size: float
    steps: int


def lowered(
    evaluate: Evaluator,
    aims: Sequence[Aim],
    start: Sequence[NDArray[np.float64]],
    *,
    step_size: float,
    rule: DescentRule,
    told: Callable[[int], None] | None = None,
) -> Lowest:
    """Return the duals of the lowest loss that a descent meets."""
    numbers, free = sum(one.size for one in start), sum(aim.free_numbers for aim in aims)
    unit = 1.0 / (sum(map(_curvature, aims)) or 1.0)  # residuals of single bins have none
    loss = _Loss.of(evaluate, aims)
    best = ahead = loss.at(evaluate.flat(start))
    duals, momentum, steps = ahead.duals, 0, 1
    step_size *= _FASTER
    while steps < rule.steps and 2 * best.loss >= rule.enough * free:
        moved = np.clip(ahead.duals - step_size * unit * ahead.residuals, -_LARGEST_DUAL, _LARGEST_DUAL)
        point = loss.at(moved + momentum / (momentum + 3) * (moved - duals))
        steps += 1
        if told is not None:
            told(1)
        if point.loss > ahead.loss * (1 + _RISE):
            step_size *= _SLOWER
            ahead, duals, momentum = best, best.duals, 0
            continue
        gain = (ahead.loss - point.loss) / numbers
        duals, ahead, momentum = moved, point, momentum + 1
        step_size *= rule.growth
        if point.loss < best.loss:
            best = point
        if momentum > 1 and gain < rule.tolerance:
            break
    return Lowest(best.duals, best.loss, step_size, steps)


def _curvature(aim: Aim) -> float:
    """Return the largest cell over its variance: how fast a residual answers to its dual, at most."""
    if isinstance(aim, Target):
        largest = 1.0 if aim.information is None else math.prod(one.max() for one in aim.information)
        if not largest:
            return 0.0
        variance = aim.variance / largest
        return float((np.maximum(aim.values, np.sqrt(variance)) / variance).max())
    return float(max(aim.value, aim.variance**0.5) / aim.variance)


# --- local fits --------------------------------------------------------------------------------------------

# Until chi squared is half of the free numbers, as the session's own fit.
_RULE = DescentRule(steps=150, tolerance=1e-5, enough=0.5, growth=1.02)
_SWEEPS = 3  # over the cliques of a model: the third changes errors by a few percent
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
        axes = [tuple([scope.index(name) for name in aim.scope]) for aim in aims]
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
    start = [np.zeros(aim.values.shape) for aim in aims]
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
    places = [place for place, aim in enumerate(aims) if set(aim.scope) <= set(scope)]
    fit = local_fit(model.marginal(scope), scope, [aims[place] for place in places])
    if fit.steps <= 1:
        return model
    terms = list(model.terms)
    for place, added in zip(places, fit.duals, strict=True):
        terms[place] = terms[place].moved(added)
    return model.with_terms(terms)
