"""Parquet files, read by DuckDB. What is done with a column depends on its type, never on a value.

A column is read as numbers or as text, whichever cannot fail; texts whose bytes are not UTF-8 are read with a
question mark in place of each such byte. The engine looks at each value of some types and fails at a bad one;
a declared column of such a type is refused, whatever it holds, and so is one of nested values. These are:

* times of day, JSON, VARIANT, GEOMETRY, lists, structs, maps and unions;
* times in milliseconds: the engine multiplies them by 1,000, and some would be too large then;
* times of 96 bits: most of what they can hold is no time;
* decimals in more bytes than their digits need, for the rest of the bytes may say more than the digits.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.data.engine_columns import (
    CLOCKS,
    DECIMAL,
    TIMESTAMPS,
    column_kinds,
    engine,
    is_readable,
    read_columns,
    require_ids,
)
from pmw.data.refusals import column_refusal
from queries.domain import Domain
from queries.frozen import dataclass
from queries.records import Columns

if TYPE_CHECKING:
    import duckdb

_DECIMAL_BYTES = ((4, 2), (9, 4), (18, 8), (38, 16))  # the engine's numbers: up to so many digits, in bytes


def parquet_kinds(file: Path) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words."""
    with _connected(file) as connection:
        return column_kinds(connection, _scanned(file))


def parquet_parts(file: Path, domain: Domain) -> Iterator[Columns]:
    """Yield the records of a file part by part, declared columns only.

    Privacy: true records; they stay in this room.
    """
    with _connected(file) as connection:
        kinds = column_kinds(connection, _scanned(file))
        # By place: the engine renames a column whose name stands there twice.
        stored = dict(zip(kinds, _stored(file, connection), strict=True))
        for name in domain.columns:
            _require_readable(file, name, kinds[name], stored[name])
        wide = {name: "DECIMAL" for name, how in stored.items() if how is not None and how.is_decimal}
        require_ids(str(file), domain, kinds | wide)  # of more than 38 digits, the engine makes them floats
        yield from read_columns(connection, domain, kinds, _scanned(file), again=True)


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

    @property
    def is_decimal(self) -> bool:
        return "DECIMAL" in self.meaning.upper()


def _stored(file: Path, connection: duckdb.DuckDBPyConnection) -> list[_Stored | None]:
    """Return how each column is stored, in the file's order; None for one of nested values."""
    rows = connection.execute(
        "SELECT coalesce(num_children, 0), type, coalesce(type_length, '0'),"
        " concat_ws(' ', converted_type, logical_type) FROM parquet_schema($path)",
        {"path": glob.escape(str(file))},
    ).fetchall()
    columns: list[_Stored | None] = []
    nested = 0  # elements of a nested column that are still to come
    for children, kind, width, meaning in rows[1:]:  # the first element is the table
        if not nested:
            columns.append(None if children else _Stored(str(kind), int(width), str(meaning)))
        nested = max(nested - 1, 0) + int(children)
    return columns


def _require_readable(file: Path, name: str, kind: str, stored: _Stored | None) -> None:
    meaning = "" if stored is None else stored.meaning
    in_microseconds = "MICROS" in meaning and "MILLIS" not in meaning.replace("MILLIS=<null>", "")
    # The engine looks at each time of day in a file, and fails at one that no clock shows.
    if stored is None or kind in CLOCKS or not is_readable(kind):
        got, cure = kind.partition("(")[0], "text or numbers"
    elif kind in TIMESTAMPS and not in_microseconds:
        unit = "96 bits" if stored.kind == "INT96" else "milliseconds"
        got, cure = f"{kind} in {unit}", "times in microseconds, or as text"
    elif not _is_as_wide(kind, stored):
        width = f" of {stored.width} bytes" if stored.width else ""
        got, cure = f"{kind}, stored as {stored.kind}{width}", "numbers or text"
    else:
        return
    raise column_refusal(str(file), name, f"a column of type {got}", f"write it as {cure}")


def _is_as_wide(kind: str, stored: _Stored) -> bool:
    """Return whether no stored value is wider than the engine's number; only decimals may be."""
    decimal = DECIMAL.fullmatch(kind)
    if stored.kind in ("INT32", "INT64"):
        return kind != "DOUBLE"  # decimals of too many digits for such numbers
    if decimal is None:
        return True
    width = next(width for most, width in _DECIMAL_BYTES if int(decimal[1]) <= most)
    return stored.kind == "FIXED_LEN_BYTE_ARRAY" and 0 < stored.width <= width


def _scanned(file: Path) -> str:
    """Return what stands behind FROM: the columns of the file alone, whatever its folders are called."""
    path = glob.escape(str(file)).replace("'", "''")  # the engine takes other names for patterns
    return f"read_parquet('{path}', utf8_validation = 'replace', hive_partitioning = false)"


def _connected(file: Path) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    return engine(f"{file}: the file could not be read as Parquet")
