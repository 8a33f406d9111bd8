"""Tables in memory that have an Arrow stream, read by DuckDB: pyarrow, Polars, DuckDB's own relations.

What is done with a column depends on its type as Arrow writes it, never on a value. The engine looks at each
value of some types and fails at a bad one. A declared column of such a type is refused, whatever it holds:

* times with a zone in another unit than microseconds, into which some do not fit;
* durations in seconds or milliseconds, decimals of 256 bits, half-precision numbers;
* nested values, and types that are no part of the format.

Texts of pyarrow, which nothing checks, are read as bytes; what is no UTF-8 is undeclared. Polars and DuckDB
check theirs. Texts of any other library are refused, for the engine fails at one that is no UTF-8.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from pmw.data.arrow_arrays import fields as fields_of
from pmw.data.engine_columns import (
    column_kinds,
    engine,
    is_readable,
    read_columns,
    require_ids,
)
from pmw.data.refusals import column_refusal, quietly, require_one_column
from pmw.errors import DataError
from queries.cells import in_quotes
from queries.domain import Domain
from queries.plain_values import type_name
from queries.records import Columns

# The formats that are read, as the C data interface writes them: bool, whole and floating-point numbers,
# texts, bytes, days, times, durations, decimals.
_READ = re.compile(
    r"[nbcCsSiIlLfguUzZ]|v[uz]|w:[0-9]+|td[Dm]|tt[smun]|tsu:.*|ts[smn]:|tD[un]|d:[0-9]+,-?[0-9]+(,32|,64|,128)?"
)
_TEXTS = ("u", "U", "vu")
_CHECKED = ("pyarrow", "polars", "duckdb")  # libraries whose texts are UTF-8, or are read as bytes
_NAMES = {
    "ts": "times with a zone in another unit than microseconds",
    "tD": "durations in seconds or milliseconds",
    "ti": "intervals",
    "d:": "decimals of 256 bits",
    "+": "nested values",
    "e": "half-precision numbers",
}


class ArrowTable(Protocol):
    """What has an Arrow stream: a pyarrow Table, a Polars DataFrame, a DuckDB relation, and so on."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream in a capsule."""


def has_arrow_stream(table: object) -> bool:
    """Return whether a thing has an Arrow stream, or gives one when it is collected; no code of its own runs.

    A pandas table has one, but so has a column of pandas: neither is meant here.
    """
    library = type_name(table).partition(".")[0]
    return library != "pandas" and (_has(table, "__arrow_c_stream__") or _is_lazy(table))


def arrow_parts(table: object, domain: Domain) -> Iterator[Columns]:
    """Yield the records of a table part by part, declared columns only.

    Privacy: true records; they stay in this room.
    """
    what = f"the table of type {type_name(table)}"
    failed = f"{what} could not be read"
    chosen, texts = quietly(failed, lambda: _chosen(table, domain))
    fields = quietly(failed, lambda: fields_of(chosen))
    for name in domain.columns:
        form = _require_readable(what, name, fields)
        if form in _TEXTS and _library(table) not in _CHECKED:
            raise DataError(
                f"{what}: column {name!r} holds texts that its library may not have checked; give a table of "
                "pyarrow, Polars or pandas instead"
            )
    with engine(failed) as connection:
        connection.register("records", _Registered(chosen))
        names = ", ".join(_decoded(name, texts) for name in domain.columns)
        source = f"(SELECT {names} FROM records)"  # noqa: S608 - quoted
        kinds = column_kinds(connection, source)
        for name, kind in kinds.items():
            if not is_readable(kind):
                raise _refusal(what, name, kind)
        require_ids(what, domain, kinds)
        library = _library(chosen)  # of one that is in memory, and so is read several times
        held = library == "polars" or (library == "pyarrow" and _has(chosen, "select"))
        yield from read_columns(connection, domain, kinds, source, again=held)


# --- columns ---------------------------------------------------------------------------------------------


def _library(table: object) -> str:
    return type_name(table).partition(".")[0].lstrip("_")


def _is_lazy(table: object) -> bool:
    return type_name(table).startswith("polars.") and _has(table, "collect")


def _has(table: object, name: str) -> bool:
    """Return whether the type of a thing has such a method; the type is not asked."""
    bases = type.__dict__["__mro__"].__get__(type(table))
    return any(name in type.__dict__["__dict__"].__get__(base) for base in bases)


def _chosen(table: Any, domain: Domain) -> tuple[Any, frozenset[str]]:
    """Return the declared columns of a table, and which of them are texts that became bytes."""
    library = _library(table)
    wanted = frozenset(domain.columns)
    if library == "polars" and _has(table, "select"):
        polars, schema = sys.modules["polars"], table.collect_schema()
        columns = [
            polars.col(name).cast(polars.String) if kind == polars.Null else polars.col(name)  # of nothing
            for name, kind in schema.items()
            if name in wanted
        ]
        chosen = table.select(columns)
        return (chosen.collect() if _is_lazy(table) else chosen), frozenset()
    if library == "duckdb" and _has(table, "project"):
        # Arrow has no times of day with a zone: DuckDB would leave the zone out.
        for name, kind in zip(table.columns, map(str, table.types), strict=True):
            if name in wanted and kind == "TIME WITH TIME ZONE":
                raise _refusal("the relation of DuckDB", name, kind)
        names = [in_quotes(name) for name in table.columns if name in wanted]
        return (table.project(", ".join(names)) if names else table), frozenset()
    if library == "pyarrow" and _has(table, "schema") and _has(table, "cast"):
        places = [place for place, name in enumerate(table.schema.names) if name in wanted]
        return _as_bytes(table.select(places) if _has(table, "select") else table)
    return table, frozenset()


def _as_bytes(table: Any) -> tuple[Any, frozenset[str]]:
    """Return a table of pyarrow with bytes for texts, which nothing has checked, and their columns."""
    arrow, schema, names = sys.modules["pyarrow"], table.schema, set()
    texts = {
        arrow.string(): arrow.binary(),
        arrow.large_string(): arrow.large_binary(),
        arrow.string_view(): arrow.binary_view(),
    }
    for place, field in enumerate(schema):
        values = field.type.value_type if arrow.types.is_dictionary(field.type) else field.type
        if values in texts:
            schema = schema.set(place, field.with_type(texts[values]))
            names.add(field.name)
    return table.cast(schema), frozenset(names)


def _decoded(name: str, texts: frozenset[str]) -> str:
    column = in_quotes(name)
    if name not in texts:
        return column
    return f"coalesce(TRY(decode({column})), CASE WHEN {column} IS NOT NULL THEN '\ufffd' END) AS {column}"


def _require_readable(what: str, name: str, fields: list[tuple[str, str]]) -> str:
    """Return the format of a column, where values of it are read."""
    require_one_column(what, name, [other for other, _ in fields])
    form = dict(fields)[name]
    if not _READ.fullmatch(form):
        named = (words for start, words in _NAMES.items() if form.startswith(start))
        raise _refusal(what, name, next(named, "another kind"))
    return form


def _refusal(what: str, name: str, came: str) -> DataError:
    return column_refusal(what, name, came, "turn them into text, numbers, or times in microseconds")


# --- the stream ------------------------------------------------------------------------------------------


class _Registered:
    """Shows the engine nothing of a table but its stream: it asks its own way for what it knows."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)
