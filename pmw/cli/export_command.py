"""``pmw export``: write a synthetic table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = [
    "command",
]


@click.command(
    "export",
    short_help="Write a synthetic table.",
    epilog="""\b
Examples:
  pmw export study.pmw --output synthetic.csv
  pmw export study.pmw --output small.csv --rows 1000 --seed 7
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--output", required=True, type=click.Path(path_type=Path), help="The CSV file to write.")
@click.option("--rows", type=int, metavar="N", help="Number of rows. [default: the session's total]")
@click.option(
    "--method",
    type=click.Choice(["systematic", "independent"]),
    default="systematic",
    show_default=True,
    help="Cells rounded up or down to whole records, or independent draws.",
)
@click.option(
    "--seed", type=int, metavar="S", help="Repeat a drawing of rows; the model does not depend on it."
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def command(session: Path, output: Path, rows: int | None, seed: int | None, **given: Any) -> None:
    """Write a synthetic table drawn from the model of SESSION, and a manifest beside it.

    The files are public: they are made from released numbers alone and cost nothing.
    """
    from pmw.cli.texts import json_line, say
    from pmw.release import RowPlan, export_csv
    from pmw.session import read_session

    state, _ = read_session(session)
    plan = RowPlan(rows, given["method"] == "independent", seed)
    manifest = export_csv(state, output, plan, force=given["force"])
    if given["as_json"]:
        say(json_line(manifest))
        return
    say(f"Wrote {manifest['rows']:,} synthetic rows to {output}, and {output.name}.manifest.json beside it.")
    say(f"Guarantee: {manifest['guarantee']}.")
