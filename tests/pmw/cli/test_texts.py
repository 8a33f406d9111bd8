"""Texts of the commands: an example that the cells decide, and one of a thing."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import pmw.cli
from pmw.cli import main
from pmw.cli.status_commands import _source
from pmw.cli.texts import asking, example_where
from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    load_schema,
    parse_where,
    save_schema,
)
from tests.pmw.cli.commands import OPEN, Run

_NAMES = st.one_of(
    st.sampled_from(["case", "in", "true", "Select", "hours-a-week", "it's", 'a"b', "$HOME", "größe", "!x"]),
    st.text(min_size=1, max_size=8).filter(lambda name: name == name.strip() and name.isprintable()),
)
_VALUES = st.one_of(
    st.sampled_from(["it's", 'say "x"', "$(date)", "`ls`", "a\\", "ja!", "日本", "", "\n", "true", "3"]),
    st.text(min_size=1, max_size=8),
    st.integers(-9, 9),
    st.booleans(),
)


@st.composite
def _attributes(draw: st.DrawFn) -> Attribute:
    name = draw(_NAMES)
    kind = draw(st.sampled_from(["integer", "numeric", "categorical"]))
    if kind == "integer":
        low = draw(st.integers(-20, 20))
        return IntegerAttribute(name, low, low + draw(st.integers(0, 9)), draw(st.integers(1, 4)))
    if kind == "numeric":
        edges = draw(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=4, unique=True).map(sorted))
        return NumericAttribute(name, tuple(edge + 0.0 for edge in edges))
    values = draw(st.lists(_VALUES, min_size=1, max_size=3, unique_by=lambda value: str(value).lower()))
    kept = [value for value in values if not isinstance(value, str) or _is_text(value)]
    return CategoricalAttribute(name, tuple(kept or ["x"]))


def _is_text(value: str) -> bool:
    return value != "" and not any("\ud800" <= letter <= "\udfff" for letter in value)


@given(st.lists(_attributes(), min_size=1, max_size=3, unique_by=lambda one: one.name))
def test_what_opening_suggests_is_read_and_answered_by_whole_cells(attributes: list[Attribute]) -> None:
    domain = Domain(tuple(attributes))
    words = shlex.split(asking(Path("a b.pmw"), domain))
    assert words[:3] == ["pmw", "ask", "a b.pmw"]
    assert words[3:] == [example_where(domain)]
    assert parse_where(words[3], domain).aligned


@pytest.mark.parametrize(
    ("attribute", "where"),
    [
        (NumericAttribute("x", (0, 10_000, 25_000)), "x < 10000"),
        (NumericAttribute("x", (0, 1_234_567, 2e7)), "x < 1234567"),
        (IntegerAttribute("x", 0, 79, 5), "x >= 40"),
    ],
)
def test_numbers_are_suggested_in_full_and_near_the_middle(attribute: Attribute, where: str) -> None:
    domain = Domain((CategoricalAttribute("sex", ("f", "m")), attribute))
    assert example_where(domain) == f"sex = 'f' AND {where}"


def test_values_that_cannot_be_pasted_are_not_suggested() -> None:
    values = CategoricalAttribute("x", ("\n", "\x1b[2J", "y" * 99))
    assert example_where(Domain((values, IntegerAttribute("z" * 99, 0, 9)))) == ""


def test_a_number_is_not_parted_from_the_word_before_it() -> None:
    source = "discrete Gaussian noise: Canonne, Kamath and Steinke (2020), Theorem 4"
    text = f"total, tree nodes, marginal: {source}"
    first, second = _source(text).splitlines()
    assert second == "    Theorem 4"
    assert f"{first.strip()} {second.strip()}" == text


def test_one_of_a_thing_is_told_in_the_singular(run: Run, tmp_path: Path) -> None:
    domain = Domain((CategoricalAttribute("sex", ("a",), missing=True, other=True),), name="one")
    save_schema(domain, tmp_path / "people.toml")
    (tmp_path / "people.csv").write_text("sex\na\n")
    opened = run.told(*OPEN, "--neighbors", "replace-one")
    assert "1 attribute, 3 cells, about 1 record." in opened
    assert run.told("ask", "study.pmw", "").startswith("About 1 record (")
    assert "one (1 attribute, 3 cells)" in run.told("status", "study.pmw")
    assert run.told("export", "study.pmw", "--output", "x.csv").startswith("Wrote 1 synthetic row to")
    assert "1 question answered" in run.told("backup", "study.pmw", "--output", "b.pmw")
    plan = run.told("plan", *OPEN[4:], "--records", "1", "--queries", "1")
    assert "1 attribute, 3 cells, 1 record." in plan
    for text in (opened, plan, run.told("verify", "study.pmw")):
        assert re.search(r"(?<![\d.,])1 (?!is\b|was\b)[a-z-]+s\b", text) is None, text


# --- A terminal: no value that somebody else wrote acts on it, or changes the direction of what is writte ---


SEXES = ("m\x1b[2Jale", "\x1b]0;owned\x07", "\u202efemale\x9b1A", "two\nlines\u2028", "tag\U000e0041")
TITLE = "n\x1b]0;hi\x07\u2066"
SQL = f'SELECT sex, COUNT(*) AS "{TITLE}" FROM people GROUP BY sex'
CASE = "CASE WHEN age > 3 THEN '\x1b[31m' ELSE '\u202e' END"
COMMANDS = (
    ("ask", "--sql", SQL),
    ("ask", "--sql", SQL, "--json"),
    ("ask", "--sql", f"SELECT {CASE} AS k, COUNT(*) FROM people GROUP BY k"),
    ("ask", "--sql", "SELECT '\x1b[2J' AS a, COUNT(*) FROM people"),
    ("ask", "sex = 'm\x1b[2Jale'"),
    ("ask", "sex = '\x1b[2J'"),
    ("ask", f'"{TITLE}" = 3'),
    ("ask", "--sql", f'SELECT "{TITLE}" FROM people'),
    ("ask", "--explain", "--sql", SQL),
    ("ask", "--explain", "sex = 'm\x1b[2Jale'"),
    ("status",),
    ("status", "--json"),
    ("ledger",),
    ("shell",),
)
LINES = "\n".join(
    [
        ".schema sex",
        ".schema",
        ".explain sex = 'm\x1b[2Jale'",
        ".mode json",
        f"{SQL};",
        ".mode csv",
        f"{SQL};",
    ]
)


@pytest.fixture(scope="module")
def opened_odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Open a session over odd values, and write its model; return their folder."""
    domain = Domain((IntegerAttribute("age", 0, 9), CategoricalAttribute("sex", SEXES)), name="people")
    frame = pd.DataFrame({"age": range(10), "sex": [SEXES[number % len(SEXES)] for number in range(10)]})
    folder, run = tmp_path_factory.mktemp("odd"), Run()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        frame.to_parquet(folder / "people.parquet")
        save_schema(domain, folder / "people.toml")
        run.told(*(one.replace("people.csv", "people.parquet") for one in OPEN), "--delta", "1e-9")
        run.told("export", "study.pmw", "--format", "model", "--output", "ok.model")
    return folder


