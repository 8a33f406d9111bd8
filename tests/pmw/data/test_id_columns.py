"""Columns of ids: each type is read or refused by itself, and no value but an empty one is an empty id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from pmw.data import DatabaseTable, as_source
from pmw.data.spark_workers import _placed
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain
from queries.person import Person

KEY = bytes(range(32))
ATTRIBUTES = (CategoricalAttribute("w", ("x", "y")),)
# The type in DuckDB, and its largest, smallest, NaN and empty values, as far as it has them.
READ = {
    "TINYINT": ["127", "-128", "NULL"],
    "BIGINT": [str(2**63 - 1), str(-(2**63)), "NULL"],
    "UBIGINT": [str(2**64 - 1), "0", "NULL"],
    "HUGEINT": [str(2**127 - 1), str(1 - 2**127), "NULL"],
    "FLOAT": ["'inf'", "'-inf'", "'nan'", "3e38", "NULL"],
    "DOUBLE": ["'inf'", "'-inf'", "'nan'", "1e308", "NULL"],
    "BOOLEAN": ["true", "false", "NULL"],
    "VARCHAR": ["''", "repeat('9', 9999)", "'nan'", "chr(0)", "NULL"],
    "BLOB": ["'\\xFF\\x00'::BLOB", "''::BLOB", "NULL"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'", "NULL"],
    "DATE": ["'infinity'", "'-infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'", "NULL"],
    "INTERVAL": ["'178956970 years'", "'0 days'", "NULL"],
    "ENUM('f', 'm')": ["'f'", "'m'", "NULL"],
}
REFUSED = ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_NS", "DECIMAL(10, 2)", "DECIMAL(38, 0)"]
NOT_IN_ARROW = ("HUGEINT", "INTERVAL")  # it writes these as decimals and intervals, which are refused
EMPTY = ("NULL", "''", "''::BLOB")


def domain_of(empty: str, records: int = 1) -> Domain:
    return Domain(ATTRIBUTES, person=Person("id", records, empty=empty))


def tables(folder: Path, engine: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    """Return one table in each source that is always here."""
    engine.execute(f"COPY t TO '{folder / name}.parquet' (FORMAT parquet)")
    database = folder / f"{name}.duckdb"
    engine.execute(f"ATTACH '{database}' AS other")
    engine.execute("CREATE TABLE other.t AS FROM t")
    engine.execute("DETACH other")
    kind = engine.table("t").types[0]
    return {
        **({} if str(kind) in NOT_IN_ARROW else {"arrow": engine.table("t")}),
        "parquet": folder / f"{name}.parquet",
        "duckdb": DatabaseTable(f"duckdb:{database}", "t"),
    }


@pytest.mark.parametrize("empty", ["drop", "person"])
@pytest.mark.parametrize("kind", READ)
def test_taking_out_a_person_moves_the_counts_by_no_more_than_k(
    tmp_path: Path, kind: str, empty: str
) -> None:
    domain = domain_of(empty)
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t (id {kind}, w VARCHAR)")
        without = {
            name: as_source(table, domain, KEY).counts(("w",)).counts
            for name, table in tables(tmp_path, engine, "none").items()
        }
        for place, value in enumerate(READ[kind]):
            engine.execute("DELETE FROM t")
            engine.execute(f"INSERT INTO t SELECT {value}, 'x' FROM range(5)")
            is_empty = value in EMPTY or (value == "'nan'" and kind in ("FLOAT", "DOUBLE"))
            most = 1 if not is_empty else 0 if empty == "drop" else 5
            for name, table in tables(tmp_path, engine, str(place)).items():
                counts = as_source(table, domain, KEY).counts(("w",)).counts
                assert abs(counts - without[name]).sum() == most, (name, value)


@pytest.mark.parametrize("kind", REFUSED)
def test_ids_of_types_whose_values_no_text_tells_apart_are_refused_whatever_they_hold(
    tmp_path: Path, kind: str
) -> None:
    told = f"in the column 'id' of ids, got a column of type {kind[:7]}"
    for place, value in enumerate(["NULL", "NULL WHERE false"]):
        with duckdb.connect() as engine:
            engine.execute(f"CREATE TABLE t (id {kind}, w VARCHAR)")
            engine.execute(f"INSERT INTO t (w, id) SELECT 'x', {value}")
            for name, table in tables(tmp_path, engine, str(place)).items():
                with pytest.raises(DataError) as caught:
                    as_source(table, domain_of("person"), KEY)
                assert told in str(caught.value), name


def test_constants_of_a_person_are_placed_as_the_attributes_are() -> None:
    domain = Domain(ATTRIBUTES, person=Person("id", 1, constant=("w",)))
    placed = _placed(domain)
    assert placed.person == Person("c1", 1, constant=("c0",))


def test_parts_of_different_types_hold_the_same_ids_beyond_63_bits() -> None:
    from pmw.data.people import Roster

    roster = Roster(Person("id", 1), KEY)
    for part in (pd.Series([2**63, 5], dtype="uint64"), pd.Series([str(2**63), "5", "-1"])):
        assert roster.add(part).all()
    assert roster.finish()[0].tolist() == [0, 1, 0, 1, 2]
