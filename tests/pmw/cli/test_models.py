"""Models in place of a session: what reads one, what says that it cannot, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pmw.cli.commands import TABLE, Run

QUESTION = "age >= 40 AND sex = 'Male'"


@pytest.fixture
def model(study: Path, run: Run) -> Path:
    """Write the model of a session, take the session and its table away, and return the model's file."""
    run.told("ask", "study.pmw", QUESTION)
    written = run.told("export", "study.pmw", "--output", "study.model")
    assert "to study.model; pmw ask answers from it." in written
    assert written.endswith("It is public, and holds the guarantee in full.\n")
    for path in study.parent.glob("*.pmw*"):
        path.rename(path.with_name(f"away-{path.name}"))
    (study.parent / "people.csv").unlink()
    return study.parent / "study.model"


def test_a_model_is_asked_as_its_session_is(model: Path, run: Run) -> None:
    before = model.read_bytes()
    assert run.form("ask", "study.model", QUESTION) == run.form("ask", "away-study.pmw", QUESTION)
    assert run.told("ask", "study.model", QUESTION).startswith("About ")
    statement = "SELECT sex, COUNT(*), AVG(age) FROM people GROUP BY sex"
    assert run.told("ask", "study.model", "--sql", statement).startswith("sex")
    lines = b'{"id": 1, "where": "age >= 40"}\n{"id": 2, "sql": "SELECT AVG(age) FROM people"}\n{"id": 3}\n'
    assert [form["id"] for form in run.forms("ask", "study.model", "--stream", stdin=lines)] == [1, 2, 3]
    assert len(run.forms("ask", "study.model", "--workload", "marginals:1")) == 10 + 2 + 6 + 2
    assert "guarantee" in run.told("status", "study.model")
    assert run.form("status", "study.model")["table"] == "people"
    assert sorted(path.name for path in model.parent.glob("study*")) == ["study.model"]
    assert model.read_bytes() == before
    run.refused("status", "study.model", "--plot", "a.png", code=2)
    within = run.refused("ask", "study.model", QUESTION, "--within", "10", code=2)
    assert "a model measures nothing" in within


@pytest.mark.parametrize(
    "command",
    [
        ("verify",), ("close", "--yes"), ("ledger",), ("backup", "--output", "b.pmw"), ("shell",),
        ("move", "--data", "people.csv"), ("measure", "sex"),
        ("finish", "--yes"), ("report", "-o", "report.html"), ("open", *TABLE, "--epsilon", "1"),
    ],
    ids=lambda command: str(command[0]),
)  # fmt: skip
def test_a_command_that_needs_the_session_says_so(model: Path, run: Run, command: tuple[str, ...]) -> None:
    (model.parent / "people.csv").write_text("age,sex,region,member\n")
    refused = run.refused(command[0], "study.model", *command[1:])
    assert refused.count("\n") == 1
    assert "a model or other JSON" in refused


def test_a_model_is_exported_as_a_session_is(model: Path, run: Run) -> None:
    told = run.told("export", "study.model", "--output", "rows.csv", "--rows", "25", "--seed", "1")
    assert told.startswith("Wrote 25 synthetic rows to rows.csv")
    assert len((model.parent / "rows.csv").read_text().splitlines()) == 26
    run.told("export", "study.model", "--output", "again.model")
    assert (model.parent / "again.model").read_bytes() == model.read_bytes()
    run.refused("export", "study.model", "--output", "again.model")


@pytest.mark.parametrize("content", [b"{}", b'{"content":"online-pmw model"', b"{" * 100_000])
def test_what_is_wrong_with_a_file_is_told(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.model").write_bytes(content)
    message = "bad.model: the file is no model, or it is damaged"
    for command in (("ask", "bad.model", "age > 3"), ("status", "bad.model")):
        assert run.refused(*command, code=5) == f"Error: {message}\n"
        told = run(*command, "--json")
        assert told.exit_code == 5
        assert json.loads(told.stdout) == {"error": {"code": "bad_model", "message": message}}


def test_a_session_that_is_called_a_model_is_a_session(study: Path, run: Run) -> None:
    for path in study.parent.glob("study.pmw*"):
        path.rename(path.with_name(path.name.replace("study.pmw", "study.model")))
    run.told("ask", "study.model", QUESTION)
    run.told("verify", "study.model")


def test_a_model_has_no_rows_to_draw(study: Path, run: Run) -> None:
    export = ("export", "study.pmw", "--format", "model", "--output")
    about = run.form(*export, "a.json")
    assert (about["format"], about["measurements"]) == ("model", 1)
    assert about["bytes"] == (study.parent / "a.json").stat().st_size
    run.refused(*export, "a.json")
    run.refused(*export, "study.pmw", "--force", code=2)
