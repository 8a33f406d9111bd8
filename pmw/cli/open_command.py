"""``pmw open``: begin a session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pmw.cli.dialect import dialect_of, dialect_options
from pmw.cli.session_options import read_options, session_options

__all__ = [
    "command",
]


@click.command(
    "open",
    short_help="Begin a session over a table.",
    epilog="""\b
Examples:
  pmw open study.pmw --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
  pmw open study.pmw --data people.parquet --schema people.toml --epsilon 0.5 --update-limit 40
  pmw open textbook.pmw --data people.csv --schema people.toml --epsilon 1 --opening none --update step
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="The table: CSV or Parquet.")
@click.option("--schema", required=True, type=click.Path(path_type=Path), help="Its schema, a TOML file.")
@session_options()
@click.option(
    "--budget-from",
    type=click.Path(path_type=Path),
    metavar="OTHER",
    help="Charge the session OTHER for all that this one may spend; both together keep its guarantee.",
)
@dialect_options
@click.option("--json", "as_json", is_flag=True, help="Print the session's status as JSON.")
def command(
    session: Path, data: Path, schema: Path, budget_from: Path | None, as_json: bool, **given: Any
) -> None:
    """Begin SESSION, a new file, over the table in --data.

    The schema declares the attributes and their cells. Opening buys the number of records and, unless told
    otherwise, every one-attribute marginal, with noise; the rest of the budget answers questions. The file
    holds secrets: keep it as safe as the table. What `pmw export` writes is public.
    """
    from pmw.cli.texts import opening_text, say, status_json
    from pmw.data import TableFile
    from pmw.session import open_session
    from queries.schema import load_schema

    domain = load_schema(schema)
    with open_session(
        TableFile(data, dialect_of(given)),
        domain,
        epsilon=given["epsilon"],
        delta=given["delta"],
        path=session,
        options=replace(read_options(given), budget_from=None if budget_from is None else str(budget_from)),
    ) as opened:
        say(status_json(opened.status()) if as_json else opening_text(opened.state, session))
