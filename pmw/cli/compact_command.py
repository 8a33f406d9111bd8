"""``pmw compact``: a long session in little room."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pmw.cli.waiting import patiently, wait_option

__all__ = [
    "command",
]


@click.command(
    "compact",
    short_help="Pack stored answers, so that the file shrinks.",
    epilog="""\b
Examples:
  pmw compact study.pmw
  pmw compact study.pmw --wait 600
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print numbers of answers and bytes as JSON.")
def command(session: Path, wait: float, as_json: bool) -> None:
    """Pack the stored answers of SESSION into compressed blocks, and write its file anew.

    Nothing is forgotten: charges and measurements stay as they are, and a question that was answered before
    still gets the same answer, from a block, in a few milliseconds. Answers that drew noise keep their rows.

    It needs room for a second copy of the file while it runs. Others wait for their turn meanwhile.
    """
    from pmw.cli.texts import json_line, say
    from pmw.compaction import compact_session

    done = patiently(lambda seconds: compact_session(session, wait=seconds), session, wait)
    if as_json:
        say(json_line(asdict(done)))
        return
    say(
        f"{session}: {done.archived:,} of {done.answers:,} stored answers lie in compressed blocks; "
        f"{done.bytes_before / 1e6:.1f} MB became {done.bytes_after / 1e6:.1f} MB."
    )
    log = session.resolve().with_name(f"{session.resolve().name}-wal")
    if log.exists() and log.stat().st_size:  # pages that a reader needs cannot be given back
        say(
            "Somebody is reading the session, so its file cannot shrink yet: compact it again when they have "
            "ended."
        )
