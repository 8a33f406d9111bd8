"""Tables that their database counts: the same cells as the encoder makes, whatever the values are.

These tests are of DuckDB; ``test_postgres.py`` has those of Postgres.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.data import DatabaseTable, MemorySource, as_source, place_of
from pmw.data.engine_source import EngineSource, Snapshot, cell_expressions
from pmw.data.sql_tables import DuckdbTable
from pmw.errors import DataError
from queries import (
    Attribute,
    CategoricalAttribute,
    DateAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    Person,
)
from tests.pmw.data.lines import KEY, TRYING, beside, database, same_counts

BIG = 2**53 - 1
ATTRIBUTES: list[Attribute] = [
    IntegerAttribute("x", -3, 12, 4, resolution=2, missing=True, other=True),
    IntegerAttribute("x", 0, 9),
    IntegerAttribute("x", -BIG, BIG, 2**40, resolution=2**34, missing=True, other=True),
    NumericAttribute("x", (-1.5, 0, 0.1, 2.5, 7), resolution=0.1, missing=True, other=True),
    NumericAttribute(
        "x", (-3, 0, 3, 7), atoms=(0, 3, -3), integer=True, resolution=1, missing=True, other=True
    ),
    NumericAttribute("x", (0, 0.3, 1e300), resolution=1e295),
    NumericAttribute("x", (0, 5e-324, 1), atoms=(1,), resolution=3e-6, other=True),
    CategoricalAttribute("x", ("f", "a ", "3", "é", "it's", "\\"), missing=True, other=True),
    CategoricalAttribute("x", ("f", "F")),
    CategoricalAttribute("x", (0, 3, -3, 127), other=True),
    CategoricalAttribute("x", (True, False), missing=True),
    CategoricalAttribute("x", ("True", "no"), other=True),
]
FLOATS = [
    "'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'0.1'", "'3e38'", "3", "2.5", "7", "'1e-45'", "-3", "NULL",
]  # fmt: skip
HOSTILE = {
    "TINYINT": ["-128", "0", "3", "-3", "127", "NULL"],
    "SMALLINT": ["-32768", "3", "32767"],
    "BIGINT": [str(-(2**63)), str(2**63 - 1), str(2**53 + 1), str(-(2**53) - 1), "3", "0", "12", "NULL"],
    "UINTEGER": ["4294967295", "3", "0", "NULL"],
    "FLOAT": FLOATS,
    "DOUBLE": [
        *FLOATS, "'1e308'", "'6.999999999999999'", "'5e-324'", "'0.30000000000000004'", "'9007199254740993'",
    ],
    "BOOLEAN": ["true", "false", "NULL"],
    "VARCHAR": [
        "'f'", "''", "'a '", "' f'", "'F'", "'nan'", "'3'", "'03'", "'TRUE'", "'é'",
        "'e' || chr(769)", "'it''s'",
        "chr(0)", "'f' || chr(0)", "repeat('f', 9999)", "'\\'", "NULL",
    ],
    "VARCHAR COLLATE NOCASE": ["'f'", "'F'", "'É'", "''", "NULL"],
    "ENUM('f', 'F', '3')": ["'f'", "'F'", "'3'", "NULL"],
}  # fmt: skip
DAYS = DateAttribute("x", date(2020, 1, 1), date(2020, 2, 1))
REFUSED: list[tuple[Attribute, str]] = [  # what is declared, and the type of the column
    (ATTRIBUTES[0], "VARCHAR"), (ATTRIBUTES[9], "VARCHAR"), (ATTRIBUTES[11], "VARCHAR"),
    (ATTRIBUTES[7], "DOUBLE"), (ATTRIBUTES[0], "HUGEINT"), (ATTRIBUTES[3], "DECIMAL(6,2)"), (DAYS, "DATE"),
    (DAYS, "VARCHAR"), (ATTRIBUTES[7], "VARCHAR[]"), (NumericAttribute("x", tuple(range(2000))), "DOUBLE"),
]  # fmt: skip


def made(folder: Path, *statements: str) -> str:
    return f"duckdb:{database(folder, *statements)}"


def inside(address: str, domain: Domain, table: str = "t") -> EngineSource:
    source = as_source(DatabaseTable(address, table, inside=True), domain, None)
    assert isinstance(source, EngineSource)
    return source


def accepted(kind: str) -> list[Attribute]:
    """Return the attributes whose cells can be made of a type, each with a name of its own."""
    found = []
    for place, attribute in enumerate(ATTRIBUTES):
        named = replace(attribute, name=f"x{place}")
        with suppress(DataError):
            cell_expressions(Domain((named,)), {named.name: kind}, DuckdbTable.words, "t")
            found.append(named)
    return found


@pytest.mark.parametrize("kind", HOSTILE)
def test_values_fall_into_the_cells_that_the_encoder_gives_them(tmp_path: Path, kind: str) -> None:
    attributes, values = accepted(kind.removesuffix(" COLLATE NOCASE")), HOSTILE[kind]
    assert len(attributes) >= (2 if kind[0] in "VE" else 3 if kind == "BOOLEAN" else 7)
    columns = ", ".join(f"{one.name} {kind}" for one in attributes)
    rows = ", ".join(f"({', '.join([value] * len(attributes))})" for value in values)
    address = made(tmp_path, f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES {rows}")
    for domain in (Domain((one,)) for one in attributes):  # another may drop the record
        (name,) = domain.names
        source = inside(address, domain)
        held = as_source(DatabaseTable(address, "t"), domain, None)
        expected = held.counts((name,)).counts
        assert source.counts((name,)).counts.tolist() == expected.tolist(), domain[name]
        assert source.counts(()).total == expected.sum()
        if domain.grids:
            for squared in (False, True):
                sums = source.place_sums((name,), name, squared=squared).counts.tolist()
                assert sums == held.place_sums((name,), name, squared=squared).counts.tolist(), domain[name]
    assert os.listdir(tmp_path) == ["t.duckdb"]


def test_a_column_whose_cells_cannot_be_made_exactly_is_refused_by_its_type(tmp_path: Path) -> None:
    kinds = dict.fromkeys(kind for _, kind in REFUSED)
    columns = {kind: f"x{place}" for place, kind in enumerate(kinds)}
    address = made(tmp_path, f"CREATE TABLE t ({', '.join(f'{x} {kind}' for kind, x in columns.items())})")
    told = "cannot be made in the database exactly as a session makes them; "
    for attribute, kind in REFUSED:
        with pytest.raises(DataError, match=told):
            inside(address, Domain((replace(attribute, name=columns[kind]),)))


# Numbers at the ends of steps, where another order of rounding finds another place.
BY_STEPS = st.integers(0, 101).map(lambda steps: -1 + steps * 0.1) | st.integers(-10, 90).map(
    lambda n: n / 10
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Domain, list[tuple[object, ...]]]:
    """Return a domain of several attributes, and records, some of which are dropped."""
    flags: dict[str, Any] = {name: draw(st.booleans()) for name in ("missing", "other")}
    empty: dict[str, Any] = {"missing": draw(st.booleans())}
    low, width = draw(st.integers(-9, 0)), draw(st.integers(1, 4))
    steps, atoms = draw(st.sampled_from([1e-5, 0.1, 0.3, 20.0])), draw(st.sampled_from([(), (2.5, -1.0)]))
    domain = Domain(
        (
            IntegerAttribute("a", low, 9, 3, resolution=width, **empty),
            NumericAttribute("b", (-1.0, 0.1, 2.5, 9.0), atoms=atoms, resolution=steps, **flags),
            CategoricalAttribute("c", ("f", "m", "it's"), **{**flags, **empty}),
            CategoricalAttribute("d", (True, False), **empty),
        ),
        "t",
    )
    record = st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-12, 12),
        st.none() | st.floats() | st.sampled_from([0.1, -0.0, 2.5]) | BY_STEPS,
        st.none() | st.sampled_from(["f", "m", "F", "", "f ", "it's"]),
        st.none() | st.booleans(),
    )
    return domain, draw(st.lists(record, max_size=12))


def filled(folder: Path, records: list[tuple[object, ...]]) -> str:
    address = made(folder, "CREATE TABLE t (a BIGINT, b DOUBLE, c VARCHAR, d BOOLEAN)")
    if records:
        rows = ", ".join(["(?, ?, ?, ?)"] * len(records))
        with duckdb.connect(address.partition(":")[2]) as connection:
            connection.execute(f"INSERT INTO t VALUES {rows}", list(itertools.chain(*records)))
    return address


def bins_of(domain: Domain) -> tuple[Domain, list[np.ndarray | None]]:
    attributes = [IntegerAttribute(one.name, 0, (one.size + 1) // 2 - 1) for one in domain]
    return Domain(tuple(attributes), "t"), [np.arange(size) // 2 for size in domain.shape]


@settings(max_examples=5)
@given(table=tables())
def test_random_tables_are_counted_as_in_memory(
    tmp_path: Path, table: tuple[Domain, list[tuple[object, ...]]]
) -> None:
    domain, records = table
    address = filled(tmp_path, records)
    held, counted = as_source(DatabaseTable(address, "t"), domain, None), inside(address, domain)
    scopes = [scope for size in range(5) for scope in itertools.combinations(domain.names, size)]
    counted.prepare(scopes)
    same_counts(held, counted, scopes)
    coarse, bins = bins_of(domain)
    one, other = held.coarsened(coarse, bins), counted.coarsened(coarse, bins)
    other.prepare(scopes[:-1])  # the widest is counted alone
    same_counts(one, other, [*scopes[:8], scopes[-1]])


def test_a_sum_is_of_whole_places_that_no_float_of_32_bits_holds(tmp_path: Path) -> None:
    price = NumericAttribute("x", (0.0, 2.0**20), resolution=1.0000001)
    values = [2**20 - 1 - number / 7 for number in range(99)]
    rows = ", ".join(f"({value!r}::double)" for value in values)
    address = made(tmp_path, "CREATE TABLE t (x DOUBLE)", f"INSERT INTO t VALUES {rows}")
    exact = sum(math.floor(value / 1.0000001) for value in values)
    assert exact > 2**26
    for chosen in (False, True):
        source = as_source(DatabaseTable(address, "t", inside=chosen), Domain((price,)), None)
        assert source.place_sums(("x",), "x").counts.tolist() == [exact]


RECORDS: list[tuple[object, ...]] = [(n % 9, n * 0.25 % 9, "fm"[n % 2], n % 3 == 0) for n in range(300)]
DOMAIN = Domain(
    (
        IntegerAttribute("a", 0, 9),
        NumericAttribute("b", (0, 2, 5, 9)),
        CategoricalAttribute("c", ("f", "m")),
        CategoricalAttribute("d", (True, False)),
    ),
    "t",
)

BY_THOUSANDTHS = NumericAttribute("b", (0, 2, 5, 9), resolution=0.001)
SUMMED = Domain((DOMAIN["a"], BY_THOUSANDTHS, *DOMAIN.attributes[2:]), "t")
WIDE = Domain((IntegerAttribute("a", 0, 20_000), *DOMAIN.attributes[1:]), "t")  # is not measured whole


def test_a_batch_is_one_statement_and_parts_of_it_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, statements = Snapshot.rows, []

    def counting(self: Snapshot, statement: str) -> list[tuple[object, ...]]:
        statements.append(statement)
        return rows(self, statement)

    monkeypatch.setattr(Snapshot, "rows", counting)
    source = inside(filled(tmp_path, RECORDS), DOMAIN)
    source.prepare([("a", "b"), ("c", "d"), ("a", "b"), ()])
    assert len(statements) == 1
    for scope in [("a", "b"), ("a",), ("c", "d"), ("d",), ()]:
        assert source.counts(scope).total == len(RECORDS)
        assert source.counts(scope) is source.counts(scope) or scope not in (("a", "b"), ("c", "d"))
    assert len(statements) == 1
    monkeypatch.setattr("pmw.data.source._MOST_CACHED_CELLS", 4)
    source.counts(("a", "c"))
    source.counts(("a", "b"))
    assert len(statements) == 3
    monkeypatch.setattr(EngineSource, "largest_scope", 4)
    with pytest.raises(DataError, match="spans 40 cells; a database counts at most 4 for us"):
        source.counts(("a", "c", "d"))


def test_a_fingerprint_tells_changed_tables_apart_and_their_order_is_no_matter(tmp_path: Path) -> None:
    def printed(records: list[tuple[object, ...]], key: bytes = b"k") -> bytes:
        return inside(filled(tmp_path, records), DOMAIN).fingerprint(key)

    first = printed(RECORDS)
    assert first.hex() == "965f5b1f7b29974e78adac1e490910b1aa096756897ad605b2729e2e4c7ec9d2"
    assert printed(RECORDS[::-1]) == first
    one, other = RECORDS[0], RECORDS[5]
    swapped = [(other[0], *one[1:]), (one[0], *other[1:])]  # every attribute has the counts that it had
    others = [
        printed(RECORDS, b"l"),
        printed(RECORDS[:-1]),
        printed([(1, *one[1:]), *RECORDS[1:]]),
        printed([*swapped, *RECORDS[1:5], *RECORDS[6:]]),
        printed([]),
    ]
    assert len({first, *others}) == 6
    with duckdb.connect() as engine:
        engine.execute(f"ATTACH '{tmp_path}/t.duckdb' AS d (READ_ONLY)")
        assert as_source(engine.sql("FROM d.t"), DOMAIN, None).fingerprint(b"k") not in {first, *others}


def test_a_fingerprint_tells_values_of_one_cell_apart_where_they_are_summed(tmp_path: Path) -> None:
    def printed(records: list[tuple[object, ...]], domain: Domain = SUMMED) -> bytes:
        return inside(filled(tmp_path, records), domain).fingerprint(b"k")

    records: list[tuple[object, ...]] = [(1, 5.5, "f", True), (2, 6.5, "f", True), (2, 7.5, "m", True)]
    first = printed(records)
    others = [
        printed([(1, 5.6, "f", True), *records[1:]]),  # another sum
        printed([(1, 6.5, "f", True), (2, 5.5, "f", True), records[2]]),  # by another cell of a
        printed([records[0], (2, 7.5, "f", True), (2, 6.5, "m", True)]),  # by another text
        printed([(1, 5.5, "f", True), (2, 6.0, "f", True), (2, 8.0, "m", True)]),  # the same sum
    ]
    assert len({first, *others}) == 5
    assert printed([(1, 5.5 + 1e-9, "f", True), *records[1:]]) == first  # the same places
    assert printed(records[::-1]) == first

    def of_b(*values: float) -> bytes:
        return printed([(0, value, "f", True) for value in values])

    assert of_b(5.5, 7.5) != of_b(6, 7)  # the same sums and products with other columns
    assert of_b(0, 0.005) != of_b(0.003, 0.004)  # the same products, and squares
    unsummed = [printed(table, DOMAIN) for table in (records, [(1, 5.6, "f", True), *records[1:]])]
    assert unsummed[0] == unsummed[1]


def test_a_session_remembers_how_it_counts_and_notices_a_changed_table(tmp_path: Path) -> None:
    address, path = filled(tmp_path, RECORDS), tmp_path / "study.pmw"
    place = DatabaseTable(address, "t", inside=True)
    assert place_of(json.loads(json.dumps(place.to_dict()))) == place
    pmw.open_session(place, WIDE, epsilon=1, path=path).close()
    with pmw.resume_session(path) as session:
        session.measure(("a", "c"))
    assert session.state.closed is False  # the session is there yet, and its file and database are let go of
    with pytest.raises(DataError, match="the table differs"):
        pmw.move_session(path, DatabaseTable(address, "t"))  # read, it has another fingerprint
    with duckdb.connect(address.partition(":")[2]) as connection:
        connection.execute("UPDATE t SET c = 'f' WHERE a = 1")
    with pmw.resume_session(path) as session:
        before = session.status().to_dict()
        with pytest.raises(DataError, match="the table differs"):
            session.measure(("a", "d"))
        assert session.status().to_dict() == before
    assert pmw.verify_session(path).holds


def test_what_cannot_be_counted_is_told_by_name_and_without_a_value(tmp_path: Path) -> None:
    address = made(
        tmp_path,
        "CREATE TABLE t (a VARCHAR)",
        "INSERT INTO t VALUES ('MARK-7f3a')",
        "CREATE VIEW bad AS SELECT CAST(a AS INTEGER) AS a FROM t",
    )
    domain = Domain((IntegerAttribute("a", 0, 9),))
    failing: list[Callable[[EngineSource], object]] = [
        lambda source: source.counts(("a",)),
        lambda source: source.fingerprint(b"k"),
    ]
    for call in failing:
        source = inside(address, domain, "bad")
        with pytest.raises(DataError, match="its table could not be read") as caught:
            call(source)
        assert "MARK" not in str(caught.value)
        assert caught.value.__context__ is None
        with pytest.raises(DataError):  # the snapshot is gone
            source.counts(())
        duckdb.connect(address.partition(":")[2]).close()  # the database is let go of
    other = Domain((IntegerAttribute("b", 0, 9),))
    for place, of, table, told in (
        (address, other, "t", "expected one column 'b', got no such column"),
        (address, domain, "absent", "expected a table or view 'absent'"),
        ("duckdb:nowhere.duckdb", domain, "t", "no such file"),
    ):
        with pytest.raises(DataError, match=told):
            inside(place, of, table)
    persons = Domain(domain.attributes, person=Person("p", 1))
    with pytest.raises(DataError, match="people are bounded where the table is read; leave --inside out"):
        as_source(DatabaseTable(address, "bad", inside=True), persons, bytes(32))


# --- DuckDB databases that are read ---------------------------------------------------------------------


ANY_VALUE = {
    "TINYINT": ["-128", "3", "127"],
    "BIGINT": [str(-(2**63)), "3", str(2**63 - 1)],
    "HUGEINT": ["-170141183460469231731687303715884105728", "3", "170141183460469231731687303715884105727"],
    "UHUGEINT": ["0", "340282366920938463463374607431768211455"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "-0.0", "1e308", "5e-324", "3.0"],
    "FLOAT": ["'nan'", "'inf'", "'-inf'", "-0.0", "3e38"],
    "DECIMAL(38, 10)": ["'9999999999999999999999999999.9999999999'", "3"],
    "VARCHAR": [
        "'f'", "''", "' f'", "'F'", "'nan'", "'1e999'", "'2020-02-30'", "'2020-02-29'", "repeat('9', 9999)",
        "chr(0)", "'f' || chr(0)", "'it''s'", "chr(65533)", "chr(128077)",
    ],
    "VARCHAR COLLATE NOCASE": ["'f'", "'F'", "''", "'true'", "'TRUE'"],
    "BLOB": ["'\\xFF\\x00'::BLOB", "'f'::BLOB"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["'infinity'", "'-infinity'", "'2020-02-29'", "'5877642-06-25 (BC)'", "'5881580-07-10'"],
    "TIMESTAMP": [
        "'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'",
    ],
    "TIMESTAMPTZ": [
        "'infinity'", "'-infinity'", "'2020-01-31 23:59:59-05'", "'290309-12-22 (BC) 00:00:00+00'",
    ],
    "TIMESTAMP_S": ["'infinity'", "'-infinity'", "'2020-02-29'", "'290309-12-22 (BC) 00:00:00'"],
    "TIMESTAMP_MS": ["'infinity'", "'-infinity'", "'2020-02-29'", "'294247-01-10 04:00:54.775'"],
    "TIMESTAMP_NS": ["'infinity'", "'-infinity'", "'1677-09-22'", "'2262-04-11'"],
    "TIME": ["'00:00'", "'08:30:15.25'", "'23:59:59.999999'", "'24:00:00'"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'"],
    "INTERVAL": ["'178956970 years'", "'-178956970 years'", "'1 day'"],
    "ENUM('f', 'm')": ["'f'", "'m'"],
}  # fmt: skip
REFUSED_KINDS = ["TIMETZ", "BIT", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "JSON"]


# Every attribute over every type that is read, in one table; the last row is empty.
BESIDE = beside(ANY_VALUE, TRYING[::2])
MOST = max(map(len, ANY_VALUE.values()))
ROWS = {kind: [*islice(cycle(values), MOST), "NULL"] for kind, values in ANY_VALUE.items()}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose table t has all values, each row with its number, and four views of some rows each."""
    kinds = {name: name.rpartition(" ")[0] for name in BESIDE.names}
    columns = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
    rows = [", ".join(ROWS[kind][place] for kind in kinds.values()) for place in range(MOST + 1)]
    views = [f"CREATE VIEW v{place} AS SELECT * FROM t WHERE i % 4 = {place}" for place in range(4)]
    values = ", ".join(f"({place}, {row})" for place, row in enumerate(rows))
    return database(
        tmp_path_factory.mktemp("hostile"),
        f"CREATE TABLE t (i INTEGER, {columns})",
        f"INSERT INTO t VALUES {values}",
        *views,
    )


