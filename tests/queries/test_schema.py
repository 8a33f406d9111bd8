"""Schema files: every domain can be written and read again, and a bad file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    Lookup,
    NumericAttribute,
    SchemaError,
    format_schema,
    load_schema,
    parse_schema,
    parse_where,
    save_schema,
)
from queries.categories import Level
from queries.cells import canonical_text
from queries.schema import load_file_facts, parse_stored, stored_schema
from queries.values import values_of

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
    # What a session keeps has the resolutions that it tells, and no other.
    assert parse_stored(stored_schema(domain)) == domain
    assert parse_stored(stored_schema(domain.counted)) == domain.counted
    assert "resolution" not in stored_schema(domain.counted)
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


NUMERIC = SECTION + 'kind = "numeric"\n'


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"name = 1\n\na = ?", ", line 3: expected TOML: Invalid value (column 5)"),
        (b"a = " + b"[" * 5000, ": expected TOML: brackets are nested too deeply"),
        (INTEGER.replace("9", "9" * 5000).encode(), ": expected TOML: a number has too many digits"),
        (b"", ": expected one [[attributes]] section per attribute, got none"),
        (b"name = 'x'\nx = '\xff'", ", line 2: expected UTF-8 text, got another byte at offset 16"),
        (b"\xef\xbb\xbf\nnmae = 3",
         ": the schema knows the keys name, person, lookups, attributes, impossible, drafted_from, file"),
        (b"# " + b"x" * (16 * 2**20), ": expected a schema file of at most 16 MB"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_such_text_is_refused_by_name(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "people.toml"
    path.write_bytes(raw)
    with pytest.raises(SchemaError) as caught:
        load_schema(path)
    assert str(caught.value).startswith(f"{path}{message}")
    if raw.isascii() and len(raw) < 10**6:
        with pytest.raises(SchemaError) as caught:
            parse_schema(raw.decode())
        assert str(caught.value) == message.lstrip(":, ")
    for name in ("absent.toml", ".", "nul\0.toml"):
        with pytest.raises(SchemaError, match="expected a readable schema file"):
            load_schema(tmp_path / name)


FILE = """\
name = "people"

[file]
delimiter = ";"
missing_text = ["NA", "?"]
trim = true
decimal = ","

"""


def test_a_schema_says_how_the_file_is_written_and_its_domain_does_not(tmp_path: Path) -> None:
    path, plain = tmp_path / "people.toml", 'name = "people"\n\n' + INTEGER
    path.write_text(FILE + INTEGER)
    told = {"delimiter": ";", "missing_text": ["NA", "?"], "trim": True, "decimal": ","}
    assert load_file_facts(path) == told
    assert load_schema(path) == parse_schema(plain)
    assert format_schema(load_schema(path)) == format_schema(parse_schema(plain))
    assert stored_schema(load_schema(path)) == stored_schema(parse_schema(plain))
    path.write_text(plain)
    assert load_file_facts(path) == {}


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
    f'# """\n{DOTS}', f"# '''\n{DOTS}", "x" * (16 * 2**20 + 1),
]  # fmt: skip


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: repr(text[:24]))
def test_a_text_of_which_much_would_be_made_is_refused_before_it_is_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tomllib.loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(SchemaError, match=r"at most 4 dots|fewer parts|at most 16 MB"):
        parse_schema(text)
    if text in (DOTS, BOMBS[-1]):
        (tmp_path / "people.toml").write_text(text)
        with pytest.raises(SchemaError, match=r"at most 4 dots|fewer parts|at most 16 MB"):
            load_schema(tmp_path / "people.toml")


# --- levels of codes, and files beside a schema -------------------------------------------------------------


CODES = ("A11", "A12", "A20", "B10")
DOMAIN = Domain(
    (CategoricalAttribute("code", CODES, levels=(2, 1), missing=True, other=True),),  # type: ignore[arg-type]  # lengths
    name="t",
)


def cells(where: str) -> list[int]:
    return np.flatnonzero(parse_where(where, DOMAIN).weights()).tolist()


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


# --- lookups ------------------------------------------------------------------------------------------------


