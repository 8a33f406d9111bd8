"""Calibration: two sweeps of messages that turn potentials on a junction tree into marginals of its cliques.

Upwards, each clique multiplies its potentials with the messages of its children and sends the sums over its
separator. Downwards, the parent's marginal of the separator replaces the message that was sent up.

Potentials are logarithms, and contradicting measurements make them large. A clique whose tables together
span less than ``_SAFE_SPAN`` is multiplied in ordinary numbers, each table shifted to a maximum of 1: no cell
can underflow, and only the small tables are exponentiated. Any other is added up in logarithms and summed
with a shift for each cell of its separator, so that what one clique calls impossible another may restore.

Tables keep their longest axes last, whatever order was declared. Most products and sums run over a table's
last axes in their innermost loop, which is slow to start and fast to run: over axes of two or five cells it
does little else than start. A tree's widest attributes are also those that most of its tables share. Nothing
outside the graphical model sees that order: scopes, marginals and rows keep the declared one.

Source: Koller and Friedman (2009), Probabilistic Graphical Models, algorithm 10.3 (belief update).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model.factors import Positions, ProductPlan, plan_product, project, spread
from pmw.model.junction_tree import JunctionTree
from queries.frozen import dataclass

_SAFE_SPAN = 600.0  # exp(-600) is 10^-261; float64 reaches 10^-308
_LOWEST = -1e12  # stands for minus infinity, so that differences of potentials stay numbers
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """What calibrating a tree with potentials on given scopes takes, whatever their values.

    Args:
        inputs: per clique, the numbers of the potentials that it multiplies.
        products: per clique, how it multiplies its potentials and its children's messages.
        bounds: where the tables of all cliques but the first start, in one array of all.
    """

    tree: JunctionTree
    inputs: tuple[tuple[int, ...], ...]
    children: tuple[tuple[int, ...], ...]
    products: tuple[ProductPlan, ...]
    separators: tuple[Positions, ...]
    bounds: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """A calibrated tree.

    Args:
        tables: per clique, float64, one axis per position: the probability of each cell.
    """

    tree: JunctionTree
    tables: tuple[NDArray[np.float64], ...]


@dataclasses.dataclass(slots=True, eq=False)
class _Clique:
    """A clique between the two sweeps.

    Args:
        values: products of its tables, or sums of their logarithms, up to a shift.
        shift: logarithm of the factor that the values lack.
        sent: what went to the parent, in the same form and with the same shift.
    """

    values: NDArray[np.float64]
    logarithmic: bool
    shift: float
    sent: NDArray[np.float64]

    @property
    def message(self) -> NDArray[np.float64]:
        """Logarithms of the sums over the separator."""
        return (self.sent if self.logarithmic else np.log(self.sent)) + self.shift


def plan_calibration(tree: JunctionTree, scopes: Sequence[Positions]) -> CalibrationPlan:
    """Return the plan for potentials over scopes, each inside a clique of the tree."""
    inputs: list[list[int]] = [[] for _ in tree.cliques]
    for number, scope in enumerate(scopes):
        home = tree.covering(scope)
        if home is None:
            raise ValueError(f"expected a scope inside a clique, got {scope}")
        inputs[home].append(number)
    children: list[list[int]] = [[] for _ in tree.cliques]
    for clique, parent in enumerate(tree.parents[1:], 1):
        children[parent].append(clique)
    separators = tuple(tree.separator(clique) for clique in range(len(tree.cliques)))
    products = tuple(
        plan_product(
            tree.shape,
            axes,
            tuple([scopes[number] for number in own] + [separators[child] for child in below]),
        )
        for axes, own, below in zip(tree.cliques, inputs, children, strict=True)
    )
    return CalibrationPlan(
        tree,
        tuple(map(tuple, inputs)),
        tuple(map(tuple, children)),
        products,
        separators,
        tuple(accumulate([math.prod(product.shape) for product in products[:-1]])),
    )


def calibrate(plan: CalibrationPlan, potentials: Sequence[NDArray[np.float64]]) -> Beliefs:
    """Return the marginals of all cliques under exp(sum of potentials), normalised.

    Args:
        potentials: float64, natural logarithms; minus infinity forbids a cell.
    """
    # One array for all tables: the system gives a large one out in large pages, and many small ones not.
    values = np.split(np.empty(plan.tree.cells), plan.bounds)
    cliques: list[_Clique] = []
    for number in range(len(plan.products) - 1, -1, -1):
        tables = [np.maximum(potentials[place], _LOWEST) for place in plan.inputs[number]]
        tables += [cliques[len(plan.products) - 1 - child].message for child in plan.children[number]]
        cliques.append(_gathered(plan, number, tables, values[number].reshape(plan.products[number].shape)))
    cliques.reverse()
    beliefs: list[NDArray[np.float64]] = []
    _settle_root(cliques[0])
    for number, clique in enumerate(cliques):
        if number:
            parent = plan.tree.parents[number]
            axes, separator = plan.tree.cliques[number], plan.separators[number]
            held = project(beliefs[parent], plan.tree.cliques[parent], separator)
            _settle(clique, held, separator, axes)
        beliefs.append(clique.values)
    return Beliefs(plan.tree, tuple(beliefs))


def _gathered(
    plan: CalibrationPlan, number: int, tables: Sequence[NDArray[np.float64]], values: NDArray[np.float64]
) -> _Clique:
    """Return a clique with its tables combined into the given array, and what it sends to its parent."""
    highest = [float(table.max()) for table in tables]
    span = sum(highest) - sum(float(table.min()) for table in tables)
    axes, separator = plan.tree.cliques[number], plan.separators[number]
    if span <= _SAFE_SPAN:
        shifted = [np.exp(table - top) for table, top in zip(tables, highest, strict=True)]
        plan.products[number].run(shifted, np.multiply, values)
        return _Clique(values, False, sum(highest), project(values, axes, separator))
    plan.products[number].run(tables, np.add, values)
    summed = tuple(axis for axis, position in enumerate(axes) if position not in separator)
    peaks = values.max(axis=summed, keepdims=True)
    scaled = values - peaks
    np.exp(scaled, out=scaled)
    sent = np.log(project(scaled, axes, separator))
    sent += peaks.reshape(sent.shape)
    return _Clique(values, True, 0.0, sent)


def _settle_root(root: _Clique) -> None:
    """Turn the root's values into probabilities, in place; its separator is empty."""
    if root.logarithmic:
        root.values -= float(root.sent)
        np.exp(root.values, out=root.values)
        root.values /= root.values.sum()
    else:
        root.values /= float(root.sent)


