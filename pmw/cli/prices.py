"""Prices of bars: what is told before they are paid, and whether they are agreed to."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

__all__ = [
    "agrees",
    "not_paid",
    "price_text",
]


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
    what = f"to measure {', '.join(scope)} ({cells:,} cells)"
    return f"{cost}, {what}{'.' if left else '; so much is not left.'}"


def not_paid(price: str, *, left: bool) -> str:
    """Return why there is no answer where a price was not agreed to."""
    return f"{price} Nothing was spent.{' Pay it with --yes.' if left else ''}"


def agrees(price: str) -> bool:
    """Ask whether a price is to be paid; without a terminal nobody agrees."""
    return sys.stdin.isatty() and click.confirm(f"{price} Pay it?", err=True)
