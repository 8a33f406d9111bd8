"""Files beside a schema: lists of values, and the parents of values.

A file of values holds one value a line. A file of parents is CSV: its first line names the levels, its first
column holds the values, and each further column the parent of that value in one level.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

_LARGEST_FILE = 64 * 2**20  # bytes


def read_values(path: Path) -> tuple[str, ...]:
    """Return the values of a file, in its order.

    Raises:
        ValueError: the file cannot be read, a line is empty, or a value stands there twice.
    """
    lines = _text(path).split("\n")
    if lines[-1] == "":
        del lines[-1]
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        value = line.removesuffix("\r")
        if value == "":
            raise ValueError(f"{path}, line {number}: expected a value, got an empty line")
        if value in found:
            raise ValueError(
                f"{path}, line {number}: {value[:60]!r} stands there twice, first in line {found[value]}"
            )
        found[value] = number
    if not found:
        raise ValueError(f"{path}: expected one value a line, got none")
    return tuple(found)


def read_parents(path: Path) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the values of a file, in its order, and for each level the parents of the values.

    Raises:
        ValueError: the file cannot be read, a line has too few fields or too many, a parent is missing, or a
            value stands there twice.
    """
    rows = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        header = next(rows, [])
        if len(header) < 2:
            raise ValueError(
                f"{path}: expected a first line such as code,chapter, got {','.join(header)[:60]!r}"
            )
        found: dict[str, list[str]] = {}
        for row in rows:
            place = f"{path}, line {rows.line_num}"
            if len(row) != len(header):
                raise ValueError(f"{place}: expected {len(header)} fields, got {len(row)}")
            if row[0] in found:
                also = "with another parent" if found[row[0]] != row[1:] else "again"
                raise ValueError(
                    f"{place}: {row[0][:60]!r} stands there {also}; a value has one parent in a level"
                )
            if "" in row:
                missing = (
                    "value"
                    if row[0] == ""
                    else f"parent of {row[0][:60]!r} in level {header[row.index('')]!r}"
                )
                raise ValueError(f"{place}: the {missing} is missing")
            found[row[0]] = row[1:]
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num}: expected CSV: {error}") from None
    if not found:
        raise ValueError(f"{path}: expected a line for each value, got none")
    columns = zip(*found.values(), strict=True)
    return tuple(found), dict(zip(header[1:], columns, strict=True))


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"expected a readable file, got {path}: {reason}") from None
    if len(raw) > _LARGEST_FILE:
        raise ValueError(f"{path}: expected at most {_LARGEST_FILE // 2**20} MB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: expected UTF-8 text") from None
