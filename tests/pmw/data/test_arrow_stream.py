"""Tables with an Arrow stream: each type is read whatever it holds, or refused whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from pmw.data import MemorySource, as_source
from pmw.errors import DataError
from queries import (
    Attribute,
    CategoricalAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    Person,
    TimeAttribute,
)

WHY = "reads its tables; pip install it to run this test"
LEAST, MOST = -(2**63), 2**63 - 1
WHOLE = [LEAST, LEAST + 1, -1, 0, 3, 10**16, MOST - 1, MOST]
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

    values = [*WHOLE, None]
    one_by_one = [counted([value]) for value in values]
    assert counted([]) == [[0] * attribute.size for attribute in BESIDE]
    for attribute, together, *each in zip(BESIDE, counted(values), *one_by_one, strict=True):
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


@pytest.mark.parametrize(
    ("kind", "width", "told"),
    [
        ("timestamp s UTC", 64, "times with a zone in another unit than microseconds"),
        ("timestamp ms Europe/Berlin", 64, "times with a zone in another unit than microseconds"),
        ("timestamp ns UTC", 64, "times with a zone in another unit than microseconds"),
        ("duration s", 64, "durations in seconds or milliseconds"),
        ("float16", 16, "half-precision numbers"),
    ],
)
def test_a_type_that_is_refused_is_refused_whatever_it_holds(kind: str, width: int, told: str) -> None:
    for values in ([], [None], [0], [2 ** (width - 1) - 1]):
        with pytest.raises(DataError, match=rf"pyarrow\.lib\.Table: .* in column 'x', got {told}; turn them"):
            counts(arrow_column(arrow_type(kind), values, width), ATTRIBUTES[0])


def test_nested_values_and_wide_decimals_are_refused() -> None:
    pa = pytest.importorskip("pyarrow", reason=WHY)
    for column, told in (
        (pa.array([[1]]), "nested values"),
        (pa.array([{"a": 1}]), "nested values"),
        (pa.array([Decimal(1)], pa.decimal256(40, 2)), "decimals of 256 bits"),
    ):
        with pytest.raises(DataError, match=f"in column 'x', got {told}"):
            counts(pa.table({"x": column}), ATTRIBUTES[0])


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


def test_persons_are_bounded_alike() -> None:
    ids = pd.Series([2**60, 2**60 + 1, None, 2**60], dtype="Int64")
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "id": ids})
    domain = Domain((IntegerAttribute("x", 0, 9),), person=Person("id", 1))
    key = bytes(range(32))
    expected = as_source(frame, domain, key)
    pl = pytest.importorskip("polars", reason=WHY)
    polars = pl.DataFrame({"x": [1, 2, 3, 4], "id": [2**60, 2**60 + 1, None, 2**60]})
    tables: list[Any] = [duckdb.sql("SELECT x, id::BIGINT AS id FROM frame"), polars]
    for table in tables:
        source = as_source(table, domain, key)
        assert source.fingerprint(b"k") == expected.fingerprint(b"k")
        assert source.counts(("x",)).counts.tolist() == expected.counts(("x",)).counts.tolist()


def test_a_relation_of_times_with_a_zone_is_refused_by_its_type() -> None:
    day = Domain((TimeAttribute("x", time(0), time(23, 59), "hour"),))
    for kind, is_read in (("TIME", True), ("TIMETZ", False)):
        relation: Any = duckdb.sql(f"SELECT {kind} '08:30:00' AS x")
        if is_read:
            assert as_source(relation, day, None).counts(("x",)).counts[8] == 1
            continue
        with pytest.raises(DataError, match="in column 'x', got TIME WITH TIME ZONE"):
            as_source(relation, day, None)


def test_a_query_that_fails_on_a_value_is_told_without_it() -> None:
    relation = duckdb.sql("SELECT CAST(w AS INTEGER) AS x FROM (VALUES ('1'), ('Alice')) AS t(w)")
    with pytest.raises(DataError, match="could not be read") as caught:
        counts(relation, ATTRIBUTES[0])
    assert "Alice" not in str(caught.value)
    assert caught.value.__context__ is None
    pl = pytest.importorskip("polars", reason=WHY)
    lazy = pl.LazyFrame({"x": ["1", "Alice"]}).with_columns(pl.col("x").cast(pl.Int64, strict=True))
    with pytest.raises(DataError, match=r"polars.*LazyFrame could not be read") as caught:
        counts(lazy, ATTRIBUTES[0])
    assert "Alice" not in str(caught.value)
    assert caught.value.__context__ is None


def test_polars_own_types_are_read() -> None:
    pl = pytest.importorskip("polars", reason=WHY)
    moment = datetime(2019, 12, 31, 23, 30, tzinfo=UTC)  # in Berlin it is 2020
    assert counts(pl.DataFrame({"x": [moment, None]}), ATTRIBUTES[3])[-3:] == [1, 1, 0]
    words = pl.DataFrame({"x": pl.Series(["f", "é", "g"], dtype=pl.Categorical)})
    assert counts(words, ATTRIBUTES[2]) == [1, 0, 0, 1, 0, 1]
    assert counts(pl.DataFrame({"x": [timedelta(1)]}), ATTRIBUTES[0])[-1] == 1
    assert sum(counts(pl.DataFrame({"x": [date(2020, 1, 1)]}), ATTRIBUTES[0])) == 1
    nothing = pl.DataFrame({"x": [None, None, None], "y": ["a", "b", "c"]})
    for attribute in ATTRIBUTES:
        assert counts(nothing, attribute)[-2:] == counts(nothing.lazy(), attribute)[-2:] == [3, 0]
    with pytest.raises(DataError, match="got another kind"):
        counts(pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), ATTRIBUTES[0])


class Foreign:
    """A table of a library that nobody knows."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("raw", [b"f", b"\xff\xfe"])
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_texts_of_an_unknown_library_are_refused_whatever_they_hold(kind: str, raw: bytes) -> None:
    arrow = pytest.importorskip("pyarrow", reason=WHY)
    plain = kind if kind != "dictionary" else "string"
    texts = arrow.array(
        [raw],
        {"large_string": arrow.large_binary(), "string_view": arrow.binary_view()}.get(plain, arrow.binary()),
    ).view(getattr(arrow, plain)())
    if kind == "dictionary":
        texts = arrow.DictionaryArray.from_arrays(arrow.array([0], arrow.int8()), texts)
    with pytest.raises(DataError, match="column 'x' holds texts that its library may not have checked"):
        counts(Foreign(arrow.table({"x": texts})), ATTRIBUTES[2])
    assert counts(Foreign(arrow.table({"x": arrow.array([3])})), ATTRIBUTES[2])[1] == 1  # numbers are read
