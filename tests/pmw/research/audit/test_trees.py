"""Trees: the distributions of streams, fixed or reacting, agree with the enumeration of output vectors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pmw.research.audit import (
    ComparisonTables,
    OutcomeTables,
    RandomTree,
    adaptive_distribution,
    outcome_tables,
    output_distribution,
    output_distribution_of,
    stream_distribution,
    tables_of,
    tree_distribution,
    worst_log_ratio,
)
from pmw.sparse_vector import NoiseKind, Sides, Sparse, ThresholdTest

THRESHOLD = 2


def sparse(sides: Sides, *, redraw: bool) -> Sparse:
    monotone = sides is Sides.TWO_THRESHOLDS
    test = ThresholdTest(NoiseKind.EXPONENTIAL, sides, 1, monotone, Fraction(3), Fraction(4))
    return Sparse(test, 2, redraw)


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("sides", list(Sides))
def test_a_fixed_stream_has_the_distribution_of_its_output_vectors(sides: Sides, redraw: bool) -> None:
    audited = sparse(sides, redraw=redraw)
    tables = outcome_tables(tables_of(audited.test, THRESHOLD), 2, redraw=redraw)
    distribution, values = stream_distribution(tables, (2, -3, 4, 1)), (2, -3, 4, 1)
    expected = output_distribution_of(audited, THRESHOLD, values)
    assert distribution.keys() == expected.keys()
    assert all(
        distribution[outputs] == pytest.approx(expected[outputs], abs=1e-15) for outputs in distribution
    )


def test_one_shared_threshold_is_kept_shared() -> None:
    tables = tables_of(sparse(Sides.TWO_THRESHOLDS, redraw=False).test, THRESHOLD)
    shared = ComparisonTables(tables.weights, tables.above, tables.negated, shared=True)
    distribution = stream_distribution(outcome_tables(shared, 2, redraw=False), (2, 1, -2))
    expected = output_distribution(shared, (2, 1, -2), 2, redraw=False)
    assert all(distribution[outputs] == pytest.approx(expected[outputs], abs=1e-15) for outputs in expected)


def test_a_stream_that_reacts_has_the_distribution_of_its_adaptive_enumeration() -> None:
    tables = tables_of(sparse(Sides.ONE_SIDED, redraw=False).test, 0)

    def ask(outputs: tuple[int, ...]) -> int | None:
        return 3 * sum(outputs) - len(outputs) if len(outputs) < 4 else None

    distribution = tree_distribution(outcome_tables(tables, 2, redraw=False), ask)
    assert distribution == pytest.approx(dict(adaptive_distribution(tables, ask, 2, redraw=False)))


def test_without_a_limit_a_run_never_halts() -> None:
    tables = OutcomeTables((np.ones(1),), lambda _: {0: (np.array([0.5]),), 1: (np.array([0.5]),)}, None)
    distribution = stream_distribution(tables, (0, 0, 0))
    assert len(distribution) == 8
    assert set(distribution.values()) == {0.125}


def test_a_random_tree_is_a_pair_of_neighbours() -> None:
    for seed in range(20):
        tree = RandomTree(seed, 5, 4, True)
        pairs = [tree.values(outputs) for outputs in [(), (0,), (1,), (0, 1), (0, 0), (1, 1, 0)]]
        assert all(abs(first) <= 4 and abs(second - first) <= 1 for first, second in pairs)
        moves = {second - first for first, second in pairs}
        assert moves <= {0, 1} or moves <= {0, -1}
        assert tree.values((0, 1)) == pairs[3]
    assert len({RandomTree(seed, 5, 4, False).values(()) for seed in range(40)}) > 10


def test_random_trees_catch_a_missing_threshold_noise_and_keep_a_sound_claim() -> None:
    audited = sparse(Sides.TWO_THRESHOLDS, redraw=True)
    whole = outcome_tables(tables_of(audited.test, THRESHOLD), 2, redraw=True)
    bare = OutcomeTables(
        tuple(np.eye(1, len(weights))[0] for weights in whole.weights), whole.outcomes, 2, redraw=True
    )

    def worst(tables: OutcomeTables) -> float:
        trees = [RandomTree(seed, 4, 4, True) for seed in range(12)]
        return max(
            worst_log_ratio(
                tree.distribution(tables, neighbor=False), tree.distribution(tables, neighbor=True)
            )
            for tree in trees
        )

    assert 0.5 < worst(whole) <= float(audited.total_epsilon) + 1e-9
    assert worst(bare) > 10
