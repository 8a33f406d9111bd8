"""``pmw open``: what is told beside the session's status, and a domain of more cells than an array holds."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pmw import Options
from pmw.session.maintenance import read_session
from queries import Domain, IntegerAttribute, save_schema
from tests.pmw.cli.commands import OPEN, TABLE, Run
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
        (("--data", "ours.csv"), "pmw draft --data ours.csv > ours.toml"),
        (
            ("--data", "my people.csv", "--delimiter", ";", "--trim", "--missing-text", "?"),
            "pmw draft --data 'my people.csv' --delimiter ';' --missing-text '?' --trim > 'my people.toml'",
        ),
        (("--data", "parts/*.parquet"), "pmw draft --data 'parts/*.parquet' > schema.toml"),
        (("--data", "duckdb:a.db", "--table", "t"), "pmw draft --data duckdb:a.db --table t > t.toml"),
        (("--data", "duckdb:a.db"), "pmw draft --data duckdb:a.db --table TABLE > TABLE.toml"),
    ],
)
@pytest.mark.parametrize("command", [("open", "new.pmw", "--epsilon", "1"), ("check",)])
def test_without_a_schema_the_error_has_the_command_that_drafts_one(
    run: Run, tmp_path: Path, command: tuple[str, ...], given: tuple[str, ...], told: str
) -> None:
    error = run.refused(*command, *given, code=2).splitlines()[-1]
    assert error == f"Error: Missing option '--schema'. Draft one to fill in: {told}"
    assert list(tmp_path.iterdir()) == []


def test_the_draft_that_the_error_names_is_one(people: Path, run: Run) -> None:
    (people / "people.toml").rename(people / "away.toml")
    without = ("open", "new.pmw", "--data", "people.csv", "--epsilon", "1")
    error = run.refused(*without, code=2).splitlines()[-1]
    drafted, written = error.partition("pmw ")[2].split(" > ")
    (people / written).write_text(run.told(*drafted.split()))
    assert run.refused(*without, code=2).splitlines()[-1] == (
        "Error: Missing option '--schema'. If people.toml is it, give --schema people.toml"
    )
    assert "TODO" in run.refused(*OPEN)
    error = run.refused("plan", "--records", "9", "--epsilon", "1", code=2).splitlines()[-1]
    told = "Draft one to fill in: pmw draft --data TABLE > SCHEMA"
    assert error == f"Error: Missing option '--schema'. {told}"


def test_an_address_with_a_password_is_not_shown_again(run: Run) -> None:
    address = "postgresql://ann:s3cret@host/d"
    told = run.refused("open", "new.pmw", "--data", address, "--epsilon", "1", code=2)
    assert "expected an address without a password" in told
    assert "s3cret" not in told


# --- more cells than an array can hold ---------------------------------------------------------------------


WIDE = ("open", "wide.pmw", "--data", "table.csv", "--schema", "wide.toml", "--epsilon", "1")


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Write a table of a few records over 16,777,217 cells, and return its folder."""
    domain = Domain((IntegerAttribute("a", 0, 24_928), IntegerAttribute("b", 0, 672)))
    save_schema(domain, tmp_path / "wide.toml")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n" * 200)
    return tmp_path


@pytest.mark.parametrize("choice", [("--test", "query"), ("--model", "dense")])
def test_a_dense_model_is_refused_before_anything_is_allocated_or_made(
    wide: Path, run: Run, choice: tuple[str, str]
) -> None:
    run.refused(*WIDE, *choice)  # what is imported late is allocated now
    tracemalloc.start()
    told = run.refused(*WIDE, *choice)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told == (
        "Error: the domain has 16,777,217 cells; a dense model holds at most 16,777,216: "
        "test whole marginals on a graphical one, or declare fewer attributes or wider cells\n"
    )
    assert peak < 5 * 10**7  # an array would take 134 MB
    assert sorted(path.name for path in wide.iterdir()) == ["table.csv", "wide.toml"]


def test_it_opens_where_marginals_are_tested_without_an_array_of_its_cells(wide: Path, run: Run) -> None:
    tracemalloc.start()
    form = run.form(*WIDE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert form["version"] == 0
    assert peak < 2 * 10**8
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


def test_opening_without_a_delta_says_in_one_line_what_is_lost_and_goes_on(years: Path, run: Run) -> None:
    result = run(*OPEN)
    assert result.exit_code == 0
    assert result.stderr.startswith(NOTE)
    assert result.stderr.count("\n") == 1
    assert held(years / "study.pmw") == (0, 0)
    assert "\nNone of the 6 pairs of attributes is held: do not rely on an export " in result.stdout
    other = run("open", "other.pmw", *OPEN[2:], "--json")
    assert other.stderr == result.stderr  # as much is said beside JSON
    assert json.loads(other.stdout)["pairs_held"] == 0


@pytest.mark.parametrize("delta", ["0", "0.0", "1e-9"])
def test_a_delta_that_was_given_is_taken_silently(
    years: Path, run: Run, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = run(*OPEN, "--delta", delta)
    assert (result.exit_code, result.stderr) == (0, "")
    assert held(years / "study.pmw") == ((6, 1e-9) if delta == "1e-9" else (0, 0))
    assert run(*PLAN, "--delta", delta).stderr == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--opening", "one-way"),
        ("--opening", "none"),
        ("--test", "query"),
        ("--preset", "textbook"),
        ("--simultaneous",),
        ("--update-limit", "3"),
        ("--composition", "pure"),
        ("--accuracy", "0.2", "--records", "3000"),
    ],
)
def test_nothing_is_said_where_a_delta_buys_no_pair(years: Path, run: Run, options: tuple[str, ...]) -> None:
    planned = PLAN if "--records" not in options else PLAN[:3] + PLAN[5:]
    planned = planned if "--preset" not in options else (*planned, "--delta", "1e-9")  # which it needs
    result = run(*planned, *options)
    assert "Note: no --delta" not in result.stderr
    assert "Note: no --delta" not in run(*OPEN, *options).stderr


