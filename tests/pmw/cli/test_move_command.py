"""``pmw move``, what other commands do where a table is gone, and how much memory its records may take."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import pmw
from pmw.data import DatabaseTable, MemoryLimit
from pmw.session.maintenance import read_ledger, remembered_table
from tests.pmw.cli.commands import OPEN, Run

QUESTION = "age >= 40 AND sex = 'Male'"
MOVE = ("move", "study.pmw", "--data")


def remembered(path: Path) -> pmw.TableFile:
    table = remembered_table(path)
    assert isinstance(table, pmw.TableFile)
    return table


def test_a_guess_of_the_table_is_wrong_usage_whether_it_is_right_or_not(
    textbook_study: Path, run: Run
) -> None:
    before = read_ledger(textbook_study)
    (textbook_study.parent / "guess.csv").write_text("age,sex,region,member\n30,Male,north,True\n")
    for command in (("ask", "study.pmw", QUESTION, "--fresh"), ("close", "study.pmw", "--yes")):
        told = {run.refused(*command, "--data", name, code=2) for name in ("people.csv", "guess.csv")}
        assert len(told) == 1
        assert "No such option '--data'" in told.pop()
    assert read_ledger(textbook_study) == before


def test_commands_go_on_from_a_tables_new_place(
    textbook_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = textbook_study.parent
    (folder / "new").mkdir()
    (folder / "people.csv").rename(folder / "new" / "people.csv")
    asked = run.refused("ask", "study.pmw", QUESTION)
    assert asked.startswith("Error: expected a readable file, got ")
    assert asked.endswith("; where the table was moved, name its new place with pmw move\n")
    before = read_ledger(textbook_study)
    moved = run(*MOVE, "new/people.csv")
    assert (moved.exit_code, moved.stderr) == (0, "")
    assert moved.stdout == "study.pmw reads its table from new/people.csv from now on; nothing was spent.\n"
    assert read_ledger(textbook_study) == before
    monkeypatch.chdir(folder / "new")
    run.told("ask", "../study.pmw", QUESTION)


def test_a_dialect_and_a_size_are_kept_unless_others_are_given(people: Path, run: Run) -> None:
    table, study = people / "people.csv", people / "study.pmw"
    shutil.copy(table, people / "plain.csv")
    table.write_text(table.read_text().replace(",", ";"))
    written = ("--delimiter", ";", "--missing-text", "NA")
    run.told(*OPEN, "--delta", "1e-9", *written, "--memory", "1.5gib", "--temporary-folder", ".")
    before = remembered(study)
    assert before.memory == MemoryLimit(3 * 2**29, Path.cwd())
    table.rename(people / "moved.csv")
    run.told(*MOVE, "moved.csv")
    after = remembered(study)
    assert (after.path, after.dialect, after.memory) == (people / "moved.csv", before.dialect, before.memory)
    run.refused(*MOVE, "plain.csv")
    run.told(*MOVE, "plain.csv", "--delimiter", ",", "--memory", "20 MB")
    last = remembered(study)
    assert (last.dialect.delimiter, last.dialect.missing_texts) == (",", ())
    assert last.memory == MemoryLimit(2 * 10**7)


def test_books_exports_and_backups_need_no_table(textbook_study: Path, run: Run) -> None:
    run.told("ask", "study.pmw", QUESTION)  # says what it charged, once
    known = run.told("ask", "study.pmw", QUESTION)
    (textbook_study.parent / "people.csv").unlink()
    before = read_ledger(textbook_study)
    assert run.told("ask", "study.pmw", QUESTION) == known
    run.told("ask", "study.pmw", "age >= 40")
    stream = '{"id": 1, "where": "age >= 44"}\n{"id": 2, "where": "age >= 44 AND member = TRUE"}\n'
    result = run("ask", "study.pmw", "--stream", stdin=stream)
    assert result.exit_code == 1
    assert [line[:8] for line in result.stdout.splitlines()] == ['{"id": 1']
    assert result.stderr.count("\n") == 1
    assert "name its new place with pmw move" in result.stderr
    for command in (
        ("status", "study.pmw"),
        ("ledger", "study.pmw"),
        ("report", "study.pmw", "-o", "report.html"),
        ("verify", "study.pmw", "--anchor", "study.anchor"),
        ("export", "study.pmw", "--output", "rows.csv"),
        ("backup", "study.pmw", "--output", "copy.pmw"),
        ("close", "study.pmw", "--yes"),
    ):
        run.told(*command)
    assert read_ledger(textbook_study) == before


def test_a_folder_and_a_dialect_are_remembered(people: Path, run: Run, frame: pd.DataFrame) -> None:
    frame.iloc[:200].to_csv(people / "some.csv", index=False, sep="\t", encoding="latin-1")
    for part, rows in (("a", slice(0, 90)), ("b", slice(90, 200))):
        (people / "parts" / part).mkdir(parents=True)
        frame.iloc[rows].to_csv(people / "part.csv", index=False)
        source, target = people / "part.csv", people / "parts" / part / "0.parquet"
        duckdb.execute(f"COPY (FROM '{source}') TO '{target}' (FORMAT parquet)")
    rest = ("--schema", "people.toml", "--epsilon", "1")
    written = ("--delimiter", "\\t", "--encoding", "latin-1", "--quote", "")
    run.told("open", "text.pmw", "--data", "some.csv", *rest, *written)
    run.told("open", "parts.pmw", "--data", "parts", *rest)
    for name in ("text.pmw", "parts.pmw"):
        asked = run("ask", name, QUESTION, "--fresh")
        assert (asked.exit_code, asked.stderr) == (0, "")
    (people / "parts").rename(people / "moved")
    run.told("move", "parts.pmw", "--data", "moved/*/*.parquet")
    told = run.refused("export", "parts.pmw", "--output", "moved/a/0.parquet", "--force", code=2)
    assert "would overwrite the session's table" in told
    (people / "moved" / "c").mkdir()
    shutil.copy(people / "moved" / "a" / "0.parquet", people / "moved" / "c")
    assert "differs" in run.refused("move", "parts.pmw", "--data", "moved")


# --- Commands over a table of a database --------------------------------------------------------------------


FRAME = pd.DataFrame(
    {"id": ["a", "b", None, "a", "a"] * 40, "x": range(200), "sex": ["f", "m", "?", None, "f"] * 40}
)
SCHEMA = """
name = "people"
[[attributes]]
name = "x"
kind = "integer"
min = 0
max = 150
[[attributes]]
name = "sex"
kind = "categorical"
values = ["f", "m"]
missing = true
"""


def test_commands_find_the_table_again_and_refuse_it_where_it_changed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE SCHEMA study")
        connection.execute("CREATE TABLE study.people AS FROM frame ORDER BY hash(x)")
        connection.execute("CREATE VIEW seen AS SELECT DISTINCT * FROM study.people")
    (tmp_path / "people.toml").write_text(SCHEMA)
    table = ("--data", "duckdb:people.duckdb", "--table", "study.people")
    rest = ("--schema", "people.toml", "--person-column", "id", "--records-per-person", "3")
    assert "stored as BIGINT" in run.told("draft", *table)
    checked = run.told("check", *table, *rest)
    assert checked.startswith("study.people in duckdb:people.duckdb: 200 records;")
    assert "if '?' means empty, write NULL in the table instead" in checked
    run.told("open", "study.pmw", *table, *rest, "--epsilon", "1")
    assert remembered_table(tmp_path / "study.pmw") == DatabaseTable(
        f"duckdb:{tmp_path / 'people.duckdb'}", "study.people"
    )
    with monkeypatch.context() as patch:
        patch.chdir("/")
        elsewhere = run("ask", str(tmp_path / "study.pmw"), "x >= 70", "--fresh")
    assert (elsewhere.exit_code, elsewhere.stderr) == (0, "")
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    run.told("move", "study.pmw", "--data", "people.csv")
    moved = run.told("move", "study.pmw", "--data", "duckdb:people.duckdb", "--table", "seen")
    assert moved.startswith("study.pmw reads its table from seen in duckdb:people.duckdb from now on")
    run.refused("export", "study.pmw", "--output", "people.duckdb", "--format", "csv", "--force", code=2)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("UPDATE study.people SET sex = 'm' WHERE x = 0")
    refused = run.refused("move", "study.pmw", *table)
    assert refused == "Error: the table differs from the one that the session was opened on\n"
