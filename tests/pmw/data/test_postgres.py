"""Postgres: read in place, by types, whatever their values are; passwords reach nothing.

These tests start a server of their own; they are skipped where there is none, or no driver.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import CountSource, DatabaseTable, MemorySource, as_source, sql_tables
from pmw.data.engine_source import Snapshot
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, Person
from queries.records import Columns
from tests.pmw.data.lines import KEY, TRYING, beside, same_counts

PASSWORD = "hunter2-7f3a"  # noqa: S105 - of a server of these tests alone
PROGRAMS = [shutil.which("initdb"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a server whose role ``reader`` may only read, and return its address."""
    psycopg = pytest.importorskip(
        "psycopg", reason="the driver of Postgres is not here: pip install psycopg[binary]"
    )
    programs = [Path(found).resolve().parent for found in PROGRAMS if found]
    if not programs:
        pytest.skip("Postgres is not here: apt-get install postgresql")
    user: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        if user:
            shutil.chown(folder, "postgres")
        init = [str(programs[0] / "initdb"), "-D", f"{folder}/data", "-U", "owner", "-A", "trust"]
        made = subprocess.run(
            [*init, "--locale=C", "-E", "UTF8", "--no-sync"], capture_output=True, check=False, **user
        )
        if made.returncode:
            pytest.skip("Postgres cannot be set up here: initdb failed")
        Path(folder, "data", "pg_hba.conf").write_text("local all owner trust\nlocal all all scram-sha-256\n")
        place = ["-D", f"{folder}/data", "-k", folder, "-c", "listen_addresses=", "-F"]
        run = [str(programs[0] / "postgres"), *place]
        with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user) as process:
            address = f"postgresql://owner@/postgres?host={folder}"
            for _ in range(100):
                try:
                    with psycopg.connect(address) as connection:
                        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
                        connection.execute("GRANT pg_read_all_data TO reader")
                    break
                except psycopg.OperationalError:
                    if process.poll() is not None:
                        pytest.skip("Postgres does not run here")
                    time.sleep(0.1)
            yield address
            process.send_signal(signal.SIGINT)


