"""``pmw measure``: a table on request, with its price first."""

from __future__ import annotations

from pathlib import Path

import click

from pmw.cli.waiting import patiently, wait_option

__all__ = [
    "command",
]


@click.command(
    "measure",
    short_help="Measure a table of counts now, or tell its price.",
    epilog="""\b
Examples:
  pmw measure study.pmw sex,race --dry-run
  pmw measure study.pmw sex,race
  pmw measure study.pmw sex,race --json
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.argument("attributes", metavar="ATTRIBUTE[,ATTRIBUTE…]")
@click.option("--dry-run", is_flag=True, help="Tell the price and the error bar; nothing is spent.")
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print the price and the error bar as JSON.")
def command(session: Path, attributes: str, dry_run: bool, wait: float, as_json: bool) -> None:
    """Measure how many records have each combination of some attributes' values, now.

    The noise is that of a marginal that a test measures, and the price is known beforehand: it depends on
    nothing in the table. It is taken from the session's budget, but not from what an open round of tests has
    reserved. Questions about these attributes are answered within the error bar from then on, free, also
    those that were answered before.

    Measured again, a table gets a narrower bar at the sum of the prices. Decide that by the width of a bar:
    whoever measures again because of the value that came out has a bar that holds less often than it says.
    """
    from pmw.cli.texts import json_line, quote_text, say
    from pmw.session.opening import resume_session

    names = tuple(name.strip() for name in attributes.split(","))
    with patiently(lambda seconds: resume_session(session, wait=seconds), session, wait) as opened:
        quote = opened.measure(names, dry_run=dry_run)
        confidence = opened.state.contract.options.confidence
    say(json_line(quote.to_dict()) if as_json else quote_text(quote, confidence, measured=not dry_run))
