"""Plans of sessions: what is foretold is what a session then does."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import BudgetError
from pmw.planning.plans import delta_for_pairs, plan_accuracy
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.answer import Answer, Source
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import Confidences
from pmw.public.status import held_pairs
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    all_marginals,
    random_conjunctions,
)
from queries.records import encode_records
from tests.worlds import PEOPLE, WIDE, YEARS, World, known

TEXTBOOK = pmw.Options(test=pmw.TestKind.QUERY)

REPLACE = pmw.NeighboringRelation.REPLACE_ONE


def complete(domain: Domain) -> Domain:
    """Return the domain with a cell for every empty or undeclared value, as replace-one needs."""
    return Domain(tuple(replace(a, missing=True, other=True) for a in domain), name=domain.name)


def half_width(answer: Answer) -> float | None:
    """Return half of an interval that was not cut at 0."""
    if answer.interval is None or answer.interval[0] == 0:
        return None
    return (answer.interval[1] - answer.interval[0]) / 2


CHOICES: list[dict[str, Any]] = [
    {},
    {"sparse_vector": pmw.SparseVectorKind.LAPLACE_ROUNDS},
    {"sparse_vector": pmw.SparseVectorKind.EXPONENTIAL},
    {"records_per_person": 2},
    {"opening": pmw.Opening.NONE},
    {"confidence": 0.8},
    {"threshold": 40.0},
]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_plan_makes_the_choices_of_the_session_that_knows_its_total(
    frame: pd.DataFrame, domain: Domain, delta: float, choices: dict[str, Any]
) -> None:
    # Under replace-one the total is public, so that nothing differs.
    whole = complete(domain)
    options = pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=REPLACE, seed=1, **choices)
    plan = pmw.plan_session(whole, records=len(frame), epsilon=1, delta=delta, options=options)
    with pmw.open_session(frame, whole, epsilon=1, delta=delta, options=options) as session:
        state = session.state
    assert plan.opening_share == state.ledger.share
    assert plan.total_deviation == state.total.deviation == 0
    assert state.query_plan is not None
    assert plan.vector is not None
    assert plan.vector.update_limit == state.query_plan.update_limit
    assert plan.vector.threshold == state.query_plan.threshold / UNITS
    assert plan.vector.learning_rate == state.query_plan.learning_rate
    assert plan.vector.query_scale == state.query_plan.vector.sparse.test.query_scale / UNITS
    assert plan.vector.redrawn == state.query_plan.vector.sparse.redraw
    assert plan.contract.options.composition is state.ledger.composition
    assert len(plan.attributes) == len(state.opening)
    for attribute, marginal in zip(plan.attributes, state.opening, strict=True):
        assert (attribute.name,) == marginal.scope
        assert attribute.cell_deviation == pytest.approx(math.sqrt(marginal.variance))


def test_bars_by_parts_are_foretold_as_an_evenly_filled_table_has_them() -> None:
    sizes = {"a": 6, "b": 20, "c": 12, "d": 16}
    domain = Domain(tuple(IntegerAttribute(name, 0, size - 1) for name, size in sizes.items()), "even")
    cells = np.indices(list(sizes.values())).reshape(len(sizes), -1).T
    frame = pd.DataFrame(cells, columns=list(sizes))
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    plan = pmw.plan_session(domain, records=len(frame), epsilon=1, delta=1e-9, options=options)
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        answers = ModelAnswers(session.state)
        for order in plan.orders[2:]:
            widths = []
            for names in itertools.combinations(sizes, order.order):
                found = answers.answer(LinearQuery.cells(domain, dict.fromkeys(names, (0, 0)))).interval
                assert found is not None
                widths.append((found[1] - found[0]) / 2)
            assert order.parts_bound == pytest.approx(np.mean(widths), abs=plan.attributes[0].cell_bound)
            assert order.parts_bound is not None
            assert order.parts_bound > len(frame) / 20 / 2
    assert [order.parts_bound for order in plan.orders[:2]] == [None, None]


@pytest.mark.parametrize("choices", [{"accuracy": 0.2, "records": 60_000}, {"opening": pmw.Opening.NONE}])
def test_no_bars_by_parts_are_foretold_where_parts_say_nothing(choices: dict[str, Any]) -> None:
    options = pmw.Options(**choices)
    plan = pmw.plan_session(WIDE.domain, records=60_000, epsilon=4, delta=1e-9, options=options)
    assert {order.parts_bound for order in plan.orders} == {None}


@pytest.mark.parametrize(
    "choices", [{}, {"sparse_vector": pmw.SparseVectorKind.LAPLACE_ROUNDS}, {"confidence": 0.8}]
)
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_planned_bounds_are_the_intervals_of_the_session(
    frame: pd.DataFrame, domain: Domain, delta: float, choices: dict[str, Any]
) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, update_limit=12, threshold=30.0, seed=3, **choices)
    plan = pmw.plan_session(domain, records=len(frame), epsilon=4, delta=delta, options=options)
    assert plan.vector is not None
    with pmw.open_session(frame, domain, epsilon=4, delta=delta, options=options) as session:
        everybody = half_width(session.ask(""))
        tested = session.ask_all(
            query for query in random_conjunctions(domain, 300, seed=6) if len(query.scope) > 1
        )
        total = session.state.total
    assert total.deviation == pytest.approx(plan.total_deviation)
    assert everybody == pytest.approx(plan.orders[0].bound)
    expected = {Source.SYNTHETIC: plan.vector.bound, Source.MEASURED: plan.vector.value_bound}
    seen = set()
    for answer in tested:
        width = half_width(answer)
        if width is not None and answer.source in expected:
            seen.add(answer.source)
            assert width <= expected[answer.source] * (1 + 1e-9)  # parts may say more
    assert {Source.SYNTHETIC, Source.MEASURED} <= seen
    assert {order.bound for order in plan.orders[2:]} == {plan.vector.bound}


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_covered_answer_carries_the_planned_bound(
    frame: pd.DataFrame, domain: Domain, delta: float
) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=4)
    plan = pmw.plan_session(domain, records=len(frame), epsilon=4, delta=delta, options=options)
    with pmw.open_session(frame, domain, epsilon=4, delta=delta, options=options) as session:
        answers = session.ask_all(all_marginals(domain, 1))
    bounds = [attribute.cell_bound for attribute in plan.attributes for _ in range(attribute.cells)]
    checked = 0
    for answer, bound in zip(answers, bounds, strict=True):
        width = half_width(answer)
        if width is not None:
            assert width == pytest.approx(bound, rel=1e-6)
            checked += 1
    assert checked > 8
    assert plan.orders[1].bound == max(bounds)


def true_counts(frame: pd.DataFrame, domain: Domain, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    column = encode_records(frame, domain).columns[domain.index(name)]
    return np.bincount(column, minlength=domain[name].size)


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_expected_errors_of_covered_counts_are_the_errors_that_occur(
    frame: pd.DataFrame, domain: Domain, delta: float
) -> None:
    plan = pmw.plan_session(domain, records=len(frame), epsilon=4, delta=delta, options=TEXTBOOK)
    age = plan.attributes[0]
    assert age.name == "age"
    true = true_counts(frame, domain, "age")
    cells, answered, ranges, totals = [], [], [], []
    for seed in range(60):
        options = pmw.Options(test=pmw.TestKind.QUERY, seed=seed)
        with pmw.open_session(frame, domain, epsilon=4, delta=delta, options=options) as session:
            state = session.state
        noise = state.opening[0].values - true
        cells += list(np.abs(noise))
        ranges.append(abs(noise[: age.cells // 2].sum()))
        totals.append(abs(state.total.estimate - true.sum()))
        answered += list(np.abs(state.model.marginal(("age",)) - true))

    def agrees(found: list[float], expected: float, factor: float = 1.0) -> bool:
        error = 4 * float(np.std(found)) / math.sqrt(len(found))
        return bool(abs(np.mean(found) - factor * expected) <= error)

    assert agrees(cells, age.cell_error)
    assert agrees(ranges, age.range_error)
    for wrong in (0.7, 1.3):
        assert not agrees(cells, age.cell_error, wrong)
    assert 0.75 * age.cell_error < np.mean(answered) < 1.1 * age.cell_error  # the fit helps a little
    bound = known(plan.orders[0].expected_error)
    assert 0.8 * bound < np.mean(totals) < 1.15 * bound


def test_orders_count_the_cells_of_all_their_marginals(domain: Domain) -> None:
    plan = pmw.plan_session(domain, records=2400, epsilon=1, options=TEXTBOOK)
    assert [order.order for order in plan.orders] == [0, 1, 2, 3, 4]
    for order in plan.orders[1:]:
        assert order.cells == all_marginals(domain, order.order).size
    assert [order.marginals for order in plan.orders] == [1, 4, 6, 4, 1]
    assert plan.orders[4].mean_count == 2400 / domain.size
    assert [order.promise for order in plan.orders] == ["covered", "covered", "tested", "tested", "tested"]
    assert [order.expected_error is None for order in plan.orders] == [False, False, True, True, True]


def test_the_expected_error_of_laplace_sums_by_hand(domain: Domain) -> None:
    # E|x| = b, of two 3b/2; E|x| of normals sigma sqrt(2/pi).
    plan = pmw.plan_session(domain, records=1000, epsilon=1, options=TEXTBOOK)
    region = next(attribute for attribute in plan.attributes if attribute.name == "region")
    sex = next(attribute for attribute in plan.attributes if attribute.name == "sex")
    assert sex.cell_error == pytest.approx(sex.cell_deviation / math.sqrt(2))
    assert sex.range_error == pytest.approx(sex.cell_error)
    assert region.cells == 6
    assert region.range_error == pytest.approx(region.cell_error * 15 / 8)  # of three
    gaussian = pmw.plan_session(
        domain,
        records=1000,
        epsilon=1,
        delta=1e-9,
        options=pmw.Options(test=pmw.TestKind.QUERY, update_limit=60),
    )
    cell = gaussian.attributes[0]
    assert cell.cell_error == pytest.approx(cell.cell_deviation * math.sqrt(2 / math.pi))
    assert cell.range_error == pytest.approx(cell.cell_error * math.sqrt(5))


def test_a_plan_shows_what_delta_does_to_each_bound(domain: Domain) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, update_limit=60)
    with_delta = pmw.plan_session(domain, records=10**5, epsilon=1, delta=1e-9, options=options)
    without = pmw.plan_session(domain, records=10**5, epsilon=1, options=options)
    ours, theirs = with_delta.other_delta, without.other_delta
    assert ours is not None
    assert theirs is not None
    assert with_delta.vector is not None
    assert without.vector is not None
    assert (ours.delta, theirs.delta) == (0, 1e-9)
    assert ours.tested_bound == without.vector.bound
    assert theirs.tested_bound == with_delta.vector.bound
    assert ours.cell_bound == without.orders[1].bound
    assert ours.tested_ratio == theirs.tested_ratio == without.vector.bound / with_delta.vector.bound
    assert ours.value_ratio is not None
    assert ours.value_ratio == theirs.value_ratio
    assert ours.value_ratio > 2  # delta makes measured answers narrower
    assert ours.cell_ratio == theirs.cell_ratio
    assert ours.cell_ratio is not None
    assert ours.cell_ratio > 1.5


def test_a_forced_composition_can_still_be_compared(domain: Domain) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, composition=pmw.Composition.ZCDP)
    plan = pmw.plan_session(domain, records=1000, epsilon=1, delta=1e-9, options=options)
    assert plan.other_delta is not None


def test_a_budget_that_leaves_nothing_for_tests_promises_nothing_for_them(domain: Domain) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, update_limit=1000, opening=pmw.Opening.NONE)
    plan = pmw.plan_session(domain, records=1000, epsilon="1e-7", options=options)
    assert plan.vector is None
    assert plan.bound is None
    assert plan.other_delta is None
    assert plan.textbook.numeric_sparse_error is None
    assert [order.promise for order in plan.orders] == ["covered", "none", "none", "none", "none"]
    assert json.loads(json.dumps(plan.to_dict()))["vector"] is None


def test_a_plan_as_a_dictionary_is_ready_for_json(domain: Domain) -> None:
    plan = pmw.plan_session(domain, records=5000, epsilon="0.5", delta="1e-6", options=TEXTBOOK)
    form = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert form["model_cells"] == domain.size == 240
    assert form["model_bytes"] == 1920
    assert (form["epsilon"], form["delta"], form["records"]) == (0.5, 1e-6, 5000)
    assert form["bound"] == pytest.approx(plan.bound, rel=1e-5)
    assert form["bound_fraction"] == pytest.approx(form["bound"] / 5000, rel=1e-5)
    assert form["opening"]["share"] == pytest.approx(0.11, rel=1e-3)
    assert [entry["name"] for entry in form["opening"]["marginals"]] == list(domain.names)
    assert form["guarantee"].startswith("differential privacy with epsilon = 0.5")
    assert form["textbook"]["online_pmw_error"] > form["vector"]["bound"]


def test_more_records_per_person_widen_the_textbook_as_they_widen_the_session(domain: Domain) -> None:
    one, five = (
        pmw.plan_session(
            domain,
            records=10**6,
            epsilon=1,
            options=pmw.Options(test=pmw.TestKind.QUERY, records_per_person=k, update_limit=9),
        )
        for k in (1, 5)
    )
    assert one.textbook.numeric_sparse_error is not None
    assert five.textbook.numeric_sparse_error == pytest.approx(5 * one.textbook.numeric_sparse_error)
    assert one.vector is not None
    assert five.vector is not None
    assert five.vector.value_bound == pytest.approx(5 * one.vector.value_bound, rel=1e-6)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"records": 0}, "expected records from 1 to 1,000,000,000,000, got records=0"),
        ({"records": 2.5}, "got records=2.5"),
        ({"records": True}, "got records=True"),
        ({"epsilon": 0}, "expected epsilon > 0"),
        ({"delta": 1}, "expected 0 <= delta < 1"),
        ({"epsilon": "1e-12"}, "too small to measure anything"),
        (
            {"options": pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=REPLACE)},
            "under replace-one no record may be dropped",
        ),
    ],
)
def test_bad_input_is_refused_as_opening_refuses_it(
    domain: Domain, choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(BudgetError, match=message):
        pmw.plan_session(**{"domain": domain, "records": 1000, "epsilon": 1, **choices})


def test_a_domain_beyond_the_model_is_refused() -> None:
    large = Domain(tuple(IntegerAttribute(f"a{number}", 0, 999) for number in range(3)))
    with pytest.raises(BudgetError, match="a dense model holds at most"):
        pmw.plan_session(large, records=10, epsilon=1, options=TEXTBOOK)


def test_a_domain_of_one_cell_can_be_planned() -> None:
    plan = pmw.plan_session(Domain((CategoricalAttribute("only", ("one",)),)), records=10, epsilon=1)
    assert [order.cells for order in plan.orders] == [1, 1]


@pytest.mark.parametrize(("world", "delta"), [(PEOPLE, 1e-9), (WIDE, 0)], ids=["measured whole", "tested"])
def test_the_smallest_epsilon_for_an_accuracy_keeps_it_and_a_smaller_one_does_not(
    world: World, delta: float
) -> None:
    plan = known(plan_accuracy(world.domain, records=50_000, accuracy=0.02, delta=delta))
    assert plan.contract_bound is not None
    assert plan.contract_bound <= 1000
    epsilon = float(plan.contract.budget.epsilon)
    assert float(f"{epsilon:.3g}") == epsilon
    less = epsilon - 10.0 ** (math.floor(math.log10(epsilon * (1 - 1e-9))) - 2)  # in the last of three digits
    options = replace(plan.contract.options, composition=None)
    small = pmw.plan_session(world.domain, records=50_000, epsilon=less, delta=delta, options=options)
    assert small.contract_bound is None or small.contract_bound > 1000


def test_an_accuracy_may_be_out_of_reach(domain: Domain) -> None:
    assert plan_accuracy(domain, records=5, accuracy=1e-9) is None
    for accuracy in (0, 1, math.nan, -0.1):
        with pytest.raises(BudgetError, match="expected an accuracy strictly between 0 and 1"):
            plan_accuracy(domain, records=5, accuracy=accuracy)
    with pytest.raises(BudgetError, match="expected records"):
        plan_accuracy(domain, records=0, accuracy=0.1)


@pytest.mark.parametrize(("delta", "levels"), [(0, 2), (1e-9, 3)])
def test_a_tree_of_ranges_is_forecast_by_its_least_squares(
    long_frame: pd.DataFrame, long_domain: Domain, delta: float, levels: int
) -> None:
    composition = pmw.Composition.ZCDP if delta else None
    options = pmw.Options(
        test=pmw.TestKind.QUERY, neighboring_relation=REPLACE, seed=1, composition=composition
    )
    whole = complete(long_domain)
    plan = pmw.plan_session(whole, records=3000, epsilon=2, delta=delta, options=options)
    with pmw.open_session(long_frame, whole, epsilon=2, delta=delta, options=options) as session:
        state = session.state
    tree, _ = plan.attributes
    assert tree.levels == levels
    assert plan.opening_share == state.ledger.share
    measured = state.opening[0]
    assert tree.cell_deviation == pytest.approx(math.sqrt(measured.cell_variances.max()))
    half = (np.arange(tree.cells) < tree.cells // 2).astype(np.float64)

    def width(weights: np.ndarray[Any, np.dtype[np.float64]]) -> float:
        squares = measured.estimate.weighted_variance(weights) / measured.variance
        return sum_half_width(measured.noise, squares, Confidences.in_state(state).alone, peak=1.0)

    assert tree.range_bound == pytest.approx(width(half), rel=1e-9)
    added = pmw.plan_session(
        long_domain,
        records=3000,
        epsilon=2,
        delta=delta,
        options=replace(options, neighboring_relation=pmw.NeighboringRelation.ADD_REMOVE),
    )
    with pmw.open_session(
        long_frame, long_domain, epsilon=2, delta=delta, options=added.contract.options
    ) as session:
        assert session.state.total.deviation == pytest.approx(added.total_deviation)
    every_other = (np.arange(tree.cells) % 2).astype(np.float64)
    assert tree.widest_bound > width(every_other)


@pytest.mark.parametrize("world", [PEOPLE, WIDE])
@pytest.mark.parametrize("opening", list(pmw.Opening))
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_plan_holds_the_pairs_that_opening_then_holds(
    world: World, opening: pmw.Opening, delta: float
) -> None:
    options = pmw.Options(seed=1, opening=opening)
    if opening is pmw.Opening.TRIPLES and not delta:
        return  # which is refused
    plan = pmw.plan_session(world.domain, records=len(world.frame), epsilon=1, delta=delta, options=options)
    state = world.state(epsilon=1, delta=delta, options=options)
    assert plan.held == held_pairs(state)
    assert plan.to_dict()["pairs"] == plan.held.to_dict()


@pytest.mark.parametrize(
    ("world", "options", "differs"),
    [
        (WIDE, {}, True),
        (WIDE, {"confidence": 0.9}, True),
        (PEOPLE, {}, False),  # measured whole, whatever delta is
        (WIDE, {"opening": pmw.Opening.ONE_WAY}, False),
        (WIDE, {"opening": pmw.Opening.TRIPLES}, False),  # which are refused without a delta
        (WIDE, {"test": pmw.TestKind.QUERY}, False),
        (WIDE, {"simultaneous": True}, False),
        (WIDE, {"update_limit": 3}, False),
        (WIDE, {"composition": "pure"}, False),
        (WIDE, {"accuracy": 0.1, "records": 20_000}, False),
        (WIDE, {"neighboring_relation": REPLACE}, True),
        (YEARS, {"neighboring_relation": REPLACE}, False),  # which that schema does not go with
    ],
)
def test_it_is_told_where_a_delta_alone_holds_pairs(
    world: World, options: dict[str, Any], differs: bool
) -> None:
    plans = delta_for_pairs(world.domain, epsilon=1, options=pmw.Options(**options))
    assert (plans is not None) == differs
    if plans is not None:
        without, usual = plans
        assert (float(without.contract.budget.delta), float(usual.contract.budget.delta)) == (0, 1e-9)
        assert (len(without.held.held), len(usual.held.held)) == (0, 15)


def test_what_is_told_of_a_count_does_not_hang_on_a_number_of_records_that_nobody_said() -> None:
    options = pmw.Options()
    unsaid = delta_for_pairs(WIDE.domain, epsilon=1, options=options)
    for records in (2_000, 10**9):
        said = known(delta_for_pairs(WIDE.domain, epsilon=1, options=options, records=records))
        assert unsaid is not None
        assert [one.orders[1].bound for one in said] == [one.orders[1].bound for one in unsaid]
        assert said[0].records == records


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9])
def test_a_budget_that_is_too_small_is_left_to_opening_to_refuse(epsilon: float) -> None:
    assert delta_for_pairs(WIDE.domain, epsilon=epsilon, options=pmw.Options()) is None
    with pytest.raises(BudgetError, match="too small to measure anything"):
        WIDE.opened(epsilon=epsilon, delta=0)


def test_a_table_of_more_cells_than_a_float_holds_is_planned() -> None:
    domain = Domain(tuple(IntegerAttribute(f"a{place}", 0, 1999) for place in range(100)))
    plan = pmw.plan_session(domain, records=1000, epsilon=1)
    assert plan.orders[100].cells == 2000**100 > 1e308
    assert [plan.orders[order].mean_count for order in (1, 100)] == [0.5, 0]
    assert delta_for_pairs(domain, epsilon=1, options=pmw.Options()) is None  # of too many attributes
