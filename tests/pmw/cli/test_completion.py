"""Completion: the documented line works, and the shell's question is answered with commands and options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def completed(words: str, position: int) -> list[str]:
    """Return what bash is offered for the word at a position of a line."""
    asked = {"_PMW_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [sys.executable, "-m", "pmw"], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


def test_bash_completes_after_the_documented_line(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    tour = (ROOT / "docs" / "tour.md").read_text()
    (line,) = re.findall(r"`(eval .*_PMW_COMPLETE=.*)` has the shell", tour)
    command = tmp_path / "pmw"
    command.write_text(f'#!{bash}\nexec "{sys.executable}" -m pmw "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [bash, "--norc", "-c", f"{line}\ncomplete -p pmw"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o nosort -F _pmw_completion pmw\n"


@pytest.mark.parametrize(
    ("words", "position", "offered"),
    [
        ("pmw ex", 1, ["export"]),
        ("pmw c", 1, ["check", "close"]),
        ("pmw export --fo", 2, ["--format", "--force"]),
        ("pmw export study.pmw --format ", 4, ["csv", "parquet", "measurements", "model"]),
        ("pmw check --miss", 2, ["--missing-text"]),
        ("pmw open study.pmw --neighbors ", 4, ["add-remove", "replace-one"]),
    ],
)
def test_commands_options_and_choices_are_completed(words: str, position: int, offered: list[str]) -> None:
    assert completed(words, position) == offered
