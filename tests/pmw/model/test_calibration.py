"""Junction trees and what is worked out on them: factors, calibration and gradients, in few steps."""

from __future__ import annotations

import itertools
import math
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

import pmw
from pmw.data import MemorySource
from pmw.model import calibration, factors, gradient
from pmw.model import junction_tree as trees
from pmw.model.calibration import Beliefs, by_size, calibrate, plan_calibration
from pmw.model.factors import (
    Positions,
    contraction_order,
    plan_product,
    plan_projections,
    project,
    spread,
    table_cells,
    weighted_sum,
)
from pmw.model.gradient import Gradient, Program, bind_sums, plan_contraction, plan_gradient
from pmw.model.junction_tree import JunctionTree, fits_tree, junction_tree
from queries import CodedRecords, Domain, IntegerAttribute


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Positions]]:
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=9)))
    places = st.sets(st.integers(0, len(shape) - 1), max_size=3).map(lambda found: tuple(sorted(found)))
    return shape, draw(st.lists(places, max_size=12))


def connected(tree: JunctionTree, cliques: list[int]) -> bool:
    """Tell whether cliques are connected among themselves: all but one have their parent among them."""
    return sum(tree.parents[clique] not in cliques for clique in cliques) == 1


@given(graphs())
def test_every_scope_is_inside_a_clique_and_every_attribute_runs_through_connected_ones(
    graph: tuple[tuple[int, ...], list[Positions]],
) -> None:
    shape, scopes = graph
    tree = junction_tree(shape, scopes)
    for scope in scopes:
        home = tree.covering(scope)
        assert home is not None
        assert set(scope) <= set(tree.cliques[home])
    for position in range(len(shape)):
        holding = [number for number, clique in enumerate(tree.cliques) if position in clique]
        assert connected(tree, holding)
    assert all(parent < number for number, parent in enumerate(tree.parents))
    assert not any(set(first) <= set(second) for first, second in itertools.permutations(tree.cliques, 2))


@given(graphs(), st.data())
def test_a_subtree_is_connected_and_holds_what_is_asked_of_it(
    graph: tuple[tuple[int, ...], list[Positions]], data: st.DataObject
) -> None:
    shape, scopes = graph
    tree = junction_tree(shape, scopes)
    wanted = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    kept = tree.subtree(tuple(sorted(wanted)))
    assert connected(tree, kept)
    assert wanted <= {position for clique in kept for position in tree.cliques[clique]}


@given(graphs())
def test_a_tree_that_grew_is_the_one_made_at_once(
    graph: tuple[tuple[int, ...], list[Positions]],
) -> None:
    shape, scopes = graph
    for count in range(1, len(scopes) + 1):
        before, after = junction_tree(shape, scopes[: count - 1]), junction_tree(shape, scopes[:count])
        if before.covering(scopes[count - 1]) is not None:
            assert after == before
    assert junction_tree(shape, [*scopes, *scopes]) == junction_tree(shape, scopes)


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


def test_a_grid_is_cut_by_its_shorter_side() -> None:
    rows, columns = 3, 8
    scopes = [(place, place + columns) for place in range((rows - 1) * columns)]
    scopes += [(place, place + 1) for place in range(rows * columns) if (place + 1) % columns]
    tree = junction_tree((4,) * (rows * columns), scopes)
    assert max(map(len, tree.cliques)) == rows + 1


@given(graphs(), st.sets(st.integers(0, 8), max_size=4), st.integers(0, 3000))
def test_a_scope_fits_just_where_the_tree_grown_by_it_does(
    graph: tuple[tuple[int, ...], list[Positions]], places: set[int], max_cells: int
) -> None:
    shape, scopes = graph
    scope = tuple(sorted(place for place in places if place < len(shape)))
    held = tuple(dict.fromkeys(scopes))
    grown = junction_tree(shape, [*held, scope]).cells
    assert fits_tree(junction_tree(shape, held), held, scope, max_cells) == (grown <= max_cells)
    assert fits_tree(junction_tree(shape, held), held, scope, grown)


# --- factors --------------------------------------------------------------------------------------------


DENSE = (3, 2, 4, 1, 5)
FIVE = tuple(range(5))
TABLE = np.random.default_rng(1).random(DENSE)
SUBSETS = [scope for size in range(6) for scope in itertools.combinations(FIVE, size)]


def summed(scope: Positions) -> tuple[int, ...]:
    return tuple(axis for axis in FIVE if axis not in scope)


@pytest.mark.parametrize("places", [(), (0,), (2,), (4,), (1, 4), FIVE])
def test_what_is_not_kept_is_summed_and_weights_are_multiplied_in_before(places: Positions) -> None:
    weights = np.random.default_rng(3).random([DENSE[axis] for axis in places])
    weighted = TABLE * spread(weights, places, FIVE)
    for scope in SUBSETS:
        assert project(TABLE, FIVE, scope) == pytest.approx(TABLE.sum(axis=summed(scope)))
        expected = weighted.sum(axis=summed(scope))
        assert weighted_sum(TABLE, FIVE, (places, weights), scope) == pytest.approx(expected)


