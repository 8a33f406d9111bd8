"""The options that limit the memory of a table's records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from pmw.data import MemoryLimit
from pmw.session.maintenance import remembered_table

Run = Callable[..., Result]


def test_sizes_are_read_and_remembered(people: Path, run: Run) -> None:
    opening = ("open", "study.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
    assert run(*opening, "--memory", "1.5gib", "--temporary-folder", ".").exit_code == 0
    before = remembered_table(people / "study.pmw")
    assert before is not None
    assert before.memory == MemoryLimit(3 * 2**29, Path.cwd())
    assert run("move", "study.pmw", "--data", "people.csv").exit_code == 0
    assert remembered_table(people / "study.pmw") == before
    assert run("move", "study.pmw", "--data", "people.csv", "--memory", "20 MB").exit_code == 0
    after = remembered_table(people / "study.pmw")
    assert after is not None
    assert after.memory == MemoryLimit(2 * 10**7)
