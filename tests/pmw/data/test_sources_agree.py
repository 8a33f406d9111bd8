"""Sources agree: a value that a CSV file, a Parquet file and a pandas table can hold has one cell in all."""

from __future__ import annotations

import csv
import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.data import DatabaseTable, as_source
from queries import (
    DateAttribute,
    Domain,
)
from queries.numbers import ValueGrid
from tests.pmw.data.lines import TRYING, beside, database

BERLIN = ZoneInfo("Europe/Berlin")
WORDS = [
    "20200229", "20210229", "2020-02-29T23:59:60", "2020-03-29T00:30:00Z", "2020-10-25 02:30:00+01:00",
    "", "f", "3", " 3", "03", "3.0", "0.5", "true", "TRUE", "2020-01-02", "1e999", "-1e999", "9" * 5000,
    "0x10", "1_000", "\u0663", "nan", "inf", "NULL", "a\x00b", "\x00", "-0", "1e-999", "é", '"', ",", "3\t",
    "08:30", " 8:30 pm", "24:00", "12:00:00.999", "23:59:60",
]  # fmt: skip
LETTERS = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=5)
# The column's type in Parquet, and values of it.
VALUES: dict[str, st.SearchStrategy[object]] = {
    "VARCHAR": st.sampled_from(WORDS) | LETTERS,
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 14),
    "UBIGINT": st.integers(0, 2**64 - 1) | st.integers(0, 14),
    "DOUBLE": st.floats()
    | st.sampled_from([0.5, 3.0, -0.0, 1e300, 1e22, 5e-324])
    | st.integers(-20, 80).map(lambda tenths: tenths / 10),  # at the ends of steps
    "BOOLEAN": st.booleans(),
    "DECIMAL(38, 2)": st.decimals(-(10**35), 10**35, places=2),
    "DATE": st.dates() | st.dates(date(2019, 12, 1), date(2021, 1, 5)),
    "TIMESTAMP": st.datetimes() | st.datetimes(datetime(2019, 12, 1), datetime(2021, 1, 5)),
    "TIMESTAMP WITH TIME ZONE": st.datetimes(
        datetime(2019, 12, 1), datetime(2021, 1, 5), timezones=st.sampled_from([UTC, BERLIN])
    ),
    "UUID": st.uuids(),
}  # fmt: skip


def text_of(value: object) -> str:
    return "" if value is None or value != value else str(value)  # noqa: PLR0124 - NaN is an empty value


def place_by_hand(grid: ValueGrid, value: object) -> int:
    """Return the place of a value as the rule says it: clipped, then whole steps above the least."""
    if isinstance(value, str):
        value = value.strip(" \t")
        readable = re.fullmatch(
            r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", value, re.IGNORECASE | re.ASCII
        )
        value = float(value) if readable and len(value) < 100 else None  # 1e-999 is 0
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return 0
    value = float(value)  # of many digits it is the nearest float64, which may be whole
    if grid.whole and value != int(value):
        return 0
    return math.floor((min(max(value, grid.minimum), grid.maximum) - grid.minimum) / grid.step)


# Each attribute over values of each type, in one table.
BESIDE = beside(VALUES)


