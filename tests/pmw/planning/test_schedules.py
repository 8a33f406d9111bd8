"""Schedules: opening leaves enough for every positive; parts of the reserve and error quantiles come due."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pmw
from pmw.planning.error_quantiles import AnsweredQuestions, plan_quantiles, quantiles_left
from pmw.planning.opening import choose_filter
from pmw.planning.parts import Level, newest_due, next_due, plan_part, water_filled
from pmw.planning.tiers import DEFAULT_SCHEDULE, plan_marginal_test, plan_query_tier
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.answer import Basis, QuestionKind
from pmw.public.charges import marginal_charge, quantile_entry
from pmw.public.clear import pot_of_parts
from pmw.public.error_quantiles import SHARE, ErrorQuantile, quantile_margin
from pmw.public.foundations import strategy_of
from pmw.public.options import Options, TestKind
from pmw.public.plans import MarginalTestPlan
from pmw.public.state import PublicState
from pmw.sparse_vector import SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute
from tests import worlds
from tests.worlds import known

POSITIVE = st.floats(1e-3, 1e3)
LEVELS = st.dictionaries(
    st.text("abc", min_size=1, max_size=2).map(tuple), st.builds(Level, POSITIVE, POSITIVE), max_size=8
)
NAMES = tuple("abcd")
DOMAIN = Domain(tuple(CategoricalAttribute(name, tuple("vwxyz")) for name in NAMES))


def state_of(records: int, domain: Domain = DOMAIN, **choices: object) -> PublicState:
    generator = np.random.default_rng(4)
    columns = {}
    for attribute in domain:
        codes = generator.integers(0, attribute.base_size, records)
        texts = (
            attribute.values if isinstance(attribute, CategoricalAttribute) else range(attribute.base_size)
        )
        columns[attribute.name] = np.array(list(texts))[codes]
    settled = {"epsilon": 1, "seed": 5, "reserve": Fraction(3, 10), "opening": pmw.Opening.PAIRS, **choices}
    with worlds.opened(pd.DataFrame(columns), domain, **settled) as session:  # type: ignore[arg-type]
        return session.state


@pytest.fixture(scope="module")
def large() -> PublicState:
    return state_of(100_000)


def price(state: PublicState, part: tuple[tuple[tuple[str, ...], object], ...]) -> Fraction:
    charges = (marginal_charge(noise, state.contract.options) for _, noise in part)  # type: ignore[arg-type]
    return sum(map(state.ledger.price, charges), Fraction(0))


@given(LEVELS, POSITIVE)
def test_all_is_spent_or_nothing_is_worth_it_and_what_has_its_price_is_not_bought(
    levels: dict[tuple[str, ...], Level], spent: float
) -> None:
    added = water_filled(levels, spent)
    assume(added)
    assert sum(added.values()) == pytest.approx(spent)
    target, *others = [(levels[scope].held + one) / levels[scope].weight for scope, one in added.items()]
    assert others == pytest.approx([target] * len(others))
    assert all(one >= 0.0999 * levels[scope].held for scope, one in added.items())
    for one, (weight, held) in levels.items():
        assert one not in added or held < target * weight
        assert one in added or held * 1.1 * 1.1 > target * weight * 0.5


@given(st.integers(0, 100_000))
def test_parts_come_due_at_numbers_that_grow_fourfold(questions: int) -> None:
    dues = [64 * 4**place for place in range(8)]
    assert next_due(questions) == min(due for due in dues if due > questions)
    assert newest_due(questions) == max((due for due in dues if due <= questions), default=0)


@given(
    st.dictionaries(
        st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(lambda some: tuple(sorted(some))),
        st.integers(1, 200),
        max_size=6,
    ),
    st.integers(1, 100),
)
def test_a_part_costs_what_it_may_and_hardly_less(
    large: PublicState, asked: dict[tuple[str, ...], int], hundredths: int
) -> None:
    spent = pot_of_parts(large) * Fraction(hundredths, 100)
    part = plan_part(large, asked, spent)
    assert price(large, part) <= spent
    assert not part or price(large, part) >= spent * Fraction(999_999, 1_000_000)
    assert all(any(set(scope) <= set(one) for one in asked) or len(scope) < 3 for scope, _ in part)
    assert all(strategy_of(large, scope) is not None for scope, _ in part)
    assert plan_part(large, dict(reversed(asked.items())), spent) == part  # in whatever order they came


def test_what_many_questions_rest_on_is_bought_first(large: PublicState) -> None:
    half = pot_of_parts(large) / 2
    (first, *_), *_ = plan_part(large, {("a", "b"): 60, ("c", "d"): 4}, half)
    assert first == ("a", "b")
    bought = {scope for scope, _ in plan_part(large, {("a", "b"): 64}, half)}
    assert ("a", "b") in bought
    assert ("c", "d") not in bought


def test_a_triple_is_bought_where_records_are_many_beside_its_noise() -> None:
    asked: dict[tuple[str, ...], int] = {("a", "b", "c"): 64}
    few, many = state_of(200), state_of(300_000)
    assert all(len(scope) < 3 for scope, _ in plan_part(few, asked, pot_of_parts(few) / 2))
    assert ("a", "b", "c") in dict(plan_part(many, asked, pot_of_parts(many) / 2))


def test_a_triple_is_measured_by_rows_on_the_cells_of_its_pairs() -> None:
    short = [CategoricalAttribute(name, tuple("wxyz")) for name in "bcd"]
    domain = Domain((IntegerAttribute("a", 0, 99), *short))
    binned = state_of(50_000, domain)
    for scope in itertools.combinations("abcd", 3):
        rows = strategy_of(binned, scope)
        grid = binned.grid(scope)
        same = all(
            binned.grid(pair).scope_shape(pair) == grid.scope_shape(pair)
            for pair in itertools.combinations(scope, 2)
        )
        assert (rows is not None) == same
    assert strategy_of(binned, ("b", "c", "d")) is not None
    assert strategy_of(state_of(50_000, domain, reserve=Fraction(0)), ("b", "c", "d")) is None


# --- tiers ----------------------------------------------------------------------------------------------


TESTED = Domain(
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
    ledger = choose_filter(TESTED, budget, options)
    ledger = replace(ledger, spent=ledger.cap / 10)
    plan = known(plan_marginal_test(TESTED, ledger, 20_000.0, options))
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
    ledger = choose_filter(TESTED, budget, options)
    return known(plan_marginal_test(TESTED, ledger, records, options))


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


def test_a_threshold_comes_down_with_the_questions_asked_to_what_noise_would_make_and_a_margin() -> None:
    plan = planned(1e4)
    thresholds = [plan.threshold(12, asked) for asked in range(0, 3000, 10)]
    assert thresholds == sorted(thresholds, reverse=True)
    height = plan.decay[0]
    assert thresholds[0] - plan.threshold(12, 10**9) == pytest.approx(height, abs=1)
    assert plan.threshold(24, 0) - plan.threshold(12, 0) == pytest.approx(
        plan.threshold(36, 0) - plan.threshold(24, 0), abs=2
    )


# --- error quantiles ------------------------------------------------------------------------------------


OF_TESTS, BINS = QuestionKind(2, Basis.TESTED), QuestionKind(3, Basis.BINS)
LOUD = DiscreteGaussian(Fraction(10**12))


@pytest.fixture(scope="module")
def state() -> PublicState:
    """Return the state of a session of many records after 256 answers."""
    opened = state_of(40_000, worlds.LETTERS.domain, opening=pmw.Opening.ONE_WAY, reserve=0)
    return replace(opened, asked=256, settled=256)


def asked(number: int, width: float = 5000.0) -> AnsweredQuestions:
    return AnsweredQuestions(np.arange(1, number + 1), np.full(number, width))


def test_each_kind_gets_an_equal_part_and_one_part_stays(state: PublicState) -> None:
    options, ledger = state.contract.options, state.ledger
    alone = plan_quantiles(state, {OF_TESTS: asked(40)})
    both = plan_quantiles(state, {OF_TESTS: asked(40), BINS: asked(120)})
    assert [one.kind for one in both] == [OF_TESTS, BINS]
    share = ledger.cap * SHARE
    for parts, requests in ((2, alone), (3, both)):
        for one in requests:
            price = ledger.price(one.entry(options).charge)
            assert 0.999 * float(share / parts) <= float(price) <= float(share / parts)


def test_what_was_spent_on_them_is_not_spent_again(state: PublicState) -> None:
    options, ledger = state.contract.options, state.ledger
    (first,) = plan_quantiles(state, {OF_TESTS: asked(40)})
    released = ErrorQuantile(OF_TESTS, 128, 40, 10**12, first.noise)
    entry = quantile_entry(OF_TESTS.describe(), first.noise, options)
    later = replace(state, quantiles=(released,), ledger=ledger.charge(entry.charge))
    (second,) = plan_quantiles(later, {BINS: asked(40)})
    price = [float(ledger.price(one.entry(options).charge)) for one in (first, second)]
    assert price[1] == pytest.approx(price[0] / 2, rel=1e-3)
    used = tuple(replace(released, asked=number) for number in (64, 128))
    assert plan_quantiles(replace(state, quantiles=used), {BINS: asked(40)}) == ()


def test_what_is_kept_for_tests_is_left_to_them(state: PublicState) -> None:
    def left(most: Fraction) -> PublicState:
        ledger = state.ledger
        while ledger.remaining > most:  # as requests may have done
            noise = DiscreteGaussian(Fraction(2**28))
            ledger = ledger.charge(quantile_entry(OF_TESTS.describe(), noise, state.contract.options).charge)
        assert ledger.remaining > 0
        return replace(state, ledger=ledger)

    kept, share = state.ledger.cap / 8, state.ledger.cap * SHARE  # at 256 answers
    assert plan_quantiles(left(kept), {OF_TESTS: asked(40)}) == ()
    assert quantiles_left(left(kept)) == 0
    assert quantiles_left(left(kept + share)) > share * Fraction(9, 10)
    options = replace(state.contract.options, accuracy=0.1, records=3000)
    contract = replace(state.contract, options=options)
    planned = state.ledger.remaining - share
    assert planned > kept + share
    for most, whole in ((planned, False), (planned + share, True)):  # all that was planned is kept here
        assert bool(quantiles_left(replace(left(most), contract=contract))) is whole


def test_kinds_are_left_out_where_noise_hides_what_there_is_to_tell(state: PublicState) -> None:
    assert plan_quantiles(state, {OF_TESTS: asked(39)}) == ()
    (one,) = plan_quantiles(state, {OF_TESTS: asked(40)})
    margin = quantile_margin(one.noise, 0.95)
    assert plan_quantiles(state, {OF_TESTS: asked(40, 1.99 * margin)}) == ()
    assert plan_quantiles(state, {OF_TESTS: asked(40, 2.01 * margin)})
    for before_it, due in ((1.0, False), (5 * margin, True)):
        before = (ErrorQuantile(OF_TESTS, 128, 40, round(before_it * UNITS), LOUD),)
        assert bool(plan_quantiles(replace(state, quantiles=before), {OF_TESTS: asked(40)})) == due
