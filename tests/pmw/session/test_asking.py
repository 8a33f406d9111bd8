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
from tests.worlds import PEOPLE, opened

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
    with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9) as made:
        yield made


def test_a_table_states_a_condition_in_each_row(session: pmw.Session) -> None:
    listed = session.ask_all(CONDITIONS)
    named = pd.DataFrame({"age": [3, 4, None, None], "sex": [None, "f", "m", None]})
    assert session.ask_all(named) == listed
    texts = pd.DataFrame({"where": ["age = 3", "age = 4 AND sex = 'f'", "sex = 'm'", ""]})
    assert session.ask_all(texts) == listed
    assert len(session.ask_all(texts.iloc[:0])) == 0
    assert session.state.asked == len(CONDITIONS)


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


def test_lists_tables_and_lines_that_cannot_be_asked_are_refused_and_nothing_is_asked(
    session: pmw.Session, tmp_path: Path
) -> None:
    path = tmp_path / "questions.jsonl"
    refused: tuple[tuple[Any, str], ...] = (
        (pd.DataFrame({"wage": [3]}), "'wage'"),
        (pd.DataFrame({"sex": ["x"]}), "'x'"),
        (pd.DataFrame({"where": ["age ="]}), "expected a condition such as .* near '='"),
        (pd.DataFrame({"where": [3]}), "where must be"),
        ('{"where": ""}\n{"where": "wage > 3"}', "line 2: "),
        ('{"where": ""}\n\n{no json', "line 3: expected JSON"),
        ('{"sql": "SELECT AVG(age) FROM people"}', "line 1: a workload holds counting questions"),
    )
    for asked, message in refused:
        if isinstance(asked, str):
            path.write_text(asked)
        with pytest.raises(QueryError, match=message):
            session.ask_all(path if isinstance(asked, str) else asked)
    for one in ("age = 3", CONDITIONS[0]):
        with pytest.raises(QueryError, match="expected several questions"):
            session.ask_all(one)  # type: ignore[arg-type, unused-ignore]
    with pytest.raises(FileNotFoundError):
        session.ask_all(tmp_path / "missing.jsonl")
    assert session.state.asked == 0


GRADED = Domain(
    (
        IntegerAttribute("age", 0, 19),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcd")),
        IntegerAttribute("wide", 0, 999),
    ),
    name="people",
)


def explained(**choices: Any) -> pmw.Session:
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": generator.integers(0, 20, 2000),
            "sex": generator.choice(["f", "m"], 2000),
            "grade": generator.choice(list("abcd"), 2000),
            "wide": generator.integers(0, 1000, 2000),
        }
    )
    return opened(frame, GRADED, epsilon=1, seed=1, **choices)


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


def test_what_is_held_is_told_as_it_changes_and_priced_by_the_account() -> None:
    where = parse_where("sex = 'f' AND grade = 'a'", GRADED)

    def held(session: pmw.Session) -> Holding:
        (one,) = session.explain(where).scopes
        return one.held

    with explained() as session:
        assert held(session) is Holding.PARTS
        poor = session.analyst("ann", share=1e-6)  # prices are those of the account
        quotes = [one.explain(where).scopes[0].quote for one in (session, poor)]
        assert [quote is not None and quote.affordable for quote in quotes] == [True, False]
        assert "not left" in poor.explain(where).to_text()
        assert poor.explain(where).forecast.most == 0
        session.measure(["sex", "grade"])
        assert held(session) is Holding.MEASURED
        assert session.explain("SELECT AVG(age) FROM people").scopes[0].held is Holding.OPENING
        with pytest.raises(QueryError):
            session.explain("DROP TABLE people")
    with explained(opening=pmw.Opening.NONE) as session:
        assert held(session) is Holding.NOTHING


GROUPED = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
MEANS = (
    "SELECT region, AVG(age) AS mean, COUNT(*) FROM people GROUP BY region HAVING COUNT(*) > 10 ORDER BY mean"
)


def standing(session: pmw.Session) -> tuple[Any, ...]:
    return session.state, session.bookings(), session.history(1000), session.status()


def test_what_is_stored_of_a_question_is_what_was_given_and_looking_changes_nothing() -> None:
    with PEOPLE.opened(epsilon=1) as session:
        for text in ("age >= 40 AND sex = 'Male'", ""):
            query, before = parse_where(text, PEOPLE.domain), standing(session)
            assert session.stored(query) is None
            assert standing(session) == before
            given, before = session.ask(query), standing(session)
            found = session.stored(query)
            assert isinstance(found, Answer)
            assert found.to_dict() == given.to_dict()
            assert session.analyst("bob", 0).stored(query) == found
            assert standing(session) == before
        session.ask("sex = 'Male'")  # of one statement, one count of two
        for text in (GROUPED, MEANS):
            statement, before = parse_sql(text, PEOPLE.domain), standing(session)
            assert session.stored(statement) is None
            assert standing(session) == before
            session.tabulate(statement)
            table, before = session.tabulate(statement), standing(session)
            stored = session.stored(statement)
            assert isinstance(stored, AnswerTable)
            assert stored.to_dict() == table.to_dict()
            assert standing(session) == before


REGIONS = Lookup(
    "regions",
    "region",
    {"north": {"side": "cold", "short": "N"}, "south": {"side": "warm"}, "east": {"side": "cold"}},
    key="code",
)
JOINED = replace(PEOPLE.domain, lookups=(REGIONS,))
SIDES = "SELECT r.side, COUNT(*) AS n FROM people p JOIN regions r ON p.region = r.code GROUP BY r.side"


def rows(asked: pmw.Session | pmw.PublicModel) -> Any:
    return asked.sql(SIDES).to_dict()["rows"]


def test_a_session_and_its_model_keep_the_lookups(tmp_path: Path, repeatable: None) -> None:
    with opened(PEOPLE.frame, JOINED, tmp_path / "study.pmw", epsilon=4) as session:
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
