"""``pmw check``: exact facts on standard output, a warning first, and nothing else anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.pmw.cli.commands import TABLE, Run

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
LINES = """\
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
    (tmp_path / "t.csv").write_text(LINES)
    (tmp_path / "t.toml").write_text(SCHEMA)
    return tmp_path


def test_a_check_tells_what_lookups_call(table: Path, run: Run) -> None:
    schema = table / "t.toml"
    rows = "work,name\npublic,Public service\n" + "".join(f"x{place},none\n" for place in range(7))
    (table / "names.csv").write_text(rows)
    schema.write_text(SCHEMA + '[lookups.works]\nattribute = "work"\nfile = "names.csv"\n')
    result = run(*CHECK)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == (
        "Lookup 'works' of 'work' (name): 8 keys; declared values without one: private; "
        "keys that are no declared value: x0, x1, x2, x3, x4, …."
    )
    told = json.loads(run(*CHECK, "--json").stdout)["lookups"]
    assert told == [{
        "name": "works", "attribute": "work", "key": "work", "columns": ["name"], "keys": 8,
        "unnamed": ["private"], "undeclared": [f"x{place}" for place in range(7)],
    }]  # fmt: skip
    schema.write_text(SCHEMA + '[lookups.works]\nattribute = "wrk"\nvalues = { public = "P" }\n')
    refused = run(*CHECK)
    assert refused.exit_code != 0
    assert "t.toml: lookup 'works': expected an attribute of the schema, got 'wrk'" in refused.stderr


def test_a_check_counts_impossible_records(table: Path, run: Run) -> None:
    conditions = ("age < 10", "age >= 30 AND work = 'public'")
    sections = "".join(f'[[impossible]]\nwhere = "{where}"\n' for where in conditions)
    (table / "t.toml").write_text(SCHEMA + sections)
    lines = run(*CHECK).stdout.splitlines()
    assert lines[0] == "t.csv: 6 records; a session keeps 0 and drops 6."
    assert [line for line in lines if "Impossible" in line] == [
        "Impossible, and dropped: 1 record where age < 10.",
        "Impossible, and dropped: 1 record where age >= 30 AND work = 'public'.",
    ]
    assert json.loads(run(*CHECK, "--json").stdout)["impossible"] == dict.fromkeys(conditions, 1)


def test_a_check_tells_what_is_kept_dropped_and_why(table: Path, run: Run) -> None:
    result = run(*CHECK)
    assert (result.exit_code, result.stderr) == (0, WARNING)
    assert sorted(path.name for path in table.iterdir()) == ["t.csv", "t.toml"]
    assert result.stdout == (
        "t.csv: 6 records; a session keeps 2 and drops 4.\n"
        "Malformed lines, each dropped: 1.\n"
        "  1 (line 7): 2 fields, where the first line has 3\n"
        "Columns that the schema does not name, ignored: id.\n"
        "\n"
        "attribute  kind         cells   empty  undeclared  clipped low  clipped high\n"
        "age        integer        100       0   2 dropped            1             0\n"
        "work       categorical      3  1 kept   2 dropped            0             0\n"
        "\n"
        "age: undeclared '50.5' (1), 'abc' (1); 1 no number, 1 no whole number\n"
        '  declare kind = "numeric" with edges to keep fractions\n'
        "  declare other = true to keep values that are no number\n"
        "\n"
        "work: undeclared '?' (2)\n"
        "  if '?' means empty, give --missing-text '?'\n"
    )
    (table / "t.toml").write_text(SCHEMA.replace("max = 99", "max = 99\nother = true") + "other = true\n")
    assert "Malformed lines, each undeclared in every column: 1.\n" in run.told(*CHECK)


