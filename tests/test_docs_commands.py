"""Every command in the documents is run, in order, and prints what the documents show.

A ``console`` block holds commands after ``$`` and what they print. Numbers differ from run to run, so they
are compared as numbers and not by value, and columns by their order and not by their width.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# Run by the continuous integration and the newcomer, not from within the tests.
INSTALLING = re.compile(r"(\.venv/bin/|python3 -m venv|uv |pip |mkdir |\. )")


def sessions(path: Path) -> list[tuple[str, str]]:
    """Return the commands of a document with what they print, in order."""
    found = []
    for block in CONSOLE.findall(path.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                more, _, output = output.partition("\n")
                command = command[:-1].rstrip() + " " + more.lstrip("> ").strip()
            found.append((command, output))
    return found


WITH_COMMANDS = [path for path in DOCUMENTS if sessions(path)]


# Where an answer comes from is a matter of chance where an error is near the threshold.
SOURCE = re.compile(
    r"synthetic: from the model; released numbers bound its error|measured: measured for this question"
    r'|(?<="source": ")(synthetic|measured)|(synthetic|measured)$'
)


COUNTED = re.compile(r"# ([a-z]+?)s?\b")


def normal(text: str) -> list[str]:
    """Return the lines of an output with every number as #, its noun as of one, and runs of blanks as one."""
    lines = []
    for line in text.splitlines():
        shown = re.sub(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", "#", SOURCE.sub("SOURCE", line))
        lines.append(COUNTED.sub(r"# \1", re.sub(r"\s+", " ", shown)).strip())
    return [line for line in lines if line]


def agree(shown: list[str], printed: list[str]) -> bool:
    """Compare lines; a line of … alone in a document stands for any lines."""
    if "…" in shown:
        place = shown.index("…")
        tail = shown[place + 1 :]
        return printed[:place] == shown[:place] and (not tail or printed[-len(tail) :] == tail)
    return shown == printed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder where ``pmw`` and ``python`` are this project's, and the guides' files stand ready."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("pmw", "-m pmw "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def run(command: str, folder: Path) -> str:
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: path.name)
def test_commands_print_what_the_documents_show(path: Path, folder: Path) -> None:
    if path.name != "README.md":
        run("python examples/people.py", folder)
    for command, shown in sessions(path):
        printed = run(command, folder)
        assert agree(normal(shown), normal(printed)), f"$ {command}\n{printed}"


def test_the_guides_show_commands() -> None:
    assert {"README.md", "custodian.md", "analyst.md"} <= {path.name for path in WITH_COMMANDS}


def test_commands_without_output_are_those_that_install() -> None:
    for path in DOCUMENTS:
        for block in SHELL.findall(path.read_text()):
            for line in block.splitlines():
                command = line.split("#")[0].strip()
                assert not command or INSTALLING.match(command), f"{path.name}: {command}"


def test_outputs_that_differ_are_noticed() -> None:
    assert agree(normal("About 12 records (3.4%)"), normal("About 1,234.5  records (99%)"))
    assert agree(normal("1 record"), normal("0 records"))
    assert not agree(normal("About 12 records"), normal("About twelve records"))
    assert not agree(normal("1 record"), normal("2 answers"))
    assert agree(normal("one\n…\nlast 3"), normal("one\ntwo\nthree\nlast 77"))
    assert not agree(normal("one\n…\nlast 3"), normal("one\ntwo\nthree"))
    assert not agree(normal("one"), normal("one\ntwo"))
