"""Questions that cells cannot decide, asked of sessions: the interval holds the count of the raw table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.answer import Answer, Source
from pmw.public.evidence import opening_over
from pmw.public.free_answers import ModelAnswers
from pmw.public.options import TestKind
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
    parse_where,
)
from queries.parsing import require_aligned

RECORDS = 4000
DOMAIN = Domain(
    (
        NumericAttribute("capital-gain", (0, 1, 5000, 10_000, 100_000)),
        IntegerAttribute("age", 0, 79, 5),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcdefghijkl")),
        IntegerAttribute("hours", 0, 99),  # so that the whole table is not measured at opening
    )
)
Opened = Callable[..., pmw.Session]
MODES = [TestKind.MARGINAL, TestKind.QUERY]


def people(seed: int = 3) -> pd.DataFrame:
    """Return a table with nine exact zeros of ten, and a heap at a cell's last number."""
    generator = np.random.default_rng(seed)
    gain = generator.choice([1.0, 4999.0, 5000.0, 7688.0, 100_000.0], RECORDS)
    age = generator.choice([4, 20, 21, 34, 35, 60], RECORDS)
    return pd.DataFrame(
        {
            "capital-gain": np.where(generator.random(RECORDS) < 0.9, 0.0, gain),
            "age": age,
            "sex": np.where(generator.random(RECORDS) < 0.3 + 0.4 * (age > 30), "m", "f"),
            "grade": generator.choice(list("abcdefghijkl"), RECORDS),
            "hours": generator.integers(0, 100, RECORDS),
        }
    )


FRAME = people()
GAIN, AGE, SEX = FRAME["capital-gain"], FRAME["age"], FRAME["sex"]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return what opens a session, which is closed at the end."""
    with ExitStack() as stack:

        def open_(test: TestKind, seed: int = 1, **choices: Any) -> pmw.Session:
            options = pmw.Options(test=test, seed=seed, **choices)
            session = pmw.open_session(FRAME, DOMAIN, epsilon=1, delta=1e-9, options=options)
            return stack.enter_context(session)

        yield open_


def held(answer: Answer, truth: float) -> bool:
    assert answer.interval is not None
    return answer.interval[0] <= truth <= answer.interval[1]


@pytest.mark.parametrize("test", MODES)
def test_a_comparison_that_cells_decide_keeps_its_firm_bar(opened: Opened, test: TestKind) -> None:
    session = opened(test)
    for where, holds in (('"capital-gain" < 1', GAIN < 1), ('"capital-gain" >= 1', GAIN >= 1)):
        answer = session.ask(where)
        assert answer.aligned
        assert answer.interval is not None
        assert held(answer, int(holds.sum()))
        assert answer.interval[1] - answer.interval[0] < 600
    loose = session.ask('"capital-gain" > 0').interval
    assert loose is not None
    assert loose[1] - loose[0] > 3000  # the cell [0, 1) may hold anything


@pytest.mark.parametrize("test", MODES)
def test_groups_have_both_readings_of_their_own(opened: Opened, test: TestKind) -> None:
    session = opened(test)
    statement = 'SELECT sex, COUNT(*) FROM records WHERE "capital-gain" > 0 GROUP BY sex'
    table = session.sql(statement)
    for count, sex in zip(table.column("count"), ("f", "m"), strict=True):
        assert not count.aligned
        assert held(count, int(((GAIN > 0) & (sex == SEX)).sum()))
    by_gain = session.group_by(["capital-gain"], where='"capital-gain" > 0')
    assert [count.aligned for count in by_gain.column("count")] == [False, True, True, True]


def _one_comparison(generator: np.random.Generator) -> tuple[str, pd.Series[bool]]:
    """Return a comparison that cuts a cell where the whole table lies on one side of the cut."""
    name, column = ("capital-gain", GAIN) if generator.random() < 0.5 else ("age", AGE)
    values = [0, 1, 4999, 5000, 7688, 100_000] if name == "capital-gain" else [4, 21, 34, 60, 61]
    value = int(generator.choice(values))
    kind = str(generator.choice(["<", "<=", ">", ">=", "=", "<>"]))
    made = {
        "<": column < value, "<=": column <= value, ">": column > value,
        ">=": column >= value, "=": column == value, "<>": column != value,
    }  # fmt: skip
    return f'"{name}" {kind} {value}', made[kind]


def _questions(count: int, seed: int) -> list[tuple[LinearQuery, int]]:
    """Return random questions that cells cannot decide, with the raw table's counts."""
    generator = np.random.default_rng(seed)
    found: list[tuple[LinearQuery, int]] = []
    while len(found) < count:
        where, holds = _one_comparison(generator)
        other, also = _one_comparison(generator)
        form = generator.choice(["one", "and", "or", "not", "sex"])
        if form == "and":
            where, holds = f"{where} AND {other}", holds & also
        elif form == "or":
            where, holds = f"{where} OR {other}", holds | also
        elif form == "not":
            where, holds = f"NOT ({where} AND {other})", ~(holds & also)
        elif form == "sex":
            where, holds = f"{where} AND sex = 'm'", holds & (SEX == "m")
        try:
            query = parse_where(where, DOMAIN)
        except QueryError as error:
            assert error.code == "empty_range"  # noqa: PT017
            continue
        if not query.aligned:
            found.append((query, int(holds.sum())))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("test", "simultaneous"), [(TestKind.MARGINAL, False), (TestKind.MARGINAL, True), (TestKind.QUERY, False)]
)
def test_intervals_hold_the_raw_count_with_the_stated_confidence(
    opened: Opened, test: TestKind, simultaneous: bool
) -> None:
    questions = _questions(40, seed=8)
    found = []
    for seed in range(1, 6):
        session = opened(test, seed, confidence=0.8, simultaneous=simultaneous)
        for query, truth in questions:
            answer = session.ask(query)
            assert not answer.aligned
            if answer.interval is not None:
                assert held(answer, answer.count)
                found.append(held(answer, truth))
            session.ask(query, fresh=True)
        assert session.verify().holds
    for query, _ in questions:
        with pytest.raises(QueryError, match="the condition cuts cells") as caught:
            require_aligned(query)
        assert caught.value.code == "unaligned"
    assert len(found) >= 90
    assert np.mean(found) >= 0.8


