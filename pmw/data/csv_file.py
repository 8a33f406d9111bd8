"""CSV files: one line is one record, read by itself.

A line ends at a line feed, with or without a carriage return before it, wherever that stands: a reader that
lets a quoted field run over several lines would let one record, with one stray quote, swallow its neighbours.
So a person who can put line feeds into a field can make several records of it; such tables belong in Parquet.
A carriage return elsewhere ends nothing.

A line that cannot be read (wrong number of fields, an open quote, a carriage return outside quotes, bytes
that are no text in the file's encoding, a megabyte or more) is malformed, and changes no other record. An
empty line is no exception: it is one empty field, hence a record of a file with one column and malformed in
others. What follows the last line feed is a line unless it is empty.

The standard library splits lines, since engines that read files in blocks drop lines that they cannot read
without a count, and decide on some of them by their neighbours.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pmw.data.memory import TablePart
from pmw.disk import CsvDialect
from pmw.display.texts import counted
from pmw.errors import DataError
from queries.records import TextColumn

# Texts that often mark an empty value, in lower case; they do so where the dialect names them.
MARKERS = frozenset(("?", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "-", "--", ".", "*"))
_LONGEST_LINE = 2**20  # bytes; a line of as many, or more, is malformed
_BLOCK = 2**22  # bytes read at a time
_SWAPPED = str.maketrans(",.", ".,")
_ENCODING = "name the file's encoding, as --encoding cp1252 does"
_QUOTES = "a quote that is not closed, or stands inside a field; give --quote '' where none is special"
_RETURNS = "its lines end with carriage returns alone: write it with line feeds"
_LINES = 2**12  # split at a time, so that the garbage collector goes through few of them
_OTHERS = (  # what the first line of a file that is no CSV file begins with, what it is, and a way on
    (rb"PK\x03\x04.{26}(\[Content_Types|xl/)", "an Excel workbook; save the sheet as CSV UTF-8"),
    (rb"\xd0\xcf\x11\xe0", "an old Excel workbook; save the sheet as CSV UTF-8"),
    (rb"PK\x03\x04", "a zip archive; name a file that was in it"),
    (rb"\x1f\x8b", "a file compressed by gzip; give it a name that ends in .gz"),
    (rb"(ARROW1|FEA1)\x00", "an Arrow file; read it with pyarrow, and write Parquet"),
    (rb"PAR1[^ -~]", "a Parquet file; give it a name that ends in .parquet"),
    (rb"SQLite format 3\x00", "an SQLite database; write its table as CSV"),
    (rb".{8}DUCK", "a DuckDB database; name it as duckdb:FILE, with --table"),
    (rb"<stata_dta>|[\x6e-\x73][\x01\x02]\x01\x00", "a Stata file; write it as CSV or Parquet"),
    (rb"\$FL[23]@\(#\)", "an SPSS file; write it as CSV or Parquet"),
    (rb"\s*(\{\s*(\"|$)|\[\s*([{\[\"]|$))", "JSON; write its records as CSV or Parquet"),
    (rb"\xff\xfe|\xfe\xff|([^\x00]\x00){2}|(\x00[^\x00]){2}", "UTF-16 text; save it as UTF-8"),
    (rb"sep=(.)\r?\n", "Excel's line of the delimiter; delete it, and give --delimiter '{}'"),
)


def csv_header(file: Path, dialect: CsvDialect) -> list[str]:
    """Return the names in the first line."""
    try:
        with bytes_of(file) as stream:
            first = stream.readline(_LONGEST_LINE)
        _require_csv(file, first.removeprefix(codecs.BOM_UTF8))
        encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
        line = first.decode(encoding).removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise DataError(
            f"{file}: expected {dialect.encoding.upper()} text in the first line, got other bytes; "
            f"{_ENCODING}"
        ) from None
    fields = _split(line, dialect)
    if not fields or line == "":
        told = f"none; {_RETURNS}" if "\r" in line else "none"
        raise DataError(f"{file}: expected column names in the first line, got {told}")
    return [field.strip(" \t") for field in fields] if dialect.trim else fields


def _require_csv(file: Path, first: bytes) -> None:
    """Refuse a file that begins as another kind does, or whose first line is too long; no record tells."""
    for begins, told in _OTHERS:
        if found := re.match(begins, first, re.DOTALL | re.IGNORECASE):
            told_of = told.format(found[found.lastindex or 0].decode("latin-1"))
            raise DataError(f"{file}: expected column names in the first line, got {told_of}")
    if len(first) == _LONGEST_LINE and not first.endswith(b"\n"):
        way = f"; {_RETURNS}" if b"\r" in first else ""
        raise DataError(f"{file}: expected a first line shorter than a megabyte, got a longer one{way}")


def csv_parts(
    file: Path, names: Sequence[str], dialect: CsvDialect, numbers: Collection[str] = ()
) -> Iterator[TablePart]:
    """Yield the records of a file part by part, the named columns only.

    Privacy: true records; they stay in this room.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_LINE))  # our own limit decides alone
    header = csv_header(file, dialect)
    places = [header.index(name) for name in names]
    swapped = [dialect.decimal == "," and name in numbers for name in names]
    number = 2  # of the next line
    for lines in _blocks(file):
        columns: list[list[str]] = [[] for _ in places]
        malformed: dict[int, str] = {}
        for start in range(0, len(lines), _LINES):
            rows, unread = _rows(lines[start : start + _LINES], dialect, len(header))
            for column, place, swap in zip(columns, places, swapped, strict=True):
                texts = _cleaned([row[place] for row in rows], dialect)
                column.extend(map(swapped_decimal, texts) if swap else texts)
            malformed.update((number + start + line, why) for line, why in unread.items())
        yield TablePart(dict(zip(names, map(TextColumn, columns), strict=True)), malformed)
        number += len(lines)


