"""Parquet files: a column is read by its type, and no value decides whether it can be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from pmw.data import MemorySource, as_source
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, IntegerAttribute

DOMAIN = Domain((IntegerAttribute("age", 0, 99, 10), CategoricalAttribute("sex", ("f", "m"))))


def patched(path: Path, select: str, bytes_before: bytes, bytes_after: bytes) -> Path:
    """Write a Parquet file and put other bytes of the same length in place of some."""
    duckdb.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION uncompressed)")
    raw = path.read_bytes()
    assert len(bytes_before) == len(bytes_after)
    assert bytes_before in raw
    path.write_bytes(raw.replace(bytes_before, bytes_after))
    return path


MARK = 1_234_567_890_123_456
FIRST_TIME, INFINITE = -9_223_372_022_400_000_000, 2**63 - 1
X_NUMBER = Domain((IntegerAttribute("x", 0, 9, missing=True, other=True),))
X_TEXT = Domain((CategoricalAttribute("x", ("f", "m"), missing=True, other=True),))


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NS"])
@pytest.mark.parametrize(
    "stored",
    [-(2**63), -(2**63) + 1, -(2**63) + 2, FIRST_TIME - 1, FIRST_TIME, INFINITE - 1, INFINITE],
)
@pytest.mark.parametrize("records", [2, 5000])  # of so many, each distinct value is stored once
def test_a_time_that_cannot_be_written_is_a_value_like_others(
    tmp_path: Path, kind: str, stored: int, records: int
) -> None:
    make = "make_timestamp_ns" if kind == "TIMESTAMP_NS" else "make_timestamp"
    numbers = f"CASE WHEN i % 7 = 1 THEN {MARK} ELSE i % 5 END"
    moment = f"{make}({numbers})::{kind}"
    select = f"SELECT {moment} AS x, {moment} AS y FROM range({records}) AS t(i)"
    before, after = MARK.to_bytes(8, "little"), stored.to_bytes(8, "little", signed=True)
    path = patched(tmp_path / "t.parquet", select, before, after)
    source = as_source(path, Domain((*X_NUMBER, replace(X_TEXT["x"], name="y"))), None)
    for name in ("x", "y"):
        assert source.counts((name,)).counts[-1] == records  # none of them is empty


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize("domain", [X_NUMBER, X_TEXT])
@pytest.mark.parametrize("records", [2, 5000])
@pytest.mark.parametrize("other", ["'f'", "'m' || i"])  # the latter: too many distinct values for a list
def test_a_text_in_parquet_that_is_no_utf8_is_a_value_like_others(
    tmp_path: Path, domain: Domain, records: int, other: str
) -> None:
    select = f"SELECT CASE WHEN i = 1 THEN 'before' ELSE {other} END AS x FROM range({records}) AS t(i)"
    path = patched(tmp_path / "t.parquet", select, b"before", b"bef\xff\xc3\xe2")
    source = as_source(path, domain, None)
    assert source.counts(()).total == records
    assert source.counts(("x",)).counts[-1] >= 1


@pytest.mark.usefixtures("same_engine")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("TIMETZ '12:30:00+00'", "TIME WITH TIME ZONE"),
        ("[1, NULL]", r"INTEGER\[\]"),
        ("[TIMESTAMP '2020-01-01']", r"TIMESTAMP\[\]"),
        ("[1, 2]::INTEGER[2]", r"INTEGER\[\]"),
        ("{'told': 'f'}", "STRUCT"),
        ("[{'told': 'f'}]", "STRUCT"),
        ("MAP {'f': 1}", "MAP"),
        ("union_value(told := 1)", "STRUCT"),
    ],
)
def test_a_type_that_is_nested_or_may_fail_is_refused_whatever_it_holds(
    tmp_path: Path, value: str, kind: str
) -> None:
    path = tmp_path / "t.parquet"
    for rows in (f"SELECT {value} AS x, 'f' AS y", f"SELECT {value} AS x, 'f' AS y LIMIT 0"):
        duckdb.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
        with pytest.raises(
            DataError, match=f"expected plain values in column 'x', got a .* type {kind}; write it as"
        ) as caught:
            as_source(path, X_TEXT, None)
        assert "told" not in str(caught.value)  # the name of a field may be a value elsewhere
    # A column that is not declared is not read.
    assert as_source(path, Domain((CategoricalAttribute("y", ("f",)),)), None).counts(()).total == 0


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_floating_number_has_one_text_in_every_source(tmp_path: Path, kind: str) -> None:
    numbers = [0.1, -0.0, 0.0, 1e16, 1e-7, 1e22, 3.0, 2**24 + 1, float("inf"), float("nan"), None]
    frame = pd.DataFrame({"x": pd.Series(numbers, dtype=kind)})
    texts = tuple({repr(float(number) + 0.0) for number in frame["x"].dropna()})
    domain = Domain((CategoricalAttribute("x", texts, missing=True, other=True),))
    duckdb.from_df(frame).write_parquet(str(tmp_path / "t.parquet"))
    expected = MemorySource.from_frame(frame, domain).counts(("x",)).counts.tolist()
    assert as_source(tmp_path / "t.parquet", domain, None).counts(("x",)).counts.tolist() == expected
    assert expected[-2:] == [2, 0]


def test_the_text_of_a_time_does_not_depend_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    duckdb.execute(f"COPY (SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00' AS x) TO '{path}' (FORMAT parquet)")
    domain = Domain((CategoricalAttribute("x", ("2020-01-01 00:00:00+00",)),))
    for zone in ("UTC", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        assert as_source(path, domain, None).counts(()).total == 1


def test_the_name_of_a_folder_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "age=7"
    folder.mkdir()
    duckdb.execute(f"COPY (SELECT 'f' AS sex, 5.0 AS income) TO '{folder / 't.parquet'}' (FORMAT parquet)")
    with pytest.raises(DataError, match="expected one column 'age'"):
        as_source(folder / "t.parquet", DOMAIN, None)
