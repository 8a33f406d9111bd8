"""Completion: the documented line works, and the shell's question is answered with commands and options."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from pmw.cli import main


def offered_to_bash(words: str, position: int) -> list[list[str]]:
    """Return what bash is offered for the word at a position of a line, each by its kind and its text.

    The kind is ``plain`` for texts, or tells that the shell completes files by itself.
    """
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(position)}
    result = CliRunner().invoke(main, env={"_PMW_COMPLETE": "bash_complete", **asked}, prog_name="pmw")
    assert result.exit_code == 0
    assert result.stderr == ""
    return [line.split(",", 1) for line in result.stdout.splitlines()]


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
    assert [text for _, text in offered_to_bash(words, position)] == offered


def test_every_command_that_takes_a_session_completes_its_file() -> None:
    context, found = click.Context(main), []
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        arguments = [one.name for one in command.params if isinstance(one, click.Argument)]
        if arguments[:1] in (["session"], ["sessions"]):
            found.append(name)
            assert [kind for kind, _ in offered_to_bash(f"pmw {name} stu", 2)] == ["file"], name
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
