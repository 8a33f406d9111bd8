"""A command line over a small study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from pmw.cli import main
from queries import Domain, save_schema
from tests import worlds


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


Opener = Callable[[str], Path]


@pytest.fixture
def open_years(run: Callable[..., Result], frame: pd.DataFrame, tmp_path: Path) -> Opener:
    """Open a session over single years at an epsilon: its table is too large to be measured whole."""

    def opened(epsilon: str) -> Path:
        frame.to_csv(tmp_path / "people.csv", index=False)
        save_schema(worlds.YEARS.domain, tmp_path / "people.toml")
        result = run(*OPEN[:-1], epsilon, "--delta", "1e-9")
        assert result.exit_code == 0, result.output
        return tmp_path / "study.pmw"

    return opened


@pytest.fixture
def yearly_study(open_years: Opener) -> Path:
    """Open a session over single years, so that tables are left to be paid, and return its path."""
    return open_years("1")


@pytest.fixture
def asked_years(open_years: Opener, run: Callable[..., Result]) -> Path:
    """Open a session over single years, measure two pairs, ask two questions, and return its path."""
    path = open_years("4")
    for pair in ("sex,member", "region,member"):
        assert run("measure", "study.pmw", pair, "--yes").exit_code == 0
    for text in ("sex = 'Male' AND member = true", "region = 'north' AND member = true"):
        assert run("ask", "study.pmw", text).exit_code == 0
    return path


TEXTBOOK = (*OPEN, "--test", "query")


@pytest.fixture
def textbook_study(people: Path, run: Callable[..., Result]) -> Path:
    """Open a session that tests single questions, for a small table is measured whole; return its path."""
    result = run(*TEXTBOOK, "--delta", "1e-9")
    assert result.exit_code == 0, result.output
    return people / "study.pmw"