def test_a_long_axis_is_summed_too_and_cells_are_counted_exactly() -> None:
    table = np.arange(10_000.0).reshape(5000, 2)
    assert project(table, (3, 7), (7,)) == pytest.approx(table.sum(axis=0))
    assert table_cells((10**9, 10**9, 10**9), (0, 1, 2)) == 10**27


@given(st.lists(st.sampled_from(SUBSETS), max_size=6), st.sampled_from([np.multiply, np.add]))
def test_tables_combine_over_all_axes_in_whatever_order(scopes: list[Positions], combine: np.ufunc) -> None:
    generator = np.random.default_rng(2)
    tables = [generator.random([DENSE[axis] for axis in scope]) for scope in scopes]
    expected = np.full(DENSE, float(combine.identity))
    for scope, table in zip(scopes, tables, strict=True):
        expected = combine(expected, spread(table, scope, FIVE))
    result = np.empty(DENSE)
    plan_product(DENSE, FIVE, tuple(scopes)).run(tables, combine, result)
    assert result == pytest.approx(expected)


def test_only_the_last_product_is_as_large_as_all_axes() -> None:
    shape = (10, 10, 10, 10)
    pairs = ((0, 1), (0, 2), (1, 2), (0,), (2,), (2, 3))
    plan = plan_product(shape, (0, 1, 2, 3), pairs)
    sizes = [math.prod(np.broadcast_shapes(left, right)) for _, _, left, right in plan.steps]
    assert sizes[-1] == 10_000
    assert max(sizes[:-1]) == 1000


@given(st.lists(st.sampled_from(SUBSETS), max_size=8))
def test_shared_sums_are_those_of_each_scope(scopes: list[Positions]) -> None:
    found = plan_projections(DENSE, FIVE, tuple(scopes)).run(TABLE)
    for scope, table in zip(scopes, found, strict=True):
        assert table == pytest.approx(TABLE.sum(axis=summed(scope)))


def test_many_pairs_need_few_sums_of_the_whole_table() -> None:
    shape = (16,) * 5
    pairs = tuple(itertools.combinations(range(5), 2))
    plan = plan_projections(shape, (0, 1, 2, 3, 4), pairs)
    assert sum(source == 0 for _, source in plan.steps) <= 4
    assert len(plan.places) == 10


# --- in which order tables meet: the same as where all pairs are looked at again ----------------------------

_LENGTHS = (1, 2, 3, 2, 7, 5, 2, 40)
_TABLES = st.lists(
    st.sets(st.integers(0, len(_LENGTHS) - 1), max_size=4).map(lambda found: tuple(sorted(found))),
    max_size=9,
)


def next_of_all_pairs(scopes: list[Positions], kept: set[int], by_union: bool) -> list[tuple[object, ...]]:
    """Return the order of contractions that looking at all pairs at each step gives."""
    waiting, steps = dict(enumerate(scopes)), list[tuple[object, ...]]()
    while len(waiting) > 1:
        found = []
        for left, right in itertools.combinations(waiting, 2):
            first, second = {*waiting[left]}, {*waiting[right]}
            others = [scope for number, scope in waiting.items() if number not in (left, right)]
            result = tuple(sorted((first | second) & kept.union(*others)))
            cells = [table_cells(_LENGTHS, tuple(one)) for one in (first | second, first, second)]
            grown = table_cells(_LENGTHS, result) - cells[1] - cells[2]
            found.append((not first & second, cells[0] if by_union else grown, left, right, result))
        *_, left, right, result = min(found)
        del waiting[left], waiting[right]
        waiting[len(scopes) + len(steps)] = result
        steps.append((left, right, result))
    return steps


@given(_TABLES, st.sets(st.integers(0, len(_LENGTHS) - 1)), st.booleans())
def test_contractions_come_in_the_order_of_all_pairs(
    scopes: list[Positions], wanted: set[int], by_union: bool
) -> None:
    kept = wanted.intersection(*[{position for scope in scopes for position in scope}])
    found = contraction_order(_LENGTHS, tuple(scopes), tuple(sorted(kept)), by_union=by_union)
    assert list(found) == next_of_all_pairs(scopes, kept, by_union)


@given(_TABLES)
def test_products_come_in_the_order_of_the_smallest_unions(scopes: list[Positions]) -> None:
    waiting, expected = dict(enumerate(scopes)), []
    while len(waiting) > 1:
        unions = {
            (table_cells(_LENGTHS, tuple({*waiting[one], *waiting[other]})), one, other)
            for one, other in itertools.combinations(waiting, 2)
        }
        _, one, other = min(unions)
        expected.append((one, other))
        union = {*waiting.pop(one), *waiting.pop(other)}
        waiting[len(scopes) + len(expected) - 1] = tuple(sorted(union))
    plan = plan_product(_LENGTHS, tuple(range(len(_LENGTHS))), tuple(scopes))
    assert [step[:2] for step in plan.steps] == expected


