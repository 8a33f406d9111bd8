"""DuckDB databases: a table or view, reached by a connection that can write nothing.

What is done with a column depends on its type, never on a value (``pmw.data.engine_columns``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.data.arrow_arrays import StreamError
from pmw.data.engine_columns import column_kinds, is_readable, read_columns, silence
from pmw.data.engine_source import SqlTable, SqlWords
from pmw.errors import DataError
from queries.domain import Domain
from queries.records import Columns

if TYPE_CHECKING:
    import duckdb

# Nothing is downloaded, whatever a view may name; the database's own start-up settings are not read.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def _text_is(column: str, text: str) -> str:
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
        text_is=_text_is,
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
        connection = duckdb.connect(str(self._file), read_only=True, config=_SETTINGS)
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
