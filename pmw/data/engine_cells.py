"""Cells in SQL: the expressions that an engine of counts makes cells with, the same as the encoder makes.

What is written for an attribute depends on its declaration and on the type of its column, never on a value,
and no expression fails on a value: there are comparisons with constants, casts that every value of the type
has, and whole-number arithmetic on numbers that were clipped before. A column of any other type, or an
attribute whose values may be written in several ways in it, is refused: reading the table encodes it.

Source: ``queries.values`` has the rules; the documentation of DuckDB and of PostgreSQL, chapters 8 and 9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pmw.data.engine_columns import quoted_column
from pmw.errors import DataError
from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.values import DROPPED, encode_value

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
        cells = [encode_value(attribute, value) for value in (None, True, False)]
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
