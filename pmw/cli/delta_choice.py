"""The choice of a delta: what ``pmw open`` and ``pmw plan`` say where none was given, and it buys pairs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.usage import echo, typed
from pmw.display.texts import counted

if TYPE_CHECKING:
    from pmw.planning.session_plan import SessionPlan
    from pmw.public.options import Options
    from queries.domain import Domain


def chosen_delta(domain: Domain, options: Options, given: dict[str, Any]) -> str:
    """Return the delta of a new session, where none was typed after a word on it; a terminal is asked.

    Privacy: what is told follows from the schema and what was typed; no table is read.
    """
    plans = _differing(domain, options, given, [given["epsilon"]])
    if plans is None or not sys.stdin.isatty():
        _note(plans)
        return str(given["delta"])
    from pmw.cli.plan_texts import budget_table

    without, usual = plans
    titles = ("delta = 0", f"delta = {_delta(usual)}")
    echo("No --delta was given. Whatever the table holds, the schema and the options give:", err=True)
    echo(budget_table(plans, titles, sized=False), err=True)
    echo(f"Delta is about the chance that more gets out than epsilon allows: 0 or {_delta(usual)}.", err=True)
    taken = click.confirm(f"Open with --delta {_delta(usual)}?", default=None, err=True)
    return _delta(usual if taken else without)


def note_delta(domain: Domain, options: Options, given: dict[str, Any], epsilons: Sequence[str]) -> None:
    """Say in one line what a delta would change of a plan, where none was typed."""
    _note(_differing(domain, options, given, epsilons))


def _differing(
    domain: Domain, options: Options, given: dict[str, Any], epsilons: Sequence[str | None]
) -> tuple[SessionPlan, SessionPlan] | None:
    """Return the plans without and with a delta of the first epsilon for which it decides what is held."""
    if typed("delta"):
        return None
    from pmw.planning.plans import delta_for_pairs

    records = given["records"]
    every = (
        delta_for_pairs(domain, epsilon=one, options=options, records=records) for one in epsilons if one
    )
    return next(filter(None, every), None)


def _note(plans: tuple[SessionPlan, SessionPlan] | None) -> None:
    if plans is None:
        return
    usual, pairs = plans[1], counted(plans[1].held.number, "pair")
    far, near = (f"± {plan.orders[1].bound or 0:,.0f}" for plan in plans)  # single attributes are measured
    echo(
        f"Note: no --delta was given, so it is 0. Opening measures none of the {pairs} of attributes, and an "
        f"export does not have how two attributes go together. With --delta {_delta(usual)} it measures "
        f"{len(usual.held.held):,}, and a count by one attribute is within {near} records instead of {far}. "
        "--delta 0 says that none is meant.",
        err=True,
    )


def _delta(plan: SessionPlan) -> str:
    return f"{float(plan.contract.budget.delta):g}"
