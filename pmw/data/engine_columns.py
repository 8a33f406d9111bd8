"""Columns of the engine: what is read of one depends on its type, never on a value.

DuckDB reads Parquet files, Arrow streams and its own databases for us. A column is read as numbers or as
text, whichever cannot fail. A declared column of any other type is refused, whatever it holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pmw.data.arrow_arrays import StreamError, batches
from pmw.errors import DataError
from queries.cells import in_quotes
from queries.domain import Domain
from queries.frozen import dataclass
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.records import Column, Columns, ListedColumn, Listing, NumberColumn, TextColumn

if TYPE_CHECKING:
    import duckdb

DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")  # digits in all, and after the point
CLOCKS = ("TIME", "TIME_NS")
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")

_MOST_LISTED = 4096  # distinct values of a column
_TINY = 128  # places that a TINYINT holds
_WIDEST = 2**62  # the ends of whole numbers are less than this, so that 64 bits hold their difference
_FLOATING = ("FLOAT", "DOUBLE")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")
_UNREADABLE = "'(unreadable)'"  # no date, and no number
_FIRST_TIMESTAMP = "TIMESTAMP '290309-12-22 (BC)'"  # earlier ones can be stored, but not written as text
_COARSE = ("TIMESTAMP_S", "TIMESTAMP_MS")  # the engine turns them into microseconds, of which some have none
_DATES = ("0001-01-01", "9999-12-31")  # what lies outside is no date to us
# Times, times of day, durations, periods and decimals, in the words of every library and database.
_NO_IDS = ("TIME", "DATETIME", "DURATION", "INTERVAL", "PERIOD", "DECIMAL", "NUMERIC")
# Other types that cannot fail. Values of those that are not listed may: they are refused.
_TEXTUAL = (
    "BOOLEAN", "UBIGINT", "HUGEINT", "UHUGEINT", "VARCHAR", "BLOB", "UUID", "DATE", "INTERVAL",
    "TIMESTAMP_NS", '"NULL"',
)  # fmt: skip


@contextmanager
def engine(told: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an engine of our own, which reads what others hold."""
    import duckdb  # late: only needed where tables are read

    try:
        with duckdb.connect(":memory:") as connection:
            silence(connection)
            yield connection
    except (
        duckdb.Error,
        StreamError,
        UnicodeDecodeError,
    ):
        # The last where the engine's text quotes such bytes.
        raise DataError(told) from None


def silence(connection: duckdb.DuckDBPyConnection) -> None:
    """Have an engine write nothing to the output, and times as on any machine."""
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")


