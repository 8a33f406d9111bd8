"""Columns of ids and of keys: whose they are, which texts they hold, and how many persons give each."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.data import CsvDialect, DatabaseTable, Table, TableFile, as_source, spark
from pmw.data.keys import LONGEST_KEY, key_holders, key_of
from pmw.data.sql_tables import PostgresTable
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, DomainError
from queries.person import Person
from queries.values import values_of
from tests.pmw.data.lines import KEY

ATTRIBUTES = (CategoricalAttribute("w", ("x", "y")),)
# The type in DuckDB, and its largest, smallest, NaN and empty values, as far as it has them.
READ = {
    "BIGINT": [str(2**63 - 1), str(-(2**63)), "NULL"],
    "UBIGINT": [str(2**64 - 1), "0", "NULL"],
    "HUGEINT": [str(2**127 - 1), str(1 - 2**127), "NULL"],
    "DOUBLE": ["'inf'", "'-inf'", "'nan'", "1e308", "NULL"],
    "VARCHAR": ["''", "repeat('9', 9999)", "'nan'", "chr(0)", "NULL"],
    "BLOB": ["'\\xFF\\x00'::BLOB", "''::BLOB", "NULL"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'", "NULL"],
    "DATE": ["'infinity'", "'-infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'", "NULL"],
    "ENUM('f', 'm')": ["'f'", "'m'", "NULL"],
}
REFUSED = [
    "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_NS", "INTERVAL", "DECIMAL(10, 2)", "DECIMAL(38, 0)",
]  # fmt: skip
NOT_IN_ARROW = ("HUGEINT", "INTERVAL")  # it writes these as decimals and intervals, which are refused
# The same of pandas. A column of objects has no type: each of its values is read by its own.
IN_PANDAS: dict[str, list[object]] = {
    "int64": [2**63 - 1, -(2**63)],
    "uint64": [2**64 - 1, 0],
    "Int64": [2**63 - 1, -(2**63), None],
    "float32": [float("inf"), -float("inf"), 3e38, None],
    "float64": [float("inf"), -float("inf"), 1e308, None],
    "Float64": [float("inf"), -float("inf"), 1e308, None],
    "bool": [True, False],
    "boolean": [True, False, None],
    "str": ["9" * 9999, "nan", "\0", "", None],
    "category": ["9" * 9999, "nan", None],
    "object": [
        Decimal("9" * 9999), Decimal("1e999999"), Decimal("1e-999999"), Decimal("sNaN"), Decimal("inf"),
        Decimal("NaN"), pd.Timestamp.max, pd.Timestamp.min, pd.Timestamp("2020", tz="UTC"), pd.NaT, date.max,
        datetime.min, timedelta.max, np.datetime64("2020"), np.datetime64("NaT", "ns"), pd.Timedelta.max,
        10**399, 2**63, float("nan"), "", None,
    ],
}  # fmt: skip
REFUSED_IN_PANDAS = [
    "datetime64[s]", "datetime64[us]", "datetime64[ns, UTC]", "timedelta64[us]", "period[D]",
    "interval[float64, right]", "timestamp[us][pyarrow]", "time64[us][pyarrow]", "duration[s][pyarrow]",
    "decimal128(10, 2)[pyarrow]",
]  # fmt: skip
NO_IDS = "{}: expected whole numbers or texts in the column 'id' of ids, got a column of type {};"
EMPTY = ("NULL", "''", "''::BLOB")


def domain_of(empty: str, records: int = 1) -> Domain:
    return Domain(ATTRIBUTES, person=Person("id", records, empty=empty))


def tables(
    folder: Path, engine: duckdb.DuckDBPyConnection, *names: str, csv: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield tables of an engine, each in every source that is here."""
    database = folder / "t.duckdb"
    database.unlink(missing_ok=True)
    engine.execute(f"ATTACH '{database}' AS other")
    for name in names:
        engine.execute(f"CREATE TABLE other.{name} AS FROM {name}")
    engine.execute("DETACH other")
    for name in names:
        engine.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
        found: dict[str, Any] = {
            "parquet": folder / f"{name}.parquet",
            "duckdb": DatabaseTable(f"duckdb:{database}", name),
        }
        if csv:
            engine.execute(f"COPY {name} TO '{folder / name}.csv' (HEADER)")
            found["csv"] = folder / f"{name}.csv"
        if str(engine.table(name).types[0]) not in NOT_IN_ARROW:
            found["relation"] = engine.table(name)
            if find_spec("pyarrow"):
                found["pyarrow"] = engine.table(name).to_arrow_table()
                if find_spec("polars"):
                    found["polars"] = engine.table(name).pl()
        yield name, found


