"""How a CSV file is written: told once, in the schema, and kept by what is exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pmw.cli.commands import Run

LINES = "".join(
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
DOMAIN = """\
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
CHECK = ("check", "--data", "table.csv", "--schema", "table.toml")
OPEN = ("open", "study.pmw", *CHECK[1:], "--epsilon", "2", "--delta", "1e-9")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(f"code;amount;day;town\n{LINES}", encoding="latin-1")
    (tmp_path / "table.toml").write_text(FILE + DOMAIN, encoding="utf-8")
    return tmp_path


def test_a_draft_tells_how_the_file_is_written_as_it_was_told(table: Path, run: Run) -> None:
    draft = run.told("draft", "--data", "table.csv", "--look", *TYPED)
    assert f'name = "records"\n\n{FILE}[[attributes]]\n' in draft
    assert 'name = "code"\n# Its texts: codes of digits.' in draft
    (table / "plain.csv").write_text("a,b\n" + "1,2\n" * 3)
    assert "[file]" not in run.told("draft", "--data", "plain.csv", "--look")


@pytest.mark.usefixtures("terminal")
def test_a_schema_that_is_asked_for_tells_it_too(table: Path, run: Run) -> None:
    typed = "none\n" + "numeric\n0, 5, 10\nn\nn\n" + "none\n" * 2
    told = run.told("draft", "--data", "table.csv", "--look", "--interactive", *TYPED, stdin=typed)
    assert told.startswith(f'name = "records"\n\n{FILE}[[attributes]]\nname = "amount"\n')


def test_what_the_schema_tells_is_read_and_what_is_typed_goes_first(table: Path, run: Run) -> None:
    by_schema = run.told(*CHECK, "--json")
    assert json.loads(by_schema)["kept"] == 400
    assert "a session would refuse this table" in run(*CHECK, "--delimiter", "|").output
    (table / "table.toml").write_text(FILE.replace(";", "|") + DOMAIN, encoding="utf-8")
    assert "a session would refuse this table" in run(*CHECK).output
    assert run.told(*CHECK, "--delimiter", ";", "--json") == by_schema
    (table / "table.toml").write_text(DOMAIN, encoding="utf-8")
    assert run.told(*CHECK, *TYPED, "--json") == by_schema
    (table / "table.toml").write_text(FILE.replace('";"', '";;"') + DOMAIN, encoding="utf-8")
    told = "table.toml: [file]: expected one ASCII character for delimiter, got ';;'"
    assert told in run.refused(*CHECK)  # no wrong usage, for nothing was typed
    assert run.told(*CHECK, "--delimiter", ";", "--json") == by_schema


def test_a_parquet_table_is_read_whatever_the_schema_tells_of_a_csv_file(table: Path, run: Run) -> None:
    run.told(*OPEN)
    run.told("export", "study.pmw", "--output", "rows.parquet")
    assert "a session keeps" in run.told("check", "--data", "rows.parquet", "--schema", "table.toml")


def test_exported_rows_are_read_by_the_schema_and_the_options_of_their_table(table: Path, run: Run) -> None:
    run.told(*OPEN)
    run.told("export", "study.pmw", "--output", "rows.csv", "--rows", "300")
    text = (table / "rows.csv").read_text(encoding="latin-1")
    assert text.startswith("amount;day;town\n")
    assert ";Köln\n" in text
    checked = run.form("check", "--data", "rows.csv", "--schema", "table.toml")
    assert checked["kept"] == 300
    assert all(one["undeclared"] == 0 for one in checked["attributes"])
    manifest = json.loads((table / "rows.csv.manifest.json").read_text())
    assert manifest["dialect"] == {
        "delimiter": ";", "missing_texts": ["NA"], "encoding": "iso8859-1", "decimal": ","
    }  # fmt: skip
    run.told("export", "study.pmw", "--output", "plain.csv", "--rows", "300", "--croissant")
    run.told("export", "study.pmw", "--output", "study.model")
    run.told("export", "study.model", "--output", "of_model.csv", "--rows", "300")
    for name in ("plain.csv", "of_model.csv"):
        assert (table / name).read_text(encoding="utf-8").startswith("amount,day,town\n")
        assert "dialect" not in json.loads((table / f"{name}.manifest.json").read_text())


def test_a_table_that_is_synthesized_is_written_as_its_own(table: Path, run: Run) -> None:
    run.told("synthesize", "table.csv", *CHECK[3:], "--epsilon", "2", "--delta", "1e-9", "-o", "rows.csv")
    assert (table / "rows.csv").read_text(encoding="latin-1").startswith("amount;day;town\n")
