"""Hostile input: each with its exact message. Nothing is spent, no traceback is shown, the stream goes on.

The table is ``hostile_inputs.json``: conditions and lines of a stream with code, message and position;
commands with exit code and message; schemas with what follows the file's name in the message. A line's bytes
are written as Latin-1; a long input is written as what it repeats.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from pmw.session.maintenance import read_session
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute

Run = Callable[..., Result]
TABLE: dict[str, list[list[Any]]] = json.loads(Path(__file__).with_name("hostile_inputs.json").read_text())


def whole(text: str | dict[str, Any]) -> str:
    """Return an input as it is given."""
    if isinstance(text, str):
        return text
    return "".join((text["before"], text["repeat"] * text["times"], whole(text["after"])))


CONDITIONS = [(whole(text), *rest) for text, *rest in TABLE["conditions"]]
LINES = [(whole(text).encode("latin-1"), *rest) for text, *rest in TABLE["lines"]]
if sys.version_info >= (
    3,
    13,
):  # the parser has words of its own for a comma before the end, and points at it
    OLDER = ("expected JSON: Expecting property name enclosed in double quotes", 13)
    NEWER = ("expected JSON: Illegal trailing comma before end of object", 12)
    LINES = [(line, code, *(NEWER if tuple(told) == OLDER else told)) for line, code, *told in LINES]
COMMANDS = [(tuple(arguments), *rest) for arguments, *rest in TABLE["commands"]]
SCHEMAS = [tuple(row) for row in TABLE["schemas"]]


@pytest.fixture
def domain() -> Domain:
    return Domain(
        (
            IntegerAttribute("age", 20, 59, 4),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", ("north", "east", "south", "west"), other=True, missing=True),
            CategoricalAttribute("member", (True, False)),
            NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
        ),
        name="people",
    )


@pytest.fixture
def frame() -> pd.DataFrame:
    generator = np.random.default_rng(20)
    return pd.DataFrame(
        {
            "age": generator.integers(18, 62, 300),
            "sex": generator.choice(["Female", "Male"], 300),
            "region": generator.choice(["north", "east", "abroad"], 300),
            "member": generator.random(300) < 0.5,
            "income": generator.integers(0, 60_000, 300),
        }
    )


@pytest.fixture
def hostile_files(study: Path) -> Path:
    """Files that are not what they should be, beside a session."""
    folder = study.parent
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("age,sex\n")
    Path("noheader.csv").write_text("20,Female,north,true,3\n")
    Path("bin.csv").write_bytes(bytes(range(256)) * 10)
    Path("dup.csv").write_text("age,age,sex,region,member,income\n")
    Path("bad.parquet").write_text("no parquet")
    Path("zero.pmw").write_text("")
    Path("text.pmw").write_text("hello\n" * 100)
    Path("latin.toml").write_bytes('name = "é"\n'.encode("latin-1"))
    shutil.copy("study.pmw", "newer.pmw")
    for name, statement in (("newer.pmw", "PRAGMA user_version = 99"), ("other.pmw", "CREATE TABLE t (x)")):
        with sqlite3.connect(name) as connection:
            connection.execute(statement)
        connection.close()
    Path("cut.pmw").write_bytes(study.read_bytes()[:5000])
    return folder


def test_there_are_many() -> None:
    tables = (CONDITIONS, LINES, COMMANDS, SCHEMAS)
    assert sum(map(len, tables)) > 200
    assert all(len({row[0] for row in table}) == len(table) for table in tables)


def test_conditions_are_refused_one_by_one_and_the_stream_goes_on(study: Path, run: Run) -> None:
    before = read_session(study)[1]
    lines = [json.dumps({"id": place, "where": row[0]}) for place, row in enumerate(CONDITIONS)]
    result = run("ask", "study.pmw", "--stream", stdin="\n".join([*lines, '{"id": "last", "where": ""}']))
    assert result.exit_code == 0
    assert result.stderr == f"{len(lines)} of {len(lines) + 1} questions were refused, at no cost\n"
    *forms, last = [json.loads(line) for line in result.stdout.splitlines()]
    for place, (form, row) in enumerate(zip(forms, CONDITIONS, strict=True)):
        code, message, position = row[1:]
        error = {"code": code, "message": message, "position": position}
        assert form == {"id": place, "error": error}, row[0][:80]
    assert last["fraction"] == 1.0
    after = read_session(study)[1]
    assert (after.budget_share, after.queries_answered) == (before.budget_share, 1)


@pytest.mark.parametrize("row", CONDITIONS[::7], ids=lambda row: row[0][:30])
def test_a_condition_alone_is_refused_with_the_same_message(
    study: Path, run: Run, row: tuple[Any, ...]
) -> None:
    result = run("ask", "study.pmw", "--", row[0])
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {row[2]}")
    assert "Traceback" not in result.output


def test_lines_are_refused_one_by_one_and_the_stream_goes_on(study: Path, run: Run) -> None:
    stream = b"\n".join([*(row[0] for row in LINES), b'{"id": "last", "where": ""}'])
    result = run("ask", "study.pmw", "--stream", stdin=stream)
    assert result.exit_code == 0
    assert result.stderr == f"{len(LINES)} of {len(LINES) + 1} questions were refused, at no cost\n"
    *forms, last = [json.loads(line) for line in result.stdout.splitlines()]
    for form, (line, code, message, position) in zip(forms, LINES, strict=True):
        assert form["error"] == {"code": code, "message": message, "position": position}, line[:80]
    assert last["fraction"] == 1.0
    assert read_session(study)[1].queries_answered == 1


@pytest.mark.parametrize(("arguments", "code", "message"), COMMANDS, ids=lambda value: str(value)[:60])
def test_commands_are_refused_in_one_line(
    hostile_files: Path, run: Run, arguments: tuple[str, ...], code: int, message: str
) -> None:
    before = {path.name: path.stat().st_size for path in hostile_files.iterdir()}
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    *usage, line = [line for line in result.stderr.splitlines() if not line.startswith("  ")]
    assert line == f"Error: {message}"
    assert bool(usage) == (code == 2) or arguments[0] == "check"
    after = {path.name: path.stat().st_size for path in hostile_files.iterdir()}
    made = {
        name
        for name in set(after) - set(before)
        if not name.endswith(("-lock", "-wal", "-shm", "-companion"))
    }
    assert made == set()
    assert after["study.pmw"] == before["study.pmw"]


@pytest.mark.parametrize(("schema", "message"), SCHEMAS, ids=lambda value: value[-40:])
def test_schemas_are_refused_by_line(study: Path, run: Run, schema: str, message: str) -> None:
    Path("bad.toml").write_text(schema)
    for command in (
        ("open", "x.pmw", "--data", "people.csv"),
        ("check", "--data", "people.csv"),
        ("plan", "--records", "100"),
    ):
        budget = () if command[0] == "check" else ("--epsilon", "1")
        result = run(*command, "--schema", "bad.toml", *budget)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == f"Error: bad.toml{message}"
    assert not Path("x.pmw").exists()


def test_a_folder_that_vanished_is_told(study: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    Path("people.csv").rename("gone/people.csv")
    shutil.rmtree(tmp_path / "gone")
    result = run("ask", "study.pmw", "age >= 32 AND member = TRUE")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: expected a readable file, got ")
    assert read_session(study)[1].queries_answered == 0
    assert run("ask", "study.pmw", "age >= 32").exit_code == 0  # released numbers need no table


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_missing_permissions_are_told(study: Path, run: Run) -> None:
    study.chmod(0o000)
    result = run("ask", "study.pmw", "age >= 32")
    assert result.exit_code in (1, 5)
    assert result.stderr.startswith("Error: ")
    study.chmod(0o600)
    Path("people.csv").chmod(0o000)
    result = run("open", "y.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
    assert result.exit_code == 1
    assert result.stderr == "Error: people.csv: the file could not be read as CSV\n"


def test_existing_files_are_kept_unless_told(study: Path, run: Run) -> None:
    Path("out.csv").write_text("mine")
    result = run("export", "study.pmw", "--output", "out.csv")
    assert result.exit_code == 1
    assert result.stderr == ("Error: out.csv exists; choose another name, or overwrite it with --force\n")
    assert Path("out.csv").read_text() == "mine"
    assert run("export", "study.pmw", "--output", "out.csv", "--force").exit_code == 0
    assert Path("out.csv").read_text() != "mine"


def test_a_folder_is_no_output(study: Path, run: Run) -> None:
    for name in (".", "/", "people.csv/x.csv"):
        result = run("export", "study.pmw", "--output", name, "--force")
        assert result.exit_code == 1, name
        assert result.stderr.startswith("Error: "), name