def counted(table: Any) -> dict[tuple[int, str], NDArray[np.int64]]:
    """Return the counts of a table by the number of records and what is done with empty ids."""
    return {
        (records, empty): as_source(table, domain_of(empty, records), KEY).counts(("w",)).counts
        for records, empty in ((1, "person"), (2, "drop"))
    }


def most(is_empty: bool, empty: str, records: int) -> int:
    """Return by how much the counts move where a value of ids with 4 records is taken out."""
    return min(records, 4) if not is_empty else 0 if empty == "drop" else 4


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=[pytest.mark.slow] * (place % 2)) for place, one in enumerate(READ)]
)
def test_taking_out_a_person_moves_the_counts_by_no_more_than_k(tmp_path: Path, kind: str) -> None:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE all_of_them (place INTEGER, id {kind}, w VARCHAR)")
        for place, value in enumerate(READ[kind]):
            engine.execute(f"INSERT INTO all_of_them SELECT {place}, {value}, unnest(['x', 'y', 'x', 'y'])")
        engine.execute("CREATE TABLE everyone AS SELECT id, w FROM all_of_them")
        values = {f"but_{place}": value for place, value in enumerate(READ[kind])}
        for place, name in enumerate(values):
            engine.execute(f"CREATE TABLE {name} AS SELECT id, w FROM all_of_them WHERE place <> {place}")
        found = tables(tmp_path, engine, "everyone", *values, csv=True)
        everyone = {source: counted(table) for source, table in next(found)[1].items()}
        for without, sources in found:
            value = values[without]
            for source, table in sources.items():
                no_number = value == "'nan'" and kind == "DOUBLE" and source != "csv"
                for (records, empty), counts in counted(table).items():
                    moved = abs(everyone[source][records, empty] - counts).sum()
                    assert moved == most(no_number or value in EMPTY, empty, records), (source, value)


@pytest.mark.parametrize("kind", IN_PANDAS)
def test_taking_out_a_person_of_a_pandas_table_moves_the_counts_by_no_more_than_k(kind: Any) -> None:
    values = IN_PANDAS[kind]
    places = np.repeat(np.arange(len(values)), 4)
    column = np.empty(len(places), dtype=object)
    column[:] = [values[place] for place in places]
    cells = ["x", "y", "x", "y"] * len(values)
    ids = pd.Series(column, dtype=object).astype(kind)
    if kind == "str":  # pandas 2 makes a text of None
        ids = ids.mask(np.array([value is None for value in column]), None)
    frame = pd.DataFrame({"id": ids, "w": cells})
    everyone = counted(frame)
    for place, value in enumerate(values):
        is_empty = str(value) in ("", "None", *(("nan", "NaN", "NaT") if kind == "object" else ()))
        for (records, empty), counts in counted(frame[places != place]).items():
            moved = abs(everyone[records, empty] - counts).sum()
            assert moved == most(is_empty, empty, records), (place, records)


