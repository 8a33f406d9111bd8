"""The gradient of the log partition function: the marginals of all potentials, without clique tables.

A descent asks for the marginals of the scopes that have potentials, and for no others. They are the
derivatives of the logarithm of the partition function by the potentials. That number is made of the
exponentiated potentials by contractions, clique by clique from the leaves of the junction tree to its root;
and its derivatives are found by going through the same contractions backwards. No table over a whole clique
is written where a matrix product sums it at once.

A contraction is the product of two tables, summed to some of their positions, without the table of both.
Where the sums are matrix products, they are computed as such, and the product over all positions of both
tables is never written. Where the matrices would be tiny and many, it is written and summed. Which of the
two, and all shapes on the way, are planned once per pair of scopes. A plan is bound to the arrays of its
tables once; what runs again and again is a list of calls on arrays that are there already.

Source: Darwiche (2003), A differential approach to inference in Bayesian networks; Koller and Friedman
    (2009), Probabilistic Graphical Models, section 9.3 (elimination) and 10.4 (clique trees);
    Smith and Gray (2018), opt_einsum, for pairwise contractions as matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.model.factors import (
    Positions,
    ProjectionPlan,
    contraction_order,
    plan_projections,
    plan_sums,
    spread,
    spread_shape,
    table_cells,
)
from pmw.model.junction_tree import JunctionTree
from queries.frozen import dataclass
from queries.places import as_index

_Scalar = TypeVar("_Scalar", bound=np.generic)
_SAFE_SPAN = 600.0  # exp(-600) is 10^-261; float64 reaches 10^-308
_CALM_SPAN = 500.0  # of all potentials together, up to which no number on the way needs scaling
_CALM_CELLS = 650.0  # logarithm of the domain's cells, up to which no sum of numbers up to 1 is too large
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
        kept: those that the result or the other table has; the rest is summed first.
        axes: their order as (stack, rows, columns).
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
        union: positions of both where their product is written; empty where matrices are multiplied.
        operands: both tables as matrices, in the order of their product.
        swapped: the second table comes first in it, so that fewer results are turned.
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
        # One number times one: the same product, which the loop over matrices is slow at.
        multiply = np.multiply if matrices[0].shape[2] == 1 else np.matmul
        program.append(partial(multiply, *matrices, product))
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
    """Return the plan of a contraction."""
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
    cost = _matrices_cost(shape, operands, union)
    written = table_cells(shape, union) * _WRITTEN * (1 if union == result else 2)
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


@dataclass(frozen=True, slots=True)
class _Step:
    """One contraction, and what it takes back."""

    left: int
    right: int
    forward: Contraction
    to_left: Contraction
    to_right: Contraction


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """How the marginals of potentials are found, whatever their values.

    Args:
        leaves: the scopes that lie in no other; their tables are contracted.
        inside: per leaf, the numbers of the potentials in it and their scopes; the first is its own.
        starts: where each leaf's table starts in one array of all.
        derivatives: per table, the positions on which its derivative depends.
    """

    shape: tuple[int, ...]
    leaves: tuple[Positions, ...]
    inside: tuple[tuple[tuple[int, Positions], ...], ...]
    starts: tuple[int, ...]
    steps: tuple[_Step, ...]
    derivatives: tuple[Positions, ...]
    readings: tuple[ProjectionPlan, ...]


class Gradient:
    """The marginals of potentials, in arrays that are made once for all evaluations; of one thread."""

    def __init__(self, plan: GradientPlan) -> None:
        self._plan = plan
        self._flat = np.empty(plan.starts[-1] + table_cells(plan.shape, plan.leaves[-1]))
        self._lengths = np.diff(np.append(plan.starts, self._flat.size))
        self._is_large = sum(map(math.log, plan.shape)) > _CALM_CELLS
        leaves = [
            part.reshape([plan.shape[position] for position in scope])
            for part, scope in zip(np.split(self._flat, plan.starts[1:]), plan.leaves, strict=True)
        ]
        # Of each table on the way, forward and back: its array, and what writes it, of tables made before.
        self._forward: list[tuple[NDArray[np.float64], Program]] = []
        self._backward: list[tuple[NDArray[np.float64], Program]] = []
        self._bind_steps(leaves)
        self._readings = Program()
        self._marginals: dict[int, NDArray[np.float64]] = {}
        for table, own, reading in zip(leaves, plan.inside, plan.readings, strict=True):
            found = _bound(reading, table, self._readings)
            self._marginals.update(zip([number for number, _ in own], found, strict=True))
        self._sums = [
            (
                table,
                own[0][0],
                [(number, spread_shape(plan.shape, smaller, scope)) for number, smaller in own[1:]],
            )
            for table, scope, own in zip(leaves, plan.leaves, plan.inside, strict=True)
        ]

    def _bind_steps(self, leaves: Sequence[NDArray[np.float64]]) -> None:
        plan, values = self._plan, list(leaves)
        for step in plan.steps:
            program = Program()
            values.append(step.forward.bind(values[step.left], values[step.right], program))
            self._forward.append((values[-1], program))
        found = [np.ones(())] * len(values)
        for made in range(len(values) - 1, len(leaves) - 1, -1):
            step = plan.steps[made - len(leaves)]
            for place, other, back in (
                (step.left, step.right, step.to_left),
                (step.right, step.left, step.to_right),
            ):
                program = Program()
                found[place] = back.bind(found[made], values[other], program)
                self._backward.append((found[place], program))
        self._derivatives = [
            spread(found[number], plan.derivatives[number], scope) for number, scope in enumerate(plan.leaves)
        ]

    def marginals(self, potentials: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]] | None:
        """Return the marginal of each potential's scope under exp(sum of potentials), normalised.

        Args:
            potentials: float64, natural logarithms, in the order of the plan's scopes.

        Returns:
            Float64 tables in arrays that the next call writes over; None where potentials are too far apart
            for ordinary numbers, and must be calibrated in logarithms.
        """
        flat, starts = self._flat, self._plan.starts
        for table, first, others in self._sums:
            np.copyto(table, potentials[first])
            for number, shape in others:
                np.add(table, potentials[number].reshape(shape), table)
        tops = np.maximum.reduceat(flat, starts)
        spans = tops - np.minimum.reduceat(flat, starts)
        if not float(spans.max()) <= _SAFE_SPAN:
            return None
        np.subtract(flat, np.repeat(tops, as_index(self._lengths)), flat)
        np.exp(flat, flat)
        if not self._run(scaled=self._is_large or not float(spans.sum()) <= _CALM_SPAN):
            return None
        for (table, _, _), derivative in zip(self._sums, self._derivatives, strict=True):
            np.multiply(table, derivative, table)
        np.divide(flat, np.repeat(np.add.reduceat(flat, starts), as_index(self._lengths)), flat)
        for call in self._readings:
            call()
        return [self._marginals[number] for number in range(len(potentials))]

    def _run(self, *, scaled: bool) -> bool:
        """Run all contractions, scaled to a maximum of 1 if asked; tell whether numbers stayed inside.

        None is negative. So on the way back they are in [0, 1] wherever the maximum is a positive number.
        """
        for steps, lowest in ((self._forward, math.exp(-_SAFE_SPAN)), (self._backward, 0.0)):
            for values, program in steps:
                for call in program:
                    call()
                if scaled:
                    most = np.maximum.reduce(values, axis=None)
                    if not 0 < most < math.inf:
                        return False
                    np.divide(values, most, values)
                    if lowest and not np.minimum.reduce(values, axis=None) >= lowest:
                        return False
        return True


def _bound(
    reading: ProjectionPlan, table: NDArray[np.float64], program: Program
) -> list[NDArray[np.float64]]:
    """Return the arrays that will hold a table's sums over each wanted scope."""
    held = [(reading.scope, table)]
    for scope, source in reading.steps:
        held.append((scope, bind_sums(held[source][1], held[source][0], scope, program)))
    return [held[place][1] for place in reading.places]