def counts(path: Path, table: str = "t", domain: Domain = BESIDE) -> list[list[int]]:
    source = as_source(DatabaseTable(f"duckdb:{path}", table), domain, None)
    return [source.counts((name,)).counts.tolist() for name in domain.names]


def test_a_type_that_is_read_is_read_whatever_it_holds(hostile: Path) -> None:
    before = hostile.read_bytes()
    some_by_some = [counts(hostile, f"v{place}") for place in range(4)]
    for attribute, together, *each in zip(BESIDE, counts(hostile), *some_by_some, strict=True):
        values = ROWS[attribute.name.rpartition(" ")[0]]
        assert together == [sum(cells) for cells in zip(*each, strict=True)], attribute.name
        assert sum(together) == len(values)
        empty = sum(value in ("NULL", "''") for value in values)
        if attribute.name.startswith(("DOUBLE", "FLOAT")):
            empty += values.count("'nan'")
        assert together[attribute.missing_code or 0] == empty, attribute.name
    assert hostile.read_bytes() == before
    assert os.listdir(hostile.parent) == ["t.duckdb"]


@pytest.mark.parametrize("where", ["true", "false"])
def test_a_type_that_is_refused_is_refused_whatever_it_holds(tmp_path: Path, where: str) -> None:
    columns = ", ".join(f"NULL::{kind} AS x{place}" for place, kind in enumerate(REFUSED_KINDS))
    path = database(tmp_path, f"CREATE TABLE t AS SELECT {columns} WHERE {where}")
    for place in range(len(REFUSED_KINDS)):
        told = rf"^t in .*t\.duckdb: expected plain values in column 'x{place}', got"
        with pytest.raises(DataError, match=told):
            counts(path, domain=Domain((replace(TRYING[0], name=f"x{place}"),)))


