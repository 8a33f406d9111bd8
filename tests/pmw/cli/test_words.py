"""What commands say to whoever typed something else than was meant, and that it costs nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from pmw.cli.texts import asking, example_where
from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    parse_where,
    save_schema,
)

Run = Callable[..., Result]
OPEN = ("--data", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9")
CHECK = ("check", "--data", "other.csv", "--schema", "people.toml")

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


def test_values_that_cannot_be_pasted_are_not_suggested() -> None:
    domain = Domain(
        (CategoricalAttribute("x", ("\n", "\x1b[2J", "y" * 99)), IntegerAttribute("z" * 99, 0, 9))
    )
    assert example_where(domain) == ""


@pytest.mark.parametrize("rows", ["age,sex,region,member\n", "age,sex,region,member\nx,x,x,x\ny,y,y,y\n"])
def test_a_check_that_would_keep_nothing_warns_and_fails(people: Path, run: Run, rows: str) -> None:
    assert run("check", "--data", "people.csv", "--schema", "people.toml").exit_code == 0
    (people / "none.csv").write_text(rows)
    result = run("check", "--data", "none.csv", "--schema", "people.toml")
    assert result.exit_code == 1
    assert "Warning: a session would " in result.stderr.splitlines()[-1]


def test_a_folder_without_parquet_files_is_told(people: Path, run: Run) -> None:
    (people / "tables").mkdir()
    schema = ("--schema", "people.toml")
    for command in (
        ("open", "new.pmw", "--data", "tables", *schema, "--epsilon", "1"),
        ("check", "--data", "tables", *schema),
        ("demo", "--data", "tables", *schema, "--output", "shown"),
    ):
        result = run(*command)
        assert result.exit_code == 1, command
        assert "expected a folder of Parquet files, got tables: none is in it" in result.stderr
    assert not list(people.glob("new.pmw*"))
    assert not (people / "shown").exists()


@pytest.mark.parametrize(("delimiter", "typed"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_a_header_with_another_delimiter_is_told(
    people: Path, run: Run, frame: pd.DataFrame, delimiter: str, typed: str
) -> None:
    frame.assign(secret=7).to_csv(people / "other.csv", index=False, sep=delimiter)
    opened, checked = run("open", "n.pmw", "--data", "other.csv", *OPEN[2:]), run(*CHECK)
    for result in (opened, checked):
        assert (result.exit_code, f"--delimiter {typed}" in result.output) == (1, True)
    assert "secret" not in opened.stderr
    assert run(*CHECK, "--delimiter", delimiter).exit_code == 0
    (people / "other.csv").write_text("age;sex\n1;2\n")  # which none helps
    assert "--delimiter" not in run("open", "n.pmw", "--data", "other.csv", *OPEN[2:]).stderr


REFUSED = '{"where": "agee >= 3"}\n{"where": "age >="}\nno JSON\n'


def test_a_stream_that_was_refused_whole_has_exit_code_4_and_a_count(study: Path, run: Run) -> None:
    result = run("ask", "study.pmw", "--stream", stdin=REFUSED)
    assert result.exit_code == 4
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr == "3 of 3 questions were refused, at no cost\n"
    whole = run("ask", "study.pmw", "--workload", "ranges:age", "--strict-cells")
    assert (whole.exit_code, whole.stderr) == (0, "")


def test_a_stream_that_was_refused_in_part_tells_how_much(study: Path, run: Run) -> None:
    result = run("ask", "study.pmw", "--stream", stdin='{"where": "age >="}\n{"where": "age >= 25"}\n')
    assert result.exit_code == 0
    assert result.stderr == "1 of 2 questions was refused, at no cost\n"
    assert run("ask", "study.pmw", "--stream", stdin="\n").exit_code == 0


@pytest.mark.parametrize(
    ("question", "code", "position"),
    [
        (("sexx = 'a'",), "unknown_attribute", 0),
        (('{"agee": {"ge": 3}}',), "unknown_attribute", "where.agee"),
        (("--sql", "SELECT COUNT(*) FROM people WHERE agee > 3"), "unknown_attribute", 34),
        (("--sql", "DROP TABLE people"), "unsupported", 0),
        (("--workload", "marginal:2"), None, None),
        (("age BETWEEN 21 AND 22", "--strict-cells"), "unaligned", None),
    ],
)
def test_a_refused_question_is_printed_as_json_where_json_was_asked_for(
    study: Path, run: Run, question: tuple[str, ...], code: str | None, position: int | str | None
) -> None:
    result = run("ask", "study.pmw", "--json", *question)
    assert (result.exit_code, result.stderr) == (4, "")
    error = json.loads(result.stdout)["error"]
    assert list(error) == ["code", "message", "position"]
    assert code is None or (error["code"], error["position"]) == (code, position)
    assert run("ask", "study.pmw", *question).stdout == ""


def test_a_stream_that_is_sent_again_with_its_errors_mended_pays_for_the_mended_lines_alone(
    textbook_study: Path, run: Run
) -> None:
    lines = [f'{{"request_id": "r{age}", "where": "age >= {age}"}}\n' for age in (20, 25, 30)]
    mistyped = [lines[0], lines[1].replace("age >=", "agee >="), lines[2]]
    first = run("ask", "study.pmw", "--stream", stdin="".join(mistyped)).stdout.splitlines()
    for _ in range(2):
        again = run("ask", "study.pmw", "--stream", "--fresh", stdin="".join(lines)).stdout.splitlines()
        assert (again[0], again[2]) == (first[0], first[2])
        assert "error" not in again[1]
    assert json.loads(run("status", "study.pmw", "--json").stdout)["queries_answered"] <= 3 + 3 + 2


def test_a_demonstration_with_a_mistyped_table_removes_no_earlier_one(people: Path, run: Run) -> None:
    shutil.copytree(people, people / "shown")
    (people / "shown" / "session.pmw").write_text("an earlier session")
    mistyped = ("--data", "peple.csv", "--schema", "people.toml")
    result = run("demo", *mistyped, "--output", "shown", "--force", "--queries", "9")
    assert result.exit_code == 1
    assert (people / "shown" / "session.pmw").read_text() == "an earlier session"


def test_one_of_a_thing_is_told_in_the_singular(run: Run, tmp_path: Path) -> None:
    domain = Domain((CategoricalAttribute("sex", ("a",), missing=True, other=True),), name="one")
    save_schema(domain, tmp_path / "one.toml")
    (tmp_path / "one.csv").write_text("sex\na\n")
    opened = run(
        "open", "one.pmw", "--data", "one.csv", "--schema", "one.toml", "--epsilon", "1", "--neighbors",
        "replace-one",
    )  # fmt: skip
    assert "1 attribute, 3 cells, about 1 record." in opened.stdout
    assert run("ask", "one.pmw", "").stdout.startswith("About 1 record (")
    assert "one (1 attribute, 3 cells)" in run("status", "one.pmw").stdout
    assert run("export", "one.pmw", "--output", "x.csv").stdout.startswith("Wrote 1 synthetic row to")
    assert "1 question answered" in run("backup", "one.pmw", "--output", "b.pmw").stdout
    plan = run("plan", "--schema", "one.toml", "--records", "1", "--epsilon", "1", "--queries", "1").stdout
    assert "1 attribute, 3 cells, 1 record." in plan
    for text in (opened.stdout, plan, run("verify", "one.pmw").stdout):
        assert re.search(r"(?<![\d.,])1 (?!is\b|was\b)[a-z-]+s\b", text) is None, text


def test_a_picture_without_letters_says_so_in_one_line(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    domain = Domain((CategoricalAttribute("国家", ("中", "日")),), name="one")
    save_schema(domain, tmp_path / "one.toml")
    (tmp_path / "one.csv").write_text("国家\n中\n")
    assert (
        run("open", "one.pmw", "--data", "one.csv", "--schema", "one.toml", "--epsilon", "1").exit_code == 0
    )
    result = run("status", "one.pmw", "--plot", "one.png")
    assert (result.exit_code, (tmp_path / "one.png").read_bytes()[:4]) == (0, b"\x89PNG")
    assert result.stderr == (
        "Note: the picture does not show CJK letters as they are written; where they are boxes, add a font "
        "that has them to font.family in the file matplotlibrc.\n"
    )
