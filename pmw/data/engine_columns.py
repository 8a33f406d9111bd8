"""Columns of the engine: what is read of one depends on its type, never on a value.

DuckDB reads Parquet files, Arrow streams and its own databases for us. A column is read as numbers or as
text, whichever cannot fail. A declared column of any other type is refused, whatever it holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pmw.errors import DataError
from queries.domain import Attribute, Domain
from queries.numbers import IntegerAttribute, NumericAttribute

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")  # digits in all, and after the point
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")

_CHUNK = 128  # vectors of 2,048 rows at a time
_MOST_LISTED = 4096  # distinct values of a column
_TINY = 128  # places that a TINYINT holds
_WIDEST = 2**62  # the ends of whole numbers are less than this, so that 64 bits hold their difference
_FLOATING = ("FLOAT", "DOUBLE")
# NULLs turn a column of these into floating-point numbers, which are exact within an attribute's ends.
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
    """Yield an engine of our own, which reads what others hold.

    Args:
        told: what is said where it fails; its own text may quote a record.

    Raises:
        DataError: it fails.
    """
    import duckdb  # late: only needed where tables are read

    try:
        with duckdb.connect(":memory:") as connection:
            silence(connection)
            yield connection
    except (duckdb.Error, UnicodeDecodeError):  # the latter where the engine's text quotes such bytes
        raise DataError(told) from None


def silence(connection: duckdb.DuckDBPyConnection) -> None:
    """Have an engine write nothing to the output, and times as on any machine."""
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET TimeZone = 'UTC'")


def column_kinds(
    connection: duckdb.DuckDBPyConnection, source: str, parameters: dict[str, str] | None = None
) -> dict[str, str]:
    """Return the type of each column by its name, in the engine's words.

    Args:
        connection: to the engine.
        source: what stands behind FROM.
        parameters: the values that it names.
    """
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}", parameters or {})  # noqa: S608 - quoted
    return {str(row[0]): str(row[1]) for row in described.fetchall()}


def is_readable(kind: str) -> bool:
    """Return whether no value of a type can make reading fail."""
    plain = (*_WHOLE, *_FLOATING, *TIMESTAMPS, *_COARSE, *_TEXTUAL)
    return kind in plain or DECIMAL.fullmatch(kind) is not None or kind.startswith("ENUM(")


def require_ids(what: str, domain: Domain, kinds: Mapping[str, str]) -> None:
    """Refuse a column of ids whose type holds values that no text tells apart: times, durations and decimals.

    Args:
        what: the name of the table, for messages.
        domain: the declared attributes, and persons.
        kinds: the type of each declared column, in the words of what holds it.

    Raises:
        DataError: the column of ids is of such a type, whatever it holds.
    """
    person = domain.person
    if person is None:
        return
    kind = kinds[person.column]
    if kind.upper().startswith(_NO_IDS):
        raise DataError(
            f"{what}: expected whole numbers or texts in the column {person.column!r} of ids, got a "
            f"column of type {kind}; write the ids as one of these"
        )


def read_frames(
    connection: duckdb.DuckDBPyConnection,
    domain: Domain,
    kinds: Mapping[str, str],
    source: str,
    parameters: dict[str, str] | None = None,
    *,
    again: bool = False,
) -> Iterator[pd.DataFrame]:
    """Yield the records of a source part by part, declared columns only.

    A column of which few values are told apart is read as numbers that stand for these, as a categorical one
    of pandas, which is much faster: of whole numbers where few lie between the declared ends, and of texts
    where the source has few.

    Args:
        connection: to the engine; times with a zone are written in that of its settings.
        domain: the declared attributes, and persons.
        kinds: the type of each declared column, in the engine's words; all are readable.
        source: what stands behind FROM.
        parameters: the values that it names.
        again: it can be read several times, and says the same each time.

    Privacy: true records; they stay in this room.
    """
    ranges = _ranges(domain, kinds)
    columns = [_column(one, kinds[one.name], ranges.get(one.name)) for one in domain]
    ids = None if domain.person is None else domain.person.column
    whole = ids is not None and kinds[ids] in _WHOLE
    if ids is not None:
        columns += _whole_ids(ids) if whole else [_plain_column(ids, kinds[ids])]
    if again:
        for place, attribute in enumerate(domain):
            if not _is_number(attribute, kinds[attribute.name]):
                name, kind = quoted_column(attribute.name), f"listed_{place}"
                columns[place] = _listed(connection, columns[place], name, kind, source, parameters or {})
    connection.execute(f"SELECT {', '.join(columns)} FROM {source}", parameters or {})  # noqa: S608 - quoted
    known = {name: _categories(numbers) for name, numbers in ranges.items()}
    while len(chunk := connection.fetch_df_chunk(_CHUNK)):
        found = _with_numbers(chunk, known)
        yield _with_empty_ids(found) if whole else found


def quoted_column(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _is_number(attribute: Attribute, kind: str) -> bool:
    """Return whether a column is read as numbers, not as text."""
    return kind in _FLOATING or (
        kind in _WHOLE and isinstance(attribute, IntegerAttribute | NumericAttribute)
    )


def _ranges(domain: Domain, kinds: Mapping[str, str]) -> dict[str, range]:
    """Return the whole numbers that are told apart in columns of these, of those columns that have few.

    They are the numbers between the declared ends, and one beyond either: a number beyond that one has the
    cell of that one, the place, and what the custodian is told of it.
    """
    found = {}
    for attribute in domain:
        if kinds[attribute.name] in _WHOLE and isinstance(attribute, IntegerAttribute | NumericAttribute):
            low, high = math.floor(attribute.ends[0]) - 1, math.ceil(attribute.last) + 1
            if high - low < _MOST_LISTED and max(-low, high) < _WIDEST:
                found[attribute.name] = range(low, high + 1)
    return found


def _column(attribute: Attribute, kind: str, numbers: range | None) -> str:
    """Return the expression that reads an attribute: as numbers where it is one, else as any other column.

    Args:
        attribute: what is declared of the column.
        kind: its type.
        numbers: those that it is read as the places of, -1 where it is empty; None for another column.
    """
    name = quoted_column(attribute.name)
    if numbers is not None:
        kind = "TINYINT" if len(numbers) < _TINY else "SMALLINT"
        # It is clipped inside the cast, which so never fails, and cast before it is clipped: the type may be
        # too small for the ends.
        clipped = f"LEAST(GREATEST(CAST({name} AS BIGINT), {numbers[0]}), {numbers[-1]})"
        place = f"CAST({clipped} - ({numbers[0]}) AS {kind})"
        return f"CASE WHEN {name} IS NULL THEN CAST(-1 AS {kind}) ELSE {place} END AS {name}"
    return name if _is_number(attribute, kind) else _plain_column(attribute.name, kind)


def _categories(numbers: range) -> pd.CategoricalDtype:
    import pandas as pd  # late: only where tables are handled

    return pd.CategoricalDtype(pd.RangeIndex(numbers))


def _with_numbers(chunk: pd.DataFrame, known: Mapping[str, pd.CategoricalDtype]) -> pd.DataFrame:
    """Return records whose columns of places say what numbers these are of."""
    import pandas as pd  # late: only where tables are handled

    if not known:
        return chunk
    columns = {
        name: pd.Categorical.from_codes(chunk[name].to_numpy(), dtype=known[name], validate=False)
        if name in known
        else chunk[name]
        for name in chunk.columns
    }
    return pd.DataFrame(columns, copy=False)


def _listed(
    connection: duckdb.DuckDBPyConnection,
    column: str,
    name: str,
    kind: str,
    source: str,
    parameters: dict[str, str],
) -> str:
    """Return the expression that reads a column as numbers of its distinct texts; as before if it has many.

    Args:
        connection: to the engine.
        column: the expression that reads the column as texts.
        name: of the column, quoted.
        kind: a name for the type that lists its values.
        source: what stands behind FROM.
        parameters: the values that it names.
    """
    value = column.removesuffix(f" AS {name}")
    few = f"SELECT DISTINCT {value} AS value FROM {source} LIMIT {_MOST_LISTED + 2}"  # noqa: S608 - quoted
    connection.execute(f"CREATE OR REPLACE TEMP TABLE listed AS {few}", parameters)
    found = connection.execute("SELECT count(value) FROM listed").fetchone()
    if found is None or not 0 < found[0] <= _MOST_LISTED:
        return column
    listed = "SELECT value FROM listed WHERE value IS NOT NULL"
    connection.execute(f"CREATE TEMP TYPE {kind} AS ENUM ({listed})")
    # A cast that may fail would be made for each record, this one for each text of the engine's dictionaries.
    return f"TRY_CAST({value} AS {kind}) AS {name}"


def _whole_ids(column: str) -> list[str]:
    """Return the expressions that read whole numbers exactly, some of them NULL: 0 there, and which are."""
    name = quoted_column(column)
    return [f"coalesce({name}, 0) AS {name}", f"{name} IS NULL"]


def _with_empty_ids(chunk: pd.DataFrame) -> pd.DataFrame:
    empty, rest = chunk.iloc[:, -1], chunk.iloc[:, :-1].copy(deep=False)
    if empty.any():
        ids = rest.columns[-1]
        rest[ids] = rest[ids].astype("Int64").mask(empty)
    return rest


def _plain_column(column: str, kind: str) -> str:
    """Return the expression that reads a column: as it is where that is exact and cannot fail, else as text.

    A number that is none is empty, as in a pandas table; a time or decimal without a text is undeclared.
    """
    name = quoted_column(column)
    if kind in _FLOATING:
        return name
    # Inside the cast: the engine may write out a distinct value whose record the condition leaves out.
    if kind in TIMESTAMPS:
        readable = f"{name} >= {_FIRST_TIMESTAMP} OR {name} = '-infinity'"
        text = f"TRY_CAST(CASE WHEN {readable} THEN {name} END AS VARCHAR)"
        return f"coalesce({text}, CASE WHEN {name} IS NOT NULL THEN {_UNREADABLE} END) AS {name}"
    if kind in _COARSE:
        readable = f"{name} BETWEEN {kind} '{_DATES[0]}' AND {kind} '{_DATES[1]}'"
        text = f"TRY_CAST(CASE WHEN {readable} THEN {name} END AS VARCHAR)"
        return f"coalesce({text}, CASE WHEN {name} IS NOT NULL THEN {_UNREADABLE} END) AS {name}"
    if decimal := DECIMAL.fullmatch(kind):
        # The bytes may hold more digits than are declared; such a number has no text.
        digits, scale = int(decimal[1]), int(decimal[2])
        most = f"'{'9' * (digits - scale)}.{'9' * scale}'::{kind}"
        value = f"CASE WHEN {name} BETWEEN -{most} AND {most} THEN {name} END"
        text = f"TRY_CAST({value} AS VARCHAR)"
        return f"coalesce({text}, CASE WHEN {name} IS NOT NULL THEN {_UNREADABLE} END) AS {name}"
    text = f"TRY_CAST({name} AS VARCHAR)"
    # A column of a database may be declared to take A and a for one text.
    return f"{text} COLLATE C AS {name}" if kind == "VARCHAR" else f"{text} AS {name}"