@lru_cache(maxsize=16)
def plan_gradient(tree: JunctionTree, scopes: tuple[Positions, ...]) -> GradientPlan:
    """Return the plan for potentials over distinct scopes, each inside a clique of the tree."""
    leaves, inside = _leaves(tree.shape, scopes)
    steps, tables = _steps(tree, leaves)
    derivatives: list[Positions] = [()] * len(tables)
    planned = []
    made = len(tables)
    for left, right, result in reversed(steps):
        made -= 1
        known = derivatives[made]
        back = []
        for place, other in ((left, right), (right, left)):
            scope = tuple(sorted({*tables[place]}.intersection({*known, *tables[other]})))
            derivatives[place] = scope
            back.append(plan_contraction(tree.shape, known, tables[other], scope))
        forward = plan_contraction(tree.shape, tables[left], tables[right], result)
        planned.append(_Step(left, right, forward, back[0], back[1]))
    return GradientPlan(
        tree.shape,
        leaves,
        inside,
        tuple(accumulate([table_cells(tree.shape, scope) for scope in leaves[:-1]], initial=0)),
        tuple(reversed(planned)),
        tuple(derivatives),
        tuple(
            plan_projections(tree.shape, scope, tuple([smaller for _, smaller in own]))
            for scope, own in zip(leaves, inside, strict=True)
        ),
    )


