"""Tables of a database that speaks SQL, counted there: cells are made in it, and only grouped counts leave.

All counts of a process are of one snapshot: one transaction is held open, read-only and repeatable. Where it
is lost, a count fails, and the table is compared again when the session is resumed.

The expressions that make cells give the same as the encoder gives. What is written for an attribute depends
on its declaration and on the type of its column, never on a value, and no expression fails on a value: there
are comparisons with constants, casts that every value of the type has, and whole-number arithmetic on numbers
that were clipped before. A column of any other type, or an attribute whose values may be written in several
ways in it, is refused: reading the table encodes it.

Privacy: what leaves the database is counts, and sums of values on their grids, over declared cells or bins of
    them, and the sums of products of cell numbers, and of places on grids, that the fingerprint is made of.
    The statements hold declarations alone, and no secret.

Source: ``queries.values`` has the rules; the documentation of DuckDB and of PostgreSQL, chapters 8 and 9.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import weakref
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data.refusals import detached, require_one_column
from pmw.data.source import Bins, CountSource
from pmw.data.sql_tables import SIZE, SqlTable, SqlWords
from pmw.errors import DataError
from queries.categories import CategoricalAttribute
from queries.cells import in_quotes
from queries.domain import Attribute, Domain
from queries.numbers import IntegerAttribute, NumericAttribute, ValueGrid
from queries.schema import stored_schema
from queries.values import values_of

_MOST_COMPARED = 1000  # edges, or values, of one attribute
_WHOLE_TEXT = re.compile(r"0|-?[1-9][0-9]{0,17}")  # fits into 64 bits
_Rows: TypeAlias = list[tuple[Any, ...]]


class Snapshot:
    """One snapshot of a table, held open until nothing needs it."""

    def __init__(self, table: SqlTable) -> None:
        self.table = table
        with table.translated():
            self._connection = table.connect()
        weakref.finalize(self, self._connection.close)
        try:
            with table.translated():
                self.kinds = table.kinds_by(self._connection)
        except DataError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def rows(self, statement: str) -> _Rows:
        """Return the rows of a statement."""
        try:
            return detached(lambda: self._rows(statement))
        except DataError:
            self.close()  # what was of one snapshot is not any more
            raise

    def _rows(self, statement: str) -> _Rows:
        with self.table.translated():
            found: _Rows = self._connection.execute(statement).fetchall()
            return found


# --- cells ------------------------------------------------------------------------------------------------


def cell_expressions(domain: Domain, kinds: Mapping[str, str], words: SqlWords, what: str) -> list[str]:
    """Return an expression per attribute: the number of a record's cell, -1 where the record is dropped."""
    if domain.person is not None:
        raise DataError(f"{what}: people are bounded where the table is read; leave --inside out")
    if domain.impossible:
        raise DataError(
            f"{what}: records that are impossible by the schema are dropped where the table is read; leave "
            "--inside out"
        )
    found = []
    for attribute in domain:
        require_one_column(what, attribute.name, list(kinds))
        expression = _expression(attribute, SIZE.sub("", kinds[attribute.name]), words)
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
    column = in_quotes(attribute.name)
    if kind.lower() == "boolean":  # three values: the encoder itself tells their cells
        cells = [values_of(attribute).encode(value) for value in (None, True, False)]
        return f"CASE WHEN {column} IS NULL THEN {cells[0]} WHEN {column} THEN {cells[1]} ELSE {cells[2]} END"
    if isinstance(attribute, CategoricalAttribute):
        return _of_values(attribute, column, kind, words)
    if not isinstance(attribute, IntegerAttribute | NumericAttribute):
        return None
    return _of_numbers(attribute, column, kind, words)


def _of_values(attribute: CategoricalAttribute, column: str, kind: str, words: SqlWords) -> str | None:
    if kind in words.whole:
        codes = attribute.codes.items()
        whole = [(f"{column} = {text}", cell) for text, cell in codes if _WHOLE_TEXT.fullmatch(text)]
        return _cases(attribute, whole, f"{column} IS NULL")
    values = _text_values(attribute, column, words)
    if values is None or not (kind in words.textual or kind.startswith("ENUM(")):
        return None
    return _cases(attribute, values, f"{column} IS NULL OR {words.text_is(column, '')}")


