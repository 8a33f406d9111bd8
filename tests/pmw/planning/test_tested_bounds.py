"""Forecasts of sessions that test whole marginals: what is foretold is what they then do."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pandas as pd
import pytest

import pmw
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.planning.calibration import half_band
from pmw.planning.opening import choose_filter, plan_opening
from pmw.planning.tested_bounds import Grids, forecast_sparse_vectors
from pmw.planning.tiers import expected_tests, plan_test
from pmw.privacy.budget import Budget
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.tail_bounds import sum_half_width
from pmw.public.answer import Answer, Source
from pmw.public.bars import Bars
from pmw.public.contract import Contract
from pmw.public.half_widths import Confidences, measured_half_width
from pmw.public.plans import marginal_tier
from pmw.sparse_vector import SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, parse_where
from tests.worlds import WIDE, known


def half_width(answer: Answer) -> float:
    assert answer.interval is not None
    return (answer.interval[1] - answer.interval[0]) / 2


@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize("relation", list(pmw.NeighboringRelation))
def test_a_plan_makes_the_choices_of_the_session(relation: pmw.NeighboringRelation, delta: float) -> None:
    options = pmw.Options(neighboring_relation=relation, seed=3, update_limit=6)
    plan = pmw.plan_session(WIDE.domain, records=20_000, epsilon=2, delta=delta, options=options)
    with pmw.open_session(WIDE.frame, WIDE.domain, epsilon=2, delta=delta, options=options) as session:
        state = session.state
    tier = known(marginal_tier(state.plan))
    assert plan.vector is None
    assert plan.marginals is not None
    assert plan.opening_share == state.ledger.share
    assert plan.total_deviation == pytest.approx(state.total.deviation)
    assert plan.coarse == state.coarsening.coarse
    assert plan.marginals.update_limit == tier.update_limit == 6
    assert plan.marginals.query_scale == tier.sparse.test.query_scale / UNITS
    assert plan.marginals.redrawn == tier.sparse.redraw
    assert plan.marginals.single is not None
    assert state.query_plan is not None
    assert plan.marginals.single.threshold == state.query_plan.threshold / UNITS


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
    assert half_width(answer) < (certified or 0.0)  # for its parts say more


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
    assert (pairs.tested, pairs.typical_cells, pairs.largest_cells) == (21, 36, most)
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
    assert plan.orders[2].cut_bound == 2 * max(pairs.largest_bound, plan.marginals.widest_bound) + 10_000
    assert plan.orders[1].cut_bound is plan.orders[7].cut_bound is None


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
    assert Grids.of(contract, opening, 1e6, bins).widest.shape == (2 * bins - 1, 2 * bins - 1, 6)
    income, age = binned.binned
    assert (income.name, income.cells, income.bins, income.coarser_cells) == (
        "income",
        1000,
        bins,
        bins * 3 // 2,
    )
    assert income.cut_width == age.cut_width == 10**6 / (2 * bins)
    pairs = binned.marginals.certificates[0]
    assert income.coarser_bound is not None
    assert pairs.typical_bound is not None
    assert pairs.largest_bound is not None
    assert pairs.typical_bound < income.coarser_bound < pairs.largest_bound
    assert binned.contract.domain.shape == (1000, 100, 6)
    plain = pmw.plan_session(
        domain, records=10**6, epsilon=1, delta=1e-9, options=pmw.Options(opening=pmw.Opening.NONE)
    )
    assert plain.coarse == domain
    assert plain.marginals is not None
    assert [one.order for one in plain.marginals.certificates] == [1, 2, 3]
    assert plain.orders[1].promise == "tested"


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_small_table_is_measured_whole_and_covers_everything(delta: float) -> None:
    domain = Domain((IntegerAttribute("a", 0, 2), IntegerAttribute("b", 0, 1), IntegerAttribute("c", 0, 1)))
    frame = pd.DataFrame({"a": [0, 1, 2, 2] * 500, "b": [0, 1] * 1000, "c": [1] * 2000})
    options = pmw.Options(seed=6)
    plan = pmw.plan_session(domain, records=2000, epsilon=1, delta=delta, options=options)
    assert plan.table_measured
    assert [order.promise for order in plan.orders] == ["covered"] * 4
    assert [order.cells for order in plan.orders] == [1, 7, 16, 12]
    with pmw.open_session(frame, domain, epsilon=1, delta=delta, options=options) as session:
        answer = session.ask(LinearQuery.cells(domain, {"c": (1, 1)}))
        assert session.state.total.deviation == pytest.approx(plan.total_deviation)
        (table,) = session.state.opening
        alone = Confidences.in_state(session.state).alone
    attribute = plan.attributes[2]
    assert attribute.name == "c"
    assert half_width(answer) >= attribute.cell_bound * (1 - 1e-6)  # it holds the model's answer too
    assert half_width(answer) == pytest.approx(attribute.cell_bound, rel=0.3)
    assert attribute.cell_deviation == pytest.approx(math.sqrt(6 * table.variance))
    # Of the marginals over so many attributes, the smallest sums the most cells.
    assert plan.orders[1].bound == attribute.cell_bound
    # The number of records says a little of each cell too.
    assert plan.orders[3].bound == pytest.approx(sum_half_width(table.noise, 1.0, alone), rel=1e-3)


@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(20 * UNITS)), DiscreteGaussian(Fraction(20 * UNITS))]
)
def test_intervals_for_all_questions_at_once_are_wider(noise: DiscreteLaplace | DiscreteGaussian) -> None:
    def width(options: pmw.Options, cells: int, numbers: int) -> float:
        confidences = Confidences.of(options, 9, (), private_total=True)  # ten noises, the total among them
        return measured_half_width(options, noise, numbers, confidences.alone, cells)

    one, every = pmw.Options(), pmw.Options(simultaneous=True)
    for numbers in (1, 16, 400):
        assert width(every, 1, numbers) > 1.2 * width(one, 1, numbers)
        assert width(every, 1, numbers) == width(every, 9, numbers)
    domain = Domain((IntegerAttribute("a", 0, 1), IntegerAttribute("b", 0, 1)))
    plan = pmw.plan_session(domain, records=100, epsilon=1, options=every)
    assert plan.table_measured
    (bound,) = {order.bound for order in plan.orders[1:]}
    for attribute in plan.attributes:
        assert attribute.cell_bound == attribute.range_bound == attribute.widest_bound == bound


def test_the_first_bounds_are_wider_than_the_later() -> None:
    def planned(queries: int) -> tuple[float, float]:
        options = pmw.Options(expected_queries=queries, update_limit=6)
        plan = pmw.plan_session(WIDE.domain, records=50_000, epsilon=1, delta=1e-9, options=options)
        assert plan.marginals is not None
        assert plan.marginals.typical_bound is not None
        return plan.marginals.typical_bound, plan.marginals.head_start

    (early, little), (late, all_of_it) = planned(1), planned(10**6)
    assert early >= late
    assert early - late == pytest.approx((all_of_it - little) / 2, rel=1e-6)


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

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 99),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcdefgh")),
        CategoricalAttribute("region", tuple("abcdefghijkl")),
    )
)


def planned(test: pmw.TestKind, delta: float, **choices: object) -> pmw.SessionPlan:
    options = pmw.Options(test=test, **{"opening": pmw.Opening.ONE_WAY, **choices})  # type: ignore[arg-type]
    return pmw.plan_session(DOMAIN, records=40_000, epsilon=1, delta=delta, options=options)


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


@pytest.mark.parametrize("test", list(pmw.TestKind))
@pytest.mark.parametrize("kind", list(SparseVectorKind))
def test_a_planned_sparse_vector_is_the_one_that_a_session_opens_with(
    test: pmw.TestKind, kind: SparseVectorKind
) -> None:
    plan = planned(test, 1e-9, sparse_vector=kind, update_limit=4)
    (chosen,) = (one for one in plan.sparse_vectors if one.chosen)
    assert chosen.name == kind.value
    composition = plan.contract.options.composition  # sech^2 tests have no price in GDP
    others = planned(test, 1e-9, update_limit=4, composition=composition).sparse_vectors
    assert [one.half_band for one in others if one.name == kind.value] == [chosen.half_band]


def test_intervals_for_all_questions_at_once_leave_two_sided_noise_out() -> None:
    names = {one.name for one in planned(pmw.TestKind.MARGINAL, 1e-9, simultaneous=True).sparse_vectors}
    assert names == {"exponential", "exponential-rounds"}


def test_the_band_is_that_of_the_tests_that_are_expected() -> None:
    options = pmw.Options(opening=pmw.Opening.NONE)
    budget = Budget.of(1, 1e-9)
    ledger = choose_filter(DOMAIN, budget, options)
    contract = Contract(DOMAIN, budget, options)
    opening = plan_opening(DOMAIN, ledger, options)
    assert opening.marginal_noise == {}
    plan = known(marginal_tier(plan_test(contract, opening, ledger, 1e5)))
    band = half_band(plan.sparse.test, expected_tests(DOMAIN), plan.update_limit) / UNITS
    forecasts = forecast_sparse_vectors(contract, opening, ledger, 1e5)
    assert [one.half_band for one in forecasts if one.chosen] == [band]
