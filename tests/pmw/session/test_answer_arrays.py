"""Questions about arrays of ranges, or sets of cells: each gets, durably, the answer that it gets alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.public.answer import Basis
from pmw.public.evidence import is_whole_table
from pmw.public.free_answers import FreeAnswers, ModelAnswers, together
from pmw.public.options import Opening, TestKind
from pmw.public.state import PublicState
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery, ScopeError
from queries.questions import Products, QuestionList
from queries.workloads import random_conjunctions
from tests import worlds

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 23),
        IntegerAttribute("hours", 0, 15),
        CategoricalAttribute("sex", ("f", "m"), missing=True),
        IntegerAttribute("income", 0, 9),
        IntegerAttribute("k", 0, 11),
    ),
    "people",
)
FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "pure": {"delta": 0},
    "pairs": {"opening": Opening.PAIRS},
    "questions": {"test": TestKind.QUERY},
    "simultaneous": {"simultaneous": True},
    "contract": {"accuracy": 0.05, "records": 3000, "epsilon": 8},
}


def people(records: int = 3000) -> pd.DataFrame:
    generator = np.random.default_rng(5)
    age = generator.integers(0, 24, records)
    hours = np.clip(age // 2 + generator.integers(0, 5, records), 0, 15)
    sex = np.where(generator.random(records) < 0.3 + age / 60, "f", "m")
    income = np.clip(age // 3 + generator.integers(0, 3, records), 0, 9)
    return pd.DataFrame({"age": age, "hours": hours, "sex": sex, "income": income, "k": age // 2})


def opened(path: Path | None = None, **choices: Any) -> pmw.Session:
    return worlds.opened(people(), DOMAIN, path, **{"epsilon": 1, **choices})


def ranges(names: Sequence[str], count: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    ends = [np.sort(generator.integers(0, DOMAIN[name].size, (count, 2)), axis=1) for name in names]
    return np.stack([end[:, 0] for end in ends], axis=1), np.stack([end[:, 1] for end in ends], axis=1)


@pytest.mark.parametrize("form", ["default", "pure", "questions", "simultaneous", "contract"])
def test_they_get_what_a_list_of_the_same_questions_gets(form: str) -> None:
    scopes = [("hours", "age"), ("sex", "income"), ("age",), ("age", "hours", "income")]
    with opened(seed=7, **FORMS[form]) as one, opened(seed=7, **FORMS[form]) as other:
        # New ones, others about the same attributes, and these again, once no more is spent.
        for number, names in itertools.product(range(3), scopes):
            first, last = ranges(names, 16, min(number, 1))
            boxes = Products.of_ranges(one.domain, names, first, last)
            given = one.ask_all([boxes.query(place) for place in range(len(boxes))])
            answers = other.answer_arrays(names, first, last)
            assert answers == given
            np.testing.assert_array_equal(answers.count, [answer.count for answer in given])
            assert one.ledger().lines == other.ledger().lines
            assert (one.state.asked, one.state.settled) == (other.state.asked, other.state.settled)
            if number == 1 and names == scopes[1]:
                one.finalize()
                other.finalize()
        assert one.verify().holds
        assert other.verify().holds
        asked = other.state.asked
        for wrong in (([0], [24]), ([0, 1], [3])):
            with pytest.raises(ScopeError):
                other.answer_arrays("age", *wrong)
        assert other.state.asked == asked


def test_a_table_that_was_measured_whole_answers_together() -> None:
    domain = Domain(DOMAIN.attributes[:2], "people")
    names = ("age", "hours")
    with pmw.open_session(people()[list(domain.names)], domain, epsilon=1, delta=1e-9) as session:
        assert is_whole_table(session.state.opening[0], session.state)
        first, last = ranges(names, 200)
        answers = session.answer_arrays(names, first, last)
        boxes = Products.of_ranges(domain, names, first, last)
        assert ModelAnswers(session.state).of_products(boxes) is not None
        given = session.ask_all([boxes.query(k) for k in range(200)], fresh=True)
        assert answers == given
        assert np.array_equal(answers.fraction, [one.fraction for one in given], equal_nan=True)


BINNED = Domain(
    (
        IntegerAttribute("age", 0, 99),
        IntegerAttribute("pay", 0, 149),
        CategoricalAttribute("town", tuple(range(90))),
        CategoricalAttribute("sex", ("f", "m")),
        IntegerAttribute("k", 0, 119),
        IntegerAttribute("z", 0, 79),
    ),
    "people",
)


def binned() -> pd.DataFrame:
    generator = np.random.default_rng(8)
    age = generator.integers(0, 100, 20_000)
    return pd.DataFrame(
        {
            "age": age,
            "pay": np.clip(generator.normal(age + 20, 20, age.size), 0, 149).astype(int),
            "town": np.minimum(generator.geometric(0.1, age.size), 89)[generator.permutation(age.size)],
            "sex": np.where(generator.random(age.size) < age / 150, "f", "m"),
            "k": (age * 2 + generator.integers(0, 9, age.size)) % 120,
            "z": generator.integers(0, 80, age.size),  # as tests find it
        }
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"epsilon": 4, "max_cells": 3000},  # some marginals are kept beside the model
        {"delta": 0, "beside": 40},  # what was tested bounds parts of others
        {"simultaneous": True},
        {"accuracy": 0.05, "records": 20_000},
    ],
)
def test_boxes_that_cut_bins_get_the_answer_that_each_gets_alone(options: dict[str, Any]) -> None:
    """Alone is what bounds one question; together is what many of a scope, as objects, are answered by."""
    generator, grouped = np.random.default_rng(2), 0
    chosen = {name: value for name, value in options.items() if name != "beside"}
    stream = list(random_conjunctions(BINNED, options.get("beside", 0), seed=1))
    with worlds.opened(binned(), BINNED, **{"epsilon": 1, **chosen}) as session:
        assert not session.state.coarsening.is_identity
        session.ask_all(stream)
        for requested in [("age", "pay"), ("age", "sex")] if options.get("epsilon") else []:
            session.measure(requested)
        pairs_of_names = list(itertools.combinations(BINNED.names, 2))[::2]
        for names in [*pairs_of_names, ("town",), ("age", "pay", "z"), ("age", "sex", "k")]:
            pairs = [np.sort(generator.integers(0, BINNED[name].size, (30, 2)), axis=1) for name in names]
            for pair in pairs:
                pair[:12, 1] = pair[:12, 0]
            boxes = Products.of_ranges(
                BINNED, names, *(np.stack([one[:, end] for one in pairs], 1) for end in (0, 1))
            )
            for some in (boxes.take(np.arange(12)), boxes):
                queries = [some.query(place) for place in range(len(some))]
                session.ask(queries[0])  # what is tested, is tested
                of = ModelAnswers(session.state)
                alone = [of.answer(query) for query in queries]
                assert str(list(of.answers(QuestionList(queries)))) == str(alone)
                assert list(of.answers(some)) == alone
                grouped += sum(1 for _ in together(of.bars, some, of.of_products, {}))
        kinds = {answer.kind.basis for answer in session.ask_all(queries) if answer.kind}
    assert grouped > 7
    assert Basis.BINS in kinds


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
def test_many_get_what_each_gets_alone(form: str) -> None:
    answers, asked = ModelAnswers(settled(**FORMS[form])), questions(1)
    alone = [answers.answer(query) for query in asked]
    assert str(list(answers.answers(QuestionList(asked)))) == str(alone)
    assert str(list(answers.answers(QuestionList(asked[5:12])))) == str(alone[5:12])


@pytest.mark.parametrize("form", ["pairs", "questions"])
def test_tested_ones_get_what_each_gets_alone(form: str) -> None:
    state, asked = settled(**FORMS[form], reserve=0), questions(1)
    plan, answers = state.query_plan, ModelAnswers(state)
    assert plan is not None
    units = np.array([round(state.model.answer(query) * UNITS) for query in asked])
    alone = [
        answers.certified(QuestionList(asked[place : place + 1]), units[place : place + 1], plan)[0]
        for place in range(len(asked))
    ]
    widths = {answer.interval[1] - answer.interval[0] for answer in alone if answer.interval}
    assert len(widths) > len(asked) // 2
    assert str(list(answers.certified(QuestionList(asked), units, plan))) == str(alone)


def test_what_was_bounded_in_one_state_bounds_nothing_in_the_next() -> None:
    free, asked = FreeAnswers(), questions(1)
    with opened(seed=1, opening=Opening.ONE_WAY) as session:
        states = [session.state]
        session.measure(("age", "sex"))
        states.append(session.state)
    for state in states:
        alone = [ModelAnswers(state).answer(query) for query in asked]
        for _ in range(2):
            assert str(list(free.of(state).answers(QuestionList(asked)))) == str(alone)