PEOPLE_FRAME = pd.DataFrame(
    {"id": ["a", "b", None, "a", "a"] * 40, "x": range(200), "sex": ["f", "m", "?", None, "f"] * 40}
)
PEOPLE = Domain(
    (IntegerAttribute("x", 0, 150, 10), CategoricalAttribute("sex", ("f", "m"), missing=True)),
    person=Person("id", 3),
)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", PEOPLE_FRAME)
        connection.execute("CREATE SCHEMA study")
        connection.execute("CREATE TABLE study.people AS FROM frame ORDER BY hash(x)")
        connection.execute("CREATE VIEW seen AS SELECT DISTINCT * FROM study.people")
        connection.execute("CREATE VIEW bad AS SELECT CAST(sex AS INTEGER) AS x, sex, id FROM study.people")
    return path


@pytest.mark.parametrize("table", ["study.people", "seen"])
def test_rows_in_any_order_are_the_same_table(people: Path, table: str) -> None:
    expected = MemorySource.from_frame(PEOPLE_FRAME, PEOPLE, KEY)
    source = as_source(DatabaseTable(f"duckdb:{people}", table), PEOPLE, KEY)
    assert source.counts(PEOPLE.names).counts.tolist() == expected.counts(PEOPLE.names).counts.tolist()
    assert source.fingerprint(b"k") == expected.fingerprint(b"k")
    more = MemorySource.from_frame(pd.concat([PEOPLE_FRAME, PEOPLE_FRAME.iloc[:1]]), PEOPLE, KEY)
    assert more.fingerprint(b"k") != expected.fingerprint(b"k")


