"""Postgres: a table or view, read in one query of a read-only transaction that sees one snapshot.

What is done with a column depends on its type, never on a value. Whole numbers, floating-point numbers and
booleans come as such, all else as the text that the database writes, which it can for each value of the types
that are read. The driver reads no dates: it fails at those that Python has none for. Other types are refused.

Source: the documentation of PostgreSQL, chapters 8 (types) and 13.2 (isolation); psycopg 3.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pmw.data.engine_columns import quoted_column, require_ids
from pmw.data.engine_source import POSTGRES, SqlWords
from pmw.display.texts import installed_by
from pmw.errors import DataError
from queries.domain import Domain

if TYPE_CHECKING:
    import pandas as pd
    import psycopg

_ROWS = 2**16  # fetched at a time
_WHOLE = ("smallint", "integer", "bigint")
_FLOATING = ("real", "double precision")
_TEXTUAL = (
    "text", "character varying", "character", "name", "uuid", "date", "timestamp without time zone",
    "timestamp with time zone",
)  # fmt: skip
_SIZE = re.compile(r"\([0-9,-]+\)")
_ENCODINGS = ("UTF8", "LATIN1")  # whose texts all have UTF-8; of others the server fails at some
# What a text says depends on these.
_SETTINGS = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
)


def postgres_kinds(address: str, table: Sequence[str]) -> dict[str, str]:
    """Return the type of each column of a table by its name, in the words of the database.

    Raises:
        DataError: the database or the table is absent or unreadable.
    """
    with _connected(address) as connection:
        return _kinds(connection, address, table)


def postgres_parts(address: str, table: Sequence[str], domain: Domain) -> Iterator[pd.DataFrame]:
    """Yield the records of a table part by part, declared columns only, all of one snapshot.

    Raises:
        DataError: the table is absent or unreadable, lacks a declared column, or one is of a type that is
            refused.

    Privacy: true records; they stay in this room.
    """
    what = f"{'.'.join(table)} in {address}"
    with _connected(address) as connection:
        kinds = _kinds(connection, address, table)
        for name in domain.columns:
            if name not in kinds:
                raise DataError(f"{what}: expected a column {name!r}, got no such column")
            if not _is_readable(kinds[name]):
                raise DataError(
                    f"{what}: expected plain values in column {name!r}, got a column of type {kinds[name]}; "
                    "make a view that gives text or numbers"
                )
        require_ids(what, domain, kinds)
        chosen = ", ".join(_column(name, kinds[name]) for name in domain.columns)
        cursor = connection.cursor(name="records")
        try:
            with cursor:
                cursor.itersize = _ROWS
                cursor.execute(f"SELECT {chosen} FROM {_quoted(table)}")  # noqa: S608 - quoted
                while rows := cursor.fetchmany(_ROWS):
                    yield _frame(rows, domain.columns, kinds)
        finally:
            cursor.close()  # once more: the first time fails where the connection breaks just then


class PostgresSnapshot:
    """One snapshot of a table, in one transaction that is held open until nothing needs it.

    Args:
        address: of the database.
        names: of the table.

    Raises:
        DataError: the database or the table is absent or unreadable.
    """

    words: SqlWords = POSTGRES

    def __init__(self, address: str, names: Sequence[str]) -> None:
        self._address = address
        with _translated(address):
            self._connection = _connect(address)
        weakref.finalize(self, self._connection.close)
        self.table = _quoted(names)
        try:
            with _translated(address):
                self.kinds = _kinds(self._connection, address, names)
        except DataError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement.

        Raises:
            DataError: the database fails, or was restarted.
        """
        try:
            with _translated(self._address):
                return self._connection.execute(statement.encode()).fetchall()
        except DataError as error:
            refusal = DataError(str(error))
        self.close()  # what was of one snapshot is not any more
        # Raised here, it does not keep the driver's own error, which may quote a record.
        try:
            raise refusal
        finally:
            del refusal  # nor does it keep this frame until the collector comes


def _is_readable(kind: str) -> bool:
    return _SIZE.sub("", kind) in ("boolean", "enum", "numeric", *_WHOLE, *_FLOATING, *_TEXTUAL)


def _column(name: str, kind: str) -> str:
    column = quoted_column(name)
    if kind in _FLOATING:
        return f"{column}::double precision"  # exact, as texts of single precision are not
    if kind in ("boolean", *_WHOLE):
        return column
    if kind.startswith("numeric"):  # NaN is empty, as it is in a pandas table
        return f"CASE WHEN {column} = 'NaN'::numeric THEN NULL ELSE {column}::text END"
    return f"{column}::text"


def _frame(rows: list[tuple[Any, ...]], names: Sequence[str], kinds: dict[str, str]) -> pd.DataFrame:
    import pandas as pd  # late: only where tables are read

    columns = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        kind: Any = object
        if kinds[name] in _WHOLE:
            kind = "Int64" if None in values else np.int64
        elif kinds[name] in _FLOATING:
            kind = np.float64
        columns[name] = pd.Series(list(values), dtype=kind)
    return pd.DataFrame(columns, copy=False)


def _quoted(table: Sequence[str]) -> str:
    return ".".join(map(quoted_column, table))


def _kinds(connection: psycopg.Connection, address: str, table: Sequence[str]) -> dict[str, str]:
    found = connection.execute("SELECT to_regclass(%s)::oid", [_quoted(table)]).fetchone()
    if found is None or found[0] is None:
        raise DataError(f"expected a table or view {'.'.join(table)!r} in {address}, got none")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in _ENCODINGS:
        raise DataError(
            f"expected a database whose encoding is UTF8 or LATIN1, got {encoding}: {address}; copy the "
            "table to one"
        )
    rows = connection.execute(
        "SELECT a.attname, CASE t.typtype WHEN 'e' THEN 'enum' ELSE format_type(a.atttypid, a.atttypmod) END"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        [found[0]],
    ).fetchall()
    return {str(name): str(kind) for name, kind in rows}


def _connect(address: str) -> psycopg.Connection:
    import psycopg

    connection = psycopg.connect(address, connect_timeout=_patience(), application_name="pmw")
    for setting in _SETTINGS:
        connection.execute(setting)
    connection.execute("SET client_encoding = 'UTF8'")
    connection.commit()
    return connection


@contextmanager
def _connected(address: str) -> Iterator[psycopg.Connection]:
    with _translated(address), _connect(address) as connection:
        yield connection


@contextmanager
def _translated(address: str) -> Iterator[None]:
    """Turn the driver's errors into one that shows nothing of a record, and no password."""
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
    raise DataError(f"{address}: {told}")


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
