"""DuckDB databases: a table or view, read in one query by a connection that can write nothing.

What is done with a column depends on its type, never on a value (``pmw.data.engine_columns``).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.data.engine_columns import is_readable, quoted_column, read_frames, require_ids
from pmw.data.engine_source import DUCKDB, SqlWords
from pmw.errors import DataError
from queries.domain import Domain

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

# Nothing is downloaded, whatever a view may name; the database's own start-up settings are not read.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def duckdb_kinds(file: Path, table: Sequence[str]) -> dict[str, str]:
    """Return the type of each column of a table by its name, in the engine's words.

    Raises:
        DataError: the file or the table is absent or unreadable.
    """
    with _connected(file) as connection:
        return _kinds(connection, file, table)


def duckdb_parts(file: Path, table: Sequence[str], domain: Domain) -> Iterator[pd.DataFrame]:
    """Yield the records of a table part by part, declared columns only, all of one snapshot.

    Raises:
        DataError: the table is absent or unreadable, lacks a declared column, or one is of a type that is
            refused.

    Privacy: true records; they stay in this room.
    """
    with _connected(file) as connection:
        kinds = _kinds(connection, file, table)
        for name in domain.columns:
            what = f"{'.'.join(table)} in {file}"
            if name not in kinds:
                raise DataError(f"{what}: expected a column {name!r}, got no such column")
            if not is_readable(kinds[name]):
                raise DataError(
                    f"{what}: expected plain values in column {name!r}, got a column of type "
                    f"{kinds[name].partition('(')[0]}; make a view that gives text or numbers"
                )
        require_ids(f"{'.'.join(table)} in {file}", domain, kinds)
        yield from read_frames(connection, domain, kinds, _quoted(table), again=True)


class DuckdbSnapshot:
    """One snapshot of a table, held open until nothing needs it.

    Args:
        file: the database.
        names: of the table.

    Raises:
        DataError: the file or the table is absent or unreadable.
    """

    words: SqlWords = DUCKDB

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        self._file = file
        with _told(file):
            self._connection = _connect(file)
        weakref.finalize(self, self._connection.close)
        self.table = _quoted(names)
        try:
            with _told(file):
                self._connection.execute("BEGIN TRANSACTION")
                self.kinds = _kinds(self._connection, file, names)
        except DataError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement.

        Raises:
            DataError: the engine fails.
        """
        try:
            with _told(self._file):
                found: list[tuple[Any, ...]] = self._connection.execute(statement).fetchall()
                return found
        except DataError as error:
            refusal = DataError(str(error))
        self.close()  # what was of one snapshot is not any more
        # Raised here, it does not keep the engine's own error, which may quote a record.
        try:
            raise refusal
        finally:
            del refusal  # nor does it keep this frame until the collector comes


def _kinds(connection: duckdb.DuckDBPyConnection, file: Path, table: Sequence[str]) -> dict[str, str]:
    import duckdb

    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {_quoted(table)}")  # noqa: S608 - quoted
        return {str(row[0]): str(row[1]) for row in described.fetchall()}
    except duckdb.CatalogException:
        absent = DataError(f"expected a table or view {'.'.join(table)!r} in {file}, got none")
    raise absent


def _quoted(table: Sequence[str]) -> str:
    return ".".join(map(quoted_column, table))


def _connect(file: Path) -> duckdb.DuckDBPyConnection:
    import duckdb  # late: only needed where tables are read

    if not file.is_file():
        raise DataError(f"expected a DuckDB database, got {file}: no such file")
    connection = duckdb.connect(str(file), read_only=True, config=_SETTINGS)
    connection.execute("SET enable_progress_bar = false")  # it is written to the output
    return connection


@contextmanager
def _connected(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with _told(file), _connect(file) as connection:
        connection.execute("SET TimeZone = 'UTC'")  # else texts would depend on the machine
        yield connection


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Turn the engine's errors into one that shows nothing of a record."""
    import duckdb

    try:
        yield
        return
    except (duckdb.IOException, duckdb.ConnectionException):
        told = "could not be opened as a DuckDB database; another process may be writing to it"
    except (duckdb.Error, UnicodeDecodeError):
        told = "its table could not be read"
    # The engine's own text may quote a record.
    raise DataError(f"{file}: {told}")
