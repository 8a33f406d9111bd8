"""Evaluations of a descent: what a model says where numbers were measured, again and again for other duals.

A descent moves all duals at once, so it holds them in one array, and what the model says in another. Terms
and models are objects to be kept; none is made for an evaluation on a junction tree, which is a gradient in
arrays that are there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.distribution import MarginalTerm, QueryTerm, SyntheticDistribution, Term
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import QueryMeasurement, Target

Aim: TypeAlias = Target | QueryMeasurement
Flat: TypeAlias = NDArray[np.float64]  # one number per measured one, in the evaluator's order


class Evaluator(Protocol):
    """What a model says of aims, as a function of their duals."""

    def flat(self, tables: Sequence[NDArray[np.float64]]) -> Flat:
        """Return tables, one per aim and shaped like it, in one array."""

    def values(self, duals: Flat) -> Flat:
        """Return what the model of these duals says: float64, records."""

    def model(self, duals: Flat) -> SyntheticDistribution:
        """Return the model of these duals."""


def evaluator(model: SyntheticDistribution, aims: Sequence[Aim]) -> Evaluator:
    """Return what evaluates models with a term for each aim, over a model's domain and total.

    Args:
        model: the form of the models.
        aims: one or more.
    """
    targets = [aim for aim in aims if isinstance(aim, Target)]
    if isinstance(model, GraphicalDistribution) and len(targets) == len(aims):
        return _OnTree(model, targets)
    return _OfModels(model, aims)


class _OfModels:
    """Evaluates by making the models; one is kept."""

    def __init__(self, model: SyntheticDistribution, aims: Sequence[Aim]) -> None:
        self._like = model
        self._aims = aims
        sizes = [aim.values.size if isinstance(aim, Target) else 1 for aim in aims]
        self.bounds = np.cumsum(sizes)[:-1]

    def flat(self, tables: Sequence[NDArray[np.float64]]) -> Flat:
        return np.concatenate([table.reshape(-1) for table in tables])

    def values(self, duals: Flat) -> Flat:
        moved = self.model(duals)
        tables = iter(moved.marginals([aim.scope for aim in self._aims if isinstance(aim, Target)]))
        return self.flat(
            [
                next(tables) if isinstance(aim, Target) else np.array(moved.answer(aim.query))
                for aim in self._aims
            ]
        )

    def model(self, duals: Flat) -> SyntheticDistribution:
        parts = np.split(duals, self.bounds)
        return self._like.with_terms([_term(aim, part) for aim, part in zip(self._aims, parts, strict=True)])


class _OnTree:
    """Evaluates by the gradient on the junction tree; where that leaves float64, by making the models."""

    def __init__(self, model: GraphicalDistribution, aims: Sequence[Target]) -> None:
        self._models = _OfModels(model, aims)
        terms = [MarginalTerm(aim.scope, np.zeros(aim.values.shape)) for aim in aims]
        self._potentials = model.with_terms(terms).potential_marginals()
        numbers = np.arange(sum(aim.values.size for aim in aims))
        places = [
            part.reshape(aim.values.shape)
            for aim, part in zip(aims, np.split(numbers, self._models.bounds), strict=True)
        ]
        self._scopes = [self._potentials.number(aim.scope) for aim in aims]
        turned = [self._potentials.inward(aim.scope, part) for aim, part in zip(aims, places, strict=True)]
        self._shapes = [part.shape for part in turned]
        self._order = np.concatenate([part.reshape(-1) for part in turned])
        self._total = model.total

    def flat(self, tables: Sequence[NDArray[np.float64]]) -> Flat:
        return np.take(self._models.flat(tables), self._order)

    def values(self, duals: Flat) -> Flat:
        sums: dict[int, NDArray[np.float64]] = {}
        parts = np.split(duals, self._models.bounds)
        for number, shape, part in zip(self._scopes, self._shapes, parts, strict=True):
            table = part.reshape(shape)
            sums[number] = sums[number] + table if number in sums else table
        found = self._potentials.marginals([sums[number] for number in range(len(sums))])
        if found is None:
            return np.take(self._models.values(self._declared(duals)), self._order)
        values = np.concatenate([found[number].reshape(-1) for number in self._scopes])
        values *= self._total
        return values

    def model(self, duals: Flat) -> SyntheticDistribution:
        return self._models.model(self._declared(duals))

    def _declared(self, duals: Flat) -> Flat:
        found = np.empty_like(duals)
        found[self._order] = duals
        return found


def _term(aim: Aim, dual: NDArray[np.float64]) -> Term:
    if isinstance(aim, Target):
        return MarginalTerm(aim.scope, dual.reshape(aim.values.shape))
    return QueryTerm(aim.query, float(dual[0]))
