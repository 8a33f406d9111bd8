"""Axis orders: the longest axes last, and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pmw.model.calibration import by_size, calibrate, plan_calibration
from pmw.model.factors import Positions
from pmw.model.junction_tree import junction_tree

SHAPE = (7, 2, 5, 2, 3)
SCOPES: list[Positions] = [(0, 1, 2), (1, 2, 3), (3, 4)]


def test_the_fewest_cells_come_first_and_as_many_stay_as_declared() -> None:
    assert by_size(SHAPE).places == (4, 0, 3, 1, 2)
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
    order, tree = by_size(SHAPE), junction_tree(SHAPE, SCOPES)
    turned = order.tree(tree)
    assert turned.shape == (2, 2, 3, 5, 7)
    assert turned.cells == tree.cells
    assert [turned.separator(place) for place in range(len(turned.cliques))] == [
        order.scope(tree.separator(place)) for place in range(len(tree.cliques))
    ]
    generator = np.random.default_rng(0)
    potentials = [generator.normal(size=[SHAPE[place] for place in scope]) for scope in SCOPES]
    expected = calibrate(plan_calibration(tree, SCOPES), potentials)
    inside = calibrate(
        plan_calibration(turned, [order.scope(scope) for scope in SCOPES]),
        [order.inward(table, scope) for table, scope in zip(potentials, SCOPES, strict=True)],
    )
    found = order.declared(inside, tree)
    assert found.tree == tree
    np.testing.assert_allclose(found.log_partition, expected.log_partition, rtol=1e-12)
    for table, wanted in zip(found.tables, expected.tables, strict=True):
        assert table.flags.c_contiguous
        np.testing.assert_allclose(table, wanted, rtol=1e-12)
