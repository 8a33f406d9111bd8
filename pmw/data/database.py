"""Tables of a database: read where they are, once, in one read-only query of the declared columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from pmw.data.duckdb_file import DuckdbSnapshot, duckdb_kinds, duckdb_parts
from pmw.data.memory_limit import MemoryLimit, require_limit
from pmw.data.postgres import PostgresSnapshot, postgres_kinds, postgres_parts
from pmw.data.spark_session import is_spark_address, require_master, spark_kinds, spark_table
from pmw.errors import DataError
from queries.domain import Domain
from queries.plain_values import type_name

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