@pytest.fixture
def reader(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return server.replace("owner@", "reader@")


def execute(server: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '5s'")  # a test that leaves a snapshot open fails
        for statement in statements:
            connection.execute(statement)


def fill(server: str, kind: str, *values: str) -> None:
    """Make a table t with a column x of a type and these values."""
    execute(server, "DROP TABLE IF EXISTS t CASCADE", f"CREATE TABLE t (x {kind})")
    if values:
        execute(server, f"INSERT INTO t VALUES {', '.join(f'({value})' for value in values)}")


# The type in Postgres, the one in DuckDB that means the same, and values.
HOSTILE = {
    "smallint": ("SMALLINT", ["-32768", "3", "32767"]),
    "bigint": ("BIGINT", ["-9223372036854775808", "3", "9223372036854775807"]),
    "real": ("FLOAT", ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'0.1'", "'3e38'"]),
    "double precision": ("DOUBLE", ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'0.1'", "'1e308'", "3"]),
    "numeric": ("VARCHAR", ["'NaN'", "'Infinity'", "'-Infinity'", "'1e300'", "'-0.00'", "'3.0'"]),
    "numeric(6,2)": ("DECIMAL(6,2)", ["9999.99", "3"]),
    "text": ("VARCHAR", ["'f'", "''", "'a '", "' f'", "'F'", "'nan'", "'1e999'", "'2020-02-30'"]),
    "varchar(3)": ("VARCHAR", ["'f'", "'a '"]),
    "boolean": ("BOOLEAN", ["true", "false"]),
    "date": ("DATE", ["'infinity'", "'-infinity'", "'2020-02-29'", "'5874897-12-31'", "'4713-01-01 BC'"]),
    "timestamp": ("TIMESTAMP", ["'infinity'", "'-infinity'", "'2020-02-29 23:59:59.9'", "'4713-01-01 BC'"]),
    "timestamp(3) with time zone": ("TIMESTAMPTZ", ["'infinity'", "'-infinity'", "'2020-01-31 23:59:59-05'"]),
    "time": ("TIME", ["'00:00'", "'08:30:15.25'", "'23:59:59.999999'", "'24:00:00'"]),
    "time(0)": ("TIME", ["'08:30:15'"]),
    "uuid": ("UUID", ["'00000000-0000-0000-0000-00000000000A'"]),
}  # fmt: skip


def counts(address: str, attribute: Any, table: str = "t") -> list[int]:
    source = as_source(DatabaseTable(address, table), Domain((attribute,)), None)
    cells: list[int] = source.counts(("x",)).counts.tolist()
    return cells


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_type_that_is_read_is_read_whatever_it_holds_and_as_elsewhere(
    server: str, reader: str, kind: str
) -> None:
    other, values = HOSTILE[kind]
    values = [*values, "NULL"]
    fill(server, kind, *values)
    rows = ", ".join(f"({value.replace(' BC', ' (BC)')})" for value in values)
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute(f"CREATE TABLE t (x {other})")
        engine.execute(f"INSERT INTO t VALUES {rows}")
        if kind == "numeric":  # another engine's decimals hold no NaN, which is empty
            engine.execute("UPDATE t SET x = NULL WHERE x = 'NaN'")
        domain = beside(["x"])
        copies = ", ".join(f'x AS "{name}"' for name in domain.names)
        execute(server, f"CREATE VIEW v AS SELECT {copies} FROM t")
        found = as_source(DatabaseTable(reader, "v"), domain, None)
        expected = as_source(engine.sql(f"SELECT {copies} FROM t"), domain, None)
        for name in domain.names:
            cells = found.counts((name,)).counts
            assert cells.tolist() == expected.counts((name,)).counts.tolist(), name
            assert cells.sum() == len(values)


def test_a_type_that_is_refused_is_refused_whatever_it_holds(server: str, reader: str) -> None:
    for kind in ("timetz", "integer[]", "json", "money", "interval", "bytea", "bit", "inet"):
        fill(server, kind)
        with pytest.raises(DataError, match="expected plain values in column 'x', got a column of type"):
            counts(reader, TRYING[0])


FRAME = pd.DataFrame({"id": [1, 2, None, 1, 1] * 40, "x": range(200), "sex": ["f", "m", "?", None, "f"] * 40})
FRAME["id"] = FRAME["id"].astype("Int64")
DOMAIN = Domain(
    (IntegerAttribute("x", 0, 150, 10), CategoricalAttribute("sex", ("f", "m"), missing=True)),
    person=Person("id", 3),
)


@pytest.fixture
def people(server: str, reader: str) -> DatabaseTable:
    records = zip(FRAME["id"].fillna(0), FRAME["x"], FRAME["sex"].fillna(""), strict=True)
    rows = ", ".join(f"(NULLIF({person}, 0), {x}, NULLIF('{sex}', ''))" for person, x, sex in records)
    execute(
        server,
        "DROP SCHEMA IF EXISTS study CASCADE",
        "CREATE SCHEMA study",
        "CREATE TABLE study.people (id bigint, x integer, sex text)",
        f"INSERT INTO study.people VALUES {rows}",
        "CREATE VIEW study.bad AS SELECT id, CAST(sex AS integer) AS x, sex FROM study.people",
    )
    return DatabaseTable(reader, "study.people")


def test_a_session_is_the_same_and_its_file_knows_no_password(
    people: DatabaseTable, server: str, tmp_path: Path
) -> None:
    expected = MemorySource.from_frame(FRAME, DOMAIN, KEY)
    assert as_source(people, DOMAIN, KEY).fingerprint(b"k") == expected.fingerprint(b"k")
    seeded = pmw.Options(seed=5)
    with (
        pmw.open_session(FRAME, DOMAIN, epsilon=1, options=seeded) as one,
        pmw.open_session(people, DOMAIN, epsilon=1, options=seeded) as other,
    ):
        assert one.ask("x >= 70 AND sex = 'f'").to_dict() == other.ask("x >= 70 AND sex = 'f'").to_dict()
    path = tmp_path / "study.pmw"
    pmw.open_session(people, DOMAIN, epsilon=1, path=path).close()
    assert not any(PASSWORD.encode() in file.read_bytes() for file in tmp_path.iterdir())
    pmw.move_session(path, people)
    execute(server, "UPDATE study.people SET sex = 'm' WHERE x = 0")
    with pytest.raises(DataError, match="differs"):
        pmw.move_session(path, people)


@pytest.mark.parametrize("inside", [False, True])
def test_what_cannot_be_read_or_counted_is_told_without_a_value_or_a_password(
    people: DatabaseTable, reader: str, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    def told(address: str, table: str, name: str = "x") -> str:
        place = DatabaseTable(address, table, inside=inside)
        with pytest.raises(DataError) as caught:
            as_source(place, Domain((IntegerAttribute(name, 0, 9),)), None).counts((name,))
        assert caught.value.__context__ is None
        assert PASSWORD not in str(caught.value)
        return str(caught.value)

    assert told(reader, "study.bad").endswith(": the table could not be read")
    assert told(reader, "study.absent").endswith("got none")
    assert "expected one column 'y', got no such column" in told(reader, "study.people", "y")
    assert "could not be reached" in told("postgresql://reader@/postgres?host=/nowhere", "t")
    monkeypatch.setenv("PGPASSWORD", f"no {PASSWORD}")
    assert "credentials" in told(reader, "study.people")


def test_an_address_with_a_secret_is_refused_and_not_shown() -> None:
    keys = ("password", "sslpassword", "options")
    for address in (
        f"reader:{PASSWORD}@host/db", *(f"reader@host/db?{key}={PASSWORD}" for key in keys),
        f"[{PASSWORD}/db", f"host/db#{PASSWORD}",
    ):  # fmt: skip
        with pytest.raises(DataError, match="expected") as caught:
            DatabaseTable(f"postgresql://{address}", "t")
        assert PASSWORD not in str(caught.value)


INSIDE: list[Any] = [
    IntegerAttribute("x", -3, 12, 4, resolution=2, missing=True, other=True),
    IntegerAttribute("x", -(2**53) + 1, 2**53 - 1, 2**40, resolution=2**34),
    NumericAttribute("x", (-1.5, 0, 0.1, 2.5, 7), resolution=0.1, missing=True, other=True),
    NumericAttribute("x", (-3, 0, 3, 7), atoms=(0, 3), integer=True, resolution=1, missing=True, other=True),
    NumericAttribute("x", (0, 5, 100), resolution=3, missing=True, other=True),  # of 5e-324 no part is left
    NumericAttribute("x", (-1e308, 0, 1e307), resolution=1e303, missing=True, other=True),
    CategoricalAttribute("x", ("f", "a ", "it's", "\\", "é"), missing=True, other=True),
    CategoricalAttribute("x", (0, 3, -3), missing=True, other=True),
    CategoricalAttribute("x", (True, False), other=True),
]
INSIDE_VALUES = {
    "smallint": ["-32768", "3", "32767", "0", "-3"],
    "integer": ["-2147483648", "3", "2147483647", "7"],
    "bigint": [str(-(2**63)), str(2**63 - 1), str(2**53 + 1), "3", "12", "0"],
    "real": ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'0.1'", "'3e38'", "'1e-45'", "2.5"],
    "double precision": ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'0.1'", "'1e308'", "'5e-324'", "7"],
    "boolean": ["true", "false"],
    "text": ["'f'", "''", "'a '", "' f'", "'F'", "'é'", "'e' || chr(769)", "'it''s'", "E'\\\\'"],
    "text COLLATE nocase": ["'f'", "'F'", "'a '", "''"],
    "varchar(3)": ["'f'", "'a '"],
    "char(3)": ["'f'", "'a '", "''"],
    "letters": ["'f'", "'F'", "'it''s'"],
}  # fmt: skip


def sums(source: CountSource) -> list[list[int]]:
    """Return the sums of the places of every attribute that has some, by its cells."""
    names = [grid.attribute for grid in source.domain.grids]
    return [
        source.place_sums((name,), name, squared=squared).counts.tolist()
        for name in names
        for squared in (False, True)
    ]


@pytest.mark.parametrize("kind", INSIDE_VALUES)
def test_cells_made_in_the_database_are_those_that_the_encoder_makes(
    server: str, reader: str, kind: str
) -> None:
    with suppress(Exception):
        execute(server, "CREATE TYPE letters AS ENUM ('f', 'F', 'it''s')")
    if "COLLATE" in kind:
        insensitive = "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        execute(server, f"CREATE COLLATION IF NOT EXISTS nocase {insensitive}")
    fill(server, kind, *INSIDE_VALUES[kind], "NULL")
    counted = 0
    for attribute in INSIDE:
        expected = counts(reader, attribute)
        with suppress(DataError):
            source = as_source(DatabaseTable(reader, "t", inside=True), Domain((attribute,)), None)
            counted += 1
            assert source.counts(("x",)).counts.tolist() == expected, attribute
            assert sums(source) == sums(as_source(DatabaseTable(reader, "t"), source.domain, None)), attribute
    assert counted >= 1


def test_a_random_table_is_counted_inside_as_in_memory_in_one_snapshot(server: str, reader: str) -> None:
    execute(
        server,
        "DROP TABLE IF EXISTS t CASCADE",
        "CREATE TABLE t (a bigint, b double precision, c text, d boolean)",
        "INSERT INTO t SELECT floor(40 * random()) - 10, CASE WHEN random() < .9 THEN 12 * random() - 1 END,"
        " (ARRAY['f', 'm', 'F', '', NULL])[1 + floor(5 * random())::int], random() < .3"
        " FROM generate_series(1, 3000)",
    )
    domain = Domain(
        (
            IntegerAttribute("a", 0, 19, 3, resolution=1),
            NumericAttribute("b", (0, 0.5, 3, 9), atoms=(9,), resolution=1e-5, missing=True),
            CategoricalAttribute("c", ("f", "m"), missing=True),  # others are dropped
            CategoricalAttribute("d", (True, False)),
        )
    )
    held = as_source(DatabaseTable(reader, "t"), domain, None)
    counted = as_source(DatabaseTable(reader, "t", inside=True), domain, None)
    printed = counted.fingerprint(b"k")
    execute(server, "DELETE FROM t WHERE a > 3")  # the snapshot is the table as it was
    scopes = [scope for size in range(5) for scope in combinations(domain.names, size)]
    counted.prepare(scopes[:12])
    same_counts(held, counted, scopes)
    bins = [np.arange(size) // 2 for size in domain.shape]
    coarse = Domain(tuple(IntegerAttribute(one.name, 0, (one.size + 1) // 2 - 1) for one in domain))
    for scope in scopes:  # each of sources of their own, which have counted nothing
        same_counts(held.coarsened(coarse, bins), counted.coarsened(coarse, bins), [scope])
    assert counted.fingerprint(b"k") == printed
    changed = as_source(DatabaseTable(reader, "t", inside=True), domain, None)
    assert changed.fingerprint(b"k") != printed


def kill_connections(server: str) -> None:
    """Kill what serves our connections; the server ends all others, recovers and goes on."""
    import psycopg

    with psycopg.connect(server) as connection:
        found = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'pmw'")
        pids = [pid for (pid,) in found.fetchall()]
    for pid in pids:  # the server ends every connection then, so its own is closed before
        os.kill(pid, signal.SIGKILL)


def wait_for(server: str) -> None:
    import psycopg

    for _ in range(100):
        with suppress(psycopg.OperationalError):
            psycopg.connect(server).close()
            break
        time.sleep(0.1)


def test_a_server_that_is_killed_in_a_count_is_told_and_nothing_is_recorded(
    people: DatabaseTable, server: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sex = CategoricalAttribute("sex", ("f", "m"), missing=True)
    domain = Domain((IntegerAttribute("id", 0, 99), IntegerAttribute("x", 0, 20_000), sex), "t")
    path, rows = tmp_path / "study.pmw", Snapshot.rows
    place = DatabaseTable(reader, "study.people", inside=True)
    pmw.open_session(place, domain, epsilon=1, path=path).close()

    def kill(self: Snapshot, statement: str) -> list[tuple[Any, ...]]:
        monkeypatch.setattr(Snapshot, "rows", rows)
        kill_connections(server)
        return rows(self, statement)

    with pmw.resume_session(path) as session:
        session.measure(("sex",))  # the table is compared
        lines = len(session.ledger().lines)
        monkeypatch.setattr(Snapshot, "rows", kill)
        with pytest.raises(DataError, match="the connection was lost") as caught:
            session.measure(("x", "sex"))
        assert caught.value.__context__ is None
        assert PASSWORD not in str(caught.value)
    wait_for(server)
    with pmw.resume_session(path) as session:  # in a new snapshot
        assert len(session.ledger().lines) == lines
        session.measure(("x", "sex"))
        assert len(session.ledger().lines) == lines + 1
    del session, caught  # lets go of the snapshot
    assert pmw.verify_session(path).holds
    assert not any(PASSWORD.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_a_server_that_is_killed_while_it_is_read_is_told_and_read_again(
    people: DatabaseTable, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(server, "INSERT INTO study.people SELECT 7, 5, 'f' FROM generate_series(1, 70000)")
    path, made = tmp_path / "study.pmw", sql_tables._columns

    def kill(*arguments: Any) -> Columns:
        monkeypatch.setattr(sql_tables, "_columns", made)
        kill_connections(server)
        return made(*arguments)

    monkeypatch.setattr(sql_tables, "_columns", kill)
    with pytest.raises(DataError, match="the connection was lost") as caught:
        pmw.open_session(people, DOMAIN, epsilon=1, path=path)
    assert caught.value.__context__ is None
    assert not path.exists()
    wait_for(server)
    pmw.open_session(people, DOMAIN, epsilon=1, path=path).close()
    assert pmw.verify_session(path).holds
