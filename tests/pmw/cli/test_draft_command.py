"""``pmw draft``: a schema on standard output, and nothing else anywhere."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from tests.pmw.cli.commands import TABLE, Run

ON_CENSUS = ("--data", "census.csv", "--schema", "drafted.toml", "--epsilon", "1")


def test_a_draft_is_printed_whole(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age;work\n30;mine\n")
    result = run("draft", "--data", "t.csv", "--delimiter", ";")
    assert (result.exit_code, result.stderr) == (0, "")
    todo = 'kind = "TODO"    # such as: kind = "integer", then min = 0 and max = 99\n'
    attributes = [f'\n[[attributes]]\nname = "{name}"\n{todo}' for name in ("age", "work")]
    file = '\n[file]\ndelimiter = ";"\n'
    assert result.stdout.endswith("".join(['name = "records"\n', file, *attributes]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Write a private table, a public one of the same columns, and a copy of the private one."""
    (tmp_path / "people.csv").write_text("age,work\n31,mine\n40,farm\n")
    (tmp_path / "census.csv").write_text("age,work\n17,farm\n90,mine\n")
    (tmp_path / "copy.csv").write_bytes((tmp_path / "people.csv").read_bytes())
    return tmp_path


def draft(run: Run) -> str:
    """Draft a schema of the private table from the public one, and return it."""
    text = run.told("draft", "--data", "people.csv", "--from-public", "census.csv")
    Path("drafted.toml").write_text(text)
    return text


def opened(run: Run, data: str, *more: str) -> Result:
    given = ("--data", data, "--schema", "drafted.toml", "--epsilon", "1")
    return run("open", "s.pmw", *given, "--test", "query", *more)


def test_a_draft_from_a_public_table_opens_a_session_whose_releases_do_not_tell_that_table_again(
    run: Run, tables: Path
) -> None:
    text = draft(run)
    assert "no value of it stands here" in text
    assert 'Its bytes were compared with those of "census.csv", and differ.' in text
    assert 'read off "census.csv", which the custodian declares public' in text
    assert not any(value in text[text.index("[[attributes]]") :] for value in ("31", "40"))
    marks = re.findall("[0-9a-f]{64}", text)
    assert len(marks) == 2
    assert opened(run, "people.csv").exit_code == 0
    run.told("export", "s.pmw", "--output", "made.csv")
    run.told("export", "s.pmw", "--output", "m.json", "--format", "measurements")
    for name in ("s.pmw", "made.csv", "made.csv.manifest.json", "m.json"):
        content = (tables / name).read_bytes()
        assert not any(mark.encode() in content for mark in marks), name


@pytest.mark.parametrize("public", ["link.csv", "copy.csv"])
def test_values_of_the_table_itself_are_not_drafted_unless_it_is_declared_public(
    run: Run, tables: Path, public: str
) -> None:
    (tables / "link.csv").symlink_to("people.csv")
    refused = run.refused("draft", "--data", "people.csv", "--from-public", public)
    assert "is the table in --data, or has the same bytes" in refused
    assert "31" not in refused
    told = run.told("draft", "--data", "people.csv", "--from-public", public, "--data-is-public")
    assert "# The custodian declares that table public." in told
    assert "no value of it" not in told
    assert "min = 31" in told


@pytest.mark.parametrize("data", ["moved.csv", "grown.csv"])
def test_a_session_over_the_table_that_domains_were_read_off_is_refused(
    run: Run, tables: Path, data: str
) -> None:
    draft(run)
    census = (tables / "census.csv").read_bytes()
    (tables / "moved.csv").write_bytes(census)
    (tables / "census.csv").write_bytes(census + b"50,farm\n" * (data == "grown.csv"))
    refused = opened(run, data.replace("grown", "census"))
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: the domains of drafted.toml were read off this very table")
    assert "say so with --data-is-public" in refused.stderr
    assert not (tables / "s.pmw").exists()
    assert opened(run, data.replace("grown", "census"), "--data-is-public").exit_code == 0


