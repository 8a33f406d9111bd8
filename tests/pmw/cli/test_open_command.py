"""``pmw open``: what is told beside the session's status, and a domain of more cells than an array holds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from pmw import Options
from pmw.session.maintenance import read_session
from queries import Domain, IntegerAttribute, save_schema
from tests.pmw.cli.commands import OPEN, TABLE, Run


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
