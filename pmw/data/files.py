"""Files: CSV and Parquet, read by DuckDB into cell numbers.

A CSV record is one line. Each line is read by itself: one that is malformed (wrong number of fields, an
open quote, bytes that are not UTF-8) is dropped and changes no other record, which a reader that lets a
quoted field run over several lines cannot promise. Whether reading succeeds, and what is said when it
fails, depends on the file's presence, its header and the dialect, never on a record.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from pmw.data.memory import MemorySource
from pmw.errors import DataError
from queries.domain import CategoricalAttribute, Domain
from queries.records import CodedRecords, encode_records

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = [
    "column_names",
    "CsvDialect",
    "is_parquet",
    "malformed_lines",
    "read_file",
    "table_parts",
]

_LONGEST_LINE = 2**20  # bytes; a line of as many, or more, is malformed
_CHUNK = 50  # vectors of 2,048 rows at a time
_PARQUET = (".parquet", ".pq")

# Every line as one field: the separator and the text for NULL are sequences that no text holds. In a file
# that does hold them, a line ends at the first, and a line that is the second is malformed. The engine's own
# limit on lines counts their ends or not, by what other lines end with; ours, below it, does not.
_SEPARATOR, _NULL = "\x1c\x1d\x1e\x1f", "\x1f\x1e\x1d\x1c"
_LINES = f"""
    SELECT rtrim(line, chr(13)) AS line FROM read_csv(
        $path, auto_detect = false, header = true, delim = '{_SEPARATOR}', quote = '',
        escape = '', comment = '', columns = {{'line': 'VARCHAR'}}, ignore_errors = true,
        strict_mode = false, null_padding = false, nullstr = '{_NULL}',
        max_line_size = {_LONGEST_LINE + 64}, new_line = '\\n')
    WHERE coalesce(strlen(line), 0) < {_LONGEST_LINE}
"""  # noqa: S608 - the path is a bound parameter


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a CSV file is written. The text is UTF-8, the first line names the columns.

    Args:
        delimiter: one character between fields.
        quote: one character around fields that hold a delimiter; doubled inside such a field.
        missing_texts: texts that count as empty, besides the empty text.
        trim: drop spaces and tabs around each field.

    Raises:
        DataError: delimiter or quote is not one character, or both are the same.
    """

    delimiter: str = ","
    quote: str = '"'
    missing_texts: tuple[str, ...] = ()
    trim: bool = False

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            if len(value) != 1 or value in "\r\n\x00\x1e\x1f" or not value.isascii():
                raise DataError(f"expected one ASCII character for {name}, got {value!r}")
        if self.delimiter == self.quote:
            raise DataError(f"expected different delimiter and quote, got {self.quote!r} twice")


def read_file(path: str | Path, domain: Domain, dialect: CsvDialect | None = None) -> MemorySource:
    """Return the source of a CSV or Parquet file (by its name: .parquet and .pq are Parquet).

    Args:
        path: the file; a CSV file may be compressed (.gz).
        domain: the declared attributes; other columns are ignored.
        dialect: how a CSV file is written.

    Raises:
        DataError: the file is absent or unreadable, or lacks a declared column.
    """
    return MemorySource(
        _joined([encode_records(part, domain) for part in table_parts(path, domain, dialect)], domain)
    )


def table_parts(
    path: str | Path, domain: Domain, dialect: CsvDialect | None = None
) -> Iterator[pd.DataFrame]:
    """Yield the records of a file part by part, without malformed lines; declared columns only.

    Privacy: true records; they stay in this room.

    Raises:
        DataError: the file is absent or unreadable, or lacks a declared column.
    """
    with _opened(path) as (connection, file):
        if is_parquet(file):
            yield from _parquet_parts(connection, file, domain)
        else:
            yield from _csv_parts(connection, file, domain, dialect or CsvDialect())