def test_whatever_else_releases_over_that_table_is_refused_too(run: Run, tables: Path) -> None:
    draft(run)
    before = sorted(tables.iterdir())
    for command in (("offline", "--workload", "marginals:1", "--output", "made.csv"), ("demo",)):
        assert "say so with --data-is-public" in run.refused(*command, *ON_CENSUS)
    assert sorted(tables.iterdir()) == before


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1)])
@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_it_is_asked(run: Run, tables: Path, typed: str, code: int) -> None:
    draft(run)
    result = run("open", "s.pmw", *ON_CENSUS, "--test", "query", stdin=typed)
    assert result.exit_code == code
    assert "Is the table public, so that nobody in it needs protection [y/N]:" in result.stderr
    assert (tables / "s.pmw").exists() == (code == 0)
    drafted = run("draft", "--data", "copy.csv", "--from-public", "people.csv", stdin=typed)
    assert drafted.exit_code == code
    assert ("min = 31" in drafted.stdout) == (code == 0)


def test_what_is_no_list_of_digests_is_one_error(run: Run, tables: Path) -> None:
    attribute = '[[attributes]]\nname = "age"\nkind = "integer"\nmin = 0\nmax = 99\n'
    expected = "drafted_from must be the list of digests that a draft wrote; copy it whole, or leave it out"
    for given in ('"sha256:00"', '["sha256:00"]', "[3]"):
        (tables / "drafted.toml").write_text(f"drafted_from = {given}\n{attribute}")
        assert run.refused("open", "s.pmw", "--data", "people.csv", *ON_CENSUS[2:]) == (
            f"Error: drafted.toml: {expected}\n"
        )


