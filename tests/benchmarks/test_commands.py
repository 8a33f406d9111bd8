"""The page of the benchmarks: every command is on it, and those in the documents exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def test_links_of_the_page_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / "benchmarks" / link).exists()] == []