CARRIER = CategoricalAttribute("carrier", ("UA", "AA", 7, True), missing=True, other=True)
FLIGHTS = """
name = "flights"
[[attributes]]
name = "carrier"
kind = "categorical"
values = ["UA", "AA"]
levels = [1]
[[attributes]]
name = "delay"
kind = "numeric"
edges = [0, 1]
"""


WRITTEN = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
CALLED = WRITTEN.filter(lambda name: name == name.strip() and name.isprintable())


@st.composite
def _lookups(draw: st.DrawFn) -> Lookup:
    named = CALLED.map(lambda name: f"c{name}")
    columns = draw(st.lists(named, min_size=1, max_size=3, unique_by=str.casefold))
    one = st.one_of(WRITTEN, st.dictionaries(st.sampled_from(columns), WRITTEN))
    rows = draw(st.dictionaries(WRITTEN, one, max_size=4)) | {"UA": {columns[0]: draw(WRITTEN)}}
    return Lookup("airlines", "carrier", rows, draw(st.sampled_from(["", "k", 'a "key"'])))


@given(_lookups(), CALLED.map(lambda name: f"l{name}"))
def test_reading_what_was_written_gives_the_lookups_back(lookup: Lookup, name: str) -> None:
    domain = Domain((CARRIER,), "flights", lookups=(lookup, Lookup(name, "carrier", {"7": "x"})))
    again = parse_schema(format_schema(domain))
    assert again.lookups == domain.lookups
    assert [one.columns for one in again.lookups] == [one.columns for one in domain.lookups]
    assert again == domain


def test_a_schema_declares_lookups_inline_and_beside_it(tmp_path: Path) -> None:
    (tmp_path / "airlines.csv").write_text('code,name,alliance\r\nUA,United,Star\r\nAA,"Air, A",\r\nZZ,,\r\n')
    text = FLIGHTS + '[lookups.airlines]\nattribute = "carrier"\nfile = "airlines.csv"\n'
    text += (
        '[lookups.short]\nattribute = "carrier"\nkey = "iata"\nvalues = { UA = "U", AA = { long = "A" } }\n'
    )
    (tmp_path / "flights.toml").write_text(text)
    domain = load_schema(tmp_path / "flights.toml")
    filed, short = domain.lookups
    assert filed == Lookup(
        "airlines",
        "carrier",
        {"UA": {"name": "United", "alliance": "Star"}, "AA": {"name": "Air, A"}, "ZZ": {}},
        "code",
    )
    assert short == Lookup("short", "carrier", {"UA": {"name": "U"}, "AA": {"long": "A"}}, "iata")
    save_schema(domain, tmp_path / "again.toml")
    (tmp_path / "airlines.csv").unlink()
    assert load_schema(tmp_path / "again.toml").lookups == domain.lookups


LOOKUP = '[lookups.airlines]\nattribute = "carrier"\n'


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("code,name\nUA,U\nUA,U\n", "line 3: the key 'UA' stands there again"),
        ("code,name\nUA,U\n,x\n", "line 3: the key is missing, in column 'code'"),
        ("code,name\nUA,U,V\n", "line 2: expected 2 fields, got 3"),
        ("code\nUA\n", "expected a first line such as code,name, got 'code'"),
        ("", "expected a first line such as code,name, got ''"),
        ("code,name\n", "expected a line for each value, got none"),
        ('code,name\nUA,"U\n', "line 2: expected CSV: "),
        ("code,a,a\nUA,U,V\n", "two columns are called alike"),
        ("code,\nUA,U\n", "a column needs a printable name, got "),
    ],
)
def test_a_file_that_is_no_lookup_is_refused_where_it_is_wrong(
    tmp_path: Path, rows: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(rows)
    (tmp_path / "s.toml").write_text(FLIGHTS + LOOKUP + 'file = "a.csv"\n')
    with pytest.raises(SchemaError) as caught:
        load_schema(tmp_path / "s.toml")
    assert str(caught.value).startswith(f"{tmp_path / 's.toml'}: lookup 'airlines': ")
    assert message in str(caught.value)
