"""What residuals stand on in a state, and by which rows marginals are measured in it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    ResidualMeasurement,
)
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.evidence import ScopeKnowledge
from pmw.public.foundations import due_scopes, founded, strategy_of
from pmw.public.state import PublicState
from pmw.public.status import held_pairs, pairs_sentence
from queries import CategoricalAttribute, Domain, ScopeError
from tests.worlds import JOINED, WIDE, declared, known, opened

# An age is a tree alone, and bins with others.
DOMAIN = declared(special=True, age=range(100), rooms=range(1, 7), sex="fm", code=tuple(range(30)))
PAIRS: list[tuple[str, ...]] = list(itertools.combinations(DOMAIN.names, 2))
ALL: dict[pmw.Opening, list[tuple[str, ...]]] = {
    pmw.Opening.PAIRS: PAIRS,
    pmw.Opening.TRIPLES: [*PAIRS, *itertools.combinations(DOMAIN.names, 3)],
}
OPENINGS = pytest.mark.parametrize("opening", ALL)


def people() -> pd.DataFrame:
    generator = np.random.default_rng(1)
    columns = {
        "age": generator.integers(0, 100, 3000),
        "rooms": generator.integers(1, 7, 3000),
        "sex": generator.choice(["f", "m"], 3000),
        "code": generator.integers(0, 30, 3000),
    }
    return pd.DataFrame(columns)


FRAME = people()


@cache
def state_of(**choices: Any) -> PublicState:
    chosen = {"opening": pmw.Opening.PAIRS, **choices}
    with opened(FRAME, DOMAIN, epsilon=20, seed=4, **chosen) as session:
        return session.state


def scale(measured: OneWayMeasurement) -> float:
    """Return the least standard deviation of a noise that counts take in, on its own grid of numbers."""
    return min(block.grid for block in measured.estimate.blocks)


def test_what_residuals_stand_on_is_counted_once() -> None:
    # The counts of a pair hold those of its attributes: joined with these, bars would be too narrow.
    state = state_of()
    for name in DOMAIN.names:
        found = ScopeKnowledge.of(state, (name,), (name,))
        assert len(found.opened) == 1
        assert found.fine == found.coarse == found.opened_bins == ()


def test_a_triple_says_of_each_pair_what_the_pair_says_and_no_more_surely() -> None:
    state = state_of(opening=pmw.Opening.TRIPLES)
    pairs = {one.scope: one for one in state.marginals[: len(PAIRS)]}
    for one in state.marginals[len(PAIRS) :]:
        assert isinstance(one, ResidualMeasurement)
        for axis, pair in enumerate(reversed(list(itertools.combinations(one.scope, 2)))):
            known = pairs[pair]
            assert one.values.sum(axis=axis) == pytest.approx(known.values, abs=1e-6)
            weights = np.zeros(known.units.shape)
            weights[0, 1] = 1
            spread = np.broadcast_to(np.expand_dims(weights, axis), one.units.shape)
            variance = known.estimate.weighted_variance(weights)
            assert one.estimate.weighted_variance(spread) == pytest.approx(variance)
            assert isinstance(known, ResidualMeasurement)
            assert scale(one) <= float(known.drawn.sigma)


def test_a_triple_stands_on_its_pairs_alone_and_as_they_were_measured_first() -> None:
    state = state_of(opening=pmw.Opening.TRIPLES)
    triple = state.marginals[-1]
    again = replace(state.marginals[-2 - 3], units=state.marginals[-2 - 3].units + 1)  # the last pair
    assert again.scope == PAIRS[-1]
    later = replace(state, measured=(*state.measured, again))
    assert isinstance(triple, ResidualMeasurement)
    found = founded(later, replace(triple, foundation=None))
    assert found.values.tolist() == triple.values.tolist()
    without = replace(state, measured=tuple(one for one in state.marginals if one.scope != PAIRS[-1]))
    assert strategy_of(without, triple.scope) is None
    assert strategy_of(state, triple.scope) == triple.strategy
    with pytest.raises(ScopeError, match="stands on one that was not measured"):
        founded(without, replace(triple, foundation=None))


@OPENINGS
def test_a_residual_says_what_opening_said_with_the_noise_of_everybody_and_of_each_attribute(
    opening: pmw.Opening,
) -> None:
    state = state_of(opening=opening)
    alone = {one.scope: one for one in state.opening}
    assert [one.scope for one in state.marginals] == ALL[opening]
    assert any(isinstance(one, HierarchicalMeasurement) for one in state.opening)
    for one in state.marginals:
        assert isinstance(one, ResidualMeasurement)
        everybody = one.estimate.weighted_variance(np.ones(one.units.shape))
        assert everybody == pytest.approx(state.total.deviation**2)
        assert one.values.sum() == pytest.approx(state.total.estimate)
        for axis, name in enumerate(one.scope):
            measured = alone[name,]
            values = measured.values
            if state.grid(one.scope) is not state.domain:  # it is measured on bins
                values = state.coarsening.summed((name,), values)
            others = tuple(other for other in range(len(one.scope)) if other != axis)
            wanted = values - values.mean() + state.total.estimate / values.size
            assert one.values.sum(axis=others) == pytest.approx(wanted, abs=1e-6)
            if not isinstance(measured, ResidualMeasurement):
                continue
            # Of a cell of one attribute it knows what opening does: neither more nor less.
            weights = np.zeros(one.units.shape)
            weights[(slice(None),) * axis + (0,)] = 1
            variance = one.estimate.weighted_variance(weights)
            assert variance == pytest.approx(float(measured.cell_variances[0]))
        assert scale(one) <= min(scale(alone[name,]) for name in one.scope)
        assert founded(state, replace(one, foundation=None)).values == pytest.approx(one.values)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@OPENINGS
def test_rows_are_of_the_relation_that_holds(opening: pmw.Opening, relation: NeighboringRelation) -> None:
    state = state_of(opening=opening, neighboring_relation=relation, reserve=0)
    for pair in ALL[opening]:
        strategy = known(strategy_of(state, pair))
        assert strategy.replaced is (relation is NeighboringRelation.REPLACE_ONE)
        assert tuple(axis.size for axis in strategy.axes) == state.grid(pair).scope_shape(pair)
    assert strategy_of(state, DOMAIN.names) is None
    assert (strategy_of(state, DOMAIN.names[:3]) is None) == (opening is pmw.Opening.PAIRS)
    for one in state.opening:
        rows = strategy_of(state, one.scope)
        assert rows == (one.strategy if isinstance(one, ResidualMeasurement) else None)


@OPENINGS
def test_marginals_are_due_until_they_are_measured_and_not_once_a_session_is_closed(
    opening: pmw.Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(opening=opening)
    assert due_scopes(state) == []
    before = replace(state, measured=state.measured[1:])
    assert due_scopes(before) == PAIRS[:1]
    assert due_scopes(replace(before, closed=True)) == []
    nothing = replace(state, measured=())
    assert due_scopes(nothing) == ALL[opening]
    monkeypatch.setattr("pmw.public.foundations.MOST_RESIDUAL_CELLS", 60)
    assert due_scopes(nothing) == [one for one in ALL[opening] if state.grid(one).scope_size(one) <= 60]


# --- pairs of attributes ------------------------------------------------------------------------------------

NAMES = WIDE.domain.names
EVERY_PAIR = list(itertools.combinations(NAMES, 2))
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


@given(
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True), max_size=6), st.randoms()
)
def test_held_is_what_lies_in_a_measured_table_in_whatever_order_that_came(
    one_way: PublicState, chosen: list[list[str]], random: Any
) -> None:
    scopes = [WIDE.domain.scope(names) for names in chosen]
    pairs = held_pairs(with_scopes(one_way, scopes))
    assert pairs.held == {pair for pair in EVERY_PAIR if any(set(pair) <= set(scope) for scope in scopes)}
    random.shuffle(scopes)
    assert held_pairs(with_scopes(one_way, scopes)) == pairs
    form = pairs.to_dict()
    assert form["held"] + len(form["not_held"]) == form["number"] == 15


def test_what_a_test_found_wrong_or_was_paid_for_is_held_from_then_on() -> None:
    with JOINED.opened(seed=3) as session:
        assert ("a", "b") in held_pairs(session.state).missing
        session.ask("a = 's' AND b = 's'")
        assert [one.requested for one in session.state.marginals] == [False]
        assert held_pairs(session.state).held == {("a", "b")}
        session.measure(["d", "b"])
        assert held_pairs(session.state).held == {("a", "b"), ("b", "d")}
        assert (session.status().pairs_held, session.status().pairs) == (2, 10)


@pytest.mark.parametrize(("names", "number"), [("abc", 1), ("ab", 0), ("b", 0)])
def test_an_attribute_of_one_cell_is_in_no_pair(names: str, number: int) -> None:
    cells = {"a": tuple("stuv"), "b": ("x",), "c": tuple("stuv")}
    domain = Domain(tuple(CategoricalAttribute(name, cells[name]) for name in names))
    frame = pd.DataFrame({name: [cells[name][0]] for name in names})
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
        (28, 1, "1 of 28 pairs of attributes is held: {} in the others."),
        (28, 0, "None of the 28 pairs of attributes is held: {}."),
        (0, 0, ""),
    ],
)
def test_how_many_are_held_in_words(number: int, held: int, words: str) -> None:
    found = pairs_sentence({"number": number, "held": held, "not_held": []})
    assert found == words.format("do not rely on an export for how two attributes go together")
