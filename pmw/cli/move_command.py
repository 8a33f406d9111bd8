"""``pmw move``: tell a session where its table is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmw.cli.dialect import dialect_given, dialect_options, place_given, table_options
from pmw.cli.memory_options import inside_option, memory_given, memory_options
from pmw.cli.waiting import patiently, wait_option


@click.command(
    "move",
    short_help="Tell a session where its table is now.",
    epilog="""\b
Examples:
  pmw move study.pmw --data /new/place/people.csv
  pmw move study.pmw --data people.parquet
  pmw move study.pmw --data people.csv --delimiter ";" --missing-text NA
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@table_options
@dialect_options
@memory_options
@inside_option
@wait_option
def command(session: Path, data: Path | str, wait: float, **given: Any) -> None:
    """Write into SESSION that its table is the file in --data from now on.

    The table is compared with the one that the session was opened on, and refused where it differs. Nothing
    is drawn or spent; an interrupted batch goes on waiting, and the next question finishes it.

    This is the custodian's alone: whoever may run it on a table of their choice learns, without noise,
    whether that table is the session's.

    Without any of the CSV options the file is read as the session remembers; with one of them, as `pmw open`
    would read it with the same options. Without --memory and --temporary-folder those of before hold on.
    """
    from pmw.cli.texts import say
    from pmw.session.table import move_session

    database = given["table"] is not None or given["inside"]
    as_before = isinstance(data, Path) and not database and dialect_given(given, data) is None
    place = data if isinstance(data, Path) and as_before else place_given(given, data)
    memory = memory_given(given)
    patiently(lambda seconds: move_session(session, place, memory=memory, wait=seconds), session, wait)
    say(f"{session} reads its table from {place} from now on; nothing was spent.")