def test_a_check_tells_apart_why_lines_cannot_be_read(table: Path, run: Run) -> None:
    """A header of ASCII and values in another encoding lose no random part of the people."""
    accents = b"".join(b"%d,30,caf\xe9\n" % number for number in range(12))
    others = b'13,40,"open\n14,50,public,\n15,60,public,\n16\n17,3\r0,public\n18,70,public\n'
    (table / "t.csv").write_bytes(b"id,age,work\n" + accents + others)
    schema = SCHEMA.replace('"private"]', '"private", "caf\u00e9"]')
    (table / "t.toml").write_text(schema, encoding="utf-8")
    told = run.told(*CHECK)
    assert "t.csv: 18 records; a session keeps 1 and drops 17.\n" in told
    assert (
        "Malformed lines, each dropped: 17.\n"
        "  12 (line 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …): no UTF-8 text; name the file's encoding, as "
        "--encoding cp1252 does\n"
        "  1 (line 14): a quote that is not closed, or stands inside a field; give --quote '' where none is "
        "special\n"
        "  2 (line 15, 16): 4 fields, a delimiter at its end, where the first line has 3\n"
        "  1 (line 17): 1 field, where the first line has 3\n"
        "  1 (line 18): a carriage return in a line\n"
    ) in told
    assert [one["count"] for one in run.form(*CHECK)["malformed_lines"]] == [12, 1, 2, 1, 1]
    assert "a session keeps 13 and drops 5" in run.told(*CHECK, "--encoding", "cp1252")


@pytest.mark.parametrize(("name", "told"), [("t.xlsx", "an Excel workbook"), ("t.json", "JSON")])
def test_what_is_no_csv_file_is_named_wherever_it_is_given(
    table: Path, run: Run, name: str, told: str
) -> None:
    content = {"t.xlsx": b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "t.json": b'{"age": 1}\n'}[name]
    (table / name).write_bytes(content)
    for command in (
        ("check", "--data", name, "--schema", "t.toml"),
        ("open", "s.pmw", "--data", name, "--schema", "t.toml", "--epsilon", "1"),
        ("draft", "--data", name),
        ("draft", "--data", name, "--bounds", "age", "--epsilon", "1"),
    ):
        assert f"got {told}; " in run(*command).stderr
    assert sorted(path.name for path in table.iterdir()) == sorted([name, "t.csv", "t.toml"])


def test_a_value_whose_accents_are_written_another_way_is_told_from_the_declared_one(
    table: Path, run: Run
) -> None:
    for declared, written, way in (
        ("K\u00f6ln", "Ko\u0308ln", "apart"),
        ("Ko\u0308ln", "K\u00f6ln", "together"),
    ):
        (table / "t.toml").write_text(SCHEMA.replace("private", declared), encoding="utf-8")
        (table / "t.csv").write_text(f"age,work\n1,{written}\n2,public\n", encoding="utf-8")
        told = run.told(*CHECK)
        assert f"work: undeclared '{written}' (1)" in told  # nothing is folded
        assert (
            f"  {written!a} is '{declared}' with its accents written {way}: write it in the schema as the "
            "table does\n"
        ) in told


def test_the_custodian_is_told_what_bins_of_long_attributes_cost(table: Path, run: Run) -> None:
    names = [f"a{place}" for place in range(4)]
    parts = [f'[[attributes]]\nname = "{name}"\nkind = "integer"\nmin = 0\nmax = 99\n' for name in names]
    (table / "t.toml").write_text("".join(parts))
    rows = "".join(f"{place % 100},{place % 7},{place % 100},{place % 50}\n" for place in range(3000))
    (table / "t.csv").write_text(",".join(names) + "\n" + rows)
    output, form = run.told(*CHECK), run.form(*CHECK)
    assert "In a session with epsilon = 1, delta = 1e-09:" in output
    assert [one["name"] for one in form["binned"]] == names
    bins = form["binned"][0]["bins"]
    assert f"a0, 100 cells in about {bins} bins: ± {3000 / (2 * bins):,.0f}" in output
    assert "in at most 24 cells (width = 5) none is cut" in output
    (table / "t.toml").write_text(
        '[[attributes]]\nname = "a0"\nkind = "date"\nmin = 2010-01-01\nmax = 2025-12-31\n'
        + "".join(parts[1:])
    )
    (table / "t.csv").write_text(",".join(names) + "\n" + "2020-01-01,1,2,3\n" * 3000)
    assert 'in at most 24 cells (width = "year") none is cut' in run.told(*CHECK)
    (table / "t.csv").write_text(",".join(names) + "\nx,1,2,3\n")
    result = run(*CHECK)
    assert (result.exit_code, "In a session with" in result.stdout) == (1, False)  # where nothing is kept
    assert "binned" not in json.loads(run(*CHECK, "--json").stdout)


