"""``pmw backup``, ``move``, ``finish`` and ``close``: what a custodian does to a session's file."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.options import DIALECT, memory_given, place_given, reading_options, table_options
from pmw.cli.session_files import patiently, refuse_session_files, resumed, wait_option
from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option, typed

if TYPE_CHECKING:
    from pmw.public.ledger import Ledger
    from pmw.public.status import Status


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
@click.argument("session", type=PATH)
@option("--output, -o", "The file to make; it must not exist.", PATH, required=True)
@json_option("Print the copy's status as JSON.")
def backup(session: Path, output: Path, as_json: bool) -> None:
    """Write a copy of SESSION that answers and exports, and can never spend.

    The copy is of one state, made while the session goes on. It is closed: two copies that could spend would
    spend one budget twice. What was released is in it, down to the last bit; the noise of open rounds, the
    fingerprint of the table and what was left of the budget are not.

    Keep it as you keep the session: its owner alone may read it. It holds every question and its answer.
    """
    from pmw.display.texts import counted
    from pmw.session.maintenance import backup_session

    refuse_session_files(output, session, "the backup")
    status = backup_session(session, output)
    told = (
        f"Copied {session} to {output}: {counted(status.queries_answered, 'question')} answered, "
        f"{status.budget_share:.1%} of the budget spent.\n"
        "The copy answers and exports, and never spends. Keep it as secret as the session."
    )
    echo(json_line(status.to_dict()) if as_json else told)


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
@click.argument("session", type=PATH)
@table_options
@reading_options
@wait_option
def move(session: Path, data: Path | str, wait: float, **given: Any) -> None:
    """Write into SESSION that its table is the file in --data from now on.

    The table is compared with the one that the session was opened on, and refused where it differs. Nothing
    is drawn or spent; an interrupted batch goes on waiting, and the next question finishes it.

    This is the custodian's alone: whoever may run it on a table of their choice learns, without noise,
    whether that table is the session's.

    Without any of the CSV options the file is read as the session remembers; with one of them, as `pmw open`
    would read it with the same options. Without --memory and --temporary-folder those of before hold on.
    """
    from pmw.session.table import move_session

    database = given["table"] is not None or given["inside"]
    as_before = isinstance(data, Path) and not database and not typed(*DIALECT)
    place = data if as_before else place_given(given, data)
    memory = memory_given(given)
    patiently(lambda seconds: move_session(session, place, memory=memory, wait=seconds), session, wait)
    echo(f"{session} reads its table from {place} from now on; nothing was spent.")


@click.command(
    "finish",
    short_help="Spend what is left on the questions that were asked, and close.",
    epilog="""\b
Examples:
  pmw finish study.pmw --dry-run
  pmw finish study.pmw
  pmw finish study.pmw --yes --json
""",
)
@click.argument("session", type=PATH)
@flag("--dry-run", "Tell what would be measured; nothing is spent or closed.")
@flag("--yes", "Do not ask for confirmation; required without a terminal.")
@wait_option
@json_option("Print what was measured as JSON lines.")
def finish(session: Path, dry_run: bool, yes: bool, wait: float, as_json: bool) -> None:
    """Spend what is left of SESSION's budget on the questions that were asked, then close it permanently.

    The marginals that these questions rest on are measured, once more where they were measured before: none
    with more noise than what a test measures, or half of that where a test found the model right. Those that
    the most questions rest on come first. What is measured, and its price, depends on released numbers alone.
    What an open round of tests has reserved is not spent, nor what is too little for one more marginal.

    After that the model is nearer to the table, and the session is closed as by `pmw close`: questions and
    exports go on from the model. It says how many of the asked questions have narrower error bars, and by how
    much. Stopped in the middle, what was measured is charged and kept; finish again.
    Closing cannot be undone.
    """
    from pmw.cli.texts import finish_plan_text, finish_text
    from pmw.public.free_answers import half_widths

    if not (dry_run or yes):
        _confirm("finishing", f"Spend all that is left, and close {session} permanently?")
    with resumed(session, wait) as opened:
        asked, before = opened.asked(), opened.state
        quotes = opened.finish(dry_run=dry_run)
        state, names = opened.state, [one.name for one in opened.bookings() if one.name]
    if as_json:
        for quote in quotes:
            echo(json_line(quote.to_dict()))
    elif dry_run:
        echo(finish_plan_text(quotes, state, len(asked), names))
    else:
        widths = half_widths(before, asked), half_widths(state, asked)
        echo(finish_text(session, quotes, state, *widths))


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
@click.argument("session", type=PATH)
@flag("--yes", "Do not ask for confirmation; required without a terminal.")
@flag("--abandon", "Give up an interrupted batch that cannot be finished.")
@wait_option
@json_option("Print the session's status as JSON.")
def close(session: Path, yes: bool, abandon: bool, wait: float, as_json: bool) -> None:
    """Close SESSION permanently: nothing is spent any more, and its secrets are wiped.

    The fingerprint of the table and its key, the noise of the open round and the bytes of an unfinished batch
    are wiped from the file; earlier copies of it keep theirs. `pmw ask` and `pmw export` go on from the
    model, without the table: a question that was answered before gets the same answer, one that released
    numbers cover gets its interval, any other comes as `exhausted`, with that of its parts.

    An interrupted batch is finished first. Where the table that it needs differs or cannot be read, nothing
    is changed: restore the table, or name its new place with `pmw move`. With --abandon such a batch is given
    up: all that was reserved for it is charged, and nothing is ever released from it. A batch that can be
    finished is finished all the same. Closing cannot be undone.

    What is left of the budget is given up: `pmw finish` spends it on the questions that were asked, and
    closes the session too.
    """
    from pmw.session.maintenance import finalize_session, is_closed, read_ledger

    again = is_closed(session)
    if not again:
        _tell_left(session)
        if not yes:
            _confirm("closing", f"Close {session} permanently? Nothing can be spent afterwards")
    status = patiently(
        lambda seconds: finalize_session(session, wait=seconds, abandon=abandon), session, wait
    )
    if as_json:
        echo(json_line(status.to_dict()))
    elif again:
        echo(f"{session} is closed already, and its file was written again; questions and exports go on.")
    else:
        echo(closing_text(session, status, read_ledger(session), abandon=abandon))


def _tell_left(session: Path) -> None:
    """Print what closing gives up, and what would spend it; what cannot be read closing tells."""
    from pmw.cli.texts import tell_left
    from pmw.errors import PMWError
    from pmw.session.maintenance import read_session

    with contextlib.suppress(PMWError):
        tell_left(read_session(session)[0], session, "Closing gives up {} of the budget")


def _confirm(verb: str, question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{verb} cannot be undone and nobody can be asked here; confirm it with --yes")
    click.confirm(question, abort=True, err=True)


def closing_text(path: Path, status: Status, ledger: Ledger, *, abandon: bool) -> str:
    """Return what a custodian reads after closing."""
    batch = "Nothing was abandoned: no batch waited, or the one that did was finished." if abandon else ""
    if any(line.event == "abandoned batch" for line in ledger.lines):
        batch = (
            "An interrupted batch could not be finished, for its table is gone: it was charged, and nothing "
            "is released from it."
        )
    told = [
        f"Closed {path}: nothing is spent any more ({status.budget_share:.1%} of the budget was), "
        "and its secrets are wiped.",
        batch,
        "Questions and exports go on from the model, without the table.",
    ]
    return "\n".join(filter(None, told))