def column_kinds(connection: duckdb.DuckDBPyConnection, source: str) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words."""
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}")  # noqa: S608 - quoted
    return {str(row[0]): str(row[1]) for row in described.fetchall()}


def is_readable(kind: str) -> bool:
    """Return whether no value of a type can make reading fail."""
    plain = (*_WHOLE, *_FLOATING, *TIMESTAMPS, *CLOCKS, *_COARSE, *_TEXTUAL)
    return kind in plain or DECIMAL.fullmatch(kind) is not None or kind.startswith("ENUM(")


def require_ids(what: str, domain: Domain, kinds: Mapping[str, str]) -> None:
    """Refuse ids of a type whose values no text tells apart: times, durations and decimals."""
    person = domain.person
    if person is None:
        return
    kind = kinds[person.column]
    if kind.upper().startswith(_NO_IDS):
        raise DataError(
            f"{what}: expected whole numbers or texts in the column {person.column!r} of ids, got a "
            f"column of type {kind}; write the ids as one of these"
        )


def read_columns(
    connection: duckdb.DuckDBPyConnection,
    domain: Domain,
    kinds: Mapping[str, str],
    source: str,
    *,
    again: bool = False,
) -> Iterator[Columns]:
    """Yield the records of a source part by part, declared columns only.

    A column of which few values are told apart comes as the places of these, which is much faster: one of
    whole numbers where few lie between the declared ends, and one that is read as text where the source has
    few of them.

    Privacy: true records; they stay in this room.
    """
    reads: dict[str, _Read] = {}
    for place, attribute in enumerate(domain):
        name, kind = attribute.name, kinds[attribute.name]
        if isinstance(attribute, IntegerAttribute | NumericAttribute) and kind in _WHOLE:
            reads[name] = _numbers(attribute)
        else:
            listed = again and kind not in _FLOATING
            found = _listed(connection, _text(name, kind), f"listed_{place}", source) if listed else None
            reads[name] = found or _values(name, kind)
    if domain.person is not None:
        name, kind = domain.person.column, kinds[domain.person.column]
        reads[name] = _exact(name) if kind in _WHOLE else _values(name, kind)
    wanted = [expression for read in reads.values() for expression in read.expressions]
    named = ", ".join(f"{expression} AS c{place}" for place, expression in enumerate(wanted))
    with closing(batches(connection.sql(f"SELECT {named} FROM {source}"))) as parts:  # noqa: S608 - quoted
        for arrays in parts:
            rest = iter(arrays)
            yield {name: read.made(*islice(rest, len(read.expressions))) for name, read in reads.items()}


@dataclass(frozen=True, slots=True)
class _Read:
    """How a column is read."""

    expressions: tuple[str, ...]
    made: Callable[..., Column]


def _numbers(attribute: IntegerAttribute | NumericAttribute) -> _Read:
    """Return how whole numbers of an attribute of numbers are read: as places, where few are told apart.

    These are the numbers between the declared ends, and one beyond either: a number beyond that one has its
    cell, its place on the grid, and its reading.
    """
    low, high = math.floor(attribute.ends[0]) - 1, math.ceil(attribute.last) + 1
    if high - low >= _MOST_LISTED or max(-low, high) >= _WIDEST:
        return _exact(attribute.name)
    name, kind = in_quotes(attribute.name), "TINYINT" if high - low < _TINY else "SMALLINT"
    # It is clipped inside the cast, which so never fails, and cast before it is clipped: the type may be too
    # small for the ends.
    clipped = f"LEAST(GREATEST(CAST({name} AS BIGINT), {low}), {high})"
    place = f"CASE WHEN {name} IS NULL THEN -1 ELSE CAST({clipped} - ({low}) AS {kind}) END"
    listing = Listing(NumberColumn(np.arange(low, high + 1)))
    return _Read((f"CAST({place} AS {kind})",), partial(ListedColumn, listing=listing))


def _exact(name: str) -> _Read:
    """Return how whole numbers are read one by one: 0 where they are NULL, and which are."""
    column = in_quotes(name)
    expressions = (f"CAST(coalesce({column}, 0) AS BIGINT)", f"CAST({column} IS NULL AS TINYINT)")
    return _Read(expressions, lambda numbers, empty: NumberColumn(numbers, empty != 0))


def _values(name: str, kind: str) -> _Read:
    """Return how values of another kind are read: floating-point numbers as such, others as texts."""
    if kind in _FLOATING:
        return _Read((f"coalesce({in_quotes(name)}, CAST('NaN' AS {kind}))",), NumberColumn)
    return _Read((_text(name, kind),), TextColumn)


def _listed(connection: duckdb.DuckDBPyConnection, text: str, kind: str, source: str) -> _Read | None:
    """Return how a column is read as places of its distinct texts; None if it has many."""
    few = f"SELECT DISTINCT {text} AS value FROM {source} LIMIT {_MOST_LISTED + 2}"  # noqa: S608 - quoted
    connection.execute(f"CREATE OR REPLACE TEMP TABLE listed AS {few}")
    ((found,),) = connection.execute("SELECT count(value) FROM listed").fetchall()
    if not 0 < found <= _MOST_LISTED:
        return None
    given = "SELECT value FROM listed WHERE value IS NOT NULL"
    connection.execute(f"CREATE TEMP TYPE {kind} AS ENUM ({given})")
    values = connection.execute(f"SELECT unnest(enum_range(CAST(NULL AS {kind})))").fetchall()
    # A cast that may fail would be made for each record, this one for each text of the engine's dictionaries.
    place = f"coalesce(CAST(enum_code(TRY_CAST({text} AS {kind})) AS SMALLINT), -1)"
    listing = Listing(TextColumn([value for (value,) in values]))
    return _Read((f"CAST({place} AS SMALLINT)",), partial(ListedColumn, listing=listing))


def _text(column: str, kind: str) -> str:
    """Return the expression that reads a column as text; a time or decimal without one is undeclared."""
    name = in_quotes(column)
    decimal = DECIMAL.fullmatch(kind)
    if kind in TIMESTAMPS:
        readable = f"{name} >= {_FIRST_TIMESTAMP} OR {name} = '-infinity'"
    elif kind in _COARSE:
        readable = f"{name} BETWEEN {kind} '{_DATES[0]}' AND {kind} '{_DATES[1]}'"
    elif kind in CLOCKS:  # the engine does not survive writing out one that no clock shows
        readable = f"{name} BETWEEN {kind} '00:00:00' AND {kind} '23:59:59.999999999'"
    elif decimal:
        # The bytes may hold more digits than are declared; such a number has no text.
        digits, scale = int(decimal[1]), int(decimal[2])
        most = f"'{'9' * (digits - scale)}.{'9' * scale}'::{kind}"
        readable = f"{name} BETWEEN -{most} AND {most}"
    else:
        text = f"TRY_CAST({name} AS VARCHAR)"
        # A column of a database may be declared to take A and a for one text.
        return f"{text} COLLATE C" if kind == "VARCHAR" else text
    # Inside the cast: the engine may write out a distinct value whose record the condition leaves out.
    text = f"TRY_CAST(CASE WHEN {readable} THEN {name} END AS VARCHAR)"
    return f"coalesce({text}, CASE WHEN {name} IS NOT NULL THEN {_UNREADABLE} END)"
