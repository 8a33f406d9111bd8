"""``pmw open``: what is told beside the session's status, and a domain of more cells than an array holds."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pmw import Options
from pmw.planning.opening import KEPT_FOR_PERSONS, PERSONS_SHARE
from pmw.session.maintenance import read_session
from queries import Domain, IntegerAttribute, Person, save_schema
from tests.pmw.cli.commands import OPEN, TABLE, Run
from tests.pmw.session.test_priors import DOMAIN as ROOMS
from tests.pmw.session.test_priors import people as rooms
from tests.worlds import YEARS


def test_sech2_without_a_delta_is_told_of_what_is_narrower(people: Path, run: Run) -> None:
    budget = (*TABLE, "--test", "query", "--epsilon", "1")
    told = run("open", "a.pmw", *budget, "--sparse-vector", "sech2").stderr
    assert told.startswith("Note: without a delta, exponential noise is narrower: its tests err within ")
    assert told.count("\n") == 1
    assert run("open", "b.pmw", *budget, "--sparse-vector", "sech2", "--delta", "1e-9").stderr == ""
    assert run("open", "c.pmw", *budget).stderr == ""


def test_the_preset_opens_the_loop_of_the_lecture(people: Path, run: Run) -> None:
    preset = ("--preset", "textbook", "--update-limit", "12", "--sides", "two-sided")
    run.told(*OPEN, "--delta", "1e-9", *preset)
    options = read_session(people / "study.pmw")[0].contract.options
    assert options.reserve == 0
    assert replace(options, composition=None, reserve=None) == Options.textbook(update_limit=12)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("--data", "my people.csv", "--delimiter", ";", "--trim", "--missing-text", "?"),
            "pmw draft --data 'my people.csv' --delimiter ';' --missing-text '?' --trim > 'my people.toml'",
        ),
        (("--data", "parts/*.parquet"), "pmw draft --data 'parts/*.parquet' > schema.toml"),
        (("--data", "duckdb:a.db"), "pmw draft --data duckdb:a.db --table TABLE > TABLE.toml"),
    ],
)
def test_without_a_schema_the_error_has_the_command_that_drafts_one(
    run: Run, tmp_path: Path, given: tuple[str, ...], told: str
) -> None:
    for command in (("open", "new.pmw", "--epsilon", "1"), ("check",)):
        error = run.refused(*command, *given, code=2).splitlines()[-1]
        assert error == f"Error: Missing option '--schema'. Draft one to fill in: {told}"
    assert list(tmp_path.iterdir()) == []


def test_an_address_with_a_password_is_not_shown_again(run: Run) -> None:
    address = "postgresql://ann:s3cret@host/d"
    told = run.refused("open", "new.pmw", "--data", address, "--epsilon", "1", code=2)
    assert "expected an address without a password" in told
    assert "s3cret" not in told


# --- more cells than an array can hold ---------------------------------------------------------------------


WIDE = ("open", "wide.pmw", "--data", "table.csv", "--schema", "wide.toml", "--epsilon", "1")


@pytest.mark.parametrize("choice", [(), ("--test", "query"), ("--model", "dense")])
def test_more_cells_than_an_array_holds_are_refused_to_a_dense_model_and_else_opened_without_one(
    tmp_path: Path, run: Run, choice: tuple[str, ...]
) -> None:
    save_schema(
        Domain((IntegerAttribute("a", 0, 24_928), IntegerAttribute("b", 0, 672))), tmp_path / "wide.toml"
    )
    (tmp_path / "table.csv").write_text("a,b\n1,2\n" * 200)
    run(*WIDE, "--epsilon", "0", *choice)  # what is imported late is allocated now
    tracemalloc.start()
    result = run(*WIDE, *choice)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**8  # an array would take 134 MB
    if choice:
        assert result.stderr == (
            "Error: the domain has 16,777,217 cells; a dense model holds at most 16,777,216: "
            "test whole marginals on a graphical one, or declare fewer attributes or wider cells\n"
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "wide.toml"]
    else:
        assert run.form("ask", "wide.pmw", "a <= 1 AND b <= 500", "--at-most", "100%")["count"] >= 0


# --- A delta that nobody gave: where it decides which pairs are held, that is said before anything is dra ---


PLAN = ("plan", "--schema", "people.toml", "--records", "3000", "--epsilon", "1")
NOTE = (
    "Note: no --delta was given, so it is 0. Opening measures none of the 6 pairs of attributes, and an "
    "export does not have how two attributes go together. With --delta 1e-09 it measures 6, and a count by "
    "one attribute is within ± "
)
QUESTION = "Open with --delta 1e-09? [y/n]: "


@pytest.fixture
def years(people: Path) -> Path:
    """Write a schema under which a table is too large to be measured whole, and return the folder."""
    save_schema(YEARS.domain, people / "people.toml")
    return people


def held(path: Path) -> tuple[int, float]:
    """Return how many pairs a session holds, and its delta."""
    state, status = read_session(path)
    return status.pairs_held, float(state.contract.budget.delta)


def test_opening_without_a_delta_says_in_one_line_what_is_lost_whatever_the_table_holds(
    years: Path, run: Run
) -> None:
    result = run(*OPEN)
    assert result.exit_code == 0
    assert result.stderr.startswith(NOTE)
    assert result.stderr.count("\n") == 1
    near, _, far = result.stderr.removeprefix(NOTE).partition(" records instead of ± ")
    for bound, delta in ((near, "1e-9"), (far.partition(".")[0], "0")):
        assert bound == f"{run.form(*PLAN, '--delta', delta)['orders'][1]['bound']:,.0f}"
    assert held(years / "study.pmw") == (0, 0)
    assert "\nNone of the 6 pairs of attributes is held: do not rely on an export " in result.stdout
    frame = pd.read_csv(years / "people.csv")
    frame.assign(age=30, sex="Male").to_csv(years / "people.csv", index=False)
    other = run("open", "other.pmw", *OPEN[2:], "--json")
    assert other.stderr == result.stderr  # as much is said beside JSON
    assert json.loads(other.stdout)["pairs_held"] == 0
    (years / "people.csv").unlink()
    assert run("open", "gone.pmw", *OPEN[2:]).stderr.startswith(result.stderr)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_a_delta_that_was_given_is_taken_silently(years: Path, run: Run, delta: str) -> None:
    result = run(*OPEN, "--delta", delta)
    assert (result.exit_code, result.stderr) == (0, "")
    assert held(years / "study.pmw") == ((6, 1e-9) if delta == "1e-9" else (0, 0))
    assert run(*PLAN, "--delta", delta).stderr == ""


def test_nothing_is_said_where_a_delta_buys_no_pair(years: Path, run: Run) -> None:
    contract = ("--accuracy", "0.2", "--records", "3000")
    for options in (("--opening", "one-way"), ("--preset", "textbook"), contract):
        assert "Note: no --delta" not in run("open", f"{options[0]}.pmw", *OPEN[2:], *options).stderr
    assert run(*PLAN, "--opening", "one-way").stderr == ""


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "found"), [("n\n", (0, 0)), ("\nyes\n", (6, 1e-9))])
def test_a_terminal_is_asked_with_both_sides_and_has_no_usual_answer(
    years: Path, run: Run, answer: str, found: tuple[int, float]
) -> None:
    result = run(*OPEN, stdin=answer)
    assert result.exit_code == 0
    assert held(years / "study.pmw") == found
    lines = result.stderr.splitlines()
    assert lines[1].split() == ["delta", "=", "0", "delta", "=", "1e-09"]
    near = {line[:40].strip(): line[40:].split() for line in lines[2:6]}
    one, two = (near[f"a count by {number}, within ±"] for number in ("one attribute", "two attributes"))
    assert float(one[0]) > 2 * float(one[1])
    assert two[:-1] == ["only", "if", "tested"]
    assert near["pairs of attributes that an export has"] == ["0", "of", "6", "6", "of", "6"]
    assert near["a 50% guess about one person can become"] == ["73.2%", "73.2%"]
    assert QUESTION in result.stderr
    assert "Note: no --delta" not in result.stderr


@pytest.mark.usefixtures("terminal")
def test_nothing_is_drawn_before_the_answer_and_nothing_asked_by_a_plan_or_where_a_session_is_there(
    years: Path, run: Run
) -> None:
    result = run(*OPEN, stdin="\n")
    assert result.exit_code == 1
    assert "Aborted!" in result.stderr
    assert sorted(path.name for path in years.iterdir()) == ["people.csv", "people.toml"]
    planned = run(*PLAN)
    assert planned.exit_code == 0
    assert planned.stderr.startswith(NOTE)
    assert planned.stderr.count("\n") == 1
    assert planned.stdout == run(*PLAN, "--delta", "0").stdout
    run.told(*OPEN, "--delta", "0")
    told = run.refused(*OPEN)
    assert told == "Error: study.pmw exists; choose another name, or go on with the session that it holds\n"


def test_an_export_says_which_pairs_it_has_and_what_holds_one_more_as_long_as_something_does(
    years: Path, run: Run
) -> None:
    run.told(*OPEN, "--delta", "0")
    export = ("export", "study.pmw", "--output", "rows.csv", "--force")
    told = run.told(*export).splitlines()
    assert told[1].startswith("None of the 6 pairs of attributes is held: do not rely on an export for how ")
    price, _, command = told[2].partition(": pmw ")
    assert price.startswith("To hold one more, for ")
    assert price.endswith("% of the budget")
    run.told(*command.split(), "--at-most", "100%")
    told = run.told(*export).splitlines()
    assert told[1].startswith("1 of 6 pairs of attributes is held: do not rely on an export for ")
    assert json.loads((years / "rows.csv.manifest.json").read_text())["pairs"]["held"] == 1
    assert "\npairs held             1 of 6\n" in run.told("status", "study.pmw")
    run.told("export", "study.pmw", "--output", "study.model")
    run.told("close", "study.pmw", "--yes")
    for name in ("study.pmw", "study.model"):
        again = run.told("export", name, "--output", "rows.csv", "--force")
        assert again.splitlines()[1] == told[1]
        assert "To hold one more" not in again


# --- What is public, and told at opening: a prior, and expected questions -----------------------------------


PAIRS = ("--epsilon", "1", "--delta", "1e-9", "--opening", "pairs")
PUBLIC = ("--prior", "public.csv", "--prior-is-public")
PLAN_EXPECTED = ("plan", "--schema", "people.toml", "--records", "3000", *PAIRS)
ASKED = """-- the board's dashboard
age >= 40 AND sex = 'm'
SELECT COUNT(*) FROM records WHERE rooms > 3 GROUP BY job
{"where": "age >= 40 AND sex = 'm'"}
"""


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a table, its schema, a public table and a file of questions."""
    monkeypatch.chdir(tmp_path)
    save_schema(ROOMS, tmp_path / "people.toml")
    rooms(1).to_csv("people.csv", index=False)
    rooms(2, 6000).to_csv("public.csv", index=False)
    Path("asked.txt").write_text(ASKED)
    return tmp_path


