"""DuckDB databases: read in place, by types, whatever their values are; nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from pmw.data import DatabaseTable, MemorySource, as_source
from pmw.data.duckdb_file import DuckdbTable
from pmw.data.engine_source import Snapshot
from pmw.errors import DataError
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    Person,
)
from tests.pmw.data.lines import KEY, TRYING, beside, database

HOSTILE = {
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
REFUSED = ["TIMETZ", "BIT", "INTEGER[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "JSON"]


# Every attribute over every type that is read, in one table; the last row is empty.
BESIDE = beside(HOSTILE)
MOST = max(map(len, HOSTILE.values()))
ROWS = {kind: [*islice(cycle(values), MOST), "NULL"] for kind, values in HOSTILE.items()}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose table t has all values, each row with its number and a view of it alone."""
    kinds = {name: name.rpartition(" ")[0] for name in BESIDE.names}
    columns = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
    rows = [", ".join(ROWS[kind][place] for kind in kinds.values()) for place in range(MOST + 1)]
    views = [f"CREATE VIEW v{place} AS SELECT * FROM t WHERE i = {place}" for place in range(MOST + 1)]
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
    one_by_one = [counts(hostile, f"v{place}") for place in range(MOST + 1)]
    for attribute, together, *each in zip(BESIDE, counts(hostile), *one_by_one, strict=True):
        values = ROWS[attribute.name.rpartition(" ")[0]]
        assert together == [sum(cells) for cells in zip(*each, strict=True)], attribute.name
        assert sum(together) == len(values)
        empty = sum(value in ("NULL", "''") for value in values)
        if attribute.name.startswith(("DOUBLE", "FLOAT")):
            empty += values.count("'nan'")
        assert together[attribute.missing_code or 0] == empty, attribute.name
    assert hostile.read_bytes() == before
    assert os.listdir(hostile.parent) == ["t.duckdb"]


def test_texts_have_the_same_cells_whether_few_or_many_are_distinct(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = counts(hostile)
    monkeypatch.setattr("pmw.data.engine_columns._MOST_LISTED", 1)
    assert counts(hostile) == listed


@pytest.mark.parametrize("kind", REFUSED)
def test_a_type_that_is_refused_is_refused_whatever_it_holds(tmp_path: Path, kind: str) -> None:
    for rows in ("SELECT NULL", "SELECT NULL WHERE false"):
        path = database(tmp_path, f"CREATE TABLE t (x {kind})", f"INSERT INTO t {rows}")
        with pytest.raises(DataError, match=r"^t in .*t\.duckdb: expected plain values in column 'x', got"):
            counts(path, domain=Domain(tuple(TRYING[:1])))


FRAME = pd.DataFrame(
    {"id": ["a", "b", None, "a", "a"] * 40, "x": range(200), "sex": ["f", "m", "?", None, "f"] * 40}
)
DOMAIN = Domain(
    (IntegerAttribute("x", 0, 150, 10), CategoricalAttribute("sex", ("f", "m"), missing=True)),
    person=Person("id", 3),
)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", FRAME)
        connection.execute("CREATE SCHEMA study")
        connection.execute("CREATE TABLE study.people AS FROM frame ORDER BY hash(x)")
        connection.execute("CREATE VIEW seen AS SELECT DISTINCT * FROM study.people")
        connection.execute("CREATE VIEW bad AS SELECT CAST(sex AS INTEGER) AS x, sex, id FROM study.people")
    return path


@pytest.mark.parametrize("table", ["study.people", "seen"])
def test_rows_in_any_order_are_the_same_table(people: Path, table: str) -> None:
    expected = MemorySource.from_frame(FRAME, DOMAIN, KEY)
    source = as_source(DatabaseTable(f"duckdb:{people}", table), DOMAIN, KEY)
    assert source.counts(DOMAIN.names).counts.tolist() == expected.counts(DOMAIN.names).counts.tolist()
    assert source.fingerprint(b"k") == expected.fingerprint(b"k")
    more = MemorySource.from_frame(pd.concat([FRAME, FRAME.iloc[:1]]), DOMAIN, KEY)
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
        as_source(DatabaseTable(address.format(folder=people.parent), table), DOMAIN, KEY)
    assert not any(word in str(caught.value) for word in ("Alice", "'f'", "'?'"))
    assert caught.value.__context__ is None
    absent = Domain((*DOMAIN.attributes, IntegerAttribute("absent", 0, 1)), person=DOMAIN.person)
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
            as_source(DatabaseTable(f"duckdb:{people}", "study.people"), DOMAIN, KEY)
        assert process.stdin is not None
        process.stdin.close()
