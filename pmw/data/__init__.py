"""True data: the count source and its implementations."""

from __future__ import annotations

from pmw.data.csv_dialect import CsvDialect
from pmw.data.database import DatabaseTable
from pmw.data.files import read_file
from pmw.data.memory import MemorySource
from pmw.data.memory_limit import MemoryLimit
from pmw.data.source import CountSource
from pmw.data.tables import Place, Source, Table, TableFile, as_place, as_source, place_of, require_table

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
    "read_file",
    "require_table",
    "Source",
    "Table",
    "TableFile",
]
