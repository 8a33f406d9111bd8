"""Planning: noise that costs what was planned, and no more; choices that follow from public numbers."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pmw
from pmw.errors import BudgetError
from pmw.model.estimate import noise_variance
from pmw.model.measurement import DEFAULT_BINS
from pmw.planning.error_quantiles import reserved_share
from pmw.planning.opening import (
    EXPECTED_SHARE,
    Opened,
    Part,
    choose_filter,
    choose_tree,
    filter_of_squares,
    open_contract,
    opening_releases,
    plan_opened,
    plan_opening,
    share_of_tests,
)
from pmw.planning.tiers import plan_query_test
from pmw.privacy.budget import Budget, Charge, Composition, NeighboringRelation
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.charges import (
    Event,
    SumNumbers,
    l1_sensitivity,
    l2_squared_sensitivity,
    marginal_charge,
    opening_entries,
    positive_entry,
    query_sensitivity,
    threshold_entry,
)
from pmw.public.contract import Contract, agreed
from pmw.public.options import ExpectedQuestions, Opening, Options, TestKind
from pmw.public.plans import MarginalTestPlan, OpeningPlan, QueryTestPlan, marginal_tier
from pmw.sparse_vector import Sides, SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, Person
from tests.worlds import known

DOMAIN = Domain((IntegerAttribute("age", 0, 52), CategoricalAttribute("sex", ("Female", "Male"))))
REPLACE = NeighboringRelation.REPLACE_ONE
BUDGET = Budget.of(1, "1e-9")


def opened(budget: Budget, options: Options) -> tuple[PrivacyFilter, PrivacyFilter]:
    """Return the filter before and after the opening that is planned for it."""
    ledger = choose_filter(DOMAIN, budget, options)
    after = ledger
    for entry in opening_entries(plan_opening(DOMAIN, ledger, options), options):
        after = after.charge(entry.charge)
    return ledger, after


def test_sensitivities_under_each_neighbouring_relation() -> None:
    # A record is in one cell of a marginal: adding one changes one cell by 1, replacing one changes two.
    add = Options(test=TestKind.QUERY, records_per_person=3)
    swap = Options(test=TestKind.QUERY, records_per_person=3, neighboring_relation=REPLACE)
    assert query_sensitivity(add) == query_sensitivity(swap) == 3 * UNITS
    assert l1_sensitivity(add) == 3 * UNITS
    assert l1_sensitivity(swap) == 6 * UNITS
    assert l2_squared_sensitivity(add) == (3 * UNITS) ** 2
    assert l2_squared_sensitivity(swap) == 2 * (3 * UNITS) ** 2


CHOICES: list[dict[str, Any]] = [
    {}, {"opening": Opening.ONE_WAY}, {"opening": Opening.NONE}, {"test": TestKind.QUERY},
    {"simultaneous": True}, {"neighboring_relation": REPLACE},
    {"test": TestKind.QUERY, "neighboring_relation": REPLACE}, {"records_per_person": 4}, {"update_limit": 5},
    {"accuracy": 0.02, "records": 10**6},
    {"accuracy": 0.02, "records": 10**6, "neighboring_relation": REPLACE},
]  # fmt: skip


@settings(max_examples=50)
@given(
    st.sampled_from(CHOICES),
    st.lists(st.integers(1, 120), min_size=1, max_size=6),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, Person("id", 4)]),
    st.sampled_from([Budget.of(1, 1e-9), Budget.of(1), Budget.of("0.05", 1e-6), Budget.of(8)]),
)
def test_the_budget_goes_to_a_list_of_releases_and_each_costs_its_share(
    choices: dict[str, Any], sizes: list[int], step: int | None, person: Person | None, budget: Budget
) -> None:
    attributes = (
        IntegerAttribute(f"a{place}", 0, 6 * size - 1, 6, resolution=step) for place, size in enumerate(sizes)
    )
    domain, options = agreed(Domain(tuple(attributes), person=person), Options(**choices))
    ledger = choose_filter(domain, budget, options)
    releases = opening_releases(domain, ledger, options)
    assert sum(one.weight for one in releases) == 1
    assert min(one.weight for one in releases) >= 0
    plan = plan_opening(domain, ledger, options)
    opened = plan_opened(Contract(domain, budget, options), plan, 1e6)
    labels = {Part.RECORDS: "number of records", Part.TABLE: "the whole table", Part.PERSONS: "everybody"}
    shares = {
        SumNumbers(one.summed).label if one.summed else labels.get(one.part, one.name): one.weight
        for one in releases
        if one.part in {*labels, Part.ATTRIBUTE, Part.SUMS}
    }
    if options.public_count:
        shares.pop("number of records", None)
    if opened.persons is None:
        shares.pop("everybody", None)
    assert {entry.label for entry in opened.entries} == set(shares)
    for entry in opened.entries:
        share = ledger.price(entry.charge) / ledger.cap
        assert Fraction(999, 1000) * shares[entry.label] <= share <= shares[entry.label]
    tests = sum(one.weight for one in releases if one.part in {Part.TESTS, Part.WIDER, Part.QUANTILES})
    assert tests or not opened.test  # where opening has all of the budget, nothing is tested


@pytest.mark.parametrize(
    ("cells", "composition", "sizes"),
    [
        (17, Composition.ZCDP, None),
        (24, Composition.ZCDP, None),
        (25, Composition.ZCDP, (7, 25)),
        (100, Composition.ZCDP, (7, 25, 100)),
        (1000, Composition.ZCDP, (16, 63, 250, 1000)),
        (64, Composition.PURE, None),
        (100, Composition.PURE, (13, 100)),
    ],
)
def test_long_ordered_attributes_are_measured_as_trees(
    cells: int, composition: Composition, sizes: tuple[int, ...] | None
) -> None:
    tree = choose_tree(IntegerAttribute("x", 1, cells), composition)
    assert (None if tree is None else tree.sizes) == sizes
    assert choose_tree(CategoricalAttribute("x", tuple(range(cells))), composition) is None


VECTORS = [
    {}, {"neighboring_relation": REPLACE}, {"sides": Sides.TWO_SIDED}, {"records_per_person": 5},
    *({"sparse_vector": kind} for kind in SparseVectorKind),
    {"sparse_vector": SparseVectorKind.SECH2, "composition": Composition.PURE},
    {"sparse_vector": SparseVectorKind.EXPONENTIAL_ROUNDS, "composition": Composition.PURE},
]  # fmt: skip


def vector_of(budget: Budget, records: float = 1000.0, **choices: Any) -> tuple[PrivacyFilter, QueryTestPlan]:
    """Return the sparse vector of single questions, and the filter after opening that it is planned for."""
    options = Options(test=TestKind.QUERY, **choices)
    _, ledger = opened(budget, options)
    return ledger, known(plan_query_test(DOMAIN, ledger, records, options))


@settings(max_examples=50)
@given(
    st.sampled_from(VECTORS),
    st.fractions(min_value="1/100", max_value=20),
    st.sampled_from([Fraction(0), Fraction(1, 10**5), Fraction(1, 10**9)]),
    st.integers(1, 500),
)
def test_a_full_run_of_the_sparse_vector_fits_what_is_left_and_uses_it(
    choices: dict[str, Any], epsilon: Fraction, delta: Fraction, limit: int
) -> None:
    ledger, plan = vector_of(Budget(epsilon, delta), update_limit=limit, **choices)
    opening, positive = plan.vector.charges(ledger.composition)
    rounds = limit if plan.vector.sparse.redraw else 1
    spent = rounds * ledger.price(opening) + limit * ledger.price(positive)
    assert ledger.remaining * Fraction(999, 1000) <= spent <= ledger.remaining


def test_the_calibration_by_hand() -> None:
    # epsilon = 1, delta = 0: opening takes 11 %, values 15 % of the rest, shared by c = 10.
    vector = vector_of(Budget.of(1), update_limit=10)[1].vector
    assert isinstance(vector.value_noise, DiscreteLaplace)
    assert float(vector.value_noise.scale) / UNITS == pytest.approx(10 / (0.15 * 0.89), rel=1e-4)
    test = vector.sparse.test
    assert not vector.sparse.redraw
    assert float(test.threshold_price + 10 * test.positive_price) == pytest.approx(0.85 * 0.89, rel=1e-4)
    # rho = 0.0149731: opening takes 15 % (with a tree), values 15 % of the rest; a round costs epsilon0^2/2.
    vector, left = vector_of(BUDGET, update_limit=10)[1].vector, 0.85 * 0.01497305767
    assert isinstance(vector.value_noise, DiscreteGaussian)
    sigma = math.sqrt(1 / (2 * 0.15 * left / 10))
    assert float(vector.value_noise.sigma) / UNITS == pytest.approx(sigma, rel=1e-4)
    assert vector.sparse.redraw
    assert float(vector.sparse.round_epsilon) == pytest.approx(math.sqrt(2 * 0.85 * left / 10), rel=1e-4)


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_a_list_of_codes_pays_for_each_of_its_levels(delta: float) -> None:
    values = tuple(f"{number:03}" for number in range(200))
    codes = CategoricalAttribute("c", values, levels=(1, 2), missing=True)  # type: ignore[arg-type]  # lengths
    domain = Domain((codes, IntegerAttribute("x", 0, 19), IntegerAttribute("y", 0, 19)))
    ledger = choose_filter(domain, Budget.of(1, delta), Options())
    plan = plan_opening(domain, ledger, Options())
    tree = plan.trees["c"]
    assert (tree.height, tree.sizes) == (3, (3, 21, 201))
    assert plan.levels("c") == 3  # a record is in one node of each
    charges = [entry.charge for entry in opening_entries(plan, Options())]
    alone = opening_entries(OpeningPlan(None, {"c": plan.marginal_noise["c"]}), Options())[0].charge
    if alone.epsilon is None:
        assert any(3 * alone.rho >= charge.rho > 3 * alone.rho * Fraction(999, 1000) for charge in charges)
    else:
        assert any(charge.epsilon == 3 * alone.epsilon for charge in charges)


# --- the choice between zCDP and GDP ------------------------------------------------------------------------

FIVE = Domain(
    (
        IntegerAttribute("a", 0, 19),
        IntegerAttribute("b", 0, 15),
        IntegerAttribute("c", 0, 11),
        IntegerAttribute("d", 0, 9),
        CategoricalAttribute("e", (True, False)),
    )
)


def composition(budget: Budget = BUDGET, domain: Domain = FIVE, **choices: Any) -> Composition:
    return choose_filter(domain, budget, Options(**choices)).composition


def binary(attributes: int) -> Domain:
    return Domain(tuple(CategoricalAttribute(f"a{place}", ("x", "y")) for place in range(attributes)))


PURE, ZCDP, GDP = Composition.PURE, Composition.ZCDP, Composition.GDP
QUERY: dict[str, Any] = {"test": TestKind.QUERY}
LARGE = Budget.of(1000, "1e-30")  # beside a small delta: plain sums would be quieter for few numbers
KEPT: dict[str, Any] = {"accuracy": 0.0008, "records": 10**5}
CHOSEN: list[tuple[Domain, Budget, dict[str, Any], Composition]] = [
    (FIVE, BUDGET, {}, GDP),
    (FIVE, BUDGET, {"sparse_vector": SparseVectorKind.LAPLACE}, GDP),
    (FIVE, BUDGET, {"sparse_vector": SparseVectorKind.SECH2}, ZCDP),
    (FIVE, BUDGET, {**QUERY, "update_limit": 40}, ZCDP),
    (FIVE, BUDGET, {"accuracy": 0.02, "records": 10**6}, ZCDP),
    (FIVE, BUDGET, {"composition": ZCDP}, ZCDP),
    (FIVE, BUDGET, {**QUERY, "composition": GDP}, GDP),
    # Few paid numbers are held to plain sums.
    (DOMAIN, BUDGET, {**QUERY, "opening": Opening.NONE, "update_limit": 5}, PURE),
    (DOMAIN, BUDGET, {**QUERY, "update_limit": 40}, ZCDP),
    (DOMAIN, Budget.of(1), QUERY, PURE),
    (DOMAIN, BUDGET, {**QUERY, "update_limit": 40, "composition": PURE}, PURE),
    (binary(3), LARGE, {"opening": Opening.ONE_WAY}, PURE),
    (binary(6), LARGE, {"opening": Opening.TRIPLES}, ZCDP),
    # A contract that a table keeps tests nothing; one that it does not keep spends most on tests.
    (Domain(FIVE.attributes[:3]), Budget.of(1, "0.3"), KEPT, GDP),
    (Domain(FIVE.attributes[:3]), Budget.of(1, "0.01"), {**KEPT, "accuracy": 0.0006}, ZCDP),
    # Of these budgets there is no mu.
    (FIVE, Budget.of(200, "1e-9"), {"update_limit": 10**6}, ZCDP),
    (FIVE, Budget.of(1, "1e-61"), {"update_limit": 10**6}, ZCDP),
]


@pytest.mark.parametrize(("domain", "budget", "choices", "expected"), CHOSEN)
def test_the_filter_is_the_one_under_which_the_plan_takes_less(
    domain: Domain, budget: Budget, choices: dict[str, Any], expected: Composition
) -> None:
    assert composition(budget, domain, **choices) is expected


def test_a_filter_that_a_plan_has_no_price_in_is_refused() -> None:
    with pytest.raises(BudgetError, match="expected delta > 0"):
        composition(Budget.of(1), composition=ZCDP)
    for budget in (Budget.of(200, "1e-9"), Budget.of(1, "1e-61")):
        with pytest.raises(BudgetError, match="has no mu for GDP"):
            composition(budget, composition=GDP)
    with pytest.raises(BudgetError, match="selected measurements have no price in GDP"):
        choose_filter(FIVE, BUDGET, Options(composition=GDP), selects=True)
    assert choose_filter(FIVE, BUDGET, Options(), selects=True).composition is ZCDP
    frame = pd.DataFrame({name: [1] * 50 for name in "abcd"} | {"e": [True] * 50})
    release = pmw.fit_workload(frame, FIVE, [["a", "b"], ["c", "d"]], epsilon=1, delta=1e-9)
    assert release.ledger.composition is ZCDP


def test_what_is_measured_whole_takes_gdp_whatever_tests_would_take() -> None:
    query = Options(test=TestKind.QUERY)
    assert share_of_tests(query) == 1
    assert share_of_tests(Options()) == Fraction(385, 10_000)
    assert filter_of_squares(BUDGET, query, tests=share_of_tests(query)).composition is ZCDP
    assert filter_of_squares(BUDGET, query).composition is GDP


@pytest.mark.parametrize("test", list(TestKind))
@pytest.mark.parametrize("delta", ["1e-9", "1e-3"])
def test_the_choice_is_that_of_the_planned_charges(test: TestKind, delta: str) -> None:
    """Price a whole plan of zCDP in both measures: the filter whose cap it takes less of is chosen."""
    budget, options = Budget.of(1, delta), Options(test=test, update_limit=20, composition=Composition.ZCDP)
    contract = Contract(FIVE, budget, options)
    opening = plan_opening(FIVE, choose_filter(FIVE, budget, options), options)
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


def test_tests_keep_their_noise_and_measurements_gain() -> None:
    plans = {}
    for each in (Composition.ZCDP, Composition.GDP):
        options = Options(composition=each, update_limit=8)
        contract = Contract(FIVE, BUDGET, options)
        opening = plan_opening(FIVE, choose_filter(FIVE, BUDGET, options), options)
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


# --- all pairs, or all triples, before any question --------------------------------------------------------


MIXED = Domain(
    (
        IntegerAttribute("age", 0, 99),
        IntegerAttribute("rooms", 1, 9),
        CategoricalAttribute("job", tuple(range(12))),
        *binary(3),
    )
)


def prices_of(domain: Domain, budget: Budget, options: Options) -> dict[int, Fraction]:
    """Return what all marginals of each order cost, as parts of the cap; 0 for the number of records."""
    ledger = choose_filter(domain, budget, options)
    plan = plan_opening(domain, ledger, options)
    opened = plan_opened(Contract(domain, budget, options), plan, 20_000.0)
    found = defaultdict[int, Fraction](Fraction)
    for entry in opened.entries:
        found[0 if entry.event == Event.TOTAL else 1] += ledger.price(entry.charge) / ledger.cap
    tier = known(marginal_tier(opened.test))
    assert not tier.tests
    for order in range(2, tier.order + 1):
        for scope in itertools.combinations(domain.names, order):
            charge = marginal_charge(tier.noise_of(scope), options)
            found[order] += ledger.price(charge) / ledger.cap
    return found


ONE = Domain((IntegerAttribute("age", 0, 9),))
SUMMED = Domain(tuple(IntegerAttribute(f"x{place}", 0, 99, 5, resolution=1) for place in range(6)))
HELD = {"records_per_person": 4, "person_column": "id"}


@pytest.mark.parametrize(
    ("attributes", "choices", "hundredths"),
    [
        (2, {"test": TestKind.QUERY}, {Part.RECORDS: 1, Part.ATTRIBUTE: 14, Part.TESTS: 85}),  # one is a tree
        (2, {}, {Part.RECORDS: 1, Part.TABLE: 99}),
        (2, HELD, {Part.RECORDS: 1, Part.PERSONS: 0.2, Part.MORE_PERSONS: 4, Part.TABLE: 94.8}),
        (1, {}, {Part.RECORDS: 1, Part.ATTRIBUTE: 99}),
        (5, {"opening": Opening.ONE_WAY}, {Part.RECORDS: 3, Part.ATTRIBUTE: 8, Part.TESTS: 89}),
        (6, {"opening": Opening.ONE_WAY}, {Part.RECORDS: 3, Part.ATTRIBUTE: 8, Part.SUMS: 2, Part.TESTS: 87}),
        (5, {"opening": Opening.NONE}, {Part.RECORDS: 3, Part.TESTS: 97}),
        (5, {"opening": Opening.NONE, "test": TestKind.QUERY}, {Part.RECORDS: 1, Part.TESTS: 99}),
    ],
)
def test_the_parts_of_the_budget_by_hand(
    attributes: int, choices: dict[str, Any], hundredths: dict[Part, float]
) -> None:
    domain, options = agreed({1: ONE, 2: DOMAIN, 5: FIVE, 6: SUMMED}[attributes], Options(**choices))
    found = defaultdict[Part, Fraction](Fraction)
    for one in opening_releases(domain, open_filter(BUDGET, Composition.ZCDP), options):
        found[one.part] += 100 * one.weight
    assert {part: float(weight) for part, weight in found.items() if weight} == hundredths


@pytest.mark.parametrize("options", [Options(), Options(neighboring_relation=REPLACE)])
def test_pairs_and_triples_share_the_budget_by_the_closed_form(options: Options) -> None:
    # By hand, of 16 yes/no attributes: v = 1/4 and m = 1/4, and questions about 1, 2 or 3 are a third each.
    domain, v, m = binary(16), 0.25, 0.25
    asked = {order: 3 * math.comb(16, order) for order in (1, 2, 3)}
    means = [
        sum(math.comb(16 - one, k - one) * m ** (k - one) / asked[k] for k in asked if k >= one)
        for one in range(4)
    ]
    wanted = [math.comb(16, one) * math.sqrt(v**one * means[one]) for one in range(4)]
    if options.public_count:
        wanted[0] = 0.0
    for opening, order in ((Opening.PAIRS, 2), (Opening.TRIPLES, 3)):
        found = prices_of(domain, BUDGET, replace(options, opening=opening))
        spent = sum(found.values())
        assert 0.95 < spent < 0.98
        assert len(found) == order + (not options.public_count)
        for one, price in found.items():
            assert float(price / spent) == pytest.approx(wanted[one] / sum(wanted[: order + 1]), rel=1e-2)
    assert 0.36 < float(found[2] / spent) < 0.4  # with triples beside them; alone, they have most of it


def test_a_triple_of_long_attributes_costs_more_than_one_of_short_ones_and_all_fit_the_cap() -> None:
    options = Options(opening=Opening.TRIPLES)
    ledger = choose_filter(MIXED, BUDGET, options)
    opened = plan_opened(Contract(MIXED, BUDGET, options), plan_opening(MIXED, ledger, options), 5000.0)
    tier = known(marginal_tier(opened.test))
    assert tier.order == 3
    assert (tier.bins, tier.is_fine(1)) == (DEFAULT_BINS, False)
    triples = {
        scope: noise_variance(tier.noise_of(scope)) for scope in itertools.combinations(MIXED.names, 3)
    }
    assert min(triples, key=triples.__getitem__) == ("age", "rooms", "job")
    ratio = triples["age", "a0", "a1"] / triples["rooms", "a0", "a1"]
    assert ratio == pytest.approx(float(tier.weights["rooms"] / tier.weights["age"]))
    assert tier.noise_of(MIXED.names[:4]) == tier.noise
    assert 0.95 < sum(prices_of(MIXED, BUDGET, options).values()) < 0.98


LONG = tuple(IntegerAttribute(f"long{place}", 0, 999) for place in range(12))
CODES = tuple(CategoricalAttribute(f"code{place}", tuple(range(60))) for place in range(3))
ONLY = CategoricalAttribute("only", ("x",))
THREE = "needs three attributes of two cells or more"
TOO_LARGE = "at most 65,536 cells, and that of 'code0', 'code1', 'code2' may have 216,000"
REFUSED = {
    "two attributes": (Domain(LONG[:2]), "1e-9", THREE),
    "one cell": (Domain((*LONG[:2], ONLY)), "1e-9", THREE),
    "no delta": (binary(8), "0", "needs Gaussian noise, so a delta above 0"),
    "many": (binary(20), "1e-9", "at most 1,000 triples, and there are 1,140"),
    "large": (Domain((*CODES, *binary(3))), "1e-9", TOO_LARGE),
    "large together": (
        Domain(LONG[:12]), "1e-9", "of all triples together, and these may have 6,554,020"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_triples_that_cannot_be_measured_are_refused_from_the_schema_alone(case: str) -> None:
    domain, delta, words = REFUSED[case]
    options = Options(opening=Opening.TRIPLES)
    with pytest.raises(BudgetError, match=words) as refused:
        pmw.plan_session(domain, records=1000, epsilon=1, delta=delta, options=options)
    assert "choose opening = pairs" in str(refused.value)
    frame = pd.DataFrame({one.name: [] for one in domain})
    with pytest.raises(BudgetError, match=words):
        pmw.open_session(frame, domain, epsilon=1, delta=delta, options=options)


@pytest.mark.parametrize(
    "choices",
    [
        {"test": TestKind.QUERY}, {"update_limit": 3}, {"simultaneous": True},
        {"accuracy": 0.1, "records": 1000},
    ],
)  # fmt: skip
def test_triples_go_with_no_choice_that_leaves_them_out(choices: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match="opening = triples does not go with"):
        Options(opening=Opening.TRIPLES, **choices)
    Options(opening=Opening.PAIRS, **choices)


# --- expected questions ---------------------------------------------------------------------------------


ASKED_DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 89),
        IntegerAttribute("hours", 0, 39),
        CategoricalAttribute("job", tuple("abcdefgh")),
        CategoricalAttribute("sex", ("f", "m")),
        IntegerAttribute("rooms", 1, 12),
        CategoricalAttribute("region", tuple("nesw")),
    )
)
RECORDS = 50_000.0
PAIRS = list(itertools.combinations(ASKED_DOMAIN.names, 2))
SCOPES = [scope for order in range(9) for scope in itertools.combinations(ASKED_DOMAIN.names, order)]
ASKED = st.dictionaries(st.sampled_from(SCOPES), st.integers(1, 10_000), min_size=1, max_size=8)
OPENINGS = st.sampled_from(["pairs", "triples"])


def expecting(asked: Mapping[tuple[str, ...], int]) -> ExpectedQuestions:
    scopes = tuple(sorted(asked))
    return ExpectedQuestions(scopes, tuple(asked[scope] for scope in scopes), "0" * 64)


def opened_by(
    asked: Mapping[tuple[str, ...], int] | None, opening: str = "pairs", **choices: object
) -> tuple[Contract, OpeningPlan, Opened, MarginalTestPlan]:
    """Return what a session would open with, of questions that are expected; of none where that is None."""
    options = pmw.Options(opening=opening, expected=None if asked is None else expecting(asked), **choices)  # type: ignore[arg-type]
    contract, plan = open_contract(ASKED_DOMAIN, BUDGET, options)
    found = plan_opened(contract, plan, RECORDS)
    tier = known(marginal_tier(found.test))
    return contract, plan, found, tier


def weights(contract: Contract) -> dict[tuple[Part, int], Fraction]:
    composition = known(contract.options.composition)
    ledger = open_filter(contract.budget, composition)
    releases = opening_releases(contract.domain, ledger, contract.options)
    return {(one.part, place): one.weight for place, one in enumerate(releases)}


@given(ASKED, OPENINGS)
@example({("age", "hours"): 1}, "pairs")
@example({SCOPES[-1]: 3, ("sex",): 1}, "triples")
def test_all_that_opening_has_is_spent_and_none_of_what_is_measured_loses_more_than_half(
    asked: dict[tuple[str, ...], int], opening: str
) -> None:
    contract, _, opened, tier = opened_by(asked, opening)
    found, usual = weights(contract), weights(opened_by(None, opening)[0])
    assert sum(found.values()) == sum(usual.values()) == 1
    assert found.keys() == usual.keys()
    for (part, place), weight in found.items():
        if part in (Part.RECORDS, Part.ATTRIBUTE, Part.WIDER):
            assert weight >= usual[part, place] * (1 - EXPECTED_SHARE)
        else:
            assert weight == usual[part, place]
    price = sum(
        (
            opened.ledger.price(marginal_charge(tier.noise_of(scope), contract.options))
            for order in range(2, tier.order + 1)
            for scope in itertools.combinations(ASKED_DOMAIN.names, order)
        ),
        Fraction(0),
    )
    kept = sum(weight for (part, _), weight in found.items() if part is Part.RESERVE)
    ledger = replace(opened.ledger, spent=opened.ledger.spent + kept * opened.ledger.cap)
    left = ledger.remaining - reserved_share(ledger)
    assert opened.ledger.spent + price <= opened.ledger.cap
    # A pair's variance is rounded up to a whole unit; the surcharge of discrete noise is not in proportion.
    assert left * Fraction(995, 1000) <= price <= left * (1 + Fraction(1, 10**8))


@settings(max_examples=10)
@given(st.sampled_from(PAIRS), st.integers(1, 10**6))
def test_a_pair_that_alone_is_expected_gets_all_that_pairs_get_for_it(
    pair: tuple[str, str], count: int
) -> None:
    (_, plan, _, tier), (_, _, _, usual) = opened_by({pair: count}), opened_by(None)
    assert [one.scope for one in tier.added] == [pair]
    assert noise_variance(tier.noise_of(pair)) < noise_variance(usual.noise_of(pair)) / 2
    share = tier.added[0].price / (tier.added[0].price + sum(price(tier, one) for one in PAIRS))
    assert float(share) == pytest.approx(float(plan.expected), rel=0.01)


def price(tier: MarginalTestPlan, pair: tuple[str, str]) -> Fraction:
    """Return the usual price of a pair, in parts of that of the plan's noise."""
    return min(Fraction(1), math.prod((tier.weights[name] for name in pair), start=Fraction(1)))
