"""Tables as a custodian hands them over: in memory, as a file with its dialect, or as a table of a database.

A table of a database is read where it is, once, in one read-only query of the declared columns, or counted
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union
from urllib.parse import parse_qsl, urlsplit

from pmw.data.arrow_stream import ArrowTable, arrow_parts, has_arrow_stream
from pmw.data.csv_file import CsvDialect, TablePart
from pmw.data.duckdb_file import DuckdbSnapshot, duckdb_kinds, duckdb_parts
from pmw.data.engine_source import EngineSource, cell_expressions
from pmw.data.files import column_names, is_parquet, parquet_types, read_file, table_files, table_parts
from pmw.data.intake import Intake
from pmw.data.memory import MemorySource
from pmw.data.postgres import PostgresSnapshot, postgres_kinds, postgres_parts
from pmw.data.scratch import MemoryLimit, is_path_name, require_limit
from pmw.data.source import CountSource
from pmw.data.spark import (
    SparkSource,
    is_spark_address,
    is_spark_frame,
    require_master,
    spark_kinds,
    spark_table,
)
from pmw.errors import DataError
from queries.domain import Domain
from queries.errors import RecordsError
from queries.plain_values import type_name
from queries.records import require_frame

if TYPE_CHECKING:
    import pandas as pd

_ADDRESS = re.compile(r"duckdb:|postgres(ql)?://|spark:", re.IGNORECASE)
# What an address may say behind ``?``: nothing that is secret, and nothing that changes how values are read.
_PARAMETERS = frozenset(
    [
        "host",
        "hostaddr",
        "port",
        "user",
        "dbname",
        "service",
        "passfile",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "sslcrl",
        "channel_binding",
        "gssencmode",
        "require_auth",
        "target_session_attrs",
    ]
)


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table, or a view, of a database.

    A view must keep the promise of the session: each of its rows depends on the rows of one person, and on
    tables that are public, alone, and none of its expressions can fail on a value.

    Args:
        address: ``duckdb:FILE``, or ``postgresql://user@host:port/database`` without a password: the driver
            takes that from PGPASSWORD or from a file of passwords, and a session never sees it; or
            ``spark://HOST:PORT`` of a cluster, or ``spark:local[2]``.
        table: its name, or ``schema.name``; of Spark also ``parquet.PATH``, an absolute path that
            the cluster can read.
        memory: how much memory its records may take; None for the usual. Those that stay in the database
            take none.
        inside: records are counted in the database, DuckDB or Postgres, and never read. Spark always counts.

    Raises:
        DataError: the address is of no known kind, the name or limit is none, or a limit is given for records
            that stay in the database.
    """

    address: str
    table: str
    memory: MemoryLimit | None = None
    inside: bool = False

    def __post_init__(self) -> None:
        for name in ("address", "table"):
            value = getattr(self, name)
            if type(value) is not str:
                raise DataError(f"expected a text for {name}, got a {type_name(value)}")
            if not value or not value.isprintable():
                raise DataError(f"expected a printable text for {name}, got another")
        if not is_address(self.address):
            raise DataError(
                "expected an address such as duckdb:people.duckdb, postgresql://user@host/database or "
                "spark://host:7077, got another"
            )
        require_limit(self.memory)
        self._require_choices()
        if self.is_spark:
            require_master(self.address)
        elif not self._is_duckdb:
            _require_no_secret(self.address)
        if not all(self._names):
            raise DataError(f"expected the name of a table, or schema.name, got {self.table!r}")

    def __str__(self) -> str:
        return f"{self.table} in {self.address}"

    def _require_choices(self) -> None:
        if type(self.inside) is not bool:
            raise DataError(f"expected True or False for inside, got a {type_name(self.inside)}")
        if self.inside and self.is_spark:
            raise DataError("Spark always counts its tables inside; leave --inside out")
        if self.memory is not None and not self.is_read:
            what = "a table of Spark" if self.is_spark else "a table that is counted inside"
            raise DataError(
                f"expected no memory limit for {what}, whose records stay there; leave --memory and "
                "--temporary-folder out"
            )

    @property
    def _names(self) -> list[str]:
        return self.table.split(".")

    @property
    def _is_duckdb(self) -> bool:
        return self.address.lower().startswith("duckdb:")

    @property
    def is_spark(self) -> bool:
        """Its records are counted where they are, by Spark."""
        return is_spark_address(self.address)

    @property
    def is_read(self) -> bool:
        """Its records are read into the memory of this machine, or a file."""
        return not self.inside and not self.is_spark

    @property
    def _file(self) -> Path:
        return Path(self.address.partition(":")[2])

    @property
    def files(self) -> list[Path]:
        """The files that it is read from, as far as they are known."""
        return [self._file] if self._is_duckdb else []

    def kinds(self) -> dict[str, str]:
        """Return the type of each column by its name, in the words of the database.

        Raises:
            DataError: the table is absent or unreadable.
        """
        if self._is_duckdb:
            return duckdb_kinds(self._file, self._names)
        if self.is_spark:
            return spark_kinds(spark_table(self.address, self.table))
        return postgres_kinds(self.address, self._names)

    def frames(self, domain: Domain) -> Iterator[pd.DataFrame]:
        """Yield the records part by part, declared columns only.

        Raises:
            DataError: the table is absent or unreadable, lacks a declared column, one is of a type that is
                refused, or it is of Spark.

        Privacy: true records; they stay in this room.
        """
        if self._is_duckdb:
            return duckdb_parts(self._file, self._names, domain)
        if self.is_spark:
            raise DataError(f"{self}: records of Spark stay there; name a Parquet file of some of them")
        return postgres_parts(self.address, self._names, domain)

    def snapshot(self) -> DuckdbSnapshot | PostgresSnapshot:
        """Return a snapshot of the table that DuckDB or Postgres counts.

        Raises:
            DataError: the table is absent or unreadable.
        """
        if self._is_duckdb:
            return DuckdbSnapshot(self._file, self._names)
        return PostgresSnapshot(self.address, self._names)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path of a file."""
        address = f"duckdb:{self._file.absolute()}" if self._is_duckdb else self.address
        form = {"database": address, "table": self.table}
        inside = {"inside": True} if self.inside else {}
        return {**form, **inside} if self.memory is None else {**form, "memory": self.memory.to_dict()}

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> DatabaseTable:
        """Return the table of a form."""
        memory = MemoryLimit.from_dict(form["memory"]) if "memory" in form else None
        return cls(form["database"], form["table"], memory, form.get("inside", False))


def is_address(text: str) -> bool:
    """Return whether a text is the address of a database, and no name of a file."""
    return _ADDRESS.match(text) is not None


def _require_no_secret(address: str) -> None:
    """Refuse an address that says more than where the database is; the message shows nothing of it."""
    try:
        parts = urlsplit(address)
        named, secret = parse_qsl(parts.query, keep_blank_values=True), parts.password is not None
    except ValueError:
        raise DataError("expected an address such as postgresql://user@host/database, got another") from None
    if secret or any("password" in key.lower() for key, _ in named):
        raise DataError(
            "expected an address without a password; give it by PGPASSWORD, or in a file of passwords that "
            "PGPASSFILE names"
        )
    if parts.fragment or not all(key in _PARAMETERS for key, _ in named):
        raise DataError(f"expected no other parameters in an address than {', '.join(sorted(_PARAMETERS))}")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A CSV or Parquet file, or several Parquet files that are one table.

    Args:
        path: where it is; of Parquet files also their folder, or a pattern such as ``data/*.parquet``.
        dialect: how a CSV file is written.
        memory: how much memory its records may take; None for the usual.

    Raises:
        DataError: the path is no file name, the dialect or limit is none, or a Parquet file is given the
            dialect of a CSV file.
    """

    path: Path
    dialect: CsvDialect = field(default_factory=CsvDialect)
    memory: MemoryLimit | None = None

    def __post_init__(self) -> None:
        _require_file_name(self.path)
        require_limit(self.memory)
        if not issubclass(type(self.dialect), CsvDialect):
            raise DataError(f"expected a CsvDialect, got a {type_name(self.dialect)}")
        if self.is_parquet:
            for name, usual in asdict(CsvDialect()).items():
                if getattr(self.dialect, name) != usual:
                    raise DataError(f"{name} is for CSV files; leave it out, for {self.path} is Parquet")

    def __str__(self) -> str:
        return str(self.path)

    @property
    def files(self) -> list[Path]:
        """The files that it is read from, as far as they are there."""
        return table_files(self.path)

    @property
    def is_parquet(self) -> bool:
        """Its name says that it is a Parquet file."""
        return is_parquet(self.path)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path."""
        form = {"path": str(Path(self.path).absolute()), "dialect": asdict(self.dialect)}
        return form if self.memory is None else {**form, "memory": self.memory.to_dict()}

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> TableFile:
        """Return the file of a form."""
        dialect = form["dialect"]
        texts = tuple(dialect["missing_texts"])
        memory = MemoryLimit.from_dict(form["memory"]) if "memory" in form else None
        return cls(Path(form["path"]), CsvDialect(**{**dialect, "missing_texts": texts}), memory)


Place: TypeAlias = TableFile | DatabaseTable  # of a table that is not in memory
Table: TypeAlias = Union["pd.DataFrame", ArrowTable, Place, Path, str, CountSource]


def names_in(place: Place) -> list[str]:
    """Return the names of a table's columns, in its order.

    Raises:
        DataError: the table is absent or unreadable.
    """
    return (
        list(place.kinds()) if isinstance(place, DatabaseTable) else column_names(place.path, place.dialect)
    )


def types_in(place: Place) -> dict[str, str]:
    """Return the type of each column by its name, in the words of what holds it; none for a CSV file.

    Raises:
        DataError: the table is absent or unreadable.
    """
    return place.kinds() if isinstance(place, DatabaseTable) else parquet_types(place.path)


def parts_in(place: Place, domain: Domain) -> Iterator[TablePart]:
    """Yield the records of a table part by part, declared columns only.

    Raises:
        DataError: the table is absent or unreadable, or lacks a declared column.

    Privacy: true records; they stay in this room.
    """
    if isinstance(place, DatabaseTable):
        return (TablePart(frame) for frame in place.frames(domain))
    return table_parts(place.path, domain, place.dialect)


def place_of(form: dict[str, Any]) -> Place:
    """Return the place of a form that it gave."""
    return DatabaseTable.from_dict(form) if "database" in form else TableFile.from_dict(form)


def require_table(table: Table | None) -> None:
    """Refuse what is of no kind of table, by its type alone; nothing is read, and None is none to refuse.

    Raises:
        DataError: it is of none; the message names its type and shows nothing of it.
    """
    kind = type(table)  # not what the thing says of itself
    if issubclass(kind, TableFile | DatabaseTable | None):
        return
    if any(base is CountSource for base in type.mro(kind)):  # an abstract class would ask the type itself
        return
    if issubclass(kind, str | Path):
        _require_file_name(table)
        return
    if has_arrow_stream(table) or _is_frame(table):
        return
    raise DataError(
        "expected a pandas table, one with an Arrow stream, or the name of a CSV or Parquet file, got a "
        f"{type_name(table)}; turn it into a pandas table, as table.to_pandas() and pandas.DataFrame(table) "
        "do, or write it to a file"
    )


def as_place(table: Table) -> Place | None:
    """Return where a table is read from, or None for a table in memory.

    Raises:
        DataError: it is of no kind of table.
    """
    require_table(table)
    if isinstance(table, TableFile | DatabaseTable):
        return table
    if isinstance(table, str | Path):
        return TableFile(Path(table))
    return None


def as_source(table: Table, domain: Domain, key: bytes | None) -> CountSource:
    """Return the count source of a table.

    Args:
        table: in memory, or where it is.
        domain: the declared attributes, and persons.
        key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
            declared.

    Raises:
        DataError: the table is of no known kind, cannot be read, lacks a declared column, or was read for
            another domain.
    """
    place = as_place(table)
    if place is not None:
        return _from_place(place, domain, key)
    if isinstance(table, CountSource):
        return _require_same(table, domain, key)
    if _is_frame(table):
        return MemorySource.from_frame(table, domain, key)  # type: ignore[arg-type]  # by its type
    if is_spark_frame(table):
        return SparkSource.of(table, domain, key, f"the table of type {type_name(table)}")
    return _from_parts(arrow_parts(table, domain), domain, key)


def _from_place(place: Place, domain: Domain, key: bytes | None) -> CountSource:
    if isinstance(place, TableFile):
        return read_file(place.path, domain, place.dialect, key, place.memory)
    if place.is_spark:
        return SparkSource.of(spark_table(place.address, place.table), domain, key, str(place))
    if place.inside:
        return _counted_inside(place, domain)
    return _from_parts(place.frames(domain), domain, key, place.memory)


def _counted_inside(place: DatabaseTable, domain: Domain) -> EngineSource:
    try:
        snapshot = place.snapshot()
        try:
            cells = cell_expressions(domain, snapshot.kinds, snapshot.words, str(place))
        except DataError:
            snapshot.close()
            raise
        return EngineSource(snapshot, cells, domain)
    except DataError as error:
        refusal = DataError(str(error))
    # Raised here, it does not keep the error that it came from: an engine's own text may quote a record.
    try:
        raise refusal
    finally:
        del refusal  # nor does it keep a snapshot open until the collector comes


def _require_same(source: CountSource, domain: Domain, key: bytes | None) -> CountSource:
    if not source.is_bounded(domain.person, key):
        raise DataError(
            "expected a table whose people are bounded as the session bounds them, got one that was read "
            "otherwise; give the pandas table, or name the file"
        )
    if source.domain != domain:
        raise DataError(
            f"expected a table that was read with the declared domain {domain.name!r}, "
            "got one of another domain; read it again with this one"
        )
    return source


def _is_frame(table: object) -> bool:
    try:
        require_frame(table)
    except RecordsError:
        return False
    return True


def _from_parts(
    parts: Iterable[pd.DataFrame], domain: Domain, key: bytes | None, limit: MemoryLimit | None = None
) -> MemorySource:
    intake = Intake(domain, key, limit)
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
    if not is_path_name(str(path)):
        raise DataError(
            "expected the name of a CSV or Parquet file, got a text that is too long for one, or holds line "
            "breaks or other control characters; write the table to a file, and give its name"
        )
