"""``pmw help`` and ``pmw completion``: what a command takes, and the nearest where none is of a name."""

from __future__ import annotations

import itertools
import re

import click
import pytest
from click.testing import CliRunner

from pmw.cli import main
from tests.pmw.cli.commands import Run

CONTEXT = click.Context(main)
NAMES = main.list_commands(CONTEXT)


def parameters_of(name: str) -> list[click.Parameter]:
    command = main.get_command(CONTEXT, name)
    assert command is not None
    return command.params


@pytest.mark.parametrize("words", [(), ("open",), ("user",), ("user", "add"), ("help",)])
def test_help_prints_what_the_option_prints(run: Run, words: tuple[str, ...]) -> None:
    shown, known = run("help", *words), run(*words, "--help")
    assert (shown.exit_code, shown.stdout) == (0, known.stdout)
    assert shown.stdout.startswith(f"Usage: {' '.join(('pmw', *words))} ")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_examples(run: Run, name: str) -> None:
    shown = run(name, "--help").stdout
    assert re.search(rf"pmw {name}\b", shown.partition("Examples:")[2])


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").stdout.startswith("pmw, version ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("opne", "study.pmw"), "Error: No such command 'opne'; did you mean 'open'?"),
        (("help", "exprot"), "Error: No such command 'exprot'; did you mean 'export'?"),
        (("user", "ad"), "Error: No such command 'ad'; did you mean 'add'?"),
        (("help", "user", "lits"), "Error: No such command 'lits'; did you mean 'list'?"),
        (("zzz",), "Error: No such command 'zzz'."),
        (("help", "open", "ask"), "Error: pmw open has no commands of its own; leave 'ask' out"),
    ],
)
def test_a_command_that_is_not_there_has_one_error_that_names_the_nearest(
    run: Run, words: tuple[str, ...], told: str
) -> None:
    assert run.refused(*words, code=2).splitlines()[-1] == told


@pytest.mark.parametrize("name", ["open", "plan"])
def test_the_options_of_a_session_stand_under_headings(run: Run, name: str) -> None:
    lines = run(name, "--help").stdout.splitlines()
    headings = [line for line in lines if line.endswith(":") and line[0] != " " and line != "Examples:"]
    assert headings == ["The table:", "The promise:", "For experts:", "Options:"]
    below, options = headings[0], dict[str, list[str]]()
    for line in lines[lines.index(below) :]:
        below = line if line in headings else below
        if line.startswith("  -"):
            options.setdefault(below, []).append(line.split()[0])
    shown = [one.opts[0] for one in parameters_of(name) if isinstance(one, click.Option)]
    assert sorted(itertools.chain(*options.values())) == sorted([*shown, "-h,"])
    assert {"--epsilon", "--delta", "--neighbors", "--accuracy"} <= set(options["The promise:"])
    assert {"--preset", "--threshold", "--sparse-vector"} <= set(options["For experts:"])
    assert "--schema" in options["The table:"]
    own = {"open": ["--draft", "--verbose", "--json", "-h,"], "plan": ["--json", "-h,"]}
    assert options["Options:"] == own[name]


# --- completion --------------------------------------------------------------------------------------------


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


def test_every_command_that_takes_a_session_completes_its_file_and_few_take_a_table() -> None:
    sessions, tables = set(), set()
    for name in NAMES:
        arguments = [one.name for one in parameters_of(name) if isinstance(one, click.Argument)]
        if arguments[:1] in (["session"], ["sessions"]):
            sessions.add(name)
            assert [kind for kind, _ in offered_to_bash(f"pmw {name} stu", 2)] == ["file"], name
        if any(one.name == "data" for one in parameters_of(name)):
            tables.add(name)
    assert sessions == {
        "ask", "backup", "close", "export", "finish", "ledger", "mcp", "measure", "move", "open", "report",
        "serve", "shell", "status", "verify",
    }  # fmt: skip
    # The custodian's. A draft and a check are of a table alone; others have a budget of their own.
    assert tables == {"check", "demo", "draft", "move", "offline", "open", "synthesize"}


@pytest.mark.parametrize(
    ("shell", "hook", "installing"),
    [
        ("bash", "complete -o nosort -F _pmw_completion pmw", 'put  eval "$(pmw completion bash)"  into '),
        ("zsh", "compdef _pmw_completion pmw", 'put  eval "$(pmw completion zsh)"  into ~/.zshrc, '),
        ("fish", "complete --no-files --command pmw", "run  pmw completion fish > ~/.config/fish/"),
    ],
)
def test_the_script_of_a_shell_ends_with_how_to_install_it(
    run: Run, shell: str, hook: str, installing: str
) -> None:
    script = run.told("completion", shell)
    assert hook in script
    assert f"_PMW_COMPLETE={shell}_complete" in script
    assert script.splitlines()[-1].startswith(f"# To install it: {installing}")


def test_another_shell_is_refused(run: Run) -> None:
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in run.refused("completion", "csh", code=2)
