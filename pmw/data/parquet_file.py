"""Parquet files, read by DuckDB. What is done with a column depends on its type, never on a value.

A column is read as numbers or as text, whichever cannot fail; texts whose bytes are not UTF-8 are read with a
question mark in place of each such byte. The engine looks at each value of some types and fails at a bad one;
a declared column of such a type is refused, whatever it holds, and so is one of nested values. These are:

* times of day, JSON, VARIANT, GEOMETRY, lists, structs, maps and unions;
* times in milliseconds: the engine multiplies them by 1,000, and some would be too large then;
* decimals in more bytes than their digits need, for the rest of the bytes may say more than the digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.errors import DataError
from queries.domain import Attribute, Domain, IntegerAttribute, NumericAttribute

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
_UNREADABLE = "'(unreadable time)'"  # no date, and no number
_FIRST_TIMESTAMP = "TIMESTAMP '290309-12-22 (BC)'"  # earlier ones can be stored, but not written as text
# Other types that cannot fail. Values of those that are not listed may: they are refused.
_TEXTUAL = ("BOOLEAN", "UBIGINT", "VARCHAR", "BLOB", "UUID", "DATE", "INTERVAL", "TIMESTAMP_NS", '"NULL"')
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")  # digits in all, and after the point
_DECIMAL_BYTES = ((4, 2), (9, 4), (18, 8), (38, 16))  # the engine's numbers: up to so many digits, in bytes


def parquet_kinds(file: Path) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words.

    Raises:
        DataError: the file cannot be read.
    """
    with _connected(file) as connection:
        return _kinds(file, connection)


def parquet_parts(file: Path, domain: Domain) -> Iterator[pd.DataFrame]:
    """Yield the records of a file part by part, declared columns only.

    Raises:
        DataError: the file cannot be read, or a declared column is of a type that is refused.

    Privacy: true records; they stay in this room.
    """
    with _connected(file) as connection:
        kinds = _kinds(file, connection)
        # By place: the engine renames a column whose name stands there twice.
        stored = dict(zip(kinds, _stored(file, connection), strict=True))
        for name in domain.columns:
            _require_readable(file, name, kinds[name], stored[name])
        columns = [_column(attribute, kinds[attribute.name]) for attribute in domain]
        ids = None if domain.person is None else domain.person.column
        whole = ids is not None and kinds[ids] in _WHOLE
        if ids is not None:
            columns += _whole_ids(ids) if whole else [_plain_column(ids, kinds[ids])]
        connection.execute(
            f"SELECT {', '.join(columns)} FROM {_FILE}",  # noqa: S608 - names are quoted below
            {"path": str(file)},
        )
        while len(chunk := connection.fetch_df_chunk(_CHUNK)):
            yield _with_empty_ids(chunk) if whole else chunk


@dataclass(frozen=True, slots=True)
class _Stored:
    """How a column is stored.

    Args:
        kind: the physical type, in the format's words.
        width: bytes per value, of a type of fixed width.
        meaning: what the values stand for, in the format's words, old and new.
    """

    kind: str
    width: int
    meaning: str


