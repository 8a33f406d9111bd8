"""Parts of the reserve: what is bought follows from prices, scales and questions, by laws."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pmw
from pmw.planning.parts import Level, newest_due, next_due, plan_part, water_filled
from pmw.public.charges import marginal_charge
from pmw.public.clear import pot_of_parts
from pmw.public.foundations import strategy_of
from pmw.public.state import PublicState
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests import worlds

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
        codes = generator.integers(0, attribute.size, records)
        texts = attribute.values if isinstance(attribute, CategoricalAttribute) else range(attribute.size)
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
def test_all_is_spent_or_nothing_is_worth_it_and_no_price_falls(
    levels: dict[tuple[str, ...], Level], spent: float
) -> None:
    added = water_filled(levels, spent)
    if added:
        assert sum(added.values()) == pytest.approx(spent)
        multiples = [(levels[scope].held + one) / levels[scope].weight for scope, one in added.items()]
        assert multiples == pytest.approx([multiples[0]] * len(multiples))
    assert all(one >= 0.0999 * levels[scope].held for scope, one in added.items())


@given(LEVELS, POSITIVE)
def test_what_has_its_price_is_not_bought_and_what_is_far_below_it_is(
    levels: dict[tuple[str, ...], Level], spent: float
) -> None:
    added = water_filled(levels, spent)
    assume(added)
    scope = next(iter(added))
    target = (levels[scope].held + added[scope]) / levels[scope].weight
    for one, (weight, held) in levels.items():
        assert one not in added or held < target * weight
        assert one in added or held * 1.1 * 1.1 > target * weight * 0.5


def test_nothing_is_spent_on_nothing() -> None:
    assert water_filled({}, 1.0) == {}
    assert water_filled({("a",): Level(1.0, 1.0)}, 0.0) == {}
    assert water_filled({("a",): Level(1.0, 1.0)}, 0.099) == {}
    assert water_filled({("a",): Level(1.0, 1.0)}, 0.101) == pytest.approx({("a",): 0.101})


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


def test_nothing_is_planned_where_nothing_was_asked_or_may_be_spent(large: PublicState) -> None:
    assert plan_part(large, {}, pot_of_parts(large)) == ()
    assert plan_part(large, {("a", "b"): 64}, Fraction(0)) == ()
    assert plan_part(large, {(): 64}, pot_of_parts(large)) == ()


def test_what_many_questions_rest_on_is_bought_first(large: PublicState) -> None:
    half = pot_of_parts(large) / 2
    (first, *_), *_ = plan_part(large, {("a", "b"): 60, ("c", "d"): 4}, half)
    assert first == ("a", "b")
    bought = {scope for scope, _ in plan_part(large, {("a", "b"): 64}, half)}
    assert ("a", "b") in bought
    assert ("c", "d") not in bought


def test_a_triple_is_bought_where_records_are_many_beside_its_noise() -> None:
    asked: dict[tuple[str, ...], int] = {("a", "b", "c"): 64}
    few, many = state_of(200), state_of(1_000_000)
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


def test_wide_questions_count_for_nothing() -> None:
    names = tuple(f"q{place}" for place in range(9))
    wide = state_of(2_000, Domain(tuple(CategoricalAttribute(name, ("x", "y")) for name in names)))
    assert plan_part(wide, Counter({names: 64}), pot_of_parts(wide)) == ()
