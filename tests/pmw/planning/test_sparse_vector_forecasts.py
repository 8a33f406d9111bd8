"""Forecasts of sparse vectors: a plan compares what sessions would do at the same price."""

from __future__ import annotations

import pytest

import pmw
from pmw.planning.calibration import half_band
from pmw.planning.tiers import expected_tests
from pmw.sparse_vector import SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 99),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcdefgh")),
        CategoricalAttribute("region", tuple("abcdefghijkl")),
    )
)


def planned(test: pmw.TestKind, delta: float, **choices: object) -> pmw.SessionPlan:
    options = pmw.Options(test=test, **choices)  # type: ignore[arg-type]
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
    from pmw.planning.opening import choose_filter, plan_opening
    from pmw.planning.tested_bounds import forecast_sparse_vectors
    from pmw.planning.tiers import plan_test
    from pmw.privacy.budget import Budget
    from pmw.public.contract import Contract
    from pmw.public.plans import marginal_tier

    options = pmw.Options(opening=pmw.Opening.NONE)
    budget = Budget.of(1, 1e-9)
    ledger = choose_filter(DOMAIN, budget, options)
    contract = Contract(DOMAIN, budget, options)
    opening = plan_opening(DOMAIN, ledger, options)
    assert opening.marginal_noise == {}
    plan = marginal_tier(plan_test(contract, opening, ledger, 1e5))
    assert plan is not None
    band = half_band(plan.sparse.test, expected_tests(DOMAIN), plan.update_limit) / UNITS
    forecasts = forecast_sparse_vectors(contract, opening, ledger, 1e5)
    assert [one.half_band for one in forecasts if one.chosen] == [band]
