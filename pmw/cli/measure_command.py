"""``pmw measure``: a table on request, with its price first."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.session_files import resumed, wait_option

if TYPE_CHECKING:
    from pmw.public.quotes import Quote


@click.command(
    "measure",
    short_help="Measure a table of counts now, or tell its price.",
    epilog="""\b
Examples:
  pmw measure study.pmw sex,race --dry-run
  pmw measure study.pmw sex,race
  pmw measure study.pmw sex,race --yes --json
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.argument("attributes", metavar="ATTRIBUTE[,ATTRIBUTE…]")
@click.option("--dry-run", is_flag=True, help="Tell the price and the error bar; nothing is spent.")
@click.option("--yes", is_flag=True, help="Pay the price without being asked.")
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print the price and the error bar as JSON.")
def command(session: Path, attributes: str, wait: float, as_json: bool, **given: bool) -> None:
    """Measure how many records have each combination of some attributes' values, now.

    The price is told first: it is paid after a yes on a terminal, or with --yes, and in other cases the exit
    code is 4 and nothing is spent. The noise is that of a marginal that a test measures, and the price
    depends on nothing in the table. It is taken from the session's budget, but not from what an open round of
    tests has reserved. Questions about these attributes are answered within the error bar from then on, free,
    also those that were answered before.

    Measured again, a table gets a narrower bar at the sum of the prices. Decide that by the width of a bar:
    whoever measures again because of the value that came out has a bar that holds less often than it says.
    """
    from pmw.cli.texts import json_line, quote_text, say

    if given["dry_run"] and given["yes"]:
        raise click.UsageError("--dry-run pays nothing, and --yes pays; leave one of the two out")
    names = tuple(name.strip() for name in attributes.split(","))
    with resumed(session, wait) as opened:
        confidence = opened.state.contract.options.confidence
        quote = opened.measure(names, dry_run=True)
        if not given["dry_run"]:
            _agree(quote, confidence, yes=given["yes"], as_json=as_json)
            quote = opened.measure(names)
    measured = not given["dry_run"]
    say(json_line(quote.to_dict()) if as_json else quote_text(quote, confidence, measured=measured))


def _agree(quote: Quote, confidence: float, *, yes: bool, as_json: bool) -> None:
    """Ask whether a price that is left is to be paid, unless that was said.

    Raises:
        Exit: it is not.
    """
    from pmw.cli.texts import quote_text

    price = quote_text(quote, confidence, measured=False)
    if quote.affordable and not (yes or agrees(price)):
        say_unpaid(price, quote.to_dict(), as_json=as_json)
        raise click.exceptions.Exit(4)


def price_text(scope: Sequence[str], cells: int, share: float, within: float, *, left: bool) -> str:
    """Return what a bar costs, and how to pay it.

    Args:
        scope: attributes of what is measured.
        cells: of it.
        share: the price, as a part of the budget.
        within: half-width of the bar, in records.
        left: the price is left.
    """
    from pmw.display.texts import counted
    from queries.cells import cell_count

    cost = f"A bar of ± {within:g} records costs {share:.2%} of the budget"
    what = f"to measure {', '.join(scope)} ({counted(cell_count(cells), 'cell')})"
    return f"{cost}, {what}{'.' if left else '; so much is not left.'}"


def say_unpaid(price: str, quote: Mapping[str, Any], *, as_json: bool) -> None:
    """Print that nothing was spent, where a price was not agreed to.

    Args:
        price: what it costs, in words.
        quote: the same, in the form that is written as JSON.
        as_json: print it as an answer would be.
    """
    from pmw.cli.texts import json_line, say

    message = f"{price} Nothing was spent.{' Pay it with --yes.' if quote['affordable'] else ''}"
    if as_json:
        say(json_line({"error": {"code": "not_paid", "message": message}, "quote": quote}))
    else:
        click.echo(f"Error: {message}", err=True)


def agrees(price: str) -> bool:
    """Ask whether a price is to be paid; without a terminal nobody agrees."""
    return sys.stdin.isatty() and click.confirm(f"{price} Pay it?", err=True)
