"""Schema files: every domain can be written and read again, and a bad file is refused by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
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
from queries.domain import canonical_text

LAW = settings(max_examples=150, deadline=None)

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

FLAGS = st.fixed_dictionaries({"missing": st.booleans(), "other": st.booleans()})
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
    return IntegerAttribute(name, minimum, min(minimum + extent, LARGEST), width, **draw(FLAGS))


@st.composite
def _numbers(draw: st.DrawFn, name: str) -> Attribute:
    numbers = st.floats(-1e300, 1e300) | st.integers(-LARGEST, LARGEST).map(float)
    edges = draw(st.lists(numbers, min_size=2, max_size=6, unique=True))
    return NumericAttribute(name, tuple(sorted(edges)), **draw(FLAGS))


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


@LAW
@given(_domains())
def test_reading_what_was_written_gives_the_domain_back(domain: Domain) -> None:
    again = parse_schema(format_schema(domain))
    assert again == domain
    for ours, theirs in zip(domain, again, strict=True):
        assert type(ours) is type(theirs)
        if isinstance(ours, CategoricalAttribute) and isinstance(theirs, CategoricalAttribute):
            assert [type(value) for value in ours.values] == [type(value) for value in theirs.values]


def test_a_saved_schema_loads_as_the_same_domain(tmp_path: Path, people: Domain) -> None:
    save_schema(people, tmp_path / "people.toml")
    assert load_schema(tmp_path / "people.toml") == people
    assert load_schema(str(tmp_path / "people.toml")) == people


def test_the_documented_schema_reads_as_documented() -> None:
    domain = parse_schema(PEOPLE)
    assert domain.name == "people"
    assert domain.attributes == (
        IntegerAttribute("age", 17, 90),
        NumericAttribute("income", (0, 10_000, 25_000, 50_000, 1_000_000)),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True, other=True),
    )


def test_a_schema_without_a_name_describes_records() -> None:
    assert parse_schema(INTEGER) == Domain((IntegerAttribute("a", 0, 9),), name="records")


def test_windows_line_ends_read_alike() -> None:
    assert parse_schema(PEOPLE.replace("\n", "\r\n")) == parse_schema(PEOPLE)


def test_a_file_with_a_byte_order_mark_loads(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_bytes(b"\xef\xbb\xbf" + PEOPLE.encode())
    assert load_schema(path) == parse_schema(PEOPLE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "expected TOML: Invalid value"),
        ("a = " + "[" * 5000, "expected TOML"),
        ("", "expected one [[attributes]] section per attribute, got none"),
        ("attributes = 3", "expected one [[attributes]] section per attribute"),
        ("attributes = [3]", "expected one [[attributes]] section per attribute"),
        ("attributes = []", "a domain needs at least one attribute, got none"),
        (
            "nmae = 'x'\n" + INTEGER,
            "the schema knows the keys name, attributes, got 'nmae'; did you mean 'name'?",
        ),
        ("name = 3\n" + INTEGER, "a domain needs a printable name, got name=3"),
        (INTEGER + INTEGER, "attribute names must differ, got 'a' more than once"),
        (SECTION, "attribute 1 (line 1): expected kind = integer, numeric or categorical, got None"),
        (SECTION + "kind = 3", "expected kind = integer, numeric or categorical, got 3"),
        (INTEGER + "widht = 2", "kind 'integer' knows the keys"),
        (INTEGER + "widht = 2", "got 'widht'; did you mean 'width'?"),
        (SECTION + 'kind = "integer"\nmin = 0', "kind 'integer' needs the key 'max'"),
        ('[[attributes]]\nkind = "numeric"\nedges = [0, 1]', "kind 'numeric' needs the key 'name'"),
        ('[[attributes]]\nname = 3\nkind = "numeric"\nedges = [0, 1]', "needs a printable name"),
        (INTEGER.replace("9", "9.5"), "max must be a whole number, got 9.5"),
        (INTEGER + 'missing = "yes"', "missing must be true or false, got 'yes'"),
        (SECTION + 'kind = "numeric"\nedges = 3', "edges must be a list, got 3"),
        (SECTION + 'kind = "numeric"\nedges = [0, nan]', "edges must be finite numbers, got nan"),
        (SECTION + 'kind = "numeric"\nedges = [0, "x"]', "edges must be finite numbers, got 'x'"),
        (SECTION + 'kind = "numeric"\nedges = [0, 1' + "0" * 400 + "]", "edges must be finite numbers"),
        (SECTION + 'kind = "categorical"\nvalues = "xy"', "values must be a list, got 'xy'"),
        (SECTION + 'kind = "categorical"\nvalues = [["x"]]', "strings, integers or booleans, got ['x']"),
        (
            SECTION + 'kind = "categorical"\nvalues = [2020-01-01]',
            "strings, integers or booleans, got datetime",
        ),
        (SECTION + 'kind = "integer"\nmin = 0\nmax = ' + "9" * 5000, "expected TOML"),
    ],
)
def test_a_text_that_describes_no_domain_is_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert message in str(caught.value)


def test_a_refusal_names_the_attribute_and_its_line() -> None:
    with pytest.raises(SchemaError, match=r"^attribute 2 \(line 6\): attribute 'b': min must not exceed"):
        parse_schema(INTEGER + "[[attributes]]\n" + 'name = "b"\nkind = "integer"\nmin = 3\nmax = 2\n')


def test_a_line_is_counted_as_an_editor_counts_it() -> None:
    text = (
        SECTION
        + 'kind = "categorical"\nvalues = ["x\u2028y\u0085z"]\n[[ attributes ]] # second\nname = "b"\n'
    )
    with pytest.raises(SchemaError, match=r"^attribute 2 \(line 5\): expected kind"):
        parse_schema(text)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"name = '\xff'", "expected UTF-8 text, got another byte at offset 8"),
        (b"nmae = 3", "the schema knows the keys name, attributes"),
        (b"# " + b"x" * (16 * 2**20), "expected a schema of at most 16 MB"),
    ],
)
def test_a_file_that_describes_no_domain_is_refused_by_name(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "people.toml"
    path.write_bytes(raw)
    with pytest.raises(SchemaError) as caught:
        load_schema(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["absent.toml", ".", "nul\0.toml"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SchemaError, match="expected a readable schema file"):
        load_schema(tmp_path / name)


PIECES = st.sampled_from(
    [
        *('name = "a"', 'kind = "integer"', 'kind = "numeric"', 'kind = "categorical"', "[[attributes]]"),
        *("min = 0", "max = 9", "max = -1", "width = 0", "width = 2", "edges = [0, 1]", "edges = [1, 0]"),
        *('values = ["x", 1]', "values = []", "values = [1.5]", "missing = true", "other = 3", "name = []"),
        *("min = inf", "max = 1e9", "edges = [nan, 1]", "[attributes]", "min.x = 3", 'values = [{x = "y"}]'),
    ]
)


@LAW
@given(st.lists(PIECES, max_size=9).map("\n".join) | st.text(max_size=60))
def test_only_a_schema_error_ever_comes_out(text: str) -> None:
    try:
        domain = parse_schema(text)
    except SchemaError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert parse_schema(format_schema(domain)) == domain