# --- calibration ----------------------------------------------------------------------------------------


SMALL = (3, 2, 4, 3)
CHAIN = [(0, 1), (1, 2), (2,), (2, 3), ()]
TURNED = (7, 2, 5, 2, 3)
TURNED_SCOPES: list[Positions] = [(0, 1, 2), (1, 2, 3), (3, 4)]


def calibrated(size: float) -> Beliefs:
    generator = np.random.default_rng(1)
    potentials = [np.asarray(size * generator.normal(size=[SMALL[at] for at in scope])) for scope in CHAIN]
    return calibrate(plan_calibration(junction_tree(SMALL, CHAIN), CHAIN), potentials)


@pytest.mark.parametrize("size", [0.1, 2.0])
def test_logarithms_and_ordinary_numbers_agree(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = calibrated(size)
    monkeypatch.setattr("pmw.model.calibration._SAFE_SPAN", -1.0)
    logarithmic = calibrated(size)
    for first, second in zip(ordinary.tables, logarithmic.tables, strict=True):
        assert first == pytest.approx(second, abs=1e-14)


def test_a_potential_outside_every_clique_is_refused() -> None:
    with pytest.raises(ValueError, match="inside a clique"):
        plan_calibration(junction_tree(SMALL, [(0, 1)]), [(0, 2)])


def test_the_fewest_cells_come_first_and_as_many_stay_as_declared() -> None:
    assert by_size(TURNED).places == (4, 0, 3, 1, 2)
    assert by_size((3, 3, 3)).places == (0, 1, 2)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple), st.data())
def test_a_table_that_goes_inward_comes_out_as_it_was(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = by_size(shape)
    scope = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    lengths = [shape[position] for position in scope]
    table = np.arange(float(np.prod(lengths))).reshape(lengths)
    inside = order.inward(table, scope)
    assert inside.flags.c_contiguous
    assert list(inside.shape) == sorted(lengths)
    np.testing.assert_array_equal(order.outward(inside, scope), table)


def test_a_tree_in_the_order_has_the_same_cliques_and_beliefs() -> None:
    order, tree = by_size(TURNED), junction_tree(TURNED, TURNED_SCOPES)
    turned = order.tree(tree)
    assert turned.shape == (2, 2, 3, 5, 7)
    assert turned.cells == tree.cells
    assert [turned.separator(place) for place in range(len(turned.cliques))] == [
        order.scope(tree.separator(place)) for place in range(len(tree.cliques))
    ]
    generator = np.random.default_rng(0)
    potentials = [generator.normal(size=[TURNED[place] for place in scope]) for scope in TURNED_SCOPES]
    expected = calibrate(plan_calibration(tree, TURNED_SCOPES), potentials)
    inside = calibrate(
        plan_calibration(turned, [order.scope(scope) for scope in TURNED_SCOPES]),
        [order.inward(table, scope) for table, scope in zip(potentials, TURNED_SCOPES, strict=True)],
    )
    found = order.declared(inside, tree)
    assert found.tree == tree
    for table, wanted in zip(found.tables, expected.tables, strict=True):
        assert table.flags.c_contiguous
        np.testing.assert_allclose(table, wanted, rtol=1e-12)


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


# --- planning steps -------------------------------------------------------------------------------------


_ATTRIBUTES = (25, 50, 100, 200)


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


def opened(attributes: int) -> pmw.Session:
    domain = Domain(tuple(IntegerAttribute(f"a{number}", 0, 1) for number in range(attributes)))
    column = (np.arange(1000) % 2).astype(np.uint8)
    source = MemorySource(CodedRecords(domain, (column,) * attributes))
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    return pmw.open_session(source, domain, epsilon=0.01, delta=1e-9, options=options)


def test_no_plan_takes_more_than_pairs_of_attributes() -> None:
    found = []
    for attributes in _ATTRIBUTES:
        forget()
        found.append(steps_of(partial(planned, attributes)))
    for fewer, more in itertools.pairwise(found):
        assert more < 4.6 * fewer  # the third power would be 8


def test_an_answer_takes_steps_in_proportion_to_attributes_at_most() -> None:
    found = []
    for attributes in _ATTRIBUTES:
        with opened(attributes) as session:
            session.ask({"a0": {"eq": 1}, "a1": {"eq": 1}})
            asked = {"a2": {"eq": 1}, "a3": {"eq": 0}}
            version = session.state.version
            found.append(steps_of(partial(session.ask, asked)))
            assert session.state.version == version
    for fewer, more in itertools.pairwise(found):
        assert more < 2.2 * fewer
