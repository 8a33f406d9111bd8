"""Stored answers and lookups: the same numbers again, without a schema and for nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.public.answer import Answer
from pmw.public.tables import AnswerTable
from queries import Domain, Lookup, parse_schema, parse_sql, parse_where
from tests.worlds import PEOPLE

DOMAIN = PEOPLE.domain
GROUPED = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
MEANS = (
    "SELECT region, AVG(age) AS mean, COUNT(*) FROM people GROUP BY region HAVING COUNT(*) > 10 ORDER BY mean"
)


def opened(path: Path | None = None) -> pmw.Session:
    return PEOPLE.opened(path, epsilon=1)


def standing(session: pmw.Session) -> tuple[Any, ...]:
    return session.state, session.bookings(), session.history(1000), session.status()


@pytest.mark.parametrize("text", ["age >= 40 AND sex = 'Male'", ""])
def test_a_count_is_what_was_given(text: str) -> None:
    with opened() as session:
        query, before = parse_where(text, DOMAIN), standing(session)
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
    with opened() as session:
        statement, before = parse_sql(text, DOMAIN), standing(session)
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
    with opened() as session:
        session.ask("sex = 'Male'")
        assert session.stored(parse_sql(GROUPED, DOMAIN)) is None


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
