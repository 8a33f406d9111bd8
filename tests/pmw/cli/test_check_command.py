"""``pmw check``: exact facts on standard output, a warning first, and nothing else anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
CHECK = ("check", "--data", "t.csv", "--schema", "t.toml")
SCHEMA = """\
name = "people"
[[attributes]]
name = "age"
kind = "integer"
min = 0
max = 99
[[attributes]]
name = "work"
kind = "categorical"
values = ["public", "private"]
missing = true
"""
TABLE = """\
id,age,work
1,30,public
2,-3,private
3,40,?
4,abc,
5,50.5,?
6,50
"""
WARNING = (
    "Warning: these numbers are exact and not private: they are for the custodian alone; do not share them.\n"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "t.toml").write_text(SCHEMA)
    return tmp_path


def test_a_check_tells_what_is_kept_dropped_and_why(table: Path, run: Run) -> None:
    result = run(*CHECK)
    assert (result.exit_code, result.stderr) == (0, WARNING)
    assert sorted(path.name for path in table.iterdir()) == ["t.csv", "t.toml"]
    assert result.stdout == (
        "t.csv: 6 records; a session keeps 2 and drops 4.\n"
        "Malformed lines, each dropped: 1 (line 7).\n"
        "Columns that the schema does not name, ignored: id.\n"
        "\n"
        "attribute   empty  undeclared  clipped low  clipped high\n"
        "age             0   2 dropped            1             0\n"
        "work       1 kept   2 dropped            0             0\n"
        "\n"
        "age: undeclared '50.5' (1), 'abc' (1); 1 no number, 1 no whole number\n"
        '  declare kind = "numeric" with edges to keep fractions\n'
        "  declare other = true to keep values that are no number\n"
        "\n"
        "work: undeclared '?' (2)\n"
        "  if '?' means empty, give --missing-text '?'\n"
    )


def test_a_check_tells_that_a_malformed_line_is_kept_where_every_attribute_takes_it(
    table: Path, run: Run
) -> None:
    (table / "t.toml").write_text(SCHEMA.replace("max = 99", "max = 99\nother = true") + "other = true\n")
    assert "Malformed lines, each undeclared in every column: 1 (line 7).\n" in run(*CHECK).stdout
    (table / "t.toml").write_text(SCHEMA + "other = true\n")
    assert "Malformed lines, each dropped: 1 (line 7).\n" in run(*CHECK).stdout


def test_the_custodian_is_told_what_bins_of_long_attributes_cost(table: Path, run: Run) -> None:
    names = [f"a{place}" for place in range(4)]
    parts = [f'[[attributes]]\nname = "{name}"\nkind = "integer"\nmin = 0\nmax = 99\n' for name in names]
    (table / "t.toml").write_text("".join(parts))
    rows = "".join(f"{place % 100},{place % 7},{place % 100},{place % 50}\n" for place in range(3000))
    (table / "t.csv").write_text(",".join(names) + "\n" + rows)
    output, form = run(*CHECK).stdout, json.loads(run(*CHECK, "--json").stdout)
    assert "In a session with epsilon = 1, delta = 1e-09:" in output
    assert [one["name"] for one in form["binned"]] == names
    bins = form["binned"][0]["bins"]
    assert f"a0, 100 cells in about {bins} bins: ± {3000 / (2 * bins):,.0f}" in output
    assert "in at most 24 cells (width = 5) none is cut" in output


def test_a_missing_column_is_told_with_exit_code_1(table: Path, run: Run) -> None:
    (table / "t.csv").write_text("age,wrok\n1,public\n")
    result = run(*CHECK)
    assert result.exit_code == 1
    assert result.stdout == (
        "t.csv: a session would refuse this table.\n"
        "Declared columns that are missing or stand there twice: work.\n"
        "  work; did you mean 'wrok'?\n"
        "Columns that the schema does not name, ignored: wrok.\n"
    )
    assert result.stderr == WARNING
    result = run(*CHECK, "--json")
    assert (result.exit_code, result.stderr) == (1, WARNING)
    form = json.loads(result.stdout)
    assert (form["absent_columns"], "not private" in form["warning"]) == (["work"], True)


def test_names_and_values_cannot_move_the_cursor(table: Path, run: Run) -> None:
    (table / "t.csv").write_text("age,work,\x1b[2J\n1,\x1b[2J,x\n")
    result = run(*CHECK)
    assert "\x1b" not in result.stdout
    assert "'\\x1b[2J' (1)" in result.stdout
