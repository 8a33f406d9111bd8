"""The page of the benchmarks has every command; those in documents exist; values that differ are found."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.values import WORLDS, compared, measured

ROOT = Path(__file__).parent.parent.parent
MODULES = {path.stem: path.read_text() for path in (ROOT / "benchmarks").glob("*.py")}
COMMANDS = {name: text for name, text in MODULES.items() if 'if __name__ == "__main__"' in text}
PAGE = (ROOT / "benchmarks" / "README.md").read_text()
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
}


def called(text: str, start: str) -> list[tuple[str, list[str]]]:
    """Return the commands that stand between backquotes, with their options."""
    found = re.findall(rf"`{start}(\w+)((?:\s[^`]*)?)`", text)
    return [(name, re.findall(r"--[a-z-]+", rest)) for name, rest in found]


def test_every_command_and_every_shared_module_is_on_the_page() -> None:
    named = {name for name, _ in called(PAGE, "")}
    assert set(MODULES) <= named
    assert len(MODULES) <= 25


@pytest.mark.parametrize("name", ["README.md of benchmarks", *sorted(DOCUMENTS)])
def test_every_command_in_the_documents_exists(name: str) -> None:
    text = DOCUMENTS.get(name)
    table = "\n".join(line.partition(" | ")[2] for line in PAGE.splitlines() if line.startswith("| "))
    for command, options in called(table, "") if text is None else called(text, r"python -m benchmarks\."):
        assert command in COMMANDS, command
        for option in options:
            assert f'"{option}"' in COMMANDS[command] + MODULES["runner"], f"{command} {option}"


def test_a_session_has_the_same_values_again() -> None:
    one, two = (measured(WORLDS["small"], 1) for _ in range(2))
    assert set(one) == set(two) >= {"single", "stream", "arrays", "ledger", "quantiles", "rows"}
    for part, columns in one.items():
        assert list(compared(columns, two[part])) == []
    assert {"count", "ends", "source", "version", "share", "kind"} <= set(one["arrays"])


def test_a_value_that_differs_is_found() -> None:
    before = {"count": np.array([1.0, 2.0]), "source": np.array(["measured", "synthetic"])}
    after = {"count": np.array([1.0, 2.5]), "source": np.array(["measured", "measured"])}
    count, source = compared(before, after)
    assert (count["column"], count["equal"], count["elsewhere"]) == ("count", 1, 1)
    assert count["largest"] == pytest.approx(0.25)
    assert (source["column"], source["different"]) == ("source", 1)
    assert [line["only"] for line in compared(before, {"count": before["count"]})] == ["before"]


def test_ends_are_told_by_how_they_moved() -> None:
    nan = np.nan
    before = np.array([[0, 10], [0, 10], [0, 10], [0, 10], [0, 10], [0, 10], [nan, nan]], dtype=np.float64)
    after = before + np.array([[0, 0], [0, 1e-12], [1, -1], [-1, 2], [1, 1], [nan, nan], [0, 0]])
    after[6] = 0, 1
    (line,) = compared({"ends": before}, {"ends": after})
    kinds = "equal", "close", "narrower", "wider", "elsewhere", "lost", "gained"
    assert [line[kind] for kind in kinds] == [1] * 7
    assert line["width"] == [0.8, 1.3]