@pytest.mark.parametrize("choices", [{"test": TestKind.QUERY}, {"reserve": 0}, {"simultaneous": True}])
def test_what_is_tested_or_measured_of_even_cells_narrows_nothing(
    opened: Opened, choices: dict[str, Any]
) -> None:
    state = opened(choices.pop("test", TestKind.MARGINAL), **choices).state
    plan, answers = state.query_plan, ModelAnswers(state)
    assert plan is not None
    query = parse_where("\"capital-gain\" > 0 AND sex = 'm' AND age >= 21 AND hours < 50", DOMAIN)
    count = round(state.model.answer(query))
    least = ModelAnswers(state).answer(query).interval
    assert least is not None
    for answer in (
        answers.certified(query, count * UNITS, plan, UNITS),
        answers.measured(query, count * UNITS, plan.noise),
    ):
        assert answer.count == count
        assert answer.interval is not None
        assert answer.interval == least
        assert answer.interval[0] == 0.0
    sexes = parse_where("\"capital-gain\" > 0 AND sex = 'm'", DOMAIN)  # its greater reading is covered
    high = answers.certified(sexes, 0, plan, UNITS).interval
    assert high is not None
    assert high[1] >= int((SEX == "m").sum()) - 200
    assert high[1] < 3000


def test_a_question_that_no_test_could_narrow_spends_nothing(opened: Opened) -> None:
    session = opened(TestKind.QUERY, threshold=1.0)
    query = parse_where("\"capital-gain\" > 0 AND sex = 'm' AND grade IN ('a', 'b')", DOMAIN)
    assert opening_over(session.state, query.scope) is None
    expected = ModelAnswers(session.state).answer(query)
    before = session.status()
    answer = session.ask(query)
    assert (answer.count, answer.interval, answer.source) == (
        expected.count, expected.interval, Source.UNVERIFIED,
    )  # fmt: skip
    assert session.state.version == 0
    assert not session.state.round_open
    assert session.status().budget_share == before.budget_share
    decided = session.ask("\"capital-gain\" >= 1 AND sex = 'm' AND age >= 20")
    assert decided.spent.share > answer.spent.share
    assert session.verify().holds
