"""How a CSV file is written: the options that commands share which read a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pmw.cli.usage import wrong_values

if TYPE_CHECKING:
    from pmw.data import CsvDialect

__all__ = [
    "dialect_of",
    "dialect_options",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--delimiter", default=",", show_default=True, metavar="CHAR", help="CSV: between fields."),
    click.option("--quote", default='"', show_default=True, metavar="CHAR", help="CSV: around fields."),
    click.option(
        "--missing-text", multiple=True, metavar="TEXT", help="CSV: a text that means empty; repeatable."
    ),
    click.option("--trim", is_flag=True, help="CSV: drop spaces around fields."),
)


def dialect_options(function: _Function) -> _Function:
    """Add the options of a dialect to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def dialect_of(given: dict[str, Any]) -> CsvDialect:
    """Return the dialect that the options name.

    Raises:
        UsageError: the dialect cannot be.
    """
    from pmw.data import CsvDialect

    with wrong_values():
        return CsvDialect(given["delimiter"], given["quote"], tuple(given["missing_text"]), given["trim"])
