"""Weights of the records of one group, cell by cell: what a statement's sums add up. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellValues, on_scope, union_scope
from queries.domain import Domain
from queries.expressions import Linear
from queries.factors import UNITS, Factor
from queries.linear import LinearQuery
from queries.statements import Group, Statement

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GroupWeights:
    """Weights of the records of one group, cell by cell.

    Args:
        scope: attribute names in declared order.
        ends: the least and the greatest weight of a record that is meant, and the one that stands for it.
        least: the records of the cell are meant.
        share: the part of them, of an evenly filled cell.
        most: some of them may be meant.
    """

    scope: tuple[str, ...]
    ends: tuple[_Array, _Array, _Array]  # low, middle, high
    least: NDArray[np.bool_]
    share: _Array
    most: NDArray[np.bool_]
    low: _Array = field(init=False)
    middle: _Array = field(init=False)
    high: _Array = field(init=False)

    def __post_init__(self) -> None:
        low, middle, high = self.ends
        low = np.where(self.least, low, np.where(self.most, np.minimum(low, 0.0), 0.0))
        high = np.where(self.least, high, np.where(self.most, np.maximum(high, 0.0), 0.0))
        middle = np.where(self.least, middle, np.where(self.most, self.share * middle, 0.0))
        for name, array in (("low", low), ("middle", middle), ("high", high)):
            object.__setattr__(self, name, np.broadcast_to(array, self.least.shape))

    def minus(self, r: float, other: GroupWeights) -> GroupWeights:
        """Return these weights minus r times others, on one scope.

        Where both sums are of the same records, they take a record in, or leave it out, together.
        """
        together = np.array_equal(self.least, other.least) and np.array_equal(self.most, other.most)
        one, two = (self.ends, other.ends) if together else (self._reached, other._reached)
        low, high = (two[2], two[0]) if r >= 0 else (two[0], two[2])
        ends = one[0] - r * low, one[1] - r * two[1], one[2] - r * high
        if together:
            return GroupWeights(self.scope, ends, self.least, self.share, self.most)
        everywhere = np.ones(self.least.shape, dtype=bool)
        return GroupWeights(self.scope, ends, everywhere, everywhere.astype(np.float64), everywhere)

    @property
    def _reached(self) -> tuple[_Array, _Array, _Array]:
        return self.low, self.middle, self.high


def group_weights(
    statement: Statement, form: Linear, group: Group, extra: tuple[str, ...] = ()
) -> GroupWeights:
    """Return the weights of a sum over a group's records where the statement's condition holds.

    Args:
        statement: whose condition and attributes are meant.
        form: the sum.
        group: the group; every one of them where the sum is over all groups together.
        extra: further attributes that the weights are wanted over.
    """
    domain = statement.domain
    where = CellCondition.of(statement.where) if statement.condition is None else statement.condition
    scopes = [where.scope, form.scope, extra, group.scope if form.grouped else ()]
    scope = union_scope(domain, scopes)
    shape = domain.scope_shape(scope)
    inside: NDArray[np.bool_] = np.ones((), dtype=bool)
    if form.grouped:
        inside = group.inside(domain, scope)
    least, share, most = (
        on_scope(domain, where.scope, one, scope) for one in (where.least, where.share, where.most)
    )
    low, middle, high = (
        np.broadcast_to(on_scope(domain, form.scope, one, scope), shape) for one in form.arrays
    )
    least, most = (np.broadcast_to(one & inside, shape) for one in (least, most))
    return GroupWeights(scope, (low, middle, high), least, np.broadcast_to(share, shape), most)


def counted_values(values: CellValues) -> Linear:
    """Return the number of records that hold a number."""
    ones = values.present.astype(np.float64)
    return Linear(values.scope, ones, ones, ones, counting=True)


def summed_values(values: CellValues) -> Linear:
    """Return the sum of a number over the records that hold one."""
    low, middle, high = (np.where(values.present, one, 0.0) for one in values.arrays)
    return Linear(values.scope, low, middle, high)


def squared_values(values: CellValues, centre: float) -> Linear:
    """Return the sum of squared differences from a number; what lies inside a cell is allowed for."""
    ends = (values.low - centre) ** 2, (values.high - centre) ** 2
    inside = (values.low <= centre) & (centre <= values.high)
    low, high = np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends)
    middle = (values.middle - centre) ** 2 + (values.high - values.low) ** 2 / 12  # as evenly spread
    middle = np.where(values.high > values.low, np.clip(middle, low, high), (values.middle - centre) ** 2)
    low, middle, high = (np.where(values.present, one, 0.0) for one in (low, middle, high))
    return Linear(values.scope, low, middle, high)


def multiplied_values(one: CellValues, two: CellValues, centres: tuple[float, float]) -> Linear:
    """Return the sum of products of differences from two numbers, over the records that hold both values."""
    left, right = ([array - centre for array in values.arrays]
                   for values, centre in zip((one, two), centres, strict=True))  # fmt: skip
    corners = [first * second for first in (left[0], left[2]) for second in (right[0], right[2])]
    arrays = np.minimum.reduce(corners), left[1] * right[1], np.maximum.reduce(corners)
    low, middle, high = (np.where(one.present & two.present, array, 0.0) for array in arrays)
    return Linear(one.scope, low, middle, high)


def narrowed(scope: tuple[str, ...], weights: _Array) -> tuple[tuple[str, ...], _Array]:
    """Return the attributes that weights vary over, and the weights over these."""
    kept = []
    for axis, name in reversed(list(enumerate(scope))):
        first = weights.take([0], axis=axis)
        if np.all(weights == first):
            weights = first.reshape([size for place, size in enumerate(weights.shape) if place != axis])
        else:
            kept.append(name)
    return tuple(reversed(kept)), weights


def following_question(domain: Domain, parts: list[GroupWeights]) -> LinearQuery:
    """Return a question whose weights follow those of some sums: a half to one where any of them is not 0."""
    scope = union_scope(domain, [one.scope for one in parts])
    weights, inside = np.zeros(domain.scope_shape(scope)), np.zeros(domain.scope_shape(scope), dtype=bool)
    for number, part in enumerate(parts):
        middle = on_scope(domain, part.scope, part.middle, scope)
        span = float(middle.max() - middle.min())
        weights = weights + (middle - middle.min()) / (span or 1.0) / (number + 1)
        possible = (part.low != 0) | (part.high != 0)
        inside = inside | on_scope(domain, part.scope, possible, scope)
    weights = np.where(inside, 0.5 + 0.5 * weights / max(float(weights.max()), 1.0), 0.0)
    return LinearQuery(domain, (Factor(scope, np.rint(weights * UNITS).astype(np.int64)),))