def swapped_decimal(text: str) -> str:
    """Return a text with commas for points and points for commas: 1,5 is a number then, and 1.5 is none."""
    return text.translate(_SWAPPED)


def _rows(lines: list[bytes], dialect: CsvDialect, width: int) -> tuple[list[list[str]], dict[int, str]]:
    """Return the fields of the lines that can be read, and by their places why others cannot."""
    rows, malformed = list[list[str]](), dict[int, str]()
    delimiter = dialect.delimiter
    quote, escape = dialect.quote or "\n", dialect.escape or "\n"  # no line holds a line feed
    for place, line in enumerate(_texts(lines, dialect.encoding)):
        row: list[str] | None = None
        if line is not None and (quote in line or escape in line):
            row = _split(line, dialect)
        elif line is not None and "\r" not in line:
            row = line.split(delimiter)
        if row is not None and len(row) == width:
            rows.append(row)
        else:
            malformed[place] = _fault(lines[place], line, row, dialect, width)
    return rows, malformed


def _fault(raw: bytes, line: str | None, row: list[str] | None, dialect: CsvDialect, width: int) -> str:
    if row is not None:
        ends = ", a delimiter at its end" if len(row) > width and not row[-1] else ""
        return f"{counted(len(row), 'field')}{ends}, where the first line has {width}"
    if line is None:
        is_long = len(raw) >= _LONGEST_LINE
        return "a megabyte or more" if is_long else f"no {dialect.encoding.upper()} text; {_ENCODING}"
    quotes = (dialect.quote, dialect.escape)
    return _QUOTES if any(one and one in line for one in quotes) else "a carriage return in a line"


def _texts(lines: list[bytes], encoding: str) -> list[str | None]:
    """Return each line as text without its carriage return; None where it is too long or no text."""
    if all(len(line) < _LONGEST_LINE for line in lines):
        try:
            text = b"\n".join(lines).decode(encoding)
            return [line.removesuffix("\r") for line in text.split("\n")]
        except UnicodeDecodeError:
            pass
    return [_text(line, encoding) for line in lines]


def _text(line: bytes, encoding: str) -> str | None:
    line = line.removesuffix(b"\r")
    if len(line) >= _LONGEST_LINE:
        return None
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        return None


def _split(line: str, dialect: CsvDialect) -> list[str] | None:
    """Return the fields of one line that may hold quotes or escapes, or None where it cannot be read."""
    try:
        rows = list(csv.reader([line], **dialect.format, strict=True, skipinitialspace=dialect.trim))
    except csv.Error:
        return None
    # The library takes a carriage return at the end for the line's end, and an empty line for no row.
    return rows[0] if len(rows) == 1 and not line.endswith("\r") else None


def _cleaned(column: list[str], dialect: CsvDialect) -> list[str]:
    if dialect.trim:
        column = [text.strip(" \t") for text in column]
    if dialect.missing_texts:
        empty = frozenset(dialect.missing_texts)
        column = ["" if text in empty else text for text in column]
    return column


def _blocks(file: Path) -> Iterator[list[bytes]]:
    """Yield the lines after the first without their line feeds, some at a time."""
    with bytes_of(file) as stream:
        rest, first = b"", True
        while block := stream.read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[: _LONGEST_LINE + 1]
            if first and lines:
                del lines[0]
                first = False
            if lines:
                yield lines
        if rest and not first:
            yield [rest]


@contextmanager
def bytes_of(file: Path) -> Iterator[BinaryIO]:
    """Open a file for reading its bytes; of a compressed one (.gz) those inside."""
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    try:
        with opener(file, "rb") as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as error:  # the last two: a damaged compressed file
        damaged = isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
        reason = "its compression is damaged" if damaged else type(error).__name__
        raise DataError(f"{file}: the file could not be read: {reason}") from None