def test_nothing_is_said_where_the_table_is_measured_whole(people: Path, run: Run) -> None:
    assert run(*OPEN).stderr == ""
    assert run(*PLAN).stderr == ""


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "found"), [("y\n", (6, 1e-9)), ("n\n", (0, 0)), ("\nyes\n", (6, 1e-9))])
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
@pytest.mark.parametrize("stdin", ["", "\n"])
def test_nothing_is_drawn_before_the_answer(years: Path, run: Run, stdin: str) -> None:
    result = run(*OPEN, stdin=stdin)
    assert result.exit_code == 1
    assert "Aborted!" in result.stderr
    assert sorted(path.name for path in years.iterdir()) == ["people.csv", "people.toml"]


@pytest.mark.usefixtures("terminal")
def test_nothing_is_asked_where_the_session_is_there_already(years: Path, run: Run) -> None:
    run.told(*OPEN, "--delta", "0")
    told = run.refused(*OPEN)
    assert told == "Error: study.pmw exists; choose another name, or go on with the session that it holds\n"


@pytest.mark.usefixtures("terminal")
def test_a_plan_asks_nothing(years: Path, run: Run) -> None:
    result = run(*PLAN)
    assert result.exit_code == 0
    assert result.stderr.startswith(NOTE)
    assert result.stderr.count("\n") == 1
    assert result.stdout == run(*PLAN, "--delta", "0").stdout


def test_what_is_said_follows_from_schema_and_options_whatever_the_table_holds(years: Path, run: Run) -> None:
    first = run(*OPEN).stderr
    frame = pd.read_csv(years / "people.csv")
    for name, other in (("few", frame.head(2)), ("alike", frame.assign(age=30, sex="Male"))):
        other.to_csv(years / "people.csv", index=False)
        assert run("open", f"{name}.pmw", *OPEN[2:]).stderr == first
    (years / "people.csv").unlink()
    assert run("open", "gone.pmw", *OPEN[2:]).stderr.startswith(first)


def test_the_bar_that_is_told_is_that_of_the_plan_with_a_delta(years: Path, run: Run) -> None:
    told = run(*OPEN).stderr.partition(NOTE)[2]
    near, _, far = told.partition(" records instead of ± ")
    for bound, delta in ((near, "1e-9"), (far.partition(".")[0], "0")):
        assert bound == f"{run.form(*PLAN, '--delta', delta)['orders'][1]['bound']:,.0f}"


def test_an_export_says_which_pairs_it_has_before_and_after_one_is_paid_for(years: Path, run: Run) -> None:
    run.told(*OPEN, "--delta", "0")
    export = ("export", "study.pmw", "--output", "rows.csv", "--force")
    told = run.told(*export).splitlines()
    assert told[1].startswith(
        "None of the 6 pairs of attributes is held: do not rely on an export for how two "
    )
    price, _, command = told[2].partition(": pmw ")
    assert price.startswith("To hold one more, for ")
    assert price.endswith("% of the budget")
    run.told(*command.split(), "--at-most", "100%")
    told = run.told(*export).splitlines()
    assert told[1].startswith("1 of 6 pairs of attributes is held: do not rely on an export for ")
    manifest = json.loads((years / "rows.csv.manifest.json").read_text())
    assert manifest["pairs"]["held"] == 1
    assert command.split()[-1].split(",") not in manifest["pairs"]["not_held"]
    assert "\npairs held             1 of 6\n" in run.told("status", "study.pmw")
    model = run.told("export", "study.pmw", "--output", "study.model").splitlines()
    assert model[1] == told[1]
    assert run.told("export", "study.model", "--output", "again.csv").splitlines()[1] == told[1]
    assert "To hold one more" not in run.told("export", "study.model", "--output", "third.csv")


def test_no_command_is_named_where_nothing_more_is_measured(years: Path, run: Run) -> None:
    run.told(*OPEN, "--delta", "0")
    run.told("close", "study.pmw", "--yes")
    run.told("open", "query.pmw", *TABLE, "--epsilon", "1", "--test", "query")
    for name in ("study.pmw", "query.pmw"):
        told = run.told("export", name, "--output", f"{name}.csv")
        assert "\nNone of the 6 pairs of attributes is held: " in told
        assert "To hold one more" not in told


def test_a_report_names_the_pairs_that_were_not_measured(years: Path, run: Run) -> None:
    run.told(*OPEN, "--delta", "0")
    run.told("measure", "study.pmw", "sex,member", "--at-most", "100%")
    run.told("report", "study.pmw", "-o", "report.html")
    page = (years / "report.html").read_text().replace("\u2068", "").replace("\u2069", "")
    assert "1 of 6 pairs of attributes is held: " in page
    named = "age and sex; age and region; age and member; sex and region; region and member;"
    assert f"Pairs that were not: {named}</li>" in page
