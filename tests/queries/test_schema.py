"""Schema files: every domain can be written and read again, and a bad file is refused."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    SchemaError,
    format_schema,
    load_schema,
    parse_schema,
    save_schema,
)
from queries.cells import canonical_text
from queries.numbers import NumberCells
from queries.schema import parse_stored, stored_schema

LARGEST = 2**53 - 1
SECTION = '[[attributes]]\nname = "a"\n'
INTEGER = SECTION + 'kind = "integer"\nmin = 0\nmax = 9\n'
PEOPLE = """
name = "people"
[[attributes]]
name = "age"
kind = "integer"            # integer | numeric | categorical
min = 17
max = 90
[[attributes]]
name = "income"
kind = "numeric"
edges = [0, 10000, 25000, 50000, 1000000]
[[attributes]]
name = "sex"
kind = "categorical"
values = ["Female", "Male"]
missing = true
other = true
"""

FLAGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"missing": st.booleans(), "other": st.booleans()}
)
NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name == name.strip() and name.isprintable())
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
AWKWARD = st.sampled_from(
    ["\x00", "\x7f", "\n", "\r\n", "\t", '"', "'", "\\", '"""', "\\u0041", "#", "\u2028"]
)
VALUES = st.one_of(TEXTS, AWKWARD, st.integers(), st.booleans())


