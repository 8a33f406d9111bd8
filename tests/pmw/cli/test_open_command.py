"""``pmw open``: what is told beside the session's status, and a domain of more cells than an array holds."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from pmw import Options
from pmw.session.maintenance import read_session
from queries import Domain, IntegerAttribute, save_schema

Run = Callable[..., Result]
OPEN = ("--data", "people.csv", "--schema", "people.toml", "--test", "query")


def test_sech2_without_a_delta_is_told_of_what_is_narrower(people: Path, run: Run) -> None:
    sech2 = (*OPEN, "--sparse-vector", "sech2", "--epsilon", "1")
    result = run("open", "a.pmw", *sech2)
    assert result.stderr.startswith(
        "Note: without a delta, exponential noise is narrower: its tests err within "
    )
    assert result.stderr.count("\n") == 1
    assert run("open", "b.pmw", *sech2, "--delta", "1e-9").stderr == ""
    assert run("open", "c.pmw", *OPEN, "--epsilon", "1").stderr == ""


def test_the_preset_opens_the_loop_of_the_lecture(people: Path, run: Run) -> None:
    given = ("--data", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9")
    opened = run(
        "open", "a.pmw", *given, "--preset", "textbook", "--update-limit", "12", "--sides", "two-sided"
    )
    assert opened.exit_code == 0, opened.output
    options = read_session(people / "a.pmw")[0].contract.options
    assert replace(options, composition=None) == Options.textbook(update_limit=12)


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
    result = run(*command, *given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == (
        f"Error: Missing option '--schema'. Draft one to fill in: {told}"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_draft_that_the_error_names_is_one(people: Path, run: Run) -> None:
    (people / "people.toml").rename(people / "away.toml")
    error = run("open", "new.pmw", "--data", "people.csv", "--epsilon", "1").stderr
    drafted, written = error.splitlines()[-1].partition("pmw ")[2].split(" > ")
    (people / written).write_text(run(*drafted.split()).stdout)
    again = run("open", "new.pmw", "--data", "people.csv", "--epsilon", "1").stderr
    assert again.splitlines()[-1] == (
        "Error: Missing option '--schema'. If people.toml is it, give --schema people.toml"
    )
    assert "TODO" in run("open", "new.pmw", *OPEN[:4], "--epsilon", "1").stderr


def test_without_schema_and_table_the_draft_has_a_place_for_both(run: Run) -> None:
    error = run("plan", "--records", "9", "--epsilon", "1").stderr.splitlines()[-1]
    told = "Draft one to fill in: pmw draft --data TABLE > SCHEMA"
    assert error == f"Error: Missing option '--schema'. {told}"


def test_an_address_with_a_password_is_not_shown_again(run: Run) -> None:
    result = run("open", "new.pmw", "--data", "postgresql://ann:s3cret@host/d", "--epsilon", "1")
    assert (result.exit_code, "s3cret" in result.output) == (2, False)
    assert "expected an address without a password" in result.stderr


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
    assert run(*WIDE, *choice).exit_code == 1  # what is imported late is allocated now
    tracemalloc.start()
    result = run(*WIDE, *choice)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "Error: the domain has 16,777,217 cells; a dense model holds at most 16,777,216: "
        "test whole marginals on a graphical one, or declare fewer attributes or wider cells\n"
    )
    assert peak < 5 * 10**7  # an array would take 134 MB
    assert sorted(path.name for path in wide.iterdir()) == ["table.csv", "wide.toml"]


def test_it_opens_where_marginals_are_tested_without_an_array_of_its_cells(wide: Path, run: Run) -> None:
    tracemalloc.start()
    result = run(*WIDE, "--json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["version"] == 0
    assert peak < 2 * 10**8
    answer = run("ask", "wide.pmw", "a <= 1 AND b <= 500", "--json")
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["count"] >= 0
