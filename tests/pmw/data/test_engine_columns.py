"""Columns of the engine, and tables with an Arrow stream: each value has the cell of the encoder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import DatabaseTable, MemorySource, TableFile, as_source, engine_columns, memory
from pmw.data.arrow_arrays import StreamError, batches
from pmw.data.inspection import inspect_table
from pmw.data.packed import PackedRecords, packed_digest
from pmw.errors import DataError
from queries import (
    Attribute,
    CategoricalAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    TimeAttribute,
)
from queries.values import values_of
from tests.pmw.data.lines import beside

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


def parquet(folder: Path, column: str, values: list[Any], names: Sequence[str] = ("x",)) -> Path:
    """Write columns of these names, each with all of the values."""
    file = folder / "t.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t (x {column})")
        engine.executemany("INSERT INTO t VALUES (?)", [[value] for value in values])
        copies = ", ".join(f'x AS "{name}"' for name in names)
        engine.execute(f"COPY (SELECT {copies} FROM t) TO '{file}' (FORMAT parquet)")
    return file


def expected(attribute: Attribute, values: list[Any]) -> list[int]:
    cells = [values_of(attribute).encode(value) for value in values]
    return [cells.count(cell) for cell in range(attribute.size)]


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_of_every_type_have_the_cells_of_the_encoder(tmp_path: Path, kind: str) -> None:
    low, high = WHOLE[kind]
    near = [-5, -4, -3, -1, 0, 1, 2, 3, 7, 8, 11, 12, 13, 125, 126, 127, 299, 306, 307, 40_001, 2**53, 2**62]
    values = [None, low, low + 1, high - 1, high, *(one for one in near if low <= one <= high)]
    domain = beside([kind], NUMBERS)
    source = as_source(parquet(tmp_path, kind, values, domain.names), domain, None)
    for attribute in domain:
        assert source.counts((attribute.name,)).counts.tolist() == expected(attribute, values), attribute
    for grid in domain.grids:
        own = values_of(grid)
        places = [own.encode(value) for value in values]
        known = sum(place for place in places if place < grid.base_size)
        assert source.place_sums((grid.attribute,), grid.attribute).total == known, grid


@pytest.mark.parametrize("distinct", [3, 4097])
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


def test_texts_and_numbers_come_as_they_are() -> None:
    with duckdb.connect() as engine:
        text = "CASE WHEN i % 3 = 0 THEN NULL WHEN i % 3 = 1 THEN '' ELSE 'é' || i END"
        query = f"SELECT {text}, i FROM range({{}}) r(i)"
        for records in (0, 1, 9, 130_000):
            found = [(texts, numbers) for texts, numbers in batches(engine.sql(query.format(records)))]
            texts = [text for part, _ in found for text in part]
            assert texts == [[None, "", f"é{i}"][i % 3] for i in range(records)]
            numbers = [number for _, part in found for number in np.asarray(part).tolist()]
            assert numbers == list(range(records))
        for wrong in ("[1]", "true", "DATE '2020-01-01'", "1::UBIGINT"):
            with pytest.raises(StreamError):
                next(batches(engine.sql(f"SELECT {wrong}")))
        failing = "SELECT CASE WHEN range = 299999 THEN error('4711') ELSE 'x' END FROM range(300000)"
        with pytest.raises((StreamError, duckdb.Error)):  # it is no end of the stream
            list(batches(engine.sql(failing)))


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


# --- tables with an Arrow stream ------------------------------------------------------------------------


WHY = "reads its tables; pip install it to run this test"
LEAST, MOST = -(2**63), 2**63 - 1
ENDS = [LEAST, LEAST + 1, -1, 0, 3, 10**16, MOST - 1, MOST]
ATTRIBUTES: list[Attribute] = [
    IntegerAttribute("x", 0, 9, missing=True, other=True),
    NumericAttribute("x", (0, 5, 10), missing=True, other=True),
    CategoricalAttribute("x", ("f", 3, True, "é"), missing=True, other=True),
    DatetimeAttribute(
        "x", datetime(1970, 1, 1), datetime(2020, 12, 31), "year", "Europe/Berlin", missing=True, other=True
    ),
    TimeAttribute("x", time(6), time(21, 59, 59), missing=True, other=True),
]
BESIDE = Domain(tuple(replace(one, name=f"x{place}") for place, one in enumerate(ATTRIBUTES)))
MIXED = Domain(
    (
        IntegerAttribute("age", 0, 99, 10, missing=True),
        CategoricalAttribute("sex", ("f", "m"), other=True),
        NumericAttribute("income", (0.0, 10.0, 20.5), missing=True),
    )
)
FRAME = pd.DataFrame(
    {
        "age": [30.0, None, 41.0],
        "sex": ["f", "m", "x"],
        "income": [5.0, np.nan, 15.0],
        "more": [b"1", None, b""],
    }
)


def counts(table: Any, attribute: Any) -> list[int]:
    cells: list[int] = as_source(table, Domain((attribute,)), None).counts(("x",)).counts.tolist()
    return cells


def arrow_column(kind: Any, values: list[Any], width: int = 64, names: Sequence[str] = ("x",)) -> Any:
    """Return an Arrow table of columns whose bits are those of whole numbers, some of them empty."""
    pa = pytest.importorskip("pyarrow", reason=WHY)
    bits = pa.array(values, getattr(pa, f"int{width}")())
    return pa.table(dict.fromkeys(names, pa.Array.from_buffers(kind, len(values), bits.buffers())))


CLOCKS = ["time64 us", "time64 ns"]
TIMES = ["timestamp us", "timestamp us UTC", "timestamp s", "timestamp ms", "timestamp ns", "date64"]
OTHERS = ["duration us", "duration ns", "int64", "uint64", "float64"]


def arrow_type(words: str) -> Any:
    pa = pytest.importorskip("pyarrow", reason=WHY)
    name, *arguments = words.split()
    return getattr(pa, name)(*arguments)


@pytest.mark.parametrize("kind", [*TIMES, *CLOCKS, *OTHERS])
def test_a_type_that_is_read_is_read_whatever_it_holds(kind: str) -> None:
    def counted(values: list[Any]) -> list[list[int]]:
        source = as_source(arrow_column(arrow_type(kind), values, names=BESIDE.names), BESIDE, None)
        return [source.counts((name,)).counts.tolist() for name in BESIDE.names]

    values = [*ENDS, None]
    some: list[list[Any]] = [[LEAST], [MOST], [None], [one for one in ENDS if one not in (LEAST, MOST)]]
    some_by_some = [counted(given) for given in some]
    assert counted([]) == [[0] * attribute.size for attribute in BESIDE]
    for attribute, together, *each in zip(BESIDE, counted(values), *some_by_some, strict=True):
        assert together == [sum(cells) for cells in zip(*each, strict=True)]
        assert sum(together) == len(values)
        if kind in TIMES:
            assert together[attribute.missing_code or 0] == 1  # however early or late a time is


@pytest.mark.parametrize(("kind", "width", "units"), [
    ("time32 s", 32, 1), ("time32 ms", 32, 10**3), ("time64 us", 64, 10**6), ("time64 ns", 64, 10**9),
])  # fmt: skip
def test_times_of_day_are_read_and_one_that_no_clock_shows_is_undeclared(
    kind: str, width: int, units: int
) -> None:
    wrong = [-1, 86_400 * units, 2 ** (width - 1) - 1, -(2 ** (width - 1))]
    for value, cell in ((0, 0), (8 * 3600 * units + units // 2, 2), (86_400 * units - 1, 15), (None, 16)):
        found = counts(arrow_column(arrow_type(kind), [value, *wrong], width), ATTRIBUTES[4])
        expected = np.bincount([cell, 17, 17, 17, 17], minlength=18)
        assert found == expected.tolist(), value
    for value in wrong:  # alone, as a table whose other values are dropped may have it
        assert counts(arrow_column(arrow_type(kind), [value], width), ATTRIBUTES[4])[17] == 1


ZONED = "times with a zone in another unit than microseconds"


def test_a_type_that_is_refused_is_refused_whatever_it_holds() -> None:
    pa = pytest.importorskip("pyarrow", reason=WHY)
    columns = [
        (pa.table({"x": column}), told)
        for column, told in (
            (pa.array([[1]]), "nested values"), (pa.array([{"a": 1}]), "nested values"),
            (pa.array([Decimal(1)], pa.decimal256(40, 2)), "decimals of 256 bits"),
        )
    ] + [
        (arrow_column(arrow_type(kind), values, width), told)
        for kind, width, told in (
            ("timestamp s UTC", 64, ZONED), ("timestamp ms Europe/Berlin", 64, ZONED),
            ("timestamp ns UTC", 64, ZONED), ("duration s", 64, "durations in seconds or milliseconds"),
            ("float16", 16, "half-precision numbers"),
        )
        for values in ([], [None], [0], [2 ** (width - 1) - 1])
    ]  # fmt: skip
    for table, told in columns:
        with pytest.raises(DataError, match=rf"pyarrow\.lib\.Table: .* in column 'x', got {told}; turn them"):
            counts(table, ATTRIBUTES[0])


@pytest.mark.parametrize("text", ["string", "large_string", "dictionary"])
def test_texts_that_are_no_utf8_are_undeclared(text: str) -> None:
    pa = pytest.importorskip("pyarrow", reason=WHY)
    offsets = pa.array([0, 2, 3, 5], pa.int64() if text == "large_string" else pa.int32()).buffers()[1]
    kind = pa.large_string() if text == "large_string" else pa.string()
    bad = pa.Array.from_buffers(kind, 3, [None, offsets, pa.py_buffer(b"\xff\xfef\xc3\xa9")])
    if text == "dictionary":
        bad = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), bad)
    assert counts(pa.table({"x": bad}), ATTRIBUTES[2]) == [1, 0, 0, 1, 0, 1]
    assert counts(pa.table({"x": pa.array(["f", None]).cast(pa.string_view())}), ATTRIBUTES[2])[0] == 1


def table_of(library: str) -> Any:
    """Return the records in what a library holds them in; their other column is of an odd type."""
    if library == "duckdb":
        return duckdb.from_df(FRAME)
    if library in ("polars", "lazy"):
        pl = pytest.importorskip("polars", reason=WHY)
        columns = {name: pl.Series(FRAME[name].tolist()) for name in MIXED.names}
        frame = pl.DataFrame({**columns, "more": pl.Series([object(), None, 3], dtype=pl.Object)})
        frame = frame.with_columns(pl.col("sex").cast(pl.Categorical), pl.col("income").fill_nan(None))
        lazy = frame.lazy().filter(pl.col("age").is_null() | (pl.col("age") > 1))
        return frame if library == "polars" else lazy
    pa = pytest.importorskip("pyarrow", reason=WHY)
    table = pa.table(FRAME).append_column("odd", pa.array([[1], [], None]))
    return {"table": table, "batch": table.to_batches()[0], "reader": table.to_reader()}[library]


@pytest.mark.parametrize("library", ["duckdb", "table", "batch", "reader", "polars", "lazy"])
def test_every_library_gives_the_cells_that_pandas_gives_and_no_other_column_is_read(library: str) -> None:
    absent = Domain((*MIXED.attributes, IntegerAttribute("absent", 0, 1)))
    with pytest.raises(DataError, match="expected one column 'absent', got no such column"):
        as_source(table_of(library), absent, None)
    expected, found = MemorySource.from_frame(FRAME, MIXED), as_source(table_of(library), MIXED, None)
    assert found.counts(MIXED.names).counts.tolist() == expected.counts(MIXED.names).counts.tolist()
    assert found.fingerprint(b"k") == expected.fingerprint(b"k")


def test_a_query_that_fails_on_a_value_is_told_without_it() -> None:
    pl = pytest.importorskip("polars", reason=WHY)
    relation = duckdb.sql("SELECT CAST(w AS INTEGER) AS x FROM (VALUES ('1'), ('Alice')) AS t(w)")
    lazy = pl.LazyFrame({"x": ["1", "Alice"]}).with_columns(pl.col("x").cast(pl.Int64, strict=True))
    for table, told in ((relation, "could not be read"), (lazy, r"polars.*LazyFrame could not be read")):
        with pytest.raises(DataError, match=told) as caught:
            counts(table, ATTRIBUTES[0])
        assert "Alice" not in str(caught.value)
        assert caught.value.__context__ is None


class Foreign:
    """A table of a library that nobody knows."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_texts_of_an_unknown_library_are_refused_whatever_they_hold() -> None:
    arrow = pytest.importorskip("pyarrow", reason=WHY)
    for raw in (b"f", b"\xff\xfe"):
        texts = [
            arrow.array([raw], stored).view(kind)
            for stored, kind in (
                (arrow.binary(), arrow.string()), (arrow.large_binary(), arrow.large_string()),
                (arrow.binary_view(), arrow.string_view()),
            )
        ]  # fmt: skip
        texts.append(arrow.DictionaryArray.from_arrays(arrow.array([0], arrow.int8()), texts[0]))
        for column in texts:
            with pytest.raises(DataError, match="'x' holds texts that its library may not have checked"):
                counts(Foreign(arrow.table({"x": column})), ATTRIBUTES[2])
    assert counts(Foreign(arrow.table({"x": arrow.array([3])})), ATTRIBUTES[2])[1] == 1  # numbers are read
