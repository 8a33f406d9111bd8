"""Files: CSV and Parquet tables into cell numbers.

A folder, or a pattern such as ``data/*.parquet``, is the table of all Parquet files there, in the order of
their names. Whether reading succeeds, and what is said when it fails, depends on the file's presence, its
header, its types and the dialect, never on a record.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pmw.data.csv_file import CsvDialect, TablePart, csv_header, csv_parts
from pmw.data.intake import Intake
from pmw.data.memory import MemorySource
from pmw.data.parquet_file import parquet_kinds, parquet_parts
from pmw.data.scratch import MemoryLimit
from pmw.errors import DataError
from queries.domain import Domain
from queries.numbers import IntegerAttribute, NumericAttribute

_PARQUET = (".parquet", ".pq")
_PATTERN = "*?["
_TABLE_LOGS = ("_delta_log", ".hoodie", "metadata")  # say which of a folder's files are part of the table
_DELIMITERS = (",", ";", "\t", "|")  # that are tried for a hint


def read_file(
    path: str | Path,
    domain: Domain,
    dialect: CsvDialect | None = None,
    key: bytes | None = None,
    limit: MemoryLimit | None = None,
) -> MemorySource:
    """Return the source of a CSV or Parquet file (by its name: .parquet and .pq are Parquet).

    A line of a CSV file that cannot be read is a record whose every value is undeclared: it counts in the
    ``other`` cells where every attribute has one, and is dropped otherwise, as any such record is. Where
    persons are declared it has none, and is dropped.

    Args:
        path: the file; a CSV file may be compressed (.gz); of Parquet files also their folder or a pattern.
        domain: the declared attributes, and persons; other columns are ignored.
        dialect: how a CSV file is written.
        key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
            declared.
        limit: how much memory the records may take; None for the usual.

    Raises:
        DataError: the file is absent or unreadable, or lacks a declared column; or the records exceed the
            limit, and the disk is full, or fails.
    """
    try:
        intake = Intake(domain, key, limit)
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
    check_columns(path, domain, dialect)
    if is_parquet(path):
        for file in _parquet_files(path):
            yield from (TablePart(frame) for frame in parquet_parts(file, domain))
    else:
        numbers = [one.name for one in domain if isinstance(one, IntegerAttribute | NumericAttribute)]
        yield from csv_parts(_readable(path), domain.columns, dialect or CsvDialect(), numbers)


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
    if is_parquet(path):
        _require_same_types(_parquet_files(path), domain)


def _require_same_types(files: list[Path], domain: Domain) -> None:
    """Refuse files whose declared columns are of different types, or absent in some."""
    first = parquet_kinds(files[0])
    for file in files[1:]:
        kinds = parquet_kinds(file)
        for name in domain.columns:
            if kinds.get(name) != first[name]:
                came = f"one of type {kinds[name]}" if name in kinds else "no such column"
                raise DataError(
                    f"{file}: expected a column {name!r} of type {first[name]}, as in {files[0]}, "
                    f"got {came}; write all files of the table with the same types"
                )


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
    return "give --delimiter " + ("tab" if delimiter == "\t" else f"'{delimiter}'")


def column_names(path: str | Path, dialect: CsvDialect | None = None) -> list[str]:
    """Return the names of a file's columns, in its order.

    Raises:
        DataError: the file is absent or unreadable, or its first line names no columns.
    """
    if is_parquet(path):
        return list(parquet_kinds(_parquet_files(path)[0]))
    return csv_header(_readable(path), dialect or CsvDialect())


def parquet_types(path: str | Path) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words; none for a CSV file.

    Raises:
        DataError: the file is absent or unreadable.
    """
    return parquet_kinds(_parquet_files(path)[0]) if is_parquet(path) else {}


def table_files(path: str | Path) -> list[Path]:
    """Return the files that a table is read from; its own name where there are none."""
    with contextlib.suppress(DataError):
        return _parquet_files(path)
    return [Path(path)]


def is_parquet(path: str | Path) -> bool:
    """Return whether a name is that of a Parquet file, of a folder, or of a pattern of Parquet files."""
    return Path(path).suffix.lower() in _PARQUET or Path(path).is_dir()


def _parquet_files(path: str | Path) -> list[Path]:
    """Return the Parquet files that a name stands for, in the order of their names."""
    place = Path(path)
    if place.is_dir():
        return _folder_files(place)
    if not _is_pattern(place):
        return [_readable(place)]
    found = sorted(map(Path, glob.glob(str(place), recursive=True)))
    if not found:
        raise DataError(f"expected Parquet files, got none: {place} names no file")
    return [_readable(file) for file in found]


def _folder_files(folder: Path) -> list[Path]:
    for log in _TABLE_LOGS:
        if (folder / log).is_dir():
            raise DataError(
                f"expected a folder of Parquet files alone, got {folder}, whose {log} says which of its "
                "files are part of the table; copy the table into Parquet files of its own"
            )
    found = (file for file in folder.rglob("*") if file.suffix.lower() in _PARQUET and file.is_file())
    shown = [file for file in found if not _is_hidden(file.relative_to(folder))]
    if not shown:
        raise DataError(f"expected a folder of Parquet files, got {folder}: none is in it")
    return [_readable(file) for file in sorted(shown)]


def _is_hidden(file: Path) -> bool:
    """Return whether a file lies where programs keep what is not, or not yet, part of a table."""
    return any(part.startswith((".", "_")) for part in file.parts)


def _is_pattern(path: Path) -> bool:
    return any(character in str(path) for character in _PATTERN)


def _readable(path: str | Path) -> Path:
    file = Path(path)
    if file.is_dir():
        raise DataError(f"expected a file, got the folder {file}; name the table in it")
    if not file.is_file() and not _is_pattern(file):
        raise DataError(f"expected a readable file, got {file}: no such file")
    if _is_pattern(file):
        raise DataError(f"expected a file name without *, ? and [, got {file}")
    return file