def _kinds(file: Path, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    described = connection.execute(f"DESCRIBE SELECT * FROM {_FILE}", {"path": str(file)})  # noqa: S608
    return {str(row[0]): str(row[1]) for row in described.fetchall()}


def _stored(file: Path, connection: duckdb.DuckDBPyConnection) -> list[_Stored | None]:
    """Return how each column is stored, in the file's order; None for one of nested values."""
    rows = connection.execute(
        "SELECT coalesce(num_children, 0), type, coalesce(type_length, '0'),"
        " concat_ws(' ', converted_type, logical_type) FROM parquet_schema($path)",
        {"path": str(file)},
    ).fetchall()
    columns: list[_Stored | None] = []
    nested = 0  # elements of a nested column that are still to come
    for children, kind, width, meaning in rows[1:]:  # the first element is the table
        if not nested:
            columns.append(None if children else _Stored(str(kind), int(width), str(meaning)))
        nested = max(nested - 1, 0) + int(children)
    return columns


def _require_readable(file: Path, name: str, kind: str, stored: _Stored | None) -> None:
    plain = kind in (*_WHOLE, *_FLOATING, *_TIMESTAMPS, *_TEXTUAL) or _DECIMAL.fullmatch(kind)
    if stored is None or not plain:
        got, cure = kind.partition("(")[0], "text or numbers"
    elif kind in _TIMESTAMPS and stored.kind != "INT96" and not _in_microseconds(stored.meaning):
        got, cure = f"{kind} in milliseconds", "times in microseconds, or as text"
    elif not _is_as_wide(kind, stored):
        width = f" of {stored.width} bytes" if stored.width else ""
        got, cure = f"{kind}, stored as {stored.kind}{width}", "numbers or text"
    else:
        return
    raise DataError(
        f"{file}: expected plain values in column {name!r}, got a column of type {got}; write it as {cure}"
    )


def _in_microseconds(meaning: str) -> bool:
    return "MICROS" in meaning and "MILLIS" not in meaning.replace("MILLIS=<null>", "")


def _is_as_wide(kind: str, stored: _Stored) -> bool:
    """Return whether no stored value is wider than the engine's number; only decimals may be."""
    decimal = _DECIMAL.fullmatch(kind)
    if stored.kind in ("INT32", "INT64"):
        return kind != "DOUBLE"  # decimals of too many digits for such numbers
    if decimal is None:
        return True
    width = next(width for most, width in _DECIMAL_BYTES if int(decimal[1]) <= most)
    return stored.kind == "FIXED_LEN_BYTE_ARRAY" and 0 < stored.width <= width


def _column(attribute: Attribute, kind: str) -> str:
    """Return the expression that reads an attribute: as numbers where it is one, else as any other column."""
    if kind in _WHOLE and isinstance(attribute, IntegerAttribute | NumericAttribute):
        return _quoted(attribute.name)
    return _plain_column(attribute.name, kind)


def _whole_ids(column: str) -> list[str]:
    """Return the expressions that read whole numbers exactly, some of them NULL: 0 there, and which are."""
    name = _quoted(column)
    return [f"coalesce({name}, 0) AS {name}", f"{name} IS NULL"]


def _with_empty_ids(chunk: pd.DataFrame) -> pd.DataFrame:
    empty, rest = chunk.iloc[:, -1], chunk.iloc[:, :-1].copy(deep=False)
    if empty.any():
        ids = rest.columns[-1]
        rest[ids] = rest[ids].astype("Int64").mask(empty)
    return rest


def _plain_column(column: str, kind: str) -> str:
    """Return the expression that reads a column: as it is where that is exact and cannot fail, else as text.

    A number that is none is empty, as it is in a pandas table; a time that has no text is undeclared.
    """
    name = _quoted(column)
    if kind == "BOOLEAN" or kind in _FLOATING:
        return name
    value = name
    # Inside the cast: the engine may write out a distinct value whose record the condition leaves out.
    if kind in _TIMESTAMPS:
        readable = f"{name} >= {_FIRST_TIMESTAMP} OR {name} = '-infinity'"
        text = f"TRY_CAST(CASE WHEN {readable} THEN {name} END AS VARCHAR)"
        return f"coalesce({text}, CASE WHEN {name} IS NOT NULL THEN {_UNREADABLE} END) AS {name}"
    if decimal := _DECIMAL.fullmatch(kind):
        # The bytes may hold more digits than are declared; such a number has no text.
        digits, scale = int(decimal[1]), int(decimal[2])
        most = f"'{'9' * (digits - scale)}.{'9' * scale}'::{kind}"
        value = f"CASE WHEN {name} BETWEEN -{most} AND {most} THEN {name} END"
    return f"TRY_CAST({value} AS VARCHAR) AS {name}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
