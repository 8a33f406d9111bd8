"""``pmw help``, and the nearest command where there is none of a name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import click
import pytest
from click.testing import Result

from pmw.cli import main

Run = Callable[..., Result]


@pytest.mark.parametrize("words", [(), ("open",), ("user",), ("user", "add"), ("help",)])
def test_help_prints_what_the_option_prints(run: Run, words: tuple[str, ...]) -> None:
    shown, known = run("help", *words), run(*words, "--help")
    assert (shown.exit_code, shown.stdout) == (0, known.stdout)
    assert shown.stdout.startswith(f"Usage: {' '.join(('pmw', *words))} ")


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
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
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == told


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
    command = main.get_command(click.Context(main), name)
    assert command is not None
    shown = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
    assert sorted(itertools.chain(*options.values())) == sorted([*shown, "-h,"])
    assert {"--epsilon", "--delta", "--neighbors", "--accuracy"} <= set(options["The promise:"])
    assert {"--preset", "--threshold", "--sparse-vector"} <= set(options["For experts:"])
    assert "--schema" in options["The table:"]
    own = {"open": ["--verbose", "--json", "-h,"], "plan": ["--json", "-h,"]}
    assert options["Options:"] == own[name]