def column_names(path: str | Path, dialect: CsvDialect | None = None) -> list[str]:
    """Return the names of a file's columns, in its order.

    Raises:
        DataError: the file is absent or unreadable, or its first line names no columns.
    """
    with _opened(path) as (connection, file):
        if is_parquet(file):
            return list(_parquet_kinds(connection, file))
        return _header(file, dialect or CsvDialect())


def is_parquet(path: str | Path) -> bool:
    """Return whether a file's name says that it is Parquet."""
    return Path(path).suffix.lower() in _PARQUET


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    file = Path(path)
    if not file.is_file():
        raise DataError(f"expected a readable file, got {file}: no such file")
    if any(character in str(file) for character in "*?["):
        raise DataError(f"expected a file name without *, ? and [, got {file}")
    import duckdb  # late: only needed where files are read

    try:
        with duckdb.connect(":memory:") as connection:
            yield connection, file
    except duckdb.Error:
        # The engine's own text may quote a record.
        kind = "Parquet" if is_parquet(file) else "CSV"
        raise DataError(f"{file}: the file could not be read as {kind}") from None


def _joined(parts: list[CodedRecords], domain: Domain) -> CodedRecords:
    columns = []
    for position, attribute in enumerate(domain):
        dtype = np.min_scalar_type(attribute.size - 1)
        pieces = [part.columns[position] for part in parts]
        columns.append(np.concatenate([np.empty(0, dtype=dtype), *pieces]))
    return CodedRecords(domain, tuple(columns))


def _require_columns(file: Path, columns: list[str], domain: Domain) -> None:
    # The columns that came are not listed: in a file without a header they are a person's record.
    for name in domain.names:
        if columns.count(name) != 1:
            came = "it twice" if name in columns else "no such column"
            raise DataError(f"{file}: expected one column {name!r} in the first line, got {came}")


# --- CSV -------------------------------------------------------------------------------------------------


def _csv_parts(
    connection: duckdb.DuckDBPyConnection, file: Path, domain: Domain, dialect: CsvDialect
) -> Iterator[pd.DataFrame]:
    import pandas as pd  # late: only where tables are handled

    header = _header(file, dialect)
    _require_columns(file, header, domain)
    places = [header.index(name) for name in domain.names]
    fields = ", ".join(f"fields[{place + 1}] AS c{number}" for number, place in enumerate(places))
    plain = f"""
        SELECT {fields} FROM (
            SELECT string_split(line, $delimiter) AS fields FROM ({_LINES}) WHERE NOT contains(line, $quote))
        WHERE len(fields) = $width
    """  # noqa: S608 - numbers only; every text is a bound parameter
    bound = {"path": str(file), "quote": dialect.quote}
    connection.execute(plain, {**bound, "delimiter": dialect.delimiter, "width": len(header)})
    for chunk in _chunks(connection):
        yield _cleaned(chunk.set_axis(list(domain.names), axis="columns"), dialect)
    connection.execute(f"SELECT line FROM ({_LINES}) WHERE contains(line, $quote)", bound)  # noqa: S608
    for chunk in _chunks(connection):
        rows = [row for line in chunk["line"] if (row := _split(line, dialect, len(header))) is not None]
        yield pd.DataFrame(
            {name: [row[place] for row in rows] for name, place in zip(domain.names, places, strict=True)},
            dtype=object,
        )


def _chunks(connection: duckdb.DuckDBPyConnection) -> Iterator[pd.DataFrame]:
    while len(chunk := connection.fetch_df_chunk(_CHUNK)):
        yield chunk


def _header(file: Path, dialect: CsvDialect) -> list[str]:
    try:
        with _read_bytes(file) as stream:
            line = stream.readline(_LONGEST_LINE).decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataError(f"{file}: expected UTF-8 text in the first line, got other bytes") from None
    fields = _split(line, dialect, None)
    if not fields or line == "":
        raise DataError(f"{file}: expected column names in the first line, got none")
    return fields


