"""Columns of the engine: values that are listed, clipped or read one by one have the cells of the encoder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import pmw
from pmw.data import DatabaseTable, TableFile, as_source, engine_columns, memory
from pmw.data.arrow_arrays import StreamError, batches
from pmw.data.inspection import inspect_table
from pmw.data.packed import PackedRecords, packed_digest
from pmw.errors import DataError
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.values import values_of

WHOLE = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
}
NUMBERS: list[Attribute] = [
    IntegerAttribute("x", -3, 12, 4, resolution=2, missing=True),
    IntegerAttribute("x", 0, 125, missing=True),  # as many places as fit into a TINYINT
    IntegerAttribute("x", 0, 126, missing=True),  # one more
    IntegerAttribute("x", 300, 40_000, 7, missing=True),  # too many to be told apart by places
    IntegerAttribute("x", 2**53 - 9, 2**53 - 1, missing=True),
    NumericAttribute("x", (-1.5, 0, 0.1, 2.5, 7), atoms=(2.5,), resolution=0.1, missing=True),
    NumericAttribute("x", (-3, 0, 3, 7), integer=True, resolution=1, missing=True),
    CategoricalAttribute("x", (-1, 0, 5, "7", "2.0", 2**62), missing=True, other=True),
]


def parquet(folder: Path, column: str, values: list[Any]) -> Path:
    file = folder / "t.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t (x {column})")
        engine.executemany("INSERT INTO t VALUES (?)", [[value] for value in values])
        engine.execute(f"COPY t TO '{file}' (FORMAT parquet)")
    return file


def expected(attribute: Attribute, values: list[Any]) -> list[int]:
    cells = [values_of(attribute).encode(value) for value in values]
    return [cells.count(cell) for cell in range(attribute.size)]


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("attribute", NUMBERS, ids=range(len(NUMBERS)))
def test_whole_numbers_of_every_type_have_the_cells_of_the_encoder(
    tmp_path: Path, kind: str, attribute: Attribute
) -> None:
    low, high = WHOLE[kind]
    near = [-5, -4, -3, -1, 0, 1, 2, 3, 7, 8, 11, 12, 13, 125, 126, 127, 299, 306, 307, 40_001, 2**53, 2**62]
    values = [None, low, low + 1, high - 1, high, *(one for one in near if low <= one <= high)]
    source = as_source(parquet(tmp_path, kind, values), domain := Domain((attribute,)), None)
    assert source.counts(("x",)).counts.tolist() == expected(attribute, values)
    for grid in domain.grids:
        own = values_of(grid)
        places = [own.encode(value) for value in values]
        known = sum(place for place in places if place < grid.base_size)
        assert source.place_sums(("x",), "x").total == known


@pytest.mark.parametrize("distinct", [3, 4096, 4097])
@pytest.mark.parametrize("kind", ["VARCHAR", "DATE", "BIGINT"])
def test_values_that_are_listed_and_that_are_too_many_have_the_same_cells(
    tmp_path: Path, kind: str, distinct: int
) -> None:
    file, database = tmp_path / "t.parquet", tmp_path / "t.duckdb"
    made = {
        "VARCHAR": "CASE WHEN n = 1 THEN 'é\U0001f600' WHEN n = 2 THEN '' ELSE 'm' || n END",
        "DATE": "DATE '1990-01-01' + n::INTEGER",
        "BIGINT": "n - 2",
    }[kind]
    with duckdb.connect(str(database)) as engine:
        engine.execute(
            f"CREATE TABLE t AS SELECT CASE WHEN i % 7 = 0 THEN NULL ELSE {made} END AS x"
            f" FROM (SELECT i, i // 2 % {distinct} AS n FROM range({4 * distinct}) r(i))"
        )
        engine.execute(f"COPY t TO '{file}' (FORMAT parquet)")
        values = [value for (value,) in engine.execute("SELECT x::VARCHAR FROM t").fetchall()]
    listed = [value for value in dict.fromkeys(values) if value][:9]
    attribute = CategoricalAttribute("x", tuple(listed), missing=True, other=True)
    for table in (file, DatabaseTable(f"duckdb:{database}", "t")):
        source = as_source(table, Domain((attribute,)), None)
        assert source.counts(("x",)).counts.tolist() == expected(attribute, values)


def test_numbers_beyond_the_ends_are_told_to_the_custodian(tmp_path: Path) -> None:
    file = parquet(tmp_path, "INTEGER", [-(2**31), -1, 0, 9, 10, 11, 2**31 - 1, None])
    (facts,) = inspect_table(TableFile(file), Domain((IntegerAttribute("x", 0, 10),))).attributes
    assert (facts.clipped_low, facts.clipped_high, facts.empty) == (2, 2, 1)


def test_a_path_with_quotes_is_read(tmp_path: Path) -> None:
    file = parquet(tmp_path, "INTEGER", [1, 2]).rename(tmp_path / "it's '' a \"table\".parquet")
    assert as_source(file, Domain((IntegerAttribute("x", 0, 3),)), None).counts(()).total == 2


def test_a_stream_that_fails_is_told_without_what_the_engine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(relation: Any) -> Generator[list[Any]]:
        yield from batches(relation)
        raise StreamError("4711 is no number")

    domain = Domain((IntegerAttribute("x", 0, 3),))
    file, database = parquet(tmp_path, "INTEGER", [1, 2]), tmp_path / "t.duckdb"
    with duckdb.connect(str(database)) as engine:
        engine.execute("CREATE TABLE t AS SELECT 1 AS x")
    monkeypatch.setattr(engine_columns, "batches", failing)
    for table in (file, DatabaseTable(f"duckdb:{database}", "t")):
        with pytest.raises(DataError) as caught:
            as_source(table, domain, None)
        assert "4711" not in str(caught.value)
        assert caught.value.__context__ is None


def test_an_engine_that_fails_amid_a_stream_is_no_end_of_it() -> None:
    with duckdb.connect() as engine:
        failing = "SELECT CASE WHEN range = 299999 THEN error('4711') ELSE 'x' END FROM range(300000)"
        with pytest.raises((StreamError, duckdb.Error)):
            for _ in batches(engine.sql(failing)):
                pass


def test_columns_of_other_kinds_are_refused() -> None:
    with duckdb.connect() as engine:
        for wrong in ("[1]", "true", "DATE '2020-01-01'", "1::UBIGINT"):
            with pytest.raises(StreamError):
                next(batches(engine.sql(f"SELECT {wrong}")))


def test_texts_and_numbers_come_as_they_are() -> None:
    with duckdb.connect() as engine:
        text = "CASE WHEN i % 3 = 0 THEN NULL WHEN i % 3 = 1 THEN '' ELSE 'é' || i END"
        query = f"SELECT {text}, i FROM range({{}}) r(i)"
        for records in (0, 1, 9, 130_000):
            found = [(texts, numbers) for texts, numbers in batches(engine.sql(query.format(records)))]
            texts = [text for part, _ in found for text in part]
            assert texts == [[None, "", f"é{i}"][i % 3] for i in range(records)]
            assert [number for _, part in found for number in np.asarray(part).tolist()] == list(
                range(records)
            )


def test_a_reading_that_is_given_up_lets_go_of_the_engine(tmp_path: Path) -> None:
    with duckdb.connect() as engine:
        parts = batches(engine.sql("SELECT range FROM range(1000000)"))
        next(parts)
        parts.close()
        assert engine.execute("SELECT 1").fetchall() == [(1,)]


def test_a_table_of_an_engine_or_a_text_file_is_read_without_pandas(tmp_path: Path) -> None:
    file = parquet(tmp_path, "INTEGER", [1, 2])
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    script = (
        "import sys; from pmw.data import as_source; from queries import Domain, IntegerAttribute\n"
        "for file in sys.argv[1:]:\n"
        "    source = as_source(file, Domain((IntegerAttribute('x', 0, 3),)), None)\n"
        "    source.fingerprint(b'k'), source.counts(('x',))\n"
        "sys.exit('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), str(tmp_path / "t.csv")], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_session_that_opens_reads_and_digests_its_table_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, done = tmp_path / "t.csv", list[str]()
    file.write_text("x,y\n" + "0,1\n1,0\n3,1\n" * 50)
    parts, digest = TableFile.parts, packed_digest

    def read(file: TableFile, domain: Domain) -> Iterator[memory.TablePart]:
        done.append("read")
        return parts(file, domain)

    def digested(records: PackedRecords) -> bytes:
        done.append("digested")
        return digest(records)

    monkeypatch.setattr(TableFile, "parts", read)
    monkeypatch.setattr(memory, "packed_digest", digested)
    domain = Domain((IntegerAttribute("x", 0, 3), IntegerAttribute("y", 0, 1)))
    with pmw.open_session(file, domain, epsilon=1, options=pmw.Options(seed=1)) as session:
        for value in range(4):
            session.ask(f"x = {value}")
    assert done == ["read", "digested"]