@st.composite
def _integers(draw: st.DrawFn, name: str) -> Attribute:
    minimum = draw(st.integers(-LARGEST, LARGEST))
    width = draw(st.integers(1, 1000))
    extent = draw(st.integers(0, 10_000 * width))
    step = draw(st.none() | st.integers(extent // 2**20 + 1, 2**60))
    maximum = min(minimum + extent, LARGEST)
    return IntegerAttribute(name, minimum, maximum, width, resolution=step, **draw(FLAGS))


@st.composite
def _numbers(draw: st.DrawFn, name: str) -> Attribute:
    numbers = st.floats(-1e300, 1e300) | st.integers(-LARGEST, LARGEST).map(float)
    edges = draw(st.lists(numbers, min_size=2, max_size=6, unique=True))
    flags = draw(FLAGS)
    return NumericAttribute(name, tuple(sorted(edges)), missing=flags["missing"], other=flags["other"])


@st.composite
def _categories(draw: st.DrawFn, name: str) -> Attribute:
    values = draw(st.lists(VALUES, min_size=1, max_size=6, unique_by=canonical_text))
    return CategoricalAttribute(name, tuple(values), **draw(FLAGS))


@st.composite
def _domains(draw: st.DrawFn) -> Domain:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    kinds = [draw(st.sampled_from([_integers, _numbers, _categories])) for _ in names]
    attributes = [draw(kind(name)) for kind, name in zip(kinds, names, strict=True)]
    return Domain(tuple(attributes), name=draw(NAMES))


@given(_domains())
def test_what_a_session_keeps_of_a_domain_has_the_resolutions_that_it_tells_and_no_other(
    domain: Domain,
) -> None:
    assert parse_stored(stored_schema(domain)) == domain
    assert parse_stored(stored_schema(domain.counted)) == domain.counted
    assert "resolution" not in stored_schema(domain.counted)


@given(_domains())
def test_a_schema_that_tells_no_resolution_is_one_of_the_same_cells(domain: Domain) -> None:
    found = parse_schema(stored_schema(domain.counted))
    assert found.counted == domain.counted
    for one in found:
        assert not isinstance(one, NumberCells) or one.resolution == one.usual_resolution


def test_a_resolution_that_is_false_is_none() -> None:
    for section in (INTEGER, NUMERIC + "edges = [0, 9]\n"):
        assert parse_schema(section).grids
        without = parse_schema(section + "resolution = false\n")
        assert without.grids == ()
        assert "resolution = false" in format_schema(without)
        assert "resolution" not in stored_schema(without)
    assert "resolution" not in format_schema(parse_schema(INTEGER.replace("9", "0")))  # it could have none


@given(_domains())
def test_reading_what_was_written_gives_the_domain_back(domain: Domain) -> None:
    again = parse_schema(format_schema(domain))
    assert again == domain
    for ours, theirs in zip(domain, again, strict=True):
        assert type(ours) is type(theirs)
        if isinstance(ours, CategoricalAttribute) and isinstance(theirs, CategoricalAttribute):
            assert [type(value) for value in ours.values] == [type(value) for value in theirs.values]


def test_a_saved_schema_loads_as_the_same_domain_however_its_text_is_stored(
    tmp_path: Path, people: Domain
) -> None:
    path = tmp_path / "people.toml"
    save_schema(people, path)
    assert load_schema(path) == load_schema(str(path)) == people
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_schema(path) == people
    assert parse_schema(PEOPLE.replace("\n", "\r\n")) == parse_schema(PEOPLE)


def test_the_documented_schema_reads_as_documented() -> None:
    domain = parse_schema(PEOPLE)
    assert domain.name == "people"
    assert domain.attributes == (
        IntegerAttribute("age", 17, 90, resolution=1),
        NumericAttribute("income", (0, 10_000, 25_000, 50_000, 1_000_000), resolution=1000),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True, other=True),
    )
    assert parse_schema(INTEGER).name == "records"


NUMERIC = SECTION + 'kind = "numeric"\n'
CATEGORICAL = SECTION + 'kind = "categorical"\n'
KEYS = "name, kind, min, max, width, resolution, missing, other"
KIND = "expected kind = integer, numeric, categorical, date or datetime"
NAME = "an attribute needs a printable name without spaces around it"
LISTED = "attribute 'a': values must be strings, integers or booleans"
SECTIONS = "expected one [[attributes]] section per attribute"

# A text and the message: what the person who writes a schema gets to read.
FAULTS: list[tuple[str, str]] = [
    ("name = ", "line 1: expected TOML: Invalid value (at end of document)"),
    ("name = 1\n\na = ?", "line 3: expected TOML: Invalid value (column 5)"),
    ("name = 'x'\nname = 'y'\n", "line 2: expected TOML: Cannot overwrite a value (column 11)"),
    ('name = "a\n"', "line 1: expected TOML: Illegal character '\\n' (column 10)"),
    ('name = """a\n', "line 2: expected TOML: Unterminated string (at end of document)"),
    ("a = " + "[" * 5000, "expected TOML: brackets are nested too deeply"),
    (INTEGER.replace("9", "9" * 5000), "expected TOML: a number has too many digits"),
    ("", f"{SECTIONS}, got none"),
    ("# attributes = 3\nname = 'x'", f"{SECTIONS}, got none"),
    ("\nattributes = 3", f"{SECTIONS}, got another kind of value"),
    ("attributes = [3]", f"{SECTIONS}, got another kind of value"),
    ("name = 'x'\n[attributes]\nname = 'a'", f"{SECTIONS}, got another kind of value"),
    ("name = 'x'\nattributes = []", "a domain needs at least one attribute, got none"),
    (
        "nmae = 'x'\n" + INTEGER,
        "the schema knows the keys name, person, lookups, attributes, drafted_from, got 'nmae'; did you mean "
        "'name'?",
    ),
    (
        INTEGER + "\n[table]\nx = 1",
        "the schema knows the keys name, person, lookups, attributes, drafted_from, got 'table'",
    ),
    ("name = 3\n" + INTEGER * 2, "a domain needs a printable name, got name=3"),
    (INTEGER + "# again\n" + INTEGER, "attribute names must differ, got 'a' more than once"),
    (SECTION, f"attribute 'a': {KIND}, got None"),
    (INTEGER + '[[attributes]]\n\nkind = "real"', f"attribute 2: {KIND}, got 'real'"),
    (
        INTEGER + "widht = 2",
        f"attribute 'a': kind 'integer' knows the keys {KEYS}, got 'widht'; did you mean 'width'?",
    ),
    (
        INTEGER + "values = [1]",
        f"attribute 'a': kind 'integer' knows the keys {KEYS}, got 'values'; "
        "'values' is for kind = 'categorical'",
    ),
    (SECTION + 'kind = "integer"\nmin = 0', "attribute 'a': kind 'integer' needs the key 'max'"),
    (NUMERIC, "attribute 'a': kind 'numeric' needs the key 'edges'"),
    (INTEGER + CATEGORICAL, "attribute 'a': kind 'categorical' needs the key 'values'"),
    (
        '[[attributes]]\nkind = "numeric"\nedges = [0, 1]',
        "attribute 1: kind 'numeric' needs the key 'name'",
    ),
    (NUMERIC.replace('"a"', "3") + "edges = [0, 1]", f"attribute 1: {NAME}, got 3"),
    (INTEGER.replace("9", "9.5"), "attribute 'a': max must be a whole number, got 9.5"),
    (
        INTEGER.replace("min = 0\n", "") + "[attributes.min]\nx = 0",
        "attribute 'a': min must be a whole number, got {'x': 0}",
    ),
    (INTEGER + "resolution = 0", "attribute 'a': resolution must be a number above 0, got 0"),
    (INTEGER + "resolution = -1", "attribute 'a': resolution must be a number above 0, got -1"),
    (INTEGER + "resolution = true", "attribute 'a': resolution must be a number above 0, got True"),
    (INTEGER + 'resolution = "1"', "attribute 'a': resolution must be a number above 0, got '1'"),
    (INTEGER + "resolution = []", "attribute 'a': resolution must be a number above 0, got []"),
    (
        INTEGER + "resolution = 0.5",
        "attribute 'a': resolution must be a whole number, as the values are, got 0.5",
    ),
    (
        NUMERIC + "edges = [0, 9]\ninteger = true\nresolution = 1.5",
        "attribute 'a': resolution must be a whole number, as the values are, got 1.5",
    ),
    (
        NUMERIC + "edges = [0, 1]\nresolution = nan",
        "attribute 'a': resolution must be a number above 0, got nan",
    ),
    (
        NUMERIC + "edges = [0, 1]\nresolution = inf",
        "attribute 'a': resolution must be a number above 0, got inf",
    ),
    (
        NUMERIC + "edges = [0, 1]\nresolution = 1e-7",
        "attribute 'a': at most 1,048,576 steps of resolution fit between the ends; choose 9.53675e-07 or "
        "more",
    ),
    (
        INTEGER.replace("9", "9000000") + "resolution = 1\nwidth = 900",
        "attribute 'a': at most 1,048,576 steps of resolution fit between the ends; choose 9 or more",
    ),
    (
        CATEGORICAL + "values = [1]\nresolution = 1",
        "attribute 'a': kind 'categorical' knows the keys name, kind, values, values_file, levels, parents, "
        "parents_file, missing, other, got 'resolution'; 'resolution' is for kind = 'integer' or 'numeric'",
    ),
    (NUMERIC + "edges = 3", "attribute 'a': edges must be a list, got 3"),
    (CATEGORICAL + 'values = "xy"', "attribute 'a': values must be a list, got 'xy'"),
    (CATEGORICAL + "values = [2020-01-01]", f"{LISTED}, got datetime.date(2020, 1, 1)"),
    (
        CATEGORICAL + 'values = ["""\n[[attributes]]\nmin = 3\n"""]\n' + INTEGER.replace("9", "x9"),
        "line 12: expected TOML: Invalid value (column 7)",
    ),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_a_text_that_describes_no_domain_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert str(caught.value) == message
    path = tmp_path / "people.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        load_schema(path)
    joint = ", " if message.startswith("line ") else ": "
    assert str(caught.value) == f"{path}{joint}{message}"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"name = 'x'\nx = '\xff'", ", line 2: expected UTF-8 text, got another byte at offset 16"),
        (
            b"\xef\xbb\xbf\nnmae = 3",
            ": the schema knows the keys name, person, lookups, attributes, drafted_from",
        ),
        (b"# " + b"x" * (16 * 2**20), ": expected a schema file of at most 16 MB"),
    ],
)
def test_a_file_that_is_no_such_text_is_refused_by_name(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "people.toml"
    path.write_bytes(raw)
    with pytest.raises(SchemaError) as caught:
        load_schema(path)
    assert str(caught.value).startswith(f"{path}{message}")
    for name in ("absent.toml", ".", "nul\0.toml"):
        with pytest.raises(SchemaError, match="expected a readable schema file"):
            load_schema(tmp_path / name)


PIECES = st.sampled_from(
    [
        *('name = "a"', 'kind = "integer"', 'kind = "numeric"', 'kind = "categorical"', "[[attributes]]"),
        *("min = 0", "max = 9", "max = -1", "width = 0", "width = 2", "edges = [0, 1]", "edges = [1, 0]"),
        *('values = ["x", 1]', "values = []", "values = [1.5]", "missing = true", "other = 3", "name = []"),
        *("resolution = 1", "resolution = 0.1", "resolution = -1", "resolution = nan", "resolution = 1e-9"),
        *("min = inf", "max = 1e9", "edges = [nan, 1]", "[attributes]", "min.x = 3", 'values = [{x = "y"}]'),
    ]
)


@given(st.lists(PIECES, max_size=9).map("\n".join) | st.text(max_size=60))
def test_only_a_schema_error_ever_comes_out(text: str) -> None:
    try:
        domain = parse_schema(text)
    except SchemaError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert parse_schema(format_schema(domain)) == domain


# --- texts of strangers -------------------------------------------------------------------------------------

MANY = 30_000
DOTS = "a." * MANY + "b = 1"
BOMBS = [
    DOTS, f"[{'a.' * MANY}b]", f"x = {{ {DOTS} }}", '"a".' * MANY + "b = 1", "a . " * MANY + "b = 1",
    "a.b.c.d.e.f = 1", "".join(f"[a{number}.b.c.d.e]\n" for number in range(5000)),
    f"[a.b.c.d.e]\n{''.join(f'k{number}.l.m.n.o = 1{chr(10)}' for number in range(5000))}",
    "".join(f"[a{number}]\n" for number in range(MANY)), f"x = [{'{}, ' * MANY}]", f"x = [{'[], ' * 2**20}]",
    f'x = """\n"""\n{DOTS}', f"x = \'\'\'\n\'\'\'\n{DOTS}", f'x = "\\""\n{DOTS}', f"x = '\\'\n{DOTS}",
    "x" * (16 * 2**20 + 1),
]  # fmt: skip


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: repr(text[:24]))
def test_a_text_of_which_much_would_be_made_is_refused_before_it_is_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tomllib.loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(SchemaError, match=r"at most 4 dots|fewer parts|at most 16 MB"):
        parse_schema(text)
    (tmp_path / "people.toml").write_text(text)
    with pytest.raises(SchemaError, match=r"at most 4 dots|fewer parts|at most 16 MB"):
        load_schema(tmp_path / "people.toml")


