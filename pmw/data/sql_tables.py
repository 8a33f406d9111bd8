"""Tables of a database that speaks SQL: how one is reached, what its columns are, and its records.

DuckDB and Postgres differ in how they are reached, how types are called and how records come. A table is read
in one query of a read-only transaction, which sees one snapshot. What is done with a column depends on its
type, never on a value (``pmw.data.engine_columns`` for DuckDB). Of Postgres, whole numbers, floating-point
numbers and booleans come as such, all else as the text that the database writes, which it can for each value
of the types that are read. The driver reads no dates: it fails at those that Python has none for. Other types
are refused.

Source: the documentation of PostgreSQL, chapters 8 (types) and 13.2 (isolation); psycopg 3.
"""

from __future__ import annotations

import abc
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pmw.data.arrow_arrays import StreamError
from pmw.data.engine_columns import column_kinds, is_readable, read_columns, require_ids, silence
from pmw.data.refusals import MAKE_A_VIEW, column_refusal, require_one_column
from pmw.display.texts import installed_by
from pmw.errors import DataError
from queries.cells import in_quotes
from queries.domain import Domain
from queries.frozen import dataclass
from queries.records import Columns, FrameColumn

if TYPE_CHECKING:
    import duckdb
    import psycopg

SIZE = re.compile(r"\([0-9,-]+\)")  # behind the name of a type


@dataclass(frozen=True, slots=True)
class SqlWords:
    """How an engine writes what cells are made of.

    Args:
        whole: types of whole numbers of at most 64 bits.
        text_is: the condition that a column's text is a given one, byte by byte.
    """

    whole: tuple[str, ...]
    floating: tuple[str, ...]
    textual: tuple[str, ...]
    divide: str
    text_is: Callable[[str, str], str]


class SqlTable(abc.ABC):
    """A table, or a view, of a database."""

    words: ClassVar[SqlWords]

    def __init__(self, place: str, names: Sequence[str]) -> None:
        self.place, self.name = place, ".".join(names)
        self.quoted = ".".join(map(in_quotes, names))

    def __str__(self) -> str:
        return f"{self.name} in {self.place}"

    def kinds(self) -> dict[str, str]:
        """Return the type of each column by its name, in the words of the database."""
        with self.translated(), self.connect() as connection:
            return self.kinds_by(connection)

    def columns(self, domain: Domain) -> Iterator[Columns]:
        """Yield the records part by part, declared columns only, all of one snapshot.

        Privacy: true records; they stay in this room.
        """
        with self.translated(), self.connect() as connection:
            kinds = self.kinds_by(connection)
            for name in domain.columns:
                require_one_column(str(self), name, list(kinds))
                refused = self.refused(kinds[name])
                if refused is not None:
                    raise column_refusal(str(self), name, f"a column of type {refused}", MAKE_A_VIEW)
            require_ids(str(self), domain, kinds)
            yield from self.columns_by(connection, domain, kinds)

    @abc.abstractmethod
    def translated(self) -> AbstractContextManager[None]:
        """Turn errors of the database into one that shows nothing of a record."""

    @abc.abstractmethod
    def connect(self) -> Any:
        """Return a connection that writes nothing, sees one snapshot, and reads values as on any machine."""

    @abc.abstractmethod
    def kinds_by(self, connection: Any) -> dict[str, str]:
        """Return the type of each column by its name."""

    @abc.abstractmethod
    def columns_by(self, connection: Any, domain: Domain, kinds: Mapping[str, str]) -> Iterator[Columns]:
        """Yield the records of a table whose columns were found readable."""

    @abc.abstractmethod
    def refused(self, kind: str) -> str | None:
        """Return how a type is called whose values reading may fail at; None for one that is read."""

    def _absent(self) -> DataError:
        return DataError(f"expected a table or view {self.name!r} in {self.place}, got none")


# --- DuckDB ------------------------------------------------------------------------------------------------

# Nothing is downloaded, whatever a view may name; the database's own start-up settings are not read.
_DUCKDB_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def _duckdb_text_is(column: str, text: str) -> str:
    # Of bytes: a column may be declared to compare its texts without regard to case.
    written = "".join(f"\\x{byte:02X}" for byte in text.encode())
    return f"encode({column}::VARCHAR) = '{written}'::BLOB"