@pytest.mark.parametrize(
    ("address", "table", "message"),
    [
        ("duckdb:absent.duckdb", "t", "absent.duckdb: no such file"),
        ("duckdb:{folder}/people.duckdb", "absent", "expected a table or view 'absent' in .*, got none"),
        ("duckdb:{folder}/people.duckdb", 'a"; DROP TABLE study.people; --', "expected a table or view"),
        ("duckdb:{folder}/no.duckdb", "t", "could not be opened as a DuckDB database"),
        ("duckdb:{folder}/people.duckdb", "bad", "its table could not be read"),
        ("duckdb:{folder}/people.duckdb", "study..people", "expected the name of a table"),
        ("sqlite:people.db", "t", "expected an address such as duckdb:"),
        ("duckdb:people\n.duckdb", "t", "expected a printable text for address"),
    ],
)
def test_what_cannot_be_read_is_told_by_name_and_without_a_value(
    people: Path, address: str, table: str, message: str
) -> None:
    (people.parent / "no.duckdb").write_bytes(b"Alice" * 4000)
    with pytest.raises(DataError, match=message) as caught:
        as_source(DatabaseTable(address.format(folder=people.parent), table), PEOPLE, KEY)
    assert not any(word in str(caught.value) for word in ("Alice", "'f'", "'?'"))
    assert caught.value.__context__ is None
    absent = Domain((*PEOPLE.attributes, IntegerAttribute("absent", 0, 1)), person=PEOPLE.person)
    with pytest.raises(DataError, match="expected one column 'absent', got no such column"):
        as_source(DatabaseTable(f"duckdb:{people}", "study.people"), absent, KEY)


