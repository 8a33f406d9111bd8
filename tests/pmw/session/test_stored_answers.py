"""Looking up a stored answer: the same numbers as were given, and nothing is asked, recorded or spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.public.answer import Answer
from pmw.public.tables import AnswerTable
from queries import parse_sql, parse_where
from tests.worlds import PEOPLE

DOMAIN = PEOPLE.domain
GROUPED = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
MEANS = (
    "SELECT region, AVG(age) AS mean, COUNT(*) FROM people GROUP BY region HAVING COUNT(*) > 10 ORDER BY mean"
)


def opened(path: Path | None = None) -> pmw.Session:
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)
    return pmw.open_session(PEOPLE.frame, DOMAIN, epsilon=1, delta=1e-9, path=path, options=options)


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


def test_what_was_stored_is_found_after_resuming(tmp_path: Path) -> None:
    query = parse_where("age >= 40", DOMAIN)
    with opened(tmp_path / "a.pmw") as session:
        given = session.ask(query).to_dict()
    with pmw.resume_session(tmp_path / "a.pmw", data=PEOPLE.frame) as session:
        found = session.stored(query)
        assert isinstance(found, Answer)
        assert found.to_dict() == given
