"""Texts of the commands: an example that the cells decide, and one of a thing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.cli.status_commands import _source
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