@pytest.mark.parametrize(
    "values",
    [
        [Decimal("1"), Decimal("1.00"), Decimal("10e-1")],
        [Decimal("0"), Decimal("-0.0"), Decimal("0e9")],
        [Decimal("1e2"), Decimal(100), Decimal("100.0")],
        [Decimal("1e999999"), Decimal("10e999998")],
        [Decimal("-1e-999999"), Decimal("-100e-1000001")],
        [pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01 01:00", tz="Europe/Berlin")],
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))],
        [pd.Timestamp("2020-01-01"), pd.Timestamp(2020, 1, 1).as_unit("ns"), datetime(2020, 1, 1)],
        [np.datetime64("2020"), np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00:00:00.000")],
        [np.datetime64("-20200", "Y"), np.datetime64("-20200-01-01T00", "h")],
    ],
    ids=lambda values: str(values[0]),
)
def test_equal_decimals_and_times_among_objects_are_one_person(values: list[object]) -> None:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    frame = pd.DataFrame({"id": pd.Series(column, dtype=object), "w": ["x"] * len(values)})
    for empty in ("drop", "person"):
        assert as_source(frame, domain_of(empty), KEY).counts(()).total == 1
    different = [
        Decimal("1.5"), Decimal("15"), Decimal("-1.5"), Decimal("1.5e999999"), Decimal("1.5e999998"),
        np.datetime64("2020"), np.datetime64("2021"), np.datetime64("-2020"), np.datetime64(1, "as"),
        pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp(1), date(2020, 1, 1),
    ]  # fmt: skip
    frame = pd.DataFrame({"id": pd.Series(different, dtype=object), "w": ["x"] * len(different)})
    assert as_source(frame, domain_of("drop"), KEY).counts(()).total == len(different)


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize("kind", REFUSED)
def test_ids_of_types_whose_values_no_text_tells_apart_are_refused_whatever_they_hold(
    tmp_path: Path, kind: str
) -> None:
    told = f"expected whole numbers or texts in the column 'id' of ids, got a column of type {kind[:7]}"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE none (id {kind}, w VARCHAR)")
        engine.execute(f"CREATE TABLE empty AS SELECT NULL::{kind} AS id, 'x' AS w")
        for _, sources in tables(tmp_path, engine, "none", "empty"):
            for name, table in sources.items():
                with pytest.raises(DataError) as caught:
                    as_source(table, domain_of("person"), KEY)
                assert told in str(caught.value), name


@pytest.mark.parametrize("kind", REFUSED_IN_PANDAS)
def test_ids_of_the_same_types_of_pandas_are_refused_before_a_record_is_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype: Any = kind
    if kind.endswith("[pyarrow]"):
        pa = pytest.importorskip("pyarrow", reason="it has these types; pip install it to run this test")
        dtype = pd.ArrowDtype(pa.decimal128(10, 2)) if kind.startswith("decimal") else kind
    column = pd.Series([None, None], dtype=dtype)
    columns = [column, column.astype("category")]
    if kind.startswith("datetime64[") and "," not in kind:  # there are no others
        columns.append(pd.Series(pd.arrays.SparseArray(column.to_numpy())))
    if kind.startswith("timestamp"):
        times = pa.array([1, None], pa.timestamp("us")).dictionary_encode()
        columns.append(pd.Series(pd.arrays.ArrowExtensionArray(times)))
    monkeypatch.setattr("pmw.data.memory.encode_columns", lambda *_: pytest.fail("a record was read"))
    for records in (part for one in columns for part in (one, one[:0])):
        frame = pd.DataFrame({"id": records, "w": ["x"] * len(records)})
        with pytest.raises(
            DataError, match=r"^the table: expected whole numbers or texts in the column 'id'"
        ):
            as_source(frame, domain_of("person"), KEY)


class Frame:
    """What is asked of a DataFrame of Spark whose ids are of a type."""

    def __init__(self, kind: str) -> None:
        types = [SimpleNamespace(typeName=lambda each=each: each) for each in ("decimal", kind)]
        fields = [SimpleNamespace(dataType=each) for each in types]
        self.schema = SimpleNamespace(names=["w", "id"], fields=fields)

    def toDF(self, *_: str) -> object:  # noqa: N802 - its name
        raise LookupError("columns are asked for")


