"""``pmw close``: no more spending, permanently."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pmw.cli.waiting import patiently, wait_option


@click.command(
    "close",
    short_help="End all spending and wipe the secrets, permanently.",
    epilog="""\b
Examples:
  pmw close study.pmw
  pmw close study.pmw --yes
  pmw close study.pmw --abandon
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@click.option("--abandon", is_flag=True, help="Give up an interrupted batch that cannot be finished.")
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print the session's status as JSON.")
def command(session: Path, yes: bool, abandon: bool, wait: float, as_json: bool) -> None:
    """Close SESSION permanently: nothing is spent any more, and its secrets are wiped.

    The fingerprint of the table and its key, the noise of the open round and the bytes of an unfinished batch
    are wiped from the file; earlier copies of it keep theirs. `pmw ask` and `pmw export` go on from the
    model, without the table: a question that was answered before gets the same answer, one that released
    numbers cover gets its interval, any other comes as `exhausted`, without one.

    An interrupted batch is finished first. Where the table that it needs differs or cannot be read, nothing
    is changed: restore the table, or name its new place with `pmw move`. With --abandon such a batch is given
    up: all that was reserved for it is charged, and nothing is ever released from it. A batch that can be
    finished is finished all the same. Closing cannot be undone.
    """
    from pmw.cli.ledger_texts import closing_text
    from pmw.cli.texts import say, status_json
    from pmw.session.maintenance import finalize_session, is_closed, read_ledger

    again = is_closed(session)
    if not (again or yes):
        _confirm(session)
    status = patiently(
        lambda seconds: finalize_session(session, wait=seconds, abandon=abandon), session, wait
    )
    if as_json:
        say(status_json(status))
    elif again:
        say(f"{session} is closed already, and its file was written again; questions and exports go on.")
    else:
        say(closing_text(session, status, read_ledger(session), abandon=abandon))


def _confirm(session: Path) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("closing cannot be undone and nobody can be asked here; confirm it with --yes")
    click.confirm(f"Close {session} permanently? Nothing can be spent afterwards", abort=True, err=True)
