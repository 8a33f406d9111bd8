"""Parquet files, read by DuckDB. What is done with a column depends on its type, never on a value."""

from __future__ import annotations

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
_FLOATING = ("FLOAT", "DOUBLE")
# NULLs turn a column of these into floating-point numbers, which are exact within an attribute's ends.
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")


def parquet_kinds(file: Path) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words.

    Raises:
        DataError: the file cannot be read.
    """
    with _connected(file) as connection:
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", {"path": str(file)})
        return {str(row[0]): str(row[1]) for row in described.fetchall()}


def parquet_parts(file: Path, domain: Domain) -> Iterator[pd.DataFrame]:
    """Yield the records of a file part by part, declared columns only.

    Raises:
        DataError: the file cannot be read.

    Privacy: true records; they stay in this room.
    """
    kinds = parquet_kinds(file)
    columns = ", ".join(_column(attribute, kinds[attribute.name]) for attribute in domain)
    with _connected(file) as connection:
        connection.execute(
            f"SELECT {columns} FROM read_parquet($path)",  # noqa: S608 - names are quoted below
            {"path": str(file)},
        )
        while len(chunk := connection.fetch_df_chunk(_CHUNK)):
            yield chunk


def _column(attribute: Attribute, kind: str) -> str:
    """Return the expression that reads a column: as it is where that is exact and cannot fail, else as text.

    A value that has no text, or is not a number, is empty, as it is in a pandas table.
    """
    name = '"' + attribute.name.replace('"', '""') + '"'
    categorical = isinstance(attribute, CategoricalAttribute)
    if kind == "BOOLEAN" or (kind in _FLOATING and not categorical):
        return name
    if kind in _WHOLE and not categorical:
        return name
    if kind in _FLOATING:
        return f"CASE WHEN isnan({name}) THEN NULL ELSE CAST({name} AS VARCHAR) END AS {name}"
    return f"TRY_CAST({name} AS VARCHAR) AS {name}"


@contextmanager
def _connected(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb  # late: only needed where files are read

    try:
        with duckdb.connect(":memory:") as connection:
            yield connection
    except duckdb.Error:
        # The engine's own text may quote a record.
        raise DataError(f"{file}: the file could not be read as Parquet") from None