def test_no_extension_is_loaded_or_fetched_for_a_view(people: Path) -> None:
    settings = ("autoload_known_extensions", "autoinstall_known_extensions")
    asked = ", ".join(f"current_setting('{name}')" for name in settings)
    snapshot = Snapshot(DuckdbTable(people, ["study", "people"]))
    assert snapshot.rows(f"SELECT {asked}") == [(False, False)]
    snapshot.close()
    with duckdb.connect(str(people)) as connection:
        usual = connection.execute(f"SELECT {asked}").fetchone()
        assert usual == (True, True)  # so the settings are ours
        connection.execute(f"CREATE VIEW settings AS SELECT concat_ws(' ', {asked}) AS sex")
    domain = Domain((CategoricalAttribute("sex", ("false false",), other=True),))
    source = as_source(DatabaseTable(f"duckdb:{people}", "settings"), domain, None)
    assert source.counts(("sex",)).counts.tolist() == [1, 0]


def test_all_statements_of_a_snapshot_are_of_one_moment(people: Path) -> None:
    """A view may say what time it is, which is that of the transaction."""
    with duckdb.connect(str(people)) as connection:
        connection.execute("CREATE VIEW moment AS SELECT epoch_us(now()) AS x")
    snapshot = Snapshot(DuckdbTable(people, ["moment"]))
    first = snapshot.rows("SELECT x FROM moment")
    assert snapshot.rows("SELECT x FROM moment") == first
    snapshot.close()


def test_a_database_that_another_process_writes_to_is_told(people: Path) -> None:
    hold = f"import duckdb, sys; c = duckdb.connect({str(people)!r}); print('held', flush=True)"
    hold += "; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(DataError, match="another process may be writing to it"):
            as_source(DatabaseTable(f"duckdb:{people}", "study.people"), PEOPLE, KEY)
        assert process.stdin is not None
        process.stdin.close()
