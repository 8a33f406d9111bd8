"""Tables as a custodian hands them over: in memory, or as a file with its dialect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from pmw.data.arrow_stream import ArrowTable, arrow_parts, has_arrow_stream
from pmw.data.csv_dialect import CsvDialect
from pmw.data.files import is_parquet, read_file
from pmw.data.intake import Intake
from pmw.data.memory import MemorySource
from pmw.errors import DataError
from queries.domain import Domain
from queries.errors import RecordsError
from queries.plain_values import type_name
from queries.records import require_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "as_source",
    "as_table_file",
    "require_table",
    "Table",
    "TableFile",
]

_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # characters


@dataclass(frozen=True, slots=True)
class TableFile:
    """A CSV or Parquet file, or several Parquet files that are one table.

    Args:
        path: where it is; of Parquet files also their folder, or a pattern such as ``data/*.parquet``.
        dialect: how a CSV file is written.

    Raises:
        DataError: the path is no file name, the dialect is none, or a Parquet file is given that of a CSV
            file.
    """

    path: Path
    dialect: CsvDialect = field(default_factory=CsvDialect)

    def __post_init__(self) -> None:
        _require_file_name(self.path)
        if not issubclass(type(self.dialect), CsvDialect):
            raise DataError(f"expected a CsvDialect, got a {type_name(self.dialect)}")
        if self.is_parquet:
            for name, usual in asdict(CsvDialect()).items():
                if getattr(self.dialect, name) != usual:
                    raise DataError(f"{name} is for CSV files; leave it out, for {self.path} is Parquet")

    @property
    def is_parquet(self) -> bool:
        """Its name says that it is a Parquet file."""
        return is_parquet(self.path)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path."""
        return {"path": str(Path(self.path).absolute()), "dialect": asdict(self.dialect)}

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> TableFile:
        """Return the file of a form."""
        dialect = form["dialect"]
        texts = tuple(dialect["missing_texts"])
        return cls(Path(form["path"]), CsvDialect(**{**dialect, "missing_texts": texts}))


Table: TypeAlias = Union["pd.DataFrame", ArrowTable, TableFile, Path, str, MemorySource]


def require_table(table: Table | None) -> None:
    """Refuse what is of no kind of table, by its type alone; nothing is read, and None is none to refuse.

    Raises:
        DataError: it is of none; the message names its type and shows nothing of it.
    """
    kind = type(table)  # not what the thing says of itself
    if issubclass(kind, MemorySource | TableFile | None):
        return
    if issubclass(kind, str | Path):
        _require_file_name(table)
        return
    if has_arrow_stream(kind) or _is_frame(table):
        return
    raise DataError(
        "expected a pandas table, one with an Arrow stream, or the name of a CSV or Parquet file, got a "
        f"{type_name(table)}; turn it into a pandas table, as table.to_pandas() and pandas.DataFrame(table) "
        "do, or write it to a file"
    )


def as_table_file(table: Table) -> TableFile | None:
    """Return the file that a table comes from, or None for a table in memory.

    Raises:
        DataError: it is of no kind of table.
    """
    require_table(table)
    if isinstance(table, TableFile):
        return table
    if isinstance(table, str | Path):
        return TableFile(Path(table))
    return None


def as_source(table: Table, domain: Domain, key: bytes | None) -> MemorySource:
    """Return the count source of a table.

    Args:
        table: in memory, or a file.
        domain: the declared attributes, and persons.
        key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
            declared.

    Raises:
        DataError: the table is of no known kind, cannot be read, lacks a declared column, or was read for
            another domain.
    """
    file = as_table_file(table)
    if file is not None:
        return read_file(file.path, domain, file.dialect, key)
    if isinstance(table, MemorySource):
        if not table.is_bounded(domain.person, key):
            raise DataError(
                "expected a table whose people are bounded as the session bounds them, got one that was read "
                "otherwise; give the pandas table, or name the file"
            )
        if table.domain != domain:
            raise DataError(
                f"expected a table that was read with the declared domain {domain.name!r}, "
                "got one of another domain; read it again with this one"
            )
        return table
    if _is_frame(table):
        return MemorySource.from_frame(table, domain, key)  # type: ignore[arg-type]  # by its type
    return _from_parts(arrow_parts(table, domain), domain, key)


def _is_frame(table: object) -> bool:
    try:
        require_frame(table)
    except RecordsError:
        return False
    return True


def _from_parts(parts: Iterable[pd.DataFrame], domain: Domain, key: bytes | None) -> MemorySource:
    intake = Intake(domain, key)
    try:
        for part in parts:
            intake.add(part)
        return MemorySource(*intake.finish())
    except (RecordsError, DataError) as error:
        refusal = DataError(str(error))
    # Raised here, it does not keep the error that it came from: an engine's own text may quote a record.
    raise refusal


def _require_file_name(path: object) -> None:
    """Refuse a path that is none, and a table's text in place of its name.

    Raises:
        DataError: it is none; the message shows nothing of it.
    """
    if not issubclass(type(path), str | Path):
        raise DataError(f"expected the name of a CSV or Parquet file, got a {type_name(path)}")
    text = str(path)
    parts = text.replace("\\", "/").split("/")
    if len(text) > _LONGEST_PATH or max(map(len, parts)) > _LONGEST_NAME or min(text, default="x") < " ":
        raise DataError(
            "expected the name of a CSV or Parquet file, got a text that is too long for one, or holds line "
            "breaks or other control characters; write the table to a file, and give its name"
        )
