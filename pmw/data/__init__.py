"""True data: the count source and its implementations."""

from __future__ import annotations

from pmw.data.files import TableFile
from pmw.data.memory import MemorySource
from pmw.data.scratch import MemoryLimit
from pmw.data.source import CountSource
from pmw.data.tables import (
    DatabaseTable,
    Place,
    Table,
    as_place,
    as_source,
    place_of,
    require_table,
)
from pmw.disk import CsvDialect

__all__ = [
    "as_place",
    "as_source",
    "CountSource",
    "CsvDialect",
    "DatabaseTable",
    "MemoryLimit",
    "MemorySource",
    "Place",
    "place_of",
    "require_table",
    "Table",
    "TableFile",
]
