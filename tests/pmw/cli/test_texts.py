"""Texts of the commands: an example that the cells decide, and one of a thing."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw.cli
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
        (NumericAttribute("x", (0, 1), missing=True), "x >= 0"),
        (NumericAttribute("x", (0, 1_234_567, 2e7)), "x < 1234567"),
        (NumericAttribute("x", (0.1, 0.123456789, 0.2)), "x < 0.123456789"),
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
    ("explain", "--sql", SQL),
    ("explain", "sex = 'm\x1b[2Jale'"),
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


@pytest.fixture
def odd(run: Run, tmp_path: Path) -> Path:
    """Open a session over odd values, and write its model; return their folder."""
    domain = Domain((IntegerAttribute("age", 0, 9), CategoricalAttribute("sex", SEXES)), name="people")
    frame = pd.DataFrame({"age": range(10), "sex": [SEXES[number % len(SEXES)] for number in range(10)]})
    frame.to_parquet(tmp_path / "people.parquet")
    save_schema(domain, tmp_path / "people.toml")
    run.told(*(one.replace("people.csv", "people.parquet") for one in OPEN), "--delta", "1e-9")
    run.told("export", "study.pmw", "--format", "model", "--output", "ok.model")
    return tmp_path


@pytest.mark.parametrize("file", ["study.pmw", "ok.model"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(" ".join(command))[:40])
@pytest.mark.usefixtures("odd")
def test_no_command_has_a_terminal_act_on_a_value(
    run: Run, file: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_output = "click.testing._NamedTextIOWrapper.isatty"
    monkeypatch.setattr(is_output, lambda stream: stream.name != "<stdin>")
    result = run(command[0], file, *command[1:], stdin=LINES)
    assert result.exit_code in (0, 1, 2, 4), result.output  # 1: a model is no session
    assert result.output
    assert [one for one in result.output if not (one.isprintable() or one == "\n")] == []


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
