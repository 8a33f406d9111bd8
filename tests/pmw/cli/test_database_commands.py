"""Commands over a table of a database."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from pmw.data import DatabaseTable
from pmw.session.maintenance import remembered_table
from tests.pmw.cli.commands import Run

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
