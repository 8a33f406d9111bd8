"""A command line over a small study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from pmw.cli import main
from queries import Domain, save_schema


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return runner.invoke(main, list(arguments), input=stdin, prog_name="pmw")

    return invoke


@pytest.fixture
def people(tmp_path: Path, frame: pd.DataFrame, domain: Domain) -> Path:
    """Write a table and its schema, and return their folder."""
    frame.to_csv(tmp_path / "people.csv", index=False)
    save_schema(domain, tmp_path / "people.toml")
    return tmp_path


OPEN = ("open", "study.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")


@pytest.fixture
def study(people: Path, run: Callable[..., Result]) -> Path:
    """Open a session and return its path."""
    result = run(*OPEN, "--delta", "1e-9")
    assert result.exit_code == 0, result.output
    return people / "study.pmw"


TEXTBOOK = (*OPEN, "--test", "query")


@pytest.fixture
def textbook_study(people: Path, run: Callable[..., Result]) -> Path:
    """Open a session that tests single questions, for a small table is measured whole; return its path."""
    result = run(*TEXTBOOK, "--delta", "1e-9")
    assert result.exit_code == 0, result.output
    return people / "study.pmw"
