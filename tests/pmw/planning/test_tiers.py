"""Schedules: what is left after opening is enough for every positive, and more records measure more."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

from pmw.planning.opening import choose_filter, plan_opening
from pmw.planning.tiers import DEFAULT_SCHEDULE, plan_marginal_test, plan_query_tier, plan_test
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.charges import marginal_charge
from pmw.public.contract import Contract
from pmw.public.options import Opening, Options, TestKind
from pmw.public.plans import MarginalTestPlan, marginal_tier
from pmw.sparse_vector import SparseVectorKind
from queries import CategoricalAttribute, Domain
from tests.worlds import known

DOMAIN = Domain(
    tuple(
        CategoricalAttribute(name, tuple("pqrstuvwxyz"[:size]))
        for name, size in zip("abcdef", range(2, 8), strict=True)
    )
)
BUDGETS = [
    (Budget.of(1, 1e-9), Composition.ZCDP),
    (Budget.of(1, 1e-9), Composition.PURE),
    (Budget.of(1), Composition.PURE),
]


@pytest.mark.parametrize("limit", [None, 1, 7, 40])
@pytest.mark.parametrize("kind", [None, SparseVectorKind.EXPONENTIAL_ROUNDS, SparseVectorKind.EXPONENTIAL])
@pytest.mark.parametrize(("budget", "composition"), BUDGETS)
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_every_positive_of_both_tests_fits_into_what_is_left(
    relation: NeighboringRelation,
    budget: Budget,
    composition: Composition,
    kind: SparseVectorKind | None,
    limit: int | None,
) -> None:
    options = Options(
        test=TestKind.MARGINAL, neighboring_relation=relation, composition=composition, sparse_vector=kind,
        update_limit=limit, records_per_person=2,
    )  # fmt: skip
    ledger = choose_filter(DOMAIN, budget, options)
    ledger = replace(ledger, spent=ledger.cap / 10)
    plan = known(plan_marginal_test(DOMAIN, ledger, 20_000.0, options))
    assert limit is None or plan.update_limit == limit
    measured = marginal_charge(plan.noise, options)
    rounds = plan.update_limit if plan.sparse.redraw else 1
    opening, positive = (ledger.price(charge) for charge in plan.sparse.charges(composition))
    spent = rounds * opening + plan.update_limit * (positive + ledger.price(measured))
    schedule = DEFAULT_SCHEDULE
    questions = known(plan_query_tier(ledger, schedule.queries, schedule.query_limit, options))
    vector = questions.vector
    opening, positive = (ledger.price(charge) for charge in vector.charges(composition))
    rounds = questions.update_limit if vector.sparse.redraw else 1
    spent += rounds * opening + questions.update_limit * positive
    assert Fraction(95, 100) * ledger.remaining < spent <= ledger.remaining


def planned(records: float, budget: Budget = BUDGETS[0][0]) -> MarginalTestPlan:
    options = Options(composition=Composition.ZCDP if budget.delta else Composition.PURE)
    ledger = choose_filter(DOMAIN, budget, options)
    return known(plan_marginal_test(DOMAIN, ledger, records, options))


def test_more_records_measure_more_marginals_and_test_larger_ones() -> None:
    plans = [planned(records) for records in (1.0, 1e3, 1e5, 1e7)]
    for few, many in itertools.pairwise(plans):
        assert few.update_limit <= many.update_limit
        assert few.most_cells <= many.most_cells
    last = plans[-1]
    assert last.update_limit == 15  # all pairs
    noise, schedule = l1_mean(last.noise), DEFAULT_SCHEDULE
    cells = (last.most_cells, last.free_cells, last.fine_cells)
    parts = (schedule.tested, schedule.free, schedule.fine)
    assert cells == pytest.approx([part * 1e7 / noise for part in parts], rel=1e-3)


@pytest.mark.parametrize(
    ("budget", "target"),
    [(Budget.of(1, 1e-9), DEFAULT_SCHEDULE.target), (Budget.of(1), DEFAULT_SCHEDULE.few_target)],
)
def test_as_many_are_measured_as_keep_the_noise_of_a_pair_below_the_target(
    budget: Budget, target: float
) -> None:
    cells = 18  # of the pair of the median size: 3 x 6
    plans = [(records, planned(records, budget)) for records in range(500, 20_000, 100)]
    distances = [  # of neither the fewest nor the most
        cells * l1_mean(plan.noise) / records for records, plan in plans if 4 < plan.update_limit < 11
    ]
    assert distances
    assert 0.95 * target < max(distances) <= target


def test_a_threshold_comes_down_with_the_questions_asked_to_what_noise_would_make_and_a_margin() -> None:
    plan = planned(1e4)
    thresholds = [plan.threshold(12, asked) for asked in range(0, 3000, 10)]
    assert thresholds == sorted(thresholds, reverse=True)
    height = plan.decay[0]
    assert thresholds[0] - plan.threshold(12, 10**9) == pytest.approx(height, abs=1)
    assert plan.threshold(24, 0) - plan.threshold(12, 0) == pytest.approx(
        plan.threshold(36, 0) - plan.threshold(24, 0), abs=2
    )


@pytest.mark.parametrize(
    ("shape", "opening"), [((5,), Opening.ONE_WAY), ((1, 1, 1), Opening.ONE_WAY), ((1,), Opening.NONE)]
)
def test_where_there_is_nothing_to_test_there_is_no_plan(shape: tuple[int, ...], opening: Opening) -> None:
    domain = domain_of(shape)
    options = Options(test=TestKind.MARGINAL, opening=opening)
    ledger = choose_filter(domain, Budget.of(1), options)
    measured = plan_opening(domain, ledger, options)
    assert plan_test(Contract(domain, Budget.of(1), options), measured, ledger, 100.0) == ()


def test_one_attribute_is_tested_where_opening_did_not_measure_it() -> None:
    domain = domain_of((5,))
    options = Options(test=TestKind.MARGINAL, opening=Opening.NONE)
    ledger = choose_filter(domain, Budget.of(1), options)
    opening = plan_opening(domain, ledger, options)
    plan = known(marginal_tier(plan_test(Contract(domain, Budget.of(1), options), opening, ledger, 100.0)))
    assert plan.update_limit == 1


def domain_of(shape: tuple[int, ...]) -> Domain:
    return Domain(
        tuple(CategoricalAttribute(f"a{place}", tuple("pqrst"[:size])) for place, size in enumerate(shape))
    )


def test_where_nothing_is_left_there_is_no_plan() -> None:
    options = Options(test=TestKind.MARGINAL)
    ledger = choose_filter(DOMAIN, Budget.of(1), options)
    assert plan_marginal_test(DOMAIN, replace(ledger, spent=ledger.cap), 100.0, options) is None