class Connection:
    """What is asked of a connection to Postgres."""

    def cursor(self, name: str) -> object:
        raise LookupError(f"{name} are asked for")


def test_ids_of_postgres_and_of_spark_are_refused_by_their_type_before_a_record_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = domain_of("person")

    def require(read: Callable[[], object], table: str, kind: str, *, is_read: bool) -> None:
        told = "are asked for" if is_read else re.escape(NO_IDS.format(table, kind))
        with pytest.raises(LookupError if is_read else DataError, match=told):
            read()

    monkeypatch.setattr(PostgresTable, "connect", lambda _: nullcontext(Connection()))
    for kind in (
        "bigint", "text", "uuid", "date", "double precision", "numeric", "numeric(10,2)",
        "timestamp without time zone", "timestamp(3) with time zone",
    ):  # fmt: skip
        monkeypatch.setattr(PostgresTable, "kinds_by", lambda *_, kind=kind: {"w": "numeric", "id": kind})
        parts = PostgresTable("postgresql://here", ["t"]).columns(domain)
        is_read = not kind.startswith(("numeric", "timestamp"))
        require(partial(next, parts), "t in postgresql://here", kind, is_read=is_read)
    for kind in ("long", "string", "date", "double", "decimal", "timestamp", "timestamp_ntz"):
        read = partial(spark._chosen, Frame(kind), domain, "the table")
        require(read, "the table", kind, is_read=not kind.startswith(("decimal", "timestamp")))


def test_parts_of_different_types_hold_the_same_ids_beyond_63_bits() -> None:
    from pmw.data.people import Roster

    roster = Roster(Person("id", 1), KEY)
    for part in (pd.Series([2**63, 5], dtype="uint64"), pd.Series([str(2**63), "5", "-1"])):
        assert roster.add(part).all()
    assert roster.finish()[0].tolist() == [0, 1, 0, 1, 2]


# --- keys -----------------------------------------------------------------------------------------------


WORDS = ("a", "b", "c", "d", "e")
ROWS = st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from((*WORDS, ""))), max_size=20)


def holders(table: Table, records: int | None = None, key: bytes = KEY) -> dict[str, int]:
    person = None if records is None else Person("id", records)
    found = key_holders(table, "word", person, None if records is None else key)
    assert len(set(found.keys)) == len(found.keys)
    assert (found.persons > 0).all()
    return dict(zip(found.keys, found.persons.tolist(), strict=True))


