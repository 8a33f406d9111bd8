"""How a CSV file is written: the options that commands share which read a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pmw.cli.usage import typed, wrong_values

if TYPE_CHECKING:
    from pmw.data import CsvDialect

__all__ = [
    "dialect_given",
    "dialect_of",
    "dialect_options",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAMES = ("delimiter", "quote", "missing_text", "trim", "encoding", "decimal", "escape")
_WORDS = {"tab": "\t", "\\t": "\t"}  # that a shell types more easily than the character
_OPTIONS = (
    click.option(
        "--delimiter", default=",", show_default=True, metavar="CHAR", help="CSV: between fields, or 'tab'."
    ),
    click.option(
        "--quote", default='"', show_default=True, metavar="CHAR", help="CSV: around fields; '' for none."
    ),
    click.option(
        "--missing-text", multiple=True, metavar="TEXT", help="CSV: a text that means empty; repeatable."
    ),
    click.option("--trim", is_flag=True, help="CSV: drop spaces around fields."),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        metavar="NAME",
        help="CSV: of the text, such as latin-1 or cp1252.",
    ),
    click.option(
        "--decimal", default=".", show_default=True, metavar="CHAR", help="CSV: before fractions: . or ,"
    ),
    click.option("--escape", default="", metavar="CHAR", help="CSV: before a character taken as it is."),
)


def dialect_options(function: _Function) -> _Function:
    """Add the options of a dialect to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def dialect_of(given: dict[str, Any], table: Path) -> CsvDialect:
    """Return the dialect that the options name.

    Args:
        given: the options.
        table: the file that they tell of.

    Raises:
        UsageError: the dialect cannot be, or the file is no CSV file.
    """
    from pmw.data import CsvDialect
    from pmw.data.files import is_parquet

    named = typed(*_NAMES)
    if named and is_parquet(table):
        verb, them = ("tells", "it") if len(named) == 1 else ("tell", "them")
        raise click.UsageError(
            f"{' and '.join(named)} {verb} how a CSV file is written, and {table} is Parquet; "
            f"leave {them} out"
        )

    with wrong_values():
        return CsvDialect(
            _WORDS.get(given["delimiter"], given["delimiter"]),
            given["quote"],
            tuple(given["missing_text"]),
            given["trim"],
            given["encoding"],
            given["decimal"],
            given["escape"],
        )


def dialect_given(given: dict[str, Any], table: Path) -> CsvDialect | None:
    """Return the dialect that the options name, or None where none of them was typed.

    Args:
        given: the options.
        table: the file that they tell of.

    Raises:
        UsageError: the dialect cannot be, or the file is no CSV file.
    """
    return dialect_of(given, table) if typed(*_NAMES) else None
