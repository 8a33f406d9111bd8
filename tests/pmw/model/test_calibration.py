"""Calibration: both ways of multiplying give one result, in whatever order the attributes are.

That it is the sum over all cells is tested on the graphical distribution, in ``test_distribution``.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.model.calibration import Beliefs, by_size, calibrate, plan_calibration
from pmw.model.factors import Positions
from pmw.model.junction_tree import junction_tree

SHAPE = (3, 2, 4, 3)
SCOPES = [(0, 1), (1, 2), (2,), (2, 3), ()]
TURNED = (7, 2, 5, 2, 3)
TURNED_SCOPES: list[Positions] = [(0, 1, 2), (1, 2, 3), (3, 4)]


def calibrated(size: float) -> Beliefs:
    generator = np.random.default_rng(1)
    potentials = [np.asarray(size * generator.normal(size=[SHAPE[at] for at in scope])) for scope in SCOPES]
    return calibrate(plan_calibration(junction_tree(SHAPE, SCOPES), SCOPES), potentials)


@pytest.mark.parametrize("size", [0.1, 2.0])
def test_logarithms_and_ordinary_numbers_agree(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = calibrated(size)
    monkeypatch.setattr("pmw.model.calibration._SAFE_SPAN", -1.0)
    logarithmic = calibrated(size)
    for first, second in zip(ordinary.tables, logarithmic.tables, strict=True):
        assert first == pytest.approx(second, abs=1e-14)


def test_a_potential_outside_every_clique_is_refused() -> None:
    with pytest.raises(ValueError, match="inside a clique"):
        plan_calibration(junction_tree(SHAPE, [(0, 1)]), [(0, 2)])


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
