"""Files: CSV and Parquet tables, each with how it is written.

A folder, or a pattern such as ``data/*.parquet`` that no file has as its name, is the table of all Parquet
files there, in the order of their names. Whether reading succeeds, and what is said when it fails, depends
on the file's presence, its header, its types and the dialect, never on a record.

Parquet files are read by DuckDB. What is done with a column depends on its type, never on a value. A column
is read as numbers or as text, whichever cannot fail; texts whose bytes are not UTF-8 are read with a question
mark in place of each such byte. The engine looks at each value of some types and fails at a bad one; a
declared column of such a type is refused, whatever it holds, and so is one of nested values. These are:

* times of day, JSON, VARIANT, GEOMETRY, lists, structs, maps and unions;
* times in milliseconds: the engine multiplies them by 1,000, and some would be too large then;
* times of 96 bits: most of what they can hold is no time;
* decimals in more bytes than their digits need, for the rest of the bytes may say more than the digits.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.data.csv_file import csv_header, csv_parts
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
from pmw.data.memory import MemorySource, TablePart
from pmw.data.refusals import column_refusal
from pmw.data.scratch import MemoryLimit, is_path_name, require_limit
from pmw.disk import CsvDialect
from pmw.errors import DataError
from queries.domain import Domain
from queries.frozen import dataclass
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.plain_values import type_name
from queries.records import Columns

if TYPE_CHECKING:
    import duckdb

_PARQUET = (".parquet", ".pq")
_PATTERN = "*?["
_TABLE_LOGS = ("_delta_log", ".hoodie", "metadata")  # say which of a folder's files are part of the table
_DECIMAL_BYTES = ((4, 2), (9, 4), (18, 8), (38, 16))  # the engine's numbers: up to so many digits, in bytes
_DELIMITERS = (",", ";", "\t", "|")  # that are tried for a hint


@dataclass(frozen=True, slots=True)
class TableFile:
    """A CSV or Parquet file, or several Parquet files that are one table.

    Args:
        path: where it is; a CSV file may be compressed (.gz); of Parquet files also their folder, or a
            pattern such as ``data/*.parquet``.
        dialect: how a CSV file is written.
        memory: how much memory its records may take; None for the usual.

    Raises:
        DataError: the path is no file name, the dialect or limit is none, or a Parquet file is given the
            dialect of a CSV file.
    """

    path: Path
    dialect: CsvDialect = field(default_factory=CsvDialect)
    memory: MemoryLimit | None = None

    def __post_init__(self) -> None:
        require_file_name(self.path)
        object.__setattr__(self, "path", Path(self.path))
        require_limit(self.memory)
        if not issubclass(type(self.dialect), CsvDialect):
            raise DataError(f"expected a CsvDialect, got a {type_name(self.dialect)}")
        for name in self.dialect.unusual if self.is_parquet else ():
            raise DataError(f"{name} is for CSV files; leave it out, for {self.path} is Parquet")

    def __str__(self) -> str:
        return str(self.path)

    @property
    def is_parquet(self) -> bool:
        """Its name is that of a Parquet file, of a folder, or of a pattern of Parquet files."""
        return self.path.suffix.lower() in _PARQUET or self.path.is_dir()

    @property
    def files(self) -> list[Path]:
        """The files that it is read from; its own name where there are none."""
        with contextlib.suppress(DataError):
            return _parquet_files(self.path)
        return [self.path]

    def names(self) -> list[str]:
        """Return the names of its columns, in its order.

        Raises:
            DataError: the file is absent or unreadable, or its first line names no columns.
        """
        return list(self.kinds()) if self.is_parquet else csv_header(_readable(self.path), self.dialect)

    def kinds(self) -> dict[str, str]:
        """Return the type of each column by its name, in the engine's words; none for a CSV file.

        Raises:
            DataError: the file is absent or unreadable.
        """
        return _kinds_of_parquet(_parquet_files(self.path)[0]) if self.is_parquet else {}

    def parts(self, domain: Domain) -> Iterator[TablePart]:
        """Yield the records part by part, declared columns only, that of ids among them.

        Raises:
            DataError: the file is absent or unreadable, or lacks a declared column.

        Privacy: true records; they stay in this room.
        """
        self.require_columns(domain)
        if self.is_parquet:
            for file in _parquet_files(self.path):
                yield from map(TablePart, _parts_of_parquet(file, domain))
        else:
            numbers = [one.name for one in domain if isinstance(one, IntegerAttribute | NumericAttribute)]
            yield from csv_parts(_readable(self.path), domain.columns, self.dialect, numbers)

    def source(self, domain: Domain, key: bytes | None) -> MemorySource:
        """Return its count source; see ``MemorySource.from_parts``.

        Raises:
            DataError: the file is absent or unreadable, or lacks a declared column; or the records exceed the
                limit, and the disk is full, or fails.
        """
        return MemorySource.from_parts(self.parts(domain), domain, key, self.memory)

    def require_columns(self, domain: Domain) -> None:
        """Refuse a file without the declared columns; its records are not read.

        Raises:
            DataError: the file is absent or unreadable, or lacks a declared column.
        """
        # The columns that came are not listed: in a file without a header they are a person's record.
        columns = self.names()
        for name in domain.columns:
            if columns.count(name) != 1:
                came = "it twice" if name in columns else "no such column"
                option = None if name in columns else self.delimiter_option(domain)
                hint = "" if option is None else f"; with another delimiter it is there: {option}"
                raise DataError(
                    f"{self.path}: expected one column {name!r} in the first line, got {came}{hint}"
                )
        if self.is_parquet:
            _require_same_types(_parquet_files(self.path), domain)

    def delimiter_option(self, domain: Domain) -> str | None:
        """Return the option of a command that names the delimiter of a CSV file, as a shell takes it.

        It is one with which the first line names every declared column; None where there is none.
        """
        if self.is_parquet:
            return None
        for delimiter in _DELIMITERS:
            if delimiter in (self.dialect.delimiter, self.dialect.quote):
                continue
            with contextlib.suppress(DataError):
                columns = csv_header(_readable(self.path), replace(self.dialect, delimiter=delimiter))
                if all(columns.count(name) == 1 for name in domain.columns):
                    return "give --delimiter " + ("tab" if delimiter == "\t" else f"'{delimiter}'")
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path."""
        form = {"path": str(self.path.absolute()), "dialect": asdict(self.dialect)}
        return form if self.memory is None else {**form, "memory": self.memory.to_dict()}

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> TableFile:
        """Return the file of a form."""
        dialect = form["dialect"]
        texts = tuple(dialect["missing_texts"])
        memory = MemoryLimit.from_dict(form["memory"]) if "memory" in form else None
        return cls(Path(form["path"]), CsvDialect(**{**dialect, "missing_texts": texts}), memory)


def require_file_name(path: object) -> None:
    """Refuse a path that is none, and a table's text in place of its name."""
    if not issubclass(type(path), str | Path):
        raise DataError(f"expected the name of a CSV or Parquet file, got a {type_name(path)}")
    if not is_path_name(str(path)):
        raise DataError(
            "expected the name of a CSV or Parquet file, got a text that is too long for one, or holds line "
            "breaks or other control characters; write the table to a file, and give its name"
        )


def _require_same_types(files: list[Path], domain: Domain) -> None:
    """Refuse files whose declared columns are of different types, or absent in some."""
    first = _kinds_of_parquet(files[0])
    for file in files[1:]:
        kinds = _kinds_of_parquet(file)
        for name in domain.columns:
            if kinds.get(name) != first[name]:
                came = f"one of type {kinds[name]}" if name in kinds else "no such column"
                raise DataError(
                    f"{file}: expected a column {name!r} of type {first[name]}, as in {files[0]}, "
                    f"got {came}; write all files of the table with the same types"
                )


def _parquet_files(place: Path) -> list[Path]:
    """Return the Parquet files that a name stands for: one, those of a folder, or of a pattern, in order."""
    if place.is_dir():
        return _folder_files(place)
    if place.exists() or not _is_pattern(place):  # a pattern only where nothing has the name
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
    # Programs keep what is not, or not yet, part of a table in files and folders with such names.
    shown = [file for file in found if not any(part[0] in "._" for part in file.relative_to(folder).parts)]
    if not shown:
        raise DataError(f"expected a folder of Parquet files, got {folder}: none is in it")
    return [_readable(file) for file in sorted(shown)]


def _is_pattern(path: Path) -> bool:
    return any(character in str(path) for character in _PATTERN)


def _readable(file: Path) -> Path:
    if file.is_dir():
        raise DataError(f"expected a file, got the folder {file}; name the table in it")
    if not file.is_file() and _is_pattern(file):
        raise DataError(f"expected a file, or a pattern of Parquet files, got {file}: no file has that name")
    if not file.is_file():
        raise DataError(f"expected a readable file, got {file}: no such file")
    return file


# --- Parquet ---------------------------------------------------------------------------------------------


def _kinds_of_parquet(file: Path) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words."""
    with _connected(file) as connection:
        return column_kinds(connection, _scanned(file))


def _parts_of_parquet(file: Path, domain: Domain) -> Iterator[Columns]:
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