@pytest.mark.usefixtures("same_engine")
@given(data=st.data())
@settings(max_examples=settings().max_examples // 3)  # each of records of every type
def test_the_same_values_have_the_same_cells(
    tmp_path: Path, engine: duckdb.DuckDBPyConnection, data: st.DataObject
) -> None:
    records = data.draw(st.integers(0, 8))
    drawn = {
        kind: data.draw(st.lists(values | st.none(), min_size=records, max_size=records))
        for kind, values in VALUES.items()
    }
    typed = ", ".join(f'"{kind}" {kind}' for kind in VALUES)
    engine.execute(f"CREATE OR REPLACE TABLE t ({typed})")
    for row in zip(*drawn.values(), strict=True):
        given = [str(value) if isinstance(value, Decimal) else value for value in row]
        engine.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", given)
    columns = [name.rpartition(" ")[0] for name in BESIDE.names]
    chosen = ", ".join(f'"{kind}" AS "{name}"' for kind, name in zip(columns, BESIDE.names, strict=True))
    engine.execute(f"CREATE OR REPLACE VIEW v AS SELECT {chosen} FROM t")
    engine.execute(f"COPY v TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    frame = pd.DataFrame({kind: pd.Series(values, dtype=object) for kind, values in drawn.items()})[columns]
    frame.columns = list(BESIDE.names)
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([BESIDE.names, *(map(text_of, row) for row in frame.itertuples(index=False))])
    tables = (tmp_path / "t.csv", tmp_path / "t.parquet", frame, engine.table("v"))
    sources = [as_source(table, BESIDE, None) for table in tables]
    for name in BESIDE.names:
        found = [source.counts((name,)).counts.tolist() for source in sources]
        assert found[0] == found[1] == found[2] == found[3], name
        assert sum(found[0]) == records
    assert len({source.fingerprint(b"k") for source in sources}) == 1
    for grid in BESIDE.grids:
        name = grid.attribute
        found = [source.place_sums((name,), name).counts.tolist() for source in sources]
        assert found[0] == found[1] == found[2] == found[3], name
        places = [place_by_hand(grid, value) for value in drawn[name.rpartition(" ")[0]]]
        assert sum(found[0]) == sum(places)
        found = [source.place_sums((name,), name, squared=True).counts.tolist() for source in sources]
        assert found[0] == found[1] == found[2] == found[3], name


def test_times_of_day_have_one_cell_in_whatever_holds_them(tmp_path: Path) -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    times = [
        time(0), time(6), time(8, 29, 59, 999_999), time(8, 30), time(21, 59, 59), time(23, 59, 59), None
    ]  # fmt: skip
    frame = pd.DataFrame({"x": pd.Series(times, dtype=object)})
    texts = [text_of(one) for one in times]
    halves = [one.strftime("%I:%M:%S.%f %p") if one else "" for one in times]
    for name, lines in (("t.csv", texts), ("halves.csv", halves)):
        (tmp_path / name).write_text("\n".join(["x", *(f'"{line}"' for line in lines)]) + "\n")
    duckdb.execute(f"COPY (SELECT x::VARCHAR AS x FROM frame) TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    tables = [
        frame, frame["x"].astype("category").to_frame(), frame.astype(pd.ArrowDtype(pa.time64("us"))),
        frame.astype(pd.ArrowDtype(pa.time64("ns"))), pd.DataFrame({"x": texts}), tmp_path / "t.csv",
        tmp_path / "halves.csv", tmp_path / "t.parquet", pa.table({"x": pa.array(times, pa.time64("us"))}),
        pl.DataFrame({"x": times}, schema={"x": pl.Time}), duckdb.sql("SELECT x::TIME AS x FROM frame"),
        DatabaseTable(f"duckdb:{tmp_path / 't.duckdb'}", "t"),
    ]  # fmt: skip
    with duckdb.connect(str(database(tmp_path, "CREATE TABLE t (x TIME)"))) as connection:
        connection.executemany("INSERT INTO t VALUES (?)", [[one] for one in times])
    domain = Domain((TRYING[-1],))
    expected = np.bincount([0, 0, 4, 5, 31, 31, 32], minlength=34).tolist()
    sources = [as_source(table, domain, None) for table in tables]
    assert [source.counts(("x",)).counts.tolist() for source in sources] == [expected] * len(tables)
    assert len({source.fingerprint(b"k") for source in sources}) == 1


def test_a_time_with_a_zone_is_the_day_of_utc_in_every_source(tmp_path: Path) -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    domain = Domain((DateAttribute("a", date(2023, 1, 1), date(2023, 1, 5), other=True),))
    texts = ["2023-01-02T00:30:00+01:00", "2023-01-03T12:00:00+01:00"] * 5
    times = [datetime.fromisoformat(text) for text in texts]
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(texts) + "\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (a TIMESTAMP WITH TIME ZONE)")
        connection.executemany("INSERT INTO t VALUES (?)", [[one] for one in times])
        connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    zoned = pa.array(times, pa.timestamp("us", "Europe/Berlin"))
    frame = pd.DataFrame({"a": pd.Series(times, dtype="datetime64[us, Europe/Berlin]")})
    tables = {
        "CSV": tmp_path / "t.csv", "Parquet": tmp_path / "t.parquet",
        "DuckDB": pmw.DatabaseTable(f"duckdb:{tmp_path / 't.duckdb'}", "t"),
        "Arrow": pa.table({"a": zoned}), "Polars": pl.DataFrame({"a": zoned}), "pandas": frame,
        "pandas objects": pd.DataFrame({"a": pd.Series(times, dtype=object)}),
        "pandas texts": pd.DataFrame({"a": texts}),
    }  # fmt: skip
    for name, table in tables.items():
        found = as_source(table, domain, None).counts(("a",)).counts.tolist()
        assert found == [5, 0, 5, 0, 0, 0], name  # half past eleven of the first, and eleven of the third
