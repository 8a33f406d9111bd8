"""Completion: the script is printed, and the shell's question is answered with commands and options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import Result

Run = Callable[..., Result]


def completed(words: str, position: int) -> list[str]:
    """Return what bash is offered for the word at a position of a line."""
    asked = {"_PMW_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [sys.executable, "-m", "pmw"], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(run: Run, shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_PMW_COMPLETE={shell}_complete" in result.stdout
    assert result.stderr == ""


def test_bash_can_read_its_script(run: Run) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    script = run("completion", "bash").stdout + "complete -p pmw\n"
    done = subprocess.run([bash, "--norc"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout == "complete -o nosort -F _pmw_completion pmw\n"


@pytest.mark.parametrize(
    ("words", "position", "offered"),
    [
        ("pmw ex", 1, ["export"]),
        ("pmw co", 1, ["completion"]),
        ("pmw completion ", 2, ["bash", "zsh", "fish"]),
        ("pmw export --fo", 2, ["--format", "--force"]),
        ("pmw export study.pmw --format ", 4, ["csv", "parquet", "measurements"]),
        ("pmw check --miss", 2, ["--missing-text"]),
        ("pmw open study.pmw --neighbors ", 4, ["add-remove", "replace-one"]),
    ],
)
def test_commands_options_and_choices_are_completed(words: str, position: int, offered: list[str]) -> None:
    assert completed(words, position) == offered


def test_an_unknown_shell_is_a_usage_error(run: Run) -> None:
    result = run("completion", "tcsh")
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
