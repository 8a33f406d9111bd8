"""Drafts: a schema to fill in, from a table's column names and storage types alone.

A domain that is read off the table would publish what the table holds, such as its oldest person. So a draft
reads no value: every domain is a TODO, and a schema that still has one is refused. Domains may be filled from
another table that the custodian declares to be public.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pmw.data.files import column_names, table_parts
from pmw.data.tables import Place, TableFile, names_in, types_in
from pmw.errors import DataError
from queries.domain import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.errors import DomainError
from queries.plain_values import UNREADABLE, plain_value
from queries.schema import format_schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "draft_schema",
]

_WHOLE_TYPES = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_NUMBER_TYPES = re.compile(r"FLOAT|DOUBLE|DECIMAL.*")
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,14})")  # not 007: that is a code
_MOST_VALUES = 1_000  # of a category that a public table fills
_MOST_CELLS = 200  # of whole numbers, one cell each; above that, numeric cells
_NUMERIC_CELLS = 16

_HEAD = """\
# A draft of a schema, from the names and the storage types of a table's columns; no value of it was read.
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


def draft_schema(table: Place, public: TableFile | None = None) -> str:
    """Return a schema to fill in: one attribute per column, its domain a TODO.

    Args:
        table: where it is; of a CSV file the first line is read, of others the names and types.
        public: a table that the custodian declares to be public; its values fill the domains of the columns
            that both have. It is named in the draft.

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
    filled = {} if public is None else dict(_public_attributes(public, names))
    parts = [_HEAD if public is None else _HEAD + _declared(public), 'name = "records"\n']
    for place, name in enumerate(names, start=1):
        try:
            CategoricalAttribute(name, ("a",))
        except DomainError:
            parts.append(f"# Column {place} is left out: it has no name that can be declared.\n")
            continue
        if _number(name) is not None:  # the first line may be a record
            parts.append(f"# Column {place} is left out: its name is a number. Is there a header?\n")
            continue
        parts.append(_section(name, kinds.get(name), filled.get(name)))
    return "\n".join(parts)


def _declared(public: TableFile) -> str:
    name = json.dumps(Path(public.path).name)
    return (
        f"#\n# The custodian declares {name} public: domains without a TODO hold the values of that table.\n"
    )


def _section(name: str, kind: str | None, filled: Attribute | None) -> str:
    """Return the section of one attribute."""
    if filled is not None:
        text = format_schema(Domain((filled,)))
        return text[text.index("[[attributes]]") :]
    head, _, _ = format_schema(Domain((CategoricalAttribute(name, ("a",)),))).partition("kind =")
    stored = "" if kind is None else f"# stored as {kind}\n"
    return head[head.index("[[attributes]]") :] + stored + _body(kind)


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


def _public_attributes(public: TableFile, wanted: Sequence[str]) -> Iterator[tuple[str, Attribute]]:
    """Yield the attributes whose domains the values of a public table give."""
    columns = column_names(public.path, public.dialect)
    names = [name for name in wanted if columns.count(name) == 1]
    if not names:
        raise DataError(f"{public.path}: expected a column of the table, got none of that name")
    texts = Domain(tuple(CategoricalAttribute(name, ("a",)) for name in names))
    seen: dict[str, list[pd.Series[Any]]] = {name: [] for name in names}
    for part in table_parts(public.path, texts, public.dialect):
        for name in names:
            seen[name].append(part.frame[name].drop_duplicates())
    for name in names:
        values = {value for series in seen[name] for value in series.tolist()}
        attribute = _attribute_of(name, values)
        if attribute is not None:
            yield name, attribute


def _attribute_of(name: str, values: set[Any]) -> Attribute | None:
    """Return an attribute whose cells hold these values, or None where they are too many."""
    given = {plain_value(value) for value in values} - {"", None}
    missing = any(plain_value(value) in ("", None) for value in values)
    texts = {str(value) for value in given}
    if not given or UNREADABLE in given:
        return None
    if given <= {True, False} and all(isinstance(value, bool) for value in given):
        return CategoricalAttribute(name, (False, True), missing=missing)
    if all(_WHOLE.fullmatch(text) for text in texts):
        whole = [int(text) for text in texts]
        if max(whole) - min(whole) < _MOST_CELLS:
            return IntegerAttribute(name, min(whole), max(whole), missing=missing)
    numbers = [_number(text) for text in texts]
    if None not in numbers:
        return NumericAttribute(
            name, _edges([number for number in numbers if number is not None]), missing=missing
        )
    if len(texts) > _MOST_VALUES:
        return None
    return CategoricalAttribute(name, tuple(sorted(texts)), missing=missing)


def _number(text: str) -> float | None:
    if _WHOLE.fullmatch(text.partition(".")[0]) is None:  # 007 and nan are no numbers here
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _edges(numbers: list[float]) -> tuple[float, ...]:
    """Return edges of about 16 cells between the quantiles of distinct numbers."""
    quantiles = np.quantile(numbers, np.linspace(0, 1, _NUMERIC_CELLS + 1), method="nearest")
    edges = np.unique(quantiles).tolist()
    return tuple(edges) if len(edges) > 1 else (edges[0], edges[0] + 1)