def test_expected_questions_are_told_at_opening_in_a_plan_and_in_manifests(public: Path, run: Run) -> None:
    given = ("--expect", "asked.txt")
    told = run.told("open", "study.pmw", *TABLE, *PAIRS, *given).splitlines()
    run.told("export", "study.pmw", "--output", "rows.csv")
    found = json.loads((public / "rows.csv.manifest.json").read_text())["expected"]
    assert (found["questions"], found["sets"]) == (7, 2)
    line = f"Expected questions: 7 about 2 sets of attributes (SHA-256 {found['sha256'][:16]}…)."
    assert [one for one in told if one.startswith("Expected")] == [line]
    planned = run.form(*PLAN_EXPECTED, *given)["expected"]
    assert planned["bound"] < 0.8 * planned["usual_bound"]
    line = (
        "Expected: 7 questions about 2 sets of attributes; their typical bar is "
        f"± {planned['bound']:,.0f} records, ± {planned['usual_bound']:,.0f} without --expect."
    )
    assert line in run.told(*PLAN_EXPECTED, *given).splitlines()
    assert "expected" not in run.form(*PLAN_EXPECTED)
    assert "Expected: " not in run.told(*PLAN_EXPECTED)


def test_all_faults_of_a_file_are_told_and_nothing_is_opened(
    public: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("wrong.txt").write_text("ages > 3\nsex = 'f'\njob = 'a' AND\n")
    before, opening = sorted(public.iterdir()), ("open", "study.pmw", *TABLE, *PAIRS)
    for command in (PLAN_EXPECTED, opening):
        told = run.refused(*command, "--expect", "wrong.txt", code=4)
        assert "line 1: unknown attribute 'ages'" in told
        assert "line 3: expected a condition" in told
        assert "line 2" not in told

    def unreadable(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    told = run.refused(*opening, "--expect", "asked.txt")
    assert "asked.txt: the file cannot be read: Permission denied" in told
    assert sorted(public.iterdir()) == before


# --- ``pmw open --prior``: a model, or a table that is declared public --------------------------------------


def test_a_public_table_is_told_of_at_opening_in_the_status_and_in_manifests(public: Path, run: Run) -> None:
    told = run.told("open", "study.pmw", *TABLE, *PAIRS, *PUBLIC)
    (line,) = [one for one in told.splitlines() if one.startswith("Prior: ")]
    status = run.form("status", "study.pmw")
    digest = status["prior"]
    assert status["prior_used"] is True
    assert line == f"Prior: used: the measured pairs are near it (SHA-256 {digest[:16]}…)."
    assert "public prior" in run.told("status", "study.pmw")
    run.told("export", "study.pmw", "--output", "rows.csv")
    manifest = json.loads((public / "rows.csv.manifest.json").read_text())
    assert manifest["prior"] == {"sha256": digest, "used": True}


NO_PRIORS: list[tuple[tuple[str, ...], int, str]] = [
    (("--prior", "public.csv"), 2, "add --prior-is-public if nobody in it needs protection"),
    (("--prior-is-public",), 2, "name that, too"),
    (("--prior", "none.csv"), 2, "does not exist"),
    (("--prior", "."), 2, "is a directory"),
    (("--prior", "last.model", "--prior-is-public"), 2, "leave --prior-is-public out"),
    (("--prior", "cut.model"), 5, "damaged"),
    (("--prior", "last.pmw"), 5, "this is a session, not a model"),
    (("--prior", "empty.csv", "--prior-is-public"), 1, "records that the schema keeps, got none"),
    (("--prior", "other.csv", "--prior-is-public"), 1, "expected one column 'age'"),
    ((*PUBLIC, "--opening", "one-way"), 1, "this session measures none"),
]


def test_an_exported_model_is_a_prior_and_what_is_none_is_refused_before_anything_is_made(
    public: Path, run: Run
) -> None:
    run.told("open", "last.pmw", *TABLE, *PAIRS)
    assert "prior" not in run.form("status", "last.pmw")
    run.told("export", "last.pmw", "--output", "last.model", "--format", "model")
    (public / "cut.model").write_bytes((public / "last.model").read_bytes()[:-40])
    (public / "empty.csv").write_text((public / "people.csv").read_text().splitlines()[0] + "\n")
    (public / "other.csv").write_text("height\n3\n")
    for given, code, told in NO_PRIORS:
        error = run.refused("open", "study.pmw", *TABLE, *PAIRS, *given, code=code)
        assert told in error.splitlines()[-1], given
        assert not list(public.glob("study.pmw*"))
    run.told("open", "study.pmw", *TABLE, *PAIRS, "--prior", "last.model")  # which needs no declaration
    assert len(run.form("status", "study.pmw")["prior"]) == 64


# --- People: a column of ids --------------------------------------------------------------------------------


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
VISITS = "patient,ward\n" + "".join(f"{one},{place % 10}\n" for place, one in enumerate(IDS)) + "a,none\n"
OPEN_VISITS = ("open", "s.pmw", "--data", "t.csv", "--schema", "t.toml", "--epsilon", "1")
CHECK_VISITS = ("check", "--data", "t.csv", "--schema", "t.toml")
PLAN_VISITS = ("plan", "--schema", "t.toml", "--records", "1000", "--epsilon", "1", "--delta", "1e-9")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(VISITS)
    (tmp_path / "t.toml").write_text(NAME + WARD)
    return tmp_path


def test_a_session_is_opened_on_people_by_options_or_by_the_schema(visits: Path, run: Run) -> None:
    words = "one person: all records with one value of 'patient', of which at most 2 records are kept"
    assert words in run.told(*OPEN_VISITS, "--person-column", "patient", "--records-per-person", "2")
    assert words in run.told("status", "s.pmw")
    told = run.told("ask", "s.pmw", "--sql", "SELECT COUNT(DISTINCT patient) FROM visits")
    assert "A person is counted where one of the kept records is." in told
    heads = ("measure", "s.pmw", "--heads", "--by", "ward")
    assert "is left for it; nothing was spent" in run.refused(*heads, "--share", "90%", code=1)
    assert "number of persons by ward (10 cells)" in run.told(*heads, "--dry-run")
    for wrong in (("ward", "--heads"), ("--sum", "ward", "--heads"), ("--heads", "--within", "2")):
        assert run("measure", "s.pmw", *wrong).exit_code == 2
    (visits / "t.toml").write_text(NAME + PERSON + WARD)
    typed = ("--records-per-person", "4", "--person-column", "patient")
    for name, more in (("o.pmw", ()), ("p.pmw", typed)):
        assert "at most 4 records are kept" in run.told("open", name, *OPEN_VISITS[2:], *more)
    clip = ("--person-clip", "ward=12")
    run.told("open", "c.pmw", *OPEN_VISITS[2:], *typed, *clip)
    person = read_session(visits / "c.pmw")[0].domain.person
    assert person == Person("patient", records=4, clips=(("ward", 12.0),))
    wrong_clip = run.refused("open", "d.pmw", *OPEN_VISITS[2:], *typed, clip[0], "ward", code=2)
    assert "expected ATTRIBUTE=C such as amount=10000, got 'ward'" in wrong_clip
    for command in (OPEN_VISITS, CHECK_VISITS, PLAN_VISITS):  # where the default is typed, too
        assert "give one number" in run(*command, "--records-per-person", "1").stderr


WRONG_PERSONS = {
    "person = 3\n": "[person] needs the key 'column'",
    '[person]\ncolumn = "p"\nrecord = 3\n': "got 'record'; did you mean 'records'?",
    '[person]\ncolumn = "p"\nrecords = 0\n': "[person] records: expected a whole number from 1",
    '[person]\ncolumn = "ward"\n': "[person] column: expected a column that is no attribute",
    '[person]\ncolumn = "p"\nconstant = "ward"\n': "[person] constant must be a list",
}


def test_a_schema_tells_where_its_person_is_wrong(visits: Path, run: Run) -> None:
    for person, message in WRONG_PERSONS.items():
        (visits / "t.toml").write_text(NAME + person + WARD)
        refused = run.refused(*PLAN_VISITS)
        assert refused.startswith("Error: t.toml: ")
        assert message in refused


def test_a_check_tells_the_share_that_each_number_of_records_keeps(visits: Path, run: Run) -> None:
    told = run.told(*CHECK_VISITS, "--person-column", "patient", "--records-per-person", "3")
    assert told.startswith(
        "t.csv: 27 records; a session keeps 7 and drops 20.\n"
        "People, by 'patient': 3, with up to 20 records each; 2 without an id that can be read, dropped.\n"
        "Records kept where at most K of each person are: 12.5% at K = 1, 20.8% at K = 2, 29.2% at K = 3 "
        "(chosen), 33.3% at K = 4, 50.0% at K = 8, 83.3% at K = 16.\n"
    )
    assert "ignored" not in told
    (visits / "t.toml").write_text(f'{NAME}[person]\ncolumn = "patient"\nempty = "person"\n{WARD}')
    facts = run.form(*CHECK_VISITS)["people"]
    assert facts["kept"][0] == {"records_per_person": 1, "kept": 5}
    del facts["kept"]
    assert facts == {
        "column": "patient", "persons": 3, "most": 20, "without": 0, "own": 2, "limit": 1, "records": 26,
    }  # fmt: skip
    assert "2 records without an id, each a person of its own" in run.told(*CHECK_VISITS)


def test_a_plan_tells_what_each_number_of_records_costs(visits: Path, run: Run) -> None:
    found = run.form(*PLAN_VISITS, "--person-column", "patient", "--records-per-person", "3")
    people = {one["records"]: one for one in found["people"]}
    assert list(people) == [1, 2, 3, 4, 8, 16]
    for bound in ("everybody_bound", "cell_bound"):
        for limit, one in people.items():
            left = 1 if limit == 1 else 1 - float(PERSONS_SHARE + KEPT_FOR_PERSONS)  # the rest is for persons
            assert one[bound] == pytest.approx(limit * people[1][bound] / left, rel=0.02)
    assert "Bounds by records per person, K" in run.told(*PLAN_VISITS, "--person-column", "patient")
    for command, words in ((CHECK_VISITS, "People"), (PLAN_VISITS, "by records per person")):
        assert words not in run.told(*command)
        assert "people" not in run.form(*command)


# --- How a CSV file is written: told once, in the schema, and kept by exports -------------------------------


CSV_LINES = "".join(
    f"{place % 40:03};{place % 37 // 4},25;1{place % 9}.0{place % 8 + 1}.2023;{('Köln', 'NA')[place % 2]}\n"
    for place in range(400)
)
TYPED = ("--delimiter", ";", "--decimal", ",", "--encoding", "latin-1", "--missing-text", "NA")
FILE = """\
[file]
delimiter = ";"
missing_text = ["NA"]
encoding = "iso8859-1"
decimal = ","

"""
CSV_DOMAIN = """\
[[attributes]]
name = "amount"
kind = "numeric"
edges = [0, 2.5, 5, 10]

[[attributes]]
name = "day"
kind = "date"
min = 2023-01-01
max = 2023-12-31
width = "month"
format = "%d.%m.%Y"

[[attributes]]
name = "town"
kind = "categorical"
values = ["Köln"]
missing = true
"""
CHECK_CSV = ("check", "--data", "table.csv", "--schema", "table.toml")
OPEN_CSV = ("open", "study.pmw", *CHECK_CSV[1:], "--epsilon", "2", "--delta", "1e-9")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(f"code;amount;day;town\n{CSV_LINES}", encoding="latin-1")
    (tmp_path / "table.toml").write_text(FILE + CSV_DOMAIN, encoding="utf-8")
    return tmp_path


def test_a_draft_tells_how_the_file_is_written_as_it_was_told(table: Path, run: Run) -> None:
    draft = run.told("draft", "--data", "table.csv", "--look", *TYPED)
    assert f'name = "records"\n\n{FILE}[[attributes]]\n' in draft
    assert 'name = "code"\n# Its texts: codes of digits.' in draft


def test_what_the_schema_tells_is_read_and_what_is_typed_goes_first(table: Path, run: Run) -> None:
    by_schema = run.told(*CHECK_CSV, "--json")
    assert json.loads(by_schema)["kept"] == 400
    assert "a session would refuse this table" in run(*CHECK_CSV, "--delimiter", "|").output
    (table / "table.toml").write_text(FILE.replace(";", "|") + CSV_DOMAIN, encoding="utf-8")
    assert "a session would refuse this table" in run(*CHECK_CSV).output
    assert run.told(*CHECK_CSV, "--delimiter", ";", "--json") == by_schema
    (table / "table.toml").write_text(CSV_DOMAIN, encoding="utf-8")
    assert run.told(*CHECK_CSV, *TYPED, "--json") == by_schema
    (table / "table.toml").write_text(FILE.replace('";"', '";;"') + CSV_DOMAIN, encoding="utf-8")
    told = "table.toml: [file]: expected one ASCII character for delimiter, got ';;'"
    assert told in run.refused(*CHECK_CSV)  # no wrong usage, for nothing was typed
    assert run.told(*CHECK_CSV, "--delimiter", ";", "--json") == by_schema


def test_exports_are_written_as_their_table_and_read_by_its_schema(table: Path, run: Run) -> None:
    run.told(*OPEN_CSV)
    for name in ("rows.csv", "rows.parquet"):  # which is read whatever the schema tells of a CSV file
        run.told("export", "study.pmw", "--output", name, "--rows", "300")
        checked = run.form("check", "--data", name, "--schema", "table.toml")
        assert checked["kept"] == 300
        assert all(one["undeclared"] == 0 for one in checked["attributes"])
    text = (table / "rows.csv").read_text(encoding="latin-1")
    assert text.startswith("amount;day;town\n")
    assert ";Köln\n" in text
    assert json.loads((table / "rows.csv.manifest.json").read_text())["dialect"] == {
        "delimiter": ";", "missing_texts": ["NA"], "encoding": "iso8859-1", "decimal": ","
    }  # fmt: skip
    run.told("export", "study.pmw", "--output", "plain.csv", "--rows", "300", "--croissant")
    run.told("export", "study.pmw", "--output", "study.model")
    run.told("export", "study.model", "--output", "of_model.csv", "--rows", "300")
    for name in ("plain.csv", "of_model.csv"):
        assert (table / name).read_text(encoding="utf-8").startswith("amount,day,town\n")
        assert "dialect" not in json.loads((table / f"{name}.manifest.json").read_text())
    run.told("synthesize", *CHECK_CSV[2:], "--epsilon", "2", "--delta", "1e-9", "-o", "own.csv")
    assert (table / "own.csv").read_text(encoding="latin-1").startswith("amount;day;town\n")
