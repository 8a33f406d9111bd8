"""Levels of codes, and values and parents from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    CategoricalAttribute,
    Domain,
    DomainError,
    SchemaError,
    format_schema,
    load_schema,
    parse_schema,
    parse_sql,
    parse_where,
)
from queries.categories import Level
from queries.cells import MOST_CELLS
from queries.values import values_of
from tests.queries.meaning import refusal

CODES = ("A11", "A12", "A20", "B10")
DOMAIN = Domain(
    (CategoricalAttribute("code", CODES, levels=(2, 1), missing=True, other=True),),  # type: ignore[arg-type]  # lengths
    name="t",
)


def cells(where: str) -> list[int]:
    return np.flatnonzero(parse_where(where, DOMAIN).weights()).tolist()


def test_levels_stand_from_the_coarsest_to_the_finest() -> None:
    attribute = DOMAIN["code"]
    assert isinstance(attribute, CategoricalAttribute)
    assert [level.name for level in attribute.levels] == ["code_1", "code_2"]
    assert [level.codes for level in attribute.levels] == [(0, 0, 0, 1), (0, 0, 1, 2)]
    assert dict(DOMAIN.levels) == {"code_1": "code", "code_2": "code"}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("code_1 = 'A'", [0, 1, 2]), ("CODE_1 = 'A'", [0, 1, 2]), ("code_2 IN ('A1', 'B1')", [0, 1, 3]),
        ("code_1 <> 'A'", [3, 5]), ("NOT code_1 = 'A'", [3, 5]), ("code_2 LIKE 'A%'", [0, 1, 2]),
        ("code LIKE 'A1%'", [0, 1]), ("code_2 = 'A1' AND code <> 'A11'", [1]), ("code_1 IS NULL", [4]),
        ("code_1 = '(other)'", [5]), ("code_2 NOT LIKE 'A%'", [3, 5]), ("code_2 LIKE 'C%'", []),
    ],
)  # fmt: skip
def test_a_level_is_asked_as_an_attribute_is(where: str, expected: list[int]) -> None:
    assert cells(where) == expected


def test_a_level_stands_in_objects_and_groups() -> None:
    assert parse_where({"code_1": {"eq": "B"}}, DOMAIN).key() == parse_where("code_1 = 'B'", DOMAIN).key()
    groups = parse_sql("SELECT code_1, COUNT(*) FROM t GROUP BY code_1", DOMAIN)
    assert groups.columns[0].title == "code_1"
    assert [group.labels for group in groups.groups()] == [("A",), ("B",), (None,), ("(other)",)]
    assert np.sum([query.weights() for _, _, query in groups.questions()], axis=0).tolist() == [2**20] * 6


@pytest.mark.parametrize(
    ("where", "code"),
    [("code_1 = 'C'", "unknown_value"), ("code_1 > 'A'", "wrong_kind"), ("code_3 = 'A'", "unknown_attribute"),
     ("YEAR(code) = 1", "wrong_kind"),
     ("YEAR(code_1) = 1", "wrong_kind")],
)  # fmt: skip
def test_what_cannot_be_asked_of_a_level_is_refused(where: str, code: str) -> None:
    assert refusal(parse_where, where, DOMAIN).code == code


@given(st.sets(st.text("ab1", min_size=1, max_size=4), min_size=1, max_size=12), st.sets(st.integers(1, 4)))
def test_declarations_with_levels_come_back(values: set[str], lengths: set[int]) -> None:
    attribute = CategoricalAttribute("c", tuple(values), levels=tuple(lengths))  # type: ignore[arg-type]  # lengths
    parents = tuple(text[:1] for text in values)
    declared = CategoricalAttribute("d", tuple(values), levels=(Level('my "level"', parents),))
    domain = Domain((attribute, declared))
    assert parse_schema(format_schema(domain)) == domain
    assert all(values_of(attribute).encode(value) == code for code, value in enumerate(attribute.values))


def write(folder: Path, lines: str, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    path = folder / "schema.toml"
    path.write_text(f'[[attributes]]\nname = "c"\nkind = "categorical"\n{lines}\n', encoding="utf-8")
    return path


def test_values_and_parents_are_read_from_files(tmp_path: Path) -> None:
    domain = load_schema(write(tmp_path, 'values_file = "v.txt"\nlevels = [1]', v="\ufeff01\r\n02\n11\n"))
    assert domain == Domain((CategoricalAttribute("c", ("01", "02", "11"), levels=(1,)),))  # type: ignore[arg-type]
    parents = "code,chapter,part\n01,x,P\n02,y,P\n11,z,Q\n"
    domain = load_schema(write(tmp_path, 'parents_file = "p.txt"\nmissing = true', p=parents))
    attribute = domain["c"]
    assert isinstance(attribute, CategoricalAttribute)
    assert attribute.values == ("01", "02", "11")
    assert [(level.name, level.parents) for level in attribute.levels] == [
        ("part", ("P", "P", "Q")), ("chapter", ("x", "y", "z")),
    ]  # fmt: skip
    assert parse_schema(format_schema(domain)) == domain
    turned = load_schema(write(tmp_path, 'values = ["11", "02", "01"]\nparents_file = "p.txt"', p=parents))
    assert turned["c"].levels[0].parents == ("Q", "P", "P")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lines", "text", "message"),
    [
        ('values_file = "v.txt"', "a\nb\na\n", "v.txt, line 3: 'a' stands there twice, first in line 1"),
        ('values_file = "v.txt"', "a\n\nb\n", "v.txt, line 2: expected a value, got an empty line"),
        ('values_file = "v.txt"', "", "expected one value a line, got none"),
        ('values_file = "w.txt"', "", "expected a readable file"),
        ('values_file = "v.txt"\nvalues = ["a"]', "a", "values and values_file declare the same"),
        ("values_file = 3", "a", "values_file must be the name of a file, got 3"),
        ('parents_file = "v.txt"', "c,l\na,x\na,y\n", "line 3: 'a' stands there with another parent"),
        ('parents_file = "v.txt"', "c,l\na,x\nb,\n", "line 3: the parent of 'b' in level 'l' is missing"),
        ('parents_file = "v.txt"', "c,l\na,x\nb\n", "line 3: expected 2 fields, got 1"),
        ('parents_file = "v.txt"', "c\na\n", "expected a first line such as code,chapter, got 'c'"),
        ('parents_file = "v.txt"', "c,l,m\na,x,p\nb,x,q\nd,y,q\n", "has two parents in level"),
        ('parents_file = "v.txt"\nvalues = ["a", "b"]', "c,l\na,x\n", "hence no parent, for the value 'b'"),
        ('parents_file = "v.txt"\nvalues = ["a"]', "c,l\na,x\nb,x\n", "a line for the undeclared value 'b'"),
        ('values = ["a"]\nlevels = 2', "", "levels must be a list, got 2"),
        ('values = ["a"]\nlevels = [0]', "", "levels must be lengths of prefixes, at least 1, got 0"),
        ('values = ["a"]\nlevels = [1, 1]', "", "the level 'c_1' stands there twice"),
        ('values = ["a"]\nparents = { x = ["p", "q"] }', "", "parent for each of the 1 values, got 2"),
        ('values = ["a"]\nparents = { c = ["p"] }', "", "another attribute or level is called 'c'"),
        ('value = ["a"]', "", "got 'value'; did you mean 'values'?"),
        ('values = ["a"]\nedges = [0, 1]', "", "got 'edges'; 'edges' is for kind = 'numeric'"),
        ('type = "categorical"', "", "got 'type'; did you mean 'kind'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_declared_is_refused(tmp_path: Path, lines: str, text: str, message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        load_schema(write(tmp_path, lines, v=text))
    assert message in str(refused.value)


def test_a_kind_that_is_misspelt_is_hinted_at() -> None:
    for lines, told in (
        ("type = 'integer'", "did you mean 'kind' where 'type' stands"),
        ("kind = 'catgorical'", "got 'catgorical'; did you mean 'categorical'"),
        ("kind = 'categorical'\nvalues_file = 'v.txt'", "values_file is read beside a schema file"),
    ):
        with pytest.raises(SchemaError, match=told):
            parse_schema(f"[[attributes]]\nname = 'a'\n{lines}")


def test_a_million_values_are_declared_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CELLS == 1_000_000
    monkeypatch.setattr("queries.categories.MOST_CELLS", 2_000)
    values = tuple(map(str, range(2_001)))
    assert values_of(CategoricalAttribute("c", values[:-1])).encode("1999") == 1999
    with pytest.raises(DomainError, match="at most 2,000 values, got 2,001"):
        CategoricalAttribute("c", values)