def test_a_missing_column_is_told_with_exit_code_1(table: Path, run: Run) -> None:
    (table / "t.csv").write_text("age,wrok\n1,public\n")
    result = run(*CHECK)
    assert (result.exit_code, result.stderr) == (1, WARNING)
    assert result.stdout == (
        "t.csv: a session would refuse this table.\n"
        "Declared columns that are missing or stand there twice: work.\n"
        "  work; did you mean 'wrok'?\n"
        "Columns that the schema does not name, ignored: wrok.\n"
    )
    result = run(*CHECK, "--json")
    assert (result.exit_code, result.stderr) == (1, WARNING)
    form = json.loads(result.stdout)
    assert (form["absent_columns"], "not private" in form["warning"]) == (["work"], True)


def test_names_and_values_cannot_move_the_cursor(table: Path, run: Run) -> None:
    (table / "t.csv").write_text("age,work,\x1b[2J\n1,\x1b[2J,x\n")
    shown = run(*CHECK).stdout
    assert "\x1b" not in shown
    assert "'\\x1b[2J' (1)" in shown


# --- tables that were meant otherwise ----------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["age,sex,region,member\n", "age,sex,region,member\nx,x,x,x\ny,y,y,y\n"])
def test_a_check_that_would_keep_nothing_warns_and_fails(people: Path, run: Run, rows: str) -> None:
    run.told("check", *TABLE)
    (people / "people.csv").write_text(rows)
    result = run("check", *TABLE)
    assert result.exit_code == 1
    assert "Warning: a session would " in result.stderr.splitlines()[-1]


def test_a_folder_without_parquet_files_is_told(people: Path, run: Run) -> None:
    (people / "tables").mkdir()
    schema = ("--data", "tables", "--schema", "people.toml")
    for command in (("open", "new.pmw", "--epsilon", "1"), ("check",), ("demo", "--output", "shown")):
        result = run(*command, *schema)
        assert result.exit_code == 1, command
        assert "expected a folder of Parquet files, got tables: none is in it" in result.stderr
    assert not list(people.glob("new.pmw*"))
    assert not (people / "shown").exists()


@pytest.mark.parametrize(("delimiter", "typed"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_a_header_with_another_delimiter_is_told(
    people: Path, run: Run, frame: pd.DataFrame, delimiter: str, typed: str
) -> None:
    frame.assign(secret=7).to_csv(people / "people.csv", index=False, sep=delimiter)
    opened, checked = run("open", "n.pmw", *TABLE, "--epsilon", "1"), run("check", *TABLE)
    for result in (opened, checked):
        assert (result.exit_code, f"--delimiter {typed}" in result.output) == (1, True)
    assert "secret" not in opened.stderr
    run.told("check", *TABLE, "--delimiter", delimiter)
    (people / "people.csv").write_text("age;sex\n1;2\n")  # which none helps
    assert "--delimiter" not in run("open", "n.pmw", *TABLE, "--epsilon", "1").stderr


LONG = "".join(
    f'[[attributes]]\nname = "a{place}"\nkind = "integer"\nmin = 0\nmax = {{last}}\n' for place in range(10)
)
TOO_LARGE = {
    "cells": (
        LONG.replace("{last}", "999999"),
        "at most 4,000,000 cells of all attributes together, got 10,0",
    ),
    "attributes": (
        "".join(LONG.replace("{last}", "1").replace('"a', f'"b{part}a') for part in range(100)),
        "at most 500 attributes, got 1,000",
    ),
}
COMMANDS = {
    "check": CHECK,
    "plan": ("plan", "--schema", "t.toml", "--records", "1000", "--epsilon", "1"),
    "open": ("open", "s.pmw", "--data", "t.csv", "--schema", "t.toml", "--epsilon", "1"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_schema_past_what_fits_is_refused_in_words_before_anything_is_read(
    table: Path, run: Run, command: str, kind: str
) -> None:
    attributes, message = TOO_LARGE[kind]
    (table / "t.toml").write_text('name = "people"\n' + attributes)
    refused = run(*COMMANDS[command])
    assert refused.exit_code != 0
    assert message in " ".join(refused.stderr.split())
    assert {path.name for path in table.iterdir()} == {"t.csv", "t.toml"}
