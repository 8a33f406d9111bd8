"""Lookups: declared in a schema or beside it, written and read again, and refused where they cannot be."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import (
    CategoricalAttribute,
    Domain,
    DomainError,
    IntegerAttribute,
    Lookup,
    NumericAttribute,
    SchemaError,
    format_schema,
    load_schema,
    parse_schema,
    save_schema,
)

CARRIER = CategoricalAttribute("carrier", ("UA", "AA", 7, True), missing=True, other=True)
SECTION = """
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
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NAMES = TEXTS.filter(lambda name: name == name.strip() and name.isprintable())


@st.composite
def _lookups(draw: st.DrawFn) -> Lookup:
    columns = draw(
        st.lists(NAMES.map(lambda name: f"c{name}"), min_size=1, max_size=3, unique_by=str.casefold)
    )
    row = st.dictionaries(st.sampled_from(columns), TEXTS)
    one = st.one_of(TEXTS, row)
    rows = draw(st.dictionaries(TEXTS, one, max_size=4)) | {"UA": {columns[0]: draw(TEXTS)}}
    return Lookup("airlines", "carrier", rows, draw(st.sampled_from(["", "k", 'a "key"'])))


@given(_lookups(), NAMES.map(lambda name: f"l{name}"))
def test_reading_what_was_written_gives_the_lookups_back(lookup: Lookup, name: str) -> None:
    domain = Domain((CARRIER,), "flights", lookups=(lookup, Lookup(name, "carrier", {"7": "x"})))
    again = parse_schema(format_schema(domain))
    assert again.lookups == domain.lookups
    assert [one.columns for one in again.lookups] == [one.columns for one in domain.lookups]
    assert again == domain


def test_a_domain_keeps_its_lookups_in_a_copy() -> None:
    domain = Domain((CARRIER,), lookups=(Lookup("airlines", "carrier", {"UA": "United"}),))
    assert pickle.loads(pickle.dumps(domain)).lookups == domain.lookups  # noqa: S301 - our own bytes
    assert copy.deepcopy(domain).lookups == domain.lookups
    assert hash(domain.lookups[0]) == hash(copy.copy(domain.lookups[0]))
    assert domain == Domain((CARRIER,))  # what values are called is no part of what is asked


def test_one_text_is_the_column_name() -> None:
    one, two = (Lookup("airlines", "carrier", {"UA": given}) for given in ("United", {"name": "United"}))
    assert one == two
    assert (one.columns, one.key) == (("name",), "carrier")


def test_cells_have_the_texts_of_their_keys() -> None:
    lookup = Lookup("airlines", "carrier", {"true": "yes", "UA": "United", "ZZ": "none", "7": "seven"})
    assert lookup.cells(CARRIER, "name") == ["United", None, "seven", "yes", None, None]
    assert lookup.cells(CARRIER, "carrier") == ["UA", None, "7", "true", None, None]
    assert lookup.undeclared(CARRIER) == ["ZZ"]
    numbers = Lookup("words", "n", {"-1": "less", "2": "two", "3": "three"})
    assert numbers.cells(IntegerAttribute("n", -1, 2, missing=True), "name") == [
        "less", None, None, "two", None,
    ]  # fmt: skip


