"""``pmw verify``: check a session's ledger and measurements."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(
    "verify",
    short_help="Check charges, measurements, models and answers.",
    epilog="""\b
Examples:
  pmw verify study.pmw
  pmw verify study.pmw --anchor /safe/study.anchor
  pmw verify study.pmw --json | jq '.checks[] | select(.holds | not)'
\b
With --json, one object: holds, unfinished, closed, checks (each with name, holds, detail), not_proved.
The exit code is 0 where every check holds, and 5 where one fails.
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare with, and keep, a file of public bytes that tells how far the session had come.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(session: Path, anchor: Path | None, as_json: bool) -> None:
    """Check what the file of SESSION holds.

    Every charge is recomputed from its event and the plan that was fixed at opening, and every model from the
    measurements, whose noise and cells must be as planned. Rows that are damaged or gone are found. Stored
    answers must have the form that their source promises, and measured ones their measurement; their values
    are not computed again. It writes nothing, shows no secret, needs no table, and works while the session is
    in use. A session with many corrections takes as long as fitting its model again.

    A copy of the file from before looks whole, and has forgotten what was spent since. With --anchor, the
    last link of a chain of hashes is kept in FILE, which is public: keep it on another machine. The chain
    covers all charges, measurements and answers, but for free ones that came one by one. A later run tells an
    older copy and a rewritten history, and brings FILE up to date where everything holds.
    """
    from pmw.cli.ledger_texts import verification_text
    from pmw.cli.progress import Progress
    from pmw.cli.targets import refuse_session_files
    from pmw.cli.texts import json_line, say
    from pmw.session.maintenance import verify_session

    if anchor is not None:
        refuse_session_files(anchor, session, "the anchor")
    progress = Progress("models fitted again")

    def told(count: int, total: int) -> None:
        progress.expect(total)
        progress.add(count)

    verification = verify_session(session, anchor, told=told)
    progress.close()
    say(json_line(verification.to_dict()) if as_json else verification_text(verification))
    if not verification.holds:
        sys.exit(5)
