"""Opening: what it measures is charged for what one person changes, and has the noise that is charged.

All its numbers have noise of their own, expanded from its bytes in the order in which they are released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.data import MemorySource
from pmw.loop import OpeningDraws, draw_opening, released_total
from pmw.model import HierarchicalMeasurement
from pmw.planning.opening import choose_filter, plan_opening
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import opening_entries
from pmw.public.options import Options, TestKind
from pmw.public.plans import OpeningPlan
from queries import UNITS, CategoricalAttribute, CodedRecords, Domain, IntegerAttribute

WHOLE = Domain(  # measured whole: it is no larger than its only pair
    tuple(
        CategoricalAttribute(name, tuple("abcdefgh"[:size]), missing=True, other=True)
        for name, size in (("x", 4), ("y", 7))
    )
)
LONG = Domain((IntegerAttribute("x", 0, 99, missing=True), CategoricalAttribute("y", ("p", "q"))))


def long_table(cells: NDArray[np.int64]) -> MemorySource:
    columns = (cells.astype(np.uint8), np.zeros(len(cells), dtype=np.uint8))
    return MemorySource(CodedRecords(LONG, columns))


def whole_table() -> MemorySource:
    generator = np.random.default_rng(2)
    columns = (generator.integers(0, size, 300).astype(np.uint8) for size in WHOLE.shape)
    return MemorySource(CodedRecords(WHOLE, tuple(columns)))


def whole_plan(composition: Composition, relation: NeighboringRelation) -> tuple[OpeningPlan, Options]:
    """Return the plan for a table that is measured whole, where a person has up to three records."""
    options = Options(composition=composition, neighboring_relation=relation, records_per_person=3)
    plan = plan_opening(WHOLE, choose_filter(WHOLE, Budget.of(2, 1e-9), options), options)
    assert plan.table_noise is not None
    assert not plan.marginal_noise
    return plan, options


def noise_of(draws: OpeningDraws, source: MemorySource) -> NDArray[np.int64]:
    """Return the noise on every number of an opening, the number of records first: int64, in units."""
    found = [np.array([draws.total_units - source.counts(()).total * UNITS])]
    for one in draws.marginals:
        counts = source.counts(one.scope).counts
        if isinstance(one, HierarchicalMeasurement):
            counts = one.tree.node_counts(counts)
        found.append((one.units - counts * UNITS).ravel())
    return np.concatenate(found)


def p_value(draws: NDArray[np.float64], distribution: str) -> float:
    continuous = {"laplace": stats.laplace, "norm": stats.norm, "expon": stats.expon}[distribution]
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
    (charge,) = (
        entry.charge for entry in opening_entries(plan, options) if entry.event == "hierarchical histogram"
    )
    if isinstance(noise, DiscreteLaplace):
        assert charge.epsilon == np.abs(difference).sum() / noise.scale
    else:
        assert charge.rho >= sum(int(unit) ** 2 for unit in difference) / (2 * noise.sigma**2)
        assert charge.epsilon is None


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("budget", "distribution"), [(Budget.of(1, 1e-9), "norm"), (Budget.of(1), "laplace")]
)
def test_every_node_of_a_tree_has_the_noise_that_is_charged(budget: Budget, distribution: str) -> None:
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
    (charge,) = (
        entry.charge for entry in opening_entries(plan, options) if entry.event == "hierarchical histogram"
    )
    if distribution == "norm":
        scale = math.sqrt(tree.height / (2 * float(charge.rho)))
    else:
        assert charge.epsilon is not None
        scale = float(tree.height / charge.epsilon)
    assert p_value(np.concatenate(found) / scale, distribution) > 1e-4
    for wrong in (1 / 1.3, 1.3):
        assert p_value(np.concatenate(found) / (scale * wrong), distribution) < 1e-5


def test_a_trees_sum_is_one_more_estimate_of_the_total() -> None:
    options = Options(test=TestKind.QUERY, composition=Composition.ZCDP)
    plan = plan_opening(LONG, choose_filter(LONG, Budget.of(1, 1e-9), options), options)
    draws = draw_opening(plan, long_table(np.arange(101)), BitSource.from_integer(4))
    total = released_total(plan, draws)
    alone = released_total(replace(plan, marginal_noise={}, trees={}), replace(draws, marginals=()))
    assert total.deviation < 0.9 * alone.deviation
    assert draws.marginals[0].values.shape == (101,)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", list(Composition))
def test_a_table_that_is_measured_whole_is_charged_for_the_records_of_one_person(
    composition: Composition, relation: NeighboringRelation
) -> None:
    plan, options = whole_plan(composition, relation)
    (entry,) = (entry for entry in opening_entries(plan, options) if entry.label == "the whole table")
    moves = 1 if relation is NeighboringRelation.ADD_REMOVE else 2
    moved = 3 * UNITS  # all three may share a cell
    if composition is Composition.PURE:
        assert isinstance(plan.table_noise, DiscreteLaplace)
        assert entry.charge.epsilon == moves * moved / plan.table_noise.scale
    else:
        assert isinstance(plan.table_noise, DiscreteGaussian)
        price = moves * moved**2 / (2 * plan.table_noise.sigma**2)
        assert price <= entry.charge.rho < price + Fraction(1, 2**59)
        assert entry.charge.epsilon is None


@pytest.mark.statistical
@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", list(Composition))
def test_every_cell_of_a_table_that_is_measured_whole_has_the_noise_that_is_charged(
    composition: Composition, relation: NeighboringRelation
) -> None:
    plan, options = whole_plan(composition, relation)
    source, found = whole_table(), []
    for seed in range(60):
        (measured,) = draw_opening(plan, source, BitSource.from_integer(seed)).marginals
        assert measured.noise == plan.table_noise
        found.append((measured.units - source.counts(WHOLE.names).counts * UNITS).ravel() / UNITS)
    (entry,) = (entry for entry in opening_entries(plan, options) if entry.label == "the whole table")
    moves, distribution = 1 if relation is NeighboringRelation.ADD_REMOVE else 2, "norm"
    scale = 3 * math.sqrt(moves / (2 * float(entry.charge.rho)))
    if composition is Composition.PURE:
        assert entry.charge.epsilon is not None
        scale, distribution = float(3 * moves / entry.charge.epsilon), "laplace"
    assert p_value(np.concatenate(found) / scale, distribution) > 1e-4
    for wrong in (1 / 1.3, 1.3):
        assert p_value(np.concatenate(found) / (scale * wrong), distribution) < 1e-5


def planned(domain: Domain, budget: Budget) -> OpeningPlan:
    kind = TestKind.MARGINAL if domain is WHOLE else TestKind.QUERY
    composition = Composition.ZCDP if budget.delta else Composition.PURE
    options = Options(test=kind, composition=composition)
    return plan_opening(domain, choose_filter(domain, budget, options), options)


@pytest.mark.parametrize("budget", [Budget.of(1, 1e-9), Budget.of(1)])
@pytest.mark.parametrize("domain", [LONG, WHOLE])
def test_the_noise_of_an_opening_is_expanded_in_the_order_of_its_numbers(
    domain: Domain, budget: Budget
) -> None:
    source = whole_table() if domain is WHOLE else long_table(np.arange(101))
    plan, bits, again = planned(domain, budget), *(BitSource.from_integer(8) for _ in range(2))
    found = noise_of(draw_opening(plan, source, bits), source)
    assert plan.total_noise is not None
    expected = [np.array([plan.total_noise.sample(again)])]
    for name, noise in plan.marginal_noise.items():
        numbers = plan.trees[name].nodes if name in plan.trees else domain[name].size
        expected.append(noise.sample_array(again, numbers))
    if plan.table_noise is not None:
        expected.append(plan.table_noise.sample_array(again, domain.size))
    assert np.array_equal(found, np.concatenate(expected))
    assert bits.take(8) == again.take(8)  # and nothing else was drawn


@pytest.mark.statistical
@pytest.mark.parametrize("domain", [LONG, WHOLE])
def test_every_number_of_an_opening_has_noise_of_its_own(
    domain: Domain, require_independent: Callable[[NDArray[np.int64]], None]
) -> None:
    source = whole_table() if domain is WHOLE else long_table(np.arange(101))
    plan = planned(domain, Budget.of(1))
    openings = [draw_opening(plan, source, BitSource.from_integer(seed)) for seed in range(100)]
    require_independent(np.stack([noise_of(draws, source) for draws in openings]))
