"""A command line over a small study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from queries import Domain, save_schema
from tests import worlds
from tests.pmw.cli.commands import OPEN, Run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Run()


@pytest.fixture
def people(tmp_path: Path, frame: pd.DataFrame, domain: Domain) -> Path:
    """Write a table and its schema, and return their folder."""
    frame.to_csv(tmp_path / "people.csv", index=False)
    save_schema(domain, tmp_path / "people.toml")
    return tmp_path


@pytest.fixture
def study(people: Path, run: Run) -> Path:
    """Open a session and return its path."""
    run.told(*OPEN, "--delta", "1e-9")
    return people / "study.pmw"


@pytest.fixture
def textbook_study(people: Path, run: Run) -> Path:
    """Open a session that tests single questions, for a small table is measured whole; return its path."""
    run.told(*OPEN, "--test", "query", "--delta", "1e-9")
    return people / "study.pmw"


Opener = Callable[[str], Path]


@pytest.fixture
def open_years(run: Run, frame: pd.DataFrame, tmp_path: Path) -> Opener:
    """Open a session over single years at an epsilon: its table is too large to be measured whole."""

    def opened(epsilon: str) -> Path:
        frame.to_csv(tmp_path / "people.csv", index=False)
        save_schema(worlds.YEARS.domain, tmp_path / "people.toml")
        run.told(*OPEN[:-1], epsilon, "--delta", "1e-9", "--opening", "one-way")
        return tmp_path / "study.pmw"

    return opened


@pytest.fixture
def yearly_study(open_years: Opener) -> Path:
    """Open a session over single years, so that tables are left to be paid, and return its path."""
    return open_years("1")


@pytest.fixture
def asked_years(open_years: Opener, run: Run) -> Path:
    """Open a session over single years, measure two pairs, ask two questions, and return its path."""
    path = open_years("4")
    for pair in ("sex,member", "region,member"):
        run.told("measure", "study.pmw", pair, "--at-most", "100%")
    for text in ("sex = 'Male' AND member = true", "region = 'north' AND member = true"):
        run.told("ask", "study.pmw", text)
    return path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find themselves on a terminal."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
