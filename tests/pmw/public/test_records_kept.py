"""Which records numbers are about: every answer says so where a person's records are bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.cli.answer_formats import _answer_lines
from pmw.cli.texts import status_text, table_text
from pmw.service.limits import LargeRequests
from pmw.service.shown_answers import new_answer, read, shown
from pmw.session.asking import Asking
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person

WORDS = "of the records kept: at most 3 of each tailNum"
NOTE = "Of the records kept: at most 3 of each tailNum."
FORM = {"person": "tailNum", "at_most": 3}
GROUPED = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
STATEMENT = "SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex"


def opened(person: Person | None, path: Path | None = None) -> pmw.Session:
    domain = Domain(
        (IntegerAttribute("age", 0, 9), CategoricalAttribute("sex", ("F", "M"))), name="t", person=person
    )
    table = pd.DataFrame(
        {
            "tailNum": [f"p{n // 4}" for n in range(400)],
            "age": [n % 10 for n in range(400)],
            "sex": ["F", "M"] * 200,
        }
    )
    return pmw.open_session(table, domain, epsilon=1, path=path, options=pmw.Options(records_per_person=3))


PEOPLE = Person("tailNum", 3)


@pytest.fixture(params=["session", "model"])
def asking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asking]:
    with opened(PEOPLE) as session:
        if request.param == "session":
            yield session
        else:
            session.export(tmp_path / "t.model")
            yield pmw.load_model(tmp_path / "t.model")


def test_a_sentence_says_which_records_are_kept(asking: Asking) -> None:
    answer = asking.ask("sex = 'F'")
    assert f"confidence ({WORDS})" in answer.sentence()
    assert WORDS in answer._repr_html_()
    assert answer.to_dict()["records_kept"] == FORM
    (line,) = _answer_lines(asking.ask_all(["sex = 'F'"]))
    assert json.loads("{" + line) == answer.to_dict()


def test_a_stored_answer_says_it_too() -> None:
    with opened(PEOPLE) as session:
        assert session.ask("age >= 5") == session.ask("age >= 5")
        assert session.ask("age >= 5").kept is not None


@pytest.mark.parametrize("sql", [GROUPED, STATEMENT])
def test_a_table_says_it_once(asking: Asking, sql: str) -> None:
    table = asking.sql(sql)
    text = table_text(table)
    assert text.count(NOTE) == text.count("kept") == 1
    assert table._repr_html_().count(WORDS) == 1
    form = table.to_dict()
    assert form["records_kept"] == FORM
    assert json.dumps(form).count("records_kept") == 1
    assert table.to_pandas().attrs["records_kept"] == FORM


def test_arrays_say_it() -> None:
    with opened(PEOPLE) as session:
        answers = session.answer_arrays("age", [0, 3], [4, 9])
        assert [one.kept for one in answers.each()] == [session.state.contract.records_kept] * 2
        assert answers.to_pandas().attrs["records_kept"] == FORM


def test_status_report_and_page_say_it(tmp_path: Path) -> None:
    with opened(PEOPLE) as session:
        assert WORDS in status_text(session.contract, session.status())
        session.report(tmp_path / "report.html")
        report = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"Every number here is {WORDS}." in report.replace("\u2068", "").replace("\u2069", "")
        analyst = session.analyst("ann")
        large, count = LargeRequests(), read(analyst, "sex = 'F'")
        assert WORDS in shown(count, new_answer(analyst, large, count)).sentences[0]
        for statement in (read(analyst, sql) for sql in (GROUPED, STATEMENT)):
            assert NOTE in shown(statement, new_answer(analyst, large, statement)).notes


def test_nothing_is_said_where_the_number_is_declared_alone(tmp_path: Path) -> None:
    with opened(None) as session:
        session.report(tmp_path / "report.html")
        tables = [session.sql(GROUPED), session.sql(STATEMENT)]
        answer = session.ask("sex = 'F'")
        said = [answer.sentence(), answer._repr_html_(), json.dumps(answer.to_dict())]
        said += _answer_lines(session.ask_all(["sex = 'F'"]))
        for table in tables:
            said += [table.to_text(), table._repr_html_(), json.dumps(table.to_dict())]
            assert "records_kept" not in table.to_pandas().attrs
        said += [status_text(session.contract, session.status())]
        assert not any("kept" in text for text in said)
        assert "Every number here is" not in (tmp_path / "report.html").read_text(encoding="utf-8")
