"""Asking: in lists, tables and files alike; what a question would ask; and what was answered before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.answer import Answer
from pmw.public.evidence import Holding
from pmw.public.tables import AnswerTable
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    Lookup,
    QueryError,
    parse_schema,
    parse_sql,
    parse_where,
)
from tests.worlds import PEOPLE

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 23),
        IntegerAttribute("k", 0, 11),
        CategoricalAttribute("sex", ("f", "m"), missing=True),
    ),
    "people",
)
CONDITIONS: list[dict[str, Any]] = [
    {"age": {"eq": 3}},
    {"age": {"eq": 4}, "sex": {"eq": "f"}},
    {"sex": {"eq": "m"}},
    {},
]


@pytest.fixture
def session() -> Iterator[pmw.Session]:
    age = np.random.default_rng(2).integers(0, 24, 3000)
    frame = pd.DataFrame({"age": age, "k": age // 2, "sex": np.where(age < 9, "f", "m")})
    with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9) as opened:
        yield opened


def test_a_table_states_a_condition_in_each_row(session: pmw.Session) -> None:
    listed = session.ask_all(CONDITIONS)
    named = pd.DataFrame({"age": [3, 4, None, None], "sex": [None, "f", "m", None]})
    assert session.ask_all(named) == listed
    texts = pd.DataFrame({"where": ["age = 3", "age = 4 AND sex = 'f'", "sex = 'm'", ""]})
    assert session.ask_all(texts) == listed
    assert len(session.ask_all(texts.iloc[:0])) == 0
    assert session.state.asked == len(CONDITIONS)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"wage": [3]}), "'wage'"),
        (pd.DataFrame({"sex": ["x"]}), "'x'"),
        (pd.DataFrame({"where": ["age ="]}), "expected a condition such as .* near '='"),
        (pd.DataFrame({"where": [3]}), "where must be"),
    ],
)
def test_a_table_that_asks_for_what_there_is_not_is_refused(
    session: pmw.Session, frame: pd.DataFrame, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        session.ask_all(frame)
    assert session.state.asked == 0


def test_a_file_has_a_question_on_each_line(session: pmw.Session, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    lines = [{"where": one} for one in CONDITIONS]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    assert session.ask_all(path) == session.ask_all(CONDITIONS)
    path.write_text(
        '{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}\n{"where": "", "request_id": "a"}\n'
    )
    grouped = session.ask_all(path)
    groups = session.ask_all(["sex = 'f'", "sex = 'm'", "sex IS NULL"])
    assert [answer.count for answer in grouped][:-1] == [answer.count for answer in groups]
    assert session.ask("", request_id="a") == grouped[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"where": ""}\n{"where": "wage > 3"}', "line 2: "),
        ('{"where": ""}\n\n{no json', "line 3: expected JSON"),
        ('{"sql": "SELECT AVG(age) FROM people"}', "line 1: a workload holds counting questions"),
    ],
)
def test_a_line_that_is_refused_is_named(
    session: pmw.Session, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(text)
    with pytest.raises(QueryError, match=message):
        session.ask_all(path)
    assert session.state.asked == 0
    with pytest.raises(FileNotFoundError):
        session.ask_all(tmp_path / "missing.jsonl")


def test_one_question_is_no_list(session: pmw.Session) -> None:
    for one in ("age = 3", CONDITIONS[0]):
        with pytest.raises(QueryError, match="expected several questions"):
            session.ask_all(one)  # type: ignore[arg-type, unused-ignore]


GRADED = Domain(
    (
        IntegerAttribute("age", 0, 19),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcd")),
        IntegerAttribute("wide", 0, 999),
    ),
    name="people",
)


def explained(**choices: object) -> pmw.Session:
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": generator.integers(0, 20, 2000),
            "sex": generator.choice(["f", "m"], 2000),
            "grade": generator.choice(list("abcd"), 2000),
            "wide": generator.integers(0, 1000, 2000),
        }
    )
    options = pmw.Options(seed=1, **{"opening": pmw.Opening.ONE_WAY, **choices})  # type: ignore[arg-type]
    return pmw.open_session(frame, GRADED, epsilon=1, delta=1e-9, options=options)


def test_every_count_of_a_statement_is_told_by_scope_and_costs_what_was_forecast() -> None:
    statement = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people WHERE grade <> 'a' GROUP BY sex"
    with explained() as session:
        before = session.state
        found = session.explain(statement)
        assert session.state is before
        assert [(one.scope, one.asked, one.left_out) for one in found.scopes] == [
            (("sex", "grade"), 2, 0),
            (("age", "sex", "grade"), 0, 2),
        ]
        assert found.scopes[0].examples == ("sex f and grade b to d", "sex m and grade b to d")
        assert found.forecast == session.forecast(parse_sql(statement, GRADED))
        spent = session.state.ledger.share
        session.sql(statement)
        assert session.state.ledger.share - spent <= found.forecast.most + 1e-12
        again = session.explain(statement)
        assert again.forecast.stored == again.forecast.questions == 2


def test_what_is_held_is_told_as_it_changes() -> None:
    where = parse_where("sex = 'f' AND grade = 'a'", GRADED)

    def held(session: pmw.Session) -> Holding:
        (one,) = session.explain(where).scopes
        return one.held

    with explained() as session:
        assert held(session) is Holding.PARTS
        session.measure(["sex", "grade"])
        assert held(session) is Holding.MEASURED
        assert session.explain("SELECT AVG(age) FROM people").scopes[0].held is Holding.OPENING
    with explained(opening=pmw.Opening.NONE) as session:
        assert held(session) is Holding.NOTHING


def test_prices_are_those_of_the_account() -> None:
    with explained() as session:
        poor = session.analyst("ann", share=1e-6)
        query = parse_where("sex = 'f' AND grade = 'a'", GRADED)
        quotes = [one.explain(query).scopes[0].quote for one in (session, poor)]
        assert [quote is not None and quote.affordable for quote in quotes] == [True, False]
        assert "not left" in poor.explain(query).to_text()
        assert poor.explain(query).forecast.most == 0
        with pytest.raises(QueryError):
            session.explain("DROP TABLE people")


KNOWN = PEOPLE.domain
GROUPED = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
MEANS = (
    "SELECT region, AVG(age) AS mean, COUNT(*) FROM people GROUP BY region HAVING COUNT(*) > 10 ORDER BY mean"
)


def remembering(path: Path | None = None) -> pmw.Session:
    return PEOPLE.opened(path, epsilon=1)


def standing(session: pmw.Session) -> tuple[Any, ...]:
    return session.state, session.bookings(), session.history(1000), session.status()


@pytest.mark.parametrize("text", ["age >= 40 AND sex = 'Male'", ""])
def test_a_count_is_what_was_given(text: str) -> None:
    with remembering() as session:
        query, before = parse_where(text, KNOWN), standing(session)
        assert session.stored(query) is None
        assert standing(session) == before
        given = session.ask(query)
        before = standing(session)
        found = session.stored(query)
        assert isinstance(found, Answer)
        assert found.to_dict() == given.to_dict()
        assert session.analyst("bob", 0).stored(query) == found
        assert standing(session) == before


@pytest.mark.parametrize("text", [GROUPED, MEANS])
def test_a_statement_has_the_table_that_was_given(text: str) -> None:
    with remembering() as session:
        statement, before = parse_sql(text, KNOWN), standing(session)
        assert session.stored(statement) is None
        assert standing(session) == before
        session.tabulate(statement)
        given = session.tabulate(statement)
        before = standing(session)
        found = session.stored(statement)
        assert isinstance(found, AnswerTable)
        assert found.to_dict() == given.to_dict()
        assert standing(session) == before


def test_a_statement_of_which_one_count_was_never_asked_has_no_stored_answer() -> None:
    with remembering() as session:
        session.ask("sex = 'Male'")
        assert session.stored(parse_sql(GROUPED, KNOWN)) is None


# --- lookups --------------------------------------------------------------------------------------------


REGIONS = Lookup(
    "regions",
    "region",
    {"north": {"side": "cold", "short": "N"}, "south": {"side": "warm"}, "east": {"side": "cold"}},
    key="code",
)
JOINED = replace(PEOPLE.domain, lookups=(REGIONS,))
SIDES = "SELECT r.side, COUNT(*) AS n FROM people p JOIN regions r ON p.region = r.code GROUP BY r.side"


def joined(folder: Path, domain: Domain = JOINED) -> pmw.Session:
    return pmw.open_session(PEOPLE.frame, domain, epsilon=4, delta=1e-9, path=folder / "study.pmw")


def rows(asked: pmw.Session | pmw.PublicModel, statement: str = SIDES) -> Any:
    return asked.sql(statement).to_dict()["rows"]


def test_a_session_and_its_model_keep_the_lookups(tmp_path: Path, repeatable: None) -> None:
    with joined(tmp_path) as session:
        found = rows(session)
        manifest = session.export(tmp_path / "study.json", format="measurements")
        session.export(tmp_path / "study.model")
    assert parse_schema(manifest["schema"]).lookups == (REGIONS,)
    with pmw.resume_session(tmp_path / "study.pmw") as again:
        assert again.domain.lookups == (REGIONS,)
        assert rows(again) == found
    model = pmw.load_model(tmp_path / "study.model")
    assert model.domain.lookups == (REGIONS,)
    assert rows(model) == found
