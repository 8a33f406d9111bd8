"""Tables that their database counts: cells are made and counted there, and only grouped counts leave it.

All counts of a process are of one snapshot: one transaction is held open, read-only and repeatable. Where it
is lost, a count fails, and the table is compared again when the session is resumed.

The expressions that make cells give the same as the encoder gives. What is written for an attribute depends
on its declaration and on the type of its column, never on a value, and no expression fails on a value: there
are comparisons with constants, casts that every value of the type has, and whole-number arithmetic on numbers
that were clipped before. A column of any other type, or an attribute whose values may be written in several
ways in it, is refused: reading the table encodes it.

Privacy: what leaves the database is counts over declared cells, or bins of them, and the sums of products of
    cell numbers that the fingerprint is made of. The statements hold declarations alone, and no secret.

Source: ``queries.values`` has the rules; the documentation of DuckDB and of PostgreSQL, chapters 8 and 9.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data.engine_columns import quoted_column
from pmw.data.source import Bins, CountSource
from pmw.errors import DataError
from queries.categories import CategoricalAttribute
from queries.domain import Attribute, Domain
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.schema import format_schema
from queries.values import DROPPED, values_of

_Rows: TypeAlias = list[tuple[Any, ...]]
_MOST_COMPARED = 1000  # edges, or values, of one attribute
_SIZE = re.compile(r"\([0-9,-]+\)")
_WHOLE_TEXT = re.compile(r"0|-?[1-9][0-9]{0,17}")  # fits into 64 bits


@dataclass(frozen=True, slots=True)
class SqlWords:
    """How an engine writes what cells are made of.

    Args:
        whole: types of whole numbers of at most 64 bits.
        floating: types of floating-point numbers.
        textual: types of texts, beside enumerations.
        double: the type of floating-point numbers of 64 bits.
        divide: the division of whole numbers.
        text_is: the condition that a column's text is a given one, byte by byte.
        is_empty: the condition that a column's text is the empty one.
        chosen: the item of a list of whole numbers at a place from 0.
    """

    whole: tuple[str, ...]
    floating: tuple[str, ...]
    textual: tuple[str, ...]
    double: str
    divide: str
    text_is: Callable[[str, str], str]
    chosen: Callable[[Sequence[int], str], str]


def _postgres_text(column: str, text: str) -> str:
    return f"({column}::text COLLATE \"C\") = '{text.replace(chr(39), chr(39) * 2)}'"


def _duckdb_text(column: str, text: str) -> str:
    # Of bytes: a column may be declared to compare its texts without regard to case.
    written = "".join(f"\\x{byte:02X}" for byte in text.encode())
    return f"encode({column}::VARCHAR) = '{written}'::BLOB"


POSTGRES = SqlWords(
    ("smallint", "integer", "bigint"),
    ("real", "double precision"),
    ("text", "character varying", "character", "name", "enum"),
    "double precision",
    "/",
    _postgres_text,
    lambda numbers, place: f"(ARRAY[{', '.join(map(str, numbers))}]::bigint[])[({place}) + 1]",
)
DUCKDB = SqlWords(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    ("FLOAT", "DOUBLE"),
    ("VARCHAR", "ENUM"),
    "DOUBLE",
    "//",
    _duckdb_text,
    lambda numbers, place: f"([{', '.join(map(str, numbers))}]::BIGINT[])[({place}) + 1]",
)


def cell_expressions(domain: Domain, kinds: Mapping[str, str], words: SqlWords, what: str) -> list[str]:
    """Return an expression per attribute: the number of a record's cell, -1 where its value drops the record.

    Args:
        domain: the declared attributes.
        kinds: the type of each column, in the engine's words.
        words: how the engine writes expressions.
        what: the name of the table, for messages.

    Raises:
        DataError: a column is absent, or its cells cannot be made in the engine exactly.
    """
    if domain.person is not None:
        raise DataError(f"{what}: people are bounded where the table is read; leave --inside out")
    found = []
    for attribute in domain:
        if attribute.name not in kinds:
            raise DataError(f"{what}: expected a column {attribute.name!r}, got no such column")
        expression = _expression(attribute, _SIZE.sub("", kinds[attribute.name]), words)
        if expression is None:
            kind = kinds[attribute.name].partition("(")[0]
            raise DataError(
                f"{what}: the cells of {attribute.name!r}, of type {kind}, cannot be made in the "
                "database exactly as a session makes them; leave --inside out, or make a view whose column "
                "is of whole numbers, double precision, or declared texts"
            )
        found.append(expression)
    return found


def _expression(attribute: Attribute, kind: str, words: SqlWords) -> str | None:
    column = quoted_column(attribute.name)
    if kind.lower() == "boolean":  # three values: the encoder itself tells their cells
        cells = [values_of(attribute).encode(value) for value in (None, True, False)]
        return f"CASE WHEN {column} IS NULL THEN {cells[0]} WHEN {column} THEN {cells[1]} ELSE {cells[2]} END"
    if isinstance(attribute, CategoricalAttribute):
        return _of_values(attribute, column, kind, words)
    if not isinstance(attribute, IntegerAttribute | NumericAttribute):
        return None
    if kind in words.whole:
        return _of_whole(attribute, column, words)
    return _of_floats(attribute, column, words) if kind in words.floating else None


def _of_values(attribute: CategoricalAttribute, column: str, kind: str, words: SqlWords) -> str | None:
    if kind in words.whole:
        return _cases(attribute, _whole_values(attribute, column), f"{column} IS NULL")
    values = _text_values(attribute, column, words)
    if values is None or not (kind in words.textual or kind.startswith("ENUM(")):
        return None
    return _cases(attribute, values, f"{column} IS NULL OR {words.text_is(column, '')}")


def _of_whole(attribute: IntegerAttribute | NumericAttribute, column: str, words: SqlWords) -> str | None:
    number = f"CAST({column} AS bigint)"
    cell = (
        _integer_cell(attribute, number, words)
        if isinstance(attribute, IntegerAttribute)
        else _numeric_cell(attribute, f"CAST({column} AS {words.double})", words)
    )
    return None if cell is None else f"CASE WHEN {column} IS NULL THEN {_missing(attribute)} ELSE {cell} END"


def _of_floats(attribute: IntegerAttribute | NumericAttribute, column: str, words: SqlWords) -> str | None:
    number = f"CAST({column} AS {words.double})"
    if isinstance(attribute, IntegerAttribute):
        low, high = (_double(end, words) for end in (attribute.minimum, attribute.maximum))
        whole = f"CAST(LEAST(GREATEST({number}, {low}), {high}) AS bigint)"
        cell: str | None = _integer_cell(attribute, whole, words)
    else:
        cell = _numeric_cell(attribute, number, words)
    if cell is None:
        return None
    undeclared = f"{number} IN ({_text_double('Infinity', words)}, {_text_double('-Infinity', words)})"
    if attribute.is_whole:
        undeclared += f" OR {number} <> floor({number})"
    return (
        f"CASE WHEN {column} IS NULL OR {number} = {_text_double('NaN', words)} THEN {_missing(attribute)} "
        f"WHEN {undeclared} THEN {_other(attribute)} ELSE {cell} END"
    )


def _integer_cell(attribute: IntegerAttribute, number: str, words: SqlWords) -> str:
    """Return the cell of a whole number; it is clipped first, so that nothing overflows."""
    low, high = f"CAST({attribute.minimum} AS bigint)", f"CAST({attribute.maximum} AS bigint)"
    clipped = f"LEAST(GREATEST({number}, {low}), {high})"
    return f"CAST(({clipped} - {low}) {words.divide} {attribute.width} AS bigint)"


def _numeric_cell(attribute: NumericAttribute, number: str, words: SqlWords) -> str | None:
    if len(attribute.edges) + len(attribute.atoms) > _MOST_COMPARED:
        return None
    low, high = (_double(end, words) for end in (attribute.edges[0], attribute.edges[-1]))
    clipped = f"LEAST(GREATEST({number}, {low}), {high})"
    cases = [
        f"WHEN {clipped} = {_double(atom, words)} THEN {attribute.base_size + place}"
        for place, atom in enumerate(attribute.atoms)
    ]
    inner = list(enumerate(attribute.edges))[1:-1]
    cases += [f"WHEN {clipped} >= {_double(edge, words)} THEN {place}" for place, edge in reversed(inner)]
    return f"CASE {' '.join(cases)} ELSE 0 END" if cases else "0"


def _cases(attribute: CategoricalAttribute, values: Sequence[tuple[str, int]], empty: str) -> str | None:
    if len(values) > _MOST_COMPARED:
        return None
    cases = " ".join(f"WHEN {condition} THEN {cell}" for condition, cell in values)
    return f"CASE WHEN {empty} THEN {_missing(attribute)} {cases} ELSE {_other(attribute)} END"


def _whole_values(attribute: CategoricalAttribute, column: str) -> list[tuple[str, int]]:
    return [
        (f"{column} = {text}", cell) for text, cell in attribute.codes.items() if _WHOLE_TEXT.fullmatch(text)
    ]


def _text_values(
    attribute: CategoricalAttribute, column: str, words: SqlWords
) -> list[tuple[str, int]] | None:
    """Return the conditions of declared texts; None where other texts may mean the same."""
    if not all(type(value) is str for value in attribute.values):
        return None  # 3 may be written 03, and true may be written TRUE
    if any(text.casefold() in ("true", "false") or not _is_plain(text) for text in attribute.codes):
        return None
    return [(words.text_is(column, text), cell) for text, cell in attribute.codes.items()]


def _is_plain(text: str) -> bool:
    try:
        return "\0" not in text and bool(text.encode())
    except UnicodeEncodeError:
        return False


def _missing(attribute: Attribute) -> int:
    return DROPPED if attribute.missing_code is None else attribute.missing_code


def _other(attribute: Attribute) -> int:
    return DROPPED if attribute.other_code is None else attribute.other_code


def _double(number: float, words: SqlWords) -> str:
    """Return a number as the engine reads it exactly: a literal of its own would be a decimal."""
    return _text_double(repr(float(number)), words)


def _text_double(text: str, words: SqlWords) -> str:
    return f"CAST('{text}' AS {words.double})"


class Snapshot(Protocol):
    """One snapshot of a table in an engine."""

    @property
    def words(self) -> SqlWords:
        """How the engine writes expressions."""

    @property
    def table(self) -> str:
        """What stands behind FROM."""

    def rows(self, statement: str) -> _Rows:
        """Return the rows of a statement.

        Raises:
            DataError: the engine fails, or was restarted.
        """


class EngineSource(CountSource):
    """A table whose records stay in a database.

    Args:
        snapshot: what is counted.
        cells: an expression per attribute, of a record's cell, -1 where its value drops the record.
        domain: the declared attributes.
        binned: a domain whose cells are bins of the declared ones, and the bin of each cell; None counts
            declared cells.

    Privacy: stands for true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_cells", "_snapshot")

    largest_scope = 2**24
    most_at_once = 2**22
    too_large = "a database counts at most {:,} for us"

    def __init__(
        self,
        snapshot: Snapshot,
        cells: Sequence[str],
        domain: Domain,
        binned: tuple[Domain, Bins] | None = None,
    ) -> None:
        super().__init__(domain, binned)
        self._snapshot, self._cells = snapshot, tuple(cells)

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain, the counts over each attribute, and for each two attributes the
        sum of the products of their cells' numbers. Tables that agree in all of these are not told apart. It
        is another than a table that was read has.

        Raises:
            DataError: the engine fails.
        """
        digest = hmac.new(key, format_schema(self.domain).encode() + b" counted inside", hashlib.sha256)
        names = self.domain.names
        self.prepare([(name,) for name in names])
        for name in names:
            digest.update(self._marginal((name,)).counts.astype("<i8").tobytes())
        pairs = list(combinations(range(len(names)), 2))
        sums = [f"CAST(sum(c{one} * c{other}) AS text)" for one, other in pairs]
        if sums:
            (found,) = self._snapshot.rows(f"SELECT {', '.join(sums)} FROM {self._kept()} AS kept")  # noqa: S608
            digest.update(" ".join(str(total or 0) for total in found).encode())
        return digest.digest()

    def _kept(self) -> str:
        """Return the records that are not dropped, as a table of cells c0, c1, ..."""
        made = ", ".join(f"CAST({cell} AS bigint) AS c{place}" for place, cell in enumerate(self._cells))
        kept = " AND ".join(f"c{place} >= 0" for place in range(len(self._cells)))
        return f"(SELECT * FROM (SELECT {made} FROM {self._snapshot.table}) AS made WHERE {kept})"  # noqa: S608

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        numbers = ", ".join(f"{self._number(scope)} AS n{place}" for place, scope in enumerate(scopes))
        sets = ", ".join(f"(n{place})" for place in range(len(scopes)))
        columns = ", ".join(f"n{place}" for place in range(len(scopes)))
        rows = self._snapshot.rows(
            f"SELECT {columns}, count(*) FROM (SELECT {numbers} FROM {self._kept()} AS kept) AS numbered "  # noqa: S608
            f"GROUP BY GROUPING SETS ({sets})"
        )
        counted = [np.zeros(self.domain.scope_size(scope), dtype=np.int64) for scope in scopes]
        for *cells, count in rows:
            (place,) = (place for place, cell in enumerate(cells) if cell is not None)
            counted[place][cells[place]] = count
        return counted

    def _number(self, scope: Sequence[str]) -> str:
        """Return the expression for the number of a record's cell; it is made of whole numbers of ours."""
        terms = ["CAST(0 AS bigint)"]
        for place, bin_, stride in self._strides(scope):
            cell = f"c{place}" if bin_ is None else self._snapshot.words.chosen(bin_.tolist(), f"c{place}")
            terms.append(f"{cell} * {stride}")
        return " + ".join(terms)

    def _over(self, coarse: Domain, bins: Bins) -> EngineSource:
        return EngineSource(self._snapshot, self._cells, self._declared, (coarse, bins))
