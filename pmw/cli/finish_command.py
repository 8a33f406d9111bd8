"""``pmw finish``: what is left of the budget, spent on what was asked, and then the end."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pmw.cli.waiting import patiently, wait_option


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
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Tell what would be measured; nothing is spent or closed.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON lines.")
def command(session: Path, dry_run: bool, yes: bool, wait: float, as_json: bool) -> None:
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
    from pmw.cli.texts import finish_plan_text, finish_text, json_line, say
    from pmw.public.free_answers import half_widths
    from pmw.session.opening import resume_session

    if not (dry_run or yes):
        _confirm(session)
    with patiently(lambda seconds: resume_session(session, wait=seconds), session, wait) as opened:
        asked, before = opened.asked(), opened.state
        quotes = opened.finish(dry_run=dry_run)
        state = opened.state
    if as_json:
        for quote in quotes:
            say(json_line(quote.to_dict()))
    elif dry_run:
        say(finish_plan_text(quotes, state, len(asked)))
    else:
        widths = half_widths(before, asked), half_widths(state, asked)
        say(finish_text(session, quotes, state, *widths))


def _confirm(session: Path) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            "finishing cannot be undone and nobody can be asked here; confirm it with --yes"
        )
    click.confirm(f"Spend all that is left, and close {session} permanently?", abort=True, err=True)
