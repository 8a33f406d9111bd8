"""``pmw backup``: a copy of a session that can never spend."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    "backup",
    short_help="Copy a session, closed, while it is in use.",
    epilog="""\b
Examples:
  pmw backup study.pmw --output study-monday.pmw
\b
To put a backup back, where the session is lost:
  pmw verify study-monday.pmw
  pmw backup study-monday.pmw --output study.pmw
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), help="The file to make; it must not exist."
)
@click.option("--json", "as_json", is_flag=True, help="Print the copy's status as JSON.")
def command(session: Path, output: Path, as_json: bool) -> None:
    """Write a copy of SESSION that answers and exports, and can never spend.

    The copy is of one state, made while the session goes on. It is closed: two copies that could spend would
    spend one budget twice. What was released is in it, down to the last bit; the noise of open rounds, the
    fingerprint of the table and what was left of the budget are not.

    Keep it as you keep the session: its owner alone may read it. It holds every question and its answer.
    """
    from pmw.cli.targets import refuse_session_files
    from pmw.cli.texts import say, status_json
    from pmw.display.texts import counted
    from pmw.session.backup import backup_session

    refuse_session_files(output, session, "the backup")
    status = backup_session(session, output)
    if as_json:
        say(status_json(status))
        return
    say(
        f"Copied {session} to {output}: {counted(status.queries_answered, 'question')} answered, "
        f"{status.budget_share:.1%} of the budget spent."
    )
    say("The copy answers and exports, and never spends. Keep it as secret as the session.")
