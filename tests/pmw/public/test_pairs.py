"""Pairs of attributes: those that were measured together are held, however that came about, and no others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.state import PublicState
from pmw.public.status import held_pairs, pairs_sentence
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests.worlds import JOINED, PEOPLE, VISITS, WIDE, opened

NAMES = WIDE.domain.names
PAIRS = list(itertools.combinations(NAMES, 2))
NOISE = DiscreteGaussian(Fraction(10**12))


@pytest.fixture(scope="module")
def one_way() -> PublicState:
    """Return the state of a session that measured single attributes."""
    return WIDE.state(seed=1)


def with_scopes(state: PublicState, scopes: list[tuple[str, ...]], **how: Any) -> PublicState:
    """Return a state in which tables of counts were measured, too, of noise alone."""
    shapes = (state.domain.scope_shape(scope) for scope in scopes)
    pairs = zip(scopes, shapes, strict=True)
    more = (MarginalMeasurement(scope, np.zeros(shape, np.int64), NOISE, **how) for scope, shape in pairs)
    return replace(state, measured=(*state.measured, *more))


@pytest.mark.parametrize(
    ("options", "delta", "held"),
    [
        ({"opening": pmw.Opening.PAIRS}, 1e-9, 15),
        ({"opening": pmw.Opening.TRIPLES}, 1e-9, 15),
        ({"opening": pmw.Opening.PAIRS}, 0, 0),
        ({"opening": pmw.Opening.ONE_WAY}, 1e-9, 0),
        ({"opening": pmw.Opening.NONE}, 1e-9, 0),
        ({"test": pmw.TestKind.QUERY}, 1e-9, 0),
    ],
)
def test_opening_holds_all_pairs_or_none(options: dict[str, Any], delta: float, held: int) -> None:
    pairs = held_pairs(WIDE.state(delta=delta, seed=1, **options))
    assert (len(pairs.held), pairs.number) == (held, 15)
    assert list(pairs.missing) == [pair for pair in PAIRS if pair not in pairs.held]


def test_a_table_that_was_measured_whole_holds_its_pairs_without_a_delta() -> None:
    state = PEOPLE.state(delta=0, opening=pmw.Opening.PAIRS, seed=1)
    assert [one.scope for one in state.opening] == [PEOPLE.domain.names]
    assert held_pairs(state).missing == ()


def test_what_a_test_found_wrong_is_held_from_then_on() -> None:
    with JOINED.opened(seed=3) as session:
        assert ("a", "b") in held_pairs(session.state).missing
        session.ask("a = 's' AND b = 's'")
        assert [one.requested for one in session.state.marginals] == [False]
        assert held_pairs(session.state).held == {("a", "b")}
        assert (session.status().pairs_held, session.status().pairs) == (1, 10)


def test_what_was_paid_for_is_held_a_triple_as_its_three_pairs() -> None:
    with WIDE.opened(seed=1) as session:
        session.measure(["d", "b"])
        assert held_pairs(session.state).held == {("b", "d")}
        session.measure(["a", "e", "f"])
        assert held_pairs(session.state).held == {("b", "d"), ("a", "e"), ("a", "f"), ("e", "f")}
        assert session.status().pairs_held == 4


def test_questions_that_were_measured_themselves_hold_no_pair() -> None:
    with VISITS.opened(seed=1, opening=pmw.Opening.ONE_WAY) as session:
        session.measure(["sex = 'Male' AND member = TRUE", "sex = 'Female' AND member = TRUE"], share=0.1)
        assert len(session.state.measured) == 1
        assert not held_pairs(session.state).held


@pytest.mark.parametrize("how", [{}, {"requested": True}, {"requested": True, "part": 3}])
def test_rounds_payment_and_parts_of_the_reserve_count_alike(
    one_way: PublicState, how: dict[str, Any]
) -> None:
    assert held_pairs(with_scopes(one_way, [("c", "e")], **how)).held == {("c", "e")}


@given(
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True), max_size=6), st.randoms()
)
def test_held_is_what_lies_in_a_measured_table_in_whatever_order_that_came(
    one_way: PublicState, chosen: list[list[str]], random: Any
) -> None:
    scopes = [WIDE.domain.scope(names) for names in chosen]
    pairs = held_pairs(with_scopes(one_way, scopes))
    assert pairs.held == {pair for pair in PAIRS if any(set(pair) <= set(scope) for scope in scopes)}
    random.shuffle(scopes)
    assert held_pairs(with_scopes(one_way, scopes)) == pairs
    form = pairs.to_dict()
    assert form["held"] + len(form["not_held"]) == form["number"] == 15


def test_numbers_that_came_out_change_nothing(one_way: PublicState) -> None:
    other = opened(WIDE.frame.assign(a=WIDE.frame["b"]), WIDE.domain, opening=pmw.Opening.ONE_WAY, seed=9)
    with other as session:
        assert held_pairs(session.state) == held_pairs(one_way)


def test_an_attribute_of_one_cell_is_in_no_pair() -> None:
    attributes = (IntegerAttribute("a", 0, 3), CategoricalAttribute("b", ("x",)), IntegerAttribute("c", 0, 3))
    frame = pd.DataFrame({"a": [0, 1], "b": ["x", "x"], "c": [2, 3]})
    for columns, number in ((("a", "b", "c"), 1), (("a", "b"), 0), (("b",), 0)):
        domain = Domain(tuple(one for one in attributes if one.name in columns))
        with pmw.open_session(frame, domain, epsilon=1, options=pmw.Options(seed=1)) as session:
            pairs = held_pairs(session.state)
            assert (pairs.number, pairs.missing) == (number, ())
            assert bool(pairs_sentence(pairs.to_dict())) == bool(number)
            assert ("pairs held" in repr(session.status()._repr_html_())) == bool(number)


@pytest.mark.parametrize(
    ("number", "held", "words"),
    [
        (28, 28, "28 of 28 pairs of attributes are held: an export has how two attributes go together."),
        (1, 1, "1 of 1 pair of attributes is held: an export has how two attributes go together."),
        (
            28,
            1,
            "1 of 28 pairs of attributes is held: do not rely on an export for how two attributes go "
            "together in the others.",
        ),
        (
            28,
            0,
            "None of the 28 pairs of attributes is held: do not rely on an export for how two attributes go "
            "together.",
        ),
        (0, 0, ""),
    ],
)
def test_how_many_are_held_in_words(number: int, held: int, words: str) -> None:
    assert pairs_sentence({"number": number, "held": held, "not_held": []}) == words
