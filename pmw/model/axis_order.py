"""Axis orders: tables of a junction tree keep their longest axes last, whatever order was declared.

Most products and sums run over a table's last axes in their innermost loop, which is slow to start and fast
to run: over axes of two or five cells it does little else than start. A tree's widest attributes are also
those that most of its tables share. Nothing outside the graphical model sees the order: scopes, marginals and
rows keep the declared one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model.calibration import Beliefs
from pmw.model.factors import Positions
from pmw.model.junction_tree import JunctionTree

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """An order of a domain's attributes for tables.

    Args:
        places: per attribute of the domain, its place in the order.
    """

    places: Positions

    def scope(self, scope: Positions) -> Positions:
        """Return the places of a scope's attributes, ascending.

        Args:
            scope: declared positions.
        """
        return tuple(sorted([self.places[position] for position in scope]))

    def tree(self, tree: JunctionTree) -> JunctionTree:
        """Return a tree over declared positions as the same one over places."""
        shape = [0] * len(self.places)
        for size, place in zip(tree.shape, self.places, strict=True):
            shape[place] = size
        cliques = tuple(map(self.scope, tree.cliques))
        masks = tuple(sum(1 << place for place in clique) for clique in cliques)
        return JunctionTree(tuple(shape), cliques, tree.parents, masks)

    def inward(self, table: NDArray[_Scalar], scope: Positions) -> NDArray[_Scalar]:
        """Return a table over declared positions with its axes in the order: C-contiguous.

        Args:
            table: one axis per position of the scope.
            scope: declared positions, ascending.
        """
        return np.asarray(table.transpose(_axes(self.places, scope)), order="C")

    def outward(self, table: NDArray[np.float64], scope: Positions) -> NDArray[np.float64]:
        """Return a view of a table over places with its axes as they were declared.

        Args:
            table: float64, one axis per place of the scope.
            scope: declared positions, ascending.
        """
        return table.transpose(_inverse(self.places, scope))

    def declared(self, beliefs: Beliefs, tree: JunctionTree) -> Beliefs:
        """Return beliefs over places as those over declared positions; they are copied.

        Args:
            beliefs: of the tree in this order.
            tree: the same over declared positions.
        """
        tables = [
            np.asarray(self.outward(table, clique), order="C")
            for table, clique in zip(beliefs.tables, tree.cliques, strict=True)
        ]
        return Beliefs(tree, tuple(tables), beliefs.log_partition)


@lru_cache(maxsize=64)
def by_size(shape: tuple[int, ...]) -> AxisOrder:
    """Return the order from the fewest cells to the most; those with as many stay as they were declared."""
    ordered = sorted(range(len(shape)), key=shape.__getitem__)
    return AxisOrder(tuple(np.argsort(ordered).tolist()))


@lru_cache(maxsize=2**14)
def _axes(places: Positions, scope: Positions) -> Positions:
    """Return the axis of a declared table that comes first, second, ... in the order."""
    return tuple(sorted(range(len(scope)), key=lambda axis: places[scope[axis]]))


@lru_cache(maxsize=2**14)
def _inverse(places: Positions, scope: Positions) -> Positions:
    """Return where each declared axis stands in the order."""
    axes = _axes(places, scope)
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))
