"""``pmw draft``: a schema to fill in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.table_options import (
    declared_public,
    dialect_of,
    dialect_options,
    place_given,
    public_option,
    table_options,
)

if TYPE_CHECKING:
    from pmw.data import Place


@click.command(
    "draft",
    short_help="Write a schema to fill in.",
    epilog="""\b
Examples:
  pmw draft --data people.csv > people.toml
  pmw draft --data people.parquet > people.toml
  pmw draft --data people.csv --from-public census.csv > people.toml
""",
)
@table_options
@click.option(
    "--from-public",
    type=click.Path(path_type=Path),
    help="A table that you declare to be public; its values fill the domains of the columns that both have.",
)
@public_option
@dialect_options
def command(data: Path | str, from_public: Path | None, **given: Any) -> None:
    """Print a schema for the table in --data, in which every domain is a TODO.

    It reads the names and the storage types of the columns, and no value: two tables with the same columns
    get the same draft. Fill in each TODO from what is known in public. A schema with a TODO left is refused.

    With --from-public, domains are read off another table, which must be public: the schema shows its values,
    and so does every answer. The draft says which table that was. Where it is the table in --data itself, or
    has the same bytes, it is refused without a yes, here and by `pmw open`.
    """
    from pmw.data import TableFile
    from pmw.data.drafting import draft_schema

    if from_public is None and given["data_is_public"]:
        raise click.UsageError("--data-is-public goes with --from-public; a draft without it reads no value")
    place: Place
    if isinstance(data, Path) and given["table"] is None:
        paths = [path for path in (data, from_public) if path is not None]
        # The dialect is that of CSV files.
        csv = [path for path in paths if not TableFile(path).is_parquet] or paths
        place, *public = (
            TableFile(path, dialect_of(given, path)) if path in csv else TableFile(path) for path in paths
        )
    else:
        place = place_given(given, data)
        public = [] if from_public is None else [TableFile(from_public)]
    declared = [declared_public(file, place, given) for file in public]
    click.echo(draft_schema(place, *declared).removesuffix("\n"))
