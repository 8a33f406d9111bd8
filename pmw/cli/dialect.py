"""The table of a command: where it is, and how a CSV file is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pmw.cli.memory_options import memory_given
from pmw.cli.usage import typed, wrong_values

if TYPE_CHECKING:
    from pmw.data import CsvDialect, Place

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAMES = ("delimiter", "quote", "missing_text", "trim", "encoding", "decimal", "escape")
_NOT_IN_A_NAME = re.compile(r"[^\w. -]")
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


class _TableName(click.Path):
    """A file, or the address of a database, which is kept as it was typed."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        from pmw.data.tables import is_address

        if isinstance(value, str) and is_address(value):
            return value
        return super().convert(value, parameter, context)


_TABLE_OPTIONS = (
    click.option(
        "--data",
        required=True,
        type=_TableName(path_type=Path),
        help="The table: CSV, Parquet (a file, a folder, a pattern), duckdb:FILE, "
        "postgresql://HOST/DATABASE, spark://HOST:PORT or spark:local[2].",
    ),
    click.option(
        "--table", metavar="NAME", help="Of a database: the table or view; of Spark also parquet.PATH."
    ),
)


class _Schema(click.Option):
    """A required schema: where it is left out, the error tells how to come by one."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter:
            raise click.MissingParameter(_draft_hint(ctx), ctx, self) from None


def schema_option(function: _Function) -> _Function:
    """Add the option that names the schema of a command's table."""
    return click.option(
        "--schema",
        cls=_Schema,
        required=True,
        type=click.Path(path_type=Path),
        help="Its schema, a TOML file.",
    )(function)


def _draft_hint(context: click.Context) -> str:
    """Return how to come by the schema of a table: it lies there, or is drafted as the table was typed."""
    data, table = (context.params.get(name) for name in ("data", "table"))
    if not isinstance(data, str | Path):
        return "Draft one to fill in: pmw draft --data TABLE > SCHEMA"
    words = list(_typed_again(context))
    if isinstance(data, Path):
        name = _NOT_IN_A_NAME.sub("", data.stem).strip(".") or "schema"
    else:
        if not isinstance(table, str):
            table = "TABLE"
            words.append("--table TABLE")
        _refuse_secret(data, table)
        name = table
    file = shlex.quote(f"{name}.toml")
    if Path(f"{name}.toml").exists():
        return f"If {file} is it, give --schema {file}"
    return f"Draft one to fill in: pmw draft {' '.join(words)} > {file}"


def _refuse_secret(address: str, table: str) -> None:
    """Refuse an address that cannot be, above all one with a password, before anything shows it again."""
    from pmw.data import DatabaseTable

    with wrong_values():
        DatabaseTable(address, table)


def _typed_again(context: click.Context) -> Iterator[str]:
    """Yield the options that tell where the table is and how it is written, as they were typed."""
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in ("data", "table", *_NAMES) and context.get_parameter_source(name) is given:
            value = context.params[name]
            for one in value if isinstance(value, tuple) else (value,):
                yield parameter.opts[0] if one is True else f"{parameter.opts[0]} {shlex.quote(str(one))}"


def table_options(function: _Function) -> _Function:
    """Add the options that say where a command's table is."""
    for option in reversed(_TABLE_OPTIONS):
        function = option(function)
    return function


def place_given(given: dict[str, Any], data: Path | str) -> Place:
    """Return where the options say that the table is.

    Args:
        given: the options.
        data: the file, or the address of a database.

    Raises:
        UsageError: the options contradict each other, or one cannot be.
    """
    from pmw.data import DatabaseTable, TableFile

    if isinstance(data, Path):
        if given["table"] is not None:
            raise click.UsageError(f"--table names a table of a database, and {data} is a file; leave it out")
        if given.get("inside"):
            raise click.UsageError(f"--inside counts in a database, and {data} is a file; leave it out")
        return TableFile(data, dialect_of(given, data), memory_given(given))
    if named := typed(*_NAMES):
        raise click.UsageError(f"{' and '.join(named)} belong to CSV files, and --data is a database")
    if given["table"] is None:
        raise click.UsageError("--data is a database; name its table with --table")
    with wrong_values():
        return DatabaseTable(data, given["table"], memory_given(given), given.get("inside", False))


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