def test_a_schema_declares_lookups_inline_and_beside_it(tmp_path: Path) -> None:
    (tmp_path / "airlines.csv").write_text('code,name,alliance\r\nUA,United,Star\r\nAA,"Air, A",\r\nZZ,,\r\n')
    text = SECTION + '[lookups.airlines]\nattribute = "carrier"\nfile = "airlines.csv"\n'
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
    ("text", "message"),
    [
        ("lookups = 3\n", "expected one section [lookups.NAME]"),
        ("lookups.airlines = 3\n", "expected one section [lookups.NAME]"),
        ("[[lookups]]\nattribute = 'carrier'", "expected one section [lookups.NAME]"),
        ('[lookups.airlines]\nvalues = { UA = "U" }', "lookup 'airlines' needs the key 'attribute'"),
        (LOOKUP, "lookup 'airlines' needs one of the keys 'values' and 'file'"),
        (LOOKUP + 'values = { UA = "U" }\nfile = "a.csv"', "needs one of the keys 'values' and 'file'"),
        (LOOKUP + 'value = { UA = "U" }', "attribute, key, values, file, got 'value'; did you mean"),
        (LOOKUP + 'values = { UA = "U", UA = "V" }', "expected TOML: "),
        (LOOKUP + "values = []", "values must give each key a text, such as"),
        (LOOKUP + "values = {}", "values must give each key a text, such as"),
        (LOOKUP + 'values = { "" = "U" }', "a key must be a text that is not empty"),
        (LOOKUP + "values = { UA = 3 }", "key 'UA': name must be a text that is not empty, got a int"),
        (LOOKUP + "values = { UA = '' }", "key 'UA': name must be a text that is not empty, got ''"),
        (LOOKUP + "values = { UA = '(other)' }", "key 'UA': '(other)' names a special cell"),
        (LOOKUP + "values = { UA = { a = { b = 'x' } } }", "key 'UA': a must be a text"),
        (LOOKUP + "values = { UA = {} }", "it needs a column besides that of the keys"),
        (LOOKUP + "values = { UA = { carrier = 'x' } }", "two columns are called 'carrier'"),
        (LOOKUP + "values = { UA = { a = 'x', A = 'y' } }", "two columns are called 'A'"),
        (LOOKUP + "key = 3\nvalues = { UA = 'x' }", "a column needs a printable name, got "),
        (LOOKUP + 'values = { XX = "U" }', "no key is a declared value of 'carrier'; the first one is 'XX'"),
        ("[lookups.airlines]\nattribute = 3\nvalues = { UA = 'x' }", "a lookup's attribute must be a"),
        ('[lookups.""]\nattribute = "carrier"\nvalues = { UA = "x" }', "a lookup's name must be a"),
        ('[lookups.airlines]\nattribute = "carier"\nvalues = { UA = "x" }',
         "lookup 'airlines': expected an attribute of the schema, got 'carier'; did you mean 'carrier'?"),
        ('[lookups.airlines]\nattribute = "delay"\nvalues = { UA = "x" }',
         "lookup 'airlines': attribute 'delay' must be categorical, or of kind 'integer' with a width of 1"),
        ('[lookups.Carrier]\nattribute = "carrier"\nvalues = { UA = "x" }',
         "lookup 'Carrier': attribute 'carrier', or a level of it, is called so too; rename one of them"),
        ('[lookups.carrier_1]\nattribute = "carrier"\nvalues = { UA = "x" }', "or a level of it, is called"),
        ('[lookups.FLIGHTS]\nattribute = "carrier"\nvalues = { UA = "x" }',
         "lookup 'FLIGHTS': the table is called so too; rename one of them"),
        (LOOKUP + "values = { UA = 'x' }\n[lookups.Airlines]\nattribute = 'carrier'\nvalues = { UA = 'x' }",
         "lookup 'Airlines': another lookup is called so too"),
    ],
)  # fmt: skip
def test_what_is_no_lookup_is_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text + SECTION if text.startswith("lookups") else SECTION + text)
    assert message in str(caught.value)


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
    (tmp_path / "s.toml").write_text(SECTION + LOOKUP + 'file = "a.csv"\n')
    with pytest.raises(SchemaError) as caught:
        load_schema(tmp_path / "s.toml")
    assert str(caught.value).startswith(f"{tmp_path / 's.toml'}: lookup 'airlines': ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", "file is read beside a schema file; load the schema from its file"),
        ('key = "code"', "the first column of the file is the key; leave 'key' out"),
    ],
)
def test_a_file_needs_its_schema_beside_it_and_names_its_key(more: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse_schema(f'{SECTION}{LOOKUP}file = "a.csv"\n{more}')
    with pytest.raises(SchemaError, match="file must be the name of a file, got 3"):
        parse_schema(f"{SECTION}{LOOKUP}file = 3")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SECTION + LOOKUP + 'file = "a.csv"\n')
    with pytest.raises(
        SchemaError, match=r"lookup 'airlines': expected a readable file, got .*a\.csv: No such file"
    ):
        load_schema(tmp_path / "s.toml")


def test_what_is_no_lookup_is_refused_in_python() -> None:
    with pytest.raises(DomainError, match="lookup 'l': at most 100,000 keys, got 100,001"):
        Lookup("l", "n", {f"{key}": "x" for key in range(100_001)})
    with pytest.raises(DomainError, match="expected a Lookup, got a str"):
        Domain((CARRIER,), lookups=("airlines",))  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="or of kind 'integer' with a width of 1"):
        Domain((IntegerAttribute("n", 0, 9, 5),), lookups=(Lookup("l", "n", {"0": "x"}),))
    with pytest.raises(DomainError, match="or of kind 'integer' with a width of 1"):
        Domain((NumericAttribute("n", (0, 1)),), lookups=(Lookup("l", "n", {"0": "x"}),))