@pytest.fixture
def odd(opened_odd: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(opened_odd)
    return opened_odd


@pytest.mark.parametrize("file", ["study.pmw", "ok.model"])
@pytest.mark.usefixtures("odd")
def test_no_command_has_a_terminal_act_on_a_value(
    run: Run, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_output = "click.testing._NamedTextIOWrapper.isatty"
    monkeypatch.setattr(is_output, lambda stream: stream.name != "<stdin>")
    for command in COMMANDS:
        result = run(command[0], file, *command[1:], stdin=LINES)
        assert result.exit_code in (0, 1, 2, 4), result.output  # 1: a model is no session
        assert result.output
        assert [one for one in result.output if not (one.isprintable() or one == "\n")] == [], command


@pytest.mark.usefixtures("odd")
def test_what_is_piped_says_the_same(run: Run, odd: Path) -> None:
    rows = run.form("ask", "ok.model", "--sql", SQL)["rows"]
    assert [row["sex"] for row in rows] == list(SEXES)
    assert all(TITLE in row for row in rows)
    shown = run.told("shell", "study.pmw", stdin=f".mode csv\n{SQL};\n")
    assert SEXES[0] in shown  # CSV is data
    drafted = run.told(
        "draft", "--data", "people.parquet", "--from-public", "people.parquet", "--data-is-public"
    )
    (odd / "drafted.toml").write_text(drafted)
    sexes = load_schema(odd / "drafted.toml")["sex"]
    assert {sexes.value(code) for code in range(sexes.base_size)} == set(SEXES)


def test_everything_is_told_through_one_function() -> None:
    folder = Path(pmw.cli.__file__).parent
    found = {file.name for file in folder.rglob("*.py") if "click.echo(" in file.read_text()}
    assert found == {"usage.py"}
    assert json.loads('"\\u001b"') == "\x1b"


# --- ``pmw help`` and ``pmw completion`` --------------------------------------------------------------------


CONTEXT = click.Context(main)
NAMES = main.list_commands(CONTEXT)


def parameters_of(name: str) -> list[click.Parameter]:
    command = main.get_command(CONTEXT, name)
    assert command is not None
    return command.params


@pytest.mark.parametrize("words", [(), ("open",), ("user", "add")])
def test_help_prints_what_the_option_prints(run: Run, words: tuple[str, ...]) -> None:
    shown, known = run("help", *words), run(*words, "--help")
    assert (shown.exit_code, shown.stdout) == (0, known.stdout)
    assert shown.stdout.startswith(f"Usage: {' '.join(('pmw', *words))} ")


def test_every_command_has_help_with_examples_and_the_version_is_told(run: Run) -> None:
    for name in NAMES:
        shown = run(name, "--help").stdout
        assert re.search(rf"pmw {name}\b", shown.partition("Examples:")[2]), name
    assert run("--version").stdout.startswith("pmw, version ")


def test_a_command_that_is_not_there_has_one_error_that_names_the_nearest(run: Run) -> None:
    for words, told in {
        ("opne", "study.pmw"): "Error: No such command 'opne'; did you mean 'open'?",
        ("help", "user", "lits"): "Error: No such command 'lits'; did you mean 'list'?",
        ("zzz",): "Error: No such command 'zzz'.",
        ("help", "open", "ask"): "Error: pmw open has no commands of its own; leave 'ask' out",
    }.items():
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
        ("pmw c", 1, ["check", "close", "completion"]),
        ("pmw help op", 2, ["open"]),
        ("pmw completion ", 2, ["bash", "zsh", "fish"]),
        ("pmw export --fo", 2, ["--format", "--force"]),
        ("pmw export study.pmw --format ", 4, ["csv", "parquet", "measurements", "model"]),
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


def test_the_script_of_a_shell_ends_with_how_to_install_it(run: Run) -> None:
    for shell, hook, installing in (
        ("bash", "complete -o nosort -F _pmw_completion pmw", 'put  eval "$(pmw completion bash)"  into '),
        ("zsh", "compdef _pmw_completion pmw", 'put  eval "$(pmw completion zsh)"  into ~/.zshrc, '),
        ("fish", "complete --no-files --command pmw", "run  pmw completion fish > ~/.config/fish/"),
    ):
        script = run.told("completion", shell)
        assert hook in script
        assert f"_PMW_COMPLETE={shell}_complete" in script
        assert script.splitlines()[-1].startswith(f"# To install it: {installing}")
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in run.refused("completion", "csh", code=2)