def _of_numbers(
    attribute: IntegerAttribute | NumericAttribute, column: str, kind: str, words: SqlWords
) -> str | None:
    number, whole = f"CAST({column} AS double precision)", f"CAST({column} AS bigint)"
    own, is_float = values_of(attribute), kind in words.floating
    if not is_float and kind not in words.whole:
        return None
    if isinstance(attribute, NumericAttribute):
        cell = _numeric_cell(attribute, number)
    else:
        low, high = (_double(end) for end in (attribute.minimum, attribute.maximum))
        clipped = f"CAST(LEAST(GREATEST({number}, {low}), {high}) AS bigint)"
        cell = _integer_cell(attribute, clipped if is_float else whole, words)
    if cell is None:
        return None
    if not is_float:
        return f"CASE WHEN {column} IS NULL THEN {own.empty} ELSE {cell} END"
    return (
        f"CASE WHEN {_is_empty(column, number)} THEN {own.empty} "
        f"WHEN {_is_undeclared(number, attribute.is_whole)} THEN {own.undeclared} ELSE {cell} END"
    )


def _is_empty(column: str, number: str) -> str:
    return f"{column} IS NULL OR {number} = {_text_double('NaN')}"


def _is_undeclared(number: str, whole: bool) -> str:
    """Return the condition that a float is undeclared, which empty ones were left out of."""
    infinite = f"{number} IN ({_text_double('Infinity')}, {_text_double('-Infinity')})"
    return f"{infinite} OR {number} <> floor({number})" if whole else infinite


def _integer_cell(attribute: IntegerAttribute, number: str, words: SqlWords) -> str:
    """Return the cell of a whole number; it is clipped first, so that nothing overflows."""
    low, high = f"CAST({attribute.minimum} AS bigint)", f"CAST({attribute.maximum} AS bigint)"
    clipped = f"LEAST(GREATEST({number}, {low}), {high})"
    return f"CAST(({clipped} - {low}) {words.divide} {attribute.width} AS bigint)"


def _numeric_cell(attribute: NumericAttribute, number: str) -> str | None:
    if len(attribute.edges) + len(attribute.atoms) > _MOST_COMPARED:
        return None
    low, high = (_double(end) for end in (attribute.edges[0], attribute.edges[-1]))
    clipped = f"LEAST(GREATEST({number}, {low}), {high})"
    cases = [
        f"WHEN {clipped} = {_double(atom)} THEN {attribute.base_size + place}"
        for place, atom in enumerate(attribute.atoms)
    ]
    inner = list(enumerate(attribute.edges))[1:-1]
    cases += [f"WHEN {clipped} >= {_double(edge)} THEN {place}" for place, edge in reversed(inner)]
    return f"CASE {' '.join(cases)} ELSE 0 END" if cases else "0"


def place_expressions(domain: Domain, kinds: Mapping[str, str]) -> list[str]:
    """Return an expression per grid: the place of a record's value, 0 where it is empty or undeclared."""
    return [_place(grid, kinds[grid.attribute]) for grid in domain.grids]


def _place(grid: ValueGrid, kind: str) -> str:
    """Return the place of a number, by the double precision of ``ValueGrid.place``; see there."""
    if kind.lower() == "boolean":
        return "0"  # true and false are no numbers
    column = in_quotes(grid.attribute)
    number = f"CAST({column} AS double precision)"
    low, high, step = (_double(one) for one in (grid.minimum, grid.maximum, grid.step))
    above = f"(LEAST(GREATEST({number}, {low}), {high}) - {_double(grid.first)})"
    # A tiny number is never divided: Postgres fails where a quotient is too small for a double. What is less
    # than a step has a quotient below 1 after rounding, too.
    return (
        f"CASE WHEN {_is_empty(column, number)} OR {_is_undeclared(number, grid.whole)} OR {above} < {step} "
        f"THEN 0 ELSE floor({above} / {step}) END"
    )


def _cases(attribute: CategoricalAttribute, values: Sequence[tuple[str, int]], empty: str) -> str | None:
    if len(values) > _MOST_COMPARED:
        return None
    cases = " ".join(f"WHEN {condition} THEN {cell}" for condition, cell in values)
    own = values_of(attribute)
    return f"CASE WHEN {empty} THEN {own.empty} {cases} ELSE {own.undeclared} END"


def _text_values(
    attribute: CategoricalAttribute, column: str, words: SqlWords
) -> list[tuple[str, int]] | None:
    """Return the conditions of declared texts; None where other texts may mean the same."""
    if not all(type(value) is str for value in attribute.values):
        return None  # 3 may be written 03, and true may be written TRUE
    if any(text.casefold() in ("true", "false") or "\0" in text for text in attribute.codes):
        return None
    return [(words.text_is(column, text), cell) for text, cell in attribute.codes.items()]


