"""Waiting: how long a command waits for its turn at a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from pmw.cli.usage import finite

_Result = TypeVar("_Result")

wait_option = click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    callback=finite,
    help="How long to wait for another process that uses the session; 0 does not wait.",
)


def patiently(use: Callable[[float], _Result], session: Path, seconds: float) -> _Result:
    """Return what ``use`` returns, and say so on standard error where that has to wait.

    Args:
        use: takes the session, waiting so many seconds for others.
        session: what it is called.
        seconds: the longest wait.

    Raises:
        SessionLockedError: others used it all that time.
    """
    from pmw.errors import SessionLockedError

    if seconds > 0:
        try:
            return use(0)
        except SessionLockedError:
            click.echo(f"{session}: in use by another process; waiting up to {seconds:g} s …", err=True)
    return use(seconds)
