"""People at the command line: open, check and plan with a column of ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from pmw.planning.opening import KEPT_FOR_PERSONS, PERSONS_SHARE
from tests.pmw.cli.commands import Run

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
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "t.toml").write_text(NAME + WARD)
    return tmp_path


def test_a_session_is_opened_on_people_by_options(folder: Path, run: Run) -> None:
    words = "one person: all records with one value of 'patient', of which at most 2 records are kept"
    assert words in run.told(*OPEN, "--person-column", "patient", "--records-per-person", "2")
    assert words in run.told("status", "s.pmw")
    told = run.told("ask", "s.pmw", "--sql", "SELECT COUNT(DISTINCT patient) FROM visits")
    assert "A person is counted where one of the kept records is." in told
    refused = run.refused("measure", "s.pmw", "--heads", "--by", "ward", "--share", "90%", code=1)
    assert "is left for it; nothing was spent" in refused
    assert "number of persons by ward (10 cells)" in run.told(
        "measure", "s.pmw", "--heads", "--by", "ward", "--dry-run"
    )
    for wrong in (("ward", "--heads"), ("--sum", "ward", "--heads"), ("--heads", "--within", "2"), ()):
        assert run("measure", "s.pmw", *wrong).exit_code == 2


def test_a_session_is_opened_on_people_by_the_schema(folder: Path, run: Run) -> None:
    (folder / "t.toml").write_text(NAME + PERSON + WARD)
    assert "at most 4 records are kept" in run.told(*OPEN)
    typed = ("--records-per-person", "4", "--person-column", "patient")
    assert "at most 4 records are kept" in run.told("open", "o.pmw", *OPEN[2:], *typed)
    for command in (OPEN, CHECK, PLAN):  # where the default is typed, too
        assert "give one number" in run(*command, "--records-per-person", "1").stderr


@pytest.mark.parametrize(
    ("person", "message"),
    [
        ("[person]\nrecords = 3\n", "[person] needs the key 'column'"),
        ("person = 3\n", "[person] needs the key 'column'"),
        ('[person]\ncolumn = "p"\nrecord = 3\n', "got 'record'; did you mean 'records'?"),
        ('[person]\ncolumn = "p"\nrecords = 0\n', "[person] records: expected a whole number from 1"),
        ('[person]\ncolumn = "ward"\n', "[person] column: expected a column that is no attribute"),
        ('[person]\ncolumn = "p"\nconstant = "ward"\n', "[person] constant must be a list"),
    ],
)
def test_a_schema_tells_where_its_person_is_wrong(folder: Path, run: Run, person: str, message: str) -> None:
    (folder / "t.toml").write_text(NAME + person + WARD)
    refused = run.refused(*PLAN)
    assert refused.startswith("Error: t.toml: ")
    assert message in refused


def test_a_check_tells_the_share_that_each_number_of_records_keeps(folder: Path, run: Run) -> None:
    told = run.told(*CHECK, "--person-column", "patient", "--records-per-person", "3")
    assert told.startswith(
        "t.csv: 27 records; a session keeps 7 and drops 20.\n"
        "People, by 'patient': 3, with up to 20 records each; 2 without an id that can be read, dropped.\n"
        "Records kept where at most K of each person are: 12.5% at K = 1, 20.8% at K = 2, 29.2% at K = 3 "
        "(chosen), 33.3% at K = 4, 50.0% at K = 8, 83.3% at K = 16.\n"
    )
    assert "ignored" not in told
    (folder / "t.toml").write_text(f'{NAME}[person]\ncolumn = "patient"\nempty = "person"\n{WARD}')
    facts = run.form(*CHECK)["people"]
    assert facts["kept"][0] == {"records_per_person": 1, "kept": 5}
    del facts["kept"]
    assert facts == {
        "column": "patient", "persons": 3, "most": 20, "without": 0, "own": 2, "limit": 1, "records": 26,
    }  # fmt: skip
    assert "2 records without an id, each a person of its own" in run.told(*CHECK)


def test_a_plan_tells_what_each_number_of_records_costs(folder: Path, run: Run) -> None:
    found = run.form(*PLAN, "--person-column", "patient", "--records-per-person", "3")
    people = {one["records"]: one for one in found["people"]}
    assert list(people) == [1, 2, 3, 4, 8, 16]
    for bound in ("everybody_bound", "cell_bound"):
        for limit, one in people.items():
            left = (
                1 if limit == 1 else 1 - float(PERSONS_SHARE + KEPT_FOR_PERSONS)
            )  # the rest is for numbers of people
            assert one[bound] == pytest.approx(limit * people[1][bound] / left, rel=0.02)
    assert "Bounds by records per person, K" in run.told(*PLAN, "--person-column", "patient")


def test_without_persons_nothing_is_said_of_them(folder: Path, run: Run) -> None:
    for command, words in ((CHECK, "People"), (PLAN, "by records per person")):
        assert words not in run.told(*command)
        assert "people" not in run.form(*command)