@contextmanager
def _read_bytes(file: Path) -> Iterator[BinaryIO]:
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opener(file, "rb") as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:  # the last two: a damaged compressed file
        raise DataError(f"{file}: the file could not be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    damaged = isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
    return "its compression is damaged" if damaged else type(error).__name__


def malformed_lines(path: str | Path, dialect: CsvDialect | None = None) -> Iterator[int]:
    """Yield the number of each line of a CSV file that holds no record, the first line being 1.

    The engine leaves such lines out and keeps no count of them, so this looks at each line once more, by the
    same rule. Empty lines hold no record either, but are not malformed.

    Privacy: exact and secret.

    Raises:
        DataError: the file is absent or unreadable.
    """
    with _opened(path) as (_, file):
        chosen = dialect or CsvDialect()
        width = len(_header(file, chosen))
        # In latin-1 a character stands for a byte.
        with _read_bytes(file) as raw, TextIOWrapper(raw, encoding="latin-1") as stream:
            for number, line in enumerate(iter(lambda: _next_line(stream), None), start=1):
                if number > 1 and line and _is_malformed(line, chosen, width):
                    yield number


def _next_line(stream: TextIOWrapper) -> str | None:
    """Return the next line without its end, cut where it is too long; None at the end of the file."""
    line = stream.readline(_LONGEST_LINE + 1)
    if not line:
        return None
    rest = line
    while len(rest) == _LONGEST_LINE + 1 and not rest.endswith("\n"):
        rest = stream.readline(_LONGEST_LINE + 1)
    return line.removesuffix("\n")


def _is_malformed(line: str, dialect: CsvDialect, width: int) -> bool:
    """Return whether a line, a character for each of its bytes, is malformed."""
    if len(line) >= _LONGEST_LINE or line == _NULL:
        return True
    if not line.isascii():
        try:
            line = line.encode("latin-1").decode("utf-8")
        except UnicodeDecodeError:
            return True
    line = line.partition(_SEPARATOR)[0]
    if dialect.quote in line:
        return _split(line, dialect, width) is None
    return line.count(dialect.delimiter) + 1 != width


def _split(line: str, dialect: CsvDialect, width: int | None) -> list[str] | None:
    """Return the fields of one line, or None where it is malformed."""
    try:
        rows = list(
            csv.reader(
                [line],
                delimiter=dialect.delimiter,
                quotechar=dialect.quote,
                doublequote=True,
                strict=True,
                skipinitialspace=dialect.trim,
            )
        )
    except csv.Error:
        return None
    if len(rows) != 1 or (width is not None and len(rows[0]) != width):
        return None
    fields = [field.strip(" \t") for field in rows[0]] if dialect.trim else rows[0]
    return ["" if field in dialect.missing_texts else field for field in fields]


def _cleaned(frame: pd.DataFrame, dialect: CsvDialect) -> pd.DataFrame:
    if dialect.trim:
        frame = frame.apply(lambda column: column.str.strip(" \t"))
    if dialect.missing_texts:
        frame = frame.mask(frame.isin(list(dialect.missing_texts)), "")
    return frame


# --- Parquet ---------------------------------------------------------------------------------------------


def _parquet_kinds(connection: duckdb.DuckDBPyConnection, file: Path) -> dict[str, str]:
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", {"path": str(file)})
    return {str(row[0]): str(row[1]) for row in described.fetchall()}


def _parquet_parts(
    connection: duckdb.DuckDBPyConnection, file: Path, domain: Domain
) -> Iterator[pd.DataFrame]:
    kinds = _parquet_kinds(connection, file)
    _require_columns(file, list(kinds), domain)
    fields = []
    for attribute in domain:
        column = '"' + attribute.name.replace('"', '""') + '"'
        if isinstance(attribute, CategoricalAttribute) and kinds[attribute.name] != "BOOLEAN":
            column = f"CAST({column} AS VARCHAR) AS {column}"
        fields.append(column)
    connection.execute(
        f"SELECT {', '.join(fields)} FROM read_parquet($path)",  # noqa: S608 - names quoted above
        {"path": str(file)},
    )
    yield from _chunks(connection)
