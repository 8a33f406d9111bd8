"""Files: CSV and Parquet tables into cell numbers.

Whether reading succeeds, and what is said when it fails, depends on the file's presence, its header, its
types and the dialect, never on a record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pmw.data.csv_file import CsvDialect, TablePart, csv_header, csv_parts
from pmw.data.intake import Intake
from pmw.data.memory import MemorySource
from pmw.data.parquet_file import parquet_kinds, parquet_parts
from pmw.errors import DataError
from queries.domain import Domain

__all__ = [
    "check_columns",
    "column_names",
    "delimiter_option",
    "is_parquet",
    "other_delimiter",
    "read_file",
    "table_parts",
]

_PARQUET = (".parquet", ".pq")
_DELIMITERS = (",", ";", "\t", "|")  # that are tried for a hint


def read_file(
    path: str | Path, domain: Domain, dialect: CsvDialect | None = None, key: bytes | None = None
) -> MemorySource:
    """Return the source of a CSV or Parquet file (by its name: .parquet and .pq are Parquet).

    A line of a CSV file that cannot be read is a record whose every value is undeclared: it counts in the
    ``other`` cells where every attribute has one, and is dropped otherwise, as any such record is. Where
    persons are declared it has none, and is dropped.

    Args:
        path: the file; a CSV file may be compressed (.gz).
        domain: the declared attributes, and persons; other columns are ignored.
        dialect: how a CSV file is written.
        key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
            declared.

    Raises:
        DataError: the file is absent or unreadable, or lacks a declared column.
    """
    try:
        intake = Intake(domain, key)
        for part in table_parts(path, domain, dialect):
            intake.add(part.frame)
            intake.add_malformed(len(part.malformed))
        return MemorySource(*intake.finish())
    except DataError as error:
        refusal = DataError(str(error))
    # Raised here, it does not keep the error that it came from: an engine's own text may quote a record.
    raise refusal


def table_parts(path: str | Path, domain: Domain, dialect: CsvDialect | None = None) -> Iterator[TablePart]:
    """Yield the records of a file part by part, declared columns only, that of ids among them.

    Raises:
        DataError: the file is absent or unreadable, or lacks a declared column.

    Privacy: true records; they stay in this room.
    """
    file = _readable(path)
    check_columns(file, domain, dialect)
    if is_parquet(file):
        yield from (TablePart(frame) for frame in parquet_parts(file, domain))
    else:
        yield from csv_parts(file, domain.columns, dialect or CsvDialect())


def check_columns(path: str | Path, domain: Domain, dialect: CsvDialect | None = None) -> None:
    """Refuse a file without the declared columns; its records are not read.

    Raises:
        DataError: the file is absent or unreadable, or lacks a declared column.
    """
    # The columns that came are not listed: in a file without a header they are a person's record.
    columns = column_names(path, dialect)
    for name in domain.columns:
        if columns.count(name) != 1:
            came = "it twice" if name in columns else "no such column"
            other = None if name in columns else other_delimiter(path, domain, dialect)
            hint = "" if other is None else f"; with another delimiter it is there: {delimiter_option(other)}"
            raise DataError(f"{path}: expected one column {name!r} in the first line, got {came}{hint}")


def other_delimiter(path: str | Path, domain: Domain, dialect: CsvDialect | None = None) -> str | None:
    """Return the delimiter with which the first line of a CSV file names every declared column, or None."""
    if is_parquet(path):
        return None
    given = dialect or CsvDialect()
    for delimiter in _DELIMITERS:
        if delimiter in (given.delimiter, given.quote):
            continue
        with contextlib.suppress(DataError):
            columns = csv_header(_readable(path), replace(given, delimiter=delimiter))
            if all(columns.count(name) == 1 for name in domain.columns):
                return delimiter
    return None


def delimiter_option(delimiter: str) -> str:
    """Return the option of a command that names a delimiter, as a shell takes it."""
    return "give --delimiter " + ("$'\\t'" if delimiter == "\t" else f"'{delimiter}'")


def column_names(path: str | Path, dialect: CsvDialect | None = None) -> list[str]:
    """Return the names of a file's columns, in its order.

    Raises:
        DataError: the file is absent or unreadable, or its first line names no columns.
    """
    file = _readable(path)
    return list(parquet_kinds(file)) if is_parquet(file) else csv_header(file, dialect or CsvDialect())


def is_parquet(path: str | Path) -> bool:
    """Return whether a file's name says that it is Parquet."""
    return Path(path).suffix.lower() in _PARQUET


def _readable(path: str | Path) -> Path:
    file = Path(path)
    if file.is_dir():
        raise DataError(f"expected a file, got the folder {file}; name the table in it")
    if not file.is_file():
        raise DataError(f"expected a readable file, got {file}: no such file")
    if any(character in str(file) for character in "*?["):
        raise DataError(f"expected a file name without *, ? and [, got {file}")
    return file
