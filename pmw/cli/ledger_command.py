"""``pmw ledger``: every charge, in order."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    "ledger",
    short_help="Show every charge to the budget.",
    epilog="""\b
Examples:
  pmw ledger study.pmw
  pmw ledger study.pmw --json | jq '.entries[] | select(.event == "measurement") | .label'
\b
With --json, one object: epsilon_cap, delta, composition, unit, cap, spent, share, and entries. Each entry has
number, event, label, epsilon (null where the event is not pure), charge, share, running_share, theorem (what
its price rests on), and exact: the
charge as a fraction.
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(session: Path, as_json: bool) -> None:
    """Show every charge to the budget of SESSION: what it paid for, and its share of the cap.

    A charge is given as epsilon where the event is pure, and in the unit that is added up: mu^2 or
    rho where delta is positive and charges compose as Gaussian or as zero-concentrated privacy, else epsilon.
    It reads public state only, needs no table, and works while the session is in use.
    """
    from pmw.cli.ledger_texts import ledger_text
    from pmw.cli.texts import json_line, say
    from pmw.session.maintenance import read_ledger

    ledger = read_ledger(session)
    say(json_line(ledger.to_dict()) if as_json else ledger_text(ledger))