def test_ends_by_privacy_are_told_once_their_charge_is_written(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{number % 90 + 1},a\n" for number in range(5000))
    (tmp_path / "people.csv").write_text("age,work\n" + rows)
    bounds = ("draft", "--data", "people.csv", "--bounds", "age", "--epsilon")
    told = run.told(*bounds, "2")
    assert "min = 0\n" in told or "min = 1\n" in told
    assert "max = 128" in told
    assert "promises nothing" in told
    assert "pmw open --draft" in told
    assert "5000" not in told
    assert run.form(*bounds, "0.5", "--draft", "people.csv.draft")["epsilon"] == 0.5
    assert len((tmp_path / "people.csv.draft").read_text().splitlines()) == 2
    schema = 'name = "p"\n[[attributes]]\nname = "work"\nkind = "categorical"\nvalues = ["a", "b"]\n'
    (tmp_path / "people.toml").write_text(schema)
    opened = ("open", "s.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
    refused = run.refused(*opened, "--draft", "people.csv.draft", "--records-per-person", "2", code=1)
    assert "another number of records" in refused
    told = "epsilon = 3.5 (epsilon = 1 in the session and epsilon = 2.5 in 2 drafts of its schema)"
    assert told in run.told(*opened, "--draft", "people.csv.draft")
    assert told in run.told("status", "s.pmw")


CITIES = [(f"p{place}", "Oslo" if place % 2 else " oslo") for place in range(600)]
KEYS = ("draft", "--data", "people.csv", "--keys", "city", "--epsilon", "0.5", "--delta", "1e-9")


@pytest.fixture
def cities(tmp_path: Path) -> Path:
    rows = [*CITIES, *((f"r{place}", f"secret {place}") for place in range(50)), ("q", ""), ("q", '"')]
    (tmp_path / "people.csv").write_text("id,city\n" + "".join(f"{who},{city}\n" for who, city in rows))
    return tmp_path


def test_keys_by_privacy_are_a_schema_once_their_charge_is_written(run: Run, cities: Path) -> None:
    told = run.told(*KEYS, "--person-column", "id", "--records-per-person", "2")
    assert told.startswith(
        "# Values of city by noisy counts of persons, for epsilon = 0.5 and delta = 1e-09.\n"
    )
    assert "Those that came to 84 persons, noise included; all others count as other." in told
    assert told.endswith('values = [" oslo", "Oslo"]\nmissing = true\nother = true\n')
    assert "secret" not in told
    (line,) = (cities / "people.csv.draft").read_text().splitlines()
    assert json.loads(line) == {
        "content": "online-pmw draft", "what": "keys of city", "neighboring_relation": "add_remove",
        "records_per_person": 2, "person_column": "id", "epsilon": "1/2", "delta": "1/1000000000",
    }  # fmt: skip
    (cities / "people.toml").write_text('[person]\ncolumn = "id"\nrecords = 2\n' + told)
    opened = ("open", "s.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
    refused = run.refused(*opened, "--draft", "people.csv.draft")
    assert "open it with a delta above 0" in refused
    words = (
        "epsilon = 1.5, delta = 2e-09 (epsilon = 1, delta = 1e-09 in the session and epsilon = 0.5, "
        "delta = 1e-09 in 1 draft of its schema)"
    )
    assert words in run.told(*opened, "--delta", "1e-9", "--draft", "people.csv.draft")
    assert words in run.told("status", "s.pmw")


def test_where_no_text_passes_it_is_said_and_how_many_persons_are_enough_is_told_for_nothing(
    run: Run, cities: Path
) -> None:
    assert "comes to 42. Nothing was read or charged." in run.told(*KEYS, "--dry-run")
    form = run.form(*KEYS, "--data", "none.csv", "--neighbors", "replace-one", "--dry-run")
    assert form == {"attribute": "city", "threshold": 82}
    assert not (cities / "people.csv.draft").exists()
    told = run.told(*KEYS, "--epsilon", "0.001")
    assert "# No noisy count came to 20,032 persons: there is no value to declare." in told
    assert "[[attributes]]" not in told
    assert len((cities / "people.csv.draft").read_text().splitlines()) == 1
    assert run.form(*KEYS, "--epsilon", "0.001")["values"] == []


def test_keys_that_cannot_be_drafted_cost_nothing_and_show_no_record(run: Run, cities: Path) -> None:
    for more, code, message in (
        (("--keys", "town"), 1, "expected one column 'town' in the first line, got no such column"),
        (("--delta", "1"), 1, "0 <= delta < 1"),
        (("--epsilon", "0"), 1, "expected epsilon > 0"),
        (("--bounds", "city"), 2, "two drafts, each with its own charge"),
        (("--from-public", "people.csv"), 2, "--keys costs privacy"),
    ):
        refused = run.refused(*KEYS, *more, code=code)
        assert message in refused
        assert not any(text in refused for text in ("secret", "oslo", "Oslo"))
    assert [path.name for path in cities.iterdir()] == ["people.csv"]


_KILLED = """
import os, signal, sys
import click
from pmw.cli import main
def killed(*given, **more):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "killed":
    click.echo = killed
main(sys.argv[2:])
"""


def test_a_process_that_is_killed_before_it_prints_has_charged(cities: Path) -> None:
    ends = []
    for how in ("killed", "whole"):
        run = [sys.executable, "-c", _KILLED, how, *KEYS]
        ended = subprocess.run(run, capture_output=True, check=False, cwd=cities, env=os.environ)
        charges = len((cities / "people.csv.draft").read_text().splitlines())
        ends.append((ended.returncode, b"Oslo" in ended.stdout, ended.stderr, charges))
    assert ends == [(-signal.SIGKILL, False, b"", 1), (0, True, b"", 2)]


# --- looking at the table ---------------------------------------------------------------------------------


WORKERS = "".join(
    f"{number % 60 + 17},w{number % 5},2{number % 7}.0{number % 9 + 1}.1997\n" for number in range(400)
)
LOOK = ("draft", "--data", "people.csv", "--look")


@pytest.fixture
def workers(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("age,work,born\n" + WORKERS)
    return tmp_path


def test_kinds_are_told_with_a_warning_and_no_value(run: Run, workers: Path) -> None:
    result = run(*LOOK)
    assert result.exit_code == 0
    assert result.stderr == (
        "Warning: the kinds are read off the table, exact and not private: declare only what is public.\n"
    )
    assert "pmw looked at the table: declare only what is public." in result.stdout
    assert result.stdout.endswith("""\

[[attributes]]
name = "age"
# Its texts: whole numbers. Which ends are possible (or are these codes)? Empty ones (missing = true)?
kind = "integer"
min = "TODO"    # such as 0
max = "TODO"    # such as 99

[[attributes]]
name = "work"
# Its texts: few different texts. Which ones does the questionnaire list? Are there others (other = true)?
kind = "categorical"
values = "TODO"    # such as ["north", "south"]

[[attributes]]
name = "born"
# Its texts: dates. Which first and last day are possible?
kind = "date"
min = "TODO"    # such as 2020-01-01
max = "TODO"    # such as 2025-12-31
width = "day"   # or week, month, quarter, year
format = "%d.%m.%Y"
""")
    (workers / "people.csv").write_text("age,work,born\n" + "5,mine,31.12.2001\n" * 900)
    assert run.told(*LOOK) == result.stdout
    assert [path.name for path in workers.iterdir()] == ["people.csv"]


def test_a_public_table_fills_what_it_has_and_the_rest_is_looked_at(run: Run, workers: Path) -> None:
    (workers / "census.csv").write_text("work\nmill\nfarm\n")
    told = run.told(*LOOK, "--from-public", "census.csv")
    assert 'values = ["farm", "mill"]' in told
    assert told.count("# Its texts:") == 2


# --- on a terminal ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("terminal")
def test_domains_are_asked_for_column_by_column(run: Run, workers: Path) -> None:
    age = "\n99\n0\nn\nn\n" + "integer\n0\n99\ny\nn\n"  # the ends are wrong at first
    work = "\nw0, w1, 7\nn\ny\n"
    born = "\n1990-01-01\n1999-12-31\nyear\n\nn\nn\n"
    result = run(*LOOK, "--interactive", stdin=age + work + born)
    assert result.exit_code == 0, result.output
    assert "Its texts: whole numbers." in result.stderr
    assert "min must not exceed max, got min=99, max=0" in result.stderr
    for cells in (
        "101 cells, and 101 of",
        "4 cells, and 404 of",
        "10 cells, and 4,040 of all attributes so far.",
    ):
        assert cells in result.stderr
    assert (
        result.stdout
        == """\
name = "records"

[[attributes]]
name = "age"
kind = "integer"
min = 0
max = 99
resolution = 1
missing = true

[[attributes]]
name = "work"
kind = "categorical"
values = ["w0", "w1", 7]
other = true

[[attributes]]
name = "born"
kind = "date"
min = 1990-01-01
max = 1999-12-31
width = "year"
format = "%d.%m.%Y"
"""
    )


@pytest.mark.usefixtures("terminal")
def test_a_column_may_be_left_out_or_declared_otherwise(run: Run, workers: Path) -> None:
    typed = "numeric\n0, 20.5, 99\nn\nn\n" + "none\n" + "none\n"
    told = run.told("draft", "--data", "people.csv", "--interactive", stdin=typed)
    assert 'kind = "numeric"\nedges = [0.0, 20.5, 99.0]' in told
    assert told.count("[[attributes]]") == 1
    refused = run("draft", "--data", "people.csv", "--interactive", stdin="none\n" * 3)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "expected a kind for at least one column, got none" in refused.stderr


# --- ``pmw check``: exact facts, a warning first, and nothing else anywhere ---------------------------------


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


def test_a_check_tells_what_lookups_call_and_counts_impossible_records(table: Path, run: Run) -> None:
    rows = "work,name\npublic,Public service\n" + "".join(f"x{place},none\n" for place in range(7))
    (table / "names.csv").write_text(rows)
    conditions = ("age < 10", "age >= 30 AND work = 'public'")
    sections = "".join(f'[[impossible]]\nwhere = "{where}"\n' for where in conditions)
    lookups = '[lookups.works]\nattribute = "work"\nfile = "names.csv"\n'
    (table / "t.toml").write_text(SCHEMA + sections + lookups)
    lines = run(*CHECK).stdout.splitlines()
    assert lines[0] == "t.csv: 6 records; a session keeps 0 and drops 6."
    assert [line for line in lines if "Impossible" in line] == [
        "Impossible, and dropped: 1 record where age < 10.",
        "Impossible, and dropped: 1 record where age >= 30 AND work = 'public'.",
    ]
    assert lines[-1] == (
        "Lookup 'works' of 'work' (name): 8 keys; declared values without one: private; "
        "keys that are no declared value: x0, x1, x2, x3, x4, …."
    )
    form = json.loads(run(*CHECK, "--json").stdout)
    assert form["impossible"] == dict.fromkeys(conditions, 1)
    assert form["lookups"] == [{
        "name": "works", "attribute": "work", "key": "work", "columns": ["name"], "keys": 8,
        "unnamed": ["private"], "undeclared": [f"x{place}" for place in range(7)],
    }]  # fmt: skip


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


@pytest.mark.parametrize(
    ("declared", "written", "way"),
    [("K\u00f6ln", "Ko\u0308ln", "apart"), ("Ko\u0308ln", "K\u00f6ln", "together")],
)
def test_a_value_whose_accents_are_written_another_way_is_told_from_the_declared_one(
    table: Path, run: Run, declared: str, written: str, way: str
) -> None:
    (table / "t.toml").write_text(SCHEMA.replace("private", declared), encoding="utf-8")
    (table / "t.csv").write_text(f"age,work\n1,{written}\n2,public\n", encoding="utf-8")
    told = run.told(*CHECK)
    assert f"work: undeclared '{written}' (1)" in told  # nothing is folded
    assert f"  {written!a} is '{declared}' with its accents written {way}: write it in the schema as " in told


def test_a_missing_column_is_told_with_exit_code_1_and_no_name_moves_the_cursor(
    table: Path, run: Run
) -> None:
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
    (table / "t.csv").write_text("age,work,\x1b[2J\n1,\x1b[2J,x\n")
    shown = run(*CHECK).stdout
    assert "\x1b" not in shown
    assert "'\\x1b[2J' (1)" in shown


# --- tables that were meant otherwise ----------------------------------------------------------------------


def test_a_check_that_would_keep_nothing_warns_and_fails(table: Path, run: Run) -> None:
    for rows in ("age,work\n", "age,work\nx,x\ny,y\n"):
        (table / "t.csv").write_text(rows)
        result = run(*CHECK)
        assert result.exit_code == 1
        assert "Warning: a session would " in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(("delimiter", "typed"), [("\t", "tab"), ("|", "'|'")])
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
COMMANDS = (
    CHECK,
    ("plan", "--schema", "t.toml", "--records", "1000", "--epsilon", "1"),
    ("open", "s.pmw", "--data", "t.csv", "--schema", "t.toml", "--epsilon", "1"),
)


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_schema_past_what_fits_is_refused_in_words_before_anything_is_read(
    table: Path, run: Run, kind: str
) -> None:
    attributes, message = TOO_LARGE[kind]
    (table / "t.toml").write_text('name = "people"\n' + attributes)
    for command in COMMANDS:
        refused = run(*command)
        assert refused.exit_code != 0
        assert message in " ".join(refused.stderr.split())
    assert {path.name for path in table.iterdir()} == {"t.csv", "t.toml"}