class DuckdbTable(SqlTable):
    """A table, or a view, of a DuckDB database."""

    words = SqlWords(
        whole=("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
        floating=("FLOAT", "DOUBLE"),
        textual=("VARCHAR", "ENUM"),
        divide="//",
        text_is=_duckdb_text_is,
    )

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        super().__init__(str(file), names)
        self._file = file

    @contextmanager
    def translated(self) -> Iterator[None]:
        import duckdb

        try:
            yield
            return
        except (duckdb.IOException, duckdb.ConnectionException):
            told = "could not be opened as a DuckDB database; another process may be writing to it"
        except (duckdb.Error, StreamError, UnicodeDecodeError):
            told = "its table could not be read"
        # The engine's own text may quote a record.
        raise DataError(f"{self._file}: {told}")

    def connect(self) -> duckdb.DuckDBPyConnection:
        import duckdb  # late: only needed where tables are read

        if not self._file.is_file():
            raise DataError(f"expected a DuckDB database, got {self._file}: no such file")
        connection = duckdb.connect(str(self._file), read_only=True, config=_DUCKDB_SETTINGS)
        silence(connection)
        connection.execute("BEGIN TRANSACTION")  # all that follows is of one snapshot
        return connection

    def kinds_by(self, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
        import duckdb

        try:
            return column_kinds(connection, self.quoted)
        except duckdb.CatalogException:
            absent = self._absent()
        raise absent

    def columns_by(
        self, connection: duckdb.DuckDBPyConnection, domain: Domain, kinds: Mapping[str, str]
    ) -> Iterator[Columns]:
        return read_columns(connection, domain, kinds, self.quoted, again=True)

    def refused(self, kind: str) -> str | None:
        return None if is_readable(kind) else kind.partition("(")[0]


# --- Postgres ----------------------------------------------------------------------------------------------

_ROWS = 2**16  # fetched at a time
_WHOLE = ("smallint", "integer", "bigint")
_FLOATING = ("real", "double precision")
_TEXTUAL = (
    "text", "character varying", "character", "name", "uuid", "date", "timestamp without time zone",
    "timestamp with time zone", "time without time zone",
)  # fmt: skip
_ENCODINGS = ("UTF8", "LATIN1")  # whose texts all have UTF-8; of others the server fails at some
# What a text says depends on these.
_POSTGRES_SETTINGS = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
    "SET client_encoding = 'UTF8'",
)


def _postgres_text_is(column: str, text: str) -> str:
    return f"({column}::text COLLATE \"C\") = '{text.replace(chr(39), chr(39) * 2)}'"


class PostgresTable(SqlTable):
    """A table, or a view, of Postgres."""

    words = SqlWords(
        whole=_WHOLE,
        floating=_FLOATING,
        textual=("text", "character varying", "character", "name", "enum"),
        divide="/",
        text_is=_postgres_text_is,
    )

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            import psycopg  # late, and an extra
        except ImportError:
            raise DataError(f"Postgres needs a driver: {installed_by('sources')}") from None
        try:
            yield
            return
        except (psycopg.Error, UnicodeDecodeError) as error:
            told = _told(getattr(error, "sqlstate", None), isinstance(error, psycopg.OperationalError))
        # The driver's own text may quote a record, or what it was connected with.
        raise DataError(f"{self.place}: {told}")

    def connect(self) -> psycopg.Connection:
        """Return a connection that can write nothing; its next statement begins a transaction that stays."""
        import psycopg

        connection = psycopg.connect(self.place, connect_timeout=_patience(), application_name="pmw")
        for setting in _POSTGRES_SETTINGS:
            connection.execute(setting)
        connection.commit()
        return connection

    def kinds_by(self, connection: psycopg.Connection) -> dict[str, str]:
        found = connection.execute("SELECT to_regclass(%s)::oid", [self.quoted]).fetchone()
        if found is None or found[0] is None:
            raise self._absent()
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in _ENCODINGS:
            raise DataError(
                f"expected a database whose encoding is UTF8 or LATIN1, got {encoding}: {self.place}; copy "
                "the table to one"
            )
        rows = connection.execute(
            "SELECT a.attname, CASE t.typtype WHEN 'e' THEN 'enum'"
            " ELSE format_type(a.atttypid, a.atttypmod) END"
            " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
            " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            [found[0]],
        ).fetchall()
        return {str(name): str(kind) for name, kind in rows}

    def columns_by(
        self, connection: psycopg.Connection, domain: Domain, kinds: Mapping[str, str]
    ) -> Iterator[Columns]:
        """Yield the records of the table, as a cursor of the server gives them."""
        chosen = ", ".join(_column(name, kinds[name]) for name in domain.columns)
        cursor = connection.cursor(name="records")
        try:
            with cursor:
                cursor.itersize = _ROWS
                cursor.execute(f"SELECT {chosen} FROM {self.quoted}")  # noqa: S608 - quoted
                while rows := cursor.fetchmany(_ROWS):
                    yield _columns(rows, domain.columns, kinds)
        finally:
            cursor.close()  # once more: the first time fails where the connection breaks just then

    def refused(self, kind: str) -> str | None:
        plain = ("boolean", "enum", "numeric", *_WHOLE, *_FLOATING, *_TEXTUAL)
        return None if SIZE.sub("", kind) in plain else kind


def _column(name: str, kind: str) -> str:
    column = in_quotes(name)
    if kind in _FLOATING:
        return f"{column}::double precision"  # exact, as texts of single precision are not
    if kind in ("boolean", *_WHOLE):
        return column
    if kind.startswith("numeric"):  # NaN is empty, as it is in a pandas table
        return f"CASE WHEN {column} = 'NaN'::numeric THEN NULL ELSE {column}::text END"
    return f"{column}::text"


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str], kinds: Mapping[str, str]) -> Columns:
    import pandas as pd  # late: only where tables are read

    columns = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        kind: Any = object
        if kinds[name] in _WHOLE:
            kind = "Int64" if None in values else np.int64
        elif kinds[name] in _FLOATING:
            kind = np.float64
        columns[name] = FrameColumn(pd.Series(list(values), dtype=kind))
    return columns


def _patience() -> int:
    given = os.environ.get("PGCONNECT_TIMEOUT", "")
    return int(given) if given.isdigit() else 10


def _told(state: str | None, lost: bool) -> str:
    """Return what an error of the database is to the custodian: its class, and nothing of its text."""
    if state == "42501":
        return "the database refuses to read the table with these credentials"
    if state is not None and state.startswith("28"):
        return "the database refuses these credentials; give the password by PGPASSWORD or in a file"
    if lost:
        return "the database could not be reached, or the connection was lost, or refused for its credentials"
    return "the table could not be read"