def _leaves(
    shape: tuple[int, ...], scopes: tuple[Positions, ...]
) -> tuple[tuple[Positions, ...], tuple[tuple[tuple[int, Positions], ...], ...]]:
    """Return the scopes that lie in no other, and the potentials in each: by number, its own first."""
    holders: dict[int, set[Positions]] = {}
    for scope in scopes:
        for position in scope:
            holders.setdefault(position, set()).add(scope)
    around = [set(scopes).intersection(*[holders[position] for position in scope]) for scope in scopes]
    leaves = tuple([scope for scope, larger in zip(scopes, around, strict=True) if len(larger) == 1])
    inside: dict[Positions, list[tuple[int, Positions]]] = {scope: [] for scope in leaves}
    for number, (scope, larger) in enumerate(zip(scopes, around, strict=True)):
        home = min([leaf for leaf in leaves if leaf in larger], key=lambda leaf: table_cells(shape, leaf))
        inside[home].append((number, scope))
    for scope, own in inside.items():
        own.sort(key=lambda one: one[1] != scope)
    return leaves, tuple([tuple(own) for own in inside.values()])


_Steps: TypeAlias = list[tuple[int, int, Positions]]


def _steps(tree: JunctionTree, leaves: tuple[Positions, ...]) -> tuple[_Steps, list[Positions]]:
    """Return the pairs to contract, with what each leaves, and the scopes of all tables."""
    tables = list(leaves)
    steps: _Steps = []
    waiting: list[list[int]] = [[] for _ in tree.cliques]
    for number, scope in enumerate(leaves):
        home = tree.covering(scope)
        if home is None:
            raise ValueError(f"expected a scope inside a clique, got {scope}")
        waiting[home].append(number)
    for clique in range(len(tree.cliques) - 1, -1, -1):
        if not waiting[clique]:
            continue
        kept = tree.separator(clique)
        own = [tables[number] for number in waiting[clique]]
        numbers = list(waiting[clique])
        for left, right, result in _ordered(tree.shape, tuple(own), kept):
            steps.append((numbers[left], numbers[right], result))
            numbers.append(len(tables))
            tables.append(result)
        if clique:
            waiting[tree.parents[clique]].append(numbers[-1])
    return steps, tables


@lru_cache(maxsize=4096)
def _ordered(
    shape: tuple[int, ...], scopes: tuple[Positions, ...], kept: Positions
) -> tuple[tuple[int, int, Positions], ...]:
    """Return the cheaper of two greedy orders to contract a clique's tables: pairs, and what they leave."""
    orders = [contraction_order(shape, scopes, kept, by_union=by_union) for by_union in (False, True)]
    return min(orders, key=lambda order: _cost(shape, scopes, order))


def _cost(
    shape: tuple[int, ...], scopes: tuple[Positions, ...], steps: Sequence[tuple[int, int, Positions]]
) -> float:
    """Return the estimated nanoseconds of contractions, there and back."""
    tables, cost = list(scopes), 0.0
    for left, right, result in steps:
        first, second = tables[left], tables[right]
        cost += plan_contraction(shape, first, second, result).cost
        cost += plan_contraction(shape, result, second, first).cost if {*first} <= {*result, *second} else 0.0
        cost += plan_contraction(shape, result, first, second).cost if {*second} <= {*result, *first} else 0.0
        tables.append(result)
    return cost