def _settle(clique: _Clique, held: NDArray[np.float64], separator: Positions, axes: Positions) -> None:
    """Turn a clique's values into probabilities, in place, given its parent's marginal of the separator."""
    if clique.logarithmic:
        with np.errstate(divide="ignore"):  # a cell without mass has the logarithm minus infinity
            clique.values += spread(np.log(held) - clique.sent, separator, axes)
        np.exp(clique.values, out=clique.values)
    else:
        clique.values *= spread(held / clique.sent, separator, axes)


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """An order of a domain's attributes for tables.

    Args:
        places: per attribute of the domain, its place in the order.
    """

    places: Positions

    def scope(self, scope: Positions) -> Positions:
        """Return the places of a scope's attributes, ascending."""
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
        """Return a table over declared positions with its axes in the order: C-contiguous."""
        return np.asarray(table.transpose(_axes(self.places, scope)), order="C")

    def outward(self, table: NDArray[np.float64], scope: Positions) -> NDArray[np.float64]:
        """Return a view of a table over places with its axes as they were declared.

        Args:
            table: float64, one axis per place of the scope.
        """
        return table.transpose(_inverse(self.places, scope))

    def declared(self, beliefs: Beliefs, tree: JunctionTree) -> Beliefs:
        """Return beliefs over places as those over declared positions; they are copied."""
        tables = [
            np.asarray(self.outward(table, clique), order="C")
            for table, clique in zip(beliefs.tables, tree.cliques, strict=True)
        ]
        return Beliefs(tree, tuple(tables))


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
