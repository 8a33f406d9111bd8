"""The gradient on a junction tree against sums over all cells and against calibrated trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model import gradient
from pmw.model.factors import Positions, project, spread
from pmw.model.gradient import Gradient, Program, bind_sums, plan_contraction, plan_gradient
from pmw.model.junction_tree import junction_tree

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


@given(SCOPES, st.integers(0, 20))
def test_scaled_tables_give_the_same_marginals(scopes: tuple[Positions, ...], seed: int) -> None:
    plan = plan_gradient(junction_tree(SHAPE, scopes), scopes)
    potentials = potentials_of(scopes, 1.0, seed)
    ordinary = Gradient(plan).marginals(potentials)
    large = [table + 200.0 for table in potentials]  # constants cancel
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient, "_CALM_SPAN", -1.0)
        scaled = Gradient(plan).marginals(large)
    assert ordinary is not None
    assert scaled is not None
    for first, second in zip(ordinary, scaled, strict=True):
        assert first == pytest.approx(second, abs=1e-12)


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


def test_a_scope_outside_every_clique_is_refused() -> None:
    with pytest.raises(ValueError, match="inside a clique"):
        plan_gradient(junction_tree(SHAPE, [(0, 1)]), ((0, 2),))


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


@given(ANY_PLACES)
def test_bound_sums_are_bit_for_bit_the_sums(kept: Positions) -> None:
    table = np.zeros(LENGTHS)
    program: Program = []
    held = bind_sums(table, AXES[:5], kept, program)
    table[...] = np.random.default_rng(1).normal(size=LENGTHS)
    for call in program:
        call()
    assert np.array_equal(held, project(table, AXES[:5], kept))


def test_very_many_attributes_that_share_nothing_keep_ordinary_numbers() -> None:
    shape = (10,) * 400  # 10^400 cells are no float
    scopes = tuple((place,) for place in range(400))
    found = Gradient(plan_gradient(junction_tree(shape, scopes), scopes))
    marginals = found.marginals([np.log(np.arange(1.0, 11.0))] * 400)
    assert marginals is not None
    for marginal in marginals:
        assert marginal == pytest.approx(np.arange(1, 11) / 55)
