"""Opening: what it measures is charged for what one person changes, and has the noise that is charged.

All its numbers have noise of their own, expanded from its bytes in the order in which they are released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.data import MemorySource
from pmw.loop.untested import OpeningDraws, draw_opening, released_total
from pmw.model.measurement import HierarchicalMeasurement
from pmw.planning.opening import choose_filter, plan_opening
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import Event, opening_entries
from pmw.public.options import Options, TestKind
from pmw.public.plans import OpeningPlan
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute
from tests.draws import MOVES, RELATIONS, charged_scale, coded, require_scale

WHOLE = Domain(  # measured whole: it is no larger than its only pair
    tuple(
        CategoricalAttribute(name, tuple("abcdefgh"[:size]), missing=True, other=True)
        for name, size in (("x", 4), ("y", 7))
    )
)
LONG = Domain((IntegerAttribute("x", 0, 99, missing=True), CategoricalAttribute("y", tuple("pqrstuvw"))))


def long_table(cells: NDArray[np.int64]) -> MemorySource:
    return coded(LONG, np.stack([cells, np.zeros_like(cells)], axis=1))


def whole_table() -> MemorySource:
    generator = np.random.default_rng(2)
    return coded(WHOLE, np.stack([generator.integers(0, size, 300) for size in WHOLE.shape], axis=1))


def planned(
    domain: Domain, composition: Composition, relation: NeighboringRelation = RELATIONS[0]
) -> tuple[OpeningPlan, Options]:
    """Return the plan of an opening where a person has up to three records."""
    kind = TestKind.MARGINAL if domain is WHOLE else TestKind.QUERY
    options = Options(test=kind, composition=composition, neighboring_relation=relation, records_per_person=3)
    plan = plan_opening(domain, choose_filter(domain, Budget.of(2, 1e-9), options), options)
    assert (plan.table_noise is not None) == (not plan.marginal_noise) == (domain is WHOLE)
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


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.PURE])
def test_a_tree_is_charged_for_what_one_person_changes(
    composition: Composition, relation: NeighboringRelation
) -> None:
    plan, options = planned(LONG, composition, relation)
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


@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "y")])
def test_the_sum_of_what_is_measured_is_one_more_estimate_of_the_total(names: tuple[str, ...]) -> None:
    options = Options(test=TestKind.QUERY, composition=Composition.ZCDP)
    plan = plan_opening(LONG, choose_filter(LONG, Budget.of(1, 1e-9), options), options)
    plan = replace(plan, marginal_noise={name: plan.marginal_noise[name] for name in names})
    draws = draw_opening(plan, long_table(np.arange(101)), BitSource.from_integer(4))
    total = released_total(plan, draws)
    alone = released_total(replace(plan, marginal_noise={}, trees={}), replace(draws, marginals=()))
    assert total.deviation < 0.9 * alone.deviation
    assert abs(total.value - 101) < 5 * total.deviation
    assert [one.values.shape for one in draws.marginals] == [(LONG[name].size,) for name in names]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("composition", list(Composition))
def test_a_table_that_is_measured_whole_is_charged_for_the_records_of_one_person(
    composition: Composition, relation: NeighboringRelation
) -> None:
    plan, options = planned(WHOLE, composition, relation)
    (entry,) = (entry for entry in opening_entries(plan, options) if entry.label == "the whole table")
    moves = MOVES[relation]
    moved = 3 * UNITS  # all three may share a cell
    if composition is Composition.PURE:
        assert isinstance(plan.table_noise, DiscreteLaplace)
        assert entry.charge.epsilon == moves * moved / plan.table_noise.scale
    else:
        assert isinstance(plan.table_noise, DiscreteGaussian)
        price = moves * moved**2 / (2 * plan.table_noise.sigma**2)
        assert price <= entry.charge.rho < price + Fraction(1, 2**59)
        assert entry.charge.epsilon is None


@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.PURE])
@pytest.mark.parametrize("domain", [LONG, WHOLE])
def test_the_noise_of_an_opening_is_expanded_in_the_order_of_its_numbers(
    domain: Domain, composition: Composition
) -> None:
    source = whole_table() if domain is WHOLE else long_table(np.arange(101))
    (plan, _), bits, again = planned(domain, composition), *(BitSource.from_integer(8) for _ in range(2))
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
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize(
    ("domain", "relation"), [(LONG, RELATIONS[0]), *((WHOLE, relation) for relation in RELATIONS)]
)
def test_every_number_of_an_opening_has_noise_of_its_own_of_the_scale_that_is_charged(
    domain: Domain,
    relation: NeighboringRelation,
    composition: Composition,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    plan, options = planned(domain, composition, relation)
    source = whole_table() if domain is WHOLE else long_table(np.arange(101))
    openings = [draw_opening(plan, source, BitSource.from_integer(seed)) for seed in range(90)]
    drawn = np.stack([noise_of(one, source) for one in openings])
    require_independent(drawn[:, 0 if plan.total_noise else 1 :])
    place = 1
    for entry in opening_entries(plan, options):
        if entry.event == Event.TOTAL:  # one number to an opening: it alone is drawn more often
            alone, bits = OpeningPlan(plan.total_noise, {}), BitSource.from_integer(1)
            totals = np.array([draw_opening(alone, source, bits).total_units for _ in range(600)])
            found = totals / UNITS - source.counts(()).total
            require_scale(found, *charged_scale(entry.charge, records=3))
            continue
        tree = plan.trees.get(entry.label)
        size = domain.size if domain is WHOLE else domain[entry.label].size if tree is None else tree.nodes
        levels = plan.levels(entry.label)
        scale = charged_scale(entry.charge, records=3, moves=MOVES[relation], levels=levels)
        require_scale(drawn[:, place : place + size] / UNITS, *scale)
        place += size
    assert place == drawn.shape[1]
