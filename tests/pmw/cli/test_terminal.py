"""A terminal: no value that somebody else wrote acts on it, or changes the direction of what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import pmw.cli
from queries import CategoricalAttribute, Domain, IntegerAttribute, load_schema, save_schema
from tests.pmw.cli.commands import OPEN, Run

SEXES = ("m\x1b[2Jale", "\x1b]0;owned\x07", "\u202efemale\x9b1A", "two\nlines\u2028", "tag\U000e0041")
TITLE = "n\x1b]0;hi\x07\u2066"
SQL = f'SELECT sex, COUNT(*) AS "{TITLE}" FROM people GROUP BY sex'
CASE = "CASE WHEN age > 3 THEN '\x1b[31m' ELSE '\u202e' END"
COMMANDS = (
    ("ask", "--sql", SQL),
    ("ask", "--sql", SQL, "--json"),
    ("ask", "--sql", f"SELECT {CASE} AS k, COUNT(*) FROM people GROUP BY k"),
    ("ask", "--sql", "SELECT '\x1b[2J' AS a, COUNT(*) FROM people"),
    ("ask", "sex = 'm\x1b[2Jale'"),
    ("ask", "sex = '\x1b[2J'"),
    ("ask", f'"{TITLE}" = 3'),
    ("ask", "--sql", f'SELECT "{TITLE}" FROM people'),
    ("explain", "--sql", SQL),
    ("explain", "sex = 'm\x1b[2Jale'"),
    ("status",),
    ("status", "--json"),
    ("ledger",),
    ("shell",),
)
LINES = "\n".join(
    [
        ".schema sex",
        ".schema",
        ".explain sex = 'm\x1b[2Jale'",
        ".mode json",
        f"{SQL};",
        ".mode csv",
        f"{SQL};",
    ]
)


@pytest.fixture
def odd(run: Run, tmp_path: Path) -> Path:
    """Open a session over odd values, and write its model; return their folder."""
    domain = Domain((IntegerAttribute("age", 0, 9), CategoricalAttribute("sex", SEXES)), name="people")
    frame = pd.DataFrame({"age": range(10), "sex": [SEXES[number % len(SEXES)] for number in range(10)]})
    frame.to_parquet(tmp_path / "people.parquet")
    save_schema(domain, tmp_path / "people.toml")
    run.told(*(one.replace("people.csv", "people.parquet") for one in OPEN), "--delta", "1e-9")
    run.told("export", "study.pmw", "--format", "model", "--output", "ok.model")
    return tmp_path


@pytest.mark.parametrize("file", ["study.pmw", "ok.model"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(" ".join(command))[:40])
@pytest.mark.usefixtures("odd")
def test_no_command_has_a_terminal_act_on_a_value(
    run: Run, file: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_output = "click.testing._NamedTextIOWrapper.isatty"
    monkeypatch.setattr(is_output, lambda stream: stream.name != "<stdin>")
    result = run(command[0], file, *command[1:], stdin=LINES)
    assert result.exit_code in (0, 1, 2, 4), result.output  # 1: a model is no session
    assert result.output
    assert [one for one in result.output if not (one.isprintable() or one == "\n")] == []


@pytest.mark.usefixtures("odd")
def test_what_is_piped_says_the_same(run: Run, odd: Path) -> None:
    rows = run.form("ask", "ok.model", "--sql", SQL)["rows"]
    assert [row["sex"] for row in rows] == list(SEXES)
    assert all(TITLE in row for row in rows)
    shown = run.told("shell", "study.pmw", stdin=f".mode csv\n{SQL};\n")
    assert SEXES[0] in shown  # CSV is data
    drafted = run.told(
        "draft", "--data", "people.parquet", "--from-public", "people.parquet", "--data-is-public"
    )
    (odd / "drafted.toml").write_text(drafted)
    sexes = load_schema(odd / "drafted.toml")["sex"]
    assert {sexes.value(code) for code in range(sexes.base_size)} == set(SEXES)


def test_everything_is_told_through_one_function() -> None:
    folder = Path(pmw.cli.__file__).parent
    found = {file.name for file in folder.rglob("*.py") if "click.echo(" in file.read_text()}
    assert found == {"usage.py"}
    assert json.loads('"\\u001b"') == "\x1b"
