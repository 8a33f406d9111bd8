"""Impossible cells: those of which a schema says, by a condition, that no record is in them.

That is as public as the schema. A record in such a cell is dropped when it is read, as one with an undeclared
value is. So every table that is counted has none, a question may leave these cells out, and its answer is the
same: it takes in fewer noisy numbers. A question that is about these cells alone counts nobody.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.errors import DomainError
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.places import as_index

MOST_CELLS = 2**16  # of the attributes of one condition
MOST_CONDITIONS = 100
_MOST_TOGETHER = 2**20  # cells of the attributes of a question that are looked at together

Sizes: TypeAlias = Mapping[str, int]  # cells of each attribute of a domain, in declared order


@dataclass(frozen=True, slots=True)
class Impossible:
    """A condition that no record satisfies. Made by ``rule_out``.

    Args:
        where: the condition.
        scope: its attributes, in declared order.
        inside: bool, one axis per attribute: the cells that it holds in.
    """

    where: str
    scope: tuple[str, ...]
    inside: NDArray[np.bool_] = field(compare=False, repr=False)

    def holds(self, names: Sequence[str], columns: Sequence[NDArray[np.integer[Any]]]) -> NDArray[np.bool_]:
        """Return which records are in these cells; see ``possible_records``."""
        cells = tuple(as_index(columns[names.index(name)]) for name in self.scope)
        known = np.logical_and.reduce([column >= 0 for column in cells])
        return np.asarray(known & self.inside[cells])

    def over(self, scope: tuple[str, ...]) -> NDArray[np.bool_]:
        """Return which cells of a scope are impossible, whatever the other attributes are.

        Returns:
            bool, shaped to broadcast over the scope.
        """
        others = tuple(axis for axis, name in enumerate(self.scope) if name not in scope)
        cells = np.asarray(self.inside.all(axis=others))
        return _spread(cells, [name for name in self.scope if name in scope], scope)


def check_impossible(impossible: Sequence[Impossible], sizes: Sizes) -> None:
    """Refuse conditions that are of other attributes."""
    if len(impossible) > MOST_CONDITIONS:
        raise DomainError(f"expected at most {MOST_CONDITIONS} impossible conditions, got {len(impossible)}")
    for one in impossible:
        is_made = issubclass(type(one), Impossible)
        if not is_made or tuple(sizes[name] for name in sizes if name in one.scope) != one.inside.shape:
            raise DomainError("expected impossible conditions that rule_out made for the same attributes")


def possible_records(
    impossible: Iterable[Impossible], names: Sequence[str], columns: Sequence[NDArray[np.integer[Any]]]
) -> NDArray[np.bool_]:
    """Return which records are in no impossible cell: bool, shape (records,).

    Args:
        names: of all attributes, in declared order.
        columns: the cells of each attribute, shape (records,) each; what is below 0 is in no cell. There may
            be more behind them.
    """
    found = np.ones(len(columns[0]), dtype=np.bool_)
    for one in impossible:
        found &= ~one.holds(names, columns)
    return found


def without_impossible(
    impossible: Iterable[Impossible], sizes: Sizes, factors: tuple[Factor, ...]
) -> tuple[Factor, ...]:
    """Return the factors of a question that leaves impossible cells out; the same where it meets none.

    Where its attributes have too many cells together, it is left as it is: that changes no answer either.
    """
    alike: dict[tuple[str, ...], list[Impossible]] = {}
    for one in impossible:
        alike.setdefault(one.scope, []).append(one)
    for names, several in alike.items():  # those of the same attributes in one step
        met = [factor for factor in factors if not set(names).isdisjoint(factor.scope)]
        about = {name for factor in met for name in factor.scope}
        scope = tuple(name for name in sizes if name in about)
        shape = [sizes[name] for name in scope]
        cells, sides = impossible_cells(several, scope), dict[str, slice]()
        for factor in met:
            sides.update(zip(factor.scope, factor.box, strict=False))  # of a constant there is none
        box = [
            sides.get(name, slice(None)) if length > 1 else slice(None)
            for name, length in zip(scope, cells.shape, strict=True)
        ]
        if not cells[tuple(box)].any() or math.prod(shape) > _MOST_TOGETHER:
            continue
        weights = np.full(shape, UNITS, dtype=np.int64)
        for factor in met:
            weights = weights * _spread(factor.weights, factor.scope, scope) // UNITS
        left = np.where(cells, 0, weights)
        if np.array_equal(left, weights):
            continue
        factors = (*(factor for factor in factors if factor not in met), Factor(scope, left))
    return factors


def _spread(table: NDArray[Any], names: Sequence[str], scope: Sequence[str]) -> NDArray[Any]:
    """Return a table shaped to broadcast over a scope that contains its attributes, in the same order."""
    sizes = dict(zip(names, table.shape, strict=True))
    return table.reshape([sizes.get(name, 1) for name in scope])


def impossible_cells(impossible: Iterable[Impossible], scope: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which cells of a scope no record is in: bool, shaped to broadcast over the scope."""
    none = np.zeros((1,) * len(scope), dtype=np.bool_)
    return functools.reduce(np.logical_or, (one.over(scope) for one in impossible), none)
