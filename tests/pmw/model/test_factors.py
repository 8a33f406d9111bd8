"""Tables over scopes: sums, products and shared sums against numpy's own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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

SHAPE = (3, 2, 4, 1, 5)
AXES = tuple(range(5))
TABLE = np.random.default_rng(1).random(SHAPE)
SCOPES = [scope for size in range(6) for scope in itertools.combinations(AXES, size)]


def summed(scope: Positions) -> tuple[int, ...]:
    return tuple(axis for axis in AXES if axis not in scope)


@pytest.mark.parametrize("places", [(), (0,), (2,), (4,), (1, 4), AXES])
def test_what_is_not_kept_is_summed_and_weights_are_multiplied_in_before(places: Positions) -> None:
    weights = np.random.default_rng(3).random([SHAPE[axis] for axis in places])
    weighted = TABLE * spread(weights, places, AXES)
    for scope in SCOPES:
        assert project(TABLE, AXES, scope) == pytest.approx(TABLE.sum(axis=summed(scope)))
        expected = weighted.sum(axis=summed(scope))
        assert weighted_sum(TABLE, AXES, (places, weights), scope) == pytest.approx(expected)


def test_a_long_axis_is_summed_too_and_cells_are_counted_exactly() -> None:
    table = np.arange(10_000.0).reshape(5000, 2)
    assert project(table, (3, 7), (7,)) == pytest.approx(table.sum(axis=0))
    assert table_cells((10**9, 10**9, 10**9), (0, 1, 2)) == 10**27


@given(st.lists(st.sampled_from(SCOPES), max_size=6), st.sampled_from([np.multiply, np.add]))
def test_tables_combine_over_all_axes_in_whatever_order(scopes: list[Positions], combine: np.ufunc) -> None:
    generator = np.random.default_rng(2)
    tables = [generator.random([SHAPE[axis] for axis in scope]) for scope in scopes]
    expected = np.full(SHAPE, float(combine.identity))
    for scope, table in zip(scopes, tables, strict=True):
        expected = combine(expected, spread(table, scope, AXES))
    result = np.empty(SHAPE)
    plan_product(SHAPE, AXES, tuple(scopes)).run(tables, combine, result)
    assert result == pytest.approx(expected)


def test_only_the_last_product_is_as_large_as_all_axes() -> None:
    shape = (10, 10, 10, 10)
    pairs = ((0, 1), (0, 2), (1, 2), (0,), (2,), (2, 3))
    plan = plan_product(shape, (0, 1, 2, 3), pairs)
    sizes = [math.prod(np.broadcast_shapes(left, right)) for _, _, left, right in plan.steps]
    assert sizes[-1] == 10_000
    assert max(sizes[:-1]) == 1000


@given(st.lists(st.sampled_from(SCOPES), max_size=8))
def test_shared_sums_are_those_of_each_scope(scopes: list[Positions]) -> None:
    found = plan_projections(SHAPE, AXES, tuple(scopes)).run(TABLE)
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
    st.sets(st.integers(0, len(_LENGTHS) - 1), max_size=4).map(lambda found: tuple(sorted(found))), max_size=9
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
