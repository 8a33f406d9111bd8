"""Notes: which records numbers are about, and what tells rows apart."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.cli.answer_formats import _answer_lines
from pmw.cli.texts import status_text, table_text
from pmw.public.tables import AnswerTable
from pmw.service.shown_answers import read, shown
from pmw.session.asking import Asking
from queries import CategoricalAttribute, DateAttribute, Domain, IntegerAttribute, Person

# --- which records are kept ---------------------------------------------------------------------------------

WORDS = "of the records kept: at most 3 of each tailNum"
NOTE = "Of the records kept: at most 3 of each tailNum."
FORM = {"person": "tailNum", "at_most": 3}
STATEMENTS = (
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex",
)


def flights(person: Person | None) -> pmw.Session:
    """Open a session over 100 persons of 4 records."""
    attributes = (IntegerAttribute("age", 0, 9), CategoricalAttribute("sex", ("F", "M")))
    columns = {
        "tailNum": [f"p{n // 4}" for n in range(400)],
        "age": [*range(10)] * 40,
        "sex": ["F", "M"] * 200,
    }
    options = pmw.Options(records_per_person=3)
    domain = Domain(attributes, name="t", person=person)
    return pmw.open_session(pd.DataFrame(columns), domain, epsilon=1, options=options)


@pytest.mark.parametrize("kind", ["session", "model"])
def test_every_answer_and_table_says_once_which_records_are_kept(kind: str, tmp_path: Path) -> None:
    with flights(Person("tailNum", 3)) as session:
        session.export(tmp_path / "t.model")
        asking: Asking = session if kind == "session" else pmw.load_model(tmp_path / "t.model")
        for answer in (asking.ask("sex = 'F'"), asking.ask("sex = 'F'")):  # as it was stored, too
            assert f"confidence ({WORDS})" in answer.sentence()
            assert WORDS in answer._repr_html_()
            assert answer.to_dict()["records_kept"] == FORM
        (line,) = _answer_lines(asking.ask_all(["sex = 'F'"]))
        assert json.loads("{" + line) == asking.ask("sex = 'F'").to_dict()
        for table in map(asking.sql, STATEMENTS):
            assert table_text(table).count(NOTE) == table_text(table).count("kept") == 1
            assert table._repr_html_().count(WORDS) == 1
            assert json.dumps(table.to_dict()).count("records_kept") == 1
            assert table.to_dict()["records_kept"] == table.to_pandas().attrs["records_kept"] == FORM
        assert session.answer_arrays("age", [0, 3], [4, 9]).to_pandas().attrs["records_kept"] == FORM


def test_status_report_and_page_say_it(tmp_path: Path) -> None:
    with flights(Person("tailNum", 3)) as session:
        assert WORDS in status_text(session.contract, session.status())
        session.report(tmp_path / "report.html")
        report = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"Every number here is {WORDS}." in report.replace("\u2068", "").replace("\u2069", "")
        analyst = session.analyst("ann")
        condition = "sex = 'F'"
        assert WORDS in shown(read(analyst, condition), analyst.ask(condition)).sentences[0]
        for sql in STATEMENTS:
            assert NOTE in shown(read(analyst, sql), analyst.sql(sql)).notes


def test_nothing_is_said_where_the_number_is_declared_alone(tmp_path: Path) -> None:
    with flights(None) as session:
        session.report(tmp_path / "report.html")
        answer, said = session.ask("sex = 'F'"), [status_text(session.contract, session.status())]
        said += [answer.sentence(), answer._repr_html_(), json.dumps(answer.to_dict())]
        said += _answer_lines(session.ask_all(["sex = 'F'"]))
        for table in map(session.sql, STATEMENTS):
            said += [table.to_text(), table._repr_html_(), json.dumps(table.to_dict())]
            assert "records_kept" not in table.to_pandas().attrs
    assert not any("kept" in text for text in said)
    assert "Every number here is" not in (tmp_path / "report.html").read_text(encoding="utf-8")


# --- rows of bins -------------------------------------------------------------------------------------------

FIRST, DAYS = datetime.date(2025, 1, 1), 365
ORDERS = Domain(
    (
        DateAttribute("day", FIRST, FIRST + datetime.timedelta(DAYS - 1)),
        CategoricalAttribute("size", ("small", "large")),
        IntegerAttribute("hour", 9, 16),
        IntegerAttribute("till", 0, 19),
        CategoricalAttribute("kind", tuple("abcd")),
    ),
    name="orders",
)
WEEKDAYS = "SELECT DAYOFWEEK(day) AS weekday, COUNT(*) AS n FROM orders {} GROUP BY 1"
OF_BINS = (
    "of day these rows are known by {} bins of 365 values: those that share bins are told apart by how all"
)


def orders() -> pd.DataFrame:
    """Records of which Fridays have twice as many as other days, and large ones none on Fridays."""
    generator = np.random.default_rng(4)
    days = [FIRST + datetime.timedelta(number) for number in range(DAYS)]
    friday = np.array([day.weekday() == 4 for day in days])
    weights = np.where(friday, 2.0, 1.0)
    chosen = generator.choice(DAYS, 30_000, p=weights / weights.sum())
    size = np.where(~friday[chosen] & (generator.random(30_000) < 0.5), "large", "small")
    text = np.array([day.isoformat() for day in days])
    more = {"till": generator.integers(0, 20, 30_000), "kind": generator.choice(list("abcd"), 30_000)}
    hours = {"hour": generator.integers(9, 17, 30_000)}
    return pd.DataFrame({"day": text[chosen], "size": size, **hours, **more})


@pytest.fixture(scope="module")
def ordered() -> Iterator[pmw.Session]:
    with pmw.open_session(orders(), ORDERS, epsilon=2, delta=1e-9, options=pmw.Options(seed=2)) as one:
        yield one


def of_bins(table: AnswerTable) -> list[str]:
    return [note for note in table.notes if "bins" in note]


@pytest.mark.parametrize(
    ("statement", "are_told"),
    [
        (WEEKDAYS.format("WHERE size = 'large'"), True),
        ("SELECT DAYNAME(day), AVG(hour) FROM orders GROUP BY 1", True),
        ("SELECT day, COUNT(*) FROM orders WHERE hour < 12 GROUP BY day ORDER BY 2 DESC LIMIT 5", True),
        ("SELECT MONTH(day), COUNT(*) FROM orders WHERE size = 'large' GROUP BY 1", True),
        ("SELECT size, YEAR(day), COUNT(*) FROM orders GROUP BY ROLLUP (1, 2) HAVING COUNT(*) > 5", False),
        (WEEKDAYS.format(""), False),
        (WEEKDAYS.format("WHERE day < '2025-03-07'"), False),
        ("SELECT size, COUNT(*) FROM orders WHERE day < '2025-03-07' GROUP BY size", False),
    ],
)
def test_rows_that_share_bins_are_told_apart_by_how_all_records_are_spread(
    ordered: pmw.Session, statement: str, are_told: bool
) -> None:
    notes, bins = of_bins(ordered.sql(statement)), ordered.state.coarsening.bins[0]
    assert bins is not None
    assert len(notes) == are_told
    assert not are_told or notes[0].startswith(OF_BINS.format(bins.max() + 1))
