"""Postgres: a table or view, read in one query of a read-only transaction that sees one snapshot.

What is done with a column depends on its type, never on a value. Whole numbers, floating-point numbers and
booleans come as such, all else as the text that the database writes, which it can for each value of the types
that are read. The driver reads no dates: it fails at those that Python has none for. Other types are refused.

Source: the documentation of PostgreSQL, chapters 8 (types) and 13.2 (isolation); psycopg 3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pmw.data.engine_source import SIZE, Rows, SqlTable, SqlWords
from pmw.display.texts import installed_by
from pmw.errors import DataError
from queries.cells import in_quotes
from queries.domain import Domain
from queries.records import Columns, FrameColumn

if TYPE_CHECKING:
    import psycopg

_ROWS = 2**16  # fetched at a time
_WHOLE = ("smallint", "integer", "bigint")
_FLOATING = ("real", "double precision")
_TEXTUAL = (
    "text", "character varying", "character", "name", "uuid", "date", "timestamp without time zone",
    "timestamp with time zone", "time without time zone",
)  # fmt: skip
_ENCODINGS = ("UTF8", "LATIN1")  # whose texts all have UTF-8; of others the server fails at some
# What a text says depends on these.
_SETTINGS = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
    "SET client_encoding = 'UTF8'",
)


def _text_is(column: str, text: str) -> str:
    return f"({column}::text COLLATE \"C\") = '{text.replace(chr(39), chr(39) * 2)}'"


class PostgresTable(SqlTable):
    """A table, or a view, of Postgres."""

    words = SqlWords(
        whole=_WHOLE,
        floating=_FLOATING,
        textual=("text", "character varying", "character", "name", "enum"),
        divide="/",
        text_is=_text_is,
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
        for setting in _SETTINGS:
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


def _columns(rows: Rows, names: Sequence[str], kinds: Mapping[str, str]) -> Columns:
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