TOKENS = ["\"\"\"", "\'\'\'", '"', "'", "\\", "\n", "#", ".", "a", "=", "[", "]", "{", "}", ",", " ", "1.5",
          "a.a.a.a.a.a=1", "a.a.a.a.a=1", "[a.a.a.a.a.a]", "\n[", 'b = "']  # fmt: skip


@given(text=st.lists(st.sampled_from(TOKENS), max_size=30).map("".join))
def test_no_key_that_a_parser_meets_has_many_dots(text: str) -> None:
    lengths, real = [0], tomllib._parser.parse_key  # type: ignore[attr-defined]

    def parse_key(src: str, pos: int) -> Any:
        end, key = real(src, pos)
        lengths.append(len(key))
        return end, key

    with pytest.MonkeyPatch.context() as patch, suppress(SchemaError):
        patch.setattr("tomllib._parser.parse_key", parse_key)
        parse_schema(text)
    assert max(lengths) <= 5


def test_names_and_values_may_have_any_dots_and_signs() -> None:
    odd = "a.b.c.d.e.f.g = [{"
    values = tuple(f"{odd}{number}" for number in range(3000))
    domain = Domain((CategoricalAttribute(odd, values), NumericAttribute("b", (0.5, 1.5, 2.25))), name=odd)
    assert parse_schema(format_schema(domain)) == domain
    many = Domain(tuple(IntegerAttribute(f"a{number}", 0, 9) for number in range(1000)))
    assert parse_schema(format_schema(many)) == many
