"""Files: CSV and Parquet, read by DuckDB into cell numbers.

A CSV record is one line. Each line is read by itself: one that is malformed (wrong number of fields, an
open quote, bytes that are not UTF-8) is dropped and changes no other record, which a reader that lets a
quoted field run over several lines cannot promise. Whether reading succeeds, and what is said when it
fails, depends on the file's presence, its header and the dialect, never on a record.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmw.data.memory import MemorySource
from pmw.errors import DataError
from queries.domain import CategoricalAttribute, Domain
from queries.records import CodedRecords, encode_records, encode_texts

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = [
    "CsvDialect",
    "read_file",
]

_LONGEST_LINE = 2**20  # bytes; a longer line is malformed
_CHUNK = 50  # vectors of 2,048 rows at a time
_PARQUET = (".parquet", ".pq")

# Every line as one field: the separator and the text for NULL are sequences that no text holds.
_LINES = """
    SELECT rtrim(line, chr(13)) AS line FROM read_csv(
        $path, auto_detect = false, header = true, delim = '\x1c\x1d\x1e\x1f', quote = '',
        escape = '', comment = '', columns = {'line': 'VARCHAR'}, ignore_errors = true,
        strict_mode = false, null_padding = false, nullstr = '\x1f\x1e\x1d\x1c',
        max_line_size = 1048576, new_line = '\\n')
"""


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
    file = Path(path)
    if not file.is_file():
        raise DataError(f"expected a readable file, got {file}: no such file")
    if any(character in str(file) for character in "*?["):
        raise DataError(f"expected a file name without *, ? and [, got {file}")
    import duckdb  # late: only needed where files are read

    try:
        with duckdb.connect(":memory:") as connection:
            if file.suffix.lower() in _PARQUET:
                parts = _parquet_parts(connection, file, domain)
            else:
                parts = _csv_parts(connection, file, domain, dialect or CsvDialect())
            return MemorySource(_joined(list(parts), domain))
    except duckdb.Error:
        # The engine's own text may quote a record.
        raise DataError(f"{file}: the file could not be read as {_kind(file)}") from None


def _kind(file: Path) -> str:
    return "Parquet" if file.suffix.lower() in _PARQUET else "CSV"


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
) -> Iterator[CodedRecords]:
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
        frame = chunk.set_axis(list(domain.names), axis="columns")
        yield encode_records(_cleaned(frame, dialect), domain)
    connection.execute(f"SELECT line FROM ({_LINES}) WHERE contains(line, $quote)", bound)  # noqa: S608
    for chunk in _chunks(connection):
        rows = (_split(line, dialect, len(header)) for line in chunk["line"])
        yield encode_texts(([row[place] for place in places] for row in rows if row is not None), domain)


def _chunks(connection: duckdb.DuckDBPyConnection) -> Iterator[pd.DataFrame]:
    while len(chunk := connection.fetch_df_chunk(_CHUNK)):
        yield chunk


def _header(file: Path, dialect: CsvDialect) -> list[str]:
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opener(file, "rb") as stream:
            raw = stream.readline(_LONGEST_LINE)
        line = raw.decode("utf-8-sig").rstrip("\r\n")
    except (OSError, EOFError) as error:
        raise DataError(f"{file}: the file could not be read: {error.__class__.__name__}") from None
    except UnicodeDecodeError:
        raise DataError(f"{file}: expected UTF-8 text in the first line, got other bytes") from None
    fields = _split(line, dialect, None)
    if not fields or line == "":
        raise DataError(f"{file}: expected column names in the first line, got none")
    return fields


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


def _parquet_parts(
    connection: duckdb.DuckDBPyConnection, file: Path, domain: Domain
) -> Iterator[CodedRecords]:
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", {"path": str(file)})
    kinds = {str(row[0]): str(row[1]) for row in described.fetchall()}
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
    for chunk in _chunks(connection):
        yield encode_records(chunk, domain)
