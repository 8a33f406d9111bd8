"""Parquet: types by declaration, values as drawn, empty ones NULL."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from pmw.data import as_source
from pmw.errors import ReleaseError
from pmw.public.export.rows import column_type, write_parquet
from queries import (
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    decode_records,
    encode_records,
)

ATTRIBUTES: list[tuple[Attribute, str]] = [
    (IntegerAttribute("age", -3, 40, 5), "BIGINT"),
    (NumericAttribute("income", (0.0, 0.5, 1e9)), "DOUBLE"),
    (NumericAttribute("gain", (0, 100, 99_999), atoms=(0, 99_999), integer=True), "BIGINT"),
    (NumericAttribute("rate", (0, 0.5, 1), atoms=(0, 0.5, 0.7)), "DOUBLE"),
    (CategoricalAttribute("word", ("a\x00b", 'é, "x"', " ", "3")), "VARCHAR"),
    (CategoricalAttribute("code", (3, -1, 2**53)), "BIGINT"),
    (CategoricalAttribute("large", (3, 2**63)), "VARCHAR"),
    (CategoricalAttribute("flag", (True, False)), "BOOLEAN"),
    (CategoricalAttribute("mixed", (True, 7, "x")), "VARCHAR"),
    (DateAttribute("born", date(1999, 5, 4), date(2024, 2, 29), "year"), "DATE"),
    (
        DatetimeAttribute("seen", datetime(2023, 1, 1, 4), datetime(2023, 1, 2), "hour", "Asia/Tokyo"),
        "TIMESTAMP",
    ),
]


def every_cell(domain: Domain) -> CodedRecords:
    """Return records in which every cell of every attribute occurs; the empty ones come last."""
    length = 40
    columns = (np.arange(length) * size // length for size in domain.shape)
    return CodedRecords(domain, tuple(column.astype(np.uint8) for column in columns))


def written(frame: pd.DataFrame, domain: Domain, path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the types and the rows of a file."""
    write_parquet(frame, domain, path)
    with duckdb.connect() as connection:
        kinds = connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
        assert [kind[0] for kind in kinds] == list(domain.names)
        return [kind[1] for kind in kinds], connection.execute(f"SELECT * FROM '{path}'").fetchall()


def plain(value: object) -> object:
    """Return a value of a synthetic table as Python has it."""
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return None if pd.isna(value) else value.item() if isinstance(value, np.generic) else value  # type: ignore[call-overload]  # one value


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_types_go_by_the_declaration_and_values_come_back(tmp_path: Path, missing: bool, other: bool) -> None:
    domain = Domain(tuple(replace(one, missing=missing, other=other) for one, _ in ATTRIBUTES))
    records = every_cell(domain)
    frame = decode_records(records, np.random.default_rng(1))
    kinds, rows = written(frame, domain, tmp_path / "t.parquet")
    assert kinds == ["VARCHAR" if other else kind for _, kind in ATTRIBUTES]
    assert kinds == [column_type(attribute) for attribute in domain]
    for place, (name, kind) in enumerate(zip(domain.names, kinds, strict=True)):
        expected = [plain(value) for value in frame[name]]
        if kind == "VARCHAR":
            expected = [
                None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
                for value in expected
            ]
        if kind == "DATE":
            expected = [value.date() if isinstance(value, datetime) else value for value in expected]
        assert [row[place] for row in rows] == expected
        assert (None in expected) == missing


@pytest.mark.parametrize("missing", [False, True])
def test_a_synthetic_file_is_read_into_the_cells_that_it_was_drawn_from(
    tmp_path: Path, missing: bool
) -> None:
    domain = Domain(tuple(replace(one, missing=missing, other=True) for one, _ in ATTRIBUTES))
    records = every_cell(domain)
    frame = decode_records(records, np.random.default_rng(1))
    write_parquet(frame, domain, tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = [as_source(tmp_path / name, domain, None) for name in ("t.parquet", "t.csv")]
    again = encode_records(frame, domain)
    for name, drawn, column in zip(domain.names, records.columns, again.columns, strict=True):
        expected = np.bincount(drawn, minlength=domain[name].size)
        for source in sources:
            assert source.counts((name,)).counts.tolist() == expected.tolist()
        assert column.tolist() == drawn.tolist()


def test_types_do_not_depend_on_the_rows(tmp_path: Path) -> None:
    domain = Domain(tuple(replace(one, missing=True) for one, _ in ATTRIBUTES))
    empty = CodedRecords(domain, tuple(np.full(3, one.size - 1, dtype=np.uint8) for one in domain))
    kinds, rows = written(decode_records(empty, np.random.default_rng(1)), domain, tmp_path / "t.parquet")
    assert kinds == [kind for _, kind in ATTRIBUTES]
    assert rows == [(None,) * len(domain)] * 3
    none = CodedRecords(domain, tuple(np.empty(0, dtype=np.uint8) for _ in domain))
    kinds, rows = written(decode_records(none, np.random.default_rng(1)), domain, tmp_path / "n.parquet")
    assert (kinds, rows) == ([kind for _, kind in ATTRIBUTES], [])


def test_awkward_names_are_kept(tmp_path: Path) -> None:
    names = ('a "b"', "c;d", "select", "c0", "typed", "ä'")
    domain = Domain(tuple(CategoricalAttribute(name, ("x",)) for name in names))
    frame = pd.DataFrame({name: ["x"] for name in names})
    assert written(frame, domain, tmp_path / "t.parquet")[1] == [("x",) * 6]


def test_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    domain = Domain((CategoricalAttribute("age", ("x",)), CategoricalAttribute("Age", ("x",))))
    with pytest.raises(ReleaseError, match="'age' would stand there twice; choose --format csv"):
        write_parquet(pd.DataFrame({"age": ["x"], "Age": ["x"]}), domain, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []
