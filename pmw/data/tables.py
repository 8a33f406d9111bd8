"""Tables as a custodian hands them over: in memory, as a file with its dialect, or as a table of a database.

A table of a database is read where it is, once, in one read-only query of the declared columns, or counted
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union
from urllib.parse import parse_qsl, urlsplit

from pmw.data.arrow_stream import ArrowTable, arrow_parts, has_arrow_stream
from pmw.data.engine_source import EngineSource
from pmw.data.files import TableFile, require_file_name
from pmw.data.memory import MemorySource, TablePart, declared_kind, frame_parts
from pmw.data.scratch import MemoryLimit, require_limit
from pmw.data.source import CountSource
from pmw.data.spark import (
    SparkSource,
    is_spark_address,
    is_spark_frame,
    require_master,
    spark_kinds,
    spark_table,
)
from pmw.data.sql_tables import DuckdbTable, PostgresTable, SqlTable
from pmw.errors import DataError
from queries.domain import Domain
from queries.errors import RecordsError
from queries.frozen import dataclass
from queries.plain_values import type_name
from queries.records import named_column, require_frame

if TYPE_CHECKING:
    import pandas as pd

_ADDRESS = re.compile(r"duckdb:|postgres(ql)?://|spark:", re.IGNORECASE)
# What an address may say behind ``?``: nothing that is secret, and nothing that changes how values are read.
_PARAMETERS = frozenset((
    "host", "hostaddr", "port", "user", "dbname", "service", "passfile", "sslmode", "sslrootcert",
    "sslcert", "sslkey", "sslcrl", "channel_binding", "gssencmode", "require_auth",
    "target_session_attrs",
))  # fmt: skip


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

    @property
    def _sql(self) -> SqlTable:
        """The table of DuckDB or Postgres."""
        return (
            DuckdbTable(self._file, self._names)
            if self._is_duckdb
            else PostgresTable(self.address, self._names)
        )

    def names(self) -> list[str]:
        """Return the names of its columns, in its order.

        Raises:
            DataError: the table is absent or unreadable.
        """
        return list(self.kinds())

    def kinds(self) -> dict[str, str]:
        """Return the type of each column by its name, in the words of the database.

        Raises:
            DataError: the table is absent or unreadable.
        """
        return spark_kinds(spark_table(self.address, self.table)) if self.is_spark else self._sql.kinds()

    def parts(self, domain: Domain) -> Iterator[TablePart]:
        """Yield the records part by part, declared columns only.

        Raises:
            DataError: the table is absent or unreadable, lacks a declared column, one is of a type that is
                refused, or it is of Spark.

        Privacy: true records; they stay in this room.
        """
        if self.is_spark:
            raise DataError(f"{self}: records of Spark stay there; name a Parquet file of some of them")
        return map(TablePart, self._sql.columns(domain))

    def source(self, domain: Domain, key: bytes | None) -> CountSource:
        """Return its count source, of records that are read or that stay in the database.

        Raises:
            DataError: the table is absent or unreadable, lacks a declared column, or one is of a type that is
                refused; or records that are read exceed the limit, and the disk is full, or fails.
        """
        if self.is_spark:
            return SparkSource.of(spark_table(self.address, self.table), domain, key, str(self))
        if self.inside:
            return EngineSource.of(self._sql, domain)
        return MemorySource.from_parts(self.parts(domain), domain, key, self.memory)

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


Place: TypeAlias = TableFile | DatabaseTable  # of a table that is not in memory
Table: TypeAlias = Union["pd.DataFrame", ArrowTable, Place, Path, str, CountSource]


def place_of(form: dict[str, Any]) -> Place:
    """Return the place of a form that it gave."""
    return DatabaseTable.from_dict(form) if "database" in form else TableFile.from_dict(form)


def require_table(table: Table | None) -> None:
    """Refuse what is of no kind of table, by its type alone; nothing is read, and None is none to refuse."""
    kind = type(table)  # not what the thing says of itself
    if issubclass(kind, TableFile | DatabaseTable | None):
        return
    if any(base is CountSource for base in type.mro(kind)):  # an abstract class would ask the type itself
        return
    if issubclass(kind, str | Path):
        require_file_name(table)
        return
    if has_arrow_stream(table) or _is_frame(table):
        return
    raise DataError(
        "expected a pandas table, one with an Arrow stream, or the name of a CSV or Parquet file, got a "
        f"{type_name(table)}; turn it into a pandas table, as table.to_pandas() and pandas.DataFrame(table) "
        "do, or write it to a file"
    )


def as_place(table: Table) -> Place | None:
    """Return where a table is read from, or None for a table in memory."""
    require_table(table)
    if isinstance(table, TableFile | DatabaseTable):
        return table
    if isinstance(table, str | Path):
        return TableFile(Path(table))
    return None


def as_source(table: Table, domain: Domain, key: bytes | None) -> CountSource:
    """Return the count source of a table.

    Args:
        key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
            declared.
    """
    place = as_place(table)
    if place is not None:
        return place.source(domain, key)
    if isinstance(table, CountSource):
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
    if is_spark_frame(table):
        return SparkSource.of(table, domain, key, f"the table of type {type_name(table)}")
    return MemorySource.from_parts(table_parts(table, domain), domain, key)


def table_parts(table: Table, domain: Domain) -> Iterator[TablePart]:
    """Return the records of a table part by part, declared columns only.

    Privacy: true records; they stay in this room.
    """
    place = as_place(table)
    if place is not None:
        return place.parts(domain)
    if _is_frame(table):
        return frame_parts([table], domain)  # type: ignore[list-item]  # by its type
    if has_arrow_stream(table):
        return map(TablePart, arrow_parts(table, domain))
    raise DataError(f"expected a table whose records are read here, got a {type_name(table)}")


def column_kind(table: Table, name: str) -> str | None:
    """Return the type of a column in the words of what holds the table; None where it has none, as in CSV."""
    place = as_place(table)
    if place is not None:
        return place.kinds().get(name)
    return declared_kind(named_column(table, name).dtype) if _is_frame(table) else None  # type: ignore[arg-type]


def _is_frame(table: object) -> bool:
    try:
        require_frame(table)
    except RecordsError:
        return False
    return True
