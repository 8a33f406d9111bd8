"""Lines of a schema: right whatever comments, texts and lists stand around a key."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries.schema_lines import line_of, schema_lines

# Values that look like statements, each valid TOML.
VALUES = st.sampled_from(
    [
        *("3", "true", '"x"', "'x'", '""', "''", "2020-01-01T00:00:00", "[]", "{}", "{ a = 1, b = [2] }"),
        *('"# no comment"', "'[[attributes]]'", '"a\\"b = ["', "'\\'", '"\\\\"', '"=]}"', "{ 'a]' = '}' }"),
        '"""\n[[attributes]]\nname = 1\n"""',
        "'''\n[[attributes]]\n# = '' \"\"\"\n'''",
        '"""a""b"""',
        '"""a"\n"""""',
        "'''a''''",
        '"""\\"""\nname = 2"""',
        '"""""""',
        "''''''",
        '"""x\\\n   [y"""',
        "[ # ]\n  1, # name = 3\n  [2, '''\n]'''],\n]",
        '[\n{ name = "a" },\n\n{ name = "[[attributes]]" },\n]',
    ]
)
FILLERS = st.sampled_from(
    ["", "  ", "\t", "# name = 1", "# [[attributes]]", "  # '''", '# """', "# it's", "#"]
)
ENDS = st.sampled_from(["", " ", "  # end", " # [ '", '\t#"""'])
KEYS = {
    "name": ["name", '"name"', "'name'", '"\\u006eame"', "  name"],
    "kind": ["kind", "kind.of", '"kind"."x = 1"', "kind . 'y#'"],
    "a=b": ['"a=b"', "'a=b'", '"a=b".c'],
    "[x]": ['"[x]"', "'[x]'"],
    "#": ['"#"', "'#'.x"],
    "é": ['"é"', "'é'"],
}
HEADERS = st.sampled_from(["[[attributes]]", "[[ attributes ]]", ' [["attributes"]]', "[['attributes']]"])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, int], list[int], list[dict[str, int]]]:
    """Return a text with the lines of its keys, its headers and their keys."""
    lines: list[str] = []
    top: dict[str, int] = {}
    headers: list[int] = []
    keys: list[dict[str, int]] = []

    def fill() -> None:
        lines.extend(draw(st.lists(FILLERS, max_size=2)))

    def statements(found: dict[str, int]) -> None:
        for key in draw(st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=4)):
            fill()
            found[key] = len(lines) + 1
            equals = draw(st.sampled_from(["=", " = ", "= "]))
            statement = draw(st.sampled_from(KEYS[key])) + equals + draw(VALUES) + draw(ENDS)
            lines.extend(statement.split("\n"))

    statements(top)
    for _ in range(draw(st.integers(0, 4))):
        fill()
        top.setdefault("attributes", len(lines) + 1)
        headers.append(len(lines) + 1)
        lines.append(draw(HEADERS) + draw(ENDS))
        keys.append({})
        statements(keys[-1])
        if draw(st.booleans()):
            fill()
            keys[-1]["sub"] = len(lines) + 1
            lines.extend([draw(st.sampled_from(["[attributes.sub]", '[ attributes . "sub" ]'])), "name = 1"])
    fill()
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines), top, headers, keys


@given(documents())
def test_every_key_is_found_on_its_line(
    document: tuple[str, dict[str, int], list[int], list[dict[str, int]]],
) -> None:
    text, top, headers, keys = document
    tomllib.loads(text)
    lines = schema_lines(text)
    assert (lines.top, lines.headers, lines.keys) == (top, tuple(headers), tuple(keys))


TEXT = """\
name = "x" # a

[[attributes]]
name = "a"

[[attributes]]
min = 1
"""


@pytest.mark.parametrize(
    ("number", "key", "line"),
    [
        (None, "name", 1),
        (None, "attributes", 3),
        (None, "absent", None),
        (None, None, None),
        (0, "name", 4),
        (0, "kind", 3),
        (1, "min", 7),
        (1, None, 6),
        (2, "min", 3),
    ],
)
def test_a_key_has_a_line_or_that_of_its_section(
    number: int | None, key: str | None, line: int | None
) -> None:
    assert line_of(TEXT, number, key) == line


def test_attributes_in_one_list_have_the_line_of_the_list() -> None:
    text = "name = 'x'\nattributes = [\n  { name = 'a' },\n  { name = 'b' },\n]\n"
    assert line_of(text, 1, "name") == 2


def test_a_long_schema_is_scanned_in_linear_time() -> None:
    text = '[[attributes]]\nname = "a"\nvalues = [' + ", ".join(['"v""'[:-1]] * 200_000) + "]\nmin = 3\n"
    assert line_of(text, 0, "min") == 4
    text = '[[attributes]]\nname = """' + 'a"" ' * 300_000 + '"""\nmin = 3\n'
    assert line_of(text, 0, "min") == 3
