"""Plans of sessions: what is foretold is what a session then does."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import BudgetError
from pmw.model.bins import extreme_domains
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.planning.opening import choose_filter, plan_opening
from pmw.planning.plans import delta_for_pairs, plan_accuracy
from pmw.planning.tiers import bin_deviations
from pmw.public.answer import Source
from pmw.public.bars import Bars
from pmw.public.status import held_pairs
from pmw.sparse_vector import SparseVectorKind
from queries import CategoricalAttribute, Domain, IntegerAttribute, parse_where
from queries.records import encode_records
from tests.worlds import PEOPLE, WIDE, YEARS, World, ends, known

TEXTBOOK = pmw.Options(test=pmw.TestKind.QUERY)

REPLACE = pmw.NeighboringRelation.REPLACE_ONE


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_expected_errors_of_covered_counts_are_the_errors_that_occur(
    frame: pd.DataFrame, domain: Domain, delta: float
) -> None:
    plan = pmw.plan_session(domain, records=len(frame), epsilon=4, delta=delta, options=TEXTBOOK)
    age = plan.attributes[0]
    assert age.name == "age"
    column = encode_records(frame, domain).columns[domain.index("age")]
    true = np.bincount(column, minlength=domain["age"].size)
    cells, answered, ranges, totals = [], [], [], []
    for seed in range(50):
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


def test_a_budget_that_leaves_nothing_for_tests_promises_nothing_for_them(domain: Domain) -> None:
    options = pmw.Options(test=pmw.TestKind.QUERY, update_limit=1000, opening=pmw.Opening.NONE)
    plan = pmw.plan_session(domain, records=1000, epsilon="1e-7", options=options)
    assert plan.vector is None
    assert plan.bound is None
    assert plan.other_delta is None
    assert plan.textbook.numeric_sparse_error is None
    assert [order.promise for order in plan.orders] == ["covered", "none", "none", "none", "none"]
    assert json.loads(json.dumps(plan.to_dict()))["vector"] is None


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


def test_the_smallest_epsilon_for_an_accuracy_keeps_it_and_a_smaller_one_does_not() -> None:
    domain = Domain(PEOPLE.domain.attributes[:2])
    plan = known(plan_accuracy(domain, records=50_000, accuracy=0.02, delta=1e-9))
    assert known(plan.contract_bound) <= 1000
    epsilon = float(plan.contract.budget.epsilon)
    assert float(f"{epsilon:.3g}") == epsilon
    less = epsilon - 10.0 ** (math.floor(math.log10(epsilon * (1 - 1e-9))) - 2)  # in the last of three digits
    options = replace(plan.contract.options, composition=None)
    small = pmw.plan_session(domain, records=50_000, epsilon=less, delta=1e-9, options=options)
    assert small.contract_bound is None or small.contract_bound > 1000
    assert plan_accuracy(domain, records=5, accuracy=1e-9) is None
    for accuracy in (0, 1, math.nan, -0.1):
        with pytest.raises(BudgetError, match="expected an accuracy strictly between 0 and 1"):
            plan_accuracy(domain, records=5, accuracy=accuracy)
    with pytest.raises(BudgetError, match="expected records"):
        plan_accuracy(domain, records=0, accuracy=0.1)


@pytest.mark.parametrize(
    ("world", "opening", "delta", "held"),
    [
        (PEOPLE, "pairs", 0, 6),  # measured whole, whatever delta is
        (PEOPLE, "one-way", 1e-9, 6),
        (WIDE, "none", 1e-9, 0),
        (WIDE, "one-way", 0, 0),
        (WIDE, "pairs", 0, 0),
        (WIDE, "pairs", 1e-9, 15),
        (WIDE, "triples", 1e-9, 15),
    ],
)
def test_a_plan_holds_the_pairs_that_opening_then_holds(
    world: World, opening: str, delta: float, held: int
) -> None:
    options = pmw.Options(seed=1, opening=opening)  # type: ignore[arg-type]
    plan = pmw.plan_session(world.domain, records=len(world.frame), epsilon=1, delta=delta, options=options)
    assert plan.held == held_pairs(world.state(epsilon=1, delta=delta, options=options))
    assert plan.to_dict()["pairs"] == plan.held.to_dict()
    assert len(plan.held.held) == held


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
    for epsilon in (1e-12, 1e-9):  # which is left to opening to refuse
        assert delta_for_pairs(world.domain, epsilon=epsilon, options=pmw.Options(**options)) is None


def test_a_table_of_more_cells_than_a_float_holds_is_planned() -> None:
    domain = Domain(tuple(IntegerAttribute(f"a{place}", 0, 1999) for place in range(100)))
    plan = pmw.plan_session(domain, records=1000, epsilon=1)
    assert plan.orders[100].cells == 2000**100 > 1e308
    assert [plan.orders[order].mean_count for order in (1, 100)] == [0.5, 0]
    assert delta_for_pairs(domain, epsilon=1, options=pmw.Options()) is None  # of too many attributes


# --- sessions that test whole marginals -----------------------------------------------------------------


@pytest.mark.parametrize("relation", list(pmw.NeighboringRelation))
def test_a_certified_answer_carries_the_bound_that_was_planned(relation: pmw.NeighboringRelation) -> None:
    # The head start of thresholds is that after the expected number of questions: one.
    options = pmw.Options(neighboring_relation=relation, seed=4, expected_queries=1, update_limit=6)
    plan = pmw.plan_session(WIDE.domain, records=20_000, epsilon=2, delta=1e-9, options=options)
    assert plan.marginals is not None
    bounds = {one.order: one.largest_bound for one in plan.marginals.certificates}
    with pmw.open_session(WIDE.frame, WIDE.domain, epsilon=2, delta=1e-9, options=options) as session:
        session.ask("")
        # Most of the records: no end of the interval is cut at 0.
        answer = session.ask("a <= 2 AND b <= 2")
        certified = Bars(session.state).half_width(parse_where("a <= 2 AND b <= 2", WIDE.domain))
    assert answer.source is Source.SYNTHETIC
    assert certified == pytest.approx(bounds[2], rel=0.02)
    low, high = ends(answer)
    assert (high - low) / 2 < known(certified)  # for its parts say more


def test_scopes_are_counted_up_to_the_largest_that_is_tested() -> None:
    uneven = Domain((*WIDE.domain, CategoricalAttribute("long", tuple(range(500)))))
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)
    plan = pmw.plan_session(uneven, records=20_000, epsilon=1, delta=1e-9, options=options)
    assert plan.marginals is not None
    pairs, triples = plan.marginals.certificates
    assert (pairs.order, pairs.marginals) == (2, 21)
    most = plan.marginals.most_cells
    assert 216 < most < 3000  # triples of the short attributes
    assert plan.coarse["long"].size > 16  # values that Zipf's law puts above the noise, and the others
    # On the values that are assumed a pair with the long one is tested; no value may be rare, so that the
    # largest pair, and triple, that may be tested has as many cells as any that is.
    assert (pairs.tested, pairs.largest_cells) == (21, most)
    assert (triples.tested, triples.marginals, triples.largest_cells) == (20, 35, most)
    assert pairs.largest_bound is not None
    assert triples.largest_bound is not None
    assert plan.marginals.single is not None
    # What is too large is tested as a single question, whose bound may be the wider one.
    single = max(plan.marginals.single.bound, plan.marginals.single.value_bound)
    assert plan.orders[2].bound == max(pairs.largest_bound, plan.marginals.widest_bound, single)
    assert 6**4 > most >= 6**3
    # Four attributes have too many cells, unless the long one is left with few.
    assert plan.orders[4].bound == plan.orders[3].bound
    assert plan.orders[7].bound == single


def test_without_an_opening_attributes_are_tested_too_and_none_is_grouped() -> None:
    domain = Domain(
        (IntegerAttribute("income", 0, 999), IntegerAttribute("age", 0, 99), IntegerAttribute("kids", 0, 5))
    )
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)
    binned = pmw.plan_session(domain, records=10**6, epsilon=1, delta=1e-9, options=options)
    # A pair of long attributes has as many bins as noise of 1 % of the records leaves.
    assert binned.marginals is not None
    bins = math.isqrt(binned.marginals.fine_cells)
    assert binned.coarse.shape == (bins, bins, 6)
    assert bins > 16
    # Bounds are those of the most bins that any counts lead to.
    contract = binned.contract
    opening = plan_opening(domain, choose_filter(domain, contract.budget, contract.options), contract.options)
    _, widest = extreme_domains(domain, bin_deviations(contract, opening), bins=bins)
    assert widest.shape == (2 * bins - 1, 2 * bins - 1, 6)
    assert binned.contract.domain.shape == (1000, 100, 6)
    plain = pmw.plan_session(
        domain, records=10**6, epsilon=1, delta=1e-9, options=pmw.Options(opening=pmw.Opening.NONE)
    )
    assert plain.coarse == domain
    assert plain.marginals is not None
    assert [one.order for one in plain.marginals.certificates] == [1, 2, 3]
    assert plain.orders[1].promise == "tested"


def test_a_large_domain_is_planned_on_a_tree_and_a_dense_model_refused() -> None:
    domain = Domain(tuple(IntegerAttribute(f"a{number}", 0, 9) for number in range(12)))
    plan = pmw.plan_session(domain, records=10**5, epsilon=1, delta=1e-9)
    assert not plan.dense
    assert plan.model_cells == DEFAULT_MAX_CELLS
    small = pmw.plan_session(
        domain, records=10**5, epsilon=1, delta=1e-9, options=pmw.Options(max_cells=5000)
    )
    assert small.model_bytes == 40_000
    form = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert (form["test"], form["model"], form["cells"]) == ("marginal", "graphical", 10**12)
    for choices in ({"test": pmw.TestKind.QUERY}, {"model": pmw.ModelKind.DENSE}):
        with pytest.raises(pmw.BudgetError, match="a dense model holds at most 16,777,216: test whole"):
            pmw.plan_session(domain, records=10**5, epsilon=1, options=pmw.Options(**choices))


# --- kinds of sparse vectors at one price -------------------------------------------------------------------

COMPARED = Domain(
    (
        IntegerAttribute("age", 0, 99),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcdefgh")),
        CategoricalAttribute("region", tuple("abcdefghijkl")),
    )
)


def planned(test: pmw.TestKind, delta: float, **choices: object) -> pmw.SessionPlan:
    options = pmw.Options(test=test, **{"opening": pmw.Opening.ONE_WAY, **choices})  # type: ignore[arg-type]
    return pmw.plan_session(COMPARED, records=40_000, epsilon=1, delta=delta, options=options)


@pytest.mark.parametrize("test", list(pmw.TestKind))
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_plan_compares_every_sparse_vector_and_marks_its_own(test: pmw.TestKind, delta: float) -> None:
    plan = planned(test, delta)
    gdp = test is pmw.TestKind.MARGINAL and delta > 0
    kinds = [kind.value for kind in SparseVectorKind if not (gdp and kind.is_sech2)]  # it has no price there
    assert [one.name for one in plan.sparse_vectors] == kinds
    (chosen,) = (one for one in plan.sparse_vectors if one.chosen)
    assert chosen.name == ("exponential-rounds" if delta else "exponential")
    tests = plan.marginals or plan.vector
    assert tests is not None
    assert (chosen.threshold_scale, chosen.query_scale) == (tests.threshold_scale, tests.query_scale)
    bands = {one.name: one.half_band for one in plan.sparse_vectors}
    # One-sided noise beats two-sided noise of the same kind; squares add up for sech^2 alone.
    assert bands["exponential"] < bands["laplace"]
    assert bands["exponential-rounds"] < bands["laplace-rounds"]
    best = "exponential" if not delta else "exponential-rounds" if gdp else "sech2"
    assert min(bands, key=lambda name: bands[name]) == best
    assert all(one.theorem for one in plan.sparse_vectors)
