"""``pmw status``: where a session stands."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = [
    "command",
]


@click.command(
    "status",
    short_help="Show where a session stands.",
    epilog="""\b
Examples:
  pmw status study.pmw
  pmw status study.pmw --json
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(session: Path, as_json: bool) -> None:
    """Show the guarantee of SESSION, what was spent and how many questions were answered.

    It reads public state only, needs no table, and works while the session is in use.
    """
    from pmw.cli.texts import say, status_json, status_text
    from pmw.session import read_session

    state, status = read_session(session)
    say(status_json(status) if as_json else status_text(state, status))
