"""Completion: the documented line works, and the shell's question is answered with commands and options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pmw.cli import main

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
    (line,) = re.findall(r"`(eval .*)` has the shell", tour)
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
        ("pmw c", 1, ["check", "close", "completion"]),
        ("pmw help op", 2, ["open"]),
        ("pmw completion ", 2, ["bash", "zsh", "fish"]),
        ("pmw export --fo", 2, ["--format", "--force"]),
        ("pmw export study.pmw --format ", 4, ["csv", "parquet", "measurements", "model"]),
        ("pmw check --miss", 2, ["--missing-text"]),
        ("pmw open study.pmw --neighbors ", 4, ["add-remove", "replace-one"]),
    ],
)
def test_commands_options_and_choices_are_completed(words: str, position: int, offered: list[str]) -> None:
    assert completed(words, position) == offered


def offered_kinds(words: str, position: int) -> list[str]:
    """Return what the shell is to complete a word with: ``plain`` texts, or files by itself."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(position)}
    result = CliRunner().invoke(main, env={"_PMW_COMPLETE": "bash_complete", **asked}, prog_name="pmw")
    assert result.exit_code == 0
    return [line.split(",", 1)[0] for line in result.stdout.splitlines()]


def test_every_command_that_takes_a_session_completes_its_file() -> None:
    context, found = click.Context(main), []
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        arguments = [one.name for one in command.params if isinstance(one, click.Argument)]
        if arguments[:1] in (["session"], ["sessions"]):
            found.append(name)
            assert offered_kinds(f"pmw {name} stu", 2) == ["file"], name
    assert {"ask", "open", "measure", "finish", "shell", "status", "serve"} <= set(found)


@pytest.mark.parametrize(
    ("shell", "hook", "installing"),
    [
        ("bash", "complete -o nosort -F _pmw_completion pmw", 'put  eval "$(pmw completion bash)"  into '),
        ("zsh", "compdef _pmw_completion pmw", 'put  eval "$(pmw completion zsh)"  into ~/.zshrc, '),
        ("fish", "complete --no-files --command pmw", "run  pmw completion fish > ~/.config/fish/"),
    ],
)
def test_the_script_of_a_shell_ends_with_how_to_install_it(shell: str, hook: str, installing: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell], prog_name="pmw")
    assert result.exit_code == 0
    assert hook in result.stdout
    assert f"_PMW_COMPLETE={shell}_complete" in result.stdout
    assert result.stdout.splitlines()[-1].startswith(f"# To install it: {installing}")


def test_another_shell_is_refused() -> None:
    result = CliRunner().invoke(main, ["completion", "csh"], prog_name="pmw")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
