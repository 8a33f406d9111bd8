"""Models in place of a session: what reads one, what says that it cannot, and what is wrong with a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pmw.cli.main import main

Run = Callable[..., Result]
QUESTION = "age >= 40 AND sex = 'Male'"


@pytest.fixture
def model(study: Path, run: Run) -> Path:
    """Write the model of a session, take the session and its table away, and return the model's file."""
    assert run("ask", "study.pmw", QUESTION).exit_code == 0
    written = run("export", "study.pmw", "--output", "study.model")
    assert written.exit_code == 0, written.output
    assert "to study.model; pmw ask answers from it." in written.stdout
    assert written.stdout.endswith("It is public, and holds the guarantee in full.\n")
    for path in study.parent.glob("*.pmw*"):
        path.rename(path.with_name(f"away-{path.name}"))
    (study.parent / "people.csv").unlink()
    return study.parent / "study.model"


def test_a_model_is_asked_as_its_session_is(model: Path, run: Run) -> None:
    before = model.read_bytes()
    answered = run("ask", "study.model", QUESTION, "--json")
    assert answered.exit_code == 0, answered.output
    expected = json.loads(run("ask", "away-study.pmw", QUESTION, "--json").stdout)
    assert json.loads(answered.stdout) == expected
    assert run("ask", "study.model", QUESTION).stdout.startswith("About ")
    grouped = run("ask", "study.model", "--sql", "SELECT sex, COUNT(*), AVG(age) FROM people GROUP BY sex")
    assert grouped.stdout.startswith("sex")
    lines = b'{"id": 1, "where": "age >= 40"}\n{"id": 2, "sql": "SELECT AVG(age) FROM people"}\n{"id": 3}\n'
    streamed = run("ask", "study.model", "--stream", stdin=lines)
    assert [json.loads(line)["id"] for line in streamed.stdout.splitlines()] == [1, 2, 3]
    workload = run("ask", "study.model", "--workload", "marginals:1")
    assert len(workload.stdout.splitlines()) == 10 + 2 + 6 + 2
    assert sorted(path.name for path in model.parent.glob("study*")) == ["study.model"]
    assert model.read_bytes() == before


def test_a_model_shows_its_status(model: Path, run: Run) -> None:
    shown = run("status", "study.model")
    assert "guarantee" in shown.stdout
    assert json.loads(run("status", "study.model", "--json").stdout)["table"] == "people"
    assert run("status", "study.model", "--plot", "a.png").exit_code == 2


def test_what_measures_is_refused(model: Path, run: Run) -> None:
    refused = run("ask", "study.model", QUESTION, "--within", "10")
    assert refused.exit_code == 2
    assert "a model measures nothing" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("verify",), ("close", "--yes"), ("ledger",), ("backup", "--output", "b.pmw"),
        ("move", "--data", "away.csv"), ("export", "--output", "rows.csv"), ("measure", "sex"),
        ("finish", "--yes"), ("report", "-o", "report.html"),
        ("shell",), ("open", "--data", "away.csv", "--schema", "people.toml", "--epsilon", "1"),
    ],
    ids=lambda command: str(command[0]),
)  # fmt: skip
def test_a_command_that_needs_the_session_says_so(model: Path, run: Run, command: tuple[str, ...]) -> None:
    (model.parent / "away.csv").write_text("age,sex,region,member\n")
    refused = run(command[0], "study.model", *command[1:])
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert "a model or other JSON" in refused.stderr


def test_every_command_that_takes_a_session_was_tried() -> None:
    named = {
        "ask", "backup", "close", "export", "finish", "ledger", "measure", "move", "open", "report", "shell",
        "status", "verify",
    }  # fmt: skip
    commands = {name: main.get_command(None, name) for name in main.list_commands(None)}  # type: ignore[arg-type]
    taking = {
        name
        for name, command in commands.items()
        if command is not None and any(one.name == "session" for one in command.params)
    }
    assert taking == named


@pytest.mark.parametrize("content", [b"{}", b'{"content":"online-pmw model"', b"{" * 100_000])
def test_what_is_wrong_with_a_file_is_told(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.model").write_bytes(content)
    for command in (("ask", "bad.model", "age > 3"), ("status", "bad.model")):
        plain = run(*command)
        assert plain.exit_code == 5
        assert plain.stderr == "Error: bad.model: the file is no model, or it is damaged\n"
        told = run(*command, "--json")
        assert told.exit_code == 5
        message = "bad.model: the file is no model, or it is damaged"
        assert json.loads(told.stdout) == {"error": {"code": "bad_model", "message": message}}


def test_a_session_that_is_called_a_model_is_a_session(study: Path, run: Run) -> None:
    for path in study.parent.glob("study.pmw*"):
        path.rename(path.with_name(path.name.replace("study.pmw", "study.model")))
    assert run("ask", "study.model", QUESTION).exit_code == 0
    assert run("verify", "study.model").exit_code == 0


def test_a_model_has_no_rows_to_draw(study: Path, run: Run) -> None:
    for option in (("--rows", "3"), ("--refine",), ("--seed", "1")):
        refused = run("export", "study.pmw", "--output", "study.model", *option)
        assert refused.exit_code == 2
        assert "--format model has no rows: leave out" in refused.stderr
    written = run("export", "study.pmw", "--output", "a.json", "--format", "model", "--json")
    about = json.loads(written.stdout)
    assert (about["format"], about["measurements"]) == ("model", 1)
    assert about["bytes"] == (study.parent / "a.json").stat().st_size
    assert run("export", "study.pmw", "--output", "a.json", "--format", "model").exit_code == 1
    assert run("export", "study.pmw", "--output", "study.pmw", "--format", "model", "--force").exit_code == 2
