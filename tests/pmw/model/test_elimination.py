"""Variable elimination against sums over all cells."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model.calibration import Beliefs, calibrate, plan_calibration
from pmw.model.factors import KeptTables, Positions, project, spread
from pmw.model.graphical import ScopedTable, expect, joint
from pmw.model.junction_tree import junction_tree

SHAPE = (3, 2, 4, 3, 2, 5, 2, 2)
AXES = tuple(range(8))
SCOPES: list[Positions] = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (6, 7)]
PLACES = st.sets(st.sampled_from(AXES)).map(lambda found: tuple(sorted(found)))


def random_beliefs(shape: tuple[int, ...], scopes: list[Positions]) -> tuple[Beliefs, list[ScopedTable]]:
    generator = np.random.default_rng(1)
    potentials = [generator.normal(size=[shape[place] for place in scope]) for scope in scopes]
    plan = plan_calibration(junction_tree(shape, scopes), scopes)
    return calibrate(plan, potentials), list(zip(scopes, potentials, strict=True))


BELIEFS, POTENTIALS = random_beliefs(SHAPE, SCOPES)
WHOLE = np.exp(sum(spread(table, scope, AXES) for scope, table in POTENTIALS))
WHOLE = np.broadcast_to(WHOLE / WHOLE.sum(), SHAPE).copy()


@given(st.lists(PLACES, min_size=1), st.sampled_from([0, 50, 10**6]))
def test_a_joint_distribution_is_bit_for_bit_the_same_whatever_was_asked_before(
    scopes: list[Positions], most_cells: int
) -> None:
    kept = KeptTables(most_cells)
    for scope in scopes:
        found = joint(BELIEFS, scope, kept)
        assert found == pytest.approx(project(WHOLE, AXES, scope), abs=1e-12)
        np.testing.assert_array_equal(found, joint(BELIEFS, scope, KeptTables(0)))


def test_tables_are_kept_up_to_the_most_cells_those_used_last() -> None:
    kept, made = KeptTables(6), list[str]()

    def make(key: str) -> NDArray[np.float64]:
        made.append(key)
        return np.ones(3)

    for key in ("a", "b", "a", "c", "a", "b"):  # "b" was used longest ago when "c" came
        kept.get(key, partial(make, key))
    assert made == ["a", "b", "c", "b"]


@given(
    st.permutations(AXES),
    st.lists(st.integers(1, 3), max_size=6),
    st.integers(0, 20),
    st.sampled_from([0, 50, 10**6]),
)
def test_the_expectation_of_a_product_is_the_sum_over_all_cells(
    order: list[int], sizes: list[int], seed: int, most_cells: int
) -> None:
    generator = np.random.default_rng(seed)
    weights: list[ScopedTable] = []
    product = np.ones(SHAPE)
    for size in sizes:
        scope, order = tuple(sorted(order[:size])), order[size:]
        weights.append((scope, generator.random([SHAPE[place] for place in scope])))
        product = product * spread(weights[-1][1], scope, AXES)
    kept = KeptTables(most_cells)
    found = expect(BELIEFS, weights, kept)
    assert found == pytest.approx(float((WHOLE * product).sum()), abs=1e-12)
    again = [(scope, table) for scope, table in weights if len(scope) != 2]
    assert expect(BELIEFS, again, kept) == expect(BELIEFS, again, KeptTables(0))  # bit for bit
    assert expect(BELIEFS, weights, kept) == found


def test_a_product_over_many_attributes_makes_no_joint_table() -> None:
    shape = (20,) * 12
    scopes: list[Positions] = [(place, place + 1) for place in range(11)]
    beliefs, _ = random_beliefs(shape, scopes)
    weights: list[ScopedTable] = [((place,), np.linspace(0, 1, 20)) for place in range(12)]
    tracemalloc.start()
    found = expect(beliefs, weights, KeptTables(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    chain = np.ones(20)
    for place in range(11, 0, -1):  # by hand: one matrix after the other
        home = beliefs.tree.covering((place - 1, place))
        assert home is not None
        pair = beliefs.tables[home]
        chain = (pair / pair.sum(axis=1, keepdims=True)) @ (np.linspace(0, 1, 20) * chain)
    home = beliefs.tree.covering((0,))
    assert home is not None
    first = project(beliefs.tables[home], beliefs.tree.cliques[home], (0,))
    assert found == pytest.approx(float(first @ (np.linspace(0, 1, 20) * chain)))
    assert peak < 10**6
