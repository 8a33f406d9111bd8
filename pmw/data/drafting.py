"""Drafts: a schema to fill in, from a table's column names and storage types alone.

A domain that is read off the table would publish what the table holds, such as its oldest person. So a draft
reads no value: every domain is a TODO, and a schema that still has one is refused. Domains may be filled from
another table that the custodian declares to be public.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pmw.data.public_domains import PublicTable, is_number, public_attributes
from pmw.data.tables import Place, TableFile, names_in, types_in
from pmw.errors import DataError
from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.errors import DomainError
from queries.schema import format_schema

_WHOLE_TYPES = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_NUMBER_TYPES = re.compile(r"FLOAT|DOUBLE|DECIMAL.*")
_POINT_ZERO = re.compile(r"(?<=[0-9])\.0(?=[,\]])")
_NOTES = {
    "atoms": "each in more than 5 % of the rows of the public table",
    "width": "or another of hour (of times), day, week, month, quarter, year",
}

_NO_VALUE = """\
# A draft of a schema, from the names and the storage types of a table's columns; no value of it was read.
"""
_COMPARED = """\
# A draft of a schema, from the names and the storage types of a table's columns; no value of it stands here.
# Its bytes were compared with those of {name}, and differ.
"""
_IS_PUBLIC = """\
# A draft of a schema, from the names and the storage types of a table's columns.
# The custodian declares that table public.
"""
_DECLARED = """\
#
# Domains without a TODO were read off {name}, which the custodian declares public.
# They show its texts, its least and largest whole numbers, its first and last dates, numbers that many of
# its rows share, and round numbers near its quantiles; nothing protects these. By drafted_from, digests
# of its path and of its bytes, `pmw open` refuses that very table; no session and no export repeats them.
# If that table is not public after all, delete this file: whoever guesses all of the table could check
# the guess.
"""
_HEAD = """\
# Fill in each TODO from what is known in public, such as the questionnaire or the code book, never from the
# table itself. Delete the attributes that nobody will ask about: columns that are not named are never read.
#
#   kind = "integer"        whole numbers: min = 0, max = 99; those outside are set to the nearer end
#   kind = "numeric"        numbers in cells: edges = [0, 10000, 25000, 50000]
#   kind = "categorical"    values = ["north", "south"]
#   kind = "date"           min = 2020-01-01, max = 2025-12-31, width = "month"; "datetime" has a zone besides
#   missing = true          one more cell, for empty values; without it their record is dropped
#   other = true            one more cell, for undeclared values; without it their record is dropped
"""
_INTEGER = """\
kind = "integer"
min = "TODO"    # such as 0
max = "TODO"    # such as 99
"""
_NUMERIC = """\
kind = "numeric"
edges = "TODO"    # such as [0, 10000, 25000, 50000]
"""
_CATEGORICAL = """\
kind = "categorical"
values = "TODO"    # such as ["north", "south"]
"""
_BOOLEAN = """\
kind = "categorical"
values = [false, true]
"""
_DATE = """\
kind = "date"
min = "TODO"    # such as 2020-01-01
max = "TODO"    # such as 2025-12-31
width = "day"   # or week, month, quarter, year
"""
_DATETIME = """\
kind = "datetime"
min = "TODO"    # such as 2020-01-01T00:00:00
max = "TODO"    # such as 2025-12-31T23:59:59
width = "day"   # or hour, week, month, quarter, year
zone = "UTC"    # whose clock the cells are of, such as "Europe/Berlin"
"""
_UNKNOWN = """\
kind = "TODO"    # such as: kind = "integer", then min = 0 and max = 99
"""


def draft_schema(table: Place, public: PublicTable | None = None) -> str:
    """Return a schema to fill in: one attribute per column, its domain a TODO.

    Args:
        table: where it is; of a CSV file the first line is read, of others the names and types.
        public: a table that the custodian declares to be public; its values fill the domains of the columns
            that both have. The draft names it, and holds what tells it again.

    Returns:
        TOML text, the same for all tables of the same columns and types.

    Raises:
        DataError: a table is absent or unreadable, or a column's name stands in it twice.

    Privacy: no value of ``table`` is read. Of ``public`` every value is, outside the guarantee.
    """
    names, kinds = names_in(table), types_in(table)
    for place, name in enumerate(names, start=1):
        if names.index(name) != place - 1:  # not quoted: without a header it is a value
            first = names.index(name) + 1
            raise DataError(f"{table}: columns {first} and {place} have the same name; rename one")
    filled = {} if public is None else dict(public_attributes(public.file, names))
    parts = [_head(table, public), 'name = "records"\n' + _drafted_from(public)]
    for place, name in enumerate(names, start=1):
        try:
            CategoricalAttribute(name, ("a",))
        except DomainError:
            parts.append(f"# Column {place} is left out: it has no name that can be declared.\n")
            continue
        if is_number(name):  # the first line may be a record
            parts.append(f"# Column {place} is left out: its name is a number. Is there a header?\n")
            continue
        parts.append(_section(name, kinds.get(name), filled.get(name)))
    return "\n".join(parts)


def _head(table: Place, public: PublicTable | None) -> str:
    """Return what a draft says of itself: what was read, and whose values stand in it."""
    if public is None:
        return _NO_VALUE + _HEAD
    name = json.dumps(Path(public.file.path).name)
    compared = _COMPARED if isinstance(table, TableFile) else _NO_VALUE
    read = _IS_PUBLIC if public.is_the_table else compared.format(name=name)
    return read + _HEAD + _DECLARED.format(name=name)


def _drafted_from(public: PublicTable | None) -> str:
    if public is None:
        return ""
    marks = "".join(f"    {json.dumps(mark)},\n" for mark in public.marks)
    return f"drafted_from = [\n{marks}]\n"


def _section(name: str, kind: str | None, filled: Attribute | None) -> str:
    """Return the section of one attribute."""
    if filled is not None:
        text = format_schema(Domain((filled,)))
        return "".join(map(_shown, text[text.index("[[attributes]]") :].splitlines(keepends=True)))
    head, _, _ = format_schema(Domain((CategoricalAttribute(name, ("a",)),))).partition("kind =")
    stored = "" if kind is None else f"# stored as {kind}\n"
    return head[head.index("[[attributes]]") :] + stored + _body(kind)


def _shown(line: str) -> str:
    """Return a line of a filled section with whole numbers as such, and what there is to know of it."""
    key, _, value = line.partition(" = ")
    if key in ("edges", "atoms"):
        value = _POINT_ZERO.sub("", value)
    note = _NOTES.get(key)
    if not value:
        return line
    return f"{key} = {value}" if note is None else f"{key} = {value.rstrip()}    # {note}\n"


def _body(kind: str | None) -> str:
    if kind is None:
        return _UNKNOWN
    if _WHOLE_TYPES.fullmatch(kind):
        return _INTEGER
    if _NUMBER_TYPES.fullmatch(kind):
        return _NUMERIC
    if kind.startswith("TIMESTAMP"):
        return _DATETIME
    return {"BOOLEAN": _BOOLEAN, "DATE": _DATE, "VARCHAR": _CATEGORICAL}.get(kind, _UNKNOWN)
