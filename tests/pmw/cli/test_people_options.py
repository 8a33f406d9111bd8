"""People at the command line: open, check and plan with a column of ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
NAME = 'name = "visits"\n'
WARD = """\
[[attributes]]
name = "ward"
kind = "integer"
min = 0
max = 9
"""
PERSON = '[person]\ncolumn = "patient"\nrecords = 4\n'
IDS = ["a"] * 20 + ["b"] * 3 + ["c", "", ""]
TABLE = "patient,ward\n" + "".join(f"{one},{place % 10}\n" for place, one in enumerate(IDS)) + "a,none\n"
OPEN = ("open", "s.pmw", "--data", "t.csv", "--schema", "t.toml", "--epsilon", "1")
CHECK = ("check", "--data", "t.csv", "--schema", "t.toml")
PLAN = ("plan", "--schema", "t.toml", "--records", "1000", "--epsilon", "1", "--delta", "1e-9")


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "t.toml").write_text(NAME + WARD)
    return tmp_path


def test_a_session_is_opened_on_people_by_options(folder: Path, run: Run) -> None:
    opened = run(*OPEN, "--person-column", "patient", "--records-per-person", "2")
    assert opened.exit_code == 0, opened.output
    words = "one person: all records with one value of 'patient', of which at most 2 records are kept"
    assert words in opened.stdout
    assert words in run("status", "s.pmw").stdout
    refused = run("ask", "s.pmw", "--sql", "SELECT COUNT(DISTINCT patient) FROM visits")
    assert refused.exit_code == 4
    assert "up to 2 records of each person are kept" in refused.stderr


def test_a_session_is_opened_on_people_by_the_schema(folder: Path, run: Run) -> None:
    (folder / "t.toml").write_text(NAME + PERSON + WARD)
    assert "at most 4 records are kept" in run(*OPEN).stdout
    typed = run(*OPEN[:1], "o.pmw", *OPEN[2:], "--records-per-person", "4", "--person-column", "patient")
    assert "at most 4 records are kept" in typed.stdout
    for command in (OPEN, CHECK, PLAN):  # where the default is typed, too
        refused = run(*command, "--records-per-person", "1")
        assert (refused.exit_code, "give one number" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("person", "message"),
    [
        ("[person]\nrecords = 3\n", "[person] needs the key 'column'"),
        ("person = 3\n", "[person] needs the key 'column'"),
        ('[person]\ncolumn = "p"\nrecord = 3\n', "got 'record'; did you mean 'records'?"),
        ('[person]\ncolumn = "p"\nrecords = 0\n', "[person] records: expected a whole number from 1"),
        (
            '[person]\ncolumn = "p"\nids = "number"\n',
            "[person] ids: expected 'text' or 'integer', got 'number'",
        ),
        ('[person]\ncolumn = "p"\nempty = ""\n', "[person] empty: expected 'drop' or 'person', got ''"),
        ('[person]\ncolumn = "ward"\n', "[person] column: expected a column that is no attribute"),
        (
            '[person]\ncolumn = "p"\nconstant = ["sex"]\n',
            "[person] constant: expected names of attributes",
        ),
        ('[person]\ncolumn = "p"\nconstant = "ward"\n', "[person] constant must be a list"),
        ("[person]\ncolumn = 3\n", "[person] column: expected a printable name of a column, got a int"),
    ],
)
def test_a_schema_tells_where_its_person_is_wrong(folder: Path, run: Run, person: str, message: str) -> None:
    (folder / "t.toml").write_text(NAME + person + WARD)
    result = run(*CHECK)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: t.toml: ")
    assert message in result.stderr


def test_a_check_tells_the_share_that_each_number_of_records_keeps(folder: Path, run: Run) -> None:
    result = run(*CHECK, "--person-column", "patient", "--records-per-person", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "t.csv: 27 records; a session keeps 7 and drops 20.\n"
        "People, by 'patient': 3, with up to 20 records each; 2 without an id that can be read, dropped.\n"
        "Records kept where at most K of each person are: 12.5% at K = 1, 20.8% at K = 2, 29.2% at K = 3 "
        "(chosen), 33.3% at K = 4, 50.0% at K = 8, 83.3% at K = 16.\n"
    )
    assert "ignored" not in result.stdout
    own = '[person]\ncolumn = "patient"\nempty = "person"\n'
    (folder / "t.toml").write_text(NAME + own + WARD)
    facts = json.loads(run(*CHECK, "--json").stdout)["people"]
    assert facts["kept"][0] == {"records_per_person": 1, "kept": 5}
    del facts["kept"]
    assert facts == {
        "column": "patient", "persons": 3, "most": 20, "without": 0, "own": 2, "limit": 1, "records": 26,
    }  # fmt: skip
    assert "2 records without an id, each a person of its own" in run(*CHECK).stdout
    assert json.loads(run(*CHECK[:3], "--schema", "none.toml", "--json").stdout or "{}") == {}


def test_a_check_without_persons_says_nothing_of_them(folder: Path, run: Run) -> None:
    result = run(*CHECK)
    assert "People" not in result.stdout
    assert "people" not in json.loads(run(*CHECK, "--json").stdout)


def test_a_plan_tells_what_each_number_of_records_costs(folder: Path, run: Run) -> None:
    found = json.loads(run(*PLAN, "--person-column", "patient", "--records-per-person", "3", "--json").stdout)
    people = {one["records"]: one for one in found["people"]}
    assert list(people) == [1, 2, 3, 4, 8, 16]
    for bound in ("everybody_bound", "cell_bound"):
        for limit, one in people.items():
            assert one[bound] == pytest.approx(limit * people[1][bound], rel=0.02)
    text = run(*PLAN, "--person-column", "patient").stdout
    assert "Bounds by records per person, K" in text
    assert "by records per person" not in run(*PLAN).stdout
    assert "people" not in json.loads(run(*PLAN, "--json").stdout)
