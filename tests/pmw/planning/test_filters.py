"""The choice between zCDP and GDP, made from the plan when a session opens."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import pmw
from pmw.errors import BudgetError
from pmw.model import noise_variance
from pmw.planning.opening import choose_filter, filter_of_squares, plan_opened, plan_opening, share_of_tests
from pmw.privacy.budget import Budget, Charge, Composition
from pmw.privacy.filter import open_filter
from pmw.public.charges import positive_entry, threshold_entry
from pmw.public.contract import Contract
from pmw.public.options import Options, TestKind
from pmw.sparse_vector import SparseVectorKind
from queries import CategoricalAttribute, Domain, IntegerAttribute

DOMAIN = Domain(
    (
        IntegerAttribute("a", 0, 19),
        IntegerAttribute("b", 0, 15),
        IntegerAttribute("c", 0, 11),
        IntegerAttribute("d", 0, 9),
        CategoricalAttribute("e", (True, False)),
    )
)
BUDGET = Budget.of(1, "1e-9")


def composition(budget: Budget = BUDGET, **choices: Any) -> Composition:
    return choose_filter(DOMAIN, budget, Options(**choices)).composition


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, Composition.GDP),
        ({"sparse_vector": SparseVectorKind.LAPLACE}, Composition.GDP),
        ({"sparse_vector": SparseVectorKind.SECH2}, Composition.ZCDP),
        ({"test": TestKind.QUERY, "update_limit": 40}, Composition.ZCDP),
        ({"accuracy": 0.02, "records": 10**6}, Composition.ZCDP),
        ({"composition": Composition.ZCDP}, Composition.ZCDP),
        ({"composition": Composition.GDP, "test": TestKind.QUERY}, Composition.GDP),
    ],
)
def test_the_filter_is_the_one_under_which_the_plan_takes_less(
    choices: dict[str, Any], expected: Composition
) -> None:
    assert composition(**choices) is expected


@pytest.mark.parametrize("test", list(TestKind))
@pytest.mark.parametrize("delta", ["1e-9", "1e-3"])
def test_the_choice_is_that_of_the_planned_charges(test: TestKind, delta: str) -> None:
    """Price a whole plan of zCDP in both measures: the filter whose cap it takes less of is chosen."""
    budget, options = Budget.of(1, delta), Options(test=test, update_limit=20, composition=Composition.ZCDP)
    contract = Contract(DOMAIN, budget, options)
    opening = plan_opening(DOMAIN, choose_filter(DOMAIN, budget, options), options)
    opened = plan_opened(contract, opening, 1e5)
    charges: list[Charge] = [entry.charge for entry in opened.entries]
    for place, tier in enumerate(opened.test):
        threshold = threshold_entry(tier, place, Composition.ZCDP).charge
        positive = positive_entry(tier, options, Composition.ZCDP, "").charge
        charges += [threshold, positive] * tier.update_limit
    shares = [
        float(sum(map(ledger.price, charges)) / ledger.cap)
        for ledger in (open_filter(budget, each) for each in (Composition.ZCDP, Composition.GDP))
    ]
    assert 0.9 < shares[0] <= 1
    assert (composition(budget, test=test, update_limit=20) is Composition.GDP) == (shares[1] < shares[0])


@pytest.mark.parametrize(("epsilon", "delta"), [(200, "1e-9"), (1, "1e-61")])
def test_a_budget_without_a_mu_takes_zcdp(epsilon: int, delta: str) -> None:
    budget = Budget.of(epsilon, delta)
    assert composition(budget, update_limit=10**6) is Composition.ZCDP
    with pytest.raises(BudgetError, match="has no mu for GDP"):
        composition(budget, composition=Composition.GDP)


def test_a_budget_without_a_delta_is_pure() -> None:
    assert composition(Budget.of(1)) is Composition.PURE
    with pytest.raises(BudgetError, match="expected delta > 0 for GDP"):
        composition(Budget.of(1), composition=Composition.GDP)


def test_tests_keep_their_noise_and_measurements_gain() -> None:
    plans = {}
    for each in (Composition.ZCDP, Composition.GDP):
        options = Options(composition=each, update_limit=8)
        contract = Contract(DOMAIN, BUDGET, options)
        opening = plan_opening(DOMAIN, choose_filter(DOMAIN, BUDGET, options), options)
        plans[each] = opening, plan_opened(contract, opening, 1e5).test
    (before, old), (after, new) = plans.values()
    for name in before.marginal_noise:
        ratio = noise_variance(after.marginal_noise[name]) / noise_variance(before.marginal_noise[name])
        assert ratio == pytest.approx(1 / 1.1058, rel=1e-3)
    for one, other in zip(old, new, strict=True):
        for scale in ("threshold_scale", "query_scale"):
            ratio = float(getattr(other.sparse.test, scale) / getattr(one.sparse.test, scale))
            assert ratio == pytest.approx(1, abs=0.005)
        assert noise_variance(other.noise) < noise_variance(one.noise) * 0.93


def test_what_is_measured_whole_takes_gdp_whatever_tests_would_take() -> None:
    query = Options(test=TestKind.QUERY)
    assert share_of_tests(query) == 1
    assert share_of_tests(Options()) == Fraction(385, 10_000)
    assert filter_of_squares(BUDGET, query, tests=share_of_tests(query)).composition is Composition.ZCDP
    assert filter_of_squares(BUDGET, query).composition is Composition.GDP
    # A contract that a table keeps tests nothing; one that it does not keep spends most on tests.
    for delta, accuracy, expected in (("0.3", 0.0008, Composition.GDP), ("0.01", 0.0006, Composition.ZCDP)):
        options = Options(accuracy=accuracy, records=10**5)
        found = choose_filter(Domain(DOMAIN.attributes[:3]), Budget.of(1, delta), options)
        assert found.composition is expected


def test_selected_measurements_keep_zcdp() -> None:
    assert choose_filter(DOMAIN, BUDGET, Options(), selects=True).composition is Composition.ZCDP
    with pytest.raises(BudgetError, match="selected measurements have no price in GDP"):
        choose_filter(DOMAIN, BUDGET, Options(composition=Composition.GDP), selects=True)
    frame = pd.DataFrame({name: [1] * 50 for name in "abcd"} | {"e": [True] * 50})
    release = pmw.fit_workload(frame, DOMAIN, [["a", "b"], ["c", "d"]], epsilon=1, delta=1e-9)
    assert release.ledger.composition is Composition.ZCDP


def test_a_session_records_its_filter_and_says_what_it_adds_up(tmp_path: Any) -> None:
    frame = pd.DataFrame({name: range(100) for name in "abcd"} | {"e": [True] * 100})
    frame = frame.assign(**{one.name: frame[one.name] % one.size for one in DOMAIN.attributes[:4]})
    path = tmp_path / "study.pmw"
    with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9, path=path) as session:
        session.ask("a >= 3 AND b < 7")
        ledger = session.ledger()
        assert session.state.contract.options.composition is Composition.GDP
    assert (ledger.unit, ledger.composition) == ("mu^2", Composition.GDP)
    assert "of 0.0331 mu^2" in ledger.sentence()
    assert ledger.to_dict()["composition"] == "gdp"
    assert "docs/proofs/gaussian-filter.md" in ledger.lines[0].theorem
    assert all("zCDP" not in line.theorem and "rho" not in line.theorem for line in ledger.lines)
    with pmw.resume_session(path, frame) as session:
        assert session.ledger() == ledger
    assert pmw.verify_session(path).holds
