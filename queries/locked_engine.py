"""A locked DuckDB: it evaluates expressions that are written here over a table that is handed to it.

It has no files, no network, no extensions, none of Python's names, one thread and little memory, and its
settings cannot be changed. Whoever asks writes the text anew from a whitelist; what a user wrote comes here
as the values of parameters, and as names and constants of a text that was written anew. The table stands for
as long as one text runs; ``LockedTables`` are a database of their own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.errors import QueryError

if TYPE_CHECKING:
    import duckdb

Table: TypeAlias = Mapping[str, NDArray[Any]]

_TABLE = "r"
_OPTIMIZERS = ("common_subexpressions",)  # the others take longer than they save
MOST_SECONDS = 10.0  # of one text, then it is interrupted
_MOST_BYTES, _CELL, _PART = 2**25, 64, 512  # of a result; of a value at least; rows that come together
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1, "memory_limit": "256MB", "max_temp_directory_size": "0B", "enable_external_access": "false",
    "allow_community_extensions": "false", "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false", "python_enable_replacements": "false",
    "max_expression_depth": 1000, "pandas_analyze_sample": 0,
}  # fmt: skip


class _Refused(NamedTuple):
    """What is told of a text that cannot be run."""

    long: str
    range: str
    other: str


_OF_VALUES = _Refused(
    "this expression takes too long, or too much memory, over the declared values; compare fewer attributes "
    "with each other",
    "expected numbers within the range of their type in this expression; use smaller ones",
    "this expression cannot be evaluated over the declared values; write it in another way",
)
_OF_ROWS = _Refused(
    "this statement takes too long, or too much memory; ask for fewer rows, or join fewer tables",
    "expected values that the types in this statement can hold; write other types or values",
    "unknown columns or functions, or a form that is not supported; write them as the tables have them",
)


class _Connections(threading.local):
    """The connection of each thread; a process that was forked opens its own."""

    def __init__(self) -> None:
        self.process: int | None = None
        self.connection: duckdb.DuckDBPyConnection | None = None

    def own(self) -> duckdb.DuckDBPyConnection:
        if self.connection is None or self.process != os.getpid():
            opened = _library().connect(":memory:", config=_SETTINGS)
            names = [name for (name,) in opened.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
            left_out = ",".join(name for name in names if name not in _OPTIMIZERS)
            opened.execute(f"SET disabled_optimizers = '{left_out}'")
            opened.execute("SET lock_configuration = true")
            self.connection, self.process = opened, os.getpid()
        return self.connection

    def close(self) -> None:
        """Close the connection of this thread; the next text opens another."""
        if self.connection is not None and self.process == os.getpid():
            self.connection.close()
        self.connection = None


_CONNECTIONS = _Connections()


class LockedTables:
    """Tables that stay, in a locked DuckDB of their own. Threads may ask it at the same time.

    Args:
        script: statements that make them, written here.
        table: columns that the script reads from the table ``r``.
    """

    def __init__(self, script: str, table: Table) -> None:
        self._database = _library().connect(":memory:", config=_SETTINGS)
        self._database.register(_TABLE, dict(table))
        self._database.execute(script)
        self._database.unregister(_TABLE)
        self._database.execute("SET lock_configuration = true")

    def asked(self, text: str, *, seconds: float) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """Return the columns of a statement, each with its type, and its rows, in so many seconds."""
        with closing(self._database.cursor()) as cursor, _interrupted(cursor, seconds, _OF_ROWS):
            found = cursor.execute(text)
            columns = [(str(name), str(kind)) for name, kind, *_ in found.description]
            rows, size = list[tuple[Any, ...]](), 0
            while more := found.fetchmany(_PART):
                rows += more
                size += sum(_size_of(one) for row in more for one in row)
                if size > _MOST_BYTES:
                    raise QueryError(
                        "this result is too large; ask for fewer rows by LIMIT", code="too_large"
                    )
            return columns, rows


def evaluated(
    text: str, rows: Table, texts: Mapping[str, str], *, seconds: float = MOST_SECONDS
) -> list[NDArray[Any]]:
    """Return the columns of a statement over the table ``r`` of some rows, empty values masked."""
    connection, found = _CONNECTIONS.own(), None
    try:
        with _interrupted(connection, seconds, _OF_VALUES):
            if rows:
                connection.register(_TABLE, dict(rows))
            found = connection.execute(text, dict(texts)).fetchnumpy()
            if rows:
                connection.unregister(_TABLE)
    finally:
        if found is None:  # what a statement left behind goes with its connection
            _CONNECTIONS.close()
    return [np.asanyarray(column) for column in found.values()]


def _library() -> ModuleType:
    """Return DuckDB, which is imported by the first expression that needs it."""
    try:
        import duckdb
    except ImportError:
        raise QueryError(
            "expressions are evaluated by DuckDB, which is not installed; compare attributes with values, or "
            "install duckdb",
            code="unsupported",
        ) from None
    return duckdb


def _size_of(value: Any) -> int:
    if isinstance(value, list | tuple):
        return _CELL * (1 + len(value))
    return _CELL + (len(value) if isinstance(value, str) else 0)


@contextmanager
def _interrupted(connection: duckdb.DuckDBPyConnection, seconds: float, refused: _Refused) -> Iterator[None]:
    """Interrupt what runs too long on a connection, and tell of what fails in words of our own."""
    library = _library()
    clock = threading.Timer(seconds, connection.interrupt)
    clock.daemon = True
    clock.start()
    try:
        yield
    except (library.InterruptException, library.OutOfMemoryException):
        raise QueryError(refused.long, code="too_large") from None
    except (library.OutOfRangeException, library.ConversionException):
        raise QueryError(refused.range, code="bad_request") from None
    except library.Error:
        raise QueryError(refused.other, code="unsupported") from None
    finally:
        clock.cancel()
