"""Tables as a custodian hands them over: in memory, or as a file with its dialect."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from pmw.data.csv_file import CsvDialect
from pmw.data.files import read_file
from pmw.data.memory import MemorySource
from pmw.errors import DataError
from queries.domain import Domain

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "as_source",
    "as_table_file",
    "Table",
    "TableFile",
]


@dataclass(frozen=True, slots=True)
class TableFile:
    """A CSV or Parquet file.

    Args:
        path: where it is.
        dialect: how a CSV file is written.
    """

    path: Path
    dialect: CsvDialect = field(default_factory=CsvDialect)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path."""
        return {"path": str(Path(self.path).absolute()), "dialect": asdict(self.dialect)}

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> TableFile:
        """Return the file of a form."""
        dialect = form["dialect"]
        texts = tuple(dialect["missing_texts"])
        return cls(Path(form["path"]), CsvDialect(**{**dialect, "missing_texts": texts}))


Table: TypeAlias = Union["pd.DataFrame", TableFile, Path, str, MemorySource]


def as_table_file(table: Table) -> TableFile | None:
    """Return the file that a table comes from, or None for a table in memory."""
    if isinstance(table, TableFile):
        return table
    if isinstance(table, str | Path):
        return TableFile(Path(table))
    return None


def as_source(table: Table, domain: Domain) -> MemorySource:
    """Return the count source of a table.

    Raises:
        DataError: the table is of no known kind, cannot be read, lacks a declared column, or was read for
            another domain.
    """
    if isinstance(table, MemorySource):
        if table.domain != domain:
            raise DataError(
                f"expected a table that was read with the declared domain {domain.name!r}, "
                "got one of another domain; read it again with this one"
            )
        return table
    file = as_table_file(table)
    if file is not None:
        return read_file(file.path, domain, file.dialect)
    if not hasattr(table, "columns"):
        raise DataError(f"expected a pandas table or a file name, got {type(table).__name__}")
    return MemorySource.from_frame(table, domain)  # type: ignore[arg-type]  # narrowed by its columns
