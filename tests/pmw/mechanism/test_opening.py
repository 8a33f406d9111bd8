"""Opening: trees of ranges are charged for what one person changes, and have the noise that is charged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.data import MemorySource
from pmw.mechanism import draw_opening, opening_entries, released_total
from pmw.noise import DiscreteLaplace
from pmw.planning import choose_filter, plan_opening
from pmw.policy import Options, TestKind
from pmw.privacy import Budget, Composition, NeighboringRelation
from pmw.randomness import BitSource
from queries import UNITS, CategoricalAttribute, CodedRecords, Domain, IntegerAttribute

LONG = Domain((IntegerAttribute("x", 0, 99, missing=True), CategoricalAttribute("y", ("p", "q"))))


def long_table(cells: NDArray[np.int64]) -> MemorySource:
    columns = (cells.astype(np.uint8), np.zeros(len(cells), dtype=np.uint8))
    return MemorySource(CodedRecords(LONG, columns))


def p_value(draws: NDArray[np.float64], law: str) -> float:
    continuous = {"laplace": stats.laplace, "norm": stats.norm, "expon": stats.expon}[law]
    return float(stats.kstest(draws, continuous.cdf).pvalue)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("budget", [Budget.of(1, 1e-9), Budget.of(1)])
def test_a_tree_is_charged_for_what_one_person_changes(budget: Budget, relation: NeighboringRelation) -> None:
    options = Options(test=TestKind.QUERY, neighboring_relation=relation, records_per_person=3)
    plan = plan_opening(LONG, choose_filter(LONG, budget, options), options)
    tree, noise = plan.trees["x"], plan.marginal_noise["x"]
    counts = long_table(np.arange(101)).counts(("x",)).counts
    changed = counts.copy()
    changed[7] += 3  # three records more, or three that moved to another place far away
    if relation is NeighboringRelation.REPLACE_ONE:
        changed[95] -= 3
    difference = (tree.node_counts(changed) - tree.node_counts(counts)) * UNITS
    (charge,) = (entry.charge for entry in opening_entries(plan, options) if entry.event == "range tree")
    if isinstance(noise, DiscreteLaplace):
        assert charge.epsilon == np.abs(difference).sum() / noise.scale
    else:
        assert charge.rho >= sum(int(unit) ** 2 for unit in difference) / (2 * noise.sigma**2)
        assert charge.epsilon is None


@pytest.mark.statistical
@pytest.mark.parametrize(("budget", "law"), [(Budget.of(1, 1e-9), "norm"), (Budget.of(1), "laplace")])
def test_every_node_of_a_tree_has_the_noise_that_is_charged(budget: Budget, law: str) -> None:
    composition = Composition.ZCDP if budget.delta else Composition.PURE
    options = Options(test=TestKind.QUERY, composition=composition)
    plan = plan_opening(LONG, choose_filter(LONG, budget, options), options)
    source = long_table(np.random.default_rng(1).integers(0, 101, 400))
    tree = plan.trees["x"]
    true = tree.node_counts(source.counts(("x",)).counts)
    found = []
    for seed in range(60):
        measurement = draw_opening(plan, source, BitSource.from_integer(seed)).marginals[0]
        found.append(measurement.units / UNITS - true)
    (charge,) = (entry.charge for entry in opening_entries(plan, options) if entry.event == "range tree")
    if law == "norm":
        scale = math.sqrt(tree.height / (2 * float(charge.rho)))
    else:
        assert charge.epsilon is not None
        scale = float(tree.height / charge.epsilon)
    assert p_value(np.concatenate(found) / scale, law) > 1e-4
    for wrong in (1 / 1.3, 1.3):
        assert p_value(np.concatenate(found) / (scale * wrong), law) < 1e-5


def test_a_trees_sum_is_one_more_estimate_of_the_total() -> None:
    options = Options(test=TestKind.QUERY, composition=Composition.ZCDP)
    plan = plan_opening(LONG, choose_filter(LONG, Budget.of(1, 1e-9), options), options)
    draws = draw_opening(plan, long_table(np.arange(101)), BitSource.from_integer(4))
    total = released_total(plan, draws)
    alone = released_total(replace(plan, marginal_noise={}, trees={}), replace(draws, marginals=()))
    assert total.deviation < 0.9 * alone.deviation
    assert draws.marginals[0].values.shape == (101,)
