"""Parquet files, read by DuckDB. What is done with a column depends on its type, never on a value.

A column is read as numbers or as text, whichever cannot fail; texts whose bytes are not UTF-8 are read with a
question mark in place of each such byte. The engine looks at each value of some types and fails at a bad one;
a declared column of such a type is refused, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.errors import DataError
from queries.domain import Attribute, CategoricalAttribute, Domain

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = [
    "parquet_kinds",
    "parquet_parts",
]

_CHUNK = 50  # vectors of 2,048 rows at a time
# The columns are those of the file alone, whatever its folders are called.
_FILE = "read_parquet($path, utf8_validation = 'replace', hive_partitioning = false)"
_FLOATING = ("FLOAT", "DOUBLE")
# NULLs turn a column of these into floating-point numbers, which are exact within an attribute's ends.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_FIRST_TIMESTAMP = "TIMESTAMP '290309-12-22 (BC)'"  # earlier ones can be stored, but not written as text
# Alone or inside a nested type, values of these are looked at while they are read, or may have no text.
_CHECKED = re.compile(r"\b(?:TIME|JSON|VARIANT|GEOMETRY)")


def parquet_kinds(file: Path) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words.

    Raises:
        DataError: the file cannot be read.
    """
    with _connected(file) as connection:
        described = connection.execute(f"DESCRIBE SELECT * FROM {_FILE}", {"path": str(file)})  # noqa: S608
        return {str(row[0]): str(row[1]) for row in described.fetchall()}


def parquet_parts(file: Path, domain: Domain) -> Iterator[pd.DataFrame]:
    """Yield the records of a file part by part, declared columns only.

    Raises:
        DataError: the file cannot be read, or a declared column is of a type that is refused.

    Privacy: true records; they stay in this room.
    """
    kinds = parquet_kinds(file)
    for attribute in domain:
        _require_readable(file, attribute.name, kinds[attribute.name])
    columns = ", ".join(_column(attribute, kinds[attribute.name]) for attribute in domain)
    with _connected(file) as connection:
        connection.execute(
            f"SELECT {columns} FROM {_FILE}",  # noqa: S608 - names are quoted below
            {"path": str(file)},
        )
        while len(chunk := connection.fetch_df_chunk(_CHUNK)):
            yield chunk


def _require_readable(file: Path, name: str, kind: str) -> None:
    if kind not in (*_TIMESTAMPS, "TIMESTAMP_NS") and _CHECKED.search(kind):
        raise DataError(
            f"{file}: expected plain values in column {name!r}, got a column of type {kind}; "
            "write it as text or numbers"
        )


def _column(attribute: Attribute, kind: str) -> str:
    """Return the expression that reads a column: as it is where that is exact and cannot fail, else as text.

    A value that has no text, or is not a number, is empty, as it is in a pandas table.
    """
    name = '"' + attribute.name.replace('"', '""') + '"'
    if kind == "BOOLEAN" or kind in _FLOATING:
        return name
    if kind in _WHOLE and not isinstance(attribute, CategoricalAttribute):
        return name
    value = name
    if kind in _TIMESTAMPS:
        # Inside the cast: the engine may write out a distinct value whose record the condition leaves out.
        value = f"CASE WHEN {name} >= {_FIRST_TIMESTAMP} OR {name} = '-infinity' THEN {name} END"
    return f"TRY_CAST({value} AS VARCHAR) AS {name}"


@contextmanager
def _connected(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb  # late: only needed where files are read

    try:
        with duckdb.connect(":memory:") as connection:
            connection.execute("SET TimeZone = 'UTC'")  # else texts would depend on the machine
            yield connection
    except (duckdb.Error, UnicodeDecodeError):  # the latter where the engine's text quotes such bytes
        # The engine's own text may quote a record.
        raise DataError(f"{file}: the file could not be read as Parquet") from None
