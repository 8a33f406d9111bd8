"""Junction trees and what is worked out on them: factors, calibration and gradients, in few steps."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import calibration, factors, gradient
from pmw.model import junction_tree as trees
from pmw.model.factors import Positions, project, spread
from pmw.model.gradient import Gradient, Program, plan_contraction, plan_gradient
from pmw.model.junction_tree import junction_tree


@pytest.mark.parametrize(
    ("shape", "scopes", "cells"),
    [
        ((5, 5, 5), [], 15),
        ((10, 10, 10, 10), [(0, 1), (1, 2), (2, 3)], 300),
        ((10, 10, 10, 10), [(0, 1), (1, 2), (2, 3), (0, 3)], 2000),
        ((2, 10, 2, 10), [(0, 1), (1, 2), (2, 3), (0, 3)], 80),  # cut between the two short ones
        ((3, 4, 5), [(0, 1), (1, 2), (0, 2)], 60),
        ((10,) * 6, [(0, place) for place in range(1, 6)], 500),
    ],
)
def test_small_graphs_have_their_smallest_trees(
    shape: tuple[int, ...], scopes: list[Positions], cells: int
) -> None:
    assert junction_tree(shape, scopes).cells == cells


# --- gradient -------------------------------------------------------------------------------------------


SHAPE = (3, 2, 4, 3, 2, 2)
AXES = tuple(range(6))
PLACES = st.sets(st.sampled_from(AXES), max_size=3).map(lambda found: tuple(sorted(found)))
SCOPES = st.lists(PLACES, min_size=1, max_size=8, unique=True).map(tuple)
LENGTHS = (3, 1, 4, 2, 5)
ANY_PLACES = st.sets(st.integers(0, 4)).map(lambda found: tuple(sorted(found)))


def potentials_of(scopes: tuple[Positions, ...], size: float, seed: int) -> list[NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    return [np.asarray(size * generator.normal(size=[SHAPE[place] for place in scope])) for scope in scopes]


def exact(scopes: tuple[Positions, ...], potentials: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    whole = np.zeros(SHAPE)
    for scope, table in zip(scopes, potentials, strict=True):
        whole += spread(table, scope, AXES)
    cells = np.exp(whole - whole.max())
    return np.asarray(cells / cells.sum())


@given(SCOPES, st.sampled_from([0.0, 1.0, 30.0]), st.integers(0, 20))
def test_marginals_of_potentials_are_sums_over_all_cells(
    scopes: tuple[Positions, ...], size: float, seed: int
) -> None:
    found = Gradient(plan_gradient(junction_tree(SHAPE, scopes), scopes))
    for again in range(2):  # the arrays of the first evaluation are used again
        potentials = potentials_of(scopes, size, seed + again)
        marginals = found.marginals(potentials)
        assert marginals is not None
        whole = exact(scopes, potentials)
        for scope, table in zip(scopes, marginals, strict=True):
            assert table == pytest.approx(project(whole, AXES, scope), abs=1e-12)


@given(st.integers(0, 200), st.sampled_from([100.0, 200.0, 400.0]))
def test_potentials_far_apart_give_exact_marginals_or_none(seed: int, size: float) -> None:
    scopes: tuple[Positions, ...] = tuple(itertools.pairwise(AXES))
    potentials = potentials_of(scopes, size, seed)
    found = Gradient(plan_gradient(junction_tree(SHAPE, scopes), scopes)).marginals(potentials)
    if found is not None:
        whole = exact(scopes, potentials)
        for scope, table in zip(scopes, found, strict=True):
            assert table == pytest.approx(project(whole, AXES, scope), abs=1e-12)


@pytest.mark.parametrize("value", [-np.inf, np.nan, 1e6])
def test_potentials_that_no_ordinary_number_holds_give_none(value: float) -> None:
    scopes: tuple[Positions, ...] = ((0, 1), (1, 2))
    potentials = potentials_of(scopes, 1.0, 1)
    potentials[1][0, 0] = value
    found = Gradient(plan_gradient(junction_tree(SHAPE, scopes), scopes))
    with np.errstate(invalid="ignore"):
        assert found.marginals(potentials) is None


def test_no_table_on_the_way_is_larger_than_the_largest_clique() -> None:
    scopes: tuple[Positions, ...] = tuple(itertools.combinations(AXES[:4], 2))
    tree = junction_tree(SHAPE, scopes)
    plan = plan_gradient(tree, scopes)
    largest = max(int(np.prod([SHAPE[place] for place in clique])) for clique in tree.cliques)
    for step in plan.steps:
        assert int(np.prod([SHAPE[place] for place in step.forward.result])) <= largest


@pytest.mark.parametrize("written", [0.0, 1.5, 10**9])
@given(left=ANY_PLACES, right=ANY_PLACES, kept=ANY_PLACES, seed=st.integers(0, 9))
def test_a_bound_contraction_is_the_product_summed_whichever_way_it_is_computed(
    written: float, left: Positions, right: Positions, kept: Positions, seed: int
) -> None:
    result = tuple(sorted({*kept}.intersection({*left, *right})))
    generator = np.random.default_rng(seed)
    tables = [np.zeros([LENGTHS[place] for place in scope]) for scope in (left, right)]
    program: Program = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient, "_WRITTEN", written)
        plan_contraction.cache_clear()
        held = plan_contraction(LENGTHS, left, right, result).bind(tables[0], tables[1], program)
    plan_contraction.cache_clear()
    assert held.flags.c_contiguous
    for _ in range(2):  # what was bound once is run again on other numbers
        for table in tables:
            table[...] = generator.normal(size=table.shape)
        for call in program:
            call()
        union = tuple(sorted({*left, *right}))
        product = spread(tables[0], left, union) * spread(tables[1], right, union)
        assert held == pytest.approx(project(np.asarray(product, order="C"), union, result), abs=1e-12)


# --- planning steps -------------------------------------------------------------------------------------


def steps_of(work: Callable[[], object]) -> int:
    """Return how many lines and calls of Python a piece of work takes."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, given: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def forget() -> None:
    """Forget all plans."""
    for module in (calibration, factors, gradient, trees):
        for known in vars(module).values():
            if hasattr(known, "cache_clear"):
                known.cache_clear()


def planned(attributes: int) -> None:
    """Make all plans of a model with a term for each attribute, and pairs that share none."""
    shape = tuple(2 + number % 5 for number in range(attributes))
    singles = tuple((number,) for number in range(attributes))
    pairs = tuple((number, number + 1) for number in range(0, 20, 2))
    tree = trees.junction_tree(shape, singles + pairs)
    calibration.plan_calibration(tree, singles + pairs)
    gradient.plan_gradient(tree, singles + pairs)


def test_no_plan_takes_more_than_pairs_of_attributes() -> None:
    found = []
    for attributes in (25, 50):
        forget()
        found.append(steps_of(partial(planned, attributes)))
    assert found[1] < 4.6 * found[0]  # the third power would be 8
