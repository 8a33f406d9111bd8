"""Prices of bars: what is told before they are paid, and whether they are agreed to."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from pmw.cli.texts import json_line, say
from pmw.display.texts import counted
from queries.cells import cell_count


def price_text(scope: Sequence[str], cells: int, share: float, within: float, *, left: bool) -> str:
    """Return what a bar costs, and how to pay it.

    Args:
        scope: attributes of what is measured.
        cells: of it.
        share: the price, as a part of the budget.
        within: half-width of the bar, in records.
        left: the price is left.
    """
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
    message = f"{price} Nothing was spent.{' Pay it with --yes.' if quote['affordable'] else ''}"
    if as_json:
        say(json_line({"error": {"code": "not_paid", "message": message}, "quote": quote}))
    else:
        click.echo(f"Error: {message}", err=True)


def agrees(price: str) -> bool:
    """Ask whether a price is to be paid; without a terminal nobody agrees."""
    return sys.stdin.isatty() and click.confirm(f"{price} Pay it?", err=True)
