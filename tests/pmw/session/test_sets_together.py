"""Questions about sets of cells: bounded many at once, each as it is alone, and as its weights are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pmw.model.measurement import ResidualMeasurement
from pmw.public.free_answers import FreeAnswers, ModelAnswers
from pmw.public.half_widths import AxisNoise, SumNoise
from pmw.public.options import Opening, TestKind
from pmw.public.state import PublicState
from queries import UNITS, Factor, LinearQuery
from queries.products import Products
from queries.questions import QuestionList
from tests.pmw.session.test_answer_arrays import DOMAIN, opened

FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "pairs": {"opening": Opening.PAIRS},
    "questions": {"test": TestKind.QUERY},
    "simultaneous": {"simultaneous": True},
    "contract": {"accuracy": 0.05, "records": 3000, "epsilon": 8},
}


def sets(generator: np.random.Generator, names: tuple[str, ...]) -> LinearQuery:
    """Return a question about some cells of each attribute, but not all."""
    factors = []
    for name in names:
        mask = generator.random(DOMAIN[name].size) < generator.choice([0.2, 0.5, 0.8])
        mask[generator.integers(mask.size)] ^= mask.all() or not mask.any()
        factors.append(Factor((name,), mask * UNITS))
    return LinearQuery(DOMAIN, tuple(factors))


def questions(seed: int) -> list[LinearQuery]:
    generator = np.random.default_rng(seed)
    scopes = [("age",), ("age", "sex"), ("income", "k"), ("age", "hours", "sex"), ("sex", "income", "k")]
    found = [sets(generator, names) for names in scopes for _ in range(6)]
    return [found[place] for place in generator.permutation(len(found))]


def settled(**options: Any) -> PublicState:
    with opened(seed=1, **options) as session:
        session.ask_all(questions(0)[:10])
        return session.state


@pytest.mark.parametrize("form", FORMS)
def test_many_get_what_each_gets_alone_whatever_is_expected(form: str) -> None:
    state = settled(**FORMS[form])
    asked, others = questions(1), questions(2)
    alone = [ModelAnswers(state).answer(query) for query in asked]
    free = FreeAnswers()
    for expected in ([], asked, [*asked, *others]):
        free.expect(state, expected)
        assert str(list(free.answers(state, QuestionList(asked)))) == str(alone)
        assert str(list(free.answers(state, QuestionList(asked[5:12])))) == str(alone[5:12])


@pytest.mark.parametrize("form", ["pairs", "questions"])
def test_tested_ones_get_what_each_gets_alone(form: str) -> None:
    state, asked, free = settled(**FORMS[form], reserve=0), questions(1), FreeAnswers()
    plan = state.query_plan
    assert plan is not None
    units = np.array([round(state.model.answer(query) * UNITS) for query in asked])
    alone = [
        ModelAnswers(state).certified(query, int(one), plan, plan.threshold)
        for query, one in zip(asked, units, strict=True)
    ]
    widths = {answer.interval[1] - answer.interval[0] for answer in alone if answer.interval}
    assert len(widths) > len(asked) // 2
    for expected in ([], [*questions(2), *asked]):
        free.expect(state, expected)
        assert str(list(free.certified(state, asked, units, plan))) == str(alone)


def test_what_was_bounded_in_one_state_bounds_nothing_in_the_next() -> None:
    free, asked = FreeAnswers(), questions(1)
    with opened(seed=1, opening=Opening.ONE_WAY) as session:
        states = [session.state]
        session.measure(("age", "sex"))
        states.append(session.state)
    free.expect(states[0], asked)
    for state in states:
        alone = [ModelAnswers(state).answer(query) for query in asked]
        for _ in range(2):
            assert str(list(free.answers(state, QuestionList(asked)))) == str(alone)


def test_half_widths_of_sets_are_those_of_their_weights() -> None:
    state, looked_at = settled(opening=Opening.PAIRS), 0
    generator = np.random.default_rng(3)
    for measured in state.marginals:
        if isinstance(measured, ResidualMeasurement):
            noise = SumNoise(measured.estimate, 0.95)
            asked = [sets(generator, measured.scope) for _ in range(5)]
            wanted = [noise.half_width(query.weights() / UNITS) for query in asked]
            found = noise.product_half_widths(Products.of_queries(asked).sides)
            np.testing.assert_allclose(found, wanted, rtol=1e-9)
            summed = SumNoise(measured.estimate.over(measured.scope[:1]), 0.95)
            alone = [sets(generator, measured.scope[:1]) for _ in range(5)]
            wanted = [summed.half_width(query.weights() / UNITS) for query in alone]
            found = summed.product_half_widths(Products.of_queries(alone).sides)
            np.testing.assert_allclose(found, wanted, rtol=1e-9)
            looked_at += 1
    assert looked_at >= 10  # all pairs
    for opened_by in state.opening:
        axis = AxisNoise(opened_by.estimate, 0.999)
        asked = [sets(generator, opened_by.scope) for _ in range(9)]
        wanted = [axis.half_width(query.weights() / UNITS) for query in asked]
        (side,) = Products.of_queries(asked).sides
        np.testing.assert_allclose(axis.product_half_widths([side]), wanted, rtol=1e-9)
        one = SumNoise(opened_by.estimate, 0.95)  # of one sum, which is less than of all at once
        assert np.all(wanted >= np.array([one.half_width(query.weights() / UNITS) for query in asked]))