def _double(number: float) -> str:
    """Return a number as an engine reads it exactly: a literal of its own would be a decimal."""
    return _text_double(repr(float(number)))


def _text_double(text: str) -> str:
    return f"CAST('{text}' AS double precision)"


# --- counts -----------------------------------------------------------------------------------------------


class EngineSource(CountSource):
    """A table whose records stay in a database.

    Args:
        cells: an expression per attribute, of a record's cell, -1 where its value drops the record; behind
            these one per grid, of the place of its value.

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
        super().__init__(domain, binned=binned)
        self._snapshot, self._cells = snapshot, tuple(cells)

    @classmethod
    def of(cls, table: SqlTable, domain: Domain) -> EngineSource:
        """Return the source of a table as it is now."""

        def found() -> EngineSource:
            snapshot = Snapshot(table)
            try:
                cells = cell_expressions(domain, snapshot.kinds, table.words, str(table))
                cells += place_expressions(domain, snapshot.kinds)
            except DataError:
                snapshot.close()
                raise
            return cls(snapshot, cells, domain)

        return detached(found)

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain, the counts over each attribute, and for each two attributes the
        sum of the products of their cells' numbers. Where values are summed, the sums of their places by the
        attribute's cells too, and the sums of the products of places with these numbers, with other places
        and with themselves. Tables that agree in all of these are not told apart. It is another than a table
        that was read has.
        """
        digest = hmac.new(key, stored_schema(self.domain).encode() + b" counted inside", hashlib.sha256)
        names = self.domain.names
        self.prepare([(name,) for name in names])
        for name in names:
            digest.update(self._marginal((name,)).counts.astype("<i8").tobytes())
        for grid in self._declared.grids:
            digest.update(self._sum((grid.attribute,), grid, squared=False).astype("<i8").tobytes())
        columns = range(len(self._cells))
        pairs = [*combinations(columns, 2), *((place, place) for place in columns[len(names) :])]
        sums = [f"CAST(sum(c{one} * c{other}) AS text)" for one, other in pairs]
        if sums:
            (found,) = self._snapshot.rows(f"SELECT {', '.join(sums)} FROM {self._kept()} AS kept")  # noqa: S608
            digest.update(" ".join(str(total or 0) for total in found).encode())
        return digest.digest()

    def _kept(self) -> str:
        """Return the records that are not dropped, as a table of cells, and places, c0, c1, ..."""
        made = ", ".join(f"CAST({cell} AS bigint) AS c{place}" for place, cell in enumerate(self._cells))
        kept = " AND ".join(f"c{place} >= 0" for place in range(len(self._declared)))
        return f"(SELECT * FROM (SELECT {made} FROM {self._snapshot.table.quoted}) AS made WHERE {kept})"  # noqa: S608

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
            cell = f"c{place}"
            if bin_ is not None:
                cell = f"(ARRAY[{', '.join(map(str, bin_.tolist()))}]::bigint[])[{cell} + 1]"
            terms.append(f"{cell} * {stride}")
        return " + ".join(terms)

    def _sum(self, scope: tuple[str, ...], grid: ValueGrid, squared: bool) -> NDArray[np.int64]:
        # The sum of a bigint is wider in both engines, so it neither wraps nor fails; int64 holds the places,
        # and squares, of at most 2^20, of 2^42 records.
        place = number = f"c{self._declared.stored.index(grid.name)}"
        if squared:
            cell, held = self._declared.index(grid.attribute), self._declared[grid.attribute].number_ends()
            square = grid.square_in_words(place, self._snapshot.table.words.divide)
            number = f"CASE WHEN c{cell} < {len((held or ((), ()))[0])} THEN {square} ELSE 0 END"
        rows = self._snapshot.rows(
            f"SELECT cell, CAST(sum(place) AS text) FROM (SELECT {self._number(scope)} AS cell, "  # noqa: S608
            f"{number} AS place FROM {self._kept()} AS kept) AS numbered GROUP BY cell"
        )
        sums = np.zeros(self.domain.scope_size(scope), dtype=np.int64)
        for cell, total in rows:
            sums[cell] = int(total)
        return sums

    def _over(self, coarse: Domain, bins: Bins) -> EngineSource:
        return EngineSource(self._snapshot, self._cells, self._declared, (coarse, bins))
