"""Contractions: the product of two tables, summed to some of their positions, without the table of both.

Where the sums are matrix products, they are computed as such, and the product over all positions of both
tables is never written. Where the matrices would be tiny and many, it is written and summed. Which of the
two, and all shapes on the way, are planned once per pair of scopes. A plan is bound to the arrays of its
tables once; what runs again and again is a list of calls on arrays that are there already.

Source: Smith and Gray (2018), opt_einsum, for pairwise contractions as matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.model.factors import Positions, plan_sums, spread, table_cells

# Rough nanoseconds, for the choice between the two ways (numpy with OpenBLAS on one thread).
_CALL = 3000.0  # of one contraction, whatever its size
_MATRIX = 150.0  # one matrix more in a stack of them
_MULTIPLIED = 0.15  # one multiplication inside a matrix product
_WRITTEN = 1.5  # one cell that is copied, or written and summed


Program: TypeAlias = list[Callable[[], object]]  # calls, in order; each writes into an array of its own


@dataclass(frozen=True, slots=True)
class _Operand:
    """How a table becomes a stack of matrices.

    Args:
        scope: positions of the table.
        kept: those that the result or the other table has; the rest is summed first.
        axes: their order as (stack, rows, columns).
        shape: three lengths.
        copied: its last axis is one of the stack's, and a matrix product would step over cells.
    """

    scope: Positions
    kept: Positions
    axes: tuple[int, ...]
    shape: tuple[int, int, int]
    copied: bool

    def bind(self, table: NDArray[np.float64], program: Program) -> NDArray[np.float64]:
        """Return the array that will hold the table as matrices: a view of the table where it can be one."""
        turned = bind_sums(table, self.scope, self.kept, program).transpose(self.axes)
        matrices = turned.reshape(self.shape)
        if not self.copied and np.may_share_memory(matrices, turned):
            return matrices
        held = np.empty(turned.shape)
        program.append(partial(np.copyto, held, turned))
        return held.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Contraction:
    """The product of two tables, summed to a result.

    Args:
        result: positions that stay.
        union: positions of both where their product is written; empty where matrices are multiplied.
        operands: both tables as matrices, in the order of their product.
        swapped: the second table comes first in it, so that fewer results are turned.
        lengths: of the axes of the matrix product.
        axes: where each axis of the result stands in it.
        cost: estimated nanoseconds.
    """

    result: Positions
    union: Positions
    operands: tuple[_Operand, _Operand]
    swapped: bool
    lengths: tuple[int, ...]
    axes: tuple[int, ...]
    cost: float

    def bind(
        self, left: NDArray[np.float64], right: NDArray[np.float64], program: Program
    ) -> NDArray[np.float64]:
        """Return the array that will hold the contraction, and add what computes it to a program.

        The arrays and their views are made here, once; a run of the program allocates nothing.

        Args:
            left: float64, C-contiguous, the array that will hold the first table.
            right: the same of the second.
            program: what is run before.
        """
        if self.swapped:
            left, right = right, left
        first, second = self.operands
        if self.union:
            one = spread(bind_sums(left, first.scope, first.kept, program), first.kept, self.union)
            other = spread(bind_sums(right, second.scope, second.kept, program), second.kept, self.union)
            product = np.empty(np.broadcast_shapes(one.shape, other.shape))
            program.append(partial(np.multiply, one, other, product))
            return bind_sums(product, self.union, self.result, program)
        matrices = first.bind(left, program), second.bind(right, program)
        product = np.empty((matrices[0].shape[0], matrices[0].shape[1], matrices[1].shape[2]))
        program.append(partial(np.matmul, *matrices, product))
        turned = product.reshape(self.lengths).transpose(self.axes)
        if turned.flags.c_contiguous:
            return turned
        held = np.empty(turned.shape)
        program.append(partial(np.copyto, held, turned))
        return held


def bind_sums(
    table: NDArray[np.float64], scope: Positions, kept: Positions, program: Program
) -> NDArray[np.float64]:
    """Return the array that will hold a table's sums over some positions; the table where it keeps all.

    Args:
        table: float64, C-contiguous, the array that will hold the table.
        scope: its positions.
        kept: those that stay.
        program: what is run before.
    """
    steps, shape = plan_sums(table.shape, scope, kept)
    for lead, length, tail in steps:
        ones = np.ones(length)
        held = np.empty((lead,) if tail == 1 else (lead, tail))
        pair = (table.reshape(lead, length), ones) if tail == 1 else (ones, table.reshape(lead, length, tail))
        program.append(partial(np.matmul, *pair, held))
        table = held
    return table.reshape(shape)


@lru_cache(maxsize=2**14)
def plan_contraction(
    shape: tuple[int, ...], left: Positions, right: Positions, result: Positions
) -> Contraction:
    """Return the plan of a contraction.

    Args:
        shape: cells per attribute of the domain.
        left: positions of the first table.
        right: positions of the second table.
        result: those of either that stay, ascending.
    """
    first, second = _met(left, right, result), _met(right, left, result)
    rows = [position for position in first if position not in second]
    columns = [position for position in second if position not in first]
    swapped = bool(rows) and bool(columns) and columns[0] < rows[0]
    if swapped:
        left, right, first, second, rows, columns = right, left, second, first, columns, rows
    stack = [position for position in first if position in second and position in result]
    summed = [position for position in first if position in second and position not in result]
    operands = (
        _operand(shape, left, first, (stack, rows, summed)),
        _operand(shape, right, second, (stack, summed, columns)),
    )
    order = [*stack, *rows, *columns]
    union = tuple(sorted({*first, *second}))
    cost, written = _matrices_cost(shape, operands, union), _written_cost(shape, union, result)
    return Contraction(
        result,
        union if written <= cost else (),
        operands,
        swapped,
        tuple([shape[position] for position in order]),
        tuple([order.index(position) for position in result]),
        _CALL + min(cost, written) + _WRITTEN * (table_cells(shape, left) + table_cells(shape, right)) / 2,
    )


def _met(scope: Positions, other: Positions, result: Positions) -> Positions:
    """Return the positions of a scope that the other table or the result has."""
    return tuple([position for position in scope if position in result or position in other])


def _operand(
    shape: tuple[int, ...], scope: Positions, kept: Positions, groups: Sequence[list[int]]
) -> _Operand:
    wanted = [position for group in groups for position in group]
    stack, rows, columns = (math.prod([shape[position] for position in group]) for group in groups)
    copied = bool(kept) and kept[-1] in groups[0]
    return _Operand(
        scope, kept, tuple([kept.index(position) for position in wanted]), (stack, rows, columns), copied
    )


def _matrices_cost(shape: tuple[int, ...], operands: tuple[_Operand, _Operand], union: Positions) -> float:
    stack = operands[0].shape[0]
    copies = sum(table_cells(shape, one.kept) for one in operands if one.axes != tuple(range(len(one.axes))))
    return stack * _MATRIX + table_cells(shape, union) * _MULTIPLIED + copies * _WRITTEN


def _written_cost(shape: tuple[int, ...], union: Positions, result: Positions) -> float:
    return table_cells(shape, union) * _WRITTEN * (1 if union == result else 2)
