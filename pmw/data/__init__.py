"""True data: the count source and its implementations."""

from __future__ import annotations

from pmw.data.csv_dialect import CsvDialect
from pmw.data.files import read_file
from pmw.data.memory import MemorySource
from pmw.data.source import CountSource
from pmw.data.tables import Table, TableFile, as_source, as_table_file, require_table

__all__ = [
    "as_source",
    "as_table_file",
    "CountSource",
    "CsvDialect",
    "MemorySource",
    "read_file",
    "require_table",
    "Table",
    "TableFile",
]