def frame_of(rows: Sequence[tuple[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["id", "word"], dtype=object)


@given(ROWS, st.integers(1, 4))
def test_each_person_gives_its_texts_once_and_k_of_them_at_most(
    rows: list[tuple[str, str]], records: int
) -> None:
    own: defaultdict[str, set[str]] = defaultdict(set)
    for person, word in rows:
        own[person] |= {word} - {""}
    wanted: Counter[str] = Counter()
    for person in own:
        alone = holders(frame_of([row for row in rows if row[0] == person]), records)
        assert set(alone) <= own[person]
        assert set(alone.values()) <= {1}
        assert len(alone) == min(records, len(own[person]))
        wanted.update(alone)
    assert holders(frame_of(rows), records) == dict(wanted)  # others change nothing of what a person gives
    assert holders(frame_of(rows[::-1]), records) == dict(wanted)


def test_which_texts_of_a_person_count_follows_from_the_key_and_the_id() -> None:
    rows = [(person, word) for person in map(str, range(30)) for word in WORDS]
    found = [holders(frame_of(rows), 1, bytes([byte]) * 32) for byte in (1, 2)]
    assert found[0] != found[1]
    assert all(set(one) == set(WORDS) and sum(one.values()) == 30 for one in found)


def test_each_record_is_a_person_where_none_are_declared() -> None:
    assert holders(frame_of([("u", "a"), ("u", "a"), ("v", "b"), ("v", None)])) == {"a": 2, "b": 1}
    assert holders(frame_of([("u", "a"), ("u", "a"), ("", "b"), (None, "b")]), 1) == {"a": 1}  # type: ignore[list-item]


VALUES: tuple[tuple[Any, str | None], ...] = (
    ("Oslo", "Oslo"), ("oslo", "oslo"), (" oslo", " oslo"), ("TRUE", "TRUE"), (True, "true"), (3, "3"),
    (3.0, "3.0"), (3.5, "3.5"), ("03", "03"), (Decimal("1.50"), "1.50"), ("é\n\t\x7f", "é\n\t\x7f"),
    ("x" * LONGEST_KEY, "x" * LONGEST_KEY),
    ("x" * (LONGEST_KEY + 1), None), ("", None), (None, None), (float("nan"), None), ("(other)", None),
    ("(missing)", None), ("\ud800", None), (b"bytes", None), ([], None), (10**500, None),
)  # fmt: skip


@pytest.mark.parametrize(("value", "key"), VALUES)
def test_a_key_is_the_declared_text_that_counts_the_value(value: object, key: str | None) -> None:
    assert key_of(value) == key
    keys = tuple(dict.fromkeys(key for _, key in VALUES if key is not None))
    declared = CategoricalAttribute("word", keys, missing=True, other=True)
    cell = values_of(declared).encode(value)
    assert cell == (cell if key is None else keys.index(key))
    assert (cell >= declared.base_size) == (key is None)
    assert holders(frame_of([("u", value)]), 1) == ({} if key is None else {key: 1})


def test_tables_of_all_kinds_hold_the_same(tmp_path: Path) -> None:
    rows = [("u", "Oslo"), ("u", "Oslo"), ("u", "oslo"), ("v", "Oslo"), ("v", " Rome"), ("w", ""), ("w", "3")]
    frame, wanted = frame_of(rows), {"Oslo": 2, "oslo": 1, " Rome": 1, "3": 1}
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "trimmed.csv").write_text(text.replace("w,3", "w, 3\nw,?\nmalformed"))
    dialect = CsvDialect(trim=True, missing_texts=("?",))
    duckdb.sql("CREATE VIEW t AS FROM frame")
    duckdb.sql(f"COPY (FROM frame) TO '{tmp_path}/t.parquet'")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS FROM frame")
    tables: tuple[Any, ...] = (
        frame, frame.astype("category"), frame.astype("string"), tmp_path / "t.csv", tmp_path / "t.parquet",
        DatabaseTable(f"duckdb:{tmp_path}/t.duckdb", "t"), duckdb.sql("FROM frame"),
    )  # fmt: skip
    for table in tables:
        assert holders(table, 2) == wanted
    assert holders(TableFile(tmp_path / "trimmed.csv", dialect), 2) == {
        "Oslo": 2, "oslo": 1, "Rome": 1, "3": 1,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["int64", "float64", "Int64", "bool", "datetime64[s]"])
def test_a_column_that_is_not_of_texts_is_refused_by_its_type(kind: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"word": pd.Series([17, 18], dtype="int64").astype(kind), "id": ["u", "v"]})
    duckdb.sql(f"COPY (FROM frame) TO '{tmp_path}/t.parquet'")
    tables: list[Any] = [frame, frame.iloc[:0], frame.astype({"word": "category"}), tmp_path / "t.parquet"]
    for table in tables:
        with pytest.raises(DataError, match="expected texts in column 'word', got a column of type"):
            holders(table, 1)


def test_what_cannot_be_read_is_refused_without_a_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,secret\nu,secret\n")
    for table in (pd.DataFrame({"id": ["secret"]}), tmp_path / "t.csv", tmp_path / "none.csv"):
        with pytest.raises(DataError) as caught:
            holders(table, 1)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(DomainError):
        key_holders(frame_of([]), "id", Person("id", 1), KEY)
    with pytest.raises(DataError, match="expected a key"):
        key_holders(frame_of([]), "word", Person("id", 1), None)
    assert "secret" not in repr(key_holders(frame_of([("u", "secret")]), "word", None, None))
